"""Objects from all inputs, put together: one of each, whatever file it came from.

Order of files, documents and items never shows in the result: everything is sorted, and an object
given twice must be the same object. Admission runs last, because the API server's flags may come
from any file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from kubectl_evictplan.errors import Problem
from kubectl_evictplan.kube.admission import admitted_tolerations, default_toleration_flags
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
from kubectl_evictplan.sources import control_plane
from kubectl_evictplan.sources.diagnostics import Diagnostics, Document

Key = tuple[str, ...]
SortKey = TypeVar("SortKey", str, tuple[str, str], tuple[str, ...])
Stored = TypeVar("Stored", Node, Pod, Lease, Workload, PodDisruptionBudget, DeleteWebhook)


class Source(NamedTuple):
    """Which item of which document an object came from."""

    document: Document
    item: int


class Assembly:
    """Collects the objects; ``snapshot`` returns them."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.nodes: dict[str, Node] = {}
        self.pods: dict[tuple[str, str], Pod] = {}
        self.leases: dict[str, Lease] = {}
        self.workloads: dict[Key, Workload] = {}
        self.budgets: dict[Key, PodDisruptionBudget] = {}
        self.webhooks: dict[Key, DeleteWebhook] = {}
        self.kinds_seen: set[str] = set()
        self.ignored_kinds: dict[str, int] = {}
        self.denied: set[str] = set()
        self.manifests: set[tuple[str, ...]] = set()
        self.instances: list[control_plane.Instance] = []
        self.leader_acquire_times: list[int] = []
        self.kubelet_versions: set[str] = set()
        self.taken_at_ns: int | None = None
        self.objects_seen = 0
        self._sources: dict[Key, Source] = {}

    def add_pod(self, pod: Pod, source: Source) -> bool:
        """Store a pod; hot, so the key is not built twice. False when it was there already."""
        key = (pod.namespace, pod.name)
        present = self.pods.setdefault(key, pod)
        if present is not pod:
            self._repeated("Pod", key, present == pod, source)
            return False
        self._sources["Pod", pod.namespace, pod.name] = source
        return True

    def add_node(self, node: Node, source: Source) -> bool:
        """Store a node; False when it was there already, as for the other kinds."""
        return self._add("Node", (node.name,), self.nodes, node.name, node, source)

    def add_lease(self, lease: Lease, source: Source) -> bool:
        """Store a node's lease."""
        return self._add("Lease", (lease.name,), self.leases, lease.name, lease, source)

    def add_workload(self, workload: Workload, source: Source) -> bool:
        """Store an owner of pods."""
        key = (workload.kind, workload.namespace, workload.name)
        return self._add(workload.kind, key[1:], self.workloads, key, workload, source)

    def add_budget(self, budget: PodDisruptionBudget, source: Source) -> bool:
        """Store a disruption budget."""
        key = (budget.namespace, budget.name)
        return self._add("PodDisruptionBudget", key, self.budgets, key, budget, source)

    def add_webhook(self, kind: str, webhook: DeleteWebhook, source: Source) -> bool:
        """Store a webhook of a configuration of that kind ("": of a snapshot)."""
        key = (kind, webhook.name)
        return self._add(kind, key[1:], self.webhooks, key, webhook, source)

    def _add(
        self,
        kind: str,
        name: Key,
        stored: dict[str, Stored] | dict[Key, Stored],
        key: str | Key,
        value: Stored,
        source: Source,
    ) -> bool:
        present = stored.setdefault(key, value)  # type: ignore[arg-type]
        if present is not value:
            self._repeated(kind, name, present == value, source)
            return False
        self._sources[(kind, *name)] = source
        return True

    def _repeated(self, kind: str, name: Key, identical: bool, source: Source) -> None:
        subject = f"{kind} {'/'.join(name)}"
        first = self._sources[(kind, *name)]
        if identical and source.document.file != first.document.file:
            self.diagnostics.warning("loaded-once", "given twice with equal content", subject)
            return
        origin, other = source.document.origin(source.item), first.document.origin(first.item)
        # In one file its name says too little: the lines, or the numbers of the items, say more.
        same_file = origin.document.file == other.document.file
        path = ("metadata",) if same_file else ()
        place = " ".join(part for part in (other.location(path), other.place) if part)
        message = "given twice" if identical else "given twice with different content"
        message += f", first in {place}"
        if same_file and origin.place:
            message += f", again in {origin.place}"
        problem = Problem(message, location=origin.location(path), subject=subject)
        self.diagnostics.add(problem)

    def ignore(self, kind: str) -> None:
        """Count an object of a kind that does not matter."""
        self.ignored_kinds[kind] = self.ignored_kinds.get(kind, 0) + 1
        if self.diagnostics.strict:
            self.diagnostics.warning("unknown-kind", f"objects of kind {kind} are not read")

    def add_snapshot(self, snapshot: ClusterSnapshot, document: Document) -> None:
        """Add all of one of our own snapshots; it may be mixed with manifests."""
        source = Source(document, -1)
        for node in snapshot.nodes:
            self.add_node(node, source)
        for pod in snapshot.pods:
            self.add_pod(pod, source)
        for lease in snapshot.leases.values():
            self.add_lease(lease, source)
        for workload in snapshot.workloads:
            self.add_workload(workload, source)
        for budget in snapshot.budgets:
            self.add_budget(budget, source)
        for webhook in snapshot.webhooks:
            self.add_webhook("", webhook, source)
        self.kinds_seen.update(snapshot.kinds_seen)
        self.denied.update(snapshot.denied)
        for kind, count in snapshot.ignored_kinds.items():
            self.ignored_kinds[kind] = self.ignored_kinds.get(kind, 0) + count
        self.add_control_plane(snapshot.control_plane)
        self.taken_at_ns = max(snapshot.taken_at_ns, self.taken_at_ns or 0)
        self.objects_seen += 1

    def add_control_plane(self, flags: ControlPlaneFlags) -> None:
        """Add what is known of the control plane as if one replica of each had told it."""
        if flags.controller_manager or flags.kubernetes_version:
            self.instances.append(
                control_plane.Instance(
                    control_plane.CONTROLLER_MANAGER,
                    flags.kubernetes_version,
                    flags.controller_manager,
                )
            )
        if flags.api_server:
            self.instances.append(
                control_plane.Instance(control_plane.API_SERVER, "", flags.api_server)
            )
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
        return ClusterSnapshot(
            nodes=_sorted(self.nodes),
            pods=_sorted(self.pods),
            leases=dict(sorted(self.leases.items())),
            workloads=_sorted(self.workloads),
            budgets=_sorted(self.budgets),
            webhooks=_sorted(self.webhooks),
            taken_at_ns=taken_at_ns,
            taken_at_source=source,
            control_plane=flags,
            kinds_seen=tuple(sorted(self.kinds_seen)),
            ignored_kinds=dict(sorted(self.ignored_kinds.items())),
            denied=tuple(sorted(self.denied)),
        )

    def _admit(self, flags: ControlPlaneFlags) -> None:
        """Give hand-written pods what a cluster would have given them."""
        defaults = default_toleration_flags(flags)
        for kind, *name in self.manifests:
            if kind != "Pod":
                continue
            key = (name[0], name[1])
            pod = self.pods[key]
            controller = pod.controller()
            tolerations = admitted_tolerations(
                pod.tolerations,
                daemon_set=controller is not None and controller.kind == "DaemonSet",
                static=pod.mirror or pod.config_source == "file",
                host_network=pod.host_network,
                api_server_flags=defaults,
            )
            self.pods[key] = msgspec.structs.replace(pod, tolerations=tolerations)

    def _taken_at(self) -> tuple[int, str]:
        if self.taken_at_ns is not None:
            return self.taken_at_ns, "snapshot"
        renewed = max(_known(lease.renew_time_ns for lease in self.leases.values()), default=None)
        if renewed is not None:
            return renewed, "newest lease renewal"
        newest = max(self._timestamps(), default=0)
        return newest, "newest timestamp of the objects" if newest else "unknown"

    def _timestamps(self) -> Iterable[int]:
        """Yield every time in the past of the dump; a deletionTimestamp lies in its future."""
        for node in self.nodes.values():
            yield from node.past_instants()
        for pod in self.pods.values():
            yield pod.creation_timestamp_ns


def _known(times: Iterable[int | None]) -> Iterable[int]:
    return (ns for ns in times if ns is not None)


def _sorted(stored: Mapping[SortKey, Stored]) -> tuple[Stored, ...]:
    return tuple(stored[key] for key in sorted(stored))
