"""Scheduler and kubelets, as far as a replacement needs them to become Ready.

Where the scheduler puts a pod is not predicted. What counts is whether any node is left whose cordon, taints and labels
let the pod in and which has room for one such pod, and that a replacement may come to a node that is drained later:
such runs are tried too. Where all of the scheduler's filters leave a group less than that, ``Rooms`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from kubectl_evictplan.cluster.readiness import owner_of
from kubectl_evictplan.cluster.rooms import NO_LIMITS, Rooms, room_key
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import PodReady
from kubectl_evictplan.engine.drain_timing import DrainTiming, Latency, ReadyRange
from kubectl_evictplan.engine.event_queue import Priority
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.needs import PODS
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Node, Pod
from kubectl_evictplan.kube.scheduling.node_filters import CORDON, matches_node
from kubectl_evictplan.kube.tolerations import get_matching_tolerations

# A container runs at the latest so long after the pod was bound (as far as anybody here looks at it).
_RUNNING_AFTER_NS = SECOND_NS


class Elsewhere:
    """Nodes that no drain empties, as they are at the start, and what the pods there leave of them."""

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        self._nodes = [node for node in nodes if _is_ready(node)]
        self._pods_of = pods_by_node(pods, {node.name for node in self._nodes if node.allocatable})
        self._left: dict[str, Mapping[str, int]] = {}
        # Needs and tolerations are shared by the pods of a template; the pod keeps them alive.
        self._known: dict[tuple[int, int, bool], tuple[Pod, Node | None]] = {}

    def takes(self, pod: Pod) -> bool:
        """Whether one of them lets the pod in."""
        return self.first(pod) is not None

    def first(self, pod: Pod) -> Node | None:
        """Return the first of them that lets the pod in."""
        key = (id(pod.needs), id(pod.tolerations), pod.resized is None)
        known = self._known.get(key)
        if known is None:
            fitting = (node for node in self._nodes if lets_in(node, pod))
            found = next((node for node in fitting if self._has_room(node, pod)), None)
            known = self._known[key] = (pod, found)
        return known[1]

    def _has_room(self, node: Node, pod: Pod) -> bool:
        """Whether it has room for one such pod, as far as that is known; others of lower priority may be pushed out."""
        needs = pod.needs
        # What the template asks for after a resize in place is not looked at here.
        if pod.resized is not None:
            return True
        if needs is None or (needs.priority > 0 and not needs.never_preempts):
            return True
        left = self._left.get(node.name)
        if left is None:
            left = left_over(node, self._pods_of.get(node.name, ()))
            self._left[node.name] = left
        if not left:
            return True
        wanted = {**dict(needs.requests), PODS: 1}
        return all(left.get(name, 0) >= amount for name, amount in wanted.items() if amount)


def pods_by_node(pods: Iterable[Pod], names: Collection[str]) -> dict[str, list[Pod]]:
    """Pods that take room, by the name of their node, of these nodes."""
    found: dict[str, list[Pod]] = {}
    for pod in pods if names else ():
        if pod.node_name in names and not pod.finished:
            found.setdefault(pod.node_name, []).append(pod)
    return found


def left_over(node: Node, pods: Iterable[Pod]) -> Mapping[str, int]:
    """What the node still offers beside these pods; nothing where that is not known."""
    left = dict(node.allocatable)
    for pod in pods if left else ():
        if pod.needs is None:
            return {}
        # The most that any release's scheduler counts.
        held = pod.needs.requests if pod.resized is None else pod.resized.by_container
        for name, amount in {**dict(held), PODS: 1}.items():
            if name in left:
                left[name] -= amount
    return left


class _DrainedNodes:
    """Nodes of drains, in their order; soon all of them have a cordon, which keeps away whoever does not tolerate it."""

    def __init__(self, state: ClusterState, names: Collection[str]) -> None:
        self._nodes = state.nodes
        self._names = dict.fromkeys(names)
        self._uncordoned = self._without_cordon()
        # Pods of a template share their tolerations; the first pod keeps them alive.
        self._tolerating: dict[int, tuple[Pod, bool]] = {}

    def _without_cordon(self) -> dict[str, None]:
        return dict.fromkeys(name for name in self._names if self._is_open(name))

    def _is_open(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and not node.unschedulable

    def note(self, node: Node | None) -> None:
        """Something of the node has changed."""
        name = "" if node is None else node.name
        if not self._is_open(name):
            self._uncordoned.pop(name, None)
        elif name in self._names and name not in self._uncordoned:
            self._uncordoned = self._without_cordon()

    def letting_in(self, pod: Pod) -> Iterator[str]:
        """Those that let the pod in now."""
        for name in self._names if self._tolerates_cordon(pod) else self._uncordoned:
            node = self._nodes.get(name)
            if node is not None and _is_ready(node) and lets_in(node, pod):
                yield name

    def _tolerates_cordon(self, pod: Pod) -> bool:
        known = self._tolerating.get(id(pod.tolerations))
        if known is None:
            tolerates = tolerates_cordon(pod)
            known = self._tolerating[id(pod.tolerations)] = (pod, tolerates)
        return known[1]


class Placement:
    """Binds pods that appear unbound and makes them Ready."""

    def __init__(
        self,
        state: ClusterState,
        timing: DrainTiming,
        drained: Collection[str],
        *,
        elsewhere: Elsewhere,
        rooms: Rooms = NO_LIMITS,
    ) -> None:
        """``drained``: nodes of drains. ``elsewhere``: the other nodes of the cluster, ``rooms``: who finds one there."""
        self._state = state
        self._timing = timing
        self._drained = _DrainedNodes(state, drained)
        self._elsewhere = elsewhere
        self._rooms = rooms
        self._ready_of = dict(timing.ready_by_owner)
        # By uid of whoever found a node elsewhere, its room.
        self._took: dict[str, int] = {}
        self._taken = [0] * len(rooms.rooms)
        self._unschedulable: dict[str, str] = {}
        state.watch_pods(self._pod_changed)
        state.watch_nodes(self._node_changed)

    def start_pods_of_snapshot(self, now_ns: int) -> None:
        """Pods that are starting become Ready like replacements, counted from their creation."""
        for pod in list(self._state.pods.values()):
            age_ns = now_ns - pod.creation_timestamp_ns
            starting = not pod.finished and pod.ready != "True"
            if starting and pod.deletion_timestamp_ns is None and pod.node_name:
                low_ns, high_ns = self._ready_range(pod)
                if pod.controller() is not None and age_ns <= (high_ns or low_ns):
                    self._become_ready_later(pod, -age_ns)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None and not new.node_name and new.controller() is not None:
            self._bind_later(new)
        elif (
            new is None and old is not None and (room := self._took.pop(old.uid, None)) is not None
        ):
            self._taken[room] -= 1

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._drained.note(new if new is not None else old)
        if new is not None and _is_ready(new):
            waiting, self._unschedulable = self._unschedulable, {}
            for key, uid in waiting.items():
                pod = self._state.pods.get(key)
                if pod is not None and pod.uid == uid:
                    self._bind_later(pod)

    def _bind_later(self, pod: Pod) -> None:
        events, number = self._state.events, self._state.number(pod.key)
        delay_ns = self._timing.latency_ns(Latency.BIND_POD, number, events.now_ns)
        late = self._timing.late_views > self._timing.draw("late view", number)
        seen = tuple(self._drained.letting_in(pod)) if late else ()
        events.schedule(
            events.now_ns + delay_ns, Priority.OUTSIDE, lambda: self._bind(pod.key, pod.uid, seen)
        )

    def _bind(self, key: str, uid: str, seen: Sequence[str]) -> None:
        """``seen``: nodes of drains that let it in when it was made, for a scheduler that knows of nothing newer."""
        pod = self._state.pods.get(key)
        if pod is None or pod.uid != uid or pod.deletion_timestamp_ns is not None:
            return
        nodes = [name for name in seen if name in self._state.nodes] or [
            *self._drained.letting_in(pod)
        ]
        number = self._state.number(key)
        joins = self._timing.draw("joins", number) < self._timing.joins_drained_nodes
        elsewhere = self._finds_room(pod)
        if nodes and (joins or not elsewhere):
            place = int(self._timing.draw("node", number) * len(nodes))
            bound = replace(pod, node_name=nodes[place])
            self._state.update_pod(pod, bound)
            self._become_ready_later(bound, 0)
        elif elsewhere:
            # It is not bound here: nothing of that node takes part.
            self._take_room(pod)
            self._become_ready_later(pod, 0)
        else:
            self._unschedulable[key] = uid

    def _finds_room(self, pod: Pod) -> bool:
        """Whether a node that no drain empties takes it."""
        place = self._rooms.group_of.get(room_key(pod))
        if place is None:
            return self._elsewhere.takes(pod)
        room = self._rooms.rooms[place]
        return self._taken[place] < round(room.least + (room.most - room.least) * self._timing.room)

    def _take_room(self, pod: Pod) -> None:
        place = self._rooms.group_of.get(room_key(pod))
        if place is not None:
            self._took[pod.uid] = place
            self._taken[place] += 1

    def _ready_range(self, pod: Pod) -> ReadyRange:
        """How long a pod of its owner takes to be Ready."""
        known = self._ready_of.get(owner) if (owner := owner_of(pod)) is not None else None
        return known or self._timing.ready_ns

    def _become_ready_later(self, pod: Pod, since_ns: int) -> None:
        number = self._state.number(pod.key)
        after_ns = self._timing.ready_after_ns(number, self._ready_range(pod))
        now_ns, events = self._state.events.now_ns, self._state.events
        running_ns = self._timing.running_after_ns(number, _RUNNING_AFTER_NS)
        running_ns = running_ns if after_ns is None else min(after_ns, running_ns)
        if pod.node_name:
            self._at(now_ns + max(since_ns + running_ns, 0), pod, self._run)
        if after_ns is not None:
            told_ns = self._timing.latency_ns(Latency.REPORT_READY, number)
            self._at(events.now_ns + max(since_ns + after_ns, 0) + told_ns, pod, self._get_ready)

    def _at(self, at_ns: int, pod: Pod, change: Callable[[str, str], None]) -> None:
        self._state.events.schedule(at_ns, Priority.OUTSIDE, lambda: change(pod.key, pod.uid))

    def _run(self, key: str, uid: str) -> None:
        pod = self._state.pods.get(key)
        if pod is not None and pod.uid == uid and pod.phase == "Pending":
            self._state.update_pod(pod, replace(pod, phase="Running"))

    def _get_ready(self, key: str, uid: str) -> None:
        pod = self._state.pods.get(key)
        if pod is None or pod.uid != uid or pod.deletion_timestamp_ns is not None:
            return
        owner = pod.controller()
        name = f"{owner.kind}/{owner.name}" if owner is not None else ""
        ready = PodReady(self._state.offset_ns, (), pod.key, pod.uid, pod.node_name, name)
        self._state.timeline.append(ready)
        self._state.update_pod(pod, replace(pod, phase="Running", ready="True"))


def _is_ready(node: Node) -> bool:
    ready = node.condition("Ready")
    return ready is not None and ready.status == "True"


def tolerates_cordon(pod: Pod) -> bool:
    """Whether a cordon does not keep the pod away."""
    return bool(get_matching_tolerations((CORDON,), pod.tolerations)[0])


def lets_in(node: Node, pod: Pod) -> bool:
    """Whether the pod tolerates the node's cordon and taints and, where its needs are known, wants its labels."""
    taints = tuple(t for t in node.taints if t.effect in (NO_SCHEDULE, NO_EXECUTE))
    if node.unschedulable:
        taints = (*taints, CORDON)
    if not get_matching_tolerations(taints, pod.tolerations)[0]:
        return False
    return pod.needs is None or matches_node(pod.needs, node, pod.node_name)
