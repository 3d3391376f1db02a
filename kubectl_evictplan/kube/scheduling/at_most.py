"""At most so many of a group of replacements find room: nothing else takes any, and every node is as it refuses the least."""

from __future__ import annotations

from contextlib import suppress

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.scheduling.answers import Group, Phase
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.company import Company
from kubectl_evictplan.kube.scheduling.evicted import Evicted
from kubectl_evictplan.kube.scheduling.ground import Ground
from kubectl_evictplan.kube.scheduling.inter_pod import UnknownNamespaces
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, places
from kubectl_evictplan.kube.scheduling.opened import Opened
from kubectl_evictplan.kube.scheduling.peers import selects
from kubectl_evictplan.kube.scheduling.preemption import Preemption
from kubectl_evictplan.kube.scheduling.spread import Bounds


class AtMost:
    """Answers for one ground."""

    def __init__(
        self, ground: Ground, evicted: Evicted, preemption: Preemption, company: Company
    ) -> None:
        self._ground, self._evicted = ground, evicted
        self._preemption, self._company = preemption, company
        self._without_lower: dict[int, Capacity] = {}

    def with_room(self, needs: PodNeeds) -> NodeSet:
        """Nodes that may have room for one."""
        capacity = self._capacity(needs)
        return capacity.fitting(needs) | capacity.unknown | self._evicted.stuck

    def count(self, group: Group, nodes: NodeSet) -> int:
        """At most so many find room on these nodes."""
        count, capacity = len(group.pods), self._capacity(group.needs)
        unknown, total = capacity.unknown | self._evicted.stuck, 0
        for place in places(nodes):
            total += count if unknown >> place & 1 else capacity.room(place, group.needs)
            if total >= count:
                break
        if group.reach.exclusive:
            total = min(total, 1)
        return min(total, count, self._domains_apart(group, nodes))

    def nodes(
        self, number: int, group: Group, phase: tuple[Phase, Opened, Opened], nodes: NodeSet
    ) -> NodeSet:
        """Which of these nodes may take one: with room for it alone, refusing the least."""
        needs, capacity = group.needs, self._capacity(group.needs)
        # What is stuck there goes when its kubelet is back.
        unknown = capacity.unknown | self._evicted.stuck
        nodes &= unknown | (
            capacity.fitting(needs)
            & capacity.ports(needs)
            & self._ground.attached.passing(group.reach, hopeful=True)
        )
        if phase[0].stuck_stay and not self._ground.attached.is_free(group.reach):
            return 0
        if nodes and self._ground.asks_for_peers and capacity is self._ground.capacity:
            nodes &= self._peers(number, group, phase, nodes)
        return nodes

    def _capacity(self, needs: PodNeeds) -> Capacity:
        """What is left, for whoever may preempt others as if these were not there."""
        preempts = self._preemption.preempts(needs)
        return self._above(needs.priority) if preempts else self._ground.capacity

    def _above(self, priority: int) -> Capacity:
        found = self._without_lower.get(priority)
        if found is None:
            running = [
                one for one in self._ground.running if one[1] is None or one[1].priority >= priority
            ]
            found = self._without_lower[priority] = Capacity(self._ground.nodes, running)
        return found

    def _peers(
        self, number: int, group: Group, phase: tuple[Phase, Opened, Opened], takers: NodeSet
    ) -> NodeSet:
        """Nodes that other pods may let it have."""
        ground, needs = self._ground, group.needs
        nodes = -1
        peers = ground.pods.peers(group.pods[0])
        if phase[0].stuck_stay:
            # Of namespaces that were not read nothing is said.
            with suppress(UnknownNamespaces):
                nodes &= ground.inter_pod.apart(needs, peers)
            with suppress(UnknownNamespaces):
                if needs.pod_affinity and ground.around.all_pods:
                    nodes &= self._company.perhaps(needs, number)
        if needs.topology_spread:
            maybe, sure = (opened.counted(group, ground.spread) for opened in phase[1:])
            bounds = Bounds(maybe, sure, self._evicted.spread, len(group.pods), takers)
            nodes &= ground.spread.perhaps(needs, peers, bounds)
        return nodes

    def _domains_apart(self, group: Group, nodes: NodeSet) -> int:
        """How many domains there are for pods that keep off their own kind; else many."""
        labels, namespace = group.pods[0].labels, group.pods[0].namespace
        domains = [len(group.pods)]
        for term in group.needs.pod_anti_affinity:
            own = not term.namespaces or namespace in term.namespaces
            if own and term.namespace_selector is None and selects(term.selector, labels):
                key = term.topology_key
                keyed = self._ground.topologies.with_key(key) & nodes == nodes
                if keyed:
                    domains.append(self._ground.topologies.count_domains(key, nodes))
        return min(domains)
