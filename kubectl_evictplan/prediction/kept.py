"""Pods of affected nodes that stay, each with the reason; and timers that were cancelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubectl_evictplan.cluster.timeline import (
    AboutNode,
    AboutPod,
    DeleteFailed,
    Entry,
    EvictionRefused,
    EvictionScheduled,
    NodeBecameUnknown,
    NodePassedOver,
    NodeQueued,
    PodGone,
    TaintAdded,
    Timeline,
    TimerCancelled,
    ToleratedForever,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.eviction_by_timeout import is_daemon_set_pod
from kubectl_evictplan.kube.objects import NO_EXECUTE, Node, Pod
from kubectl_evictplan.prediction.causes import CANCEL_TEXTS, ChainCache, seconds
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Cancelled, Kept, Window
from kubectl_evictplan.prediction.evictions import owner_name
from kubectl_evictplan.windows.outcome import Exploration
from kubectl_evictplan.windows.windows import WindowOverRuns

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
    "node-unchanged": "its node does not change",
    "tainting-stopped": (
        "its node waits for a NoExecute taint that its zone's rate does not let through"
    ),
    "lease-touched": "its node stays Ready: its Lease was written without being renewed",
    "node-not-tainted": "its node becomes Unknown but never gets a NoExecute taint",
}
# The last of these that happened to a pod, or else to its node, says why the pod stays.
_BY_POD: dict[type[Entry], str] = {
    ToleratedForever: "tolerated-forever",
    EvictionRefused: "stale-key",
    DeleteFailed: "delete-refused",
    TimerCancelled: "timer-cancelled",
    EvictionScheduled: "after-horizon",
    PodGone: "gone-otherwise",
}
_BY_NODE: dict[type[Entry], str] = {
    TaintAdded: "no-no-execute-taint",
    NodeQueued: "tainting-stopped",
    NodePassedOver: "lease-touched",
    NodeBecameUnknown: "node-not-tainted",
}


class KeptList:
    """Builds the list of pods that stay."""

    def __init__(
        self,
        nominal: Timeline,
        configuration: ControllerConfiguration,
        nodes: Mapping[str, Node],
        scenario_nodes: set[str],
    ) -> None:
        self._nominal = nominal
        self._configuration = configuration
        self._nodes = nodes
        self._scenario_nodes = scenario_nodes
        self._chains = ChainCache(nominal)
        self._last_of_pod: dict[str, int] = {}
        self._last_of_node: dict[str, int] = {}
        self._no_execute: set[str] = set()
        for index, entry in enumerate(nominal.entries):
            self._index(index, entry)

    def _index(self, index: int, entry: Entry) -> None:
        if isinstance(entry, AboutPod):
            if type(entry) in _BY_POD:
                self._last_of_pod[entry.pod] = index
        elif isinstance(entry, AboutNode) and type(entry) in _BY_NODE:
            self._last_of_node[entry.node] = index
            if isinstance(entry, TaintAdded) and entry.taint.effect == NO_EXECUTE:
                self._no_execute.add(entry.node)

    def build(self, pods: Iterable[Pod], evicted: set[str]) -> tuple[Kept, ...]:
        """One entry per pod that no admissible run evicts, sorted by namespace and name."""
        kept = [self._kept(pod) for pod in pods if pod.key not in evicted]
        return tuple(sorted(kept, key=lambda k: (k.namespace, k.pod)))

    def _kept(self, pod: Pod) -> Kept:
        index = self._last_of_pod.get(pod.key)
        if index is not None:
            code = _BY_POD[type(self._nominal.entries[index])]
        else:
            index = self._last_of_node.get(pod.node_name)
            code = self._node_code(pod, index)
        chain = self._chains.chain(index) if index is not None else ()
        return Kept(
            namespace=pod.namespace,
            pod=pod.name,
            uid=pod.uid,
            node=pod.node_name,
            code=code,
            reason=REASONS[code].format(told=chain[-1].what if chain else ""),
            owner=owner_name(pod),
            because=chain,
        )

    def _node_code(self, pod: Pod, index: int | None) -> str:
        """Why a pod stays to which nothing happened; ``index`` is what happened to its node last."""
        name, configuration = pod.node_name, self._configuration
        if pod.deletion_timestamp_ns is not None:
            return "already-terminating"
        if name not in self._nodes:
            return "node-not-in-input"
        if not configuration.taint_mode:
            return "daemon-set" if is_daemon_set_pod(pod) else "not-due"
        if not configuration.taint_eviction_enabled:
            return "taint-eviction-disabled"
        if name in self._no_execute:
            return "not-evaluated"
        if index is not None:
            return _BY_NODE[type(self._nominal.entries[index])]
        return "no-no-execute-taint" if name in self._scenario_nodes else "node-unchanged"


def cancelled_list(exploration: Exploration, pods: Mapping[str, Pod]) -> tuple[Cancelled, ...]:
    """Timers that were started and cancelled, sorted by instant and name."""
    result = []
    for key, window in exploration.cancels.windows.items():
        (pod, uid, node, why), _ = key
        namespace, _, name = pod.partition("/")
        result.append(
            Cancelled(
                namespace=namespace,
                pod=name,
                uid=uid,
                node=node or (pods[pod].node_name if pod in pods else ""),
                certainty=POSSIBLE if window.unsure else CERTAIN,
                started=_window(exploration.cancelled_starts.windows[key]),
                cancelled=_window(window),
                reason=CANCEL_TEXTS[why],
            )
        )
    result.sort(key=lambda c: (c.cancelled.earliest_seconds or 0.0, c.namespace, c.pod, c.reason))
    return tuple(result)


def _window(window: WindowOverRuns) -> Window:
    return Window(seconds(window.earliest_ns), seconds(window.latest_ns))
