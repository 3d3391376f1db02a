"""What may go wrong with ``kubectl drain``: waits without end, several budgets, what is not known of budgets."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.controllers.disruption import OwnerScales
from kubectl_evictplan.controllers.replication import owner_key
from kubectl_evictplan.engine.drain_timing import CLIENT_BURST, CLIENT_QPS
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.disruption import (
    ALWAYS_ALLOW,
    can_ignore_budgets,
    is_behind,
    is_negative,
    is_stale,
    sync_fails,
)
from kubectl_evictplan.kube.drain_filters import OVERRIDES, Reason
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.owners import known_namespaces, terminating_namespaces
from kubectl_evictplan.prediction.warnings.context import (
    PlainWarning,
    Statement,
    Statements,
    WarningContext,
)
from kubectl_evictplan.scenarios.actions.drain import drains_among

if TYPE_CHECKING:
    from kubectl_evictplan.windows.drains.instants import NodeDrain
    from kubectl_evictplan.windows.drains.outcomes import DrainOutcome
    from kubectl_evictplan.windows.drains.throttled import Lateness


def _outcomes(context: WarningContext) -> dict[NodeDrain, DrainOutcome]:
    found = context.drains
    return {} if found is None else found.answers.outcomes


def _drained_pods(context: WarningContext) -> list[Pod]:
    """Pods of drained nodes that a budget can protect."""
    found = context.drains
    nodes = {drain.node for drain in found.drains} if found is not None else set()
    pods = found.world.snapshot.pods if found is not None else ()
    return [pod for pod in pods if pod.node_name in nodes and not can_ignore_budgets(pod)]


def drain_refused(context: WarningContext) -> Statements:
    """kubectl refuses a node for one pod: nothing of it is evicted."""
    flags: dict[tuple[str, str], list[str]] = {}
    for drain, outcome in _outcomes(context).items():
        for refusal in outcome.refused:
            flag = OVERRIDES[Reason(refusal.reason)]
            flags.setdefault((drain.node, flag), []).append(refusal.pod)
    for (node, flag), pods in sorted(flags.items()):
        yield Statement(
            f"kubectl refuses to drain {node} because of these pods and evicts none; the node stays "
            f"cordoned; {flag} overrides that",
            pods,
        )


def _ends_as_expected(context: WarningContext, drain: NodeDrain) -> bool:
    """Whether only what is not in the input can keep kubectl there for ever."""
    expected = None if context.drains is None else context.drains.answers.expected(drain)
    return expected is not None and expected.end is not None and expected.end.latest_ns is not None


def drain_never_ends(context: WarningContext) -> Statements:
    """Without --timeout kubectl asks again for ever."""
    for drain, outcome in _outcomes(context).items():
        if outcome.start is None or (outcome.end is not None and outcome.end.latest_ns is not None):
            continue
        if outcome.proven and None not in outcome.reasons:
            # It is a node before that kubectl may never be through with.
            continue
        if outcome.end is not None and _ends_as_expected(context, drain):
            # What may prevent it is said where it is said that the input does not have it.
            continue
        may = "never ends" if outcome.end is None else "may never end"
        waits = [key for key, wait in outcome.waits.items() if "never" in wait.ends]
        budgets = sorted({name for key in waits for name in key.budgets})
        spaces = sorted({key.pod.partition("/")[0] for key in waits if not key.budgets})
        what = [f"budget {', '.join(budgets)}"] if budgets else []
        what += [f"the deletion of namespace {', '.join(spaces)}"] if spaces else []
        why = f"waits for {' and '.join(what) or 'pods to end'}"
        if not what and outcome.proven and DrainEnd.ERROR in outcome.reasons:
            why = "asks again if a webhook that is asked before its pods are deleted says so"
        yield Statement(
            f"the drain of {drain.node} {may}: kubectl {why}; --timeout would end it",
            {key.pod for key in waits} or {drain.node},
        )


def kubectl_throttling(context: WarningContext) -> Statements:
    """kubectl's own client limits its requests (``rest.DefaultQPS``), evictions and all others apart: windows span that, single offsets do not."""
    late_of: defaultdict[int, dict[str, Lateness]] = defaultdict(dict)
    for drain, late in () if context.drains is None else context.drains.answers.lateness.items():
        if late.ends_ns:
            late_of[drain.process][drain.node] = late
    for nodes in late_of.values():
        deleted_ns = max(late.deletes_ns for late in nodes.values())
        ends_ns = max(late.ends_ns for late in nodes.values())
        deleted = f"pods go up to {format_duration(deleted_ns)} later, and " if deleted_ns else ""
        yield Statement(
            f"kubectl's own client makes {CLIENT_QPS} requests of a kind a second after {CLIENT_BURST} at once: "
            f"{deleted}it is through with these nodes up to {format_duration(ends_ns)} later for that; windows span it",
            nodes,
        )


def namespace_terminating(context: WarningContext) -> Statements:
    """NamespaceLifecycle refuses what is created there, evictions too; kubectl knows that answer (``evictPods``)."""
    events, terminating = (
        drains_among(context.scenario.events),
        terminating_namespaces(context.snapshot),
    )
    evicting = {
        drain.node
        for drain in _outcomes(context)
        if terminating and not events[drain.process].disable_eviction
    }
    refused: dict[str, list[str]] = {}
    for pod in context.drains.world.snapshot.pods if context.drains and evicting else ():
        if (
            pod.node_name in evicting
            and pod.namespace in terminating
            and pod.deletion_timestamp_ns is None
        ):
            refused.setdefault(pod.namespace, []).append(pod.key)
    for namespace, pods in sorted(refused.items()):
        yield Statement(
            f"namespace {namespace} is Terminating: the Eviction API refuses its pods (403), and kubectl asks every 5s "
            "until somebody else has deleted them; of a pod that is gone between two requests until the namespace is "
            "gone. When its controller deletes them is not predicted",
            pods,
        )


def drain_waits_for_gates(context: WarningContext) -> Statements:
    """A budget opens when a replacement is Ready, and nobody schedules one that has gates (``PreEnqueue``)."""
    gates_of = {
        (one.kind, one.namespace, one.name): one.scheduling_gates
        for one in context.snapshot.workloads
        if one.scheduling_gates
    }
    owner_of = {pod.key: owner_key(pod) for pod in _drained_pods(context)} if gates_of else {}
    waiting: dict[tuple[tuple[str, ...], tuple[str, ...]], set[str]] = {}
    for outcome in _outcomes(context).values() if gates_of else ():
        for key in outcome.waits:
            owner = owner_of.get(key.pod)
            if owner is not None and owner in gates_of:
                waiting.setdefault((key.budgets, gates_of[owner]), set()).add(key.pod)
    for (budgets, gates), pods in sorted(waiting.items()):
        yield Statement(
            f"budget {', '.join(budgets)} lets the next pod go when the replacement of the one before is Ready, and that "
            f"carries scheduling gates ({', '.join(gates)}): kube-scheduler does not look at it, whatever room there is, "
            "before somebody takes them off. No controller of Kubernetes does; who else does, and when, is not in the "
            "input: so the drain goes on at once, later or never",
            pods,
        )


def budget_allows_nothing(context: WarningContext) -> Statements:
    """A budget that can never allow a disruption, whatever becomes Ready, or is made because an owner lacks it."""
    found = context.drains
    if found is None:
        return
    from kubectl_evictplan.windows.drains.world import short_owners, unknown_owners

    budgets, missing = found.world.budgets, short_owners(found.world.snapshot)
    unknown = unknown_owners(found.world.snapshot)
    covered: dict[int, list[str]] = {}
    index = BudgetIndex(budgets)
    for pod in _drained_pods(context):
        for place in index.matching(pod):
            always = budgets[place].unhealthy_pod_eviction_policy == ALWAYS_ALLOW
            if pod.ready == "True" or not always:
                covered.setdefault(place, []).append(pod.key)
    owners_of: dict[int, set[tuple[str, str, str] | None]] = {}
    for pod in found.world.snapshot.pods if covered else ():
        for place in index.matching(pod):
            owners_of.setdefault(place, set()).add(owner_key(pod))
    for place, pods in sorted(covered.items()):
        budget = budgets[place]
        expected, desired = budget.expected_pods, budget.desired_healthy
        owners = owners_of[place]
        if not owners.isdisjoint(unknown):
            # They may make more, as they have too few, or have more than they want.
            continue
        if budget.min_available is not None and not budget.min_available.percent:
            # It counts pods that there are, others what their owners want.
            coming = sum(number for owner, number in missing.items() if owner in owners)
            expected = None if expected is None else expected + coming
        if expected is not None and desired is not None and desired >= expected > 0:
            yield Statement(
                f"PodDisruptionBudget {budget.key} never allows a disruption: it wants {desired} "
                f"healthy pods of {expected}",
                pods,
            )


def two_budgets(context: WarningContext) -> Statements:
    """The Eviction API cannot serve several budgets."""
    found = context.drains
    budgets = found.world.budgets if found is not None else ()
    index = BudgetIndex(budgets)
    several: dict[tuple[str, ...], list[str]] = {}
    for pod in _drained_pods(context):
        places = index.matching(pod)
        if len(places) > 1:
            several.setdefault(tuple(budgets[at].key for at in places), []).append(pod.key)
    for names, pods in sorted(several.items()):
        yield Statement(
            f"budgets {' and '.join(names)} both cover it: the Eviction API answers 500, which kubectl "
            "does not repeat; the drain fails when the node's other pods are through",
            pods,
        )


def budget_not_readable(context: WarningContext) -> Statements:
    """Unknown budgets may refuse every eviction."""
    found = context.drains
    if found is not None and (found.world.budgets_denied or not found.world.budgets_listed):
        why = "may not be read" if found.world.budgets_denied else "are not in the input"
        terminating = terminating_namespaces(context.snapshot)
        left = found.answers.left_alone
        asked = [
            pod.key
            for pod in _drained_pods(context)
            if pod.namespace not in terminating and (pod.key, pod.uid) not in left
        ]
        if not asked:
            return
        yield Statement(
            f"PodDisruptionBudgets {why}: whether the Eviction API lets these pods go at once, later "
            "or never is unknown",
            asked,
        )


def namespaces_not_listed(context: WarningContext) -> Statements:
    """Where a namespace is being deleted the Eviction API evicts nobody, and nobody has asked whether it is."""
    found = context.drains
    if found is None or "Namespace" not in found.answers.missing:
        return
    known, left = known_namespaces(found.world.snapshot), found.answers.left_alone
    nodes = {drain.node for drain in found.drains}
    asked = [
        pod.key
        for pod in found.world.snapshot.pods
        if pod.node_name in nodes and pod.namespace not in known and (pod.key, pod.uid) not in left
    ]
    why = "may not be read" if "Namespace" in context.snapshot.denied else "are not in the input"
    yield Statement(
        f"Namespaces {why}: whether these pods' own is being deleted, where the Eviction API evicts nobody, is unknown",
        asked,
    )


def budget_without_status(context: WarningContext) -> Statements:
    """Nobody has computed what the budget allows, or for an older spec, or for other pods."""
    found = context.drains
    budgets = found.world.budgets if found is not None else ()
    index, scale = BudgetIndex(budgets), OwnerScales(context.snapshot.workloads).scale
    for budget, pods in zip(budgets, _covered(context, index), strict=True):
        if is_negative(budget):
            yield Statement(
                f"the budget's status allows {budget.disruptions_allowed} disruptions: until the disruption controller "
                "corrects that, which is taken to last up to 5s, the Eviction API answers 403, which kubectl does not repeat",
                [budget.key],
            )
        if is_negative(budget) or sync_fails(budget, pods, scale):
            continue
        if budget.disruptions_allowed is None:
            yield Statement(
                "the budget has no status: what it allows is computed from its pods and their owners",
                [budget.key],
            )
        elif is_stale(budget):
            yield Statement(
                "the budget's status is older than its spec: evictions wait for the disruption "
                "controller",
                [budget.key],
            )
        # Of several budgets of one pod the controller keeps one only.
        elif is_behind(budget, pods, context.scenario.start_ns) and not any(
            len(index.matching(pod)) > 1 for pod in pods
        ):
            yield Statement(
                f"the budget's status counts {budget.current_healthy} healthy pods, which is not what the pods "
                "in the input say: the disruption controller is taken to correct it within 5s",
                [budget.key],
            )


def _covered(context: WarningContext, index: BudgetIndex) -> list[list[Pod]]:
    """All pods of the cluster that each budget covers."""
    found = context.drains
    if found is None:
        return []
    covered: list[list[Pod]] = [[] for _ in found.world.budgets]
    for pod in found.world.snapshot.pods:
        for place in index.matching(pod):
            covered[place].append(pod)
    return covered


def budget_sync_fails(context: WarningContext) -> Statements:
    """A percentage or maxUnavailable is of what owners want, and Jobs and DaemonSets have no scale (``failSafe``)."""
    found = context.drains
    budgets = found.world.budgets if found is not None else ()
    index, scale = BudgetIndex(budgets), OwnerScales(context.snapshot.workloads).scale
    for budget, pods in zip(budgets, _covered(context, index), strict=True):
        if sync_fails(budget, pods, scale):
            yield Statement(
                "it is a percentage or maxUnavailable over pods whose owner has no scale (Job, DaemonSet): the disruption "
                "controller's sync fails and allows nothing, as long as that is so; minAvailable as a number works",
                [budget.key],
            )


replacement_may_be_drained = PlainWarning(
    "a replacement may land on a node that is drained later, and is evicted there again",
    lambda context: context.drains.answers.replaced_owners if context.drains else (),
)


def no_node_for_replacements(context: WarningContext) -> Statements:
    """Every node is cordoned: nothing becomes Ready again."""
    found = context.drains
    if found is None:
        return
    drained = {drain.node for drain in found.drains}
    if all(node.name in drained or node.unschedulable for node in context.snapshot.nodes):
        yield Statement(
            "no other node takes pods: replacements stay Pending, and budgets do not recover",
            sorted(drained),
        )


def owner_without_pods(context: WarningContext) -> Statements:
    """A quota or a webhook refuses all that it creates, perhaps; what it makes once that is over nobody knows."""
    found = context.drains
    if found is None or not found.world.without_pods:
        return
    from kubectl_evictplan.windows.drains.newcomers import budgets_over  # rarely needed

    for owner in found.world.without_pods:
        places = sorted(budgets_over((owner,), found.world.budgets))
        counted = ", ".join(found.world.budgets[place].key for place in places)
        known = f"; nothing is certain of budget {counted}, which may count them" if counted else ""
        yield Statement(
            "this owner wants pods, the input has none of them, and it is taken to make none: one that it makes may land on a node "
            f"before kubectl cordons it, and is evicted there or keeps kubectl from draining it{known}",
            [f"{owner.kind}/{owner.namespace}/{owner.name}"],
        )
