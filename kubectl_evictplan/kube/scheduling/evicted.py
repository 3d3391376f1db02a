"""The pods that a change evicts, as far as they stand in the way of their successors: where they hold room and count."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.ground import Ground
from kubectl_evictplan.kube.scheduling.inter_pod import InterPodAffinity
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, nodes_where
from kubectl_evictplan.kube.scheduling.peers import PodIndex
from kubectl_evictplan.kube.scheduling.spread import Spread


class Evicted:
    """Nodes on which they hold room until they are gone (``held``), may never go (``perhaps_held``), or are stuck."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        around = ground.around
        self.held = self._nodes_of(around.evicted)
        self.perhaps_held = self._nodes_of_evicted(around.may_stay)
        self.stuck = self._nodes_of_evicted(around.stuck)

    @cached_property
    def spread(self) -> Spread:
        """Counts them where they were."""
        return Spread(self._ground.topologies, self._index)

    def inter_pod(self) -> InterPodAffinity:
        """Who was near whom."""
        around = self._ground.around
        return InterPodAffinity(self._ground.topologies, self._index, around.namespaces)

    @cached_property
    def _index(self) -> PodIndex:
        index = PodIndex()
        place_of = {node.name: place for place, node in enumerate(self._ground.nodes)}
        for pod in self._ground.around.evicted:
            place, peers = place_of.get(pod.node_name), index.peers(pod)
            # Of a node that is not listed they are in no domain.
            counts = peers.terminating if place is None else peers.running
            counts[place or 0] = counts.get(place or 0, 0) + 1
        return index

    def _nodes_of(self, pods: Iterable[Pod]) -> NodeSet:
        names = {pod.node_name for pod in pods}
        return nodes_where(node.name in names for node in self._ground.nodes) if names else 0

    def _nodes_of_evicted(self, keys: Collection[str]) -> NodeSet:
        """The nodes of those of the evicted pods that have one of these keys."""
        evicted = self._ground.around.evicted
        if len(keys) == len(evicted):
            return self.held
        return self._nodes_of(pod for pod in evicted if pod.key in keys) if keys else 0
