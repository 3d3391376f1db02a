"""The last heartbeat that a scenario states counts, whatever the Lease shows and however late the stop is."""

from __future__ import annotations

import pytest
from building.builders import (
    STEPS,
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import KubeletSilent, NodeBecameUnknown, NodePassedOver
from kubectl_evictplan.controllers.flags import ControllerConfiguration, resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.node_courses import NodeCourses
from kubectl_evictplan.windows.unknowns.last_heartbeats import last_heartbeat_window


def settled(release: str) -> ControllerConfiguration:
    return resolve_configuration(ControllerSettings(release), ControlPlaneFlags())


def world(renewed: float, stop: float, last: float) -> tuple[ClusterSnapshot, Scenario]:
    """Two nodes; n0's Lease was renewed then, and its kubelet stops."""
    snapshot = make_snapshot(["n0", "n1"], leases=[make_lease("n0", renewed)])
    silent = make_event(stop, "kubelet-stop", "n0", last_heartbeat=last)
    return snapshot, make_scenario([silent], horizon=200)


def unknown_at(
    renewed: float, stop: float, last: float, *, release: str = "1.29.6", phase: float = 0
) -> list[float]:
    """When n0 becomes Unknown, with a grace period of 40 s and ticks every 5 s from ``phase`` on."""
    timing = Timing(monitor_phase_ns=ns(phase))
    timeline = simulate(*world(renewed, stop, last), settled(release), timing)
    assert not any(isinstance(entry, NodePassedOver) for entry in timeline.entries)
    return [entry.at_ns / 1e9 for entry in timeline.entries if isinstance(entry, NodeBecameUnknown)]


def test_a_kubelet_that_is_silent_at_the_start_is_heard_once_more_at_its_stated_last_heartbeat() -> (
    None
):
    assert unknown_at(-25, 12, 5.5) == unknown_at(-2, 12, 5.5) == [50]
    assert unknown_at(-25, 2, -3) == unknown_at(-4, 2, -3) == [40]


def test_the_silence_that_counts_is_told_with_the_stop() -> None:
    timeline = simulate(*world(-25, 12, 5.5), settled("1.29.6"), Timing())
    told = [(e.at_ns, e.last_renewal_ns) for e in timeline.entries if isinstance(e, KubeletSilent)]
    assert told == [(0, ns(-25)), (ns(12), ns(5.5))]


def test_a_node_that_is_given_up_before_its_last_heartbeat_stays_so() -> None:
    assert unknown_at(-25, 22, 21) == [15]


def test_of_a_silent_kubelet_a_last_heartbeat_before_its_lease_changes_nothing() -> None:
    assert unknown_at(-25, 3, -30) == [15]
    # Where the age of a Lease counts that is not the one on record, 1.37 passes the node over.
    assert unknown_at(-25, 3, -30, release="1.37.0") == [25]


def test_a_node_is_given_up_by_its_last_heartbeat_although_its_kubelet_stops_much_later() -> None:
    assert unknown_at(-2, 150, 5.5) == [50]


def test_a_kubelet_ends_pods_of_a_node_that_is_given_up_until_it_stops() -> None:
    def gone(stop: float) -> tuple[float | None, float | None]:
        snapshot, scenario = world(0, stop, 0.5)
        snapshot = replace(snapshot, pods=(make_pod("p", "n0", grace_seconds=1),))
        [eviction] = predict(snapshot, scenario, settled("1.29.6")).evictions
        assert (eviction.earliest_seconds, eviction.latest_seconds // 1) == (45.5, 50)
        return eviction.gone.earliest_seconds, eviction.gone.latest_seconds

    # Deleted in time it ends, later it does not.
    assert gone(48) == (45.5, None)
    assert gone(20) == (None, None)
    earliest, latest = gone(100)
    assert earliest == 45.5 and latest is not None and latest < 52


def test_bounds_and_windows_hold_both_silences_of_a_kubelet_that_is_heard_once_more() -> None:
    configuration = settled("1.29.6")
    for last in (5.5, 14, 21):
        snapshot, scenario = world(-25, last + 1, last)
        courses = NodeCourses(snapshot, scenario, configuration, ns(5.02))
        bounds = courses.of("n0").stretches[0].unknown
        assert bounds is not None
        (found,) = [
            (change.earliest_seconds, change.latest_seconds)
            for report in predict(snapshot, scenario, configuration).nodes
            for change in report.changes
            if (report.node, change.what, change.value) == ("n0", "ready", "Unknown")
        ]
        phases = (number / 4 for number in range(20))
        seen = [at for phase in phases for at in unknown_at(-25, last + 1, last, phase=phase)]
        assert bounds[0] / 1e9 <= found[0] <= min(seen) <= max(seen) <= found[1] <= bounds[1] / 1e9


def test_a_kubelet_that_is_silent_renews_no_more_before_it_stops_again() -> None:
    snapshot = make_snapshot(["n0"], renewed=-2)
    stops = [make_event(at, "kubelet-stop", "n0") for at in (5, 40)]
    assert last_heartbeat_window(snapshot, make_scenario(stops), 1, "n0", STEPS) == (ns(-2), ns(-2))


def test_bounds_hold_a_lease_older_than_the_return_which_counts_once_more_a_tick_later() -> None:
    events = [
        make_event(8, "kubelet-stop", "n0", last_heartbeat=8),
        make_event(11, "kubelet-start", "n0"),
        make_event(15, "kubelet-stop", "n0", last_heartbeat=8),
    ]
    given = make_snapshot(["n0", "n1"]), make_scenario(events, horizon=200), settled("1.29.6")
    bounds = NodeCourses(*given, ns(5.02)).of("n0").stretches[-1].unknown
    seen = [
        entry.at_ns
        for phase in range(5)
        for entry in simulate(*given, Timing(monitor_phase_ns=ns(phase))).entries
        if isinstance(entry, NodeBecameUnknown)
    ]
    assert bounds is not None and len(seen) == 5
    assert bounds[0] <= min(seen) and max(seen) <= bounds[1]


@pytest.mark.parametrize("status", [None, "Unknown"])
def test_who_was_never_heard_is_not_heard_before_it_falls_silent(status: str | None) -> None:
    """Nobody invents a heartbeat for a node without a Lease that is down already."""
    pods = [make_pod("web", "n0"), make_pod("tolerates", "n0", tolerations=default_tolerations(5))]
    snapshot = make_snapshot([make_node("n0", ready=status), "n1", "n2"], pods)
    leases = {name: lease for name, lease in snapshot.leases.items() if name != "n0"}
    snapshot = replace(snapshot, leases=leases)
    settings = ControllerSettings(kubernetes_version="1.29.6")
    configuration = resolve_configuration(settings, snapshot.control_plane)
    told = [
        [
            (row.key, row.certainty, row.windows)
            for row in predict(snapshot, make_scenario(events), configuration).evictions
        ]
        for events in ([], [make_event(0, "kubelet-stop", ["n0", "n1"])])
    ]
    assert told[0] == [row for row in told[1] if row[0] in {each[0] for each in told[0]}]
    assert [certainty for _, certainty, _ in told[0]] == ["certain", "certain"]


@pytest.mark.parametrize("ahead", [0.5, 8, 500])
def test_a_renewal_that_a_clock_wrote_which_is_ahead_does_not_tell_when_it_was(
    ahead: float,
) -> None:
    snapshot = make_snapshot(["n0", "n1"], leases=[make_lease("n0", ahead)])
    for stop in (2, 30):
        scenario = make_scenario([make_event(stop, "kubelet-stop", "n0")], horizon=200)
        told = last_heartbeat_window(snapshot, scenario, 0, "n0", STEPS)
        assert told == (ns(stop - 10.4), ns(stop))
        prediction = predict(snapshot, scenario, settled("1.29.6"))
        [gone] = [
            c for c in prediction.nodes[0].changes if (c.what, c.value) == ("ready", "Unknown")
        ]
        assert gone.earliest_seconds == stop + 40 - 10.4


def test_a_process_younger_than_such_a_renewal_may_have_heard_it_as_soon_as_it_began() -> None:
    leads = ControlPlaneFlags(leader_acquire_time_ns=epoch_ns(-1))
    plain = make_snapshot(["n0", "n1"], leases=[make_lease("n0", 100)])
    snapshot = replace(plain, control_plane=leads)
    scenario = make_scenario([make_event(2, "kubelet-stop", "n0")], horizon=200)
    assert last_heartbeat_window(snapshot, scenario, 0, "n0", STEPS)[0] < ns(-1)
    (first, *_) = predict(snapshot, scenario, settled("1.29.6")).nodes[0].changes
    assert (first.value, first.earliest_seconds) == ("Unknown", -1 + 40)
