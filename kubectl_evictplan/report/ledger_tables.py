"""The rows of a ledger: pods, nodes, drains and operations, what left its window first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kubectl_evictplan.plans.ledger import has_left
from kubectl_evictplan.plans.ledger_document import (
    DID_NOT_HAPPEN,
    INSIDE,
    NOT_PREDICTED,
    NOT_YET_DUE,
    OUTSIDE,
    STAYED,
    UNKNOWN,
    VERDICTS,
    ActualDeletion,
    DrainEntry,
    Ledger,
    NodeEntry,
    PodEntry,
    Span,
    Why,
)
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Cell, Column, Phrase, Table, Tone

# So many rows of pods that went as predicted are shown without being asked for.
AS_PREDICTED_MAX = 40

_AS_PREDICTED = (INSIDE, DID_NOT_HAPPEN)
_TONES: dict[str, Tone] = {
    OUTSIDE: "loud",
    NOT_PREDICTED: "loud",
    STAYED: "loud",
    UNKNOWN: "possible",
    NOT_YET_DUE: "possible",
    INSIDE: "good",
}
# Why a verdict is not plainer, or another one.
WHYS: dict[Why, str] = {
    "vanished-unseen": "it vanished while nobody looked, and its window is narrower than that",
    "not-observed": "nobody looked at the time",
    "could-not-look": "it may not be read",
    "ambiguous-name": "the event that tells it may mean another pod of this name",
    "operation-not-done": "the operation that causes it was not carried out",
    "operation-taken-back": "the operation that causes it was taken back in time",
    "operation-unknown": "it is not known whether the operation that causes it was carried out",
    "gone-by-another": "nobody had to ask for it: the node's pods were gone before their turn",
    "created-later": "made after the change had begun: no prediction knows it",
    "evicted-later": "made after the change had begun, and evicted: no window holds that",
    "perhaps-before": "it may have been deleted before the change began",
    "perhaps-after": "it may have been deleted after the end of what was predicted",
    "finished-before": "it had finished before: nothing was evicted",
}
_TOLD_BY = {
    "deletion-timestamp": "deletionTimestamp",
    "event": "event",
    "killing-event": "event Killing",
    "disappearance": "two looks",
    "operation": "our request",
}

_POD_COLUMNS = (
    Column("VERDICT"),
    Column("NAMESPACE"),
    Column("POD"),
    Column("NODE", 3),
    Column("PREDICTED"),
    Column("DELETED"),
    Column("OFF-BY", 5),
    Column("BY", 2),
    Column("GONE", 1),
    Column("WHY", 4),
)


def pod_table(ledger: Ledger, *, every_row: bool) -> Table:
    """Return a row for each pod; of more than ``AS_PREDICTED_MAX`` as predicted only their number."""
    pods = sorted(ledger.pods, key=_rank)
    notes = []
    others = [pod for pod in pods if pod.verdict not in _AS_PREDICTED]
    agreed = len(pods) - len(others)
    if not every_row and agreed > AS_PREDICTED_MAX:
        pods = others
        notes.append(f"And {agreed} pods as predicted: -o wide has all rows.")
    rows = [_pod_row(pod) for pod in pods]
    notes += _why_notes(pods)
    if any(pod.deleted and _is_wide(pod.deleted) for pod in pods):
        notes.append("Most clocks of a cluster tell whole seconds: DELETED is from when to when.")
    return _without_empty(Table(_POD_COLUMNS, rows, "Pods", None, tuple(notes)))


def _without_empty(table: Table) -> Table:
    """Return the table without the columns that tell nothing in any row."""
    shown = [
        at
        for at in range(len(table.columns))
        if any(_text(row[at]) not in ("", words.UNKNOWN) for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[at] for at in shown),
        rows=[tuple(row[at] for at in shown) for row in table.rows],
    )


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text


def _rank(entry: PodEntry | NodeEntry | DrainEntry) -> tuple[bool, int]:
    """Order rows: what left its window first."""
    return not has_left(entry), VERDICTS.index(entry.verdict)


def _why_notes(entries: Iterable[PodEntry | NodeEntry | DrainEntry]) -> list[str]:
    whys = dict.fromkeys(entry.why for entry in entries)
    return [f"{why}: {WHYS[why]}." for why in whys if why]


def _is_wide(deleted: ActualDeletion) -> bool:
    return deleted.earliest_seconds != deleted.latest_seconds


def _pod_row(pod: PodEntry) -> tuple[Cell, ...]:
    return (
        _verdict_cell(pod),
        words.name(pod.namespace),
        words.name(pod.pod),
        words.name(pod.node),
        " or ".join(span(window) for window in pod.windows) or words.NONE,
        _deleted(pod),
        off_by(pod.off_by_seconds),
        _by(pod),
        span(pod.gone) if pod.gone else "",
        pod.why,
    )


def _deleted(pod: PodEntry) -> Cell:
    if pod.deleted is None:
        return words.UNKNOWN if pod.verdict == UNKNOWN else words.NONE
    told = pod.deleted.told_by
    by = "" if told == "deletion-timestamp" else f" ({_TOLD_BY.get(told, told)})"
    return f"{span(pod.deleted)}{by}"


def _by(pod: PodEntry) -> Cell:
    if pod.by is None:
        return words.UNKNOWN if pod.deleted else ""
    name = words.name(pod.by.controller or pod.by.reason)
    return Phrase(f"{name}, not {pod.controller}", "loud") if pod.by_others else name


def _verdict_cell(entry: PodEntry | NodeEntry | DrainEntry) -> Cell:
    tone = _TONES.get(entry.verdict, "plain")
    return Phrase(entry.verdict, "plain" if tone == "loud" and not has_left(entry) else tone)


def node_table(entries: Sequence[NodeEntry]) -> Table:
    """Return a row for each change of a node."""
    heads = (
        Column("VERDICT"),
        Column("NODE"),
        Column("CHANGE"),
        Column("PREDICTED"),
        Column("HAPPENED"),
        Column("OFF-BY", 2),
        Column("WHY", 1),
    )
    rows = [
        (
            _verdict_cell(entry),
            words.name(entry.node),
            words.name(f"{entry.what} {entry.value}".strip()),
            span(entry.window),
            span(entry.happened) if entry.happened else words.NONE,
            off_by(entry.off_by_seconds),
            entry.why,
        )
        for entry in sorted(entries, key=_rank)
    ]
    return _without_empty(Table(heads, rows, "Nodes", None, tuple(_why_notes(entries))))


def drain_table(entries: Sequence[DrainEntry]) -> Table:
    """Return a row for each node of a drain: when kubectl was to be through with it, and was."""
    heads = (
        Column("VERDICT"),
        Column("NODE"),
        Column("PREDICTED-END"),
        Column("ENDED"),
        Column("OFF-BY", 2),
        Column("WHY", 1),
    )
    rows = [
        (
            _verdict_cell(entry),
            words.name(entry.node),
            span(entry.window),
            span(entry.ended) if entry.ended else words.NONE,
            off_by(entry.off_by_seconds),
            entry.why,
        )
        for entry in sorted(entries, key=_rank)
    ]
    note = "A drain ends when the last pod that it evicts is gone."
    return _without_empty(Table(heads, rows, "Drains", None, (*_why_notes(entries), note)))


def operation_table(ledger: Ledger) -> Table:
    """Return a row for each operation of the plan, in its order."""
    heads = (
        Column("#"),
        Column("OPERATION"),
        Column("PLANNED"),
        Column("BEGAN"),
        Column("OUTCOME"),
    )
    rows = [
        (
            str(one.number),
            words.name(one.operation),
            words.offset(one.planned_seconds),
            span(one.began) if one.began else words.NONE,
            f"{one.outcome}, taken back {span(one.taken_back)}" if one.taken_back else one.outcome,
        )
        for one in ledger.operations
    ]
    return Table(heads, rows, "Operations")


def span(when: Span) -> str:
    """Return from when to when, as offsets."""
    return words.window(when.earliest_seconds, when.latest_seconds)


def off_by(seconds: float | None) -> str:
    """Return by how much it was late, or early; 0 inside its window, "" where that is not known."""
    if seconds is None:
        return ""
    if not seconds:
        return "0"
    return f"{duration(abs(seconds))} {'late' if seconds > 0 else 'early'}"


def duration(seconds: float) -> str:
    """Return so many seconds in words."""
    # What is off is only known to about a second.
    return words.offset(math.floor(seconds * 10) / 10).lstrip("+")
