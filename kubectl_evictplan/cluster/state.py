"""The in-memory API server: objects, writes and watchers. Controllers meet only here.

Rules of this file:

* A write replaces a frozen object and queues one notification (old, new) for every watcher.
* Notifications are delivered first-in first-out after the write that caused them, also when a watcher
  writes again: every watcher sees all changes in the order in which they were made.
* Watches are instantaneous; what lags behind on a real cluster is a parameter of ``Timing``.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Concatenate, ParamSpec

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import (
    AboutNode,
    AboutPod,
    Causes,
    Entry,
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
_P = ParamSpec("_P")


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
        self.node_causes: dict[str, Causes] = defaultdict(tuple)
        self.taint_causes: dict[tuple[str, str, str], Causes] = {}
        self.deletion_causes: dict[str, Causes] = {}
        self.denied_deletes: frozenset[str] = frozenset()
        self._stand_ins: Mapping[str, int] = MappingProxyType({})
        # By node pods that are in no other table: see ``controllers/followers.py``.
        self.followers: Mapping[str, Sequence[Pod]] = MappingProxyType({})
        self._unready_followers: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._node_watchers: list[NodeWatcher] = []
        self._pod_watchers: list[PodWatcher] = []
        self._readiness_watchers: list[PodWatcher] = []
        self._watchers_of_pod: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        self._pending: deque[tuple[list, object, object]] = deque()  # type: ignore[type-arg]
        self._delivering = False

    # -- watching -----------------------------------------------------------------------------

    def watch_nodes(self, watcher: NodeWatcher) -> None:
        """Deliver every later change of a node."""
        self._node_watchers.append(watcher)

    def watch_pods(self, watcher: PodWatcher) -> None:
        """Deliver every later change of a pod."""
        self._pod_watchers.append(watcher)

    def watch_pod(self, key: str, watcher: Callable[[], None]) -> None:
        """Tell of every later change of the pod of one name; costs nothing when others change."""
        if self._tell_of_pod not in self._pod_watchers:
            self.watch_pods(self._tell_of_pod)
        self._watchers_of_pod[key].append(watcher)

    def unwatch_pod(self, key: str, watcher: Callable[[], None]) -> None:
        """Stop telling a watcher of one pod."""
        others = [other for other in self._watchers_of_pod.pop(key, ()) if other != watcher]
        if others:
            self._watchers_of_pod[key] = others

    def _tell_of_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None, "a change has a pod"
        for watcher in tuple(self._watchers_of_pod.get(pod.key, ())):
            watcher()

    def watch_readiness(self, watcher: PodWatcher) -> None:
        """Deliver pods whose Ready condition node lifecycle sets to False."""
        self._readiness_watchers.append(watcher)

    def unwatch(self, watchers: Iterable[object]) -> None:
        """Stop delivering to those watchers (their process is gone)."""
        gone = list(watchers)
        self._node_watchers = [w for w in self._node_watchers if w not in gone]
        self._pod_watchers = [w for w in self._pod_watchers if w not in gone]
        self._readiness_watchers = [w for w in self._readiness_watchers if w not in gone]

    def let_go(self) -> None:
        """The run is over: nobody is told of anything any more, so that what watched it is freed at once."""
        for watchers in (self._node_watchers, self._pod_watchers, self._readiness_watchers):
            watchers.clear()
        self._watchers_of_pod.clear()
        self.events.let_go()

    def _notify(self, watchers: list, old: object, new: object) -> None:  # type: ignore[type-arg]
        if self._delivering:
            self._pending.append((watchers, old, new))
            return
        if not watchers:
            return
        self._pending.append((watchers, old, new))
        self._delivering = True
        try:
            while self._pending:
                receivers, before, after = self._pending.popleft()
                for watcher in receivers:
                    watcher(before, after)
        finally:
            self._delivering = False

    # -- time, and what happened ----------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        """The present instant (epoch)."""
        return self.events.now_ns

    @property
    def now_seconds_ns(self) -> int:
        """The instant (epoch) as the API server stamps it: whole seconds."""
        return self.now_ns // SECOND_NS * SECOND_NS

    @property
    def offset_ns(self) -> int:
        """Now, as an offset from the scenario's start."""
        return self.events.now_ns - self.timeline.start_ns

    def record(
        self,
        kind: Callable[Concatenate[int, Causes, _P], Entry],
        because: Causes,
        *about: _P.args,
        **named: _P.kwargs,
    ) -> Causes:
        """Enter in the timeline that this happens now; returns the entry as a cause of others."""
        return (self.timeline.append(kind(self.offset_ns, because, *about, **named)),)

    def record_pod(
        self,
        kind: Callable[Concatenate[int, Causes, str, str, str, _P], AboutPod],
        because: Causes,
        pod: Pod,
        *about: _P.args,
        **named: _P.kwargs,
    ) -> Causes:
        """Record what happens to a pod."""
        return self.record(kind, because, pod.key, pod.uid, pod.node_name, *about, **named)

    def record_node(
        self,
        kind: Callable[Concatenate[int, Causes, str, _P], AboutNode],
        because: Causes,
        name: str,
        *about: _P.args,
        **named: _P.kwargs,
    ) -> Causes:
        """Record what leads to a node's present state."""
        causes = self.node_causes[name] = self.record(kind, because, name, *about, **named)
        return causes

    # -- loading (no notifications) -----------------------------------------------------------

    def load(
        self,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        stand_ins: Mapping[str, int] = MappingProxyType({}),
        followers: Mapping[str, Sequence[Pod]] = MappingProxyType({}),
    ) -> None:
        """Fill in the state of the cluster at the start; ``stand_ins`` are pods that count for several.

        ``followers``, by their node, only count among its pods.
        """
        self._stand_ins = stand_ins
        self.followers = followers
        for node in nodes:
            self.nodes[node.name] = node
        for pod in pods:
            self._index(pod)

    def _index(self, pod: Pod) -> None:
        key, name = pod.key, pod.node_name
        self.pods[key] = pod
        if name:
            there = self.pods_by_node.get(name)
            if there is None:
                there = self.pods_by_node[name] = {}
            there[key] = pod

    def number(self, key: str) -> int:
        """A number for a pod's name, by which chance is drawn: other names change nothing but names.

        Numbered in the order in which they are asked for.
        """
        return self._numbers.setdefault(key, len(self._numbers))

    # -- nodes --------------------------------------------------------------------------------

    def update_node(self, old: Node, new: Node) -> None:
        """Replace a node object and notify."""
        self.nodes[new.name] = new
        self._notify(self._node_watchers, old, new)

    def patch_node_taints(
        self, name: str, taints: tuple[Taint, ...], *, by: str, because: Causes, rule: str
    ) -> None:
        """Write a node's taint list; taints that appear or vanish are recorded."""
        old = self.nodes[name]
        after = {(taint.key, taint.effect) for taint in taints}
        # timeAdded takes part in equality: re-adding an existing taint is a real write.
        added = [(TaintAdded, taint) for taint in taints if taint not in old.taints]
        gone = [(TaintRemoved, t) for t in old.taints if (t.key, t.effect) not in after]
        for kind, taint in (*added, *gone):
            causes = self.record(kind, because, name, taint, by, rule)
            self.taint_causes[name, taint.key, taint.effect] = causes
        self.update_node(old, replace(old, taints=taints))

    def update_node_conditions(self, name: str, conditions: tuple[NodeCondition, ...]) -> None:
        """Write a node's status conditions."""
        old = self.nodes[name]
        self.update_node(old, replace(old, conditions=conditions))

    def create_node(self, node: Node, because: Causes) -> None:
        """POST a node; an existing one of that name is refused by the caller."""
        assert node.name not in self.nodes, f"node {node.name} exists"
        self.record_node(NodeCreated, because, node.name, node.ready_status or "")
        self.nodes[node.name] = node
        self._notify(self._node_watchers, None, node)

    def delete_node(self, name: str, because: Causes) -> None:
        """DELETE a node object; its pods stay."""
        old = self.nodes.pop(name)
        self.record_node(NodeDeleted, because, name)
        self._notify(self._node_watchers, old, None)

    # -- pods ---------------------------------------------------------------------------------

    def create_pod(self, pod: Pod, because: Causes = (), made_for: str = "") -> None:
        """POST a pod; the name must be free. ``made_for`` as in ``PodCreated``."""
        assert pod.key not in self.pods, f"pod {pod.key} exists"
        self.record_pod(PodCreated, because, pod, made_for)
        self._index(pod)
        self._notify(self._pod_watchers, None, pod)

    def mark_pods_not_ready(self, node_name: str, only: str | None = None) -> int:
        """Set the Ready condition of a node's pods (or of ``only`` one) to False where it is True.

        Returns of how many. Only those are notified that watch readiness.
        """
        pods = self.pods_by_node.get(node_name, {}).values()
        ready = [pod for pod in pods if pod.ready == "True" and only in (None, pod.key)]
        for pod in ready:
            unready = replace(pod, ready="False")
            self._index(unready)
            self._notify(self._readiness_watchers, pod, unready)
        if node_name in self.followers and node_name not in self._unready_followers:
            self._unready_followers.add(node_name)
            ready += [pod for pod in self.followers[node_name] if pod.ready == "True"]
        if not self._stand_ins:
            return len(ready)
        return sum(map(self._stand_ins.get, [pod.key for pod in ready], repeat(1)))

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Replace a pod object and notify."""
        if old.node_name != new.node_name:
            self.pods_by_node.get(old.node_name, {}).pop(old.key, None)
        self._index(new)
        self._notify(self._pod_watchers, old, new)

    def delete_pod(
        self,
        key: str,
        *,
        because: Causes,
        force: bool = False,
        grace_seconds: int | None = None,
    ) -> None:
        """DELETE a pod, if there is one, with its own grace period, another one, or (``force``) none.

        Upstream: ``BeforeDelete`` and the pod strategy's ``CheckGracefulDelete``. A second delete
        without a shorter grace is a no-op.
        """
        pod = self.pods.get(key)
        if pod is None:
            return
        grace, asked_ns = self.effective_grace_seconds(pod, grace_seconds), self.now_seconds_ns
        again = pod.deletion_timestamp_ns is not None and not force
        if again and pod.deletion_timestamp_ns is not None:
            had = pod.deletion_grace_period_seconds or 0
            shorter = grace_seconds is not None and grace_seconds < had
            grace = grace_seconds if shorter and grace_seconds is not None else had
            again, asked_ns = not shorter, pod.deletion_timestamp_ns - had * SECOND_NS
        elif force:
            grace = 0
        if grace == 0 and not pod.finalizers:
            self._remove_pod(key, because)
        elif not again:
            self.deletion_causes[key] = because
            terminating = replace(
                pod,
                deletion_timestamp_ns=asked_ns + grace * SECOND_NS,
                deletion_grace_period_seconds=grace,
            )
            self.update_pod(pod, terminating)

    @staticmethod
    def effective_grace_seconds(pod: Pod, asked: int | None = None) -> int:
        """Grace period that the API server gives to a first delete; None asks for the pod's own."""
        if not pod.node_name or pod.finished:
            return 0
        period = pod.termination_grace_period_seconds if asked is None else asked
        return 1 if period < 0 else period

    def finish_pod(self, key: str, uid: str, because: Causes) -> None:
        """The kubelet's confirmation (delete with grace 0) of a terminated pod."""
        pod = self.pods.get(key)
        if pod is None or pod.uid != uid or pod.deletion_timestamp_ns is None:
            return
        if pod.finalizers:
            self.update_pod(pod, replace(pod, deletion_grace_period_seconds=0))
        else:
            self._remove_pod(key, because)

    def remove_finalizer(self, key: str, uid: str, finalizer: str) -> None:
        """Take a finalizer from a pod, which ends an object that only waits for it (``deleteWithoutFinalizers``)."""
        pod = self.pods.get(key)
        if pod is None or pod.uid != uid or finalizer not in pod.finalizers:
            return
        left = tuple(name for name in pod.finalizers if name != finalizer)
        ended = pod.deletion_timestamp_ns is not None and pod.deletion_grace_period_seconds == 0
        if ended and not left:
            self._remove_pod(key, self.deletion_causes.get(key, ()))
        else:
            self.update_pod(pod, replace(pod, finalizers=left))

    def _remove_pod(self, key: str, because: Causes) -> None:
        pod = self.pods.pop(key)
        self.deletion_causes.pop(key, None)
        self.pods_by_node.get(pod.node_name, {}).pop(key, None)
        self.record_pod(PodGone, because, pod)
        self._notify(self._pod_watchers, pod, None)
