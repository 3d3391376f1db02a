"""When a scenario may start, and what a dump that took a moment means."""

from __future__ import annotations

from building.builders import (
    STEPS,
    make_event,
    make_lease,
    make_node,
    make_scenario,
    make_snapshot,
    ns,
)

from kubectl_evictplan.kube.durations import DURATION_MAX_NS
from kubectl_evictplan.kube.timestamps import LAST_INSTANT_NS
from kubectl_evictplan.scenarios.scenario import start_problem
from kubectl_evictplan.windows.unknowns.last_heartbeats import last_heartbeat_window


def test_a_start_minutes_before_the_snapshot_is_refused() -> None:
    snapshot = make_snapshot([make_node("a")])

    assert "before the snapshot was taken" in start_problem(
        snapshot.taken_at_ns - ns(120), snapshot
    )


def test_a_lease_renewed_while_the_dump_was_taken_does_not_refuse_the_start() -> None:
    snapshot = make_snapshot([make_node("a")])

    assert start_problem(snapshot.taken_at_ns - ns(0.2), snapshot) == ""


def test_a_renewal_seen_after_the_start_does_not_tell_the_last_one_before_the_stop() -> None:
    snapshot = make_snapshot([make_node("a")], leases=[make_lease("a", renewed=0.2)])
    scenario = make_scenario([make_event(0, "kubelet-stop", "a")])

    assert last_heartbeat_window(snapshot, scenario, 0, "a", STEPS) == (ns(-10.4), 0)


def test_a_start_from_which_an_event_could_lie_beyond_the_year_9999_is_refused() -> None:
    snapshot = make_snapshot([make_node("a")])
    latest_ns = LAST_INSTANT_NS - DURATION_MAX_NS

    assert start_problem(latest_ns, snapshot) == ""
    assert "too near the end of the year 9999" in start_problem(latest_ns + 1, snapshot)
