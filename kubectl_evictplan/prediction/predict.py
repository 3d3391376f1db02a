"""``predict``: from a snapshot, a scenario and a configuration to the Prediction document.

The way to one predicted eviction: this module, ``simulation/simulate.py`` (the nominal run),
``TaintEviction.process_pod_on_node`` (the rule), and for its window ``windows/exploration.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubectl_evictplan import __version__
from kubectl_evictplan.cluster.readiness import ReadyTimes, learnt_by_owner
from kubectl_evictplan.cluster.rooms import NO_LIMITS
from kubectl_evictplan.cluster.timeline import PodCreated, RunEntries, Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.job_tracking import job_controller_runs_in_the_end
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.budgets import RefusablePods, pods_refusable
from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS, format_duration
from kubectl_evictplan.kube.finalizers import jobs_managed_elsewhere
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Pod
from kubectl_evictplan.kube.owners import terminating_namespaces
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.prediction import control_plane
from kubectl_evictplan.prediction.alike_pods import AlikePods
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import (
    DrainReport,
    EventSummary,
    Inputs,
    Joint,
    NodeReport,
    OutageSummary,
    Prediction,
    Sourced,
    WorkloadReport,
)
from kubectl_evictplan.prediction.evictions import (
    NamesOfAlike,
    coverage,
    eviction_list,
    unexplored_nodes,
    with_nominal,
)
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.prediction.kept import cancelled_list, kept_list
from kubectl_evictplan.prediction.nodes import joint_statements, node_reports, zone_reports
from kubectl_evictplan.prediction.pod_ends import EvictedKind, PodEnds
from kubectl_evictplan.prediction.prepared import PreparedCluster
from kubectl_evictplan.prediction.records import RowsLater
from kubectl_evictplan.prediction.warnings.context import WarningContext
from kubectl_evictplan.prediction.warnings.registry import warnings_later
from kubectl_evictplan.scenarios.actions.nodes import changes_lifecycle_taints
from kubectl_evictplan.scenarios.actions.pods import uid_of_created
from kubectl_evictplan.scenarios.scenario import (
    HORIZON_DEFAULT_MAX_NS,
    OutagePart,
    Scenario,
    ScenarioEvent,
)
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.simulation.simulate import Given, simulate
from kubectl_evictplan.windows.budget import NODE_RUNS_MIN
from kubectl_evictplan.windows.exploration import Progress, explore, explore_planned, runs_planned
from kubectl_evictplan.windows.outcome import TAINT_ADDED, Exploration

if TYPE_CHECKING:
    from kubectl_evictplan.windows.drains.runs import DrainExploration

_DEFAULT_READY = ReadyTimes()
# What happens to so many nodes takes long enough for two processors, and leaves ``NODE_RUNS_MIN`` runs to the exploration.
_MANY_NODES = 1_000
# Does something that takes a while beside what is done in its context; what it gives waits for the answer, None where there is none.
Beside = Callable[[Callable[[], bytes]], AbstractContextManager[Callable[[], bytes | None]]]


def predict(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    *,
    explain: str | None = None,
    progress: Progress | None = None,
    assume_ready: tuple[int, int | None] | None = None,
    prepared: PreparedCluster | None = None,
    beside: Beside | None = None,
) -> Prediction:
    """Predict every eviction of ``scenario`` with honest windows. Pure and deterministic.

    ``explain`` is a "namespace/name" that must be in the answer even if its node is not affected.
    ``assume_ready``: from when to when after its binding a replacement is Ready, in nanoseconds (None:
    perhaps never); None: learnt from the pods' own history, else the default; only drains ask for it. ``prepared`` saves what predictions on one cluster have in common:
    made of the same snapshot, configuration and start. ``beside`` does something on another processor.
    """
    whole = prepared or PreparedCluster(snapshot, configuration, scenario.start_ns)
    relevant = whole.relevant(scenario, explain)
    ready = _DEFAULT_READY if assume_ready is None else ReadyTimes(*assume_ready)
    if assume_ready is None and drained_nodes(scenario):
        ready = ReadyTimes(by_owner=learnt_by_owner(snapshot.pods)).of(relevant.pods)
    return told(whole, simulated(whole, relevant, scenario, ready, progress, beside), explain)


class Simulated(msgspec.Struct, frozen=True):
    """All that was found out about a scenario, before it is told. ``relevant`` is what took part."""

    relevant: ClusterSnapshot
    scenario: Scenario
    ready: ReadyTimes
    alike: AlikePods
    nominal: Timeline
    exploration: Exploration
    drains: DrainExploration | None
    names: NamesOfAlike


def simulated(
    whole: PreparedCluster,
    relevant: ClusterSnapshot,
    scenario: Scenario,
    ready: ReadyTimes = _DEFAULT_READY,
    progress: Progress | None = None,
    beside: Beside | None = None,
    *,
    limited: bool = True,
) -> Simulated:
    """Simulate a scenario on what takes part in it: the nominal run, and with everything unknown.

    ``limited``: windows span what the controllers' own clients let wait.
    """
    configuration = whole.configuration(scenario)
    timing = Timing(
        monitor_phase_ns=configuration.nominal_phase_ns(),
        drain=DrainTiming(
            ready_low_ns=ready.earliest_ns,
            ready_high_ns=ready.latest_ns,
            ready_by_owner=ready.ranges_ns,
        ),
    )
    alike = AlikePods(relevant, scenario, whole.steady_nodes)
    rooms = NO_LIMITS
    if drained_nodes(scenario):
        from kubectl_evictplan.windows.drains.rooms import drain_rooms

        rooms = drain_rooms(whole.snapshot, scenario, configuration.profile)
    run = partial(simulate, alike.snapshot, scenario, configuration, timing, rooms=rooms)
    # Before the process may be copied: after that each page of names that is touched is copied as well.
    names = NamesOfAlike(alike, whole.owners)
    drains = None
    if drained_nodes(scenario):
        from kubectl_evictplan.prediction.drains import merge_drains
        from kubectl_evictplan.windows.drains.runs import explore_drains, without_drains

        nominal, others = run(), without_drains(scenario)
        drains = explore_drains(
            relevant, scenario, configuration, ready, progress, rooms, whole.owners_without_pods
        )
        drained = set(drained_nodes(scenario))
        sent = sum(pod.node_name in drained for pod in relevant.pods)
        besides = alike.snapshot, others, configuration
        exploration = explore(*besides, nominal, progress, sent=sent)
        if drains is not None:
            merge_drains(exploration, drains, scenario)
    else:
        given = alike.snapshot, scenario, configuration, progress
        nominal, exploration = _run_and_explored(run, *given, beside, limited=limited)
    if whole.too_many_terminated(scenario):
        from kubectl_evictplan.windows.terminated_pods import put_terminated_pods  # rarely needed

        put_terminated_pods(exploration, Given(alike.snapshot, scenario, configuration))
    return Simulated(relevant, scenario, ready, alike, nominal, exploration, drains, names)


def _run_and_explored(
    run: Callable[[], Timeline],
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    progress: Progress | None,
    beside: Beside | None,
    *,
    limited: bool,
) -> tuple[Timeline, Exploration]:
    """The nominal run and the exploration, which needs no more of it than how many node runs are planned at most.

    So where that is as few as there ever are both can be done at once.
    """
    given = snapshot, scenario, configuration
    touched = scenario.touched_nodes
    if beside is None or len(touched) < _MANY_NODES or not limited:
        nominal = run()
        return nominal, explore(*given, nominal, progress, limited=limited)
    from kubectl_evictplan.cluster.carried_runs import packed, unpacked  # rarely needed

    with beside(lambda: packed(run())) as answer:
        exploration = explore_planned(*given, NODE_RUNS_MIN, progress)
        text = answer()
        nominal = run() if text is None else unpacked(text)
    if runs_planned(nominal, snapshot) != NODE_RUNS_MIN:
        exploration = explore(*given, nominal, progress)
    return nominal, exploration


def told(whole: PreparedCluster, found: Simulated, explain: str | None = None) -> Prediction:
    """Tell what was found out as the document; asked only once of it."""
    relevant, scenario, alike, nominal = found.relevant, found.scenario, found.alike, found.nominal
    ready, exploration, drains = found.ready, found.exploration, found.drains
    configuration, snapshot = whole.configuration(scenario), whole.snapshot
    run = RunEntries(nominal)
    # Of pods that are alike one.
    pods = _pods_ever(alike.snapshot, scenario)
    ends = PodEnds(
        relevant.nodes,
        pods,
        run,
        made=_made(scenario),
        job_controller=job_controller_runs_in_the_end(configuration, scenario),
        elsewhere=jobs_managed_elsewhere(snapshot.workloads),
    )
    shown = with_nominal(exploration.evictions, run, configuration.node_monitor_period_ns)
    if drains is None and (left_out := unexplored_nodes(shown)):
        from kubectl_evictplan.windows.wide_bounds import bound_unexplored  # rarely needed

        bound_unexplored(exploration, left_out, Given(alike.snapshot, scenario, configuration))
        shown = with_nominal(exploration.evictions, run, configuration.node_monitor_period_ns)
    alike.extend(exploration)
    every = _pods_ever(relevant, scenario) if snapshot.webhooks else {}
    refusable = pods_refusable(snapshot.webhooks, every)
    kinds = list(ends.kinds(shown, alike))
    gone_from = _gone_otherwise(snapshot, scenario.start_ns, kinds, alike)
    evictions = eviction_list(scenario.start_ns, kinds, ends, found.names, refusable, gone_from)
    reports = node_reports(run, exploration, whole.nodes, configuration)
    drained: tuple[DrainReport, ...] = ()
    if drains is not None:
        from kubectl_evictplan.prediction.drains import drain_reports

        drained = drain_reports(drains, scenario)
    horizon = _horizon(scenario, nominal, _told_instants(scenario, evictions, reports, drained))
    seen = run, exploration.affected, kinds, ends, alike, drains
    context = WarningContext(relevant, scenario, configuration, *seen)
    return Prediction(
        inputs=replace(
            _inputs(whole, scenario, configuration, exploration, ready, horizon),
            coverage=coverage(kinds),
        ),
        evictions=evictions,
        kept=kept_list(
            list(_staying(pods, kinds, alike, run, exploration, scenario, explain)),
            run,
            configuration,
            whole.nodes,
            scenario,
            {report.node for report in drained if report.start_seconds is not None},
            set(_perhaps_tainted(reports)),
        ),
        cancelled=cancelled_list(exploration, pods),
        nodes=reports,
        zones=zone_reports(run, exploration, {report.zone for report in reports}),
        drains=drained,
        workloads=RowsLater(partial(_workloads, whole, evictions, scenario)),
        joint=_joint(exploration, drains, scenario, refusable, gone_from, alike, configuration),
        warnings=warnings_later(context, (*configuration.warnings, *snapshot.warnings)),
    )


def _workloads(
    whole: PreparedCluster, evictions: Evictions, scenario: Scenario
) -> Sequence[WorkloadReport]:
    return whole.workloads.reports(evictions, _created(scenario))


def _joint(
    exploration: Exploration,
    drains: DrainExploration | None,
    scenario: Scenario,
    refusable: RefusablePods,
    gone_from: Mapping[str, int],
    alike: AlikePods,
    configuration: ControllerConfiguration,
) -> tuple[Joint, ...]:
    horizon_ns, taints = scenario.horizon_ns, configuration.taint_mode
    unsure = refusable.deleted | gone_from.keys()
    by_hand = {
        name
        for event in scenario.events
        if changes_lifecycle_taints(event)
        for name in event.touched_nodes
    }
    given = exploration, horizon_ns, alike, unsure
    joint = joint_statements(*given, taints=taints, by_hand=by_hand)
    if drains is None:
        return joint
    from kubectl_evictplan.prediction.drains import drain_going, drain_joint

    return (
        *joint,
        *drain_joint(drains, scenario),
        *drain_going(exploration, drains, scenario, refusable),
    )


def _gone_otherwise(
    snapshot: ClusterSnapshot, start_ns: int, kinds: Sequence[EvictedKind], alike: AlikePods
) -> Mapping[str, int]:
    has_jobs = any(one.kind == "Job" for one in snapshot.workloads)
    if not has_jobs and not terminating_namespaces(snapshot):
        return {}
    from kubectl_evictplan.prediction.gone_otherwise import gone_otherwise  # rarely needed

    return gone_otherwise(snapshot, start_ns, kinds, alike)


def _staying(
    pods: Mapping[str, Pod],
    kinds: Iterable[EvictedKind],
    alike: AlikePods,
    nominal: RunEntries,
    exploration: Exploration,
    scenario: Scenario,
    explain: str | None,
) -> Iterator[tuple[str, Pod]]:
    """Yield of the pods that are not evicted those of affected nodes, new ones and the explained one.

    ``pods`` are those that were simulated, by key: that of the one that stood for it comes with each.
    """
    # Others that are created replace pods of their names.
    new = {pod.key for pod in _created(scenario)}
    created = {entry.pod for entry in nominal.of(PodCreated) if entry.pod in new}
    evicted = {kind.key.pod for kind in kinds}
    for shown, simulated in pods.items():
        if shown not in evicted:
            for pod in alike.alike(shown) or (simulated,):
                affected = pod.node_name in exploration.affected
                if affected or shown in created or pod.key == explain:
                    yield shown, pod


def _perhaps_tainted(nodes: Iterable[NodeReport]) -> Iterator[str]:
    """Yield the nodes that get a NoExecute taint in some run."""
    for report in nodes:
        if any(
            one.what == TAINT_ADDED and one.value.endswith(f":{NO_EXECUTE}")
            for one in report.changes
        ):
            yield report.node


def _pods_ever(snapshot: ClusterSnapshot, scenario: Scenario) -> dict[str, Pod]:
    """Pods by key, with those that the scenario creates."""
    pods = {pod.key: pod for pod in snapshot.pods}
    for pod in _created(scenario):
        pods.setdefault(pod.key, pod)
    return pods


def _made(scenario: Scenario) -> dict[tuple[str, str], Pod]:
    """Pods that the scenario creates, by key and UID."""
    made = ((event.pod, event.at_ns) for event in scenario.events)
    return {(pod.key, uid_of_created(pod, at_ns)): pod for pod, at_ns in made if pod is not None}


def _created(scenario: Scenario) -> list[Pod]:
    return [event.pod for event in scenario.events if event.pod is not None]


def _told_instants(
    scenario: Scenario,
    evictions: Evictions,
    nodes: Iterable[NodeReport],
    drains: Iterable[DrainReport],
) -> Iterator[float | None]:
    """Until when things may happen that are told, in seconds."""
    yield from (event.latest_ns / SECOND_NS for event in scenario.events)
    for group in evictions.groups:
        yield group.shared.latest_seconds
        yield group.shared.gone.latest_seconds
    yield from (change.latest_seconds for report in nodes for change in report.changes)
    yield from (report.end_latest_seconds for report in drains)


def _horizon(scenario: Scenario, nominal: Timeline, told: Iterable[float | None]) -> Sourced:
    """How far the answer looks: as asked, or to the end of all that may happen."""
    if scenario.horizon_ns is not None:
        return Sourced(format_duration(scenario.horizon_ns), "given")
    if not nominal.complete:
        return Sourced(format_duration(nominal.end_ns - nominal.start_ns), "at most 24h")
    latest_ns = round(max((at for at in told if at is not None), default=0.0) * SECOND_NS)
    if latest_ns >= HORIZON_DEFAULT_MAX_NS:
        return Sourced(format_duration(HORIZON_DEFAULT_MAX_NS), "at most 24h")
    # To the millisecond above: nobody reads nanoseconds.
    end_ns = -(-max(nominal.end_ns - nominal.start_ns, latest_ns) // MILLISECOND_NS)
    return Sourced(format_duration(end_ns * MILLISECOND_NS), "until nothing more can happen")


def _inputs(
    whole: PreparedCluster,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    exploration: Exploration,
    ready: ReadyTimes,
    horizon: Sourced,
) -> Inputs:
    snapshot = whole.snapshot
    flags = {
        name: Sourced(text, configuration.sources[name], configuration.origins.get(name, ""))
        for name, text in sorted(configuration.texts.items())
        if name != "kubernetes-version"
    }
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
        namespaces=whole.namespaces,
        ignored_kinds=dict(sorted(snapshot.ignored_kinds.items())),
        tool_version=__version__,
        assumptions=(*_assumptions(exploration), *_of_drains(scenario, ready)),
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
        None if event.outage is None else _outage(event.outage),
    )


def _outage(part: OutagePart) -> OutageSummary:
    return OutageSummary(part.component, None if part.until_ns is None else seconds(part.until_ns))


def _of_drains(scenario: Scenario, ready: ReadyTimes) -> tuple[str, ...]:
    """What is taken for granted of drains."""
    if not drained_nodes(scenario):
        return ()
    from kubectl_evictplan.prediction.drains import drain_assumptions

    return drain_assumptions(ready)


def _assumptions(exploration: Exploration) -> tuple[str, ...]:
    runs = exploration.runs + exploration.drain_runs
    assumptions = [
        f"windows are taken over {runs} admissible runs of the control plane",
        "watches and the API server's own latency take no time",
        "a kubelet that is up finishes a deleted pod within its grace period",
    ]
    widened = (e.missed and not e.proven for e in exploration.evictions.values())
    if exploration.padding_ns and any(widened):
        assumptions.append(
            f"windows are widened by {seconds(exploration.padding_ns):.3f}s because not every phase "
            "of the monitor was tried"
        )
    return tuple(assumptions)
