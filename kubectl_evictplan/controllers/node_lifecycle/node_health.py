"""Is this node alive, as far as the controller can see? The pure half of ``tryUpdateNodeHealth``.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go, 1.16-1.37. The rules here compare
what the controller saw last with what it sees now; they never look at the kubelet's own clock (probe
and transition instants are the controller's, at observation).

Every reading of the clock counts as later than the one before it, so an age is "later than the grace
period" as soon as it reaches it.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import LeaseVersion
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import Node, NodeCondition

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
READY = "Ready"
# Conditions that the controller sets to Unknown, in this order; NetworkUnavailable never.
_CONDITIONS_WRITTEN = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeHealth(NamedTuple):
    """``nodeHealthData``: probe and transition instants, last seen Ready, last accepted Lease."""

    probe_ns: int
    ready_transition_ns: int
    ready: NodeCondition | None
    lease: LeaseVersion | None


class HealthUpdate(NamedTuple):
    """Result of one ``tryUpdateNodeHealth``.

    ``observed`` is Ready as found (synthetic Unknown when missing); ``current`` after a possible write
    (None: no Ready and not expired). ``conditions`` is the status to write, or None. ``skipped``: the
    lease circuit breaker is open, this tick passes the node over.
    """

    health: NodeHealth
    grace_ns: int
    observed: NodeCondition
    current: NodeCondition | None
    conditions: tuple[NodeCondition, ...] | None = None
    skipped: bool = False


def try_update_node_health(
    node: Node,
    health: NodeHealth | None,
    lease: LeaseVersion | None,
    now_ns: int,
    configuration: ControllerConfiguration,
) -> HealthUpdate:
    """``tryUpdateNodeHealth`` for one node at one tick. Pure."""
    saved_lease = health.lease if health is not None else None
    current = node.condition(READY)
    if current is None:
        created_ns = node.creation_timestamp_ns
        observed = NodeCondition(READY, UNKNOWN, created_ns, created_ns)
        grace_ns = configuration.node_startup_grace_period_ns
        if health is None:
            health = NodeHealth(created_ns, created_ns, None, None)
        else:
            health = health._replace(ready=None)
    else:
        observed = current
        grace_ns = configuration.node_monitor_grace_period_ns
        health = _observe_ready(health, current, now_ns)
    if lease is not None and (
        saved_lease is None or saved_lease.renew_time_ns < lease.renew_time_ns
    ):
        health = health._replace(lease=lease, probe_ns=now_ns)
    if now_ns < health.probe_ns + grace_ns:
        return HealthUpdate(health, grace_ns, observed, current)
    if configuration.lease_circuit_breaker and lease is not None and lease != health.lease:
        # The live Lease is not the one that was judged: the informer may be behind.
        return HealthUpdate(health, grace_ns, observed, current, skipped=True)
    conditions = expired_conditions(node, now_ns)
    current = next(condition for condition in conditions if condition.type == READY)
    if current == observed:
        return HealthUpdate(health, grace_ns, observed, current)
    # The lease is taken as it is now; the probe instant is deliberately not moved.
    health = NodeHealth(health.probe_ns, now_ns, current, lease)
    return HealthUpdate(health, grace_ns, observed, current, conditions)


def _observe_ready(health: NodeHealth | None, ready: NodeCondition, now_ns: int) -> NodeHealth:
    """The controller's instants follow what the kubelet posted since the last look."""
    if health is None or health.ready is None:
        return NodeHealth(now_ns, now_ns, ready, None)
    saved = health.ready
    if saved.last_heartbeat_time_ns == ready.last_heartbeat_time_ns:
        return health
    moved = saved.last_transition_time_ns != ready.last_transition_time_ns
    # The Lease is dropped here: the next tick accepts it again, which probes the node once more.
    return NodeHealth(now_ns, now_ns if moved else health.ready_transition_ns, ready, None)


def expired_conditions(node: Node, now_ns: int) -> tuple[NodeCondition, ...]:
    """The node's conditions after ``tryUpdateNodeHealth`` gave it up: four of them Unknown."""
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
