"""Taints that a tick itself writes come when the tick does: what happens to pods meanwhile meets ticks."""

from __future__ import annotations

import pytest

from builders import make_event, make_node, make_pod, make_scenario, make_snapshot, tolerates
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Pod
from kubectl_evictplan.kube.taints import NOT_READY, UNREACHABLE
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent


def swapped(pod: Pod, event: ScenarioEvent) -> list[tuple[float, float]]:
    """When the pod goes of a node that is not ready, and whose taint a tick exchanges between 67 and 72."""
    nodes = [make_node(f"n{number}", zone="a") for number in range(1, 7)]
    events = [
        make_event(2, "node-ready", ("n1",), status="False"),
        make_event(20, "kubelet-stop", ("n1",), last_heartbeat=17),
        event,
    ]
    prediction = predict(
        make_snapshot(nodes, [pod]),
        make_scenario(events, horizon=200),
        resolve_configuration(ControllerSettings(kubernetes_version="1.35.0"), ControlPlaneFlags()),
    )
    evictions = [each for each in prediction.evictions if each.controller == "taint-eviction"]
    return [
        (window.earliest_seconds, pytest.approx(window.latest_seconds, abs=0.2))
        for eviction in evictions
        for window in eviction.windows
    ]


def test_up_to_the_deletion_of_a_pod_any_tick_may_exchange_the_taint() -> None:
    pod = make_pod("p", "n1", grace_seconds=0, tolerations=[tolerates(NOT_READY)])
    assert swapped(pod, make_event(70, "pod-delete", pods=("default/p",))) == [(67, 70)]


def test_a_countdown_that_such_a_tick_starts_ends_before_its_process_does_or_not() -> None:
    tolerations = [tolerates(NOT_READY), tolerates(UNREACHABLE, 10)]
    pod = make_pod("p", "n1", tolerations=tolerations)
    assert swapped(pod, make_event(80, "controller-stop")) == [(77, 80)]
