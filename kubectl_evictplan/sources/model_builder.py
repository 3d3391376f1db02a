"""From decoded API objects to the model's values; identical parts are built once and shared.

Hot code: ``pod`` runs for every pod of the cluster. Labels, tolerations and owners arrive as
bytes and are decoded once per distinct text; timestamps once per distinct string. Nothing is
validated per pod that can be validated per distinct value.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import (
    FailureRule,
    IntOrPercent,
    Lease,
    Node,
    NodeCondition,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodWebhook,
    Revisions,
    Taint,
    Toleration,
    Workload,
)
from kubectl_evictplan.kube.pod_requests import ContainerRequests, in_order
from kubectl_evictplan.kube.timestamps import is_leap_second, parse_rfc3339_ns
from kubectl_evictplan.kube.validation import parse_int64
from kubectl_evictplan.sources import wire, wire_control_plane, wire_needs
from kubectl_evictplan.sources.needs_builder import NeedsBuilder, amounts
from kubectl_evictplan.sources.resize_builder import ResizeBuilder

GRACE_PERIOD_DEFAULT_SECONDS = 30
LEASE_DURATION_DEFAULT_SECONDS = 40
MEMO_SIZE_MAX = 200_000

K = TypeVar("K")
T = TypeVar("T")


class BadTimestamp(ValueError):
    """A timestamp that cannot be read; the caller finds its field."""


class _Memo(dict[K, T]):
    """What texts mean, built once for each."""

    def __init__(self, build: Callable[[K], T]) -> None:
        self._build = build

    def __missing__(self, text: K) -> T:
        value = self._build(text)
        if len(self) > MEMO_SIZE_MAX:
            self.clear()
        self[text] = value
        return value


# The value of spec.managedBy that means kube-controller-manager.
JOB_CONTROLLER = "kubernetes.io/job-controller"


class ModelBuilder:
    """Builds model objects and remembers the parts that repeat.

    ``labels``, ``tolerations`` and ``owners`` read such a part from its bytes; nobody may change it.
    Two lists of equal tolerations are one object. ``times`` reads a timestamp as nanoseconds, None
    when it is unset; raises BadTimestamp.
    """

    def __init__(self) -> None:
        self.leap_seconds = 0
        self.times = _Memo(self._time)
        self.labels = _Memo(_labels)
        self.tolerations = _Memo(self._tolerations)
        self.owners = _Memo(_owners)
        self.allocatable: dict[bytes, dict[str, int]] = _Memo(_sorted_amounts)
        needs = NeedsBuilder()
        self.needs, self.requested = needs.needs, needs.requested
        self._resized = ResizeBuilder(needs).resized
        self._equal_tolerations: dict[tuple[Toleration, ...], tuple[Toleration, ...]] = {}

    def _time(self, text: str) -> int | None:
        if not text:
            return None
        try:
            ns = parse_rfc3339_ns(text)
        except ValueError as error:
            raise BadTimestamp(str(error)) from None
        self.leap_seconds += is_leap_second(text)
        return ns

    def _tolerations(self, raw: bytes) -> tuple[Toleration, ...]:
        found = tuple(one.toleration() for one in wire.TOLERATIONS.decode(raw) or ())
        return self._equal_tolerations.setdefault(found, found)

    def pod(self, decoded: wire.WirePod) -> Pod:
        """Return the pod as stored; ``phase`` is defaulted from the binding when absent."""
        meta, spec, status = decoded.metadata, decoded.spec, decoded.status
        shared, times = sys.intern, self.times
        created_ns, ready = times[meta.creation_timestamp] or 0, None
        after_seconds = bound_after_seconds = None
        for condition in status.conditions:
            if condition.type == "Ready":
                ready = shared(condition.status)
                if ready == "True":
                    after_seconds = self._seconds_after(created_ns, condition)
            elif condition.type == "PodScheduled" and condition.status == "True":
                bound_after_seconds = self._seconds_after(created_ns, condition)
        grace = spec.termination_grace_period_seconds
        needs = self.needs(spec)
        return Pod(
            shared(meta.namespace),
            meta.name,
            meta.uid,
            meta.resource_version,
            self.labels[bytes(meta.labels)],
            shared(spec.node_name),
            self.tolerations[bytes(spec.tolerations)],
            GRACE_PERIOD_DEFAULT_SECONDS if grace is None else grace,
            shared(status.phase) or ("Running" if spec.node_name else "Pending"),
            ready,
            created_ns,
            times[meta.deletion_timestamp],
            meta.deletion_grace_period_seconds,
            meta.finalizers,
            self.owners[bytes(meta.owner_references)],
            shared(meta.annotations.config_source),
            meta.annotations.config_mirror is not None,
            spec.host_network,
            _has_empty_dir(spec.volumes),
            _has_duplicates(spec.containers)
            or (bool(spec.init_containers) and _has_duplicates(spec.init_containers)),
            shared(status.reason),
            needs,
            after_seconds,
            None if needs is None else self._resized(decoded, needs.requests),
            _int32(meta.annotations.index_failures),
            _int32(meta.annotations.index_failures_ignored),
            self._ends_ns(spec.active_deadline_seconds, status.start_time),
            bound_after_seconds if (bound_after_seconds or 0) > 1 else None,
        )

    def _seconds_after(self, created_ns: int, condition: wire.PodCondition) -> int | None:
        """How long after the creation it became what it is; None where that is not known, or a clock ran behind."""
        since_ns = self.times[condition.last_transition_time] or 0
        return (since_ns - created_ns) // SECOND_NS if since_ns >= created_ns > 0 else None

    def _ends_ns(self, seconds: int | None, started: str) -> int | None:
        """When activeDeadlineSeconds are over; None without any, or before it was started."""
        since_ns = None if seconds is None else self.times[started]
        return (
            None if since_ns is None or seconds is None else since_ns + max(seconds, 0) * SECOND_NS
        )

    def node(self, decoded: wire.WireNode) -> Node:
        """Return the node as stored, taints and conditions in their order."""
        meta, times, shared = decoded.metadata, self.times, sys.intern
        taints_changed = [
            ns
            for entry in meta.managed_fields
            if (ns := times[entry.time]) is not None
            if entry.fields_v1 and entry.fields_v1.spec and entry.fields_v1.spec.taints is not None
        ]
        return Node(
            shared(meta.name),
            meta.uid,
            meta.resource_version,
            self.labels[bytes(meta.labels)],
            times[meta.creation_timestamp] or 0,
            times[meta.deletion_timestamp],
            tuple(
                Taint(shared(one.key), shared(one.effect), shared(one.value), times[one.time_added])
                for one in decoded.spec.taints
            ),
            decoded.spec.unschedulable,
            tuple(
                NodeCondition(
                    shared(one.type),
                    shared(one.status),
                    times[one.last_heartbeat_time],
                    times[one.last_transition_time],
                    shared(one.reason),
                )
                for one in decoded.status.conditions
            ),
            max(taints_changed, default=None),
            self.allocatable[bytes(decoded.status.allocatable)],
        )

    def lease(self, decoded: wire.WireLease) -> Lease:
        """Return a node's lease; without a possible duration it has kubelet's 40 s."""
        spec = decoded.spec
        return Lease(
            sys.intern(decoded.metadata.name),
            self.times[spec.renew_time],
            max(spec.lease_duration_seconds or 0, 0) or LEASE_DURATION_DEFAULT_SECONDS,
            sys.intern(spec.holder_identity),
        )

    def workload(self, kind: str, decoded: wire.WireWorkload) -> Workload:
        """Return the owner; ``replicas`` is what it wants, None for a DaemonSet."""
        meta, spec = decoded.metadata, decoded.spec
        replicas: int | None = None
        if kind != "DaemonSet":
            wanted = spec.parallelism if kind == "Job" else spec.replicas
            replicas = 1 if wanted is None else wanted
            if kind == "Job":
                replicas = min(replicas, _left_to_do(decoded, replicas))
        return Workload(
            kind,
            sys.intern(meta.namespace),
            meta.name,
            meta.uid,
            replicas,
            self.owners[bytes(meta.owner_references)],
            sys.intern(spec.pod_management_policy),
            max(spec.ordinals.start or 0, 0),
            spec.backoff_limit,
            spec.pod_replacement_policy == "Failed",
            spec.pod_failure_policy is not None,
            tuple(
                map(_failure_rule, spec.pod_failure_policy.rules if spec.pod_failure_policy else ())
            ),
            # Only Jobs have it; one that has had no failure leaves it out.
            (decoded.status.failed or 0) if kind == "Job" else None,
            spec.backoff_limit_per_index,
            tuple(sys.intern(gate.name) for gate in spec.template.spec.scheduling_gates),
            tuple(self._template(spec.template.spec)),
            spec.managed_by not in ("", JOB_CONTROLLER),
            spec.max_failed_indexes,
            _count_indexes(decoded.status.failed_indexes),
            kind == "Job" and _makes_no_more(decoded),
            self._deadline_ns(decoded),
            bool(meta.deletion_timestamp),
            max(spec.min_ready_seconds or 0, 0) if kind == "StatefulSet" else 0,
            self.labels[bytes(spec.template.metadata.labels)] or None,
            kind == "DaemonSet" and _surges(spec.update_strategy),
            _revisions(decoded) if kind == "StatefulSet" else None,
        )

    def _deadline_ns(self, job: wire.WireWorkload) -> int | None:
        if job.spec.suspend:
            return None
        return self._ends_ns(job.spec.active_deadline_seconds, job.status.start_time)

    def _template(self, template: wire_needs.TemplateSpec) -> Iterator[ContainerRequests]:
        for container in (*template.containers, *template.init_containers):
            if requests := in_order(self.requested(container.resources)):
                yield ContainerRequests(sys.intern(container.name), requests)

    def webhooks(self, decoded: wire_control_plane.WireWebhooks) -> Iterator[PodWebhook]:
        """Yield those of a configuration that are asked about the deletion or eviction of pods, or must agree to their creation."""
        for webhook in decoded.webhooks:
            deletes = _asks_about_pods(webhook, "DELETE")
            creates = _asks_about_pods(webhook, "CREATE") and webhook.failure_policy == "Fail"
            evicts = _asks_about_pods(webhook, "CREATE", "eviction")
            if deletes or creates or evicts:
                yield PodWebhook(
                    f"{decoded.metadata.name}/{webhook.name}",
                    _wishes(webhook.object_selector),
                    _wishes(webhook.namespace_selector),
                    of_deletion=deletes,
                    of_creation=creates,
                    of_eviction=evicts,
                )

    def budget(self, decoded: wire.WireBudget) -> PodDisruptionBudget:
        """Return the budget; policy/v1beta1 reads an empty selector as one that selects nothing."""
        meta, selector = decoded.metadata, decoded.spec.selector
        status = decoded.status or wire.BudgetStatus()
        old = decoded.api_version == "policy/v1beta1"
        if selector and old and not (selector.match_labels or selector.match_expressions):
            selector = None
        return PodDisruptionBudget(
            sys.intern(meta.namespace),
            meta.name,
            None if selector is None else dict(sorted(selector.match_labels.items())),
            () if selector is None else _expressions(selector),
            status.disruptions_allowed,
            status.current_healthy,
            status.desired_healthy,
            status.expected_pods,
            _int_or_percent(decoded.spec.min_available),
            _int_or_percent(decoded.spec.max_unavailable),
            sys.intern(decoded.spec.unhealthy_pod_eviction_policy),
            tuple(
                (name, self.times[at] or 0) for name, at in sorted(status.disrupted_pods.items())
            ),
            meta.generation,
            status.observed_generation,
        )


def _int32(text: str) -> int:
    """``parseInt32``: what is no such number counts as none."""
    if not text:
        return 0
    number = parse_int64(text)
    return number if number is not None and 0 <= number < 2**31 else 0


def _count_indexes(text: str) -> int:
    """How many indexes e.g. ``1,3-5`` names; what is wrong names none."""
    count = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = parse_int64(first), parse_int64(last or first)
        if low is not None and high is not None and low <= high < 2**31:
            count += high - low + 1
    return count


# Under the latter two the Job deletes its pods, and ends when they are gone (``syncJob``).
_JOB_ENDS = frozenset({"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"})


def _has_ended(job: wire.WireWorkload) -> bool:
    return any(one.type in _JOB_ENDS and one.status == "True" for one in job.status.conditions)


def _left_to_do(job: wire.WireWorkload, parallelism: int) -> int:
    """How many pods a Job can still use (``manageJob``); of a work queue nobody knows."""
    if job.spec.suspend or _has_ended(job):
        return 0
    if job.spec.completions is None:
        return parallelism
    return max(job.spec.completions - (job.status.succeeded or 0), 0)


def _makes_no_more(job: wire.WireWorkload) -> bool:
    if job.spec.completions is None and job.status.succeeded:
        return True
    return _left_to_do(job, 1) == 0


def _labels(raw: bytes) -> dict[str, str]:
    decoded = wire.LABELS.decode(raw) or {}
    return {sys.intern(name): sys.intern(value) for name, value in decoded.items()}


def _sorted_amounts(raw: bytes) -> dict[str, int]:
    return dict(sorted(amounts(raw).items()))


def _owners(raw: bytes) -> tuple[OwnerReference, ...]:
    decoded = wire.OWNERS.decode(raw) or ()
    return msgspec.convert(decoded, tuple[OwnerReference, ...], from_attributes=True)


def _int_or_percent(value: int | str | None) -> IntOrPercent | None:
    """Return what the API server stores; None for what it refuses (``checks`` says so)."""
    if value is None or isinstance(value, int):
        return None if value is None or value < 0 else IntOrPercent(value)
    digits = value.removesuffix("%")
    if digits == value or not (digits.isascii() and digits.isdigit()) or len(digits) > 3:
        return None
    return IntOrPercent(int(digits), percent=True)


def _surges(strategy: wire.UpdateStrategy) -> bool:
    """``SurgeCount`` of one node: percentages are rounded up, and rolling updates are the default."""
    rolling = strategy.rolling_update
    if strategy.type not in ("", "RollingUpdate") or rolling is None:
        return False
    surge = _int_or_percent(rolling.max_surge)
    return surge is not None and surge.value > 0


def _revisions(decoded: wire.WireWorkload) -> Revisions | None:
    """``newVersionedStatefulSetPod``; without ``rollingUpdate`` status.currentReplicas decides, which changes as pods go."""
    spec, status = decoded.spec, decoded.status
    if not status.update_revision:
        return None
    rolling, first = spec.update_strategy.rolling_update, max(spec.ordinals.start or 0, 0)
    updated_from: int | None = 0
    if spec.update_strategy.type in ("", "RollingUpdate"):
        updated_from = None if rolling is None else first + max(rolling.partition or 0, 0)
    current = status.current_revision or status.update_revision
    return Revisions(sys.intern(current), sys.intern(status.update_revision), updated_from)


def _failure_rule(rule: wire.FailureRule) -> FailureRule:
    # A status that is not given is True by default.
    disrupted = any(
        one.type == "DisruptionTarget" and one.status in ("", "True")
        for one in rule.on_pod_conditions or ()
    )
    on = "disruption" if disrupted else "condition" if rule.on_exit_codes is None else "exitCodes"
    return FailureRule(on, sys.intern(rule.action))


def _asks_about_pods(
    webhook: wire_control_plane.Webhook, operation: str, subresource: str = ""
) -> bool:
    """Tell whether a rule covers this operation on pods, or on one of their subresources; versions and scope leave nothing out."""
    behind = f"/{subresource}" if subresource else ""
    covering = {f"pods{behind}", f"*{behind}", "pods/*", "*/*"}
    return any(
        {"", "*"} & set(rule.api_groups)
        and {operation, "*"} & set(rule.operations)
        and covering & set(rule.resources)
        for rule in webhook.rules
    )


def _wishes(
    selector: wire_needs.LabelSelector | None,
) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the parts of a selector that all must hold; a null one selects everything."""
    selector = selector or wire_needs.LabelSelector()
    wanted = ((key, "In", (value,)) for key, value in sorted(selector.match_labels.items()))
    return (*wanted, *_expressions(selector))


def _expressions(
    selector: wire_needs.LabelSelector,
) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    return tuple((one.key, one.operator, one.values) for one in selector.match_expressions)


_env_name = operator.attrgetter("name")
_container_port = operator.attrgetter("container_port")


def _has_duplicates(containers: tuple[wire.Container, ...]) -> bool:
    """Tell whether one container names an env variable or a port and protocol twice."""
    for container in containers:
        env, ports = container.env, container.ports
        if len(env) > 1 and len(set(map(_env_name, env))) != len(env):
            return True
        if len(ports) > 1 and len(set(map(_container_port, ports))) != len(ports):
            keys = {(port.container_port, port.protocol or "TCP") for port in ports}
            if len(keys) != len(ports):
                return True
    return False


def _has_empty_dir(volumes: tuple[wire.Volume, ...]) -> bool:
    for volume in volumes:  # noqa: SIM110 - any() takes three times as long
        if volume.empty_dir is not None:
            return True
    return False
