"""Whom pods of higher priority may push out, so that bounds hold for those too.

Upstream: ``DefaultPreemption``. A pod that no node takes has the scheduler delete pods of lower priority of one
node, as few as it can find: each of these stands in the way of a resource, a port or a pod that keeps others off.
Which node it chooses is not predicted. Disruption budgets are asked but do not bind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.kube.needs import PODS, PodNeeds
from kubectl_evictplan.kube.scheduling.answers import Push
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, nodes_where, places

# Place of a node, what pods need there, how many such pods.
Running = Sequence[tuple[int, PodNeeds | None, int]]
Requests = tuple[tuple[str, int], ...]


class Pushing(msgspec.Struct, frozen=True):
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
        for needs, count in _summed((needs, count) for _, needs, count in self._running):
            self._total[needs] += count
        # Of which priority how many look for a place, and what all of them ask for together.
        self._rivals_by_priority = Counter[int]()
        self._wanted = Counter[str]()
        for needs, count in _summed(self._rivals):
            self._rivals_by_priority[needs.priority] += count
            self._wanted[PODS] += count
            for name, amount in needs.requests:
                if name != PODS:
                    self._wanted[name] += amount * count
        self._lowest = min((needs.priority for needs in self._total), default=0)
        self._of_lower: dict[int, NodeSet] = {}
        self._names_of: dict[NodeSet, frozenset[str]] = {}
        self._scarce_for: dict[tuple[Requests, NodeSet], frozenset[str]] = {}
        self._pushed_anywhere: dict[PodNeeds, Pushing] = {}
        self._there: dict[tuple[int, NodeSet], list[tuple[PodNeeds, int]]] = {}
        self._for_one: dict[Hashable, list[tuple[PodNeeds, int]]] = {}
        self._again: dict[Hashable, list[Push]] = {}

    def preempts(self, needs: PodNeeds) -> bool:
        """Whether such pods have anybody to push out."""
        return not needs.never_preempts and self._lowest < needs.priority

    def pushing(self, needs: PodNeeds, count: int, nodes: NodeSet, *, plain: bool) -> Pushing:
        """What ``count`` such pods may do on these nodes; ``plain``: only resources can be in their way."""
        nodes &= self._with_lower(needs.priority)
        # Whoever comes before them in the end may take a place that was made for them.
        above = sum(n for at, n in self._rivals_by_priority.items() if at > needs.priority)
        free = not (needs.host_ports or needs.pod_anti_affinity or needs.topology_spread)
        scarce = self._scarce(needs, nodes) if plain and free else None
        return Pushing(Push(needs, count + above, self._named(nodes), scarce), nodes)

    def _named(self, nodes: NodeSet) -> frozenset[str]:
        found = self._names_of.get(nodes)
        if found is None:
            found = frozenset(self._names[place] for place in places(nodes))
            self._names_of[nodes] = found
        return found

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

    def chain(self, one: Pushing) -> list[Push]:
        """All pushes of a group: its own, and those of pods that it pushes out."""
        key = self._kind_of(one)
        again = self._again.get(key)
        if again is None:
            needs = [needs for needs in self.pushed([one]) if self.preempts(needs)]
            again = self._again[key] = [self._everywhere(each).push for each in needs]
        return [one.push, *again]

    def _kind_of(self, one: Pushing) -> Hashable:
        """Equal for pushes that differ in nothing but how many they are: each of them does the same."""
        push = one.push
        return push.needs.priority, one.nodes, push.scarce, push.scarce and push.needs.requests

    def _everywhere(self, needs: PodNeeds) -> Pushing:
        """Of a pod that is pushed out itself not more is known than its priority."""
        found = self._pushed_anywhere.get(needs)
        if found is None:
            found = self.pushing(needs, self._total[needs], -1, plain=False)
            self._pushed_anywhere[needs] = found
        return found

    def _victims(self, one: Pushing) -> Iterator[tuple[PodNeeds, int]]:
        push = one.push
        key = self._kind_of(one)
        found = self._for_one.get(key)
        if found is None:
            single = replace(push, pods=1)
            found = self._for_one[key] = [
                (needs, at_most(single, needs, on_a_node))
                for needs, on_a_node in self._lower_on(push.needs.priority, one.nodes)
            ]
        return ((needs, number * push.pods) for needs, number in found)

    def _lower_on(self, priority: int, nodes: NodeSet) -> list[tuple[PodNeeds, int]]:
        """By needs of lower priority, how many such pods at most are on one of these nodes."""
        found = self._there.get((priority, nodes))
        if found is None:
            found = self._there[priority, nodes] = [
                (needs, max(count for count, there in by_count.items() if there & nodes))
                for needs, by_count in self._nodes_by_count.items()
                if needs.priority < priority and any(one & nodes for one in by_count.values())
            ]
        return found

    @cached_property
    def _nodes_by_count(self) -> dict[PodNeeds, dict[int, NodeSet]]:
        """By needs of pods that run: the nodes that have so many of them."""
        found: dict[PodNeeds, dict[int, NodeSet]] = {}
        for place, needs, count in self._running:
            by_count = found.setdefault(needs, {})
            by_count[count] = by_count.get(count, 0) | 1 << place
        return found

    def _with_lower(self, priority: int) -> NodeSet:
        found = self._of_lower.get(priority)
        if found is None:
            lower = {place for place, needs, _ in self._running if needs.priority < priority}
            flags = (place in lower for place in range(len(self._names)))
            found = self._of_lower[priority] = nodes_where(flags)
        return found

    def _scarce(self, needs: PodNeeds, nodes: NodeSet) -> frozenset[str]:
        """The resources that others may leave too little of on one of these nodes."""
        found = self._scarce_for.get((needs.requests, nodes))
        if found is None:
            asked = {PODS: 1, **{name: amount for name, amount in needs.requests if amount}}
            listed = list(places(nodes))
            found = frozenset(
                name for name, amount in asked.items() if self._lacks(name, amount, listed)
            )
            self._scarce_for[needs.requests, nodes] = found
        return found

    def _lacks(self, name: str, amount: int, listed: Iterable[int]) -> bool:
        column, enough = self._capacity.column(name), max(amount, self._wanted[name])
        return any(column[place] < enough for place in listed)


def _summed(numbers: Iterable[tuple[PodNeeds, int]]) -> Iterable[tuple[PodNeeds, int]]:
    """The same numbers added up for needs that are one object; comparing equal ones costs more."""
    found: dict[int, tuple[PodNeeds, int]] = {}
    for needs, number in numbers:
        known = found.get(id(needs))
        found[id(needs)] = needs, number if known is None else known[1] + number
    return found.values()


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
