"""Sets of nodes as bits of one integer: bit i is the i-th node.

Every filter answers with the nodes it lets pass. Intersections and counts over thousands of nodes then cost
about as much as one comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubectl_evictplan.kube.objects import Node

NodeSet = int


def nodes_where(flags: Iterable[bool]) -> NodeSet:
    """Return the set of the nodes whose flag is true; flags come in the order of the nodes."""
    text = "".join(["1" if flag else "0" for flag in flags])
    return int(text[::-1], 2) if text else 0


def places(nodes: NodeSet) -> Iterator[int]:
    """Yield the places of the nodes, lowest first."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def first_place(nodes: NodeSet) -> int:
    """Return the place of the first node of a set that is not empty."""
    return (nodes & -nodes).bit_length() - 1


class Topologies:
    """Which nodes lie in which domain, by topology key; worked out when first asked for."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._domains: dict[str, dict[str, NodeSet]] = {}
        self._eligible: dict[tuple[str, NodeSet], int] = {}
        self._with_key: dict[str, NodeSet] = {}

    def domains(self, key: str) -> dict[str, NodeSet]:
        """Return the nodes of each domain, by the value of the label; nodes without it are in none."""
        found = self._domains.get(key)
        if found is None:
            members: dict[str, list[int]] = {}
            for place, node in enumerate(self._nodes):
                if key in node.labels:
                    members.setdefault(node.labels[key], []).append(place)
            found = {value: _set_of(listed) for value, listed in members.items()}
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
        found = self._eligible.get((key, among))
        if found is None:
            domains = self.domains(key).values()
            found = self._eligible[key, among] = sum(bool(nodes & among) for nodes in domains)
        return found


def _set_of(listed: list[int]) -> NodeSet:
    nodes = 0
    for place in listed:
        nodes |= 1 << place
    return nodes
