"""Pods of one node that differ in nothing but their names: one of each kind is simulated for all of them.

No controller that is simulated looks at a pod's name, labels or containers unless a scenario or a drain names
it, and what it does to one pod of a node does not depend on the others: so pods that are equal in
everything else share every instant of every run. A node has dozens of pods and a few kinds of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

from msgspec.structs import replace

from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.windows.outcome import CancelKey, EvictionKey, Exploration, WindowTable

_Found = TypeVar("_Found")
# Others are looked at in the order of their names: see pod garbage collection.
_PHASES_NOT_FINISHED = ("Pending", "Running", "Unknown")


class AlikePods:
    """``snapshot`` has one pod of every kind on every node; asked for it, one gets all pods of its kind."""

    def __init__(self, relevant: ClusterSnapshot, scenario: Scenario) -> None:
        self.snapshot = relevant
        # By the key of the pod that is simulated, it and all others of its kind.
        self._of: dict[str, list[Pod]] = {}
        self._shown_by: dict[str, str] = {}
        # Drains look at names, labels and budgets.
        if not drained_nodes(scenario):
            self._find(relevant, scenario)

    def _find(self, relevant: ClusterSnapshot, scenario: Scenario) -> None:
        named = {key for event in scenario.events for key in event.pods}
        named.update(event.pod.key for event in scenario.events if event.pod is not None)
        # Timers that run at the start began with the pod, at the earliest.
        tainted = {node.name for node in relevant.nodes if no_execute_taints(node.taints)}
        kinds: dict[Hashable, list[Pod]] = {}
        alone: list[Pod] = []
        for pod in relevant.pods:
            if not pod.node_name or pod.phase not in _PHASES_NOT_FINISHED or pod.key in named:
                alone.append(pod)
                continue
            kind: Hashable = pod.node_name, kind_of(pod)
            if pod.node_name in tainted:
                kind = kind, pod.creation_timestamp_ns
            kinds.setdefault(kind, []).append(pod)
        if len(kinds) + len(alone) == len(relevant.pods):
            return
        self._of = {pods[0].key: pods for pods in kinds.values() if len(pods) > 1}
        self._shown_by = {pod.key: key for key, pods in self._of.items() for pod in pods}
        shown = {id(pods[0]) for pods in kinds.values()} | {id(pod) for pod in alone}
        self.snapshot = replace(
            relevant,
            pods=tuple(pod for pod in relevant.pods if id(pod) in shown),
            stand_ins={key: len(pods) for key, pods in self._of.items()},
        )

    def shown_by(self, key: str) -> str:
        """The key of the pod that is simulated in the place of this one."""
        return self._shown_by.get(key, key)

    def number(self, key: str) -> int:
        """How many pods that one pod stands for, itself included."""
        return len(self._of.get(key, (None,)))

    def keys(self, key: str) -> Iterator[str]:
        """Yield the keys of all pods that the pod stands for."""
        pods = self._of.get(key)
        if pods is None:
            yield key
        else:
            yield from (pod.key for pod in pods)

    def identities(self, key: str, uid: str) -> Iterator[tuple[str, str]]:
        """Yield key and uid of all pods that the pod stands for; another pod of its name stands for itself.

        Who knows no more of a pod than its name says "" for the uid.
        """
        pods = self._of.get(key)
        if pods is None or uid not in ("", pods[0].uid):
            yield key, uid
        elif not uid:
            yield from ((pod.key, "") for pod in pods)
        else:
            yield from ((pod.key, pod.uid) for pod in pods)

    def evictions(self, found: Mapping[EvictionKey, _Found]) -> dict[EvictionKey, _Found]:
        """Return what was found for the pods that are simulated, for all pods."""
        if not self._of:
            return dict(found)
        return {
            EvictionKey(pod, uid, key.controller, key.ordinal): value
            for key, value in found.items()
            for pod, uid in self.identities(key.pod, key.uid)
        }

    def extend(self, exploration: Exploration) -> None:
        """Tell what was explored for all pods."""
        if self._of:
            exploration.evictions = self.evictions(exploration.evictions)
            self._extend(exploration.cancels)
            self._extend(exploration.cancelled_starts)

    def _extend(self, table: WindowTable[CancelKey]) -> None:
        table.windows = {
            (key._replace(pod=pod, uid=uid), ordinal): window
            for (key, ordinal), window in table.windows.items()
            for pod, uid in self.identities(key.pod, key.uid)
        }


def kind_of(pod: Pod) -> Hashable:
    """Equal for pods that no controller tells apart on one node. Loaders share equal lists of tolerations."""
    owner = pod.controller()
    return (
        id(pod.tolerations),
        owner.kind if owner is not None else "",
        pod.phase,
        pod.ready,
        pod.termination_grace_period_seconds,
        pod.deletion_timestamp_ns,
        pod.deletion_grace_period_seconds,
        pod.finalizers,
        pod.mirror,
        pod.config_source,
        pod.duplicate_env_or_port,
        pod.status_reason,
    )
