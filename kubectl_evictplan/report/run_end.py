"""How a run stands, from its journal's state: what is done, what is not, and which command comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from kubectl_evictplan.apply.cluster import Outcome
from kubectl_evictplan.apply.endings import EndCode, Ending
from kubectl_evictplan.apply.records import Kept
from kubectl_evictplan.apply.run import RunResult, resumable
from kubectl_evictplan.apply.states import Doing, Phase, RunState
from kubectl_evictplan.apply.status import Status
from kubectl_evictplan.plans.document import Evict
from kubectl_evictplan.report.blocks import (
    Block,
    Figures,
    Phrase,
    Row,
    Table,
    Tone,
    Verdict,
    columns,
)
from kubectl_evictplan.report.next_commands import Typed, next_commands
from kubectl_evictplan.report.run_words import (
    CANNOT_BE_UNDONE,
    KEPT,
    ending_words,
    outcome_words,
    server_said,
    told,
)
from kubectl_evictplan.report.words import name
from kubectl_evictplan.scenarios.names import listed

_PHASES = {
    Phase.WAITING: "not begun",
    Phase.UNKNOWN: "outcome unknown",
    Phase.ACCEPTED: "accepted, the pod was not seen gone yet",
    Phase.DONE: "done",
    Phase.LEFT: "given up",
}
# What a rollback finds as it was before the run is not there any more: no rest that it leaves behind.
_KEPT_AS = {
    Kept.UNDONE_ALREADY: "taken back already by somebody else",
    Kept.NODE_GONE: "gone with its node",
    Kept.NODE_RECREATED: "gone with its node",
}
_ROWS_MAX = 40
_NUMBERS_MAX = 10


def result_blocks(result: RunResult, typed: Typed) -> Iterator[Block]:
    """Yield how a run ended."""
    stopped_by = result.ending.signal if result.stopped_at_once else ""
    yield Verdict(tuple(_sentences(_with_ending(result), stopped_by)))
    yield from _rest(result.state)
    if result.unwritten:
        where = "on standard error, as one line: keep it"
        yield Figures("What did not reach the journal", (("record", where),))
    path = str(result.journal)
    yield from next_commands(
        result.state,
        path,
        typed,
        resumable=result.resumable,
        can_roll_back=result.can_roll_back,
        is_full=result.ending.code in (EndCode.JOURNAL, EndCode.JOURNAL_LOST),
    )


def _with_ending(result: RunResult) -> RunState:
    """Return the state with how it ended, which a journal that failed does not tell."""
    state = result.state
    if state.rolling_back:
        return replace(state, rollback_ending=state.rollback_ending or result.ending)
    return replace(state, ending=state.ending or result.ending)


def status_blocks(status: Status, path: str, typed: Typed) -> Iterator[Block]:
    """Yield what a journal says of a run, whoever runs it and whether it still works."""
    first = []
    if status.at_work:
        first.append(Phrase("A process of this machine is at work on this run right now."))
    if status.torn:
        first.append(Phrase("The last line was cut off by a crash and counts for nothing."))
    yield Verdict((*first, *_sentences(status.state)))
    yield from _rest(status.state)
    yield from _provenance(status.state)
    yield from next_commands(
        status.state,
        path,
        typed,
        resumable=status.resumable,
        can_roll_back=status.can_roll_back,
    )


def _sentences(state: RunState, stopped_by: str = "") -> Iterator[Phrase]:
    """Tell how it ended. ``stopped_by``: the second signal, after which nothing was written any more."""
    if state.rolled_back_on_failure and state.ending is not None:
        yield _ended(state, state.ending, "Run")
    ending = state.rollback_ending if state.rolling_back else state.ending
    what = "Rollback" if state.rolling_back else "Run"
    if stopped_by:
        yield Phrase(f"{what} stopped at once by a second {stopped_by}.", "loud")
    elif ending is None and state.begin.is_adopted and not state.resumed:
        words = f"{what} adopted: its journal was lost, this is what the cluster shows of it."
        yield Phrase(words, "loud")
    elif ending is None:
        yield Phrase(f"{what} not ended: it was killed, or is still at work.", "loud")
    else:
        yield _ended(state, ending, what, back=state.rolling_back)
    doings = _concerned(state)
    counted = Counter(map(_phase, doings))
    parts = [f"{number} {words}" for words, number in sorted(counted.items())]
    if parts:
        yield Phrase(f"Of {len(doings)} operation{'s' * (len(doings) != 1)}: {', '.join(parts)}.")
    yield from _what_now(state)


def _ended(state: RunState, ending: Ending, what: str, *, back: bool = False) -> Phrase:
    tone: Tone = "good" if ending.code is EndCode.FINISHED else "loud"
    doing = state.operations.get(ending.number)
    where = f" at operation {ending.number} ({told(doing.operation)})" if doing else ""
    return Phrase(f"{what} ended{where}: {ending_words(ending, back=back)}.", tone)


def _what_now(state: RunState) -> Iterator[Phrase]:
    """Tell what is not known, and that going on with what somebody took back does nothing."""
    doings = {**state.operations, **state.reversals}
    unknown = [number for number in sorted(doings) if doings[number].phase is Phase.UNKNOWN]
    if unknown:
        many = "s" * (len(unknown) != 1)
        numbers = listed([*map(str, unknown)], _NUMBERS_MAX)
        yield Phrase(f"The outcome of operation{many} {numbers} is unknown.", "loud")
        yield Phrase("Going on looks first what became of that.")
    if state.begin.is_adopted and not state.rolling_back:
        yield from _of_nobody_known(state)
    if state.ending is not None and state.ending.code is EndCode.UNREVIEWED:
        yield Phrase("Cordon what is left, then plan the rest anew: that reviews these pods too.")
    reverted = state.ending is not None and state.ending.code is EndCode.REVERTED
    if reverted and not state.rolling_back and not resumable(state):
        yield Phrase("Nothing is left to go on with: take back the rest, or make a new plan.")


def _of_nobody_known(state: RunState) -> Iterator[Phrase]:
    """Name what a run of this program did, when nobody can tell which."""
    unsure = [
        told(one.operation)
        for one in state.operations.values()
        if one.attempts and one.phase is Phase.DONE and not one.executed
    ]
    if unsure:
        text = f"Done by this run or by another, nobody can tell: {listed(unsure, _NUMBERS_MAX)}."
        yield Phrase(f"{text} Taking back leaves that alone.", "loud")


def _concerned(state: RunState) -> list[Doing]:
    """Return the operations that the run, or its rollback, is about: no rollback is about evictions."""
    if not state.rolling_back:
        return list(state.operations.values())
    return [one for one in state.reversals.values() if not isinstance(one.operation, Evict)]


def _phase(doing: Doing) -> str:
    """Return how far an operation is, in words that several of them are counted by."""
    if doing.kept is not None:
        return _KEPT_AS.get(doing.kept, "left alone")
    if doing.phase is Phase.LEFT and doing.executed:
        return "done otherwise"
    if doing.phase is Phase.WAITING and doing.attempts:
        budget = doing.outcome is Outcome.BUDGET
        return "waiting for a budget" if budget else "tried and not done"
    return _PHASES[doing.phase]


def _rest(state: RunState) -> Iterator[Block]:
    """Yield the operations that are not done, and those that a rollback leaves alone."""
    left = [doing for doing in _concerned(state) if doing.phase is not Phase.DONE]
    if left:
        rows = [_row(doing) for doing in left[:_ROWS_MAX]]
        notes = (f"and {len(left) - _ROWS_MAX} more",) if len(left) > _ROWS_MAX else ()
        title = "Not taken back by this run" if state.rolling_back else "Not done"
        yield Table(columns("NO", "OPERATION", "STATE", "WHY"), rows, title, notes=notes)
    evicted = [
        doing
        for doing in state.operations.values()
        if isinstance(doing.operation, Evict) and doing.executed
    ]
    if state.rolling_back and evicted:
        gone = [(str(doing.operation.number), told(doing.operation)) for doing in evicted]
        yield Table(columns("NO", "OPERATION"), gone[:_ROWS_MAX], CANNOT_BE_UNDONE)


def _row(doing: Doing) -> Row:
    why = []
    if doing.kept is not None:
        why.append(KEPT[doing.kept])
    elif doing.outcome is not None and doing.phase is not Phase.ACCEPTED:
        why.append(outcome_words(doing.outcome))
    if doing.causes:
        why.append(", ".join(map(name, doing.causes)))
    if doing.message:
        why.append(server_said(doing.message))
    if doing.kept is None and doing.phase is Phase.WAITING and doing.attempts:
        asked = f"asked {doing.attempts} time{'s' * (doing.attempts != 1)}"
        why.append(asked if why else f"{asked}, was not executed")
    return str(doing.operation.number), told(doing.operation), _phase(doing), ": ".join(why)


def _provenance(state: RunState) -> Iterator[Block]:
    begin = state.begin
    yield Figures(
        "Run",
        (
            ("run", begin.run_id),
            ("plan", f"{begin.plan} ({begin.plan_fingerprint})"),
            ("title", begin.title),
            ("cluster", f"{begin.cluster.context} {begin.cluster.server}".strip()),
            ("by", f"{begin.author.user} on {begin.author.host}"),
            ("begun", begin.at),
            ("last record", state.last_at),
        ),
    )
