"""When evicted pods have Ready replacements, so that their budgets count somebody in their stead."""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.cluster.placement import Elsewhere
from kubectl_evictplan.cluster.rooms import Room, Rooms, room_key
from kubectl_evictplan.controllers.replication import (
    PARALLEL,
    REPLACED,
    STATEFUL_SET,
    owner_key,
)
from kubectl_evictplan.engine.drain_timing import Latency
from kubectl_evictplan.kube.drain_filters import DrainOptions
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.owners import AT_ONCE_READY, available_after
from kubectl_evictplan.windows.drains.allowance import PERHAPS_NEVER_NS
from kubectl_evictplan.windows.drains.covered import CoveredPods, OwnerKey
from kubectl_evictplan.windows.drains.delays import (
    AT_ONCE,
    FORGOTTEN_NS,
    Range,
    pod_delays,
    recovery,
    takes,
)

# The Job controller's back-off and its finalizers are not followed here.
_REPLACED = REPLACED - {"Job"}


class Recoveries:
    """Of all pods that are drained; ``elsewhere`` are the nodes that no process drains."""

    def __init__(self, covered: CoveredPods, elsewhere: Elsewhere, rooms: Rooms) -> None:
        self._covered = covered
        self._elsewhere = elsewhere
        self._rooms = rooms
        workloads = covered.world.snapshot.workloads
        self._workloads = {(one.kind, one.namespace, one.name): one for one in workloads}

    def between(self, pods: Sequence[Pod], options: DrainOptions, spare: int) -> Range | None:
        """From the eviction of any of the pods, which one budget covers, to the return of its disruption; None: never.

        ``spare``: so many of them may be away at one time.
        """
        found = {self._of_one(pod, options, spare, pods) for pod in pods}
        known = [one for one in found if one is not None]
        if not known:
            return None
        latest_ns = max(high for _, high in known)
        if len(known) < len(found):
            latest_ns = PERHAPS_NEVER_NS
        return min(low for low, _ in known), latest_ns

    def number(self, pods: Sequence[Pod]) -> int:
        """How many of the pods are replaced, where that is certain; else all, and the latest instant says perhaps."""
        places = {self._rooms.group_of.get(room_key(pod)) for pod in pods}
        place = next(iter(places), None)
        if len(places) > 1 or place is None:
            return len(pods)
        room = self._rooms.rooms[place]
        return room.most if room.least == room.most else len(pods)

    def is_sure(self, pod: Pod) -> bool:
        """Whether somebody makes the pod anew, some day, and there is a node for it."""
        owner, covered = owner_key(pod), self._covered
        if owner is None or owner[0] not in _REPLACED or owner in covered.unsure:
            return False
        if owner[0] == STATEFUL_SET and not self._is_made_in_the_end(pod, owner):
            return False
        place = self._rooms.group_of.get(room_key(pod))
        if place is not None:
            return self._rooms.rooms[place].least >= self._wanting(place)
        return self._elsewhere.takes(pod)

    def latest_ns(self, pod: Pod, options: DrainOptions) -> int | None:
        """From the last eviction of all that may be away to when the pod's replacement is counted, at most; None: not known.

        Of a StatefulSet in order any number of pods may be away: each is made when the one before it goes on.
        """
        owner, (_, ready_ns) = owner_key(pod), self._covered.ready.range_of(pod)
        if ready_ns is None or owner is None or not self.is_sure(pod):
            return None
        if owner[0] != STATEFUL_SET:
            return recovery(AT_ONCE, (0, ready_ns))[1] + takes(Latency.DELETE)[1]
        gone = pod_delays(pod, options).gone
        own = self._covered.of_owner(owner)
        if gone is None or any(one.deletion_timestamp_ns is not None for one in own):
            return None
        availability = self._covered.world.configuration.profile.stateful_set_availability
        available = available_after(self._workloads.get(owner), availability)
        away = self._away(own) if self.goes_in_order(pod) else 1
        latest_ns = gone[1] + away * (recovery(AT_ONCE, (0, ready_ns))[1] + available[1])
        if gone == AT_ONCE:
            latest_ns = max(latest_ns, FORGOTTEN_NS)
        return latest_ns + takes(Latency.DELETE)[1]

    def back_by_ns(self, pod: Pod, options: DrainOptions) -> int | None:
        """``latest_ns``, from the deletion of the last one on: who takes a disruption is deleted a moment later."""
        latest_ns = self.latest_ns(pod, options)
        return None if latest_ns is None else latest_ns - takes(Latency.DELETE)[1]

    def earliest_ns(self, pod: Pod) -> int:
        """From the deletion of a pod to when another one may be counted in its stead, at least."""
        least_ns, _ = self._covered.ready.range_of(pod)
        return recovery(AT_ONCE, (least_ns, least_ns))[0]

    def goes_in_order(self, pod: Pod) -> bool:
        """Whether its StatefulSet makes nobody before all with lower ordinals are available."""
        owner = owner_key(pod)
        if owner is None or owner[0] != STATEFUL_SET:
            return False
        known = self._workloads.get(owner)
        return known is None or known.pod_management_policy != PARALLEL

    def _away(self, own: Sequence[Pod]) -> int:
        """How many of a set may be away at one time."""
        going = self._covered.drained_keys
        return sum(1 for pod in own if pod.key in going or pod.ready != "True")

    def _is_made_in_the_end(self, pod: Pod, owner: OwnerKey) -> bool:
        own = self._covered.of_owner(owner)
        ready = all(one.ready == "True" or self._covered.is_starting(one) for one in own)
        return not pod.finalizers and ready and all(map(self._covered.has_node, own))

    def _of_one(
        self, pod: Pod, options: DrainOptions, spare: int, beside: Sequence[Pod]
    ) -> Range | None:
        owner, (ready_ns, ready_latest_ns) = owner_key(pod), self._covered.ready.range_of(pod)
        if owner is None:
            return None
        place = self._rooms.group_of.get(room_key(pod))
        room = self._rooms.rooms[place] if place is not None else None
        if room.most == 0 if room is not None else not self._elsewhere.takes(pod):
            return None
        stateful = owner[0] == STATEFUL_SET
        gone = pod_delays(pod, options).gone
        fastest, slowest = recovery(
            gone if stateful and gone else AT_ONCE, (ready_ns, ready_latest_ns or ready_ns)
        )
        if stateful and gone == AT_ONCE:
            # Who comes back under its name before the budget is synced is taken for the one that is about to go.
            slowest = max(slowest, FORGOTTEN_NS)
        sure = (
            owner[0] in _REPLACED
            and ready_latest_ns is not None
            and owner not in self._covered.unsure
            and (room is None or self._has_room(room, place, len(beside)))
            and (not stateful or (gone is not None and self._is_made_at_once(owner, spare, beside)))
        )
        return fastest, slowest if sure else PERHAPS_NEVER_NS

    def _wanting(self, place: int | None) -> int:
        """How many drained pods want a node of this room; a StatefulSet's share one, each under its name."""
        group_of = self._rooms.group_of
        return sum(1 for pod in self._covered.drained if group_of.get(room_key(pod)) == place)

    def _has_room(self, room: Room, place: int | None, number: int) -> bool:
        """Whether it is certain how many of so many pods find a node, beside all others that want to."""
        wanting = self._wanting(place)
        return room.least >= wanting or (room.least == room.most and wanting == number)

    def _is_made_at_once(self, owner: OwnerKey, spare: int, beside: Sequence[Pod]) -> bool:
        """Whether a StatefulSet waits for nobody but the old pod: all others are Ready, or it does not ask.

        ``spare`` limits only how many of ``beside`` are away, the pods that are asked for at the same budget.
        """
        covered = self._covered
        known = self._workloads.get(owner)
        if known is not None and known.pod_management_policy == PARALLEL:
            return True
        availability = covered.world.configuration.profile.stateful_set_availability
        if available_after(known, availability) != AT_ONCE_READY:
            # Whether the others are Ready for long enough is not followed here.
            return False
        own = covered.of_owner(owner)
        if not all(pod.ready == "True" and covered.is_settled(pod) for pod in own):
            return False
        going = {pod.key for pod in own} & covered.drained_keys
        one_budget = {pod.key for pod in beside if len(covered.covering(pod)) == 1}
        return len(going) <= 1 or (spare <= 1 and going <= one_budget)
