"""Worked timelines: nodes that never posted, that are created again, and leases that others write.

Conventions as in test_timelines.py. Where a comment says "upstream", the instants are those of
upstream's own controller on a virtual clock.
"""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import (
    EXCLUDE_LABEL,
    UNREACHABLE,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from building.timeline_runs import (
    ADD,
    CURRENT,
    MODELS,
    REMOVE_ADD,
    SETREMOVE,
    UP_TO_1_31,
    Runner,
    cluster,
    names,
    posts_ready,
    restart,
    silence,
    two_zones,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import NodeBecameUnknown, NodePassedOver
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.event_queue import EventQueue, ScheduledCall
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate

ALL = [*UP_TO_1_31, *CURRENT]


@pytest.fixture(params=sorted(MODELS))
def run(request: pytest.FixtureRequest) -> Runner:
    return Runner(MODELS[request.param])


def without_lease_of(snapshot: ClusterSnapshot, name: str) -> ClusterSnapshot:
    leases = {key: lease for key, lease in snapshot.leases.items() if key != name}
    return replace(snapshot, leases=leases)


# --- nodes that never posted


@pytest.mark.parametrize("release", ALL)
@pytest.mark.parametrize(("phase", "unknown"), [(0, 30), (0.5, 30.5), (4.9, 34.9)])
def test_a_node_that_never_posted_before_the_start_is_judged_from_its_creation(
    run: Runner, release: str, phase: float, unknown: float
) -> None:
    # Upstream: created 30 s before the start, 60 s of startup grace period: Unknown at 30..35.
    snapshot = make_snapshot(["a", "b", make_node("f", ready=None, created=-30)])
    timing = Timing(monitor_phase_ns=ns(phase))
    outcome = run(release, without_lease_of(snapshot, "f"), timing=timing, cold=False)
    assert outcome.unknown() == [(unknown, "f")]


@pytest.mark.parametrize("release", ALL)
def test_a_lease_keeps_a_node_that_never_posted_before_the_start(run: Runner, release: str) -> None:
    snapshot = make_snapshot(["a", "b", make_node("f", ready=None, created=-3000)])
    assert run(release, snapshot, cold=False).unknown() == []


FRESH = make_node("b", ready=None, created=None)


def create_again(deleted: float, created: float, node: Node = FRESH) -> list[ScenarioEvent]:
    return [
        make_event(deleted, "node-delete", node.name),
        make_event(created, "node-create", node=node),
    ]


@pytest.mark.parametrize(
    ("release", "tainted"),
    [
        ("1.30.0", [(60.1, "a"), (110.1, "b"), (120.1, "c")]),
        ("1.33.4", [(60.1, "a"), (110.1, "b"), (120.1, "c")]),
        ("1.34.0", [(55.1, "a"), (105.1, "b"), (115.1, "c")]),
    ],
)
def test_from_1_30_on_a_node_without_ready_keeps_the_head_of_the_line(
    run: Runner, release: str, tainted: list[tuple[float, str]]
) -> None:
    # b waits, is deleted and is back within one monitor period: nobody notices, and its old probe
    # is judged by the startup grace period, at 105. Until then it eats every token.
    deleted = tainted[0][0] + 1
    events = [silence("a", "b", "c"), *create_again(deleted, deleted + 1)]
    flags = {"node-startup-grace-period": "100s", "node-monitor-grace-period": "50s"}
    outcome = run(release, cluster(*names(6), "a", "b", "c"), events, flags=flags)
    assert outcome.tainted() == tainted


@pytest.mark.parametrize("release", ALL)
def test_a_node_created_again_without_ready_is_unknown_at_once_by_its_old_probe(
    run: Runner, release: str
) -> None:
    grace = {"node-monitor-grace-period": "40s"}
    events = [silence("b"), *create_again(101, 121)]
    outcome = run(release, cluster("a", "b", "c"), events, flags=grace)
    assert outcome.unknown() == [(45, "b"), (125, "b")]


@pytest.mark.parametrize("ready", ["True", "Unknown", None])
def test_a_kubelet_that_outlived_its_node_ends_what_terminates_once_the_node_is_there_again(
    run: Runner, ready: str | None
) -> None:
    # Whatever the new Node shows of it: it ends there what is deleted later as well.
    snapshot = make_snapshot(["a", "b"], [make_pod("p", "a", grace_seconds=5)])
    gone, back = create_again(1, 3, make_node("a", ready=ready, created=None))
    events = [gone, make_event(2, "pod-delete", pods=["default/p"]), back]
    assert run("1.29.6", snapshot, events).gone() == [(8, "default/p")]


# --- --node-eviction-rate=0


@pytest.mark.parametrize(
    ("release", "tainted"),
    [("1.16.15", 3), ("1.18.20", 3), ("1.21.14", 3), ("1.23.13", 3), ("1.24.0", 1), ("1.29.6", 1)],
)
def test_without_a_rate_up_to_1_23_all_are_tainted_at_once_and_later_one(
    run: Runner, release: str, tainted: int
) -> None:
    down = names(3)
    outcome = run(release, cluster(*names(10)), [silence(*down)], flags={"node-eviction-rate": "0"})
    assert outcome.tainted() == [(50.1, name) for name in down[:tainted]]


# --- a NoExecute taint of a silent node removed by hand


@pytest.mark.parametrize(
    ("release", "again"),
    [
        *((release, []) for release in ADD),
        *((release, [(25.1, "a")]) for release in (*SETREMOVE, *REMOVE_ADD, *CURRENT)),
    ],
)
def test_a_taint_set_before_the_start_and_removed_by_hand_comes_back_where_it_is_reconciled(
    run: Runner, release: str, again: list[tuple[float, str]]
) -> None:
    silent = make_node("a", ready="Unknown", taints=[f"{UNREACHABLE}:NoExecute"])
    leases = [make_lease("a", -600), make_lease("b", -3), make_lease("c", -3)]
    snapshot = make_snapshot([silent, "b", "c"], leases=leases)
    by_hand = make_event(22, "untaint", "a", taint=f"{UNREACHABLE}:NoExecute")
    outcome = run(release, snapshot, [by_hand], cold=False)
    assert outcome.tainted() == again


@pytest.mark.parametrize("release", [*REMOVE_ADD, *CURRENT])
def test_it_comes_back_when_the_zone_has_a_token(run: Runner, release: str) -> None:
    grace = {"node-monitor-grace-period": "40s"}
    first, second = (50.1, 60.1) if release in REMOVE_ADD else (45.1, 55.1)
    by_hand = make_event(second + 1, "untaint", "a", taint=f"{UNREACHABLE}:NoExecute")
    outcome = run(release, cluster(*names(8), "a", "b"), [silence("a", "b"), by_hand], flags=grace)
    assert outcome.tainted() == [(first, "a"), (second, "b"), (second + 10, "a")]


# --- the lease circuit breaker of 1.37


def touch(at: float, *nodes: str) -> ScenarioEvent:
    return make_event(at, "lease-touch", nodes)


@pytest.mark.parametrize(("release", "unknown"), [("1.36.4", [(55, "a")]), ("1.37.0", [])])
def test_a_touched_lease_keeps_a_silent_node_ready(
    run: Runner, release: str, unknown: list[tuple[float, str]]
) -> None:
    outcome = run(release, cluster("a", "b", "c"), [silence("a"), touch(20, "a")], horizon=600)
    assert outcome.unknown() == unknown


def test_a_lease_touched_before_the_tick_that_accepts_its_renewal_is_judged(run: Runner) -> None:
    outcome = run("1.37.0", cluster("a", "b", "c"), [silence("a"), touch(4, "a")])
    assert outcome.unknown() == [(55, "a")]


def test_a_renewal_ends_it_and_the_next_silence_counts(run: Runner) -> None:
    events = [silence("a"), touch(20, "a"), posts_ready(101, "a"), silence("a", last=102)]
    outcome = run("1.37.0", cluster("a", "b", "c"), events, horizon=200)
    assert outcome.unknown() == [(155, "a")]


def test_a_restart_ends_it(run: Runner) -> None:
    events = [silence("a"), touch(20, "a"), *restart(103)]
    outcome = run("1.37.0", cluster("a", "b", "c"), events, horizon=200)
    assert outcome.unknown() == [(153, "a")]


def test_the_gate_of_the_breaker_can_be_closed(run: Runner) -> None:
    flags = {"feature-gates": "NodeControllerLeaseCircuitBreaker=false"}
    outcome = run("1.37.0", cluster("a", "b", "c"), [silence("a"), touch(20, "a")], flags=flags)
    assert outcome.unknown() == [(55, "a")]


def test_a_node_that_is_passed_over_is_not_counted_in_its_zone(run: Runner) -> None:
    # Three of five are silent: partial. Without the third, two of four: normal.
    events = [silence("a", "b", "c"), touch(20, "c")]
    partial = run("1.36.4", cluster(*"abcde"), events).zones()
    normal = run("1.37.0", cluster(*"abcde"), events)
    assert partial[-1] == (55, "PartialDisruption")
    assert normal.zones() == [(0, "Normal")]
    assert normal.tainted() == [(55.1, "a"), (65.1, "b")]


def test_a_zone_of_which_no_node_is_counted_loses_its_line_and_its_debt(run: Runner) -> None:
    # Both nodes of zone a are silent. The second one is touched after it got in line: from then on
    # no tick puts it back, so the line of the next tick, which is a new one, does not have it.
    snapshot = two_zones("a1", "a2", b=["b1", "b2", "b3"])
    events = [silence("a1", "a2"), touch(57, "a1", "a2")]
    assert run("1.37.0", snapshot, events).tainted() == [(55.1, "a1")]
    assert run("1.36.4", snapshot, events).tainted() == [(55.1, "a1"), (65.1, "a2")]


def test_the_timeline_says_once_why_a_node_is_passed_over() -> None:
    snapshot = cluster("a", "b", "c")
    settings = ControllerSettings(kubernetes_version="1.37.0")
    scenario = make_scenario([silence("a"), touch(20, "a"), touch(30, "a")], horizon=300)
    timeline = simulate(snapshot, scenario, resolve_configuration(settings, snapshot.control_plane))
    (entry,) = [e for e in timeline.entries if isinstance(e, NodePassedOver)]
    assert (entry.at_ns, entry.node) == (ns(55), "a")
    causes = {type(timeline.entries[index]).__name__ for index in entry.because}
    assert causes == {"KubeletSilent", "EventApplied"}


# --- cost follows what changes


def counted_calls(
    monkeypatch: pytest.MonkeyPatch,
    snapshot: ClusterSnapshot,
    flags: dict[str, str],
    *events: ScenarioEvent,
) -> tuple[int, bool]:
    """How many callbacks one day plans, and whether anything was still to come at its end."""
    calls = 0
    schedule = EventQueue.schedule

    def counting(self: EventQueue, *arguments: Any) -> ScheduledCall:
        nonlocal calls
        calls += 1
        return schedule(self, *arguments)

    monkeypatch.setattr(EventQueue, "schedule", counting)
    settings = ControllerSettings(kubernetes_version="1.29.6", flags=flags)
    scenario = make_scenario(events, horizon=86_400)
    timeline = simulate(snapshot, scenario, resolve_configuration(settings, snapshot.control_plane))
    return calls, timeline.complete


@pytest.mark.parametrize(
    ("flags", "lease_seconds"),
    [
        ({}, 40),
        ({"node-monitor-period": "10s"}, 40),
        ({"node-monitor-period": "1m"}, 40),
        ({}, 20),
        # No tick comes between 9 s after one and the next renewal.
        ({"node-monitor-period": "2s", "node-monitor-grace-period": "9s"}, 40),
    ],
)
def test_healthy_nodes_cost_nothing_however_often_they_renew(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, str], lease_seconds: int
) -> None:
    snapshot = make_snapshot(names(9), lease_duration_seconds=lease_seconds, renewed=-3)
    calls, complete = counted_calls(monkeypatch, snapshot, flags, silence("n00"), *restart(200))
    assert calls < 30
    assert complete


def test_a_zone_of_excluded_healthy_nodes_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [make_node("m", zone="z", labels={EXCLUDE_LABEL: ""}), *(make_node(n) for n in "abc")]
    calls, complete = counted_calls(monkeypatch, make_snapshot(nodes), {}, *restart(200))
    assert calls < 30
    assert complete


# --- kubelets


def test_a_kubelet_that_starts_as_it_stops_renews_up_to_its_next_stop() -> None:
    def unknown_ns(gap: float) -> list[int]:
        nodes = [make_node(name) for name in names(4)]
        snapshot = make_snapshot(nodes, leases=[make_lease(node.name, -2) for node in nodes])
        events = [
            make_event(13, "kubelet-stop", "n01", last_heartbeat=8),
            make_event(13 + gap, "kubelet-start", "n01"),
            make_event(20.5, "kubelet-stop", "n01", last_heartbeat=19.6),
        ]
        configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
        timeline = simulate(snapshot, make_scenario(events, horizon=90), configuration, Timing())
        return [e.at_ns for e in timeline.entries if isinstance(e, NodeBecameUnknown)]

    assert unknown_ns(0) == unknown_ns(0.001) != []
