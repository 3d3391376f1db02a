"""How many of a group of replacements find a place in each phase of a change, at least and at most.

``fit`` places them one by one, first fit, which is one of many ways in which a scheduler may choose. Here nothing is
placed: at most so many have room if nothing else takes any and every node is as it refuses the least; at least so many
find one although all others take the worst places for them. Preemption may only add to the most.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import starmap

from msgspec.structs import replace

from kubectl_evictplan.kube.scheduling.answers import (
    ASKED_OTHERWISE,
    Chance,
    Group,
    Push,
    Unknown,
)
from kubectl_evictplan.kube.scheduling.at_least import AtLeast
from kubectl_evictplan.kube.scheduling.at_most import AtMost
from kubectl_evictplan.kube.scheduling.company import Company
from kubectl_evictplan.kube.scheduling.evicted import Evicted
from kubectl_evictplan.kube.scheduling.ground import Ground
from kubectl_evictplan.kube.scheduling.groups import AlikeGroups
from kubectl_evictplan.kube.scheduling.guarantee import Competing, Guarantee
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, nodes_where
from kubectl_evictplan.kube.scheduling.opened import opened
from kubectl_evictplan.kube.scheduling.preemption import Preemption
from kubectl_evictplan.kube.scheduling.pushes import Pushes
from kubectl_evictplan.kube.scheduling.rivals import Rival, Rivals

# Where the input has no needs or no offers at all, nothing is said against a place: that is told as an assumption.
# Where only pods are missing, of which some may hold the room, whether it is there is not known.
NOT_IN_THE_INPUT = frozenset({Unknown.NEEDS, Unknown.OFFERS})
_NOT_PREEMPTING = frozenset({Unknown.SCHEDULER, Unknown.NEEDS})
# Whoever is pushed out may make others unsure, who push out more: so many times, then nothing is sure.
_ROUNDS_MAX = 4


class Chances:
    """Group for each group, before anything is placed."""

    def __init__(self, ground: Ground, groups: Iterable[Group]) -> None:
        self._ground = ground
        around = ground.around
        self._phases = list(opened(around.phases, ground.nodes, ground.filters))
        # By phase nodes that change, and those of them that are elsewhere.
        self._changing = [
            (
                nodes_where(node.name in phase.hopeful for node in ground.nodes),
                nodes_where(name in phase.elsewhere for name in ground.names),
            )
            for phase in around.phases
        ]
        self._groups = list(groups)
        self._alike = AlikeGroups(self._groups, asks_for_peers=ground.asks_for_peers)
        rivals = [Rival(one.pods[0].labels, one.needs, len(one.pods)) for one in self._groups]
        rivals += [Rival(pod.labels, pod.needs, 1) for pod in around.waiting if pod.needs]
        counts = [(one.needs, one.number) for one in rivals]
        self._preemption = Preemption(ground.names, ground.capacity, ground.running, counts)
        self._wishing = [at for at, one in enumerate(self._groups) if one.needs.pod_affinity]
        peers = [ground.pods.peers(one.pods[0]) for one in self._groups] if self._wishing else ()
        evicted = Evicted(ground)
        self._company = Company(ground.inter_pod, evicted.inter_pod, around, peers)
        # Where no node at all says what it offers, nothing is known of rooms.
        known = (*ground.nodes, *around.leaving)
        self._no_offers = not any(node.allocatable for node in known)
        self._at_most = AtMost(ground, evicted, self._preemption, self._company)
        self._competing = list(self._all_competing())
        self._pushes = Pushes(self._preemption, (1 << len(ground.nodes)) - 1)
        guarantee = Guarantee(ground.capacity, self._competing)
        self._at_least = AtLeast(
            ground, self._groups, evicted, Rivals(rivals), self._company, self._pushes, guarantee
        )

    @property
    def too_many(self) -> Collection[int]:
        """Numbers of groups of which is not known how many are sure of a place."""
        return self._at_least.too_many

    def of_all(self, unknown: Sequence[Sequence[Unknown]]) -> list[tuple[Chance, ...]]:
        """Return the chances of each group, phase by phase; ``unknown``: what is not known of it."""
        by_priority = sorted(
            range(len(self._groups)), key=lambda at: -self._groups[at].needs.priority
        )
        found: list[tuple[Chance, ...]] = [()] * len(self._groups)
        for _ in range(_ROUNDS_MAX):
            known = dict(self._pushes.of_group)
            for place in by_priority:
                found[place] = self._of(place, unknown[place])
            if self._pushes.of_group == known:
                break
            self._let_in()
        else:
            found = [_none_sure(one) for one in found]
        self._drop_hopeless(found, unknown)
        return found

    def pushes(self) -> list[tuple[Push, ...]]:
        """Whom each group may push out, and whom those; once ``of_all`` was asked."""
        if not self._pushes.of_group:
            return [()] * len(self._groups)
        return [
            tuple(self._preemption.chain(self._pushes.of_group[number]))
            if number in self._pushes.of_group
            else ()
            for number in range(len(self._groups))
        ]

    def _all_competing(self) -> Iterator[Competing]:
        known: dict[Hashable, Competing] = {}
        for kind, group in zip(self._alike.kinds, self._groups, strict=True):
            if (found := known.get(kind)) is None:
                nodes = 0
                for _, hopeful, _ in self._phases:
                    nodes |= hopeful.standing(group)
                nodes &= self._at_most.with_room(group.needs)
                found = known[kind] = Competing(group.needs, len(group.pods), nodes)
            yield found
        for pod in self._ground.around.waiting:
            if pod.needs:
                yield Competing(pod.needs, 1, self._at_most.with_room(pod.needs))

    def _let_in(self) -> None:
        """Whoever is pushed out looks for a place too, beside all others."""
        self._alike.forget()
        more = starmap(Competing, self._pushes.let_in().items())
        self._at_least.guarantee = Guarantee(self._ground.capacity, [*self._competing, *more])

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
        self._at_least.too_many.discard(number)
        if (found := self._alike.find(number, unknown)) is None:
            found = self._find(number, unknown)
            # Of whoever pushes out others, or is not known of, each is noted.
            if number not in self._pushes.of_group and number not in self.too_many:
                self._alike.note(number, unknown, found)
        return found

    def _find(self, number: int, unknown: Sequence[Unknown]) -> tuple[Chance, ...]:
        group = self._groups[number]
        lacking = bool(NOT_IN_THE_INPUT.intersection(unknown))
        without = NOT_IN_THE_INPUT | {Unknown.OTHER_PODS} if lacking else NOT_IN_THE_INPUT
        uncertain = not without.issuperset(unknown)
        found: list[Chance] = []
        anywhere = 0
        for one, (changing, elsewhere) in zip(self._phases, self._changing, strict=True):
            phase, hopeful, doubtful = one
            most, nodes = len(group.pods), hopeful.standing(group)
            if ASKED_OTHERWISE.isdisjoint(unknown):
                nodes = self._at_most.nodes(number, group, one, nodes)
                if not phase.elsewhere:
                    most = self._at_most.count(group, nodes & hopeful.heard)
            surely = doubtful.standing(group) & doubtful.heard
            if uncertain or not most or not surely:
                chance = Chance(most, 0, 0)
            elif lacking or (self._no_offers and surely & self._ground.capacity.unknown):
                chance = Chance(most, most, most, assumed=True)
            else:
                chance = self._at_least.chance(number, doubtful, most)
            come = nodes & changing | elsewhere
            settled = not come or not (_asks_for_others(group) or surely & changing)
            found.append(replace(chance, changing=come, settled=settled))
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
                self._pushes.note(number, group.needs.priority, pushing)
                self._alike.forget()


def _asks_for_others(group: Group) -> bool:
    """Whether where others are decides where it has to be, and so nodes that it does not come to."""
    return bool(group.needs.pod_affinity or group.needs.topology_spread)


def _none_sure(chances: Iterable[Chance]) -> tuple[Chance, ...]:
    return tuple(one if one.assumed else replace(one, now=0, later=0) for one in chances)
