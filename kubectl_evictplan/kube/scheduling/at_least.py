"""At least so many of a group of replacements find a node, although all others take the worst places for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubectl_evictplan.kube.scheduling.answers import Chance, Group
from kubectl_evictplan.kube.scheduling.company import Company
from kubectl_evictplan.kube.scheduling.evicted import Evicted
from kubectl_evictplan.kube.scheduling.ground import Ground
from kubectl_evictplan.kube.scheduling.guarantee import Guarantee, TooMany
from kubectl_evictplan.kube.scheduling.inter_pod import UnknownNamespaces
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet
from kubectl_evictplan.kube.scheduling.opened import Opened
from kubectl_evictplan.kube.scheduling.pushes import Pushes
from kubectl_evictplan.kube.scheduling.rivals import Rivals


class AtLeast:
    """Answers for one ground; ``guarantee`` knows who competes, and is another one when more do."""

    def __init__(
        self,
        ground: Ground,
        groups: Sequence[Group],
        evicted: Evicted,
        rivals: Rivals,
        company: Company,
        pushes: Pushes,
        guarantee: Guarantee,
    ) -> None:
        self._ground, self._groups, self._evicted = ground, groups, evicted
        self._rivals, self._company, self._pushes = rivals, company, pushes
        self.guarantee = guarantee
        # Groups of which is not known how many are sure of a place: too much would have to be counted.
        self.too_many: set[int] = set()

    def chance(self, number: int, doubtful: Opened, most: int) -> Chance:
        """Of these replacements ``most`` find room at most; ``doubtful``: the nodes as they refuse the most."""
        group = self._groups[number]
        try:
            now = later = self._surely(number, doubtful, self._evicted.perhaps_held, gone=True)
            if later and self._evicted.held:
                now = self._surely(number, doubtful, self._evicted.held, gone=False)
        except TooMany:
            self.too_many.add(number)
            return Chance(most, 0, 0)
        if group.reach.exclusive:
            # Its predecessor uses the claim until it is gone.
            now, later = 0, min(later, 1)
        return Chance(most, min(now, most), min(later, most))

    def _surely(self, number: int, doubtful: Opened, held: NodeSet, *, gone: bool) -> int:
        """So many at least, although nodes ``held`` have no more room than they had with the evicted pods.

        ``gone``: those of the evicted that surely are evicted have left.
        """
        group = self._groups[number]
        needs, pod, capacity = group.needs, group.pods[0], self._ground.capacity
        nodes = doubtful.standing(group) & doubtful.heard & ~capacity.unknown & ~held
        nodes &= capacity.fitting(needs) & capacity.ports(needs)
        nodes &= self._ground.attached.passing(group.reach) & ~self._pushes.taken_away(
            needs.priority
        )
        if self._pushes.pushed and (needs.pod_affinity or needs.topology_spread):
            # Whom it counts, or has to be near to, may go.
            return 0
        if not nodes or not self._ground.attached.is_free(group.reach):
            return 0
        keys: frozenset[str] = frozenset()
        first = False
        if self._ground.asks_for_peers:
            peers = self._ground.pods.peers(pod)
            keys = self._ground.inter_pod.refusing_keys(peers)
            keys |= {term.topology_key for term in needs.pod_anti_affinity}
            try:
                nodes &= self._ground.inter_pod.apart(needs, peers)
                if needs.pod_affinity:
                    first = self._company.is_first(needs, number, evicted_gone=gone)
                    if not first and self._ground.inter_pod.is_first(needs, peers):
                        return 0
                    nodes &= self._ground.inter_pod.wanted(needs, peers)
            except UnknownNamespaces:
                return 0
        conflicts = self._sharing_drivers(group)
        if keys:
            conflicts += self._rivals.of(pod.labels, needs) + self._pushes.pushed
            nodes = self._one_of_each_domain(nodes, keys, held)
        found = self._spread_out(group, doubtful, nodes, conflicts)
        # Wherever the first comes to, the others have to follow it.
        return min(found, self._in_any_domain(group, nodes, conflicts)) if first else found

    def _in_any_domain(self, group: Group, nodes: NodeSet, conflicts: int) -> int:
        """So many at least, whichever domain all of them go to; the first of them finds its place."""
        needs, count = group.needs, len(group.pods)
        keys = {term.topology_key for term in needs.pod_affinity}
        if count == 1 or len(keys) > 1 or needs.topology_spread:
            return 1
        (key,) = keys
        domains = self._ground.topologies.domains(key).values()
        found = self.guarantee.fewest(needs, count, (nodes & one for one in domains), conflicts)
        return max(found, 1)

    def _sharing_drivers(self, group: Group) -> int:
        """How many others may attach volumes of its drivers, where nodes limit these; its own kind counted too."""
        drivers = self._ground.attached.limited(group.reach)
        if not drivers:
            return 0
        return self._pushes.pushed + sum(
            len(other.pods)
            for other in self._groups
            if drivers & self._ground.attached.limited(other.reach)
        )

    def _one_of_each_domain(self, nodes: NodeSet, keys: Iterable[str], held: NodeSet) -> NodeSet:
        """Nodes no two of which lie in one domain of any key, and none with a node that is held."""
        topologies = self._ground.topologies
        for key in sorted(keys):
            # Without the key there is no domain to share.
            nodes = topologies.one_of_each(key, nodes, held) | nodes & ~topologies.with_key(key)
        return nodes

    def _spread_out(self, group: Group, doubtful: Opened, nodes: NodeSet, conflicts: int) -> int:
        needs, pod, count = group.needs, group.pods[0], len(group.pods)
        if not needs.topology_spread:
            return self.guarantee.at_least(needs, count, nodes, conflicts)
        counted = doubtful.counted(group, self._ground.spread)
        if self._is_alone(group):
            peers = self._ground.pods.peers(pod)
            nodes &= self._ground.spread.passing_among(needs, peers, counted)
            return self.guarantee.at_least(needs, count, nodes, conflicts)
        if len(needs.topology_spread) > 1:
            return 0
        # The emptiest domain always takes one more: a place is sure where every domain has one for them.
        (constraint,) = needs.topology_spread
        domains = self._ground.topologies.domains(constraint.topology_key).values()
        eligible = [members for members in domains if members & counted[0]]
        if len(eligible) < constraint.min_domains:
            return 0
        return self.guarantee.fewest(needs, count, (nodes & one for one in eligible), conflicts)

    def _is_alone(self, group: Group) -> bool:
        """Whether no other evicted or waiting pod counts for its constraints, and it surely goes."""
        around = self._ground.around
        if len(group.pods) != 1 or around.may_stay or around.waiting:
            return False
        peers = self._ground.pods.peers(group.pods[0])
        return all(
            self._evicted.spread.total(one, peers) <= 1 for one in group.needs.topology_spread
        )
