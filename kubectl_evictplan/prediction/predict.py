"""``predict``: from a snapshot, a scenario and a configuration to the Prediction document.

The way to one predicted eviction: this module, ``simulation/simulate.py`` (the nominal run),
``TaintEviction.process_pod_on_node`` (the rule), and for its window ``windows/exploration.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kubectl_evictplan import __version__
from kubectl_evictplan.cluster.kubelets import is_up_at_start, observed_at_ns, renew_period_ns
from kubectl_evictplan.cluster.timeline import PodCreated, Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.budgets import pods_refusable
from kubectl_evictplan.kube.durations import MILLISECOND_NS, format_duration
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.prediction import control_plane
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import EventSummary, Inputs, Prediction, Sourced
from kubectl_evictplan.prediction.drains import (
    drain_assumptions,
    drain_joint,
    drain_reports,
    merge_drains,
)
from kubectl_evictplan.prediction.evictions import (
    PodEnds,
    eviction_list,
    with_nominal,
    workload_reports,
)
from kubectl_evictplan.prediction.kept import cancelled_list, kept_list
from kubectl_evictplan.prediction.nodes import joint_statements, node_reports, zone_reports
from kubectl_evictplan.prediction.warnings.context import WarningContext
from kubectl_evictplan.prediction.warnings.registry import find_warnings
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.drain_runs import AssumeReady, explore_drains, without_drains
from kubectl_evictplan.windows.drain_world import coupled_pods
from kubectl_evictplan.windows.exploration import explore
from kubectl_evictplan.windows.monitor_phase import with_visible_phase
from kubectl_evictplan.windows.outcome import Exploration

Progress = Callable[[str, int, int], None]


def predict(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    *,
    explain: str | None = None,
    progress: Progress | None = None,
    assume_ready: tuple[int, int | None] = AssumeReady(),
) -> Prediction:
    """Predict every eviction of ``scenario`` with honest windows. Pure and deterministic.

    ``explain`` is a "namespace/name" that must be in the answer even if its node is not affected.
    ``assume_ready``: from when to when after its binding a replacement is Ready, in nanoseconds (None:
    perhaps never); only drains ask for it.
    """
    ready = AssumeReady(*assume_ready)
    relevant = _relevant_part(snapshot, scenario, configuration, explain)
    configuration = with_visible_phase(snapshot, scenario, configuration)
    timing = Timing(
        monitor_phase_ns=configuration.nominal_phase_ns(),
        drain=DrainTiming(ready_low_ns=ready.earliest_ns, ready_high_ns=ready.latest_ns),
    )
    nominal = simulate(relevant, scenario, configuration, timing)
    exploration = explore(relevant, without_drains(scenario), configuration, nominal, progress)
    drains = explore_drains(relevant, scenario, configuration, ready, progress)
    merge_drains(exploration, drains, scenario)
    pods = {pod.key: pod for pod in relevant.pods}
    for event in scenario.events:
        if event.pod is not None:
            pods.setdefault(event.pod.key, event.pod)
    nodes = {node.name: node for node in snapshot.nodes}
    ends = PodEnds(snapshot.nodes, pods, nominal)
    occurrences = with_nominal(exploration.evictions, nominal)
    refusable = pods_refusable(snapshot.webhooks, pods)
    evictions = eviction_list(scenario.start_ns, occurrences, ends, refusable)
    evicted = {eviction.key for eviction in evictions}
    created = {entry.pod for entry in nominal.entries if isinstance(entry, PodCreated)}
    staying = (
        pod
        for key, pod in pods.items()
        if key not in evicted
        and (pod.node_name in exploration.affected or key == explain or key in created)
    )
    touched = {name for event in scenario.events for name in event.nodes}
    reports = node_reports(nominal, exploration, nodes, configuration)
    context = WarningContext(
        relevant, scenario, configuration, nominal, exploration.affected, occurrences, ends, drains
    )
    return Prediction(
        inputs=_inputs(snapshot, scenario, configuration, nominal, exploration, ready),
        evictions=evictions,
        kept=kept_list(staying, nominal, configuration, nodes, touched, drained_nodes(scenario)),
        cancelled=cancelled_list(exploration, pods),
        nodes=reports,
        zones=zone_reports(nominal, exploration, {report.zone for report in reports}),
        drains=drain_reports(drains, scenario),
        workloads=workload_reports(snapshot, evictions, pods.values()),
        joint=(*joint_statements(exploration, scenario.horizon_ns), *drain_joint(drains, scenario)),
        warnings=(*find_warnings(context), *configuration.warnings, *snapshot.warnings),
    )


def _relevant_part(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    explain: str | None,
) -> ClusterSnapshot:
    """The snapshot without pods that nothing can happen to: cost follows what changes.

    A node that carries no NoExecute taint, that no event names, and whose kubelet is not silent keeps its
    pods whatever the others do. Without a scenario event about the controller nothing else can touch them.
    """
    named = {name for event in scenario.events for name in event.touched_nodes}
    keys = {explain, *(key for event in scenario.events for key in event.pods)}
    keys |= _finished_pods(snapshot, configuration)
    if drained := drained_nodes(scenario):
        keys.update(pod.key for pod in coupled_pods(snapshot, frozenset(drained)))
    existing = {node.name for node in snapshot.nodes}
    seen_ns = observed_at_ns(snapshot, scenario.start_ns)
    for node in snapshot.nodes:
        ready = node.condition("Ready")
        lease = snapshot.leases.get(node.name)
        steady = ready is not None and ready.status == "True"
        steady = steady and is_up_at_start(node, lease, seen_ns)
        slow = renew_period_ns(lease) > configuration.node_monitor_grace_period_ns
        if not steady or slow or no_execute_taints(node.taints):
            named.add(node.name)
    pods = tuple(
        pod
        for pod in snapshot.pods
        if pod.node_name in named
        or pod.key in keys
        or (pod.node_name and pod.node_name not in existing)
        or (not pod.node_name and pod.deletion_timestamp_ns is not None)
    )
    return replace(snapshot, pods=pods)


def _finished_pods(snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> set[str]:
    """Terminated pods, when there are more than garbage collection leaves alone; else none."""
    finished = {
        pod.key for pod in snapshot.pods if pod.phase not in ("Pending", "Running", "Unknown")
    }
    threshold = configuration.terminated_pod_gc_threshold
    return finished if 0 < threshold < len(finished) else set()


def _inputs(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    nominal: Timeline,
    exploration: Exploration,
    assume_ready: AssumeReady,
) -> Inputs:
    flags = {
        name: Sourced(text, configuration.sources[name], configuration.origins.get(name, ""))
        for name, text in sorted(configuration.texts.items())
        if name != "kubernetes-version"
    }
    if scenario.horizon_ns is None:
        # To the millisecond above: nobody reads nanoseconds.
        end_ns = -(-(nominal.end_ns - nominal.start_ns) // MILLISECOND_NS) * MILLISECOND_NS
        reason = "until nothing more can happen" if nominal.complete else "at most 24h"
        horizon = Sourced(format_duration(end_ns), reason)
    else:
        horizon = Sourced(format_duration(scenario.horizon_ns), "given")
    start_source = "given"
    if scenario.start_ns == snapshot.taken_at_ns:
        start_source = snapshot.taken_at_source or "given"
    return Inputs(
        release=Sourced(
            configuration.profile.version,
            configuration.sources["kubernetes-version"],
            configuration.origins.get("kubernetes-version", ""),
        ),
        flags=flags,
        start=Sourced(format_rfc3339(scenario.start_ns), start_source),
        horizon=horizon,
        monitor_phase=control_plane.monitor_phase(scenario, configuration),
        events=tuple(map(_event, scenario.events)),
        source_digest=snapshot.digest,
        nodes=len(snapshot.nodes),
        pods=len(snapshot.pods),
        namespaces=len({pod.namespace for pod in snapshot.pods}),
        ignored_kinds=dict(sorted(snapshot.ignored_kinds.items())),
        tool_version=__version__,
        assumptions=(
            *_assumptions(exploration),
            *(drain_assumptions(assume_ready) if drained_nodes(scenario) else ()),
        ),
        api_server_flags=control_plane.api_server_flags(snapshot.control_plane),
        provider=control_plane.provider(snapshot.control_plane),
        leader_since=control_plane.leader_since(snapshot.control_plane),
        renewals=control_plane.renewals(snapshot.observed),
    )


def _event(event: ScenarioEvent) -> EventSummary:
    return EventSummary(
        seconds(event.at_ns),
        event.action,
        event.nodes,
        event.pods,
        event.detail,
        event.origin,
        event.command(event.done_by),
        event.command(event.undone_by),
    )


def _assumptions(exploration: Exploration) -> tuple[str, ...]:
    runs = exploration.runs + exploration.drain_runs
    assumptions = [
        f"windows are taken over {runs} admissible runs of the control plane",
        "watches and the API server's own latency take no time",
        "a kubelet that is up finishes a deleted pod within its grace period",
    ]
    if exploration.padding_ns:
        assumptions.append(
            f"windows are widened by {seconds(exploration.padding_ns):.3f}s because not every phase "
            "of the monitor was tried"
        )
    return tuple(assumptions)
