"""Deletion by --pod-eviction-timeout: the mode without taint manager, up to 1.26.

Upstream: ``processNoTaintBaseEviction``, ``evictPods``, ``cancelPodEviction``, ``doEvictionPass``,
``DeletePods``.
"""

from __future__ import annotations

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, MarkedForDeletion, PodDeleted
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE, TRUE, NodeHealth
from kubectl_evictplan.controllers.node_lifecycle.zone_queues import ZoneQueues
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import Pod

_UNMARKED, _TO_BE_EVICTED, _EVICTED = "unmarked", "toBeEvicted", "evicted"


def is_daemon_set_pod(pod: Pod) -> bool:
    """Whether a DaemonSet manages the pod."""
    controller = pod.controller()
    return controller is not None and controller.kind == "DaemonSet"


def is_to_be_evicted(pod: Pod) -> bool:
    """Whether an eviction of its node deletes the pod (``DeletePods``)."""
    return pod.deletion_timestamp_ns is None and not is_daemon_set_pod(pod)


class EvictionByTimeout:
    """The zonePodEvictor side of the node lifecycle controller."""

    def __init__(
        self, state: ClusterState, configuration: ControllerConfiguration, queues: ZoneQueues
    ) -> None:
        self._state = state
        self._timeout_ns = configuration.pod_eviction_timeout_ns
        self._repeats = configuration.profile.repeats_deletion
        self._queues = queues
        self._eviction_state: dict[str, str] = {}

    def node_added(self, name: str) -> None:
        """``nodeEvictionMap.registerNode``."""
        self._eviction_state[name] = _UNMARKED

    def node_deleted(self, name: str) -> None:
        """``nodeEvictionMap.unregisterNode``."""
        self._eviction_state.pop(name, None)

    def load(
        self,
        name: str,
        status: str,
        health: NodeHealth,
        newest_tick_ns: int,
        timing: Timing,
        *,
        may_wait: bool,
    ) -> None:
        """A warm start: a node whose timeout is over since that tick is in line, or was evicted before.

        It is in line if it has pods yet that go with it, or ``may_wait``; where its timeout is not over, if ``timing`` says so.
        """
        early = name in timing.early_in_line
        deadline_ns = self.deadline_ns(status, health)
        if deadline_ns is None or (deadline_ns > newest_tick_ns and not early):
            return
        may_wait = may_wait or early
        pods = self._state.pods_by_node.get(name, {}).values()
        if may_wait or any(map(is_to_be_evicted, pods)):
            self._evict_pods(name, ticked_ns=newest_tick_ns)
            return
        self.note_evicted(name)
        self._queues.mark_served(name)
        self._queues.wanted(name)

    def note_evicted(self, name: str) -> None:
        """Remember that the node was evicted."""
        if self._repeats and name in self._eviction_state:
            self._eviction_state[name] = _EVICTED

    def process(self, name: str, status: str, health: NodeHealth, only: str | None = None) -> None:
        """``processNoTaintBaseEviction``: timeouts count from the controller's own instants.

        ``only``: one pod that appeared on the node (``processPod``, from 1.16.8 and 1.17 on).
        """
        deadline_ns = self.deadline_ns(status, health)
        if deadline_ns is None:
            self.cancel_eviction(name)
        elif self._state.now_ns >= deadline_ns:
            self._evict_pods(name, only)

    def deadline_ns(self, status: str | None, health: NodeHealth) -> int | None:
        """When the timeout ends (it may have); None for a node that is ready."""
        if status is None or status == TRUE:
            return None
        since_ns = health.ready_transition_ns if status == FALSE else health.probe_ns
        return since_ns + self._timeout_ns

    def evict_late_pod(self, name: str, key: str) -> None:
        """A pod that appears on a node whose timeout is over: deleted at once if the node was evicted."""
        if self._eviction_state.get(name) == _EVICTED and self._repeats:
            self._delete_pods(name, only=key)

    def _evict_pods(self, name: str, only: str | None = None, ticked_ns: int | None = None) -> None:
        if self._repeats:
            if self._eviction_state.get(name) == _EVICTED:
                # Every tick, no rate limit: pods that appeared on the node after its eviction.
                self._delete_pods(name, only)
                return
            if name in self._eviction_state:
                self._eviction_state[name] = _TO_BE_EVICTED
        self._queues.wanted(name)
        self._queues.mark(name, "ADD", lacks_taint=True, ticked_ns=ticked_ns)

    def cancel_eviction(self, name: str) -> None:
        """``cancelPodEviction``."""
        if self._repeats and name in self._eviction_state:
            self._eviction_state[name] = _UNMARKED
        self._queues.reachable(name)

    def evict_in_pass(self, name: str) -> None:
        """``doEvictionPass`` for one head."""
        self._delete_pods(name)
        self.note_evicted(name)

    def _delete_pods(self, name: str, only: str | None = None) -> None:
        state, because = self._state, self._state.node_causes[name]
        for key, pod in sorted(state.pods_by_node.get(name, {}).items()):
            if only is not None and key != only:
                continue
            if not is_to_be_evicted(pod):
                continue
            state.record_pod(MarkedForDeletion, because, pod)
            if key in state.denied_deletes:
                return  # any error but NotFound aborts the round
            state.delete_pod(
                key, because=state.record_pod(PodDeleted, because, pod, NODE_LIFECYCLE)
            )
