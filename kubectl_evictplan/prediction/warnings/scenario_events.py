"""Events of the scenario that do something else than one may think, or nothing at all.

What really happened is read from the nominal run.
"""

from __future__ import annotations

from itertools import pairwise

from kubectl_evictplan.cluster.timeline import TaintAdded, TaintRemoved
from kubectl_evictplan.kube.durations import format_duration
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE
from kubectl_evictplan.kube.taints import (
    CONTROLLER_OWNED_KEYS,
    LIFECYCLE_NO_EXECUTE_KEYS,
    OUT_OF_SERVICE,
    UNSCHEDULABLE,
    key_and_effect,
)
from kubectl_evictplan.prediction.warnings.context import (
    PlainWarning,
    Statement,
    Statements,
    WarningContext,
)
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, Cordon, RemoveTaint
from kubectl_evictplan.scenarios.simulated_cluster import EventApplied
from kubectl_evictplan.scenarios.taint_words import TaintRemoval


def controller_owned_taint(context: WarningContext) -> Statements:
    """Taints that a controller adds and removes by itself, given by the user."""
    for event in context.events:
        if isinstance(event, AddTaint) and event.taint.key in CONTROLLER_OWNED_KEYS:
            message = _owned_taint_added(context, event.taint.key, event.taint.effect)
            yield Statement(message, event.nodes)
        elif isinstance(event, RemoveTaint) and event.removal.key in CONTROLLER_OWNED_KEYS:
            yield Statement(_owned_taint_removed(context, event.removal), event.nodes)


def _owned_taint_added(context: WarningContext, key: str, effect: str) -> str:
    configuration = context.configuration
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
    if effect == NO_SCHEDULE:
        wish = "spec.unschedulable asks" if key == UNSCHEDULABLE else "the node's conditions ask"
        return (
            f"{name}: node lifecycle takes it off at once unless {wish} for it; it evicts nothing"
        )
    return (
        f"{name}: the key belongs to node lifecycle, but with this effect it never takes it off"
        + (", and neither does uncordon" if key == UNSCHEDULABLE else "")
    )


def _owned_taint_removed(context: WarningContext, removal: TaintRemoval) -> str:
    key, effect, name = removal.key, removal.effect, f"removal of {removal}"
    if key == OUT_OF_SERVICE:
        return f"{name}: pods that were force-deleted meanwhile may still run on the machine"
    if not context.configuration.node_lifecycle_enabled:
        return f"{name}: node lifecycle, which owns this key, does not run: it stays off"
    if key in LIFECYCLE_NO_EXECUTE_KEYS and effect in ("", NO_EXECUTE):
        if context.profile.queue_mode == "ADD":
            return (
                f"{name}: this release does not put the NoExecute taint back until the node has been "
                "ready in between"
            )
        return (
            f"{name}: while the node is not ready, node lifecycle puts it back as soon as its zone's "
            "rate allows, and every countdown begins again"
        )
    return f"{name}: node lifecycle puts it back at once while the node's state asks for it"


def taint_not_applied(context: WarningContext) -> Statements:
    """A taint that is there already, or a removal of what is absent."""
    carried = {node.name: set(map(key_and_effect, node.taints)) for node in context.nodes}
    added = any(isinstance(event, AddTaint) for event in context.scenario.events)
    for entry in context.nominal.of(TaintAdded, TaintRemoved, EventApplied) if added else ():
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
                    yield Statement(
                        f"{name} is there already: kubectl taint refuses without --overwrite, and no "
                        "running timer changes",
                        [entry.node],
                    )
    done = {
        (entry.node, entry.event.at_ns, entry.event.removal)
        for entry in context.entries(EventApplied)
        if isinstance(entry.event, RemoveTaint)
    }
    for event in context.events:
        if isinstance(event, RemoveTaint):
            yield Statement(
                f"{event.removal}- removes nothing: no such taint at that time",
                [n for n in event.nodes if (n, event.at_ns, event.removal) not in done],
            )


def event_without_effect(context: WarningContext) -> Statements:
    """Events on objects that are not there at that time, or in the wanted state already."""
    done = {
        (entry.at_ns, entry.node or entry.pod, entry.event.action)
        for entry in context.entries(EventApplied)
    }
    for event in context.events:
        names = (*event.nodes, *event.pods) if event.idle_because else ()
        yield Statement(
            f"{event.action} at {format_duration(event.at_ns)} does nothing: {event.idle_because}",
            [name for name in names if (event.at_ns, name, event.action) not in done],
        )


def effect_evicts_nothing(context: WarningContext) -> Statements:
    """NoSchedule and PreferNoSchedule never reach the taint eviction controller."""
    for event in context.events:
        if isinstance(event, AddTaint) and event.taint.effect != NO_EXECUTE:
            yield Statement(
                f"a taint with effect {event.taint.effect} only concerns the scheduler: it evicts no "
                f"pod that runs; {NO_EXECUTE} would",
                event.nodes,
            )


cordon_evicts_nothing = PlainWarning(
    "cordon keeps new pods off the node and evicts none; kubectl drain also evicts, through the "
    "Eviction API, which honours PodDisruptionBudgets",
    lambda context: [name for e in context.events if type(e) is Cordon for name in e.nodes],
)


def endpoints_frozen(context: WarningContext) -> Statements:
    """Nobody but kube-controller-manager writes endpoints, replaces pods or marks nodes."""
    told = [event for event in context.events if event.manager_up is not None]
    for stop, start in pairwise([*told, None]):
        if stop is None or stop.manager_up:
            continue
        until = " on"
        if start is not None:
            until = f" to {format_duration(start.at_ns)}"
            if start.latest_ns > start.at_ns:
                until += f"..{format_duration(start.latest_ns)}"
        yield Statement(
            f"while kube-controller-manager is away ({format_duration(stop.at_ns)}{until}) endpoints are "
            "frozen: pods that end meanwhile, and pods of nodes that fail, stay in their Services, pods "
            "that get ready do not join; nothing is replaced or scaled"
        )


def controller_stays_stopped(context: WarningContext) -> Statements:
    """A stopped controller manager does nothing."""
    # Also what comes after the horizon: it is started again then.
    told = [event for event in context.scenario.events if event.manager_up is not None]
    if told and not told[-1].manager_up:
        yield Statement(
            "kube-controller-manager is stopped and not started again: nothing is evicted afterwards, "
            "and everything that is due comes later than any prediction once it is back",
        )
