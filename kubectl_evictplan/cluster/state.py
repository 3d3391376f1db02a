"""The in-memory API server: objects, writes and watchers. Controllers meet only here.

Rules of this file:

* A write replaces a frozen object and queues one notification (old, new) for every watcher.
* Notifications are delivered first-in first-out after the write that caused them, also when a watcher
  writes again: every watcher sees all changes in the order in which they were made.
* Watches are instantaneous; what lags behind on a real cluster is a parameter of ``Timing``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import (
    NodeCreated,
    NodeDeleted,
    PodCreated,
    PodGone,
    TaintAdded,
    TaintRemoved,
    Timeline,
)
from kubectl_evictplan.engine.event_queue import EventQueue
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Node, NodeCondition, Pod, Taint

NodeWatcher = Callable[[Node | None, Node | None], None]
PodWatcher = Callable[[Pod | None, Pod | None], None]


class ClusterState:
    """Nodes and pods by key, with an index of pods by node."""

    def __init__(self, events: EventQueue, timeline: Timeline) -> None:
        self.events = events
        self.timeline = timeline
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.pods_by_node: dict[str, dict[str, Pod]] = {}
        # Links of causal chains: the entries that led to a node's present state, to each of its
        # taints, and to the deletion of a pod that is terminating.
        self.node_causes: dict[str, tuple[int, ...]] = {}
        self.taint_causes: dict[tuple[str, str, str], tuple[int, ...]] = {}
        self.deletion_causes: dict[str, tuple[int, ...]] = {}
        self.denied_deletes: frozenset[str] = frozenset()
        self._node_watchers: list[NodeWatcher] = []
        self._pod_watchers: list[PodWatcher] = []
        self._pending: deque[tuple[list, object, object]] = deque()  # type: ignore[type-arg]
        self._delivering = False

    # -- watching -----------------------------------------------------------------------------

    def watch_nodes(self, watcher: NodeWatcher) -> None:
        """Deliver every later change of a node."""
        self._node_watchers.append(watcher)

    def watch_pods(self, watcher: PodWatcher) -> None:
        """Deliver every later change of a pod."""
        self._pod_watchers.append(watcher)

    def unwatch(self, watchers: Iterable[object]) -> None:
        """Stop delivering to those watchers (their process is gone)."""
        gone = list(watchers)
        self._node_watchers = [w for w in self._node_watchers if w not in gone]
        self._pod_watchers = [w for w in self._pod_watchers if w not in gone]

    def _notify(self, watchers: list, old: object, new: object) -> None:  # type: ignore[type-arg]
        self._pending.append((watchers, old, new))
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._pending:
                receivers, before, after = self._pending.popleft()
                for watcher in receivers:
                    watcher(before, after)
        finally:
            self._delivering = False

    @property
    def offset_ns(self) -> int:
        """Now, as an offset from the scenario's start."""
        return self.events.now_ns - self.timeline.start_ns

    # -- loading (no notifications) -----------------------------------------------------------

    def load(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        """Fill in the state of the cluster at the start."""
        for node in nodes:
            self.nodes[node.name] = node
        for pod in pods:
            self._index(pod)

    def _index(self, pod: Pod) -> None:
        self.pods[pod.key] = pod
        if pod.node_name:
            self.pods_by_node.setdefault(pod.node_name, {})[pod.key] = pod

    # -- nodes --------------------------------------------------------------------------------

    def update_node(self, old: Node, new: Node) -> None:
        """Replace a node object and notify."""
        self.nodes[new.name] = new
        self._notify(self._node_watchers, old, new)

    def patch_node_taints(
        self, name: str, taints: tuple[Taint, ...], *, by: str, because: tuple[int, ...], rule: str
    ) -> None:
        """Write a node's taint list; taints that appear or vanish are recorded."""
        old = self.nodes[name]
        after = {(taint.key, taint.effect) for taint in taints}
        # timeAdded takes part in equality: re-adding an existing taint is a real write.
        changes: list[TaintAdded | TaintRemoved] = [
            TaintAdded(self.offset_ns, because, name, taint, by, rule)
            for taint in taints
            if taint not in old.taints
        ]
        changes += [
            TaintRemoved(self.offset_ns, because, name, taint, by, rule)
            for taint in old.taints
            if (taint.key, taint.effect) not in after
        ]
        for change in changes:
            key = (name, change.taint.key, change.taint.effect)
            self.taint_causes[key] = (self.timeline.append(change),)
        self.update_node(old, replace(old, taints=taints))

    def update_node_conditions(self, name: str, conditions: tuple[NodeCondition, ...]) -> None:
        """Write a node's status conditions."""
        old = self.nodes[name]
        self.update_node(old, replace(old, conditions=conditions))

    def create_node(self, node: Node, because: tuple[int, ...]) -> None:
        """POST a node; an existing one of that name is refused by the caller."""
        assert node.name not in self.nodes, f"node {node.name} exists"
        ready = node.condition("Ready")
        status = ready.status if ready is not None else ""
        created = NodeCreated(self.offset_ns, because, node.name, status)
        self.node_causes[node.name] = (self.timeline.append(created),)
        self.nodes[node.name] = node
        self._notify(self._node_watchers, None, node)

    def delete_node(self, name: str, because: tuple[int, ...]) -> None:
        """DELETE a node object; its pods stay."""
        old = self.nodes.pop(name)
        deleted = NodeDeleted(self.offset_ns, because, name)
        self.node_causes[name] = (self.timeline.append(deleted),)
        self._notify(self._node_watchers, old, None)

    # -- pods ---------------------------------------------------------------------------------

    def create_pod(self, pod: Pod, because: tuple[int, ...] = ()) -> None:
        """POST a pod; the name must be free."""
        assert pod.key not in self.pods, f"pod {pod.key} exists"
        self.timeline.append(PodCreated(self.offset_ns, because, pod.key, pod.uid, pod.node_name))
        self._index(pod)
        self._notify(self._pod_watchers, None, pod)

    def mark_pods_not_ready(self, node_name: str, only: str | None = None) -> None:
        """Set the Ready condition of a node's pods (or of ``only`` one) to False where it is True.

        Not notified: no controller here acts on a pod's readiness.
        """
        pods = self.pods_by_node.get(node_name, {})
        for key, pod in list(pods.items()):
            if pod.ready == "True" and only in (None, key):
                self._index(replace(pod, ready="False"))

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Replace a pod object and notify."""
        if old.node_name != new.node_name:
            self.pods_by_node.get(old.node_name, {}).pop(old.key, None)
        self._index(new)
        self._notify(self._pod_watchers, old, new)

    def delete_pod(self, key: str, *, because: tuple[int, ...], force: bool = False) -> bool:
        """DELETE a pod with its own grace period (or grace 0); False when there is no such pod.

        Upstream: ``BeforeDelete`` and the pod strategy's ``CheckGracefulDelete``. A
        second delete without a shorter grace is a no-op.
        """
        pod = self.pods.get(key)
        if pod is None:
            return False
        grace_seconds = 0 if force else self.effective_grace_seconds(pod)
        if pod.deletion_timestamp_ns is not None and not force:
            if (pod.deletion_grace_period_seconds or 0) == 0:
                self._remove_unless_finalizers(pod, because)
            return True
        now_seconds_ns = self.events.now_ns // SECOND_NS * SECOND_NS
        terminating = replace(
            pod,
            deletion_timestamp_ns=now_seconds_ns + grace_seconds * SECOND_NS,
            deletion_grace_period_seconds=grace_seconds,
        )
        if grace_seconds == 0 and not pod.finalizers:
            self.remove_pod(key, because)
        else:
            self.deletion_causes[key] = because
            self.update_pod(pod, terminating)
        return True

    @staticmethod
    def effective_grace_seconds(pod: Pod) -> int:
        """Grace period that the API server gives to a first delete without options."""
        if not pod.node_name or pod.phase in ("Succeeded", "Failed"):
            return 0
        period = pod.termination_grace_period_seconds
        return 1 if period < 0 else period

    def _remove_unless_finalizers(self, pod: Pod, because: tuple[int, ...]) -> None:
        if not pod.finalizers:
            self.remove_pod(pod.key, because)

    def finish_pod(self, key: str, uid: str, because: tuple[int, ...]) -> None:
        """The kubelet's confirmation (delete with grace 0) of a terminated pod."""
        pod = self.pods.get(key)
        if pod is None or pod.uid != uid or pod.deletion_timestamp_ns is None:
            return
        if pod.finalizers:
            self.update_pod(pod, replace(pod, deletion_grace_period_seconds=0))
        else:
            self.remove_pod(key, because)

    def remove_pod(self, key: str, because: tuple[int, ...]) -> None:
        """The object's end."""
        pod = self.pods.pop(key)
        self.deletion_causes.pop(key, None)
        self.pods_by_node.get(pod.node_name, {}).pop(key, None)
        self.timeline.append(PodGone(self.offset_ns, because, key, pod.uid, pod.node_name))
        self._notify(self._pod_watchers, pod, None)
