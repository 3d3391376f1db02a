"""Followers: pods of nodes that only fall silent. What taint eviction does to one of each kind, it does to all.

Nothing decides about such a pod but its tolerations and the taints that its node gets, once: who tolerates alike goes
through the same course, only later or earlier. So a course is found out once, by ``TaintEviction`` itself on a
cluster of one node, and told of every follower from the instant at which its node is tainted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType

import msgspec

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, AboutPod, Causes, Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.pod_gc import is_terminated
from kubectl_evictplan.controllers.taint_eviction import Decision, Decisions, TaintEviction
from kubectl_evictplan.engine.event_queue import EventQueue, Priority
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Node, Pod, Taint
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.scenarios.scenario import Scenario

# No timer is longer.
_FOR_EVER_NS = 2**63


class NotOnlySilentError(Exception):
    """More happens to the node of followers than one service: its pods must be simulated one by one."""


_NOBODY: Mapping[str, Sequence[Pod]] = MappingProxyType({})


def _may_follow(pod: Pod) -> bool:
    """Whether a silent kubelet leaves the pod's object as it is, once it is deleted."""
    return (
        pod.deletion_timestamp_ns is None
        and not pod.finalizers
        and pod.termination_grace_period_seconds != 0
        # Others end at their deletion, or someone else waits for their end.
        and not is_terminated(pod)
        and not pod.duplicate_env_or_port
    )


def followers_by_node(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> Mapping[str, Sequence[Pod]]:
    """All pods of each node whose kubelet stops, and to which and to whose pods nothing else happens.

    The monitor may still do more to it than taint it once: then ``simulate`` finds out. Where a node has several entries in line
    (``SETREMOVE``) those that it leaves there mostly taint it again.
    """
    if not configuration.taint_mode or configuration.profile.queue_mode == "SETREMOVE":
        return _NOBODY
    silent: set[str] = set()
    busy: set[str] = set()
    for event in scenario.events:
        if event.manager_up is not None:
            return _NOBODY
        (silent if event.kubelets_up is False else busy).update(event.touched_nodes)
    silent -= busy
    names = {node.name for node in snapshot.nodes if node.name in silent and _is_untainted(node)}
    if not names:
        return _NOBODY
    named = scenario.named_pods
    found: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        name = pod.node_name
        if name in names:
            if _may_follow(pod) and not (named and pod.key in named):
                found.setdefault(name, []).append(pod)
            else:
                names.discard(name)
    return {name: pods for name, pods in found.items() if name in names}


def _is_untainted(node: Node) -> bool:
    return not any(t.effect == NO_EXECUTE or t.key == OUT_OF_SERVICE for t in node.taints)


class _Step(msgspec.Struct, frozen=True):
    """One entry of a course, ``delay_ns`` after the taint.

    The step number ``after`` led to it, or None the taint ``taint`` (its key).
    """

    delay_ns: int
    entry: AboutPod
    after: int | None
    taint: str


# A follower's key and uid, and the entries that the steps of its course have become.
_About = tuple[str, str, list[int]]
_Course = tuple[_Step, ...]
# Of each pod of a node its steps at one instant; the pod by its place among the node's pods.
_Block = Sequence[tuple[int, _Step]]


class Followers:
    """The followers of every node, by its name, in the order in which their controller knows them."""

    def __init__(
        self,
        state: ClusterState,
        kubelets: Kubelets,
        configuration: ControllerConfiguration,
        decisions: Decisions,
    ) -> None:
        self._state = state
        self._kubelets = kubelets
        self._configuration = configuration
        self._decisions = decisions
        self._followed: set[str] = set()
        # By the keys of the taints, and by the identity of the tolerations, or by what the controller decides.
        self._courses: dict[tuple[str, ...], dict[int, _Course]] = {}
        self._decided: dict[tuple[tuple[str, ...], Hashable], _Course] = {}
        self._blocks: dict[tuple[int, ...], list[tuple[int, _Block]]] = {}

    def node_changed(self, name: str, taints: tuple[Taint, ...]) -> None:
        """The node's NoExecute taints are these from now on. Raises NotOnlySilentError for a second change."""
        pods = self._state.followers.get(name, ())
        if not pods:
            return
        if name in self._followed or not taints or self._kubelets.is_up(name):
            raise NotOnlySilentError(name)
        self._followed.add(name)
        keys = tuple([taint.key for taint in taints])
        causes = {key: self._state.taint_causes.get((name, key, NO_EXECUTE), ()) for key in keys}
        abouts: list[_About] = [(pod.key, pod.uid, []) for pod in pods]
        for delay_ns, block in self._blocks_of(pods, taints, keys):
            tell = partial(self._tell, name, abouts, block, causes)
            if delay_ns:
                due_ns = self._state.now_ns + delay_ns
                self._state.events.schedule(due_ns, Priority.EVICTION_TIMER, tell)
            else:
                tell()

    def _blocks_of(
        self, pods: Sequence[Pod], taints: tuple[Taint, ...], keys: tuple[str, ...]
    ) -> list[tuple[int, _Block]]:
        """What is told of a node's pods together, with its delay; nodes with like pods share it, but for when their taints were put on."""
        known, courses = self._courses.setdefault(keys, {}), []
        for pod in pods:
            # Loaders share equal lists of tolerations: an identity saves hashing them again.
            kind = id(pod.tolerations)
            if (course := known.get(kind)) is None:
                course = known[kind] = self._course_of(pod, taints, keys)
            courses.append(course)
        alike = tuple(map(id, courses))
        if alike not in self._blocks:
            self._blocks[alike] = list(_blocks(courses))
        return self._blocks[alike]

    def _course_of(self, pod: Pod, taints: tuple[Taint, ...], keys: tuple[str, ...]) -> _Course:
        """Lists of tolerations may differ in what has no part in it: of each decision one course is found out."""
        comparison = self._configuration.comparison_operators
        decided = keys, Decision(taints, pod.tolerations, comparison).look
        if (course := self._decided.get(decided)) is None:
            course = self._decided[decided] = self._find_course(pod, taints)
        return course

    def _find_course(self, pod: Pod, taints: tuple[Taint, ...]) -> _Course:
        """Have the controller evict the pod from a node that gets these taints and has no other pod."""
        node = Node(pod.node_name)
        events, timeline = EventQueue(0), Timeline(0)
        state = ClusterState(events, timeline)
        state.load((node,), (pod,))
        eviction = TaintEviction(state, self._configuration, Timing(), decisions=self._decisions)
        eviction.start((), evaluate=False)
        rule = "doNoExecuteTaintingPass"
        state.patch_node_taints(node.name, taints, by=NODE_LIFECYCLE, because=(), rule=rule)
        events.run_until(_FOR_EVER_NS)
        state.let_go()
        eviction.let_go()
        return tuple(_steps(timeline, [taint.key for taint in taints]))

    def _tell(
        self, node: str, abouts: Sequence[_About], block: _Block, causes: Mapping[str, Causes]
    ) -> None:
        timeline, at_ns = self._state.timeline, self._state.offset_ns
        for place, step in block:
            key, uid, told = abouts[place]
            because = causes[step.taint] if step.after is None else (told[step.after],)
            told.append(timeline.append(step.entry.of_another(at_ns, because, key, uid, node)))


def _steps(timeline: Timeline, keys: Sequence[str]) -> Iterator[_Step]:
    """The entries of a run that follow those of the taints."""
    first = len(keys)
    for entry in timeline.entries[first:]:
        assert isinstance(entry, AboutPod), "nothing else is there"
        (because,) = entry.because
        if because < first:
            yield _Step(entry.at_ns, entry, None, keys[because])
        else:
            yield _Step(entry.at_ns, entry, because - first, "")


def _blocks(courses: Iterable[_Course]) -> Iterator[tuple[int, _Block]]:
    """What courses of one node have at one instant: pod by pod."""
    steps = [(place, step) for place, course in enumerate(courses) for step in course]
    delay_ns = attrgetter("delay_ns")
    steps.sort(key=lambda each: delay_ns(each[1]))
    for at_ns, block in groupby(steps, key=lambda each: delay_ns(each[1])):
        yield at_ns, list(block)
