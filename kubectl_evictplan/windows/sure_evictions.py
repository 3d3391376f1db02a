"""By when a pod is surely deleted for a taint, whatever else is unknown: the upper end of a wide bound, and when it is certain.

A taint that surely stands from one instant to another, while one process runs and nothing else happens to the pod, starts a
timer by the first of them, unless one runs already. A timer that runs is never moved, so the pod is deleted when the longest that
can run is over, if the taint still stands then. Where the pod does not tolerate the taint at all, no timer is waited for:
``processPodOnNode`` cancels any that runs and deletes the pod at once, in every release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.taint_eviction import delete_is_refused
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute
from kubectl_evictplan.scenarios.actions.nodes import changes_lifecycle_taints
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.latest_services import LatestServices
from kubectl_evictplan.windows.node_courses import NodeCourse, Standing
from kubectl_evictplan.windows.pod_worlds import Version
from kubectl_evictplan.windows.wide_fates import WideFates


class _Sure(msgspec.Struct, frozen=True):
    """One of ``taints`` surely stands from ``from_ns`` to ``until_ns``, and one process runs all that time."""

    taints: tuple[Taint, ...]
    from_ns: int
    until_ns: int


class SureEvictions:
    """Of the pods of one scenario."""

    def __init__(
        self,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        services: LatestServices,
        fates: WideFates,
    ) -> None:
        self._scenario = scenario
        self._configuration = configuration
        self._courses = services.rates.courses
        self._services = services
        self._fates = fates
        self._known: dict[str, tuple[_Sure, ...]] = {}
        self._with_pods = {key for event in scenario.events for key in event.pods if not event.pod}

    def first_deleted_by_ns(self, versions: Sequence[Version], uid: str) -> int | None:
        """Until when the object of that ``uid`` is deleted, if it is the first one of its name, and never changes; None where nothing proves it.

        A later one perhaps never comes to be, and what is left of the one before may keep it from being evicted.
        The one before may be on another node, which is not among the ``versions``.
        """
        first, *later = versions
        if self._fates.has_one_before(first):
            return None
        if first.pod.uid != uid or any(each.pod.uid == uid for each in later):
            return None
        return self.deleted_by_ns(first)

    def deleted_by_ns(self, version: Version) -> int | None:
        """Until when taint eviction has surely deleted the pod; None where nothing proves it."""
        pod, configuration = version.pod, self._configuration
        if not (pod.node_name and configuration.taint_eviction_enabled):
            return None
        if pod.key in self._with_pods or pod.deletion_timestamp_ns is not None:
            return None
        if delete_is_refused(pod, configuration) is not None:
            return None
        course = self._services.course(pod.node_name)
        longest_ns = self._fates.longest_ns(version, course)
        ends = []
        for sure in self._sure(course):
            if all(self._fates.delay_ns(version, taint) is not None for taint in sure.taints):
                at_once = not any(self._fates.tolerates(version, taint) for taint in sure.taints)
                end_ns = max(sure.from_ns, version.since_ns) + (0 if at_once else longest_ns)
                if end_ns < sure.until_ns:
                    ends.append(end_ns)
        return min(ends, default=None)

    # -- taints that surely stand -----------------------------------------------------------------------

    def _sure(self, course: NodeCourse) -> tuple[_Sure, ...]:
        found = self._known.get(course.name)
        if found is None:
            by_people = (each for standing in course.taints for each in self._put(course, standing))
            found = (*self._by_lifecycle(course), *by_people)
            self._known[course.name] = found
        return found

    def _by_lifecycle(self, course: NodeCourse) -> Iterator[_Sure]:
        events_ns = [
            event.at_ns
            for event in self._scenario.events
            if course.name in event.nodes and changes_lifecycle_taints(event)
        ]
        for service in self._services.of(course.name):
            if any(service.from_ns <= at_ns <= service.until_ns for at_ns in events_ns):
                continue
            taints = tuple(
                standing.taint
                for standing in course.taints
                if is_lifecycle_no_execute(standing.taint)
                and standing.put[0] <= service.until_ns
                and standing.until_ns >= service.from_ns
            )
            if taints:
                yield _Sure(taints, service.latest_ns, service.until_ns)

    def _put(self, course: NodeCourse, standing: Standing) -> Iterator[_Sure]:
        """What people put on a node that is surely there, or is on it at the start."""
        put_ns = standing.put[0]
        if standing.put[1] != put_ns or is_lifecycle_no_execute(standing.taint):
            return
        if any(s.status is None and s.begins[0] <= put_ns <= s.ends[1] for s in course.stretches):
            return
        for life in self._courses.lives:
            from_ns = max(put_ns, life.begins[1], 0)
            until_ns = min(standing.until_ns, life.ends_ns)
            if from_ns < until_ns:
                yield _Sure((standing.taint,), from_ns, until_ns)
