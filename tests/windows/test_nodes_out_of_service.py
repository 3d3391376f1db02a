"""Pods of nodes that are out of service: pod garbage collection deletes those that are on their way out."""

from __future__ import annotations

from building.builders import (
    UNREACHABLE,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    tolerates,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import Toleration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service:NoSchedule"


def collected(*later: ScenarioEvent, tolerations: tuple[Toleration, ...]) -> list[tuple[int, int]]:
    """When garbage collection deletes a pod with a grace period of 30 s, in whole seconds; its node is silent from 10 s on."""
    snapshot = make_snapshot(
        [make_node("n0"), make_node("n1")],
        [make_pod("p", "n0", tolerations=tolerations, grace_seconds=30)],
        leases=[make_lease("n0", 0), make_lease("n1", 0)],
    )
    silent = make_event(10, "kubelet-stop", "n0", last_heartbeat=10)
    shut_down = make_event(20, "taint", "n0", taint=OUT_OF_SERVICE)
    configuration = resolve_configuration(ControllerSettings("1.33.4"), snapshot.control_plane)
    scenario = make_scenario([silent, shut_down, *later], horizon=200)
    evictions = predict(snapshot, scenario, configuration).evictions
    return [
        (int(window.earliest_seconds), int(window.latest_seconds))
        for eviction in evictions
        if eviction.controller == "pod-gc"
        for window in eviction.windows
    ]


def test_a_pod_that_a_taint_deletes_is_collected_by_the_first_loop_after_that() -> None:
    stays = (tolerates(UNREACHABLE, None),)
    assert collected(tolerations=stays) == []
    tainted = make_event(93, "taint", "n0", taint="A:NoExecute")
    assert collected(tainted, tolerations=stays) == [(93, 113)]


def test_a_pod_that_node_lifecycle_has_deleted_is_collected_by_the_first_loop_after_that() -> None:
    assert collected(tolerations=()) == [(65, 90)]


def test_a_pod_is_collected_no_later_than_it_is_gone() -> None:
    back = make_event(110, "kubelet-start", "n0")
    tainted = make_event(93, "taint", "n0", taint="A:NoExecute")
    stays = (tolerates(UNREACHABLE, None),)
    assert collected(tainted, back, tolerations=stays) == [(93, 110)]
