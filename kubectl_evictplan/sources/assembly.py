"""Objects from all inputs, put together: one of each, whatever file it came from.

Order of files, documents and items never shows in the result: everything is sorted, and an object
given twice must be the same object. Admission runs last, because the API server's flags may come
from any file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from kubectl_evictplan.errors import Problem
from kubectl_evictplan.kube.admission import admitted_tolerations
from kubectl_evictplan.kube.infrastructure import (
    FIELD_OF,
    EndpointSlice,
    Infrastructure,
    LeaderLease,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
    Service,
    VolumeAttachment,
)
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    DeleteWebhook,
    Lease,
    Node,
    Pod,
    PodDisruptionBudget,
    Workload,
)
from kubectl_evictplan.sources import control_plane, wire
from kubectl_evictplan.sources.diagnostics import Diagnostics, Origin

Stored = (
    Node
    | Pod
    | Lease
    | Workload
    | PodDisruptionBudget
    | DeleteWebhook
    | LeaderLease
    | Namespace
    | Service
    | EndpointSlice
    | PersistentVolume
    | PersistentVolumeClaim
    | VolumeAttachment
    | PodClaims
)
# Namespace ("" for what has none) and name.
Key = tuple[str, str]


class Source(NamedTuple):
    """Which item of which list an object came from, or which object (-1)."""

    origin: Origin
    item: int = -1


# Where a snapshot keeps each kind.
_PARTS = {
    "nodes": ("Node",),
    "pods": ("Pod",),
    "leases": ("Lease",),
    "workloads": tuple(sorted(wire.WORKLOAD_KINDS)),
    "budgets": ("PodDisruptionBudget",),
    "webhooks": ("", *sorted(wire.WEBHOOK_KINDS)),
}


class Assembly:
    """Collects the objects; ``snapshot`` returns them."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.stored: dict[str, dict[Key, Any]] = defaultdict(dict)
        self.kinds_seen: set[str] = set()
        self.ignored_kinds: Counter[str] = Counter()
        self.denied: set[str] = set()
        # Kind, namespace and name of what people wrote.
        self.manifests: set[tuple[str, str, str]] = set()
        self.instances: list[control_plane.Instance] = []
        self.leader_acquire_times: list[int] = []
        self.kubelet_versions: set[str] = set()
        self.taken_at_ns: int | None = None
        self.objects_seen = 0
        self._sources: dict[str, dict[Key, Source]] = defaultdict(dict)

    def add(self, kind: str, value: Stored, source: Source) -> bool:
        """Store an object of that kind; False when it was there already."""
        key = (getattr(value, "namespace", ""), value.name)
        present = self.stored[kind].setdefault(key, value)
        if present is not value:
            self._repeated(kind, key, present == value, source)
            return False
        self._sources[kind][key] = source
        return True

    def _repeated(self, kind: str, key: Key, identical: bool, source: Source) -> None:
        subject = f"{kind} {'/'.join(part for part in key if part)}"
        first = self._sources[kind][key]
        file, first_file = source.origin.document.file, first.origin.document.file
        if identical and file != first_file:
            self.diagnostics.warning("loaded-once", "given twice with equal content", subject)
            return
        origin, other = source.origin.item(source.item), first.origin.item(first.item)
        # In one file its name says too little: the lines, or the numbers of the items, say more.
        path = ("metadata",) if file == first_file else ()
        place = " ".join(part for part in (other.location(path), other.place) if part)
        message = "given twice" if identical else "given twice with different content"
        message += f", first in {place}"
        if path and origin.place:
            message += f", again in {origin.place}"
        self.diagnostics.add(Problem(message, location=origin.location(path), subject=subject))

    def ignore(self, kind: str) -> None:
        """Count an object of a kind that does not matter."""
        self.ignored_kinds[kind] += 1
        if self.diagnostics.strict:
            self.diagnostics.warning("unknown-kind", f"objects of kind {kind} are not read")

    def absorb(self, other: Assembly) -> None:
        """Add all that another one holds of kinds that this one has not seen."""
        for kind, values in other.stored.items():
            self.stored[kind].update(values)
            self._sources[kind].update(other._sources[kind])
        self.kinds_seen |= other.kinds_seen
        self.manifests |= other.manifests
        self.instances += other.instances
        self.leader_acquire_times += other.leader_acquire_times
        self.kubelet_versions |= other.kubelet_versions
        self.objects_seen += other.objects_seen
        self.ignored_kinds += other.ignored_kinds
        self.diagnostics.absorb(other.diagnostics)

    def add_snapshot(self, snapshot: ClusterSnapshot, origin: Origin) -> None:
        """Add all of one of our own snapshots; it may be mixed with manifests."""
        source = Source(origin)
        for part, kinds in _PARTS.items():
            values = getattr(snapshot, part)
            for value in values.values() if part == "leases" else values:
                self.add(getattr(value, "kind", kinds[0]), value, source)
        for kind, part in FIELD_OF.items():
            for value in getattr(snapshot.infrastructure, part):
                self.add(kind, value, source)
        self.kinds_seen.update(snapshot.kinds_seen)
        self.denied.update(snapshot.denied)
        for kind, count in snapshot.ignored_kinds.items():
            self.ignored_kinds[kind] += count
        self.add_control_plane(snapshot.control_plane)
        self.taken_at_ns = max(snapshot.taken_at_ns, self.taken_at_ns or 0)
        self.objects_seen += 1

    def add_control_plane(self, flags: ControlPlaneFlags) -> None:
        """Add what is known of the control plane as if one replica of each had told it."""
        instance = control_plane.Instance
        if flags.controller_manager or flags.kubernetes_version:
            version, words = flags.kubernetes_version, flags.controller_manager
            self.instances.append(instance(control_plane.CONTROLLER_MANAGER, version, words))
        if flags.api_server:
            self.instances.append(instance(control_plane.API_SERVER, "", flags.api_server))
        self.kubelet_versions.add(flags.newest_kubelet_version)
        if flags.leader_acquire_time_ns is not None:
            self.leader_acquire_times.append(flags.leader_acquire_time_ns)

    def snapshot(self) -> ClusterSnapshot:
        """Return everything, sorted; warnings and digest are the caller's to add."""
        flags, disputes = control_plane.agree(
            self.instances,
            max(self.leader_acquire_times, default=None),
            self.kubelet_versions,
        )
        for dispute in disputes:
            self.diagnostics.warning("control-plane-conflict", dispute)
        self._admit(flags)
        taken_at_ns, source = self._taken_at()
        parts: dict[str, Any] = {part: self._sorted(kinds) for part, kinds in _PARTS.items()}
        parts["leases"] = {lease.name: lease for lease in parts["leases"]}
        return ClusterSnapshot(
            **parts,
            taken_at_ns=taken_at_ns,
            taken_at_source=source,
            control_plane=flags,
            kinds_seen=tuple(sorted(self.kinds_seen)),
            ignored_kinds=dict(sorted(self.ignored_kinds.items())),
            denied=tuple(sorted(self.denied)),
            infrastructure=Infrastructure(
                **{part: self._sorted([kind]) for kind, part in FIELD_OF.items()}
            ),
        )

    def _sorted(self, kinds: Iterable[str]) -> tuple[Any, ...]:
        return tuple(
            value
            for kind in kinds
            for _, value in sorted(self.stored[kind].items(), key=itemgetter(0))
        )

    def _admit(self, flags: ControlPlaneFlags) -> None:
        """Give hand-written pods what a cluster would have given them."""
        pods = self.stored["Pod"]
        for kind, *key in self.manifests:
            if kind != "Pod":
                continue
            pod = pods[key[0], key[1]]
            controller = pod.controller()
            tolerations = admitted_tolerations(
                pod.tolerations,
                daemon_set=controller is not None and controller.kind == "DaemonSet",
                static=pod.mirror or pod.config_source == "file",
                host_network=pod.host_network,
                api_server_flags=flags.api_server,
            )
            pods[key[0], key[1]] = msgspec.structs.replace(pod, tolerations=tolerations)

    def _taken_at(self) -> tuple[int, str]:
        if self.taken_at_ns is not None:
            return self.taken_at_ns, "snapshot"
        leases = self.stored["Lease"].values()
        renewed = [lease.renew_time_ns for lease in leases if lease.renew_time_ns is not None]
        if renewed:
            return max(renewed), "newest lease renewal"
        # A deletionTimestamp lies in the future of the dump.
        past = [pod.creation_timestamp_ns for pod in self.stored["Pod"].values()]
        for node in self.stored["Node"].values():
            past += node.past_instants()
        newest = max(past, default=0)
        return newest, "newest timestamp of the objects" if newest else "unknown"
