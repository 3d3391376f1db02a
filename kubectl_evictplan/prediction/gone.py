"""When the object of a deleted pod is gone, and what holds it if it is not: decided once, for everybody.

A DELETE ends nothing by itself: the kubelet ends the containers and confirms. Which kubelets can do so is
read from the nominal run: it follows from the snapshot and the scenario, and is the same in every run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import POD_GC, Timeline
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import Window
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


class PodEnds:
    """The ends of evicted pods."""

    def __init__(self, nodes: Iterable[Node], pods: Mapping[str, Pod], nominal: Timeline) -> None:
        self._pods = pods
        self._by_node = _why_nodes_end_no_pods(nodes, nominal)
        self.silent_nodes = frozenset(
            name for name, why in self._by_node.items() if why is Stuck.KUBELET_SILENT
        )

    def stuck_pods(
        self, evictions: Mapping[EvictionKey, PossibleEviction]
    ) -> dict[Stuck | None, set[str]]:
        """Evicted pods by what holds them."""
        found: dict[Stuck | None, set[str]] = {}
        for key, deleted in evictions.items():
            found.setdefault(self.why_stuck(key, deleted), set()).add(key.pod)
        return found

    def why_stuck(self, key: EvictionKey, deleted: PossibleEviction) -> Stuck | None:
        """What holds the object of an evicted pod; None when it ends within the horizon."""
        pod = self._pods.get(key.pod)
        if deleted.gone_latest_ns is not None or self._ends_at_once(key, pod):
            return None
        if pod is not None and pod.finalizers:
            return Stuck.FINALIZERS
        return self._by_node.get(deleted.node, Stuck.NO_NODE)

    def window(self, key: EvictionKey, deleted: PossibleEviction) -> Window:
        """The object's end, which never comes before its deletion."""
        pod = self._pods.get(key.pod)
        if self._ends_at_once(key, pod):
            return Window(seconds(deleted.earliest_ns), seconds(deleted.latest_ns))
        stuck = self.why_stuck(key, deleted)
        first_ns, last_ns = deleted.gone_earliest_ns, deleted.gone_latest_ns
        if stuck is Stuck.KUBELET_NOT_READY:
            first_ns = deleted.earliest_ns
        first = None if first_ns is None else seconds(max(first_ns, deleted.earliest_ns))
        if stuck is None:
            return Window(first, seconds(max(last_ns or 0, deleted.latest_ns)))
        why = stuck.value
        if stuck is Stuck.FINALIZERS and pod is not None:
            why += ": " + ", ".join(pod.finalizers)
        return Window(first, None, why)

    @staticmethod
    def _ends_at_once(key: EvictionKey, pod: Pod | None) -> bool:
        """A DELETE with no grace period is the end of an object that no finalizer holds."""
        if pod is None or pod.finalizers:
            return False
        if key.controller == POD_GC:
            return True  # it forces the deletion
        terminating = pod.deletion_timestamp_ns is not None
        return not terminating and ClusterState.effective_grace_seconds(pod) == 0


def _why_nodes_end_no_pods(nodes: Iterable[Node], nominal: Timeline) -> dict[str, Stuck]:
    """What keeps pods of each node when nothing more happens; NOT_CERTAIN: not the node."""

    def posted(status: str) -> Stuck:
        return Stuck.KUBELET_NOT_READY if status == "False" else Stuck.NOT_CERTAIN

    states = {}
    for node in nodes:
        ready = node.condition("Ready")
        states[node.name] = posted(ready.status if ready is not None else "")
    for entry in nominal.entries:
        if isinstance(entry, timeline.KubeletSilent):
            states[entry.node] = Stuck.KUBELET_SILENT
        elif isinstance(entry, timeline.NodeReadyPosted | timeline.NodeCreated):
            states[entry.node] = posted(entry.status)
        elif isinstance(entry, timeline.NodeDeleted):
            states[entry.node] = Stuck.NO_NODE
    return states
