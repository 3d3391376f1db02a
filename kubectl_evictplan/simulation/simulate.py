"""``simulate``: wire the parts, play the scenario, run to the horizon, return the timeline.

Start here to follow one eviction: the scenario's event happens (scenarios/actions); the node lifecycle
controller (controllers/node_lifecycle) may taint the node; ``process_pod_on_node``
(controllers/taint_eviction.py) starts a timer; the timer's end is the entry of kind "delete".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from kubectl_evictplan.cluster.kubelets import Kubelets, PodExits
from kubectl_evictplan.cluster.rooms import NO_LIMITS, Rooms
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    Causes,
    ControllerManagerStarted,
    ControllerManagerStopped,
    Timeline,
)
from kubectl_evictplan.cluster.workloads import Workloads
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.followers import Followers, NotOnlySilentError, followers_by_node
from kubectl_evictplan.controllers.job_tracking import JobTracking
from kubectl_evictplan.controllers.node_lifecycle.controller import NodeLifecycle
from kubectl_evictplan.controllers.pod_gc import IdleGarbage, PodGC
from kubectl_evictplan.controllers.taint_eviction import TaintEviction
from kubectl_evictplan.engine.drain_timing import Latency, range_ns
from kubectl_evictplan.engine.event_queue import EventQueue, Priority
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.finalizers import is_tracked_by_job_controller
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.scenarios.outages import kubelets_unheard
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster
from kubectl_evictplan.simulation.drain_parts import (
    OutlivingController,
    drain_parts,
    drained_nodes,
)
from kubectl_evictplan.simulation.playback import LifecyclePlayback, NodePlayback
from kubectl_evictplan.simulation.running_timers import running_timer

# Phase 0, loops without cost.
_REFERENCE = Timing()


class Given(NamedTuple):
    """What all runs follow from: a cluster, what happens to it, and how its controllers are configured."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    configuration: ControllerConfiguration


def simulate(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    timing: Timing = _REFERENCE,
    *,
    denied_deletes: frozenset[str] = frozenset(),
    played_back: Mapping[str, NodePlayback] | None = None,
    rooms: Rooms = NO_LIMITS,
    idle_garbage: IdleGarbage | None = None,
) -> Timeline:
    """Play ``scenario`` on ``snapshot`` for one choice of everything unknown. Pure.

    ``played_back`` stands for the node lifecycle controller where that is switched off.
    ``denied_deletes`` are "namespace/name" keys whose DELETE the API server always refuses.
    ``rooms``: which replacements of drained pods find a node; all others do.
    ``idle_garbage``: pod garbage collection deletes nothing, and notes there with which timings it would have.
    """
    play = partial(
        simulate_each_pod,
        snapshot,
        scenario,
        configuration,
        timing,
        denied_deletes=denied_deletes,
        played_back=played_back,
        rooms=rooms,
        idle_garbage=idle_garbage,
    )
    if not (denied_deletes or played_back or drained_nodes(scenario)):
        followers = followers_by_node(snapshot, scenario, configuration)
        if followers:
            with suppress(NotOnlySilentError):
                return play(followers=followers)
    return play()


def simulate_each_pod(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    timing: Timing = _REFERENCE,
    *,
    denied_deletes: frozenset[str] = frozenset(),
    played_back: Mapping[str, NodePlayback] | None = None,
    rooms: Rooms = NO_LIMITS,
    idle_garbage: IdleGarbage | None = None,
    followers: Mapping[str, Sequence[Pod]] = MappingProxyType({}),
) -> Timeline:
    """Do what ``simulate`` says pod by pod, but for ``followers``, by node: see ``controllers/followers.py``.

    Raises NotOnlySilentError where more happens to one of these nodes than one service.
    """
    start_ns, end_ns = scenario.start_ns, scenario.start_ns + scenario.end_ns
    events = EventQueue(start_ns)
    timeline = Timeline(start_ns)
    state = ClusterState(events, timeline)
    state.denied_deletes = denied_deletes
    pods: Sequence[Pod] = snapshot.pods
    if followers:
        pods = [pod for pod in pods if pod.node_name not in followers]
    state.load(snapshot.nodes, pods, snapshot.stand_ins, followers)
    drained = drained_nodes(scenario)
    drain = timing.drain
    kubelets = Kubelets(state, _exits(state, timing, scenario, in_drain=bool(drained)))
    parts = drain_parts(state, snapshot, drained, drain, configuration.profile, rooms)
    playbacks = _playbacks(state, configuration, timing, played_back or {})
    outliving = (
        *parts.controllers,
        *_job_tracking(state, snapshot, configuration, timing, drained),
        *playbacks,
    )
    given = configuration, timing, snapshot, outliving, idle_garbage
    manager = ControllerManager(state, kubelets, *given)
    cluster = SimulatedCluster(state, kubelets, manager, parts.drains)
    for event in scenario.events:
        event.foretell(cluster)
    kubelets.load(snapshot, start_ns)
    kubelets.finish_terminating_at_start()
    if not drained:
        Workloads(state)
    for event in scenario.events:
        happening = partial(event.happen, cluster)
        events.schedule(start_ns + event.at_ns, Priority.OUTSIDE, happening)
    if not starts_without_controller(scenario):
        manager.start_warm()
    for playback in playbacks:
        playback.put_on_clock()
    try:
        left_over = events.run_until(end_ns)
    finally:
        # What holds itself is freed only when somebody looks for it, and that takes a seventh of the time of many runs.
        state.let_go()
        manager.let_go()
    timeline.complete = not left_over
    timeline.end_ns = end_ns if left_over else events.now_ns
    return timeline


def _playbacks(
    state: ClusterState,
    configuration: ControllerConfiguration,
    timing: Timing,
    played: Mapping[str, NodePlayback],
) -> Sequence[LifecyclePlayback]:
    """What stands for the node lifecycle controller of these nodes, if there are any."""
    return (LifecyclePlayback(state, configuration, timing, played),) if played else ()


def _exits(state: ClusterState, timing: Timing, scenario: Scenario, *, in_drain: bool) -> PodExits:
    """Of drains each pod has its own; else all are alike, and the timeline says whether anybody asked."""
    drain, creations_ns, unheard = timing.drain, scenario.creations_ns, kubelets_unheard(scenario)
    if in_drain:
        return PodExits(
            lambda key, _: drain.exit_fraction(state.number(key)),
            lambda key: drain.latency_ns(Latency.REPORT_EXIT, state.number(key)),
            unheard,
        )

    def fraction(key: str, left_ns: int) -> float:
        state.timeline.exits_matter = True
        if creations_ns.get(key):
            state.timeline.exits.append((key, state.offset_ns, left_ns))
        return timing.pod_exit_fraction

    return PodExits(fraction, unheard=unheard)


def _job_tracking(
    state: ClusterState,
    snapshot: ClusterSnapshot,
    configuration: ControllerConfiguration,
    timing: Timing,
    drained: Sequence[str],
) -> Iterator[JobTracking]:
    """The Job controller, where pods have its finalizer."""
    if configuration.job_enabled and any(map(is_tracked_by_job_controller, snapshot.pods)):
        longest_ns, drain = range_ns(Latency.REMOVE_FINALIZER)[1], timing.drain

        def delay_ns(key: str) -> int:
            if drained:
                return drain.latency_ns(Latency.REMOVE_FINALIZER, state.number(key))
            state.timeline.exits_matter = True
            return int(longest_ns * timing.pod_exit_fraction)

        yield JobTracking(state, snapshot.workloads, delay_ns)


def starts_without_controller(scenario: Scenario) -> bool:
    """A scenario whose first word about the controller is "start" begins without one."""
    said = (event.manager_up for event in scenario.events if event.manager_up is not None)
    return next(said, False)


class ControllerManager(msgspec.Struct, eq=False):
    """At most one kube-controller-manager process: which controllers run, and since when.

    A stop loses every timer and all memory; a start is a new process that sees every object as an ADD.
    A *warm* start is not a start at all: the process has been running for long, its memory is what such
    a process would hold.
    """

    _state: ClusterState
    _kubelets: Kubelets
    _configuration: ControllerConfiguration
    _timing: Timing
    _snapshot: ClusterSnapshot
    _outliving: Sequence[OutlivingController] = ()
    _idle_garbage: IdleGarbage | None = None
    _running: list[NodeLifecycle | TaintEviction | PodGC] = []

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
            if state.followers:
                followers = Followers(state, self._kubelets, configuration, eviction.decisions)
                eviction.followers = followers.node_changed
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
                bystanders=self._snapshot.bystanders,
                stand_ins=self._snapshot.stand_ins,
            )
            self._running.append(lifecycle)
            lifecycle.start(because)
        if configuration.pod_gc_enabled:
            collector = PodGC(state, configuration, timing, self._idle_garbage, warm=warm)
            self._running.append(collector)
            collector.start()
        for outliving in self._outliving:
            outliving.start(warm=warm)

    def _process_start_ns(self) -> int | None:
        leader_ns = self._snapshot.control_plane.leader_acquire_time_ns
        return leader_ns if leader_ns is not None and leader_ns <= self._state.now_ns else None

    def _adopt_running_timers(self, eviction: TaintEviction) -> None:
        now_ns = self._state.now_ns
        for node in self._snapshot.nodes:
            for pod in self._state.pods_by_node.get(node.name, {}).copy().values():
                if pod.deletion_timestamp_ns is None:
                    window = running_timer(node, pod, self._snapshot, now_ns, self._configuration)
                    if window is not None:
                        eviction.adopt_timer(pod, *window.at(self._timing.timer_start_fraction))

    def stop(self, because: Causes) -> None:
        """The process goes away."""
        if self._running:
            self._state.record(ControllerManagerStopped, because)
        for controller in (*self._running, *self._outliving):
            controller.stop()
        self._running.clear()

    def let_go(self) -> None:
        """The run is over: its processes hold themselves no longer, and nothing is told of their end."""
        for controller in self._running:
            if not isinstance(controller, PodGC):
                controller.let_go()
        for outliving in self._outliving:
            outliving.stop()
