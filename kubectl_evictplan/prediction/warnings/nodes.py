"""Odd affected nodes: what their objects lack or contradict."""

from __future__ import annotations

from kubectl_evictplan.cluster.kubelets import longest_renewal_ns, observed_at_ns
from kubectl_evictplan.cluster.timeline import POD_GC, NodeBecameUnknown
from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.topology import (
    get_zone_key,
    has_conflicting_zone_labels,
    is_master_by_name,
    zone_display_name,
)
from kubectl_evictplan.prediction.warnings.context import (
    WHOLE_PREDICTION,
    PlainWarning,
    Statement,
    Statements,
    WarningContext,
)
from kubectl_evictplan.scenarios.actions.processes import StopKubelet

# Clocks of a healthy cluster differ by less, and condition times are whole seconds.
SKEW_TOLERATED_NS = 5 * SECOND_NS


def missing_lease(context: WarningContext) -> Statements:
    """Without a Lease nothing tells when the kubelet was last heard of."""
    leases, names = context.snapshot.leases, [node.name for node in context.nodes]
    why = "no Lease in the input" if leases else "the input holds no Leases at all"
    yield Statement(
        f"{why}: when the kubelet was last heard of is unknown; the start is taken for it",
        [name for name in names if name not in leases],
    )
    yield Statement(
        "the Lease has no renewTime, so it tells nothing about the kubelet",
        [name for name in names if name in leases and leases[name].renew_time_ns is None],
    )


def status_may_come_late(context: WarningContext) -> Statements:
    """What a kubelet posts after its last renewal counts as a sign of life (``tryUpdateNodeHealth``); that is played only where it is due."""
    snapshot, scenario = context.snapshot, context.scenario
    # What was posted before shows in the snapshot.
    looked_ns = observed_at_ns(snapshot, scenario.start_ns) - scenario.start_ns
    silenced = {
        name
        for event in scenario.events
        if isinstance(event, StopKubelet) and event.last_heartbeat_ns is None
        for name in event.nodes
        if event.at_ns > looked_ns
    }
    given_up = {entry.node for entry in context.entries(NodeBecameUnknown)}
    leases, period_ns = snapshot.leases, context.configuration.node_monitor_period_ns
    for name in silenced & given_up:
        late_ns = longest_renewal_ns(leases.get(name)) + period_ns
        yield Statement(
            "should a kubelet post a status that has changed between its last renewal and its silence, "
            f"its node is given up later than told here, by up to {format_duration(late_ns)}",
            (name,),
        )


def node_without_ready(context: WarningContext) -> Statements:
    """No Ready condition."""
    grace = format_duration(context.configuration.node_startup_grace_period_ns)
    yield Statement(
        "no Ready condition: the node counts as starting up, and becomes Unknown when nothing was heard "
        f"of it for {grace}",
        _nodes_without_ready(context),
    )


def _nodes_without_ready(context: WarningContext) -> list[str]:
    return [node.name for node in context.nodes if node.condition("Ready") is None]


missing_ready_crash = PlainWarning(
    "Kubernetes {release} crashes kube-controller-manager when such a node reaches the head of its "
    "zone's line before it has a Ready condition; the prediction goes on as if it had not",
    lambda context: _nodes_without_ready(context) if context.profile.missing_ready_crashes else (),
)


def odd_ready_condition(context: WarningContext) -> Statements:
    """Several Ready conditions, or one that says something strange."""
    for node in context.nodes:
        ready = [condition for condition in node.conditions if condition.type == "Ready"]
        if len(ready) > 1:
            yield Statement("several Ready conditions: the first one counts", [node.name])
        if ready and ready[0].status not in ("True", "False", "Unknown"):
            yield Statement(
                "the status of Ready is none of True, False and Unknown: the node counts as not ready, "
                "and what node lifecycle does with its taints is not certain",
                [node.name],
            )
        if ready and ready[0].last_heartbeat_time_ns is None:
            yield Statement("Ready has no heartbeat time", [node.name])


def skewed_timestamps(context: WarningContext) -> Statements:
    """Times after the snapshot. Nothing is corrected: controllers use their own clock."""
    snapshot = context.snapshot
    limit_ns = snapshot.taken_at_ns + SKEW_TOLERATED_NS
    for node in context.nodes:
        lease = snapshot.leases.get(node.name)
        ready = node.condition("Ready")
        times = {
            "creationTimestamp": node.creation_timestamp_ns,
            "the Lease's renewTime": lease.renew_time_ns if lease is not None else None,
            "Ready's heartbeat": ready.last_heartbeat_time_ns if ready is not None else None,
            "a taint's timeAdded": max(
                (taint.time_added_ns or 0 for taint in node.taints), default=None
            ),
        }
        for what, time_ns in times.items():
            if time_ns is not None and time_ns > limit_ns:
                message = f"{what} lies after the snapshot was taken: a clock may be wrong"
                yield Statement(message, [node.name])


def start_not_at_snapshot(context: WarningContext) -> Statements:
    """The scenario starts at another instant than the one that the snapshot shows."""
    snapshot = context.snapshot
    ahead_ns = context.scenario.start_ns - snapshot.taken_at_ns
    if snapshot.taken_at_ns and abs(ahead_ns) > SKEW_TOLERATED_NS:
        where = "after" if ahead_ns > 0 else "before"
        yield Statement(
            f"the scenario starts {format_duration(abs(ahead_ns))} {where} the snapshot was taken: "
            "heartbeats, taints and running timers are those of the snapshot",
        )


def conflicting_zone_labels(context: WarningContext) -> Statements:
    """Old and new labels name different zones."""
    for node in context.nodes:
        if has_conflicting_zone_labels(node.labels):
            ga_labels = context.profile.ga_zone_labels
            zone = zone_display_name(get_zone_key(node.labels, ga_labels=ga_labels))
            yield Statement(
                "old and new zone labels contradict each other: the old ones win, the node counts in "
                f"{zone or 'the zone without a name'}",
                [node.name],
            )


master_by_name = PlainWarning(
    "Kubernetes {release} takes the node for a master because of its name: it counts in no zone's "
    "disruption, and is tainted like any other when it is not ready",
    lambda context: (
        node.name
        for node in (context.snapshot.nodes if context.health_matters else ())
        if context.configuration.exclusion_by_name and is_master_by_name(node.name)
    ),
)


def pod_on_unknown_node(context: WarningContext) -> Statements:
    """Pods of nodes that are not in the input."""
    created = {event.node.name for event in context.events if event.node is not None}
    unknown = context.affected - context.node_by_name.keys() - created
    what = (
        "garbage collection deletes the pod 40 to 80 s after it first missed the node"
        if context.configuration.pod_gc_enabled
        else "and pod garbage collection does not run, so it stays"
    )
    yield Statement(
        f"the pod's node is not in the input: {what}",
        [pod.key for pod in (context.pods if unknown else ()) if pod.node_name in unknown],
    )


def terminated_pod_gc(context: WarningContext) -> Statements:
    """More finished pods than garbage collection leaves alone."""
    threshold = context.configuration.terminated_pod_gc_threshold
    if threshold <= 0 or not context.configuration.pod_gc_enabled:
        return
    count = sum(lot.count for lot in context.alike.lots if lot.pod.finished)
    created = (event.pod for event in context.scenario.events if event.pod is not None)
    count += sum(pod.finished for pod in created)
    if count > threshold:
        yield Statement(
            f"{count} pods have finished, more than --terminated-pod-gc-threshold={threshold}: garbage "
            "collection deletes the oldest, taint or no taint",
            {
                *context.evicted_keys(
                    evicted
                    for evicted in context.evicted
                    if evicted.controller == POD_GC and evicted.pod.finished
                )
            }
            or WHOLE_PREDICTION,
        )
