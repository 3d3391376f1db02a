"""A silent node: when its pods leave the endpoints, what is replaced, and what is not."""

from __future__ import annotations

import pytest
from building.builders import default_tolerations, make_event, make_pod
from msgspec.structs import replace
from worlds import cluster, comebacks, finding, impact_of, pods_of, service, workload

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.infrastructure import Endpoint, EndpointSlice, Service
from kubectl_evictplan.kube.objects import Workload
from kubectl_evictplan.prediction.impact_document import Instant
from kubectl_evictplan.scenarios.scenario import OutagePart, ScenarioEvent

SILENT = make_event(10, "kubelet-stop", "a1")
TOLERANT = {"tolerations": default_tolerations(60)}
WEB = Service("default", "web", {"app": "web"})
PUBLISHING = replace(WEB, publish_not_ready_addresses=True)


def web(*nodes: str, **attributes: object) -> list:
    return pods_of("ReplicaSet", "web", nodes, **{**TOLERANT, **attributes})


def test_endpoints_of_a_silent_node_are_black_holes_until_it_is_unknown() -> None:
    impact = impact_of(cluster(web("a1", "a2"), services=(WEB,)), SILENT)
    found = service(impact, "web")
    [hole] = found.black_holes
    assert (hole.node, hole.pods, hole.why) == ("a1", ("web-0",), "silent")
    assert (hole.since.earliest_seconds, hole.since.latest_seconds) == (10, 10)
    # The last renewal is 5 s before the start, or at 5 s: the grace period of 50 s, and a tick.
    assert 50 <= hole.until.earliest_seconds < hole.until.latest_seconds <= 62
    assert (found.endpoints_before, found.fewest_ready.least, found.fewest_ready.most) == (2, 1, 1)
    assert found.undetected.least_seconds == hole.until.earliest_seconds - 10
    assert found.source == "selector"


def test_the_last_heartbeat_is_when_the_node_may_have_died() -> None:
    stop = make_event(10, "kubelet-stop", "a1", last_heartbeat=4)
    [hole] = service(impact_of(cluster(web("a1"), services=(WEB,)), stop), "web").black_holes
    assert (hole.since.earliest_seconds, hole.since.latest_seconds) == (4, 10)


def test_nobody_answers_from_the_silence_nobody_is_ready_from_unknown() -> None:
    found = service(impact_of(cluster(web("a1", "a1"), services=(WEB,)), SILENT), "web")
    [dead], [unready] = found.nobody_answers, found.nobody_ready
    assert (dead.certainty, unready.certainty) == ("certain", "certain")
    assert dead.since.latest_seconds == 10
    assert unready.since.earliest_seconds >= 50
    # Tainted with Unknown (its zone's token may come 10 s later), tolerated for 60 s, Ready 20 s later.
    assert dead.until.earliest_seconds == unready.until.earliest_seconds >= 50 + 60 + 20
    assert dead.until.latest_seconds <= 62 + 10 + 60 + 20 + 2


@pytest.mark.parametrize("outage", [None, OutagePart("apiserver", 20_000_000_000)])
def test_pods_answer_while_only_their_api_server_is_away(outage: OutagePart | None) -> None:
    events = [
        replace(one, outage=outage)
        for one in (make_event(0, "kubelet-stop", "a1"), make_event(20, "kubelet-start", "a1"))
    ]
    impact = impact_of(cluster(web("a1", "a1"), services=(WEB,)), *events)
    if outage is not None:
        assert impact.services == ()
        return
    [spell] = service(impact, "web").nobody_answers
    assert (spell.certainty, spell.least_seconds) == ("certain", 20)


def test_nodes_that_fail_with_their_control_plane_answer_some_time_after_it_is_back() -> None:
    away = replace(
        make_event(0, "controller-stop"), outage=OutagePart("control-plane", 60 * SECOND_NS)
    )
    silent = make_event(0, "kubelet-stop", "a1"), make_event(60, "kubelet-start", "a1")
    impact = impact_of(cluster(web("a1"), services=(WEB,)), away, *silent)
    [spell] = service(impact, "web").nobody_answers
    assert (spell.until.earliest_seconds, spell.until.latest_seconds) == (60, 81)


def test_a_node_that_returns_in_time_brings_its_endpoints_back() -> None:
    back = make_event(70, "kubelet-start", "a1")
    impact = impact_of(cluster(web("a1"), services=(WEB,)), SILENT, back)
    [spell] = workload(impact, "ReplicaSet/web").zero
    assert spell.until.earliest_seconds == 70
    assert spell.until.latest_seconds <= 70 + 10
    assert workload(impact, "ReplicaSet/web").never_replaced == ()


@pytest.mark.parametrize("silent_again", [False, True])
def test_a_node_that_may_be_unknown_when_its_kubelet_returns_is_ready_soon_after(
    silent_again: bool,
) -> None:
    # Ready=True comes before Unknown, after it or alone, for the kubelet returns between 40 s and 60 s.
    stop = make_event(0, "kubelet-stop", "a1")
    back = replace(make_event(40, "kubelet-start", "a1"), within_ns=20 * SECOND_NS)
    later = [make_event(100, "kubelet-stop", "a1")] if silent_again else []
    impact = impact_of(cluster(web("a1"), services=(WEB,)), stop, back, *later)
    spells = service(impact, "web").nobody_ready
    latest = [spell.until.latest_seconds for spell in spells]
    assert latest
    if silent_again:
        assert None in latest
    else:
        assert all(40 <= seconds <= 40 + 20 + 10 + 10 for seconds in latest)


def test_a_stateful_set_waits_for_the_name_for_ever() -> None:
    impact = impact_of(cluster(pods_of("StatefulSet", "db", ["a1", "a2"], **TOLERANT)), SILENT)
    assert workload(impact, "StatefulSet/db").whole_again.earliest_seconds is None
    assert comebacks(impact)["db-0"].code == "identity-held"
    found = finding(impact, "identity-held")
    assert (found.severity, found.objects) == ("high", ("Pod/default/db-0",))
    assert (
        "kubectl taint node a1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        in found.remedy
    )


def test_out_of_service_frees_the_name() -> None:
    off = make_event(150, "taint", "a1", taint="node.kubernetes.io/out-of-service=x:NoExecute")
    snapshot = cluster(pods_of("StatefulSet", "db", ["a1", "a2"], **TOLERANT))
    whole = workload(impact_of(snapshot, SILENT, off), "StatefulSet/db").whole_again
    assert whole.earliest_seconds >= 150 + 20
    assert whole.latest_seconds is not None


def test_two_copies_are_possible_once_a_silent_node_s_pod_is_replaced() -> None:
    impact = impact_of(cluster(web("a1", "a2")), SILENT)
    [copy] = workload(impact, "ReplicaSet/web").two_copies
    assert (copy.pod, copy.node) == ("web-0", "a1")
    assert copy.since.earliest_seconds >= 110
    assert finding(impact, "two-copies").certainty == "possible"


def test_a_deleted_node_s_pods_stay_ready_until_garbage_collection() -> None:
    impact = impact_of(cluster(web("a1"), services=(WEB,)), make_event(10, "node-delete", "a1"))
    found = service(impact, "web")
    [hole] = found.black_holes
    assert hole.why == "node-deleted"
    assert hole.until.earliest_seconds == 50
    assert found.nobody_ready[0].since.earliest_seconds == 50
    # Whether the machine is gone is not known.
    assert found.nobody_answers[0].since.earliest_seconds == 10


def test_anything_else_that_changes_drops_the_pods_of_a_deleted_node_early() -> None:
    snapshot = cluster(web("a1", "a2"), services=(WEB,))
    events = (
        make_event(10, "node-delete", "a1"),
        make_event(20, "pod-delete", pods="default/web-1"),
    )
    found = service(impact_of(snapshot, *events), "web")
    [hole] = found.black_holes
    # Garbage collection alone comes at 50 s.
    assert (hole.until.earliest_seconds, found.fewest_ready.least) == (20, 0)
    assert found.nobody_ready[0].certainty == "possible"


def test_without_a_controller_manager_endpoints_are_frozen() -> None:
    snapshot = cluster(web("a1", "a2"), services=(WEB,))
    events = (
        make_event(5, "controller-stop"),
        SILENT,
        make_event(200, "controller-start"),
    )
    [hole] = service(impact_of(snapshot, *events), "web").black_holes
    # The new process grants the whole grace period from its first tick.
    assert hole.until.earliest_seconds >= 250


def test_a_node_that_is_back_stays_out_until_somebody_writes_endpoints() -> None:
    snapshot = cluster(web("a1"), services=(WEB,))
    events = (
        SILENT,
        make_event(75, "controller-stop"),
        make_event(90, "kubelet-start", "a1"),
        make_event(200, "controller-start"),
    )
    impact = impact_of(snapshot, *events)
    [spell] = service(impact, "web").nobody_ready
    assert spell.until.earliest_seconds == 200
    # The pod itself is Ready again long before.
    assert workload(impact, "ReplicaSet/web").zero[0].until.earliest_seconds == 90


def test_a_service_that_publishes_unready_addresses_offers_them_on() -> None:
    found = service(impact_of(cluster(web("a1"), services=(PUBLISHING,)), SILENT), "web")
    assert (found.nobody_ready, found.fewest_ready.least) == ((), 1)
    assert found.nobody_answers


def test_a_published_address_of_a_silent_node_is_a_black_hole_until_its_pod_is_gone() -> None:
    impact = impact_of(cluster(web("a1", "a2"), services=(PUBLISHING,)), SILENT)
    found = service(impact, "web")
    [hole] = found.black_holes
    assert hole.until == Instant(None, None)
    assert found.undetected is not None
    assert found.undetected.most_seconds is None
    # Only a successor that is Ready answers.
    ready = workload(impact, "ReplicaSet/web").whole_again
    assert found.whole_again.latest_seconds == ready.latest_seconds > 100


def test_an_external_name_has_no_endpoints_whatever_its_selector() -> None:
    dns = Service("default", "dns", {"app": "web"}, type="ExternalName")
    slices = EndpointSlice("default", "dns-x", "dns", "IPv4", (Endpoint("web-0", "a1"),))
    for endpoint_slices in ((), (slices,)):
        snapshot = cluster(web("a1"), services=(dns,), endpoint_slices=endpoint_slices)
        assert impact_of(snapshot, SILENT).services == ()


@pytest.mark.parametrize("event", [SILENT, make_event(10, "drain", "a1")])
def test_slices_without_a_selector_are_never_mended_by_kubernetes(event: ScenarioEvent) -> None:
    slices = EndpointSlice("default", "x", "web", "IPv4", (Endpoint("web-0", "a1", ready=True),))
    by_hand = Service("default", "web")
    snapshot = cluster(web("a1"), services=(by_hand,), endpoint_slices=(slices,))
    impact = impact_of(snapshot, event)
    found = service(impact, "web")

    [spell] = found.nobody_answers
    # Dead for certain; whoever writes them may act at once, or never.
    assert (spell.certainty, spell.least_seconds, spell.most_seconds) == ("certain", 0.0, None)
    assert found.whole_again.latest_seconds is None
    assert {hole.until.latest_seconds for hole in found.black_holes} <= {None}
    assert [one.certainty for one in found.nobody_ready] == ["possible"]
    [line] = [one for one in impact.not_evaluated if one.startswith("services: ")]
    assert "default/web" in line
    if found.undetected is not None:
        assert "whoever manages" in finding(impact, "outage-undetected").remedy


def test_endpoint_slices_say_who_is_behind_a_service() -> None:
    slices = EndpointSlice(
        "default",
        "web-x",
        "web",
        "IPv4",
        (Endpoint("web-0", "a1", ready=True), Endpoint("web-1", "a2", ready=False), Endpoint()),
    )
    found = service(impact_of(cluster(web("a1", "a2"), endpoint_slices=(slices,)), SILENT), "web")
    # One Ready pod, one that is not offered, and an address that is no pod.
    assert (found.source, found.endpoints_before) == ("endpointSlices", 2)
    assert (found.fewest_ready.least, found.fewest_ready.most) == (1, 1)


def test_without_services_the_pods_of_one_app_stand_for_one_and_that_is_said() -> None:
    impact = impact_of(cluster(web("a1")), SILENT)
    assert service(impact, "web").source == "labels"
    assert any(line.startswith("services: ") for line in impact.not_evaluated)
    assert finding(impact, "service-down").objects == ("App/default/web",)


def test_slow_tolerations_are_found_with_the_manifest_that_shortens_them() -> None:
    slow = web("a1", "a2", tolerations=default_tolerations(300))
    found = finding(impact_of(cluster(slow), SILENT), "slow-failover")
    assert "tolerationSeconds: 60" in found.remedy
    codes = [one.code for one in impact_of(cluster(web("a1", "a2")), SILENT).findings]
    assert "slow-failover" not in codes


def test_a_pod_that_is_deleted_by_hand_on_a_silent_node_frees_no_name() -> None:
    pods = pods_of("StatefulSet", "db", ["a1"], tolerations=default_tolerations(600))
    impact = impact_of(cluster(pods), SILENT, make_event(20, "pod-delete", pods="default/db-0"))
    assert workload(impact, "StatefulSet/db").whole_again.latest_seconds is None


def test_ordered_sets_wait_for_lower_ordinals_parallel_ones_do_not() -> None:
    pods = pods_of("StatefulSet", "db", ["a1", "a2"], tolerations=default_tolerations(600))
    # Before the silence is noticed the scheduler might choose the silent node.
    taint = make_event(100, "taint", "a2", taint="k:NoExecute")
    for policy, latest in (("", None), ("Parallel", 100 + 30 + 22)):
        owner = Workload("StatefulSet", "default", "db", pod_management_policy=policy)
        found = workload(
            impact_of(cluster(pods, workloads=(owner,)), SILENT, taint), "StatefulSet/db"
        )
        last = found.zero[-1].until.latest_seconds if found.zero else None
        assert (last is None) == (latest is None)


def test_static_pods_come_back_with_their_kubelet() -> None:
    pod = make_pod(
        "etcd-a1", "a1", owner="Node/a1", labels={"component": "etcd"}, namespace="kube-system"
    )
    impact = impact_of(cluster([pod]), SILENT, make_event(100, "kubelet-start", "a1"))
    [quorum] = impact.quorums
    assert (quorum.name, quorum.told_by, quorum.members, quorum.needed) == (
        "kube-system/etcd",
        "etcd",
        1,
        1,
    )
    assert quorum.majority_lost[0].certainty == "certain"
    assert quorum.majority_lost[0].until.latest_seconds is not None
    assert finding(impact, "majority-lost").severity == "critical"
