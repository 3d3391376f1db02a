"""The Eviction API (``pods/eviction``), request by request, with the conflicts between them.

Upstream: ``EvictionREST.Create``. A request reads the budget, and a moment later writes one disruption less; if
somebody wrote the budget in between, it waits about half a second and reads again. So which of several
requests wins is chance, and a loser is answered late.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from kubectl_evictplan.cluster.disruption_budgets import DisruptionBudgets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import EVICTION_API, PodDeleted
from kubectl_evictplan.engine.drain_timing import DrainTiming, Jitter, Latency
from kubectl_evictplan.engine.event_queue import Priority
from kubectl_evictplan.kube.disruption import (
    Answer,
    EvictionRules,
    answer_eviction,
    can_ignore_budgets,
    decremented,
    is_stale,
)
from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.kube.objects import Pod

CREATED, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY_REQUESTS = 201, 403, 404, 409, 429
INTERNAL_ERROR, TIMEOUT = 500, 504
# ``EvictionsRetry.Steps``.
TRIES_MAX = 20
# Two requests, or a request and the disruption controller, meet within that.
MEETS_NS = 150 * MILLISECOND_NS


class EvictionAnswer(msgspec.Struct, frozen=True):
    """The HTTP status, and the budgets ("namespace/name") that decided.

    ``retry_after``: with the header Retry-After, which makes client-go ask again without telling kubectl.
    ``namespace_terminating``: with the cause NamespaceTerminating, which kubectl does not take for an error.
    """

    code: int
    budgets: tuple[str, ...] = ()
    retry_after: bool = False
    namespace_terminating: bool = False


Answered = Callable[[EvictionAnswer], None]


class _Request(msgspec.Struct, frozen=True):
    number: int
    pod: str
    grace_seconds: int | None
    because: tuple[int, ...]
    answered: Answered


class EvictionApi:
    """Answers eviction requests; ``terminating`` are the namespaces that are being deleted."""

    def __init__(
        self,
        state: ClusterState,
        budgets: DisruptionBudgets,
        timing: DrainTiming,
        rules: EvictionRules,
        terminating: Container[str] = (),
    ) -> None:
        self._rules = rules
        self._terminating = terminating
        self._state = state
        self._budgets = budgets
        self._timing = timing
        self._requests = 0

    def evict(
        self, pod: str, grace_seconds: int | None, because: tuple[int, ...], answered: Answered
    ) -> None:
        """A request for the pod "namespace/name" arrives now; ``answered`` is called with the answer."""
        self._requests += 1
        request = _Request(self._requests, pod, grace_seconds, because, answered)
        if pod.partition("/")[0] in self._terminating:
            # An eviction is created in the pod's namespace, whether the pod is there or not (NamespaceLifecycle).
            told = self._rules.tells_of_terminating_namespaces
            self._answer(request, EvictionAnswer(FORBIDDEN, namespace_terminating=told))
        else:
            self._read(request, 0)

    def _after(self, latency: Latency, request: _Request, then: Callable[[], None]) -> None:
        # Drawn by pod, not by request: the same pod is as fast in every run of one seed.
        pod = self._state.number(request.pod)
        delay_ns = self._timing.latency_ns(latency, pod, self._state.events.now_ns)
        self._later(delay_ns, then)

    def _later(self, delay_ns: int, then: Callable[[], None]) -> None:
        events = self._state.events
        events.schedule(events.now_ns + delay_ns, Priority.OUTSIDE, then)

    def _answer(self, request: _Request, answer: EvictionAnswer) -> None:
        self._after(Latency.DECIDE, request, lambda: request.answered(answer))

    def _read(self, request: _Request, tries: int) -> None:
        pod = self._state.pods.get(request.pod)
        if pod is None:
            self._answer(request, EvictionAnswer(NOT_FOUND))
            return
        places = self._budgets.covering(pod)
        names = tuple(self._budgets[place].key for place in places)
        answer = answer_eviction(pod, [self._budgets[place] for place in places], self._rules)
        if answer is Answer.UNKNOWN:
            # Nobody can know: half of the runs allow it, for each pod anew.
            allowed = self._timing.draw("unknown budget", self._state.number(pod.key)) < 0.5
            answer = Answer.DELETE if allowed else Answer.TOO_MANY_REQUESTS
        if answer is Answer.DELETE:
            self._after(
                Latency.DECIDE, request, lambda: self._delete_as_read(request, pod, names, tries)
            )
        elif answer is Answer.SEVERAL_BUDGETS:
            self._answer(request, EvictionAnswer(INTERNAL_ERROR, names))
        elif self._may_conflict(request, places[0], tries):
            self._conflict(request, tries)
        elif answer is Answer.TOO_MANY_REQUESTS:
            stale = is_stale(self._budgets[places[0]]) and self._rules.tells_when_to_retry
            self._answer(request, EvictionAnswer(TOO_MANY_REQUESTS, names, retry_after=stale))
        elif answer is Answer.FORBIDDEN:
            self._answer(request, EvictionAnswer(FORBIDDEN, names))
        else:
            read = self._budgets.version(places[0])
            self._after(
                Latency.DECIDE, request, lambda: self._write(request, places[0], read, tries)
            )

    def _write(self, request: _Request, place: int, read: int, tries: int) -> None:
        pod = self._state.pods.get(request.pod)
        if pod is None:
            request.answered(EvictionAnswer(NOT_FOUND))
            return
        names = (self._budgets[place].key,)
        if self._budgets.version(place) == read:
            status = decremented(self._budgets[place], pod, self._state.events.now_ns)
            self._budgets.write(place, status)
            self._after(Latency.DELETE, request, lambda: self._delete(request, names))
        elif tries + 1 < TRIES_MAX:
            self._conflict(request, tries)
        else:
            self._answer(request, EvictionAnswer(TIMEOUT, names, retry_after=True))

    def _may_conflict(self, request: _Request, place: int, tries: int) -> bool:
        """Whether the budget was written so shortly before that the request might have read it before, and was open then.

        Who reads that nobody may go writes nothing (``checkAndDecrement``).
        """
        written_ns = self._budgets.written_open_ns(place)
        if written_ns is None or self._state.events.now_ns - written_ns > MEETS_NS:
            return False
        return self._timing.conflicts(request.number, tries)

    def _conflict(self, request: _Request, tries: int) -> None:
        wait_ns = self._timing.jitter_ns(Jitter.CONFLICT, request.number, tries)
        self._later(wait_ns, lambda: self._read(request, tries + 1))

    def _delete_as_read(
        self, request: _Request, read: Pod, names: tuple[str, ...], tries: int
    ) -> None:
        """DELETE without a disruption; a pod that may be healthy by now must be as it was read.

        Upstream: ``shouldEnforceResourceVersion``, ``updateDeletionOptions``.
        """
        stored, ignored = self._state.pods.get(request.pod), can_ignore_budgets(read, self._rules)
        at_its_end = read.finished or read.deletion_timestamp_ns is not None
        free = at_its_end if ignored else not names
        if stored is None or stored is read or free:
            self._delete(request, names)
        elif not ignored:
            retry_after = self._rules.tells_when_to_retry
            self._answer(request, EvictionAnswer(TOO_MANY_REQUESTS, names, retry_after=retry_after))
        elif tries + 1 < TRIES_MAX:
            self._conflict(request, tries)
        else:
            self._answer(request, EvictionAnswer(CONFLICT, names))

    def _delete(self, request: _Request, names: tuple[str, ...]) -> None:
        state, pod = self._state, self._state.pods.get(request.pod)
        if pod is None:
            request.answered(EvictionAnswer(NOT_FOUND))
            return
        deleted = PodDeleted(
            state.offset_ns, request.because, pod.key, pod.uid, pod.node_name, EVICTION_API
        )
        cause = state.timeline.append(deleted)
        state.delete_pod(pod.key, because=(cause,), grace_seconds=request.grace_seconds)
        request.answered(EvictionAnswer(CREATED, names))
