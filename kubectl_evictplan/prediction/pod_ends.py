"""When the object of a deleted pod is gone, and what holds it if it is not: decided once for pods that are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import BY_DRAINS, POD_GC, RunEntries
from kubectl_evictplan.kube.finalizers import Jobs, lasting_finalizers
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.prediction import document
from kubectl_evictplan.prediction.alike_pods import AlikePods, Lot
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction


class Stuck(Enum):
    """Why the object of a deleted pod stays, in the words of ``gone.stuck``."""

    FINALIZERS = "finalizers hold the object"
    KUBELET_SILENT = (
        "its kubelet is silent; that ends when the kubelet is back, the Node is deleted, the node gets "
        "the out-of-service taint, or somebody force-deletes the pod"
    )
    KUBELET_NOT_READY = (
        "its kubelet reports Ready=False: whether it can end the containers is not known"
    )
    NO_NODE = "its node does not exist: Terminating until pod garbage collection deletes it"
    NOT_CERTAIN = "its end is not certain within the horizon"


class EvictedKind(Struct, frozen=True, gc=False):
    """A DELETE of a pod that was simulated, and of all that are alike.

    ``pod`` is that one, or one of its name, None where nothing but the name is known. ``lots`` are all of the kind, itself
    among them; none where it is no pod of the snapshot. Their objects end ``at_once``, stay ``stuck``, or end in time.
    """

    key: EvictionKey
    found: PossibleEviction
    pod: Pod | None
    lots: Sequence[Lot]
    at_once: bool
    stuck: Stuck | None

    @property
    def number(self) -> int:
        """How many pods."""
        lots = self.lots
        return lots[0].count if len(lots) == 1 else sum([lot.count for lot in lots]) or 1

    @property
    def nodes(self) -> list[str]:
        """Where they run."""
        return [lot.pod.node_name for lot in self.lots] or [self.found.node]


class PodEnds:
    """When the object of a deleted pod is gone, and what holds it if it is not: decided once, for everybody.

    A DELETE ends nothing by itself: the kubelet ends the containers and confirms. Which kubelets can do so
    is read from the nominal run: it follows from the snapshot and the scenario, the same in every run.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        pods: Mapping[str, Pod],
        nominal: RunEntries,
        *,
        made: Mapping[tuple[str, str], Pod] = MappingProxyType({}),
        job_controller: bool = True,
        elsewhere: Jobs = (),
    ) -> None:
        """``pods``: those that were simulated, by key. ``made``: those that the scenario creates, by key and UID: others of a name may have it too.

        ``job_controller``: it runs in the end, and takes its finalizer from what is deleted, but not of Jobs ``elsewhere``.
        """
        self._pods, self._made = pods, made
        self._job_controller, self._elsewhere = job_controller, elsewhere
        self._by_node = _why_nodes_end_no_pods(nodes, nominal)
        self.silent_nodes = frozenset(
            name for name, why in self._by_node.items() if why is Stuck.KUBELET_SILENT
        )

    def kinds(
        self, shown: Mapping[EvictionKey, PossibleEviction], alike: AlikePods
    ) -> Iterator[EvictedKind]:
        """Yield every eviction with all pods that it is about, and what becomes of their objects."""
        pods, made = self._pods, self._made
        for key, found in shown.items():
            pod = made.get((key.pod, key.uid)) if made else None
            pod = pod or pods.get(key.pod)
            at_once = _ends_at_once(key, pod)
            stuck = None if at_once else self._held_by(pod, found)
            lots = alike.lots_of(key.pod, key.uid, found.node)
            yield EvictedKind(key, found, pod, lots, at_once, stuck)

    def _held_by(self, pod: Pod | None, deleted: PossibleEviction) -> Stuck | None:
        if deleted.gone_latest_ns is not None:
            return None
        if pod is not None and pod.finalizers and self._lasting(pod):
            return Stuck.FINALIZERS
        return self._by_node.get(deleted.node, Stuck.NO_NODE)

    def window(self, evicted: EvictedKind) -> document.Window:
        """The object's end, which never comes before its deletion."""
        deleted, stuck = evicted.found, evicted.stuck
        if evicted.at_once:
            return _end(deleted.earliest_ns, deleted.latest_ns)
        first_ns, last_ns = deleted.gone_earliest_ns, deleted.gone_latest_ns
        if stuck is Stuck.KUBELET_NOT_READY:
            first_ns = deleted.earliest_ns
        if first_ns is not None:
            first_ns = max(first_ns, deleted.earliest_ns)
        if stuck is None:
            return _end(first_ns, max(last_ns or 0, deleted.latest_ns))
        return _end(first_ns, None, self.why(evicted))

    def why(self, evicted: EvictedKind) -> str | None:
        """What holds the object, in words; None when it ends."""
        pod, stuck = evicted.pod, evicted.stuck
        if stuck is not Stuck.FINALIZERS or pod is None:
            # Of tens of thousands: ``value`` is looked up five times as slowly.
            return stuck and stuck._value_
        why = f"{stuck.value}: {', '.join(self._lasting(pod))}"
        # Who takes them off still waits for the kubelet, or for what ends its silence.
        if evicted.found.node in self.silent_nodes:
            why += f"; and {Stuck.KUBELET_SILENT.value}"
        return why

    def _lasting(self, pod: Pod) -> tuple[str, ...]:
        return lasting_finalizers(
            pod, job_controller=self._job_controller, elsewhere=self._elsewhere
        )


def _ends_at_once(key: EvictionKey, pod: Pod | None) -> bool:
    """A DELETE with no grace period is the end of an object that no finalizer holds."""
    if pod is None or pod.finalizers or key.controller in BY_DRAINS:
        return False  # drains may ask for another grace period: the runs tell
    if key.controller == POD_GC:
        return True  # it forces the deletion
    terminating = pod.deletion_timestamp_ns is not None
    return not terminating and ClusterState.effective_grace_seconds(pod) == 0


@lru_cache(maxsize=1000)  # nodes that are alike share their windows
def _end(first_ns: int | None, last_ns: int | None, stuck: str | None = None) -> document.Window:
    first, last = (None if ns is None else seconds(ns) for ns in (first_ns, last_ns))
    return document.Window(first, last, stuck)


def _why_nodes_end_no_pods(nodes: Iterable[Node], nominal: RunEntries) -> dict[str, Stuck]:
    """What keeps pods of each node when nothing more happens; NOT_CERTAIN: not the node."""

    def posted(status: str) -> Stuck:
        return Stuck.KUBELET_NOT_READY if status == "False" else Stuck.NOT_CERTAIN

    states = {}
    for node in nodes:
        ready = node.condition("Ready")
        states[node.name] = posted(ready.status if ready is not None else "")
    kinds = (
        timeline.KubeletSilent,
        timeline.NodeReadyPosted,
        timeline.NodeCreated,
        timeline.NodeDeleted,
    )
    for entry in nominal.of(*kinds):
        if isinstance(entry, timeline.KubeletSilent):
            states[entry.node] = Stuck.KUBELET_SILENT
        elif isinstance(entry, timeline.NodeReadyPosted | timeline.NodeCreated):
            states[entry.node] = posted(entry.status)
        elif isinstance(entry, timeline.NodeDeleted):
            states[entry.node] = Stuck.NO_NODE
    return states
