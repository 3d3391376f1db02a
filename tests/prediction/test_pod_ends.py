"""When deleted pods end, why some do not, and what their chains of causes name."""

from __future__ import annotations

from building.builders import (
    NOT_READY,
    UNREACHABLE,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from building.warning_runs import configured, objects, warn
from drawn.drain_worlds import CONFIGURATION, READY, App, drain, drained_cluster, drains
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.prediction.document import Eviction, Prediction
from kubectl_evictplan.prediction.pod_ends import Stuck
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent

# Of the taints that come here only the user's evicts it.
PATIENT = make_pod("p", "n1", grace_seconds=30, tolerations=[tolerates(NOT_READY)])
TAINT = make_event(10, "taint", "n1", taint="maint:NoExecute")
STUCK = "unreachable-stuck-terminating"


def run(
    events: list[ScenarioEvent],
    *pods: Pod,
    nodes: tuple[Node | str, ...] = ("n1",),
    snapshot: ClusterSnapshot | None = None,
    scenario: Scenario | None = None,
) -> Prediction:
    snapshot = snapshot or make_snapshot(nodes, pods)
    return predict(snapshot, scenario or make_scenario(events, horizon=600), configured("1.29"))


def only(prediction: Prediction) -> Eviction:
    (eviction,) = prediction.evictions
    return eviction


def test_a_kubelet_that_says_it_is_not_ready_may_never_end_a_pod() -> None:
    """Ready=False is what a kubelet posts while its container runtime does not answer."""
    events = [make_event(5, "node-ready", "n1", status="False"), TAINT]
    prediction = run(events, PATIENT)
    gone = prediction.evictions[0].gone

    assert (gone.earliest_seconds, gone.latest_seconds) == (10.0, None)
    assert gone.stuck == Stuck.KUBELET_NOT_READY.value
    assert objects(prediction.warnings, "not-ready-node-may-not-end-pods") == ["default/p"]
    assert objects(prediction.warnings, STUCK) is None


def test_a_node_that_was_not_ready_at_the_start_ends_no_pod_either() -> None:
    prediction = run([TAINT], make_pod("p", "n1"), nodes=(make_node("n1", ready="False"),))

    assert {e.gone.stuck for e in prediction.evictions} == {Stuck.KUBELET_NOT_READY.value}


def test_a_node_that_is_ready_again_ends_what_was_deleted_meanwhile() -> None:
    events = [
        make_event(5, "node-ready", "n1", status="False"),
        TAINT,
        make_event(100, "node-ready", "n1", status="True"),
    ]
    gone = run(events, PATIENT).evictions[0].gone

    assert (gone.earliest_seconds, gone.latest_seconds, gone.stuck) == (100.0, 130.0, None)


def test_silence_is_judged_when_the_snapshot_was_taken_not_when_the_scenario_starts() -> None:
    """A lease that was fresh in the snapshot is not half an hour old because of ``--start``."""
    snapshot = make_snapshot(["n1"], [make_pod("p", "n1")], leases=[make_lease("n1", -5)])
    later = make_scenario([TAINT], horizon=600)
    later = replace(later, start_ns=later.start_ns + ns(1800))
    prediction = run([], snapshot=snapshot, scenario=later)

    assert only(prediction).gone.stuck is None
    assert objects(prediction.warnings, STUCK) is None


def test_the_end_of_a_pod_is_caused_by_its_own_deletion() -> None:
    """Whatever happens elsewhere while it terminates."""
    events = [
        make_event(10, "pod-delete", pods=["default/p"]),
        make_event(20, "cordon", "n2"),
    ]
    prediction = run(events, make_pod("p", "n1"), nodes=("n1", "n2"))
    (kept,) = prediction.kept

    assert kept.code == "gone-otherwise"
    assert [(link.offset_seconds, link.object) for link in kept.because] == [
        (10.0, "pod/default/p"),
        (40.0, "pod/default/p"),
    ]


def test_a_timer_that_a_restart_moved_names_the_restart() -> None:
    events = [
        TAINT,
        make_event(100, "controller-stop"),
        make_event(105, "controller-start"),
    ]
    eviction = only(run(events, make_pod("p", "n1", tolerations=[tolerates("maint", 60)])))
    moved = only(run(events[:1], make_pod("p", "n1", tolerations=[tolerates("maint", 300)])))
    restarted = run(events, make_pod("p", "n1", tolerations=[tolerates("maint", 300)]))

    assert eviction.offset_seconds == 70.0
    assert all(link.object != "kube-controller-manager" for link in eviction.because)
    assert (moved.offset_seconds, only(restarted).offset_seconds) == (310.0, 405.0)
    chain = [(link.offset_seconds, link.object) for link in only(restarted).because]
    assert (105.0, "kube-controller-manager") in chain


def test_a_timer_that_died_with_its_process_keeps_no_first_start() -> None:
    """Another taint that comes after a restart meets a new timer."""
    pod = make_pod("p", "n1", tolerations=[tolerates("maint", 300), tolerates("other", 300)])
    second = make_event(150, "taint", "n1", taint="other:NoExecute")
    restart = [make_event(100, "controller-stop"), make_event(200, "controller-start")]

    assert objects(warn(["n1"], [pod], [TAINT, second]), "timer-keeps-first-start") == ["default/p"]
    warnings = warn(["n1"], [pod], [TAINT, restart[0], second, restart[1]])
    assert objects(warnings, "timer-keeps-first-start") is None
    assert objects(warnings, "controller-restart-resets-timers") == []


def test_a_chain_of_another_run_says_why_the_node_was_tainted() -> None:
    """Of two nodes that wait for one token only the first is evicted in the nominal run."""
    nodes = ("n1", "n2", "n3", "n4", "n5")
    pods = [make_pod(f"p{n}", f"n{n}", tolerations=[tolerates(UNREACHABLE, 20)]) for n in (1, 2)]
    snapshot = make_snapshot(nodes, pods)
    scenario = make_scenario([make_event(1, "kubelet-stop", ["n1", "n2"])], horizon=75)
    links = {
        eviction.pod: [link.rule for link in eviction.because]
        for eviction in run([], snapshot=snapshot, scenario=scenario).evictions
    }

    assert set(links) == {"p1", "p2"}
    for rules in links.values():
        assert rules[-4:] == [
            "markNodeForTainting",
            "doNoExecuteTaintingPass",
            "processPodOnNode",
            "deletePodHandler",
        ]
        assert "tryUpdateNodeHealth" in rules


def test_a_finalizer_on_a_silent_node_is_told_with_the_silence() -> None:
    held = make_pod("p", "n1", grace_seconds=30, finalizers=["a.b/c"])
    gone = only(run([make_event(5, "kubelet-stop", "n1"), TAINT], held)).gone

    assert gone.stuck == (f"{Stuck.FINALIZERS.value}: a.b/c; and {Stuck.KUBELET_SILENT.value}")
    assert only(run([TAINT], held)).gone.stuck == f"{Stuck.FINALIZERS.value}: a.b/c"


def test_a_pod_that_only_gives_its_name_to_another_is_not_told_of() -> None:
    leaving = App("db", ["b1", "a1"], "StatefulSet", most=1)
    snapshot = drained_cluster(leaving)
    first, *rest = snapshot.pods
    ends = replace(first, deletion_timestamp_ns=snapshot.taken_at_ns + ns(5))
    found = replace(snapshot, pods=(ends, *rest))
    prediction = predict(found, drains(drain("a1")), CONFIGURATION, assume_ready=READY)
    assert "default/db-0" not in [one.key for one in prediction.kept]


def test_a_pod_ends_by_its_own_grace_period_and_not_by_that_of_one_before_it() -> None:
    """The first pod of its name is gone as soon as somebody deletes it; the second one waits for a kubelet that is silent."""
    new = make_pod("p", "n1", grace_seconds=30, created=None, uid="new")
    events = [
        make_event(3, "pod-delete", pods=["default/p"]),
        make_event(3, "pod-create", pod=new),
        make_event(5, "kubelet-stop", "n1"),
        TAINT,
    ]
    prediction = run(events, make_pod("p", "n1", grace_seconds=0))
    gone = only(prediction).gone
    assert (gone.latest_seconds, gone.stuck) == (None, Stuck.KUBELET_SILENT.value)
