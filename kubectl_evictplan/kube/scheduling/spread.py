"""PodTopologySpread: constraints with DoNotSchedule.

Upstream: ``calPreFilterState`` and ``Filter`` of the plugin (1.37; node inclusion policies since 1.26,
matchLabelKeys since 1.27, minDomains since 1.25 by default).
"""

from __future__ import annotations

from collections.abc import Mapping

from kubectl_evictplan.kube.infrastructure import Wishes
from kubectl_evictplan.kube.needs import HONOR, PodNeeds, TopologySpreadConstraint
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, Topologies
from kubectl_evictplan.kube.scheduling.peers import Peers, PodIndex, Tally, selects


class Spread:
    """Counts matching pods by domain as far as constraints ask for it."""

    def __init__(self, topologies: Topologies, pods: PodIndex) -> None:
        self._topologies = topologies
        self._pods = pods
        self._tallies: dict[object, Tally] = {}

    def passing(self, needs: PodNeeds, peers: Peers, affinity: NodeSet, taints: NodeSet) -> NodeSet:
        """Nodes on which one more of these pods breaks no constraint.

        ``affinity`` and ``taints`` are the nodes that pass those filters.
        """
        with_keys = -1
        for constraint in needs.topology_spread:
            with_keys &= self._topologies.with_key(constraint.topology_key)
        passing = with_keys
        for constraint in needs.topology_spread:
            counted = with_keys
            counted &= affinity if constraint.node_affinity_policy == HONOR else -1
            counted &= taints if constraint.node_taints_policy == HONOR else -1
            passing &= ~self._crowded(constraint, peers, counted)
        return passing

    def _crowded(
        self, constraint: TopologySpreadConstraint, peers: Peers, counted: NodeSet
    ) -> NodeSet:
        """Return the nodes of domains in which one more would be too many."""
        key = constraint.topology_key
        selector = _merged(constraint, peers.labels)
        tally = self._tally(key, selector, peers.namespace, counted)
        itself = selects(selector, peers.labels)
        counts, domains = tally.counts, self._topologies.count_domains(key, counted)
        fewest = 0
        # Domains that are not in the counts have none.
        if domains >= max(constraint.min_domains, 1) and len(counts) >= domains:
            fewest = min(counts.values())
        crowded = 0
        for domain, count in counts.items():
            if count + itself - fewest > constraint.max_skew:
                crowded |= self._topologies.domains(key)[domain]
        return crowded

    def _tally(self, key: str, selector: Wishes | None, namespace: str, among: NodeSet) -> Tally:
        place = (key, selector, namespace, among)
        tally = self._tallies.get(place)
        if tally is None:
            tally = self._tallies[place] = Tally(self._topologies, key, among)
            # An empty selector counts nobody (``countPodsMatchSelector``).
            for peers in self._pods.matching(frozenset((namespace,)), selector or None):
                peers.tallies.append(tally)
                for node, count in peers.running.items():
                    tally.add(node, count)
        return tally


def _merged(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Wishes | None:
    if constraint.selector is None:
        return None
    keys = constraint.match_label_keys
    return (*constraint.selector, *((key, "In", (labels[key],)) for key in keys if key in labels))
