"""Changing one node: read, judge, send, and decide what became of it.

Every attempt begins with a read. A conflict, a busy server and a connection that was never made are
tried again a few times; an unknown outcome is read back, by the rules of ``read_back``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

import msgspec

from kubectl_evictplan.apply.changes import (
    Judgement,
    Standing,
    image,
    judge,
    made_of,
    same_taints,
    time_added,
    written_by,
)
from kubectl_evictplan.apply.cluster import LiveNode, Outcome, Reply
from kubectl_evictplan.apply.endings import EndCode, Ended, NodeAbsent
from kubectl_evictplan.apply.progress import OperationDone, WasReadBack
from kubectl_evictplan.apply.records import NodeImage, Target, Verdict
from kubectl_evictplan.apply.sending import (
    DOING,
    Mutation,
    Voice,
    ended,
    note_already,
    note_verdict,
    refused,
    send,
)
from kubectl_evictplan.apply.states import Doing
from kubectl_evictplan.apply.unreviewed import refuse_unreviewed
from kubectl_evictplan.apply.working import Working

# How often each is tried again; a retry after a conflict waits as upstream's taint helper does.
RETRIES_MAX = {
    Outcome.CONFLICT: 5,
    Outcome.NOT_NOW: 10,
    Outcome.NOT_SENT: 5,
    Outcome.UNKNOWN: 3,
}
RETRY_AFTER_SECONDS_MAX = 60.0
_GIVEN_UP = {
    Outcome.CONFLICT: EndCode.DRIFT,
    Outcome.NOT_NOW: EndCode.UNREACHABLE,
    Outcome.NOT_SENT: EndCode.UNREACHABLE,
    Outcome.UNKNOWN: EndCode.UNREACHABLE,
}
_PAUSES = {
    Outcome.CONFLICT: "conflict",
    Outcome.NOT_NOW: "busy",
    Outcome.NOT_SENT: "unreachable",
    Outcome.UNKNOWN: "unreachable",
}

Judge = Callable[[LiveNode, str], Judgement]


def do_change(run: Working, doing: Doing, uid: str, known: Collection[str]) -> None:
    """Carry out one operation on a node. Raises Ended when it cannot be done as planned.

    ``known``: the UIDs of the plan's pods; no other may go by a taint.
    """
    operation = doing.operation
    change_node(
        run,
        DOING,
        doing,
        uid,
        lambda node, mark: judge(operation, node, mark),
        lambda: refuse_unreviewed(run, operation, known),
    )
    outcome = doing.outcome or Outcome.APPLIED
    run.say(OperationDone(at_ns=run.now_ns, operation=doing.operation, outcome=outcome))


def settle(run: Working, doing: Doing, uids: Mapping[str, str]) -> Verdict:
    """Read back an operation whose outcome a process that died has left open."""
    operation = doing.operation
    return read_back(
        run, DOING, doing, uids[operation.node], lambda node, mark: judge(operation, node, mark)
    )


def change_node(
    run: Working,
    voice: Voice,
    doing: Doing,
    uid: str,
    judged: Judge,
    before_sending: Callable[[], None] = lambda: None,
) -> None:
    """Make the node what ``judged`` says, or find that it is so. Raises Ended otherwise.

    ``before_sending`` is called before every attempt and may raise Ended.
    """
    tried: Counter[Outcome] = Counter()
    while True:
        run.checkpoint()
        node = read_node(run, voice, doing, uid, fresh=bool(tried))
        marked = doing.time_added or time_added(run.now_ns)
        standing, wanted = judged(node, marked)
        if standing is Standing.VIOLATED:
            raise ended(EndCode.DRIFT, doing, node)
        if wanted is None:
            _note_standing(run, voice, doing, node, standing)
            return
        before_sending()
        mark = marked if voice is DOING else ""
        reply = send(run, voice, doing, _mutation(run, node, wanted, mark))
        if reply.outcome is Outcome.APPLIED:
            return
        if reply.outcome is Outcome.UNKNOWN and _settled(run, voice, doing, uid, judged):
            return
        tried[reply.outcome] += 1
        _may_try_again(run, doing, node, reply, tried[reply.outcome])


def _note_standing(
    run: Working, voice: Voice, doing: Doing, node: LiveNode, standing: Standing
) -> None:
    """Nothing to send: by an earlier attempt of ours that came through late, or by another."""
    if standing is Standing.OURS and doing.attempts > 0:
        version = node.resource_version
        note_verdict(run, voice, doing, Verdict.APPLIED, uid=node.uid, resource_version=version)
    else:
        note_already(run, voice, doing)


def _settled(run: Working, voice: Voice, doing: Doing, uid: str, judged: Judge) -> bool:
    """Read an unknown outcome back; tell whether the operation is done."""
    verdict = read_back(run, voice, doing, uid, judged)
    if verdict is Verdict.MOVED:
        raise ended(EndCode.UNKNOWN, doing)
    return verdict is not Verdict.NOT_APPLIED


def _changed(doing: Doing, reply: Reply) -> Ended:
    """Return the end at a patch of which a webhook made something else; nobody but it is to be named."""
    end = ended(EndCode.CHANGED, doing, reply=reply)
    if doing.wanted is None or reply.node is None:
        return end
    unasked, missing = made_of(doing.wanted, reply.node)
    return Ended(msgspec.structs.replace(end.ending, unasked=unasked, missing=missing))


def _may_try_again(run: Working, doing: Doing, node: LiveNode, reply: Reply, tried: int) -> None:
    """Wait before the next attempt; raises Ended when there must be none."""
    outcome = reply.outcome
    if outcome is Outcome.ABSENT:
        raise NodeAbsent(ended(EndCode.DRIFT, doing, node, reply).ending)
    if outcome is Outcome.CHANGED:
        raise _changed(doing, reply)
    if outcome not in RETRIES_MAX:
        raise refused(doing, reply)
    seconds = retry_seconds(run, reply, tried)
    if tried > RETRIES_MAX[outcome] or seconds > RETRY_AFTER_SECONDS_MAX:
        raise ended(_GIVEN_UP[outcome], doing, node, reply)
    run.pause(seconds, _PAUSES[outcome], doing.operation.node)


def retry_seconds(run: Working, reply: Reply, tried: int) -> float:
    """Return how long to wait: what the server says, else 100 ms doubling, with full jitter."""
    if reply.retry_after_seconds is not None:
        return reply.retry_after_seconds + run.world.chance()
    if reply.outcome is Outcome.CONFLICT:
        return 0.1 * (0.5 + run.world.chance())
    return min(0.25 * 2.0**tried, 8.0) * (0.5 + 0.5 * run.world.chance())


def read_node(
    run: Working, voice: Voice, doing: Doing, uid: str, *, fresh: bool = False
) -> LiveNode:
    """Read the operation's node; raises Ended when it is gone or another of its name."""
    name, number = doing.operation.node, doing.operation.number
    node = run.read_node(name, number, fresh=fresh)
    if node is None:
        note_verdict(run, voice, doing, Verdict.ABSENT)
        raise NodeAbsent(ended(EndCode.DRIFT, doing).ending)
    if node.uid != uid:
        note_verdict(run, voice, doing, Verdict.REPLACED, uid=node.uid)
        raise ended(EndCode.DRIFT, doing, node)
    return node


def read_back(run: Working, voice: Voice, doing: Doing, uid: str, judged: Judge) -> Verdict:
    """Decide what became of a patch without an answer; the verdict is durable on return.

    As wanted and ours: applied. Not as wanted and of the resourceVersion from before, on two new
    connections: not applied, and to be sent again. Not as wanted and written since: not applied or
    reverted, nobody can tell; the patch can never be applied any more, so when the run ended
    because of it once and somebody goes on, it counts as not applied.
    """
    node = read_node(run, voice, doing, uid, fresh=True)
    if judged(node, doing.time_added).wanted is not None and _unwritten(doing, node):
        # One of several servers may lag behind: ask once more, over another connection.
        node = read_node(run, voice, doing, uid, fresh=True)
    standing = judged(node, doing.time_added).standing
    if standing is Standing.OURS:
        verdict = Verdict.APPLIED
    elif standing is Standing.ALREADY:
        verdict = Verdict.ALREADY
    elif _unwritten(doing, node) or doing.moved_told:
        verdict = Verdict.NOT_APPLIED
    else:
        verdict = Verdict.MOVED
    version, by = node.resource_version, written_by(doing.operation, node)
    note_verdict(run, voice, doing, verdict, uid=node.uid, resource_version=version, changed_by=by)
    run.say(WasReadBack(at_ns=run.now_ns, operation=doing.operation, verdict=verdict))
    return verdict


def _unwritten(doing: Doing, node: LiveNode) -> bool:
    before = doing.before
    assert isinstance(before, NodeImage), "an intent for a node holds its image"
    return node.resource_version == before.resource_version


def _mutation(run: Working, node: LiveNode, wanted: NodeImage, marked: str) -> Mutation:
    target = Target("Node", node.name, node.uid)
    before = image(node)
    if same_taints(wanted.taints, node.raw_taints):
        request = run.api.cordon_request(node, wanted.unschedulable)
        marked = ""
    else:
        request = run.api.taint_request(node, wanted.taints)
    return Mutation(request, target, before, wanted, marked)
