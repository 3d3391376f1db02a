"""What nodes have left: resources, places for pods, ports.

Upstream: ``fitsRequest`` (NodeResourcesFit) and ``HostPortInfo.CheckConflict`` (NodePorts). A node's own status
says what it offers; what its pods requested is gone, whatever they really use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from kubectl_evictplan.kube.needs import PODS, HostPort, PodNeeds
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, nodes_where

# After so many changes what was found out before is thrown away: looking at each of them would cost more than anew.
_CHANGES_MAX = 256
# So many amounts are kept: where each pod asks for another, none is asked for again.
_AMOUNTS_MAX = 4096
# Every so many nodes their set is kept.
_STEP = 64


Requests = tuple[tuple[str, int], ...]


class Capacity:
    """What is left on each node; ``take`` takes some of it."""

    def __init__(
        self, nodes: Sequence[Node], running: Iterable[tuple[int, PodNeeds | None, int]]
    ) -> None:
        """``running``: place of a node, needs, and how many such pods count there."""
        self._nodes = nodes
        self.unknown = nodes_where(not node.allocatable for node in nodes)
        self._left: dict[str, list[int]] = {PODS: [n.allocatable.get(PODS, 0) for n in nodes]}
        # (resource, amount) -> nodes that have as much left, and how much of the log it has seen.
        self._enough: dict[tuple[str, int], tuple[NodeSet, int]] = {}
        self._sorted: dict[str, _Sorted] = {}
        # By identity of what pods ask for.
        self._fitting: dict[int, _Fitting] = {}
        self._changed: list[int] = []
        # (protocol, port) -> address -> nodes on which it is taken.
        self._ports: dict[tuple[str, int], dict[str, NodeSet]] = {}
        for place, needs, count in running:
            self.take(place, needs, count)
        self._changed.clear()

    def copy(self) -> Capacity:
        """Return the same capacity, to be taken from on its own."""
        copied = Capacity(self._nodes, ())
        copied._left = {name: list(column) for name, column in self._left.items()}
        copied._ports = {port: dict(taken) for port, taken in self._ports.items()}
        return copied

    def fitting(self, needs: PodNeeds) -> NodeSet:
        """Nodes that pass NodeResourcesFit, as far as what they offer is known."""
        requests, seen = needs.requests, len(self._changed)
        known = self._fitting.get(id(requests))
        if known is None or seen - known.seen > _CHANGES_MAX:
            if len(self._fitting) >= _AMOUNTS_MAX:
                self._fitting.clear()
            known = self._fitting[id(requests)] = self._find_fitting(requests)
        elif known.seen < seen:
            nodes = known.nodes
            for place in self._changed[known.seen :]:
                for column, amount in known.asked:
                    if column[place] < amount:
                        nodes &= ~(1 << place)
            known.nodes, known.seen = nodes, seen
        return known.nodes

    def _find_fitting(self, requests: Requests) -> _Fitting:
        asked = {PODS: 1, **{name: amount for name, amount in requests if amount > 0}}
        asked[PODS] = max(1, asked[PODS])
        nodes = -1
        for resource, amount in asked.items():
            nodes &= self._with(resource, amount)
        columns = [(self.column(resource), amount) for resource, amount in asked.items()]
        return _Fitting(requests, columns, nodes, len(self._changed))

    def ports(self, needs: PodNeeds) -> NodeSet:
        """Nodes that pass NodePorts: no port of the pod is taken there."""
        taken = 0
        for port in needs.host_ports:
            for address, nodes in self._ports.get((port.protocol, port.port), {}).items():
                if not port.host_ip or not address or address == port.host_ip:
                    taken |= nodes
        return ~taken & (1 << len(self._nodes)) - 1

    def room(self, place: int, needs: PodNeeds) -> int:
        """Return how many such pods the node can still take."""
        if needs.host_ports:
            return 1
        left = [self.column(name)[place] // amount for name, amount in needs.requests if amount]
        return min((self._left[PODS][place], *left))

    def take(self, place: int, needs: PodNeeds | None, count: int) -> None:
        """Reserve what ``count`` such pods ask for; of unknown needs only their number is known."""
        left = self._left
        left[PODS][place] -= count
        self._changed.append(place)
        if needs is None:
            return
        for resource, amount in needs.requests:
            if resource != PODS:
                (left.get(resource) or self.column(resource))[place] -= amount * count
        for port in needs.host_ports:
            self._take_port(place, port)

    def _take_port(self, place: int, port: HostPort) -> None:
        taken = self._ports.setdefault((port.protocol, port.port), {})
        taken[port.host_ip] = taken.get(port.host_ip, 0) | 1 << place

    def column(self, resource: str) -> list[int]:
        """What is left of a resource, by place of the node; not to be changed."""
        column = self._left.get(resource)
        if column is None:
            column = [node.allocatable.get(resource, 0) for node in self._nodes]
            self._left[resource] = column
        return column

    def _with(self, resource: str, amount: int) -> NodeSet:
        column = self.column(resource)
        known = self._enough.get((resource, amount))
        if known is not None and known[1] == len(self._changed):
            return known[0]
        if known is None or len(self._changed) - known[1] > _CHANGES_MAX:
            known = self._from_sorted(resource, amount)
        nodes, seen = known
        for place in set(self._changed[seen:]):
            if column[place] < amount:
                nodes &= ~(1 << place)
        if len(self._enough) >= _AMOUNTS_MAX:
            self._enough.clear()
        self._enough[resource, amount] = (nodes, len(self._changed))
        return nodes

    def _from_sorted(self, resource: str, amount: int) -> tuple[NodeSet, int]:
        """Nodes that had as much left not long ago, and how much of the log that has seen."""
        found = self._sorted.get(resource)
        if found is None or len(self._changed) - found.seen > _CHANGES_MAX:
            found = _sorted(self.column(resource), len(self._changed))
            self._sorted[resource] = found
        return found.at_least(amount), found.seen


class _Fitting(msgspec.Struct):
    """Nodes that had as much left of each column not long ago; ``seen``: how much of the log of changes that has seen."""

    # Kept alive: it is found by its identity.
    requests: Requests
    asked: Sequence[tuple[Sequence[int], int]]
    nodes: NodeSet
    seen: int


class _Sorted(msgspec.Struct, frozen=True):
    """Nodes by what they have left of a resource, the least first.

    ``upper[i]``: those from the ``i * _STEP``-th on. ``seen``: how much of the log of changes that has seen.
    """

    left: list[int]
    order: list[int]
    upper: list[NodeSet]
    seen: int

    def at_least(self, amount: int) -> NodeSet:
        first = bisect_left(self.left, amount)
        step = -(-first // _STEP)
        nodes = self.upper[step]
        for place in self.order[first : step * _STEP]:
            nodes |= 1 << place
        return nodes


def _sorted(column: Sequence[int], seen: int) -> _Sorted:
    order = sorted(range(len(column)), key=column.__getitem__)
    upper: list[NodeSet] = [0]
    for first in reversed(range(0, len(order), _STEP)):
        nodes = upper[-1]
        for place in order[first : first + _STEP]:
            nodes |= 1 << place
        upper.append(nodes)
    upper.reverse()
    return _Sorted([column[place] for place in order], order, upper, seen)
