"""What goes through the clients of those who delete pods, and when: told by the windows of their deletions.

Those of equal windows may all come at once. But nodes that wait in the line of a zone are tainted one after the other, and pods that
tolerate a taint equally long are deleted so as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from math import ceil
from typing import TYPE_CHECKING

import msgspec

from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, POD_GC, TAINT_EVICTION
from kubectl_evictplan.controllers.client_limits import (
    OF_CHANGE,
    PROCESS_NS,
    ClientLimit,
    client_limit,
    per_marked_pod,
    requests_per_eviction,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.taints import (
    LIFECYCLE_NO_EXECUTE,
    LIFECYCLE_NO_EXECUTE_KEYS,
    no_execute_taints,
)
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, RemoveTaint, deleted_nodes
from kubectl_evictplan.scenarios.actions.pods import SetTolerations
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.buckets import Arrivals, Bucket, Waits, line
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    TAINT_REMOVED,
    EvictionKey,
    Exploration,
    PossibleEviction,
)
from kubectl_evictplan.windows.spans import NEVER_NS, Span, in_seconds, merge_spans
from kubectl_evictplan.windows.spent_tokens import in_lines_made_anew

if TYPE_CHECKING:
    from kubectl_evictplan.windows.clients.busy import BusyClient

Row = tuple[EvictionKey, PossibleEviction]

# A bucket that was emptied so long ago is full again.
_PAST_NS = 60 * SECOND_NS
# A process that leads for so long has deleted whom it found.
_LED_NS = 600 * SECOND_NS
# Of a node lifecycle controller that shares its client, at once: its events, its tick (8 nodes), its pass, 8 workers for nodes and 4 for pods.
_SHARED_OTHERS = 22
# So often a deletion is tried that fails.
_TRIES = 5
_BEFORE: Span = (-1, -1)


def waits_of_deletions(
    result: Exploration, given: Given, sent: int = 0
) -> list[tuple[Waits, list[list[Row]]]]:
    """How long what each controller deletes can wait for its client, with its rows, by their windows: of those where any can.

    ``sent``: so many pods come from drains, perhaps, to nodes before they are tainted, or deleted.
    """
    limit = client_limit(given.configuration)
    if limit is None:
        return []
    arrivals = DeletionArrivals(result, given, limit, sent)
    asked = (
        (arrivals.waits(controller, alike), alike)
        for controller, alike in rows_by_windows(result.evictions).items()
    )
    return [(waits, alike) for waits, alike in asked if waits is not None]


def rows_by_windows(
    evictions: Mapping[EvictionKey, PossibleEviction],
) -> dict[str, list[list[Row]]]:
    """By controller all rows, of which those that share their windows are together: of tens of thousands few have some of their own."""
    found: dict[str, dict[object, list[Row]]] = {}
    for row in evictions.items():
        key, told = row
        of_controller = found.setdefault(key[2], {})
        # What nodes share that only fall silent; of others each is for itself.
        windows = id(told[0]) if told[7] is not None else key
        if (rows := of_controller.get(windows)) is None:
            rows = of_controller[windows] = []
        rows.append(row)
    return {controller: list(rows.values()) for controller, rows in found.items()}


def line_qps(configuration: ControllerConfiguration) -> float | None:
    """How many nodes of one line are tainted a second at the most; None: all at once (rule 15)."""
    qps = configuration.node_eviction_rate_qps
    if qps <= 0 and configuration.profile.rate_zero_accepts:
        return None
    return max(qps, configuration.secondary_node_eviction_rate_qps, 0.0)


class _Again(msgspec.Struct, frozen=True):
    """What is deleted once more: where nothing waits, so that a pod is gone for those ``at_once`` only, and where something does."""

    at_once: list[Arrivals]
    waiting: list[Arrivals]


class _Line:
    """Pods that go equally long after the taints of nodes that wait in one line."""

    def __init__(self) -> None:
        self._of_node: Counter[str] = Counter()
        self._ends_ns = NEVER_NS, 0

    def add(self, found: PossibleEviction, nodes: Sequence[str], numbers: Sequence[int]) -> None:
        """Those of rows with the windows of that one: on which node, and how many."""
        low_ns, high_ns = self._ends_ns
        self._ends_ns = min(low_ns, found.earliest_ns), max(high_ns, found.latest_ns)
        own = dict(zip(nodes, numbers, strict=True))
        if len(own) == len(nodes):
            self._of_node.update(own)
        else:
            for node, number in zip(nodes, numbers, strict=True):
                self._of_node[node] += number

    def arrivals(self, rate: float) -> Arrivals:
        """So many nodes a second come at most."""
        low, high = in_seconds(self._ends_ns)
        return line(low, high, self._of_node.total(), max(self._of_node.values()), rate)


class DeletionArrivals:
    """Asked how long what each controller deletes can wait for its client."""

    def __init__(
        self,
        result: Exploration,
        given: Given,
        limit: ClientLimit,
        sent: int = 0,
        late_ns: int = 0,
        *,
        gone: bool = True,
    ) -> None:
        """``late_ns``: so much later than told what node lifecycle does to nodes may come; ``gone``: pods may be gone when their deletion is tried."""
        self._sent, self._late_ns, self._gone = sent, late_ns, gone
        self._result, self._given, self._limit = result, given, limit
        self._snapshot, self._scenario, self._configuration = given
        self._numbers = given.snapshot.stand_ins
        self._begins_anew = any(event.manager_up for event in given.scenario.events)

    def waits(self, controller: str, alike: Sequence[Sequence[Row]]) -> Waits | None:
        """Of its deletions, which are these rows, by their windows; None where none waits."""
        if controller not in (TAINT_EVICTION, NODE_LIFECYCLE, POD_GC):
            return None
        if controller == POD_GC:
            found = self._of_loops(chain.from_iterable(alike))
        else:
            bucket = self._bucket(controller)
            every, again = self._once(controller, alike), self._again(controller, alike)
            at_most = [*every, *again.at_once]
            if bucket.is_ample(at_most) or not bucket.waits(at_most).any:
                return None
            arrivals = [*every, *again.waiting]
            if self._shares(controller):
                # Of what ticks write hardly anything is left when so few are deleted.
                if not self.alone(controller, alike).longest:
                    return None
                arrivals += self._of_changes()
            found = bucket.waits(arrivals)
        return found if found.any else None

    def alone(
        self, controller: str, alike: Sequence[Sequence[Row]], beside: Iterable[Arrivals] = ()
    ) -> BusyClient:
        """The client where nothing goes through it but these deletions, all of which find their pods, and what is given ``beside`` them."""
        from kubectl_evictplan.windows.clients.busy import BusyClient  # old releases

        given = self._given, self._limit, self._sent
        found = DeletionArrivals(self._result, *given, self._late_ns, gone=False)
        return BusyClient(self._limit, [*found.requests(controller, alike), *beside])

    def requests(self, controller: str, alike: Sequence[Sequence[Row]]) -> Iterator[Arrivals]:
        """What the controller asks for, one by one, where these are its rows by their windows."""
        if not alike:
            return
        bucket = self._bucket(controller)
        again = self._again(controller, alike)
        for one in (*self._once(controller, alike), *again.waiting):
            if one.in_all:
                yield one.in_requests(bucket.chain + bucket.beside)
            if one.others:
                yield Arrivals(one.low, one.high, one.others)

    # -- taint eviction and node lifecycle -------------------------------------------------------------

    def _shares(self, controller: str) -> bool:
        return controller == NODE_LIFECYCLE or not self._configuration.separate_taint_eviction

    def _bucket(self, controller: str) -> Bucket:
        if controller == NODE_LIFECYCLE:
            # One pod after the other: its status, an event, DELETE.
            return Bucket(self._limit, 1, beside=2, others=None)
        # An event for each pod, written one after the other.
        others = 1 + (_SHARED_OTHERS if self._shares(controller) else 0)
        requests = requests_per_eviction(self._configuration)
        return Bucket(self._limit, requests, beside=1, others=others)

    def _numbers_of(self, rows: Sequence[Row]) -> Iterable[int]:
        """How many pods each row stands for."""
        if not self._numbers:
            return repeat(1, len(rows))
        return map(self._numbers.get, [key.pod for key, _ in rows], repeat(1))

    def _pods_of(self, alike: Iterable[Sequence[Row]]) -> int:
        return sum(sum(self._numbers_of(rows)) for rows in alike)

    def _of(self, alike: Iterable[Sequence[Row]]) -> Iterator[Arrivals]:
        """Lots of what may come at once, and lines of what cannot."""
        lots: Counter[Span] = Counter()
        lines: defaultdict[tuple[str, int], _Line] = defaultdict(_Line)
        for several in alike:
            found, numbers = several[0][1], list(self._numbers_of(several))
            zone = None if found.delay_ns is None else self._zone_in_line.get(found.node)
            if zone is not None and found.delay_ns is not None:
                nodes = [row.node for _, row in several]
                lines[zone, found.delay_ns].add(found, nodes, numbers)
            else:
                lots[found.earliest_ns, found.latest_ns] += sum(numbers)
        for span, number in lots.items():
            yield _arrivals(span, number)
        for each in lines.values():
            yield each.arrivals(line_qps(self._configuration) or 0.0)

    @cached_property
    def _zone_in_line(self) -> dict[str, str]:
        """By nodes that only tokens taint their zone."""
        return {} if line_qps(self._configuration) is None else self._result.zones_in_line()

    def _once(self, controller: str, alike: Sequence[Sequence[Row]]) -> list[Arrivals]:
        """Requests for what the rows of the controller stand for, and for what none does, but not made again."""
        found = [*self._of(alike), *self._deleted_before()]
        if controller == TAINT_EVICTION:
            found += [*self._begun_before(alike), *self._of_drains(alike)]
            for (cancel, _), window in self._result.cancels.windows.items():
                number = self._numbers.get(cancel.pod, 1)
                found.append(_arrivals(window.span, 0, number))
        return found

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

    def _of_drains(self, alike: Iterable[Sequence[Row]]) -> Iterator[Arrivals]:
        """Pods that drains may send to nodes before these are tainted."""
        if self._sent:
            earliest_ns = min(rows[0][1].earliest_ns for rows in alike)
            latest_ns = max(rows[0][1].latest_ns for rows in alike)
            yield _arrivals((earliest_ns, latest_ns), self._sent)

    def _begun_before(self, alike: Iterable[Sequence[Row]]) -> Iterator[Arrivals]:
        """A process that began before the start has deleted twice, then, who is due at the start."""
        led_ns = self._snapshot.control_plane.leader_acquire_time_ns
        since_ns = None if led_ns is None else led_ns - self._scenario.start_ns
        if since_ns is not None and -_LED_NS < since_ns <= 0:
            due = (rows for rows in alike if rows[0][1].earliest_ns == 0)
            # Whom it deletes first may be gone before the second request goes through.
            if number := ceil(2 * self._pods_of(due) * self._tries):
                yield _arrivals((since_ns, min(since_ns + PROCESS_NS, 0)), number)

    def _again(self, controller: str, alike: Iterable[Sequence[Row]]) -> _Again:
        """Every change of a node's taints, of a pod's tolerations, and a new process twice, has all pods deleted once more that are due and there still.

        Each of that is a task of its own (``AddWork`` after ``CancelWork``); whoever is gone by then is asked for five times.
        """
        if controller != TAINT_EVICTION:
            return _Again([], [])
        written, events = self._taints_written_again(), self._scenario.events
        begins = [event.span for event in events if event.manager_up]
        changed: Counter[Span] = Counter()
        for event in events:
            if isinstance(event, SetTolerations):
                changed[event.span] += len(event.pods)
        told = [_arrivals(span, ceil(number * self._tries)) for span, number in changed.items()]
        if not (written or begins):
            return _Again(told, told)
        from kubectl_evictplan.windows.clients.repeated_deletions import (
            RepeatedDeletions,  # rarely any
        )

        repeated = RepeatedDeletions(self._given, self._put_on_nodes)
        cancelled = {cancel.pod for cancel, _ in self._result.cancels.windows}
        due = repeated.due(alike, lambda pod: self._numbers.get(pod, 1), cancelled)
        more = ceil(requests_per_eviction(self._configuration) * (self._tries - 1))
        return _Again(
            [*repeated.arrivals(written, begins, due, 1.0, once=more), *told],
            [*repeated.arrivals(written, begins, due, self._tries), *told],
        )

    @property
    def _tries(self) -> float:
        """How many tasks one is that may fail, for what it asks."""
        if not self._gone:
            return 1.0
        return (_TRIES + 2) / 3 if self._configuration.disruption_condition else _TRIES

    @cached_property
    def _by_people(self) -> set[str]:
        """Nodes whose taints people change."""
        events = self._scenario.events
        changes = (event for event in events if isinstance(event, AddTaint | RemoveTaint))
        return {name for event in changes for name in event.nodes}

    def _taints_written_again(self) -> dict[str, list[tuple[Span, int, int]]]:
        """When NoExecute taints are put on nodes and taken off, whoever does it; but for the first one of each node, for which its pods are deleted.

        Stretches, in each of which it happens so often, and so often at once: a tick exchanges one taint for another at most.
        """
        found: dict[str, list[tuple[Span, int, int]]] = {}
        written = self._taints_written()
        by_every_tick = in_lines_made_anew(*self._given) if written else set()
        for name, spans in written.items():
            most = 1 if name in self._with_one_taint else 2
            spans.sort(key=lambda span: span[1])
            again = sorted(spans[1:])
            for stretch in merge_spans(again, 0):
                number = sum(stretch[0] <= span[0] <= stretch[1] for span in again)
                at_once = number if name in self._by_people else min(number, most)
                found.setdefault(name, []).append((stretch, number, at_once))
            if name in by_every_tick:
                stretch = min(span[0] for span in spans), self._scenario.end_ns
                ticks = (stretch[1] - stretch[0]) // self._configuration.node_monitor_period_ns
                found.setdefault(name, []).append((stretch, ticks + 1, 1))
        return found

    def _taints_written(self) -> dict[str, list[Span]]:
        """When NoExecute taints are put on nodes and taken off, whoever does it."""
        found: defaultdict[str, list[Span]] = defaultdict(list)
        only_silent = self._result.only_silent
        for (key, _), window in self._result.nodes.windows.items():
            if (
                key.node not in only_silent
                and key.what in (TAINT_ADDED, TAINT_REMOVED)
                and key.value in LIFECYCLE_NO_EXECUTE
                and not (key.what == TAINT_REMOVED and key.node in self._with_one_taint)
            ):
                latest_ns = window.latest_ns + self._late_ns
                found[key.node].append((window.earliest_ns, latest_ns))
        for event in self._scenario.events:
            if isinstance(event, AddTaint | RemoveTaint):
                for name in event.nodes:
                    found[name].append(event.span)
        for node in self._snapshot.nodes:
            if node.taints and node.name in found and no_execute_taints(node.taints):
                found[node.name].append(_BEFORE)
        return found

    @cached_property
    def _with_one_taint(self) -> set[str]:
        """Nodes on which never more than one NoExecute taint stands: where that is taken off nobody is deleted."""
        tainted = {node.name for node in self._snapshot.nodes if no_execute_taints(node.taints)}
        made = {event.node.name for event in self._scenario.events if event.node is not None}
        others = tainted | made | self._by_people
        put = self._put_on_nodes.items()
        return {name for name, keys in put if len(keys) == 1 and name not in others}

    @cached_property
    def _put_on_nodes(self) -> Mapping[str, set[str]]:
        """By node the keys of what node lifecycle may put on it, of all that it puts any on."""
        silent = {name: set(LIFECYCLE_NO_EXECUTE_KEYS) for name in self._result.only_silent}
        found = defaultdict[str, set[str]](set, silent)
        for key, _ in self._result.nodes.windows:
            if key.what == TAINT_ADDED and key.value in LIFECYCLE_NO_EXECUTE:
                found[key.node].add(key.value.partition(":")[0])
        return found

    def _of_changes(self) -> Iterator[Arrivals]:
        """What node lifecycle writes where it is seen that a node is ready, or is not."""
        pods: Counter[str] = Counter()
        for pod in self._snapshot.pods:
            pods[pod.node_name] += self._number(pod)
        several, per_pod = Counter[Span](), per_marked_pod(self._configuration)
        for (key, _), window in self._result.nodes.windows.items():
            if key.what == READY:
                several[window.span] += OF_CHANGE + per_pod * pods[key.node]
        for span, number in several.items():
            yield _arrivals(span, 0, number)

    def _number(self, pod: Pod) -> int:
        return self._numbers.get(pod.key, 1)

    # -- pod garbage collection -------------------------------------------------------------------------

    def _of_loops(self, rows: Iterable[Row]) -> Waits:
        """One pod after the other; the next loop begins after the end of this one, so what one takes makes those after it late.

        Where a new process says when loops come, all that come before count. Drains may have sent pods to the node that is gone.
        """
        own = 2 if self._configuration.disruption_condition else 1
        requests: Counter[Span] = Counter()
        nodes: defaultdict[Span, set[str]] = defaultdict(set)
        rows, uncollected = list(rows), self._left_by_late_deletions()
        collected = {key.pod for key, _ in rows}
        for key, found in rows:
            for span in found.spans:
                requests[span] += own * self._numbers.get(key.pod, 1)
                # Each that is gone is asked for once more.
                nodes[span].add(found.node)
        for span, names in nodes.items():
            left = {pod for name in names for pod in uncollected.get(name, ())} - collected
            requests[span] += own * sum(self._numbers.get(pod, 1) for pod in left)
        instants, longest, number = list[float](), list[float](), 0
        for span in sorted(requests):
            low, high = in_seconds(span)
            if not instants or (low > instants[-1] + longest[-1] and not self._begins_anew):
                instants += (low, high)
                longest += (0.0, 0.0)
                number = own * self._sent
            number += requests[span] + len(nodes[span])
            instants[-1] = max(instants[-1], high)
            late = self._limit.one_by_one_seconds(number)
            longest[-2:] = late, late
        return Waits(instants, longest)

    def _left_by_late_deletions(self) -> dict[str, list[str]]:
        """Pods of nodes that the scenario deletes, which may be there still where their deletions wait, and no run has left any of them."""
        deleted = deleted_nodes(self._scenario.events)
        found: defaultdict[str, list[str]] = defaultdict(list)
        number = 0
        for key, row in self._result.evictions.items() if deleted else ():
            if key.controller == TAINT_EVICTION:
                number += self._numbers.get(key.pod, 1)
                if row.node in deleted:
                    found[row.node].append(key.pod)
        waits = number * requests_per_eviction(self._configuration) > self._limit.burst
        return found if waits else {}


def _arrivals(span: Span, tasks: int, others: int = 0) -> Arrivals:
    return Arrivals(*in_seconds(span), tasks, others=others)
