"""How many of a group of replacements find a place in each phase of a change, at least and at most.

``fit`` places them one by one, first fit, which is one of many ways in which a scheduler may choose. Here nothing is
placed: at most so many have room if nothing else takes any and every node is as it refuses the least; at least so many
find one although all others take the worst places for them. Preemption may only add to the most.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, reduce
from itertools import starmap
from operator import or_

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.alike_groups import AlikeGroups
from kubectl_evictplan.kube.scheduling.answers import (
    Chance,
    Group,
    Phase,
    Push,
    Unknown,
)
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.company import Company
from kubectl_evictplan.kube.scheduling.ground import Ground
from kubectl_evictplan.kube.scheduling.guarantee import Competing, Guarantee, TooMany
from kubectl_evictplan.kube.scheduling.inter_pod import InterPodAffinity, UnknownNamespaces
from kubectl_evictplan.kube.scheduling.node_sets import (
    NodeSet,
    nodes_where,
    places,
)
from kubectl_evictplan.kube.scheduling.opened import Opened, opened
from kubectl_evictplan.kube.scheduling.peers import PodIndex, selects
from kubectl_evictplan.kube.scheduling.preemption import Preemption, Pushing
from kubectl_evictplan.kube.scheduling.rivals import Rival, Rivals
from kubectl_evictplan.kube.scheduling.spread import Bounds, Spread

# Where the input has no needs or no offers at all, nothing is said against a place: that is told as an assumption.
# Where only pods are missing, of which some may hold the room, whether it is there is not known.
NOT_IN_THE_INPUT = frozenset({Unknown.NEEDS, Unknown.OFFERS})
_OTHER_RULES = frozenset({Unknown.SCHEDULER})
_NOT_PREEMPTING = frozenset({Unknown.SCHEDULER, Unknown.NEEDS})
# Whoever is pushed out may make others unsure, who push out more: so many times, then nothing is sure.
_ROUNDS_MAX = 4


class Chances:
    """Group for each group, before anything is placed."""

    def __init__(self, ground: Ground, groups: Iterable[Group]) -> None:
        self._ground = ground
        around = ground.around
        self._place = {node.name: place for place, node in enumerate(ground.nodes)}
        self._everywhere = (1 << len(ground.nodes)) - 1
        self._phases = list(opened(around.phases, ground.nodes, ground.filters))
        self._changing_nodes = {
            id(phase): nodes_where(node.name in phase.hopeful for node in ground.nodes)
            for phase in around.phases
        }
        self._groups = list(groups)
        self._alike = AlikeGroups(self._groups, asks_for_peers=ground.asks_for_peers)
        self._number = {id(one.pods): number for number, one in enumerate(self._groups)}
        rivals = [Rival(one.pods[0].labels, one.needs, len(one.pods)) for one in self._groups]
        rivals += [Rival(pod.labels, pod.needs, 1) for pod in around.waiting if pod.needs]
        self._rivals = Rivals(rivals)
        names = [node.name for node in ground.nodes]
        counts = [(one.needs, one.number) for one in rivals]
        self._preemption = Preemption(names, ground.capacity, ground.running, counts)
        # By number of the group; and how many pods all of them may push out, which look for a place again.
        self._pushing: dict[int, Pushing] = {}
        # The nodes of those by priority and number, and by priority, as far as asked for.
        self._pushing_of: dict[int, dict[int, NodeSet]] = {}
        self._pushed_on: dict[int, NodeSet] = {}
        self._pushed = 0
        # The highest priority of those among them that may push out others, wherever they are.
        self._pushed_again: int | None = None
        self._wishing = [at for at, one in enumerate(self._groups) if one.needs.pod_affinity]
        peers = [ground.pods.peers(one.pods[0]) for one in self._groups] if self._wishing else ()
        self._company = Company(ground.inter_pod, self._former, around, peers)
        # Nodes that evicted pods hold room on until they are gone, and those of pods that may not be evicted at all.
        self._held = self._nodes_of(around.evicted)
        self._perhaps_held = self._nodes_of_evicted(around.may_stay)
        self._stuck = self._nodes_of_evicted(around.stuck)
        # Where no node at all says what it offers, nothing is known of rooms.
        known = (*ground.nodes, *around.leaving)
        self._no_offers = not any(node.allocatable for node in known)
        self._without_lower: dict[int, Capacity] = {}
        # Groups of which is not known how many are sure of a place: too much would have to be counted.
        self.too_many: set[int] = set()
        self._competing = list(self._all_competing())
        self._guarantee = Guarantee(ground.capacity, self._competing)

    def of_all(self, unknown: Sequence[Sequence[Unknown]]) -> list[tuple[Chance, ...]]:
        """Return the chances of each group, phase by phase; ``unknown``: what is not known of it."""
        by_priority = sorted(
            range(len(self._groups)), key=lambda at: -self._groups[at].needs.priority
        )
        found: list[tuple[Chance, ...]] = [()] * len(self._groups)
        for _ in range(_ROUNDS_MAX):
            known = dict(self._pushing)
            for place in by_priority:
                found[place] = self._of(place, unknown[place])
            if self._pushing == known:
                break
            # Whoever is pushed out looks for a place too, beside all others.
            self._let_in(self._preemption.pushed(self._pushing.values()))
        else:
            found = [_none_sure(one) for one in found]
        self._drop_hopeless(found, unknown)
        return found

    def pushes(self) -> list[tuple[Push, ...]]:
        """Whom each group may push out, and whom those; once ``of_all`` was asked."""
        if not self._pushing:
            return [()] * len(self._groups)
        return [
            tuple(self._preemption.chain(self._pushing[number])) if number in self._pushing else ()
            for number in range(len(self._groups))
        ]

    def _all_competing(self) -> Iterator[Competing]:
        known: dict[Hashable, Competing] = {}
        for kind, group in zip(self._alike.kinds, self._groups, strict=True):
            if (found := known.get(kind)) is None:
                nodes = 0
                for _, hopeful, _ in self._phases:
                    nodes |= self._standing(group, hopeful)
                nodes &= self._with_room(group.needs)
                found = known[kind] = Competing(group.needs, len(group.pods), nodes)
            yield found
        for pod in self._ground.around.waiting:
            if pod.needs:
                yield Competing(pod.needs, 1, self._with_room(pod.needs))

    def _with_room(self, needs: PodNeeds) -> NodeSet:
        """Nodes that may have room for one."""
        capacity = self._hopeful_capacity(needs)
        return capacity.fitting(needs) | capacity.unknown | self._stuck

    def _let_in(self, pushed: Mapping[PodNeeds, int]) -> None:
        self._alike.forget()
        self._pushed = sum(pushed.values())
        again = [needs.priority for needs in pushed if self._preemption.preempts(needs)]
        self._pushed_again = max(again, default=None)
        self._guarantee = Guarantee(
            self._ground.capacity, [*self._competing, *starmap(Competing, pushed.items())]
        )

    def _drop_hopeless(
        self, found: list[tuple[Chance, ...]], unknown: Sequence[Sequence[Unknown]]
    ) -> None:
        """Whoever has to be near pods that never find a node finds none either."""
        while self._wishing:
            hopeless = (at for at, some in enumerate(found) if not any(one.most for one in some))
            if (gone := frozenset(hopeless)) == self._company.hopeless:
                break
            self._company.hopeless = gone
            self._alike.forget()
            for place in self._wishing:
                found[place] = self._of(place, unknown[place])

    def _of(self, number: int, unknown: Sequence[Unknown]) -> tuple[Chance, ...]:
        self.too_many.discard(number)
        if (found := self._alike.find(number, unknown)) is None:
            found = self._find(number, unknown)
            # Of whoever pushes out others, or is not known of, each is noted.
            if number not in self._pushing and number not in self.too_many:
                self._alike.note(number, unknown, found)
        return found

    def _find(self, number: int, unknown: Sequence[Unknown]) -> tuple[Chance, ...]:
        group = self._groups[number]
        lacking = bool(NOT_IN_THE_INPUT.intersection(unknown))
        without = NOT_IN_THE_INPUT | {Unknown.OTHER_PODS} if lacking else NOT_IN_THE_INPUT
        uncertain = not without.issuperset(unknown)
        found: list[Chance] = []
        anywhere = 0
        for phase, hopeful, doubtful in self._phases:
            most, nodes = len(group.pods), self._standing(group, hopeful)
            if not _OTHER_RULES.intersection(unknown):
                nodes = self._hopeful_nodes(group, hopeful, doubtful, nodes, phase)
                if not phase.elsewhere:
                    most = self._most(group, nodes & hopeful.heard)
            surely = self._standing(group, doubtful) & doubtful.heard
            if uncertain or not most or not surely:
                chance = Chance(most, 0, 0)
            elif lacking or (self._no_offers and surely & self._ground.capacity.unknown):
                chance = Chance(most, most, most, assumed=True)
            else:
                chance = self._chance(number, doubtful, most)
            found.append(chance._replace(changing=self._changing(phase, nodes)))
            anywhere |= nodes
        if not _NOT_PREEMPTING.intersection(unknown):
            if any(chance.now < len(group.pods) for chance in found):
                self._note_push(number, anywhere)
        return tuple(found)

    def _note_push(self, number: int, nodes: NodeSet) -> None:
        group = self._groups[number]
        if nodes and self._preemption.preempts(group.needs):
            plain = not (group.reach.attached or group.reach.exclusive)
            count = len(group.pods)
            pushing = self._preemption.pushing(group.needs, count, nodes, plain=plain)
            if pushing.nodes:
                self._pushing[number] = pushing
                self._alike.forget()
                at = group.needs.priority
                self._pushing_of.setdefault(at, {})[number] = pushing.nodes
                self._pushed_on.pop(at, None)

    def _changing(self, phase: Phase, nodes: NodeSet) -> frozenset[str]:
        """Names of those that change."""
        known = self._ground.nodes
        return frozenset(
            known[place].name for place in places(nodes & self._changing_nodes[id(phase)])
        ).union(phase.elsewhere)

    # -- phases ------------------------------------------------------------------------------------

    def _nodes_of(self, pods: Iterable[Pod]) -> NodeSet:
        names = {pod.node_name for pod in pods}
        return nodes_where(node.name in names for node in self._ground.nodes) if names else 0

    def _nodes_of_evicted(self, keys: Collection[str]) -> NodeSet:
        """The nodes of those of the evicted pods that have one of these keys."""
        evicted = self._ground.around.evicted
        if len(keys) == len(evicted):
            return self._held
        return self._nodes_of(pod for pod in evicted if pod.key in keys) if keys else 0

    # -- at most -----------------------------------------------------------------------------------

    def _most(self, group: Group, nodes: NodeSet) -> int:
        """At most so many find room on these nodes."""
        count, capacity = len(group.pods), self._hopeful_capacity(group.needs)
        unknown, total = capacity.unknown | self._stuck, 0
        for place in places(nodes):
            total += count if unknown >> place & 1 else capacity.room(place, group.needs)
            if total >= count:
                break
        if group.reach.exclusive:
            total = min(total, 1)
        return min(total, count, self._domains_apart(group, nodes))

    def _hopeful_nodes(
        self, group: Group, hopeful: Opened, doubtful: Opened, nodes: NodeSet, phase: Phase
    ) -> NodeSet:
        """Which of these nodes may take one: with room for it alone, refusing the least."""
        needs, capacity = group.needs, self._hopeful_capacity(group.needs)
        # What is stuck there goes when its kubelet is back.
        unknown = capacity.unknown | self._stuck
        nodes &= unknown | (
            capacity.fitting(needs)
            & capacity.ports(needs)
            & self._ground.attached.passing(group.reach, hopeful=True)
        )
        if phase.stuck_stay and not self._ground.attached.is_free(group.reach):
            return 0
        if nodes and self._ground.asks_for_peers and capacity is self._ground.capacity:
            nodes &= self._hopeful_peers(group, hopeful, doubtful, nodes, phase)
        return nodes

    def _hopeful_capacity(self, needs: PodNeeds) -> Capacity:
        """What is left, for whoever may preempt others as if these were not there."""
        preempts = self._preemption.preempts(needs)
        return self._above(needs.priority) if preempts else self._ground.capacity

    def _above(self, priority: int) -> Capacity:
        found = self._without_lower.get(priority)
        if found is None:
            running = [
                one for one in self._ground.running if one[1] is None or one[1].priority >= priority
            ]
            found = self._without_lower[priority] = Capacity(self._ground.nodes, running)
        return found

    def _hopeful_peers(
        self, group: Group, hopeful: Opened, doubtful: Opened, takers: NodeSet, phase: Phase
    ) -> NodeSet:
        """Nodes that other pods may let it have."""
        ground, needs = self._ground, group.needs
        nodes = -1
        peers = ground.pods.peers(group.pods[0])
        if phase.stuck_stay:
            # Of namespaces that were not read nothing is said.
            with suppress(UnknownNamespaces):
                nodes &= ground.inter_pod.apart(needs, peers)
            with suppress(UnknownNamespaces):
                if needs.pod_affinity and ground.around.all_pods:
                    nodes &= self._company.perhaps(needs, self._number[id(group.pods)])
        if needs.topology_spread:
            maybe, sure = self._counted(group, hopeful), self._counted(group, doubtful)
            bounds = Bounds(maybe, sure, self._evicted_spread, len(group.pods), takers)
            nodes &= ground.spread.perhaps(needs, peers, bounds)
        return nodes

    def _counted(self, group: Group, nodes: Opened) -> tuple[NodeSet, ...]:
        """By constraint the nodes that count for it."""
        pod, filters = group.pods[0], nodes.filters
        return self._ground.spread.counted(
            group.needs,
            filters.affinity(group.needs, pod.node_name),
            filters.taints(pod.tolerations),
            nodes.existing,
        )

    @cached_property
    def _evicted_spread(self) -> Spread:
        return Spread(self._ground.topologies, self._evicted_index)

    def _former(self) -> InterPodAffinity:
        around = self._ground.around
        return InterPodAffinity(self._ground.topologies, self._evicted_index, around.namespaces)

    @cached_property
    def _evicted_index(self) -> PodIndex:
        """The evicted pods, where they were."""
        index = PodIndex()
        for pod in self._ground.around.evicted:
            place, peers = self._place.get(pod.node_name), index.peers(pod)
            # Of a node that is not listed they are in no domain.
            counts = peers.terminating if place is None else peers.running
            counts[place or 0] = counts.get(place or 0, 0) + 1
        return index

    def _domains_apart(self, group: Group, nodes: NodeSet) -> int:
        """How many domains there are for pods that keep off their own kind; else many."""
        labels, namespace = group.pods[0].labels, group.pods[0].namespace
        domains = [len(group.pods)]
        for term in group.needs.pod_anti_affinity:
            own = not term.namespaces or namespace in term.namespaces
            if own and term.namespace_selector is None and selects(term.selector, labels):
                key = term.topology_key
                keyed = self._ground.topologies.with_key(key) & nodes == nodes
                if keyed:
                    domains.append(self._ground.topologies.count_domains(key, nodes))
        return min(domains)

    # -- at least ----------------------------------------------------------------------------------

    def _chance(self, number: int, doubtful: Opened, most: int) -> Chance:
        group = self._groups[number]
        try:
            now = later = self._surely(group, doubtful, self._perhaps_held, gone=True)
            if later and self._held:
                now = self._surely(group, doubtful, self._held, gone=False)
        except TooMany:
            self.too_many.add(number)
            return Chance(most, 0, 0)
        if group.reach.exclusive:
            # Its predecessor uses the claim until it is gone.
            now, later = 0, min(later, 1)
        return Chance(most, min(now, most), min(later, most))

    def _surely(self, group: Group, doubtful: Opened, held: NodeSet, *, gone: bool) -> int:
        """So many at least, although nodes ``held`` have no more room than they had with the evicted pods.

        ``gone``: those of the evicted that surely are evicted have left.
        """
        needs, pod, capacity = group.needs, group.pods[0], self._ground.capacity
        nodes = self._standing(group, doubtful) & doubtful.heard & ~capacity.unknown & ~held
        nodes &= capacity.fitting(needs) & capacity.ports(needs)
        nodes &= self._ground.attached.passing(group.reach) & ~self._taken_away(needs.priority)
        if self._pushed and (needs.pod_affinity or needs.topology_spread):
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
                    number = self._number[id(group.pods)]
                    first = self._company.is_first(needs, number, evicted_gone=gone)
                    if not first and self._ground.inter_pod.is_first(needs, peers):
                        return 0
                    nodes &= self._ground.inter_pod.wanted(needs, peers)
            except UnknownNamespaces:
                return 0
        conflicts = self._sharing_drivers(group)
        if keys:
            conflicts += self._rivals.of(pod.labels, needs) + self._pushed
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
        found = self._guarantee.fewest(needs, count, (nodes & one for one in domains), conflicts)
        return max(found, 1)

    def _taken_away(self, priority: int) -> NodeSet:
        """Nodes from which pods of a higher priority may push out one of this."""
        if self._pushed_again is not None and priority < self._pushed_again:
            return self._everywhere
        taken = 0
        for at, nodes_of in self._pushing_of.items():
            if priority >= at:
                continue
            if at not in self._pushed_on:
                self._pushed_on[at] = reduce(or_, nodes_of.values())
            taken |= self._pushed_on[at]
        return taken

    def _sharing_drivers(self, group: Group) -> int:
        """How many others may attach volumes of its drivers, where nodes limit these; its own kind counted too."""
        drivers = self._ground.attached.limited(group.reach)
        if not drivers:
            return 0
        return self._pushed + sum(
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
            return self._guarantee.at_least(needs, count, nodes, conflicts)
        counted = self._counted(group, doubtful)
        if self._is_alone(group):
            peers = self._ground.pods.peers(pod)
            nodes &= self._ground.spread.passing_among(needs, peers, counted)
            return self._guarantee.at_least(needs, count, nodes, conflicts)
        if len(needs.topology_spread) > 1:
            return 0
        # The emptiest domain always takes one more: a place is sure where every domain has one for them.
        (constraint,) = needs.topology_spread
        domains = self._ground.topologies.domains(constraint.topology_key).values()
        eligible = [members for members in domains if members & counted[0]]
        if len(eligible) < constraint.min_domains:
            return 0
        return self._guarantee.fewest(needs, count, (nodes & one for one in eligible), conflicts)

    def _is_alone(self, group: Group) -> bool:
        """Whether no other evicted or waiting pod counts for its constraints, and it surely goes."""
        around = self._ground.around
        if len(group.pods) != 1 or around.may_stay or around.waiting:
            return False
        peers = self._ground.pods.peers(group.pods[0])
        return all(
            self._evicted_spread.total(one, peers) <= 1 for one in group.needs.topology_spread
        )

    def _standing(self, group: Group, nodes: Opened) -> NodeSet:
        """Nodes that pass what looks at nodes alone, silent ones too: nobody tells the scheduler at first."""
        pod, filters = group.pods[0], nodes.filters
        passing = nodes.existing & filters.unschedulable(pod.tolerations)
        passing &= filters.taints(pod.tolerations) & filters.affinity(group.needs, pod.node_name)
        for terms in group.reach.volumes:
            passing &= filters.volume(terms)
        for labels in group.reach.zones:
            passing &= filters.zone(labels)
        return passing


def _none_sure(chances: Iterable[Chance]) -> tuple[Chance, ...]:
    return tuple(one if one.assumed else one._replace(now=0, later=0) for one in chances)
