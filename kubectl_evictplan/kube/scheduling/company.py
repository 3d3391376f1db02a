"""Pods that have to be near others, where those come and go: required affinity over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.answers import Surroundings
from kubectl_evictplan.kube.scheduling.inter_pod import InterPodAffinity
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
        self._leaving = _unique(pod for pod in around.evicted if pod.key not in around.stuck)
        self._may_stay = _unique(pod for pod in around.evicted if pod.key in around.may_stay)
        self._waiting = _unique(around.waiting)

    def perhaps(self, needs: PodNeeds, group: int) -> NodeSet:
        """Nodes on which all may be there that one of the group has to be near to; raises UnknownNamespaces."""
        peers = self._groups[group]
        # Where they come to nobody knows.
        if self._wants_any(needs, peers, self._others(group)):
            return -1
        return self._inter_pod.wanted(needs, peers, self._former)

    def is_first(self, needs: PodNeeds, group: int, *, evicted_gone: bool) -> bool:
        """Whether one of the group surely finds nobody of those that it has to be near to, and counts as one itself.

        ``evicted_gone``: evicted pods have left. Raises UnknownNamespaces.
        """
        peers = self._groups[group]
        evicted = self._may_stay if evicted_gone else self._leaving
        if self._wants_any(needs, peers, (*evicted, *self._others(group))):
            return False
        return self._inter_pod.is_first(needs, peers)

    def _others(self, group: int) -> Iterable[Peers]:
        """Whoever may come besides the group."""
        yield from self._waiting
        for place, peers in enumerate(self._groups):
            if place != group and place not in self.hopeless:
                yield peers

    def _wants_any(self, needs: PodNeeds, peers: Peers, some: Iterable[Peers]) -> bool:
        return any(self._inter_pod.wants(needs, peers, one) for one in some)


def _unique(pods: Iterable[Pod]) -> Sequence[Peers]:
    found = {(pod.namespace, id(pod.labels)): pod for pod in pods}
    return [Peers(pod.namespace, pod.labels) for pod in found.values()]
