"""Pods of affected nodes that stay, each with the reason; and timers that were cancelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubectl_evictplan.cluster.timeline import (
    CANCEL,
    DELETE_FAILED,
    EVICTION_REFUSED,
    EVICTION_SCHEDULED,
    GONE,
    MASTER_DISRUPTION,
    NODE_QUEUED,
    NODE_UNKNOWN,
    TAINT_ADDED,
    TOLERATED_FOREVER,
    ZONE_STATE,
    Entry,
    Timeline,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.eviction_by_timeout import is_daemon_set_pod
from kubectl_evictplan.kube.objects import NO_EXECUTE, Node, Pod
from kubectl_evictplan.prediction.causes import ChainCache, seconds
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Cancelled, Kept, Window
from kubectl_evictplan.prediction.evictions import owner_name
from kubectl_evictplan.windows.outcome import Exploration
from kubectl_evictplan.windows.windows import WindowOverRuns

# The last of these that happened to a pod says why it stays.
_POD_REASONS = {
    TOLERATED_FOREVER: "tolerated-forever",
    EVICTION_REFUSED: "stale-key",
    DELETE_FAILED: "delete-refused",
    CANCEL: "timer-cancelled",
    EVICTION_SCHEDULED: "after-horizon",
    GONE: "gone-otherwise",
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
        self._zone_stopped = False
        for index, entry in enumerate(nominal.entries):
            self._index(index, entry)

    def _index(self, index: int, entry: Entry) -> None:
        if entry.kind in _POD_REASONS:
            self._last_of_pod[entry.subject] = index
        elif entry.kind in (NODE_UNKNOWN, NODE_QUEUED, TAINT_ADDED):
            self._last_of_node[entry.subject] = index
            if entry.kind == TAINT_ADDED and entry.value.endswith(NO_EXECUTE):
                self._no_execute.add(entry.subject)
        elif entry.kind == ZONE_STATE or entry.kind == MASTER_DISRUPTION:
            self._zone_stopped = self._zone_stopped or "0 nodes/s" in entry.detail

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
            entry = self._nominal.entries[index]
            return _POD_REASONS[entry.kind], _pod_reason(entry), index
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
        kind = self._nominal.entries[index].kind
        if kind == NODE_QUEUED:
            return (
                "tainting-stopped",
                "its node waits for a NoExecute taint that its zone's rate does not let through",
                index,
            )
        if kind == NODE_UNKNOWN:
            return (
                "node-not-tainted",
                "its node becomes Unknown but never gets a NoExecute taint",
                index,
            )
        return "no-no-execute-taint", "its node gets no NoExecute taint", index


def _pod_reason(entry: Entry) -> str:
    match entry.kind:
        case "tolerated-forever":
            key = entry.taint.key if entry.taint is not None else "the taint"
            return f"toleration {entry.toleration_index} tolerates {key} forever"
        case "eviction-refused":
            return (
                "the taint manager still holds a key of an older pod of this name and refuses to "
                "start a timer (releases up to 1.32)"
            )
        case "delete-failed":
            return entry.detail
        case "cancel":
            return f"its timer was cancelled: {entry.detail}"
        case "eviction-scheduled":
            return f"its timer ends at {seconds(entry.due_ns or 0):+.3f}s, after the horizon"
    return "the object is gone for another reason"


def cancelled_list(
    exploration: Exploration, pods: Mapping[str, Pod], nominal: Timeline
) -> tuple[Cancelled, ...]:
    """Timers that were started and cancelled, sorted by instant and name."""
    starts: dict[str, list[int]] = {}
    for entry in nominal.entries:
        if entry.kind == EVICTION_SCHEDULED:
            starts.setdefault(entry.subject, []).append(entry.at_ns)
    result = []
    for key, window in exploration.cancels.windows.items():
        (subject, uid, node, detail), _ = key
        namespace, _, name = subject.partition("/")
        started = [at for at in starts.get(subject, ()) if at <= window.latest_ns]
        result.append(
            Cancelled(
                namespace=namespace,
                pod=name,
                uid=uid,
                node=node or (pods[subject].node_name if subject in pods else ""),
                certainty=POSSIBLE if window.unsure else CERTAIN,
                started=Window(*((seconds(started[-1]),) * 2)) if started else Window(None, None),
                cancelled=_window(window),
                reason=detail,
            )
        )
    result.sort(key=lambda c: (c.cancelled.earliest_seconds or 0.0, c.namespace, c.pod, c.reason))
    return tuple(result)


def _window(window: WindowOverRuns) -> Window:
    return Window(seconds(max(window.earliest_ns, 0)), seconds(window.latest_ns))
