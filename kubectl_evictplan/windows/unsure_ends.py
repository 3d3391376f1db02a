"""Ends of pods that no run shows: of a kubelet that says Ready=False nobody knows whether it can end pods (rule 28).

Runs let it end none. But a pod that terminates there may be gone before garbage collection, or the end of a countdown, would come to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubectl_evictplan.cluster.timeline import POD_GC, TAINT_EVICTION
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.actions.pods import DeletePods
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration

_FALSE = "False"


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
