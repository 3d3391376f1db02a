"""Cells of ticks: every order of ticks and instants is one, and its two ends hold all of its ticks."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from kubectl_evictplan.engine.event_queue import LoopGrid
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.tick_cells import Cell, Process, TickSteps

# A tick comes three to five units after the one before it.
STEPS = TickSteps(3, 5)
TICKS = 7


def every_course(begin: Span) -> Iterator[tuple[int, ...]]:
    """All choices of a few ticks, in whole units."""
    for first in range(begin[0], begin[1] + 1):
        for steps in product(range(STEPS.shortest_ns, STEPS.longest_ns + 1), repeat=TICKS - 1):
            ticks = [first]
            for step in steps:
                ticks.append(ticks[-1] + step)
            yield tuple(ticks)


def hulls(
    courses: Iterator[tuple[int, ...]], cuts: Sequence[int]
) -> dict[tuple[int, ...], list[Span]]:
    """By the number of the first tick at or after each cut: from when to when each tick comes."""
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for ticks in courses:
        found[tuple(bisect_left(ticks, cut) for cut in cuts)].append(ticks)
    return {
        order: [(min(instants), max(instants)) for instants in zip(*of_it, strict=True)]
        for order, of_it in found.items()
    }


def spans(cell: Cell) -> list[Span]:
    return [(tick.low_ns, tick.high_ns) for tick in cell]


def order_of(cell: Cell, cuts: Sequence[int]) -> tuple[int, ...]:
    lows = [tick.low_ns for tick in cell]
    return tuple(bisect_left(lows, cut) for cut in cuts)


@pytest.mark.parametrize("cuts", [(), (4,), (2, 9), (3, 10, 13), (5, 6, 12, 17)])
def test_cells_are_all_orders_and_their_ends_are_those_of_all_choices_of_ticks(
    cuts: tuple[int, ...],
) -> None:
    begin = (0, 4)
    truth = hulls(every_course(begin), cuts)
    cells = [STEPS.tightened(each) for each in STEPS.cells(Process(begin, None), cuts)]
    found = {order_of(cell, cuts): spans(cell) for cell in cells if cell is not None}
    assert len(found) == len(cells)
    assert found == {order: truth[order][: len(found[order])] for order in truth}


@pytest.mark.parametrize("latest", [False, True])
def test_both_ends_of_a_cell_are_courses_that_can_be(*, latest: bool) -> None:
    cuts = (5, 6, 12, 17)
    possible = set(every_course((0, 4)))
    for each in STEPS.cells(Process((0, 4), None), cuts):
        cell = STEPS.tightened(each)
        assert cell is not None
        (course,) = STEPS.courses(cell, latest=latest, before_ns=None)
        ticks = tuple(LoopGrid.of_course(course, unbounded=False).between(0, 1000))[:TICKS]
        assert ticks in possible


@pytest.mark.parametrize("cuts", [(), (4,), (5, 6, 12, 17), (3, 10, 13)])
@pytest.mark.parametrize("latest", [False, True])
def test_a_process_that_ran_before_saw_nothing_of_what_the_first_tick_of_a_cell_sees(
    cuts: tuple[int, ...], *, latest: bool
) -> None:
    since_ns = 0
    for each in STEPS.cells(Process((since_ns, STEPS.longest_ns - 1), None), cuts):
        cell = STEPS.tightened(each)
        assert cell is not None
        (course,) = STEPS.courses(cell, latest=latest, before_ns=since_ns)
        grid = LoopGrid.of_course(course, unbounded=True)
        first_ns = cell[0].high_ns if latest else cell[0].low_ns
        assert grid.at_or_after(since_ns) == first_ns
        before_ns = grid.before(first_ns)
        assert before_ns is not None
        assert STEPS.shortest_ns <= first_ns - before_ns <= STEPS.longest_ns


def test_which_tick_sees_an_instant_of_a_window_first_is_every_one_that_can() -> None:
    window, cuts = (6, 11), (13,)
    truth = defaultdict(list)
    for ticks in every_course((0, 4)):
        for at in range(window[0], window[1] + 1):
            key = bisect_left(ticks, 13), bisect_left(ticks, at)
            truth[key].append(ticks)
    found = {}
    for each in STEPS.cells(Process((0, 4), None), cuts):
        cell = STEPS.tightened(each)
        assert cell is not None
        for tick, narrower in STEPS.seen_first(cell, window):
            found[*order_of(cell, cuts), tick] = spans(narrower)
    assert found == {
        key: [(min(of), max(of)) for of in zip(*several, strict=True)][: len(found[key])]
        for key, several in truth.items()
    }


def test_a_cell_in_which_one_tick_sees_something_is_as_tight_as_it_can_be() -> None:
    for each in STEPS.cells(Process((0, 4), None), (5, 17)):
        cell = STEPS.tightened(each)
        assert cell is not None
        for _, seen in STEPS.seen_first(cell, (6, 11)):
            for _, seen_both in STEPS.seen_first(seen, (2, 14)):
                for _, seen_all in STEPS.seen_first(seen_both, (9, 10)):
                    assert STEPS.tightened(seen_all) == seen_all


def test_ticks_after_the_end_of_a_process_do_not_come() -> None:
    for cell in STEPS.cells(Process((0, 4), 12), (5,)):
        assert [tick.comes for tick in cell] == [tick.high_ns < 12 for tick in cell]
        assert not cell[-1].comes


def test_of_the_first_tick_after_the_start_only_what_may_be_seen_is_left() -> None:
    process = Process((-4, 0), None, phases=((1, 1), (3, 3)))
    firsts = [
        next((low, high) for low, high in spans(cell) if low >= 0)
        for cell in STEPS.cells(process, (0, 6))
    ]
    assert set(firsts) == {(1, 1), (3, 3)}
