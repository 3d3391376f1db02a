"""Deleted pods that are still there when something else happens to their node, or gone by then."""

from __future__ import annotations

from collections.abc import Iterable

from builders import make_event, make_node, make_pod, make_scenario, make_snapshot
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent


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
