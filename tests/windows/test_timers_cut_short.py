"""Timers that run out just before something would have stopped them."""

from __future__ import annotations

from builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from kubectl_evictplan.cluster.timeline import MasterDisruptionEntered, PodDeleted
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.simulate import simulate

NODES = ("n0", "n1", "n2", "n3", "n4")
SNAPSHOT = make_snapshot(
    [make_node(name) for name in NODES],
    [make_pod("p", "n0", tolerations=default_tolerations(30))],
)
# The last nodes fall silent, and all taints go, about when the timer of the first ones runs out.
SCENARIO = make_scenario(
    [
        make_event(42.124, "kubelet-stop", ["n0", "n3"], last_heartbeat=42.124),
        make_event(83.452, "kubelet-stop", ["n1", "n2", "n4"], last_heartbeat=82.552),
    ],
    horizon=300,
)
CONFIGURATION = resolve_configuration(
    ControllerSettings(kubernetes_version="1.18.6"), SNAPSHOT.control_plane
)


def test_a_pod_that_just_goes_before_the_master_disruption_is_in_its_window() -> None:
    timeline = simulate(SNAPSHOT, SCENARIO, CONFIGURATION, Timing(monitor_phase_ns=664_025_241))
    (disruption_ns,) = (e.at_ns for e in timeline.entries if isinstance(e, MasterDisruptionEntered))
    deletions = [e.at_ns for e in timeline.entries if isinstance(e, PodDeleted)]

    (eviction,) = predict(SNAPSHOT, SCENARIO, CONFIGURATION).evictions

    assert eviction.certainty == "possible"
    assert eviction.latest_seconds is not None
    assert deletions
    for at_ns in deletions:
        assert at_ns < disruption_ns
        assert eviction.earliest_seconds <= at_ns / 1e9 <= eviction.latest_seconds


def test_a_timer_that_has_deleted_its_pod_is_not_cancelled_by_the_end_of_it() -> None:
    pods = [make_pod("p", "n0", tolerations=default_tolerations(30), phase="Succeeded")]
    going = make_pod("q", "n0", tolerations=default_tolerations(30), deleted=-1)
    snapshot = make_snapshot(NODES, [*pods, going])
    scenario = make_scenario([make_event(1, "kubelet-stop", "n0")], horizon=300)
    prediction = predict(snapshot, scenario, CONFIGURATION)
    assert "p" in [row.pod for row in prediction.evictions]
    assert not prediction.cancelled
