"""Pods by their labels, and how many of those that a selector matches are in each domain.

Selectors are many and pods are very many, but pods of one template have equal labels: what is asked about a
pod is asked once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubectl_evictplan.kube.infrastructure import Wishes
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet
from kubectl_evictplan.kube.scheduling.topologies import Topologies
from kubectl_evictplan.kube.selectors import meets

# None is every namespace.
Namespaces = frozenset[str] | None


def selects(selector: Wishes | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches labels; None matches nothing, an empty one everything."""
    return selector is not None and all(meets(labels, *wish) for wish in selector)


class Tally:
    """How many matching pods are in each domain of a topology key, and which nodes that concerns.

    Only pods on nodes ``among`` count.
    """

    def __init__(self, topologies: Topologies, key: str, among: NodeSet | None = None) -> None:
        self._topologies = topologies
        self.key = key
        self._among = among
        self.counts: dict[str, int] = {}
        # The nodes of all domains that have any.
        self.nodes: NodeSet = 0

    def add(self, place: int, count: int) -> None:
        """Count pods that run on the node at that place."""
        if self._among is not None and not self._among >> place & 1:
            return
        domain = self._topologies.domain(self.key, place)
        if domain is not None and count:
            before = self.counts.get(domain)
            if before is None:
                self.nodes |= self._topologies.domains(self.key)[domain]
            self.counts[domain] = (before or 0) + count


class Peers:
    """Pods of one namespace with equal labels."""

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        # By place of the node; those that are not being deleted, and those that are.
        self.running: dict[int, int] = {}
        self.terminating: dict[int, int] = {}
        self.tallies: list[Tally] = []

    def add(self, place: int, count: int) -> None:
        """Note that ``count`` more of them run on the node at that place."""
        self.running[place] = self.running.get(place, 0) + count
        for tally in self.tallies:
            tally.add(place, count)


class PodIndex:
    """All pods that run or are to be placed, grouped; ``add`` them before anything is asked."""

    def __init__(self) -> None:
        self._peers: dict[tuple[str, int], Peers] = {}
        # Keeps labels alive whose identity is a key above.
        self._labels: list[Mapping[str, str]] = []
        self._by_label: dict[tuple[str, str, str] | str, list[Peers]] | None = None

    def peers(self, pod: Pod) -> Peers:
        """Return the pods like this one, itself not counted."""
        key = (pod.namespace, id(pod.labels))
        found = self._peers.get(key)
        if found is None:
            assert self._by_label is None
            found = self._peers[key] = Peers(pod.namespace, pod.labels)
            self._labels.append(pod.labels)
        return found

    def matching(self, namespaces: Namespaces, selector: Wishes | None) -> Iterable[Peers]:
        """Return the peers in these namespaces that the selector matches."""
        if selector is None:
            return ()
        if namespaces is None:
            listed: Iterable[Peers] = self._peers.values()
        else:
            index = self._indexed()
            listed = [
                peers for name in sorted(namespaces) for peers in _fewest(index, name, selector)
            ]
        return [peers for peers in listed if selects(selector, peers.labels)]

    def _indexed(self) -> dict[tuple[str, str, str] | str, list[Peers]]:
        if self._by_label is None:
            self._by_label = {}
            for peers in self._peers.values():
                self._by_label.setdefault(peers.namespace, []).append(peers)
                for key, value in peers.labels.items():
                    place = (peers.namespace, key, value)
                    self._by_label.setdefault(place, []).append(peers)
        return self._by_label


def _fewest(
    index: Mapping[tuple[str, str, str] | str, list[Peers]], namespace: str, selector: Wishes
) -> list[Peers]:
    """Return the shortest list that holds all that the selector can match in the namespace."""
    lists = [
        index.get((namespace, key, values[0]), [])
        for key, operator, values in selector
        if operator == "In" and len(values) == 1
    ]
    return min([*lists, index.get(namespace, [])], key=len)
