"""What an eviction costs: budgets, data, names, replacements.

Each asks lots of pods that nothing tells apart, and goes through the pods of those that matter: there may be tens of
thousands of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kubectl_evictplan.cluster.timeline import EVICTION_API, TAINT_EVICTION
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.finalizers import lasting_finalizers
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration
from kubectl_evictplan.kube.taints import UNSCHEDULABLE
from kubectl_evictplan.kube.tolerations import get_matching_tolerations
from kubectl_evictplan.prediction.pod_ends import Stuck
from kubectl_evictplan.prediction.warnings.context import (
    EvictedLot,
    PlainWarning,
    Statement,
    Statements,
    WarningContext,
    whole_if,
)
from kubectl_evictplan.scenarios.actions.nodes import AddTaint
from kubectl_evictplan.sources.kinds import command_to_add, plural
from kubectl_evictplan.sources.wire import KINDS

_REPLACING_KINDS = ("Job", "ReplicaSet", "ReplicationController", "StatefulSet")
_CORDONED = (Taint(UNSCHEDULABLE, NO_SCHEDULE),)


def disruption_budget_bypassed(context: WarningContext) -> Statements:
    """More evictions than a PodDisruptionBudget allows: taint eviction does not ask."""
    budgets = context.snapshot.budgets
    index = BudgetIndex(budgets)
    covered: dict[int, list[str]] = {}
    unasked = [
        evicted
        for evicted in (context.evicted if budgets else ())
        if evicted.pod.deletion_timestamp_ns is None
        and _live(evicted)
        and evicted.controller != EVICTION_API
    ]
    sure = set(context.evicted_keys(one for one in unasked if one.occurrence.certain))
    for pod in context.evicted_pods(unasked):
        for place in index.matching(pod):
            covered.setdefault(place, []).append(pod.key)
    for place, pods in covered.items():
        budget = budgets[place]
        allowed = budget.disruptions_allowed
        if allowed is None or len(pods) > allowed:
            allows = "an unknown number of disruptions"
            if allowed is not None:
                allows = f"{allowed} disruption{'s' if allowed != 1 else ''}"
            be = "is" if len(pods) == 1 else "are"
            yield Statement(
                f"PodDisruptionBudget {budget.namespace}/{budget.name} allows {allows}, and {len(pods)} "
                f"of its pods {be if sure.issuperset(pods) else 'may be'} evicted by deletions that do not ask it",
                pods,
            )


def _live(evicted: EvictedLot) -> bool:
    return not evicted.pod.finished


def _without_a_name(context: WarningContext) -> list[str]:
    """A StatefulSet's replacement has the same name."""
    owned = context.evicted_by_owner.get("StatefulSet")
    if not owned:
        return []
    stuck = {kind.key.pod for kind in context.kinds if kind.stuck is Stuck.KUBELET_SILENT}
    return context.evicted_keys(evicted for evicted in owned if evicted.pod.key in stuck)


def _may_return(context: WarningContext) -> Iterator[EvictedLot]:
    """The scheduler treats a finite toleration as a toleration: round and round."""
    comparison = context.configuration.comparison_operators
    cordoned = {node.name for node in context.nodes if node.unschedulable}
    cordoned.update(n for e in context.events if e.unschedulable for n in e.nodes)
    verdicts: dict[tuple[int, int], bool] = {}
    for kind in _REPLACING_KINDS:
        for evicted in context.evicted_by_owner.get(kind, ()):
            seconds = evicted.occurrence.toleration_seconds
            node = evicted.occurrence.node
            if seconds is None or seconds <= 0 or node in context.ends.silent_nodes:
                continue
            tolerations = evicted.pod.tolerations
            taints = context.taints_of.get(node, ())
            key = (id(tolerations), id(taints))
            if (verdict := verdicts.get(key)) is None:
                verdict = verdicts[key] = _passes(tolerations, taints, comparison)
            if verdict and (node not in cordoned or _passes(tolerations, _CORDONED, comparison)):
                yield evicted


def _returns(context: WarningContext, evicted: EvictedLot) -> bool:
    """``nodeShouldRunDaemonPod`` asks whether taints are tolerated, not for how long: it comes back to the node."""
    taints = context.taints_of.get(evicted.occurrence.node, ())
    comparison = context.configuration.comparison_operators
    return _passes(evicted.pod.tolerations, taints, comparison)


def _daemon_pods(context: WarningContext, *, return_: bool) -> list[str]:
    """Pods of DaemonSets that a taint evicts, those that come back or the others."""
    return context.evicted_keys(
        evicted
        for evicted in context.evicted_by_owner.get("DaemonSet", ())
        if evicted.controller == TAINT_EVICTION and _returns(context, evicted) == return_
    )


def _passes(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], comparison: bool
) -> bool:
    """Whether the scheduler's TaintToleration filter lets a pod onto a node with these taints."""
    hard = [taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
    return get_matching_tolerations(hard, tolerations, comparison_operators=comparison)[0]


budgets_not_listed = PlainWarning(
    "the input holds no PodDisruptionBudgets: whether the evictions break one is unknown",
    lambda context: whole_if(
        context.evicted
        and not context.snapshot.budgets
        and "PodDisruptionBudget" not in context.snapshot.kinds_seen
    ),
)


def owners_not_listed(context: WarningContext) -> Statements:
    """Nothing in the input tells what owners of these kinds want."""
    listed = {*context.snapshot.kinds_seen, *(one.kind for one in context.snapshot.workloads)}
    absent = {
        kind: evicted
        for kind, evicted in context.evicted_by_owner.items()
        if evicted and kind and kind not in listed and kind != "Node"
    }
    read = sorted(kind for kind in absent if kind in KINDS)
    if read:
        yield Statement(
            f"the input holds no {' and no '.join(map(plural, read))}: each owner of pods that go is taken to exist and to "
            f"want the pods that it has; to add them: {command_to_add(read)}"
        )
    for kind in sorted(absent.keys() - {*read}):
        yield Statement(
            f"{kind} is no kind that is read: what the owners of these pods want, and whether they make them anew, is unknown",
            context.evicted_keys(absent[kind]),
        )


unreachable_stuck_terminating = PlainWarning(
    "the node's kubelet is silent and cannot confirm the end: the pod stays Terminating until the "
    "kubelet is back, the Node is deleted, the out-of-service taint is set or it is force-deleted",
    lambda context: context.stuck(Stuck.KUBELET_SILENT),
)
not_ready_node_may_not_end_pods = PlainWarning(
    "the node's kubelet is alive and reports Ready=False, as it does while its container runtime is "
    "down: whether and when the pod ends is not known",
    lambda context: context.stuck(Stuck.KUBELET_NOT_READY),
)
statefulset_waits_for_name = PlainWarning(
    "the StatefulSet creates its replacement only when the old object is gone, and on a silent node "
    "that does not happen by itself",
    _without_a_name,
)
finalizers_block = PlainWarning(
    "a finalizer keeps the object, and its name, after the containers have ended",
    lambda context: (
        pod.key
        for pod in context.evicted_pods(context.unusual)
        if lasting_finalizers(
            pod,
            job_controller=context.configuration.job_enabled,
            elsewhere=context.jobs_managed_elsewhere,
        )
    ),
)
replacement_may_return = PlainWarning(
    "the replacement tolerates the same taint for a while, so the scheduler may put it on the same "
    "node, where it is evicted again, round and round",
    lambda context: context.evicted_keys(_may_return(context)),
)
# The DaemonSet controller places no pod on a node whose taint it does not tolerate.
daemonset_deleted_and_not_recreated = PlainWarning(
    "the DaemonSet's pod does not tolerate the taint: it is deleted, and not created again on this "
    "node while the taint is untolerated",
    partial(_daemon_pods, return_=False),
)
daemonset_evicted_again = PlainWarning(
    "the DaemonSet's pod tolerates the taint for a while, and its controller does not ask for how "
    "long: it is created again on this node at once and evicted again, round and round",
    partial(_daemon_pods, return_=True),
)
mirror_pod_recreated = PlainWarning(
    "the image of a static pod: deleting it stops nothing, the containers run on and the kubelet "
    "creates it again",
    lambda context: context.evicted_keys(e for e in context.unusual if e.pod.mirror),
)
bare_pod_lost = PlainWarning(
    "no controller owns the pod: once evicted it is gone for good",
    lambda context: context.evicted_keys(
        evicted
        for evicted in context.evicted_by_owner.get("", ())
        if not evicted.pod.mirror and _live(evicted)
    ),
)
empty_dir_lost = PlainWarning(
    "the pod's emptyDir volumes are deleted with it",
    lambda context: (
        pod.key for pod in context.evicted_pods(filter(_live, context.evicted)) if pod.empty_dir
    ),
)
finished_pod_deleted = PlainWarning(
    "the pod has finished, but its object is deleted like any other, at once: its logs and its "
    "record go",
    lambda context: context.evicted_keys(e for e in context.unusual if not _live(e)),
)
pod_already_terminating = PlainWarning(
    "the pod is being deleted already: the eviction changes neither its time nor its grace",
    lambda context: context.evicted_keys(
        e for e in context.unusual if e.pod.deletion_timestamp_ns is not None
    ),
)


def replacement_may_be_tainted(context: WarningContext) -> Statements:
    """A NoExecute taint that comes later, on a node that is open to replacements until then."""
    is_open = {node.name: not node.unschedulable for node in context.snapshot.nodes}
    for event in context.events:
        if event.unschedulable is not None:
            is_open.update((name, not event.unschedulable) for name in event.nodes)
        if isinstance(event, AddTaint) and event.taint.effect == NO_EXECUTE:
            before = [
                evicted
                for kind in _REPLACING_KINDS
                for evicted in context.evicted_by_owner.get(kind, ())
                if evicted.occurrence.earliest_ns < event.at_ns
                and not get_matching_tolerations((event.taint,), evicted.pod.tolerations)[0]
            ]
            elsewhere = {evicted.occurrence.node for evicted in before}
            yield Statement(
                "replacements of pods that were evicted before may be put on a node that is tainted later, to be "
                "evicted there again; apply ends at that taint, as nobody reviewed that",
                [name for name in event.nodes if is_open.get(name) and elsewhere - {name}],
            )
            is_open.update(dict.fromkeys(event.nodes, False))
