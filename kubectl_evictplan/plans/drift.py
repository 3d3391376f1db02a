"""What is not as it was when a plan was made, and what that changes; pure.

Only what decides something counts: a heartbeat, a label that nothing selects, a pod that stays in any case are no
difference. What decides more than anybody can list (budgets, tolerations, replicas, flags) is held against the plan by
a fresh prediction of the same scenario.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kubectl_evictplan import __version__
from kubectl_evictplan.kube.durations import MINUTE_NS, SECOND_NS, format_duration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.timestamps import format_rfc3339, parse_rfc3339_ns
from kubectl_evictplan.plans.changed_prediction import changed_predictions
from kubectl_evictplan.plans.differences import Difference
from kubectl_evictplan.plans.document import (
    AnyOperation,
    ClusterIdentity,
    Evict,
    Execution,
    NodeBefore,
    Plan,
    PodBefore,
    taint_words,
)
from kubectl_evictplan.plans.making import losses_of, node_before, pod_before
from kubectl_evictplan.prediction.document import Prediction

AGE_LIMIT_NS = 15 * MINUTE_NS
# Without these nothing sure can be said of a drain, or of anything.
_DECIDING_KINDS = ("DaemonSet", "Lease", "PodDisruptionBudget", "ReplicaSet", "StatefulSet")
_STOOD_STILL = "nobody watched it since; nodes that it has not come to were compared"


class Fresh(msgspec.Struct, frozen=True):
    """The cluster as it is now, and what the plan's scenario would be and lead to there.

    ``absent`` names nodes that are gone, and of which nothing more is wanted. ``operations`` and ``prediction`` None: the scenario makes no sense any more, ``impossible`` says why.
    """

    identity: ClusterIdentity
    snapshot: ClusterSnapshot
    now_ns: int
    absent: frozenset[str] = frozenset()
    operations: tuple[AnyOperation, ...] | None = None
    execution: Execution | None = None
    prediction: Prediction | None = None
    impossible: str = ""


def differences(plan: Plan, fresh: Fresh) -> tuple[Difference, ...]:
    """Return everything that differs: identity first, then nodes, pods, the prediction, age."""
    return (
        *_of_identity(plan.cluster, fresh.identity),
        *_of_nodes(plan.nodes, fresh.snapshot.nodes),
        *_of_pods(plan, fresh),
        *_of_operations(plan, fresh),
        *_of_execution(plan, fresh),
        *_of_prediction(plan, fresh),
        *_of_basis(plan, fresh),
        *_not_read_now(plan, fresh.snapshot),
    )


def differences_of_rest(
    plan: Plan, fresh: Fresh, touched: Collection[str], stopped_ns: int
) -> tuple[Difference, ...]:
    """Return what differs for the nodes that a run has not come to yet; ``touched`` names all others.

    What a run has begun is not as it was, by its own doing: that is compared while it goes on. ``stopped_ns``: its last
    sign of life, until when somebody watched it.
    """
    names = {node.name for node in plan.nodes} - set(touched) - fresh.absent
    rest = replace(
        plan,
        nodes=tuple(node for node in plan.nodes if node.name in names),
        pods=tuple(pod for pod in plan.pods if pod.node in names),
        operations=tuple(one for one in plan.operations if one.node in names),
        prediction=_of_these(plan.prediction, names),
    )
    if fresh.operations is not None and fresh.prediction is not None:
        operations = tuple(one for one in fresh.operations if one.node in names)
        prediction = _of_these(fresh.prediction, names)
        fresh = replace(fresh, operations=operations, prediction=prediction)
    return (
        *_of_identity(rest.cluster, fresh.identity),
        *_of_execution(rest, fresh),
        *_of_nodes(rest.nodes, fresh.snapshot.nodes),
        *(_of_pods(rest, fresh) if names else ()),
        *(_of_operations(rest, fresh) if names else ()),
        *(_of_prediction(rest, fresh) if names else ()),
        *(_not_read_now(rest, fresh.snapshot) if names else ()),
        *_of_age("run", _STOOD_STILL, stopped_ns, fresh.now_ns),
    )


def differences_of_begun(
    plan: Plan, identity: ClusterIdentity, now_ns: int, stopped_ns: int
) -> tuple[Difference, ...]:
    """Return what differs for a run that has come to every node: nothing of them has to be predicted again."""
    age = _of_age("run", _STOOD_STILL, stopped_ns, now_ns)
    return (*_of_identity(plan.cluster, identity), *age)


def _of_these(prediction: Prediction, names: Collection[str]) -> Prediction:
    return replace(
        prediction,
        evictions=prediction.evictions.on_nodes(names),
        drains=tuple(row for row in prediction.drains if row.node in names),
    )


def refused(found: Sequence[Difference], accepted: Collection[str]) -> tuple[Difference, ...]:
    """Return those that keep the plan from being carried out."""
    return tuple(one for one in found if not (one.acceptable and one.kind in accepted))


def matter_to_nothing(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """Return those by which a plan without operations is not one any more: its age and what is predicted are not."""
    return tuple(one for one in found if not one.acceptable and one.kind != "prediction")


def other_cluster(plan: Plan, identity: ClusterIdentity) -> tuple[Difference, ...]:
    """Return what of the identity differs: before anything else is read."""
    return tuple(_of_identity(plan.cluster, identity))


def nodes_are_there(
    plan: Plan, snapshot: ClusterSnapshot, absent: Collection[str] = frozenset()
) -> bool:
    """Tell whether every node of the plan, but those left out, exists: else its scenario makes no sense."""
    uids = {node.name: node.uid for node in snapshot.nodes}
    return all(uids.get(node.name) == node.uid for node in plan.nodes if node.name not in absent)


def absent(plan: Plan, snapshot: ClusterSnapshot) -> frozenset[str]:
    """Return the plan's nodes that are not there any more."""
    return frozenset(node.name for node in plan.nodes) - {node.name for node in snapshot.nodes}


def without_nodes(written: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a plan's scenario without these nodes; its events name their nodes one by one."""
    spec = dict(written.get("spec", {}))
    events = [
        {**event, "nodes": [node for node in event.get("nodes", ()) if node not in names]}
        for event in spec.get("events", ())
    ]
    spec["events"] = [event for event in events if event["nodes"]]
    return {**written, "spec": spec}


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


def _of_operations(plan: Plan, fresh: Fresh) -> Iterator[Difference]:
    """Yield operations and losses that are not those of the plan's own scenario: whatever the file says.

    Nodes and pods that differ themselves are told of before, and change what is to be done.
    """
    if fresh.operations is None or fresh.prediction is None:
        return
    nodes = {one.name for one in plan.nodes if _as_before(one, fresh.snapshot)}
    then, now = (
        [replace(one, number=0) for one in some if _is_compared(one, nodes, plan, fresh.snapshot)]
        for some in (plan.operations, fresh.operations)
    )
    for one in then:
        if one not in now:
            why = "nothing in the plan's scenario asks for it"
            yield Difference("operations", one.told, "to be done", "not to be done", why)
    for one in now:
        if one not in then:
            why = "the plan's scenario asks for it"
            yield Difference("operations", one.told, "not to be done", "to be done", why)
    if sorted(map(repr, then)) == sorted(map(repr, now)) and _order(then) != _order(now):
        why = "the plan's scenario asks for the same in another order"
        yield Difference("operations", "operations", "in one order", "in another", why)
    yield from _of_losses(plan, fresh.snapshot, fresh.operations, fresh.prediction)


def _of_execution(plan: Plan, fresh: Fresh) -> Iterator[Difference]:
    """Yield how the file says to carry it out where its own scenario says otherwise."""
    if fresh.execution is None:
        return
    for name in Execution.__struct_fields__:
        then, now = getattr(plan.execution, name), getattr(fresh.execution, name)
        if then != now:
            why = "the plan's scenario asks for it, and was predicted so"
            yield Difference("execution", name, str(then), str(now), why)


def _as_before(node: NodeBefore, snapshot: ClusterSnapshot) -> bool:
    return all(one.acceptable for one in _of_nodes((node,), snapshot.nodes))


def _is_compared(
    one: AnyOperation, nodes: Collection[str], plan: Plan, snapshot: ClusterSnapshot
) -> bool:
    if not isinstance(one, Evict):
        return one.node in nodes
    known = any(pod.uid == one.uid for pod in plan.pods)
    return known and any(pod.uid == one.uid for pod in snapshot.pods)


def _order(operations: Sequence[AnyOperation]) -> list[tuple[str, str]]:
    """Return actions and nodes in their order; the pods of one node have none."""
    return [(type(one).__name__, one.node) for one in operations]


def _of_losses(
    plan: Plan,
    snapshot: ClusterSnapshot,
    operations: Sequence[AnyOperation],
    prediction: Prediction,
) -> Iterator[Difference]:
    known = {pod.uid: pod for pod in plan.pods}
    concerned = _concerned(plan.operations, plan.prediction, {node.name for node in plan.nodes})
    pods = [
        pod
        for pod in snapshot.pods
        if pod.uid in known
        and pod.key in concerned
        and pod_before(pod).owner == known[pod.uid].owner
    ]
    for loss in losses_of(pods, operations, prediction):
        if loss not in plan.losses:
            about, why = f"pod {loss.namespace}/{loss.pod}", "nobody was asked about that"
            yield Difference("losses", about, "not lost", f"lost for good ({loss.kind})", why)


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
    limit = format_duration(AGE_LIMIT_NS)
    why = f"a review counts for {limit}; everything else was compared"
    yield from _of_age("plan", why, taken_ns, fresh.now_ns)
    if plan.tool_version != __version__:
        why = "another version of this program may predict something else"
        versions = plan.tool_version, __version__
        yield Difference("tool", "kubectl-evictplan", *versions, why, acceptable=True)
    yield from not_read(plan)


def _of_age(what: str, why: str, since_ns: int, now_ns: int) -> Iterator[Difference]:
    age_ns = now_ns - since_ns
    if age_ns > AGE_LIMIT_NS:
        age = format_duration(age_ns // SECOND_NS * SECOND_NS)
        then = format_rfc3339(since_ns)
        yield Difference("age", what, then, f"{age} old", why, acceptable=True)


def not_read(plan: Plan) -> Iterator[Difference]:
    """Yield what could not be read when the plan was made, although it decides: also of a plan made just now."""
    lacking = [kind for kind in plan.snapshot.not_evaluated if kind in _DECIDING_KINDS]
    if plan.snapshot.namespace:
        lacking.append(f"pods outside namespace {plan.snapshot.namespace}")
    for what in lacking:
        why = "what depends on them was not predicted"
        yield Difference("partial", what, "not read", "not read", why, acceptable=True)


def _not_read_now(plan: Plan, now: ClusterSnapshot) -> Iterator[Difference]:
    """Yield what decides, was read for the plan, and cannot be now: a prediction that lacks it may still look alike."""
    for kind in sorted({*now.denied}.difference(plan.snapshot.not_evaluated)):
        if kind in _DECIDING_KINDS:
            why = "what depends on them cannot be compared"
            yield Difference("partial", kind, "read", "not read", why, acceptable=True)
