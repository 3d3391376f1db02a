"""Whom pods of higher priority may push out, so that bounds hold for those too.

Upstream: ``DefaultPreemption``. A pod that no node takes has the scheduler delete pods of lower priority of one
node, as few as it can find: each of these stands in the way of a resource, a port or a pod that keeps others off.
Which node it chooses is not predicted. Disruption budgets are asked but do not bind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.kube.needs import PODS, PodNeeds
from kubectl_evictplan.kube.scheduling.answers import Push
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, nodes_where, places

# Place of a node, what pods need there, how many such pods.
Running = Sequence[tuple[int, PodNeeds | None, int]]


class Pushing(NamedTuple):
    """``push``, with its nodes as a set."""

    push: Push
    nodes: NodeSet


class Preemption:
    """Who pushes whom, among pods that run and those that look for a place."""

    def __init__(
        self,
        names: Sequence[str],
        capacity: Capacity,
        running: Running,
        rivals: Iterable[tuple[PodNeeds, int]],
    ) -> None:
        self._names, self._capacity = names, capacity
        self._running = [(place, needs, count) for place, needs, count in running if needs]
        self._rivals = list(rivals)
        self._total = Counter[PodNeeds]()
        for _, needs, count in self._running:
            self._total[needs] += count
        self._lowest = min((needs.priority for _, needs, _ in self._running), default=0)
        self._of_lower: dict[int, NodeSet] = {}

    def preempts(self, needs: PodNeeds) -> bool:
        """Whether such pods have anybody to push out."""
        return not needs.never_preempts and self._lowest < needs.priority

    def pushing(self, needs: PodNeeds, count: int, nodes: NodeSet, *, plain: bool) -> Pushing:
        """What ``count`` such pods may do on these nodes; ``plain``: only resources can be in their way."""
        nodes &= self._with_lower(needs.priority)
        # Whoever comes before them in the end may take a place that was made for them.
        above = sum(n for other, n in self._rivals if other.priority > needs.priority)
        free = not (needs.host_ports or needs.pod_anti_affinity or needs.topology_spread)
        scarce = self._scarce(needs, nodes) if plain and free else None
        names = frozenset(self._names[place] for place in places(nodes))
        return Pushing(Push(needs, count + above, names, scarce), nodes)

    def pushed(self, pushings: Iterable[Pushing]) -> dict[PodNeeds, int]:
        """By needs how many at most of the running pods may be pushed out, and by those again."""
        found: dict[PodNeeds, int] = {}
        open_ = list(pushings)
        while open_:
            one = open_.pop()
            for needs, number in self._victims(one):
                known = found.get(needs, 0)
                found[needs] = min(known + number, self._total[needs])
                if not known and self.preempts(needs):
                    open_.append(self._everywhere(needs))
        return found

    def chain(self, pushings: Sequence[Pushing]) -> list[Push]:
        """All pushes: those that are given, and those of pods that they push out."""
        again = [needs for needs in self.pushed(pushings) if self.preempts(needs)]
        return [one.push for one in (*pushings, *map(self._everywhere, again))]

    def _everywhere(self, needs: PodNeeds) -> Pushing:
        """Of a pod that is pushed out itself not more is known than its priority."""
        return self.pushing(needs, self._total[needs], -1, plain=False)

    def _victims(self, one: Pushing) -> Iterator[tuple[PodNeeds, int]]:
        there: dict[PodNeeds, int] = {}
        for place, needs, count in self._running:
            if needs.priority < one.push.needs.priority and one.nodes >> place & 1:
                there[needs] = max(there.get(needs, 0), count)
        for needs, on_a_node in there.items():
            yield needs, at_most(one.push, needs, on_a_node)

    def _with_lower(self, priority: int) -> NodeSet:
        found = self._of_lower.get(priority)
        if found is None:
            lower = {place for place, needs, _ in self._running if needs.priority < priority}
            flags = (place in lower for place in range(len(self._names)))
            found = self._of_lower[priority] = nodes_where(flags)
        return found

    def _scarce(self, needs: PodNeeds, nodes: NodeSet) -> frozenset[str]:
        """The resources that others may leave too little of on one of these nodes."""
        asked = {PODS: 1, **{name: amount for name, amount in needs.requests if amount}}
        wanted = {name: self._wanted(name) for name in asked}
        return frozenset(
            name
            for name, amount in asked.items()
            if any(
                self._capacity.column(name)[place] < max(amount, wanted[name])
                for place in places(nodes)
            )
        )

    def _wanted(self, name: str) -> int:
        """What all that look for a place ask for together."""
        if name == PODS:
            return sum(count for _, count in self._rivals)
        return sum(dict(needs.requests).get(name, 0) * count for needs, count in self._rivals)


def at_most(push: Push, victim: PodNeeds, on_a_node: int) -> int:
    """How many pods like ``victim`` are pushed out at most, if so many are on one node.

    Of those that stand in the way of one resource all but the last together have less of it than is asked for: the
    scheduler spares whomever it can.
    """
    if push.scarce is None or victim.host_ports or victim.pod_anti_affinity:
        return push.pods * on_a_node
    asked: Mapping[str, int] = {**dict(push.needs.requests), PODS: 1}
    has = {**dict(victim.requests), PODS: 1}
    in_the_way = sum(-(-asked[name] // has[name]) for name in push.scarce if has.get(name))
    return push.pods * min(on_a_node, in_the_way)
