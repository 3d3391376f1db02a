"""Ticks that meet the end of a countdown, or a service, between the ends of a piece.

Between its ends a piece has every tick anywhere in its span, but no two of them closer together than a period, nor further apart than that
and what they cost. So whether a countdown that a tick or a service began ends before the tick that takes the taint off may be told by
neither end. Where it can be the other way than at an end, that way has an earliest and a latest solution as well: one tick is held where
it makes the difference, and all others of its process are as early, or as late, as they can be then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE, UNKNOWN
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.playback import NodePlayback
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.node_records import NodeRecord
from kubectl_evictplan.windows.node_runs import NodeRun
from kubectl_evictplan.windows.piece_runs import PieceRun
from kubectl_evictplan.windows.pod_worlds import Countdowns
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.lines import SERVED_AFTER_NS
from kubectl_evictplan.windows.unknowns.services import History
from kubectl_evictplan.windows.unknowns.tick_cells import TickSteps

_TIE_NS = 10

_Records = tuple[NodeRecord, NodeRecord]


class TickChain(msgspec.Struct, eq=False):
    """The ticks of one process in a piece, as early and as late as they come."""

    first_ns: Sequence[int]
    last_ns: Sequence[int]
    steps: TickSteps

    def of_end(self, *, latest: bool) -> Sequence[int]:
        """At one end."""
        return self.last_ns if latest else self.first_ns

    def can_have(self, place: int, at_ns: int) -> bool:
        """Whether the tick of that place can come then.

        Where a process may end before it begins, what one process does at one end of a piece another one does at the other: no tick
        comes in between.
        """
        ends_ns = [ticks[min(place, len(ticks) - 1)] for ticks in (self.first_ns, self.last_ns)]
        return min(ends_ns) - _TIE_NS <= at_ns <= max(ends_ns) + _TIE_NS


class _Service(NamedTuple):
    """When a pass serves a node at one end of a piece, and when it does so where a tick is held elsewhere."""

    name: str
    at_ns: int
    moved_ns: int


class MovedTicks(NamedTuple):
    """One end of a piece with a tick held elsewhere: earlier at the last end, later at the first one; the others follow as far as they have to.

    ``meets_ns``: the tick, of that end, which something is on the other side of so.
    """

    chain: TickChain
    latest: bool
    place: int
    to_ns: int
    meets_ns: int
    service: _Service | None = None

    def instant_ns(self, at_ns: int) -> int:
        """When the tick comes that this end has at that instant; what is no tick stays."""
        ticks_ns = self.chain.of_end(latest=self.latest)
        place = bisect_left(ticks_ns, at_ns)
        if place == len(ticks_ns) or ticks_ns[place] != at_ns:
            return at_ns
        later, (shortest_ns, longest_ns) = place - self.place, self.chain.steps
        if self.latest:
            return min(at_ns, self.to_ns + later * (longest_ns if later > 0 else shortest_ns))
        return max(at_ns, self.to_ns + later * (shortest_ns if later > 0 else longest_ns))

    def playback(self, name: str, record: NodeRecord, served_ns: Sequence[int]) -> NodePlayback:
        """What happens to the node ``name`` then, which is served at these instants at this end."""
        unknown_ns = (at_ns for at_ns, status in record.ready if status == UNKNOWN)
        return NodePlayback(
            tuple(map(self.instant_ns, unknown_ns)),
            tuple((self.instant_ns(at_ns), status) for at_ns, status in record.decisions),
            tuple(self._service_ns(name, record, at_ns) for at_ns in served_ns),
            evicted_before=record.evicted_before,
        )

    def _service_ns(self, name: str, record: NodeRecord, at_ns: int) -> int:
        """When a service comes then: between the same decisions."""
        if self.service is not None and self.service[:2] == (name, at_ns):
            return self.service.moved_ns
        decided_ns = [each for each, _ in record.decisions]
        if at_ns in decided_ns:
            return self.instant_ns(at_ns)
        if self.latest:
            return min((at_ns, *(self.instant_ns(ns) - 1 for ns in decided_ns if ns > at_ns)))
        return max((at_ns, *(self.after(ns, at_ns) for ns in decided_ns if ns < at_ns)))

    def after(self, tick_ns: int, at_ns: int) -> int:
        """When a pass can serve at the earliest that comes at ``at_ns`` after, or in, that tick of this end."""
        return self.instant_ns(tick_ns) + min(at_ns - tick_ns, SERVED_AFTER_NS)

    def moved(self, scenario: Scenario) -> Scenario:
        """The scenario with the process starting when its first tick comes."""
        events = tuple(
            each.moved_to(self.instant_ns(each.at_ns)) if each.manager_up else each
            for each in scenario.events
        )
        return scenario if events == scenario.events else replace(scenario, events=events)


class _Begun(NamedTuple):
    """What begins a countdown at one end of a piece: an event, a process, a tick, or a pass that serves the node ``name``.

    ``tick``: at both ends of the piece the one that begins it, or that puts the node in line; None where there is none. ``served``: from when to
    when the service can come; None where there is none.
    """

    at_ns: int
    tick: Span | None
    served: Span | None = None
    name: str = ""


class MetTicks:
    """What ticks meet between the ends of a piece, told from one of them."""

    def __init__(
        self,
        run: PieceRun,
        names: Sequence[str],
        countdowns: Countdowns,
        steps: TickSteps,
        *,
        latest: bool,
    ) -> None:
        """Of the nodes ``names``, with the ``countdowns`` of their pods."""
        self._run, self._steps, self._latest = run, steps, latest
        self._delays_ns = sorted(countdowns.delays_ns)
        self._begins_ns = sorted(countdowns.begins_ns)
        # What comes to a node with a taint may go at once.
        dues_ns = sorted(countdowns.dues_ns | countdowns.begins_ns)
        self._dues = [_Begun(at_ns, None) for at_ns in dues_ns]
        self._records = {name: (run.first.record(name), run.last.record(name)) for name in names}
        self._ends = sorted(set(self._ends_of_countdowns(by_exchange=countdowns.told_apart)))
        self._changes = sorted(_changes_by_ticks(self._records.values()))
        self._chains: list[TickChain] | None = None

    @property
    def asked_for_ticks(self) -> bool:
        """Whether it took more to tell than what the records and waits of the nodes say."""
        return self._chains is not None

    def moves(self, chosen: Sequence[History]) -> list[MovedTicks]:
        """The other ways that there are where nodes are served as it was ``chosen``: each with one tick held just beside what it meets."""
        found = dict[MovedTicks, None]()
        if self._ends or self._changes:
            begun = list(self._begun(chosen))
            for meeting in product(begun, self._delays_ns, self._ends):
                found.update(dict.fromkeys(self._otherwise(*meeting)))
            # What is due then is so whatever happens.
            for each, ticks in product(self._dues, self._ends):
                found.update(dict.fromkeys(self._otherwise(each, 0, ticks)))
            for each, ticks in product(begun, self._changes):
                if each.served is not None:
                    found.update(dict.fromkeys(self._otherwise(each, 0, ticks)))
            for each in begun:
                found.update(dict.fromkeys(self._just_served(each)))
        return list(found)

    def _ends_of_countdowns(self, *, by_exchange: bool) -> Iterator[Span]:
        for first, last in self._records.values():
            for place in first.ends_of_countdowns(by_exchange=by_exchange):
                if place < len(last.decisions):
                    first_ns, last_ns = first.decisions[place][0], last.decisions[place][0]
                    yield first_ns, max(last_ns, first_ns + _TIE_NS)

    # -- what begins countdowns ---------------------------------------------------------------------------

    def _begun(self, chosen: Sequence[History]) -> Iterator[_Begun]:
        yield from (_Begun(at_ns, None) for at_ns in self._begins_ns)
        ends = (self._run.first.scenario.events, self._run.last.scenario.events)
        starts = ([event.at_ns for event in events if event.manager_up] for events in ends)
        for tick in zip(*starts, strict=True):
            yield _Begun(tick[self._latest], tick)
        for (name, records), history in zip(self._records.items(), chosen, strict=True):
            wanted = False
            for first_ns, last_ns, status in _decisions(records):
                at_ns = last_ns if self._latest else first_ns
                # Whoever is wanted already has its taint exchanged, if it was served.
                if status != TRUE and (wanted or at_ns in records[self._latest].taints):
                    yield _Begun(at_ns, (first_ns, last_ns))
                wanted = status != TRUE
            served = zip(self._run.waits.get(name, ()), history.choice, strict=False)
            spans = [wait.spans[place] for wait, place in served if place is not None]
            for at_ns in history.served_ns:
                span = next((each for each in spans if each[0] <= at_ns <= each[1]), (at_ns, at_ns))
                yield _Begun(at_ns, self._put_in_line(records, at_ns), span, name)

    def _put_in_line(self, records: _Records, served_ns: int) -> Span | None:
        """The tick that put the node in line which is served then, at both ends; None for one before the start."""
        found: Span | None = None
        for first_ns, last_ns, status in _decisions(records):
            at_ns = last_ns if self._latest else first_ns
            if at_ns > served_ns:
                break
            if status != TRUE:
                found = found or (first_ns, last_ns)
            elif at_ns < served_ns:
                found = None
        return None if found == (0, 0) else found

    # -- the other way ------------------------------------------------------------------------------------

    def _otherwise(self, begun: _Begun, delay_ns: int, ticks: Span) -> Iterator[MovedTicks]:
        """The tick before what is due so long after ``begun`` if it comes after that at this end, else after it: as far as the piece has that."""
        tick_ns, due_ns = ticks[self._latest], begun.at_ns + delay_ns
        side_ns = -1 if self._latest else 1
        if (due_ns <= tick_ns) == self._latest:
            # What is due 1 ns beside a tick began so that it comes just before it, or just after it.
            if ticks[0] < due_ns <= ticks[1] and due_ns != tick_ns + side_ns:
                moved = self._held(tick_ns, due_ns + side_ns, tick_ns)
                yield from self._if_otherwise(begun, delay_ns, moved)
        elif begun.tick is not None and delay_ns and begun.at_ns < tick_ns:
            at_ns, own_ns = tick_ns - delay_ns + side_ns, begun.tick[self._latest]
            if begun.at_ns == own_ns:
                if begun.tick[0] <= at_ns <= begun.tick[1]:
                    moved = self._held(own_ns, at_ns, tick_ns)
                    yield from self._if_otherwise(begun, delay_ns, moved, at_ns)
            # A service after the tick of this end is one of those that are chosen.
            elif begun.served and begun.served[0] <= at_ns < own_ns + SERVED_AFTER_NS:
                if self._latest and begun.tick[0] <= at_ns - SERVED_AFTER_NS:
                    moved = self._held(own_ns, at_ns - SERVED_AFTER_NS, tick_ns)
                    yield from self._if_otherwise(begun, delay_ns, moved, at_ns)

    def _just_served(self, begun: _Begun) -> Iterator[MovedTicks]:
        """The earliest instants at which a node is served before the tick that wants it no more, where the first end has that tick before the token."""
        if not self._latest or begun.served is None:
            return
        for first_ns, last_ns, status in _decisions(self._records[begun.name]):
            served_ns = begun.served[0]
            if status != TRUE or begun.at_ns != last_ns - 1 or served_ns < first_ns:
                continue
            moved = self._held(last_ns, served_ns + 1, last_ns)
            if moved is None:
                continue
            if begun.tick is not None:
                served_ns = max(served_ns, moved.instant_ns(begun.tick[1]))
            if served_ns < moved.instant_ns(last_ns):
                yield moved._replace(service=_Service(begun.name, begun.at_ns, served_ns))

    def _held(self, from_ns: int, to_ns: int, meets_ns: int) -> MovedTicks | None:
        """The tick of this end at ``from_ns`` held at ``to_ns``; None where there is no such tick."""
        if self._chains is None:
            self._chains = list(_chains(self._run, self._steps))
        for chain in self._chains:
            ticks_ns = chain.of_end(latest=self._latest)
            place = bisect_left(ticks_ns, from_ns)
            if place < len(ticks_ns) and ticks_ns[place] == from_ns:
                if not chain.can_have(place, to_ns):
                    return None
                return MovedTicks(chain, self._latest, place, to_ns, meets_ns)
        return None

    def _if_otherwise(
        self, begun: _Begun, delay_ns: int, moved: MovedTicks | None, at_ns: int | None = None
    ) -> Iterator[MovedTicks]:
        """What is ``moved``, if what is due and the tick that it meets change sides by that; ``at_ns``: when ``begun`` is then."""
        if moved is None:
            return
        if at_ns is None:
            at_ns = begun.at_ns
            if begun.served is None and begun.tick is not None:
                at_ns = moved.instant_ns(at_ns)
            elif begun.tick is not None and not self._latest:
                at_ns = max(at_ns, moved.after(begun.tick[0], at_ns))
        was_first = begun.at_ns + delay_ns <= moved.meets_ns
        if (at_ns + delay_ns <= moved.instant_ns(moved.meets_ns)) != was_first:
            service = None if begun.served is None else _Service(begun.name, begun.at_ns, at_ns)
            yield moved._replace(service=service)


def _decisions(records: _Records) -> Iterator[tuple[int, int, str]]:
    """What ticks decide about a node, at both ends of a piece."""
    both = zip(records[0].decisions, records[1].decisions, strict=False)
    return ((first_ns, last_ns, status) for (first_ns, status), (last_ns, _) in both)


def _chains(run: PieceRun, steps: TickSteps) -> Iterator[TickChain]:
    """The ticks of every process of a piece, counted from its first one."""
    of_ends = [list(_ticks(end, steps.shortest_ns)) for end in (run.first, run.last)]
    for first_ns, last_ns in zip(*of_ends, strict=True):
        yield TickChain(first_ns, last_ns, steps)


def _ticks(run: NodeRun, period_ns: int) -> Iterator[Sequence[int]]:
    timing, events, end_ns = run.timing, run.scenario.events, run.scenario.end_ns
    grids = [timing.ticks(each.at_ns, period_ns, warm=False) for each in events if each.manager_up]
    if not starts_without_controller(run.scenario):
        grids.insert(0, timing.ticks(timing.monitor_phase_ns, period_ns, warm=True))
    for grid in grids:
        stops_ns = (event.at_ns for event in events if event.manager_up is False)
        until_ns = next((at_ns for at_ns in stops_ns if at_ns > grid.first_ns), end_ns)
        yield list(grid.between(grid.first_ns, until_ns))


def _changes_by_ticks(records: Iterable[_Records]) -> set[Span]:
    """When ticks change which taint a pass writes, at both ends of a piece."""
    both = (
        zip(one.taint_changes_ns(), other.taint_changes_ns(), strict=False)
        for one, other in records
    )
    return {
        (first_ns, last_ns) for ticks in both for first_ns, last_ns in ticks if first_ns < last_ns
    }
