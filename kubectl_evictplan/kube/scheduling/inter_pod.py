"""InterPodAffinity: required affinity and anti-affinity, a pod's own and that of others against it.

Upstream: ``satisfyPodAffinity``, ``satisfyPodAntiAffinity``, ``satisfyExistingPodsAntiAffinity`` of the plugin.
Pods that are being deleted count until they are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubectl_evictplan.kube.needs import PodAffinityTerm, PodNeeds
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet
from kubectl_evictplan.kube.scheduling.peers import Namespaces, Peers, PodIndex, Tally, selects
from kubectl_evictplan.kube.scheduling.topologies import Topologies

# Labels by namespace; None when namespaces were not read.
NamespaceLabels = Mapping[str, Mapping[str, str]] | None

# Namespace, key and value.
NamespacedLabel = tuple[str, str, str]


class UnknownNamespaces(LookupError):
    """A term selects namespaces by labels that were not read."""


class _Holders:
    """Pods that carry one anti-affinity term, as far as it concerns others: where they are."""

    def __init__(self, term: PodAffinityTerm, namespaces: Namespaces, tally: Tally) -> None:
        self.term = term
        self.namespaces = namespaces
        self.tally = tally

    def refuse(self, peers: Peers) -> bool:
        """Whether they refuse such pods near them."""
        is_there = self.namespaces is None or peers.namespace in self.namespaces
        return is_there and selects(self.term.selector, peers.labels)


class InterPodAffinity:
    """Who may run near whom."""

    def __init__(self, topologies: Topologies, pods: PodIndex, labels: NamespaceLabels) -> None:
        self._topologies = topologies
        self._pods = pods
        self._labels = labels
        self._holders: dict[tuple[str, PodAffinityTerm], _Holders] = {}
        self._refusing: dict[Peers, list[_Holders]] = {}
        self._by_label: dict[NamespacedLabel | None, list[_Holders]] = {}
        self._tallies: dict[object, Tally] = {}
        self.unknown_holders = False

    def hold(self, namespace: str, needs: PodNeeds, place: int, count: int) -> None:
        """Note that pods with these needs run on the node at that place."""
        for term in needs.pod_anti_affinity:
            holders = self._holders.get((namespace, term)) or self._new_holders(namespace, term)
            if holders is not None:
                holders.tally.add(place, count)

    def passing(self, needs: PodNeeds, peers: Peers) -> NodeSet:
        """Nodes near which the pod may run; raises UnknownNamespaces."""
        wanted = self.wanted(needs, peers) if needs.pod_affinity else -1
        return wanted & self.apart(needs, peers)

    def apart(self, needs: PodNeeds, peers: Peers) -> NodeSet:
        """Nodes near which nobody is whom the pod refuses, or who refuses it; raises UnknownNamespaces."""
        passing = -1
        for term in needs.pod_anti_affinity:
            passing &= ~self._near(((term, self._namespaces(peers.namespace, term)),), term).nodes
        for holders in self._refusers(peers):
            passing &= ~holders.tally.nodes
        return passing

    def wants(self, needs: PodNeeds, peers: Peers, other: Peers) -> bool:
        """Whether such other pods are among those that it has to be near to; raises UnknownNamespaces."""
        return _matches(self._wishes(needs, peers), other)

    def wanted_labels(self, needs: PodNeeds, peers: Peers) -> Iterable[NamespacedLabel | None]:
        """Labels of which others must have one to be among those; None: any; raises UnknownNamespaces."""
        wishes = self._wishes(needs, peers)
        return _keys(*wishes[0]) if wishes else [None]

    def is_first(self, needs: PodNeeds, peers: Peers) -> bool:
        """Whether it wants to be near its own kind and nobody is there yet: it may begin anywhere; raises UnknownNamespaces."""
        terms = self._wishes(needs, peers)
        nobody = not any(self._near(terms, term).counts for term, _ in terms)
        return nobody and _matches(terms, peers)

    def refusing_keys(self, peers: Peers) -> frozenset[str]:
        """Topology keys by which any pod, placed or to come, refuses such pods near it."""
        return frozenset(one.term.topology_key for one in self._refusers(peers))

    def prepare(self, namespace: str, needs: PodNeeds) -> None:
        """Make known that pods with these needs may come, before anything is asked."""
        for term in needs.pod_anti_affinity:
            if (namespace, term) not in self._holders:
                self._new_holders(namespace, term)

    def _new_holders(self, namespace: str, term: PodAffinityTerm) -> _Holders | None:
        try:
            namespaces = self._namespaces(namespace, term)
        except UnknownNamespaces:
            self.unknown_holders = True
            return None
        found = _Holders(term, namespaces, Tally(self._topologies, term.topology_key))
        self._holders[namespace, term] = found
        for key in _keys(term, namespaces):
            self._by_label.setdefault(key, []).append(found)
        self._refusing.clear()
        return found

    def _refusers(self, peers: Peers) -> Sequence[_Holders]:
        found = self._refusing.get(peers)
        if found is None:
            labels = ((peers.namespace, *label) for label in peers.labels.items())
            candidates = [one for key in (*labels, None) for one in self._by_label.get(key, ())]
            found = self._refusing[peers] = [one for one in candidates if one.refuse(peers)]
        return found

    def wanted(
        self, needs: PodNeeds, peers: Peers, former: InterPodAffinity | None = None
    ) -> NodeSet:
        """Nodes that lie, for every term, in a domain with a pod that all terms match; raises UnknownNamespaces.

        ``former`` knows of pods that may be there besides, or be gone.
        """
        nodes = -1
        terms = self._wishes(needs, peers)
        if self.is_first(needs, peers):
            for one in needs.pod_affinity:
                nodes &= self._topologies.with_key(one.topology_key)
            return nodes
        for term, _ in terms:
            near = self._near(terms, term).nodes
            nodes &= near if former is None else near | former._near(terms, term).nodes
        return nodes

    def _wishes(
        self, needs: PodNeeds, peers: Peers
    ) -> Sequence[tuple[PodAffinityTerm, Namespaces]]:
        return [(term, self._namespaces(peers.namespace, term)) for term in needs.pod_affinity]

    def _near(
        self, terms: Sequence[tuple[PodAffinityTerm, Namespaces]], term: PodAffinityTerm
    ) -> Tally:
        """Return the tally, by the term's key, of pods that all ``terms`` match."""
        asked = tuple((one.selector, namespaces) for one, namespaces in terms)
        key = (asked, term.topology_key)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(self._topologies, term.topology_key)
            first, namespaces = terms[0]
            for peers in self._pods.matching(namespaces, first.selector):
                if _matches(terms, peers):
                    peers.tallies.append(tally)
                    for counts in (peers.running, peers.terminating):
                        for place, count in counts.items():
                            tally.add(place, count)
        return tally

    def _namespaces(self, own: str, term: PodAffinityTerm) -> Namespaces:
        """Return the namespaces that a term means (``getNamespacesFromPodAffinityTerm``)."""
        selector = term.namespace_selector
        if selector is None:
            return frozenset(term.namespaces or (own,))
        if not selector:
            return None
        if self._labels is None:
            raise UnknownNamespaces
        chosen = {name for name, labels in self._labels.items() if selects(selector, labels)}
        return frozenset((*term.namespaces, *chosen))


def _matches(terms: Iterable[tuple[PodAffinityTerm, Namespaces]], peers: Peers) -> bool:
    return all(
        (namespaces is None or peers.namespace in namespaces)
        and selects(one.selector, peers.labels)
        for one, namespaces in terms
    )


def _keys(term: PodAffinityTerm, namespaces: Namespaces) -> Iterable[NamespacedLabel | None]:
    """Return labels of which a pod must have one for the term to concern it; None: any pod."""
    for key, operator, values in term.selector or ():
        if operator == "In" and len(values) == 1 and namespaces is not None:
            return [(namespace, key, values[0]) for namespace in sorted(namespaces)]
    return [None]
