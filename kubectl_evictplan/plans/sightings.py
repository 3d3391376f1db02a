"""Everything that was seen of a cluster, in any order, and what each pod's history is by that.

``PodHistories`` is a fold without memory of order: looks that overlap, repeat or come late change nothing.
A pod that vanished while nobody looked was deleted between the last look that had it and the first that
had not; nothing more is claimed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator

import msgspec

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.sightings import Interval, SeenEvent, SeenNode, SeenPod
from kubectl_evictplan.plans.event_evidence import Deletion, EventIndex


class Cover(msgspec.Struct, frozen=True):
    """Which pods a look would have shown; None: those of all namespaces, of all nodes."""

    namespaces: frozenset[str] | None = None
    nodes: frozenset[str] | None = None

    def holds(self, pod: SeenPod) -> bool:
        """Tell whether the pod would have been shown, had it been there."""
        return (self.namespaces is None or pod.namespace in self.namespaces) and (
            self.nodes is None or pod.node in self.nodes
        )


class Look(msgspec.Struct, frozen=True):
    """Pods and nodes as they were at one instant of ``at``; None: not looked at.

    ``unreadable_pods`` (UIDs) and ``unreadable_nodes`` (names) were there, or may have been, and could not be
    read; "" is one of which not even that could be told, so it may be any.
    """

    at: Interval
    pods: tuple[SeenPod, ...] | None = None
    nodes: tuple[SeenNode, ...] | None = None
    cover: Cover = Cover()
    unreadable_pods: frozenset[str] = frozenset()
    unreadable_nodes: frozenset[str] = frozenset()

    def lacks_pod(self, pod: SeenPod) -> bool:
        """Tell whether the pod would have been shown, had it been there, and was not."""
        hidden = self.unreadable_pods
        return self.cover.holds(pod) and "" not in hidden and pod.uid not in hidden

    def may_hide_node(self, name: str) -> bool:
        """Tell whether the node may have been there although it is not shown."""
        return "" in self.unreadable_nodes or name in self.unreadable_nodes


class Change(msgspec.Struct, frozen=True):
    """One change that a watch told: it happened in ``at``. ``gone``: the object is no more."""

    at: Interval
    pod: SeenPod
    gone: bool = False


class Gap(msgspec.Struct, frozen=True):
    """From when to when nobody could look."""

    at: Interval
    why: str


class OwnDeletion(msgspec.Struct, frozen=True):
    """A pod that we evicted ourselves: from sending to the answer; and when we found it gone."""

    uid: str
    at: Interval | None
    gone: Interval | None = None


class Sightings(msgspec.Struct, frozen=True):
    """All that was seen. ``not_evaluated``: kinds that may not be read, with the server's words.

    ``unreadable``: how many objects of each kind were told and could not be read.
    """

    looks: tuple[Look, ...] = ()
    changes: tuple[Change, ...] = ()
    events: tuple[SeenEvent, ...] = ()
    gaps: tuple[Gap, ...] = ()
    not_evaluated: dict[str, str] = {}
    own: tuple[OwnDeletion, ...] = ()
    unreadable: dict[str, int] = {}

    @property
    def until_ns(self) -> int:
        """Until when anybody looked, at least; 0 when nobody did."""
        return max((look.at.earliest_ns for look in self.looks), default=0)

    @property
    def looked(self) -> Interval | None:
        """From when to when anybody looked; None when nobody did."""
        if not self.looks:
            return None
        return Interval(
            min(look.at.earliest_ns for look in self.looks),
            max(look.at.latest_ns for look in self.looks),
        )


class PodHistory(msgspec.Struct, frozen=True):
    """One pod's history: what is known of its end.

    ``alive_ns``: it had not been deleted then. ``there_ns``: its object was there then, deleted or not.
    ``gone``: when the object ended, None while it is there or nobody looked. ``disruption`` is the first
    reason that its condition DisruptionTarget had.
    """

    pod: SeenPod
    alive_ns: int | None
    there_ns: int | None
    deletion: Deletion | None
    gone: Interval | None
    disruption: str
    finished_first: bool


class _Seen:
    """What was seen of one pod object."""

    def __init__(self) -> None:
        self.sightings: list[tuple[Interval, SeenPod]] = []
        self.ends: list[Interval] = []
        # When it was there by somebody else's word, and what is known of it then.
        self.known: tuple[int, SeenPod] | None = None

    def newest(self) -> SeenPod:
        """Return what is known of it, by the last sighting if there is one."""
        if not self.sightings:
            assert self.known is not None
            return self.known[1]
        return max(self.sightings, key=lambda one: (one[0].earliest_ns, _rank(one[1])))[1]


def _rank(pod: SeenPod) -> tuple[bool, bool, str]:
    """Order states of one pod that were seen at the same time: nothing of a deletion is undone."""
    return (pod.deletion_timestamp_ns is not None, bool(pod.disruption), pod.disruption)


class PodHistories:
    """The histories of all pods that were seen, or that are ``known`` to have been there, by UID."""

    def __init__(
        self, sightings: Sightings, known: Collection[SeenPod] = (), known_at_ns: int = 0
    ) -> None:
        self.oddities: Counter[str] = Counter()
        self._seen: dict[str, _Seen] = defaultdict(_Seen)
        self._looks = [look for look in sightings.looks if look.pods is not None]
        self._shown = [frozenset(pod.uid for pod in look.pods or ()) for look in self._looks]
        for look in self._looks:
            for pod in look.pods or ():
                self._add(look.at, pod)
        for change in sightings.changes:
            self._add(change.at, change.pod)
            if change.gone:
                self._seen[change.pod.uid].ends.append(change.at)
        seen = set(self._seen).union(*(look.unreadable_pods for look in self._looks))
        for pod in known:
            self._seen[pod.uid].known = (known_at_ns, pod)
        if self._looks and known and seen.isdisjoint(pod.uid for pod in known):
            # Perhaps all are gone; perhaps it is another cluster.
            self.oddities["no-known-pod"] += len(known)
        self._own = {one.uid: one for one in sightings.own}
        for one in sightings.own:
            if one.gone is not None and one.uid in self._seen:
                self._seen[one.uid].ends.append(one.gone)
        self._events = EventIndex(sightings.events, self._pods())
        self.by_uid = {uid: self._history(uid, seen) for uid, seen in sorted(self._seen.items())}

    def _add(self, at: Interval, pod: SeenPod) -> None:
        if not pod.uid:
            self.oddities["pod-without-uid"] += 1
            return
        self._seen[pod.uid].sightings.append((at, pod))

    def _pods(self) -> Iterable[SeenPod]:
        return [seen.newest() for seen in self._seen.values()]

    def _history(self, uid: str, seen: _Seen) -> PodHistory:
        pod = seen.newest()
        since_ns = seen.known[0] if seen.known else pod.created_ns
        undeleted = [at for at, one in seen.sightings if one.deletion_timestamp_ns is None]
        alive_ns = max((at.earliest_ns for at in undeleted), default=None)
        there_ns = max((at.earliest_ns for at, _ in seen.sightings), default=None)
        last_ns = since_ns if there_ns is None else max(there_ns, since_ns)
        gone = self._gone(pod, uid, seen, last_ns)
        deletion = self._deletion(seen, pod, alive_ns, since_ns, gone)
        finished = any(
            one.finished and one.deletion_timestamp_ns is None for _, one in seen.sightings
        )
        gone = _not_before(deletion, gone)
        return PodHistory(pod, alive_ns, there_ns, deletion, gone, self._disruption(seen), finished)

    def _gone(self, pod: SeenPod, uid: str, seen: _Seen, last_ns: int) -> Interval | None:
        missing = [
            look.at.latest_ns
            for look, shown in zip(self._looks, self._shown, strict=True)
            if uid not in shown and look.at.latest_ns >= last_ns and look.lacks_pod(pod)
        ]
        by_look = Interval(last_ns, min(missing)) if missing else None
        told = min(seen.ends, default=None)
        if told is None or by_look is None:
            return told or by_look
        return told.common(by_look) or told

    def _deletion(
        self,
        seen: _Seen,
        pod: SeenPod,
        alive_ns: int | None,
        since_ns: int,
        gone: Interval | None,
    ) -> Deletion | None:
        """Return the first DELETE, by the best there is to tell it."""
        marked = [(at, known) for at, one in seen.sightings if (known := one.deleted())]
        if marked:
            told = min(known for _, known in marked)
            shown_ns = min(at.latest_ns for at, _ in marked)
            return Deletion(self._agreed(told, alive_ns, shown_ns), None, "deletion-timestamp")
        own = self._own.get(pod.uid)
        if own is not None and own.at is not None:
            return Deletion(own.at, None, "operation")
        if gone is None:
            return None
        last_ns = since_ns if alive_ns is None else max(alive_ns, since_ns)
        vanished = Interval(min(last_ns, gone.latest_ns), gone.latest_ns)
        return self._events.deletion(pod, vanished)

    def _agreed(self, told: Interval, alive_ns: int | None, shown_ns: int) -> Interval:
        """Return the deletion by its timestamp; wider where the clocks of two servers disagree."""
        since_ns = told.earliest_ns if alive_ns is None else alive_ns
        seen = Interval(min(since_ns, shown_ns), shown_ns)
        # Looks are timed by whole seconds as well.
        if told.meets(Interval(seen.earliest_ns - SECOND_NS, seen.latest_ns + SECOND_NS)):
            return told
        self.oddities["clocks-disagree"] += 1
        return Interval(
            min(told.earliest_ns, seen.earliest_ns), max(told.latest_ns, seen.latest_ns)
        )

    def _disruption(self, seen: _Seen) -> str:
        """Return the first reason: who marks a pod that is being deleted anyway overwrites it."""
        marked = sorted((at.earliest_ns, one.disruption) for at, one in seen.sightings)
        return next((reason for _, reason in marked if reason), "")

    def named(self, key: str) -> Iterator[PodHistory]:
        """Yield the histories of all objects that had this name, oldest first."""
        found = [one for one in self.by_uid.values() if one.pod.key == key]
        yield from sorted(found, key=lambda one: (one.pod.created_ns, one.pod.uid))


def _not_before(deletion: Deletion | None, gone: Interval | None) -> Interval | None:
    """Return when a pod was gone: no object ends before it is deleted."""
    if deletion is None or gone is None:
        return gone
    since_ns = max(gone.earliest_ns, deletion.sure.earliest_ns)
    return Interval(min(since_ns, gone.latest_ns), gone.latest_ns)
