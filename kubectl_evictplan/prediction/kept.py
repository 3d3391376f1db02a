"""Pods of affected nodes that stay, each with the reason; and timers that were cancelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubectl_evictplan.cluster.timeline import (
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
from kubectl_evictplan.prediction.causes import CANCEL_TEXTS, FAILURE_TEXTS, ChainCache, seconds
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Cancelled, Kept, Window
from kubectl_evictplan.prediction.evictions import owner_name
from kubectl_evictplan.windows.outcome import Exploration
from kubectl_evictplan.windows.windows import WindowOverRuns

# The last of these that happened to a pod, or else to its node, says why the pod stays.
_POD_REASONS = (
    EvictionScheduled,
    ToleratedForever,
    EvictionRefused,
    DeleteFailed,
    TimerCancelled,
    PodGone,
)
_NODE_REASONS = (TaintAdded, NodeQueued, NodeBecameUnknown, NodePassedOver)


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
        if isinstance(entry, _POD_REASONS):
            self._last_of_pod[entry.pod] = index
        elif isinstance(entry, _NODE_REASONS):
            self._last_of_node[entry.node] = index
            if isinstance(entry, TaintAdded) and entry.taint.effect == NO_EXECUTE:
                self._no_execute.add(entry.node)

    def build(self, pods: Iterable[Pod], evicted: set[str]) -> tuple[Kept, ...]:
        """One entry per pod that no admissible run evicts, sorted by namespace and name."""
        kept = [self._kept(pod) for pod in pods if pod.key not in evicted]
        return tuple(sorted(kept, key=lambda k: (k.namespace, k.pod)))

    def _kept(self, pod: Pod) -> Kept:
        code, reason, index = self._reason(pod)
        return Kept(
            namespace=pod.namespace,
            pod=pod.name,
            uid=pod.uid,
            node=pod.node_name,
            code=code,
            reason=reason,
            owner=owner_name(pod),
            because=self._chains.chain(index) if index is not None else (),
        )

    def _reason(self, pod: Pod) -> tuple[str, str, int | None]:
        index = self._last_of_pod.get(pod.key)
        if index is not None:
            return (*_pod_reason(self._nominal.entries[index]), index)
        return self._node_reason(pod)

    def _node_reason(self, pod: Pod) -> tuple[str, str, int | None]:
        name = pod.node_name
        index = self._last_of_node.get(name)
        if pod.deletion_timestamp_ns is not None:
            return "already-terminating", "it is terminating already", index
        if name not in self._nodes:
            return "node-not-in-input", "its node is not in the input", None
        if not self._configuration.taint_mode:
            if is_daemon_set_pod(pod):
                return "daemon-set", "the eviction pass skips DaemonSet pods", index
            return "not-due", "its node is not evicted within the horizon", index
        if not self._configuration.taint_eviction_enabled:
            return "taint-eviction-disabled", "the taint eviction controller is switched off", index
        if name in self._no_execute:
            return "not-evaluated", "taint eviction does not act on it", index
        if index is None:
            if name in self._scenario_nodes:
                return "no-no-execute-taint", "its node gets no NoExecute taint", None
            return "node-unchanged", "its node does not change", None
        last = self._nominal.entries[index]
        if isinstance(last, NodeQueued):
            return (
                "tainting-stopped",
                "its node waits for a NoExecute taint that its zone's rate does not let through",
                index,
            )
        if isinstance(last, NodePassedOver):
            return (
                "lease-touched",
                "its node stays Ready: its Lease was written without being renewed",
                index,
            )
        if isinstance(last, NodeBecameUnknown):
            return (
                "node-not-tainted",
                "its node becomes Unknown but never gets a NoExecute taint",
                index,
            )
        return "no-no-execute-taint", "its node gets no NoExecute taint", index


def _pod_reason(entry: Entry) -> tuple[str, str]:
    """(code, sentence) for a pod that stays although, or because, this happened to it last."""
    match entry:
        case ToleratedForever(taint=taint, toleration_index=index):
            key = taint.key if taint is not None else "the taint"
            return "tolerated-forever", f"toleration {index} tolerates {key} forever"
        case EvictionRefused():
            return "stale-key", (
                "the taint manager still holds a key of an older pod of this name and refuses to "
                "start a timer (releases up to 1.32)"
            )
        case DeleteFailed(reason=failure):
            return "delete-refused", FAILURE_TEXTS[failure]
        case TimerCancelled(reason=reason):
            return "timer-cancelled", f"its timer was cancelled: {CANCEL_TEXTS[reason]}"
        case EvictionScheduled(due_ns=due_ns):
            when = f"{seconds(due_ns):+.3f}s"
            return "after-horizon", f"its timer ends at {when}, after the horizon"
    return "gone-otherwise", "the object is gone for another reason"


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
