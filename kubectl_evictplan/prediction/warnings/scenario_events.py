"""Events of the scenario that do something else than one may think, or nothing at all.

What really happened is read from the nominal run.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    TAINT_EVICTION,
    EvictionScheduled,
    PodDeleted,
    TaintAdded,
    TaintRemoved,
    TimerCancelled,
)
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Warning
from kubectl_evictplan.kube.taints import (
    CONTROLLER_OWNED_KEYS,
    LIFECYCLE_NO_EXECUTE_KEYS,
    OUT_OF_SERVICE,
    UNSCHEDULABLE,
    key_and_effect,
)
from kubectl_evictplan.prediction.warnings.situation import (
    Rule,
    Situation,
    caution,
    caution_by_message,
)
from kubectl_evictplan.scenarios.actions.nodes import Cordon
from kubectl_evictplan.scenarios.actions.pods import DeletePods, SetTolerations
from kubectl_evictplan.scenarios.actions.taints import AddTaint, RemoveTaint
from kubectl_evictplan.scenarios.simulated_cluster import EventApplied
from kubectl_evictplan.scenarios.taint_words import TaintRemoval


def controller_owned_taints(situation: Situation) -> Iterator[Warning]:
    """Taints that a controller adds and removes by itself, given by the user."""
    found: dict[str, list[str]] = {}
    for event in situation.events:
        message = ""
        if isinstance(event, AddTaint) and event.taint.key in CONTROLLER_OWNED_KEYS:
            message = _owned_taint_added(situation, event.taint.key, event.taint.effect)
        elif isinstance(event, RemoveTaint) and event.removal.key in CONTROLLER_OWNED_KEYS:
            message = _owned_taint_removed(situation, event.removal)
        if message:
            found.setdefault(message, []).extend(event.nodes)
    yield from caution_by_message("controller-owned-taint", found)


def _owned_taint_added(situation: Situation, key: str, effect: str) -> str:
    configuration = situation.configuration
    name = f"{key}:{effect}"
    if key == OUT_OF_SERVICE:
        if not configuration.out_of_service:
            return f"{name}: pod garbage collection of this release takes no notice of the key"
        return (
            f"{name}: once the node is not ready, pod garbage collection force-deletes its terminating "
            "pods and their volumes are detached; nobody takes the taint off again. Only for machines "
            "that are surely off"
        )
    if not configuration.node_lifecycle_enabled:
        return (
            f"{name}: node lifecycle, which owns this key, does not run: nobody undoes the change"
        )
    if effect == NO_EXECUTE and key in LIFECYCLE_NO_EXECUTE_KEYS:
        period = format_duration(configuration.node_monitor_period_ns)
        return (
            f"{name}: node lifecycle takes it off a ready node in its next tick (every {period}), which "
            "cancels the timers that still run; pods that do not tolerate it are gone by then"
        )
    if effect == NO_SCHEDULE and key != OUT_OF_SERVICE:
        wish = "spec.unschedulable asks" if key == UNSCHEDULABLE else "the node's conditions ask"
        return (
            f"{name}: node lifecycle takes it off at once unless {wish} for it; it evicts nothing"
        )
    return (
        f"{name}: the key belongs to node lifecycle, but with this effect it never takes it off"
        + (", and neither does uncordon" if key == UNSCHEDULABLE else "")
    )


def _owned_taint_removed(situation: Situation, removal: TaintRemoval) -> str:
    key, effect, name = removal.key, removal.effect, f"removal of {removal}"
    if key == OUT_OF_SERVICE:
        return f"{name}: pods that were force-deleted meanwhile may still run on the machine"
    if not situation.configuration.node_lifecycle_enabled:
        return f"{name}: node lifecycle, which owns this key, does not run: it stays off"
    if key in LIFECYCLE_NO_EXECUTE_KEYS and effect in ("", NO_EXECUTE):
        if situation.profile.queue_mode == "ADD":
            return (
                f"{name}: this release does not put the NoExecute taint back until the node has been "
                "ready in between"
            )
        return (
            f"{name}: while the node is not ready, node lifecycle puts it back as soon as its zone's "
            "rate allows, and every countdown begins again"
        )
    return f"{name}: node lifecycle puts it back at once while the node's state asks for it"


def taints_not_applied(situation: Situation) -> Iterator[Warning]:
    """A taint that is there already, or a removal of what is absent."""
    carried = {node.name: set(map(key_and_effect, node.taints)) for node in situation.nodes}
    found: dict[str, list[str]] = {}
    for entry in situation.nominal.entries:
        if isinstance(entry, TaintAdded):
            carried.setdefault(entry.node, set()).add(key_and_effect(entry.taint))
        elif isinstance(entry, TaintRemoved):
            carried.setdefault(entry.node, set()).discard(key_and_effect(entry.taint))
        elif isinstance(entry, EventApplied):
            event = entry.event
            if event.node is not None:
                carried[entry.node] = set(map(key_and_effect, event.node.taints))
            elif isinstance(event, AddTaint):
                name = key_and_effect(event.taint)
                if name in carried.get(entry.node, ()):
                    message = (
                        f"{name} is there already: kubectl taint refuses without --overwrite, and no "
                        "running timer changes"
                    )
                    found.setdefault(message, []).append(entry.node)
    done = {
        (entry.node, entry.event.at_ns, entry.event.removal)
        for entry in situation.entries(EventApplied)
        if isinstance(entry.event, RemoveTaint)
    }
    for event in situation.events:
        if isinstance(event, RemoveTaint):
            message = f"{event.removal}- removes nothing: no such taint at that time"
            found.setdefault(message, []).extend(
                name for name in event.nodes if (name, event.at_ns, event.removal) not in done
            )
    yield from caution_by_message("taint-not-applied", found)


def events_without_effect(situation: Situation) -> Iterator[Warning]:
    """Events on objects that are not there at that time, or in the wanted state already."""
    done = {
        (entry.at_ns, entry.node or entry.pod, entry.event.action)
        for entry in situation.entries(EventApplied)
    }
    found: dict[str, list[str]] = {}
    for event in situation.events:
        names = (*event.nodes, *event.pods) if event.idle_because else ()
        idle = [name for name in names if (event.at_ns, name, event.action) not in done]
        if idle:
            at = format_duration(event.at_ns)
            message = f"{event.action} at {at} does nothing: {event.idle_because}"
            found.setdefault(message, []).extend(idle)
    yield from caution_by_message("event-without-effect", found)


def effects_that_evict_nothing(situation: Situation) -> Iterator[Warning]:
    """NoSchedule and PreferNoSchedule never reach the taint eviction controller."""
    found: dict[str, list[str]] = {}
    for event in situation.events:
        if isinstance(event, AddTaint) and event.taint.effect != NO_EXECUTE:
            message = (
                f"a taint with effect {event.taint.effect} only concerns the scheduler: it evicts no "
                f"pod that runs; {NO_EXECUTE} would"
            )
            found.setdefault(message, []).extend(event.nodes)
    yield from caution_by_message("effect-evicts-nothing", found)


def cordon_evicts_nothing(situation: Situation) -> Iterator[Warning]:
    """Cordon keeps new pods away, no more."""
    nodes = [name for e in situation.events if type(e) is Cordon for name in e.nodes]
    yield from caution(
        "cordon-evicts-nothing",
        "cordon keeps new pods off the node and evicts none; kubectl drain also evicts, through the "
        "Eviction API, which honours PodDisruptionBudgets",
        nodes,
    )


def controller_restarts(situation: Situation) -> Iterator[Warning]:
    """A new process remembers nothing; a stopped one does nothing."""
    starts = []
    told = [event for event in situation.events if event.manager_up is not None]
    for index, event in enumerate(told):
        if event.manager_up and (index or event.at_ns > 0):
            starts.append(event.at_ns)
    if starts:
        nodes = {
            entry.node
            for entry in situation.entries(TaintRemoved)
            if entry.at_ns in starts and entry.by == NODE_LIFECYCLE
        }
        yield Warning(
            "controller-restart-resets-timers",
            "kube-controller-manager starts anew: every countdown begins again, and the NoExecute taints "
            "of nodes that are not ready are taken off and put back one by one at the zone's rate",
            tuple(sorted(nodes)),
        )
    if told and not told[-1].manager_up:
        yield Warning(
            "controller-stays-stopped",
            "kube-controller-manager is stopped and not started again: nothing is evicted afterwards, "
            "and everything that is due comes later than any prediction once it is back",
        )


def ties(situation: Situation) -> Iterator[Warning]:
    """A taint is removed in the very instant in which a timer fires."""
    removals = {
        (entry.node, entry.at_ns)
        for entry in situation.entries(TaintRemoved)
        if entry.taint.effect == NO_EXECUTE
    }
    edits = {
        (key, event.at_ns)
        for event in situation.events
        if isinstance(event, SetTolerations | DeletePods)
        for key in event.pods
    }
    if not removals and not edits:
        return
    pods = [
        entry.pod
        for entry in situation.entries(PodDeleted)
        if entry.toleration_seconds is not None
        and entry.controller == TAINT_EVICTION
        and ((entry.node, entry.at_ns) in removals or (entry.pod, entry.at_ns) in edits)
    ]
    yield from caution(
        "tie-at-instant",
        "the timer fires in the very instant in which the taint is removed or the pod changed: here the "
        "timer wins, a real cluster may decide either way",
        pods,
    )


def kept_timers(situation: Situation) -> Iterator[Warning]:
    """Another taint, or other seconds, while a timer runs: the timer is never moved."""
    additions: dict[str, list[int]] = {}
    for change in situation.entries(TaintAdded):
        if change.taint.effect == NO_EXECUTE:
            additions.setdefault(change.node, []).append(change.at_ns)
    edits: dict[str, list[int]] = {}
    for event in situation.events:
        if isinstance(event, SetTolerations):
            for key in event.pods:
                edits.setdefault(key, []).append(event.at_ns)
    newest = {name: added[-1] for name, added in additions.items()}
    ended: set[tuple[str, int]] | None = None
    kept: list[str] = []
    ignored: list[str] = []
    for entry in situation.entries(EvictionScheduled):
        # Nearly every timer was started by the newest taint of its node.
        if newest.get(entry.node, entry.at_ns) <= entry.at_ns and entry.pod not in edits:
            continue
        added, edited = additions.get(entry.node, []), edits.get(entry.pod, [])
        if ended is None:
            ended = {(e.pod, e.at_ns) for e in situation.entries(TimerCancelled)}
        first, last = entry.at_ns, entry.due_ns
        key = entry.pod
        if any(first < at_ns < last and (key, at_ns) not in ended for at_ns in added):
            kept.append(key)
        if any(first < at_ns < last and (key, at_ns) not in ended for at_ns in edited):
            ignored.append(key)
    yield from caution(
        "timer-keeps-first-start",
        "another NoExecute taint comes while the timer runs: it goes on counting from its first start "
        "with its first seconds, neither shorter nor longer",
        kept,
    )
    yield from caution(
        "toleration-seconds-ignored",
        "tolerations are changed while the timer runs: other seconds do not move a running timer",
        ignored,
    )


def wrong_pod_exposure(situation: Situation) -> Iterator[Warning]:
    """Timers know names, not UIDs."""
    reused: dict[str, list[int]] = {}
    deletions = [event for event in situation.events if isinstance(event, DeletePods)]
    deleted = {key for event in deletions for key in event.pods}
    existing = {pod.key: pod for pod in situation.pods if pod.key in deleted} if deleted else {}
    for event in situation.events:
        if event.pod is not None:
            reused.setdefault(event.pod.key, []).append(event.at_ns)
        if isinstance(event, DeletePods):
            for key in event.pods:
                pod = existing.get(key)
                controller = pod.controller() if pod is not None else None
                if controller is not None and controller.kind == "StatefulSet":
                    reused.setdefault(key, []).append(event.at_ns)
    if not reused:
        return
    pods = [
        entry.pod
        for entry in situation.entries(EvictionScheduled)
        if any(entry.at_ns < at_ns < entry.due_ns for at_ns in reused.get(entry.pod, ()))
    ]
    yield from caution(
        "wrong-pod-deletion-exposure",
        "timers know pods by name only: if the controller sees the old pod's end after the new pod of "
        "the same name, the old timer deletes the new pod, on whatever node it is",
        pods,
    )


RULES: tuple[Rule, ...] = (
    controller_owned_taints,
    taints_not_applied,
    events_without_effect,
    effects_that_evict_nothing,
    cordon_evicts_nothing,
    controller_restarts,
    ties,
    kept_timers,
    wrong_pod_exposure,
)
