"""A ledger as blocks: whether reality left the windows, and where; then every row.

What is not as predicted comes first. Of many pods that went as predicted only their number is told, unless
all rows are wanted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo

from kubectl_evictplan.plans.ledger import has_left
from kubectl_evictplan.plans.ledger_document import (
    ActualDeletion,
    DrainEntry,
    Ledger,
    NodeEntry,
    PodEntry,
    Span,
)
from kubectl_evictplan.prediction.document import CERTAIN
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import (
    Block,
    Cell,
    Column,
    Figures,
    Finding,
    Findings,
    Phrase,
    Table,
    Title,
    Tone,
    Verdict,
)
from kubectl_evictplan.report.words import Clock

# So many rows of pods that went as predicted are shown without being asked for.
AS_PREDICTED_MAX = 40
_NAMED_MAX = 3

_ORDER = (
    "outside",
    "not-predicted",
    "predicted-but-stayed",
    "unknown",
    "not-yet-due",
    "inside",
    "possible-did-not-happen",
)
_AS_PREDICTED = ("inside", "possible-did-not-happen")
_TONES: dict[str, Tone] = {
    "outside": "loud",
    "not-predicted": "loud",
    "predicted-but-stayed": "loud",
    "unknown": "possible",
    "not-yet-due": "possible",
    "inside": "good",
}
# Of one, of several.
_SAID = {
    "outside": ("was deleted outside of its window", "were deleted outside of their windows"),
    "not-predicted": (
        "was deleted and not predicted to be",
        "were deleted and not predicted to be",
    ),
    "predicted-but-stayed": (
        "stayed that was certain to be deleted",
        "stayed that were certain to be deleted",
    ),
}
_WHYS = {
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
_ODDITIES = {
    "clocks-disagree": "the clocks of two servers disagree about these pods: their times are wider",
    "no-known-pod": "none of the pods that the prediction knows was seen: is it of this cluster?",
    "pod-without-uid": "pods without a UID are left out",
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


def blocks(
    ledger: Ledger, zone: tzinfo | None, *, every_row: bool = False, titled: bool = False
) -> Iterator[Block]:
    """Yield the blocks of a ledger; times of day are of ``zone`` (None: the system's).

    ``titled``: for a page of its own.
    """
    clock = Clock(ledger.start, zone)
    if titled:
        yield Title(": ".join(filter(None, ("Predicted and actual", ledger.title))))
    yield Verdict(tuple(_verdict(ledger, clock)))
    if ledger.pods:
        yield _pod_table(ledger, every_row=every_row)
    nodes = [entry for entry in ledger.nodes if every_row or _is_worth_a_row(entry)]
    if nodes:
        yield _node_table(nodes)
    if ledger.drains:
        yield _drain_table(ledger.drains)
    if ledger.operations:
        yield _operation_table(ledger)
    if findings := tuple(_findings(ledger)):
        yield Findings("What was not seen", findings)
    yield Figures("Where this comes from", tuple(_figures(ledger, clock)))


def node_line_of(entry: NodeEntry, ledger: Ledger, zone: tzinfo | None) -> str:
    """Return one line about a change of a node that was seen, "" for one that was not."""
    if entry.happened is None:
        return ""
    time = Clock(ledger.start, zone).time(entry.happened.earliest_seconds)
    what = f"{words.name(entry.node)} {words.name(f'{entry.what} {entry.value}'.strip())}"
    off = _off_by(entry.off_by_seconds) if entry.off_by_seconds else ""
    parts = (entry.verdict, f"predicted {_span(entry.window)}", off, _WHYS.get(entry.why, ""))
    return f"{time}  {what} {_span(entry.happened)}: {', '.join(filter(None, parts))}"


def line_of(pod: PodEntry, ledger: Ledger, zone: tzinfo | None) -> str:
    """Return one line about a pod for which something is decided, "" as long as nothing is."""
    if pod.verdict == "not-yet-due":
        return ""
    deleted = pod.deleted
    at = None if deleted is None else deleted.earliest_seconds
    time = Clock(ledger.start, zone).time(at)
    what = f"{pod.key} on {words.name(pod.node)}"
    if deleted is not None:
        by = f" by {pod.by.controller or pod.by.reason}" if pod.by else ""
        what += f" deleted {_span(deleted)}{by}"
    predicted = " or ".join(_span(window) for window in pod.windows)
    off = _off_by(pod.off_by_seconds) if pod.off_by_seconds else ""
    why = _WHYS.get(pod.why, "")
    parts = (pod.verdict, f"predicted {predicted}" if predicted else "", off, why)
    return f"{time}  {what}: {', '.join(filter(None, parts))}".strip()


def first_words(ledger: Ledger) -> str:
    """Return the answer in a sentence or two."""
    return " ".join(phrase.text for phrase in _answers(ledger))


def _answers(ledger: Ledger) -> Iterator[Phrase]:
    """Yield what was not carried out, whether what was went as predicted, and what could not be read."""
    counts, every = ledger.summary.operations, len(ledger.operations)
    done = counts.get("done", 0) + counts.get("gone-by-another", 0)
    if done < every:
        carried = f"{done} of {words.count(every, 'operation')} {words.verb(done, 'is', 'are')} known to be done"
        yield Phrase(f"The change was not carried out completely: {carried}.", "loud")
    if back := sum(one.taken_back is not None for one in ledger.operations):
        since = (
            f"{words.count(back, 'operation')} {words.verb(back, 'was', 'were')} taken back since"
        )
        yield Phrase(f"{since}.", "loud")
    yield _answer(ledger, is_whole=done == every)
    if ledger.unreadable:
        kinds = ", ".join(f"{count} of kind {kind}" for kind, count in ledger.unreadable.items())
        yield Phrase(f"Objects that could not be read are missing here: {kinds}.", "possible")


def _answer(ledger: Ledger, *, is_whole: bool) -> Phrase:
    if ledger.summary.left_windows:
        return Phrase("Reality left the predicted windows.", "loud")
    if ledger.summary.complete and any(pod.why == "created-later" for pod in ledger.pods):
        text = "What was predicted happened in its window, but pods went that nobody predicted."
        return Phrase(text, "possible")
    if ledger.summary.complete and is_whole:
        return Phrase("Everything that was predicted happened in its window.", "good")
    if ledger.summary.complete:
        return Phrase("What was carried out went as predicted.")
    parts = (ledger.summary.pods, ledger.summary.nodes, ledger.summary.drains)
    if any(part.get("not-yet-due", 0) for part in parts):
        return Phrase("So far nothing left the predicted windows.")
    return Phrase("Nothing is known to have left its window; not everything is known.")


def _verdict(ledger: Ledger, clock: Clock) -> Iterator[Phrase]:
    counts = ledger.summary.pods
    pods = len(ledger.pods)
    inside = counts.get("inside", 0)
    yield from _answers(ledger)
    for verdict in ("outside", "not-predicted", "predicted-but-stayed"):
        left = [pod for pod in ledger.pods if pod.verdict == verdict and has_left(pod)]
        if left:
            yield Phrase(_left_sentence(verdict, left), "loud")
    yield from _others_left(ledger)
    if inside:
        of = f" of {words.count(pods, 'pod')}" if inside != pods else ""
        what = words.count(inside, "pod") if not of else str(inside)
        verb = words.verb(inside, "was", "were")
        yield Phrase(
            f"{what}{of} {verb} deleted inside {words.verb(inside, 'its', 'their')} window."
        )
    yield from _open(ledger, clock)
    if others := ledger.summary.by_others:
        verb = words.verb(others, "was", "were")
        yield Phrase(
            f"{words.count(others, 'pod')} {verb} deleted by somebody else than predicted."
        )
    yield from _unknowable(ledger)


def _unknowable(ledger: Ledger) -> Iterator[Phrase]:
    """Yield what went that no prediction can know: new pods are losses, finished ones are not."""
    later = [pod.key for pod in ledger.pods if pod.why == "created-later"]
    if later:
        text = f"{words.count(len(later), 'more pod')} went that no prediction can know, made after the beginning"
        yield Phrase(f"{text}: {words.listed(later, _NAMED_MAX)}.", "possible")
    finished = sum(pod.why == "finished-before" for pod in ledger.pods)
    if finished:
        text = f"{words.count(finished, 'more pod')} went that had finished before"
        yield Phrase(f"{text}: nothing was evicted.", "faint")


def _left_sentence(verdict: str, pods: Sequence[PodEntry]) -> str:
    one, many = _SAID[verdict]
    named = words.listed([pod.key for pod in pods], _NAMED_MAX)
    text = f"{words.count(len(pods), 'pod')} {words.verb(len(pods), one, many)}: {named}"
    off = [abs(pod.off_by_seconds) for pod in pods if pod.off_by_seconds]
    return f"{text}; by up to {_duration(max(off))}." if off else f"{text}."


def _others_left(ledger: Ledger) -> Iterator[Phrase]:
    nodes = sorted({entry.node for entry in ledger.nodes if has_left(entry)})
    if nodes:
        named = words.listed(nodes, _NAMED_MAX)
        yield Phrase(f"{words.count(len(nodes), 'node')} changed otherwise: {named}.", "loud")
    drains = sorted({entry.node for entry in ledger.drains if has_left(entry)})
    if drains:
        named = words.listed(drains, _NAMED_MAX)
        what = words.verb(len(drains), "The drain of a node", "Drains of nodes")
        yield Phrase(f"{what} ended otherwise: {named}.", "loud")


def _open(ledger: Ledger, clock: Clock) -> Iterator[Phrase]:
    due = [pod for pod in ledger.pods if pod.verdict == "not-yet-due"]
    waiting = [pod for pod in due if not pod.why]
    if waiting:
        last = max(window.latest_seconds or 0.0 for pod in waiting for window in pod.windows)
        when = f" before {clock.time(last)}" if clock.time(last) else ""
        pods = words.count(len(waiting), "pod")
        yield Phrase(f"{pods} {words.verb(len(waiting), 'is', 'are')} not due for certain{when}.")
    if len(due) > len(waiting):
        pods = words.count(len(due) - len(waiting), "pod")
        yield Phrase(f"{pods} stayed because the operation was not carried out, or taken back.")
    unknown = [pod for pod in ledger.pods if pod.verdict == "unknown"]
    if unknown:
        went = words.verb(len(unknown), "it went", "they went")
        text = f"Of {words.count(len(unknown), 'pod')} it is not known when {went}, if at all"
        yield Phrase(f"{text}: see WHY.", "possible")


def _pod_table(ledger: Ledger, *, every_row: bool) -> Table:
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
    return table._replace(
        columns=tuple(table.columns[at] for at in shown),
        rows=[tuple(row[at] for at in shown) for row in table.rows],
    )


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text


def _rank(entry: PodEntry | NodeEntry | DrainEntry) -> tuple[bool, int]:
    """Order rows: what left its window first."""
    return not has_left(entry), _ORDER.index(entry.verdict)


def _why_notes(entries: Iterable[PodEntry | NodeEntry | DrainEntry]) -> list[str]:
    whys = dict.fromkeys(entry.why for entry in entries)
    return [f"{why}: {_WHYS[why]}." for why in whys if why]


def _is_wide(deleted: ActualDeletion) -> bool:
    return deleted.earliest_seconds != deleted.latest_seconds


def _pod_row(pod: PodEntry) -> tuple[Cell, ...]:
    return (
        _verdict_cell(pod),
        words.name(pod.namespace),
        words.name(pod.pod),
        words.name(pod.node),
        " or ".join(_span(window) for window in pod.windows) or words.NONE,
        _deleted(pod),
        _off_by(pod.off_by_seconds),
        _by(pod),
        _span(pod.gone) if pod.gone else "",
        pod.why,
    )


def _deleted(pod: PodEntry) -> Cell:
    if pod.deleted is None:
        return words.UNKNOWN if pod.verdict == "unknown" else words.NONE
    told = pod.deleted.told_by
    by = "" if told == "deletion-timestamp" else f" ({_TOLD_BY.get(told, told)})"
    return f"{_span(pod.deleted)}{by}"


def _by(pod: PodEntry) -> Cell:
    if pod.by is None:
        return words.UNKNOWN if pod.deleted else ""
    name = words.name(pod.by.controller or pod.by.reason)
    return Phrase(f"{name}, not {pod.controller}", "loud") if pod.by_others else name


def _verdict_cell(entry: PodEntry | NodeEntry | DrainEntry) -> Cell:
    tone = _TONES.get(entry.verdict, "plain")
    return Phrase(entry.verdict, "plain" if tone == "loud" and not has_left(entry) else tone)


def _span(span: Span) -> str:
    return words.window(span.earliest_seconds, span.latest_seconds)


def _off_by(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if not seconds:
        return "0"
    return f"{_duration(abs(seconds))} {'late' if seconds > 0 else 'early'}"


def _duration(seconds: float) -> str:
    # What is off is only known to about a second.
    return words.offset(math.floor(seconds * 10) / 10).lstrip("+")


def _is_worth_a_row(entry: NodeEntry) -> bool:
    return entry.happened is not None or entry.certainty == CERTAIN


def _node_table(entries: Sequence[NodeEntry]) -> Table:
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
            _span(entry.window),
            _span(entry.happened) if entry.happened else words.NONE,
            _off_by(entry.off_by_seconds),
            entry.why,
        )
        for entry in sorted(entries, key=_rank)
    ]
    return _without_empty(Table(heads, rows, "Nodes", None, tuple(_why_notes(entries))))


def _drain_table(entries: Sequence[DrainEntry]) -> Table:
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
            _span(entry.window),
            _span(entry.ended) if entry.ended else words.NONE,
            _off_by(entry.off_by_seconds),
            entry.why,
        )
        for entry in sorted(entries, key=_rank)
    ]
    note = "A drain ends when the last pod that it evicts is gone."
    return _without_empty(Table(heads, rows, "Drains", None, (*_why_notes(entries), note)))


def _operation_table(ledger: Ledger) -> Table:
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
            _span(one.began) if one.began else words.NONE,
            f"{one.outcome}, taken back {_span(one.taken_back)}" if one.taken_back else one.outcome,
        )
        for one in ledger.operations
    ]
    return Table(heads, rows, "Operations")


def _findings(ledger: Ledger) -> Iterable[Finding]:
    for kind, reason in ledger.not_evaluated.items():
        yield Finding("not-evaluated", f"{kind}: {reason}")
    for kind, count in ledger.unreadable.items():
        what = f"{words.count(count, 'object')} of kind {kind} could not be read"
        yield Finding(
            "unreadable", f"{what}: what {words.verb(count, 'it tells', 'they tell')} is missing"
        )
    for gap in ledger.gaps:
        yield Finding("gap", f"nobody could look {_span(gap)}: {gap.why}")
    for code, count in ledger.oddities.items():
        yield Finding(code, _ODDITIES.get(code, code), words.count(count, "pod"))


def _figures(ledger: Ledger, clock: Clock) -> Iterator[tuple[str, str]]:
    sources = {
        "given": "as given",
        "journal": "by the journal",
        "plan": "as planned",
        "nodes": "by what the nodes tell",
    }
    uncertain = ledger.start_uncertain_seconds
    known = f", known to {_duration(uncertain)}" if uncertain else ""
    source = sources.get(ledger.start_source, ledger.start_source)
    yield "began", f"{clock.start() or ledger.start} ({source}{known})"
    if ledger.observed.latest_seconds is not None:
        yield "looked at", _span(ledger.observed)
    if ledger.fingerprint:
        yield "plan", ledger.fingerprint
    if ledger.prediction_fingerprint:
        yield "prediction", ledger.prediction_fingerprint
