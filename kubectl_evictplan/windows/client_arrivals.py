"""What goes through the clients of those who delete pods, and when: told by the windows of their deletions.

Those of equal windows may all come at once. But nodes that wait in the line of a zone are tainted one after the other, and pods that
tolerate a taint equally long are deleted so as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, POD_GC, TAINT_EVICTION
from kubectl_evictplan.controllers.client_limits import ClientLimit, requests_per_eviction
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.scenarios.actions.nodes import AddTaint
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.client_buckets import Arrivals, Bucket, Waits, line
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    EvictionKey,
    Exploration,
    PossibleEviction,
)
from kubectl_evictplan.windows.spans import Span

Row = tuple[EvictionKey, PossibleEviction]

# A bucket that was emptied so long ago is full again.
_PAST_NS = 60 * SECOND_NS
# Of a node lifecycle controller that shares its client, at once: its events, its tick (8 nodes), its pass, 8 workers for nodes and 4 for pods.
_SHARED_OTHERS = 22
# What it writes of a node whose Ready changes: the status, an event, and taints of two effects exchanged (GET and PATCH, twice).
_PER_CHANGE = 10
# ... and of each of its pods: the status, an event.
_PER_MARKED_POD = 2


class DeletionArrivals:
    """Asked how long what each controller deletes can wait for its client."""

    def __init__(
        self,
        result: Exploration,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        limit: ClientLimit,
    ) -> None:
        self._result, self._snapshot, self._scenario = result, snapshot, scenario
        self._configuration, self._limit = configuration, limit
        self._numbers = snapshot.stand_ins
        self._begins_anew = any(event.manager_up for event in scenario.events)

    def waits(self, controller: str, rows: Sequence[Row]) -> Waits | None:
        """Of its deletions, which are these rows; None where none waits."""
        if not rows:
            return None
        if controller == POD_GC:
            found = self._of_loops(rows)
        else:
            bucket, more = self._bucket(controller), list(self._more(controller, rows))
            tasks = sum([self._numbers.get(key.pod, 1) for key, _ in rows])
            others = sum(one.others for one in more)
            if bucket.is_ample(tasks + sum(one.at_once for one in more), others):
                return None
            found = bucket.waits([*more, *self._of(rows)])
        return found if found.any else None

    # -- taint eviction and node lifecycle -------------------------------------------------------------

    def _shares(self, controller: str) -> bool:
        return controller == NODE_LIFECYCLE or not self._configuration.separate_taint_eviction

    def _bucket(self, controller: str) -> Bucket:
        if controller == NODE_LIFECYCLE:
            # One pod after the other: its status, an event, DELETE.
            return Bucket(self._limit, 1, beside=2, others=None)
        # An event for each pod, written one after the other.
        others = 1 + (_SHARED_OTHERS if self._shares(controller) else 0)
        chain = requests_per_eviction(self._configuration)
        return Bucket(self._limit, chain, beside=1, others=others)

    def _of(self, rows: Sequence[Row]) -> Iterator[Arrivals]:
        """Lots of what may come at once, and lines of what cannot."""
        lots: Counter[Span] = Counter()
        lines: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in rows:
            key, found = row
            zone = None if found.delay_ns is None else self._zone_in_line.get(found.node)
            if zone is not None and found.delay_ns is not None:
                lines[zone, found.delay_ns].append(row)
            else:
                lots[found.earliest_ns, found.latest_ns] += self._numbers.get(key.pod, 1)
        for span, number in lots.items():
            yield _arrivals(span, number)
        for several in lines.values():
            yield self._line(several)

    @cached_property
    def _zone_in_line(self) -> dict[str, str]:
        """By nodes that only tokens taint their zone."""
        configuration = self._configuration
        if configuration.node_eviction_rate_qps <= 0 and configuration.profile.rate_zero_accepts:
            return {}
        waiting = self._result.waiting.items()
        return {name: zone for zone, names in waiting for name in names}

    def _line(self, rows: Sequence[Row]) -> Arrivals:
        of_node: Counter[str] = Counter()
        for key, found in rows:
            of_node[found.node] += self._numbers.get(key.pod, 1)
        low_ns = min(found.earliest_ns for _, found in rows)
        high_ns = max(found.latest_ns for _, found in rows)
        configuration, largest = self._configuration, max(of_node.values())
        rates = configuration.node_eviction_rate_qps, configuration.secondary_node_eviction_rate_qps
        ends = low_ns / SECOND_NS, high_ns / SECOND_NS
        return line(*ends, of_node.total(), largest, max(*rates, 0.0))

    def _more(self, controller: str, rows: Sequence[Row]) -> Iterator[Arrivals]:
        """Requests that no row of the controller stands for."""
        yield from self._deleted_before()
        if controller == TAINT_EVICTION:
            for window in self._result.cancels.windows.values():
                yield _arrivals((window.earliest_ns, window.latest_ns), 0, 1)
            yield from self._deleted_again(rows)
        if self._shares(controller):
            yield from self._of_changes()

    def _deleted_before(self) -> Iterator[Arrivals]:
        """What was deleted just before the start: nobody sees by whom."""
        seconds: Counter[int] = Counter()
        for pod in self._snapshot.pods:
            if pod.deletion_timestamp_ns is not None:
                grace_ns = (pod.deletion_grace_period_seconds or 0) * SECOND_NS
                since_ns = pod.deletion_timestamp_ns - grace_ns - self._scenario.start_ns
                if -_PAST_NS < since_ns <= 0:
                    seconds[since_ns // SECOND_NS] += self._number(pod)
        for second, number in seconds.items():
            yield _arrivals((second * SECOND_NS, min(second + 1, 0) * SECOND_NS), number)

    def _deleted_again(self, rows: Sequence[Row]) -> Iterator[Arrivals]:
        """Who terminates for long may be deleted once more, where its node gets a taint once more: that is told nowhere."""
        changes = self._result.nodes.windows
        tainted = {key.node for key, number in changes if number and key.what == TAINT_ADDED}
        events = (event for event in self._scenario.events if isinstance(event, AddTaint))
        times = Counter(name for event in events for name in event.nodes)
        again: Counter[int] = Counter()
        for key, found in rows:
            if found.gone_latest_ns is None and (
                self._begins_anew or found.node in tainted or times[found.node] > 1
            ):
                again[found.earliest_ns] += self._numbers.get(key.pod, 1)
        for low_ns, number in again.items():
            yield _arrivals((low_ns, self._scenario.end_ns), number)

    def _of_changes(self) -> Iterator[Arrivals]:
        """What node lifecycle writes where it is seen that a node is ready, or is not."""
        pods: Counter[str] = Counter()
        for pod in self._snapshot.pods:
            pods[pod.node_name] += self._number(pod)
        several: Counter[Span] = Counter()
        for (key, _), window in self._result.nodes.windows.items():
            if key.what == READY:
                span = window.earliest_ns, window.latest_ns
                several[span] += _PER_CHANGE + _PER_MARKED_POD * pods[key.node]
        for span, number in several.items():
            yield _arrivals(span, 0, number)

    def _number(self, pod: Pod) -> int:
        return self._numbers.get(pod.key, 1)

    # -- pod garbage collection -------------------------------------------------------------------------

    def _of_loops(self, rows: Sequence[Row]) -> Waits:
        """One pod after the other; the next loop begins after the end of this one, so what one takes makes those after it late.

        Where a new process says when loops come, all that come before count.
        """
        own = 2 if self._configuration.disruption_condition else 1
        requests: Counter[Span] = Counter()
        nodes: defaultdict[Span, set[str]] = defaultdict(set)
        for key, found in rows:
            for span in found.spans:
                requests[span] += own * self._numbers.get(key.pod, 1)
                # Each that is gone is asked for once more.
                nodes[span].add(found.node)
        instants, longest, number = list[float](), list[float](), 0
        for span in sorted(requests):
            low, high = span[0] / SECOND_NS, span[1] / SECOND_NS
            if not instants or (low > instants[-1] + longest[-1] and not self._begins_anew):
                instants += (low, high)
                longest += (0.0, 0.0)
                number = 0
            number += requests[span] + len(nodes[span])
            instants[-1] = max(instants[-1], high)
            late = max(number - self._limit.burst, 0) / self._limit.qps
            longest[-2:] = late, late
        return Waits(instants, longest)


def _arrivals(span: Span, tasks: int, others: int = 0) -> Arrivals:
    return Arrivals(span[0] / SECOND_NS, span[1] / SECOND_NS, tasks, others=others)
