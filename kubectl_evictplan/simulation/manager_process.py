"""The kube-controller-manager process: which controllers run, and since when.

A stop loses every timer and all memory; a start is a new process that sees every object as an ADD.
A *warm* start is not a start at all: the process has been running for long, its memory is what such
a process would hold.
"""

from __future__ import annotations

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import ControllerManagerStarted, ControllerManagerStopped
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.controller import NodeLifecycle
from kubectl_evictplan.controllers.pod_gc import PodGC
from kubectl_evictplan.controllers.taint_eviction.controller import TaintEviction
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.simulation.running_timers import running_timer


class ControllerManager:
    """At most one kube-controller-manager process with its controllers."""

    def __init__(
        self,
        state: ClusterState,
        kubelets: Kubelets,
        configuration: ControllerConfiguration,
        timing: Timing,
        snapshot: ClusterSnapshot,
    ) -> None:
        self._state = state
        self._kubelets = kubelets
        self._configuration = configuration
        self._timing = timing
        self._snapshot = snapshot
        self._running: list[NodeLifecycle | TaintEviction | PodGC] = []

    def start_warm(self) -> None:
        """Continue a process that was running before the scenario's start."""
        now_ns = self._state.events.now_ns
        timing = self._timing
        if self._configuration.taint_eviction_enabled:
            eviction = TaintEviction(self._state, self._configuration, timing)
            self._running.append(eviction)
            eviction.start(evaluate=False)
            self._adopt_running_timers(eviction, now_ns)
        if self._configuration.node_lifecycle_enabled:
            lifecycle = NodeLifecycle(
                self._state,
                self._kubelets,
                self._configuration,
                timing,
                now_ns + timing.monitor_phase_ns,
                warm=True,
                process_start_ns=self._process_start_ns(now_ns),
            )
            self._running.append(lifecycle)
            lifecycle.start()
        self._start_pod_gc(now_ns + timing.pod_gc_phase_ns, warm=True)

    def _process_start_ns(self, now_ns: int) -> int | None:
        leader_ns = self._snapshot.control_plane.leader_acquire_time_ns
        return leader_ns if leader_ns is not None and leader_ns <= now_ns else None

    def _adopt_running_timers(self, eviction: TaintEviction, now_ns: int) -> None:
        fraction = self._timing.timer_start_fraction
        for node in self._snapshot.nodes:
            for pod in self._state.pods_by_node.get(node.name, {}).copy().values():
                if pod.deletion_timestamp_ns is None:
                    window = running_timer(node, pod, self._snapshot, now_ns, self._configuration)
                    if window is not None:
                        eviction.adopt_timer(pod, *window.at(fraction))

    def start_cold(self, because: tuple[int, ...]) -> None:
        """A new process whose first monitor tick is now. A running one is replaced."""
        self.stop(because)
        started = ControllerManagerStarted(self._state.offset_ns, because)
        started_by = (self._state.timeline.append(started),)
        now_ns = self._state.events.now_ns
        if self._configuration.taint_eviction_enabled:
            eviction = TaintEviction(self._state, self._configuration, self._timing)
            self._running.append(eviction)
            eviction.start(evaluate=True, because=started_by)
        if self._configuration.node_lifecycle_enabled:
            lifecycle = NodeLifecycle(
                self._state,
                self._kubelets,
                self._configuration,
                self._timing,
                now_ns,
                warm=False,
            )
            self._running.append(lifecycle)
            lifecycle.start(because=started_by)
        self._start_pod_gc(now_ns, warm=False)

    def _start_pod_gc(self, first_loop_ns: int, *, warm: bool) -> None:
        if self._configuration.pod_gc_enabled:
            collector = PodGC(
                self._state, self._configuration, self._timing, first_loop_ns, warm=warm
            )
            self._running.append(collector)
            collector.start()

    def stop(self, because: tuple[int, ...]) -> None:
        """The process goes away."""
        if self._running:
            self._state.timeline.append(ControllerManagerStopped(self._state.offset_ns, because))
        for controller in self._running:
            controller.stop()
        self._running.clear()
