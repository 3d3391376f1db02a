"""Taints that a tick itself writes come when the tick does: what happens to pods meanwhile meets ticks."""

from __future__ import annotations

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Pod
from kubectl_evictplan.kube.taints import NOT_READY, UNREACHABLE
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate

Span = tuple[float, float]


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


def down_at_once(release: str, flags: dict[str, str], *events: ScenarioEvent) -> list[Span]:
    """When a pod goes that tolerates taints for a second, of the last node, which one tick finds not ready and takes back."""
    pod = make_pod("p", "n0", grace_seconds=0, tolerations=default_tolerations(1))
    snapshot = make_snapshot([make_node("n0")], [pod])
    scenario = make_scenario(
        [make_event(4.04, "node-ready", ["n0"], status="False"), *events], horizon=60
    )
    settings = ControllerSettings(release, flags={"node-monitor-period": "2s", **flags})
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    evictions = predict(snapshot, scenario, configuration).evictions
    return [
        (window.earliest_seconds, window.latest_seconds)
        for eviction in evictions
        for window in eviction.windows
    ]


def test_a_pass_inside_a_tick_that_finds_all_nodes_down_may_start_a_countdown_that_just_ends() -> (
    None
):
    # The tick comes up to 2.01 s after the node has posted that it is not ready, and process or pod end 2.705 s after it.
    for end in (
        make_event(6.745, "controller-stop"),
        make_event(6.745, "pod-delete", pods=("default/p",)),
    ):
        assert down_at_once("1.26.8", {}, end) == [(5.04, 6.745)]


def test_so_may_a_pass_without_taint_manager_just_delete_its_pods() -> None:
    # n0 is silent, and its pods are due 6 s after its last renewal; the tick that finds so is the first to find n1 down as well.
    nodes = [make_node("n0"), make_node("n1")]
    leases = [make_lease(node.name, -0.3, duration_seconds=4) for node in nodes]
    pod = make_pod("p", "n0", grace_seconds=0)
    snapshot = make_snapshot(nodes, [pod], leases=leases)
    flags = {"node-monitor-period": "2s", "node-monitor-grace-period": "3s"}
    flags |= {"enable-taint-manager": "false", "pod-eviction-timeout": "5s"}
    settings = ControllerSettings("1.18.20", flags=flags)
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    scenario = make_scenario(
        [
            make_event(2.5, "kubelet-stop", ["n0"], last_heartbeat=2.4),
            make_event(4.5, "kubelet-stop", ["n1"], last_heartbeat=4.4),
            make_event(9, "pod-delete", pods=("default/p",)),
        ],
        horizon=60,
    )
    (eviction,) = predict(snapshot, scenario, configuration).evictions
    assert [(each.earliest_seconds, each.latest_seconds) for each in eviction.windows] == [(8.4, 9)]
    for phase in (0.41, 0.6, 0.99):
        timing = Timing(monitor_phase_ns=ns(phase), mid_tick_pass=True)
        entries = simulate(snapshot, scenario, configuration, timing).entries
        deleted = next(each.at_ns for each in entries if isinstance(each, PodDeleted))
        assert deleted == ns(8 + phase)


def test_who_waits_at_the_start_gets_the_other_taint_exchanged_by_the_next_tick_and_not_at_once() -> (
    None
):
    """What put it in line was a tick of before the start, which saw no taint that somebody puts on in this instant."""
    nodes = [
        make_node("n0", ready="Unknown", transition=-30, heartbeat=-90),
        make_node("n1", ready="Unknown", transition=-30, heartbeat=-90),
    ]
    pods = [make_pod("p", "n0", tolerations=[tolerates(NOT_READY)])]
    leases = [make_lease(name, -90) for name in ("n0", "n1")]
    snapshot = make_snapshot(nodes, pods, leases=leases)
    put = make_event(0, "taint", "n0", taint=f"{NOT_READY}:NoExecute")
    configuration = resolve_configuration(ControllerSettings("1.34.4"), snapshot.control_plane)
    prediction = predict(snapshot, make_scenario([put], horizon=60), configuration)
    [eviction] = prediction.evictions
    assert eviction.earliest_seconds == 0 and eviction.latest_seconds >= 5
