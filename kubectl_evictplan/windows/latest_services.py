"""When a node that waits in line is tainted at the latest, whatever else happens to its zone.

Time is cut at every instant at which the possible state of any node changes. In a *segment* between two of them it is the
same all the time what each node can be. Where a zone has one state whatever its nodes are, its limiter has one rate from
the second tick on; each node takes one token for each time that it can fall out of Ready, and no more. So a node that is surely
not ready throughout is served when all that can come before it have been.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import STALE_LISTER_NS
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneCount, ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_states import (
    EMPTY,
    FULL,
    PARTIAL,
    compute_zone_state,
)
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, RemoveTaint
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.entries_in_line import (
    is_put_in_line,
    may_leave_entries,
)
from kubectl_evictplan.windows.line_replay import NEVER_NS
from kubectl_evictplan.windows.line_windows import Span
from kubectl_evictplan.windows.node_courses import (
    NOT_POSTED,
    NodeCourse,
    NodeCourses,
    Standing,
    Stretch,
)
from kubectl_evictplan.windows.processes_up import ProcessLife
from kubectl_evictplan.windows.spent_tokens import may_hold_orphaned_entries
from kubectl_evictplan.windows.unknowns.lines import (
    PASS_LAG_MAX_NS,
    token_max_ns,
    wasted_tokens_max,
)

# Longer scenarios have their last segments looked at only.
_SEGMENTS_MAX = 40
# Nodes in segments that are looked at to find out when all zones may be down.
_LOOKED_AT_MAX = 300_000


class _Member(msgspec.Struct, frozen=True):
    """A node that is, or may be, in a zone; ``stays``: it always is while it exists, and counts or does not."""

    course: NodeCourse
    counts: bool
    stays: bool


class States(NamedTuple):
    """The best and the worst state that a zone can be in; EMPTY where perhaps no node counts."""

    best: str
    worst: str


class Service(msgspec.Struct, frozen=True):
    """A node that waits at ``from_ns`` is tainted by ``latest_ns``; nothing changes until ``until_ns``."""

    from_ns: int
    latest_ns: int
    until_ns: int


class LatestServices:
    """Of all zones of one scenario."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        courses: NodeCourses,
    ) -> None:
        self._snapshot = snapshot
        self._scenario = scenario
        self._configuration = configuration
        self._courses = courses
        self._period_ns = configuration.node_monitor_period_ns
        self._leaves_entries = configuration.profile.queue_mode == "SETREMOVE"
        self._membership = ZoneMembership(configuration)
        self._zones_of: dict[str, set[str]] = {}
        self._found: dict[str, list[Service]] = {}
        self._refined: dict[str, NodeCourse] = {}
        self._all_down: list[Span] | None = None
        self._states_in: dict[Span, dict[str, States]] = {}
        # What people do to taints of node lifecycle: a node that loses the one it waited for is in line again.
        self._changes_of_taints = [
            event
            for event in scenario.events
            if isinstance(event, AddTaint | RemoveTaint) and event.seen_by_monitor
        ]
        self._more_tokens = sum(len(event.nodes) for event in self._changes_of_taints)
        self._zones = self._members()
        # Until when a time in which all zones are down may be over; None where they never are.
        self.all_down_until_ns = self._find_all_down()
        if self.all_down_until_ns is not None:
            # Grace periods begin anew when that is over.
            courses.count_anew(self.all_down_until_ns)
            self._zones = self._members()

    def _members(self) -> dict[str, list[_Member]]:
        # By zone and name, whether the node counts: one that is created again may be another one.
        looks: dict[str, dict[str, set[bool]]] = {}
        created = (event.node for event in self._scenario.events if event.node is not None)
        for node in (*self._snapshot.nodes, *created):
            zone = self._membership.zone_key(node)
            counts = not self._membership.is_excluded(node)
            looks.setdefault(zone, {}).setdefault(node.name, set()).add(counts)
            self._zones_of.setdefault(node.name, set()).add(zone)
        return {
            zone: [self._member(name, counts) for name, counts in names.items()]
            for zone, names in looks.items()
        }

    def _member(self, name: str, counts: set[bool]) -> _Member:
        stays = len(counts) == 1 and len(self._zones_of[name]) == 1
        return _Member(self._courses.of(name), any(counts), stays)

    def _find_all_down(self) -> int | None:
        """Until when a time in which all zones are down may be over; None where there is none."""
        if any(map(self._is_never_down, self.zones)):
            return None
        segments = list(self._elementary())
        if len(segments) * len(self._snapshot.nodes) > _LOOKED_AT_MAX:
            return NEVER_NS
        down = [each for each in segments if self._may_all_be_down(each)]
        if not down:
            return None
        # It is over when a kubelet posts, or a node comes or goes.
        ends = (
            stretch.begins
            for members in self._zones.values()
            for member in members
            for stretch in member.course.stretches[1:]
        )
        over = (
            latest_ns
            for first_ns, latest_ns in ends
            if any(low_ns < latest_ns and first_ns <= high_ns for low_ns, high_ns in down)
        )
        return max(over, default=0)

    def _is_never_down(self, zone: str) -> bool:
        """Whether a node counts there that is always Ready."""
        if self._snapshot.bystanders.get(zone):
            return True
        return any(
            member.counts and not any(member.course.not_ready())
            for member in self._zones.get(zone, ())
            if len(member.course.stretches) == 1
        )

    def _may_all_be_down(self, segment: Span) -> bool:
        return all(self._bounds(zone, segment).worst == FULL for zone in self.zones)

    @property
    def zones(self) -> set[str]:
        """The keys of all zones."""
        return {*self._zones, *self._snapshot.bystanders}

    def states(self, zone: str) -> Iterator[tuple[Span, States]]:
        """Each segment of time, in order, with the states that the zone can be in; none where they are too many."""
        segments = list(self._elementary())
        if len(segments) * len(self._snapshot.nodes) <= _LOOKED_AT_MAX:
            yield from ((segment, self._bounds(zone, segment)) for segment in segments)

    def of(self, name: str) -> list[Service]:
        """In order; none where nothing bounds them."""
        zones = self._zones_of.get(name, set())
        # A name that is used again elsewhere may have left something in the line it was in.
        if len(zones) != 1:
            return []
        (zone,) = zones
        if zone not in self._found:
            self._found[zone] = list(self._services(zone))
        course = self._courses.of(name)
        found = [each for each in self._found[zone] if _is_surely_down(course, each)]
        if found and self._configuration.profile.queue_mode == "ADD":
            changes_ns = self._changes_of_taints_ns(name)
            found = [each for each in found if self._is_put_in_line(course, each, changes_ns)]
        return found

    def _is_put_in_line(
        self, course: NodeCourse, service: Service, changes_ns: Sequence[int]
    ) -> bool:
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

    def _refusing(self, course: NodeCourse) -> list[Span]:
        """Segments in which all zones are surely down, so that nobody is served; in zones in which no node counts somebody is."""
        if self._configuration.node_eviction_rate_qps <= 0:
            return []  # a limiter of that rate is not told to stop
        if self._all_down is None:
            counting = {zone for zone in self.zones if self._counts(zone)}
            self._all_down = [
                segment
                for segment in self._segments()
                if all(self._bounds(zone, segment).best == FULL for zone in counting)
            ]
        zones = self._zones_of.get(course.name, set())
        return self._all_down if all(map(self._counts, zones)) else []

    def _counts(self, zone: str) -> bool:
        members = self._zones.get(zone, ())
        return bool(self._snapshot.bystanders.get(zone)) or any(m.counts for m in members)

    # -- one zone ---------------------------------------------------------------------------------------

    def _services(self, zone: str) -> Iterator[Service]:
        step_ns, profile = self._courses.step_max_ns, self._configuration.profile
        if self._membership_varies(zone):
            return
        for begin_ns, end_ns in self._segments():
            rate_qps = self._rate(zone, (begin_ns, end_ns))
            if rate_qps is None or rate_qps <= 0:
                continue
            if self._leaves_entries and self._may_be_blocked(zone, end_ns):
                continue
            token_ns = token_max_ns(rate_qps)
            settled_ns = begin_ns + 3 * step_ns + PASS_LAG_MAX_NS
            # The bucket may be empty, and a pass that still sees a node as ready wastes a token.
            if self._leaves_entries:
                tokens = 1 + self._entries(zone, begin_ns + 3 * step_ns)
            else:
                tokens = 1 + self._tokens_taken(zone, (begin_ns - 3 * step_ns, end_ns))
            if profile.taint_on_current_condition:
                tokens += wasted_tokens_max(rate_qps)
                settled_ns += STALE_LISTER_NS
            latest_ns = settled_ns + tokens * token_ns
            if latest_ns < end_ns:
                yield Service(begin_ns, latest_ns, end_ns)

    def _membership_varies(self, zone: str) -> bool:
        """Whether a node without a Ready condition may be in line: each try of it costs a token."""
        return any(
            stretch.status == NOT_POSTED
            for member in self._zones.get(zone, ())
            for stretch in member.course.stretches
        )

    def _segments(self) -> list[Span]:
        """Those in which a node can be served at all, the last ones."""
        shortest_ns = 3 * self._courses.step_max_ns
        return [
            span
            for span in self._elementary()
            if span[1] - span[0] > shortest_ns and self._runs_throughout(span)
        ][-_SEGMENTS_MAX:]

    def _elementary(self) -> Iterator[Span]:
        instants = {0, NEVER_NS}
        for life in self._courses.lives:
            instants.update((*life.begins, life.ends_ns))
        for members in self._zones.values():
            for member in members:
                for stretch in member.course.stretches:
                    instants.update((*stretch.begins, *stretch.ends, *(stretch.unknown or ())))
        yield from pairwise(sorted(at_ns for at_ns in instants if at_ns >= 0))

    def _runs_throughout(self, span: Span) -> bool:
        lives = self._courses.lives
        # A process whose start is not known to the second may have begun, and replaced another one, at any time in it.
        return any(
            life.begins[1] <= span[0] and span[1] <= life.ends_ns for life in lives
        ) and not any(life.begins[0] < span[1] and span[0] < life.begins[1] for life in lives)

    def _rate(self, zone: str, segment: Span) -> float | None:
        """Nodes per second that the zone is served at throughout; None where that is not sure."""
        bounds = self._states_in.get(segment)
        if bounds is None:
            bounds = {each: self._bounds(each, segment) for each in self.zones}
            self._states_in[segment] = bounds
        if all(each.worst == FULL for each in bounds.values()):
            return None
        best, worst = bounds[zone]
        if best != worst:
            return None
        configuration = self._configuration
        rate_qps = configuration.node_eviction_rate_qps
        if worst == PARTIAL:
            # What counts is how large the zone was when it got into that state.
            rate_qps = configuration.secondary_node_eviction_rate_qps
            if self._smallest(zone) <= configuration.large_cluster_size_threshold:
                return None
        if worst == FULL and self._may_stay_stopped:
            return None
        # A limiter that refused all keeps doing so when it is told one node a second.
        return None if rate_qps == 1.0 and self._may_refuse_all(zone) else rate_qps

    @cached_property
    def _may_stay_stopped(self) -> bool:
        """Whether zones that are down all the time may be served no more once all were: one that is new ends that for itself only."""
        if self.all_down_until_ns is None:
            return False
        segments = list(self._elementary())
        if len(segments) * len(self._snapshot.nodes) > _LOOKED_AT_MAX:
            return True
        return any(self._may_be_new(zone, segments) for zone in self.zones)

    def _may_be_new(self, zone: str, segments: Sequence[Span]) -> bool:
        """Whether a tick may find nodes that count in the zone, and one before it none."""
        members = [member for member in self._zones.get(zone, ()) if member.counts]
        if self._snapshot.bystanders.get(zone):
            return False
        empty = False
        for segment in segments:
            can_be = [_can_be(member.course, segment) for member in members]
            empty = empty or all(
                gone or not member.stays for member, (*_, gone) in zip(members, can_be, strict=True)
            )
            if empty and any(up or not_up for up, not_up, _ in can_be):
                return True
        return False

    def _bounds(self, zone: str, segment: Span) -> States:
        ready = [self._snapshot.bystanders.get(zone, 0)] * 2
        down = [0, 0]
        for member in self._zones.get(zone, ()):
            if not member.counts:
                continue
            up, not_up, gone = _can_be(member.course, segment)
            gone = gone or not member.stays
            ready[0] += up and not not_up and not gone
            ready[1] += up
            down[0] += not_up and not up and not gone
            down[1] += not_up
        threshold = self._configuration.unhealthy_zone_threshold
        if ready[0] + down[0] == 0:
            return States(EMPTY, FULL)
        best = compute_zone_state(ZoneCount(ready[1], down[0]), threshold)
        worst = compute_zone_state(ZoneCount(ready[0], down[1]), threshold)
        return States(best, worst)

    def _smallest(self, zone: str) -> int:
        """How many nodes count in the zone at least, all the time."""
        return self._snapshot.bystanders.get(zone, 0) + sum(
            member.counts and all(s.status is not None for s in member.course.stretches)
            for member in self._zones.get(zone, ())
        )

    def _may_refuse_all(self, zone: str) -> bool:
        """Whether the zone may ever have been served at no rate."""
        configuration = self._configuration
        if self.all_down_until_ns is not None:
            return True
        served = configuration.secondary_node_eviction_rate_qps
        large = self._smallest(zone) > configuration.large_cluster_size_threshold
        if large and served > 0 and configuration.node_eviction_rate_qps > 0:
            return False
        down = sum(
            member.counts and any(member.course.not_ready()) for member in self._zones.get(zone, ())
        )
        return down > 2

    def _life_until(self, at_ns: int) -> ProcessLife:
        """The process that runs up to that instant, which is in one of ``_segments``."""
        return next(each for each in self._courses.lives if at_ns <= each.ends_ns)

    def _may_be_blocked(self, zone: str, until_ns: int) -> bool:
        """Whether an entry may be in line until then that nobody takes out (1.19.0-8, 1.20.0-4): of a node that was not ready before."""
        life = self._life_until(until_ns)
        if self._more_tokens or self.all_down_until_ns is not None:
            return True
        if life.warm and may_hold_orphaned_entries(
            self._snapshot, self._scenario, self._configuration
        ):
            return True
        return any(
            may_leave_entries(member.course, (life.begins[0], until_ns))
            for member in self._zones.get(zone, ())
        )

    def _entries(self, zone: str, until_ns: int) -> int:
        """How many entries ticks can have put in line by then, where each puts one there for every node that waits."""
        since_ns, period_ns = max(self._life_until(until_ns).begins[0], 0), self._period_ns
        return sum(
            (min(high_ns, until_ns) - max(low_ns, since_ns)) // period_ns + 1
            for member in self._zones.get(zone, ())
            for _, low_ns, high_ns in member.course.not_ready()
            if max(low_ns, since_ns) <= min(high_ns, until_ns)
        )

    def _tokens_taken(self, zone: str, segment: Span) -> int:
        """How many tokens nodes of the zone can take in it."""
        tokens = self._more_tokens
        for member in self._zones.get(zone, ()):
            tokens += sum(
                low_ns <= segment[1] and high_ns >= segment[0]
                for _, low_ns, high_ns in member.course.not_ready()
            )
            # What a deleted node leaves in line takes a token as well.
            tokens += sum(stretch.status is None for stretch in member.course.stretches)
        return tokens


def _overlaps(stretch: Stretch, segment: Span) -> bool:
    return stretch.begins[0] < segment[1] and stretch.ends[1] > segment[0]


def _can_be(course: NodeCourse, segment: Span) -> tuple[bool, bool, bool]:
    """Whether the node can be Ready, can be something else, and can be uncounted in the segment."""
    up = not_up = gone = False
    for stretch in course.stretches:
        if not _overlaps(stretch, segment):
            continue
        gone = gone or stretch.status is None or stretch.passed_over
        surely_unknown = stretch.unknown is not None and stretch.unknown[1] <= segment[0]
        up = up or (stretch.status == TRUE and not surely_unknown)
        not_up = not_up or stretch.status not in (None, TRUE)
        not_up = not_up or (stretch.unknown is not None and stretch.unknown[0] < segment[1])
    return up, not_up, gone


def _is_surely_down(course: NodeCourse, service: Service) -> bool:
    up, not_up, gone = _can_be(course, (service.from_ns, service.until_ns))
    return not_up and not up and not gone
