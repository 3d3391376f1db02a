"""What comes of deletions that a client's limit makes later: what may be before them, and what comes after them.

* A process that ends forgets what waits. A new one begins anew with every pod that is there still.
* Somebody else may have deleted the pod by then, and it may be gone. Its name may have been used again: a DELETE is by name.
* Garbage collection of nodes out of service waits for pods to terminate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from kubectl_evictplan.cluster.timeline import POD_GC, TAINT_EVICTION
from kubectl_evictplan.controllers.pod_gc import GC_CHECK_PERIOD_NS
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.scenarios.actions.pods import DeletePods, uid_of_created
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.processes_up import ends_of_processes
from kubectl_evictplan.windows.unknowns.of_pods import GC_COST_MAX_NS
from kubectl_evictplan.windows.unknowns.requests import ClientLimits

# How late these rows are.
Delayed = tuple[int, Sequence[tuple[EvictionKey, PossibleEviction]]]

_MISSED = frozenset({ClientLimits.name})
_GC_STEP_NS = GC_CHECK_PERIOD_NS + GC_COST_MAX_NS


class ThrottledEnds:
    """Asked before rows are made later, and then told how late each of them is."""

    def __init__(self, result: Exploration, given: Given) -> None:
        self._result, self._scenario = result, given.scenario
        self._given = given
        self._stops = list(ends_of_processes(given.scenario))
        self._deleting = [event for event in given.scenario.events if isinstance(event, DeletePods)]
        self._returning = [event for event in given.scenario.events if event.kubelets_up]

    @cached_property
    def _of_pod(self) -> Mapping[str, list[EvictionKey]]:
        """What else may delete pods that have several rows."""
        numbers = Counter(key.pod for key in self._result.evictions)
        found: dict[str, list[EvictionKey]] = {}
        if len(numbers) < len(self._result.evictions):
            for key in self._result.evictions:
                if numbers[key.pod] > 1:
                    found.setdefault(key.pod, []).append(key)
        return found

    @cached_property
    def nothing_else(self) -> bool:
        """Whether each pod has one row, and nothing happens that could be between."""
        return not (self._stops or self._deleting or self._returning or self._of_pod)

    def is_sure(self, key: EvictionKey, row: PossibleEviction, late_ns: int) -> bool:
        """Whether nothing can come between the row and its deletion so much later."""
        if not row.certain or self.nothing_else:
            return row.certain
        until_ns = row.latest_ns + late_ns
        for other in self._of_pod.get(key.pod, ()):
            if other != key and self._result.evictions[other].earliest_ns <= until_ns:
                return False
        return not (
            self._meets_a_stop(row, until_ns)
            or any(
                key.pod in event.pods and row.earliest_ns <= event.latest_ns
                for event in self._deleting
                if event.at_ns <= until_ns
            )
            or (
                key.controller == POD_GC
                and any(
                    row.node in event.nodes and row.earliest_ns <= event.latest_ns
                    for event in self._returning
                    if event.at_ns <= until_ns
                )
            )
        )

    def _meets_a_stop(self, row: PossibleEviction, until_ns: int) -> bool:
        return any(
            event.at_ns <= until_ns and row.earliest_ns <= event.latest_ns for event in self._stops
        )

    @property
    def first_stop_ns(self) -> int:
        """From when on a process may end, and the next one begin anew."""
        return min((event.at_ns for event in self._stops), default=self._scenario.end_ns)

    def follow(self, every: Iterable[Delayed], anew_ns: int) -> None:
        """Put what comes of it, when rows have their windows; ``anew_ns``: what processes after the first one delete may be so late."""
        made = {event.pod.key: event for event in self._scenario.events if event.pod is not None}
        nodes = set(self._out_of_service())
        if not (self._stops or made or nodes):
            return
        late = {key: late_ns for late_ns, rows in every for key, _ in rows}
        self._begin_anew(late, anew_ns)
        self._hit_successors(late, made)
        self._collect_later(late, nodes)

    def _begin_anew(self, late: Mapping[EvictionKey, int], anew_ns: int) -> None:
        """Who is there still when a process ends may be deleted at any time by the next one."""
        rows = self._result.evictions
        cut = {
            key.pod
            for key in late
            if self._stops and self._meets_a_stop(rows[key], rows[key].latest_ns)
        }
        if not cut:
            return
        from kubectl_evictplan.windows.wide_bounds import bound_anew  # rarely needed

        pods = [pod for pod in self._given[0].pods if pod.key in cut]
        bound_anew(self._result, pods, self._given, _MISSED, anew_ns)

    def _hit_successors(
        self, late: Mapping[EvictionKey, int], made: Mapping[str, ScenarioEvent]
    ) -> None:
        """Whoever is made under the name of a pod whose DELETE waits may be deleted in its place."""
        for key in [key for key in late if key.pod in made]:
            row, event = self._result.evictions[key], made[key.pod]
            low_ns = max(row.earliest_ns, event.at_ns)
            uid = "" if event.pod is None else uid_of_created(event.pod, event.at_ns)
            if low_ns > row.latest_ns or uid == key.uid:
                continue
            own = EvictionKey(key.pod, uid, key.controller, 0)
            found = self._result.evictions.get(own) or row._replace(
                spans=(), node=event.touched_nodes[0], delay_ns=None, gone_earliest_ns=None
            )
            found = found.also_within([(low_ns, row.latest_ns)], _MISSED)
            self._result.evictions[own] = found.ending_from(low_ns)

    def _collect_later(self, late: Mapping[EvictionKey, int], nodes: Set[str]) -> None:
        """Garbage collection of nodes out of service comes a loop after the pod terminates."""
        latest: dict[tuple[str, str], int] = {}
        for key, late_ns in late.items():
            if key.controller == TAINT_EVICTION and self._result.evictions[key].node in nodes:
                latest[key.pod, key.uid] = max(late_ns, latest.get((key.pod, key.uid), 0))
        horizon_ns = self._scenario.end_ns
        for key, row in list(self._result.evictions.items()) if latest else ():
            late_ns = latest.get((key.pod, key.uid), 0)
            if key.controller == POD_GC and late_ns:
                *before, (low_ns, high_ns) = row.spans
                high_ns = max(high_ns, min(high_ns + late_ns + _GC_STEP_NS, horizon_ns))
                self._result.evictions[key] = row.without(_MISSED)._replace(
                    spans=(*before, (low_ns, high_ns)), certain=False, gone_latest_ns=None
                )

    def _out_of_service(self) -> Iterator[str]:
        snapshot, scenario, _ = self._given
        for node in snapshot.nodes:
            if node.taints and any(taint.key == OUT_OF_SERVICE for taint in node.taints):
                yield node.name
        for event in scenario.events:
            if event.feeds_pod_gc:
                yield from event.touched_nodes
