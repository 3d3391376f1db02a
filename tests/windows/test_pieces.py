"""Which choices of what nobody knows the windows are taken over: phases, costs of ticks, last heartbeats, zones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from builders import make_event, make_lease, make_node, make_scenario, make_snapshot, ns
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.kube.topology import EXCLUDE_DISRUPTION
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.timings import (
    Grid,
    Piece,
    heartbeat_variants,
    monitor_cost_max_ns,
    pieces,
)

MANY = 10_000


@dataclass
class Case:
    """A cluster and what happens in it; ticks every 5 s, from ``phase`` seconds on where that is known."""

    events: Iterable[ScenarioEvent]
    nodes: Iterable[Node | str] = ("n0", "n1")
    phase: float | None = None
    snapshot: ClusterSnapshot = field(init=False)

    def __post_init__(self) -> None:
        self.snapshot = make_snapshot(self.nodes)

    def pieces(self, runs_max: int = MANY) -> list[Piece]:
        phase_ns = None if self.phase is None else ns(self.phase)
        settings = ControllerSettings("1.29.6", phase_ns)
        configuration = resolve_configuration(settings, self.snapshot.control_plane)
        scenario = make_scenario(self.events, horizon=200)
        return pieces(self.snapshot, scenario, configuration, runs_max)


def stop(*names: str, at: float = 2, last: float | None = -1) -> ScenarioEvent:
    return make_event(at, "kubelet-stop", names, last_heartbeat=last)


def test_phases_of_the_first_tick_end_where_a_tick_just_catches_a_moment() -> None:
    free = [piece for piece in Case([stop("n0")]).pieces() if piece.first.cost_ns == 0]
    # The last heartbeat lies at -1 s: ticks catch it from the phase of 4 s on.
    phases = [(piece.first.phase_ns, piece.last.phase_ns) for piece in free]
    assert phases == [(0, ns(4) - 1), (ns(4), ns(5) - 1)]


def test_a_tick_may_cost_nothing_half_or_all_it_can() -> None:
    case = Case([stop("n0")])
    most = monitor_cost_max_ns(case.snapshot)
    assert {piece.first.cost_ns for piece in case.pieces()} == {0, most // 2, most}


def test_where_the_first_tick_is_known_pieces_end_at_costs_with_which_a_tick_just_meets_a_moment() -> (
    None
):
    # The twelfth tick comes 60 ms before the last heartbeat: 5 ms more each, and it meets it.
    case = Case([stop("n0", at=61, last=60.06)], phase=0)
    meets, most = ns(0.005), monitor_cost_max_ns(case.snapshot)
    found = [(piece.first, piece.last) for piece in case.pieces()]
    assert found == [(Grid(0, 0), Grid(0, meets - 1)), (Grid(0, meets), Grid(0, most))]


def test_a_process_that_the_scenario_starts_meets_moments_by_what_its_ticks_cost() -> None:
    events = [
        make_event(1, "controller-stop"),
        make_event(10, "controller-start"),
        stop("n0", at=71, last=70.06),
    ]
    bounds = {piece.first.cost_ns for piece in Case(events).pieces()}
    assert ns(0.005) in bounds


@pytest.mark.parametrize("excluded", [True, False])
def test_zones_are_walked_backwards_as_well_where_one_may_be_left_without_a_node_that_counts(
    *, excluded: bool
) -> None:
    labels = {EXCLUDE_DISRUPTION: ""} if excluded else {}
    nodes = [make_node("n0", zone="a"), make_node("n1", zone="b", labels=labels)]
    orders = {piece.zones_backwards for piece in Case([stop("n0")], nodes).pieces()}
    assert orders == ({False, True} if excluded else {False})


def test_unknown_last_heartbeats_are_taken_early_late_and_in_turn_both_ways() -> None:
    snapshot = make_snapshot(["n0", "n1"], leases=[make_lease("n0", -1), make_lease("n1", -1)])
    scenario = make_scenario([stop("n0", "n1", at=30, last=None)])
    variants = heartbeat_variants(snapshot, scenario)
    found = {tuple(e.last_heartbeat_ns for e in each.events) for each in variants}  # type: ignore[attr-defined]
    ends = {each for pair in found for each in pair}
    early, late = min(ends), max(ends)
    assert early < late
    assert found == {(early, early), (late, late), (early, late), (late, early)}


def test_several_unknown_last_heartbeats_are_also_taken_anywhere_between() -> None:
    case = Case([stop("n0", "n1", at=30, last=None)])
    corners = heartbeat_variants(case.snapshot, make_scenario(case.events, horizon=200))
    between = {piece.scenario.events for piece in case.pieces(60)} - {c.events for c in corners}
    assert between


def test_pieces_that_hold_several_critical_phases_say_how_much_they_leave_out() -> None:
    names = [f"n{index}" for index in range(20)]
    events = [stop(name, last=-1 - index / 10) for index, name in enumerate(names)]
    case = Case(events, names)
    assert not any(piece.left_out_ns for piece in case.pieces())
    few = case.pieces(10)
    assert len(few) < 10
    assert any(piece.left_out_ns for piece in few)
