"""Drains to which something else happens: their windows are proven, or have no latest instant."""

from __future__ import annotations

import random

import pytest
from building.builders import make_conditions, make_event, ns
from drawn.drain_worlds import (
    CONFIGURATION,
    READY,
    App,
    DrainedWorld,
    drain,
    drained_cluster,
    drains,
    proven,
    row,
)
from drawn.soak_worlds import draw_soak_world, ready_of
from msgspec.structs import replace
from realities.drawn_drains import contradictions, mixed_reality

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.timeline import EVICTION_API, POD_GC, TAINT_EVICTION, DrainEnd
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, ClusterSnapshot, Taint
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.windows.drains.bounds import DrainBounds

WEB = App("web", ["a1", "a1", "b1"], most=1)
FREE = App("free", ["a1"])
DAY = 86_400.0


def predicted(snapshot: ClusterSnapshot, *events: ScenarioEvent) -> Prediction:
    return predict(snapshot, drains(*events), CONFIGURATION, assume_ready=READY)


def told(prediction: Prediction, controller: str = EVICTION_API) -> dict[str, tuple[float, float]]:
    return {
        one.pod: (one.earliest_seconds, one.latest_seconds)
        for one in prediction.evictions
        if one.controller == controller
    }


def certainties(prediction: Prediction) -> dict[str, str]:
    return {one.pod: one.certainty for one in prediction.evictions}


def dead(snapshot: ClusterSnapshot, name: str) -> ClusterSnapshot:
    """The cluster with a node that was given up long ago: nobody is there any more, and nobody comes."""
    lost = tuple(
        Taint("node.kubernetes.io/unreachable", effect) for effect in (NO_SCHEDULE, NO_EXECUTE)
    )
    silent = make_conditions("Unknown", heartbeat=-900, transition=-860)
    nodes = tuple(
        replace(node, conditions=silent, taints=lost) if node.name == name else node
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes)


def only_end(bounds: DrainBounds) -> tuple[float, float | None]:
    [turn] = bounds.turns.values()
    assert turn.end is not None
    latest_ns = turn.end.latest_ns
    return turn.end.earliest_ns / 1e9, None if latest_ns is None else latest_ns / 1e9


# -- what something else leaves ------------------------------------------------------------------------


def test_whom_no_budget_keeps_goes_at_once_whatever_happens_to_other_nodes() -> None:
    taint = make_event(0.5, "taint", "b2", taint="x=y:NoExecute")
    prediction = predicted(drained_cluster(WEB, FREE), drain("a1"), taint)
    assert certainties(prediction)["free-0"] == CERTAIN


def test_a_budget_whose_pods_somebody_else_takes_keeps_kubectl_perhaps_for_ever() -> None:
    taint = make_event(1.1, "taint", "b1", taint="x=y:NoExecute")
    prediction = predicted(drained_cluster(WEB, FREE), drain("a1"), taint)
    windows = told(prediction)
    assert windows["web-0"] == windows["web-1"] == (pytest.approx(1.033), DAY)
    assert windows["free-0"][1] < 2
    found = certainties(prediction)
    assert (found["free-0"], found["web-0"], found["web-1"]) == (CERTAIN, POSSIBLE, POSSIBLE)


def test_until_something_else_happens_all_is_as_without_it() -> None:
    closed = drained_cluster(App("web", ["a1", "b1"], least=2, unready=(1,)))
    assert told(predicted(closed, drain("a1"))) == {}
    # What is made in its stead will be Ready.
    deleted = make_event(50, "pod-delete", pods="default/web-1")
    assert told(predicted(closed, drain("a1"), deleted)) == {"web-0": (50.0, DAY)}


def test_a_timeout_ends_what_a_budget_might_keep_for_ever() -> None:
    taint = make_event(1.1, "taint", "b1", taint="x=y:NoExecute")
    prediction = predicted(drained_cluster(WEB), drain("a1", timeout_ns=ns(60)), taint)
    assert all(61 < latest < 75 for _, latest in told(prediction).values())
    [report] = prediction.drains
    assert report.end_latest_seconds is not None and report.end_latest_seconds < 110


def test_a_budget_of_which_nothing_else_touches_a_pod_opens_again_beside_a_node_that_is_dead() -> (
    None
):
    whole, lost = drained_cluster(WEB), dead(drained_cluster(WEB), "b2")
    assert certainties(predicted(lost, drain("a1"))) == {"web-0": CERTAIN, "web-1": CERTAIN}
    latest = {pod: window[1] for pod, window in told(predicted(lost, drain("a1"))).items()}
    assert latest == {pod: window[1] for pod, window in told(predicted(whole, drain("a1"))).items()}


def test_what_is_made_anew_on_a_node_that_may_fail_may_never_be_ready() -> None:
    silent = make_event(4, "kubelet-stop", "b2")
    windows = told(predicted(drained_cluster(WEB), drain("a1"), silent))
    assert {latest for _, latest in windows.values()} == {DAY}


def test_while_the_controllers_are_away_a_budget_waits_for_them_and_no_longer() -> None:
    away = make_event(0.5, "controller-stop"), make_event(40, "controller-start")
    prediction = predicted(drained_cluster(WEB), drain("a1"), *away)
    assert all(45 < latest < 70 for _, latest in told(prediction).values())
    assert set(certainties(prediction).values()) == {CERTAIN}
    [report] = predicted(drained_cluster(WEB), drain("a1"), away[0]).drains
    assert report.end_latest_seconds is None


# -- the node itself ----------------------------------------------------------------------------------------


def test_whatever_happens_to_the_node_kubectl_waits_for_whom_the_kubelet_ends() -> None:
    free = drained_cluster(App("free", ["a1"], grace=30))
    tainted = proven(free, drain("a1"), make_event(2, "taint", "a1", taint="x=y:NoExecute"))
    assert only_end(tainted)[1] == pytest.approx(33, abs=1.5)
    silent = proven(free, drain("a1"), make_event(2, "kubelet-stop", "a1"))
    assert only_end(silent)[1] is None


def test_whom_kubectl_gave_up_is_there_as_long_as_a_kubelet_that_falls_silent_does_not_end_it() -> (
    None
):
    free = drained_cluster(App("free", ["a1"], grace=30))
    drains = [drain("a1", at=1, timeout_ns=ns(5))] * 2
    for stop, gone in ((20, DAY), (60, 33)):
        bounds = proven(free, *drains, make_event(stop, "kubelet-stop", "a1"))
        found = row(bounds, "free-0").gone
        assert found is not None
        assert found.latest_ns is not None
        assert found.latest_ns / 1e9 == pytest.approx(gone, abs=1.5)


def test_who_is_gone_because_somebody_else_deletes_it_is_not_evicted_after_that() -> None:
    deleted = make_event(3, "node-delete", "a1")
    prediction = predicted(drained_cluster(WEB), drain("a1"), deleted)
    # Garbage collection does so 40 s to 80 s after the node.
    for first, last in told(prediction, POD_GC).values():
        assert (first, last) == (43.0, pytest.approx(83.1, abs=0.1))
    for _, last in told(prediction).values():
        assert last == pytest.approx(83.1, abs=0.1)


def test_kubectl_may_meet_whoever_comes_to_a_node_that_is_not_tainted_any_more() -> None:
    app = App("web", ["b1", "b2"], grace=30)
    snapshot = drained_cluster(app)
    nodes = tuple(
        replace(node, taints=(Taint("x", NO_EXECUTE),)) if node.name == "a1" else node
        for node in snapshot.nodes
    )
    events = (
        make_event(1, "untaint", "a1", taint="x:NoExecute"),
        drain("b1", at=1),
        drain("a1", at=2),
    )
    bounds = proven(replace(snapshot, nodes=nodes), *events)
    [turn] = [one for drain, one in bounds.turns.items() if drain.node == "a1"]
    assert turn.end is not None
    assert turn.end.latest_ns is None or turn.end.latest_ns > ns(32)
    assert DrainEnd.DRAINED in turn.reasons


# -- worlds that drawn runs alone told before -----------------------------------------------------------------


@pytest.mark.parametrize("seed", [10500001150, 20700002621, 71001011003, 71001011570])
def test_no_window_of_a_drain_rests_on_drawn_runs(seed: int) -> None:
    world = draw_soak_world(seed).world
    assert isinstance(world, DrainedWorld)
    prediction = predict(*world, assume_ready=ready_of(seed))
    coverage = prediction.inputs.coverage
    assert coverage is not None
    assert (coverage.explored, coverage.explored_nodes) == (0, ())
    times = ReadyTimes(*ready_of(seed))
    for number in range(6):
        run = mixed_reality(world, random.Random(number), times)
        assert contradictions(run, prediction, world.scenario) == []


def test_whoever_a_budget_keeps_is_asked_for_once_more_when_others_have_deleted_it() -> None:
    """The first try lets one of three pods go. The node's silence has the others deleted, and kubectl's next try finds no budget asked."""
    kept = App("kept", ["a1"] * 3, kind="", least=2, grace=10)
    silent = make_event(9.7, "kubelet-stop", "a1")
    prediction = predicted(drained_cluster(kept), drain("a1", force=True), silent)
    deleted, asked = told(prediction, TAINT_EVICTION), told(prediction)
    assert deleted.keys() == asked.keys()
    by = max(latest for _, latest in deleted.values())
    assert all(latest > by + 5 for _, latest in asked.values())


def test_a_budget_lets_nobody_else_go_before_there_are_controllers() -> None:
    """None run at the start: no replacement is made until they do, and no status is written. Whoever is not Ready goes at once."""
    closed = drained_cluster(App("web", ["a1", "a1", "b1", "b1", "b1"], most=2, unready=(1, 2)))
    begun = make_event(60, "controller-start")
    usual, late = (
        predicted(closed, drain("a1"), *events).drains[0].end_latest_seconds
        for events in ((), (begun,))
    )
    assert usual is not None
    assert late is not None
    assert usual < 60 < late


def test_beside_drains_kubelets_report_ends_later_on_all_nodes() -> None:
    taint = make_event(5, "taint", "b1", taint="a=b:NoExecute")
    [free] = drained_cluster(FREE).pods
    app = App("other", ["b1"], grace=10)
    [ended] = [
        one
        for one in predicted(drained_cluster(FREE, app), drain("a1"), taint).evictions
        if one.pod == "other-0"
    ]
    assert free.node_name == "a1"
    assert ended.latest_seconds == 5
    assert 15 < (ended.gone.latest_seconds or 0) < 17
