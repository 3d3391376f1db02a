"""In which state each zone can be, and at which rate it is served, whatever each of its nodes is.

Time is cut at every instant at which the possible state of any node changes. In a *segment* between two of them it is the
same all the time what each node can be. Where a zone has one state whatever its nodes are, its limiter has one rate from
the second tick on; segments that follow each other with one state are one *run*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import msgspec

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneCount, ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_states import (
    EMPTY,
    FULL,
    NORMAL,
    PARTIAL,
    compute_zone_state,
    limiter_rate_qps,
)
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.node_courses import NodeCourse, NodeCourses, Stretch
from kubectl_evictplan.windows.noticing import ON_TIME, Lateness
from kubectl_evictplan.windows.spans import NEVER_NS, Span
from kubectl_evictplan.windows.spent_tokens import StatesBefore
from kubectl_evictplan.windows.unknowns.tick_meetings import monitor_cost_max_ns

# The states that nodes make, from the best to the worst.
STATES_OF_NODES = (NORMAL, PARTIAL, FULL)
# Longer scenarios have their last segments looked at only.
_SEGMENTS_MAX = 40
# Nodes in segments that are looked at to find out when all zones may be down.
_LOOKED_AT_MAX = 300_000


class Member(msgspec.Struct, frozen=True):
    """A node that is, or may be, in a zone; ``stays``: it always is while it exists, and counts or does not."""

    course: NodeCourse
    counts: bool
    stays: bool


class States(NamedTuple):
    """The best and the worst state that a zone can be in; EMPTY where perhaps no node counts."""

    best: str
    worst: str

    def may_be(self, state: str) -> bool:
        """Whether the zone may be in that one of the states that nodes make."""
        best, worst = (
            STATES_OF_NODES.index(each) if each in STATES_OF_NODES else 0 for each in self
        )
        return best <= STATES_OF_NODES.index(state) <= worst


class Run(NamedTuple):
    """A zone in one state, and served at one rate, in all of these segments, one after the other; 0: nobody is served."""

    state: str
    rate_qps: float
    segments: list[Span]


class ZoneRates:
    """Of all zones of one scenario; ``courses`` are those of its nodes."""

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
        given = snapshot, scenario, configuration
        step_max_ns = configuration.node_monitor_period_ns + monitor_cost_max_ns(snapshot)
        step_max_ns += late.tick_ns
        self.courses = NodeCourses(*given, step_max_ns, late=late)
        self._membership = ZoneMembership(configuration)
        self.zones_of: dict[str, set[str]] = {}
        self._known: dict[Span, dict[str, States]] = {}
        # Until its first tick a process that runs at the start may hold other states than those of the snapshot.
        self.before = StatesBefore(snapshot, scenario.start_ns, configuration)
        self._seen_by_ns = step_max_ns if self.before.zones else 0
        self.members = self._members()
        # From when on all zones may be down, and until when the last such time may be over; None where they never are.
        all_down = self._find_all_down()
        self.all_down_until_ns = None if all_down is None else all_down[1]
        if all_down is not None:
            # Grace periods begin anew when that is over.
            self.courses = NodeCourses(*given, step_max_ns, all_down, late)
            self.members = self._members()

    def _members(self) -> dict[str, list[Member]]:
        # By zone and name, whether the node counts: one that is created again may be another one.
        looks: dict[str, dict[str, set[bool]]] = {}
        created = (event.node for event in self._scenario.events if event.node is not None)
        for node in (*self._snapshot.nodes, *created):
            zone = self._membership.zone_key(node)
            counts = not self._membership.is_excluded(node)
            looks.setdefault(zone, {}).setdefault(node.name, set()).add(counts)
            self.zones_of.setdefault(node.name, set()).add(zone)
        return {
            zone: [self._member(name, counts) for name, counts in names.items()]
            for zone, names in looks.items()
        }

    def _member(self, name: str, counts: set[bool]) -> Member:
        stays = len(counts) == 1 and len(self.zones_of[name]) == 1
        return Member(self.courses.of(name), any(counts), stays)

    def _find_all_down(self) -> Span | None:
        """From when on all zones may be down, and until when the last such time may be over; None where there is none."""
        if any(map(self._is_never_down, self.zones)):
            return None
        segments = self._find_elementary()
        if self._are_too_many(segments):
            return 0, NEVER_NS
        down = [each for each in segments if self._may_all_be_down(each)]
        if not down:
            return None
        # It is over when a kubelet posts, or a node comes or goes.
        ends = (
            stretch.begins
            for members in self.members.values()
            for member in members
            for stretch in member.course.stretches[1:]
        )
        over = (
            latest_ns
            for first_ns, latest_ns in ends
            if any(low_ns < latest_ns and first_ns <= high_ns for low_ns, high_ns in down)
        )
        return down[0][0], max((self._seen_by_ns, *over))

    def _is_never_down(self, zone: str) -> bool:
        """Whether a node counts there that is always Ready."""
        if self._snapshot.bystanders.get(zone):
            return True
        return any(
            member.counts and not any(member.course.not_ready())
            for member in self.members.get(zone, ())
            if len(member.course.stretches) == 1 and member.course.name not in self.before.changed
        )

    def era(self, at_ns: int) -> int:
        """A number that instants share where surely not all zones are down in between, when all taints of node lifecycle are taken off."""
        if self._times_all_down is None:
            return at_ns
        return sum(low_ns < at_ns for low_ns, _ in self._times_all_down)

    @cached_property
    def _times_all_down(self) -> list[Span] | None:
        """Segments in which all zones may be down; None where these are too many to look at."""
        if self.all_down_until_ns is None:
            return []
        segments = self._elementary
        if self._are_too_many(segments):
            return None
        return list(filter(self._may_all_be_down, segments))

    def _may_all_be_down(self, segment: Span) -> bool:
        return all(self._states_in(zone, segment).worst == FULL for zone in self.zones)

    @property
    def may_be_served_when_down(self) -> bool:
        """Whether the process of the start may go on serving zones although all are down."""
        return self.before.may_be_served_when_down

    @property
    def zones(self) -> set[str]:
        """The keys of all zones."""
        return {*self.members, *self._snapshot.bystanders}

    def states(self, zone: str) -> Iterator[tuple[Span, States]]:
        """Each segment of time, in order, with the states that the zone can be in; none where they are too many."""
        segments = self._elementary
        if self._are_too_many(segments):
            return
        for segment in segments:
            states = self._states_in(zone, segment)
            if not self.counts(zone) and segment not in (self._times_all_down or ()):
                states = States(EMPTY, EMPTY)
            yield segment, states

    def count_in(self, zone: str, state: str) -> ZoneCount | None:
        """So many nodes as there may be in the zone when it is in that state; None where it never is.

        A zone in which nobody counts is Full with all others: the tick that finds these Full makes every zone so that it has not
        yet forgotten (``handleDisruption`` forgets them in the order of a hash map, until one that was not Full).
        """
        threshold = self._configuration.unhealthy_zone_threshold
        if state == FULL and not self.counts(zone):
            return ZoneCount(0, 0) if self._times_all_down else None
        for segment, states in self.states(zone):
            if states.may_be(state):
                ready, down = self._counted(zone, segment)
                most = max(ready[0] + down[1], ready[1] + down[0])
                for up in range(ready[0], ready[1] + 1):
                    for not_up in {down[0], down[1], min(max(most - up, down[0]), down[1])}:
                        count = ZoneCount(up, not_up)
                        if count.size and compute_zone_state(count, threshold) == state:
                            return count
        return None

    def rate_of(self, state: str, count: ZoneCount) -> float:
        """Nodes per second that a zone in that state is served at; where nobody counts it is Full only when all are, and nobody is served."""
        if not count.size:
            return 0.0
        rate_qps = limiter_rate_qps(state, count.size, self._configuration)
        assert rate_qps is not None, "each state that nodes make has a rate"
        return rate_qps

    def counts(self, zone: str) -> bool:
        """Whether nodes count in the zone."""
        members = self.members.get(zone, ())
        return bool(self._snapshot.bystanders.get(zone)) or any(m.counts for m in members)

    # -- segments ---------------------------------------------------------------------------------------

    @cached_property
    def segments(self) -> list[Span]:
        """Those in which a node can be served at all, the last ones."""
        shortest_ns = 3 * self.courses.step_max_ns
        return [
            span
            for span in self._elementary
            if span[1] - span[0] > shortest_ns and self._runs_throughout(span)
        ][-_SEGMENTS_MAX:]

    def runs(self, zone: str) -> Iterator[Run]:
        """The zone in one state after the other, wherever it is sure at which rate it is served; in order."""
        run: Run | None = None
        for segment in self._served():
            rate_qps = self.rate(zone, segment)
            state = self._known[segment][zone].best
            if run is not None and not (run.state == state and self._goes_on(zone, run, segment)):
                yield run
                run = None
            if rate_qps is not None:
                run = Run(state, rate_qps, []) if run is None else run
                run.segments.append(segment)
        if run is not None:
            yield run

    def _served(self) -> list[Span]:
        """All segments in which one process runs; where these are too many those of ``segments``."""
        several = self._elementary
        if self._are_too_many(several):
            return self.segments
        return list(filter(self._runs_throughout, several))

    def _goes_on(self, zone: str, run: Run, segment: Span) -> bool:
        """Whether the zone stays in the state of the run: also for ticks that see some nodes before the segment, others in it."""
        at_ns = segment[0]
        cost_ns = self.courses.step_max_ns - self._configuration.node_monitor_period_ns + 1
        between = max(at_ns - cost_ns, 0), at_ns + cost_ns
        return (
            self._runs_throughout((run.segments[-1][0], segment[1]))
            and run.segments[-1][1] == at_ns
            and self.rate(zone, segment) == run.rate_qps == self.rate(zone, between)
            and self._known[between][zone].best == run.state
        )

    @cached_property
    def _elementary(self) -> list[Span]:
        return self._find_elementary()

    def _find_elementary(self) -> list[Span]:
        instants = {0, self._seen_by_ns, NEVER_NS}
        for life in self.courses.lives:
            instants.update((*life.begins, life.ends_ns))
        for members in self.members.values():
            for member in members:
                for stretch in member.course.stretches:
                    instants.update((*stretch.begins, *stretch.ends, *(stretch.unknown or ())))
        return list(pairwise(sorted(at_ns for at_ns in instants if at_ns >= 0)))

    def _are_too_many(self, segments: Sequence[Span]) -> bool:
        """Whether it takes too long to look at all nodes in each."""
        return len(segments) * len(self._snapshot.nodes) > _LOOKED_AT_MAX

    def _runs_throughout(self, span: Span) -> bool:
        lives = self.courses.lives
        # A process whose start is not known to the second may have begun, and replaced another one, at any time in it.
        return any(
            life.begins[1] <= span[0] and span[1] <= life.ends_ns for life in lives
        ) and not any(life.begins[0] < span[1] and span[0] < life.begins[1] for life in lives)

    def is_full(self, zone: str, segment: Span) -> bool:
        """Whether no node of the zone is ready, throughout."""
        return self._states_in(zone, segment).best == FULL

    def rate(self, zone: str, segment: Span) -> float | None:
        """Nodes per second that the zone is served at throughout; None where that is not sure."""
        bounds = self._known.get(segment)
        if bounds is None:
            bounds = {each: self._states_in(each, segment) for each in self.zones}
            self._known[segment] = bounds
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
            threshold = configuration.large_cluster_size_threshold
            if rate_qps <= 0 or self._largest(zone) <= threshold:
                # A limiter that never had a rate is not told to stop.
                return 0.0 if configuration.node_eviction_rate_qps > 0 else None
            if self._smallest(zone) <= threshold:
                return None
        if rate_qps <= 0:
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
        segments = self._elementary
        if self._are_too_many(segments):
            return True
        return any(self._may_be_new(zone, segments) for zone in self.zones)

    def _may_be_new(self, zone: str, segments: Sequence[Span]) -> bool:
        """Whether a tick may find nodes that count in the zone, and one before it none."""
        members = [member for member in self.members.get(zone, ()) if member.counts]
        if self._snapshot.bystanders.get(zone):
            return False
        empty = False
        for segment in segments:
            found = [can_be(member.course, segment) for member in members]
            empty = empty or all(
                gone or not member.stays for member, (*_, gone) in zip(members, found, strict=True)
            )
            if empty and any(up or not_up for up, not_up, _ in found):
                return True
        return False

    def _counted(self, zone: str, segment: Span) -> tuple[Span, Span]:
        """How many nodes that are ready count there, at least and at most, and how many that are not."""
        ready = [self._snapshot.bystanders.get(zone, 0)] * 2
        down = [0, 0]
        if segment[0] < self._seen_by_ns:
            ready[1] += self.before.gone
            down[1] += self.before.gone
        for member in self.members.get(zone, ()):
            if not member.counts:
                continue
            up, not_up, gone = can_be(member.course, segment)
            if segment[0] < self._seen_by_ns and member.course.name in self.before.changed:
                up = not_up = True
            gone = gone or not member.stays
            ready[0] += up and not not_up and not gone
            ready[1] += up
            down[0] += not_up and not up and not gone
            down[1] += not_up
        return (ready[0], ready[1]), (down[0], down[1])

    def _states_in(self, zone: str, segment: Span) -> States:
        ready, down = self._counted(zone, segment)
        threshold = self._configuration.unhealthy_zone_threshold
        if ready[0] + down[0] == 0:
            return States(EMPTY, FULL)
        best = compute_zone_state(ZoneCount(ready[1], down[0]), threshold)
        worst = compute_zone_state(ZoneCount(ready[0], down[1]), threshold)
        return States(best, worst)

    def _largest(self, zone: str) -> int:
        """How many nodes count in the zone at most."""
        counting = sum(member.counts for member in self.members.get(zone, ()))
        return self._snapshot.bystanders.get(zone, 0) + counting

    def _smallest(self, zone: str) -> int:
        """How many nodes count in the zone at least, all the time."""
        return self._snapshot.bystanders.get(zone, 0) + sum(
            member.counts and all(s.status is not None for s in member.course.stretches)
            for member in self.members.get(zone, ())
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
            member.counts and any(member.course.not_ready())
            for member in self.members.get(zone, ())
        )
        return down > 2


def _overlaps(stretch: Stretch, segment: Span) -> bool:
    return stretch.begins[0] < segment[1] and stretch.ends[1] > segment[0]


def can_be(course: NodeCourse, segment: Span) -> tuple[bool, bool, bool]:
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
