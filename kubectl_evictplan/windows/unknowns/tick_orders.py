"""Pieces of all orders of ticks, starts of processes, and what they meet: one for each cell (``tick_cells``).

The phase of the node monitor, what each of its ticks costs, when a process starts that is not known to the second, and
which tick is the first to see each kubelet's last renewal, or its return, are settled together: what is possible of one depends
on the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise, product

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.circumstances import Moment
from kubectl_evictplan.windows.pieces import Grid, Piece
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.last_heartbeats import LastHeartbeats
from kubectl_evictplan.windows.unknowns.starts import is_open_return
from kubectl_evictplan.windows.unknowns.tick_cells import Cell, Process, Tick, TickSteps
from kubectl_evictplan.windows.unknowns.tick_meetings import TickMeetings


class _Sighting(msgspec.Struct, frozen=True):
    """A last renewal, or a kubelet's return: it matters which tick is the first to see it.

    ``kind``: of nodes of equal kind it is all the same which of them is which.
    """

    kind: Hashable
    spans: tuple[Span, ...]

    @property
    def is_open(self) -> bool:
        """Whether it is not known exactly."""
        return self.spans[0][0] < self.spans[-1][1]


class _Sight(msgspec.Struct, frozen=True):
    """Which tick sees it first, in which span it lies then, and which tick comes before (None: none does)."""

    tick: int
    span: Span
    before: int | None

    def latest_ns(self, ticks_ns: Sequence[int]) -> int:
        """The latest instant of which that holds."""
        # No tick at all may come after it.
        return min((self.span[1], *ticks_ns[self.tick : self.tick + 1]))

    def earliest_ns(self, ticks_ns: Sequence[int]) -> int:
        """The earliest one."""
        if self.before is None:
            return self.span[0]
        return max(self.span[0], ticks_ns[self.before] + 1)


# Kubelets whose returns are told at both ends of what a tick leaves open, each with each.
_RETURNS_MAX = 3


class _TooManyError(Exception):
    """There are more pieces than asked for."""


class TickOrders:
    """All pieces of a part in which ticks, starts of processes, last renewals and returns of kubelets are open."""

    def __init__(
        self, part: Piece, meetings: TickMeetings, heartbeats: LastHeartbeats, most: int
    ) -> None:
        self._part = part
        self._scenario = part.scenario
        self._meetings = meetings
        self._heartbeats = heartbeats
        self._most = most
        period_ns = meetings.period_ns
        self._steps = TickSteps(period_ns, period_ns + meetings.cost_max_ns)
        self._renewals = [
            _Sighting(kind, spans) for kind, spans in heartbeats.kinds_and_spans(part.scenario)
        ]
        self._returns = list(_returns(part.scenario))
        self._sightings = [*self._renewals, *self._returns]
        alike: dict[Hashable, list[int]] = {}
        for place, each in enumerate(self._sightings):
            if each.is_open:
                alike.setdefault(each.kind, []).append(place)
        self._places_of, self._alike = alike, list(alike.values())
        # Alike ones stand together.
        self._open = [place for several in self._alike for place in several]
        self._moments: dict[int, Moment] = {}
        # Where a process runs at the start its last tick before this instant does not matter.
        self._runs_since_before_ns: int | None = None
        self._filled: dict[tuple[int, ...], Scenario] = {}

    def pieces(self) -> list[Piece] | None:
        """One piece for each cell.

        None where there are too many, where a process may end before it begins, where it depends on a return when a
        kubelet renews for the last time, where kubelets renew too slowly for their grace period, and where by what they cost
        more or fewer ticks fit into an age that the controller asks for.
        """
        if len(self._alike) > self._most or not self._meetings.ages_are_whole_ticks():
            return None
        if len(self._returns) > _RETURNS_MAX or _falls_silent_again(self._scenario):
            return None
        if self._meetings.every_renewal_counts(self._scenario):
            return None
        known_scenario = replace(self._scenario, events=tuple(_known(self._scenario)))
        self._moments = {each.at_ns: each for each in self._meetings.moments(known_scenario)}
        known = {each.spans[0][0] for each in self._renewals if not each.is_open}
        # What lies further back than every age that is asked for was found out before the start.
        since_ns = -self._meetings.longest_age_ns()
        cuts = sorted(at_ns for at_ns in {0, *self._moments, *known} if at_ns >= since_ns)
        processes = self._processes(cuts[0])
        if processes is None or len(cuts) > self._most:
            return None
        try:
            return list(self._all(processes, cuts))
        except _TooManyError:
            return None

    def _all(self, processes: Sequence[Process], cuts: Sequence[int]) -> Iterator[Piece]:
        found = 0
        for several in product(*(self._of_process(each, cuts) for each in processes)):
            cell = self._steps.tightened(self._to_the_end([t for each in several for t in each]))
            assert cell is not None, "each cell of a process has ticks"
            for sights, narrower in self._sights(cell, 0, {}):
                sides = product((False, True), repeat=len(self._returns))
                for turned, late in product(self._turns(sights), sides):
                    found += 1
                    if found > self._most:
                        raise _TooManyError
                    yield self._piece(narrower, turned, late)

    def _of_process(self, process: Process, cuts: Sequence[int]) -> list[Cell]:
        begin_ns, latest_ns = process.begin
        own = {at_ns for at_ns in cuts if at_ns > begin_ns}
        if process.phases is None:
            # Whatever happens comes before or after a start that is not known to the second.
            events = self._scenario.events
            own |= {event.at_ns for event in events if begin_ns < event.at_ns <= latest_ns}
        found = list(islice(self._steps.cells(process, sorted(own)), self._most + 1))
        if len(found) > self._most:
            raise _TooManyError
        return found

    def _to_the_end(self, ticks: list[Tick]) -> list[Tick]:
        """With ticks up to one that surely comes after the last renewals."""
        latest_ns = max((self._sightings[place].spans[-1][1] for place in self._open), default=0)
        while ticks[-1].comes and ticks[-1].low_ns < latest_ns:
            ticks.append(Tick(*self._steps.next(ticks[-1][:2])))
        return ticks

    def _processes(self, first_ns: int) -> list[Process] | None:
        """The processes of the scenario; None where one may end before it begins."""
        found: list[Process] = []
        said = [event for event in self._scenario.events if event.manager_up is not None]
        if not starts_without_controller(self._scenario):
            begin_ns = (self._sightings[place].spans[0][0] for place in self._open)
            low_ns = min(first_ns, *begin_ns, 0)
            begin = low_ns, low_ns + self._steps.longest_ns - 1
            self._runs_since_before_ns = low_ns
            found.append(Process(begin, None, self._meetings.visible_phases()))
        for event in said:
            if found and found[-1].end_ns is None:
                begins_ns, begun_ns = found[-1].begin
                is_open = begins_ns < begun_ns and found[-1].phases is None
                if event.latest_ns > event.at_ns or (is_open and event.at_ns <= begun_ns):
                    return None
                found[-1] = replace(found[-1], end_ns=event.at_ns)
            if event.manager_up:
                found.append(Process(event.span, None, cuts=self._begin_cuts))
        return found or None

    @cached_property
    def _begin_cuts(self) -> tuple[int, ...]:
        found = self._meetings.begin_instants(self._scenario) if self._starts_vary else ()
        return tuple(sorted(found))

    # -- last renewals ----------------------------------------------------------------------------------

    def _sights(
        self, cell: Cell, number: int, chosen: dict[int, _Sight]
    ) -> Iterator[tuple[dict[int, _Sight], Cell]]:
        """Every choice of the ticks that see each last renewal first; of alike nodes in order."""
        if number == len(self._open):
            yield dict(chosen), cell
            return
        place, least = self._open[number], -1
        own = self._sightings[place]
        if number and self._sightings[self._open[number - 1]].kind == own.kind:
            least = chosen[self._open[number - 1]].tick
        for sight, found in self._can_see(cell, own, least):
            places = [place]
            alike = self._places_of[own.kind]
            rest = alike[alike.index(place) + 1 :]
            # Where one choice is left, all that are alike have the same.
            if rest and len(list(islice(self._can_see(found, own, sight.tick), 2))) == 1:
                places += rest
            elif len(rest) > self._most:
                raise _TooManyError
            chosen.update(dict.fromkeys(places, sight))
            yield from self._sights(found, number + len(places), chosen)

    def _can_see(self, cell: Cell, own: _Sighting, least: int) -> Iterator[tuple[_Sight, Cell]]:
        """The ticks from the ``least`` one on that can be the first, each with the cell in which it is."""
        for span in own.spans:
            for tick, found in self._steps.seen_first(cell, span):
                if tick >= least:
                    earlier = (n for n in range(tick - 1, -1, -1) if cell[n].comes)
                    yield _Sight(tick, span, next(earlier, None)), found

    def _turns(self, sights: dict[int, _Sight]) -> Iterator[dict[int, _Sight]]:
        """The choice, with every node of a kind in each of its roles."""
        differ = (len(p) for p in self._alike if any(sights[each] != sights[p[0]] for each in p))
        seen = set()
        for turn in range(max(differ, default=1)):
            turned: dict[int, _Sight] = {}
            for places in self._alike:
                size = len(places)
                turned.update((p, sights[places[(n + turn) % size]]) for n, p in enumerate(places))
            key = tuple(turned.values())
            if key not in seen:
                seen.add(key)
                yield turned

    # -- pieces -----------------------------------------------------------------------------------------

    def _piece(self, cell: Cell, sights: dict[int, _Sight], late: Sequence[bool]) -> Piece:
        """``late``: kubelets that are back late where ticks are early, and the other way round."""
        scenario, first = self._settled(cell, sights, late, latest=False)
        last_scenario, last = self._settled(cell, sights, [not each for each in late], latest=True)
        return replace(
            self._part,
            scenario=scenario,
            last_scenario=None if last_scenario is scenario else last_scenario,
            first=first,
            last=last,
            between=self._between(cell),
            apart_ns=max(tick.high_ns - tick.low_ns for tick in cell),
        )

    def _settled(
        self, cell: Cell, sights: dict[int, _Sight], late: Sequence[bool], *, latest: bool
    ) -> tuple[Scenario, Grid]:
        """The scenario with all that was open filled in, and where ticks fall."""
        steps = self._steps
        ticks_ns = [tick.high_ns if latest else tick.low_ns for tick in cell]
        phase_ns = next((at_ns for at_ns in ticks_ns if at_ns >= 0), 0)
        cost_ns = steps.longest_ns - steps.shortest_ns if latest else 0
        courses = steps.courses(cell, latest=latest, before_ns=self._runs_since_before_ns)
        grid = Grid(phase_ns, cost_ns, courses)
        renewed_ns = [
            sights[place].latest_ns(ticks_ns) if each.is_open else each.spans[0][0]
            for place, each in enumerate(self._renewals)
        ]
        several = enumerate(late, len(self._renewals))
        returned_ns = [
            sights[place].latest_ns(ticks_ns) if is_late else sights[place].earliest_ns(ticks_ns)
            for place, is_late in several
        ]
        begun_ns = [at for at, tick in zip(ticks_ns, cell, strict=True) if tick.begins]
        if not self._starts_vary:
            begun_ns = []
        key = (*renewed_ns, *returned_ns, *begun_ns)
        if key not in self._filled:
            filled = self._heartbeats.with_last(self._scenario, renewed_ns)
            if begun_ns:
                several_ns = iter(begun_ns[-sum(1 for e in filled.events if e.manager_up) :])
                filled = _moved(filled, several_ns)
            self._filled[key] = _returned(filled, iter(returned_ns))
        return self._filled[key], grid

    @cached_property
    def _starts_vary(self) -> bool:
        """Whether it is not known when some process begins."""
        events = self._scenario.events
        return any(event.manager_up and event.latest_ns > event.at_ns for event in events)

    def _between(self, cell: Cell) -> tuple[Moment, Moment] | None:
        """The moments between which a tick that costs nothing falls, in all of the cell."""
        if self._scenario.events and any(tick.begins for tick in cell[1:]):
            return None
        period_ns = self._steps.shortest_ns
        lows = [tick.low_ns - n * period_ns for n, tick in enumerate(cell)]
        ends = [tick.high_ns + 1 - n * period_ns for n, tick in enumerate(cell)]
        since_ns, until_ns = max(lows), min(ends)
        after = [cell[n].low_ns for n, at_ns in enumerate(lows) if at_ns == since_ns]
        before = [cell[n].high_ns + 1 for n, at_ns in enumerate(ends) if at_ns == until_ns]
        pairs = product(
            [self._moments[at_ns] for at_ns in after if at_ns in self._moments],
            [self._moments[at_ns] for at_ns in before if at_ns in self._moments],
        )
        # Neighbouring phases may belong to moments that are several periods apart.
        return next((two for two in pairs if 0 < two[1].at_ns - two[0].at_ns <= period_ns), None)


def _returns(scenario: Scenario) -> Iterator[_Sighting]:
    """Kubelets of which it is not known when they are heard again, cut where something else happens."""
    instants = sorted({event.at_ns for event in scenario.events})
    for index, event in enumerate(scenario.events):
        if is_open_return(event):
            inside = [at_ns for at_ns in instants if event.at_ns < at_ns <= event.latest_ns]
            ends = pairwise((event.at_ns, *inside, event.latest_ns + 1))
            spans = tuple((low_ns, next_ns - 1) for low_ns, next_ns in ends)
            yield from (_Sighting((index, name), spans) for name in event.nodes)


def _known(scenario: Scenario) -> Iterator[ScenarioEvent]:
    return (event for event in scenario.events if not is_open_return(event))


def _falls_silent_again(scenario: Scenario) -> bool:
    """Whether a kubelet renews for a while that nobody knows before it falls silent again."""
    returned: set[str] = set()
    for event in scenario.events:
        if is_open_return(event):
            returned.update(event.touched_nodes)
        elif event.kubelets_up is False and not returned.isdisjoint(event.touched_nodes):
            return True
    return False


def _moved(scenario: Scenario, begun_ns: Iterator[int]) -> Scenario:
    """The scenario with every process started then."""
    events = (
        event.moved_to(next(begun_ns)) if event.manager_up else event for event in scenario.events
    )
    return replace(scenario, events=tuple(events))


def _returned(scenario: Scenario, returned_ns: Iterator[int]) -> Scenario:
    """The scenario with every kubelet back then."""
    events: list[ScenarioEvent] = []
    for event in scenario.events:
        if is_open_return(event):
            alone = (event.restricted_to((name,), ()) for name in event.touched_nodes)
            events += [each.moved_to(next(returned_ns)) for each in alone]
        else:
            events.append(event)
    return replace(scenario, events=tuple(events))
