"""What becomes of each touched pod and of its place: when it is away, when nobody answers, when a successor is Ready."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple

import msgspec

from kubectl_evictplan.cluster.timeline import BY_DRAINS
from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.node_lives import NodeLife, Unready
from kubectl_evictplan.impact.placements import AT_ONCE, Placement
from kubectl_evictplan.impact.stretches import (
    FOREVER_NS,
    NEVER,
    NONE,
    Absence,
    Between,
    absence,
    first_of,
    last_of,
    together,
)
from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.kube.objects import FINISHED_PHASES, ClusterSnapshot, Pod
from kubectl_evictplan.kube.owners import OwnerKey

# Creating a pod and binding it takes at most that (ranges of ``engine/drain_timing.py``), and so does telling that it
# is Ready.
CREATION_MAX_NS = 350 * MILLISECOND_NS
TOLD_MAX_NS = 400 * MILLISECOND_NS
_NOTHING = NodeLife()


class Readiness(msgspec.Struct, frozen=True):
    """How long after it is bound a replacement is Ready; FOREVER_NS: perhaps never. ``source``: who says so."""

    least_ns: int
    most_ns: int
    source: str
    samples: int = 0


class Successor(msgspec.Struct, frozen=True):
    """What takes the place of a deleted pod; NEVER: nothing does. ``least_ns``: how long that takes at least.

    ``bound``: when it has a node, ``starts``: and its volumes.
    """

    created: Between = NEVER
    ready: Between = NEVER
    least_ns: int = 0
    bound: Between = NEVER
    starts: Between = NEVER


class Again(msgspec.Struct, frozen=True):
    """A successor may go in a window, and whoever follows it is Ready in another."""

    since: Between
    ready: Between


NOBODY = Successor(least_ns=FOREVER_NS)


class Moving(NamedTuple):
    """A pod that something happens to, with what is asked of it often."""

    key: str
    pod: Pod
    owner: OwnerKey
    deletion: Deletion | None


class SharedFate(msgspec.Struct, frozen=True, eq=False):
    """What becomes of a pod as far as alike pods share it, whatever their node. Theirs is one object.

    ``away``: neither it nor a successor is Ready. ``dead``: nobody answers for its place, whatever the API says; differs
    where a kubelet is silent. ``leaves``: when its endpoint stops being offered.
    """

    life: NodeLife
    successor: Successor
    away: Absence
    dead: Absence
    leaves: Between
    # At the start it is Ready and not on its way out.
    counted: bool
    # From when on the pod may run on beside its successor, where no kubelet can be told to end it.
    twice: Between | None


class Fate(NamedTuple):
    """What becomes of one pod that something happens to."""

    key: str
    pod: Pod
    owner: OwnerKey
    deletion: Deletion | None
    shared: SharedFate

    @property
    def life(self) -> NodeLife:
        """What happens to its node."""
        return self.shared.life

    @property
    def successor(self) -> Successor:
        """What takes its place."""
        return self.shared.successor

    @property
    def away(self) -> Absence:
        """When neither it nor a successor is Ready."""
        return self.shared.away

    @property
    def dead(self) -> Absence:
        """When nobody answers for its place."""
        return self.shared.dead

    @property
    def leaves(self) -> Between:
        """When its endpoint stops being offered."""
        return self.shared.leaves

    @property
    def counted(self) -> bool:
        """Whether it is there at the start."""
        return self.shared.counted

    @property
    def gain_ns(self) -> int | None:
        """From when on there may be one more than at the start: one that was not Ready has a successor, or recovers."""
        pod = self.pod
        if pod.ready == "True" or pod.finished:
            return None
        ready_ns = min(self.successor.ready.earliest_ns, self.life.recovers_ns)
        return ready_ns if ready_ns < FOREVER_NS else None

    def also_gone(self, gone: Absence, leaves: Between | None = None) -> Fate:
        """The same, but away and dead at other times as well; its endpoint may leave earlier."""
        known = self.shared
        changed = msgspec.structs.replace(
            known,
            away=together(known.away, gone),
            dead=together(known.dead, gone),
            leaves=known.leaves if leaves is None else first_of(known.leaves, leaves),
        )
        return self._replace(shared=changed)


deletion_of: Callable[[Moving | Fate], Deletion | None] = attrgetter("deletion")
owner_of: Callable[[Moving | Fate], OwnerKey] = attrgetter("owner")
node_name_of: Callable[[Moving | Fate], str] = attrgetter("pod.node_name")
shared_of: Callable[[Fate], SharedFate] = attrgetter("shared")
when_away: Callable[[Fate], Absence] = attrgetter("shared.away")
when_dead: Callable[[Fate], Absence] = attrgetter("shared.dead")
when_leaving: Callable[[Fate], Between] = attrgetter("shared.leaves")
# What follows from what alike pods share alone: it is asked of one for all of them.
OF_SHARED: frozenset[object] = frozenset({when_away, when_dead, when_leaving})


def is_counted(pod: Pod) -> bool:
    """Whether a pod counts as there at the start: Ready, not on its way out."""
    return pod.ready == "True" and pod.active


def how_many_counted(pods: Iterable[Pod]) -> int:
    """How many of these do."""
    return len([pod for pod in pods if is_counted(pod)])


def absent_at_start(snapshot: ClusterSnapshot) -> frozenset[int]:
    """Those of a cluster that do not, by identity: mostly none."""
    columns = snapshot.columns
    if (
        columns.distinct("ready") <= {"True"}
        and columns.distinct("deletion_timestamp_ns") <= {None}
        and FINISHED_PHASES.isdisjoint(columns.distinct("phase"))
    ):
        return frozenset()
    return frozenset([id(pod) for pod in snapshot.pods if not is_counted(pod)])


def ending_until_ns(pods: Iterable[Pod]) -> int:
    """Until when (since the epoch) pods that are Ready and on their way out at the start may answer; 0: there are none."""
    ends = [
        pod.deletion_timestamp_ns
        for pod in pods
        if pod.deletion_timestamp_ns is not None and pod.ready == "True" and not pod.finished
    ]
    return max(ends, default=0)


def fate_of(
    moving: Moving, life: NodeLife, successor: Successor, again: Sequence[Again] = ()
) -> Fate:
    """Put it together. ``again``: when a successor may be away once more (``again.py``)."""
    pod, deletion = moving.pod, moving.deletion
    leaves, twice = _leaves(life, deletion), _twice(life, deletion, successor)
    if not is_counted(pod):
        return Fate(*moving, SharedFate(life, successor, NONE, NONE, leaves, False, twice))
    parts = [_while_unready(unready, deletion, successor) for unready in life.unready]
    if deletion is not None:
        parts.append(
            absence(
                deletion.when,
                successor.ready,
                certain=deletion.certain,
                least_ns=successor.least_ns,
                together=going_together(deletion),
            )
        )
        parts.extend(absence(one.since, one.ready, certain=False) for one in again)
    away = together(*parts)
    dead = _dead(life, deletion, successor, away)
    return Fate(*moving, SharedFate(life, successor, away, dead, leaves, True, twice))


def end_at_deadlines(fates: dict[str, Fate], snapshot: ClusterSnapshot, start_ns: int) -> None:
    """Let pods be perhaps away from their own activeDeadlineSeconds on, unless they surely go before.

    The kubelet ends them then (``pastActiveDeadline`` of pkg/kubelet), and their owner, mostly a Job that counts it as
    a failure, makes another or not: nothing is promised.
    """
    if snapshot.columns.distinct("deadline_ns") <= {None}:
        return
    some = [(key, fate) for key, fate in fates.items() if fate.pod.deadline_ns is not None]
    for key, fate in some:
        deadline_ns, deletion = fate.pod.deadline_ns, fate.deletion
        if deadline_ns is None or not fate.counted:
            continue
        ends = Between(max(deadline_ns - start_ns, 0), FOREVER_NS)
        if deletion is not None and deletion.certain and deletion.when.latest_ns <= ends[0]:
            continue
        fates[key] = fate.also_gone(absence(ends, NEVER, certain=False), ends)


def _twice(life: NodeLife, deletion: Deletion | None, successor: Successor) -> Between | None:
    if deletion is None or successor.starts.never:
        return None
    # On its own node no second one starts: whoever is not heard does not hear either, and a volume that is attached
    # there holds those of other nodes back.
    silent = life.silent_at(successor.starts.earliest_ns) is not None
    return successor.starts if silent or not life.deleted.never else None


def going_together(deletion: Deletion) -> str | None:
    """What pods of one node have in common that go at one instant; a drain's pods go one by one: None.

    Their budgets and kubectl's requests decide when each does.
    """
    if not BY_DRAINS.isdisjoint(deletion.by):
        return None
    return _token(deletion.by, deletion.when)


def _token(by: object, since: Between) -> str:
    """What begins at one instant on one node, although nobody knows when: what one controller does there.

    A text, which is hashed once.
    """
    return f"{by} {since.earliest_ns} {since.latest_ns}"


def _leaves(life: NodeLife, deletion: Deletion | None) -> Between:
    found = [
        one.since if one.certain else one.since._replace(latest_ns=FOREVER_NS)
        for one in life.unready
    ]
    if deletion is not None:
        when = deletion.when
        found.append(when if deletion.certain else when._replace(latest_ns=FOREVER_NS))
    return first_of(*found) if found else NEVER


def _while_unready(unready: Unready, deletion: Deletion | None, successor: Successor) -> Absence:
    """The pod is marked not Ready with its node, until the node is back or a successor is Ready."""
    until = unready.until
    if deletion is not None and deletion.when.earliest_ns < until.latest_ns:
        ready = successor.ready
        if until.earliest_ns >= deletion.when.latest_ns and deletion.certain:
            until = ready
        else:
            latest_ns = max(until.latest_ns, ready.latest_ns)
            until = Between(min(until.earliest_ns, ready.earliest_ns), latest_ns)
    since = unready.since
    least_ns = max(until.earliest_ns - since.latest_ns, 0)
    token = _token("unready", since)
    return absence(since, until, certain=unready.certain, least_ns=least_ns, together=token)


def _dead(
    life: NodeLife, deletion: Deletion | None, successor: Successor, away: Absence
) -> Absence:
    """Nobody answers while the pod is away, and from the silence of its kubelet on."""
    parts = [away]
    for one in life.unanswered:
        end = one.until
        if deletion is not None and deletion.when.earliest_ns < end.latest_ns:
            ready = successor.ready
            latest_ns = ready.latest_ns if deletion.certain else FOREVER_NS
            end = first_of(end, Between(ready.earliest_ns, latest_ns))
        token = _token("silent", one.since)
        parts.append(absence(one.since, end, certain=True, together=token))
    if not life.deleted.never:
        # Whether the machine is gone with its Node object nobody can see.
        end = successor.ready if deletion is not None and deletion.certain else NEVER
        parts.append(absence(life.deleted, end, certain=False))
    return together(*parts)


def successor_after(
    begins: Between,
    readiness: Readiness,
    place: Placement = AT_ONCE,
    *,
    ready_not_before: Between | None = None,
) -> Successor:
    """A successor whose controller acts from ``begins`` on.

    ``place``: when it finds a node. ``ready_not_before``: its volumes are free then. Creating and binding takes up to
    0.35 s, telling that it is Ready up to 0.4 s more.
    """
    created = begins.later(0, CREATION_MAX_NS)
    start = bound = place.bound(created)
    if ready_not_before is not None:
        start = last_of(bound, ready_not_before)
    ready = start.later(readiness.least_ns, readiness.most_ns).later(0, TOLD_MAX_NS)
    return Successor(created, ready, readiness.least_ns, bound, start)


# -- who shares what becomes of them -----------------------------------------------------------------------


class Told(msgspec.Struct, frozen=True):
    """What fates follow from besides pods and their deletions.

    ``owners``: all of theirs; ``kind_of``: all that counts of one; ``place_of``: when a successor finds a node, None: at once, whoever it is. By key
    ``returning``: those that come back to their node, ``own``: those that nobody is like; by identity ``absent``: those that are
    not there at the start.
    """

    lives: Mapping[str, NodeLife]
    owners: Collection[OwnerKey]
    kind_of: Callable[[OwnerKey], Hashable]
    place_of: Callable[[str, OwnerKey], Placement] | None
    returning: Collection[str]
    absent: Collection[int]
    own: Collection[str]


def alike(moving: Sequence[Moving], told: Told) -> Iterable[Hashable]:
    """Yield for each pod something that is equal for alike ones. By columns: most are the same for all."""
    # Owners of one kind, and deletions that differ in their ends only, have one number.
    numbers: dict[Hashable, int] = {}
    kinds = {owner: numbers.setdefault(told.kind_of(owner), len(numbers)) for owner in told.owners}
    deletions = {id(one): one for one in map(deletion_of, moving)}
    likes = {
        at: numbers.setdefault(_without_end(deletion), len(numbers))
        for at, deletion in deletions.items()
    }
    lives, absent, place_of = told.lives, told.absent, told.place_of
    columns: list[Iterable[object]] = [
        map(id, map(lives.get, map(node_name_of, moving), repeat(_NOTHING))),
        map(kinds.__getitem__, map(owner_of, moving)),
        map(likes.__getitem__, map(id, map(deletion_of, moving))),
    ]
    if absent:
        columns.append([id(one.pod) in absent for one in moving])
    if told.own:
        columns.append([one.key in told.own for one in moving])
    if told.returning:
        columns.append([one.pod.node_name if one.key in told.returning else "" for one in moving])
    if place_of is not None:
        columns.append([id(place_of(one.key, one.owner)) for one in moving])
    return zip(*columns, strict=True)


def what_they_meet_with(fates: Sequence[Fate]) -> Hashable:
    """Equal for pods that share, one by one, all but their names, their nodes where the others do, and when their objects end.

    By identity: to be compared among the fates of one world.
    """
    shared, names = list(map(id, map(shared_of, fates))), list(map(node_name_of, fates))
    together: tuple[int, ...] = ()
    if len(set(names)) < len(names):
        together = tuple(map(names.index, names))
    else:
        shared.sort()
    # Those that are not there at the start may become Ready.
    gains = tuple([one.gain_ns for one in fates if not one.shared.counted])
    return tuple(shared), together, gains


def _without_end(deletion: Deletion | None) -> str:
    """All of a deletion but the end of the object, which owners that replace at once do not wait for."""
    if deletion is None:
        return ""
    when = deletion.when
    return f"{when} {deletion.certain} {deletion.by} {deletion.taint} {deletion.tolerated_seconds}"
