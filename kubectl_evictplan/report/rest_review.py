"""What is left of a run, for whoever goes on with it or takes it back: shown before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubectl_evictplan.apply.states import Doing, Phase, RunState
from kubectl_evictplan.plans.differences import Difference
from kubectl_evictplan.plans.document import Evict, Loss
from kubectl_evictplan.plans.fingerprint import short
from kubectl_evictplan.report.blocks import Block, Figures, Phrase, Table, Verdict, columns
from kubectl_evictplan.report.plan_review import difference_blocks, loss_findings
from kubectl_evictplan.report.run_words import CANNOT_BE_UNDONE, told
from kubectl_evictplan.report.words import count

_STATES = {
    Phase.WAITING: "to be done",
    Phase.UNKNOWN: "looked up first: its outcome is unknown",
    Phase.ACCEPTED: "accepted: waits for the pod to go",
    Phase.LEFT: "tried again: it was given up",
}


def rest_blocks(
    state: RunState,
    left: Sequence[Doing],
    losses: Sequence[Loss],
    refused: Sequence[Difference],
    accepted: Sequence[Difference],
    *,
    takes_back: bool,
) -> Iterator[Block]:
    """Yield what a run still has to do. ``refused`` keep it from going on, ``accepted`` do not.

    ``takes_back``: with --rollback-on-failure.
    """
    number = f"{count(len(left), 'operation')} of {len(state.operations)}"
    if refused:
        what = count(len(refused), "difference")
        yield Verdict((Phrase(f"Not gone on with: {what} from what was reviewed.", "loud"),))
    else:
        yield Verdict((Phrase(f"{state.begin.title or 'The plan'}: {number} left."),))
    yield from difference_blocks(refused, accepted)
    if losses:
        yield loss_findings(losses)
    rows = [(str(one.operation.number), told(one.operation), _STATES[one.phase]) for one in left]
    notes = ("When it fails, it takes its own taints and cordons back.",) if takes_back else ()
    yield Table(columns("NO", "OPERATION", "STATE"), rows, "What is left to do", notes=notes)
    yield _where(state)


def taking_back_blocks(state: RunState, left: Sequence[Doing]) -> Iterator[Block]:
    """Yield what a rollback takes back, newest first, and the evictions that stay."""
    yield Verdict((Phrase(f"To be taken back: {count(len(left), 'operation')} of this run."),))
    rows = [(str(one.operation.number), told(one.operation)) for one in reversed(left)]
    yield Table(
        columns("NO", "OPERATION"), rows, "What is taken back, unless others changed it since"
    )
    gone = [
        (str(one.operation.number), told(one.operation))
        for one in state.operations.values()
        if isinstance(one.operation, Evict) and one.executed
    ]
    if gone:
        yield Table(columns("NO", "OPERATION"), gone, CANNOT_BE_UNDONE)
    yield _where(state)


def _where(state: RunState) -> Figures:
    begin = state.begin
    cluster = begin.cluster
    return Figures(
        "Where and who",
        (
            ("Cluster", f"{cluster.server}, context {cluster.context or 'none'}"),
            ("User", cluster.user or "not known"),
            ("Begun", f"{begin.at} by {begin.author.user} on {begin.author.host}"),
            ("Last record", state.last_at),
            ("Plan", short(begin.plan_fingerprint)),
        ),
    )
