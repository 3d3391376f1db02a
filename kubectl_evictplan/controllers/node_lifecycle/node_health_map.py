"""``nodeHealthMap``: what the controller remembers of every node.

A healthy kubelet moves its node's entry with every renewal. Such a node is *steady*: its probe and its
Lease follow from the renewals, and are written down (``catch_up``) only when they matter.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.controllers.node_lifecycle.node_health import READY, NodeHealth
from kubectl_evictplan.engine.loop_grid import LoopGrid
from kubectl_evictplan.kube.objects import Node


class NodeHealthMap:
    """Entries by node name; those of deleted nodes stay, as upstream."""

    def __init__(self, kubelets: Kubelets, ticks: LoopGrid, process_start_ns: int | None) -> None:
        self._kubelets = kubelets
        self._ticks = ticks
        self._entries: dict[str, NodeHealth] = {}
        self._steady: set[str] = set()
        # No probe is older: the process began then, or left master disruption.
        self._earliest_probe_ns: int | None = None
        if process_start_ns is not None:
            self._earliest_probe_ns = ticks.at_or_after(process_start_ns)

    def __getitem__(self, name: str) -> NodeHealth:
        return self._entries[name]

    def __setitem__(self, name: str, health: NodeHealth) -> None:
        self._entries[name] = health

    def get(self, name: str) -> NodeHealth | None:
        """The entry of a node that is not steady; None before its first tick."""
        return self._entries.get(name)

    def assume_steady(self, name: str) -> None:
        """A warm start: only renewals have moved the node's entry."""
        self._steady.add(name)

    def catch_up(self, name: str, node: Node, tick_ns: int | None) -> None:
        """Write down a steady node's entry as the tick at ``tick_ns`` left it, before it changes."""
        if name in self._steady and tick_ns is not None:
            self._entries[name] = self.as_of(node, tick_ns)
            self._steady.discard(name)

    def settle(self, node: Node, tick_ns: int) -> bool:
        """Whether renewals alone explain the entry after this tick; then the node is steady."""
        if self.as_of(node, tick_ns) != self._entries[node.name]:
            return False
        self._steady.add(node.name)
        return True

    def as_of(self, node: Node, tick_ns: int) -> NodeHealth:
        """What the tick at ``tick_ns`` left of a node of which it saw nothing new but renewals."""
        entry = self._entries.get(node.name)
        ready = node.condition(READY) if entry is None else entry.ready
        lease = self._kubelets.lease_at(node.name, tick_ns)
        if lease is not None:
            probe_ns = min(self._ticks.at_or_after(lease.renew_time_ns), tick_ns)
            lease = self._kubelets.lease_at(node.name, probe_ns)
        elif ready is not None:
            probe_ns = tick_ns
        else:
            probe_ns = node.creation_timestamp_ns
        if entry is not None:
            transition_ns = entry.ready_transition_ns
        elif ready is not None and ready.last_transition_time_ns is not None:
            transition_ns = self._ticks.at_or_after(ready.last_transition_time_ns)
        else:
            transition_ns = probe_ns
        if self._earliest_probe_ns is not None and (lease or ready) is not None:
            probe_ns = max(probe_ns, self._earliest_probe_ns)
            transition_ns = max(transition_ns, self._earliest_probe_ns)
        return NodeHealth(probe_ns, transition_ns, ready, lease)

    def current(self, node: Node, tick_ns: int) -> NodeHealth | None:
        """The entry, steady or not, after the tick at ``tick_ns``; a steady node stays so."""
        if node.name in self._steady:
            return self.as_of(node, tick_ns)
        return self._entries.get(node.name)

    def restart_all_probes(self, names: Iterable[str], now_ns: int) -> None:
        """Master disruption ends: every node's grace period begins anew."""
        self._earliest_probe_ns = now_ns
        for name in names:
            if name in self._entries:
                self._entries[name] = self._entries[name]._replace(
                    probe_ns=now_ns, ready_transition_ns=now_ns
                )
