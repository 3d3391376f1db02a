"""What is not as it was when a plan was made, and what that changes; pure.

Only what decides something counts: a heartbeat, a label that nothing selects, a pod that stays in any case are no
difference. What decides more than anybody can list (budgets, tolerations, replicas, flags) is held against the plan by
a fresh prediction of the same scenario.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from kubectl_evictplan import __version__
from kubectl_evictplan.kube.durations import MINUTE_NS, format_duration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.plans.changed_prediction import changed_predictions
from kubectl_evictplan.plans.differences import Difference
from kubectl_evictplan.plans.document import (
    AnyOperation,
    ClusterIdentity,
    Evict,
    NodeBefore,
    Plan,
    PodBefore,
    taint_words,
)
from kubectl_evictplan.plans.making import node_before, pod_before
from kubectl_evictplan.prediction.document import Prediction

AGE_LIMIT_NS = 15 * MINUTE_NS
# Without these nothing sure can be said of a drain, or of anything.
_DECIDING_KINDS = ("DaemonSet", "Lease", "PodDisruptionBudget", "ReplicaSet", "StatefulSet")


class Fresh(msgspec.Struct, frozen=True):
    """The cluster as it is now, and what the plan's scenario would be and lead to there.

    ``operations`` and ``prediction`` None: the scenario makes no sense any more, ``impossible`` says why.
    """

    identity: ClusterIdentity
    snapshot: ClusterSnapshot
    now_ns: int
    operations: tuple[AnyOperation, ...] | None = None
    prediction: Prediction | None = None
    impossible: str = ""


def differences(plan: Plan, fresh: Fresh) -> tuple[Difference, ...]:
    """Return everything that differs: identity first, then nodes, pods, the prediction, age."""
    return (
        *_of_identity(plan.cluster, fresh.identity),
        *_of_nodes(plan.nodes, fresh.snapshot.nodes),
        *_of_pods(plan, fresh),
        *_of_prediction(plan, fresh),
        *_of_basis(plan, fresh),
    )


def refused(found: Sequence[Difference], accepted: Collection[str]) -> tuple[Difference, ...]:
    """Return those that keep the plan from being carried out."""
    return tuple(one for one in found if not (one.acceptable and one.kind in accepted))


def other_cluster(plan: Plan, identity: ClusterIdentity) -> tuple[Difference, ...]:
    """Return what of the identity differs: before anything else is read."""
    return tuple(_of_identity(plan.cluster, identity))


def nodes_are_there(plan: Plan, snapshot: ClusterSnapshot) -> bool:
    """Tell whether every node of the plan exists: else its scenario makes no sense."""
    uids = {node.name: node.uid for node in snapshot.nodes}
    return all(uids.get(node.name) == node.uid for node in plan.nodes)


def _of_identity(then: ClusterIdentity, now: ClusterIdentity) -> Iterator[Difference]:
    for what, before, after in (
        ("UID of namespace kube-system", then.cluster_uid, now.cluster_uid),
        ("certificate authority", then.ca_sha256, now.ca_sha256),
    ):
        # What nobody could read is equal to nothing.
        if before != after or not before:
            why = (
                "this may be another cluster"
                if before and after
                else "which cluster it is cannot be told"
            )
            yield Difference("cluster", what, before, after, why)
    if then.user != now.user or not then.user:
        yield Difference("identity", "user", then.user, now.user, "somebody else made the plan")
    if then.kubernetes_version != now.kubernetes_version:
        same_minor = _minor(then.kubernetes_version) == _minor(now.kubernetes_version)
        why = "a patch release" if same_minor else "controllers of another release act differently"
        versions = then.kubernetes_version, now.kubernetes_version
        yield Difference("release", "Kubernetes", *versions, why, acceptable=same_minor)


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _of_nodes(then: Sequence[NodeBefore], now: Sequence[Node]) -> Iterator[Difference]:
    there = {node.name: node_before(node) for node in now}
    for before in then:
        after = there.get(before.name)
        about = f"node {before.name}"
        if after is None:
            yield Difference("node-gone", about, "there", "gone", "its operations have no object")
        elif after.uid != before.uid:
            why = "another machine has the name"
            yield Difference("node-recreated", about, before.uid, after.uid, why)
        else:
            yield from _of_node(about, before, after)


def _of_node(about: str, before: NodeBefore, after: NodeBefore) -> Iterator[Difference]:
    if (old := _taints(before)) != (new := _taints(after)):
        why = "somebody else works on it, or its state changed"
        yield Difference("node-taints", about, old, new, why)
    if before.unschedulable != after.unschedulable:
        words = {True: "cordoned", False: "schedulable"}
        states = words[before.unschedulable], words[after.unschedulable]
        yield Difference("node-schedulable", about, *states, "somebody else works on it")
    if before.ready != after.ready:
        why = "its kubelet works again" if after.ready == "True" else "its kubelet deletes no pods"
        states = f"Ready={before.ready}", f"Ready={after.ready}"
        yield Difference("node-ready", about, *states, why, acceptable=after.ready == "True")


def _taints(node: NodeBefore) -> str:
    return ", ".join(sorted(map(taint_words, node.taints))) or "no taints"


# -- pods -----------------------------------------------------------------------------------------


def _of_pods(plan: Plan, fresh: Fresh) -> Iterator[Difference]:
    nodes = {node.name for node in plan.nodes}
    now = {pod.key: pod for pod in fresh.snapshot.pods}
    concerned = _concerned(plan.operations, plan.prediction, nodes)
    for before in plan.pods:
        after = now.get(before.key)
        if before.key in concerned:
            yield from _of_pod(before, after, nodes)
    known = {pod.key for pod in plan.pods}
    if fresh.operations is None or fresh.prediction is None:
        return
    for key, reason in sorted(_concerned(fresh.operations, fresh.prediction, nodes).items()):
        if key not in known and key in now:
            about, why = f"pod {key}", f"it would be {reason}, and nobody reviewed that"
            yield Difference("pod-added", about, "not there", f"on {now[key].node_name}", why)


def _concerned(
    operations: Sequence[AnyOperation], prediction: Prediction, nodes: Collection[str]
) -> dict[str, str]:
    """Return the pods of these nodes that are not left alone, with what happens to them."""
    found = {row.key: "evicted" for row in prediction.evictions if row.node in nodes}
    found |= {one.key: "drained" for one in operations if isinstance(one, Evict)}
    return found


def _of_pod(before: PodBefore, after: Pod | None, nodes: Collection[str]) -> Iterator[Difference]:
    about = f"pod {before.key}"
    if after is None or (after.uid != before.uid and after.node_name not in nodes):
        now = f"another pod on {after.node_name or 'no node yet'}" if after is not None else "gone"
        why = "nothing is left to evict"
        yield Difference("pod-gone", about, f"on {before.node}", now, why, acceptable=True)
    elif after.uid != before.uid:
        why = "another pod has the name, and nobody reviewed that"
        yield Difference("pod-recreated", about, before.uid, after.uid, why)
    elif (owner := pod_before(after).owner) != before.owner:
        why = "what replaces it is another thing"
        states = before.owner or "no owner", owner or "no owner"
        yield Difference("pod-owner", about, *states, why)


def _of_prediction(plan: Plan, fresh: Fresh) -> Iterator[Difference]:
    if fresh.prediction is None:
        # Without its nodes no plan makes sense, which is said already.
        if nodes_are_there(plan, fresh.snapshot):
            why = "what was reviewed cannot be planned any more"
            yield Difference("prediction", "scenario", "possible", fresh.impossible, why)
    else:
        present = {
            (pod.key, pod.uid) for pod in fresh.snapshot.pods if pod.deletion_timestamp_ns is None
        }
        yield from changed_predictions(plan, fresh.prediction, present)


# -- what the plan was made from --------------------------------------------------------------------


def _of_basis(plan: Plan, fresh: Fresh) -> Iterator[Difference]:
    taken_ns = parse_rfc3339_ns(plan.snapshot.taken_at) or 0
    age_ns = fresh.now_ns - taken_ns
    if age_ns > AGE_LIMIT_NS:
        limit, age = format_duration(AGE_LIMIT_NS), format_duration(age_ns // 10**9 * 10**9)
        why = f"a review counts for {limit}; everything else was compared"
        yield Difference("age", "plan", plan.snapshot.taken_at, f"{age} old", why, acceptable=True)
    if plan.tool_version != __version__:
        why = "another version of this program may predict something else"
        versions = plan.tool_version, __version__
        yield Difference("tool", "kubectl-evictplan", *versions, why, acceptable=True)
    yield from not_read(plan)


def not_read(plan: Plan) -> Iterator[Difference]:
    """Yield what could not be read when the plan was made, although it decides: also of a plan made just now."""
    lacking = [kind for kind in plan.snapshot.not_evaluated if kind in _DECIDING_KINDS]
    if plan.snapshot.namespace:
        lacking.append(f"pods outside namespace {plan.snapshot.namespace}")
    for what in lacking:
        why = "what depends on them was not predicted"
        yield Difference("partial", what, "not read", "not read", why, acceptable=True)
