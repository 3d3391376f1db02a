"""How a run ended: a fact with everything that belongs to it, and its exit code."""

from __future__ import annotations

from enum import Enum

import msgspec

from kubectl_evictplan.apply.cluster import SpecChange
from kubectl_evictplan.errors import (
    EXIT_ACCESS,
    EXIT_BAD_INPUT,
    EXIT_DONE,
    EXIT_DRIFT,
    EXIT_INTERRUPTED,
    EXIT_PARTLY,
    EXIT_UNKNOWN,
    EXIT_UNREACHABLE,
)


class EndCode(Enum):
    """Why a run ended, each with one exit code when nothing had been changed and one when it had."""

    FINISHED = "finished"
    # Everything was done, but pods that are not in the plan keep a node from being empty.
    NOT_EMPTY = "not-empty"
    # A pod was not evicted within the time given to its node.
    TIMED_OUT = "timed-out"
    # The server will not do it: invalid, too large, several budgets over one pod.
    REFUSED = "refused"
    # The server or an admission webhook does not allow it (403).
    FORBIDDEN = "forbidden"
    # A webhook made something else of it.
    CHANGED = "changed"
    # Something is not what the plan says: node or pod recreated, gone, written by another.
    DRIFT = "drift"
    # Everything else was done; nodes that are gone were left out, as asked for.
    ABSENT = "absent"
    # A NoExecute taint would evict pods that the plan does not have.
    UNREVIEWED = "unreviewed"
    # What this run did was undone by another.
    REVERTED = "reverted"
    # A rollback left alone what another has made something else of.
    CHANGED_SINCE = "changed-since"
    # A rollback left alone what nobody can tell to be this run's doing, and nothing else.
    UNSURE = "unsure"
    # Another run holds the lock, or took it.
    LOCKED = "locked"
    # The lock knows lines of this run that its journal does not have.
    JOURNAL_BEHIND = "journal-behind"
    # The lock could not be kept up: it may be another's by now.
    LOCK_LOST = "lock-lost"
    # The plan needs what the user may not do.
    DENIED = "denied"
    # The credentials are not accepted any more.
    UNAUTHENTICATED = "unauthenticated"
    # They are, and what has to be read may not be.
    UNREADABLE = "unreadable"
    # No server answers, or it says "not now" for too long.
    UNREACHABLE = "unreachable"
    # Nobody can tell whether a mutation was executed.
    UNKNOWN = "unknown"
    # A condition of --abort-if is met.
    ABORTED = "aborted"
    # A signal.
    INTERRUPTED = "interrupted"
    # The journal could not be written: the mutation was not sent.
    JOURNAL = "journal"
    # The journal could not be written after a mutation: its result is only known here.
    JOURNAL_LOST = "journal-lost"


# (nothing was changed, something was)
_EXIT_CODES = {
    EndCode.FINISHED: (EXIT_DONE, EXIT_DONE),
    EndCode.NOT_EMPTY: (EXIT_PARTLY, EXIT_PARTLY),
    EndCode.TIMED_OUT: (EXIT_PARTLY, EXIT_PARTLY),
    EndCode.REFUSED: (EXIT_DRIFT, EXIT_PARTLY),
    EndCode.FORBIDDEN: (EXIT_ACCESS, EXIT_PARTLY),
    EndCode.CHANGED: (EXIT_DRIFT, EXIT_PARTLY),
    EndCode.DRIFT: (EXIT_DRIFT, EXIT_DRIFT),
    EndCode.ABSENT: (EXIT_PARTLY, EXIT_PARTLY),
    EndCode.UNREVIEWED: (EXIT_DRIFT, EXIT_DRIFT),
    EndCode.REVERTED: (EXIT_DRIFT, EXIT_DRIFT),
    EndCode.CHANGED_SINCE: (EXIT_PARTLY, EXIT_PARTLY),
    EndCode.UNSURE: (EXIT_PARTLY, EXIT_PARTLY),
    EndCode.LOCKED: (EXIT_DRIFT, EXIT_DRIFT),
    EndCode.LOCK_LOST: (EXIT_DRIFT, EXIT_DRIFT),
    EndCode.JOURNAL_BEHIND: (EXIT_DRIFT, EXIT_DRIFT),
    EndCode.DENIED: (EXIT_ACCESS, EXIT_ACCESS),
    EndCode.UNAUTHENTICATED: (EXIT_ACCESS, EXIT_ACCESS),
    EndCode.UNREADABLE: (EXIT_ACCESS, EXIT_ACCESS),
    EndCode.UNREACHABLE: (EXIT_UNREACHABLE, EXIT_PARTLY),
    EndCode.UNKNOWN: (EXIT_UNKNOWN, EXIT_UNKNOWN),
    EndCode.ABORTED: (EXIT_DRIFT, EXIT_PARTLY),
    EndCode.INTERRUPTED: (EXIT_INTERRUPTED, EXIT_INTERRUPTED),
    EndCode.JOURNAL: (EXIT_BAD_INPUT, EXIT_PARTLY),
    EndCode.JOURNAL_LOST: (EXIT_UNKNOWN, EXIT_UNKNOWN),
}


# After these a run takes nothing back by itself: it did all it could, or was told to stop, or somebody has to look
# first, or nothing may be sent or written down any more.
_NEVER_TAKEN_BACK = frozenset(
    (
        EndCode.FINISHED,
        EndCode.NOT_EMPTY,
        EndCode.ABSENT,
        EndCode.INTERRUPTED,
        EndCode.UNKNOWN,
        EndCode.LOCKED,
        EndCode.LOCK_LOST,
        EndCode.JOURNAL_BEHIND,
        EndCode.JOURNAL,
        EndCode.JOURNAL_LOST,
    )
)


class Ending(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Why a run ended. ``number`` is the operation it ended at, 0 for none.

    ``message`` is the server's or the system's own words, ``changed_by`` who wrote the node's spec
    last, ``objects`` what is concerned (rules that are missing, pods in the way, the lock's
    holder), ``condition`` the words of an --abort-if. ``is_absent``: ``node`` is gone. ``unasked`` and
    ``missing``: what a webhook made of a patch, as taints and "unschedulable". Nothing is escaped.
    """

    code: EndCode
    number: int = 0
    node: str = ""
    message: str = ""
    changed_by: tuple[SpecChange, ...] = ()
    objects: tuple[str, ...] = ()
    condition: str = ""
    signal: str = ""
    is_absent: bool = False
    unasked: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def exit_code(ending: Ending, *, changed: bool, unknown: bool = False) -> int:
    """Return the exit code; an unknown outcome wins over everything but an interrupt."""
    if unknown and ending.code is not EndCode.INTERRUPTED:
        return EXIT_UNKNOWN
    return _EXIT_CODES[ending.code][changed]


def may_be_taken_back(ending: Ending) -> bool:
    """Whether --rollback-on-failure means a run that ended so."""
    return ending.code not in _NEVER_TAKEN_BACK


class Ended(Exception):
    """The run ends here: the way from anywhere in it to its end."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        super().__init__(ending.code.value)


class NodeAbsent(Ended):
    """It ends because a node of the plan is gone, unless it may go on without it."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(msgspec.structs.replace(ending, is_absent=True))
