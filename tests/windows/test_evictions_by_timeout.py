"""Up to 1.18 without taint manager: pods of a silent node are deleted in the zone's line, by the node's name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from builders import (
    START_NS,
    UNREACHABLE,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings


@pytest.mark.parametrize("deleted", [60, 60.2])
def test_a_node_that_is_deleted_while_it_waits_loses_its_pods_all_the_same(deleted: float) -> None:
    names = ("n0", "n1", "n2", "n3")
    snapshot = make_snapshot(
        [make_node(name, zone="a") for name in names], [make_pod("p", "n0"), make_pod("q", "n1")]
    )
    events = [
        make_event(0.5, "kubelet-stop", "n1", last_heartbeat=0.5),
        make_event(2, "kubelet-stop", "n0", last_heartbeat=2),
        make_event(deleted, "node-delete", "n0"),
    ]
    flags = {"enable-taint-manager": "false", "pod-eviction-timeout": "10s"}
    settings = ControllerSettings(kubernetes_version="1.18.6", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(events, horizon=90), configuration)
    latest = {row.pod: row.latest_seconds for row in prediction.evictions}
    # The second token comes some ten seconds after the first, whoever gets that.
    assert latest["p"] == latest["q"] > deleted
    assert {row.certainty for row in prediction.evictions} == {"certain"}


def test_a_taint_that_is_left_on_a_node_tells_nothing_of_its_place_in_line() -> None:
    taint = f"{UNREACHABLE}:NoExecute"
    for taints in ([], [taint]):
        snapshot = make_snapshot(
            [make_node("n0", taints=taints), "n1", "n2"], [make_pod("p", "n0")]
        )
        flags = {"enable-taint-manager": "false", "pod-eviction-timeout": "60s"}
        settings = ControllerSettings(kubernetes_version="1.18.6", flags=flags)
        configuration = resolve_configuration(settings, snapshot.control_plane)
        silent = make_event(1, "kubelet-stop", "n0", last_heartbeat=0)
        (row,) = predict(snapshot, make_scenario([silent], horizon=200), configuration).evictions
        assert row.certainty == "certain"
        assert row.earliest_seconds == 60 and 65 < row.latest_seconds < 66


def test_the_timeout_of_a_young_process_counts_from_its_own_first_tick() -> None:
    down = make_node("n0", ready="False", heartbeat=-60)
    snapshot = make_snapshot([down, "n1", "n2"], [make_pod("p", "n0")])
    leader = replace(snapshot.control_plane, leader_acquire_time_ns=START_NS - ns(7))
    flags = {"enable-taint-manager": "false", "pod-eviction-timeout": "60s"}
    configuration = resolve_configuration(ControllerSettings("1.18.6", flags=flags), leader)
    young = replace(snapshot, control_plane=leader)
    (row,) = predict(young, make_scenario([], horizon=200), configuration).evictions
    # It ticks for the first time within a period of its start, 7 s ago; passes come 0.1 s later.
    assert row.earliest_seconds == 53 and 58 < row.latest_seconds < 58.3


def test_the_timeout_counts_from_the_tick_that_saw_the_node_not_ready_whenever_that_came() -> None:
    flags = {"enable-taint-manager": "false", "pod-eviction-timeout": "60s"}
    for down in (
        make_node("n0", ready="False", heartbeat=-4, transition=-4),
        make_node("n0", ready="Unknown", heartbeat=-40, transition=-1),
    ):
        leases = [make_lease("n0", -44 if down.ready_status == "Unknown" else -0.5)]
        snapshot = make_snapshot([down, "n1", "n2"], [make_pod("p", "n0")], leases=leases)
        settings = ControllerSettings(kubernetes_version="1.18.6", flags=flags)
        configuration = resolve_configuration(settings, snapshot.control_plane)
        (row,) = predict(snapshot, make_scenario([], horizon=200), configuration).evictions
        seen = -4 if down.ready_status == "False" else -44
        assert row.earliest_seconds == pytest.approx(seen + 60, abs=0.01)
        assert row.latest_seconds == pytest.approx(seen + 65, abs=0.3)


def test_who_comes_to_an_evicted_node_is_spared_where_its_kubelet_is_heard_once_more() -> None:
    """A new heartbeat does not make the node Ready, but the timeout counts anew from it."""
    flags = {
        "node-monitor-period": "1s",
        "node-monitor-grace-period": "6s",
        "pod-eviction-timeout": "9s",
        "enable-taint-manager": "false",
    }
    nodes = [make_node("n0"), make_node("n1")]
    leases = [make_lease("n0", -0.5, duration_seconds=6), make_lease("n1", -7, duration_seconds=6)]
    snapshot = make_snapshot(nodes, [make_pod("p", "n1")], leases=leases)
    events = [
        make_event(15, "kubelet-stop", "n1", last_heartbeat=15),
        make_event(18, "pod-create", pod=make_pod("late", "n1", created=None)),
    ]
    configuration = resolve_configuration(
        ControllerSettings("1.23.13", flags=flags), snapshot.control_plane
    )
    prediction = predict(snapshot, make_scenario(events, horizon=60), configuration)
    [late] = (one for one in prediction.evictions if one.pod == "late")
    # Not at once: at the earliest 9 s after that heartbeat, or never.
    assert late.certainty == "possible" or late.earliest_seconds >= 24
    assert late.latest_seconds >= 24
