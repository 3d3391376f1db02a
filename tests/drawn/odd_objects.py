"""What nodes and pods of real clusters have and drawn ones rarely do: soaked worlds get some of it.

Mirror pods, pods that were bound long after they were created, that terminate with another grace period than their own, that
wait for a node, that a Job tracks; taints of long ago, of no known time, and of a controller on a node that is Ready; nodes that
are cordoned, young or on their way out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from building.builders import NOT_READY, UNREACHABLE, epoch_ns, make_taint, ns, tolerates
from msgspec.structs import replace

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.finalizers import JOB_TRACKING
from kubectl_evictplan.kube.objects import Node, OwnerReference, Pod, Toleration, Workload

# Seconds that overflow an int64 of nanoseconds, nearly or by little.
_HUGE = (9_223_372_036, 9_223_372_037, 18_446_744_074, 27_670_116_111)
_JOB = "counted"


def job(rng: random.Random) -> Workload:
    """The Job of the pods that are tracked."""
    patient = rng.random() < 0.5
    return Workload("Job", "default", _JOB, f"uid-{_JOB}", 1, replaces_failed_pods_only=patient)


# -- pods -----------------------------------------------------------------------------------------


def _bound_late(rng: random.Random, pod: Pod) -> Pod:
    age_seconds = -(pod.creation_timestamp_ns - epoch_ns(0)) // SECOND_NS
    before = rng.choice((rng.randint(0, 3), rng.randint(0, 60), rng.randint(0, age_seconds)))
    return replace(pod, bound_after_seconds=max(age_seconds - before, 2))


def _mirror(rng: random.Random, pod: Pod) -> Pod:
    owner = OwnerReference("Node", pod.node_name, controller=True, api_version="v1")
    every = Toleration(operator="Exists", effect="NoExecute")
    return replace(
        pod,
        mirror=True,
        config_source="file",
        owner_references=(owner,),
        tolerations=rng.choice(((every,), pod.tolerations)),
    )


def _leaving(rng: random.Random, pod: Pod) -> Pod:
    """Somebody deleted it, with this grace period, and perhaps nobody could end it since."""
    grace = rng.choice((0, 1, pod.termination_grace_period_seconds, 60))
    ends = rng.choice((grace, rng.randint(-300, grace)))
    return replace(
        pod,
        deletion_grace_period_seconds=grace,
        deletion_timestamp_ns=epoch_ns(float(ends)),
        finalizers=("example.com/held",) if rng.random() < 0.5 else (),
    )


def _unbound(rng: random.Random, pod: Pod) -> Pod:
    waits = replace(pod, node_name="", phase="Pending", ready="False")
    return _leaving(rng, waits) if rng.random() < 0.5 else waits


def _ended(rng: random.Random, pod: Pod) -> Pod:
    reason = rng.choice(("Evicted", ""))
    return replace(pod, phase="Failed", status_reason=reason, ready="False")


def _tracked(rng: random.Random, pod: Pod) -> Pod:
    owner = OwnerReference("Job", _JOB, f"uid-{_JOB}", controller=True)
    owners = (owner,) if rng.random() < 0.7 else ()
    return replace(pod, finalizers=(JOB_TRACKING,), owner_references=owners)


def _duplicate(rng: random.Random, pod: Pod) -> Pod:
    return replace(pod, duplicate_env_or_port=True)


def _tolerations(rng: random.Random, pod: Pod) -> Pod:
    seconds = rng.choice((*_HUGE, -5, 0, 1, 5))
    one = rng.choice(
        (
            tolerates("", seconds),
            tolerates("", None, effect=""),
            Toleration("A", "", "x", "NoExecute", seconds),
            Toleration("A", rng.choice(("Lt", "Gt")), "5", "NoExecute", seconds),
            tolerates(rng.choice((NOT_READY, UNREACHABLE, "A")), seconds),
        )
    )
    return replace(pod, tolerations=rng.choice(((one,), (one, *pod.tolerations))))


_OF_PODS: Sequence[Callable[[random.Random, Pod], Pod]] = (
    *(_bound_late, _bound_late, _bound_late, _mirror, _leaving, _leaving, _unbound),
    *(_ended, _tracked, _duplicate, _tolerations, _tolerations, _tolerations),
)


def odd_pod(rng: random.Random, pod: Pod) -> Pod:
    """The pod with something that few have."""
    return rng.choice(_OF_PODS)(rng, pod)


# -- nodes ----------------------------------------------------------------------------------------


def _added(rng: random.Random) -> float | None:
    return rng.choice((None, -float(rng.randint(1, 40)), -float(rng.randint(60, 90_000))))


def _cordoned(rng: random.Random, node: Node) -> Node:
    taint = make_taint("node.kubernetes.io/unschedulable:NoSchedule", added=_added(rng))
    return replace(node, unschedulable=True, taints=(*node.taints, taint))


def _with_taint(rng: random.Random, node: Node, text: str) -> Node:
    taint = make_taint(text, added=_added(rng))
    if any((one.key, one.effect) == (taint.key, taint.effect) for one in node.taints):
        return node
    changed_ns = epoch_ns(-float(rng.randint(1, 500))) if rng.random() < 0.5 else None
    return replace(node, taints=(*node.taints, taint), taints_changed_ns=changed_ns)


def _tainted(rng: random.Random, node: Node) -> Node:
    return _with_taint(rng, node, rng.choice(("A=x:NoExecute", "A=7:NoExecute", "B:NoExecute")))


def _tainted_otherwise(rng: random.Random, node: Node) -> Node:
    return _with_taint(rng, node, rng.choice(("A=x:NoSchedule", "B:PreferNoSchedule")))


def _tainted_by_controller(rng: random.Random, node: Node) -> Node:
    """It is Ready again, or swapped from the one to the other, just now; or somebody put it there."""
    return _with_taint(rng, node, f"{rng.choice((NOT_READY, UNREACHABLE))}:NoExecute")


def _young(rng: random.Random, node: Node) -> Node:
    newest = max(node.past_instants(), default=0)
    created_ns = epoch_ns(-round(rng.uniform(0, 20)))
    if newest > created_ns or node.ready_status == "Unknown":
        return node
    return replace(node, creation_timestamp_ns=created_ns)


def _going(rng: random.Random, node: Node) -> Node:
    return replace(node, deletion_timestamp_ns=epoch_ns(0) - ns(rng.randint(0, 100)))


_OF_NODES: Sequence[Callable[[random.Random, Node], Node]] = (
    *(_cordoned, _tainted, _tainted, _tainted_otherwise, _tainted_by_controller, _young, _going),
)


def odd_node(rng: random.Random, node: Node) -> Node:
    """The node with something that few have."""
    return rng.choice(_OF_NODES)(rng, node)
