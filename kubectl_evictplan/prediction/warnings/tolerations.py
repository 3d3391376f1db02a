"""Tolerations that do not mean what they seem to mean, and their timers.

A pod is named only when a taint that its node gets in this prediction is concerned.

Timers, upstream: pkg/controller/tainteviction (before 1.29 nodelifecycle/scheduler). A timer that runs is
never moved: another taint or other seconds change nothing. It is keyed by namespace and name, and dies
with its process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.kubelets import is_silent_at, observed_at_ns
from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, TAINT_EVICTION, DeleteFailure
from kubectl_evictplan.controllers.taint_eviction import delete_is_refused
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.objects import NO_EXECUTE, Pod, Taint, Toleration
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute, no_execute_taints
from kubectl_evictplan.kube.tolerations import (
    get_matching_tolerations,
    get_min_toleration_time_ns,
    tolerates_taint,
)
from kubectl_evictplan.prediction.alike_pods import Lot
from kubectl_evictplan.prediction.warnings.context import (
    WHOLE_PREDICTION,
    PlainWarning,
    Statement,
    Statements,
    TolerationGroup,
    WarningContext,
    whole_if,
)
from kubectl_evictplan.scenarios.actions.pods import DeletePods, SetTolerations
from kubectl_evictplan.scenarios.history import ties
from kubectl_evictplan.simulation.simulate import starts_without_controller

# The controller multiplies seconds by a thousand million in 64 bits.
DURATION_SECONDS_MAX = 9_223_372_036

_FINITE_FIRST = (
    "a toleration with tolerationSeconds stands before an unlimited one that matches the same taint: "
    "the first match decides, so the pod is evicted"
)
_INFINITE_FIRST = (
    "an unlimited toleration stands before one with tolerationSeconds that matches the same taint: "
    "the first match decides, so the seconds never count"
)
_OTHER_FIRST = (
    "several tolerations with different tolerationSeconds match the same taint: the first in the list "
    "decides, not the longest or the most exact"
)

# -- timers -------------------------------------------------------------------------------------------


def controller_restart_resets_timers(context: WarningContext) -> Statements:
    """A new process remembers nothing."""
    told = [event for event in context.events if event.manager_up is not None]
    starts = [
        event.at_ns
        for index, event in enumerate(told)
        if event.manager_up and (index or event.at_ns > 0)
    ]
    if starts:
        nodes = {
            entry.node
            for entry in context.entries(timeline.TaintRemoved)
            if entry.at_ns in starts and entry.by == NODE_LIFECYCLE
        }
        yield Statement(
            "kube-controller-manager starts anew: every countdown begins again, and the NoExecute taints "
            "of nodes that are not ready are taken off and put back one by one at the zone's rate",
            nodes or WHOLE_PREDICTION,
        )


def tie_at_instant(context: WarningContext) -> Statements:
    """Two things happen in the very same instant, and their order decides."""
    yield Statement(
        "events at the same instant touch the same object: they happen in the order of the file, "
        "and another order can give another result",
        ties(context.events),
    )
    changed = {
        (removed.node, removed.at_ns)
        for removed in context.entries(timeline.TaintRemoved)
        if removed.taint.effect == NO_EXECUTE
    }
    changed.update(_edits(context, SetTolerations, DeletePods))
    yield Statement(
        "the timer fires in the very instant in which the taint is removed or the pod changed: here "
        "the timer wins, a real cluster may decide either way",
        [
            pod
            for entry in (context.entries(timeline.PodDeleted) if changed else ())
            if entry.toleration_seconds is not None
            and entry.controller == TAINT_EVICTION
            and not changed.isdisjoint(((entry.node, entry.at_ns), (entry.pod, entry.at_ns)))
            for pod in context.alike.keys(entry.pod)
        ],
    )


def _edits(
    context: WarningContext, *actions: type[SetTolerations | DeletePods]
) -> Iterator[tuple[str, int]]:
    """Yield key and instant of every pod that the scenario changes in this way."""
    for event in context.events:
        if isinstance(event, actions):
            yield from ((key, event.at_ns) for key in event.pods)


def _running_during(
    context: WarningContext,
    changes: Iterable[tuple[str, int]],
    changed: Callable[[timeline.EvictionScheduled], str],
) -> Iterator[str]:
    """Pods whose timer runs on when its object changes; ``changes`` are names and instants."""
    instants_of: dict[str, list[int]] = {}
    for name, at_ns in changes:
        instants_of.setdefault(name, []).append(at_ns)
    if not instants_of:
        return
    cancelled: dict[str, list[int]] = {}
    for entry in context.entries(timeline.TimerCancelled):
        cancelled.setdefault(entry.pod, []).append(entry.at_ns)
    stops = [entry.at_ns for entry in context.entries(timeline.ControllerManagerStopped)]
    for timer in context.entries(timeline.EvictionScheduled):
        instants = instants_of.get(changed(timer))
        # Nearly every timer was started by the newest taint of its node.
        if not instants or instants[-1] <= timer.at_ns:
            continue
        ends = (*stops, *cancelled.get(timer.pod, ()))
        end_ns = min([timer.due_ns, *(at_ns for at_ns in ends if at_ns >= timer.at_ns)])
        if any(timer.at_ns < at_ns < end_ns for at_ns in instants):
            yield from context.alike.keys(timer.pod)


timer_keeps_first_start = PlainWarning(
    "another NoExecute taint comes while the timer runs: it goes on counting from its first start "
    "with its first seconds, neither shorter nor longer",
    lambda context: _running_during(
        context,
        (
            (added.node, added.at_ns)
            for added in context.entries(timeline.TaintAdded)
            if added.taint.effect == NO_EXECUTE
        ),
        lambda timer: timer.node,
    ),
)
toleration_seconds_ignored = PlainWarning(
    "tolerations are changed while the timer runs: other seconds do not move a running timer",
    lambda context: _running_during(
        context, _edits(context, SetTolerations), lambda timer: timer.pod
    ),
)


def wrong_pod_deletion_exposure(context: WarningContext) -> Statements:
    """Timers know names, not UIDs."""
    deletions = list(_edits(context, DeletePods))
    deleted = {key for key, _ in deletions}
    pods = context.pods if deleted else ()
    recreated = {pod.key for pod in pods if pod.key in deleted and _is_recreated(pod)}
    reused: dict[str, list[int]] = {}
    for key, at_ns in (
        *((event.pod.key, event.at_ns) for event in context.events if event.pod is not None),
        *(edit for edit in deletions if edit[0] in recreated),
    ):
        reused.setdefault(key, []).append(at_ns)
    yield Statement(
        "timers know pods by name only: if the controller sees the old pod's end after the new pod "
        "of the same name, the old timer deletes the new pod, on whatever node it is",
        [
            timer.pod
            for timer in (context.entries(timeline.EvictionScheduled) if reused else ())
            if any(timer.at_ns < at < timer.due_ns for at in reused.get(timer.pod, ()))
        ],
    )


def _is_recreated(pod: Pod) -> bool:
    controller = pod.controller()
    return controller is not None and controller.kind == "StatefulSet"


def stale_nil_key_exposure(context: WarningContext) -> Statements:
    """Up to 1.32 the key of a pod that vanished at once outlives it."""
    if not context.profile.keep_nil_key or not context.configuration.taint_eviction_enabled:
        return
    created = {event.pod.key for event in context.events if event.pod is not None}
    pods = [
        pod.key
        for e in context.unusual
        if e.controller == TAINT_EVICTION
        and (e.pod.termination_grace_period_seconds == 0 or e.pod.finished)
        and not e.pod.finalizers
        for pod in context.alike.pods_in(e.lot)
        if e.owner in ("", "StatefulSet") or pod.key in created
    ]
    # Each time that its node is tainted once more.
    refused = dict.fromkeys(entry.pod for entry in context.entries(timeline.EvictionRefused))
    yield Statement(
        "the pod vanishes at once and its name can come again: in this release its key can stay in the "
        "controller, and a new pod of that name with a finite toleration is then never evicted (fixed "
        "in 1.33)",
        [*pods, *(pod for one in refused for pod in context.alike.keys(one))],
    )


def _pods_with_running_timers(context: WarningContext) -> list[str]:
    if not context.configuration.taint_eviction_enabled or starts_without_controller(
        context.scenario
    ):
        return []
    tainted = {n.name: no_execute_taints(n.taints) for n in context.nodes if n.taints}
    lots = []
    for group in context.groups if any(tainted.values()) else ():
        runs: dict[str, bool] = {}
        for lot in group.lots:
            name = lot.pod.node_name
            if name not in runs:
                taints = tainted.get(name, ())
                runs[name] = bool(taints) and _decision_ns(context, group, taints) > 0
            if runs[name] and lot.pod.deletion_timestamp_ns is None:
                lots.append(lot)
    return context.pod_keys(lots)


running_timer_window = PlainWarning(
    "a timer runs already; when it began is only in the controller's memory, so the eviction is a "
    "window over every start that fits",
    _pods_with_running_timers,
)


def _silent_nodes(context: WarningContext) -> bool:
    """Whether a kubelet is silent at the start, and its node not given up yet."""
    snapshot, start_ns = context.snapshot, context.scenario.start_ns
    seen_ns = observed_at_ns(snapshot, start_ns)
    return any(
        node.ready_status != "Unknown" and is_silent_at(snapshot.leases.get(node.name), seen_ns)
        for node in snapshot.nodes
    )


leader_lease_unknown = PlainWarning(
    "Lease kube-system/kube-controller-manager is not in the input: whether the controller restarted "
    "since, which starts every running timer anew, and every grace period, is unknown",
    lambda context: whole_if(
        context.snapshot.control_plane.leader_acquire_time_ns is None
        and (_pods_with_running_timers(context) or _silent_nodes(context))
    ),
)


def _decision_ns(context: WarningContext, group: TolerationGroup, taints: tuple[Taint, ...]) -> int:
    """What ``taints`` together mean for the group: 0 at once, negative forever, else nanoseconds."""
    matched, used = get_matching_tolerations(
        taints,
        group.tolerations,
        comparison_operators=context.configuration.comparison_operators,
    )
    if not matched:
        return 0
    return get_min_toleration_time_ns([group.tolerations[index] for index in used])


# -- what tolerations mean ----------------------------------------------------------------------------


def toleration_seconds_overflow(context: WarningContext) -> Statements:
    """``tolerationSeconds`` beyond an int64 of nanoseconds, on the toleration that decides."""
    for group, _, matching in _matched_taints(context):
        seconds = matching[0].toleration_seconds if matching else None
        if seconds is not None and seconds > DURATION_SECONDS_MAX:
            means_ns = get_min_toleration_time_ns(matching[:1])
            outcome = "forever" if means_ns < 0 else format_duration(means_ns)
            yield Statement(
                f"tolerationSeconds {seconds} overflows in the controller: it counts as {outcome}",
                context.pod_keys(group.lots),
            )


def first_match_surprise(context: WarningContext) -> Statements:
    """The first toleration that matches hides a later one with other seconds."""
    for group, _, matching in _matched_taints(context):
        first, *later = [toleration.toleration_seconds for toleration in matching] or [None]
        hidden = set(later) - {first}
        if hidden:
            finite = _FINITE_FIRST if None in hidden else _OTHER_FIRST
            yield Statement(
                _INFINITE_FIRST if first is None else finite, context.pod_keys(group.lots)
            )


def not_ready_toleration_wrong_value(context: WarningContext) -> Statements:
    """A not-ready or unreachable toleration for a value that the real taint never has."""
    for group, taint, matching in _matched_taints(context):
        if (
            is_lifecycle_no_execute(taint)
            and not matching
            and any(_suppresses_default(toleration, taint) for toleration in group.tolerations)
        ):
            yield Statement(
                "a toleration for not-ready or unreachable asks for a value that the taint does not "
                "have: it matches nothing and keeps admission from adding the default 300s, so the pod "
                "goes at once",
                context.pod_keys(group.lots),
            )


def _matched_taints(
    context: WarningContext,
) -> Iterator[tuple[TolerationGroup, Taint, list[Toleration]]]:
    """Yield each taint of each group with the tolerations that match it, in list order."""
    comparison = context.configuration.comparison_operators
    for group in context.groups:
        for taint in group.taints:
            matching = [
                toleration
                for toleration in group.tolerations
                if tolerates_taint(toleration, taint, comparison_operators=comparison)
            ]
            yield group, taint, matching


def _suppresses_default(toleration: Toleration, taint: Taint) -> bool:
    """The DefaultTolerationSeconds admission plugin looks at key and effect only."""
    return (
        toleration.key == taint.key
        and toleration.effect in ("", NO_EXECUTE)
        and toleration.operator != "Exists"
    )


def lt_gt_operator_gate_off(context: WarningContext) -> Statements:
    """Operators Lt and Gt where nothing reads them."""
    if context.configuration.comparison_operators:
        return
    why = (
        "the gate TaintTolerationComparisonOperators is off"
        if context.profile.comparison_operators_gate
        else f"Kubernetes {context.profile.version} does not know them"
    )
    for group in context.groups:
        keys = {"", *(taint.key for taint in group.taints)}
        if any(t.operator in ("Lt", "Gt") and t.key in keys for t in group.tolerations):
            yield Statement(
                f"tolerations with operator Lt or Gt match nothing here: {why}",
                context.pod_keys(group.lots),
            )


def _never_deleted(context: WarningContext, failure: DeleteFailure) -> list[str]:
    """Pods that the controller wants to delete and, in this release, never can for this reason."""
    configuration = context.configuration
    if not configuration.disruption_condition or not configuration.taint_eviction_enabled:
        return []
    lots: list[Lot] = []
    for group in context.groups:
        failing = [
            lot for lot in group.lots if delete_is_refused(lot.pod, configuration) is failure
        ]
        # The taints need not all be there at once: any of them may be the one that decides.
        if failing and any(_decision_ns(context, group, (taint,)) >= 0 for taint in group.taints):
            lots += failing
    return context.pod_keys(lots)


broken_eviction_1_25 = PlainWarning(
    "Kubernetes {release} with PodDisruptionConditions on: the controller may not read pods, its "
    "deletes all fail, and no taint evicts anything",
    lambda context: _never_deleted(context, DeleteFailure.MAY_NOT_GET_PODS),
)
ssa_condition_fails = PlainWarning(
    "Kubernetes {release} writes the DisruptionTarget condition by server-side apply, which fails for "
    "a duplicate env name or container port: these pods are never evicted",
    lambda context: _never_deleted(context, DeleteFailure.CONDITION_NOT_APPLIED),
)
