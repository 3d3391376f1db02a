"""What the scheduler asks of a pod's volumes: from where they can be reached, and whether they are free.

Upstream: VolumeBinding (``checkBoundClaims``, ``checkVolumeProvisions``), VolumeZone (``getPVbyPod``), VolumeRestrictions
(``calPreFilterState``), NodeVolumeLimits (``filterAttachableVolumes``) of 1.37; the same in 1.30. Where a volume is still to be made nothing surely
fits: the capacity that drivers publish (``storage_capacity``) refuses nodes, and does not promise that one is made.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.kube.infrastructure import (
    Infrastructure,
    PersistentVolume,
    PersistentVolumeClaim,
    Wishes,
)
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.node_filters import VolumeTerms
from kubectl_evictplan.kube.scheduling.storage_capacity import StorageRoom

# A class of it makes no volumes.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
# No node meets one of no terms.
_NOWHERE: VolumeTerms = ()


class DriverVolume(msgspec.Struct, frozen=True):
    """A volume that a driver attaches to a node."""

    driver: str
    name: str


class Reach(msgspec.Struct, frozen=True):
    """What the volumes of a pod ask of nodes.

    ``volumes``: the terms of each volume that is bound to some nodes, ``zones`` what labels of volumes ask,
    ``attached``: what counts against the limits of nodes, ``exclusive``: claims that one pod may use at a time.
    ``unknown``: there may be more.
    """

    volumes: tuple[VolumeTerms, ...] = ()
    unknown: bool = False
    zones: tuple[Wishes, ...] = ()
    attached: tuple[DriverVolume, ...] = ()
    exclusive: tuple[str, ...] = ()


class Volumes:
    """Looks up what the claims of pods lead to."""

    def __init__(self, infrastructure: Infrastructure, room: StorageRoom | None = None) -> None:
        self._claims_of = {(one.namespace, one.name): one for one in infrastructure.pod_claims}
        self._claims = {
            (one.namespace, one.name): one for one in infrastructure.persistent_volume_claims
        }
        self._volumes = {one.name: one for one in infrastructure.persistent_volumes}
        self._classes = {one.name: one for one in infrastructure.storage_classes}
        self._room = room
        # Only what some node limits tells pods apart: else each pod with a claim would be a group of its own.
        self._limited = frozenset(
            driver.name
            for node in infrastructure.csi_nodes
            for driver in node.drivers
            if driver.volumes_max is not None
        )
        self.any_exclusive = any(
            READ_WRITE_ONCE_POD in one.access_modes
            for one in infrastructure.persistent_volume_claims
        )
        self._unclaimed = any(not one.claim_name for one in infrastructure.persistent_volumes)

    def reach(self, pod: Pod) -> Reach:
        """Return what the volumes of a successor of the pod ask.

        Claims that go away with the pod are made anew for the successor.
        """
        of_pod = self._claims_of.get((pod.namespace, pod.name))
        found = Reach()
        for name in of_pod.claims if of_pod else ():
            claim = self._claims.get((pod.namespace, name))
            volume = self._volumes.get(claim.volume_name) if claim is not None else None
            ephemeral = of_pod is not None and name in of_pod.ephemeral
            if claim is not None and claim.being_deleted and not ephemeral:
                found = self._in_place_of(found, claim, pod)
            elif ephemeral or (claim is not None and not claim.volume_name):
                found = self._to_be_made(found, claim)
            elif claim is None or volume is None:
                found = replace(found, unknown=True)
            else:
                found = self._bound(found, claim, volume)
        return found

    def attached_by(self, pod: Pod) -> Iterable[DriverVolume]:
        """What a running pod has attached."""
        of_pod = self._claims_of.get((pod.namespace, pod.name))
        for name in of_pod.claims if of_pod else ():
            claim = self._claims.get((pod.namespace, name))
            if claim is not None:
                volume = self._volumes.get(claim.volume_name)
                yield from self._attached(volume) if volume else self._to_be_attached(claim)

    def exclusive_of(self, pod: Pod) -> Iterable[str]:
        """The claims of a pod that nobody else may use meanwhile, as "namespace/name"."""
        of_pod = self._claims_of.get((pod.namespace, pod.name))
        for name in of_pod.claims if of_pod else ():
            claim = self._claims.get((pod.namespace, name))
            if claim is not None:
                yield from _exclusive(claim)

    def _in_place_of(self, found: Reach, claim: PersistentVolumeClaim, pod: Pod) -> Reach:
        """A claim that is being deleted is refused (``podHasPVCs``); a StatefulSet makes its own anew once it is gone."""
        owner = pod.controller()
        own = owner is not None and owner.kind == "StatefulSet"
        if own and claim.name.endswith(f"-{pod.name}"):
            return self._to_be_made(found, claim)
        return replace(found, volumes=(*found.volumes, _NOWHERE))

    def _to_be_made(self, found: Reach, claim: PersistentVolumeClaim | None) -> Reach:
        """A claim without a volume: where one can be made, as far as its class says."""
        found = replace(found, unknown=True)
        kind = self._classes.get(claim.storage_class) if claim is not None else None
        if claim is None or kind is None or not kind.waits_for_consumer:
            return found
        terms: tuple[VolumeTerms, ...] = ()
        # A volume that is there already may be bound wherever it is.
        if not self._unclaimed:
            if kind.provisioner == NO_PROVISIONER:
                terms = (_NOWHERE,)
            else:
                room = self._room.terms(claim, kind) if self._room is not None else None
                asked = (kind.topologies or None, room)
                terms = tuple(one for one in asked if one is not None)
        return replace(
            found,
            volumes=(*found.volumes, *terms),
            attached=(*found.attached, *self._to_be_attached(claim)),
        )

    def _to_be_attached(self, claim: PersistentVolumeClaim) -> Iterable[DriverVolume]:
        kind = self._classes.get(claim.storage_class)
        if kind is not None and kind.provisioner in self._limited:
            yield DriverVolume(kind.provisioner, f"{claim.namespace}/{claim.name}")

    def _bound(self, found: Reach, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Reach:
        terms = volume.node_affinity
        # A term of which we read nothing (matchFields).
        unread = any(not wishes for wishes in terms)
        return Reach(
            (*found.volumes, *((terms,) if terms and not unread else ())),
            found.unknown or unread,
            (*found.zones, *((volume.zones,) if volume.zones else ())),
            (*found.attached, *self._attached(volume)),
            (*found.exclusive, *_exclusive(claim)),
        )

    def _attached(self, volume: PersistentVolume) -> Iterable[DriverVolume]:
        if volume.driver in self._limited:
            yield DriverVolume(volume.driver, volume.name)


def _exclusive(claim: PersistentVolumeClaim) -> Iterable[str]:
    if READ_WRITE_ONCE_POD in claim.access_modes:
        yield f"{claim.namespace}/{claim.name}"
