"""Is this node alive, as far as the controller can see? The pure half of ``tryUpdateNodeHealth``.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go, 1.16-1.37 (spec node-lifecycle 6).
The rules here compare what the controller saw last with what it sees now; they never look at the
kubelet's own clock (probe and transition instants are the controller's, at observation).

Reference clock (spec 2.3): every reading of the clock is strictly later than the one before it, so an
age counts as "later than the grace period" as soon as it reaches it.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Node, NodeCondition

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
READY = "Ready"
# Conditions that the controller sets to Unknown, in this order; NetworkUnavailable never.
_CONDITIONS_WRITTEN = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeHealth(NamedTuple):
    """``nodeHealthData``: probe and transition instants, last seen Ready, last accepted renewal."""

    probe_ns: int
    ready_transition_ns: int
    ready: NodeCondition | None
    lease_renew_ns: int | None


class HealthUpdate(NamedTuple):
    """Result of one ``tryUpdateNodeHealth``.

    ``observed`` is Ready as found (synthetic Unknown when missing); ``current`` after a possible write
    (None: no Ready and not expired). ``conditions`` is the status to write, or None. ``changed`` says
    that the controller's memory moved, so the next tick may differ from this one.
    """

    health: NodeHealth
    grace_ns: int
    observed: NodeCondition
    current: NodeCondition | None
    conditions: tuple[NodeCondition, ...] | None
    changed: bool


def try_update_node_health(
    node: Node,
    health: NodeHealth | None,
    lease_renew_ns: int | None,
    now_ns: int,
    *,
    monitor_grace_ns: int,
    startup_grace_ns: int,
) -> HealthUpdate:
    """``tryUpdateNodeHealth`` for one node at one tick. Pure."""
    current = node.condition(READY)
    before = health
    if current is None:
        created_ns = node.creation_timestamp_ns
        observed = NodeCondition(READY, UNKNOWN, created_ns, created_ns)
        grace_ns = startup_grace_ns
        if health is None:
            health = NodeHealth(created_ns, created_ns, None, None)
        else:
            health = health._replace(ready=None)
        saved_lease_ns = health.lease_renew_ns
    else:
        observed = current
        grace_ns = monitor_grace_ns
        saved_lease_ns = health.lease_renew_ns if health is not None else None
        health = _observe_ready(health, current, now_ns)
    if lease_renew_ns is not None and (saved_lease_ns is None or saved_lease_ns < lease_renew_ns):
        health = health._replace(lease_renew_ns=lease_renew_ns, probe_ns=now_ns)
    conditions = None
    if now_ns >= health.probe_ns + grace_ns:
        written = _expire(node, now_ns)
        new_current = next(c for c in written if c.type == READY)
        if new_current != observed:
            conditions = written
            # The lease is taken as it is now; the probe instant is deliberately not moved.
            health = NodeHealth(health.probe_ns, now_ns, new_current, lease_renew_ns)
        current = new_current
    return HealthUpdate(health, grace_ns, observed, current, conditions, health != before)


def _observe_ready(health: NodeHealth | None, ready: NodeCondition, now_ns: int) -> NodeHealth:
    """Branches B1 to B5 of spec 6.3 with Ready present."""
    if health is None or health.ready is None:
        return NodeHealth(now_ns, now_ns, ready, None)
    saved = health.ready
    if saved.last_heartbeat_time_ns == ready.last_heartbeat_time_ns:
        return health
    moved = saved.last_transition_time_ns != ready.last_transition_time_ns
    # The lease is dropped here, which grants a free probe on the next tick (Q-LEASE).
    return NodeHealth(now_ns, now_ns if moved else health.ready_transition_ns, ready, None)


def _expire(node: Node, now_ns: int) -> tuple[NodeCondition, ...]:
    """Status with the four conditions Unknown, as spec 6.5 writes them."""
    conditions = list(node.conditions)
    for wanted in _CONDITIONS_WRITTEN:
        for index, condition in enumerate(conditions):
            if condition.type != wanted:
                continue
            if condition.status != UNKNOWN:
                conditions[index] = replace(
                    condition,
                    status=UNKNOWN,
                    reason="NodeStatusUnknown",
                    last_transition_time_ns=now_ns,
                )
            break
        else:
            conditions.append(
                NodeCondition(
                    wanted, UNKNOWN, node.creation_timestamp_ns, now_ns, "NodeStatusNeverUpdated"
                )
            )
    return tuple(conditions)
