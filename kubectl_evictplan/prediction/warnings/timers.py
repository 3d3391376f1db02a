"""Toleration timers: what moves them, what does not, and what they may do to the wrong pod.

Upstream: pkg/controller/tainteviction (before 1.29 nodelifecycle/scheduler). A timer that runs is never
moved: another taint or other seconds change nothing. It is keyed by namespace and name, and dies with
its process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    TAINT_EVICTION,
    ControllerManagerStopped,
    EvictionRefused,
    EvictionScheduled,
    PodDeleted,
    TaintAdded,
    TaintRemoved,
    TimerCancelled,
)
from kubectl_evictplan.kube.objects import NO_EXECUTE, Pod
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.prediction.warnings.context import (
    FINISHED_PHASES,
    Statement,
    Statements,
    WarningContext,
    WarningFunction,
)
from kubectl_evictplan.prediction.warnings.tolerations import decision_ns
from kubectl_evictplan.scenarios.actions.pods import DeletePods, SetTolerations
from kubectl_evictplan.scenarios.history import ties
from kubectl_evictplan.simulation.simulate import starts_without_controller


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
            for entry in context.entries(TaintRemoved)
            if entry.at_ns in starts and entry.by == NODE_LIFECYCLE
        }
        yield Statement(
            "kube-controller-manager starts anew: every countdown begins again, and the NoExecute taints "
            "of nodes that are not ready are taken off and put back one by one at the zone's rate",
            nodes or None,
        )


def tie_at_instant(context: WarningContext) -> Statements:
    """Two things happen in the very same instant, and their order decides."""
    yield Statement(
        "events at the same instant touch the same object: they happen in the order of the file, "
        "and another order can give another result",
        ties(context.events),
    )
    removals = {
        (entry.node, entry.at_ns)
        for entry in context.entries(TaintRemoved)
        if entry.taint.effect == NO_EXECUTE
    }
    edits = {
        (key, event.at_ns)
        for event in context.events
        if isinstance(event, SetTolerations | DeletePods)
        for key in event.pods
    }
    if removals or edits:
        yield Statement(
            "the timer fires in the very instant in which the taint is removed or the pod changed: here "
            "the timer wins, a real cluster may decide either way",
            [
                entry.pod
                for entry in context.entries(PodDeleted)
                if entry.toleration_seconds is not None
                and entry.controller == TAINT_EVICTION
                and ((entry.node, entry.at_ns) in removals or (entry.pod, entry.at_ns) in edits)
            ],
        )


def timer_keeps_first_start(context: WarningContext) -> Statements:
    """Another taint comes while a timer runs."""
    added: dict[str, list[int]] = {}
    for change in context.entries(TaintAdded):
        if change.taint.effect == NO_EXECUTE:
            added.setdefault(change.node, []).append(change.at_ns)
    yield Statement(
        "another NoExecute taint comes while the timer runs: it goes on counting from its first start "
        "with its first seconds, neither shorter nor longer",
        _running_during(context, added, lambda timer: timer.node),
    )


def toleration_seconds_ignored(context: WarningContext) -> Statements:
    """Other seconds come while a timer runs."""
    edited: dict[str, list[int]] = {}
    for event in context.events:
        if isinstance(event, SetTolerations):
            for key in event.pods:
                edited.setdefault(key, []).append(event.at_ns)
    yield Statement(
        "tolerations are changed while the timer runs: other seconds do not move a running timer",
        _running_during(context, edited, lambda timer: timer.pod),
    )


def _running_during(
    context: WarningContext,
    changes: Mapping[str, list[int]],
    changed: Callable[[EvictionScheduled], str],
) -> list[str]:
    """Pods whose timer runs on when its object (by name) changes at one of these instants."""
    cancelled: dict[str, list[int]] = {}
    for entry in context.entries(TimerCancelled):
        cancelled.setdefault(entry.pod, []).append(entry.at_ns)
    stops = [entry.at_ns for entry in context.entries(ControllerManagerStopped)]
    pods = []
    for timer in context.entries(EvictionScheduled):
        instants = changes.get(changed(timer))
        # Nearly every timer was started by the newest taint of its node.
        if not instants or instants[-1] <= timer.at_ns:
            continue
        ends = (*stops, *cancelled.get(timer.pod, ()))
        end_ns = min([timer.due_ns, *(at_ns for at_ns in ends if at_ns >= timer.at_ns)])
        if any(timer.at_ns < at_ns < end_ns for at_ns in instants):
            pods.append(timer.pod)
    return pods


def wrong_pod_deletion_exposure(context: WarningContext) -> Statements:
    """Timers know names, not UIDs."""
    reused: dict[str, list[int]] = {}
    deletions = [event for event in context.events if isinstance(event, DeletePods)]
    deleted = {key for event in deletions for key in event.pods}
    existing = {pod.key: pod for pod in context.pods if pod.key in deleted} if deleted else {}
    for event in context.events:
        names = [event.pod.key] if event.pod is not None else []
        if isinstance(event, DeletePods):
            names += [key for key in event.pods if _is_recreated(existing.get(key))]
        for name in names:
            reused.setdefault(name, []).append(event.at_ns)
    if reused:
        yield Statement(
            "timers know pods by name only: if the controller sees the old pod's end after the new pod "
            "of the same name, the old timer deletes the new pod, on whatever node it is",
            [
                timer.pod
                for timer in context.entries(EvictionScheduled)
                if any(timer.at_ns < at < timer.due_ns for at in reused.get(timer.pod, ()))
            ],
        )


def _is_recreated(pod: Pod | None) -> bool:
    controller = pod.controller() if pod is not None else None
    return controller is not None and controller.kind == "StatefulSet"


def stale_nil_key_exposure(context: WarningContext) -> Statements:
    """Up to 1.32 the key of a pod that vanished at once outlives it."""
    if not context.profile.keep_nil_key or not context.configuration.taint_eviction_enabled:
        return
    created = {event.pod.key for event in context.events if event.pod is not None}
    pods = [
        e.key
        for e in context.unusual
        if e.controller == TAINT_EVICTION
        and (e.pod.termination_grace_period_seconds == 0 or e.pod.phase in FINISHED_PHASES)
        and not e.pod.finalizers
        and (e.owner in ("", "StatefulSet") or e.key in created)
    ]
    yield Statement(
        "the pod vanishes at once and its name can come again: in this release its key can stay in the "
        "controller, and a new pod of that name with a finite toleration is then never evicted (fixed "
        "in 1.33)",
        [*pods, *(entry.pod for entry in context.entries(EvictionRefused))],
    )


def running_timer_window(context: WarningContext) -> Statements:
    """Timers that ran before the start are only in the controller's memory."""
    yield Statement(
        "a timer runs already; when it began is only in the controller's memory, so the eviction is a "
        "window over every start that fits",
        _pods_with_running_timers(context),
    )


def leader_lease_unknown(context: WarningContext) -> Statements:
    """Since when the process runs bounds every timer that runs already."""
    if context.snapshot.control_plane.leader_acquire_time_ns is None:
        if _pods_with_running_timers(context):
            yield Statement(
                "Lease kube-system/kube-controller-manager is not in the input: whether the controller "
                "restarted since, which starts every running timer anew, is unknown",
            )


def _pods_with_running_timers(context: WarningContext) -> list[str]:
    if not context.configuration.taint_eviction_enabled or starts_without_controller(
        context.scenario
    ):
        return []
    tainted = {n.name: no_execute_taints(n.taints) for n in context.nodes if n.taints}
    pods = []
    for group in context.groups if any(tainted.values()) else ():
        runs: dict[str, bool] = {}
        for pod in group.pods:
            name = pod.node_name
            if name not in runs:
                taints = tainted.get(name, ())
                runs[name] = bool(taints) and decision_ns(context, group, taints) > 0
            if runs[name] and pod.deletion_timestamp_ns is None:
                pods.append(pod.key)
    return pods


WARNINGS: tuple[WarningFunction, ...] = (
    controller_restart_resets_timers,
    tie_at_instant,
    timer_keeps_first_start,
    toleration_seconds_ignored,
    wrong_pod_deletion_exposure,
    stale_nil_key_exposure,
    running_timer_window,
    leader_lease_unknown,
)
