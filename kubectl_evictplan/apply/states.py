"""What a journal adds up to: the state of every operation, record by record.

One function for a run at work and for one that is read: ``note``. So what a run believes while it
works is by construction what ``--resume``, ``--rollback`` and ``--status`` will read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum

from kubectl_evictplan.apply.cluster import Outcome
from kubectl_evictplan.apply.endings import Ending
from kubectl_evictplan.apply.records import (
    Adopted,
    AnyRecord,
    Begin,
    End,
    Intent,
    Interrupted,
    Kept,
    Left,
    NodeEnd,
    NodeImage,
    PodImage,
    Preflight,
    Result,
    Resume,
    RollbackBegin,
    RollbackEnd,
    RollbackIntent,
    RollbackLeft,
    RollbackResult,
    RollbackVerify,
    Server,
    Verdict,
    Verify,
    Wait,
    Workloads,
)
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.plans.document import AnyOperation, ClusterIdentity, Evict


class Phase(Enum):
    """How far an operation is."""

    # Nothing was sent, or what was sent was not executed.
    WAITING = "waiting"
    # A mutation was meant to be sent; nobody has said yet what became of it.
    UNKNOWN = "unknown"
    # The eviction is accepted, the pod still there.
    ACCEPTED = "accepted"
    DONE = "done"
    # Given up.
    LEFT = "left"


@dataclass(slots=True)
class Doing:
    """One operation, or its taking back, as far as the journal tells.

    ``executed``: at least one mutation of it was executed by this run. ``moved``: reading back could
    not tell an execution that was reverted from none; ``moved_told``: the run ended because of it.
    """

    operation: AnyOperation
    phase: Phase = Phase.WAITING
    outcome: Outcome | None = None
    attempts: int = 0
    executed: bool = False
    moved: bool = False
    moved_told: bool = False
    message: str = ""
    causes: tuple[str, ...] = ()
    # Before the last attempt, and before the first.
    before: NodeImage | PodImage | None = None
    first_before: NodeImage | PodImage | None = None
    wanted: NodeImage | None = None
    time_added: str = ""
    resource_version: str = ""
    # RFC 3339, by the server's clock: the last intent, and when it was done.
    sent_at: str = ""
    done_at: str = ""
    kept: Kept | None = None


@dataclass(slots=True)
class RunState:
    """Everything that a journal says, added up."""

    begin: Begin
    operations: dict[int, Doing]
    # Operations of which the rollback has said something.
    reversals: dict[int, Doing] = field(default_factory=dict)
    # Evictions that were accepted, or found to be under way.
    evicted: set[int] = field(default_factory=set)
    turns_done: dict[int, NodeEnd] = field(default_factory=dict)
    workloads: dict[str, dict[str, int]] = field(default_factory=dict)
    first_intent_ns: int | None = None
    last_at: str = ""
    preflight: Preflight | None = None
    server: ClusterIdentity | None = None
    ending: Ending | None = None
    exit_code: int | None = None
    rolling_back: bool = False
    # Whether it takes itself back when it fails: as it was begun, or gone on with last.
    takes_itself_back: bool = False
    # The run took itself back, because it failed.
    rolled_back_on_failure: bool = False
    rollback_ending: Ending | None = None
    rollback_exit_code: int | None = None
    resumed: int = 0

    @property
    def changed(self) -> bool:
        """Whether this run has changed anything in the cluster, as far as is known."""
        return any(doing.executed for doing in self.operations.values())

    @property
    def sent_nothing(self) -> bool:
        """Whether surely nothing was sent: of an adopted run nobody knows which evictions were its own."""
        return self.first_intent_ns is None and not self.begin.is_adopted

    @property
    def unknown(self) -> bool:
        """Whether it is unknown of any operation what became of it."""
        doings = (*self.operations.values(), *self.reversals.values())
        return any(doing.phase is Phase.UNKNOWN for doing in doings)

    def outdated(self, node: str) -> frozenset[str]:
        """Return the resourceVersions of a node from before what this run, or its rollback, made of it."""
        doings = (*self.operations.values(), *self.reversals.values())
        return frozenset(
            one.before.resource_version
            for one in doings
            if one.operation.node == node
            and isinstance(one.before, NodeImage)
            and one.outcome is Outcome.APPLIED
            and one.resource_version not in ("", one.before.resource_version)
        )

    def counts(self) -> dict[str, int]:
        """Return the number of operations in each phase, phases without any left out."""
        counted = Counter(doing.phase.value for doing in self.operations.values())
        return {phase.value: counted[phase.value] for phase in Phase if counted[phase.value]}

    def reversal_counts(self) -> dict[str, int]:
        """Return the same of what the rollback has said something about."""
        counted = Counter(doing.phase.value for doing in self.reversals.values())
        return {phase.value: counted[phase.value] for phase in Phase if counted[phase.value]}


def begun(begin: Begin) -> RunState:
    """Return the state after the first record."""
    doings = {one.number: Doing(one) for one in begin.operations}
    asked = begin.rollback_on_failure
    return RunState(begin, doings, last_at=begin.at, takes_itself_back=asked)


def note(state: RunState, record: AnyRecord) -> None:
    """Add one record behind the first.

    Raises KeyError for an operation that the first record does not name, ValueError for a record
    that cannot stand here.
    """
    state.last_at = record.at
    match record:
        case RollbackIntent() | RollbackResult() | RollbackVerify() | RollbackLeft():
            _note_operation(reversal(state, record.number), record)
        case Intent():
            if state.first_intent_ns is None:
                state.first_intent_ns = parse_rfc3339_ns(record.at)
            _note_operation(state.operations[record.number], record)
        case Result() | Verify() | Wait() | Left():
            if isinstance(record, Adopted) and record.before is not None:
                # Nobody knows better when the run began.
                at_ns = parse_rfc3339_ns(record.done_at or record.at) or 0
                state.first_intent_ns = min(state.first_intent_ns or at_ns, at_ns)
            doing = state.operations[record.number]
            _note_operation(doing, record)
            if isinstance(doing.operation, Evict) and doing.phase in (Phase.ACCEPTED, Phase.DONE):
                state.evicted.add(record.number)
        case Interrupted():
            pass
        case Begin():
            raise ValueError("a run begins once")
        case _:
            _note_run(state, record)


def _note_run(state: RunState, record: AnyRecord) -> None:
    match record:
        case Preflight():
            state.preflight = record
        case Server():
            state.server = record.cluster
        case Workloads():
            state.workloads[record.node] = record.ready
        case NodeEnd():
            state.turns_done[record.number] = record
        case Resume():
            state.takes_itself_back = record.rollback_on_failure
            _begin_again(state)
        case RollbackBegin():
            state.rolled_back_on_failure = record.on_failure
            _take_back_again(state)
        case RollbackEnd():
            state.rollback_ending, state.rollback_exit_code = record.ending, record.exit_code
        case End():
            state.ending, state.exit_code = record.ending, record.exit_code
            for doing in state.operations.values():
                doing.moved_told = doing.moved


def at_the_end(state: RunState, end: End) -> RunState:
    """Return the state as this last record will leave it, to say what can follow before it is written."""
    if isinstance(end, RollbackEnd):
        return replace(state, rollback_ending=end.ending, rollback_exit_code=end.exit_code)
    return replace(state, ending=end.ending, exit_code=end.exit_code)


def _begin_again(state: RunState) -> None:
    """What was given up is tried again: that is what going on means."""
    state.resumed += 1
    state.ending = state.exit_code = None
    for doing in state.operations.values():
        if doing.phase is Phase.LEFT:
            doing.phase = Phase.WAITING
        if doing.phase is Phase.WAITING:
            _forget_answer(doing)


def _forget_answer(doing: Doing) -> None:
    """An answer tells why something is not done until it is asked for anew, or known to have happened."""
    doing.outcome, doing.message, doing.causes = None, "", ()


def _take_back_again(state: RunState) -> None:
    """What was left alone is looked at again: others may have made room meanwhile."""
    state.rolling_back = True
    state.rollback_ending = state.rollback_exit_code = None
    for doing in state.reversals.values():
        if doing.phase is Phase.LEFT:
            doing.phase, doing.kept = Phase.WAITING, None


def reversal(state: RunState, number: int) -> Doing:
    """Return what is known of the taking back of an operation."""
    if number not in state.reversals:
        state.reversals[number] = Doing(state.operations[number].operation)
    return state.reversals[number]


def _note_operation(doing: Doing, record: AnyRecord) -> None:
    match record:
        case Intent():
            doing.phase, doing.attempts, doing.sent_at = Phase.UNKNOWN, record.attempt, record.at
            doing.before, doing.wanted = record.before, record.wanted
            doing.moved = doing.moved_told = False
            doing.time_added = record.time_added
            if doing.first_before is None:
                doing.first_before = record.before
        case Result():
            _note_result(doing, record)
        case Adopted():
            doing.before = doing.first_before = record.before
            doing.wanted, doing.time_added = record.wanted, record.time_added
            doing.attempts, doing.sent_at = int(record.before is not None), record.done_at
            _note_verdict(doing, record)
        case Verify():
            _note_verdict(doing, record)
        case Wait():
            doing.causes, doing.message = record.causes, record.message
        case Left():
            doing.outcome, doing.message = record.outcome, record.message
            doing.phase = Phase.LEFT
        case RollbackLeft():
            doing.phase, doing.kept = Phase.LEFT, record.why


def _note_result(doing: Doing, result: Result) -> None:
    doing.outcome, doing.message, doing.causes = result.outcome, result.message, result.causes
    match result.outcome:
        case Outcome.APPLIED:
            doing.executed, doing.resource_version = True, result.resource_version
            if isinstance(doing.operation, Evict):
                doing.phase = Phase.ACCEPTED
            else:
                _done(doing, result.at)
        case Outcome.ALREADY | Outcome.REPLACED:
            _done(doing, result.at)
        case Outcome.CHANGED if not isinstance(doing.operation, Evict):
            # Something was written: what, the live object tells.
            doing.executed = True
            doing.phase = Phase.LEFT
        case Outcome.UNKNOWN | Outcome.CHANGED:
            doing.phase = Phase.UNKNOWN
        case _:
            doing.phase = Phase.WAITING


_VERDICT_OUTCOMES = {
    Verdict.APPLIED: Outcome.APPLIED,
    Verdict.ALREADY: Outcome.ALREADY,
    Verdict.ABSENT: Outcome.ABSENT,
    Verdict.REPLACED: Outcome.REPLACED,
}


def _note_verdict(doing: Doing, verify: Verify) -> None:
    match verify.verdict:
        case Verdict.APPLIED:
            doing.executed = True
            doing.outcome = Outcome.APPLIED
            doing.resource_version = verify.resource_version
            _done(doing, verify.at)
        case Verdict.ALREADY | Verdict.ABSENT | Verdict.REPLACED:
            # A pod that we asked to go and that is gone went as asked.
            if not doing.executed:
                doing.outcome = _VERDICT_OUTCOMES[verify.verdict]
            if verify.verdict is Verdict.ALREADY or isinstance(doing.operation, Evict):
                _done(doing, verify.at)
            elif doing.phase is not Phase.DONE:
                doing.phase = Phase.LEFT
        case Verdict.DELETING:
            doing.phase = Phase.ACCEPTED
            _forget_answer(doing)
        case Verdict.NOT_APPLIED:
            doing.phase = Phase.WAITING
            _forget_answer(doing)
        case Verdict.MOVED:
            doing.phase, doing.moved = Phase.UNKNOWN, True
        case Verdict.REVERTED:
            pass


def _done(doing: Doing, at: str) -> None:
    doing.phase, doing.done_at, doing.moved = Phase.DONE, at, False
