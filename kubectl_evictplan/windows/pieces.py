"""Pieces: what one pair of node runs stands for, and the unknowns that are settled to get there."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.circumstances import Moment


class Grid(NamedTuple):
    """Where the monitor ticks: phase of the first tick, and what each tick costs."""

    phase_ns: int
    cost_ns: int


class Corner(msgspec.Struct, frozen=True):
    """Where several critical phases meet, at one cost of ticks: only the stretches beside them change there.

    ``vanishing``: only the stretches between them, which vanish where they meet.
    """

    instants: frozenset[int]
    vanishing: bool

    def touches(self, low_ns: int, high_ns: int, step_ns: int) -> bool:
        """Whether a stretch of phases has a corner there."""
        phases = {at_ns % step_ns for at_ns in self.instants}
        begins, ends = low_ns in phases, (high_ns + 1) % step_ns in phases
        return begins and ends if self.vanishing else begins or ends


class Piece(NamedTuple):
    """Grids from ``first`` to ``last`` for a scenario with every last heartbeat filled in.

    ``last_scenario`` goes with ``last``: it differs from ``scenario`` where the instant of a start is
    not known. ``missed``: names of unknowns that were not wholly explored here; ``left_out_ns``: critical
    values lie in between, and instants can lie about that much outside.
    ``zones_backwards``: see ``Timing``.
    """

    scenario: Scenario
    first: Grid = Grid(0, 0)
    last: Grid = Grid(0, 0)
    left_out_ns: int = 0
    zones_backwards: bool = False
    # The moments at both ends of the phases, where they are known.
    between: tuple[Moment, Moment] | None = None
    last_scenario: Scenario | None = None
    missed: frozenset[str] = frozenset()
    # The number of a piece that is drawn: one choice of everything, where not all of them can be explored.
    drawn: int | None = None
    # Of all stretches of phases only those that have a corner here.
    corner: Corner | None = None
    # One phase stands for all that are admissible.
    phase_is_chosen: bool = False

    @property
    def shift_ns(self) -> int:
        """How far apart a start is at both ends."""
        if self.last_scenario is None:
            return 0
        pairs = zip(self.scenario.events, self.last_scenario.events, strict=True)
        return max((last.at_ns - first.at_ns for first, last in pairs), default=0)

    def spread_ns(self, period_ns: int, end_ns: int) -> int:
        """How far apart the same tick can lie at both ends."""
        ticks = end_ns // period_ns + 1
        costs_ns = ticks * abs(self.last.cost_ns - self.first.cost_ns)
        phases_ns = self.last.phase_ns - self.first.phase_ns
        if self.last_scenario is not None:
            phases_ns = max(phases_ns, 0) + self.shift_ns
        return phases_ns + min(costs_ns, period_ns)

    def missing(self, unknown: str, left_out_ns: int = 0) -> Piece:
        """The piece, in which that unknown was not wholly explored."""
        return self._replace(
            missed=self.missed | {unknown}, left_out_ns=self.left_out_ns + left_out_ns
        )
