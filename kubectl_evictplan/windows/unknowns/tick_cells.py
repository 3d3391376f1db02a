"""Cells of ticks: every order in which the node monitor's ticks and what they meet can come.

A tick of a process comes a period after the one before it and up to the cost of a tick later, each by an amount of its own. What
a run does depends on which tick is the first after each instant that matters. Once that is chosen for all of them (a *cell*),
nothing but instants changes: every tick lies within a span, and neighbours lie so far apart. Such differences
have one solution in which every tick is as early as it can be, and one in which every tick is as late as it can
be. So two runs have the corners of a cell, however much the costs of ticks drift.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from kubectl_evictplan.engine.event_queue import Course
from kubectl_evictplan.windows.spans import Span


class Tick(NamedTuple):
    """A tick: from when to when it can come.

    ``begins``: the first of its process; ``comes``: False for the one that its process does not live to see.
    """

    low_ns: int
    high_ns: int
    begins: bool = False
    comes: bool = True


Cell = tuple[Tick, ...]


class Process(msgspec.Struct, frozen=True):
    """A process of kube-controller-manager: when its first tick can come, and when it ends (None: not at all)."""

    begin: Span
    end_ns: int | None
    # It runs since long before the start: spans in which its first tick from the start on can come; () for all.
    phases: tuple[Span, ...] | None = None
    # Sorted instants at which only the beginning itself matters, not its later ticks.
    cuts: tuple[int, ...] = ()


class TickSteps(NamedTuple):
    """How far apart two ticks of one process come."""

    shortest_ns: int
    longest_ns: int

    def cells(self, process: Process, cuts: Sequence[int]) -> Iterator[Cell]:
        """Every order in which the ticks of a process and the sorted ``cuts`` can come."""
        last_ns = cuts[-1] if cuts else process.begin[0]
        if process.end_ns is not None:
            cuts = sorted({*(at_ns for at_ns in cuts if at_ns < process.end_ns), process.end_ns})
            last_ns = process.end_ns
        begun: list[tuple[list[Tick], Span]] = [([], process.begin)]
        while begun:
            ticks, span = begun.pop()
            parts = _parts(process, ticks, span, cuts)
            while len(parts) == 1 and parts[0][0] < last_ns:
                ticks.append(_tick(process, parts[0], begins=not ticks))
                parts = _parts(process, ticks, self.next(parts[0]), cuts)
            for part in reversed(parts):
                found = [*ticks, _tick(process, part, begins=not ticks)]
                if part[0] >= last_ns:
                    yield tuple(found)
                else:
                    begun.append((found, self.next(part)))

    def next(self, span: Span) -> Span:
        """When the tick after one in that span comes."""
        return span[0] + self.shortest_ns, span[1] + self.longest_ns

    def tightened(self, cell: Sequence[Tick]) -> Cell | None:
        """The cell, every span of which begins and ends with a choice of all ticks; None where there is none."""
        return self._cut((), dict(enumerate(cell)))

    def _cut(self, cell: Cell, cut: Mapping[int, Tick]) -> Cell | None:
        """The ``tightened`` cell with these ticks, which are cut shorter or new, tightened as well.

        Far from them it stays as it is.
        """
        ticks = {**dict(enumerate(cell)), **cut}
        first, last = min(cut, default=0), max(cut, default=-1)
        for place in range(first, len(ticks)):
            tick = ticks[place]
            low_ns, high_ns = tick.low_ns, tick.high_ns
            if not tick.begins:
                since_ns, until_ns = self.next(ticks[place - 1][:2])
                low_ns, high_ns = max(low_ns, since_ns), min(high_ns, until_ns)
            if low_ns > high_ns:
                return None
            if (low_ns, high_ns) != tick[:2]:
                ticks[place] = tick._replace(low_ns=low_ns, high_ns=high_ns)
                last = max(last, place)
            elif place > last:
                break
        for place in range(last, 0, -1):
            before = ticks[place - 1]
            low_ns, high_ns = before.low_ns, before.high_ns
            if not ticks[place].begins:
                since_ns, until_ns = ticks[place][:2]
                low_ns = max(low_ns, since_ns - self.longest_ns)
                high_ns = min(high_ns, until_ns - self.shortest_ns)
            if (low_ns, high_ns) != before[:2]:
                ticks[place - 1] = before._replace(low_ns=low_ns, high_ns=high_ns)
            elif place <= first:
                break
        return tuple(ticks.values())

    def seen_first(self, cell: Cell, span: Span) -> Iterator[tuple[int, Cell]]:
        """Which ticks can be the first to see what happens once in a span, and the cell in which it is that one.

        Where no tick comes afterwards, its place is the number of ticks. The cell is ``tightened``, and so are those.
        """
        low_ns, high_ns = span
        before: int | None = None
        for place, tick in enumerate((*cell, None)):
            if tick is not None and not tick.comes:
                continue
            if before is not None and cell[before].low_ns >= high_ns:
                return
            if tick is None or tick.high_ns >= low_ns:
                cut: dict[int, Tick] = {}
                if before is not None:
                    until_ns = min(cell[before].high_ns, high_ns - 1)
                    cut[before] = cell[before]._replace(high_ns=until_ns)
                if tick is not None:
                    cut[place] = tick._replace(low_ns=max(tick.low_ns, low_ns))
                found = self._cut(cell, cut)
                if found is not None:
                    yield place, found
            before = place

    def courses(self, cell: Cell, *, latest: bool, before_ns: int | None) -> tuple[Course, ...]:
        """The courses of all processes with every tick as early, or as late, as it can be.

        ``before_ns``: the first process ticks before its first tick here as well, and before that instant.
        """
        step_ns = self.longest_ns if latest else self.shortest_ns
        found: list[list[int]] = []
        for tick in cell:
            if tick.begins:
                found.append([])
            found[-1].append(tick.high_ns if latest else tick.low_ns)
        if before_ns is not None:
            # That one has seen nothing of what the first tick of the cell may be the first to see.
            found[0].insert(0, min(found[0][0] - step_ns, before_ns - 1))
        return tuple(_course(ticks_ns, step_ns) for ticks_ns in found)


def _tick(process: Process, span: Span, *, begins: bool) -> Tick:
    comes = process.end_ns is None or span[0] < process.end_ns
    return Tick(*span, begins=begins, comes=comes)


def _parts(process: Process, before: Sequence[Tick], span: Span, cuts: Sequence[int]) -> list[Span]:
    """The parts of a tick's span between cuts; of the first one after the start those that are known to be possible."""
    low_ns, high_ns = span
    if process.cuts and not before:
        cuts = sorted({*cuts, *process.cuts})
    inside = cuts[bisect_right(cuts, low_ns) : bisect_right(cuts, high_ns)]
    parts = [
        (since_ns, end_ns - 1) for since_ns, end_ns in pairwise((low_ns, *inside, high_ns + 1))
    ]
    if not process.phases or (before and before[-1].high_ns >= 0):
        return parts
    return [
        (max(since_ns, first_ns), min(until_ns, last_ns))
        for since_ns, until_ns in parts
        for first_ns, last_ns in (process.phases if since_ns >= 0 else ((since_ns, until_ns),))
        if max(since_ns, first_ns) <= min(until_ns, last_ns)
    ]


def _course(ticks_ns: Sequence[int], step_ns: int) -> Course:
    """Ticks at these instants, and ``step_ns`` apart after the last."""
    found: list[tuple[int, int]] = []
    for at_ns, after_ns in pairwise((*ticks_ns, ticks_ns[-1] + step_ns)):
        if not found or found[-1][1] != after_ns - at_ns:
            found.append((at_ns, after_ns - at_ns))
    return tuple(found)
