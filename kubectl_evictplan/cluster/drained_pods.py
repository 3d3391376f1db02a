"""One pod of a drained node: evicted again and again until it may go, then waited for.

Upstream: the goroutine in ``evictPods`` and ``waitForDelete`` (kubectl's pkg/drain/drain.go).

A refused request is repeated every 5 s, which changes nothing while neither budget nor pod change. So a pod
sleeps until one of them does, and then asks at the instant at which kubectl would have. That is why a drain that never
ends costs nothing, and a run can see that nothing more will happen.

A refusal with the header Retry-After (a status older than its budget's spec) is repeated by client-go (``withRetry``), up to ten
times and 10 s after each answer, before kubectl hears of it and can look at its ``--timeout``.

In a namespace that is Terminating every request is refused. kubectl asks until it sees that the pod is terminating,
and then waits for its end; if the pod ends between two looks, it asks until the namespace is gone, which is not played.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubectl_evictplan.cluster.disruption_budgets import DisruptionBudgets
from kubectl_evictplan.cluster.eviction_api import (
    CREATED,
    NOT_FOUND,
    TOO_MANY_REQUESTS,
    EvictionAnswer,
    EvictionApi,
)
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import DrainEnd, EvictionGivenUp, EvictionNotAllowed
from kubectl_evictplan.engine.drain_timing import DrainTiming, Latency
from kubectl_evictplan.engine.event_queue import Priority, ScheduledCall
from kubectl_evictplan.kube.drain_filters import DrainOptions, is_deleted_long_ago
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod

# drain.Helper's EvictErrorRetryDelay, and the interval of ``waitForDelete``.
RETRY_NS = 5 * SECOND_NS
POLL_NS = SECOND_NS
# client-go's ``maxRetries``, and what the Eviction API answers in Retry-After.
CLIENT_RETRIES = 10
CLIENT_RETRY_NS = 10 * SECOND_NS
# What a retry and what it waits for may lie apart because of latencies alone.
_SHORTLY_NS = SECOND_NS

Done = Callable[[DrainEnd], None]


class PodTask(msgspec.Struct, frozen=True):
    """What all pods of one node in one process share. ``deadline_ns`` is epoch time; None: no --timeout.

    ``any_phase``: the first requests follow others' exits, so first requests and retries may come at any instant.
    """

    state: ClusterState
    budgets: DisruptionBudgets
    eviction_api: EvictionApi
    timing: DrainTiming
    options: DrainOptions
    process: int
    deadline_ns: int | None
    because: tuple[int, ...]
    any_phase: bool = False

    def give_up(self, pod: Pod, reason: DrainEnd) -> None:
        """Record that kubectl is through with a pod that is not gone."""
        about = (self.state.offset_ns, self.because, pod.key, pod.uid, pod.node_name)
        self.state.timeline.append(EvictionGivenUp(*about, self.process, reason))


class PollingWait:
    """``waitForDelete`` for one pod: a look every second, until it is gone, skipped or the time is up."""

    def __init__(self, task: PodTask, pod: Pod, first_poll_ns: int, done: Done) -> None:
        self._task = task
        self._pod = pod
        self._first_poll_ns = first_poll_ns
        self._done = done
        self._poll: ScheduledCall | None = None
        self._deadline: ScheduledCall | None = None
        self._waits = True

    def start(self) -> None:
        """Wait from now on."""
        task, events = self._task, self._task.state.events
        task.state.watch_pod(self._pod.key, self._pod_changed)
        if task.deadline_ns is not None:
            # The first look is always taken.
            at_ns = max(task.deadline_ns, self._first_poll_ns + 1)
            self._deadline = events.schedule(at_ns, Priority.OUTSIDE, self._time_is_up)
        self._plan_poll()

    def _is_over(self) -> bool:
        stored = self._task.state.pods.get(self._pod.key)
        if stored is None or stored.uid != self._pod.uid:
            return True
        return is_deleted_long_ago(stored, self._task.options, self._task.state.events.now_ns)

    def _plan_poll(self) -> None:
        """Look at the next poll if the wait is over by then; what changes until then plans anew."""
        events = self._task.state.events
        if self._poll is not None:
            self._poll.cancel()
        at_ns = events.now_ns
        if not self._is_over():
            stored = self._task.state.pods[self._pod.key]
            skipped_ns = self._task.options.skipped_after_ns
            if stored.deletion_timestamp_ns is None or skipped_ns is None:
                return
            at_ns = max(at_ns, stored.deletion_timestamp_ns + skipped_ns)
        polls = max(-(-(at_ns - self._first_poll_ns) // POLL_NS), 0)
        at_ns = self._first_poll_ns + polls * POLL_NS
        self._poll = events.schedule(max(at_ns, events.now_ns), Priority.OUTSIDE, self._look)

    def _pod_changed(self) -> None:
        if self._waits:
            self._plan_poll()

    def _look(self) -> None:
        if self._is_over():
            self._end(DrainEnd.DRAINED)
        else:
            self._plan_poll()

    def _time_is_up(self) -> None:
        self._task.give_up(self._pod, DrainEnd.TIMEOUT)
        self._end(DrainEnd.TIMEOUT)

    def _end(self, reason: DrainEnd) -> None:
        self._waits = False
        for call in (self._poll, self._deadline):
            if call is not None:
                call.cancel()
        self._task.state.unwatch_pod(self._pod.key, self._pod_changed)
        self._done(reason)


class EvictedPodWait:
    """Evicts one pod, however often it takes, and waits for its end."""

    def __init__(self, task: PodTask, pod: Pod, done: Done) -> None:
        self._task = task
        self._pod = pod
        self._done = done
        self._watches = self._asleep = False
        # Something changed after the request on its way was decided, perhaps.
        self._missed = False
        self._asked_ns = self._answered_ns = 0
        self._wake: ScheduledCall | None = None
        self._refused_before = False
        # How often client-go may still repeat the request before kubectl hears of it.
        self._client_retries = CLIENT_RETRIES

    @property
    def key(self) -> str:
        """``namespace/name`` of the pod."""
        return self._pod.key

    def request(self) -> None:
        """Send an eviction request, unless the time is up."""
        task = self._task
        self._client_retries = CLIENT_RETRIES
        if task.deadline_ns is not None and task.state.events.now_ns >= task.deadline_ns:
            self._fail(DrainEnd.TIMEOUT)
            return
        if not self._watches:
            self._watches = True
            task.state.watch_pod(self._pod.key, self._changed)
            task.budgets.watch_covering(self._pod, self._changed)
        self._send()

    def _send(self) -> None:
        task = self._task
        self._missed = False
        self._asked_ns = task.state.offset_ns
        asked = task.options.grace_period_seconds
        task.eviction_api.evict(
            self._pod.key, asked if asked >= 0 else None, task.because, self._answer
        )

    def _fail(self, reason: DrainEnd) -> None:
        self._task.give_up(self._pod, reason)
        self._stop_watching()
        self._done(reason)

    def _stop_watching(self) -> None:
        self._task.state.unwatch_pod(self._pod.key, self._changed)
        self._task.budgets.unwatch_covering(self._pod, self._changed)

    def _answer(self, answer: EvictionAnswer) -> None:
        if answer.code == NOT_FOUND:
            self._stop_watching()
            self._done(DrainEnd.DRAINED)
        elif answer.code == CREATED:
            self._wait_for_deletion()
        elif answer.namespace_terminating and self._pod.deletion_timestamp_ns is not None:
            # Somebody else has deleted it, and that is enough.
            self._wait_for_deletion()
        elif answer.namespace_terminating:
            self._note_refusal(answer)
            self._sleep(0)
        elif answer.code == TOO_MANY_REQUESTS:
            self._note_refusal(answer)
            self._sleep(self._client_retries if answer.retry_after else 0)
        elif answer.retry_after and self._client_retries:
            self._sleep(self._client_retries)
        else:
            self._note_refusal(answer)
            self._fail(DrainEnd.ERROR)

    def _wait_for_deletion(self) -> None:
        task = self._task
        self._stop_watching()
        delay_ns = task.timing.latency_ns(Latency.FIRST_POLL, task.state.number(self._pod.key))
        first_poll_ns = task.state.events.now_ns + delay_ns
        PollingWait(task, self._pod, first_poll_ns, self._done).start()

    def _note_refusal(self, answer: EvictionAnswer) -> None:
        if not self._refused_before:
            task, pod = self._task, self._pod
            self._refused_before = True
            about = (task.state.offset_ns, task.because, pod.key, pod.uid, pod.node_name)
            asked = (task.process, self._asked_ns, answer.budgets, answer.code)
            repeated = answer.code == TOO_MANY_REQUESTS or answer.namespace_terminating
            task.state.timeline.append(EvictionNotAllowed(*about, *asked, is_repeated=repeated))

    # -- between two requests ----------------------------------------------------------------------

    def _sleep(self, client_retries: int) -> None:
        """``client_retries``: how often client-go asks before kubectl does."""
        task = self._task
        self._asleep = True
        self._client_retries = client_retries
        self._answered_ns = task.state.events.now_ns
        if self._missed:
            self._wake_at(self._answered_ns)
        if task.deadline_ns is not None:
            self._wake_at(task.deadline_ns, exact=True)

    def _sleeps_ns(self) -> tuple[int, int, int]:
        """From an answer to the next request, of kubectl and of client-go; and from that to its answer, if it is refused too."""
        timing, pod = self._task.timing, self._task.state.number(self._pod.key)
        refused_ns = timing.latency_ns(Latency.DECIDE, pod, "retry")
        # kubectl gets the pod anew.
        got_ns = timing.latency_ns(Latency.FIRST_POLL, pod, "retry")
        return RETRY_NS + got_ns, CLIENT_RETRY_NS, refused_ns

    def _next_try(self, elapsed_ns: int, *, by_kubectl: bool) -> tuple[int, int]:
        """The first request so long after the last answer or later, and how often client-go may repeat it.

        ``by_kubectl``: not one of client-go.
        """
        own_ns, client_ns, refused_ns = self._sleeps_ns()
        answered_ns, retries = self._next_answer(
            elapsed_ns + refused_ns,
            own_ns + refused_ns,
            client_ns + refused_ns,
            by_kubectl=by_kubectl,
        )
        return answered_ns - refused_ns, retries

    def _next_answer(
        self, elapsed_ns: int, own_ns: int, client_ns: int, *, by_kubectl: bool
    ) -> tuple[int, int]:
        """The same for the answer of that request; from one answer to the next it is ``own_ns``, of client-go ``client_ns``."""
        left = self._client_retries
        if not left or self._task.options.parallel:
            # ``apply``, which drains some pods at a time, waits as the server says, but has no client-go.
            period_ns = client_ns if left else own_ns
            return max(-(-elapsed_ns // period_ns), 1) * period_ns, CLIENT_RETRIES
        # The pod is refused in the same way again: in each round kubectl asks once, then client-go as often as it may.
        round_ns = own_ns + CLIENT_RETRIES * client_ns
        # From kubectl's request of this round to the last answer.
        behind_ns = (CLIENT_RETRIES - left) * client_ns
        rounds, within_ns = divmod(behind_ns + max(elapsed_ns, 1), round_ns)
        tries = -(-within_ns // client_ns)
        if tries > (0 if by_kubectl else CLIENT_RETRIES):
            rounds, tries = rounds + 1, 0
        return rounds * round_ns + tries * client_ns - behind_ns, CLIENT_RETRIES - tries

    def _wake_at(self, changed_ns: int, *, exact: bool = False) -> None:
        """Ask at the first try at or after an instant, or as luck has it; an earlier plan stays.

        ``exact``: at the first at which kubectl looks at its time.
        """
        if not self._asleep:
            self._missed = True
            return
        events = self._task.state.events
        earliest_ns = max(changed_ns, events.now_ns)
        elapsed_ns, luck = earliest_ns - self._answered_ns, 0
        if not exact:
            luck = self._task.timing.luck_of(self._task.state.number(self.key), self._asked_ns)
            sleep_ns = CLIENT_RETRY_NS if self._client_retries else RETRY_NS
            elapsed_ns -= luck * (sleep_ns if self._task.any_phase else _SHORTLY_NS)
        after_ns, retries = self._next_try(elapsed_ns, by_kubectl=exact)
        at_ns = max(self._answered_ns + after_ns, earliest_ns)
        if luck > 0 and self._task.any_phase:
            at_ns = earliest_ns
        if self._wake is not None and self._wake.callback is not None:
            if self._wake.at_ns <= at_ns:
                return
            self._wake.cancel()
        self._wake = events.schedule(at_ns, Priority.OUTSIDE, lambda: self._awake(retries))

    def _changed(self) -> None:
        """The pod, or a budget that covers it, is not what it was."""
        self._wake_at(self._task.state.events.now_ns)

    def _awake(self, client_retries: int) -> None:
        task = self._task
        self._asleep, self._wake = False, None
        if client_retries < CLIENT_RETRIES:
            self._client_retries = client_retries
            self._send()
            return
        # kubectl looks at the pod again: of a name that is used again, the new one is evicted.
        self._pod = task.state.pods.get(self._pod.key, self._pod)
        self.request()
