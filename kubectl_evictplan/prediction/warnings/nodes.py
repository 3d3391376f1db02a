"""Odd affected nodes: what their objects lack or contradict (spec node-lifecycle 6, 9.5)."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.cluster.timeline import POD_GC
from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.objects import NodeCondition, Warning
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.kube.topology import has_conflicting_zone_labels
from kubectl_evictplan.prediction.warnings.situation import (
    FINISHED_PHASES,
    Rule,
    Situation,
    caution,
    caution_by_message,
)
from kubectl_evictplan.prediction.warnings.tolerations import decision_ns
from kubectl_evictplan.simulation.simulate import starts_without_controller

# Clocks of a healthy cluster differ by less, and condition times are whole seconds.
SKEW_TOLERATED_NS = 5 * SECOND_NS
_STATUSES = ("True", "False", "Unknown")


def missing_leases(situation: Situation) -> Iterator[Warning]:
    """Without a Lease nothing tells when the kubelet was last heard of."""
    leases = situation.snapshot.leases
    missing = [node.name for node in situation.nodes if node.name not in leases]
    why = "no Lease in the input" if leases else "the input holds no Leases at all"
    yield from caution(
        "missing-lease",
        f"{why}: when the kubelet was last heard of is unknown; the start is taken for it",
        missing,
    )
    empty = [
        node.name
        for node in situation.nodes
        if node.name in leases and leases[node.name].renew_time_ns is None
    ]
    yield from caution(
        "missing-lease", "the Lease has no renewTime, so it tells nothing about the kubelet", empty
    )


def ready_conditions(situation: Situation) -> Iterator[Warning]:
    """No Ready condition, several, or one that says something strange."""
    found: dict[str, list[str]] = {}
    without = []
    for node in situation.nodes:
        ready = [condition for condition in node.conditions if condition.type == "Ready"]
        if not ready:
            without.append(node.name)
        for message in _ready_oddities(ready):
            found.setdefault(message, []).append(node.name)
    grace = format_duration(situation.configuration.node_startup_grace_period_ns)
    yield from caution(
        "node-without-ready",
        "no Ready condition: the node counts as starting up, and becomes Unknown when nothing was heard "
        f"of it for {grace}",
        without,
    )
    if situation.profile.missing_ready_crashes:
        yield from caution(
            "missing-ready-crash",
            f"Kubernetes {situation.profile.version} crashes kube-controller-manager when such a node "
            "reaches the head of its zone's line before it has a Ready condition; the prediction goes on "
            "as if it had not",
            without,
        )
    yield from caution_by_message("odd-ready-condition", found)


def _ready_oddities(ready: list[NodeCondition]) -> Iterator[str]:
    if not ready:
        return
    if len(ready) > 1:
        yield "several Ready conditions: the first one counts"
    if ready[0].status not in _STATUSES:
        yield (
            "the status of Ready is none of True, False and Unknown: the node counts as not ready, and "
            "what node lifecycle does with its taints is not certain"
        )
    if ready[0].last_heartbeat_time_ns is None:
        yield "Ready has no heartbeat time"


def skewed_timestamps(situation: Situation) -> Iterator[Warning]:
    """Times after the snapshot. Nothing is corrected: controllers use their own clock."""
    snapshot = situation.snapshot
    limit_ns = snapshot.taken_at_ns + SKEW_TOLERATED_NS
    found: dict[str, list[str]] = {}
    for node in situation.nodes:
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
                found.setdefault(message, []).append(node.name)
    yield from caution_by_message("skewed-timestamps", found)
    ahead_ns = situation.scenario.start_ns - snapshot.taken_at_ns
    if snapshot.taken_at_ns and abs(ahead_ns) > SKEW_TOLERATED_NS:
        where = "after" if ahead_ns > 0 else "before"
        yield Warning(
            "start-not-at-snapshot",
            f"the scenario starts {format_duration(abs(ahead_ns))} {where} the snapshot was taken: "
            "heartbeats, taints and running timers are those of the snapshot",
        )


def conflicting_zone_labels(situation: Situation) -> Iterator[Warning]:
    """Old and new labels name different zones."""
    found: dict[str, list[str]] = {}
    for node in situation.nodes:
        if has_conflicting_zone_labels(node.labels):
            zone = situation.zone_name(node)
            message = (
                "old and new zone labels contradict each other: the old ones win, the node counts in "
                f"{zone or 'the zone without a name'}"
            )
            found.setdefault(message, []).append(node.name)
    yield from caution_by_message("conflicting-zone-labels", found)


def unknown_nodes(situation: Situation) -> Iterator[Warning]:
    """Pods of nodes that are not in the input."""
    created = {event.node.name for event in situation.events if event.node is not None}
    unknown = situation.affected - situation.node_by_name.keys() - created
    if not unknown:
        return
    pods = [pod.key for pod in situation.pods if pod.node_name in unknown]
    what = (
        "garbage collection deletes the pod 40 to 60 s after it first missed the node"
        if situation.configuration.pod_gc_enabled
        else "and pod garbage collection does not run, so it stays"
    )
    yield from caution("pod-on-unknown-node", f"the pod's node is not in the input: {what}", pods)


def running_timers(situation: Situation) -> Iterator[Warning]:
    """Timers that ran before the start are only in the controller's memory (spec 11)."""
    configuration = situation.configuration
    if not configuration.taint_eviction_enabled or starts_without_controller(situation.scenario):
        return
    tainted = {n.name: no_execute_taints(n.taints) for n in situation.nodes if n.taints}
    if not any(tainted.values()):
        return
    pods = []
    for group in situation.groups:
        verdicts: dict[str, bool] = {}
        for pod in group.pods:
            name = pod.node_name
            runs = verdicts.get(name)
            if runs is None:
                taints = tainted.get(name, ())
                runs = bool(taints) and decision_ns(situation, group, taints) > 0
                verdicts[name] = runs
            if runs and pod.deletion_timestamp_ns is None:
                pods.append(pod.key)
    yield from caution(
        "running-timer-window",
        "a timer runs already; when it began is only in the controller's memory, so the eviction is a "
        "window over every start that fits",
        pods,
    )
    if pods and situation.snapshot.control_plane.leader_acquire_time_ns is None:
        yield Warning(
            "leader-lease-unknown",
            "Lease kube-system/kube-controller-manager is not in the input: whether the controller "
            "restarted since, which starts every running timer anew, is unknown",
        )


def terminated_pods(situation: Situation) -> Iterator[Warning]:
    """More finished pods than garbage collection leaves alone."""
    threshold = situation.configuration.terminated_pod_gc_threshold
    if threshold <= 0 or not situation.configuration.pod_gc_enabled:
        return
    phases = [pod.phase for pod in situation.snapshot.pods]
    count = sum(phases.count(phase) for phase in FINISHED_PHASES)
    if count > threshold:
        yield Warning(
            "terminated-pod-gc",
            f"{count} pods have finished, more than --terminated-pod-gc-threshold={threshold}: garbage "
            "collection deletes the oldest, taint or no taint",
            tuple(
                sorted(
                    evicted.key
                    for evicted in situation.evicted
                    if evicted.controller == POD_GC and evicted.pod.phase in FINISHED_PHASES
                )
            ),
        )


RULES: tuple[Rule, ...] = (
    missing_leases,
    ready_conditions,
    skewed_timestamps,
    conflicting_zone_labels,
    unknown_nodes,
    running_timers,
    terminated_pods,
)
