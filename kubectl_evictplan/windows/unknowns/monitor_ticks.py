"""Where the ticks of the node monitor fall: the phase of the first one, and what each of them costs.

``tick_orders`` settles both together. Here is what is tried where its cells do not fit into the budget: then all ticks
cost the same. Between two *critical* phases (a tick that just catches a heartbeat, or just misses it) the structure of a
run stays the same and its instants move with the phase. So a *piece* is told by its first and its last phase, and costs
are sampled.

Where the monitor's grid is known (a given phase, a process that the scenario starts) its ticks meet
other instants only by what they cost: there pieces lie between critical costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.pieces import Grid, Piece
from kubectl_evictplan.windows.unknowns.tick_meetings import TickMeetings, whole_ticks
from kubectl_evictplan.windows.unknowns.unknown import Unknown, sequence

_Value = TypeVar("_Value")
# Of a new process's grid, where not every phase of the old one can be tried with each.
_CRITICAL_COSTS_MAX = 40


class TickCost(Unknown[Piece]):
    """How much later than a period each tick comes; the more ticks, the further they drift."""

    name = "cost of ticks"
    what = "how long each tick of the node monitor takes, which makes all later ones drift"

    def __init__(self, meetings: TickMeetings) -> None:
        self._meetings = meetings
        self._period_ns = meetings.period_ns

    def fewest(self, part: Piece) -> int:
        """Ticks that cost nothing, and all they can."""
        return 2

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """Nothing, all they can, and half of that; where the grid is known, the stretches between critical costs."""
        meetings, cost_max_ns = self._meetings, self._meetings.cost_max_ns
        fixed_ns = meetings.fixed_phase_ns(part.scenario)
        if part.drawn is not None:
            yield self._drawn(part, part.drawn)
            return
        # What differs from tick to tick is settled together with the phase: see ``tick_orders``.
        part = part.missing(self.name)
        if fixed_ns is not None:
            own = {*self._of_grace_period(), *self._of_known_grids(part.scenario)}
            costs = _every(sorted(own), max(most - 1, 2))
            for low_ns, high_ns in _between(costs, cost_max_ns + 1):
                yield part.ticking(Grid(fixed_ns, low_ns), Grid(fixed_ns, high_ns))
            return
        if most < self.fewest(part):
            yield part.ticking(Grid(0, 0), Grid(0, cost_max_ns))
            return
        for cost_ns in (0, cost_max_ns, cost_max_ns // 2)[:most]:
            yield part.ticking(Grid(0, cost_ns), Grid(0, cost_ns))
        yield from self._of_new_process(part, most)

    def _of_new_process(self, part: Piece, most: int) -> Iterator[Piece]:
        """Stretches of costs for a grid that a new process starts: when the old one ticked matters little to it."""
        costs = sorted(set(self._of_known_grids(part.scenario)))
        if not costs:
            return
        # Each of them has one phase only, instead of all.
        phases = len(self._meetings.instants(part.scenario)) + 1
        costs = _every(costs, max(min(_CRITICAL_COSTS_MAX, most * phases // 4), 2))
        for low_ns, high_ns in _between(costs, self._meetings.cost_max_ns + 1):
            for phase_ns in (0, self._period_ns // 2):
                first, last = Grid(phase_ns, low_ns), Grid(phase_ns, high_ns)
                yield part.ticking(first, last, phase_is_chosen=True)

    def _drawn(self, part: Piece, index: int) -> Piece:
        cost_ns = _drawn((0, self._meetings.cost_max_ns, self._meetings.cost_max_ns // 2), 0, index)
        grid = Grid(self._meetings.fixed_phase_ns(part.scenario) or 0, cost_ns)
        return part.ticking(grid, grid)

    def _of_grace_period(self) -> Iterator[int]:
        """Costs with which the grace period is a whole number of ticks."""
        grace_period_ns = self._meetings.configuration.node_monitor_grace_period_ns
        yield from whole_ticks(grace_period_ns, self._meetings)

    def _of_known_grids(self, scenario: Scenario) -> Iterator[int]:
        """Costs with which a grid that starts at a known instant just meets another instant."""
        processes = [event for event in scenario.events if event.manager_up]
        starts = [at_ns for event in processes for at_ns in {event.at_ns, event.latest_ns}]
        if self._meetings.configuration.monitor_phase_ns is not None:
            starts.append(self._meetings.configuration.monitor_phase_ns)
        for start_ns in starts:
            for at_ns in self._meetings.instants(scenario):
                steps = (at_ns - start_ns) // self._period_ns
                if steps > 0:
                    cost_ns = -(-(at_ns - start_ns) // steps) - self._period_ns
                    if 0 < cost_ns <= self._meetings.cost_max_ns:
                        yield cost_ns


class MonitorPhase(Unknown[Piece]):
    """From the start to the first tick."""

    name = "phase of the node monitor"
    what = "when the node monitor ticks for the first time"

    def __init__(self, meetings: TickMeetings) -> None:
        self._meetings = meetings
        self._period_ns = meetings.period_ns

    def fewest(self, part: Piece) -> int:
        """Every stretch."""
        if self._meetings.fixed_phase_ns(part.scenario) is not None:
            return 1
        return len(self._meetings.instants(part.scenario)) + 1

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """The stretches between critical phases, or fewer that hold several of them."""
        if part.phase_is_chosen or self._meetings.fixed_phase_ns(part.scenario) is not None:
            yield part
            return
        step_ns = self._period_ns + part.first.cost_ns
        phases = sorted({at_ns % step_ns for at_ns in self._meetings.instants(part.scenario)} | {0})
        if part.drawn is not None:
            spans = [
                each for span in _between(phases, step_ns) for each in self._visible(part, *span)
            ]
            yield _drawn(spans, 1, part.drawn)
            return
        for low_ns, high_ns in _between(_every(phases, max(most, 2)), step_ns):
            for piece in self._visible(part, low_ns, high_ns):
                first_ns, last_ns = piece.first.phase_ns, piece.last.phase_ns
                if any(first_ns < phase_ns <= last_ns for phase_ns in phases):
                    yield piece.missing(self.name, last_ns - first_ns)
                else:
                    yield piece

    def _visible(self, part: Piece, low_ns: int, high_ns: int) -> Iterator[Piece]:
        """The parts of a stretch of phases that the snapshot leaves; all of it where it tells nothing."""
        spans = self._meetings.configuration.monitor_phases_ns or ((low_ns, high_ns),)
        for first_ns, last_ns in spans:
            if max(low_ns, first_ns) <= min(high_ns, last_ns):
                yield part.ticking(
                    part.first._replace(phase_ns=max(low_ns, first_ns)),
                    part.last._replace(phase_ns=min(high_ns, last_ns)),
                )


def _between(starts: Iterable[int], end: int) -> Iterator[tuple[int, int]]:
    """(first, last) of the stretches of 0 .. ``end`` - 1 that begin at 0 and at each of ``starts``."""
    for low, high in pairwise([*sorted({0, *starts}), end]):
        yield low, high - 1


def _drawn(values: Sequence[_Value], dimension: int, index: int) -> _Value:
    return values[int(sequence(dimension, index) * len(values))]


def _every(values: Sequence[int], count: int) -> list[int]:
    """At most ``count`` of sorted values, evenly chosen, with both ends."""
    if len(values) <= count:
        return list(values)
    last = len(values) - 1
    return sorted({values[index * last // (count - 1)] for index in range(count)})
