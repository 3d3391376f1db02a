"""Nodes in the phases of a change: each as it refuses the least, and the most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.answers import Group, Phase
from kubectl_evictplan.kube.scheduling.node_filters import NodeFilters
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet
from kubectl_evictplan.kube.scheduling.spread import Spread


class Opened(msgspec.Struct, frozen=True):
    """The nodes in one phase: their filters, those that exist, and those on which pods become Ready."""

    filters: NodeFilters
    existing: NodeSet
    heard: NodeSet

    def standing(self, group: Group) -> NodeSet:
        """Nodes that pass what looks at nodes alone, silent ones too: nobody tells the scheduler at first."""
        pod, filters = group.pods[0], self.filters
        passing = self.existing & filters.unschedulable(pod.tolerations)
        passing &= filters.taints(pod.tolerations) & filters.affinity(group.needs, pod.node_name)
        for terms in group.reach.volumes:
            passing &= filters.volume(terms)
        for labels in group.reach.zones:
            passing &= filters.zone(labels)
        return passing

    def counted(self, group: Group, spread: Spread) -> tuple[NodeSet, ...]:
        """By spread constraint of the group the nodes that count for it."""
        pod, filters = group.pods[0], self.filters
        return spread.counted(
            group.needs,
            filters.affinity(group.needs, pod.node_name),
            filters.taints(pod.tolerations),
            self.existing,
        )


def opened(
    phases: Iterable[Phase], nodes: Sequence[Node], filters: NodeFilters
) -> Iterator[tuple[Phase, Opened, Opened]]:
    """Yield each phase with its nodes, first as they refuse the least, then the most."""
    place_of = {node.name: place for place, node in enumerate(nodes)}

    def changed(by_name: Mapping[str, Node | None], silent: Iterable[str]) -> Opened:
        existing, then = (1 << len(nodes)) - 1, list(nodes)
        for name, node in by_name.items():
            if (place := place_of.get(name)) is None:
                continue
            if node is None:
                existing &= ~(1 << place)
            else:
                then[place] = node
        heard = existing
        for name in silent:
            if name in place_of:
                heard &= ~(1 << place_of[name])
        return Opened(filters.with_nodes(then), existing, heard)

    for one in phases:
        yield one, changed(one.hopeful, one.silent), changed(one.doubtful, one.perhaps_silent)
