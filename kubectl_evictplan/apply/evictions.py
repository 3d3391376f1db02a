"""The evictions of one node: a bounded number under way, each asked for until it is through.

Under way is a pod from its first request until its object is gone, or its name belongs to another
UID. Requests go one after the other, so a run is the same whenever it is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kubectl_evictplan.apply.cluster import Outcome, Reply
from kubectl_evictplan.apply.endings import EndCode, Ended, Ending
from kubectl_evictplan.apply.node_changes import (
    RETRIES_MAX,
    RETRY_AFTER_SECONDS_MAX,
    retry_seconds,
)
from kubectl_evictplan.apply.progress import (
    BudgetWaits,
    EvictionAccepted,
    OperationLeft,
    OperationStarted,
    Paused,
    PodGone,
    WasReadBack,
)
from kubectl_evictplan.apply.records import Left, PodImage, Target, Verdict, Wait
from kubectl_evictplan.apply.sending import (
    DOING,
    MESSAGE_LENGTH_MAX,
    Mutation,
    ended,
    note_verdict,
    refused,
    send,
)
from kubectl_evictplan.apply.states import Doing, Phase
from kubectl_evictplan.apply.working import SLICE_SECONDS, Working
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.plans.document import Evict

# kubectl drain's: how long it waits after a refusal, and between looks at a pod that is going.
RETRY_SECONDS = 5.0
POLL_SECONDS = 1.0
# How often the node is read back meanwhile: whoever uncordons it wants no more evictions.
READ_BACK_SECONDS = 5.0
# status.causes of a 403 while a namespace is being deleted: the pod will be, too.
NAMESPACE_TERMINATING = "NamespaceTerminating"


@dataclass(slots=True)
class Eviction:
    """One pod's eviction at work; ``due`` and ``refused_since`` are monotonic seconds."""

    doing: Doing
    operation: Evict
    due: float
    tried: Counter[Outcome] = field(default_factory=Counter)
    refused_since: float | None = None
    told_causes: tuple[str, ...] | None = None

    @property
    def done(self) -> bool:
        """Whether the pod is gone, or its name another's."""
        return self.doing.phase is Phase.DONE


@dataclass(slots=True)
class Batch:
    """The evictions of one node; those in ``active`` are under way.

    ``look`` raises Ended when what this run did to the node is not so any more.
    """

    run: Working
    node: str
    waiting: list[Eviction]
    parallel: int
    deadline: float | None
    look: Callable[[], None]
    looked: float | None = None
    active: list[Eviction] = field(default_factory=list)

    def work(self) -> None:
        """Evict all of them. Raises Ended when one cannot be, or the time is over."""
        while self.waiting or self.active:
            self.run.checkpoint()
            self._look_at_node()
            self._fill()
            for eviction in [one for one in self.active if one.due <= self._now]:
                self._advance(eviction)
            self.active = [one for one in self.active if not one.done]
            self._heed_deadline()
            self._sleep()

    def _look_at_node(self) -> None:
        if self.looked is None or self._now - self.looked >= READ_BACK_SECONDS:
            self.look()
            self.looked = self._now

    def waited_seconds(self) -> float:
        """Return for how long a budget has kept the pod that waits longest."""
        since = [one.refused_since for one in self.active if one.refused_since is not None]
        return self._now - min(since) if since else 0.0

    @property
    def _now(self) -> float:
        return self.run.world.monotonic()

    def _fill(self) -> None:
        room = (self.parallel or len(self.waiting) + len(self.active)) - len(self.active)
        ready = [one for one in self.waiting if one.due <= self._now][: max(room, 0)]
        for eviction in ready:
            self.waiting.remove(eviction)
            self.active.append(eviction)
            self.run.say(OperationStarted(at_ns=self.run.now_ns, operation=eviction.operation))
            self._after_unknown(eviction)

    def _after_unknown(self, eviction: Eviction) -> None:
        """An intent of a process that died: the request may be at work until two deadlines later."""
        if eviction.doing.phase is Phase.UNKNOWN:
            if not self._settled(eviction, self._read(eviction)):
                self._wait_for_unknown(eviction, seconds_at_work(self.run, eviction.doing))

    def _sleep(self) -> None:
        """Until the next one is due, in slices short enough for signals and conditions."""
        pending = [*self.active, *(self.waiting if self._has_room else ())]
        if not pending:
            return
        left = min(one.due for one in pending) - self._now
        if self.deadline is not None:
            left = min(left, self.deadline - self._now)
        if left > 0:
            self.run.world.sleep(min(left, SLICE_SECONDS))

    @property
    def _has_room(self) -> bool:
        return not self.parallel or len(self.active) < self.parallel

    def _heed_deadline(self) -> None:
        if self.deadline is None or self._now < self.deadline:
            return
        left = [*self.active, *self.waiting]
        if not left:
            return
        for one in left:
            if one.doing.phase is Phase.WAITING:
                self._leave(one, one.doing.outcome or Outcome.NOT_NOW, one.doing.message)
        keys = tuple(one.operation.key for one in left)
        number = left[0].operation.number
        raise Ended(Ending(EndCode.TIMED_OUT, number, self.node, objects=keys))

    def _advance(self, eviction: Eviction) -> None:
        """Look at the pod, and ask for its eviction if that has still to be done."""
        pod = self._read(eviction)
        if self._settled(eviction, pod):
            return
        assert pod is not None, "an absent pod is settled"
        if eviction.doing.phase is Phase.ACCEPTED:
            eviction.due = self._now + POLL_SECONDS
            return
        if eviction.doing.phase is Phase.UNKNOWN:
            note_verdict(self.run, DOING, eviction.doing, Verdict.NOT_APPLIED, uid=pod.uid)
            self._say_verdict(eviction, Verdict.NOT_APPLIED)
        if pod.node_name != self.node:
            raise ended(EndCode.DRIFT, eviction.doing)
        self._ask(eviction, pod)

    def _read(self, eviction: Eviction) -> Pod | None:
        operation, api = eviction.operation, self.run.api
        fresh = eviction.doing.phase is Phase.UNKNOWN
        return self.run.read(
            lambda: api.get_pod(operation.namespace, operation.pod, fresh=fresh),
            operation.number,
            self.node,
        )

    def _settled(self, eviction: Eviction, pod: Pod | None) -> bool:
        """Write down when the pod is gone, replaced, or newly on its way; tell of the first two.

        A pod that is on its way needs nothing any more, for now.
        """
        doing, operation = eviction.doing, eviction.operation
        verdict = pod_verdict(pod, operation)
        if verdict in (Verdict.ABSENT, Verdict.REPLACED):
            note_verdict(self.run, DOING, doing, verdict, uid="" if pod is None else pod.uid)
            replaced = verdict is Verdict.REPLACED
            self.run.say(PodGone(at_ns=self.run.now_ns, operation=operation, replaced=replaced))
            return True
        if verdict is Verdict.NOT_APPLIED or doing.phase is Phase.ACCEPTED:
            return False
        note_verdict(self.run, DOING, doing, verdict, uid=operation.uid)
        self._accepted(eviction, ours=doing.attempts > 0)
        return True

    def _ask(self, eviction: Eviction, pod: Pod) -> None:
        operation = eviction.operation
        request = self.run.api.evict_request(
            operation.namespace, operation.pod, operation.uid, operation.grace_period_seconds
        )
        target = Target("Pod", operation.pod, operation.uid, operation.namespace)
        before = PodImage(pod.uid, pod.node_name, pod.phase, pod.resource_version)
        reply = send(self.run, DOING, eviction.doing, Mutation(request, target, before))
        if reply.outcome is Outcome.APPLIED:
            self._accepted(eviction, ours=True)
            return
        eviction.tried[reply.outcome] += 1
        self._answered(eviction, reply)

    def _accepted(self, eviction: Eviction, *, ours: bool) -> None:
        eviction.refused_since = None
        eviction.due = self._now + POLL_SECONDS
        self.run.say(
            EvictionAccepted(at_ns=self.run.now_ns, operation=eviction.operation, ours=ours)
        )

    def _answered(self, eviction: Eviction, reply: Reply) -> None:
        """Decide what follows from an answer that is not a yes; raises Ended for a final no."""
        tried = eviction.tried[reply.outcome]
        terminating = NAMESPACE_TERMINATING in reply.causes
        match reply.outcome:
            case Outcome.BUDGET:
                self._wait(eviction, reply, _budget_seconds(reply))
            case Outcome.REFUSED if terminating:
                self._wait(eviction, reply, RETRY_SECONDS)
            case Outcome.UNKNOWN | Outcome.CHANGED if tried <= RETRIES_MAX[Outcome.UNKNOWN]:
                # Most often the pod is on its way already. Else: one more deadline, then it tells.
                until = self._now + self.run.deadline_seconds
                if not self._settled(eviction, self._read(eviction)):
                    self._wait_for_unknown(eviction, until - self._now)
            case Outcome.CONFLICT | Outcome.ABSENT if tried <= RETRIES_MAX[Outcome.CONFLICT]:
                # Another UID, or gone: reading it says so; else the server was in conflict with itself.
                eviction.due = self._now + retry_seconds(self.run, reply, tried)
            case Outcome.NOT_NOW | Outcome.NOT_SENT if self._patient(reply, tried):
                self._wait(eviction, reply, retry_seconds(self.run, reply, tried))
            case Outcome.NOT_NOW | Outcome.NOT_SENT | Outcome.UNKNOWN | Outcome.CHANGED:
                raise ended(EndCode.UNREACHABLE, eviction.doing, reply=reply)
            case _:
                self._leave(eviction, reply.outcome, reply.message)
                raise refused(eviction.doing, reply)

    def _wait_for_unknown(self, eviction: Eviction, seconds: float) -> None:
        """Let a request without an answer have its time before the pod is looked at again."""
        seconds = max(seconds, 0.0)
        eviction.due = self._now + seconds
        if seconds:
            key = (eviction.operation.key,)
            at_ns = self.run.now_ns
            self.run.say(
                Paused(at_ns=at_ns, why="unknown", seconds=seconds, node=self.node, objects=key)
            )

    def _patient(self, reply: Reply, tried: int) -> bool:
        seconds = reply.retry_after_seconds or 0.0
        return tried <= RETRIES_MAX[reply.outcome] and seconds <= RETRY_AFTER_SECONDS_MAX

    def _wait(self, eviction: Eviction, reply: Reply, seconds: float) -> None:
        now = self._now
        eviction.due = now + seconds
        budget = reply.outcome is Outcome.BUDGET
        if budget and eviction.refused_since is None:
            eviction.refused_since = now
        if eviction.told_causes != (reply.outcome.value, *reply.causes):
            eviction.told_causes = (reply.outcome.value, *reply.causes)
            self._note_wait(eviction, reply, seconds)
        self.run.say(
            BudgetWaits(
                at_ns=self.run.now_ns,
                operation=eviction.operation,
                attempts=eviction.doing.attempts,
                outcome=reply.outcome,
                causes=reply.causes,
                message=reply.message,
                retry_seconds=seconds,
            )
        )

    def _note_wait(self, eviction: Eviction, reply: Reply, seconds: float) -> None:
        left = None if self.deadline is None else max(self.deadline - self._now, 0.0)
        self.run.note(
            Wait(
                number=eviction.operation.number,
                attempts=eviction.doing.attempts,
                outcome=reply.outcome,
                causes=reply.causes,
                message=reply.message[:MESSAGE_LENGTH_MAX],
                retry_seconds=seconds,
                left_seconds=left,
            )
        )

    def _leave(self, eviction: Eviction, outcome: Outcome, message: str) -> None:
        message = message[:MESSAGE_LENGTH_MAX]
        operation = eviction.operation
        self.run.note(Left(number=operation.number, outcome=outcome, message=message))
        self.run.say(
            OperationLeft(
                at_ns=self.run.now_ns, operation=operation, outcome=outcome, message=message
            )
        )

    def _say_verdict(self, eviction: Eviction, verdict: Verdict) -> None:
        self.run.say(
            WasReadBack(at_ns=self.run.now_ns, operation=eviction.operation, verdict=verdict)
        )


def batch(
    run: Working,
    node: str,
    doings: Iterable[Doing],
    *,
    parallel: int,
    timeout_seconds: float,
    started: float,
    look: Callable[[], None],
) -> Batch:
    """Return the evictions of a node that are not done.

    ``started``: the monotonic instant of offset 0; ``timeout_seconds`` counts from now, 0 for ever.
    """
    now = run.world.monotonic()
    evictions = []
    for doing in doings:
        operation = doing.operation
        assert isinstance(operation, Evict), "a batch has nothing but evictions"
        if doing.phase is not Phase.DONE:
            due = max(started + operation.at_seconds, now)
            evictions.append(Eviction(doing, operation, due))
    # What another process left under way comes first: it takes its place in the bound again.
    evictions.sort(key=lambda one: one.doing.phase is Phase.WAITING)
    deadline = now + timeout_seconds if timeout_seconds else None
    return Batch(run, node, evictions, parallel, deadline, look)


def pod_verdict(pod: Pod | None, operation: Evict) -> Verdict:
    """Return what a pod tells of its eviction."""
    if pod is None:
        return Verdict.ABSENT
    if pod.uid != operation.uid:
        return Verdict.REPLACED
    return Verdict.NOT_APPLIED if pod.deletion_timestamp_ns is None else Verdict.DELETING


def settle_eviction(run: Working, doing: Doing) -> None:
    """Find out by its pod what became of an eviction without an answer, when it cannot be at work any more."""
    operation = doing.operation
    assert isinstance(operation, Evict), "only evictions are settled by their pod"
    run.pause(seconds_at_work(run, doing), "unknown", operation.node)
    pod = run.read(
        lambda: run.api.get_pod(operation.namespace, operation.pod, fresh=True),
        operation.number,
        operation.node,
    )
    uid = "" if pod is None else pod.uid
    note_verdict(run, DOING, doing, pod_verdict(pod, operation), uid=uid)


def seconds_at_work(run: Working, doing: Doing) -> float:
    """Return for how long a request without an answer may still be at work on the server."""
    sent_ns = parse_rfc3339_ns(doing.sent_at) or 0
    return max(2 * run.deadline_seconds - (run.now_ns - sent_ns) / SECOND_NS, 0.0)


def _budget_seconds(reply: Reply) -> float:
    """A budget that was not observed yet says when; one that is used up does not, and kubectl's 5 s hold."""
    return reply.retry_after_seconds or RETRY_SECONDS
