"""Pods that tolerate for ever what their nodes have at the start, where an older countdown may go on all the same.

Up to 1.16.14, 1.17.11 and 1.18.8 ``processPodOnNode`` leaves a countdown alone where all that is left is tolerated for ever (rule
19). One that began for a taint which is gone by now may run still, and nobody can see it: it ends within the longest of the pod's
seconds from the start, or there is none. Whatever else may happen to the pod is not certain: it may be gone by then.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.taint_eviction import Decision
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Pod, Taint
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.kube.tolerations import get_min_toleration_time_ns
from kubectl_evictplan.simulation.running_timers import seconds_ns, started_earliest_ns
from kubectl_evictplan.windows.circumstances import OlderCountdown
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.spans import Span, disjoint_outcomes
from kubectl_evictplan.windows.unknowns.of_pods import RunningTimers

_MISSED = frozenset({RunningTimers.name})


def bound_older_countdowns(
    result: Exploration,
    snapshot: ClusterSnapshot,
    start_ns: int,
    configuration: ControllerConfiguration,
    horizon_ns: int,
) -> None:
    """Bound the ends of such countdowns, and be certain of nothing else that deletes the pods."""
    spans = dict(_older_countdowns(snapshot, start_ns, configuration))
    for key in [key for key in result.evictions if (key.pod, key.uid) in spans]:
        result.evictions[key] = result.evictions[key]._replace(certain=False)
    for pod in snapshot.pods:
        span = spans.get((pod.key, pod.uid))
        if span is None or span[0] > horizon_ns:
            continue
        key = EvictionKey(pod.key, pod.uid, TAINT_EVICTION, 0)
        found = result.evictions.get(key) or _not_seen(pod)
        result.evictions[key] = _with(found, (span[0], min(span[1], horizon_ns)))


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
    gone_ns = found.gone_earliest_ns
    return found._replace(
        spans=spans,
        gone_earliest_ns=None if gone_ns is None else min(gone_ns, spans[0][0]),
        circumstances=tuple(map(whens.get, spans)),
        missed=found.missed | _MISSED,
        proven=True,
    )


def _older_countdowns(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> Iterator[tuple[tuple[str, str], Span]]:
    """By (pod, uid) when an older countdown may end."""
    tainted = {node.name: no_execute_taints(node.taints) for node in snapshot.nodes}
    for pod in snapshot.pods:
        taints = tainted.get(pod.node_name, ())
        if not taints or pod.deletion_timestamp_ns is not None:
            continue
        runs_ns = seconds_ns(pod)
        stays = Decision(taints, pod.tolerations, configuration.comparison_operators).delay_ns
        if runs_ns and stays is None:
            earliest_ns = started_earliest_ns(pod, snapshot, start_ns) + min(runs_ns) - start_ns
            yield (pod.key, pod.uid), (max(earliest_ns, 0), max(runs_ns))
