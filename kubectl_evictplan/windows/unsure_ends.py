"""Ends of pods that no run shows: of a kubelet that says Ready=False nobody knows whether it can end pods (rule 28), and it takes time to tell.

Runs let such a kubelet end none. But a pod that terminates there may be gone before garbage collection, or the end of a countdown, would
come to it. And runs have all others told at once of a pod that has ended: where the Node is deleted just then nobody may be told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from kubectl_evictplan.cluster.kubelets import left_at_start_ns
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, POD_GC, TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.pod_gc import (
    GC_CHECK_PERIOD_NS,
    QUARANTINE_TIME_NS,
    is_never_garbage,
)
from kubectl_evictplan.engine.drain_timing import Latency, range_ns
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.scenarios.actions.nodes import DeleteNode
from kubectl_evictplan.scenarios.actions.pods import DeletePods
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.pod_worlds import pods_of
from kubectl_evictplan.windows.spans import Span, disjoint_outcomes, meets
from kubectl_evictplan.windows.unknowns.of_pods import GC_COST_MAX_NS, GarbageCollection

_FALSE = "False"
# So long after a pod has ended its kubelet has told so, at most.
_TOLD_NS = range_ns(Latency.REPORT_EXIT)[1]
# A pod's key and UID.
_Who = tuple[str, str]


def doubt_garbage_collection(
    result: Exploration,
    collected: Iterable[EvictionKey],
    snapshot: ClusterSnapshot,
    scenario: Scenario,
) -> None:
    """Be certain of none of what is ``collected`` that was deleted before, on a node that may say Ready=False."""
    said, deleted = set(_say_false(snapshot, scenario)), set(_deleted(snapshot, scenario))
    deleted.update(
        (key.pod, key.uid) for key in result.evictions if key.controller != POD_GC or key.ordinal
    )
    for key in collected:
        row = result.evictions[key]
        if row.node in said and ((key.pod, key.uid) in deleted or (key.pod, "") in deleted):
            result.evictions[key] = row._replace(certain=False)


def doubt_countdowns(result: Exploration, snapshot: ClusterSnapshot, scenario: Scenario) -> None:
    """Be certain of no countdown of a pod that terminates on such a node, or that somebody deletes before it ends."""
    going: dict[str, int] = {
        pod.key: 0 for pod in snapshot.pods if pod.deletion_timestamp_ns is not None
    }
    for event in scenario.events:
        for name in event.pods if isinstance(event, DeletePods) else ():
            going[name] = min(going.get(name, event.at_ns), event.at_ns)
    if not going:
        return
    said = set(_say_false(snapshot, scenario))
    for key, row in result.evictions.items() if said else ():
        met = key.pod in going and going[key.pod] <= row.latest_ns
        if row.certain and met and key.controller == TAINT_EVICTION and row.node in said:
            result.evictions[key] = row._replace(certain=False)


def bound_untold_ends(result: Exploration, given: Given, horizon_ns: int) -> None:
    """Bound the collection of pods that ended just before their Node is deleted, so that their kubelets may not have told it; none is certain."""
    snapshot, scenario, configuration = given
    deleted = [event for event in scenario.events if isinstance(event, DeleteNode)]
    names = {name for event in deleted for name in event.nodes}
    pods = {
        (pod.key, pod.uid): pod for pod in pods_of(snapshot, scenario) if pod.node_name in names
    }
    restarts = any(event.manager_up is not None for event in scenario.events)
    ends = defaultdict[_Who, list[Span]](list)
    for who, span in _ends(result, pods, given):
        ends[who].append((span[0], span[1] + _TOLD_NS))
    for who, told in ends.items():
        pod, key = pods[who], EvictionKey(*who, POD_GC, 0)
        if key in result.evictions or is_never_garbage(pod, configuration):
            continue
        met = [event.span for event in deleted if pod.node_name in event.nodes]
        found = [
            _collected(span, horizon_ns if restarts else None, configuration)
            for span in met
            if meets(told, span)
        ]
        spans = [(low, min(high, horizon_ns)) for low, high in found if low <= horizon_ns]
        if spans:
            missed = frozenset((GarbageCollection.name,))
            row = PossibleEviction.unseen(pod.node_name, None, disjoint_outcomes(spans, 0), missed)
            result.evictions[key] = row._replace(proven=True, gone_earliest_ns=spans[0][0])
            _stay_until(result, who, spans[-1][1])


def _stay_until(result: Exploration, who: _Who, until_ns: int) -> None:
    """Let the pod stay for so long, whoever deletes it."""
    for controller in (TAINT_EVICTION, NODE_LIFECYCLE):
        key = EvictionKey(*who, controller, 0)
        row = result.evictions.get(key)
        if row is not None and row.gone_latest_ns is not None:
            gone_ns = max(row.gone_latest_ns, until_ns)
            result.evictions[key] = row._replace(gone_latest_ns=gone_ns)


def _ends(
    result: Exploration, pods: Mapping[_Who, Pod], given: Given
) -> Iterator[tuple[_Who, Span]]:
    """From when to when each of the ``pods`` ends that somebody deletes, as far as its kubelet is there."""
    snapshot, scenario, _ = given
    nodes = {node.name: node for node in snapshot.nodes}
    for who, pod in pods.items():
        node = nodes.get(pod.node_name)
        if pod.deletion_timestamp_ns is not None and node is not None:
            yield who, (0, left_at_start_ns(node, pod, scenario.start_ns))
    for key, row in result.evictions.items():
        if row.gone_latest_ns is not None and (key.pod, key.uid) in pods:
            yield (key.pod, key.uid), (row.earliest_ns, row.gone_latest_ns)
    for event in scenario.events:
        for who, pod in pods.items() if isinstance(event, DeletePods) else ():
            if pod.key in event.pods:
                grace_ns = ClusterState.effective_grace_seconds(pod) * SECOND_NS
                yield who, (event.at_ns, event.latest_ns + grace_ns)


def _collected(
    deleted: Span, horizon_ns: int | None, configuration: ControllerConfiguration
) -> Span:
    """When garbage collection takes pods of a Node that is deleted then; up to the ``horizon_ns`` where it may be away meanwhile."""
    waits_ns, loops = 0, 1
    if configuration.profile.orphan_quarantine:
        waits_ns, loops = QUARANTINE_TIME_NS, 2
    over_ns = waits_ns + loops * (GC_CHECK_PERIOD_NS + GC_COST_MAX_NS)
    return deleted[0] + waits_ns, deleted[1] + over_ns if horizon_ns is None else horizon_ns


def _say_false(snapshot: ClusterSnapshot, scenario: Scenario) -> Iterator[str]:
    """Nodes whose kubelet says Ready=False at the start or later."""
    yield from (node.name for node in snapshot.nodes if node.ready_status == _FALSE)
    for event in scenario.events:
        if getattr(event, "status", None) == _FALSE:
            yield from event.nodes
        if event.node is not None and event.node.ready_status == _FALSE:
            yield event.node.name


def _deleted(snapshot: ClusterSnapshot, scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Pods that terminate at the start, with their UID, and those that the scenario deletes by name."""
    for pod in snapshot.pods:
        if pod.deletion_timestamp_ns is not None:
            yield pod.key, pod.uid
    for event in scenario.events:
        yield from ((key, "") for key in event.pods)
