"""Objects from all inputs, put together: one of each, whatever file it came from.

Order of files, documents and items never shows in the result: everything is sorted, and an object
given twice must be the same object. Admission runs last, because the API server's flags may come
from any file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import msgspec

from kubectl_evictplan.errors import Problem
from kubectl_evictplan.kube.admission import admitted_tolerations
from kubectl_evictplan.kube.durations import MINUTE_NS
from kubectl_evictplan.kube.infrastructure import (
    FIELD_OF,
    CsiNode,
    EndpointSlice,
    Infrastructure,
    LeaderLease,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
    Service,
    StorageClass,
    StorageDriver,
    VolumeAttachment,
)
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    Lease,
    Node,
    Pod,
    PodDisruptionBudget,
    PodWebhook,
    Workload,
)
from kubectl_evictplan.sources import wire
from kubectl_evictplan.sources.control_plane import ControlPlaneEvidence
from kubectl_evictplan.sources.diagnostics import Diagnostics, Origin

Stored = (
    Node
    | Pod
    | Lease
    | Workload
    | PodDisruptionBudget
    | PodWebhook
    | LeaderLease
    | Namespace
    | Service
    | EndpointSlice
    | PersistentVolume
    | PersistentVolumeClaim
    | VolumeAttachment
    | StorageClass
    | CsiNode
    | StorageDriver
    | PodClaims
)
# Namespace ("" for what has none) and name.
Key = tuple[str, str]
# Where the time of a dump comes from that does not tell it.
NEWEST_RENEWAL = "newest lease renewal"
# By default a silent kubelet is noticed before that.
_NOTICED_BY_NS = MINUTE_NS


class Source(msgspec.Struct, frozen=True):
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
        # Files of captures that are no manifests, by what they are; the captures' names, and of
        # those that hold the pods of chosen namespaces.
        self.skipped: Counter[str] = Counter()
        self.captures: set[str] = set()
        self.captures_by_namespace: set[str] = set()
        # Kind, namespace and name of what people wrote.
        self.manifests: set[tuple[str, str, str]] = set()
        self.control_plane = ControlPlaneEvidence()
        self.taken_at_ns: int | None = None
        self.objects_seen = 0
        self._sources: dict[str, dict[Key, Source]] = defaultdict(dict)

    def add(self, kind: str, value: Stored, source: Source) -> bool:
        """Store an object of that kind; False when it was there already."""
        key = (getattr(value, "namespace", ""), value.name)
        present = self.stored[kind].setdefault(key, value)
        if present is not value and not self._supersedes(kind, key, value, source):
            return False
        self.stored[kind][key] = value
        self._sources[kind][key] = source
        return True

    def _supersedes(self, kind: str, key: Key, value: Stored, source: Source) -> bool:
        """Tell whether it is a newer state of what is there; what is odd about that is recorded.

        Tools capture pods by namespace and one by one, moments apart.
        """
        present, first = self.stored[kind][key], self._sources[kind][key]
        if not self._one_capture(first.origin.document.file, source.origin.document.file):
            self._repeated(kind, key, present == value, source)
            return False
        if present == value:
            return False
        subject = f"{kind} {'/'.join(part for part in key if part)}"
        message = "captured twice, and changed in between: the newer state counts"
        self.diagnostics.warning("captured-twice", message, subject)
        versions = [getattr(one, "resource_version", "") for one in (present, value)]
        return all(map(str.isdecimal, versions)) and int(versions[0]) < int(versions[1])

    def _one_capture(self, first: str, second: str) -> bool:
        roots = (name.rstrip("/") + "/" for name in self.captures)
        return any(first.startswith(root) and second.startswith(root) for root in roots)

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

    def ignore(self, kind: str, count: int = 1) -> None:
        """Count objects of a kind that does not matter."""
        self.ignored_kinds[kind] += count
        if self.diagnostics.strict:
            self.diagnostics.warning("unknown-kind", f"objects of kind {kind} are not read")

    def absorb(self, other: Assembly) -> None:
        """Add all that another one holds of kinds that this one has not seen."""
        for kind, values in other.stored.items():
            self.stored[kind].update(values)
            self._sources[kind].update(other._sources[kind])
        self.kinds_seen |= other.kinds_seen
        self.manifests |= other.manifests
        self.control_plane.absorb(other.control_plane)
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
        self.control_plane.add_known(snapshot.control_plane)
        self.taken_at_ns = max(snapshot.taken_at_ns, self.taken_at_ns or 0)
        self.objects_seen += 1

    def snapshot(self) -> ClusterSnapshot:
        """Return everything, sorted; warnings and digest are the caller's to add."""
        taken_at_ns, source = self._taken_at()
        flags, findings = self.control_plane.conclude(
            self.stored["LeaderLease"].values(), taken_at_ns
        )
        for finding in findings:
            self.diagnostics.warning(finding.code, finding.message)
        self._admit(flags)
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
        renewed = {
            name: lease.renew_time_ns
            for (_, name), lease in self.stored["Lease"].items()
            if lease.renew_time_ns is not None
        }
        if renewed:
            nodes = self.stored["Node"].values()
            ready = [node.name for node in nodes if node.ready_status == "True"]
            return _newest_believed(renewed, ready), NEWEST_RENEWAL
        # A deletionTimestamp lies in the future of the dump.
        past = [pod.creation_timestamp_ns for pod in self.stored["Pod"].values()]
        for node in self.stored["Node"].values():
            past += node.past_instants()
        newest = max(past, default=0)
        return newest, "newest timestamp of the objects" if newest else "unknown"


def _newest_believed(renewed_ns: Mapping[str, int], ready: Iterable[str]) -> int:
    """The newest renewal by a clock that is right.

    Nobody says for long that it is Ready and renews nothing: where one renewal makes that so of more nodes than it agrees with,
    the clock that wrote it is ahead.
    """
    every = sorted(renewed_ns.values())
    of_ready = sorted(renewed_ns[name] for name in ready if name in renewed_ns)
    for number, at_ns in enumerate(reversed(every)):
        since_ns = at_ns - _NOTICED_BY_NS
        heard = len(every) - number - bisect_left(every, since_ns)
        if bisect_left(of_ready, since_ns) <= heard:
            return at_ns
    return every[-1]
