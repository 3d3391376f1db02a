"""Nodes beside which nobody waits: what comes from different ticks is told apart."""

from __future__ import annotations

from building.builders import (
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings


def windows_of(*silent: str) -> list[tuple[int, int]]:
    """Windows of n0's pod, in whole seconds, with ticks known to come at 2 s, 7 s, ...

    Kubelets renew every 10.0 to 10.4 s, so nobody knows whether the sixth renewal came before the tick at 62 s.
    """
    names = ["n0", "n1", "n2"]
    snapshot = make_snapshot(
        [make_node(name) for name in names],
        [make_pod("p", "n0")],
        leases=[make_lease(name, 0) for name in names],
    )
    settings = ControllerSettings("1.29.6", 2_000_000_000)
    scenario = make_scenario([make_event(69, "kubelet-stop", silent)], horizon=200)
    prediction = predict(
        snapshot, scenario, resolve_configuration(settings, snapshot.control_plane)
    )
    (eviction,) = prediction.evictions
    return [
        (int(window.earliest_seconds), int(window.latest_seconds)) for window in eviction.windows
    ]


def test_windows_of_a_node_that_waits_alone_are_apart_where_ticks_are() -> None:
    assert windows_of("n0") == [(107, 107), (112, 112)]


def test_windows_of_a_node_in_company_are_one_for_all_places_in_the_line() -> None:
    assert windows_of("n0", "n1") == [(107, 122)]
