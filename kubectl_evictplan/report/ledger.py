"""A ledger as blocks: whether reality left the windows, and where; then every row.

What is not as predicted comes first. Of many pods that went as predicted only their number is told, unless
all rows are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo

from kubectl_evictplan.plans.ledger import has_left
from kubectl_evictplan.plans.ledger_document import (
    INSIDE,
    NOT_PREDICTED,
    NOT_YET_DUE,
    OUTSIDE,
    STAYED,
    UNKNOWN,
    Ledger,
    NodeEntry,
    PodEntry,
)
from kubectl_evictplan.prediction.document import CERTAIN
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import (
    Block,
    Figures,
    Finding,
    Findings,
    Phrase,
    Title,
    Verdict,
)
from kubectl_evictplan.report.ledger_tables import (
    WHYS,
    drain_table,
    duration,
    node_table,
    off_by,
    operation_table,
    pod_table,
    span,
)
from kubectl_evictplan.report.words import Clock

_NAMED_MAX = 3

# Of one, of several.
_SAID = {
    OUTSIDE: ("was deleted outside of its window", "were deleted outside of their windows"),
    NOT_PREDICTED: (
        "was deleted and not predicted to be",
        "were deleted and not predicted to be",
    ),
    STAYED: (
        "stayed that was certain to be deleted",
        "stayed that were certain to be deleted",
    ),
}
_ODDITIES = {
    "clocks-disagree": "the clocks of two servers disagree about these pods: their times are wider",
    "no-known-pod": "none of the pods that the prediction knows was seen: is it of this cluster?",
    "pod-without-uid": "pods without a UID are left out",
}


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
        yield pod_table(ledger, every_row=every_row)
    nodes = [entry for entry in ledger.nodes if every_row or _is_worth_a_row(entry)]
    if nodes:
        yield node_table(nodes)
    if ledger.drains:
        yield drain_table(ledger.drains)
    if ledger.operations:
        yield operation_table(ledger)
    if findings := tuple(_findings(ledger)):
        yield Findings("What was not seen", findings)
    yield Figures("Where this comes from", tuple(_figures(ledger, clock)))


def node_line_of(entry: NodeEntry, ledger: Ledger, zone: tzinfo | None) -> str:
    """Return one line about a change of a node that was seen, "" for one that was not."""
    if entry.happened is None:
        return ""
    time = Clock(ledger.start, zone).time(entry.happened.earliest_seconds)
    what = f"{words.name(entry.node)} {words.name(f'{entry.what} {entry.value}'.strip())}"
    off = off_by(entry.off_by_seconds) if entry.off_by_seconds else ""
    parts = (entry.verdict, f"predicted {span(entry.window)}", off, WHYS.get(entry.why, ""))
    return f"{time}  {what} {span(entry.happened)}: {', '.join(filter(None, parts))}"


def line_of(pod: PodEntry, ledger: Ledger, zone: tzinfo | None) -> str:
    """Return one line about a pod for which something is decided, "" as long as nothing is."""
    if pod.verdict == NOT_YET_DUE:
        return ""
    deleted = pod.deleted
    at = None if deleted is None else deleted.earliest_seconds
    time = Clock(ledger.start, zone).time(at)
    what = f"{pod.key} on {words.name(pod.node)}"
    if deleted is not None:
        by = f" by {pod.by.controller or pod.by.reason}" if pod.by else ""
        what += f" deleted {span(deleted)}{by}"
    predicted = " or ".join(span(window) for window in pod.windows)
    off = off_by(pod.off_by_seconds) if pod.off_by_seconds else ""
    why = WHYS.get(pod.why, "")
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
    if any(part.get(NOT_YET_DUE, 0) for part in parts):
        return Phrase("So far nothing left the predicted windows.")
    return Phrase("Nothing is known to have left its window; not everything is known.")


def _verdict(ledger: Ledger, clock: Clock) -> Iterator[Phrase]:
    counts = ledger.summary.pods
    pods = len(ledger.pods)
    inside = counts.get(INSIDE, 0)
    yield from _answers(ledger)
    for verdict in _SAID:
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
    return f"{text}; by up to {duration(max(off))}." if off else f"{text}."


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
    due = [pod for pod in ledger.pods if pod.verdict == NOT_YET_DUE]
    waiting = [pod for pod in due if not pod.why]
    if waiting:
        last = max(window.latest_seconds or 0.0 for pod in waiting for window in pod.windows)
        when = f" before {clock.time(last)}" if clock.time(last) else ""
        pods = words.count(len(waiting), "pod")
        yield Phrase(f"{pods} {words.verb(len(waiting), 'is', 'are')} not due for certain{when}.")
    if len(due) > len(waiting):
        pods = words.count(len(due) - len(waiting), "pod")
        yield Phrase(f"{pods} stayed because the operation was not carried out, or taken back.")
    unknown = [pod for pod in ledger.pods if pod.verdict == UNKNOWN]
    if unknown:
        went = words.verb(len(unknown), "it went", "they went")
        text = f"Of {words.count(len(unknown), 'pod')} it is not known when {went}, if at all"
        yield Phrase(f"{text}: see WHY.", "possible")


def _is_worth_a_row(entry: NodeEntry) -> bool:
    return entry.happened is not None or entry.certainty == CERTAIN


def _findings(ledger: Ledger) -> Iterable[Finding]:
    for kind, reason in ledger.not_evaluated.items():
        yield Finding("not-evaluated", f"{kind}: {reason}")
    for kind, count in ledger.unreadable.items():
        what = f"{words.count(count, 'object')} of kind {kind} could not be read"
        yield Finding(
            "unreadable", f"{what}: what {words.verb(count, 'it tells', 'they tell')} is missing"
        )
    for gap in ledger.gaps:
        yield Finding("gap", f"nobody could look {span(gap)}: {gap.why}")
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
    known = f", known to {duration(uncertain)}" if uncertain else ""
    source = sources.get(ledger.start_source, ledger.start_source)
    yield "began", f"{clock.start() or ledger.start} ({source}{known})"
    if ledger.observed.latest_seconds is not None:
        yield "looked at", span(ledger.observed)
    if ledger.fingerprint:
        yield "plan", ledger.fingerprint
    if ledger.prediction_fingerprint:
        yield "prediction", ledger.prediction_fingerprint
