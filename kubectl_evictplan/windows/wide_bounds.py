"""The bounds of what has no narrower proof: nothing in it can come earlier, or later, than these say.

Where exploration was not complete and ``outer_bounds`` proves nothing, say because kubelets come back, nodes come and go,
or kube-controller-manager starts anew. They are wide, and nothing in them is certain.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.line_replay import NEVER_NS
from kubectl_evictplan.windows.line_windows import merge_spans
from kubectl_evictplan.windows.node_courses import NodeCourses
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.unknowns.monitor_ticks import monitor_cost_max_ns
from kubectl_evictplan.windows.wide_fates import Possible, WideFates

# More windows than this help nobody.
_WINDOWS_MAX = 4


def bound_samples(
    result: Exploration,
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    horizon_ns: int,
) -> None:
    """Bound what was only explored of the nodes that are ``sampled``; add what may happen there and no run showed."""
    step_max_ns = configuration.node_monitor_period_ns + monitor_cost_max_ns(snapshot)
    courses = NodeCourses(snapshot, scenario, configuration, step_max_ns)
    fates = WideFates(snapshot, scenario, configuration, courses)
    pods = [pod for pod in snapshot.pods if pod.node_name in result.sampled]
    missed = frozenset().union(*result.sampled.values())
    _bound_pods(result, fates, pods, missed, horizon_ns)


def _bound_pods(
    result: Exploration,
    fates: WideFates,
    pods: Iterable[Pod],
    missed: frozenset[str],
    horizon_ns: int,
) -> None:
    shown: dict[str, list[EvictionKey]] = {}
    for key in result.evictions:
        shown.setdefault(key.pod, []).append(key)
    for name, versions in fates.versions(pods, result.sampled).items():
        possible = fates.possible(versions)
        keys = {EvictionKey(name, each.pod.uid, each.controller, 0) for each in possible}
        reused = len({version.pod.uid for version in versions}) > 1
        for key in sorted(keys.union(shown.get(name, ()))):
            of_it = [each for each in possible if each.controller == key.controller]
            same = [each for each in of_it if each.pod.uid == key.uid]
            if reused or not same:
                # Timers know pods by their names: one may outlive its pod, and end the next one.
                same = [_at_any_time_from(same, of_it)] if of_it else []
            if same:
                _put(result, key, same, missed, horizon_ns)


def _at_any_time_from(same: list[Possible], of_it: list[Possible]) -> Possible:
    first = min(of_it, key=lambda each: each.span[0])
    low_ns = first.span[0]
    return replace(same[0] if same else first, span=(low_ns, NEVER_NS))


def _put(
    result: Exploration,
    key: EvictionKey,
    possible: list[Possible],
    missed: frozenset[str],
    horizon_ns: int,
) -> None:
    found = result.evictions.get(key)
    if found is not None and (found.proven or not found.missed):
        return
    reached = [each.span for each in possible if each.span[0] <= horizon_ns]
    if not reached:
        return
    spans = [(low_ns, min(high_ns, horizon_ns)) for low_ns, high_ns in reached]
    merged = list(merge_spans(sorted(spans), 0))
    if len(merged) > _WINDOWS_MAX:
        merged = [(merged[0][0], merged[-1][1])]
    if found is None:
        found = _not_seen(min(possible, key=lambda each: each.span[0]), missed)
    result.evictions[key] = found._replace(
        spans=tuple(merged),
        certain=False,
        gone_earliest_ns=merged[0][0],
        gone_latest_ns=None,
        circumstances=(),
        proven=True,
    )


def _not_seen(possible: Possible, missed: frozenset[str]) -> PossibleEviction:
    """An eviction that no run has shown."""
    decision = possible.decision
    return PossibleEviction(
        spans=(possible.span,),
        certain=False,
        node=possible.pod.node_name,
        taint=None if decision is None else decision.taint,
        toleration_index=None if decision is None else decision.toleration_index,
        toleration_seconds=None if decision is None else decision.toleration_seconds,
        missed=missed,
    )
