"""Deleted pods that are still there when something else happens to their node, or gone by then."""

from __future__ import annotations

from builders import make_event, make_node, make_pod, make_scenario, make_snapshot
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings


def test_a_pod_deleted_at_the_start_may_be_gone_when_its_node_gets_the_next_taint() -> None:
    snapshot = make_snapshot(
        [make_node("n0", taints=["A:NoExecute"])], [make_pod("p", "n0", grace_seconds=30)]
    )
    scenario = make_scenario([make_event(11, "taint", ["n0"], taint="B:NoExecute")], horizon=60)
    configuration = resolve_configuration(
        ControllerSettings(kubernetes_version="1.33.4"), snapshot.control_plane
    )

    evictions = predict(snapshot, scenario, configuration).evictions

    told = [(each.offset_seconds, each.certainty) for each in evictions]
    assert told == [(0.0, "certain"), (11.0, "possible")]
