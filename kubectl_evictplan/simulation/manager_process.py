"""The kube-controller-manager process: which controllers run, and since when.

A stop loses every timer and all memory; a start is a new process that sees every object as an ADD.
A *warm* start is not a start at all: the process has been running for long, its memory is what such
a process would hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    Causes,
    ControllerManagerStarted,
    ControllerManagerStopped,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.controller import NodeLifecycle
from kubectl_evictplan.controllers.pod_gc import PodGC
from kubectl_evictplan.controllers.taint_eviction.controller import TaintEviction
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.simulation.running_timers import running_timer


@dataclass(eq=False)
class ControllerManager:
    """At most one kube-controller-manager process with its controllers."""

    _state: ClusterState
    _kubelets: Kubelets
    _configuration: ControllerConfiguration
    _timing: Timing
    _snapshot: ClusterSnapshot
    _running: list[NodeLifecycle | TaintEviction | PodGC] = field(default_factory=list)

    def start_warm(self) -> None:
        """Continue a process that was running before the scenario's start."""
        self._start((), warm=True)

    def start_cold(self, because: Causes) -> None:
        """A new process whose first monitor tick is now. A running one is replaced."""
        self.stop(because)
        self._start(self._state.record(ControllerManagerStarted, because), warm=False)

    def _start(self, because: Causes, *, warm: bool) -> None:
        state, configuration, timing = self._state, self._configuration, self._timing
        now_ns = state.now_ns
        if configuration.taint_eviction_enabled:
            eviction = TaintEviction(state, configuration, timing)
            self._running.append(eviction)
            eviction.start(because, evaluate=not warm)
            if warm:
                self._adopt_running_timers(eviction)
        if configuration.node_lifecycle_enabled:
            lifecycle = NodeLifecycle(
                state,
                self._kubelets,
                configuration,
                timing,
                now_ns + timing.monitor_phase_ns if warm else now_ns,
                warm=warm,
                process_start_ns=self._process_start_ns() if warm else None,
            )
            self._running.append(lifecycle)
            lifecycle.start(because)
        if configuration.pod_gc_enabled:
            first_loop_ns = now_ns + timing.pod_gc_phase_ns if warm else now_ns
            collector = PodGC(state, configuration, timing, first_loop_ns, warm=warm)
            self._running.append(collector)
            collector.start()

    def _process_start_ns(self) -> int | None:
        leader_ns = self._snapshot.control_plane.leader_acquire_time_ns
        return leader_ns if leader_ns is not None and leader_ns <= self._state.now_ns else None

    def _adopt_running_timers(self, eviction: TaintEviction) -> None:
        now_ns, fraction = self._state.now_ns, self._timing.timer_start_fraction
        for node in self._snapshot.nodes:
            for pod in self._state.pods_by_node.get(node.name, {}).copy().values():
                if pod.deletion_timestamp_ns is None:
                    window = running_timer(node, pod, self._snapshot, now_ns, self._configuration)
                    if window is not None:
                        eviction.adopt_timer(pod, *window.at(fraction))

    def stop(self, because: Causes) -> None:
        """The process goes away."""
        if self._running:
            self._state.record(ControllerManagerStopped, because)
        for controller in self._running:
            controller.stop()
        self._running.clear()
