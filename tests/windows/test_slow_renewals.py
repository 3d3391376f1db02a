"""Kubelets that renew so slowly that their nodes are given up in between: nobody knows when, for renewals jitter."""

from __future__ import annotations

import pytest
from building.builders import (
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent


def certainties(lease_seconds: int, *events: ScenarioEvent, renewed: float = -1) -> set[str]:
    """Of all that the monitor does to n0 whose grace period is 6 s."""
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "6s"}
    configuration = resolve_configuration(
        ControllerSettings("1.29.6", flags=flags), ControlPlaneFlags()
    )
    lease = make_lease("n0", renewed, duration_seconds=lease_seconds)
    snapshot = make_snapshot(
        [make_node("n0"), make_node("n1")], leases=[lease], lease_duration_seconds=6
    )
    prediction = predict(snapshot, make_scenario(list(events), horizon=40), configuration)
    return {
        change.certainty
        for report in prediction.nodes
        for change in report.changes
        if report.node == "n0" and change.value == "Unknown"
    }


# A quarter of the duration, and up to 4 % more: 5.75 s and 5.98 s, or 6 s and 6.24 s.
@pytest.mark.parametrize(("lease_seconds", "found"), [(23, {"certain"}), (24, {"possible"})])
def test_only_of_a_kubelet_that_renews_in_time_it_is_certain_when_its_node_is_given_up(
    lease_seconds: int, found: set[str]
) -> None:
    stop = make_event(2, "kubelet-stop", "n0", last_heartbeat=1)
    assert certainties(lease_seconds, stop) == found


def test_renewals_of_a_kubelet_that_is_silent_do_not_count_however_slow_they_were() -> None:
    assert certainties(24, renewed=-20) == {"certain"}


def test_a_kubelet_that_renews_too_slowly_counts_from_when_it_is_back() -> None:
    assert certainties(24, make_event(10, "kubelet-start", "n0"), renewed=-20) == {"possible"}


@pytest.mark.parametrize(("ready", "found"), [(None, {"certain"}), ("True", {"possible"})])
def test_a_node_that_is_created_counts_only_if_it_has_a_kubelet(
    ready: str | None, found: set[str]
) -> None:
    created = make_event(1, "node-create", node=make_node("n2", ready=ready))
    assert certainties(6, created, make_event(2, "kubelet-stop", "n0", last_heartbeat=1)) == found


@pytest.mark.parametrize(("lease_seconds", "found"), [(23, set()), (24, {"possible"})])
def test_pods_of_a_kubelet_that_renews_too_slowly_may_go_although_it_never_stops(
    lease_seconds: int, found: set[str]
) -> None:
    """Up to 6.24 s lie between its renewals: a tick may come a grace period after the one that saw the last."""
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "6s"}
    configuration = resolve_configuration(
        ControllerSettings("1.29.6", flags=flags), ControlPlaneFlags()
    )
    snapshot = make_snapshot(
        [make_node("n0"), make_node("n1")],
        [make_pod("p", "n1")],
        leases=[make_lease(name, -1, duration_seconds=lease_seconds) for name in ("n0", "n1")],
    )
    prediction = predict(snapshot, make_scenario([make_event(1, "cordon", "n0")]), configuration)
    assert {eviction.certainty for eviction in prediction.evictions} == found
