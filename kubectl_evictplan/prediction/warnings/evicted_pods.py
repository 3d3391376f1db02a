"""What an eviction costs: budgets, data, names, replacements.

Every function is one comprehension over the evicted pods: there may be tens of thousands of them.
"""

from __future__ import annotations

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration
from kubectl_evictplan.kube.taints import UNSCHEDULABLE
from kubectl_evictplan.kube.tolerations import get_matching_tolerations
from kubectl_evictplan.prediction.gone import Stuck
from kubectl_evictplan.prediction.warnings.context import (
    FINISHED_PHASES,
    EvictedPod,
    Statement,
    Statements,
    WarningContext,
    WarningFunction,
)

_REPLACING_KINDS = ("Job", "ReplicaSet", "ReplicationController", "StatefulSet")
_CORDONED = (Taint(UNSCHEDULABLE, NO_SCHEDULE),)


def _live(evicted: EvictedPod) -> bool:
    return evicted.pod.phase not in FINISHED_PHASES


def disruption_budget_bypassed(context: WarningContext) -> Statements:
    """More evictions than a PodDisruptionBudget allows: taint eviction does not ask."""
    budgets = context.snapshot.budgets
    index = BudgetIndex(budgets)
    covered: dict[int, list[str]] = {}
    for evicted in context.evicted if budgets else ():
        pod = evicted.pod
        if pod.deletion_timestamp_ns is None and pod.phase not in FINISHED_PHASES:
            for place in index.matching(pod):
                covered.setdefault(place, []).append(evicted.key)
    for place in sorted(covered, key=lambda at: (budgets[at].namespace, budgets[at].name)):
        budget, pods = budgets[place], covered[place]
        allowed = budget.disruptions_allowed
        if allowed is not None and len(pods) <= allowed:
            continue
        allows = "an unknown number" if allowed is None else str(allowed)
        yield Statement(
            f"PodDisruptionBudget {budget.namespace}/{budget.name} allows {allows} and {len(pods)} of "
            "its pods are evicted: deletes by controllers do not ask it",
            pods,
        )


def budgets_not_listed(context: WarningContext) -> Statements:
    """No budget in the input is not the same as no budget."""
    snapshot = context.snapshot
    if context.evicted and not snapshot.budgets:
        if "PodDisruptionBudget" not in snapshot.kinds_seen:
            yield Statement(
                "the input holds no PodDisruptionBudgets: whether the evictions break one is unknown",
            )


def unreachable_stuck_terminating(context: WarningContext) -> Statements:
    """Deleted, but the silent kubelet cannot confirm the end."""
    yield Statement(
        "the node's kubelet is silent and cannot confirm the end: the pod stays Terminating until the "
        "kubelet is back, the Node is deleted, the out-of-service taint is set or it is force-deleted",
        context.stuck.get(Stuck.KUBELET_SILENT, ()),
    )


def not_ready_node_may_not_end_pods(context: WarningContext) -> Statements:
    """Deleted, but the kubelet says that its node is not ready."""
    yield Statement(
        "the node's kubelet is alive and reports Ready=False, as it does while its container runtime is "
        "down: whether and when the pod ends is not known",
        context.stuck.get(Stuck.KUBELET_NOT_READY, ()),
    )


def statefulset_waits_for_name(context: WarningContext) -> Statements:
    """A StatefulSet's replacement has the same name."""
    stuck = context.stuck.get(Stuck.KUBELET_SILENT, set())
    owned = context.evicted_by_owner.get("StatefulSet", ()) if stuck else ()
    yield Statement(
        "the StatefulSet creates its replacement only when the old object is gone, and on a silent node "
        "that does not happen by itself",
        [evicted.key for evicted in owned if evicted.key in stuck],
    )


def finalizers_block(context: WarningContext) -> Statements:
    """Objects that outlive their containers."""
    yield Statement(
        "a finalizer keeps the object, and its name, after the containers have ended",
        [evicted.key for evicted in context.unusual if evicted.pod.finalizers],
    )


def replacement_may_return(context: WarningContext) -> Statements:
    """The scheduler treats a finite toleration as a toleration: round and round."""
    comparison = context.configuration.comparison_operators
    cordoned = {node.name for node in context.nodes if node.unschedulable}
    cordoned.update(n for e in context.events if e.unschedulable for n in e.nodes)
    verdicts: dict[tuple[int, int], bool] = {}
    pods = []
    for kind in _REPLACING_KINDS:
        for evicted in context.evicted_by_owner.get(kind, ()):
            seconds = evicted.occurrence.toleration_seconds
            node = evicted.occurrence.node
            if seconds is None or seconds <= 0 or node in context.silent_nodes:
                continue
            tolerations = evicted.pod.tolerations
            taints = context.taints_of.get(node, ())
            key = (id(tolerations), id(taints))
            verdict = verdicts.get(key)
            if verdict is None:
                verdict = verdicts[key] = _passes(tolerations, taints, comparison)
            if verdict and (node not in cordoned or _passes(tolerations, _CORDONED, comparison)):
                pods.append(evicted.key)
    yield Statement(
        "the replacement tolerates the same taint for a while, so the scheduler may put it on the same "
        "node, where it is evicted again, round and round",
        pods,
    )


def _passes(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], comparison: bool
) -> bool:
    """Whether the scheduler's TaintToleration filter lets a pod onto a node with these taints."""
    hard = [taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
    return get_matching_tolerations(hard, tolerations, comparison_operators=comparison)[0]


def daemonset_deleted_and_not_recreated(context: WarningContext) -> Statements:
    """The DaemonSet controller places no pod on a node whose taint it does not tolerate."""
    yield Statement(
        "the DaemonSet's pod does not tolerate the taint for good: it is deleted, and not created again "
        "on this node while the taint is untolerated",
        [
            evicted.key
            for evicted in context.evicted_by_owner.get("DaemonSet", ())
            if evicted.controller == TAINT_EVICTION
        ],
    )


def mirror_pod_recreated(context: WarningContext) -> Statements:
    """The API's image of a static pod."""
    yield Statement(
        "the image of a static pod: deleting it stops nothing, the containers run on and the kubelet "
        "creates it again",
        [evicted.key for evicted in context.unusual if evicted.pod.mirror],
    )


def bare_pod_lost(context: WarningContext) -> Statements:
    """Nobody brings it back."""
    yield Statement(
        "no controller owns the pod: once evicted it is gone for good",
        [
            evicted.key
            for evicted in context.evicted_by_owner.get("", ())
            if not evicted.pod.mirror and _live(evicted)
        ],
    )


def empty_dir_lost(context: WarningContext) -> Statements:
    """Data that lives as long as the pod."""
    yield Statement(
        "the pod's emptyDir volumes are deleted with it",
        [evicted.key for evicted in context.evicted if evicted.pod.empty_dir and _live(evicted)],
    )


def finished_pod_deleted(context: WarningContext) -> Statements:
    """Logs and records that go with the object."""
    yield Statement(
        "the pod has finished, but its object is deleted like any other, at once: its logs and its "
        "record go",
        [evicted.key for evicted in context.unusual if not _live(evicted)],
    )


def pod_already_terminating(context: WarningContext) -> Statements:
    """A second DELETE changes nothing."""
    yield Statement(
        "the pod is being deleted already: the eviction changes neither its time nor its grace",
        [e.key for e in context.unusual if e.pod.deletion_timestamp_ns is not None],
    )


WARNINGS: tuple[WarningFunction, ...] = (
    disruption_budget_bypassed,
    budgets_not_listed,
    unreachable_stuck_terminating,
    not_ready_node_may_not_end_pods,
    statefulset_waits_for_name,
    finalizers_block,
    replacement_may_return,
    daemonset_deleted_and_not_recreated,
    mirror_pod_recreated,
    bare_pod_lost,
    empty_dir_lost,
    finished_pod_deleted,
    pod_already_terminating,
)
