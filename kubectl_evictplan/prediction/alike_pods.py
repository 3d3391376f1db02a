"""Pods that differ in nothing but their names: one of each kind is simulated for all of them.

No controller that is simulated looks at a pod's name, labels or containers unless a scenario or a drain names
it, and what it does to one pod of a node does not depend on the others: so pods that are equal in
everything else share every instant of every run. A node has dozens of pods and a few kinds of them. Nodes
that are healthy and stay so differ for their pods in the taints that people put on them only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
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
    """A pod by its names, and its node."""

    key: str
    uid: str
    node: str


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
        # By the key of the pod that is simulated, it and all others of its kind, in their order.
        self._of: dict[str, list[Pod]] = {}
        self._on_several_nodes: set[str] = set()
        self._kinds: Sequence[Sequence[Pod]] | None = None
        # Drains look at names, labels and budgets.
        if scenario is not None and not drained_nodes(scenario):
            self._find(relevant, scenario)

    def _find(self, relevant: ClusterSnapshot, scenario: Scenario) -> None:
        places = self._places(relevant, scenario)
        kinds = self._kinds = _kinds(relevant, _named(scenario), places)
        if len(kinds) == len(relevant.pods):
            return
        shown: set[int] = set()
        for pods in kinds:
            first = pods[0]
            shown.add(id(first))
            if len(pods) > 1:
                key = first.key
                self._of[key] = pods
                if places and first.node_name in places:
                    self._on_several_nodes.add(key)
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

    @property
    def kinds(self) -> Iterator[Sequence[Pod]]:
        """Yield all pods, in lists of those of one node that nothing tells apart."""
        if self._kinds is None:
            yield from ((pod,) for pod in self.snapshot.pods)
        elif not self._on_several_nodes:
            yield from self._kinds
        else:
            for pods in self._kinds:
                yield from _by_node(pods).values()

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
            yield from [pod.key for pod in pods]

    def all_of(self, key: str, uid: str) -> Sequence[Pod]:
        """All pods of the kind that the pod stands for; none where it stands for itself, or is another of its name."""
        pods = self._of.get(key)
        return pods if pods is not None and uid in ("", pods[0].uid) else ()

    def pods(self, key: str, uid: str, node: str) -> Sequence[SomePod]:
        """Return all pods that the pod stands for; another pod of its name stands for itself.

        Who knows no more of a pod than its name says "" for the uid.
        """
        pods = self.all_of(key, uid)
        if not pods:
            return (SomePod(key, uid, node),)
        return [SomePod(pod.key, uid and pod.uid, pod.node_name) for pod in pods]

    def by_node(self, key: str, uid: str, node: str) -> Mapping[str, Sequence[Pod]]:
        """``all_of`` its kind by their nodes; nobody on its own node where there are none."""
        pods = self.all_of(key, uid)
        return _by_node(pods) if key in self._on_several_nodes and pods else {node: pods}

    def on_nodes(self, key: str, uid: str, node: str) -> Mapping[str, int]:
        """Return how many pods it stands for on each node."""
        on = self.by_node(key, uid, node)
        return {name: len(pods) or 1 for name, pods in on.items()}

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


def _named(scenario: Scenario) -> set[str]:
    """Pods that the scenario names: each of them stands for itself."""
    named = {key for event in scenario.events for key in event.pods}
    named.update(event.pod.key for event in scenario.events if event.pod is not None)
    return named


def _by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(pod.node_name, []).append(pod)
    return found


def _kinds(
    relevant: ClusterSnapshot, named: set[str], places: Mapping[str, Hashable]
) -> list[list[Pod]]:
    """All pods by their kinds, each in the order of the snapshot."""
    # Timers that run at the start began with the pod, at the earliest.
    tainted = {node.name for node in relevant.nodes if no_execute_taints(node.taints)}
    kinds: dict[Hashable, list[Pod]] = {}
    for pod, kind in zip(relevant.pods, _kinds_of(relevant.pods), strict=True):
        name = pod.node_name
        key: Hashable = places.get(name, name), kind
        if not name or pod.phase not in _PHASES_NOT_FINISHED or (named and pod.key in named):
            key = id(pod)
        elif name in tainted:
            key = key, pod.creation_timestamp_ns
        if (there := kinds.get(key)) is None:
            kinds[key] = [pod]
        else:
            there.append(pod)
    return list(kinds.values())


# What controllers look at besides tolerations and owners: equal for pods that they do not tell apart.
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
    return next(_looks((pod,)))


def _kinds_of(pods: Sequence[Pod]) -> Iterator[int]:
    """For each pod the number of its kind: of many pods in columns, without a call for each."""
    numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
    return map(numbers.__getitem__, _looks(pods))


def _looks(pods: Sequence[Pod]) -> Iterator[Hashable]:
    owners: dict[int, tuple[str | None, str]] = {}
    for pod, look in zip(pods, map(_LOOK, pods), strict=True):
        references = pod.owner_references
        if (owner := owners.get(id(references))) is None:
            owner = owners[id(references)] = _owner(pod)
        # When a finalizer goes may depend on the Job.
        yield id(pod.tolerations), owner if pod.finalizers else owner[0], look


def _owner(pod: Pod) -> tuple[str | None, str]:
    owner = pod.controller()
    return (None, "") if owner is None else (owner.kind, owner.name)
