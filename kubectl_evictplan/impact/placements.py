"""When a successor finds a node, by the rules of ``kube.scheduling``: at once, later, perhaps, never.

Of pods with equal needs that compete for too few places it is known how many find one, not which. Places are counted
in the order of their deletions then: whoever is asked how many are there gets the right number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import BY_DRAINS
from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.later_nodes import later_nodes
from kubectl_evictplan.impact.losses import Loss, Losses
from kubectl_evictplan.impact.node_lives import REACTION_MAX_NS, NodeLife
from kubectl_evictplan.impact.node_phases import NodeKind, TimedPhase, node_kinds, node_phases
from kubectl_evictplan.impact.stretches import FOREVER_NS, Between
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.owners import OwnerKey, owner_key
from kubectl_evictplan.kube.pod_requests import BY_SPEC
from kubectl_evictplan.kube.scheduling.answers import Bounded, Fit, Push, Surroundings
from kubectl_evictplan.kube.scheduling.fit import answers
from kubectl_evictplan.kube.scheduling.storage_capacity import published
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.records import RowsLater
from kubectl_evictplan.scenarios.actions.drain import Drain, drains_among
from kubectl_evictplan.scenarios.scenario import Scenario

# Whoever found no node is tried again when one changes, but not sooner than so long after the last time
# (``podMaxBackoffSeconds`` of kube-scheduler).
RETRY_MAX_NS = 10 * SECOND_NS


class Stage(msgspec.Struct, frozen=True):
    """What holds of one pod's place in one phase: it may find one, surely finds one, at once or when the evicted are gone."""

    since_ns: int
    until_ns: int
    may: bool
    now: bool
    later: bool


class Placement(msgspec.Struct, frozen=True):
    """When one successor finds a node. ``gone_ns``: until then evicted pods may hold their room."""

    stages: tuple[Stage, ...] = ()
    gone_ns: int = 0
    # Nothing was known that speaks against a place, because the input does not hold it.
    assumed: bool = False
    # What the nodes that it may come to do later.
    losses: tuple[Loss, ...] = ()
    # No pod of its group finds a node in any run.
    nowhere: bool = False

    @property
    def at_once(self) -> bool:
        """Whether it never waits."""
        return all(stage.now for stage in self.stages)

    def bound(self, created: Between) -> Between:
        """When it has a node, if it is created between the two; perhaps never, or never."""
        if not self.stages or created.never:
            return created
        return Between(self._earliest(created.earliest_ns), self._latest(created.latest_ns))

    def _earliest(self, created_ns: int) -> int:
        for stage in self.stages:
            if stage.may and created_ns < stage.until_ns:
                return max(created_ns, stage.since_ns)
        return FOREVER_NS

    def _latest(self, created_ns: int) -> int:
        if created_ns >= FOREVER_NS:
            return FOREVER_NS
        for stage in self.stages:
            if created_ns >= stage.until_ns:
                continue
            from_ns = max(created_ns, stage.since_ns)
            if not stage.now and stage.later:
                from_ns = max(from_ns, self.gone_ns)
            if (stage.now or stage.later) and from_ns < stage.until_ns:
                return from_ns if from_ns == created_ns else from_ns + RETRY_MAX_NS
        return FOREVER_NS


AT_ONCE = Placement()
# Of a pod with scheduling gates: as soon as somebody takes them off, perhaps never.
GATED = Placement((Stage(0, FOREVER_NS, may=True, now=False, later=False),))


class TimedPush(msgspec.Struct, frozen=True):
    """``push`` may come from an instant on."""

    push: Push
    since_ns: int


class Placements(msgspec.Struct, frozen=True):
    """``fits`` as they are told, found out when they are read. Who does not find a node at once in every run is in ``of_pod``, by key.

    ``of_owner``: where that is the same for all of an owner's pods that are deleted. ``pushes``: where whoever finds none may push out others. ``sure``: whoever looks for a node finds one at once, whatever the
    scheduler prefers, whatever becomes of nodes that change; so each of ``fits`` says that it fits.
    """

    fits: Sequence[Fit] = ()
    of_pod: Mapping[str, Placement] = {}
    of_owner: Mapping[OwnerKey, Placement] = {}
    pushes: tuple[TimedPush, ...] = ()
    sure: bool = False

    def of(self, key: str, owner: OwnerKey) -> Placement:
        """When the successor of that pod, which is deleted, finds a node."""
        return self.of_pod.get(key) or self.of_owner.get(owner, AT_ONCE)


class Change(msgspec.Struct, frozen=True):
    """What happens, and to whom: ``evicted`` are the pods of the ``deletions``, which are by key."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    prediction: Prediction
    lives: Mapping[str, NodeLife]
    deletions: Mapping[str, Deletion]
    evicted: Sequence[Pod]
    # Pods that are on their way out at the start.
    going: Sequence[Pod] = ()
    # Keys of those whose owners make pods with scheduling gates.
    gated: Collection[str] = ()
    # How the release's scheduler counts pods that were resized in place (``kube/pod_requests.py``).
    resized_pods_hold: str = BY_SPEC
    # Whether that scheduler asks for published capacity of storage.
    storage_capacity: bool = False


def placements_of(change: Change, replaced: Sequence[Pod], since_ns: Sequence[int]) -> Placements:
    """Find out where the successors of ``replaced`` can run, and when; ``since_ns``: from when on each is deleted."""
    if not replaced:
        return Placements()
    # Each once: pods that are alike share one object.
    every = change.deletions.values()
    distinct = list(dict(zip(map(id, every), every, strict=True)).values())
    ending = list(_ending(change))
    happens = change.prediction.nodes, change.scenario.events, change.lives
    kinds = node_kinds(change.snapshot.nodes, *happens, _cordon_first(change))
    around, phases = _surroundings(change, kinds, distinct, [pod for pod, _ in ending])
    found = answers(around, replaced, since_ns)
    ends = [one.gone.latest_ns for one in distinct if one.certain and not one.held]
    gone_ns = max([*ends, *(ends_ns for _, ends_ns in ending)], default=0)
    groups = _Groups(phases, Losses(kinds, found.names), change.deletions, gone_ns)
    all_replaced = len(replaced) == len(change.evicted)
    of_pod, of_owner = groups.of_all(found.bounded, all_replaced=all_replaced)
    sure = all(map(_surely_fits, found.bounded))
    pushes = tuple(_pushes(found.bounded, change))
    return Placements(RowsLater(found.make_fits), of_pod, of_owner, pushes, sure)


def _surely_fits(group: Bounded) -> bool:
    """Whether each of its pods finds a node at once, whatever becomes of nodes that change, and nothing is unknown of it."""
    count = len(group.pods)
    return not group.unknown and all(
        one.now == count and one.settled and not one.assumed for one in group.chances
    )


def _pushes(found: Iterable[Bounded], change: Change) -> Iterable[TimedPush]:
    for group in found:
        if group.pushes:
            since_ns = min(change.deletions[pod.key].when.earliest_ns for pod in group.pods)
            yield from (TimedPush(push, since_ns) for push in group.pushes)


class _Groups:
    """Makes placements of answers. Equal ones are one object: what follows from it is found out once."""

    def __init__(
        self,
        phases: Sequence[TimedPhase],
        losses: Losses,
        deletions: Mapping[str, Deletion],
        gone_ns: int,
    ) -> None:
        self._phases, self._losses = phases, losses
        self._deletions, self._gone_ns = deletions, gone_ns
        self._equal: dict[Placement, Placement] = {}
        # Alike groups have the same chances, as one object, and so the same placements, from the first to the last.
        self._known: dict[tuple[int, int, int, bool], Sequence[Placement]] = {}

    def of_all(
        self, groups: Iterable[Bounded], *, all_replaced: bool
    ) -> tuple[Mapping[str, Placement], Mapping[OwnerKey, Placement]]:
        """Those of who does not find a node at once, by pod and by owner: see ``Placements``; ``all_replaced``: who is deleted."""
        of_pod: dict[str, Placement] = {}
        of_owner: dict[OwnerKey, Placement] = {}
        by_owner: dict[OwnerKey, list[Bounded]] = {}
        for group in groups:
            by_owner.setdefault(owner_key(group.pods[0]), []).append(group)
        for owner, some in by_owner.items():
            for group in some:
                placements = self._of(group)
                if len(placements) > 1:
                    of_pod.update(zip(self._ordered(group), placements, strict=True))
                elif placements and all_replaced and len(some) == 1:
                    of_owner[owner] = placements[0]
                elif placements:
                    of_pod.update((pod.key, placements[0]) for pod in group.pods)
        # Not strings of their own are kept, but those of the deletions.
        return {key: of_pod[key] for key in self._deletions if key in of_pod}, of_owner

    def _ordered(self, group: Bounded) -> Iterable[str]:
        """Keys of its pods, by their turn."""
        deletions = self._deletions
        return sorted(
            (pod.key for pod in group.pods),
            key=lambda key: (not deletions[key].certain, deletions[key].when[1], key),
        )

    def _of(self, group: Bounded) -> Sequence[Placement]:
        """Of whoever comes first, second, …; one where it is the same for all, none where all find a node at once."""
        count = len(group.pods)
        # Who asks about some of them only must not be told the count of all.
        alike = all(one.now == one.later == count for one in group.chances) or _are_alike(group)
        token = id(group.chances), id(group.pods[0].tolerations), count, alike
        if (found := self._known.get(token)) is None:
            found = self._known[token] = self._by_rank(group, alike=alike)
        return found

    def _by_rank(self, group: Bounded, *, alike: bool) -> Sequence[Placement]:
        count = len(group.pods)
        # When its pods may come to which nodes that change.
        coming = [
            (phase.since_ns, chance.changing)
            for phase, chance in zip(self._phases, group.chances, strict=True)
        ]
        lost = self._losses.of(coming, group.pods[0].tolerations)
        assumed = any(chance.assumed for chance in group.chances)
        if not lost and not assumed and all(chance.now == count for chance in group.chances):
            return ()
        nowhere = not any(chance.most for chance in group.chances)

        def placement(rank: int) -> Placement:
            stages = tuple(_stages(group, self._phases, rank, alike=alike))
            found = Placement(stages, self._gone_ns, assumed, lost, nowhere)
            return self._equal.setdefault(found, found)

        # A later rank never fares better.
        if (first := placement(0)) is placement(count - 1):
            return (first,)
        return list(map(placement, range(count)))


def _are_alike(group: Bounded) -> bool:
    """Whether all of its pods have the same labels."""
    labels = group.pods[0].labels
    if len({id(pod.labels) for pod in group.pods}) == 1:
        return True
    return all(pod.labels == labels for pod in group.pods)


def _stages(
    group: Bounded, phases: Sequence[TimedPhase], rank: int, *, alike: bool
) -> Iterable[Stage]:
    placed_most, count = 0, len(group.pods)
    for phase, chance in zip(phases, group.chances, strict=True):
        # Who was placed before stays where it is; new places come only where nodes open.
        placed_most = placed_most + chance.most if phase.opens else max(placed_most, chance.most)
        may = chance.most > 0 and (rank < placed_most or not alike)
        least = rank if alike else count - 1
        yield Stage(phase.since_ns, phase.until_ns, may, least < chance.now, least < chance.later)


def _surroundings(
    change: Change,
    kinds: Sequence[NodeKind],
    distinct: Sequence[Deletion],
    ending: Sequence[Pod],
) -> tuple[Surroundings, tuple[TimedPhase, ...]]:
    """``distinct``: all deletions, alike ones once; ``ending``: pods on their way out at the start that end."""
    snapshot, evicted = change.snapshot, change.evicted
    stuck = _keys(change, distinct, [one for one in distinct if one.held])
    stay_ns = min((one.gone.earliest_ns for one in distinct if one.held), default=FOREVER_NS)
    if _overdue(change):
        stay_ns = 0
    gone = set(map(id, ending))
    if len(stuck) < len(evicted):
        gone.update([id(pod) for pod in evicted if pod.key not in stuck])
    instants = [one.when for one in distinct]
    first_ns = min(instants).earliest_ns
    then = later_nodes(
        snapshot.nodes,
        kinds,
        change.scenario.events,
        {pod.node_name for pod in evicted},
        (seconds(first_ns), seconds(_last(instants))),
    )
    phases = node_phases(kinds, {node.name for node in then.nodes}, first_ns)
    infrastructure = snapshot.infrastructure
    around = Surroundings(
        then.nodes,
        then.leaving,
        _running(change, gone),
        stuck,
        infrastructure,
        {one.name: one.labels for one in infrastructure.namespaces}
        if "Namespace" in snapshot.kinds_seen and "Namespace" not in snapshot.denied
        else None,
        snapshot.pods_of_all_namespaces,
        [replace(one.phase, stuck_stay=one.until_ns <= stay_ns) for one in phases],
        [*evicted, *ending],
        _keys(change, distinct, [one for one in distinct if not one.certain]),
        _waiting(snapshot),
        change.gated,
        published(snapshot, asked=change.storage_capacity),
    )
    return around, phases


def _keys(
    change: Change, distinct: Sequence[Deletion], some: Sequence[Deletion]
) -> Collection[str]:
    """Those of the pods of which a deletion is one of ``some``; ``distinct``: of all."""
    if len(some) == len(distinct):
        return change.deletions.keys()
    wanted = set(map(id, some))
    return {key for key, one in change.deletions.items() if id(one) in wanted} if wanted else set()


def _waiting(snapshot: ClusterSnapshot) -> Sequence[Pod]:
    """Pods that look for a node."""
    if "" not in snapshot.columns.distinct("node_name"):
        return ()
    return [pod for pod in snapshot.pods if not pod.node_name and not pod.finished]


def _running(change: Change, gone: Collection[int]) -> Sequence[Pod]:
    """Pods that have a node then; ``gone``: those that have not, by identity."""
    pods: Sequence[Pod] = change.snapshot.pods
    if gone:
        pods = [pod for pod in pods if id(pod) not in gone]
    if change.snapshot.columns.distinct("resized") != {None}:
        return [pod if pod.resized is None else _as_held(pod, change) for pod in pods]
    return pods


def _as_held(pod: Pod, change: Change) -> Pod:
    """The pod with what it holds of its node for what it needs."""
    if pod.resized is None or pod.needs is None:
        return pod
    held = pod.resized.held(change.resized_pods_hold)
    return pod if held is None else replace(pod, needs=replace(pod.needs, requests=held))


def _ending(change: Change) -> Iterator[tuple[Pod, int]]:
    """Pods that are on their way out at the start, on nodes that are heard, and when they are gone: their grace ends."""
    for pod in change.going:
        if pod.deletion_timestamp_ns is None or pod.key in change.deletions or pod.finalizers:
            continue
        ends_ns = pod.deletion_timestamp_ns - change.scenario.start_ns
        # Whoever is overdue is held by something that nobody knows.
        if ends_ns >= 0 and pod.node_name and pod.node_name not in change.lives:
            yield pod, ends_ns + REACTION_MAX_NS


def _overdue(change: Change) -> bool:
    """Whether any pod that should be gone by now is not: nobody knows what holds it, and for how long."""
    start_ns = change.scenario.start_ns
    return any(
        pod.deletion_timestamp_ns is not None
        and pod.deletion_timestamp_ns < start_ns
        and pod.key not in change.deletions
        and not pod.finished
        for pod in change.going
    )


def _cordon_first(change: Change) -> list[Drain]:
    """Drains that have cordoned before anybody looks for a place: their own evictions are the first."""
    return [
        event
        for event in drains_among(change.scenario.events)
        if all(
            pod.node_name in event.nodes and change.deletions[pod.key].controllers <= BY_DRAINS
            for pod in change.evicted
            if change.deletions[pod.key].when.earliest_ns < event.at_ns + REACTION_MAX_NS
        )
    ]


def _last(instants: list[Between]) -> int:
    """Return the latest instant that is one; of those that may never come the earliest."""
    return max(
        one.earliest_ns if one.latest_ns >= FOREVER_NS else one.latest_ns for one in instants
    )
