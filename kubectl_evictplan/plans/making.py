"""A plan from what was asked, read and predicted; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from kubectl_evictplan import __version__
from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.durations import SECOND_NS, format_duration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.plans.document import (
    AnyOperation,
    ClusterIdentity,
    Execution,
    Loss,
    NodeBefore,
    Plan,
    PodBefore,
    SnapshotReference,
)
from kubectl_evictplan.plans.fingerprint import sealed
from kubectl_evictplan.plans.operations import operations_of, taint_reference
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import Scenario


def make_plan(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    prediction: Prediction,
    *,
    written: dict[str, Any],
    assume_ready_ns: tuple[int, int | None] | None,
    identity: ClusterIdentity,
    execution: Execution,
    created_at_ns: int,
) -> Plan:
    """Return the sealed plan of a scenario whose events are all mutations.

    ``written`` is the scenario as a file holds it, with what is said of the controller. ``execution`` says what the scenario's drains do not say: ``with_drains`` adds that. Raises InputError for
    a scenario that cannot be carried out or that overlaps with itself. A plan without operations is one: the cluster is
    as it is asked to be, and its nodes are those that were asked about.
    """
    operations = operations_of(scenario, snapshot)
    _refuse_overlaps(scenario, prediction)
    asked = {name for event in scenario.events for name in event.nodes}
    names = {operation.node for operation in operations} or asked
    pods = [pod for pod in snapshot.pods if pod.node_name in names]
    return sealed(
        Plan(
            fingerprint="",
            created_at=format_rfc3339(created_at_ns),
            tool_version=__version__,
            title=scenario.name,
            cluster=identity,
            snapshot=snapshot_reference(snapshot),
            execution=with_drains(execution, scenario),
            operations=operations,
            losses=losses_of(pods, operations, prediction),
            nodes=tuple(node_before(node) for node in snapshot.nodes if node.name in names),
            pods=tuple(pod_before(pod) for pod in pods),
            scenario=written,
            assume_ready_seconds=None
            if assume_ready_ns is None
            else seconds_range(assume_ready_ns),
            prediction=prediction,
        )
    )


def execution_of(scenario: Scenario, execution: Execution) -> Execution:
    """Return how a plan of this scenario is carried out, whatever ``execution`` says of what is not its to say.

    Its own are ``until_ready`` and ``abort_if`` alone: no scenario says them.
    """
    chosen = Execution(until_ready=execution.until_ready, abort_if=execution.abort_if)
    return with_drains(chosen, scenario)


def with_drains(execution: Execution, scenario: Scenario) -> Execution:
    """Return how to carry it out, with what the scenario's drains say: they were predicted so."""
    for event in scenario.events:
        if isinstance(event, Drain):
            return replace(
                execution,
                parallel=event.parallel,
                settle_seconds=event.settle_ns / SECOND_NS,
                eviction_timeout_seconds=event.timeout_ns / SECOND_NS,
            )
    return execution


def snapshot_reference(snapshot: ClusterSnapshot) -> SnapshotReference:
    """Return what names the state."""
    reading = snapshot.reading
    lists = reading.lists if reading is not None else ()
    return SnapshotReference(
        digest=snapshot.digest,
        taken_at=format_rfc3339(snapshot.taken_at_ns),
        resource_versions={one.kind: one.resource_version for one in lists if one.resource_version},
        not_evaluated=tuple(sorted(snapshot.denied)),
        namespace=reading.namespace if reading is not None else "",
    )


def node_before(node: Node) -> NodeBefore:
    """Return what of a node a plan rests on."""
    return NodeBefore(
        name=node.name,
        uid=node.uid,
        resource_version=node.resource_version,
        taints=tuple(map(taint_reference, node.taints)),
        unschedulable=node.unschedulable,
        ready=node.ready_status or "Unknown",
    )


def pod_before(pod: Pod) -> PodBefore:
    """Return what of a pod a plan rests on."""
    owner = pod.controller()
    return PodBefore(
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        node=pod.node_name,
        owner=f"{owner.kind}/{owner.name}" if owner is not None else "",
        empty_dir=pod.empty_dir,
    )


def losses_of(
    pods: Sequence[Pod], operations: Sequence[AnyOperation], prediction: Prediction
) -> tuple[Loss, ...]:
    """Return what is lost for good when these pods go: by the plan's evictions or by its taints."""
    going = {eviction.key for eviction in prediction.evictions}
    going |= {one.key for one in operations if hasattr(one, "key")}
    return tuple(loss for pod in pods if pod.key in going for loss in _losses(pod))


def _losses(pod: Pod) -> Iterator[Loss]:
    # What has finished runs no more, and mirror pods are made again by their kubelet.
    if pod.finished or pod.mirror:
        return
    if pod.controller() is None:
        yield Loss("bare-pod", pod.namespace, pod.name, pod.node_name)
    if pod.empty_dir:
        yield Loss("empty-dir", pod.namespace, pod.name, pod.node_name)


def seconds_range(range_ns: tuple[int, int | None]) -> tuple[float, float | None]:
    """Return a range of nanoseconds in seconds."""
    least_ns, most_ns = range_ns
    return least_ns / SECOND_NS, None if most_ns is None else most_ns / SECOND_NS


def _refuse_overlaps(scenario: Scenario, prediction: Prediction) -> None:
    """Raise for an event that lies within a drain: apply does one thing after the other."""
    for place, event in enumerate(scenario.events[:-1]):
        if not isinstance(event, Drain):
            continue
        later = scenario.events[place + 1]
        ends = [one for one in prediction.drains if one.node in event.nodes]
        latest = [one.end_latest_seconds for one in ends if one.origin == event.origin]
        if any(end is None or end * SECOND_NS > later.at_ns for end in latest):
            message = (
                f"{later.action} at {format_duration(later.at_ns)} may come before the drain ahead of it is "
                "through, and a plan does one thing after the other: a later time, or a plan of its own"
            )
            raise InputError(Problem(message, location=later.origin))
