"""Kubernetes objects for tests: every field has a default, so a test writes only what it is about.

Times are seconds from ``START`` (negative: before the start); everything else is spelled as in
``kubectl_evictplan.kube.objects``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    Lease,
    Node,
    NodeCondition,
    OwnerReference,
    Pod,
    Taint,
    Toleration,
)
from kubectl_evictplan.prediction.records import plain
from kubectl_evictplan.scenarios.actions import ACTIONS
from kubectl_evictplan.scenarios.field_types import Manifest, file_fields
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.scenarios.taint_words import TaintRemoval
from kubectl_evictplan.windows.unknowns.tick_cells import TickSteps

SECOND_NS = 1_000_000_000
START_NS = 1_795_212_000 * SECOND_NS  # 2026-11-20T22:00:00Z
REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"
EXCLUDE_LABEL = "node.kubernetes.io/exclude-disruption"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def encoded(document: object) -> bytes:
    """The JSON of a Prediction, or of what holds one, in one go."""
    return msgspec.json.encode(document, order="deterministic", enc_hook=plain)


def ns(seconds: float) -> int:
    """Whole nanoseconds of a number of seconds (exact to the microsecond)."""
    return round(seconds * 1_000_000) * 1_000


# Of a node monitor with its default period.
STEPS = TickSteps(ns(5), ns(5.02))


def epoch_ns(seconds: float) -> int:
    """The epoch time of an offset from ``START_NS``."""
    return START_NS + ns(seconds)


def make_taint(text: str, *, added: float | None = None) -> Taint:
    """Parse ``key[=value]:effect``; ``added`` is the offset of timeAdded."""
    left, _, effect = text.rpartition(":")
    key, _, value = left.partition("=")
    time_added_ns = None if added is None else epoch_ns(added)
    return Taint(key=key, effect=effect, value=value, time_added_ns=time_added_ns)


def tolerates(key: str, seconds: int | None = None, *, effect: str = "NoExecute") -> Toleration:
    """``{key, Exists, effect, tolerationSeconds}``; key "" tolerates every key."""
    return Toleration(key=key, operator="Exists", effect=effect, toleration_seconds=seconds)


def default_tolerations(seconds: int = 300) -> tuple[Toleration, ...]:
    """What the DefaultTolerationSeconds admission adds."""
    return tolerates(NOT_READY, seconds), tolerates(UNREACHABLE, seconds)


def make_conditions(
    ready: str | None = "True", *, heartbeat: float = -1000, transition: float | None = None
) -> tuple[NodeCondition, ...]:
    """The kubelet's four conditions with that Ready status; none at all for ``ready=None``."""
    if ready is None:
        return ()
    changed = epoch_ns(heartbeat if transition is None else transition)
    pressure = "Unknown" if ready == "Unknown" else "False"
    statuses = {
        "MemoryPressure": pressure,
        "DiskPressure": pressure,
        "PIDPressure": pressure,
        "Ready": ready,
    }
    return tuple(
        NodeCondition(
            type=kind,
            status=status,
            last_heartbeat_time_ns=epoch_ns(heartbeat),
            last_transition_time_ns=changed,
            reason="NodeStatusUnknown" if status == "Unknown" else "KubeletPosted",
        )
        for kind, status in statuses.items()
    )


def make_node(
    name: str,
    *,
    zone: str = "",
    region: str = "",
    labels: Mapping[str, str] | None = None,
    ready: str | None = "True",
    heartbeat: float = -1000,
    transition: float | None = None,
    taints: Iterable[str | Taint] = (),
    unschedulable: bool = False,
    created: float | None = -100_000,
    uid: str = "",
) -> Node:
    """A node; ``ready=None`` leaves every condition out (the kubelet never posted).

    ``created=None`` leaves creationTimestamp out, as in a manifest.
    """
    all_labels = dict(labels or {})
    if zone:
        all_labels[ZONE_LABEL] = zone
    if region:
        all_labels[REGION_LABEL] = region
    return Node(
        name=name,
        uid=uid or f"uid-{name}",
        labels=all_labels,
        creation_timestamp_ns=0 if created is None else epoch_ns(created),
        taints=tuple(make_taint(t) if isinstance(t, str) else t for t in taints),
        unschedulable=unschedulable,
        conditions=make_conditions(ready, heartbeat=heartbeat, transition=transition),
    )


def make_lease(name: str, renewed: float = -5, *, duration_seconds: int = 40) -> Lease:
    """The node's Lease, last renewed at that offset from the start."""
    return Lease(
        name=name,
        renew_time_ns=epoch_ns(renewed),
        lease_duration_seconds=duration_seconds,
        holder_identity=name,
    )


def make_pod(
    name: str,
    node: str = "",
    *,
    namespace: str = "default",
    tolerations: Iterable[Toleration] = (),
    grace_seconds: int = 30,
    phase: str = "Running",
    ready: str | None = "True",
    owner: OwnerReference | str = "",
    labels: Mapping[str, str] | None = None,
    finalizers: Iterable[str] = (),
    deleted: float | None = None,
    created: float | None = -100_000,
    duplicate_env_or_port: bool = False,
    uid: str = "",
) -> Pod:
    """A pod; ``owner`` is an owner reference or ``Kind/name`` of the managing owner."""
    if isinstance(owner, str):
        kind, _, owner_name = owner.partition("/")
        reference = OwnerReference(kind=kind, name=owner_name, controller=True)
        owners: tuple[OwnerReference, ...] = (reference,) if owner else ()
    else:
        owners = (owner,)
    return Pod(
        namespace=namespace,
        name=name,
        uid=uid or f"uid-{namespace}-{name}",
        labels=dict(labels or {}),
        node_name=node,
        tolerations=tuple(tolerations),
        termination_grace_period_seconds=grace_seconds,
        phase=phase,
        ready=ready,
        creation_timestamp_ns=0 if created is None else epoch_ns(created),
        deletion_timestamp_ns=None if deleted is None else epoch_ns(deleted + grace_seconds),
        deletion_grace_period_seconds=None if deleted is None else grace_seconds,
        finalizers=tuple(finalizers),
        owner_references=owners,
        duplicate_env_or_port=duplicate_env_or_port,
    )


def make_snapshot(
    nodes: Iterable[Node | str] = (),
    pods: Iterable[Pod] = (),
    *,
    leases: Iterable[Lease] | None = None,
    renewed: float = -5,
    lease_duration_seconds: int = 40,
    taken: float = 0,
) -> ClusterSnapshot:
    """Sorted as the contract of ``ClusterSnapshot`` asks.

    Nodes may be names. Without ``leases`` every node has one, last renewed at ``renewed``; a lease
    given for some node replaces that node's only.
    """
    node_objects = [make_node(n) if isinstance(n, str) else n for n in nodes]
    all_leases = {
        node.name: make_lease(node.name, renewed, duration_seconds=lease_duration_seconds)
        for node in node_objects
    }
    all_leases.update({lease.name: lease for lease in leases or ()})
    return ClusterSnapshot(
        nodes=tuple(sorted(node_objects, key=lambda node: node.name)),
        pods=tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name))),
        leases=all_leases,
        taken_at_ns=epoch_ns(taken),
        taken_at_source="snapshot",
        kinds_seen=("Lease", "Node", "Pod"),
    )


def make_event(
    at: float,
    action: str,
    nodes: Sequence[str] | str = (),
    *,
    taint: str = "",
    last_heartbeat: float | None = None,
    status: str = "",
    node: Node | None = None,
    pod: Pod | None = None,
    pods: Sequence[str] | str = (),
    tolerations: Iterable[Toleration] = (),
    **attributes: Any,
) -> ScenarioEvent:
    """One scenario event; ``taint`` is kubectl's text (``key[=value]:effect``, untaint: ``key``).

    ``attributes`` are other fields by their own names.
    """
    names = (nodes,) if isinstance(nodes, str) else tuple(nodes)
    key, _, effect = taint.partition(":")
    if status:
        attributes["status"] = status
    return event_of(
        ns(at),
        action,
        nodes=names if action == "drain" else tuple(sorted(names)),
        taint=make_taint(taint),
        removal=TaintRemoval(key.partition("=")[0], effect),
        last_heartbeat_ns=None if last_heartbeat is None else ns(last_heartbeat),
        manifest=Manifest(node or pod or Node("")),
        pods=(pods,) if isinstance(pods, str) else tuple(pods),
        tolerations=tuple(tolerations),
        **attributes,
        origin="test",
    )


def event_of(at_ns: int, action: str, *, origin: str = "", **values: Any) -> ScenarioEvent:
    """An event of the table of actions; what the action has no field for is left out."""
    row = ACTIONS[action]
    given = {
        field.attribute: values[field.attribute]
        for field in file_fields(row)
        if field.required or field.attribute in values
    }
    return row(at_ns=at_ns, origin=origin, **given)


def make_scenario(
    events: Iterable[ScenarioEvent] = (), *, horizon: float | None = 300, cold: bool = False
) -> Scenario:
    """Events in time order (equal instants keep their order).

    ``cold`` puts a ``controller-start`` at offset 0 in front: nothing ran before.
    """
    ordered = sorted(events, key=lambda event: event.at_ns)
    if cold:
        ordered.insert(0, make_event(0, "controller-start"))
    return Scenario(
        start_ns=START_NS,
        events=tuple(ordered),
        horizon_ns=None if horizon is None else ns(horizon),
        name="test",
    )
