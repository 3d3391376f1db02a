"""Deleted pods that are still there when something else happens to their node, or gone by then."""

from __future__ import annotations

from collections.abc import Iterable

from building.builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)

from kubectl_evictplan.cluster.timeline import PodGone
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate


def told(events: Iterable[ScenarioEvent]) -> list[tuple[str, float, str]]:
    """What is predicted of a pod that a taint of the start deletes, with a grace period of 30 s."""
    snapshot = make_snapshot(
        [make_node("n0", taints=["A:NoExecute"])], [make_pod("p", "n0", grace_seconds=30)]
    )
    scenario = make_scenario(list(events), horizon=120)
    configuration = resolve_configuration(
        ControllerSettings(kubernetes_version="1.33.4"), snapshot.control_plane
    )
    evictions = predict(snapshot, scenario, configuration).evictions
    return [
        (each.controller, each.windows[0].earliest_seconds, each.certainty) for each in evictions
    ]


def test_a_pod_terminating_at_the_start_may_be_gone_before_its_kubelet_falls_silent() -> None:
    snapshot = make_snapshot([make_node("n0"), make_node("n1")], [make_pod("p", "n0", deleted=-1)])
    silent = make_event(5, "kubelet-stop", "n0", last_heartbeat=4)
    configuration = resolve_configuration(ControllerSettings("1.33.4"), snapshot.control_plane)
    prediction = predict(snapshot, make_scenario([silent], horizon=120), configuration)
    assert [each.certainty for each in prediction.evictions] == ["possible"]


def test_a_delete_of_a_pod_that_is_terminating_already_is_no_row_of_its_own() -> None:
    taint = make_event(11, "taint", ["n0"], taint="B:NoExecute")
    assert told([taint]) == [("taint-eviction", 0.0, "certain")]


def test_a_pod_deleted_at_the_start_may_be_gone_before_its_node_is() -> None:
    found = told([make_event(11, "node-delete", "n0")])
    assert found == [("taint-eviction", 0.0, "certain"), ("pod-gc", 51.0, "possible")]


def test_a_kubelet_that_is_back_may_need_the_whole_grace_period_again() -> None:
    pod = make_pod("p", "n0", tolerations=default_tolerations(3), deleted=-20)
    nodes = [make_node("n0"), make_node("n1")]
    snapshot = make_snapshot(nodes, [pod], renewed=-1, lease_duration_seconds=6)
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "6s"}
    settings = ControllerSettings("1.33.4", flags=flags)
    events = [
        make_event(0.2, "kubelet-stop", "n0", last_heartbeat=0),
        make_event(8, "kubelet-start", "n0"),  # before the pod's first deadline, 10 s
        make_event(14, "kubelet-stop", "n0", last_heartbeat=14),
    ]
    configuration = resolve_configuration(settings, snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(events, horizon=60), configuration)
    (row,) = prediction.evictions
    assert row.certainty == "possible"
    # Tainted 7 s to 8 s after the last heartbeat, it goes 3 s later.
    assert 24 <= row.windows[-1].earliest_seconds < row.windows[-1].latest_seconds < 26


def test_what_was_deleted_while_its_node_was_gone_is_ended_when_the_node_is_back() -> None:
    events = [
        make_event(1, "pod-delete", pods=["default/p"]),
        make_event(2, "node-delete", "n0"),
        make_event(20, "node-create", node=make_node("n0", created=None, heartbeat=20)),
    ]
    snapshot = make_snapshot([make_node("n0")], [make_pod("p", "n0", grace_seconds=30)])
    for fraction, gone in ((0.0, 1), (0.5, 35), (1.0, 50)):
        timing = Timing(pod_exit_fraction=fraction)
        configuration = resolve_configuration(ControllerSettings("1.33.4"), snapshot.control_plane)
        run = simulate(snapshot, make_scenario(events, horizon=120), configuration, timing)
        assert [e.at_ns for e in run.entries if isinstance(e, PodGone)] == [ns(gone)]


def test_a_kubelet_that_was_back_just_before_the_start_may_need_the_whole_grace_period_again() -> (
    None
):
    node = make_node("n0", taints=["A:NoExecute"], transition=-4)
    pod = make_pod("p", "n0", deleted=-40, grace_seconds=30)
    configuration = resolve_configuration(
        ControllerSettings("1.33.4"), make_snapshot().control_plane
    )
    taint = make_event(20, "taint", ["n0"], taint="B:NoExecute")
    scenario = make_scenario([taint], horizon=60)
    [row] = predict(make_snapshot([node], [pod]), scenario, configuration).evictions
    # Its deadline was at -10.
    assert (row.certainty, row.windows[0].earliest_seconds) == ("possible", 20)
    timeline = simulate(make_snapshot([node], [pod]), scenario, configuration)
    [gone] = [entry for entry in timeline.entries if isinstance(entry, PodGone)]
    assert gone.at_ns == ns(27)  # what is cut to -4 was posted before -3
