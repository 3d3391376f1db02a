"""Where pods that replace evicted ones can run: the scheduler's filters, without a scheduler.

Only filters are asked, which say where a pod *cannot* run. What preferences would choose among the nodes that
pass is not predicted. Each replacement takes its place on the first node that passes, in the order given,
those last that have to be near others: first fit, not the scheduler's choice; those after it find what is left. Nothing that runs moves away.
Left out are DynamicResources, disks that VolumeRestrictions knows by their provider, and who is preempted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice, starmap

import msgspec

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import FINISHED_PHASES, Pod
from kubectl_evictplan.kube.scheduling.answers import (
    ASKED_OTHERWISE,
    Answers,
    Bounded,
    Chance,
    Filter,
    Fit,
    Group,
    Push,
    Refusal,
    Surroundings,
    Unknown,
)
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.chances import Chances
from kubectl_evictplan.kube.scheduling.ground import Ground
from kubectl_evictplan.kube.scheduling.groups import NO_NEEDS, grouped
from kubectl_evictplan.kube.scheduling.inter_pod import (
    InterPodAffinity,
    UnknownNamespaces,
)
from kubectl_evictplan.kube.scheduling.node_filters import NodeFilters
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet, first_place, places
from kubectl_evictplan.kube.scheduling.peers import PodIndex
from kubectl_evictplan.kube.scheduling.spread import Spread
from kubectl_evictplan.kube.scheduling.storage_capacity import StorageRoom, volumes_going
from kubectl_evictplan.kube.scheduling.topologies import Topologies
from kubectl_evictplan.kube.scheduling.volume_limits import AttachedVolumes
from kubectl_evictplan.kube.scheduling.volumes import Volumes

# So many nodes are named.
_NODES_NAMED = 5


def fits(
    surroundings: Surroundings, replacements: Sequence[Pod], since_ns: Sequence[int] = ()
) -> tuple[Fit, ...]:
    """Return where the successors of these pods can run, by owner and needs.

    They look for a place by priority, then by ``since_ns``, one for each, then in the order given, whoever has to be
    near others after these; so are the answers.
    """
    return tuple(_Check(surroundings, replacements, since_ns).answers())


def answers(
    surroundings: Surroundings, replacements: Sequence[Pod], since_ns: Sequence[int]
) -> Answers:
    """Return what holds whatever the scheduler prefers, and what makes ``fits``."""
    check = _Check(surroundings, replacements, since_ns)
    bounded = [
        Bounded(group.pods, told.chances, told.pushes, (*unknown, *told.unknown))
        for group, unknown, told in check.in_order
    ]
    return Answers(bounded, check.answers, check.names)


class _Standing(msgspec.Struct, frozen=True):
    """What passes the filters that placements do not change."""

    unschedulable: NodeSet
    taints: NodeSet
    affinity: NodeSet
    volumes: NodeSet
    zones: NodeSet

    @property
    def all(self) -> NodeSet:
        return self.unschedulable & self.taints & self.affinity & self.volumes & self.zones


class _Told(msgspec.Struct, frozen=True):
    """A step as answers tell it: see ``Fit``."""

    on_nodes: int
    names: tuple[str, ...]
    returns_to: int
    because: tuple[Refusal, ...]


class _Step(msgspec.Struct):
    """What passes each filter, and all of them, for one pod; ``told`` once somebody asked.

    ``fitting``: the nodes that have room; all else that a pod of its kind without ports and volumes meets, where nobody minds
    whom it is near, is as it was.
    """

    chain: list[tuple[Filter, NodeSet]]
    passing: NodeSet
    unknown: tuple[Unknown, ...]
    standing: _Standing
    fitting: NodeSet
    told: _Told | None = None


class _Placed(msgspec.Struct, frozen=True):
    """How many were placed, by what the first met, and whoever found no place; None: all did.

    ``full``: no node passes for that; else it is not known what those offer that do.
    """

    first: _Step
    pending: _Step | None
    number: int
    full: bool = True


class _Bounds(msgspec.Struct, frozen=True):
    """What holds of a group whatever the scheduler prefers: see ``Fit``."""

    chances: tuple[Chance, ...] = ()
    pushes: tuple[Push, ...] = ()
    unknown: tuple[Unknown, ...] = ()


_NO_BOUNDS = _Bounds()


class _Check:
    """One check: places groups one after the other."""

    def __init__(
        self, around: Surroundings, replacements: Sequence[Pod], since_ns: Sequence[int]
    ) -> None:
        leaving = {node.name for node in around.leaving}
        # Those that stay come first, because they are tried first.
        self._nodes = sorted(around.nodes, key=lambda node: (node.name in leaving, node.name))
        self._everywhere = (1 << len(self._nodes)) - 1
        self._staying = (1 << sum(node.name not in leaving for node in self._nodes)) - 1
        self._leaving = around.leaving
        self._around = around
        self._filters = NodeFilters(self._nodes)
        self._former = NodeFilters(around.leaving)
        self._volumes = Volumes(around.infrastructure, self._storage_room(replacements))
        claiming = {(one.namespace, one.name) for one in around.infrastructure.pod_claims}
        self._groups = grouped(replacements, self._volumes, claiming, since_ns)
        self._place_of = {node.name: place for place, node in enumerate(self._nodes)}
        # Nodes that are not listed have places behind those that are.
        elsewhere = {name for phase in around.phases for name in phase.elsewhere}
        self.names = [*self._place_of, *sorted(elsewhere)]
        self._attached = AttachedVolumes(
            self._nodes, around.infrastructure, self._volumes, self._alive()
        )
        self._running = self._count_running()
        self._at_first = Capacity(self._nodes, self._running)
        self._capacity = self._at_first.copy()
        self._placed: list[tuple[int, PodNeeds, int]] = []
        self._named: dict[NodeSet, tuple[str, ...]] = {}
        # By kind of group: what the last of them met, and what is not known of them.
        self._steps: dict[int, _Step] = {}
        self._unknown_of: dict[int, tuple[Unknown, ...]] = {}
        self._above: dict[int, tuple[Capacity, int]] = {}
        self._unknown_others = not around.all_pods or any(
            needs is None for _, needs, _ in self._running
        )
        # Some look for a place that may ask for more than they show, and keep off whom they like.
        self._unlike = any(one.needs.other_template for one in self._groups)
        self._topologies = Topologies(self._nodes)
        self._index, self._spread, self._inter_pod = self._peers()

    def _storage_room(self, replacements: Sequence[Pod]) -> StorageRoom | None:
        around = self._around
        if around.storage_capacities is None:
            return None
        labels_of = {node.name: node.labels for node in (*around.leaving, *self._nodes)}
        going = (*replacements, *around.evicted)
        freed = volumes_going(going, around.infrastructure, labels_of)
        return StorageRoom(around.infrastructure, around.storage_capacities, freed)

    def answers(self) -> Iterator[Fit]:
        """Yield one answer for each group, by priority."""
        return starmap(self._answer, self.in_order)

    @cached_property
    def in_order(self) -> Sequence[tuple[Group, tuple[Unknown, ...], _Bounds]]:
        """Each group with what holds of it before any is placed, as they look for a place."""
        groups = self._groups
        unknown = list(map(self._unknown, groups))
        every = list(zip(groups, unknown, self._bounds(unknown), strict=True))
        return sorted(every, key=lambda one: self._turn(one[0]))

    def _bounds(self, unknown: Sequence[tuple[Unknown, ...]]) -> Sequence[_Bounds]:
        """Of each group, before anything is placed; nothing is said where no phase is asked about."""
        if not self._around.phases:
            return [_NO_BOUNDS] * len(self._groups)
        ground = Ground(
            self._around, self._nodes, self.names, self._filters, self._at_first, self._running,
            self._topologies, self._index, self._spread, self._inter_pod, self._asks_for_peers,
            self._attached,
        )  # fmt: skip
        chances = Chances(ground, self._groups)
        found = chances.of_all(unknown)
        given_up = [
            (Unknown.TOO_MANY,) if at in chances.too_many else () for at in range(len(found))
        ]
        return list(map(_Bounds, found, chances.pushes(), given_up))

    def _turn(self, group: Group) -> tuple[int, int]:
        """By priority; whoever has to be near others comes after these: it is tried again when they are there."""
        needs = group.needs
        if not needs.pod_affinity:
            return -needs.priority, 0
        peers = self._index.peers(group.pods[0])
        with suppress(UnknownNamespaces):
            if self._inter_pod.wants(needs, peers, peers):
                return -needs.priority, 1
        return -needs.priority, 2

    def _count_running(self) -> list[tuple[int, PodNeeds | None, int]]:
        """Return how many pods with which needs are on which node."""
        running, place_of = self._around.running, self._place_of
        if not FINISHED_PHASES.isdisjoint({pod.phase for pod in running}):
            running = [pod for pod in running if pod.phase not in FINISHED_PHASES]
        names_of: dict[int, tuple[PodNeeds | None, list[str]]] = {}
        last: object = self
        names = list[str]()
        for pod in running:
            # Those with the same needs mostly follow each other.
            if pod.needs is not last:
                last = pod.needs
                _, names = names_of.setdefault(id(last), (pod.needs, []))
            names.append(pod.node_name)
        return [
            (place_of[name], needs, count)
            for needs, some in names_of.values()
            for name, count in Counter(some).items()
            if name in place_of
        ]

    def _alive(self) -> Iterator[Pod]:
        """Pods of which the scheduler knows."""
        for pod in self._around.running:
            if pod.phase not in FINISHED_PHASES and pod.node_name in self._place_of:
                yield pod

    def _peers(self) -> tuple[PodIndex, Spread, InterPodAffinity]:
        """Index pods by their labels, if any rule asks for that."""
        index, topologies = PodIndex(), self._topologies
        inter_pod = InterPodAffinity(topologies, index, self._around.namespaces)
        asking = {
            id(needs): needs
            for needs in (*(one.needs for one in self._groups), *(n for _, n, _ in self._running))
            if needs is not None
            and (needs.pod_affinity or needs.pod_anti_affinity or needs.topology_spread)
        }
        self._asks_for_peers = bool(asking)
        if asking:
            self._fill(index, inter_pod, asking)
        return index, Spread(topologies, index), inter_pod

    def _fill(
        self, index: PodIndex, inter_pod: InterPodAffinity, asking: Mapping[int, PodNeeds]
    ) -> None:
        for group in self._groups:
            for pod in group.pods:
                index.peers(pod)
            inter_pod.prepare(group.pods[0].namespace, group.needs)
        stuck, peers_of = self._around.stuck, index.peers
        for pod in self._alive():
            peers, place = peers_of(pod), self._place_of[pod.node_name]
            going = pod.deletion_timestamp_ns is not None or (stuck and pod.key in stuck)
            counts = peers.terminating if going else peers.running
            counts[place] = counts.get(place, 0) + 1
            if id(pod.needs) in asking and pod.needs is not None:
                inter_pod.hold(pod.namespace, pod.needs, place, 1)

    # One group.

    def _answer(self, group: Group, unknown: tuple[Unknown, ...], bounds: _Bounds) -> Fit:
        if Unknown.NEEDS in unknown or not ASKED_OTHERWISE.isdisjoint(unknown):
            every = (*unknown, *bounds.unknown)
            return Fit(
                tuple(group.pods), unknown=every, chances=bounds.chances, pushes=bounds.pushes
            )
        placed = self._place(group)
        first, pending = placed.first, placed.pending
        told, needs, standing = self._told(first), group.needs, first.standing
        offers = () if placed.full else (Unknown.OFFERS,)
        return Fit(
            tuple(group.pods),
            told.on_nodes,
            told.names,
            placed.number,
            told.because if pending is None else self._told(pending).because,
            told.returns_to,
            not told.on_nodes and self._only_on_leaving(group, standing, first.passing),
            pending is not None and self._has_room(self._at_first, needs, standing),
            self._below(needs, standing) if pending is not None else 0,
            (*dict.fromkeys((*unknown, *offers, *first.unknown)), *bounds.unknown),
            bounds.chances,
            bounds.pushes,
        )

    def _place(self, group: Group) -> _Placed:
        pods, placed = group.pods, 0
        first = step = self._step(group, pods[0])
        while candidates := step.passing & self._staying & ~self._capacity.unknown:
            placed += self._put(group, pods[placed:] if placed else pods, first_place(candidates))
            if placed >= len(pods):
                return _Placed(first, None, placed)
            step = self._step(group, pods[placed])
        return _Placed(first, step, placed, full=not step.passing & self._staying)

    def _told(self, step: _Step) -> _Told:
        if step.told is None:
            on_nodes = step.passing & self._staying & ~self._capacity.unknown
            returns_to = (step.passing & ~self._staying).bit_count()
            because = self._refusals(step.chain)
            names = self._some_names(on_nodes)
            step.told = _Told(on_nodes.bit_count(), names, returns_to, because)
        return step.told

    def _has_room(self, capacity: Capacity, needs: PodNeeds, standing: _Standing) -> bool:
        """Whether a node that has no room now has it there."""
        room = self._capacity.fitting(needs) & self._capacity.ports(needs)
        roomy = capacity.fitting(needs) & capacity.ports(needs) & ~room
        return bool(standing.all & self._staying & roomy)

    def _some_names(self, nodes: NodeSet) -> tuple[str, ...]:
        named = self._named.get(nodes)
        if named is None:
            few = islice(places(nodes), _NODES_NAMED)
            named = self._named[nodes] = tuple(self._nodes[place].name for place in few)
        return named

    def _unknown(self, group: Group) -> tuple[Unknown, ...]:
        if self._around.gated and group.pods[0].key in self._around.gated:
            return tuple(self._not_known(group, gated=True))
        known = self._unknown_of.get(group.kind)
        if known is None:
            known = self._unknown_of[group.kind] = tuple(self._not_known(group, gated=False))
        return known

    def _not_known(self, group: Group, *, gated: bool) -> Iterator[Unknown]:
        if group.needs is NO_NEEDS:
            yield Unknown.NEEDS
        if group.needs.scheduler_name:
            yield Unknown.SCHEDULER
        if group.needs.other_template:
            yield Unknown.REVISION
        if gated:
            yield Unknown.GATES
        if group.needs.resource_claims:
            yield Unknown.DEVICES
        if group.reach.unknown:
            yield Unknown.VOLUMES
        if self._unknown_others or (self._unlike and not group.needs.other_template):
            yield Unknown.OTHER_PODS
        if self._inter_pod.unknown_holders:
            yield Unknown.NAMESPACES

    def _standing(self, group: Group, filters: NodeFilters | None = None) -> _Standing:
        filters = filters or self._filters
        pod = group.pods[0]
        volumes = zones = -1
        for terms in group.reach.volumes:
            volumes &= filters.volume(terms)
        for labels in group.reach.zones:
            zones &= filters.zone(labels)
        return _Standing(
            filters.unschedulable(pod.tolerations),
            filters.taints(pod.tolerations),
            filters.affinity(group.needs, pod.node_name),
            volumes,
            zones,
        )

    def _step(self, group: Group, pod: Pod) -> _Step:
        """What passes for that pod of the group. While no node fills up it is the same for all groups of a kind."""
        needs, reach, known = group.needs, group.reach, self._steps.get(group.kind)
        if known is None:
            known = self._ask(group, pod, self._standing(group))
        elif (
            self._asks_for_peers
            or needs.host_ports
            or reach.attached
            or reach.exclusive
            or known.fitting != self._capacity.fitting(needs)
        ):
            known = self._ask(group, pod, known.standing)
        self._steps[group.kind] = known
        return known

    def _ask(self, group: Group, pod: Pod, standing: _Standing) -> _Step:
        """Ask every filter about one pod, in the scheduler's order."""
        needs, fitting = group.needs, self._capacity.fitting(group.needs)
        chain = [
            (Filter.NODE_UNSCHEDULABLE, standing.unschedulable),
            (Filter.TAINT_TOLERATION, standing.taints),
            (Filter.NODE_AFFINITY, standing.affinity),
            (Filter.NODE_PORTS, self._capacity.ports(needs) if needs.host_ports else -1),
            (Filter.NODE_RESOURCES_FIT, fitting | self._capacity.unknown),
            (Filter.VOLUME_RESTRICTIONS, -1 if self._attached.is_free(group.reach) else 0),
            (Filter.NODE_VOLUME_LIMITS, self._attached.passing(group.reach)),
            (Filter.VOLUME_BINDING, standing.volumes),
            (Filter.VOLUME_ZONE, standing.zones),
        ]
        unknown: tuple[Unknown, ...] = ()
        if self._asks_for_peers:
            peers = self._index.peers(pod)
            if needs.topology_spread:
                nodes = self._spread.passing(needs, peers, standing.affinity, standing.taints)
                chain.append((Filter.POD_TOPOLOGY_SPREAD, nodes))
            # Pods that were not read may be those that it wants to be near.
            if self._around.all_pods or not needs.pod_affinity:
                try:
                    chain.append((Filter.INTER_POD_AFFINITY, self._inter_pod.passing(needs, peers)))
                except UnknownNamespaces:
                    unknown = (Unknown.NAMESPACES,)
        passing = self._everywhere
        for _, nodes in chain:
            passing &= nodes
        return _Step(chain, passing, unknown, standing, fitting)

    def _put(self, group: Group, pods: Sequence[Pod], place: int) -> int:
        """Place the first of these pods, or as many as fit when nobody minds; return how many."""
        needs = group.needs
        count = 1
        others = needs.topology_spread or needs.pod_affinity or needs.pod_anti_affinity
        if not (others or group.reach.exclusive):
            count = min(self._capacity.room(place, needs), len(pods))
        if self._asks_for_peers:
            # Those of other labels may be refused by pods near them: they are asked about on their own.
            labels = pods[0].labels
            count = next((at for at in range(count) if pods[at].labels is not labels), count)
            self._index.peers(pods[0]).add(place, count)
            self._inter_pod.hold(pods[0].namespace, needs, place, count)
        self._capacity.take(place, needs, count)
        if group.reach.attached or group.reach.exclusive:
            self._attached.take(place, group.reach)
        self._placed.append((place, needs, count))
        return count

    def _refusals(self, chain: Sequence[tuple[Filter, NodeSet]]) -> tuple[Refusal, ...]:
        """Count nodes by the first filter that refuses them, as the scheduler's events do."""
        left, found = self._everywhere, []
        for name, nodes in chain:
            if refused := (left & ~nodes).bit_count():
                found.append(Refusal(name, refused))
            left &= nodes
        return tuple(found)

    def _only_on_leaving(self, group: Group, standing: _Standing, passing: NodeSet) -> bool:
        """Whether only a leaving node takes it, or would as it was, whatever room there is."""
        if passing & ~self._staying:
            return True
        return not standing.all & self._staying and bool(self._standing(group, self._former).all)

    def _below(self, needs: PodNeeds, standing: _Standing) -> int:
        """Count the nodes that have room when pods of lower priority are not counted."""
        if needs.never_preempts:
            return 0
        capacity, seen = self._above.get(needs.priority) or (self._without_lower(needs.priority), 0)
        for place, taken, count in self._placed[seen:]:
            capacity.take(place, taken, count)
        self._above[needs.priority] = (capacity, len(self._placed))
        room = capacity.fitting(needs) & capacity.ports(needs)
        now = self._capacity.fitting(needs) & self._capacity.ports(needs)
        return (standing.all & self._staying & room & ~now).bit_count()

    def _without_lower(self, priority: int) -> Capacity:
        return Capacity(
            self._nodes,
            [one for one in self._running if one[1] is None or one[1].priority >= priority],
        )
