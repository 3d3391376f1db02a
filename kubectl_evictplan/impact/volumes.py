"""Volumes of pods that go away: when a successor can have them, and which never move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.impact.rivals import Rival, Rivals
from kubectl_evictplan.impact.stretches import FOREVER_NS, NEVER, Between, last_of
from kubectl_evictplan.kube.durations import MINUTE_NS, SECOND_NS
from kubectl_evictplan.kube.infrastructure import (
    Infrastructure,
    PersistentVolume,
    PersistentVolumeClaim,
)
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.topology import HOSTNAME

# ``maxWaitForUnmountDuration`` of the attach-detach controller.
FORCE_DETACH_NS = 6 * MINUTE_NS
# A kubelet unmounts, and the volume is detached, within that: an assumption, storage systems differ.
DETACH_MAX_NS = 30 * SECOND_NS
SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
# Of these the node has them attached.
_ATTACHED = frozenset({"force-detach", "detach", "held"})

FORCE_DETACH, DETACH, NEVER_MOVES, LEFT_BEHIND, HELD, STILL_USED, DELETED, SHARED, UNKNOWN = (
    "force-detach",
    "detach",
    "never-moves",
    "left-behind",
    "held",
    "still-used",
    "deleted",
    "shared",
    "unknown",
)


class Hold(msgspec.Struct, frozen=True):
    """One claim of a pod that goes, and from when on it can be attached elsewhere.

    ``bound_here``: the scheduler knows that it can be used on its own node only, from ``here`` on.
    """

    claim: str
    code: str
    free: Between
    here: Between = NEVER
    bound_here: bool = False


class Volumes:
    """The claims of the input, by pod."""

    def __init__(self, infrastructure: Infrastructure, pods: Iterable[Pod]) -> None:
        """``pods`` may be those of a part of the cluster."""
        # Of a generic ephemeral volume the successor gets a claim of its own: nothing has to move.
        self._of_pod = {
            f"{one.namespace}/{one.name}": tuple(
                name for name in one.claims if name not in one.ephemeral
            )
            for one in infrastructure.pod_claims
        }
        self._claims = {
            (one.namespace, one.name): one for one in infrastructure.persistent_volume_claims
        }
        self._volumes = {one.name: one for one in infrastructure.persistent_volumes}
        self._mounted = {
            one.name for one in infrastructure.storage_drivers if not one.attach_required
        }
        self.rivals = Rivals(infrastructure.pod_claims, pods)

    @cached_property
    def claiming(self) -> frozenset[str]:
        """Keys of the pods that use claims which do not go away with them."""
        return frozenset(key for key, names in self._of_pod.items() if names)

    def claims_of(self, pod: Pod) -> tuple[str, ...]:
        """Names of the claims that the pod's volumes use, without those that go away with it."""
        return self._of_pod.get(pod.key, ()) if self._of_pod else ()

    def holds(
        self,
        pod: Pod,
        life: NodeLife,
        deletions: Mapping[str, Deletion],
        out_of_service: Between,
    ) -> list[Hold]:
        """When each claim of a pod that is deleted is free.

        ``deletions``: of all pods that are. ``out_of_service``: when its node gets that taint.
        """
        found, deletion = [], deletions[pod.key]
        for name in self.claims_of(pod):
            claim = self._claims.get((pod.namespace, name))
            code, free = self._free(claim, life, deletion, out_of_service)
            if code in _ATTACHED:
                rival = self.rivals.of(pod, name, life, deletions)
                code, free = _beside(rival, code, free)
            volume = self._volumes.get(claim.volume_name) if claim is not None else None
            bound = code == NEVER_MOVES and volume is not None and bool(volume.node_affinity)
            found.append(Hold(name, code, free, deletion.gone, bound))
        return found

    def _free(
        self,
        claim: PersistentVolumeClaim | None,
        life: NodeLife,
        deletion: Deletion,
        out_of_service: Between,
    ) -> tuple[str, Between]:
        volume = self._volumes.get(claim.volume_name) if claim is not None else None
        gone = deletion.gone
        if claim is not None and claim.being_deleted:
            return DELETED, gone
        if volume is not None and never_moves(volume):
            return NEVER_MOVES, NEVER
        modes = (volume.access_modes if volume is not None else ()) or (
            claim.access_modes if claim is not None else ()
        )
        if volume is not None and volume.host_path:
            return LEFT_BEHIND, deletion.when
        if SHARED_MODES & set(modes) or (volume is not None and self._is_mounted_only(volume)):
            return SHARED, deletion.when
        if claim is None:
            return UNKNOWN, Between(deletion.when.earliest_ns, FOREVER_NS)
        if deletion.held:
            return HELD, gone
        unheard = life.silent_at(gone.earliest_ns) is not None
        if not unheard and life.deleted.earliest_ns > gone.latest_ns:
            return DETACH, gone.later(0, DETACH_MAX_NS)
        if out_of_service.latest_ns < FOREVER_NS:
            return DETACH, last_of(gone, out_of_service).later(0, DETACH_MAX_NS)
        # Of a deleted Node the machine may have unmounted in good order.
        least_ns = FORCE_DETACH_NS if unheard and life.deleted.never else 0
        return FORCE_DETACH, gone.later(least_ns, FORCE_DETACH_NS + DETACH_MAX_NS)

    def _is_mounted_only(self, volume: PersistentVolume) -> bool:
        """Whether nothing is attached to nodes, so that nobody waits for another node (``CanAttach``)."""
        return volume.mounted_only or volume.driver in self._mounted


def _beside(rival: Rival, code: str, free: Between) -> tuple[str, Between]:
    """When a volume is free for a successor that other pods may use too."""
    if rival is Rival.SURELY:
        return STILL_USED, NEVER
    if rival is Rival.PERHAPS and code != HELD:
        return STILL_USED, free._replace(latest_ns=FOREVER_NS)
    return code, free


def never_moves(volume: PersistentVolume) -> bool:
    """Whether it lies on one node's own disk, or may only be used there."""
    if volume.local:
        return True
    terms = volume.node_affinity
    return bool(terms) and all(
        any(
            key == HOSTNAME and operator == "In" and len(values) == 1
            for key, operator, values in term
        )
        for term in terms
    )


def ready_not_before(holds: Iterable[Hold], *, placed: bool) -> Between | None:
    """When all of them are free; None where none is waited for.

    ``placed``: where the successor can run is told apart, so a volume that never moves is free on its own node.
    """
    waited = [
        hold.here if placed and hold.bound_here else hold.free
        for hold in holds
        if hold.code not in (SHARED, UNKNOWN, LEFT_BEHIND, DELETED)
    ]
    return last_of(*waited) if waited else None
