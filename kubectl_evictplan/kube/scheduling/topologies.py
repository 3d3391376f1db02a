"""Which nodes lie in which domain of a topology key: zones, racks, hosts.

What is asked about domains is asked for each of thousands of groups of pods, of sets of nodes that differ in a few: a
key with a domain for each node is answered with a few operations on bits, and of domains with several nodes only those
are looked at again in which anything has changed since the last answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.node_sets import (
    NodeSet,
    first_place,
    nodes_where,
    places,
    set_of,
)

# What is kept of a domain: from its nodes, and those of them that were asked about (at least one).
_Kept = Callable[[NodeSet, NodeSet], NodeSet]


class Topologies:
    """Which nodes lie in which domain, by topology key; worked out when first asked for."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._domains: dict[str, dict[str, NodeSet]] = {}
        self._with_key: dict[str, NodeSet] = {}
        self._alone: dict[str, NodeSet] = {}
        self._whole: dict[str, _OfDomains] = {}
        self._firsts: dict[tuple[str, NodeSet], _OfDomains] = {}

    def domains(self, key: str) -> dict[str, NodeSet]:
        """Return the nodes of each domain, by the value of the label; nodes without it are in none."""
        found = self._domains.get(key)
        if found is None:
            members: dict[str, list[int]] = {}
            for place, node in enumerate(self._nodes):
                if key in node.labels:
                    members.setdefault(node.labels[key], []).append(place)
            found = {value: set_of(listed) for value, listed in members.items()}
            self._domains[key] = found
        return found

    def domain(self, key: str, place: int) -> str | None:
        """Return the domain of the node at that place, None when it has none."""
        return self._nodes[place].labels.get(key)

    def with_key(self, key: str) -> NodeSet:
        """Return the nodes that lie in any domain of the key."""
        found = self._with_key.get(key)
        if found is None:
            found = self._with_key[key] = nodes_where(key in node.labels for node in self._nodes)
        return found

    def count_domains(self, key: str, among: NodeSet) -> int:
        """Return how many domains have a node among these."""
        return self.one_of_each(key, among).bit_count()

    def one_of_each(self, key: str, nodes: NodeSet, held: NodeSet = 0) -> NodeSet:
        """Return the first of these nodes of each domain; none of domains with a node that is held."""
        found = self._firsts.get((key, held))
        if found is None:

            def kept(members: NodeSet, some: NodeSet) -> NodeSet:
                return 0 if members & held else 1 << first_place(some)

            found = self._firsts[key, held] = self._of_domains(key, kept)
        return nodes & self._lone(key) & ~held | found.of(nodes)

    def whole_domains(self, key: str, nodes: NodeSet) -> NodeSet:
        """Return all nodes of the domains in which any of these lies."""
        found = self._whole.get(key)
        if found is None:
            found = self._whole[key] = self._of_domains(key, lambda members, _: members)
        return nodes & self._lone(key) | found.of(nodes)

    def _lone(self, key: str) -> NodeSet:
        """Nodes that are alone in their domain."""
        found = self._alone.get(key)
        if found is None:
            found = 0
            for members in self.domains(key).values():
                if not members & (members - 1):
                    found |= members
            self._alone[key] = found
        return found

    def _of_domains(self, key: str, kept: _Kept) -> _OfDomains:
        shared = self.with_key(key) & ~self._lone(key)
        domains = self.domains(key)
        several = [members for members in domains.values() if members & shared]
        return _OfDomains(
            shared, several, lambda place: domains[self._nodes[place].labels[key]], kept
        )


class _OfDomains:
    """What is kept of each domain with several nodes, for sets of nodes that differ little from the one asked before."""

    def __init__(
        self,
        shared: NodeSet,
        domains: Sequence[NodeSet],
        domain_at: Callable[[int], NodeSet],
        kept: _Kept,
    ) -> None:
        """``shared``: the nodes of all these domains."""
        self._shared, self._domains = shared, domains
        self._domain_at, self._kept = domain_at, kept
        self._asked: NodeSet = 0
        self._found: NodeSet = 0

    def of(self, nodes: NodeSet) -> NodeSet:
        """Return what is kept of these nodes; those of other domains are left out."""
        nodes &= self._shared
        changed = nodes ^ self._asked
        if changed:
            few = changed.bit_count() < len(self._domains)
            self._ask(map(self._domain_at, places(changed)) if few else self._domains, nodes)
            self._asked = nodes
        return self._found

    def _ask(self, domains: Iterable[NodeSet], nodes: NodeSet) -> None:
        found = self._found
        for members in domains:
            found &= ~members
            if some := members & nodes:
                found |= self._kept(members, some)
        self._found = found
