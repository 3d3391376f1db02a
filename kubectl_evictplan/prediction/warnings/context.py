"""What every warning looks at, computed once: affected nodes and pods, evictions, what happened when.

Costs one pass over the pods of affected nodes and one over the nominal timeline; tolerations are looked
at once per distinct (list of tolerations, taints of a node), however many pods share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import msgspec

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, Entry, NodeQueued, TaintAdded
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.finalizers import jobs_managed_elsewhere
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Pod, Taint, Toleration
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.prediction.alike_pods import AlikePods
from kubectl_evictplan.prediction.evictions import PodEnds
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction

if TYPE_CHECKING:
    from kubectl_evictplan.windows.drain_runs import DrainExploration

_Kind = TypeVar("_Kind", bound=Entry)

# What a statement is about that is about no object in particular.
WHOLE_PREDICTION = ("",)


class Statement(NamedTuple):
    """What is said under one code, and of which objects; of no object at all it is not said."""

    message: str
    objects: Iterable[str] = WHOLE_PREDICTION


Statements = Iterator[Statement]


class EvictedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod with at least one predicted DELETE; the earliest one counts.

    ``owner`` is the kind of the managing owner, "" for a bare pod. ``unusual``: finished, terminating, with
    finalizers, a mirror pod, or without a grace period.
    """

    key: str
    pod: Pod
    owner: str
    controller: str
    occurrence: PossibleEviction
    unusual: bool


_Occurrence = tuple[EvictionKey, PossibleEviction]
# A pod that is simulated, by its key, and its first eviction.
_EvictedKind = tuple[str, Pod, EvictionKey, PossibleEviction]


class TolerationGroup(msgspec.Struct, frozen=True):
    """Pods that share a list of tolerations and the NoExecute taints that their nodes get."""

    tolerations: tuple[Toleration, ...]
    taints: tuple[Taint, ...]
    pods: list[Pod]

    def keys(self) -> list[str]:
        """The "namespace/name" of every pod."""
        return [pod.key for pod in self.pods]


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
    nominal: timeline.Timeline
    affected: Set[str]
    # Evictions of the pods that are simulated, and in the nominal run: one pod for all that are alike.
    shown: Mapping[EvictionKey, PossibleEviction]
    ends: PodEnds
    alike: AlikePods
    # What was found out about drains; None without any.
    drains: DrainExploration | None = None

    def __post_init__(self) -> None:
        snapshot, scenario = self.snapshot, self.scenario
        self.profile = self.configuration.profile
        # Evicted pods by what holds their objects.
        self.stuck = self.ends.stuck_pods(self.shown, self.alike)
        self.node_by_name = {node.name: node for node in snapshot.nodes}
        self.nodes = [node for node in snapshot.nodes if node.name in self.affected]
        horizon_ns = scenario.horizon_ns
        self.horizon_ns = HORIZON_DEFAULT_MAX_NS if horizon_ns is None else horizon_ns
        self.events = [event for event in scenario.events if event.at_ns <= self.horizon_ns]
        self._entries: dict[type[Entry], list[Entry]] = {}
        for entry in self.nominal.entries:
            self._entries.setdefault(type(entry), []).append(entry)
        created = [event.pod for event in self.events if event.pod is not None]
        self.pods = [pod for pod in snapshot.pods if pod.node_name in self.affected] + created
        self._kinds = _evicted_kinds((*self.alike.snapshot.pods, *created), self.shown)
        self.evicted = _evicted_pods(self._kinds, self.alike)
        # Evicted pods by the kind of their owner ("" for bare pods), and the few unusual ones.
        self.evicted_by_owner: dict[str, list[EvictedPod]] = {}
        for evicted in self.evicted:
            self.evicted_by_owner.setdefault(evicted.owner, []).append(evicted)
        self.jobs_managed_elsewhere = jobs_managed_elsewhere(snapshot.workloads)
        self.unusual = [evicted for evicted in self.evicted if evicted.unusual]
        # Every taint that a node carries at some time, NoExecute and others, without timeAdded.
        self.taints_of = self._taints_of_nodes()
        self.groups = self._toleration_groups()
        self.queued = self._queued_nodes()

    def entries(self, kind: type[_Kind]) -> list[_Kind]:
        """The nominal run's entries of one kind, in order; one about a pod is about all that are ``alike``."""
        return cast("list[_Kind]", self._entries.get(kind, []))

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

    def _taints_of_nodes(self) -> dict[str, tuple[Taint, ...]]:
        carried = [(node.name, node.taints) for node in self.nodes if node.taints]
        carried += [(e.node.name, e.node.taints) for e in self.events if e.node is not None]
        carried += [(added.node, (added.taint,)) for added in self.entries(TaintAdded)]
        # Taints that come in other admissible runs only.
        decided = {
            (node, id(taint)): (node, taint)
            for name, pod, _, occurrence in self._kinds
            if (taint := occurrence.taint) is not None
            for node in self.alike.on_nodes(name, pod.uid, occurrence.node)
        }
        carried += [(node, (taint,)) for node, taint in decided.values()]
        found: dict[str, dict[Taint, None]] = {}
        for name, taints in carried:
            found.setdefault(name, {}).update(
                (Taint(taint.key, taint.effect, taint.value), None) for taint in taints
            )
        # Equal lists are one object: rules may use its identity.
        shared: dict[tuple[Taint, ...], tuple[Taint, ...]] = {}
        lists = ((name, tuple(taints)) for name, taints in found.items())
        return {name: shared.setdefault(taints, taints) for name, taints in lists}

    def _toleration_groups(self) -> list[TolerationGroup]:
        no_execute = {
            name: kept
            for name, taints in self.taints_of.items()
            if (kept := no_execute_taints(taints))
        }
        # Loaders share equal lists of tolerations: an identity saves hashing them again.
        places: dict[tuple[int, str], list[Pod]] = {}
        for pod in self.pods:
            if pod.node_name in no_execute:
                places.setdefault((id(pod.tolerations), pod.node_name), []).append(pod)
        merged: dict[tuple[tuple[Toleration, ...], tuple[Taint, ...]], list[Pod]] = {}
        for (_, name), pods in places.items():
            merged.setdefault((pods[0].tolerations, no_execute[name]), []).extend(pods)
        return [TolerationGroup(*key, pods) for key, pods in merged.items()]

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
                next((at for at in tainted.get(queued.node, ()) if at >= queued.at_ns), None),
            )
            for queued in self.entries(NodeQueued)
        ]


def _evicted_kinds(
    pods: Iterable[Pod], shown: Mapping[EvictionKey, PossibleEviction]
) -> list[_EvictedKind]:
    """Those of the simulated pods that are evicted."""
    first: dict[str, _Occurrence] = {}
    for item in shown.items():
        other = first.setdefault(item[0].pod, item)
        if item[1].earliest_ns < other[1].earliest_ns:
            first[item[0].pod] = item
    known: dict[str, Pod] = {}
    for pod in pods if first else ():
        name = pod.key
        # Of two pods with one name the one that is evicted first counts.
        if name in first and (name not in known or pod.uid == first[name][0].uid):
            known[name] = pod
    return [(name, pod, *first[name]) for name, pod in known.items()]


def _evicted_pods(kinds: Iterable[_EvictedKind], alike: AlikePods) -> list[EvictedPod]:
    """All evicted pods, given those that are simulated."""
    evicted = []
    for name, pod, key, occurrence in kinds:
        controller = pod.controller()
        owner = controller.kind if controller is not None else ""
        # That is a matter of the kind: pods that are alike are all unusual, or none is.
        there, unusual = {occurrence.node: occurrence}, _is_unusual(pod)
        for some in alike.pods(name, pod.uid, occurrence.node):
            if (here := there.get(some.node)) is None:
                here = there[some.node] = occurrence._replace(node=some.node)
            evicted.append(
                EvictedPod(some.key, some.pod or pod, owner, key.controller, here, unusual)
            )
    evicted.sort(key=attrgetter("key"))
    return evicted


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
