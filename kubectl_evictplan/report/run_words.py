"""What a run tells, in words: one line for each event that a person wants to know.

Lines are plain text with names in ASCII; they are meant for a pipe, a log, and the end of the live
view. Strings of servers are escaped.
"""

from __future__ import annotations

from kubectl_evictplan.apply import progress
from kubectl_evictplan.apply.cluster import Outcome
from kubectl_evictplan.apply.endings import EndCode, Ending
from kubectl_evictplan.apply.lock import ENDLESS, EXPIRED
from kubectl_evictplan.apply.records import Kept, Verdict
from kubectl_evictplan.display import escape
from kubectl_evictplan.plans.document import AnyOperation, Evict
from kubectl_evictplan.report.words import name

# The title of the evictions that taking back leaves.
CANNOT_BE_UNDONE = "Evictions, which cannot be undone"

_MESSAGE_COLUMNS_MAX = 200
_NAMED_MAX = 5
# Statuses below it say that it was done.
_NOT_DONE_STATUS = 300

_OUTCOMES = {
    Outcome.APPLIED: "done",
    Outcome.ALREADY: "was so already",
    Outcome.ABSENT: "is not there",
    Outcome.REPLACED: "was replaced by another of its name, which is left alone",
    Outcome.CONFLICT: "was changed meanwhile",
    Outcome.BUDGET: "a budget does not allow it now",
    Outcome.NOT_NOW: "the server asks to come again later",
    Outcome.SEVERAL_BUDGETS: "several budgets cover the pod, so the server refuses for good",
    Outcome.UNAUTHENTICATED: "the credentials are not accepted",
    Outcome.REFUSED: "the server refuses",
    Outcome.CHANGED: "a webhook made something else of it",
    Outcome.NOT_SENT: "no connection, nothing was sent",
    Outcome.UNKNOWN: "no answer: looking what became of it",
}
_VERDICTS = {
    Verdict.APPLIED: "was executed",
    Verdict.NOT_APPLIED: "was not executed",
    Verdict.ALREADY: "somebody else did it",
    Verdict.MOVED: "was not executed, or somebody took it back",
    Verdict.ABSENT: "is gone",
    Verdict.REPLACED: "was replaced by another of its name, which is left alone",
    Verdict.DELETING: "is being deleted",
    Verdict.REVERTED: "somebody took back what this run did",
}
_PAUSES = {
    "offset": "until the time that the plan has for the next change",
    "unknown": "an eviction without an answer may still be carried out",
    "settle": "settling before the next node",
    "until-ready": "until replacements are ready",
    "busy": "the server asks to come again later",
    "conflict": "somebody else changed the node",
    "unreachable": "the server does not answer",
}
_LOCKS = {
    "held": "holding the lock in the cluster",
    "taken-over": "taking over a lock that had expired",
    "not-used": "without the lock in the cluster",
    "released": "the lock is given back",
}
KEPT = {
    Kept.UNSURE: "nobody can tell whether it was this run's doing",
    Kept.NODE_GONE: "the node is gone",
    Kept.NODE_RECREATED: "another node has its name now",
    Kept.UNDONE_ALREADY: "somebody has taken it back already",
    Kept.CHANGED_SINCE: "somebody has made something else of it",
    Kept.CANNOT_BE_UNDONE: "an eviction cannot be undone",
}
ENDINGS = {
    EndCode.FINISHED: "everything is done",
    EndCode.NOT_EMPTY: "everything is done, but pods that are not in the plan are still there",
    EndCode.TIMED_OUT: "not all pods were evicted within the time for their node",
    EndCode.REFUSED: "the server refuses",
    EndCode.FORBIDDEN: "the server, or a webhook of it, does not allow it",
    EndCode.CHANGED: "a webhook made something else of it",
    EndCode.DRIFT: "the cluster is not what the plan says",
    EndCode.ABSENT: "what is left of nodes that are gone was left out, everything else is done",
    EndCode.UNREVIEWED: "pods that nobody reviewed would go by this taint, so it was not put on",
    EndCode.REVERTED: "somebody took back what this run did",
    EndCode.CHANGED_SINCE: "what somebody else has changed since is left alone",
    EndCode.UNSURE: "what nobody can tell to be this run's doing is left alone",
    EndCode.LOCKED: "another run holds the lock",
    EndCode.LOCK_LOST: "the lock could not be kept",
    EndCode.JOURNAL_BEHIND: "this journal is not the newest of its run: an old copy, or lines of it were lost"
    " or changed. Use the original, or make a new one with apply --adopt",
    EndCode.DENIED: "the plan needs rights that the user does not have",
    EndCode.UNAUTHENTICATED: "the credentials are not accepted any more",
    EndCode.UNREADABLE: "something that has to be looked at may not be read",
    EndCode.UNREACHABLE: "no usable answer came from the server",
    EndCode.UNKNOWN: "nobody can tell whether a change was executed or taken back; going on makes it again",
    EndCode.ABORTED: "a condition of --abort-if is met",
    EndCode.INTERRUPTED: "interrupted",
    EndCode.JOURNAL: "the journal cannot be written, so nothing more was sent",
    EndCode.JOURNAL_LOST: "the journal cannot be written: the last result stands only here",
}

_TAKEN_BACK = "what this run changed is taken back"


def told(operation: AnyOperation) -> str:
    """Return an operation in words, with its names made visible."""
    return escape(operation.told, ascii_only=True)


def server_said(message: str) -> str:
    """Return what a server said, fit to be shown; "" when it said nothing."""
    return escape(message, max_columns=_MESSAGE_COLUMNS_MAX)


def outcome_words(outcome: Outcome) -> str:
    """Return what became of an operation."""
    return _OUTCOMES[outcome]


def ending_words(ending: Ending, *, back: bool = False) -> str:
    """Return why a run, or its rollback, ended: the reason, whose doing, the server's words."""
    finished_back = back and ending.code is EndCode.FINISHED
    parts = [_TAKEN_BACK if finished_back else ENDINGS[ending.code]]
    if ending.code in (EndCode.LOCKED, EndCode.LOCK_LOST):
        return _lock_words(parts[0], ending)
    if ending.is_absent:
        parts.append(f"node {name(ending.node)} is gone")
    if ending.condition:
        parts[0] += f" ({escape(ending.condition, ascii_only=True)})"
    if ending.signal:
        parts[0] += f" by {ending.signal}"
    if ending.objects:
        parts.append(named(ending.objects))
    if ending.unasked:
        parts.append(f"there is besides {named(ending.unasked)}")
    if ending.missing:
        parts.append(f"there is not {named(ending.missing)}")
    if ending.changed_by:
        last = ending.changed_by[-1]
        parts.append(f"last written by {name(last.manager)} at {name(last.time)}")
    if ending.message:
        parts.append(server_said(ending.message))
    return ": ".join(parts)


def _lock_words(why: str, ending: Ending) -> str:
    """Return whose the lock is, since and until when, and what can be done about a stale one."""
    holder, since, until, namespace, lease = (*ending.objects, "", "", "", "", "")[:5]
    parts = [why]
    if holder:
        times = [f"since {name(since)}"] * bool(since) + [f"until {name(until)}"] * bool(until)
        parts.append(", ".join((name(holder), *times)))
    if ending.message == EXPIRED:
        parts.append(
            "it has expired; when that process is certainly dead, --steal-lock takes it over"
        )
    elif ending.message == ENDLESS:
        shown = f"kubectl get lease {name(lease)} -n {name(namespace)} -o yaml"
        parts.append(
            "it says no time, so it never expires by itself and --steal-lock cannot take it over;"
            f" see {shown}, and delete it when its holder is certainly dead"
        )
    elif ending.message:
        parts.append(server_said(ending.message))
    return ": ".join(parts)


def named(objects: tuple[str, ...]) -> str:
    """Return the first few names and how many more there are."""
    shown = ", ".join(name(one) for one in objects[:_NAMED_MAX] if one)
    more = len(objects) - _NAMED_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def line(event: progress.AnyProgress) -> str | None:
    """Return the event as one line without its time; None when nobody needs to know it."""
    match event:
        case progress.RunStarted():
            return _started(event)
        case progress.RunEnded():
            return f"ended: {ending_words(event.ending, back=event.rollback)}"
        case progress.CheckMade():
            detail = f": {server_said(event.check.detail)}" if event.check.detail else ""
            return f"check {event.check.name}: {event.check.verdict}{detail}"
        case progress.LockNoted():
            holder = f" as {name(event.holder)}" if event.holder else ""
            return _LOCKS.get(event.what, event.what) + holder
        case progress.ClockGap():
            return f"the clock jumped by {event.seconds:.0f} s: everything is checked again"
        case progress.ServerAway():
            said = server_said(event.message)
            return f"the server is away: nothing is sent, asking again for up to {event.seconds:.0f} s ({said})"
        case progress.ServerBack():
            return f"the server answers again, after {event.seconds:.0f} s"
        case progress.ServerChanged():
            versions = f"{name(event.before)} before, {name(event.after)} now"
            return f"the API server was changed: {versions}: rights and APIs are checked again"
        case progress.Paused():
            return _paused(event)
        case progress.NodeDone():
            others = f"; not in the plan and still there: {named(event.others)}"
            return f"{name(event.node)}: done{others if event.others else ''}"
        case progress.RequestSent() | progress.OperationStarted() | progress.NodeStarted():
            return None
        case _:
            return _about_operation(event)


def _started(event: progress.RunStarted) -> str:
    what = "rollback" if event.rollback else "resumed" if event.resumed else "begins"
    # No rollback is about evictions: they stay.
    count = sum(not (event.rollback and isinstance(one, Evict)) for one in event.operations)
    done = f", {len(event.finished)} done already" if event.finished else ""
    return f"run {event.run_id} {what}: {count} operation{'s' * (count != 1)}{done}"


def _paused(event: progress.Paused) -> str:
    where = f"{name(event.node)}: " if event.node else ""
    long = "" if event.seconds is None else f" for {event.seconds:.0f} s"
    about = f" ({named(event.objects)})" if event.objects else ""
    return f"{where}waiting{long}: {_PAUSES.get(event.why, event.why)}{about}"


def _about_operation(event: progress.AnyProgress) -> str | None:
    match event:
        case progress.Answered():
            # What is done, and what waits, has an event of its own.
            if event.outcome in (Outcome.APPLIED, Outcome.BUDGET):
                return None
            why = ": ".join(filter(None, (str(event.status), server_said(event.message))))
            said = f" ({why})" if event.status >= _NOT_DONE_STATUS else ""
            return f"{told(event.operation)}: {_OUTCOMES[event.outcome]}{said}"
        case progress.WasReadBack():
            return f"{told(event.operation)}: {_VERDICTS[event.verdict]}"
        case progress.BudgetWaits():
            return _waits(event)
        case progress.EvictionAccepted():
            return f"{told(event.operation)}: {'accepted' if event.ours else 'is being deleted'}"
        case progress.PodGone():
            verdict = Verdict.REPLACED if event.replaced else Verdict.ABSENT
            return f"{told(event.operation)}: {_VERDICTS[verdict]}"
        case progress.OperationDone():
            if isinstance(event.operation, Evict):
                return None
            return f"{told(event.operation)}: {_OUTCOMES[event.outcome]}"
        case progress.OperationLeft():
            said = f": {server_said(event.message)}" if event.message else ""
            return f"{told(event.operation)}: given up, {_OUTCOMES[event.outcome]}{said}"
        case progress.TakenBack():
            return f"{told(event.operation)}: taken back{' by an earlier rollback' * event.earlier}"
        case progress.LeftAlone():
            return f"{told(event.operation)}: left alone, {KEPT[event.why]}"
        case _:
            raise AssertionError(f"{type(event).__name__} is about no operation")


def _waits(event: progress.BudgetWaits) -> str | None:
    """Asked for every five seconds, maybe for hours: told less and less often."""
    if event.attempts & (event.attempts - 1):
        return None
    causes = f" ({named(event.causes)})" if event.causes else ""
    said = f": {server_said(event.message)}" if event.message else ""
    again = f"again in {event.retry_seconds:.0f} s"
    return f"{told(event.operation)}: {_OUTCOMES[event.outcome]}{causes}{said}; {again}"
