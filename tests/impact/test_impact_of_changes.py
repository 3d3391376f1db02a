"""Taints, deletions and drains: who is replaced when, which budgets break, which volumes follow, what is found."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from building.builders import (
    START_NS,
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    ns,
    tolerates,
)
from msgspec.structs import replace
from worlds import READY, cluster, comebacks, finding, impact_of, pods_of, service, workload

from kubectl_evictplan.kube.infrastructure import (
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
    Service,
)
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    OwnerReference,
    Workload,
)
from kubectl_evictplan.prediction.impact_document import Impact
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

TAINT = make_event(10, "taint", "a1", taint="maint=yes:NoExecute")
UNTAINT = make_event(100, "untaint", "a1", taint="maint:NoExecute")
SILENT = make_event(10, "kubelet-stop", "a1")


# -- who is replaced, and when -----------------------------------------------------------------------


def test_a_replica_set_replaces_at_the_deletion() -> None:
    impact = impact_of(cluster(pods_of("ReplicaSet", "web", ["a1"])), TAINT)
    [spell] = workload(impact, "ReplicaSet/web").zero
    assert (spell.since.earliest_seconds, spell.until.earliest_seconds) == (10, 30)
    assert spell.since.latest_seconds == 10.5
    assert spell.until.latest_seconds <= 31.5
    assert (spell.certainty, spell.least_seconds) == ("certain", 20)


def test_a_stateful_set_replaces_when_the_pod_is_gone() -> None:
    pods = pods_of("StatefulSet", "db", ["a1"], grace_seconds=40)
    [spell] = workload(impact_of(cluster(pods), TAINT), "StatefulSet/db").zero
    assert spell.until.earliest_seconds == 30
    assert 70 <= spell.until.latest_seconds <= 72


@pytest.mark.parametrize(
    ("release", "held_s"), [("1.22", (0, 0)), ("1.35", (59, 121.5)), ("1.37", (59, 60.5))]
)
def test_an_ordered_stateful_set_goes_on_past_pods_that_are_available(
    release: str, held_s: tuple[float, float]
) -> None:
    owner = Workload("StatefulSet", "default", "db", replicas=2, min_ready_seconds=60)
    pods = pods_of("StatefulSet", "db", ["a1", "a1"], grace_seconds=0)
    found = workload(
        impact_of(cluster(pods, workloads=[owner]), TAINT, release=release), "StatefulSet/db"
    ).whole_again
    # One after the other, 20 s each.
    assert found.earliest_seconds == pytest.approx(10 + 40 + held_s[0])
    assert found.latest_seconds == pytest.approx(10 + 40 + held_s[1], abs=4)


def test_who_became_ready_just_now_holds_back_the_next() -> None:
    owner = Workload("StatefulSet", "default", "db", replicas=2, min_ready_seconds=600)
    first, second = pods_of("StatefulSet", "db", ["a2", "a1"], grace_seconds=0)
    for age_s, earliest_s in ((3600, 30), (100, 10 + 500 - 11 + 20)):
        young = replace(first, creation_timestamp_ns=START_NS - ns(age_s), ready_after_seconds=0)
        impact = impact_of(cluster([young, second], workloads=[owner]), TAINT)
        assert workload(impact, "StatefulSet/db").whole_again.earliest_seconds == earliest_s


def test_a_daemon_set_comes_back_when_the_taint_goes() -> None:
    snapshot = cluster(pods_of("DaemonSet", "agent", ["a1", "a2"]))
    stays_away = workload(impact_of(snapshot, TAINT), "DaemonSet/agent")
    assert stays_away.never_replaced == ("agent-0",)
    back = workload(impact_of(snapshot, TAINT, UNTAINT), "DaemonSet/agent")
    assert (back.whole_again.earliest_seconds, back.never_replaced) == (120, ())


def test_a_daemon_set_that_tolerates_the_taint_for_a_while_returns_and_goes_again_and_again() -> (
    None
):
    pods = pods_of("DaemonSet", "agent", ["a1", "a2"], tolerations=[tolerates("maint", 60)])
    impact = impact_of(cluster(pods), TAINT)
    found = workload(impact, "DaemonSet/agent")
    assert found.never_replaced == ()
    assert found.whole_again.latest_seconds is None
    again = finding(impact, "evicted-again")
    assert again.certainty == "certain"
    assert "every 60s" in again.summary
    assert "daemonset/agent" in again.remedy
    assert not comebacks(impact)


def test_a_daemon_set_with_max_surge_returns_to_the_node_before_the_old_pod_is_gone() -> None:
    kept = {"tolerations": [tolerates("maint", 60)], "grace_seconds": 40}
    pods = pods_of("DaemonSet", "agent", ["a1", "a2"], **kept)
    until = {}
    for surges in (False, True):
        owner = Workload("DaemonSet", "default", "agent", surges=surges)
        impact = impact_of(
            cluster(pods, workloads=[owner]), TAINT, make_event(100, "untaint", "a1", taint="maint")
        )
        found = workload(impact, "DaemonSet/agent").whole_again
        until[surges] = found.earliest_seconds, found.latest_seconds
    # Evicted at 70; whether the new one finds room beside the old one is not known.
    assert until[True][0] == until[False][0] == 90
    assert until[True][1] == pytest.approx((until[False][1] or 0) + 10)


def test_a_bare_pod_is_gone_for_good() -> None:
    impact = impact_of(cluster([make_pod("tool", "a1")]), TAINT)
    assert workload(impact, "Pod/tool").whole_again.earliest_seconds is None
    assert comebacks(impact)["tool"].code == "bare-pod"
    assert finding(impact, "bare-pod-gone").objects == ("Pod/default/tool",)


def test_a_replicaset_with_a_pod_too_many_makes_one_less() -> None:
    owner = Workload("ReplicaSet", "default", "web", replicas=2)
    pods = pods_of("ReplicaSet", "web", ["a1", "a1", "b1"])
    found = workload(impact_of(cluster(pods, workloads=[owner]), TAINT), "ReplicaSet/web")
    assert (found.steps[-1].least, found.steps[-1].most) == (2, 2)


def test_a_pod_too_many_is_missed_by_nobody() -> None:
    owner = Workload("ReplicaSet", "default", "web", replicas=2)
    pods = pods_of("ReplicaSet", "web", ["a1", "b1", "b1"])
    service_of_web = Service("default", "web", {"app": "web"})
    impact = impact_of(cluster(pods, workloads=[owner], services=(service_of_web,)), TAINT)
    found = workload(impact, "ReplicaSet/web")
    assert (found.ready_before, found.wanted, found.fewest_ready.least) == (3, 2, 2)
    assert found.below_before == ()
    assert service(impact, "web").whole_again.latest_seconds == 0
    # With two of three gone one is missing.
    both = pods_of("ReplicaSet", "web", ["a1", "a1", "b1"])
    [spell] = workload(
        impact_of(cluster(both, workloads=[owner]), TAINT), "ReplicaSet/web"
    ).below_before
    assert (spell.certainty, spell.until.earliest_seconds) == ("certain", 30)


def test_who_goes_is_perhaps_replaced_where_pods_too_many_are_not_ready_and_stay() -> None:
    """``ActivePodsWithRanks``: the ReplicaSet deletes those first, and makes another for whoever is evicted."""
    owner = Workload("ReplicaSet", "default", "web", replicas=2)
    *ready, broken = pods_of("ReplicaSet", "web", ["a1", "b1", "b1"])
    pods = [*ready, replace(broken, ready="False")]
    found = workload(impact_of(cluster(pods, workloads=[owner]), TAINT), "ReplicaSet/web")
    assert found.never_replaced == ()
    last = found.steps[-1]
    assert last.least == 1
    assert last.most >= 2


def test_a_pod_whose_owner_is_no_controller_has_no_controller() -> None:
    pod = make_pod("nc", "a1", owner=OwnerReference(kind="Thing", name="t", controller=False))
    found = finding(impact_of(cluster([pod]), TAINT), "bare-pod-gone")
    assert "no controller manages default/nc" in found.summary


def test_a_statefulset_makes_no_pod_beyond_its_replicas() -> None:
    owner = Workload("StatefulSet", "default", "db", replicas=1, pod_management_policy="Parallel")
    pods = pods_of("StatefulSet", "db", ["a1", "a1"])
    found = workload(impact_of(cluster(pods, workloads=[owner]), TAINT), "StatefulSet/db")
    assert (found.steps[-1].least, found.steps[-1].most) == (1, 1)


def test_pods_of_a_silent_node_may_be_ready_again_when_it_is_back() -> None:
    stays = [tolerates("node.kubernetes.io/unreachable"), tolerates("node.kubernetes.io/not-ready")]
    pods = pods_of("ReplicaSet", "web", ["a1", "b1"], tolerations=stays)
    pods[0] = replace(pods[0], ready="False")
    node = make_node("a1", ready="Unknown", taints=["node.kubernetes.io/unreachable:NoExecute"])
    snapshot = cluster(pods, nodes=[node, "b1"])
    taint = make_event(300, "taint", "b1", taint="x:NoExecute")
    impact = impact_of(snapshot, make_event(100, "kubelet-start", "a1"), taint)
    steps = workload(impact, "ReplicaSet/web").steps
    assert max(step.most for step in steps) == 2
    assert min(step.at_seconds for step in steps if step.most == 2) >= 100


def test_owners_that_nobody_knows_may_never_replace() -> None:
    impact = impact_of(cluster(pods_of("Sandwich", "x", ["a1"])), TAINT)
    [spell] = workload(impact, "Sandwich/x").zero
    assert spell.until.latest_seconds is None
    assert comebacks(impact)["x-0"].code == "unknown-owner"


def test_a_deployment_is_told_by_its_own_name() -> None:
    owners = [
        Workload("Deployment", "default", "web", uid="d", replicas=1),
        Workload("ReplicaSet", "default", "web-1", replicas=1, owner_references=_owned("web")),
    ]
    impact = impact_of(cluster(pods_of("ReplicaSet", "web-1", ["a1"]), workloads=owners), TAINT)
    found = workload(impact, "Deployment/web")
    assert (found.wanted, found.single_replica) == (1, True)
    remedy = finding(impact, "single-replica").remedy
    assert remedy == "kubectl -n default scale deployment/web --replicas=2"


def test_how_many_an_owner_wants_that_is_not_in_the_input_is_not_asserted() -> None:
    impact = impact_of(cluster(pods_of("ReplicaSet", "nope", ["a1"])), TAINT)
    assert workload(impact, "ReplicaSet/nope").single_replica is None
    assert "has one pod in the input" in finding(impact, "single-replica").summary
    assert "does not say how many it wants" in finding(impact, "single-replica").summary


@pytest.mark.parametrize("event", [TAINT, make_event(10, "drain", "a1")])
def test_whether_times_of_replacements_are_learnt_is_said_for_drains_too(
    event: ScenarioEvent,
) -> None:
    impact = impact_of(cluster(pods_of("ReplicaSet", "web", ["a1"])), event, assume_ready=None)
    [said] = [line for line in impact.assumptions if "(the default)" in line]
    assert "where its owner's pods do not tell" in said


def _owned(name: str) -> tuple:
    return make_pod("x", owner=f"Deployment/{name}").owner_references


def test_a_pod_that_may_return_is_perhaps_evicted_again_and_again() -> None:
    pods = pods_of("ReplicaSet", "web", ["a1"], tolerations=[tolerates("maint", 40)])
    impact = impact_of(cluster(pods), TAINT)
    found = workload(impact, "ReplicaSet/web")
    assert [spell.certainty for spell in found.zero[:3]] == ["certain", "possible", "possible"]
    # Evicted after 40 s, then every 40 s on the same node.
    assert [spell.since.earliest_seconds for spell in found.zero[:3]] == [50, 90, 130]
    assert found.whole_again.latest_seconds is None
    assert finding(impact, "evicted-again").remedy == "kubectl cordon a1"


# -- how long a replacement takes -------------------------------------------------------------------------


def learning(*seconds: int | None) -> Impact:
    pods = pods_of("ReplicaSet", "web", ["a1", *["a2"] * (len(seconds) - 1)])
    pods = [replace(pod, ready_after_seconds=s) for pod, s in zip(pods, seconds, strict=True)]
    return impact_of(cluster(pods), TAINT, assume_ready=None)


@pytest.mark.parametrize(
    ("seconds", "source", "least", "most", "samples"),
    [
        ((12, 15, 20), "learnt", 11, 21, 3),
        # A probe that failed hours later tells nothing of the start.
        ((12, 15, 9000), "learnt", 11, 16, 2),
        ((None, None), "default", 30, 30, 0),
    ],
)
def test_readiness_is_learnt_from_the_pods_of_the_owner(
    seconds: tuple[int | None, ...], source: str, least: int, most: int, samples: int
) -> None:
    found = workload(learning(*seconds), "ReplicaSet/web").ready_after
    assert (found.source, found.samples) == (source, samples)
    assert (found.least_seconds, found.most_seconds) == (least, most)


def test_what_is_given_counts_more_than_what_pods_tell() -> None:
    pods = [replace(pod, ready_after_seconds=3) for pod in pods_of("ReplicaSet", "web", ["a1"])]
    impact = impact_of(cluster(pods), TAINT, assume_ready=READY)
    assert workload(impact, "ReplicaSet/web").ready_after.source == "given"
    assert any("--assume-ready" in line for line in impact.assumptions)


def test_a_replacement_that_is_perhaps_never_ready_is_perhaps_never_there() -> None:
    impact = impact_of(
        cluster(pods_of("ReplicaSet", "w", ["a1"])), TAINT, assume_ready=(READY[0], None)
    )
    assert workload(impact, "ReplicaSet/w").whole_again.latest_seconds is None


# -- volumes ----------------------------------------------------------------------------------------------


def with_volume(
    kind: str, *events: object, local: bool = False, mode: str = "ReadWriteOnce"
) -> Impact:
    return impact_of(volume_cluster(kind, local=local, mode=mode), *events)


def volume_cluster(
    kind: str, *, local: bool = False, mode: str = "ReadWriteOnce", **attributes: Any
) -> ClusterSnapshot:
    pods = pods_of(kind, "db", ["a1"], tolerations=default_tolerations(60), **attributes)
    return cluster(
        pods,
        pod_claims=(PodClaims("default", "db-0", ("data",)),),
        persistent_volume_claims=(
            PersistentVolumeClaim("default", "data", "pv", "Bound", (mode,)),
        ),
        persistent_volumes=(
            PersistentVolume("pv", "Bound", "default", "data", (mode,), local=local),
        ),
    )


def test_a_volume_of_a_drained_node_follows_its_unmount() -> None:
    impact = with_volume("StatefulSet", TAINT)
    [found] = impact.volumes
    assert (found.code, found.free.earliest_seconds) == ("detach", 10)
    assert found.free.latest_seconds <= 10 + 30 + 32


def test_a_volume_of_a_silent_node_is_held_by_the_pod_that_stays() -> None:
    impact = with_volume("ReplicaSet", SILENT)
    [found] = impact.volumes
    assert (found.code, found.free.latest_seconds) == ("held", None)
    # The ReplicaSet replaces the pod, which then waits for the volume.
    assert workload(impact, "ReplicaSet/db").whole_again.latest_seconds is None


def test_no_second_copy_starts_while_the_volume_of_the_first_is_attached_elsewhere() -> None:
    held = workload(with_volume("ReplicaSet", SILENT), "ReplicaSet/db")
    assert not held.two_copies
    shared = workload(with_volume("ReplicaSet", SILENT, mode="ReadWriteMany"), "ReplicaSet/db")
    assert [copy.pod for copy in shared.two_copies] == ["db-0"]
    # Nobody knows whether the machine of a deleted Node runs on: its volume is taken by force.
    deleted = with_volume("ReplicaSet", make_event(10, "node-delete", "a1"))
    [forced], [volume] = workload(deleted, "ReplicaSet/db").two_copies, deleted.volumes
    assert forced.since.latest_seconds == volume.free.latest_seconds


def test_who_is_perhaps_never_evicted_holds_nothing_once_it_is() -> None:
    # Nobody read the budgets: whether the drain may evict it is not known.
    snapshot = replace(volume_cluster("StatefulSet"), kinds_seen=("Lease", "Node", "Pod"))
    impact = impact_of(snapshot, make_event(10, "drain", ["a1"]))
    [volume] = impact.volumes
    assert (volume.code, volume.free.latest_seconds is None) == ("detach", False)
    assert not comebacks(impact)
    assert "out-of-service" not in str(impact)


def test_no_remedy_tells_that_a_running_machine_is_off() -> None:
    impact = impact_of(volume_cluster("StatefulSet", finalizers=("x/y",)), TAINT)
    assert impact.volumes[0].code == "held"
    assert comebacks(impact)["db-0"].code == "finalizers"
    assert finding(impact, "volume-waits").remedy
    assert "out-of-service" not in str([one.remedy for one in impact.findings])


def test_six_minutes_after_a_forced_end_the_volume_is_taken_by_force() -> None:
    impact = with_volume("ReplicaSet", SILENT, make_event(200, "node-delete", "a1"))
    [found] = impact.volumes
    assert found.code == "force-detach"
    assert found.free.latest_seconds >= found.free.earliest_seconds + 360


def test_a_local_volume_never_moves() -> None:
    impact = with_volume("StatefulSet", TAINT, local=True)
    assert impact.volumes[0].code == "never-moves"
    assert workload(impact, "StatefulSet/db").whole_again.earliest_seconds is None
    assert [one.code for one in impact.not_coming_back] == ["local-volume"]
    assert finding(impact, "volume-never-moves").severity == "high"


def test_a_volume_that_many_nodes_may_use_makes_nobody_wait() -> None:
    assert with_volume("StatefulSet", TAINT, mode="ReadWriteMany").volumes == ()


# -- quorums ----------------------------------------------------------------------------------------------


def test_sets_need_a_majority_where_a_label_or_an_option_says_so() -> None:
    labels = {"app": "raft", "evictplan.dev/quorum": "true"}
    pods = pods_of("StatefulSet", "raft", ["a1", "a1", "a2"], labels=labels)
    [found] = impact_of(cluster(pods), TAINT).quorums
    assert (found.told_by, found.members, found.needed) == ("label", 3, 2)
    assert (found.fewest_voting.least, found.majority_lost[0].certainty) == (1, "certain")
    plain = cluster(pods_of("StatefulSet", "raft", ["a1", "a1", "a2"]))
    assert impact_of(plain, TAINT).quorums == ()
    [asked] = impact_of(plain, TAINT, quorums=["default/raft"]).quorums
    assert asked.told_by == "option"


# -- findings ---------------------------------------------------------------------------------------------


def test_what_is_only_possible_is_one_step_less_severe() -> None:
    service = Service("default", "web", {"app": "web"})
    pods = pods_of("ReplicaSet", "web", ["a1"], tolerations=default_tolerations(60))
    snapshot = cluster(pods, services=(service,))
    assert finding(impact_of(snapshot, SILENT), "service-down").severity == "critical"
    deleted = impact_of(snapshot, make_event(10, "node-delete", "a1"), horizon=60)
    assert finding(deleted, "service-down").severity == "high"


def test_a_workload_of_several_pods_that_all_go_at_one_time_is_high_whether_or_not_a_service_has_it() -> (
    None
):
    owners = [
        Workload("Deployment", "default", "web", uid="d", replicas=3),
        Workload("ReplicaSet", "default", "web-1", replicas=3, owner_references=_owned("web")),
    ]
    pods = pods_of("ReplicaSet", "web-1", ["a1", "a1", "a1"])
    impact = impact_of(cluster(pods, workloads=owners), TAINT)
    found = finding(impact, "workload-down")
    assert (found.severity, found.objects) == ("high", ("Deployment/default/web",))
    assert "loses all it has, 3 Ready pods: none from +10s, until +32s at" in found.summary
    assert "kubectl -n default scale deployment/web --replicas=4, spread over nodes" in found.remedy
    two = cluster(pods_of("StatefulSet", "db", ["a1", "a1"]))
    assert finding(impact_of(two, TAINT), "workload-down").severity == "high"


@pytest.mark.parametrize(
    ("kind", "nodes"),
    [("Deployment", ["a1", "a2"]), ("Deployment", ["a1"]), ("DaemonSet", ["a1", "a1"])],
)
def test_a_workload_is_down_only_when_it_has_several_pods_and_none_stays(
    kind: str, nodes: list[str]
) -> None:
    impact = impact_of(cluster(pods_of(kind, "web", nodes)), TAINT)
    assert "workload-down" not in {one.code for one in impact.findings}


def test_findings_come_most_severe_first_one_for_each_code_and_certainty() -> None:
    pods = [*pods_of("ReplicaSet", "web", ["a1"]), make_pod("tool", "a1"), make_pod("toy", "a1")]
    found = impact_of(cluster(pods), TAINT).findings
    order = ["critical", "high", "medium", "low", "info"]
    assert [order.index(one.severity) for one in found] == sorted(
        order.index(one.severity) for one in found
    )
    assert len({(one.code, one.certainty) for one in found}) == len(found)
    bare = next(one for one in found if one.code == "bare-pod-gone")
    assert bare.objects == ("Pod/default/tool", "Pod/default/toy")
    assert bare.summary.endswith("; 1 more")


def test_names_are_quoted_in_commands() -> None:
    node = make_node("a1; rm -rf /")
    pods = pods_of("ReplicaSet", "web", [node.name], tolerations=[tolerates("maint", 40)])
    taint = make_event(10, "taint", node.name, taint="maint=yes:NoExecute")
    impact = impact_of(cluster(pods, nodes=[node, "a2"]), taint)
    assert shlex.split(finding(impact, "evicted-again").remedy) == ["kubectl", "cordon", node.name]


def test_what_releases_a_pod_is_quoted_too() -> None:
    node = make_node("a1; reboot")
    pods = pods_of("StatefulSet", "db", [node.name], tolerations=default_tolerations(60))
    silent = make_event(10, "kubelet-stop", node.name)
    impact = impact_of(cluster(pods, nodes=[node, "a2"]), silent)
    assert "kubectl taint node 'a1; reboot' node.kubernetes.io" in comebacks(impact)["db-0"].release


def test_where_nothing_happens_there_is_no_impact() -> None:
    impact = impact_of(
        cluster(pods_of("ReplicaSet", "web", ["a1"])), make_event(10, "cordon", "a1")
    )
    assert (impact.services, impact.workloads, impact.findings, impact.assumptions) == (
        (),
        (),
        (),
        (),
    )
