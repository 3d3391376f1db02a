"""How far an answer says that it looks, when nobody gave a horizon."""

from __future__ import annotations

from building.builders import make_event, make_pod, make_scenario, make_snapshot, ns
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.durations import SECOND_NS, parse_duration_ns
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings


def test_nothing_that_is_told_may_happen_after_nothing_more_can_happen() -> None:
    snapshot = make_snapshot(["n0", "n1"], [make_pod("p", "n0"), make_pod("q", "missing")])
    configuration = resolve_configuration(ControllerSettings("1.34.4"), snapshot.control_plane)
    scenario = make_scenario([make_event(0, "kubelet-stop", "n0")], horizon=None)
    prediction = predict(snapshot, scenario, configuration)
    end_ns = parse_duration_ns(str(prediction.inputs.horizon.value))
    latest = [each.latest_seconds for each in prediction.evictions]
    latest += [each.latest_seconds for node in prediction.nodes for each in node.changes]
    assert latest and max(latest) <= end_ns / SECOND_NS <= max(latest) + 0.001


def test_what_the_scenario_may_do_late_happens_before_nothing_more_can_happen() -> None:
    snapshot = make_snapshot(["n0"], [make_pod("p", "n0")])
    configuration = resolve_configuration(ControllerSettings("1.34.4"), snapshot.control_plane)
    back = replace(make_event(20, "controller-start"), within_ns=ns(9.4))
    scenario = make_scenario([make_event(0, "controller-stop"), back], horizon=None)
    prediction = predict(snapshot, scenario, configuration)
    end_ns = parse_duration_ns(str(prediction.inputs.horizon.value))
    assert end_ns >= ns(29.4)
