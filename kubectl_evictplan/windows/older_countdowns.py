"""Countdowns that may run at the start although nothing in the snapshot tells of one.

* Up to 1.16.14, 1.17.11 and 1.18.8 ``processPodOnNode`` leaves a countdown alone where all that is left is tolerated for ever
  (rule 19): one that began for a taint which is gone by now may run still.
* Nothing ends the countdowns of a node that is deleted (rule 21): a pod of one that is gone may have one.

It ends within the longest of the pod's seconds from the start, or there is none. What else may happen to the pod is not certain
where it may be gone by then. Nor is anything of pods that are made under its name: whether that is free may depend on it, and up to 1.32
its key may stay behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import POD_GC, TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.taint_eviction import Decision, delete_is_refused
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Node, Pod, Taint
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.kube.tolerations import get_min_toleration_time_ns
from kubectl_evictplan.simulation.running_timers import seconds_ns, started_earliest_ns
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.circumstances import OlderCountdown
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.spans import Span, disjoint_outcomes
from kubectl_evictplan.windows.unknowns.of_pods import RunningTimers

_MISSED = frozenset({RunningTimers.name})


def end_of_older_countdown(
    pod: Pod,
    nodes: Mapping[str, Node],
    snapshot: ClusterSnapshot,
    start_ns: int,
    configuration: ControllerConfiguration,
) -> Span | None:
    """Within which offsets such a countdown of the pod may end; None where there is none. ``nodes``: those of the snapshot, by name."""
    if not pod.node_name or not configuration.taint_eviction_enabled:
        return None
    terminates, node = pod.deletion_timestamp_ns is not None, nodes.get(pod.node_name)
    if terminates and (node is not None or delete_is_refused(pod, configuration) is not None):
        return None
    if node is not None:
        taints = no_execute_taints(node.taints)
        if not taints or configuration.profile.cancel_on_infinite:
            return None
        if (
            Decision(taints, pod.tolerations, configuration.comparison_operators).delay_ns
            is not None
        ):
            return None
    if not (runs_ns := seconds_ns(pod)):
        return None
    earliest_ns = started_earliest_ns(pod, snapshot, start_ns) + min(runs_ns) - start_ns
    return max(earliest_ns, 0), max(runs_ns)


def bound_older_countdowns(
    result: Exploration, pods: Iterable[Pod], given: Given, horizon_ns: int
) -> None:
    """Bound the ends of those of the ``pods``, and be certain of nothing else that deletes a pod which may be gone by then."""
    snapshot, scenario, configuration = given
    nodes = {node.name: node for node in snapshot.nodes}
    made = {event.pod.key for event in scenario.events if event.pod is not None}
    in_the_way = list[Pod]()
    for pod in pods:
        span = end_of_older_countdown(pod, nodes, snapshot, scenario.start_ns, configuration)
        if span is None:
            continue
        if pod.key in made:
            in_the_way.append(pod)
        until_ns = horizon_ns
        garbage = result.evictions.get(EvictionKey(pod.key, pod.uid, POD_GC, 0))
        if garbage is not None and garbage.certain and not pod.finalizers:
            until_ns = min(until_ns, garbage.latest_ns)
        if pod.node_name in nodes or not _grace_seconds(pod):
            _doubt(result, pod)
        if span[0] <= until_ns:
            key = EvictionKey(pod.key, pod.uid, TAINT_EVICTION, 0)
            found = result.evictions.get(key) or _not_seen(pod)
            result.evictions[key] = _with(found, (span[0], min(span[1], until_ns)))
    if in_the_way:
        from kubectl_evictplan.windows.wide_bounds import bound_successors  # rarely needed

        bound_successors(result, in_the_way, given, _MISSED, horizon_ns)


def _grace_seconds(pod: Pod) -> int:
    """What a DELETE leaves the pod; one that terminates keeps what it had."""
    if pod.deletion_timestamp_ns is not None:
        return pod.deletion_grace_period_seconds or 0
    return ClusterState.effective_grace_seconds(pod)


def _doubt(result: Exploration, pod: Pod) -> None:
    for key in [key for key in result.evictions if (key.pod, key.uid) == (pod.key, pod.uid)]:
        result.evictions[key] = result.evictions[key]._replace(certain=False)


def _not_seen(pod: Pod) -> PossibleEviction:
    """By a taint that is gone: the one that the pod tolerates for longest."""
    several = enumerate(pod.tolerations)
    index, longest = max(several, key=lambda one: get_min_toleration_time_ns([one[1]]))
    return PossibleEviction(
        spans=(),
        certain=False,
        node=pod.node_name,
        taint=Taint(longest.key, NO_EXECUTE, longest.value),
        toleration_index=index,
        toleration_seconds=longest.toleration_seconds,
        gone_earliest_ns=0,
    )


def _with(found: PossibleEviction, own: Span) -> PossibleEviction:
    spans = disjoint_outcomes([own, *found.spans], 0)
    whens = dict(zip(found.spans, found.circumstances, strict=False))
    whens[own] = OlderCountdown()
    bound = found.without(_MISSED).gone_from(spans[0][0])
    circumstances = tuple(map(whens.get, spans))
    return bound._replace(spans=spans, circumstances=circumstances, proven=True)
