"""A new process of kube-controller-manager: what it finds is what happened while nobody watched."""

from __future__ import annotations

import pytest
from building.builders import (
    NOT_READY,
    UNREACHABLE,
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
    tolerates,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import NodeBecameUnknown, PodDeleted
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate

FLAGS = {
    "node-monitor-period": "1s",
    "node-monitor-grace-period": "6s",
    "node-eviction-rate": "0.5",
}


def windows(event: ScenarioEvent, *, down: tuple[str, ...]) -> list[tuple[float, float]]:
    """Of the pod on n3, of five nodes of one zone."""
    nodes = [
        make_node(f"n{index}", zone="a", ready="Unknown" if f"n{index}" in down else "True")
        for index in range(1, 6)
    ]
    leases = [
        make_lease(node.name, -60 if node.name in down else -1, duration_seconds=6)
        for node in nodes
    ]
    snapshot = make_snapshot(
        nodes, [make_pod("p", "n3", tolerations=default_tolerations(1))], leases=leases
    )
    settings = ControllerSettings(kubernetes_version="1.34.4", flags=FLAGS)
    prediction = predict(
        snapshot,
        make_scenario([event], horizon=60, cold=True),
        resolve_configuration(settings, ControlPlaneFlags()),
    )
    return [
        (window.earliest_seconds, window.latest_seconds)
        for eviction in prediction.evictions
        for window in eviction.windows
    ]


def test_a_node_that_was_down_before_a_new_process_spends_its_token_on_a_taint() -> None:
    # The third node that is not ready makes the zone partial, with a rate of 0: only a pass inside
    # that very tick taints it, if a token is left. Ticks are up to 0.4 s later because of writes that conflict in the first one,
    # and a pass may write 0.2 s after its token.
    stop = make_event(4.9, "kubelet-stop", ("n3",), last_heartbeat=3.5)
    ((earliest, latest),) = windows(stop, down=("n1", "n2"))
    assert earliest == 11 and latest < 11.3 + 0.4 + 0.2


@pytest.mark.parametrize(
    ("renewed", "events"), [(-28.1, ()), (-0.9, (make_event(0.5, "kubelet-stop", ("n1",)),))]
)
def test_a_young_process_may_have_seen_a_silent_node_first_at_any_tick_since_it_began(
    renewed: float, events: tuple[ScenarioEvent, ...]
) -> None:
    # It began 66 ms before the start: its first tick, and with it the 6 s of grace, up to 934 ms after.
    names = ("n1", "n2", "n3")
    leases = [
        make_lease(name, renewed if name == "n1" else -1, duration_seconds=6) for name in names
    ]
    nodes = [make_node(name, zone="a") for name in names]
    snapshot = make_snapshot(nodes, [make_pod("p", "n1")], leases=leases)
    leader = replace(snapshot.control_plane, leader_acquire_time_ns=epoch_ns(-0.066))
    settings = ControllerSettings(kubernetes_version="1.34.4", flags=FLAGS)
    ((window,),) = (
        eviction.windows
        for eviction in predict(
            replace(snapshot, control_plane=leader),
            make_scenario(events, horizon=60),
            resolve_configuration(settings, ControlPlaneFlags()),
        ).evictions
    )
    assert window.earliest_seconds == pytest.approx(5.934, abs=0.001)
    # A stale informer may waste the first token, and the pass that has the second one may write its taint again.
    assert 6.934 <= window.latest_seconds < 6.934 + 2.4 + 0.2


def test_a_last_renewal_may_come_before_or_after_every_start_in_its_window() -> None:
    # It renewed between 19.0 and 19.8 s; the new process may begin between 18.9 and 20.9 s.
    nodes = [make_node(f"n{index}", zone="a") for index in (1, 2, 3)]
    leases = [make_lease(node.name, -1, duration_seconds=40) for node in nodes]
    events = [
        make_event(0, "controller-start"),
        make_event(18, "controller-stop"),
        make_event(18.9, "controller-start", within_ns=ns(2)),
        make_event(22, "kubelet-stop", ("n1",)),
    ]
    prediction = predict(
        make_snapshot(nodes, [make_pod("p", "n1")], leases=leases),
        make_scenario(events, horizon=120, cold=True),
        resolve_configuration(
            ControllerSettings(kubernetes_version="1.28.15"), ControlPlaneFlags()
        ),
    )
    (unknown,) = (
        change
        for report in prediction.nodes
        for change in report.changes
        if (change.what, change.value) == ("ready", "Unknown")
    )
    # Seen by the new process's first tick at 19.0 s, or by its second one, 5 s after 19.8 s.
    assert unknown.certainty == "certain"
    assert unknown.earliest_seconds == pytest.approx(59.0, abs=0.001)
    assert unknown.latest_seconds == pytest.approx(64.8, abs=0.11)


def test_ticks_of_a_new_process_meet_a_heartbeat_at_other_starts_when_they_cost_something() -> None:
    """Six ticks of 1.007 s after the first one behind the heartbeat, which it just missed before."""
    snapshot = make_snapshot([make_node("n0")], leases=[make_lease("n0", -1, duration_seconds=4)])
    events = [
        make_event(15.882, "controller-stop"),
        make_event(15.892, "controller-start", within_ns=ns(0.435)),
        make_event(29.221, "kubelet-stop", "n0", last_heartbeat=29.221),
    ]
    scenario = make_scenario(events, horizon=90)
    configuration = resolve_configuration(
        ControllerSettings("1.27.16", flags=FLAGS), snapshot.control_plane
    )
    began = replace(scenario, events=(events[0], events[1].moved_to(ns(16.111543)), events[2]))
    timing = Timing(monitor_cost_ns=7_171_881)
    timeline = simulate(snapshot, began, configuration, timing)
    [at] = [each.at_ns / 1e9 for each in timeline.entries if isinstance(each, NodeBecameUnknown)]

    [report] = predict(snapshot, scenario, configuration).nodes
    [unknown] = [each for each in report.changes if each.value == "Unknown"]

    assert at > 36.25
    assert unknown.earliest_seconds <= at <= unknown.latest_seconds


def test_a_start_that_is_a_window_is_cut_elsewhere_for_each_cost_of_ticks() -> None:
    # The last start, and only that one, just meets the heartbeat if its first tick costs 5 ms: Unknown comes eight quick ones later.
    names = ["n0", "n1"]
    snapshot = make_snapshot(
        [make_node(name) for name in names], leases=[make_lease(name, -1) for name in names]
    )
    events = [
        make_event(22.0, "controller-stop"),
        make_event(23.366, "controller-start", within_ns=ns(3.6)),
        make_event(32.871, "kubelet-stop", "n0", last_heartbeat=31.971),
    ]
    configuration = resolve_configuration(
        ControllerSettings("1.29.6", ns(4.0)), snapshot.control_plane
    )
    [report] = predict(snapshot, make_scenario(events, horizon=90), configuration).nodes
    unknown = next(each for each in report.changes if each.value == "Unknown")
    assert unknown.earliest_seconds == pytest.approx(26.966 + 5.005 + 8 * 5, abs=0.001)


def first_tick_writes_twice(begins: float, *later: ScenarioEvent) -> Prediction:
    """What may happen to a pod on a node that has the taint of a process before.

    The one that ``begins`` takes it off and puts its own on: a timer for the old one goes on where nobody saw the gap.
    """
    node = make_node(
        "n0", ready="Unknown", taints=[make_taint(f"{NOT_READY}:NoExecute", added=-25)]
    )
    tolerations = [tolerates(UNREACHABLE, 5), tolerates(NOT_READY, 30)]
    pod = make_pod("p", "n0", tolerations=tolerations, created=-1)
    leases = [make_lease("n0", -66), make_lease("n1", -0.2)]
    snapshot = make_snapshot([node, make_node("n1")], [pod], leases=leases)
    events = [make_event(0.837, "controller-stop"), make_event(begins, "controller-start")]
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    scenario = make_scenario([*(events if begins else ()), *later], horizon=120, cold=not begins)
    return predict(snapshot, scenario, configuration)


@pytest.mark.parametrize("begins", [0, 2.837])
def test_what_the_first_tick_writes_twice_may_be_seen_as_one(begins: float) -> None:
    (eviction,) = first_tick_writes_twice(begins).evictions
    assert [round(each.earliest_seconds - begins) for each in eviction.windows] == [5, 30]


@pytest.mark.parametrize("begins", [0, 2.837])
def test_nobody_surely_goes_by_a_countdown_that_begins_only_where_every_write_is_seen(
    begins: float,
) -> None:
    # Its kubelet is back before a countdown for the old taint is over.
    back = make_event(begins + 14, "kubelet-start", ("n0",))
    (eviction,) = first_tick_writes_twice(begins, back).evictions
    assert eviction.certainty == "possible"


def test_what_falls_silent_after_the_last_process_stopped_is_seen_by_no_tick() -> None:
    events = [make_event(10, "controller-stop"), make_event(20, "kubelet-stop", "n1")]
    snapshot = make_snapshot(["n1", "n2"], [make_pod("p", "n1")])
    configuration = resolve_configuration(ControllerSettings("1.37.0"), ControlPlaneFlags())
    prediction = predict(snapshot, make_scenario(events, horizon=120), configuration)
    assert not prediction.evictions and not any(row.changes for row in prediction.nodes)
    assert all(unknown.explored == "wholly" for unknown in prediction.inputs.coverage.unknowns)


def test_a_process_that_ends_deletes_nobody_for_a_taint_that_it_has_just_heard_of() -> None:
    added = make_pod("added", "n1", tolerations=[tolerates("A")])
    events = [
        # The item of the pod has that of its node handled; the one of the next taint is left.
        make_event(5, "taint", "n1", taint="A:NoExecute"),
        make_event(5, "pod-create", pod=added),
        make_event(5, "taint", "n1", taint="B:NoExecute"),
        make_event(5, "controller-stop"),
    ]
    snapshot = make_snapshot(["n1"], [make_pod("p", "n1", tolerations=[tolerates("A")])])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    timeline = simulate(snapshot, make_scenario(events, horizon=30), configuration, Timing())
    assert not [entry for entry in timeline.entries if isinstance(entry, PodDeleted)]
