"""What a journal tells a ledger: when each operation really began, and which pods this run evicted when."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubectl_evictplan.apply.cluster import Outcome
from kubectl_evictplan.apply.records import (
    Adopted,
    AnyRecord,
    Begin,
    Intent,
    Result,
    RollbackIntent,
    RollbackResult,
    RollbackVerify,
    Verdict,
    Verify,
)
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.sightings import Interval
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.plans.document import AnyOperation, Evict
from kubectl_evictplan.plans.expectation import (
    DONE,
    GONE_BY_ANOTHER,
    NOT_DONE,
    UNKNOWN_OUTCOME,
    Begun,
    Start,
)
from kubectl_evictplan.plans.sightings import OwnDeletion


class JournalEvidence(msgspec.Struct, frozen=True):
    """``start`` is None as long as nothing was sent."""

    fingerprint: str
    start: Start | None
    begun: tuple[Begun, ...]
    deletions: tuple[OwnDeletion, ...]


class _Told:
    """What the records say of one operation."""

    def __init__(self, operation: AnyOperation) -> None:
        self.operation = operation
        self.first_sent_ns: int | None = None
        self.sent_ns: int | None = None
        self.outcome: Outcome | None = None
        # From sending to the answer of what was executed.
        self.executed: Interval | None = None
        self.is_unknown = False
        self.gone: Interval | None = None
        self.undone_ns: int | None = None
        # How much later than ``first_sent_ns`` it may have been.
        self.seconds_ns = 0

    def note(self, record: AnyRecord, at_ns: int) -> None:
        """Take in one record, in their order."""
        match record:
            case Intent():
                self.sent_ns = at_ns
                if self.first_sent_ns is None:
                    self.first_sent_ns = at_ns
                self.is_unknown = True
            case Result():
                self.outcome = record.outcome
                self.is_unknown = record.outcome is Outcome.UNKNOWN
                if record.outcome in (Outcome.APPLIED, Outcome.ALREADY):
                    self._was_executed(at_ns)
            case Verify():
                self._note_verdict(record.verdict, at_ns)

    def adopt(self, record: Adopted) -> None:
        """Take in what the cluster showed of a run whose journal is lost: when, at most to a second."""
        since_ns = parse_rfc3339_ns(record.done_at) if record.done_at else None
        if since_ns is None or record.verdict is not Verdict.APPLIED:
            self.is_unknown = True
            return
        self.first_sent_ns = since_ns
        self.executed = Interval(since_ns, since_ns + SECOND_NS)
        self.seconds_ns = SECOND_NS

    def _note_verdict(self, verdict: Verdict, at_ns: int) -> None:
        if verdict in (Verdict.APPLIED, Verdict.ALREADY, Verdict.DELETING):
            self._was_executed(at_ns)
        elif verdict in (Verdict.ABSENT, Verdict.REPLACED) and isinstance(self.operation, Evict):
            if self.sent_ns is not None:
                self._was_executed(at_ns)
            since = at_ns if self.executed is None else self.executed.earliest_ns
            self.gone = Interval(min(since, at_ns), at_ns)
        elif verdict is Verdict.NOT_APPLIED:
            self.is_unknown = False
            return
        self.is_unknown = verdict is Verdict.MOVED

    def _was_executed(self, at_ns: int) -> None:
        if self.executed is None:
            since = at_ns if self.sent_ns is None else self.sent_ns
            self.executed = Interval(min(since, at_ns), at_ns)

    def begun(self) -> Begun:
        """Return when it began: an eviction when it was first asked for, anything else when done."""
        number = self.operation.number
        if isinstance(self.operation, Evict) and self.first_sent_ns is not None:
            refused = self.executed is None and self.gone is None and not self.is_unknown
            at = Interval(self.first_sent_ns, self.first_sent_ns)
            return Begun(number, at, refused=refused)
        if self.executed is not None:
            return Begun(number, self.executed, DONE, self.undone_ns)
        if self.is_unknown:
            return Begun(number, None, UNKNOWN_OUTCOME)
        if self.gone is not None:
            return Begun(number, None, GONE_BY_ANOTHER)
        return Begun(number, None, NOT_DONE)


def evidence_of(records: Iterable[AnyRecord]) -> JournalEvidence:
    """Return what a journal tells; its records are in order, the first is the beginning."""
    fingerprint, told = "", dict[int, _Told]()
    for record in records:
        at_ns = parse_rfc3339_ns(record.at) or 0
        match record:
            case Begin():
                fingerprint = record.plan_fingerprint
                told = {one.number: _Told(one) for one in record.operations}
            case RollbackResult(outcome=Outcome.APPLIED) | RollbackVerify(verdict=Verdict.APPLIED):
                told[record.number].undone_ns = at_ns
            case RollbackIntent() | RollbackResult() | RollbackVerify():
                pass
            case Adopted():
                told[record.number].adopt(record)
            case Intent() | Result() | Verify():
                told[record.number].note(record, at_ns)
    sent = [
        Interval(one.first_sent_ns, one.first_sent_ns + one.seconds_ns)
        for one in told.values()
        if one.first_sent_ns is not None
    ]
    start = Start(min(sent), "journal") if sent else None
    begun = tuple(one.begun() for one in told.values())
    return JournalEvidence(fingerprint, start, begun, tuple(_deletions(told.values())))


def _deletions(told: Iterable[_Told]) -> Iterable[OwnDeletion]:
    for one in told:
        operation = one.operation
        if isinstance(operation, Evict) and (one.executed or one.gone):
            yield OwnDeletion(operation.uid, one.executed, one.gone)
