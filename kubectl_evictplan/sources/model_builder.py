"""From decoded API objects to the model's values; identical parts are built once and shared.

Hot code: ``pod`` runs for every pod of the cluster. Labels, tolerations and owners arrive as
bytes and are decoded once per distinct text; timestamps once per distinct string. Nothing is
validated per pod that can be validated per distinct value.
"""

from __future__ import annotations

import msgspec

from kubectl_evictplan.kube.objects import (
    DeleteWebhook,
    Lease,
    Node,
    NodeCondition,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    Taint,
    Toleration,
    Workload,
)
from kubectl_evictplan.kube.timestamps import is_leap_second, parse_rfc3339_ns
from kubectl_evictplan.sources import wire

GRACE_PERIOD_DEFAULT_SECONDS = 30
LEASE_DURATION_DEFAULT_SECONDS = 40
MEMO_SIZE_MAX = 200_000

_NO_POD_SPEC = wire.PodSpec()
_NO_POD_STATUS = wire.PodStatus()
_NO_NODE_SPEC = wire.NodeSpec()
_NO_NODE_STATUS = wire.NodeStatus()
_NO_LEASE_SPEC = wire.LeaseSpec()
_NO_WORKLOAD_SPEC = wire.WorkloadSpec()
_NO_BUDGET_SPEC = wire.BudgetSpec()
_NO_BUDGET_STATUS = wire.BudgetStatus()
_NO_ANNOTATIONS = wire.Annotations()


class BadTimestamp(ValueError):
    """A timestamp that cannot be read; the caller finds its field."""


class ModelBuilder:
    """Builds model objects and remembers the parts that repeat."""

    def __init__(self) -> None:
        self._times: dict[str, int | None] = {}
        self._strings: dict[str, str] = {}
        self._labels: dict[bytes, dict[str, str]] = {}
        self._tolerations: dict[bytes, tuple[Toleration, ...]] = {}
        self._toleration_values: dict[tuple[Toleration, ...], tuple[Toleration, ...]] = {}
        self._owners: dict[bytes, tuple[OwnerReference, ...]] = {}
        self.leap_seconds = 0

    def time(self, text: str | None) -> int | None:
        """Return nanoseconds or None; raises BadTimestamp."""
        if not text:
            return None
        try:
            return self._times[text]
        except KeyError:
            pass
        try:
            ns = parse_rfc3339_ns(text)
        except ValueError as error:
            raise BadTimestamp(str(error)) from None
        self.leap_seconds += is_leap_second(text)
        if len(self._times) > MEMO_SIZE_MAX:
            self._times.clear()
        self._times[text] = ns
        return ns

    def shared(self, text: str | None) -> str:
        """Return one string object for equal strings."""
        return self._strings.setdefault(text, text) if text else ""

    def labels(self, raw: msgspec.Raw) -> dict[str, str]:
        """Return labels; callers must not change them, equal ones are one object."""
        key = bytes(raw)
        found = self._labels.get(key)
        if found is None:
            shared = self.shared
            decoded = wire.LABELS.decode(key) or {}
            found = {shared(name): shared(value) for name, value in decoded.items()}
            if len(self._labels) > MEMO_SIZE_MAX:
                self._labels.clear()
            self._labels[key] = found
        return found

    def tolerations(self, raw: msgspec.Raw) -> tuple[Toleration, ...]:
        """Return tolerations in their order, which decides; equal lists are one object."""
        key = bytes(raw)
        found = self._tolerations.get(key)
        if found is None:
            shared = self.shared
            found = tuple(
                Toleration(
                    shared(item.key),
                    shared(item.operator),
                    shared(item.value),
                    shared(item.effect),
                    item.toleration_seconds,
                )
                for item in wire.TOLERATIONS.decode(key) or ()
            )
            found = self._toleration_values.setdefault(found, found)
            self._tolerations[key] = found
        return found

    def owners(self, raw: msgspec.Raw) -> tuple[OwnerReference, ...]:
        """Return owner references, one object for the pods of one owner."""
        key = bytes(raw)
        found = self._owners.get(key)
        if found is None:
            shared = self.shared
            found = tuple(
                OwnerReference(
                    shared(item.kind),
                    shared(item.name),
                    shared(item.uid),
                    shared(item.api_version),
                    bool(item.controller),
                )
                for item in wire.OWNERS.decode(key) or ()
            )
            self._owners[key] = found
        return found

    def pod(self, decoded: wire.WirePod) -> Pod:
        """Return the pod as stored; ``phase`` is defaulted from the binding when absent."""
        meta = decoded.metadata
        spec = decoded.spec or _NO_POD_SPEC
        status = decoded.status or _NO_POD_STATUS
        annotations = meta.annotations or _NO_ANNOTATIONS
        shared, time = self.shared, self.time
        ready = None
        for condition in status.conditions or ():
            if condition.type == "Ready":
                ready = shared(condition.status)
                break
        grace = spec.termination_grace_period_seconds
        return Pod(
            shared(meta.namespace),
            meta.name or "",
            meta.uid or "",
            meta.resource_version or "",
            self.labels(meta.labels),
            shared(spec.node_name),
            self.tolerations(spec.tolerations),
            GRACE_PERIOD_DEFAULT_SECONDS if grace is None else grace,
            shared(status.phase) or ("Running" if spec.node_name else "Pending"),
            ready,
            time(meta.creation_timestamp) or 0,
            time(meta.deletion_timestamp),
            meta.deletion_grace_period_seconds,
            tuple(meta.finalizers) if meta.finalizers else (),
            self.owners(meta.owner_references),
            shared(annotations.config_source),
            annotations.config_mirror is not None,
            spec.host_network is True,
            spec.volumes is not None
            and any(volume.empty_dir is not None for volume in spec.volumes),
            _has_duplicates(spec.containers) or _has_duplicates(spec.init_containers),
            shared(status.reason),
        )

    def node(self, decoded: wire.WireNode) -> Node:
        """Return the node as stored, taints and conditions in their order."""
        meta = decoded.metadata
        spec = decoded.spec or _NO_NODE_SPEC
        status = decoded.status or _NO_NODE_STATUS
        return Node(
            self.shared(meta.name),
            meta.uid or "",
            meta.resource_version or "",
            self.labels(meta.labels),
            self.time(meta.creation_timestamp) or 0,
            self.time(meta.deletion_timestamp),
            tuple(self._taint(taint) for taint in spec.taints or ()),
            bool(spec.unschedulable),
            tuple(self._condition(condition) for condition in status.conditions or ()),
            self._taints_changed(meta),
        )

    def _taint(self, taint: wire.WireTaint) -> Taint:
        shared = self.shared
        return Taint(
            shared(taint.key),
            shared(taint.effect),
            shared(taint.value),
            self.time(taint.time_added),
        )

    def _condition(self, condition: wire.WireCondition) -> NodeCondition:
        return NodeCondition(
            self.shared(condition.type),
            self.shared(condition.status),
            self.time(condition.last_heartbeat_time),
            self.time(condition.last_transition_time),
            self.shared(condition.reason),
        )

    def _taints_changed(self, meta: wire.NodeMeta) -> int | None:
        times = [
            ns
            for entry in meta.managed_fields or ()
            if (ns := self.time(entry.time)) is not None
            if entry.fields_v1 and entry.fields_v1.spec and entry.fields_v1.spec.taints is not None
        ]
        return max(times, default=None)

    def lease(self, decoded: wire.WireLease) -> Lease:
        """Return a node's lease; without a possible duration it has kubelet's 40 s."""
        spec = decoded.spec or _NO_LEASE_SPEC
        return Lease(
            self.shared(decoded.metadata.name),
            self.time(spec.renew_time),
            max(spec.lease_duration_seconds or 0, 0) or LEASE_DURATION_DEFAULT_SECONDS,
            self.shared(spec.holder_identity),
        )

    def workload(self, kind: str, decoded: wire.WireWorkload) -> Workload:
        """Return the owner; ``replicas`` is what it wants, None for a DaemonSet."""
        meta, spec = decoded.metadata, decoded.spec or _NO_WORKLOAD_SPEC
        replicas: int | None = None
        if kind != "DaemonSet":
            wanted = spec.parallelism if kind == "Job" else spec.replicas
            replicas = 1 if wanted is None else wanted
        return Workload(
            kind,
            self.shared(meta.namespace),
            self.shared(meta.name),
            meta.uid or "",
            replicas,
            self.owners(meta.owner_references),
        )

    def webhooks(self, decoded: wire.WireWebhooks) -> list[DeleteWebhook]:
        """Return those of a configuration that are asked about the deletion of pods."""
        return [
            DeleteWebhook(
                f"{decoded.metadata.name}/{webhook.name}",
                _wishes(webhook.object_selector),
                _wishes(webhook.namespace_selector),
            )
            for webhook in decoded.webhooks or ()
            if _asks_about_deleted_pods(webhook)
        ]

    def budget(self, decoded: wire.WireBudget) -> PodDisruptionBudget:
        """Return the budget; policy/v1beta1 reads an empty selector as one that selects nothing."""
        meta, spec = decoded.metadata, decoded.spec or _NO_BUDGET_SPEC
        status = decoded.status or _NO_BUDGET_STATUS
        selector = spec.selector
        old = decoded.api_version == "policy/v1beta1"
        if selector and old and not (selector.match_labels or selector.match_expressions):
            selector = None
        return PodDisruptionBudget(
            self.shared(meta.namespace),
            self.shared(meta.name),
            None if selector is None else dict(sorted((selector.match_labels or {}).items())),
            _expressions(selector),
            status.disruptions_allowed,
            status.current_healthy,
            status.desired_healthy,
        )


def _asks_about_deleted_pods(webhook: wire.Webhook) -> bool:
    """Tell whether a rule covers DELETE of pods; versions and scope leave nothing out."""
    return any(
        {"", "*"} & set(rule.api_groups or ())
        and {"DELETE", "*"} & set(rule.operations or ())
        and {"pods", "pods/*", "*", "*/*"} & set(rule.resources or ())
        for rule in webhook.rules or ()
    )


def _wishes(selector: wire.LabelSelector | None) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the parts of a selector that all must hold; a null one selects everything."""
    labels = (selector.match_labels if selector else None) or {}
    wanted = ((key, "In", (value,)) for key, value in sorted(labels.items()))
    return (*wanted, *_expressions(selector))


def _expressions(
    selector: wire.LabelSelector | None,
) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    expressions = (selector.match_expressions if selector else None) or ()
    return tuple(
        (item.key or "", item.operator or "", tuple(item.values or ())) for item in expressions
    )


def _has_duplicates(containers: list[wire.Container] | None) -> bool:
    """Tell whether one container names an env variable or a port and protocol twice."""
    for container in containers or ():
        env, ports = container.env, container.ports
        if env and len(env) > 1 and len({item.name for item in env}) != len(env):
            return True
        if ports and len(ports) > 1:
            keys = {(port.container_port, port.protocol or "TCP") for port in ports}
            if len(keys) != len(ports):
                return True
    return False
