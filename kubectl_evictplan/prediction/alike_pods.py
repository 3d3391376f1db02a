"""Pods that differ in nothing but their names: one of each kind is simulated for all of them.

No controller that is simulated looks at a pod's name, labels or containers unless a scenario or a drain names
it, and what it does to one pod of a node does not depend on the others: so pods that are equal in
everything else share every instant of every run. A node has dozens of pods and a few kinds of them. Nodes
that are healthy and stay so differ for their pods in the taints that people put on them only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import compress, count
from operator import attrgetter
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import AboutPod
from kubectl_evictplan.controllers.pod_gc import NOT_TERMINATED_PHASES
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.scenarios.actions.nodes import taints_or_cordons_unseen
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.windows.outcome import (
    CancelKey,
    Exploration,
    WindowTable,
)

_Of = TypeVar("_Of")
# What tells a lot apart: its node, the kind of its pods, and perhaps more; a number of a pod that is alone.
_Look = tuple[str, Hashable] | tuple[str, Hashable, int] | int

_NONE: frozenset[str] = frozenset()


class SomePod(Struct, frozen=True, gc=False):
    """A pod by its names, and its node."""

    key: str
    uid: str
    node: str


class Lot(Struct, frozen=True, gc=False):
    """So many pods of one node that nothing tells apart; ``pod`` is the first of them.

    ``place`` is that among all lots of the snapshot; -1 of a pod that is not in it.
    """

    place: int
    pod: Pod
    count: int = 1


class AlikePods:
    """``snapshot`` has one pod of every kind; asked for it, one gets all pods of its kind.

    ``lots`` are all ``pods``, in the order of the first of each. A kind is one lot, or those of several nodes that share
    their fate. ``steady`` are nodes to which nothing happens unless the scenario does it. Without a scenario each pod
    stands for itself.
    """

    def __init__(
        self, relevant: ClusterSnapshot, scenario: Scenario | None, steady: Container[str] = _NONE
    ) -> None:
        self.snapshot = relevant
        self.pods = relevant.pods
        self._steady = steady
        # By place in ``lots`` what they have in common; for each pod the place of its lot.
        self._looks, self._lot_at = self._find(scenario)
        sizes = Counter(self._lot_at)
        self.lots = [
            Lot(place, pod, sizes[place]) for place, pod in enumerate(self._first_of_lots())
        ]
        kinds = self._kinds(scenario)
        # By the key of the pod that is simulated.
        self._of = {lots[0].pod.key: lots for lots in kinds}
        self._spread = {key: lots for key, lots in self._of.items() if len(lots) > 1}
        if len(kinds) < len(self.pods):
            self.snapshot = replace(
                relevant,
                pods=tuple([lots[0].pod for lots in kinds]),
                stand_ins={
                    key: number
                    for key, lots in self._of.items()
                    if (number := sum([lot.count for lot in lots])) > 1
                },
            )

    def _find(self, scenario: Scenario | None) -> tuple[Sequence[_Look], Sequence[int]]:
        """What tells lots apart, and for each pod the place of its lot."""
        # Drains look at names, labels and budgets.
        if scenario is None or drained_nodes(scenario):
            return self._each_alone()
        places: defaultdict[_Look, int] = defaultdict(count().__next__)
        looks = _looks(self.snapshot, scenario.named_pods)
        lot_at = list(map(places.__getitem__, looks))
        return list(places), lot_at

    def _each_alone(self) -> tuple[Sequence[_Look], Sequence[int]]:
        every = range(len(self.pods))
        return every, every

    def _first_of_lots(self) -> Iterator[Pod]:
        place = 0
        for pod, lot in zip(self.pods, self._lot_at, strict=True):
            if lot == place:
                yield pod
                place += 1

    def _kinds(self, scenario: Scenario | None) -> list[list[Lot]]:
        """All lots by their kinds."""
        places = {} if scenario is None else self._places(scenario)
        if not places:
            return [[lot] for lot in self.lots]
        kinds: dict[Hashable, list[Lot]] = {}
        for lot, look in zip(self.lots, self._looks, strict=True):
            kind: Hashable = look
            if isinstance(look, tuple) and (place := places.get(look[0])) is not None:
                kind = place, *look[1:]
            kinds.setdefault(kind, []).append(lot)
        return list(kinds.values())

    def _places(self, scenario: Scenario) -> dict[str, Hashable]:
        """What pods see of each node to which nothing happens but taints, people's own; others are not there."""
        of_node: dict[str, list[int]] = {}
        others: set[str] = set()
        for index, event in enumerate(scenario.events):
            if event.manager_up is not None:
                return {}
            if taints_or_cordons_unseen(event) and not event.seen_by_pod_gc:
                for name in event.nodes:
                    of_node.setdefault(name, []).append(index)
            else:
                others.update(event.touched_nodes)
        looks: dict[Hashable, Hashable] = {}
        found: dict[str, Hashable] = {}
        for node in self.snapshot.nodes:
            if node.name in of_node and node.name in self._steady and node.name not in others:
                look = tuple(of_node[node.name]), node.unschedulable, node.taints
                found[node.name] = looks.setdefault(look, ("", *look))
        return found

    def lots_of(self, key: str, uid: str, node: str) -> Sequence[Lot]:
        """All pods of the kind that this pod was simulated for; none where it is no pod of the snapshot."""
        lots = self._of.get(key, ())
        if lots:
            first = lots[0].pod
            if uid not in ("", first.uid) or node not in ("", first.node_name):
                return ()
        return lots

    def nodes_of(self, entries: Collection[AboutPod]) -> set[str]:
        """The nodes of all pods that entries of a run are about."""
        nodes = {entry.node for entry in entries}
        if self._spread:
            lots = [self._spread.get(entry.pod, ()) for entry in entries]
            nodes.update(lot.pod.node_name for some in lots for lot in some)
        return nodes

    def pods_of(self, lots: Iterable[Lot]) -> list[Pod]:
        """All pods of these lots, in the order of the snapshot, then those that are not in it."""
        lots = list(lots)
        return [*self.chosen(self.pods, lots), *[lot.pod for lot in lots if lot.place < 0]]

    def keys_of(self, lots: Iterable[Lot]) -> list[str]:
        """The keys of all pods of these lots, in the same order."""
        lots = list(lots)
        if not lots:
            return []
        return [*self.chosen(self._keys, lots), *[lot.pod.key for lot in lots if lot.place < 0]]

    @cached_property
    def _keys(self) -> list[str]:
        return [f"{pod.namespace}/{pod.name}" for pod in self.pods]

    def chosen(self, of_pods: Iterable[_Of], lots: Iterable[Lot]) -> Iterable[_Of]:
        """What is given for all ``pods``, in their order, of those of these lots only."""
        wanted = bytearray(len(self.lots))
        for lot in lots:
            if lot.place >= 0:
                wanted[lot.place] = 1
        return compress(of_pods, map(wanted.__getitem__, self._lot_at)) if any(wanted) else ()

    def by_lot(self, of_pods: Iterable[_Of]) -> list[list[_Of]]:
        """What is given for all ``pods``, in their order, by lots."""
        found: list[list[_Of]] = [[] for _ in self.lots]
        for lot, one in zip(self._lot_at, of_pods, strict=True):
            found[lot].append(one)
        return found

    @cached_property
    def _by_lot(self) -> list[list[Pod]]:
        return self.by_lot(self.pods)

    def pods_in(self, lot: Lot) -> Sequence[Pod]:
        """All pods of one lot; ``pods_of`` many of them costs less."""
        return (lot.pod,) if lot.place < 0 else self._by_lot[lot.place]

    def alike(self, key: str) -> list[Pod]:
        """All pods of the kind that the pod of this name was simulated for; none where it is no pod of the snapshot."""
        return [pod for lot in self._of.get(key, ()) for pod in self._by_lot[lot.place]]

    def keys(self, key: str) -> list[str]:
        """The keys of all pods that the pod stands for."""
        return [pod.key for pod in self.alike(key)] or [key]

    def some_pods(self, key: str, uid: str, node: str) -> Sequence[SomePod]:
        """Return all pods that the pod stands for; another pod of its name stands for itself.

        Who knows no more of a pod than its name says "" for the uid.
        """
        lots = self.lots_of(key, uid, node)
        if not lots:
            return (SomePod(key, uid, node),)
        return [SomePod(pod.key, uid and pod.uid, pod.node_name) for pod in self.alike(key)]

    def numbers_on_nodes(self, key: str, uid: str, node: str) -> dict[str, int]:
        """On which nodes the ``some_pods`` are, and how many."""
        numbers: dict[str, int] = {}
        for lot in self.lots_of(key, uid, node):
            name = lot.pod.node_name
            numbers[name] = numbers.get(name, 0) + lot.count
        return numbers or {node: 1}

    def extend(self, exploration: Exploration) -> None:
        """Tell of all pods which timers of theirs were cancelled. Evictions are many, and told by lots."""
        if len(self._of) < len(self.pods):
            self._extend(exploration.cancels)
            self._extend(exploration.cancelled_starts)

    def _extend(self, table: WindowTable[CancelKey]) -> None:
        table.windows = {
            (CancelKey(pod.key, pod.uid, pod.node, key.reason), ordinal): window
            for (key, ordinal), window in table.windows.items()
            for pod in self.some_pods(key.pod, key.uid, key.node)
        }


def _looks(snapshot: ClusterSnapshot, named: Collection[str]) -> Iterator[_Look]:
    """Yield for each pod what is equal for pods of its lot only; each of those ``named`` stands for itself."""
    # Timers that run at the start began with the pod, at the earliest.
    tainted = {node.name for node in snapshot.nodes if no_execute_taints(node.taints)}
    kinds = _numbers_of_kinds(snapshot.pods)
    names = [pod.node_name for pod in snapshot.pods]
    phases = {pod.phase for pod in snapshot.pods}
    if (
        not named
        and phases.issubset(NOT_TERMINATED_PHASES)
        and tainted.union(("",)).isdisjoint(names)
    ):
        # Mostly nothing tells pods apart but these.
        yield from zip(names, kinds, strict=True)
        return
    for alone, (pod, kind) in enumerate(zip(snapshot.pods, kinds, strict=True)):
        name = pod.node_name
        # Pod garbage collection looks at terminated ones in the order of their names.
        if not name or pod.phase not in NOT_TERMINATED_PHASES or (named and pod.key in named):
            yield alone
        elif name in tainted:
            yield name, kind, pod.creation_timestamp_ns
        else:
            yield name, kind


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
    owner = pod.controller()
    kind, name = (None, "") if owner is None else (owner.kind, owner.name)
    # When a finalizer goes may depend on the Job, which its name alone does not tell.
    whose = (kind, name, pod.namespace) if pod.finalizers else kind
    return id(pod.tolerations), whose, _LOOK(pod)


def _numbers_of_kinds(pods: Sequence[Pod]) -> list[int]:
    """Of each pod the number of its ``kind_of``: asked of one of those that follow each other and are alike, as those of one owner mostly do."""
    numbers: dict[Hashable, int] = {}
    found: list[int] = []
    number = -1
    owners, tolerations, look = object(), object(), ()
    for pod, own in zip(pods, map(_LOOK, pods), strict=True):
        if (
            pod.owner_references is not owners
            or pod.tolerations is not tolerations
            or own != look
            or pod.finalizers
        ):
            owners, tolerations, look = pod.owner_references, pod.tolerations, own
            number = numbers.setdefault(kind_of(pod), len(numbers))
        found.append(number)
    return found
