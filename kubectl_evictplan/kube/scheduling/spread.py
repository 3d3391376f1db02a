"""PodTopologySpread: constraints with DoNotSchedule.

Upstream: ``calPreFilterState`` and ``Filter`` of the plugin (1.37; node inclusion policies since 1.26,
matchLabelKeys since 1.27, minDomains since 1.25 by default).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from kubectl_evictplan.kube.infrastructure import Wishes
from kubectl_evictplan.kube.needs import HONOR, PodNeeds, TopologySpreadConstraint
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet
from kubectl_evictplan.kube.scheduling.peers import Peers, PodIndex, Tally, selects
from kubectl_evictplan.kube.scheduling.topologies import Topologies


class Bounds(msgspec.Struct, frozen=True):
    """What is known of nodes and pods that change: by constraint the nodes that may count, and that surely do.

    ``evicted`` counts the evicted pods where they were, ``own`` is how many of them are asked about, ``takers`` the
    nodes that may take these.
    """

    maybe: tuple[NodeSet, ...]
    sure: tuple[NodeSet, ...]
    evicted: Spread
    own: int
    takers: NodeSet


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
        return self.passing_among(needs, peers, self.counted(needs, affinity, taints))

    def counted(
        self, needs: PodNeeds, affinity: NodeSet, taints: NodeSet, existing: NodeSet = -1
    ) -> tuple[NodeSet, ...]:
        """For each constraint the nodes that count for it."""
        with_keys = existing
        for constraint in needs.topology_spread:
            with_keys &= self._topologies.with_key(constraint.topology_key)
        return tuple(
            with_keys
            & (affinity if one.node_affinity_policy == HONOR else -1)
            & (taints if one.node_taints_policy == HONOR else -1)
            for one in needs.topology_spread
        )

    def passing_among(self, needs: PodNeeds, peers: Peers, counted: tuple[NodeSet, ...]) -> NodeSet:
        """Nodes on which one more breaks no constraint, where these nodes count."""
        passing = -1
        for constraint, nodes in zip(needs.topology_spread, counted, strict=True):
            passing &= self._topologies.with_key(constraint.topology_key)
            passing &= ~self._crowded(constraint, peers, nodes)
        return passing

    def perhaps(self, needs: PodNeeds, peers: Peers, bounds: Bounds) -> NodeSet:
        """Nodes on which one more may break no constraint, wherever evicted pods and their successors are."""
        passing = -1
        for constraint, maybe, sure in zip(
            needs.topology_spread, bounds.maybe, bounds.sure, strict=True
        ):
            passing &= self._topologies.with_key(constraint.topology_key)
            passing &= ~self._surely_crowded(constraint, peers, maybe, sure, bounds)
        return passing

    def _surely_crowded(
        self,
        constraint: TopologySpreadConstraint,
        peers: Peers,
        maybe: NodeSet,
        sure: NodeSet,
        bounds: Bounds,
    ) -> NodeSet:
        key, domains = constraint.topology_key, self._topologies.domains(constraint.topology_key)
        selector = _merged(constraint, peers.labels)
        most = self._tally(key, selector, peers.namespace, maybe).counts
        gone = bounds.evicted.counts(constraint, peers)
        moving = bounds.evicted.total(constraint, peers)
        if list(gone.values()) == [moving]:
            # One of them is the predecessor of whoever asks: on its way out, it does not count.
            gone = {domain: count - 1 for domain, count in gone.items()}
        # Successors of others may be let in where these pods are not.
        takers = bounds.takers if moving <= bounds.own else -1
        itself = selects(selector, peers.labels)
        others = max(moving - itself, 0)
        ends = list(self._ends(key, Counter(most) + Counter(gone), sure, takers, others))
        if not ends:
            return 0
        fewest = min(ends)
        if self._topologies.count_domains(key, maybe) < constraint.min_domains:
            fewest = 0
        crowded = 0
        for domain, count in self._tally(key, selector, peers.namespace, sure).counts.items():
            if count + itself - fewest > constraint.max_skew:
                crowded |= domains[domain]
        return crowded

    def _ends(
        self, key: str, counts: Mapping[str, int], sure: NodeSet, takers: NodeSet, others: int
    ) -> Iterator[int]:
        """Yield how many each domain that surely counts may have in the end: those without any are told as one.

        ``others`` may come to where ``takers`` are.
        """
        domains, counted = self._topologies.domains(key), 0
        for domain, count in counts.items():
            nodes = domains[domain]
            counted |= nodes
            if nodes & sure:
                yield count + (others if nodes & takers else 0)
        # Of thousands of hosts a few have any.
        if empty := self._topologies.whole_domains(key, sure) & ~counted:
            yield 0 if empty & ~self._topologies.whole_domains(key, takers) else others

    def counts(self, constraint: TopologySpreadConstraint, peers: Peers) -> Mapping[str, int]:
        """How many pods that count for a constraint of such pods are in each domain."""
        selector = _merged(constraint, peers.labels)
        return self._tally(constraint.topology_key, selector, peers.namespace, -1).counts

    def total(self, constraint: TopologySpreadConstraint, peers: Peers) -> int:
        """How many pods count for a constraint of such pods, wherever they are."""
        selector = _merged(constraint, peers.labels)
        found = self._pods.matching(frozenset((peers.namespace,)), selector or None)
        return sum(sum(one.running.values()) + sum(one.terminating.values()) for one in found)

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
