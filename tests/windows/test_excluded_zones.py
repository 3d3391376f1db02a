"""A zone in which no node counts: its queue, with its line and its token, is made anew at nearly every tick."""

from __future__ import annotations

import pytest
from building.builders import (
    NOT_READY,
    UNREACHABLE,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
)
from msgspec.structs import replace
from realities.drawn_realities import World
from realities.test_bounds import check_world

from kubectl_evictplan.cluster.timeline import TaintAdded, ZoneStateChanged
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.kube.topology import EXCLUDE_DISRUPTION
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.outcome import WindowTable, ZoneStateKey
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.unknowns.of_node_runs import ZoneWalk
from kubectl_evictplan.windows.wide_bounds import WideBounds


def excluded_and_silent(
    number: int, *, horizon: float, release: str = "1.29.6", heartbeat: float | None = None
) -> World:
    """So many excluded nodes of zone a fall silent, each with a pod; the other zone is healthy."""
    silent = [f"n{index:02}" for index in range(number)]
    healthy = [f"h{index:02}" for index in range(3)]
    labels = {EXCLUDE_DISRUPTION: "true"}
    snapshot = make_snapshot(
        [
            *(make_node(name, zone="a", labels=labels) for name in silent),
            *(make_node(name, zone="b") for name in healthy),
        ],
        [make_pod(f"p-{name}", name, tolerations=()) for name in silent],
        leases=[make_lease(name, -1 - index / 7) for index, name in enumerate((*silent, *healthy))],
    )
    stop = make_event(31.7, "kubelet-stop", silent, last_heartbeat=heartbeat)
    configuration = resolve_configuration(ControllerSettings(release), snapshot.control_plane)
    return World(snapshot, make_scenario([stop], horizon=horizon), configuration)


def test_a_pod_whose_node_is_tainted_over_and_over_has_one_row() -> None:
    world = excluded_and_silent(1, horizon=200, heartbeat=31)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    assert [each.pod for each in prediction.evictions] == ["p-n00"]
    [report] = prediction.nodes
    taints = [change.value for change in report.changes if change.what == "taint-added"]
    assert len(taints) == len(set(taints))


def test_a_node_that_waits_alone_needs_no_more_ticks_once_it_surely_has_its_taint() -> None:
    world = excluded_and_silent(1, horizon=200, heartbeat=31)
    forever = replace(world.scenario, horizon_ns=None)
    run = simulate(world.snapshot, forever, world.configuration)
    assert run.complete
    assert run.end_ns - run.start_ns < ns(200)
    told = [
        predict(world.snapshot, scenario, world.configuration).evictions[0].windows
        for scenario in (world.scenario, forever)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("release", ["1.20.4", "1.29.6", "1.35.0"])
def test_where_several_wait_few_ticks_are_run_until_something_else_happens(release: str) -> None:
    world = excluded_and_silent(3, horizon=200, heartbeat=31, release=release)
    forever = replace(world.scenario, horizon_ns=None)
    timing = Timing(serves_queues=False)
    run = simulate(world.snapshot, forever, world.configuration, timing)
    assert run.complete
    assert run.end_ns - run.start_ns < ns(200)
    # Whoever has its taint may come first in each new line.
    prediction = predict(world.snapshot, forever, world.configuration)
    assert {each.certainty for each in prediction.evictions} == {"possible"}
    assert {each.latest_seconds for each in prediction.evictions} == {86_400}


@pytest.mark.parametrize("at", [300, 300.05])
def test_the_tick_before_whatever_happens_next_makes_its_line_anew(at: float) -> None:
    # Ticks every 5 s, the pass behind one 0.1 s later: taken off before that the taint is back at once.
    world = excluded_and_silent(1, horizon=400, heartbeat=31)
    untaint = make_event(at, "untaint", "n00", taint=UNREACHABLE)
    scenario = replace(world.scenario, events=(*world.scenario.events, untaint))
    run = simulate(world.snapshot, scenario, world.configuration, Timing(pass_phase_ns=ns(0.08)))
    again = [each.at_ns for each in run.entries if isinstance(each, TaintAdded)]
    assert next(ns_ for ns_ in again if ns_ >= ns(at)) <= ns(300.08)


def test_lines_that_are_made_anew_are_waited_in_as_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulated: list[object] = []
    monkeypatch.setattr(
        "kubectl_evictplan.windows.pod_fates.PodFates._simulate",
        lambda *arguments: simulated.append(arguments),
    )
    world = excluded_and_silent(2, horizon=100, heartbeat=31)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    assert not simulated
    assert [each.certainty for each in prediction.evictions] == ["possible"] * 2
    assert {each.latest_seconds for each in prediction.evictions} == {100}


def test_whoever_joins_a_line_that_is_made_anew_may_always_come_after_those_who_have_their_taint() -> (
    None
):
    world = excluded_and_silent(2, horizon=200, heartbeat=31)
    early = make_event(5, "kubelet-stop", "n01", last_heartbeat=4)
    late = make_event(40, "kubelet-stop", "n00", last_heartbeat=39)
    scenario = make_scenario([early, late], horizon=200)
    found = predict(world.snapshot, scenario, world.configuration).evictions
    joins = next(each for each in found if each.pod == "p-n00")
    assert joins.certainty == "possible" and joins.latest_seconds == 200


@pytest.mark.parametrize("release", ["1.20.4", "1.29.6"])
def test_a_pass_may_swap_the_taint_of_a_node_that_is_in_line_again_before_a_tick_does(
    release: str,
) -> None:
    """The node is in the new line of the tick that writes Unknown; up to 1.33 the next tick decides on it."""
    world = excluded_and_silent(1, horizon=200, heartbeat=31, release=release)
    not_ready = make_event(10, "node-ready", ["n00"], status="False")
    scenario = make_scenario([not_ready, *world.scenario.events], horizon=200)
    [report] = predict(world.snapshot, scenario, world.configuration).nodes
    earliest = {(each.what, each.value): each.earliest_seconds for each in report.changes}
    unreachable = earliest["taint-added", "node.kubernetes.io/unreachable:NoExecute"]
    assert unreachable == pytest.approx(earliest["ready", "Unknown"], abs=0.001)


@pytest.mark.slow
def test_the_return_of_nodes_from_lines_made_anew_keeps_its_word() -> None:
    """Twenty minutes of ticks, and nodes that come back: no wait per tick, and no end to their combinations."""
    world = excluded_and_silent(3, horizon=1200)
    back = make_event(900, "kubelet-start", ["n00", "n01"])
    events = (*world.scenario.events, back)
    scenario = make_scenario(list(events), horizon=1200)
    check_world(World(world.snapshot, scenario, world.configuration), 9, 40)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.18.6", "1.20.4", "1.29.6", "1.35.0"])
@pytest.mark.parametrize("number", [1, 2, 5])
def test_zones_in_which_no_node_counts_keep_their_word(release: str, number: int) -> None:
    check_world(excluded_and_silent(number, horizon=300, release=release), number, 40)


def test_a_pass_may_swap_the_taint_of_whoever_had_it_before_the_start() -> None:
    labels, taint = {EXCLUDE_DISRUPTION: "true"}, make_taint(f"{NOT_READY}:NoExecute", added=-20)
    down = make_node("n0", zone="a", labels=labels, ready="False", heartbeat=-21, taints=[taint])
    snapshot = make_snapshot([down, make_node("h0", zone="b")], renewed=-1)
    silent = make_event(3, "kubelet-stop", "n0", last_heartbeat=2)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    prediction = predict(snapshot, make_scenario([silent], horizon=100), configuration)
    changes = next(report.changes for report in prediction.nodes if report.node == "n0")
    (removed,) = [
        change
        for change in changes
        if (change.what, change.value) == ("taint-removed", f"{NOT_READY}:NoExecute")
    ]
    # A tick that finds it silent writes that 40 s after the heartbeat at the earliest, and swaps the taint a tick later.
    assert 42 <= removed.earliest_seconds < 42.1


def walks_that_matter(*events: ScenarioEvent, release: str) -> int:
    """In how many orders zones are looked at: zone a has one node that does not count, and one of zone b does."""
    nodes = [
        make_node("a1", zone="a", labels={EXCLUDE_DISRUPTION: "true"}),
        make_node("b1", zone="b"),
    ]
    configuration = resolve_configuration(ControllerSettings(release), ControlPlaneFlags())
    walk = ZoneWalk(make_snapshot(nodes), configuration)
    return walk.fewest(Piece(make_scenario(events)))


def test_a_zone_may_be_forgotten_until_a_node_is_made_that_counts_there() -> None:
    later = make_event(30, "node-create", node=make_node("a2", zone="a", created=None))
    assert walks_that_matter(later, release="1.29.6") == 2
    elsewhere = make_event(30, "node-create", node=make_node("c1", zone="c", created=None))
    assert walks_that_matter(later, elsewhere, release="1.29.6") == 2


def test_a_zone_may_be_forgotten_while_its_nodes_are_passed_over() -> None:
    nodes = [make_node("a1", zone="a"), make_node("b1", zone="b")]
    touch = Piece(make_scenario([make_event(30, "lease-touch", "a1")]))
    for release, orders in (("1.36.0", 1), ("1.37.0", 2)):
        configuration = resolve_configuration(ControllerSettings(release), ControlPlaneFlags())
        assert ZoneWalk(make_snapshot(nodes), configuration).fewest(touch) == orders


def test_a_zone_that_was_forgotten_or_not_gets_fully_disrupted_with_all_others() -> None:
    nodes = [
        make_node("a1", zone="a", labels={EXCLUDE_DISRUPTION: "true"}),
        make_node("b1", zone="b"),
    ]
    snapshot = make_snapshot(nodes, [make_pod("p", "a1")])
    events = [
        make_event(11, "node-ready", "b1", status="False"),
        make_event(40, "node-create", node=make_node("a2", zone="a", created=None, heartbeat=40)),
        make_event(50, "taint", "a1", taint="x:NoExecute"),
    ]
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    prediction = predict(snapshot, make_scenario(events, horizon=100), configuration)
    [zone] = (one for one in prediction.zones if one.zone == "/a")
    full = [state for state in zone.states if state.state == "FullDisruption"]
    assert any(state.earliest_seconds <= 11 < state.latest_seconds for state in full)


def told_by_bounds(*events: ScenarioEvent) -> dict[ZoneStateKey, ZoneStateChanged]:
    """How zones look in each state that bounds let them get into: no node of zone a counts, one of zone b does."""
    nodes = [
        make_node("a1", zone="a", labels={EXCLUDE_DISRUPTION: "true"}),
        make_node("b1", zone="b"),
    ]
    snapshot, scenario = make_snapshot(nodes), make_scenario(events, horizon=100)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    changes = WideBounds.of(snapshot, scenario, configuration).changes
    samples: dict[ZoneStateKey, ZoneStateChanged] = {}
    changes.put_zones(WindowTable[ZoneStateKey](), samples, unseen=True)
    return samples


def test_bounds_let_a_zone_in_which_nobody_counts_be_full_exactly_when_all_others_may_be() -> None:
    full = ZoneStateKey("/a", "FullDisruption")
    told = told_by_bounds(make_event(11, "node-ready", "b1", status="False"))
    assert {key for key in told if key.zone == "/a"} == {full}
    assert (told[full].ready, told[full].not_ready, told[full].rate_qps) == (0, 0, 0)
    only_a = told_by_bounds(make_event(11, "node-ready", "a1", status="False"))
    assert not [key for key in only_a if key.zone == "/a"]
