"""``kubectl drain`` as a process: every node is cordoned, then one after another is drained.

Upstream: ``RunDrain`` (kubectl's pkg/cmd/drain/drain.go) and ``evictPods``, ``deletePods`` (pkg/drain/drain.go) of
1.37.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from kubectl_evictplan.cluster.disruption_budgets import DisruptionBudgets
from kubectl_evictplan.cluster.drained_pods import EvictedPodWait, PodTask, PollingWait
from kubectl_evictplan.cluster.eviction_api import EvictionApi
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    KUBECTL_DELETE,
    DrainEnd,
    DrainProcessEnded,
    NodeDrainEnded,
    NodeDrainStarted,
    PodDeleted,
    PodPassedOver,
    PodRefused,
)
from kubectl_evictplan.engine.drain_timing import DrainTiming, Jitter, Latency
from kubectl_evictplan.engine.event_queue import Priority
from kubectl_evictplan.kube.drain_filters import (
    Decision,
    DrainOptions,
    FilteredPod,
    filter_pods,
    why_refused,
)
from kubectl_evictplan.kube.objects import Pod

Causes = tuple[int, ...]


class KubectlDrains:
    """All processes of ``kubectl drain`` in one run."""

    def __init__(
        self,
        state: ClusterState,
        budgets: DisruptionBudgets,
        eviction_api: EvictionApi,
        daemon_sets: Container[str] | None,
        timing: DrainTiming,
    ) -> None:
        self._state = state
        self._budgets = budgets
        self._api = eviction_api
        self._daemon_sets = daemon_sets
        self._timing = timing

    def start(self, options: DrainOptions, nodes: Mapping[str, Causes]) -> None:
        """Start one process, which drains the nodes in this order; each exists and has its cause."""
        # A process is known by the entry of the event that started it.
        process = _Process(self._state, self._budgets, self._api, self._timing, options, nodes)
        process.start(self._daemon_sets)


class _Process:
    def __init__(
        self,
        state: ClusterState,
        budgets: DisruptionBudgets,
        eviction_api: EvictionApi,
        timing: DrainTiming,
        options: DrainOptions,
        nodes: Mapping[str, Causes],
    ) -> None:
        self._state = state
        self._budgets = budgets
        self._api = eviction_api
        self._timing = timing
        self._options = options
        self._causes = dict(nodes)
        self._names = list(nodes)
        self._number = next(iter(nodes.values()))[0]
        self._daemon_sets: Container[str] | None = None
        self._failed = False
        # The node that is drained now: what its pods wait for, and what came of those that are through.
        self._at = 0
        self._tasks_left = 0
        # Pods whose turn comes when another one is through.
        self._queue: deque[EvictedPodWait] = deque()
        self._worst: DrainEnd | None = None

    def start(self, daemon_sets: Container[str] | None) -> None:
        """Cordon every node, then go on to the first."""
        self._daemon_sets = daemon_sets
        delay_ns = self._timing.latency_ns(Latency.KUBECTL_START, self._number)
        for place, name in enumerate(self._names):
            self._later(delay_ns, partial(self._cordon, name))
            delay_ns += self._timing.latency_ns(Latency.NEXT_CORDON, self._number, place)
        self._later(delay_ns, self._next_node)

    def _later(self, delay_ns: int, then: Callable[[], None]) -> None:
        events = self._state.events
        events.schedule(events.now_ns + delay_ns, Priority.OUTSIDE, then)

    def _cordon(self, name: str) -> None:
        node = self._state.nodes.get(name)
        if node is not None and not node.unschedulable:
            self._state.node_causes[name] = self._causes[name]
            self._state.update_node(node, replace(node, unschedulable=True))

    # -- nodes, one after another ---------------------------------------------------------------

    def _next_node(self) -> None:
        if self._at < len(self._names):
            about = (self._number, self._at)
            self._later(self._timing.latency_ns(Latency.LIST_PODS, *about), self._drain_node)
        else:
            self._later(self._timing.latency_ns(Latency.KUBECTL_END, self._number), self._exit)

    def _exit(self) -> None:
        exit_code = 1 if self._failed else 0
        ended = DrainProcessEnded(self._state.offset_ns, (), self._number, exit_code)
        self._state.timeline.append(ended)

    def _drain_node(self) -> None:
        """List and filter the node's pods; evict them, or refuse (``deleteOrEvictPodsSimple``)."""
        state, name = self._state, self._names[self._at]
        started = NodeDrainStarted(state.offset_ns, self._causes[name], name, self._number)
        because = (state.timeline.append(started),)
        listed = state.pods_by_node.get(name, {}).values()
        filtered = filter_pods(listed, self._options, self._daemon_sets, state.events.now_ns)
        refused = [one for one in filtered if one.decision is Decision.REFUSE]
        for one in filtered:
            self._note_filtered(one, because, refused=bool(refused))
        pods = [one.pod for one in filtered if one.decision is Decision.EVICT]
        self._worst = None
        if refused:
            self._end_node(DrainEnd.REFUSED)
        elif not pods:
            self._end_node(DrainEnd.DRAINED)
        elif self._options.disable_eviction:
            self._delete_pods(pods, because)
        else:
            self._evict_pods(pods, because)

    def _note_filtered(self, one: FilteredPod, because: Causes, *, refused: bool) -> None:
        state, pod = self._state, one.pod
        about = (state.offset_ns, because, pod.key, pod.uid, pod.node_name, self._number)
        if one.decision is Decision.REFUSE:
            assert one.reason is not None, "only filters refuse"
            state.timeline.append(PodRefused(*about, one.reason, why_refused(one)))
        elif one.decision is Decision.SKIP and not refused:
            assert one.reason is not None, "only filters skip"
            state.timeline.append(PodPassedOver(*about, one.reason))

    def _end_node(self, reason: DrainEnd) -> None:
        name = self._names[self._at]
        ended = NodeDrainEnded(self._state.offset_ns, (), name, self._number, reason)
        self._state.timeline.append(ended)
        self._failed = self._failed or reason is not DrainEnd.DRAINED
        self._at += 1
        if self._options.settle_ns and self._at < len(self._names):
            self._later(self._options.settle_ns, self._next_node)
        else:
            self._next_node()

    # -- the pods of one node ---------------------------------------------------------------------

    def _task(self, because: Causes) -> PodTask:
        timeout_ns = self._options.timeout_ns
        deadline_ns = self._state.events.now_ns + timeout_ns if timeout_ns else None
        return PodTask(
            self._state,
            self._budgets,
            self._api,
            self._timing,
            self._options,
            self._number,
            deadline_ns,
            because,
            any_phase=self._at > 0 or self._options.parallel > 0,
        )

    def _evict_pods(self, pods: Sequence[Pod], because: Causes) -> None:
        """All pods at once, each by a goroutine of its own (``evictPods``); or as many as may be."""
        task = self._task(because)
        self._tasks_left = len(pods)
        self._queue = deque(EvictedPodWait(task, pod, self._pod_done) for pod in pods)
        for _ in range(self._options.parallel or len(pods)):
            self._evict_next()

    def _evict_next(self) -> None:
        if self._queue:
            wait = self._queue.popleft()
            about = (self._number, self._state.number(wait.key))
            self._later(self._timing.jitter_ns(Jitter.ARRIVAL, *about), wait.request)

    def _pod_done(self, reason: DrainEnd) -> None:
        self._evict_next()
        if reason is not DrainEnd.DRAINED and self._worst is not DrainEnd.ERROR:
            self._worst = reason
        self._tasks_left -= 1
        if self._tasks_left == 0:
            self._end_node(self._worst or DrainEnd.DRAINED)

    def _delete_pods(self, pods: Sequence[Pod], because: Causes) -> None:
        """One DELETE after another, then one loop that waits for all (``deletePods``)."""
        delay_ns = 0
        for pod in pods:
            number = self._state.number(pod.key)
            delay_ns += self._timing.latency_ns(Latency.NEXT_DELETE, self._number, number)
            self._later(delay_ns, partial(self._delete, pod, because))
        delay_ns += self._timing.latency_ns(Latency.FIRST_POLL, self._number)
        self._later(delay_ns, lambda: self._wait_for_all(pods, because))

    def _delete(self, pod: Pod, because: Causes) -> None:
        state, stored = self._state, self._state.pods.get(pod.key)
        if stored is None:
            return
        asked = self._options.grace_period_seconds
        deleted = PodDeleted(
            state.offset_ns, because, stored.key, stored.uid, stored.node_name, KUBECTL_DELETE
        )
        cause = state.timeline.append(deleted)
        grace_seconds = asked if asked >= 0 else None
        state.delete_pod(stored.key, because=(cause,), grace_seconds=grace_seconds)

    def _wait_for_all(self, pods: Sequence[Pod], because: Causes) -> None:
        task = self._task(because)
        first_poll_ns = self._state.events.now_ns
        self._tasks_left = len(pods)
        for pod in pods:
            PollingWait(task, pod, first_poll_ns, self._pod_done).start()
