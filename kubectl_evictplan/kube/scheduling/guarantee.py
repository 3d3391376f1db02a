"""How many pods surely find a place among some nodes, whatever the scheduler prefers and whoever comes before them.

A node refuses a pod that it has room for now only when others have taken that room. Each of the others sits on one
node and does a part of that there: at most the largest part of any resource that it takes of what the node can spare.
So where all of them together do fewer than so many nodes' worth, one node at least is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubectl_evictplan.kube.needs import PODS, PodNeeds
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, places

Requests = tuple[tuple[str, int], ...]

# Nodes with the least to spare may be left out of the count: so many choices are tried, in hundredths.
_LEFT_OUT = (0, 10, 25, 50, 75)
# Parts are added up as floats.
_ROUNDING = 1e-9


class _Floor(NamedTuple):
    """``nodes`` nodes of which each can spare as much: by resource, beyond what the pod itself asks for."""

    nodes: int
    spare: tuple[tuple[str, int], ...]


class Guarantee:
    """Answers for one capacity and one set of pods that compete for it."""

    def __init__(self, capacity: Capacity, competing: Iterable[tuple[PodNeeds, int]]) -> None:
        """``competing``: needs and how many such pods look for a place; those that are asked about are among them."""
        self._capacity = capacity
        self._competing: Counter[Requests] = Counter()
        self._with_ports = 0
        for needs, count in competing:
            self._competing[needs.requests] += count
            self._with_ports += count if needs.host_ports else 0
        self._floors: dict[tuple[NodeSet, Requests], list[tuple[_Floor, float]]] = {}

    def at_least(self, needs: PodNeeds, count: int, nodes: NodeSet, conflicts: int = 0) -> int:
        """Return how many of ``count`` such pods surely find a place on ``nodes``, which have room for one each.

        ``conflicts``: how many others may keep them off a node by being there at all, those asked about too.
        """
        if not nodes:
            return 0
        if needs.host_ports:
            conflicts = max(conflicts, self._with_ports)
        best = 0
        for floor, taken in self._known_floors(needs, nodes):
            part = _part(needs.requests, floor)
            others = max(taken - part * count, 0.0) + max(conflicts - count, 0)
            left = floor.nodes - others - _ROUNDING
            if left > 0:
                best = max(best, int(left / (1.0 if conflicts else part)) + 1)
        return min(best, count)

    def _known_floors(self, needs: PodNeeds, nodes: NodeSet) -> list[tuple[_Floor, float]]:
        """Floors with how many nodes' worth all that compete can take."""
        key = nodes, needs.requests
        found = self._floors.get(key)
        if found is None:
            found = self._floors[key] = [
                (one, sum(_part(other, one) * count for other, count in self._competing.items()))
                for one in self._find_floors(needs, nodes)
            ]
        return found

    def _find_floors(self, needs: PodNeeds, nodes: NodeSet) -> Iterable[_Floor]:
        listed = list(places(nodes))
        asked = {name: amount for name, amount in needs.requests if amount and name != PODS}
        asked[PODS] = 1
        columns = {
            name: self._spare(name, amount, listed) for name, amount in sorted(asked.items())
        }
        ordered = {name: sorted(column) for name, column in columns.items()}
        for hundredths in _LEFT_OUT:
            at = len(listed) * hundredths // 100
            spare = {name: column[at] for name, column in ordered.items()}
            enough = zip(
                *([one >= spare[name] for one in column] for name, column in columns.items()),
                strict=True,
            )
            yield _Floor(sum(map(all, enough)), tuple(spare.items()))

    def _spare(self, name: str, amount: int, listed: Sequence[int]) -> list[int]:
        column = self._capacity.column(name)
        return [column[place] - amount for place in listed]


def _part(requests: Requests, floor: _Floor) -> float:
    """Which part of making one of these nodes refuse the pod one other pod does."""
    asked = dict(requests)
    asked[PODS] = 1
    return min(1.0, max(asked.get(name, 0) / (spare + 1) for name, spare in floor.spare))
