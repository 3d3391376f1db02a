"""Deletions that are made again: by each change of a node's taints, and by a new process.

Whom a taint has go at once goes once more at once. Whoever tolerates all of them for some time is told of a countdown that begins
anew, and one of a pod ends no sooner after another than it runs: so these come one after the other, however often taints change.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from math import ceil

from kubectl_evictplan.controllers.client_limits import PROCESS_NS
from kubectl_evictplan.controllers.taint_eviction import Decision
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Taint, Toleration
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.scenarios.actions.nodes import AddTaint
from kubectl_evictplan.scenarios.actions.pods import SetTolerations
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.buckets import Arrivals, line
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction
from kubectl_evictplan.windows.spans import Span, in_seconds

# A stretch in which taints of one node are written, how often, and how often at once.
Written = tuple[Span, int, int]
# When a pod goes for the first time, how long its countdowns run (no time where it may go at once), and whether it has cancelled ones.
Due = tuple[Span, Span, bool]
_AT_ONCE: Span = (0, 0)


class RepeatedDeletions:
    """Of taint eviction."""

    def __init__(self, given: Given, put: Mapping[str, Set[str]]) -> None:
        """``put``: the keys of what node lifecycle puts on nodes, by name."""
        snapshot, scenario, configuration = given
        self._configuration = configuration
        self._tolerations = _tolerations(snapshot, scenario)
        self._taints, self._put = _taints(snapshot, scenario), put
        self._known: dict[object, Span] = {}

    def due(
        self,
        alike: Iterable[Sequence[tuple[EvictionKey, PossibleEviction]]],
        number_of: Callable[[str], int],
        cancelled: Set[str] = frozenset(),
    ) -> Mapping[str, Mapping[Due, int]]:
        """By node how many of its pods go when for the first time, of these rows; ``number_of`` pods stand behind one.

        ``cancelled``: pods of which countdowns are told that are cancelled.
        """
        first: dict[tuple[str, str, str], Span] = {}
        for several in alike:
            told = several[0][1].earliest_ns, several[0][1].latest_ns
            for key, found in several:
                pod = found.node, key.pod, key.uid
                other = first.get(pod, told)
                first[pod] = min(told[0], other[0]), max(told[1], other[1])
        due: defaultdict[str, Counter[Due]] = defaultdict(Counter)
        for (node, name, _), span in first.items():
            own = span, self._countdown_ns(node, name), name in cancelled
            due[node][own] += number_of(name)
        return due

    def arrivals(
        self,
        written: Mapping[str, Sequence[Written]],
        begins: Sequence[Span],
        due: Mapping[str, Mapping[Due, int]],
        tries: float,
        once: int = 0,
    ) -> Iterator[Arrivals]:
        """All of them; ``begins``: new processes begin within these. One is ``tries`` tasks that may find its pod gone.

        ``once``: where nothing waits a pod is gone for those of one moment only, each of which makes so many requests more.
        """
        yield from self._by_taints(written, due, tries)
        yield from self._by_processes(begins, due, tries)
        if once:
            spans = [*begins, *(span for stretches in written.values() for span, _, _ in stretches)]
            number = sum(
                pods * (max((lot[2] for lot in written.get(node, ())), default=0) + 2 * len(begins))
                for node, of_node in due.items()
                for own, pods in of_node.items()
                if own[1] == _AT_ONCE
            )
            low_ns, high_ns = min(span[0] for span in spans), max(span[1] for span in spans)
            yield Arrivals(*in_seconds((low_ns, high_ns)), 0, others=once * number)

    def _by_taints(
        self,
        written: Mapping[str, Sequence[Written]],
        due: Mapping[str, Mapping[Due, int]],
        tries: float,
    ) -> Iterator[Arrivals]:
        """What changes of taints have deleted once more; a countdown that is cancelled is an event."""
        lots: defaultdict[Span, list[int]] = defaultdict(lambda: [0, 0])
        ends: defaultdict[tuple[Span, Due], list[int]] = defaultdict(lambda: [0, 0])
        told: Counter[Span] = Counter()
        for node, stretches in written.items():
            for span, number, at_once in stretches:
                for own, pods in due.get(node, {}).items():
                    goes_at_once, is_due = own[1] == _AT_ONCE, own[0][0] <= span[1]
                    if not (own[2] or (goes_at_once and is_due)):
                        # Cancelled when no taint is left, which takes another one to come in between.
                        told[span] += ceil(number / 2) * pods
                    if is_due:
                        lot = lots[span] if goes_at_once else ends[span, own]
                        lot[0] += number * pods
                        lot[1] += pods * (at_once if goes_at_once else 1)
        period = self._configuration.node_monitor_period_ns / SECOND_NS
        for (low_ns, high_ns), numbers in lots.items():
            every, at_once = (ceil(number * tries) for number in numbers)
            yield line(*in_seconds((low_ns, high_ns)), every, at_once, 1 / period)
        for (span, own), (every, at_once) in ends.items():
            yield from _at_their_ends(span, own, every, at_once)
        for span, number in told.items():
            yield Arrivals(*in_seconds(span), 0, others=number)

    def _by_processes(
        self, begins: Iterable[Span], due: Mapping[str, Mapping[Due, int]], tries: float
    ) -> Iterator[Arrivals]:
        """What new processes delete that begin within these: at once twice, for the node and for the pod."""
        for low_ns, high_ns in begins:
            at_once, ends = 0, Counter[Due]()
            for of_node in due.values():
                for own, pods in of_node.items():
                    if own[0][0] > high_ns + PROCESS_NS:
                        continue
                    if own[1] == _AT_ONCE:
                        at_once += 2 * pods
                    else:
                        ends[own] += pods
            yield Arrivals(*in_seconds((low_ns, high_ns)), ceil(at_once * tries))
            for own, pods in ends.items():
                yield from _at_their_ends((low_ns, high_ns + PROCESS_NS), own, pods, pods)

    def _countdown_ns(self, node: str, pod: str) -> Span:
        """How long a countdown of the pod may run there, at least and at most."""
        lists = self._tolerations.get(pod, ())
        own, put = self._taints.get(node, ()), self._put.get(node, ())
        known = self._known.get(key := (lists, *own, *put))
        if known is None:
            taints = *own, *(Taint(each, NO_EXECUTE) for each in put)
            known = self._known[key] = self._found_out(taints, lists)
        return known

    def _found_out(self, taints: Iterable[Taint], lists: Sequence[tuple[Toleration, ...]]) -> Span:
        comparison = self._configuration.comparison_operators
        delays = [Decision((one,), each, comparison).delay_ns for one in taints for each in lists]
        finite = [delay_ns for delay_ns in delays if delay_ns is not None]
        return (min(finite), max(finite)) if finite and min(finite) > 0 else _AT_ONCE


def _tolerations(
    snapshot: ClusterSnapshot, scenario: Scenario
) -> dict[str, tuple[tuple[Toleration, ...], ...]]:
    """By pod name the lists of tolerations that it ever has."""
    found: dict[str, tuple[tuple[Toleration, ...], ...]]
    found = {pod.key: (pod.tolerations,) for pod in snapshot.pods}
    for event in scenario.events:
        if event.pod is not None:
            found[event.pod.key] = (*found.get(event.pod.key, ()), event.pod.tolerations)
        elif isinstance(event, SetTolerations):
            for key in event.pods:
                found[key] = (*found.get(key, ()), event.tolerations)
    return found


def _taints(snapshot: ClusterSnapshot, scenario: Scenario) -> dict[str, list[Taint]]:
    """By node the NoExecute taints that it ever has, but for what node lifecycle puts on."""
    found: defaultdict[str, list[Taint]] = defaultdict(list)
    nodes = [*snapshot.nodes, *(event.node for event in scenario.events if event.node is not None)]
    for node in nodes:
        if node.taints:
            found[node.name] += no_execute_taints(node.taints)
    for event in scenario.events:
        if isinstance(event, AddTaint) and event.taint.effect == NO_EXECUTE:
            for name in event.nodes:
                found[name].append(event.taint)
    return found


def _at_their_ends(span: Span, own: Due, every: int, at_once: int) -> Iterator[Arrivals]:
    """Countdowns that begin in a stretch, and of one pod not before the one before has ended; the first one of each counts already."""
    (_, counted_ns), (shortest_ns, longest_ns), _ = own
    low_ns, high_ns = span[0] + shortest_ns, span[1] + longest_ns
    rate = SECOND_NS / shortest_ns
    if low_ns <= counted_ns:
        until_ns = min(high_ns, counted_ns)
        yield Arrivals(*in_seconds((low_ns, until_ns)), 0, at_once * rate, every)
    if high_ns > counted_ns:
        low_ns = max(low_ns, counted_ns)
        yield line(*in_seconds((low_ns, high_ns)), every, at_once, rate)
