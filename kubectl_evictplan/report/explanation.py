"""``--explain``: the story of one pod, oldest link first, each ending in its conclusion."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.prediction.document import (
    CERTAIN,
    Because,
    Cancelled,
    Eviction,
    Kept,
    Prediction,
)
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Block, Moment, Phrase, Timeline, Verdict
from kubectl_evictplan.report.verdict import warnings_about
from kubectl_evictplan.report.words import Clock

_Row = Eviction | Kept | Cancelled


def story(prediction: Prediction, pod: str, clock: Clock, *, wide: bool) -> Iterator[Block]:
    """Yield what happens to ``pod`` ("namespace/name"), in the order it ends."""
    entries: list[_Row] = [
        entry
        for found in (prediction.cancelled, prediction.evictions, prediction.kept)
        for entry in found
        if entry.key == pod
    ]
    if not entries:
        yield Verdict((Phrase(f"Nothing happens to pod {words.name(pod)}."),))
    for entry in sorted(entries, key=_end):
        yield Verdict(tuple(_conclusion(entry, clock)))
        if not isinstance(entry, Cancelled) and entry.because:
            yield Timeline(
                "How it comes about, in one of the possible timings",
                tuple(_moment(link, pod, clock, wide=wide) for link in entry.because),
            )
    if prediction.drains:
        from kubectl_evictplan.report.drains import waits_of

        if waits := tuple(waits_of(prediction, pod)):
            yield Verdict(waits)
    about = warnings_about(prediction.warnings, pod)
    if about is not None:
        yield about
    start = clock.start() or str(prediction.inputs.start.value)
    yield Verdict((Phrase(f"+0s is {start} ({prediction.inputs.start.source}).", "faint"),))


def _end(entry: _Row) -> tuple[float, int]:
    """When the entry's story ends in a fact; what is kept is the last word."""
    if isinstance(entry, Eviction):
        return entry.offset_seconds, 1
    if isinstance(entry, Cancelled):
        seconds = entry.cancelled.earliest_seconds
        return (float("-inf") if seconds is None else seconds), 0
    return float("inf"), 2


def _moment(link: Because, pod: str, clock: Clock, *, wide: bool) -> Moment:
    kind, _, subject = link.object.partition("/")
    other = f"{kind} {words.name(subject)}: " if subject and subject != pod else ""
    grounds = ", ".join(filter(None, (link.object, link.rule))) if wide else ""
    at = link.offset_seconds
    return Moment(clock.time(at), words.offset(at), other + (link.what or words.UNKNOWN), grounds)


def _conclusion(entry: _Row, clock: Clock) -> Iterator[Phrase]:
    pod = f"Pod {words.name(entry.key)}"
    if isinstance(entry, Cancelled):
        may = "" if entry.certainty == CERTAIN else "possibly "
        started = words.gone(entry.started, exact=True)
        since = f" that starts at {started}" if started != words.UNKNOWN else ""
        yield Phrase(
            f"{pod}: a timer{since} is {may}cancelled at {words.gone(entry.cancelled, exact=True)}: "
            f"{_sentence(entry.reason)}"
        )
        return
    if isinstance(entry, Kept):
        yield Phrase(f"{pod} stays: {_sentence(entry.reason or entry.code)}", "good")
    else:
        yield from _eviction(entry, pod, clock)
    owner = f"owner {words.name(entry.owner)}" if entry.owner else "no owner"
    yield Phrase(f"Node {words.name(entry.node)}, {owner}, uid {words.name(entry.uid)}.", "faint")


def _eviction(entry: Eviction, pod: str, clock: Clock) -> Iterator[Phrase]:
    sure = entry.certainty == CERTAIN
    deleted = "is deleted for certain" if sure else "may be deleted or stay"
    yield Phrase(
        f"{pod} {deleted}, by {words.name(entry.controller)}: {_outcomes(entry, clock)}.",
        "certain" if sure else "possible",
    )
    yield Phrase(f"Why: {_sentence(_cause(entry))}")
    if entry.gone.stuck is not None:
        yield Phrase(f"It stays Terminating, because {_sentence(entry.gone.stuck)}", "stuck")
    elif (end := words.gone(entry.gone, exact=True)) != words.UNKNOWN:
        yield Phrase(f"Its object is gone at {end}.")


def _outcomes(entry: Eviction, clock: Clock) -> str:
    return " or ".join(
        f"{clock.between(one.earliest_seconds, one.latest_seconds)} "
        f"({words.window(one.earliest_seconds, one.latest_seconds, exact=True)})"
        + (f" {one.when}" if one.when else "")
        for one in entry.windows
    )


def _cause(entry: Eviction) -> str:
    if entry.taint is None:
        return entry.because[-1].what if entry.because else "of a reason that is not recorded"
    place = f" (spec.tolerations[{entry.toleration.index}])" if entry.toleration else ""
    taint, tolerated = words.name(words.taint(entry.taint)), words.tolerated(entry.toleration)
    return f"its node has the taint {taint}, {tolerated}{place}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."
