"""The warnings of one simulated run, and ways to ask for them by code."""

from __future__ import annotations

from collections.abc import Iterable

from building.builders import (
    make_event,
    make_scenario,
    make_snapshot,
    ns,
)

from kubectl_evictplan.cluster.timeline import PodDeleted, PodGone, RunEntries, Timeline
from kubectl_evictplan.controllers.flags import (
    ControllerConfiguration,
    resolve_configuration,
)
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    Node,
    Pod,
    Warning,
)
from kubectl_evictplan.prediction.alike_pods import AlikePods
from kubectl_evictplan.prediction.pod_ends import PodEnds
from kubectl_evictplan.prediction.warnings.context import WarningContext
from kubectl_evictplan.prediction.warnings.registry import warnings_later
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction

TAINT = make_event(10, "taint", "n1", taint="maint=yes:NoExecute")


def configured(
    release: str = "1.29", flags: dict[str, str] | None = None, phase: float | None = None
) -> ControllerConfiguration:
    settings = ControllerSettings(
        kubernetes_version=release,
        flags=flags or {},
        monitor_phase_ns=None if phase is None else ns(phase),
    )
    return resolve_configuration(settings, ControlPlaneFlags())


def evictions_of(timeline: Timeline) -> dict[EvictionKey, PossibleEviction]:
    """The deletes of one run, as if nothing about it were unknown."""
    gone = {(e.pod, e.uid): e.at_ns for e in timeline.entries if isinstance(e, PodGone)}
    found: dict[EvictionKey, PossibleEviction] = {}
    for index, entry in enumerate(timeline.entries):
        if not isinstance(entry, PodDeleted):
            continue
        ordinal = sum((k.pod, k.uid) == (entry.pod, entry.uid) for k in found)
        end_ns = gone.get((entry.pod, entry.uid))
        found[EvictionKey(entry.pod, entry.uid, entry.controller, ordinal)] = PossibleEviction(
            ((entry.at_ns, entry.at_ns),),
            True,
            entry.node,
            entry.taint,
            entry.toleration_index,
            entry.toleration_seconds,
            (timeline, index),
            None,
            end_ns,
            end_ns,
        )
    return found


def warn(
    nodes: Iterable[Node | str],
    pods: Iterable[Pod] = (),
    events: Iterable[ScenarioEvent] = (),
    *,
    configuration: ControllerConfiguration | None = None,
    horizon: float = 1000,
    snapshot: ClusterSnapshot | None = None,
    affected: Iterable[str] | None = None,
    scenario: Scenario | None = None,
) -> list[Warning]:
    """Warnings of the nominal run; every node is affected unless said otherwise."""
    configuration = configuration or configured()
    snapshot = snapshot or make_snapshot(nodes, pods)
    scenario = scenario or make_scenario(events, horizon=horizon)
    timeline = simulate(snapshot, scenario, configuration)
    names = {node.name for node in snapshot.nodes} | {p.node_name for p in snapshot.pods}
    names |= {event.node.name for event in scenario.events if event.node is not None}
    names = names - {""} if affected is None else set(affected)
    return warnings_of(snapshot, scenario, configuration, timeline, names, evictions_of(timeline))


def warnings_of(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    nominal: Timeline,
    affected: set[str],
    evictions: dict[EvictionKey, PossibleEviction],
) -> list[Warning]:
    """Warnings about a timeline and evictions that a test makes up."""
    pods = {pod.key: pod for pod in snapshot.pods}
    run = RunEntries(nominal)
    ends = PodEnds(snapshot.nodes, pods, run)
    # The timelines here have every pod.
    each_alone = AlikePods(snapshot, None)
    return list(
        warnings_later(
            WarningContext(
                snapshot,
                scenario,
                configuration,
                run,
                affected,
                list(ends.kinds(evictions, each_alone)),
                ends,
                each_alone,
            )
        )
    )


def objects(warnings: Iterable[Warning], code: str) -> list[str] | None:
    """All objects of one code, None when the code is not there."""
    found = [warning.objects for warning in warnings if warning.code == code]
    return sorted({name for names in found for name in names}) if found else None


def message(warnings: Iterable[Warning], code: str) -> str:
    return next(warning.message for warning in warnings if warning.code == code)
