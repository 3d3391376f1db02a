"""How a run ended, in words: why, what is done and what is not, and the commands that make sense now.

Verdict first. What comes from the cluster is escaped where it becomes part of a sentence.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from kubectl_evictplan.apply.cluster import SpecChange
from kubectl_evictplan.apply.endings import EndCode, Ending
from kubectl_evictplan.apply.records import Kept
from kubectl_evictplan.apply.run import RunResult
from kubectl_evictplan.apply.states import Doing, Phase, RunState
from kubectl_evictplan.apply.status import Status
from kubectl_evictplan.display import escape
from kubectl_evictplan.report.words import name

MESSAGE_COLUMNS_MAX = 200
_LISTED_MAX = 20
_PHASES = {
    Phase.DONE: "done",
    Phase.ACCEPTED: "accepted, the pod is still there",
    Phase.UNKNOWN: "unknown",
    Phase.LEFT: "given up",
    Phase.WAITING: "not begun",
}
KEPT_TOLD = {
    Kept.UNSURE: "it is so, but nobody can tell whether by this run: left alone",
    Kept.NODE_GONE: "the node is gone: nothing to take back",
    Kept.NODE_RECREATED: "the node was recreated: nothing of this run is there",
    Kept.UNDONE_ALREADY: "somebody took it back already",
    Kept.CHANGED_SINCE: "somebody made something else of it: left alone",
    Kept.CANNOT_BE_UNDONE: "cannot be undone",
}


def ended(result: RunResult) -> Iterator[str]:
    """Yield the lines that end a run: verdict, who changed what, operations, commands."""
    state, ending = result.state, result.ending
    yield f"{'Done' if result.exit_code == 0 else 'Stopped'}: {why(ending, state)}"
    yield from _changed_by(ending.changed_by)
    if result.stopped_at_once:
        yield "A second signal: what was under way was not waited for."
    if state.rolling_back:
        yield from _reversals(state)
    else:
        yield from _operations(state, all_done=result.exit_code == 0)
    if result.unwritten:
        yield "This line did not reach the journal; keep it:"
        yield escape(result.unwritten.decode("ascii", "backslashreplace").rstrip())
    yield from _commands(result.journal, result.resumable, result.can_roll_back)


def status_told(journal: Path, status: Status) -> Iterator[str]:
    """Yield the lines of a journal that is only read."""
    state = status.state
    begin = state.begin
    yield f"Run {name(begin.run_id)}: {escape(begin.title)}, begun {begin.at} by {_author(state)}"
    yield _standing(status)
    if status.torn:
        yield "A crash cut the last line off; it counts for nothing."
    if state.rolling_back:
        yield from _reversals(state)
    yield from _operations(state, all_done=False)
    yield from _commands(journal, status.resumable, status.can_roll_back)


def why(ending: Ending, state: RunState) -> str:
    """Return why a run ended, as one clause without a full stop."""
    what = _WHYS[ending.code](ending)
    doing = state.operations.get(ending.number)
    where = f"at operation {ending.number} ({name(doing.operation.told)}): " if doing else ""
    message = escape(ending.message, max_columns=MESSAGE_COLUMNS_MAX)
    said = f" ({message})" if message and ending.code not in _SAYS_ITSELF else ""
    return f"{where}{what}{said}"


def _denied(ending: Ending) -> str:
    return f"not allowed: {_listed(ending.objects)}; nothing was changed"


def _drift(ending: Ending) -> str:
    told = f": {_listed(ending.objects)}" if ending.objects else ""
    return f"{_node(ending)}is not what the plan says{told}"


def _locked(ending: Ending) -> str:
    if ending.message == "expired":
        return (
            f"a lock that was not given back: {_holder(ending.objects)}. When that process is"
            " certainly dead, --steal-lock takes it over"
        )
    return f"another run holds the lock: {_holder(ending.objects)}"


def _lock_lost(ending: Ending) -> str:
    holder = f" to {_holder(ending.objects)}" if ending.objects else ", it could not be renewed"
    return f"the lock was lost{holder}"


def _aborted(ending: Ending) -> str:
    return f"--abort-if {escape(ending.condition)}"


def _says(text: str) -> Callable[[Ending], str]:
    return lambda _ending: text


def _lists(text: str) -> Callable[[Ending], str]:
    return lambda ending: f"{text}: {_listed(ending.objects)}"


_WHYS: dict[EndCode, Callable[[Ending], str]] = {
    EndCode.FINISHED: _says("everything is as planned"),
    EndCode.NOT_EMPTY: _lists("pods that are not in the plan keep nodes from being empty"),
    EndCode.TIMED_OUT: _lists("not evicted within the time given"),
    EndCode.REFUSED: _says("the server refuses it"),
    EndCode.FORBIDDEN: _says("it is not allowed"),
    EndCode.CHANGED: _says("a webhook made something else of it; the journal has both"),
    EndCode.DRIFT: _drift,
    EndCode.REVERTED: lambda ending: f"somebody took back what was done to {name(ending.node)}",
    EndCode.CHANGED_SINCE: _lists("somebody made something else of what was done, left alone"),
    EndCode.LOCKED: _locked,
    EndCode.LOCK_LOST: _lock_lost,
    EndCode.DENIED: _denied,
    EndCode.UNAUTHENTICATED: _says(
        "the credentials are not accepted, or something may not be read"
    ),
    EndCode.UNREACHABLE: _says("no answer, or only that it is not the time"),
    EndCode.UNKNOWN: _says(
        "nobody can tell whether it was executed: the node was written meanwhile."
        " It cannot be executed any more; going on sends it again"
    ),
    EndCode.ABORTED: _aborted,
    EndCode.INTERRUPTED: lambda ending: f"{name(ending.signal)}; what was under way is settled",
    EndCode.JOURNAL: _says("the journal cannot be written; what it was for was not sent"),
    EndCode.JOURNAL_LOST: _says("the journal cannot be written; the last result is only told here"),
}
# Their clause has the message in it.
_SAYS_ITSELF = frozenset({EndCode.LOCKED})


def _node(ending: Ending) -> str:
    return f"{name(ending.node)} " if ending.node else ""


def _holder(objects: Sequence[str]) -> str:
    holder, since, until = (*objects, "", "", "")[:3]
    since = f", since {escape(since)}" if since else ""
    until = f", until {escape(until)}" if until else ""
    return f"{name(holder)}{since}{until}"


def _listed(objects: Iterable[str]) -> str:
    return ", ".join(name(one) for one in objects)


def _author(state: RunState) -> str:
    author = state.begin.author
    return f"{name(author.user)} on {name(author.host)}, process {author.pid}"


def _standing(status: Status) -> str:
    state = status.state
    if status.at_work:
        return f"A process works with it right now; its last record is of {state.last_at}"
    ending = state.rollback_ending if state.rolling_back else state.ending
    if ending is None:
        return f"Its process died after {state.last_at}"
    taking = "Taking it back ended" if state.rolling_back else "It ended"
    return f"{taking} at {state.last_at}: {why(ending, state)}"


def _changed_by(changes: Iterable[SpecChange]) -> Iterator[str]:
    for change in changes:
        fields = " and ".join(name(field) for field in change.fields)
        at = f" at {escape(change.time)}" if change.time else ""
        yield f"  last to write {fields}: {name(change.manager)}{at}"


def _operations(state: RunState, *, all_done: bool) -> Iterator[str]:
    doings = state.operations.values()
    done = [doing for doing in doings if doing.phase is Phase.DONE]
    yield f"{len(done)} of {len(doings)} operations are done."
    if not all_done:
        rest = [doing for doing in doings if doing.phase is not Phase.DONE]
        yield from _list(rest, lambda doing: _PHASES[doing.phase])


def _reversals(state: RunState) -> Iterator[str]:
    doings = sorted(state.reversals.values(), key=lambda doing: doing.operation.number)
    done = [doing for doing in doings if doing.kept is None and doing.phase is Phase.DONE]
    yield f"{len(done)} operations are taken back."
    rest = [doing for doing in doings if doing.kept is not None or doing.phase is not Phase.DONE]
    yield from _list(rest, _not_taken_back)


def _not_taken_back(doing: Doing) -> str:
    return KEPT_TOLD[doing.kept] if doing.kept is not None else _PHASES[doing.phase]


def _list(doings: Sequence[Doing], told: Callable[[Doing], str]) -> Iterator[str]:
    for doing in doings[:_LISTED_MAX]:
        message = escape(doing.message, max_columns=MESSAGE_COLUMNS_MAX)
        said = f" ({message})" if message else ""
        yield f"  {doing.operation.number}. {name(doing.operation.told)}: {told(doing)}{said}"
    if len(doings) > _LISTED_MAX:
        yield f"  and {len(doings) - _LISTED_MAX} more"


def _commands(journal: Path, resumable: bool, can_roll_back: bool) -> Iterator[str]:
    path = escape(shlex.quote(str(journal)))
    if resumable:
        yield f"Go on:     kubectl evictplan apply --resume {path}"
    if can_roll_back:
        yield f"Take back: kubectl evictplan apply --rollback {path}"
