"""Pods of affected nodes that stay, each with the reason; and timers that were cancelled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.timeline import AboutNode, AboutPod, Entry, RunEntries
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.eviction_by_timeout import is_daemon_set_pod
from kubectl_evictplan.kube.objects import NO_EXECUTE, Node, Pod
from kubectl_evictplan.prediction.causes import CANCEL_TEXTS, ChainCache, seconds
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Cancelled, Kept, Window
from kubectl_evictplan.prediction.workloads import owner_name
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.windows.outcome import Exploration, WindowOverRuns

# Why a pod stays: the closed set of codes, each with its sentence. ``told`` is what happened last.
REASONS = {
    "tolerated-forever": "{told}",
    "stale-key": (
        "the taint manager still holds a key of an older pod of this name and refuses to start a timer "
        "(releases up to 1.32)"
    ),
    "delete-refused": "{told}",
    "timer-cancelled": "{told}",
    "after-horizon": "its timer ends after the horizon: {told}",
    "gone-otherwise": "the object is gone for another reason",
    "already-terminating": "it is terminating already",
    "node-not-in-input": "its node is not in the input",
    "daemon-set": "the eviction pass skips DaemonSet pods",
    "not-due": "its node is not evicted within the horizon",
    "taint-eviction-disabled": "the taint eviction controller is switched off",
    "not-evaluated": "taint eviction does not act on it",
    "no-no-execute-taint": "its node gets no NoExecute taint",
    "perhaps-tainted": "its node may get a NoExecute taint, but in no run one that evicts it within the horizon",
    "node-unchanged": "its node does not change",
    "tainting-stopped": (
        "its node waits for a NoExecute taint that its zone's rate does not let through"
    ),
    "lease-touched": "its node stays Ready: its Lease was written without being renewed",
    "drain-skips": "{told}",
    "drain-refused": "{told}",
    "budget-waits": "{told}",
    "namespace-terminating": "{told}",
    "drain-not-reached": "kubectl drain does not come to its node within the horizon",
    "drain-perhaps-not-reached": (
        "kubectl drain may not come to its node within the horizon, and does not evict it if it does"
    ),
    "node-not-tainted": "its node becomes Unknown but never gets a NoExecute taint",
}
# The last of these that happened to a pod, or else to its node, says why the pod stays.
_BY_POD: dict[type[Entry], str] = {
    timeline.ToleratedForever: "tolerated-forever",
    timeline.EvictionRefused: "stale-key",
    timeline.DeleteFailed: "delete-refused",
    timeline.TimerCancelled: "timer-cancelled",
    timeline.EvictionScheduled: "after-horizon",
    timeline.PodGone: "gone-otherwise",
    timeline.PodPassedOver: "drain-skips",
    timeline.PodRefused: "drain-refused",
    timeline.EvictionNotAllowed: "budget-waits",
}
_BY_NODE: dict[type[Entry], str] = {
    timeline.TaintAdded: "no-no-execute-taint",
    timeline.NodeQueued: "tainting-stopped",
    timeline.NodePassedOver: "lease-touched",
    timeline.NodeBecameUnknown: "node-not-tainted",
    timeline.NodeDrainEnded: "drain-refused",
}


def kept_list(
    pods: Sequence[tuple[str, Pod]],
    nominal: RunEntries,
    configuration: ControllerConfiguration,
    nodes: Mapping[str, Node],
    scenario: Scenario,
    perhaps_reached: Collection[str],
    perhaps_tainted: Collection[str],
) -> tuple[Kept, ...]:
    """One entry for each of ``pods``, which no admissible run evicts, by namespace and name.

    With each comes the key of the pod that was simulated in its place. ``perhaps_reached`` are nodes to which some
    kubectl drain comes in some run, ``perhaps_tainted`` those that get a NoExecute taint in some.
    """
    if not pods:
        return ()
    scenario_nodes = {name for event in scenario.events for name in event.nodes}
    drained = drained_nodes(scenario)
    reached = {entry.node for entry in nominal.of(timeline.NodeDrainStarted)}
    entries = nominal.run.entries
    # By pod and by node the last entry that tells.
    last: dict[str, int] = {}
    for index in nominal.places(*_BY_POD, *_BY_NODE):
        entry = entries[index]
        if isinstance(entry, AboutPod):
            last[entry.pod] = index
        elif isinstance(entry, AboutNode):
            last[entry.node] = index
    added = nominal.of(timeline.TaintAdded)
    no_execute = {entry.node for entry in added if entry.taint.effect == NO_EXECUTE}
    chains = ChainCache(nominal.run)
    kept = []
    for shown, pod in pods:
        name = pod.node_name
        # No name of a node has the slash of a pod's key.
        if (index := last.get(shown, -1)) >= 0:
            code = _code_of(entries[index], pod)
        else:
            index = last.get(name, -1)
            code = _why_not(pod, configuration, known=name in nodes, tainted=name in no_execute)
            if name in drained and name not in reached:
                perhaps = name in perhaps_reached
                code = "drain-perhaps-not-reached" if perhaps else "drain-not-reached"
            if not code and index >= 0:
                code = _BY_NODE[type(entries[index])]
            elif not code and name in perhaps_tainted:
                code = "perhaps-tainted"
            elif not code:
                code = "no-no-execute-taint" if name in scenario_nodes else "node-unchanged"
        chain = chains.of_pod(index, pod.key, name) if index >= 0 else ()
        reason = REASONS[code].format(told=chain[-1].what if chain else "")
        owner = owner_name(pod)
        kept.append(Kept(pod.namespace, pod.name, pod.uid, name, code, reason, owner, chain))
    return tuple(sorted(kept, key=lambda k: (k.namespace, k.pod)))


def _code_of(entry: Entry, pod: Pod) -> str:
    """Why a pod stays to which that happened last."""
    if isinstance(entry, timeline.PodGone) and pod.deletion_timestamp_ns is not None:
        return "already-terminating"
    if isinstance(entry, timeline.EvictionNotAllowed) and not entry.budgets:
        return "namespace-terminating"
    return _BY_POD[type(entry)]


def _why_not(
    pod: Pod, configuration: ControllerConfiguration, *, known: bool, tainted: bool
) -> str:
    """Why a pod stays, whatever happens to its node; "" if that depends on what does."""
    if pod.deletion_timestamp_ns is not None:
        return "already-terminating"
    if not known:
        return "node-not-in-input"
    if not configuration.taint_mode:
        return "daemon-set" if is_daemon_set_pod(pod) else "not-due"
    if not configuration.taint_eviction_enabled:
        return "taint-eviction-disabled"
    return "not-evaluated" if tainted else ""


def cancelled_list(exploration: Exploration, pods: Mapping[str, Pod]) -> tuple[Cancelled, ...]:
    """Timers that were started and cancelled, sorted by instant and name.

    Not those that end with their pods: when these are gone is open between the ends that runs have, and nothing follows from it.
    """
    result = []
    for key, window in exploration.cancels.windows.items():
        (pod, uid, node, why), _ = key
        if why is timeline.CancelReason.POD_GONE:
            continue
        namespace, _, name = pod.partition("/")
        result.append(
            Cancelled(
                namespace=namespace,
                pod=name,
                uid=uid,
                node=node or (pods[pod].node_name if pod in pods else ""),
                certainty=POSSIBLE if window.unsure else CERTAIN,
                started=_bounds(exploration.cancelled_starts.windows[key]),
                cancelled=_bounds(window),
                reason=CANCEL_TEXTS[why],
            )
        )
    result.sort(key=lambda c: (c.cancelled.earliest_seconds or 0.0, c.namespace, c.pod, c.reason))
    return tuple(result)


def _bounds(window: WindowOverRuns) -> Window:
    return Window(seconds(window.earliest_ns), seconds(window.latest_ns))
