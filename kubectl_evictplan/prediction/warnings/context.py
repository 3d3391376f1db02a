"""What every warning looks at, computed once: affected nodes and pods, evictions, what happened when.

Costs one pass over the pods of affected nodes and one over the nominal timeline; tolerations are looked
at once per distinct (list of tolerations, taints of a node), however many pods share them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar, cast

import msgspec

from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    Entry,
    NodeBecameUnknown,
    NodeQueued,
    TaintAdded,
    TaintRemoved,
    Timeline,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import (
    NO_EXECUTE,
    ClusterSnapshot,
    Node,
    Pod,
    Taint,
    Toleration,
)
from kubectl_evictplan.prediction.gone import PodEnds
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario, ScenarioEvent
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction

_Kind = TypeVar("_Kind", bound=Entry)

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


class EvictedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod with at least one predicted DELETE; the earliest one counts.

    ``owner`` is the kind of the managing owner, "" for a bare pod.
    """

    key: str
    pod: Pod
    owner: str
    controller: str
    occurrence: PossibleEviction


class TolerationGroup(NamedTuple):
    """Pods that share a list of tolerations and the NoExecute taints that their nodes get."""

    tolerations: tuple[Toleration, ...]
    taints: tuple[Taint, ...]
    pods: list[Pod]

    def keys(self) -> list[str]:
        """The "namespace/name" of every pod."""
        return [pod.key for pod in self.pods]


class QueuedNode(NamedTuple):
    """A node in its zone's queue for a taint; ``tainted_ns`` None: not before the end."""

    node: str
    zone: str
    queued_ns: int
    tainted_ns: int | None

    def waits_between(self, from_ns: int, until_ns: int | None) -> bool:
        """Whether it waits at some time after ``from_ns`` and before ``until_ns`` (None: the end)."""
        return (self.tainted_ns is None or self.tainted_ns > from_ns) and (
            until_ns is None or self.queued_ns < until_ns
        )


class WarningContext:
    """One prediction, as the warnings see it. Read only once built."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        nominal: Timeline,
        affected_nodes: Collection[str],
        evictions: Mapping[EvictionKey, PossibleEviction],
        ends: PodEnds,
    ) -> None:
        self.snapshot = snapshot
        self.scenario = scenario
        self.configuration = configuration
        self.profile = configuration.profile
        self.nominal = nominal
        self.silent_nodes = ends.silent_nodes
        # Evicted pods by what holds their objects.
        self.stuck = ends.stuck_pods(evictions)
        self.affected = frozenset(affected_nodes)
        self.node_by_name = {node.name: node for node in snapshot.nodes}
        self.nodes: list[Node] = [n for n in snapshot.nodes if n.name in self.affected]
        horizon_ns = scenario.horizon_ns
        self.horizon_ns = HORIZON_DEFAULT_MAX_NS if horizon_ns is None else horizon_ns
        self.events: list[ScenarioEvent] = [
            event for event in scenario.events if event.at_ns <= self.horizon_ns
        ]
        self._entries: dict[type[Entry], list[Entry]] = {}
        for entry in nominal.entries:
            self._entries.setdefault(type(entry), []).append(entry)
        self.pods: list[Pod] = self._affected_pods()
        self.evicted: list[EvictedPod] = self._evicted_pods(evictions)
        # Evicted pods by the kind of their owner ("" for bare pods), and the few unusual ones:
        # finished, terminating, with finalizers, mirror pods, or without a grace period.
        self.evicted_by_owner: dict[str, list[EvictedPod]] = {}
        self.unusual: list[EvictedPod] = []
        self._sort_evicted_pods()
        # Every taint that a node carries at some time, NoExecute and others, without timeAdded.
        self.taints_of: dict[str, tuple[Taint, ...]] = self._taints_of_nodes()
        self.groups: list[TolerationGroup] = self._toleration_groups()
        self.queued: list[QueuedNode] = self._queued_nodes()

    # -- facts that several warnings ask for --------------------------------------------------------

    def entries(self, kind: type[_Kind]) -> list[_Kind]:
        """The nominal run's entries of one kind, in order."""
        return cast("list[_Kind]", self._entries.get(kind, []))

    @property
    def health_matters(self) -> bool:
        """Whether node lifecycle's loops had any part in what happens."""
        return bool(
            self.entries(NodeBecameUnknown)
            or self.entries(NodeQueued)
            or any(
                change.by == NODE_LIFECYCLE and change.taint.effect == NO_EXECUTE
                for change in (*self.entries(TaintAdded), *self.entries(TaintRemoved))
            )
        )

    # -- building -----------------------------------------------------------------------------------

    def _affected_pods(self) -> list[Pod]:
        """Pods of affected nodes, then those that the scenario creates."""
        affected = self.affected
        pods = [pod for pod in self.snapshot.pods if pod.node_name in affected]
        pods += [event.pod for event in self.events if event.pod is not None]
        return pods

    def _evicted_pods(self, evictions: Mapping[EvictionKey, PossibleEviction]) -> list[EvictedPod]:
        first: dict[str, tuple[EvictionKey, PossibleEviction]] = {}
        for item in evictions.items():
            other = first.setdefault(item[0].pod, item)
            if other is not item and item[1].earliest_ns < other[1].earliest_ns:
                first[item[0].pod] = item
        known: dict[str, Pod] = {}
        for pod in self.pods:
            name = f"{pod.namespace}/{pod.name}"
            # Of two pods with one name the one that is evicted first counts.
            if name in first and (name not in known or pod.uid == first[name][0].uid):
                known[name] = pod
        if len(known) < len(first):
            missing = first.keys() - known.keys()
            known.update((pod.key, pod) for pod in self.snapshot.pods if pod.key in missing)
        evicted = []
        for name in sorted(known):
            pod, (key, occurrence) = known[name], first[name]
            references = pod.owner_references
            owner = ""
            if references:
                plain = len(references) == 1 and references[0].controller
                controller = references[0] if plain else pod.controller()
                owner = controller.kind if controller is not None else ""
            evicted.append(EvictedPod(name, pod, owner, key.controller, occurrence))
        return evicted

    def _sort_evicted_pods(self) -> None:
        by_owner, unusual = self.evicted_by_owner, self.unusual
        for evicted in self.evicted:
            pod = evicted.pod
            owned = by_owner.get(evicted.owner)
            if owned is None:
                owned = by_owner[evicted.owner] = []
            owned.append(evicted)
            if (
                pod.finalizers
                or pod.mirror
                or pod.deletion_timestamp_ns is not None
                or pod.phase in FINISHED_PHASES
                or pod.termination_grace_period_seconds == 0
            ):
                unusual.append(evicted)

    def _taints_of_nodes(self) -> dict[str, tuple[Taint, ...]]:
        found: dict[str, dict[Taint, None]] = {}
        for node in self.nodes:
            if node.taints:
                found[node.name] = {_plain(taint): None for taint in node.taints}
        for event in self.events:
            if event.node is not None:
                found.setdefault(event.node.name, {}).update(
                    (_plain(taint), None) for taint in event.node.taints
                )
        for added in self.entries(TaintAdded):
            found.setdefault(added.node, {})[_plain(added.taint)] = None
        # Taints that come in other admissible runs only.
        decided = {(e.occurrence.node, id(e.occurrence.taint)): e for e in self.evicted}
        for (name, _), evicted in decided.items():
            taint = evicted.occurrence.taint
            if taint is not None:
                found.setdefault(name, {})[_plain(taint)] = None
        # Equal lists are one object: rules may use its identity.
        shared: dict[tuple[Taint, ...], tuple[Taint, ...]] = {}
        lists = ((name, tuple(taints)) for name, taints in found.items())
        return {name: shared.setdefault(taints, taints) for name, taints in lists}

    def _toleration_groups(self) -> list[TolerationGroup]:
        no_execute: dict[str, tuple[Taint, ...]] = {}
        for name, taints in self.taints_of.items():
            kept = tuple(taint for taint in taints if taint.effect == NO_EXECUTE)
            if kept:
                no_execute[name] = kept
        # Loaders share equal lists of tolerations: an identity saves hashing them again.
        shared: dict[int, tuple[Toleration, ...]] = {}
        places: dict[int, dict[str, list[Pod]]] = {}
        for pod in self.pods:
            name, tolerations = pod.node_name, pod.tolerations
            if name in no_execute:
                by_node = places.get(id(tolerations))
                if by_node is None:
                    by_node = places[id(tolerations)] = {}
                    shared[id(tolerations)] = tolerations
                by_node.setdefault(name, []).append(pod)
        merged: dict[tuple[tuple[Toleration, ...], tuple[Taint, ...]], list[Pod]] = {}
        for identity, by_node in places.items():
            for name, pods in by_node.items():
                merged.setdefault((shared[identity], no_execute[name]), []).extend(pods)
        return [TolerationGroup(key[0], key[1], pods) for key, pods in merged.items()]

    def _queued_nodes(self) -> list[QueuedNode]:
        tainted: dict[str, list[int]] = {}
        for added in self.entries(TaintAdded):
            if added.by == NODE_LIFECYCLE and added.taint.effect == NO_EXECUTE:
                tainted.setdefault(added.node, []).append(added.at_ns)
        return [
            QueuedNode(
                queued.node,
                queued.zone,
                queued.at_ns,
                min(
                    (at for at in tainted.get(queued.node, ()) if at >= queued.at_ns), default=None
                ),
            )
            for queued in self.entries(NodeQueued)
        ]


class Statement(NamedTuple):
    """What is said under one code: a message, and the objects it is about.

    Objects None: it is about the whole prediction. A message about no object is not said.
    """

    message: str
    objects: Iterable[str] | None = None


Statements = Iterator[tuple[str, Iterable[str] | None]]
WarningFunction = Callable[[WarningContext], Statements]


def _plain(taint: Taint) -> Taint:
    return Taint(taint.key, taint.effect, taint.value)
