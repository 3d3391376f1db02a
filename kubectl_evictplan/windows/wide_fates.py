"""What each controller may do to a pod, and when at the earliest and at the latest: by intervals, without any run.

Of a timer it is enough to know when it can have begun: not before the taint that starts it stands, nor before the pod, its
tolerations and the process are there. It ends when its time is over, unless no NoExecute taint is left meanwhile.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import msgspec

from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, POD_GC, TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.eviction_by_timeout import is_daemon_set_pod
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE
from kubectl_evictplan.controllers.pod_gc import QUARANTINE_TIME_NS, is_never_garbage
from kubectl_evictplan.controllers.taint_eviction import (
    Decision,
    DecisionsByTaint,
    delete_is_refused,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Taint
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.scenarios.actions.nodes import AddTaint
from kubectl_evictplan.scenarios.actions.pods import DeletePods
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.running_timers import RunningTimer, running_timer
from kubectl_evictplan.windows.latest_services import LatestServices
from kubectl_evictplan.windows.node_courses import NodeCourse, Stretch
from kubectl_evictplan.windows.older_countdowns import end_of_older_countdown
from kubectl_evictplan.windows.pod_worlds import Version, versions_of, was_missed_lately
from kubectl_evictplan.windows.processes_up import ProcessLife
from kubectl_evictplan.windows.spans import BEFORE_NS, NEVER_NS, Span


class Possible(msgspec.Struct, frozen=True):
    """A delete that one controller may issue within ``span``; ``decision`` where a taint leads to it."""

    controller: str
    pod: Pod
    span: Span
    decision: Decision | None = None


class WideFates:
    """Of the pods of one scenario."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        services: LatestServices,
    ) -> None:
        self._snapshot = snapshot
        self._scenario = scenario
        self._configuration = configuration
        self._courses = services.rates.courses
        self._services = services
        self._nodes = {node.name: node for node in snapshot.nodes}
        made = {event.pod.key for event in scenario.events if event.pod is not None}
        # Names that the scenario uses again.
        self._taken = {pod.key for pod in snapshot.pods if pod.key in made} if made else set()
        self._decisions = DecisionsByTaint(configuration)

    def versions(self, pods: Iterable[Pod], names: Container[str]) -> dict[str, list[Version]]:
        """By the keys of these pods, and of those created on the nodes ``names``: what may be there under that name."""
        return versions_of(pods, names, self._scenario.events)

    def has_one_before(self, version: Version) -> bool:
        """Whether another pod may have the name, on whatever node, when this one is to be created."""
        key, since_ns = version.pod.key, version.since_ns
        if since_ns < 0:
            return False
        made = ((event.pod, event.at_ns) for event in self._scenario.events)
        return key in self._taken or any(
            pod is not None and pod.key == key and at_ns < since_ns for pod, at_ns in made
        )

    def possible(self, versions: list[Version]) -> list[Possible]:
        """All that may happen to the pods of one name."""
        found = [each for version in versions for each in self._of_version(version)]
        found += _by_timers_of_others(versions, found)
        terminating_ns = self._may_terminate_ns(versions, found)
        for version in versions:
            found += self._out_of_service(version, terminating_ns)
        return found

    def _of_version(self, version: Version) -> Iterator[Possible]:
        pod, configuration = version.pod, self._configuration
        course = self._services.course(pod.node_name) if pod.node_name else None
        if course is not None and configuration.taint_eviction_enabled:
            if delete_is_refused(pod, configuration) is None:
                yield from self._by_taints(version, course)
        if course is not None and not configuration.taint_mode:
            if configuration.node_lifecycle_enabled and not is_daemon_set_pod(pod):
                yield from self._by_timeout(version, course)
        if configuration.pod_gc_enabled:
            yield from self._as_garbage(version, course)
        if version.since_ns < 0:
            given = self._nodes, self._snapshot, self._scenario.start_ns, configuration
            span = end_of_older_countdown(pod, *given)
            if span is not None:
                yield Possible(TAINT_EVICTION, pod, span)

    # -- taint eviction ---------------------------------------------------------------------------------

    def _by_taints(self, version: Version, course: NodeCourse) -> Iterator[Possible]:
        for standing in course.taints:
            decision = self._decisions.of(version.pod, standing.taint)
            delay_ns = decision.delay_ns
            if delay_ns is None:
                continue
            for life in self._courses.lives:
                since_ns = max(standing.put[0], version.since_ns, life.begins[0], 0)
                low_ns = since_ns + delay_ns
                if standing.at_start and life.warm and version.since_ns < 0:
                    low_ns = min(low_ns, self._runs_out_ns(version.pod, low_ns))
                high_ns = min(self._over_ns(version, course, life, since_ns), life.ends_ns)
                if low_ns <= high_ns and since_ns <= standing.until_ns:
                    yield Possible(TAINT_EVICTION, version.pod, (low_ns, high_ns), decision)

    def _runs_out_ns(self, pod: Pod, default_ns: int) -> int:
        """When a timer ends at the earliest that runs already."""
        timer = self._running(pod)
        return default_ns if timer is None else timer.due_earliest_ns - self._scenario.start_ns

    def _running(self, pod: Pod) -> RunningTimer | None:
        node = self._nodes.get(pod.node_name)
        if node is None:
            return None
        start_ns = self._scenario.start_ns
        return running_timer(node, pod, self._snapshot, start_ns, self._configuration)

    def _over_ns(
        self, version: Version, course: NodeCourse, life: ProcessLife, since_ns: int
    ) -> int:
        """Until when a timer that begins then may end: one that loses all taints is cancelled."""
        until_ns = course.is_tainted_until(since_ns)
        if any(since_ns <= at_ns <= until_ns for at_ns in course.deletions):
            until_ns = NEVER_NS  # nobody cancels the timers of a node that is deleted
        # Once no taint is put on any more, no timer begins that none has run out before.
        put_ns = [min(each.put[1], life.ends_ns) for each in course.taints]
        if version.pod.deletion_timestamp_ns is not None:
            # What it went for is past: it goes once more where a taint is taken off and another one is left.
            put_ns += [min(each.until_ns, life.ends_ns) for each in course.taints]
        quiet_ns = max(*put_ns, life.begins[1], version.since_ns, 0)
        if quiet_ns >= NEVER_NS:
            return until_ns
        return min(until_ns, quiet_ns + self.longest_ns(version, course))

    def delay_ns(self, version: Version, taint: Taint) -> int | None:
        """How long the pod tolerates the taint; None: for ever."""
        return self._decisions.of(version.pod, taint).delay_ns

    def tolerates(self, version: Version, taint: Taint) -> bool:
        """Whether the pod tolerates the taint, for however short."""
        return self._decisions.of(version.pod, taint).all_tolerated

    def longest_ns(self, version: Version, course: NodeCourse) -> int:
        """How much longer than the start of the scenario, or of a taint, any timer of the pod can run."""
        delays = (self.delay_ns(version, standing.taint) for standing in course.taints)
        longest_ns = max((delay_ns for delay_ns in delays if delay_ns is not None), default=0)
        timer = self._running(version.pod) if version.since_ns < 0 else None
        if timer is None:
            return longest_ns
        return max(longest_ns, timer.due_latest_ns - self._scenario.start_ns)

    # -- node lifecycle without taints ------------------------------------------------------------------

    def _by_timeout(self, version: Version, course: NodeCourse) -> Iterator[Possible]:
        timeout_ns = self._configuration.pod_eviction_timeout_ns
        for stretch, counted_ns in _false_since(course):
            for status, low_ns, high_ns in stretch.not_ready():
                first_ns = max(low_ns, version.since_ns, 0)
                if status == FALSE:
                    first_ns = max(first_ns, counted_ns + timeout_ns)
                last_ns = self._courses.seen_by_ns(high_ns)
                # A node that is deleted before a tick finds it ready stays in line.
                if any(high_ns <= at_ns <= last_ns for at_ns in course.deletions):
                    last_ns = NEVER_NS
                if first_ns <= last_ns:
                    yield Possible(NODE_LIFECYCLE, version.pod, (first_ns, last_ns))

    # -- garbage ----------------------------------------------------------------------------------------

    def _as_garbage(self, version: Version, course: NodeCourse | None) -> Iterator[Possible]:
        pod = version.pod
        if is_never_garbage(pod, self._configuration):
            return
        if course is None:
            deletes = self._deletes_ns(pod.key)
            if pod.deletion_timestamp_ns is not None:
                deletes = [0, *deletes]
            if deletes:
                yield Possible(POD_GC, pod, (max(min(deletes), version.since_ns), NEVER_NS))
            return
        yield from (
            Possible(POD_GC, pod, (max(low_ns, version.since_ns, 0), high_ns))
            for low_ns, high_ns in self._orphaned(course)
            if max(low_ns, version.since_ns) <= high_ns
        )

    def _orphaned(self, course: NodeCourse) -> Iterator[Span]:
        """When pods of a node that does not exist may be deleted."""
        absent = [each.reaches for each in course.stretches if each.status is None]
        # A name that is seen again meanwhile stays in quarantine for no longer.
        ends_ns = BEFORE_NS
        quarantined = self._configuration.profile.orphan_quarantine
        node, pods = self._nodes.get(course.name), self._snapshot.pods
        if quarantined and node is not None:
            quarantined = not was_missed_lately(node, pods, self._scenario.start_ns)
        if absent and absent[0][0] >= 0 and quarantined:
            ends_ns = absent[0][0] + QUARANTINE_TIME_NS
        yield from ((max(low_ns, ends_ns), high_ns) for low_ns, high_ns in absent)

    def _deletes_ns(self, key: str) -> list[int]:
        return [
            event.at_ns
            for event in self._scenario.events
            if isinstance(event, DeletePods) and key in event.pods
        ]

    def _may_terminate_ns(self, versions: list[Version], found: list[Possible]) -> int | None:
        """From when on one of the pods may be terminating."""
        instants = [each.span[0] for each in found]
        for version in versions:
            instants += self._deletes_ns(version.pod.key)
            if version.pod.deletion_timestamp_ns is not None:
                instants.append(0)
        return min(instants, default=None)

    def _out_of_service(self, version: Version, terminating_ns: int | None) -> Iterator[Possible]:
        pod, name = version.pod, version.pod.node_name
        configuration = self._configuration
        if not (name and configuration.pod_gc_enabled and configuration.out_of_service):
            return
        since_ns = self._out_of_service_ns(name)
        if since_ns is None or terminating_ns is None:
            return
        for _, low_ns, high_ns in self._services.course(name).not_ready():
            span = max(low_ns, since_ns, terminating_ns, version.since_ns), high_ns
            if span[0] <= span[1]:
                yield Possible(POD_GC, pod, span)

    def _out_of_service_ns(self, name: str) -> int | None:
        """From when on the node may have that taint, with any effect."""
        node = self._nodes.get(name)
        if node is not None and any(map(_is_out_of_service, node.taints)):
            return 0
        for event in self._scenario.events:
            put = isinstance(event, AddTaint) and _is_out_of_service(event.taint)
            made = event.node is not None and any(map(_is_out_of_service, event.node.taints))
            if name in event.nodes and (put or made):
                return event.at_ns
        return None


def _false_since(course: NodeCourse) -> Iterator[tuple[Stretch, int]]:
    """Each stretch, with the instant from which a Ready=False in it counts at the earliest."""
    counted_ns, before = BEFORE_NS, Stretch((BEFORE_NS, BEFORE_NS), None)
    for stretch in course.stretches:
        begins_ns = stretch.begins[0]
        if stretch.status != before.status:
            # API times are whole seconds: two posts in one second look like one, and keep what was there before.
            # So does a node that is made anew.
            told_apart = before.status is not None and before.begins[1] < begins_ns - SECOND_NS
            counted_ns = begins_ns - SECOND_NS if told_apart else BEFORE_NS
        yield stretch, counted_ns
        before = stretch


def _by_timers_of_others(
    versions: Iterable[Version], found: Sequence[Possible]
) -> Iterator[Possible]:
    """Timers know pods by their names: one may outlive its pod, and end a later one of that name at any time."""
    begun: list[Possible] = []
    seen: set[str] = set()
    for version in versions:
        pod = version.pod
        if pod.uid in seen:
            continue
        seen.add(pod.uid)
        if begun:
            first = min(begun, key=lambda each: each.span[0])
            since_ns = max(first.span[0], version.since_ns)
            yield Possible(TAINT_EVICTION, pod, (since_ns, NEVER_NS), first.decision)
        begun += [each for each in found if each.pod.uid == pod.uid and each.decision is not None]


def _is_out_of_service(taint: Taint) -> bool:
    return taint.key == OUT_OF_SERVICE
