"""``simulate``: wire the parts, play the scenario, run to the horizon, return the timeline.

Start here to follow one eviction: the scenario's event happens (scenarios/actions); the node lifecycle
controller (controllers/node_lifecycle) may taint the node; ``process_pod_on_node``
(controllers/taint_eviction) starts a timer; the timer's end is the entry of kind "delete".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.cluster.workloads import Workloads
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.event_queue import EventQueue, Priority
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster
from kubectl_evictplan.simulation.manager_process import ControllerManager
from kubectl_evictplan.simulation.playback import LifecyclePlayback, NodePlayback

# Phase 0, loops without cost.
_REFERENCE = Timing()


def simulate(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    timing: Timing = _REFERENCE,
    *,
    denied_deletes: frozenset[str] = frozenset(),
    played_back: Mapping[str, NodePlayback] | None = None,
) -> Timeline:
    """Play ``scenario`` on ``snapshot`` for one choice of everything unknown. Pure.

    ``played_back`` stands for the node lifecycle controller where that is switched off.
    ``denied_deletes`` are "namespace/name" keys whose DELETE the API server always refuses.
    """
    start_ns, end_ns = scenario.start_ns, scenario.start_ns + scenario.end_ns
    events = EventQueue(start_ns)
    timeline = Timeline(start_ns)
    state = ClusterState(events, timeline)
    state.denied_deletes = denied_deletes
    state.load(snapshot.nodes, snapshot.pods)
    kubelets = Kubelets(state, timing.pod_exit_fraction)
    manager = ControllerManager(state, kubelets, configuration, timing, snapshot)
    cluster = SimulatedCluster(state, kubelets, manager)
    for event in scenario.events:
        event.foretell(cluster)
    kubelets.load(snapshot, start_ns)
    kubelets.finish_terminating_at_start()
    Workloads(state)
    for event in scenario.events:
        happening = partial(event.happen, cluster)
        events.schedule(start_ns + event.at_ns, Priority.OUTSIDE, happening)
    if not starts_without_controller(scenario):
        manager.start_warm()
    if played_back:
        LifecyclePlayback(state, configuration, timing, played_back).start()
    left_over = events.run_until(end_ns)
    timeline.complete = not left_over
    timeline.end_ns = end_ns if left_over else events.now_ns
    return timeline


def starts_without_controller(scenario: Scenario) -> bool:
    """A scenario whose first word about the controller is "start" begins without one."""
    said = (event.manager_up for event in scenario.events if event.manager_up is not None)
    return next(said, False)
