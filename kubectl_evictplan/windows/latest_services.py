"""When a node that waits in line is tainted at the latest, whatever else happens to its zone.

Where a zone is in one state for a while whatever its nodes are, it is served at one rate (``zone_rates``). Each node takes one
token for each time that it can fall out of Ready, and no more. So a node that is surely not ready throughout is served when all
that can come before it have been.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import STALE_LISTER_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.actions.nodes import changes_lifecycle_taints
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.entries_in_line import (
    is_put_in_line,
    may_leave_entries,
)
from kubectl_evictplan.windows.node_courses import (
    NOT_POSTED,
    NodeCourse,
    Standing,
)
from kubectl_evictplan.windows.noticing import ON_TIME, Lateness
from kubectl_evictplan.windows.processes_up import ProcessLife
from kubectl_evictplan.windows.spans import NEVER_NS, Span
from kubectl_evictplan.windows.spent_tokens import (
    EntriesLeft,
    may_stand_still,
    still_in_line,
    zones_without_token,
)
from kubectl_evictplan.windows.unknowns.lines import (
    PASS_LAG_MAX_NS,
    token_max_ns,
    token_min_ns,
    wasted_tokens_max,
    written_late_ns,
)
from kubectl_evictplan.windows.zone_rates import Run, ZoneRates, can_be

# How often what was found of some nodes is used to bound others.
_ROUNDS = 4
# Of so many tokens it is asked who can take each.
_LOOKED_AT_MAX = 100


class Service(msgspec.Struct, frozen=True):
    """A node that waits at ``from_ns`` is tainted by ``latest_ns``; nothing changes until ``until_ns``."""

    from_ns: int
    latest_ns: int
    until_ns: int


class _Spells(NamedTuple):
    """What takes tokens of a zone: each time in which a node can be in its line.

    ``times``: all of them, by name, each until nobody can take the node out any more; ``begins``, ``ends``: of all of them, each sorted; ``written``, ``seen``: of those that begin with a tick that writes Ready=Unknown,
    when it may do that, and until when a pass may not see it; ``anyhow``: tokens that may be taken at any time; ``unbounded``: times in
    which a node without a Ready condition may be in line, each try of which costs a token.
    """

    times: list[tuple[str, Span]]
    begins: list[int]
    ends: list[int]
    written: list[int]
    seen: list[int]
    anyhow: int
    unbounded: list[Span]

    def tokens(self, within: Span, wasted: int) -> int | None:
        """How many can be taken within that time, ``wasted`` ones for each node that passes may still see as ready; None where nothing bounds them."""
        if any(low_ns <= within[1] and within[0] <= high_ns for low_ns, high_ns in self.unbounded):
            return None
        taken = _number_within(self.begins, self.ends, within)
        return self.anyhow + taken + wasted * _number_within(self.written, self.seen, within)

    def others(self, name: str, waits: Span, wasted: int) -> list[Span] | None:
        """From when to when each other token can be taken while a node of that name waits; None where they are too many to look at."""
        if len(self.times) + self.anyhow > _LOOKED_AT_MAX:
            return None
        found = [(0, NEVER_NS)] * self.anyhow
        # Which of them is seen when makes no difference to who can take a token at which time.
        found += [*zip(self.written, self.seen, strict=True)] * wasted
        own = [span for each, span in self.times if each == name]
        within = [span for span in own if span[0] <= waits[1] and waits[0] <= span[1]]
        if within:
            own.remove(min(within, key=lambda span: span[1]))
        return [*found, *own, *(span for each, span in self.times if each != name)]


def _number_within(begins: Sequence[int], ends: Sequence[int], within: Span) -> int:
    """How many spans, whose beginnings and ends are sorted, meet that one."""
    return max(bisect_right(begins, within[1]) - bisect_left(ends, within[0]), 0)


class _Wait(NamedTuple):
    """Segments of a run, one after the other, in which a node is surely not ready."""

    course: NodeCourse
    run: Run
    down: list[Span]


class LatestServices:
    """Of all zones of one scenario."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        late: Lateness = ON_TIME,
    ) -> None:
        self._snapshot = snapshot
        self._scenario = scenario
        self._configuration = configuration
        self._late_ns = late.pass_ns
        self._period_ns = configuration.node_monitor_period_ns
        self._leaves_entries = configuration.profile.queue_mode == "SETREMOVE"
        self.rates = ZoneRates(snapshot, scenario, configuration, late)
        self._courses = self.rates.courses
        self._members = self.rates.members
        self._runs: dict[str, list[Run]] = {}
        self._found: dict[str, dict[str, list[Service]]] = {}
        self._refined: dict[str, NodeCourse] = {}
        self._all_down: list[Span] | None = None
        # What people do to taints of node lifecycle: a node that loses the one it waited for is in line again.
        self._changes_of_taints = [*filter(changes_lifecycle_taints, scenario.events)]
        self._more_tokens = sum(len(event.nodes) for event in self._changes_of_taints)

    def of(self, name: str) -> list[Service]:
        """In order; none where nothing bounds them."""
        zones = self.rates.zones_of.get(name, set())
        # A name that is used again elsewhere may have left something in the line it was in.
        if len(zones) != 1:
            return []
        (zone,) = zones
        if zone not in self._found:
            self._find(zone)
        return self._found[zone].get(name, [])

    def _find(self, zone: str) -> None:
        """Of all nodes of a zone: whoever has been served takes no more tokens, so each round bounds more of them."""
        runs = [run for run in self._runs_of(zone) if run.rate_qps > 0]
        courses = [member.course for member in self._members.get(zone, ())]
        waits = [
            _Wait(course, run, down)
            for course in courses
            if any(course.not_ready())
            for run in runs
            for down in _surely_down(course, run.segments)
        ]
        found: dict[str, list[Service]] = {}
        for _ in range(1 if self._leaves_entries else _ROUNDS):
            before, found = found, self._services(zone, waits, found)
            if found == before:
                break
        self._found[zone] = found

    def _is_put_in_line(self, course: NodeCourse, service: Service) -> bool:
        if self._configuration.profile.queue_mode != "ADD":
            return True
        changes_ns = self._changes_of_taints_ns(course.name)
        down, life = (service.from_ns, service.until_ns), self._life_until(service.until_ns)
        return is_put_in_line(course, down, life, self._courses, changes_ns)

    def course(self, name: str) -> NodeCourse:
        """The node's course, with taints of node lifecycle only where a pass can put them on."""
        found = self._refined.get(name)
        if found is None:
            course = self._courses.of(name)
            taints = tuple(
                each for standing in course.taints for each in self._cut(course, standing)
            )
            found = self._refined[name] = replace(course, taints=taints)
        return found

    def _cut(self, course: NodeCourse, standing: Standing) -> Iterator[Standing]:
        """The taint within the time in which it can be put on; nothing where there is none."""
        low_ns, high_ns = standing.put
        if low_ns == high_ns:
            yield standing  # somebody puts it on, or it is there
            return
        changes_ns = self._changes_of_taints_ns(course.name)
        # What a served node leaves in line has it tainted once more.
        services = [] if self._leaves_entries else self.of(course.name)
        stops = [
            *((s.from_ns, s.latest_ns, s.until_ns) for s in services),
            *((s[0], s[0] + 2 * self._courses.step_max_ns, s[1]) for s in self._refusing(course)),
        ]
        for from_ns, latest_ns, until_ns in stops:
            statuses = {
                status
                for status, first_ns, last_ns in course.not_ready()
                if first_ns <= until_ns and last_ns >= from_ns
            }
            changed = any(from_ns <= at_ns <= until_ns for at_ns in changes_ns)
            if latest_ns < high_ns <= until_ns and len(statuses) == 1 and not changed:
                high_ns = latest_ns
        if low_ns <= high_ns:
            yield replace(standing, put=(low_ns, high_ns))

    def _changes_of_taints_ns(self, name: str) -> list[int]:
        """When people put taints of node lifecycle on the node, or take them off."""
        return [event.at_ns for event in self._changes_of_taints if name in event.nodes]

    def _refusing(self, course: NodeCourse) -> Iterator[Span]:
        """Times in which nobody of the node's zones is served, but for the first two ticks."""
        zones = self.rates.zones_of.get(course.name, set())
        yield from self._all_are_down(zones)
        if len(zones) == 1 and not self._leaves_entries:
            runs = self._runs_of(next(iter(zones)))
            yield from ((r.segments[0][0], r.segments[-1][1]) for r in runs if r.rate_qps <= 0)

    def _all_are_down(self, zones: Iterable[str]) -> list[Span]:
        """Segments in which all zones are surely down; in zones in which no node counts somebody is served all the same."""
        if self._configuration.node_eviction_rate_qps <= 0:
            return []  # a limiter of that rate is not told to stop
        if self.rates.may_be_served_when_down:
            return []
        if self._all_down is None:
            counting = list(filter(self.rates.counts, self.rates.zones))
            self._all_down = [
                segment
                for segment in self.rates.segments
                if all(self.rates.is_full(zone, segment) for zone in counting)
            ]
        return self._all_down if all(map(self.rates.counts, zones)) else []

    # -- one zone ---------------------------------------------------------------------------------------

    def _runs_of(self, zone: str) -> list[Run]:
        if zone not in self._runs:
            self._runs[zone] = list(self.rates.runs(zone))
        return self._runs[zone]

    def _services(
        self, zone: str, waits: Sequence[_Wait], known: Mapping[str, Sequence[Service]]
    ) -> dict[str, list[Service]]:
        """Of every time in which a node is surely not ready: from its beginning on, and from the longer segments of it."""
        longer, found = set(self.rates.segments), dict[str, list[Service]]()
        of_eras: dict[tuple[ProcessLife, int], _Spells] = {}
        for course, run, down in waits:
            era = self._era_of(down[0][0], down[-1][1])
            if era not in of_eras:
                of_eras[era] = self._spells_of(zone, era, known)
            spells = of_eras[era]
            for segment in down:
                if segment is not down[0] and segment not in longer:
                    continue
                for until_ns in sorted({segment[1], down[-1][1]}):
                    wait = segment[0], until_ns
                    latest_ns = self._latest_ns(zone, run, spells, wait, course.name)
                    if latest_ns is None:
                        continue
                    service = Service(segment[0], latest_ns, until_ns)
                    if self._is_put_in_line(course, service):
                        found.setdefault(course.name, []).append(service)
        return found

    def _latest_ns(self, zone: str, run: Run, spells: _Spells, down: Span, name: str) -> int | None:
        """When a node of the zone that is not ready all that time is served at the latest; None where that may be later."""
        from_ns, until_ns = down
        if self._stands_still and self._life_until(until_ns).warm:
            return None
        if self._leaves_entries:
            blocked = bool(spells.unbounded) or self._may_be_blocked(zone, until_ns)
            latest_ns = None if blocked else self._last_entry_ns(zone, run, from_ns)
            return latest_ns if latest_ns is not None and latest_ns < until_ns else None
        step_ns, token_ns = self._courses.step_max_ns, self._token_max_ns(run)
        begun_ns = run.segments[0][0]
        # The limiter has its rate from then on, and may be a new one; and a tick has put the node in line.
        steady_ns = begun_ns + 3 * step_ns
        has_token = begun_ns == 0 and self._has_its_token(zone, until_ns)
        if has_token:
            steady_ns = 0
        settled_ns, wasted = max(from_ns + step_ns, steady_ns), 0
        if self._configuration.profile.taint_on_current_condition:
            # A pass that still sees a node as ready wastes a token, and the next tick puts the node in line again.
            settled_ns += step_ns + STALE_LISTER_NS
            wasted = wasted_tokens_max(run.rate_qps)
        # Then there is a token, unless somebody has just taken it who takes no more: one more only where the bucket may be
        # a new and empty one.
        is_full = has_token or settled_ns - token_ns >= steady_ns
        since_ns = (settled_ns - token_ns if is_full else begun_ns) - 3 * step_ns
        latest_ns = settled_ns
        while latest_ns < until_ns:
            taken = spells.tokens((since_ns, latest_ns), wasted)
            if taken is None:
                return None
            before_ns, waits = latest_ns, max(taken - is_full, 0)
            latest_ns = settled_ns + self._lag_max_ns + waits * token_ns
            if latest_ns <= before_ns:
                break
        others = spells.others(name, (from_ns, settled_ns), wasted)
        if others is not None:
            in_turn_ns = self._in_turn_ns(others, run, settled_ns, full=is_full)
            latest_ns = min(latest_ns, in_turn_ns)
        if latest_ns >= until_ns or spells.tokens((since_ns, latest_ns), wasted) is None:
            return None
        return latest_ns

    def _in_turn_ns(self, others: Sequence[Span], run: Run, settled_ns: int, *, full: bool) -> int:
        """When a node that is in line at ``settled_ns`` is served at the latest: each token before its own is taken by another one that can be in line then.

        ``full``: there is a token then, unless one of them has just taken it.
        """
        most_ns, least_ns = self._token_max_ns(run), token_min_ns(run.rate_qps)
        to_come, able = sorted(others, reverse=True), list[int]()
        for before in count(-int(full)):
            low_ns = settled_ns + (before * least_ns if before >= 0 else -most_ns)
            high_ns = settled_ns + self._lag_max_ns + (before + 1) * most_ns
            while to_come and to_come[-1][0] <= high_ns:
                heappush(able, to_come.pop()[1])
            while able and able[0] < low_ns:
                heappop(able)
            if not able:
                return high_ns
            # Whose time is over first.
            heappop(able)
        raise AssertionError("there are only so many")

    @property
    def _lag_max_ns(self) -> int:
        """From a token and a node in line to the taint."""
        return PASS_LAG_MAX_NS + written_late_ns(self._configuration) + self._late_ns

    def _token_max_ns(self, run: Run) -> int:
        """How long after the one before it a token is spent at the latest, where somebody waits."""
        return token_max_ns(run.rate_qps) + self._late_ns

    def _has_its_token(self, zone: str, until_ns: int) -> bool:
        """Whether the process that runs until then surely has a token of the zone at the start, of the limiter that the zone has since long before."""
        known = zone not in self._left and not self.rates.before.zones
        return known and self._life_until(until_ns).warm

    def _last_entry_ns(self, zone: str, run: Run, from_ns: int) -> int:
        """Likewise where every tick puts another entry in line of each node that waits (1.19.0-8, 1.20.0-4): first in, first out."""
        settled_ns = from_ns + 3 * self._courses.step_max_ns
        tokens = 1 + self._entries(zone, settled_ns)
        return settled_ns + self._lag_max_ns + tokens * self._token_max_ns(run)

    def _era_of(self, from_ns: int, until_ns: int) -> tuple[ProcessLife, int]:
        """The process that runs all that time, and between which times of all zones down it is."""
        return self._life_until(until_ns), self.rates.era(from_ns)

    def _spells_of(
        self, zone: str, era: tuple[ProcessLife, int], known: Mapping[str, Sequence[Service]]
    ) -> _Spells:
        """As far as that process has nodes in line: it takes out whom it serves, until the node is Ready again or all zones are down."""
        begins, ends, written, seen = list[int](), list[int](), list[int](), list[int]()
        times = list[tuple[str, Span]]()
        anyhow, unbounded = self._more_tokens + len(self._still_in_line), list[Span]()
        anyhow += sum(self._left.get(zone, ()))
        for member in self._members.get(zone, ()):
            course = member.course
            served_ns = [
                each.latest_ns
                for each in known.get(course.name, ())
                if self._era_of(each.from_ns, each.until_ns) == era
            ]
            for _, low_ns, high_ns in course.not_ready():
                own_ns = (at_ns for at_ns in served_ns if low_ns <= at_ns <= high_ns)
                served_by_ns = min(own_ns, default=NEVER_NS)
                begins.append(low_ns)
                ends.append(min(served_by_ns, high_ns))
                # Until ticks have seen it Ready, or gone, it may be taken still.
                left_ns = high_ns + 3 * self._courses.step_max_ns
                times.append((course.name, (low_ns, min(served_by_ns, left_ns))))
            for each in course.stretches:
                if each.unknown is not None:
                    written.append(each.unknown[0])
                    seen.append(min(each.unknown[1], each.ends[1]) + STALE_LISTER_NS)
            for each in course.stretches:
                if each.status is None:
                    # What a deleted node leaves in line takes a token as well, from then on.
                    begins.append(each.begins[0])
                    ends.append(NEVER_NS)
                    times.append(("", (each.begins[0], NEVER_NS)))
            unbounded += [s.reaches for s in course.stretches if s.status == NOT_POSTED]
        for several in (begins, ends, written, seen):
            several.sort()
        return _Spells(times, begins, ends, written, seen, anyhow, unbounded)

    def _life_until(self, at_ns: int) -> ProcessLife:
        """The process that runs up to that instant, which is in one of ``_segments``."""
        return next(each for each in self._courses.lives if at_ns <= each.ends_ns)

    @cached_property
    def _still_in_line(self) -> tuple[str, ...]:
        return still_in_line(self._snapshot, self._configuration)

    @cached_property
    def _left(self) -> Mapping[str, EntriesLeft]:
        return zones_without_token(self._snapshot, self._scenario.start_ns, self._configuration)

    @cached_property
    def _stands_still(self) -> bool:
        return may_stand_still(self._snapshot, self._scenario, self._configuration)

    def _may_be_blocked(self, zone: str, until_ns: int) -> bool:
        """Whether an entry may be in line until then that nobody takes out (1.19.0-8, 1.20.0-4): of a node that was not ready before."""
        life = self._life_until(until_ns)
        if self._more_tokens or self.rates.all_down_until_ns is not None:
            return True
        return any(
            may_leave_entries(member.course, (life.begins[0], until_ns))
            for member in self._members.get(zone, ())
        )

    def _entries(self, zone: str, until_ns: int) -> int:
        """How many entries ticks can have put in line by then, where each puts one there for every node that waits."""
        since_ns, period_ns = max(self._life_until(until_ns).begins[0], 0), self._period_ns
        return sum(
            (min(high_ns, until_ns) - max(low_ns, since_ns)) // period_ns + 1
            for member in self._members.get(zone, ())
            for _, low_ns, high_ns in member.course.not_ready()
            if max(low_ns, since_ns) <= min(high_ns, until_ns)
        )


def _surely_down(course: NodeCourse, segments: Sequence[Span]) -> Iterator[list[Span]]:
    """The times in which the node is surely not ready: in each the segments that follow each other."""
    found: list[Span] = []
    for segment in segments:
        if found and not _is_down(course, (found[0][0], segment[1])):
            yield found
            found = []
        if _is_down(course, segment):
            found.append(segment)
    if found:
        yield found


def _is_down(course: NodeCourse, span: Span) -> bool:
    up, not_up, gone = can_be(course, span)
    return not_up and not up and not gone
