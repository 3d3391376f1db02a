"""Pieces: what one pair of node runs stands for, and the unknowns that are settled to get there."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.engine.event_queue import Course
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.circumstances import Moment


class Grid(NamedTuple):
    """Where the monitor ticks: phase of the first tick, and what each tick costs; or the courses of all processes."""

    phase_ns: int
    cost_ns: int
    courses: tuple[Course, ...] = ()


class Piece(msgspec.Struct, frozen=True):
    """Grids from ``first`` to ``last`` for a scenario with every last heartbeat filled in.

    ``last_scenario`` goes with ``last``: it differs from ``scenario`` where the instant of a start is
    not known. ``missed``: names of unknowns that were not wholly explored here; ``left_out_ns``: critical
    values lie in between, and instants can lie about that much outside.
    ``zones_backwards``, ``zone_states``, ``still_in_line``, ``early_in_line``, ``probes_anew_ticks``, ``posted_late``: see ``Timing``.
    """

    scenario: Scenario
    first: Grid = Grid(0, 0)
    last: Grid = Grid(0, 0)
    left_out_ns: int = 0
    zones_backwards: bool = False
    zone_states: tuple[tuple[str, str], ...] = ()
    still_in_line: tuple[str, ...] = ()
    early_in_line: tuple[str, ...] = ()
    probes_anew_ticks: int = 0
    posted_late: tuple[str, ...] = ()
    # The moments at both ends of the phases, where they are known.
    between: tuple[Moment, Moment] | None = None
    last_scenario: Scenario | None = None
    missed: frozenset[str] = frozenset()
    # The number of a piece that is drawn: one choice of everything, where not all of them can be explored.
    drawn: int | None = None
    # One phase stands for all that are admissible.
    phase_is_chosen: bool = False
    # How far apart the same tick lies at both ends, up to the last one that meets something.
    apart_ns: int | None = None

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
        if self.apart_ns is not None:
            return self.apart_ns + min(costs_ns, period_ns)
        phases_ns = self.last.phase_ns - self.first.phase_ns
        if self.last_scenario is not None:
            phases_ns = max(phases_ns, 0) + self.shift_ns
        return phases_ns + min(costs_ns, period_ns)

    def missing(self, unknown: str, left_out_ns: int = 0) -> Piece:
        """The piece, in which that unknown was not wholly explored."""
        return replace(
            self, missed=self.missed | {unknown}, left_out_ns=self.left_out_ns + left_out_ns
        )

    def ticking(self, first: Grid, last: Grid, *, phase_is_chosen: bool = False) -> Piece:
        """The piece between these grids; ``phase_is_chosen``: one phase of them stands for all."""
        chosen = self.phase_is_chosen or phase_is_chosen
        return replace(self, first=first, last=last, phase_is_chosen=chosen)
