"""Which choices of what nobody knows the windows are taken over: phases, costs of ticks, last heartbeats, zones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from building.builders import make_event, make_lease, make_node, make_scenario, make_snapshot, ns

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.event_queue import Course, LoopGrid
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.kube.topology import EXCLUDE_DISRUPTION
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.alike_nodes import AlikeNodes
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.unknowns.of_node_runs import pieces

MANY = 10_000
# What a tick of a cluster of two nodes can cost.
MOST = ns(0.010008)


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
        alike = AlikeNodes(self.snapshot, configuration)
        return pieces(self.snapshot, scenario, configuration, runs_max, alike)


def stop(*names: str, at: float = 2, last: float | None = -1) -> ScenarioEvent:
    return make_event(at, "kubelet-stop", names, last_heartbeat=last)


def test_phases_of_the_first_tick_end_where_a_tick_just_catches_a_moment() -> None:
    found = Case([stop("n0")]).pieces()
    # The last heartbeat lies at -1 s: ticks catch it from the phase of 4 s on, and up to what one costs later.
    phases = [(piece.first.phase_ns, piece.last.phase_ns) for piece in found]
    assert sorted(phases) == [(0, ns(4) + MOST - 1), (ns(4), ns(5) + MOST - 1)]


def test_every_tick_may_cost_nothing_or_all_it_can() -> None:
    for piece in Case([stop("n0")]).pieces():
        (quick,), (slow,) = piece.first.courses, piece.last.courses
        assert {step for _, step in quick} == {ns(5)}
        assert slow[-1][1] == ns(5) + MOST


def first_to_see(course: Course, at: float) -> int:
    """The number of the first tick at or after an instant, from that which sees the last heartbeat at -1 s."""
    grid = LoopGrid.of_course(course, unbounded=True)
    return len(list(grid.between(grid.at_or_after(ns(-1)), ns(at) - 1)))


def test_every_number_of_ticks_that_may_lie_between_two_moments_has_pieces_of_its_own() -> None:
    # 60.06 s apart: twelve ticks that cost 5 ms each. Where ticks cost less or more, it is another one.
    pieces = Case([stop("n0"), stop("n1", at=61, last=59.06)]).pieces()
    numbers = {
        (first_to_see(piece.first.courses[0], 59.06), first_to_see(piece.last.courses[0], 59.06))
        for piece in pieces
    }
    assert numbers == {(11, 11), (12, 12), (13, 13)}
    assert not any(piece.missed for piece in pieces)


def test_where_the_first_tick_is_known_pieces_end_where_a_tick_just_meets_a_moment() -> None:
    # The twelfth tick comes 60 ms before the last heartbeat, or up to 60 ms after it.
    pieces = Case([stop("n0", at=61, last=60.06)], phase=0).pieces()
    assert (
        {each.first.phase_ns for each in pieces} == {each.last.phase_ns for each in pieces} == {0}
    )
    twelfth = [
        tuple(
            LoopGrid.of_course(end.courses[0], unbounded=True).at_or_after(ns(59.9)) for end in ends
        )
        for ends in ((piece.first, piece.last) for piece in pieces)
    ]
    assert sorted(twelfth) == [(ns(60), ns(60.06) - 1), (ns(60.06), ns(60) + 12 * MOST)]


def test_a_process_that_the_scenario_starts_meets_moments_by_what_its_ticks_cost() -> None:
    events = [
        make_event(1, "controller-stop"),
        make_event(10, "controller-start"),
        stop("n0", at=71, last=70.06),
    ]
    second = {piece.first.courses[1] for piece in Case(events).pieces()}
    seen = {LoopGrid.of_course(each, unbounded=False).at_or_after(ns(70.06)) for each in second}
    assert seen == {ns(70.06), ns(75)}


def test_a_start_that_is_not_known_to_the_second_is_cut_where_something_happens() -> None:
    starts = make_event(10, "controller-start", within_ns=ns(3))
    pieces = Case([make_event(1, "controller-stop"), starts, stop("n0", at=12, last=11.5)]).pieces()
    begun = {(each.first.courses[1][0][0], each.last.courses[1][0][0]) for each in pieces}
    assert begun == {(ns(10), ns(11.5) - 1), (ns(11.5), ns(12) - 1), (ns(12), ns(13))}


@pytest.mark.parametrize("excluded", [True, False])
def test_zones_are_walked_backwards_as_well_where_one_may_be_left_without_a_node_that_counts(
    *, excluded: bool
) -> None:
    labels = {EXCLUDE_DISRUPTION: ""} if excluded else {}
    nodes = [make_node("n0", zone="a"), make_node("n1", zone="b", labels=labels)]
    orders = {piece.zones_backwards for piece in Case([stop("n0")], nodes).pieces()}
    assert orders == ({False, True} if excluded else {False})


def last_heartbeats(pieces: Iterable[Piece]) -> set[tuple[int, ...]]:
    """Of every piece the last heartbeats of all nodes."""
    return {tuple(e.last_heartbeat_ns for e in each.scenario.events) for each in pieces}  # type: ignore[attr-defined]


def test_every_tick_that_may_be_the_first_to_see_a_last_heartbeat_is_tried_for_every_node() -> None:
    # Of renewals every 10 s, and up to 0.4 s later, the fifth is the last one: at 39.0 .. 40.6 s.
    case = Case([stop("n0", "n1", at=41, last=None)], phase=0)
    case.snapshot = make_snapshot(["n0", "n1"], leases=[make_lease("n0", -1), make_lease("n1", -1)])
    # The tick at 40 s costs time as well: of all before it up to 80 ms together.
    early, late = ns(40), ns(40.6)
    assert last_heartbeats(case.pieces()) == {(a, b) for a in (early, late) for b in (early, late)}
    assert not any(piece.missed for piece in case.pieces())


def test_too_many_unknown_last_heartbeats_are_early_late_mixed_and_drawn_and_that_is_said() -> None:
    names = [f"n{index}" for index in range(6)]
    case = Case([stop(*names, at=30, last=None)], names)
    found = case.pieces(60)
    assert all(piece.missed for piece in found)
    known = last_heartbeats(piece for piece in found if piece.drawn is None)
    early, late = min(map(min, known)), max(map(max, known))
    assert known == {(early,) * 6, (late,) * 6, (early, late) * 3, (late, early) * 3}
    assert last_heartbeats(piece for piece in found if piece.drawn is not None) - known


def test_pieces_that_hold_several_critical_phases_say_how_much_they_leave_out() -> None:
    names = [f"n{index}" for index in range(20)]
    events = [stop(name, last=-1 - index / 10) for index, name in enumerate(names)]
    case = Case(events, names)
    assert not any(piece.left_out_ns or piece.missed for piece in case.pieces())
    few = case.pieces(10)
    assert len(few) < 10
    assert any(piece.left_out_ns and piece.missed for piece in few)


def test_a_window_of_last_heartbeats_cuts_only_the_phases_of_its_own_choices() -> None:
    # Leases of 12.3 s ago: the last renewals lie between 2.3 and 1.9 s, and between 1.3 and 0.9 s, before the stops.
    leases = [make_lease("n0", -2.3 - 10), make_lease("n1", -1.3 - 10)]
    case = Case([stop("n0", at=1, last=None), stop("n1", at=1, last=None)])
    case.snapshot = make_snapshot(["n0", "n1"], leases=leases)
    free = case.pieces()
    phases = sorted((piece.first.phase_ns, piece.last.phase_ns) for piece in free)
    # Each stretch goes as far as its choice: stretches of different choices overlap.
    assert phases[0][0] == 0
    assert phases[-1][1] == ns(5) + MOST - 1
    assert any(after[0] <= before[1] for before, after in pairwise(phases))
    # One of them is cut at the start as well.
    assert len(free) - 1 == len(last_heartbeats(free)) == 3


def test_a_kubelet_that_returns_in_a_window_is_told_at_both_ends_of_what_each_tick_leaves_open() -> (
    None
):
    # Ticks every 5 s, at first at 1 s: the tick at 51 s and those after it, by what they cost.
    back = make_event(50, "kubelet-start", "n0", within_ns=ns(3))
    pieces = Case([stop("n0", last=1.5), back], phase=1).pieces()
    assert not any(piece.missed for piece in pieces)
    ends = ((piece.scenario, piece.last_scenario or piece.scenario) for piece in pieces)
    returned = {(first.events[-1].at_ns, last.events[-1].at_ns) for first, last in ends}
    # Before the tick of 51 s and up to 100 ms later, or after it; the ticks early and it late, and the other way round.
    assert returned == {
        (ns(50), ns(51) + 10 * MOST),
        (ns(51), ns(50)),
        (ns(51) + 1, ns(53)),
        (ns(53), ns(51) + 10 * MOST + 1),
    }


def test_a_return_is_only_sampled_where_a_later_last_renewal_depends_on_it() -> None:
    back = make_event(50, "kubelet-start", "n0", within_ns=ns(3))
    pieces = Case([stop("n0", last=1.5), back, stop("n0", at=70, last=None)], phase=1).pieces()
    assert all("return of kubelets" in piece.missed for piece in pieces)
