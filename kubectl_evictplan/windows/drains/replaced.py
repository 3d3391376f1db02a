"""Pods that owners replace: whom of them a node has to be asked about is found without asking each about each node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from kubectl_evictplan.cluster.placement import tolerates_cordon
from kubectl_evictplan.controllers.replication import REPLACED, owner_key
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.others import OtherEvents
from kubectl_evictplan.windows.drains.world import (
    DrainWorld,
    active_pods,
    orphans,
    short_owners,
)

OwnerKey = tuple[str, str, str]


class ReplacedPods:
    """Always in the order given. ``refilled`` are owners that may make a pod at any time, ``others`` what else than drains happens.

    ``created``: by the scenario, after ``pods``.
    """

    def __init__(
        self,
        pods: Sequence[Pod],
        created: Sequence[Pod],
        refilled: Collection[OwnerKey],
        others: OtherEvents,
    ) -> None:
        self._others = others
        self._refilled = refilled
        self._unbound = {pod.key for pod in pods if not pod.node_name}
        self._pods: list[Pod] = []
        self._missing: list[int] = []
        self._of_node: dict[str, list[int]] = {}
        self._of_owner: dict[OwnerKey, list[int]] = {}
        for pod in (*pods, *created):
            owner = owner_key(pod)
            if owner is None or owner[0] not in REPLACED:
                continue
            place = len(self._pods)
            self._pods.append(pod)
            self._of_node.setdefault(pod.node_name, []).append(place)
            self._of_owner.setdefault(owner, []).append(place)
            if self.is_missing(pod, owner):
                self._missing.append(place)

    def is_missing(self, pod: Pod, owner: OwnerKey) -> bool:
        """Whether one like it may be made at any time, whatever becomes of it."""
        return owner in self._refilled or pod.key in self._unbound

    def perhaps_coming(
        self, early: Iterable[str], *, calm: bool, for_ever: bool, cordoned: bool
    ) -> Iterator[Pod]:
        """All that may be made anew on some node that kubectl cordons.

        ``early``: nodes of which pods may be evicted before that, ``calm``: nothing else happens before, ``for_ever``: nor later;
        ``cordoned``: the node has been since before the start.
        """
        places = set(self._tolerant)
        if not cordoned:
            places.update(self._missing)
            for name in early:
                places.update(self._of_node.get(name, ()))
            if not calm:
                places.update(range(len(self._pods)) if for_ever else self._touched)
        return self._in_order(places)

    def whoever(self) -> Sequence[Pod]:
        """Every pod that may be made anew."""
        return self._pods

    def of_owners(self, owners: Iterable[OwnerKey]) -> Iterator[Pod]:
        """Every pod of these owners."""
        return self._in_order(place for owner in owners for place in self._of_owner[owner])

    def _in_order(self, places: Iterable[int]) -> Iterator[Pod]:
        return (self._pods[place] for place in sorted(places))

    @cached_property
    def _tolerant(self) -> Sequence[int]:
        """Whom a cordon does not keep away."""
        # Pods of a template share their tolerations.
        known: dict[int, bool] = {}
        found = []
        for place, pod in enumerate(self._pods):
            tolerates = known.get(id(pod.tolerations))
            if tolerates is None:
                tolerates = known[id(pod.tolerations)] = tolerates_cordon(pod)
            if tolerates:
                found.append(place)
        return found

    @cached_property
    def _touched(self) -> Sequence[int]:
        """Whom somebody else than kubectl may delete."""
        alone = self._others.leave_alone
        return [place for place, pod in enumerate(self._pods) if not alone(pod)]


def refilled_owners(world: DrainWorld) -> set[OwnerKey]:
    """Owners of which a pod may be made at any time, because they lack one, or will soon."""
    homeless = orphans(world.snapshot, world.snapshot.pods)
    return {*short_owners(world.snapshot), *_left_by_some(world), *_owners_of(homeless)}


def _owners_of(pods: Iterable[Pod]) -> set[tuple[str, str, str]]:
    return {key for pod in pods if (key := owner_key(pod)) is not None}


def _left_by_some(world: DrainWorld) -> set[tuple[str, str, str]]:
    """Owners of terminating pods of which it is not certain that they have made another one already."""
    active = active_pods(world.snapshot)
    whole = {
        key
        for one in world.snapshot.workloads
        if one.kind != "Job"
        and active[key := (one.kind, one.namespace, one.name)] >= (one.replicas or 0)
    }
    leaving = {
        owner_key(pod) for pod in world.snapshot.pods if pod.deletion_timestamp_ns is not None
    }
    return {key for key in leaving if key is not None and key not in whole}
