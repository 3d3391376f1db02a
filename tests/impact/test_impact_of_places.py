"""Availability follows the scheduler's filters: who finds no node is not Ready."""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import (
    START_NS,
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_snapshot,
)
from msgspec.structs import replace
from worlds import comebacks, finding, impact_of, pods_of, workload

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.needs import PodAffinityTerm, PodNeeds, TopologySpreadConstraint
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod, Workload
from kubectl_evictplan.prediction.impact_document import Impact, WorkloadImpact

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APP = (("app", "In", ("web",)),)
TAINT = make_event(10, "taint", "a1", taint="maint:NoExecute")
UNTAINT = make_event(300, "untaint", "a1", taint="maint:NoExecute")


def node(name: str, cpu: int = 4000, **fields: Any) -> Node:
    labels = {HOSTNAME: name, ZONE: name[0], **fields.pop("labels", {})}
    made = make_node(name, labels=labels, **fields)
    return replace(made, allocatable={"cpu": cpu, "pods": 10})


def web(*nodes: str, cpu: int = 1000, kind: str = "ReplicaSet", **needs: Any) -> list[Pod]:
    asked = PodNeeds((("cpu", cpu),), **needs)
    return [replace(pod, needs=asked) for pod in pods_of(kind, "web", nodes, grace_seconds=30)]


def clustered(nodes: list[Node], pods: list[Pod]) -> ClusterSnapshot:
    return make_snapshot(nodes, pods)


def of_web(impact: Impact) -> WorkloadImpact:
    return workload(impact, "ReplicaSet/web")


def lasts(impact: Impact) -> list[tuple[str, float | None, float | None]]:
    """(certainty, least, most) of every time without a Ready pod."""
    return [(s.certainty, s.least_seconds, s.most_seconds) for s in of_web(impact).zero]


def test_who_fits_nowhere_never_comes_back() -> None:
    impact = impact_of(clustered([node("a1"), node("b1", cpu=500)], web("a1")), TAINT)
    assert lasts(impact) == [("certain", None, None)]
    assert comebacks(impact)["web-0"].code == "no-node"
    assert finding(impact, "replacement-pending").severity == "high"


def test_it_comes_back_when_the_taint_goes() -> None:
    snapshot = clustered([node("a1"), node("b1", cpu=500)], web("a1"))
    impact = impact_of(snapshot, TAINT, UNTAINT)
    [spell] = of_web(impact).zero
    # The scheduler tries again within ten seconds; the pod is Ready 20 s later.
    assert (spell.since.earliest_seconds, spell.until.earliest_seconds) == (10, 320)
    assert 330 <= (spell.until.latest_seconds or 0) <= 332
    assert not comebacks(impact)


def test_it_comes_back_when_its_node_comes_back() -> None:
    snapshot = clustered([node("a1"), node("b1", cpu=500)], web("a1"))
    silent = (make_event(0, "kubelet-stop", "a1"), make_event(600, "kubelet-start", "a1"))
    [spell] = of_web(impact_of(snapshot, *silent)).zero
    assert (spell.until.earliest_seconds or 0) >= 600
    assert (spell.until.latest_seconds or 0) < 700


def test_who_finds_no_room_beside_those_before_it_is_counted_not_named() -> None:
    # Room for two of three.
    impact = impact_of(clustered([node("a1"), node("b1", cpu=2500)], web("a1", "a1", "a1")), TAINT)
    found = of_web(impact)
    assert found.steps[-1].least == found.steps[-1].most == 2
    assert found.whole_again.latest_seconds is None
    [fit] = impact.replacements
    assert (fit.verdict, fit.sure_of_a_node, fit.may_find_one) == ("partly", 2, 2)
    assert [one.code for one in comebacks(impact).values()] == ["no-room"]
    assert finding(impact, "no-room-left").certainty == "certain"


def test_room_that_others_may_take_first_is_perhaps_left() -> None:
    pods = [*web("a1"), *(replace(p, name=f"z-{p.name}") for p in web("a1", kind="Job"))]
    impact = impact_of(clustered([node("a1"), node("b1", cpu=1500)], pods), TAINT)
    [spell] = of_web(impact).zero
    assert (spell.least_seconds, spell.most_seconds) == (20, None)
    ours = next(fit for fit in impact.replacements if fit.workload == "ReplicaSet/web")
    assert (ours.verdict, ours.sure_of_a_node, ours.may_find_one) == ("fits", 0, 1)


def test_many_small_others_cannot_take_the_room_of_many_nodes() -> None:
    others = [replace(p, needs=PodNeeds((("cpu", 200),))) for p in web(*["a1"] * 4, kind="Job")]
    others = [replace(pod, name=f"z-{pod.name}") for pod in others]
    nodes = [node("a1"), *(node(f"b{number}", cpu=1500) for number in range(3))]
    [fit] = [
        one
        for one in impact_of(clustered(nodes, [*web("a1"), *others]), TAINT).replacements
        if one.workload == "ReplicaSet/web"
    ]
    assert fit.sure_of_a_node == 1


@pytest.mark.parametrize(
    "needs", [{"scheduler_name": "mine"}, {"resource_claims": True}], ids=["scheduler", "devices"]
)
def test_what_is_not_evaluated_may_keep_it_away(needs: dict[str, Any]) -> None:
    impact = impact_of(clustered([node("a1"), node("b1")], web("a1", **needs)), TAINT)
    assert lasts(impact) == [("certain", 20, None)]
    assert any("placement: " in one for one in impact.not_evaluated)


def test_where_nothing_is_known_of_rooms_it_counts_as_placed_at_once_and_that_is_said() -> None:
    snapshot = clustered([make_node("a1"), make_node("b1")], web("a1"))
    impact = impact_of(snapshot, TAINT)
    assert [spell.most_seconds is None for spell in of_web(impact).zero] == [False]
    assert any("as if they found a node at once" in one for one in impact.assumptions)


def test_even_then_no_node_is_none() -> None:
    snapshot = clustered([make_node("a1"), make_node("b1", unschedulable=True)], web("a1"))
    assert lasts(impact_of(snapshot, TAINT)) == [("certain", None, None)]


def test_who_keeps_apart_by_zone_waits_until_its_predecessor_is_gone() -> None:
    apart = (PodAffinityTerm(ZONE, APP),)
    nodes = [node("a1"), node("a2"), node("b1")]
    impact = impact_of(clustered(nodes, web("a1", "b1", pod_anti_affinity=apart)), TAINT)
    [spell] = of_web(impact).below_before
    # A grace period of 30 s, then the scheduler's next try, then 20 s.
    assert (spell.until.earliest_seconds, spell.most_seconds) == (30, pytest.approx(62.25, abs=2))


def test_a_zone_that_is_silent_counts_for_spread_and_keeps_its_pods_pending() -> None:
    spread = (TopologySpreadConstraint(ZONE, selector=APP),)
    pods = web("a1", "b1", "c1", topology_spread=spread)
    impact = impact_of(
        clustered([node("a1"), node("b1"), node("c1")], pods), make_event(0, "kubelet-stop", "a1")
    )
    found = of_web(impact)
    assert (found.steps[-1].least, found.steps[-1].most) == (2, 2)
    assert comebacks(impact)["web-0"].code == "no-node"


def test_who_may_land_on_a_node_that_is_tainted_later_may_go_again() -> None:
    later = make_event(200, "taint", "b1", taint="maint:NoExecute")
    impact = impact_of(clustered([node("a1"), node("b1"), node("c1")], web("a1")), TAINT, later)
    assert [(s.certainty, s.since.earliest_seconds) for s in of_web(impact).zero] == [
        ("certain", 10),
        ("possible", 200),
    ]


def test_who_surely_has_a_place_before_its_node_is_back_never_returns_to_it() -> None:
    pods = [replace(pod, tolerations=default_tolerations(60)) for pod in web("a1")]
    events = make_event(10, "kubelet-stop", "a1"), make_event(250, "kubelet-start", "a1")
    found = of_web(impact_of(clustered([node("a1"), node("b1")], pods), *events))

    # Its toleration of the taint that goes with the silence does not let it go again.
    [spell] = found.zero
    assert spell.certainty == "certain"
    assert found.whole_again.latest_seconds < 250

    full = clustered([node("a1"), node("b1", cpu=500)], pods)
    assert of_web(impact_of(full, *events)).whole_again.latest_seconds > 250


def test_budgets_and_services_follow() -> None:
    from worlds import cluster

    from kubectl_evictplan.kube.infrastructure import Service
    from kubectl_evictplan.kube.objects import IntOrPercent, PodDisruptionBudget

    budget = PodDisruptionBudget(
        "default", "web", match_labels={"app": "web"}, min_available=IntOrPercent(1)
    )
    snapshot = cluster(
        web("a1"),
        nodes=[node("a1"), node("b1", cpu=500)],
        budgets=[budget],
        services=(Service("default", "web", {"app": "web"}),),
    )
    impact = impact_of(snapshot, TAINT)
    [broken] = impact.budgets[0].broken
    [down] = impact.services[0].nobody_ready
    assert (broken.most_seconds, down.most_seconds, down.certainty) == (None, None, "certain")


@pytest.mark.parametrize(("cpu", "waits"), [(8000, False), (1500, True)])
def test_a_drain_waits_for_ever_for_a_replacement_without_room(cpu: int, waits: bool) -> None:
    from worlds import cluster

    from kubectl_evictplan.kube.objects import IntOrPercent, PodDisruptionBudget

    budget = PodDisruptionBudget(
        "default",
        "web",
        {"app": "web"},
        min_available=IntOrPercent(2),
        disruptions_allowed=1,
        current_healthy=3,
        desired_healthy=2,
        expected_pods=3,
    )
    snapshot = cluster(
        web("a1", "a1", "b1"), nodes=[node("a1"), node("b1", cpu=cpu)], budgets=[budget]
    )
    impact = impact_of(snapshot, make_event(10, "drain", "a1"))
    [told] = impact.budgets
    found = of_web(impact)
    assert (told.fewest_healthy.least, found.whole_again.latest_seconds is None) == (2, waits)
    assert any(one.code == "replacement-pending" for one in impact.findings) == waits


def test_a_statefulset_waits_behind_a_lower_ordinal_that_fits_nowhere() -> None:
    pods = web("a1", "a1", kind="StatefulSet")
    pods[1] = replace(pods[1], needs=PodNeeds((("cpu", 100),)))
    impact = impact_of(clustered([node("a1"), node("b1", cpu=500)], pods), TAINT)
    found = workload(impact, "StatefulSet/web")
    assert [spell.most_seconds for spell in found.zero] == [None]


def test_replacements_that_never_come_take_nobodys_room() -> None:
    # One place is left; the name of the StatefulSet's pod is held for as long as its kubelet is silent.
    pods = [*web("a1"), *(replace(p, name=f"db-{p.name}") for p in web("a1", kind="StatefulSet"))]
    pods = [replace(pod, tolerations=default_tolerations()) for pod in pods]
    silent = make_event(0, "kubelet-stop", "a1")
    impact = impact_of(clustered([node("a1"), node("b1", cpu=1000)], pods), silent)
    [fit] = impact.replacements
    assert (fit.workload, fit.verdict, fit.sure_of_a_node) == ("ReplicaSet/web", "fits", 1)
    assert of_web(impact).whole_again.latest_seconds is not None


def test_a_failed_job_takes_nobodys_room() -> None:
    sums = pods_of("Job", "sums", ["a1"])
    sums = [replace(pod, needs=PodNeeds((("cpu", 1000),), priority=1)) for pod in sums]
    snapshot = clustered([node("a1"), node("b1", cpu=1000)], [*sums, *web("a1")])
    job = Workload("Job", "default", "sums", replicas=1, failed=0, backoff_limit=0)
    impact = impact_of(replace(snapshot, workloads=(job,)), TAINT)
    assert [(fit.workload, fit.sure_of_a_node) for fit in impact.replacements] == [
        ("ReplicaSet/web", 1)
    ]


def test_a_node_that_does_not_say_what_it_offers_is_no_sure_place() -> None:
    impact = impact_of(clustered([node("a1"), make_node("b1")], web("a1")), TAINT)
    [fit] = impact.replacements
    assert (fit.unknown, fit.sure_of_a_node, fit.may_find_one) == (("offers",), 0, 1)
    whole = of_web(impact).whole_again
    assert (whole.earliest_seconds, whole.latest_seconds) == (30, None)


def test_what_is_only_assumed_is_not_sure() -> None:
    snapshot = clustered([make_node("a1"), make_node("b1")], web("a1"))
    [fit] = impact_of(snapshot, TAINT).replacements
    assert (fit.assumed, fit.sure_of_a_node) == (True, 0)


@pytest.mark.parametrize("other", [False, True], ids=["alone", "beside-a-taint"])
def test_no_replacement_of_a_drain_meets_its_nodes_uncordoned(other: bool) -> None:
    apart = PodAffinityTerm(HOSTNAME, APP)
    pods = web("a1", "b1", pod_anti_affinity=(apart,))
    # Who was evicted before the cordon may come to the node in time.
    early = [make_event(10, "taint", "b1", taint="maint:NoExecute")] if other else []
    snapshot = clustered([node("a1"), node("b1")], pods)
    impact = impact_of(snapshot, make_event(10, "drain", ["a1"]), *early)
    assert [one.pod for one in impact.not_coming_back if one.code == "no-node"] == (
        [] if other else ["web-0"]
    )
    assert max(one.may_find_one for one in impact.replacements) == other


def test_a_workload_is_whole_without_a_pod_that_is_one_too_many() -> None:
    snapshot = clustered([node("a1"), node("b1")], web("a1", "b1", "b1"))
    owner = Workload("ReplicaSet", "default", "web", replicas=2)
    found = of_web(impact_of(replace(snapshot, workloads=(owner,)), TAINT))
    assert (found.ready_before, found.fewest_ready.least) == (3, 2)
    assert found.whole_again.latest_seconds == 0


@pytest.mark.parametrize("silent", [False, True], ids=["heard", "silent"])
def test_a_pod_that_is_on_its_way_out_holds_its_room_until_its_grace_ends(silent: bool) -> None:
    dying = replace(make_pod("dying", "b1"), needs=PodNeeds((("cpu", 4000),)))
    dying = replace(dying, deletion_timestamp_ns=START_NS + 60 * SECOND_NS)
    snapshot = clustered([node("a1"), node("b1")], [*web("a1"), dying])
    stop = [make_event(0, "kubelet-stop", "b1")] if silent else []
    whole = of_web(impact_of(snapshot, TAINT, *stop)).whole_again
    # The scheduler may try again only ten seconds later; the successor is Ready after 20 s.
    assert whole.latest_seconds is None if silent else 80 <= (whole.latest_seconds or 0) <= 92


NEAR = (PodAffinityTerm(ZONE, APP),)


def test_who_has_to_be_near_its_own_kind_waits_for_ever_beside_one_that_is_stuck() -> None:
    pods = web("a1", pod_affinity=NEAR)
    silent = make_event(0, "kubelet-stop", "a1")
    impact = impact_of(clustered([node("a1"), node("b1")], pods), silent)
    assert lasts(impact)[0][1:] == (None, None)
    assert finding(impact, "replacement-pending").certainty == "certain"
    assert "perhaps" not in finding(impact, "replacement-pending").summary


def test_the_first_of_those_that_want_each_other_begins_anywhere() -> None:
    pods = web("a1", "a1", pod_affinity=NEAR)
    impact = impact_of(clustered([node("a1"), node("b1"), node("c1", cpu=1000)], pods), TAINT)
    [fit] = impact.replacements
    # In zone c there is room for the first only.
    assert (fit.sure_of_a_node, fit.may_find_one) == (1, 2)
    roomy = impact_of(clustered([node("a1"), node("b1"), node("c1")], pods), TAINT)
    [spell] = of_web(roomy).zero
    # Once their predecessors are gone, after a grace period of 30 s.
    assert (spell.until.earliest_seconds, spell.until.latest_seconds) == (30, pytest.approx(72, 2))


def test_who_has_to_be_near_pods_that_find_no_node_finds_none() -> None:
    follower = [
        replace(pod, name="follower", labels={"app": "follower"})
        for pod in web("a1", kind="Job", pod_affinity=NEAR)
    ]
    for cpu, may in ((500, 0), (2000, 1)):
        nodes = [node("a1"), node("b1", cpu=cpu)]
        pods = [
            *web("a1", cpu=600),
            *(replace(p, needs=replace(p.needs, requests=(("cpu", 100),))) for p in follower),
        ]
        found = impact_of(clustered(nodes, pods), TAINT).replacements
        assert [one.may_find_one for one in found] == [may, may]


def test_where_pods_of_other_namespaces_are_missing_no_place_is_sure_and_none_is_assumed() -> None:
    snapshot = clustered([node("a1"), node("b1")], web("a1"))
    impact = impact_of(replace(snapshot, pods_of_all_namespaces=False), TAINT)
    [fit] = impact.replacements
    assert (fit.verdict, fit.assumed) == ("unknown", False)
    assert (fit.sure_of_a_node, fit.may_find_one) == (0, 1)
    assert lasts(impact) == [("certain", 20, None)]
    assert not any("as if they found a node" in one for one in impact.assumptions)


def test_even_there_it_is_sure_that_those_who_are_too_many_find_no_room() -> None:
    snapshot = clustered([node("a1"), node("b1", cpu=1500)], web("a1", "a1"))
    impact = impact_of(replace(snapshot, pods_of_all_namespaces=False), TAINT)
    [fit] = impact.replacements
    assert (fit.verdict, fit.sure_of_a_node, fit.may_find_one) == ("partly", 0, 1)
    assert of_web(impact).whole_again.earliest_seconds is None
    found = finding(impact, "no-room-left")
    assert found.certainty == "certain"
    assert "0 to 1 of 2 find a place" in found.summary
    assert "what other pods take is not in the input" in found.summary


def low(*nodes: str, cpu: int = 1000) -> list[Pod]:
    return [
        replace(pod, name=f"low-{number}", labels={"app": "low"})
        for number, pod in enumerate(web(*nodes, cpu=cpu, kind="ReplicaSet"))
    ]


def owned(pods: list[Pod], name: str) -> list[Pod]:
    return [
        replace(pod, owner_references=(replace(pod.owner_references[0], name=name),))
        for pod in pods
    ]


def test_a_bystander_of_lower_priority_is_perhaps_pushed_out() -> None:
    pods = [*web("a1", priority=9), *owned(low("b1", "b1", "b1", "b1"), "low")]
    impact = impact_of(clustered([node("a1"), node("b1")], pods), TAINT)
    found = workload(impact, "ReplicaSet/low")
    # One is enough to make room, whichever.
    assert (found.fewest_ready.least, found.fewest_ready.most) == (3, 4)
    assert [one.certainty for one in found.below_before] == ["possible"]
    assert found.whole_again.latest_seconds is None
    assert any("(4) counts as perhaps away" in one for one in impact.not_evaluated)


def test_nobody_is_pushed_out_where_there_is_surely_room() -> None:
    pods = [*web("a1", priority=9), *owned(low("b1", "b1", "b1"), "low")]
    impact = impact_of(clustered([node("a1"), node("b1")], pods), TAINT)
    assert [one.workload for one in impact.workloads] == ["ReplicaSet/web"]


@pytest.mark.parametrize(("priority", "sure"), [(9, 0), (0, 1)])
def test_a_replacement_that_may_be_pushed_out_has_no_sure_place(priority: int, sure: int) -> None:
    large = owned(web("a1", cpu=4000, priority=priority), "large")
    large = [replace(pod, name="large", labels={"app": "large"}) for pod in large]
    pods = [*large, *web("a1", cpu=100), *owned(low("b1", cpu=50), "low")]
    for cpu, places in ((3999, sure), (1000, 1)):
        # Node c is too small for the large one.
        nodes = [
            node("a1", cpu=8000),
            node("b1", cpu=4000),
            node("c1", cpu=cpu, unschedulable=cpu > 1000),
        ]
        fits = impact_of(clustered(nodes, pods), TAINT).replacements
        [ours] = [one for one in fits if one.workload == "ReplicaSet/web"]
        assert (ours.sure_of_a_node, ours.may_find_one) == (places, 1)


def test_the_end_of_what_may_not_begin_is_told_without_an_instant() -> None:
    pods = [*web("a1", priority=9, cpu=4000), *owned(low("b1"), "low")]
    impact = impact_of(clustered([node("a1"), node("b1")], pods), TAINT)
    [told] = [
        one.summary
        for one in impact.findings
        if one.code == "single-replica" and one.certainty == "possible"
    ]
    assert told.endswith("none possibly from +10s, perhaps without end")
