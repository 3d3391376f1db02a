"""One mutation, written down before and after: nothing here repeats one."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from kubectl_evictplan.apply.changes import same_taints, written_by
from kubectl_evictplan.apply.cluster import LiveNode, Outcome, Reply, Request, SpecChange
from kubectl_evictplan.apply.endings import EndCode, Ended, Ending
from kubectl_evictplan.apply.progress import Answered, RequestSent
from kubectl_evictplan.apply.records import (
    Intent,
    NodeImage,
    PodImage,
    Result,
    RollbackIntent,
    RollbackResult,
    RollbackVerify,
    SentRequest,
    Target,
    Verdict,
    Verify,
    sent_request,
)
from kubectl_evictplan.apply.states import Doing
from kubectl_evictplan.apply.working import Working
from kubectl_evictplan.plans.document import Evict

FORBIDDEN = 403
MESSAGE_LENGTH_MAX = 1000


class Voice(NamedTuple):
    """The records of one direction: doing, or taking back."""

    intent: type[Intent]
    result: type[Result]
    verify: type[Verify]


DOING = Voice(Intent, Result, Verify)
TAKING_BACK = Voice(RollbackIntent, RollbackResult, RollbackVerify)


class Mutation(NamedTuple):
    """What is sent, and what it was decided from."""

    request: Request
    target: Target
    before: NodeImage | PodImage
    wanted: NodeImage | None = None
    time_added: str = ""


def send(run: Working, voice: Voice, doing: Doing, mutation: Mutation) -> Reply:
    """Send one mutation: intent durable, signal asked for once more, request, result durable.

    Raises Ended when the run must not go on; the answer is returned, whatever it says.
    """
    run.checkpoint()
    intent = run.note(_intent(run, voice, doing, mutation))
    operation = doing.operation
    if run.stop.requested:
        _note_result(run, voice, doing, intent.attempt, Reply(Outcome.NOT_SENT))
        run.heed_signals()
    run.say(RequestSent(at_ns=run.now_ns, operation=operation, attempt=intent.attempt))
    reply = _as_asked(run.api.send(mutation.request), mutation.wanted)
    _note_result(run, voice, doing, intent.attempt, reply)
    run.say(
        Answered(
            at_ns=run.now_ns,
            operation=operation,
            attempt=intent.attempt,
            outcome=reply.outcome,
            status=reply.status,
            message=reply.message,
        )
    )
    return reply


def note_already(run: Working, voice: Voice, doing: Doing) -> None:
    """Write down that nothing needs to be sent."""
    number = doing.operation.number
    run.note(voice.result(number=number, attempt=0, outcome=Outcome.ALREADY))


def note_verdict(
    run: Working,
    voice: Voice,
    doing: Doing,
    verdict: Verdict,
    *,
    uid: str = "",
    resource_version: str = "",
    changed_by: tuple[SpecChange, ...] = (),
) -> None:
    """Write down what reading back told."""
    run.note(
        voice.verify(
            number=doing.operation.number,
            verdict=verdict,
            uid=uid,
            resource_version=resource_version,
            changed_by=changed_by,
        )
    )


def ended(
    code: EndCode, doing: Doing, node: LiveNode | None = None, reply: Reply | None = None
) -> Ended:
    """Return the end of the run at an operation."""
    return Ended(
        Ending(
            code,
            number=doing.operation.number,
            node=doing.operation.node,
            message=reply.message[:MESSAGE_LENGTH_MAX] if reply is not None else "",
            changed_by=written_by(doing.operation, node) if node is not None else (),
            objects=reply.causes if reply is not None else (),
        )
    )


def refused(doing: Doing, reply: Reply) -> Ended:
    """Return the end of the run at an operation that the server will not do."""
    if reply.outcome is Outcome.UNAUTHENTICATED:
        return ended(EndCode.UNAUTHENTICATED, doing, reply=reply)
    code = EndCode.FORBIDDEN if reply.status == FORBIDDEN else EndCode.REFUSED
    return ended(code, doing, reply=reply)


def _intent(run: Working, voice: Voice, doing: Doing, mutation: Mutation) -> Intent:
    operation = doing.operation
    request = _kept_request(mutation.request)
    # A pod that waits for its budget is asked for every five seconds, always in the same words.
    repeated = isinstance(operation, Evict) and doing.attempts > 0
    return voice.intent(
        number=operation.number,
        attempt=doing.attempts + 1,
        kind=str(operation.__struct_config__.tag),
        target=mutation.target,
        before=mutation.before,
        wanted=mutation.wanted,
        request=None if repeated else request,
        deadline_seconds=run.deadline_seconds,
        time_added=mutation.time_added,
    )


def _kept_request(request: Request) -> SentRequest:
    return sent_request(request, hashlib.sha256(request.body).hexdigest())


def _as_asked(reply: Reply, wanted: NodeImage | None) -> Reply:
    """A webhook may have changed a patch that was accepted: the node that came back tells."""
    if reply.outcome is not Outcome.APPLIED or wanted is None or reply.node is None:
        return reply
    node = reply.node
    if node.unschedulable == wanted.unschedulable and same_taints(node.raw_taints, wanted.taints):
        return reply
    return msgspec.structs.replace(reply, outcome=Outcome.CHANGED)


def _note_result(run: Working, voice: Voice, doing: Doing, attempt: int, reply: Reply) -> None:
    node = reply.node
    run.note(
        voice.result(
            number=doing.operation.number,
            attempt=attempt,
            outcome=reply.outcome,
            status=reply.status,
            reason=reply.reason,
            message=reply.message[:MESSAGE_LENGTH_MAX],
            causes=reply.causes,
            resource_version=reply.resource_version,
            taints=None if node is None else node.raw_taints,
            unschedulable=None if node is None else node.unschedulable,
            audit_id=reply.audit_id,
            elapsed_ns=reply.elapsed_ns,
            retry_after_seconds=reply.retry_after_seconds,
        )
    )
