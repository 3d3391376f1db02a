"""What a run tells while it works: typed events, for the live view, plain lines and the ledger.

``at_ns`` is the server's time. Strings of the cluster are unescaped. Events say nothing that the
journal does not know, except pauses; losing them loses no fact.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubectl_evictplan.apply.cluster import Outcome
from kubectl_evictplan.apply.endings import Ending
from kubectl_evictplan.apply.records import Check, Kept, Verdict
from kubectl_evictplan.plans.document import AnyOperation


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One event."""

    at_ns: int


class RunStarted(Progress, frozen=True, kw_only=True):
    """The journal is open; ``finished`` are the numbers of what is done already when a run is resumed."""

    run_id: str
    operations: tuple[AnyOperation, ...]
    finished: frozenset[int] = frozenset()
    resumed: bool = False
    rollback: bool = False


class CheckMade(Progress, frozen=True, kw_only=True):
    """Something was looked at before the first mutation."""

    check: Check


class OperationStarted(Progress, frozen=True, kw_only=True):
    """An operation's turn has come."""

    operation: AnyOperation


class RequestSent(Progress, frozen=True, kw_only=True):
    """A mutation goes out now; its intent is durable."""

    operation: AnyOperation
    attempt: int


class Answered(Progress, frozen=True, kw_only=True):
    """Its answer, as far as one came."""

    operation: AnyOperation
    attempt: int
    outcome: Outcome
    status: int
    message: str


class WasReadBack(Progress, frozen=True, kw_only=True):
    """What became of an operation was looked up."""

    operation: AnyOperation
    verdict: Verdict


class BudgetWaits(Progress, frozen=True, kw_only=True):
    """A budget (or a server that is busy, by ``outcome``) holds an eviction up."""

    operation: AnyOperation
    attempts: int
    outcome: Outcome
    causes: tuple[str, ...]
    message: str
    retry_seconds: float


class EvictionAccepted(Progress, frozen=True, kw_only=True):
    """The pod is being deleted, by us or by another (``ours``)."""

    operation: AnyOperation
    ours: bool


class PodGone(Progress, frozen=True, kw_only=True):
    """The object is gone, or its name belongs to another UID (``replaced``)."""

    operation: AnyOperation
    replaced: bool


class OperationDone(Progress, frozen=True, kw_only=True):
    """The operation is finished; ``outcome`` says how."""

    operation: AnyOperation
    outcome: Outcome


class OperationLeft(Progress, frozen=True, kw_only=True):
    """The operation is given up."""

    operation: AnyOperation
    outcome: Outcome
    message: str


class NodeStarted(Progress, frozen=True, kw_only=True):
    """The first operation of a node's turn begins: its change, or its evictions."""

    node: str


class NodeDone(Progress, frozen=True, kw_only=True):
    """A node's turn is over; ``others`` are pods that are not in the plan and keep it from empty."""

    node: str
    others: tuple[str, ...]


class Paused(Progress, frozen=True, kw_only=True):
    """Nothing is sent for a while; ``seconds`` None: until it is so.

    ``why``: "offset" (the operation is planned for later), "settle", "until-ready", "busy" (the
    server said so), "conflict", "unreachable", "unknown" (a request without an answer may still be
    at work). ``objects``: what is waited for.
    """

    why: str
    seconds: float | None = None
    node: str = ""
    objects: tuple[str, ...] = ()


class ClockGap(Progress, frozen=True, kw_only=True):
    """The machine slept, or its clock was set: everything is checked again."""

    seconds: float


class ServerAway(Progress, frozen=True, kw_only=True):
    """No answer comes; it is waited for, ``seconds`` more at most. ``message``: how it failed last."""

    seconds: float
    message: str


class ServerBack(Progress, frozen=True, kw_only=True):
    """The server answers again, so long after it was asked first."""

    seconds: float


class ServerChanged(Progress, frozen=True, kw_only=True):
    """The API server is of another release than before: what the run needs of it is checked again."""

    before: str
    after: str


class LockNoted(Progress, frozen=True, kw_only=True):
    """The lock: "held", "taken-over" (it had expired), "not-used", "released"."""

    what: str
    holder: str = ""


class TakenBack(Progress, frozen=True, kw_only=True):
    """A rollback has undone this operation; ``earlier``: an earlier one had, and nothing was sent now."""

    operation: AnyOperation
    earlier: bool = False


class LeftAlone(Progress, frozen=True, kw_only=True):
    """A rollback does not touch this operation."""

    operation: AnyOperation
    why: Kept


class RunEnded(Progress, frozen=True, kw_only=True):
    """The last event, of a run or of a rollback."""

    ending: Ending
    exit_code: int
    rollback: bool = False


AnyProgress = (
    RunStarted
    | CheckMade
    | OperationStarted
    | RequestSent
    | Answered
    | WasReadBack
    | BudgetWaits
    | EvictionAccepted
    | PodGone
    | OperationDone
    | OperationLeft
    | NodeStarted
    | NodeDone
    | Paused
    | ClockGap
    | ServerAway
    | ServerBack
    | ServerChanged
    | LockNoted
    | TakenBack
    | LeftAlone
    | RunEnded
)
Tell = Callable[[AnyProgress], None]
