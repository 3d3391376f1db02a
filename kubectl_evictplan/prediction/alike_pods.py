"""Pods that differ in nothing but their names: one of each kind is simulated for all of them.

No controller that is simulated looks at a pod's name, labels or containers unless a scenario or a drain names
it, and what it does to one pod of a node does not depend on the others: so pods that are equal in
everything else share every instant of every run. A node has dozens of pods and a few kinds of them. Nodes
that are healthy and stay so differ for their pods in the taints that people put on them only.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, Cordon, RemoveTaint
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.windows.outcome import (
    CancelKey,
    EvictionKey,
    Exploration,
    PossibleEviction,
    WindowTable,
)

_NONE: frozenset[str] = frozenset()
# Others are looked at in the order of their names: see pod garbage collection.
_PHASES_NOT_FINISHED = ("Pending", "Running", "Unknown")


class SomePod(Struct, frozen=True, gc=False):
    """A pod by its names, and its node; ``pod`` is None where nothing else is known of it."""

    key: str
    uid: str
    node: str
    pod: Pod | None = None


class AlikePods:
    """``snapshot`` has one pod of every kind; asked for it, one gets all pods of its kind.

    ``steady`` are nodes to which nothing happens unless the scenario does it. Without a scenario each pod stands for
    itself.
    """

    def __init__(
        self, relevant: ClusterSnapshot, scenario: Scenario | None, steady: Container[str] = _NONE
    ) -> None:
        self.snapshot = relevant
        self._steady = steady
        # By the key of the pod that is simulated, it and all others of its kind.
        self._of: dict[str, list[SomePod]] = {}
        self._on_several_nodes: set[str] = set()
        # Drains look at names, labels and budgets.
        if scenario is not None and not drained_nodes(scenario):
            self._find(relevant, scenario)

    def _find(self, relevant: ClusterSnapshot, scenario: Scenario) -> None:
        named = {key for event in scenario.events for key in event.pods}
        named.update(event.pod.key for event in scenario.events if event.pod is not None)
        # Timers that run at the start began with the pod, at the earliest.
        tainted = {node.name for node in relevant.nodes if no_execute_taints(node.taints)}
        places = self._places(relevant, scenario)
        kinds: dict[Hashable, list[Pod]] = {}
        alone: list[Pod] = []
        for pod in relevant.pods:
            name = pod.node_name
            if not name or pod.phase not in _PHASES_NOT_FINISHED or (named and pod.key in named):
                alone.append(pod)
                continue
            kind: Hashable = places.get(name, name), kind_of(pod)
            if name in tainted:
                kind = kind, pod.creation_timestamp_ns
            kinds.setdefault(kind, []).append(pod)
        if len(kinds) + len(alone) == len(relevant.pods):
            return
        for pods in kinds.values():
            if len(pods) > 1:
                some = [SomePod(pod.key, pod.uid, pod.node_name, pod) for pod in pods]
                key = some[0].key
                self._of[key] = some
                if places and some[0].node in places:
                    self._on_several_nodes.add(key)
        shown = {id(pods[0]) for pods in kinds.values()} | {id(pod) for pod in alone}
        self.snapshot = replace(
            relevant,
            pods=tuple([pod for pod in relevant.pods if id(pod) in shown]),
            stand_ins={key: len(pods) for key, pods in self._of.items()},
        )

    def _places(self, relevant: ClusterSnapshot, scenario: Scenario) -> dict[str, Hashable]:
        """What pods see of each node to which nothing happens but taints, people's own; others are not there."""
        of_node: dict[str, list[int]] = {}
        others: set[str] = set()
        for index, event in enumerate(scenario.events):
            if event.manager_up is not None:
                return {}
            if isinstance(event, AddTaint | RemoveTaint | Cordon) and not (
                event.seen_by_monitor or event.seen_by_pod_gc
            ):
                for name in event.nodes:
                    of_node.setdefault(name, []).append(index)
            else:
                others.update(event.touched_nodes)
        looks: dict[Hashable, Hashable] = {}
        found: dict[str, Hashable] = {}
        for node in relevant.nodes:
            if node.name in of_node and node.name in self._steady and node.name not in others:
                look = tuple(of_node[node.name]), node.unschedulable, node.taints
                found[node.name] = looks.setdefault(look, ("", *look))
        return found

    @cached_property
    def _shown_by(self) -> dict[str, str]:
        return {pod.key: key for key, pods in self._of.items() for pod in pods}

    def shown_by(self, key: str) -> str:
        """The key of the pod that is simulated in the place of this one."""
        return self._shown_by.get(key, key)

    def keys(self, key: str) -> Iterator[str]:
        """Yield the keys of all pods that the pod stands for."""
        pods = self._of.get(key)
        if pods is None:
            yield key
        else:
            yield from (pod.key for pod in pods)

    def pods(self, key: str, uid: str, node: str) -> Sequence[SomePod]:
        """Return all pods that the pod stands for; another pod of its name stands for itself.

        Who knows no more of a pod than its name says "" for the uid.
        """
        pods = self._of.get(key)
        if pods is None or uid not in ("", pods[0].uid):
            return (SomePod(key, uid, node),)
        return pods if uid else [replace(pod, uid="") for pod in pods]

    def on_nodes(self, key: str, uid: str, node: str) -> Mapping[str, int]:
        """Return how many pods it stands for on each node."""
        if key not in self._on_several_nodes:
            return {node: len(self.pods(key, uid, node))}
        numbers: dict[str, int] = {}
        for pod in self.pods(key, uid, node):
            numbers[pod.node] = numbers.get(pod.node, 0) + 1
        return numbers

    def evictions(
        self, found: Mapping[EvictionKey, PossibleEviction]
    ) -> dict[EvictionKey, PossibleEviction]:
        """Return what was found for the pods that are simulated, for all pods."""
        if not self._of:
            return dict(found)
        extended = {}
        for key, value in found.items():
            there = {value.node: value}
            for pod in self.pods(key.pod, key.uid, value.node):
                if (here := there.get(pod.node)) is None:
                    here = there[pod.node] = value._replace(node=pod.node)
                extended[EvictionKey(pod.key, pod.uid, key.controller, key.ordinal)] = here
        return extended

    def extend(self, exploration: Exploration) -> None:
        """Tell of all pods which timers of theirs were cancelled. Evictions are many: see ``evictions``."""
        if self._of:
            self._extend(exploration.cancels)
            self._extend(exploration.cancelled_starts)

    def _extend(self, table: WindowTable[CancelKey]) -> None:
        table.windows = {
            (CancelKey(pod.key, pod.uid, pod.node, key.reason), ordinal): window
            for (key, ordinal), window in table.windows.items()
            for pod in self.pods(key.pod, key.uid, key.node)
        }


# What else controllers look at: equal for pods that they do not tell apart.
_LOOK = attrgetter(
    "phase",
    "ready",
    "termination_grace_period_seconds",
    "deletion_timestamp_ns",
    "deletion_grace_period_seconds",
    "finalizers",
    "mirror",
    "config_source",
    "duplicate_env_or_port",
    "status_reason",
)


def kind_of(pod: Pod) -> Hashable:
    """Equal for pods that no controller tells apart on one node. Loaders share equal lists of tolerations."""
    owner = pod.controller()
    if owner is None:
        return id(pod.tolerations), _LOOK(pod)
    # When a finalizer goes may depend on the Job.
    return id(pod.tolerations), owner.kind, owner.name if pod.finalizers else "", _LOOK(pod)
