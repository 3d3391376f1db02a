"""When a ``wait.Until`` loop runs."""

from __future__ import annotations

import pytest

from kubectl_evictplan.engine.event_queue import LoopGrid
from kubectl_evictplan.engine.timing import Timing


@pytest.mark.parametrize(
    ("at", "at_or_after", "after", "before"),
    [(-3, 2, 2, None), (2, 2, 7, None), (3, 7, 7, 2), (7, 7, 12, 2), (11, 12, 12, 7)],
)
def test_a_new_process_runs_first_at_its_start_and_then_every_step(
    at: int, at_or_after: int, after: int, before: int | None
) -> None:
    grid = LoopGrid(2, 5, unbounded=False)
    assert (grid.at_or_after(at), grid.after(at), grid.before(at)) == (at_or_after, after, before)


@pytest.mark.parametrize(
    ("at", "at_or_after", "after", "before"),
    [(2, 2, 7, -3), (-3, -3, 2, -8), (-4, -3, -3, -8), (0, 2, 2, -3)],
)
def test_a_process_that_has_run_for_long_has_runs_before_the_start(
    at: int, at_or_after: int, after: int, before: int
) -> None:
    grid = LoopGrid(2, 5, unbounded=True)
    assert (grid.at_or_after(at), grid.after(at), grid.before(at)) == (at_or_after, after, before)


@pytest.mark.parametrize("low", range(-12, 30))
@pytest.mark.parametrize("unbounded", [False, True])
def test_runs_between_two_instants_are_all_that_come_one_after_the_other(
    low: int, unbounded: bool
) -> None:
    grid = LoopGrid.of_course(((2, 5), (7, 3), (13, 6), (19, 6)), unbounded=unbounded)
    for high in range(low - 1, 40):
        runs = [grid.at_or_after(low)]
        while runs[-1] <= high:
            runs.append(grid.after(runs[-1]))
        assert list(grid.between(low, high)) == runs[:-1]


def test_of_processes_that_begin_at_one_instant_the_last_one_ticks() -> None:
    even, drifting, later = ((0, 5),), ((0, 5), (10, 6)), ((40, 5),)
    timing = Timing(monitor_courses=(even, drifting, later))
    grid = timing.ticks(0, 5, warm=False)
    assert list(grid.between(0, 25)) == [0, 5, 10, 16, 22]
