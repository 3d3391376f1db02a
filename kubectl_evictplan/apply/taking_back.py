"""Taking back what a run did: own taints and cordons only, newest first.

What several operations of the run did to one taint, or to unschedulable, is taken back at once: from
what the newest left to what the oldest found. So a taint that was put on and taken off again is
never put on once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from kubectl_evictplan.apply import preflight
from kubectl_evictplan.apply.changes import (
    Judgement,
    RawTaint,
    Standing,
    image,
    owns,
    same_taint,
    slot,
)
from kubectl_evictplan.apply.cluster import Access, LiveNode
from kubectl_evictplan.apply.endings import EndCode, Ended, Ending
from kubectl_evictplan.apply.evictions import settle_eviction
from kubectl_evictplan.apply.looking_again import SameServer
from kubectl_evictplan.apply.node_changes import change_node, read_back, settle
from kubectl_evictplan.apply.preflight import CheckFailed
from kubectl_evictplan.apply.progress import LeftAlone, TakenBack
from kubectl_evictplan.apply.records import Kept, NodeImage, RollbackLeft, Verdict
from kubectl_evictplan.apply.sending import TAKING_BACK, note_already
from kubectl_evictplan.apply.states import Doing, Phase, RunState, reversal
from kubectl_evictplan.apply.working import Working
from kubectl_evictplan.plans.document import AddTaint, Evict, RemoveTaint
from kubectl_evictplan.prediction.document import TaintReference


def take_back(run: Working, lock_namespace: str, lock: Callable[[], None]) -> Ending:
    """Take back what the run did; may raise Ended.

    ``lock`` takes the lock, once cluster and rights are looked at; it does nothing where the run holds it.
    """
    state = run.state
    needed = _needed(state, lock_namespace)
    try:
        identity = run.read(run.api.identity)
        preflight.same_cluster(state.begin.cluster, identity)
        preflight.rights(run.api, needed)
    except CheckFailed as failed:
        raise Ended(failed.ending) from failed
    server = SameServer(state.begin.cluster, needed)
    server.begin(run, identity)
    run.watches = (server,)
    lock()
    uids = {node.name: node.uid for node in state.begin.nodes}
    _settle_unknown(run, uids)
    for place in reversed(_places(state.operations.values())):
        _take_back_place(run, place, uids)
    for doing in state.operations.values():
        if isinstance(doing.operation, Evict):
            # One that was asked for and refused never happened; there is nothing to undo.
            went = doing.executed or doing.phase in (Phase.ACCEPTED, Phase.DONE)
            if doing.attempts and went:
                _leave(run, doing, Kept.CANNOT_BE_UNDONE)
        elif doing.attempts and doing.phase is Phase.DONE and not doing.executed:
            _leave(run, doing, Kept.UNSURE)
    left = [doing for doing in state.reversals.values() if doing.kept in _LEFT_BEHIND]
    if left:
        told = tuple(doing.operation.told for doing in left)
        unsure = all(doing.kept is Kept.UNSURE for doing in left)
        return Ending(EndCode.UNSURE if unsure else EndCode.CHANGED_SINCE, objects=told)
    return Ending(EndCode.FINISHED)


# What the operator has to look at.
_LEFT_BEHIND = (Kept.CHANGED_SINCE, Kept.UNSURE)


class Place(NamedTuple):
    """One thing that can be taken back: a taint's key and effect on a node, or unschedulable.

    ``doings``: the operations that changed it, oldest first. ``taint`` None: unschedulable.
    """

    node: str
    taint: TaintReference | None
    doings: tuple[Doing, ...]

    @property
    def oldest(self) -> Doing:
        """What found it as it was before the run."""
        return self.doings[0]

    @property
    def newest(self) -> Doing:
        """What left it as the run wants it; its number stands for the place in the journal."""
        return self.doings[-1]


def _places(doings: Iterable[Doing]) -> list[Place]:
    """Return what this run has changed of nodes, in the order of the newest change."""
    found: dict[tuple[str, str, str], Place] = {}
    for doing in doings:
        operation = doing.operation
        if not doing.executed or isinstance(operation, Evict):
            continue
        taint = operation.taint if isinstance(operation, AddTaint | RemoveTaint) else None
        key = (operation.node, taint.key if taint else "", taint.effect if taint else "")
        before = found.pop(key, Place(operation.node, taint, ()))
        found[key] = before._replace(doings=(*before.doings, doing))
    return list(found.values())


def _take_back_place(run: Working, place: Place, uids: Mapping[str, str]) -> None:
    doing = reversal(run.state, place.newest.operation.number)
    uid = uids[place.node]
    earlier = doing.phase is Phase.DONE
    try:
        kept = _take_back_newest(run, place, doing, uid)
    except Ended as end:
        if end.ending.code is not EndCode.DRIFT:
            raise
        # Written, gone or recreated between our read and our patch: look again at what it is now.
        kept = _kept(run, place, uid)
        if kept is None:
            raise
    _tell(run, place, kept, earlier=earlier)


def _take_back_newest(run: Working, place: Place, doing: Doing, uid: str) -> Kept | None:
    """Take the place back unless that is done; return why it is left alone, None when it is not."""

    def judged(node: LiveNode, _marked: str) -> Judgement:
        return _judge(place, node)

    if doing.phase is Phase.UNKNOWN:
        doing.moved_told = True
        if read_back(run, TAKING_BACK, doing, uid, judged) is not Verdict.NOT_APPLIED:
            return None
    elif doing.phase is Phase.DONE:
        return None
    kept = _kept(run, place, uid)
    if kept is None:
        change_node(run, TAKING_BACK, doing, uid, judged)
    return kept


def _tell(run: Working, place: Place, kept: Kept | None, *, earlier: bool) -> None:
    for one in place.doings:
        mine = reversal(run.state, one.operation.number)
        if kept is not None:
            _leave(run, one, kept)
            continue
        if mine.phase is not Phase.DONE:
            note_already(run, TAKING_BACK, mine)
        run.say(TakenBack(at_ns=run.now_ns, operation=one.operation, earlier=earlier))


def _leave(run: Working, doing: Doing, why: Kept) -> None:
    number = doing.operation.number
    if reversal(run.state, number).phase is not Phase.LEFT:
        run.note(RollbackLeft(number=number, why=why))
        run.say(LeftAlone(at_ns=run.now_ns, operation=doing.operation, why=why))


def _kept(run: Working, place: Place, uid: str) -> Kept | None:
    """Tell why the place must be left alone, None when it may be taken back."""
    number = place.newest.operation.number
    node = run.read_node(place.node, number, fresh=True)
    if node is None:
        return Kept.NODE_GONE
    if node.uid != uid:
        return Kept.NODE_RECREATED
    match _judge(place, node).standing:
        case Standing.VIOLATED:
            return Kept.CHANGED_SINCE
        case Standing.ALREADY:
            return Kept.UNDONE_ALREADY
        case _:
            return None


def _judge(place: Place, node: LiveNode) -> Judgement:
    """TO_DO: as the run left it; OURS: nothing to do; ALREADY: another did; VIOLATED: neither."""
    left, found = place.newest.wanted, place.oldest.before
    assert left is not None, "what was executed had something to do"
    assert isinstance(found, NodeImage), "a node's change holds its image"
    if place.taint is None:
        return _judge_cordon(node, found.unschedulable, left.unschedulable)
    return _judge_taint(node, place.taint, found, left)


def _judge_cordon(node: LiveNode, found: bool, left: bool) -> Judgement:
    if node.unschedulable != left:
        return Judgement(Standing.ALREADY)
    if found == left:
        return Judgement(Standing.OURS)
    others = any("unschedulable" in change.fields for change in node.changed_by)
    if others and not owns(node, "unschedulable"):
        return Judgement(Standing.VIOLATED)
    return Judgement(Standing.TO_DO, msgspec.structs.replace(image(node), unschedulable=found))


def _judge_taint(
    node: LiveNode, taint: TaintReference, found: NodeImage, left: NodeImage
) -> Judgement:
    index = slot(node.raw_taints, taint)
    current = None if index is None else node.raw_taints[index]
    before_index = slot(found.taints, taint)
    before = None if before_index is None else found.taints[before_index]
    left_index = slot(left.taints, taint)
    ours = None if left_index is None else left.taints[left_index]
    if not _same(current, ours):
        return Judgement(Standing.ALREADY if _same(current, before) else Standing.VIOLATED)
    if _same(current, before):
        return Judgement(Standing.OURS)
    taints = [one for place, one in enumerate(node.raw_taints) if place != index]
    if before is not None:
        place = index if index is not None else before_index
        assert place is not None, "a taint that was there had a place"
        taints.insert(place, before)
    return Judgement(Standing.TO_DO, msgspec.structs.replace(image(node), taints=tuple(taints)))


def _same(one: RawTaint | None, other: RawTaint | None) -> bool:
    if one is None or other is None:
        return one is other
    return same_taint(one, other)


def _settle_unknown(run: Working, uids: Mapping[str, str]) -> None:
    """Find out what a process that died has left open, before anything is taken back."""
    for doing in run.state.operations.values():
        if doing.phase is not Phase.UNKNOWN:
            continue
        if isinstance(doing.operation, Evict):
            settle_eviction(run, doing)
            continue
        # A patch that was not executed by now never will be, and what is not there need not go.
        doing.moved_told = True
        try:
            settle(run, doing, uids)
        except Ended as end:
            if end.ending.code is not EndCode.DRIFT:
                raise


def _needed(state: RunState, lock_namespace: str) -> list[Access]:
    changes = [
        doing.operation
        for doing in state.operations.values()
        if doing.attempts and not isinstance(doing.operation, Evict)
    ]
    return list(preflight.needed(changes, state.begin.execution, (), {}, lock_namespace))
