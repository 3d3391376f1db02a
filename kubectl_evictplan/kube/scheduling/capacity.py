"""What nodes have left: resources, places for pods, ports.

Upstream: ``fitsRequest`` (NodeResourcesFit) and ``HostPortInfo.CheckConflict`` (NodePorts). A node's own status
says what it offers; what its pods requested is gone, whatever they really use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubectl_evictplan.kube.needs import PODS, HostPort, PodNeeds
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, nodes_where


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
        fitting = self._with(PODS, 1)
        for resource, amount in needs.requests:
            if amount > 0:
                fitting &= self._with(resource, amount)
        return fitting

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
        if known is None:
            nodes = nodes_where([left >= amount for left in column])
        else:
            nodes, seen = known
            if seen == len(self._changed):
                return nodes
            for place in set(self._changed[seen:]):
                if column[place] < amount:
                    nodes &= ~(1 << place)
        self._enough[resource, amount] = (nodes, len(self._changed))
        return nodes
