"""Pods that have to be near others, where those come and go: required affinity over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.answers import Surroundings
from kubectl_evictplan.kube.scheduling.inter_pod import InterPodAffinity, NamespacedLabel
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet
from kubectl_evictplan.kube.scheduling.peers import Peers


class Company:
    """Who may be near whom. Groups of replacements are told by their places in ``groups``."""

    def __init__(
        self,
        inter_pod: InterPodAffinity,
        former: Callable[[], InterPodAffinity],
        around: Surroundings,
        groups: Sequence[Peers],
    ) -> None:
        """``former`` makes what knows of the evicted pods, where they were; ``groups`` empty: nobody will ask."""
        self._inter_pod = inter_pod
        # Groups of which no pod ever finds a node.
        self.hopeless: frozenset[int] = frozenset()
        if not groups:
            return
        self._former = former()
        self._groups = groups
        self._others = _Listed(groups)
        self._leaving = _unique(pod for pod in around.evicted if pod.key not in around.stuck)
        self._may_stay = _unique(pod for pod in around.evicted if pod.key in around.may_stay)
        self._waiting = _unique(around.waiting)

    def perhaps(self, needs: PodNeeds, group: int) -> NodeSet:
        """Nodes on which all may be there that one of the group has to be near to; raises UnknownNamespaces."""
        # Where they come to nobody knows.
        if self._wants_others(needs, group):
            return -1
        return self._inter_pod.wanted(needs, self._groups[group], self._former)

    def is_first(self, needs: PodNeeds, group: int, *, evicted_gone: bool) -> bool:
        """Whether one of the group surely finds nobody of those that it has to be near to, and counts as one itself.

        ``evicted_gone``: evicted pods have left. Raises UnknownNamespaces.
        """
        peers = self._groups[group]
        evicted = self._may_stay if evicted_gone else self._leaving
        if self._wants_any(needs, peers, evicted) or self._wants_others(needs, group):
            return False
        return self._inter_pod.is_first(needs, peers)

    def _wants_others(self, needs: PodNeeds, group: int) -> bool:
        """Whether any may come besides the group that it has to be near to."""
        peers = self._groups[group]
        return self._wants_any(needs, peers, self._waiting) or any(
            place != group
            and place not in self.hopeless
            and self._inter_pod.wants(needs, peers, self._groups[place])
            for place in self._others.having(self._inter_pod.wanted_labels(needs, peers))
        )

    def _wants_any(self, needs: PodNeeds, peers: Peers, some: _Listed) -> bool:
        return any(
            self._inter_pod.wants(needs, peers, some.peers[place])
            for place in some.having(self._inter_pod.wanted_labels(needs, peers))
        )


class _Listed:
    """Peers by their labels, so that not everybody is compared with everybody."""

    def __init__(self, peers: Sequence[Peers]) -> None:
        self.peers = peers
        self._by_label: dict[NamespacedLabel, list[int]] = {}
        for place, one in enumerate(peers):
            for label in one.labels.items():
                self._by_label.setdefault((one.namespace, *label), []).append(place)

    def having(self, labels: Iterable[NamespacedLabel | None]) -> Iterable[int]:
        """Return the places of all that have one of the labels; None: any."""
        wanted = list(labels)
        if None in wanted:
            return range(len(self.peers))
        return (place for label in wanted if label for place in self._by_label.get(label, ()))


def _unique(pods: Iterable[Pod]) -> _Listed:
    found = {(pod.namespace, id(pod.labels)): pod for pod in pods}
    return _Listed([Peers(pod.namespace, pod.labels) for pod in found.values()])
