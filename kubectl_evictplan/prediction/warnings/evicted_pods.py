"""What an eviction costs: budgets, data, names, replacements (spec taint-eviction 3.5, 6, 7, 8.4).

Every rule is one comprehension over the evicted pods: there may be tens of thousands of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION, EvictionRefused
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.objects import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Taint,
    Toleration,
    Warning,
)
from kubectl_evictplan.kube.taints import UNSCHEDULABLE
from kubectl_evictplan.kube.tolerations import get_matching_tolerations
from kubectl_evictplan.prediction.warnings.situation import (
    FINISHED_PHASES,
    EvictedPod,
    Rule,
    Situation,
    caution,
)

_REPLACING_KINDS = ("Job", "ReplicaSet", "ReplicationController", "StatefulSet")
_CORDONED = (Taint(UNSCHEDULABLE, NO_SCHEDULE),)


def _live(evicted: EvictedPod) -> bool:
    return evicted.pod.phase not in FINISHED_PHASES


def budgets_bypassed(situation: Situation) -> Iterator[Warning]:
    """More evictions than a PodDisruptionBudget allows: taint eviction does not ask."""
    budgets = situation.snapshot.budgets
    if not budgets:
        if situation.evicted and "PodDisruptionBudget" not in situation.snapshot.kinds_seen:
            yield Warning(
                "budgets-not-listed",
                "the input holds no PodDisruptionBudgets: whether the evictions break one is unknown",
            )
        return
    index = BudgetIndex(budgets)
    covered: dict[int, list[str]] = {}
    for evicted in situation.evicted:
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
        message = (
            f"PodDisruptionBudget {budget.namespace}/{budget.name} allows {allows} and {len(pods)} of "
            "its pods are evicted: deletes by controllers do not ask it"
        )
        yield from caution("disruption-budget-bypassed", message, pods)


def stuck_terminating(situation: Situation) -> Iterator[Warning]:
    """Deleted, but the silent kubelet cannot confirm the end."""
    silent = situation.silent
    stuck = [
        evicted
        for evicted in (situation.evicted if silent else ())
        if evicted.occurrence.gone_latest_ns is None and evicted.occurrence.node in silent
    ]
    yield from caution(
        "unreachable-stuck-terminating",
        "the node's kubelet is silent and cannot confirm the end: the pod stays Terminating until the "
        "kubelet is back, the Node is deleted, the out-of-service taint is set or it is force-deleted",
        [evicted.key for evicted in stuck],
    )
    yield from caution(
        "statefulset-waits-for-name",
        "the StatefulSet creates its replacement only when the old object is gone, and on a silent node "
        "that does not happen by itself",
        [evicted.key for evicted in stuck if evicted.owner == "StatefulSet"],
    )


def finalizers(situation: Situation) -> Iterator[Warning]:
    """Objects that outlive their containers."""
    yield from caution(
        "finalizers-block",
        "a finalizer keeps the object, and its name, after the containers have ended",
        [evicted.key for evicted in situation.unusual if evicted.pod.finalizers],
    )


def replacements_may_return(situation: Situation) -> Iterator[Warning]:
    """The scheduler treats a finite toleration as a toleration: round and round (spec 6)."""
    comparison = situation.configuration.comparison_operators
    cordoned = {node.name for node in situation.nodes if node.unschedulable}
    cordoned.update(n for e in situation.events if e.unschedulable for n in e.nodes)
    verdicts: dict[tuple[int, int], bool] = {}
    pods = []
    for kind in _REPLACING_KINDS:
        for evicted in situation.evicted_by_owner.get(kind, ()):
            seconds = evicted.occurrence.toleration_seconds
            node = evicted.occurrence.node
            if seconds is None or seconds <= 0 or node in situation.silent:
                continue
            tolerations = evicted.pod.tolerations
            taints = situation.taints_of.get(node, ())
            key = (id(tolerations), id(taints))
            verdict = verdicts.get(key)
            if verdict is None:
                verdict = verdicts[key] = _passes(tolerations, taints, comparison)
            if verdict and (node not in cordoned or _passes(tolerations, _CORDONED, comparison)):
                pods.append(evicted.key)
    yield from caution(
        "replacement-may-return",
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


def owners(situation: Situation) -> Iterator[Warning]:
    """Who brings the pod back, if anybody does."""
    yield from caution(
        "daemonset-deleted-and-not-recreated",
        "the DaemonSet's pod does not tolerate the taint for good: it is deleted, and not created again "
        "on this node while the taint is untolerated",
        [
            e.key
            for e in situation.evicted_by_owner.get("DaemonSet", ())
            if e.controller == TAINT_EVICTION
        ],
    )
    yield from caution(
        "mirror-pod-recreated",
        "the image of a static pod: deleting it stops nothing, the containers run on and the kubelet "
        "creates it again",
        [evicted.key for evicted in situation.unusual if evicted.pod.mirror],
    )
    yield from caution(
        "bare-pod-lost",
        "no controller owns the pod: once evicted it is gone for good",
        [
            evicted.key
            for evicted in situation.evicted_by_owner.get("", ())
            if not evicted.pod.mirror and _live(evicted)
        ],
    )


def what_is_lost(situation: Situation) -> Iterator[Warning]:
    """Data and records that go with the object."""
    yield from caution(
        "empty-dir-lost",
        "the pod's emptyDir volumes are deleted with it",
        [e.key for e in situation.evicted if e.pod.empty_dir and _live(e)],
    )
    yield from caution(
        "finished-pod-deleted",
        "the pod has finished, but its object is deleted like any other, at once: its logs and its "
        "record go",
        [e.key for e in situation.unusual if not _live(e)],
    )
    yield from caution(
        "pod-already-terminating",
        "the pod is being deleted already: the eviction changes neither its time nor its grace",
        [e.key for e in situation.unusual if e.pod.deletion_timestamp_ns is not None],
    )


def stale_nil_keys(situation: Situation) -> Iterator[Warning]:
    """Up to 1.32 the key of a pod that vanished at once outlives it (spec 3.5)."""
    if not situation.profile.keep_nil_key or not situation.configuration.taint_eviction_enabled:
        return
    created = {event.pod.key for event in situation.events if event.pod is not None}
    pods = [
        e.key
        for e in situation.unusual
        if e.controller == TAINT_EVICTION
        and (e.pod.termination_grace_period_seconds == 0 or e.pod.phase in FINISHED_PHASES)
        and not e.pod.finalizers
        and (e.owner in ("", "StatefulSet") or e.key in created)
    ]
    yield from caution(
        "stale-nil-key-exposure",
        "the pod vanishes at once and its name can come again: in this release its key can stay in the "
        "controller, and a new pod of that name with a finite toleration is then never evicted (fixed "
        "in 1.33)",
        [*pods, *(entry.pod for entry in situation.entries(EvictionRefused))],
    )


RULES: tuple[Rule, ...] = (
    budgets_bypassed,
    stuck_terminating,
    finalizers,
    replacements_may_return,
    owners,
    what_is_lost,
    stale_nil_keys,
)
