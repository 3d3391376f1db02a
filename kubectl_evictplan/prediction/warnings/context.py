"""What every warning looks at, computed once: affected nodes and pods, evictions, what happened when.

Cost follows kinds of pods on a node, not pods: only a warning that is to be said goes through pods. Tolerations are
looked at once per distinct (list of tolerations, taints of a node), however many pods share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    Entry,
    NodeQueued,
    RunEntries,
    TaintAdded,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.finalizers import jobs_managed_elsewhere
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Pod, Taint, Toleration
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.prediction.alike_pods import AlikePods, Lot
from kubectl_evictplan.prediction.pod_ends import EvictedKind, PodEnds, Stuck
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.windows.outcome import PossibleEviction

if TYPE_CHECKING:
    from kubectl_evictplan.windows.drains.runs import DrainExploration

_Kind = TypeVar("_Kind", bound=Entry)

# What a statement is about that is about no object in particular.
WHOLE_PREDICTION = ("",)


class Statement(NamedTuple):
    """What is said under one code, and of which objects; of no object at all it is not said."""

    message: str
    objects: Iterable[str] = WHOLE_PREDICTION


Statements = Iterator[Statement]


class EvictedLot(msgspec.Struct, frozen=True, gc=False):
    """A lot of pods with at least one predicted DELETE; the earliest one counts. ``pod`` is one of them.

    ``owner`` is the kind of the managing owner, "" for bare pods. ``unusual``: finished, terminating, with
    finalizers, mirror pods, or without a grace period. They may differ in names, labels, owners and volumes.
    """

    lot: Lot
    pod: Pod
    owner: str
    controller: str
    occurrence: PossibleEviction
    unusual: bool


class TolerationGroup(msgspec.Struct, frozen=True):
    """Lots of pods that share a list of tolerations and the NoExecute taints that their nodes get."""

    tolerations: tuple[Toleration, ...]
    taints: tuple[Taint, ...]
    lots: list[Lot]


class QueuedNode(msgspec.Struct, frozen=True):
    """A node in its zone's queue for a taint; ``tainted_ns`` None: not before the end."""

    node: str
    zone: str
    queued_ns: int
    tainted_ns: int | None


class WarningContext(msgspec.Struct, dict=True):
    """One prediction, as the warnings see it. Read only once built."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    configuration: ControllerConfiguration
    nominal: RunEntries
    affected: Set[str]
    # Evictions of the pods that are simulated, and in the nominal run: one pod for all that are alike.
    kinds: Sequence[EvictedKind]
    ends: PodEnds
    alike: AlikePods
    # What was found out about drains; None without any.
    drains: DrainExploration | None = None

    def __post_init__(self) -> None:
        snapshot, scenario = self.snapshot, self.scenario
        self.profile = self.configuration.profile
        self.node_by_name = {node.name: node for node in snapshot.nodes}
        self.nodes = [node for node in snapshot.nodes if node.name in self.affected]
        horizon_ns = scenario.horizon_ns
        self.horizon_ns = HORIZON_DEFAULT_MAX_NS if horizon_ns is None else horizon_ns
        self.events = [event for event in scenario.events if event.at_ns <= self.horizon_ns]
        self._created = [event.pod for event in self.events if event.pod is not None]
        self.jobs_managed_elsewhere = jobs_managed_elsewhere(snapshot.workloads)

    # Found out when somebody asks: some warnings are read without the others.

    @cached_property
    def evicted(self) -> list[EvictedLot]:
        """All evicted pods."""
        return list(_evicted_lots(self.kinds, self._created))

    @cached_property
    def evicted_by_owner(self) -> dict[str, list[EvictedLot]]:
        """Evicted pods by the kind of their owner ("" for bare pods)."""
        found: dict[str, list[EvictedLot]] = {}
        for evicted in self.evicted:
            found.setdefault(evicted.owner, []).append(evicted)
        return found

    @cached_property
    def unusual(self) -> list[EvictedLot]:
        """The few unusual ones of the evicted."""
        return [evicted for evicted in self.evicted if evicted.unusual]

    def entries(self, kind: type[_Kind]) -> list[_Kind]:
        """The nominal run's entries of one kind, in order; one about a pod is about all that are ``alike``."""
        return self.nominal.of(kind)

    @cached_property
    def pods(self) -> list[Pod]:
        """All pods of affected nodes, and those that the scenario creates."""
        there = [pod for pod in self.snapshot.pods if pod.node_name in self.affected]
        return there + self._created

    def evicted_pods(self, evicted: Iterable[EvictedLot]) -> list[Pod]:
        """Every single one of them."""
        return self.alike.pods_of(one.lot for one in evicted)

    def evicted_keys(self, evicted: Iterable[EvictedLot]) -> list[str]:
        """The "namespace/name" of every single one of them."""
        return self.pod_keys(one.lot for one in evicted)

    def pod_keys(self, lots: Iterable[Lot]) -> list[str]:
        """The "namespace/name" of every pod of these lots, in the order of the snapshot."""
        return self.alike.keys_of(lots)

    def stuck(self, why: Stuck) -> list[str]:
        """The pods whose objects this holds."""
        held = [kind for kind in self.kinds if kind.stuck is why]
        keys = self.pod_keys(lot for kind in held for lot in kind.lots)
        return keys + [kind.key.pod for kind in held if not kind.lots]

    @property
    def health_matters(self) -> bool:
        """Whether node lifecycle's loops had any part in what happens."""
        return bool(
            self.entries(timeline.NodeBecameUnknown)
            or self.entries(NodeQueued)
            or any(
                change.by == NODE_LIFECYCLE and change.taint.effect == NO_EXECUTE
                for change in (*self.entries(TaintAdded), *self.entries(timeline.TaintRemoved))
            )
        )

    @cached_property
    def taints_of(self) -> dict[str, tuple[Taint, ...]]:
        """Every taint that a node carries at some time, NoExecute and others, without timeAdded."""
        carried = [(node.name, node.taints) for node in self.nodes if node.taints]
        carried += [(e.node.name, e.node.taints) for e in self.events if e.node is not None]
        carried += [(added.node, (added.taint,)) for added in self.entries(TaintAdded)]
        # Taints that come in other admissible runs only.
        decided = {
            (evicted.occurrence.node, id(taint)): taint
            for evicted in self.evicted
            if (taint := evicted.occurrence.taint) is not None
        }
        carried += [(node, (taint,)) for (node, _), taint in decided.items()]
        found: dict[str, dict[Taint, None]] = {}
        bare: dict[int, Taint] = {}
        for name, taints in carried:
            there = found.setdefault(name, {})
            for taint in taints:
                known = bare.get(id(taint))
                if known is None:
                    known = bare[id(taint)] = Taint(taint.key, taint.effect, taint.value)
                there[known] = None
        # Equal lists are one object: rules may use its identity.
        shared: dict[tuple[Taint, ...], tuple[Taint, ...]] = {}
        lists = ((name, tuple(taints)) for name, taints in found.items())
        return {name: shared.setdefault(taints, taints) for name, taints in lists}

    @cached_property
    def groups(self) -> list[TolerationGroup]:
        """Pods by what they tolerate and which NoExecute taints they meet."""
        # Equal lists of taints are one object, and loaders share equal lists of tolerations.
        no_execute = {id(taints): no_execute_taints(taints) for taints in self.taints_of.values()}
        places: dict[tuple[int, int], list[Lot]] = {}
        lots = [lot for lot in self.alike.lots if lot.pod.node_name in self.affected]
        for lot in (*lots, *(Lot(-1, pod) for pod in self._created)):
            pod = lot.pod
            taints = self.taints_of.get(pod.node_name)
            if taints is not None and no_execute[id(taints)]:
                places.setdefault((id(pod.tolerations), id(taints)), []).append(lot)
        merged: dict[tuple[tuple[Toleration, ...], tuple[Taint, ...]], list[Lot]] = {}
        for (_, taints_id), lots in places.items():
            key = lots[0].pod.tolerations, no_execute[taints_id]
            merged.setdefault(key, []).extend(lots)
        return [TolerationGroup(*key, lots) for key, lots in merged.items()]

    @cached_property
    def queued(self) -> list[QueuedNode]:
        """The nodes that waited in the nominal run."""
        tainted: dict[str, list[int]] = {}
        for added in self.entries(TaintAdded):
            if added.by == NODE_LIFECYCLE and added.taint.effect == NO_EXECUTE:
                tainted.setdefault(added.node, []).append(added.at_ns)
        return [
            QueuedNode(
                queued.node,
                queued.zone,
                queued.at_ns,
                next((at for at in tainted.get(queued.node, ()) if at >= queued.at_ns), None),
            )
            for queued in self.entries(NodeQueued)
        ]


def _evicted_lots(kinds: Iterable[EvictedKind], created: Iterable[Pod]) -> Iterator[EvictedLot]:
    """Yield all evicted pods, given every eviction; of those that are no more than a name nothing can be said."""
    first: dict[str, EvictedKind] = {}
    for kind in kinds:
        other = first.setdefault(kind.key.pod, kind)
        if other is not kind and kind.found.earliest_ns < other.found.earliest_ns:
            first[kind.key.pod] = kind
    # Of two pods with one name the one that is evicted first counts.
    new = {(pod.key, pod.uid): pod for pod in created}
    for name, kind in first.items():
        pod, occurrence = new.get((name, kind.key.uid), kind.pod), kind.found
        if pod is None:
            continue
        controller = pod.controller()
        owner = controller.kind if controller is not None else ""
        # That is a matter of the kind: pods that are alike are all unusual, or none is.
        unusual = _is_unusual(pod)
        for lot in kind.lots or (Lot(-1, pod),):
            node = lot.pod.node_name if kind.lots else occurrence.node
            here = occurrence if node == occurrence.node else occurrence._replace(node=node)
            yield EvictedLot(lot, pod, owner, kind.key.controller, here, unusual)


def _is_unusual(pod: Pod) -> bool:
    """Finished, terminating, with finalizers, a mirror pod, or without a grace period."""
    return (
        bool(pod.finalizers)
        or pod.mirror
        or pod.deletion_timestamp_ns is not None
        or pod.finished
        or pod.termination_grace_period_seconds == 0
    )


class PlainWarning(msgspec.Struct, frozen=True):
    """Says one sentence of the objects that it finds; ``{release}`` in it is that of Kubernetes."""

    message: str
    objects: Callable[[WarningContext], Iterable[str]]

    def __call__(self, context: WarningContext) -> Statements:
        """Say it."""
        message = self.message.format(release=context.profile.version)
        yield Statement(message, self.objects(context))


def whole_if(said: object) -> Iterable[str]:
    """What a statement about the whole prediction is about, when it is to be said."""
    return WHOLE_PREDICTION if said else ()
