"""``--explain``: the story of one pod, oldest link first, then the conclusion in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubectl_evictplan.prediction.document import (
    CERTAIN,
    Because,
    Cancelled,
    Eviction,
    Kept,
    Prediction,
    Window,
)
from kubectl_evictplan.report import cells
from kubectl_evictplan.report.layout import Layout

Entry = Eviction | Kept | Cancelled


def render_explanation(prediction: Prediction, layout: Layout) -> Iterator[str]:
    """Yield the entries of the only pod of ``prediction`` in the order they begin."""
    entries: list[Entry] = [*prediction.cancelled, *prediction.evictions, *prediction.kept]
    entries.sort(key=_begin)
    start = f"Offset +0s is {cells.sourced(prediction.inputs.start)}."
    first = entries[0]
    yield layout.title(f"Pod {layout.name(first.namespace)}/{layout.name(first.pod)}")
    yield from layout.prose(layout.text(start))
    for number, entry in enumerate(entries, start=1):
        place = f" ({number} of {len(entries)})" if len(entries) > 1 else ""
        yield "\n" + layout.title(_heading(entry, layout) + place)
        if not isinstance(entry, Cancelled):
            yield from _chain(entry.because, layout)
        yield from layout.prose("=> " + layout.text(_conclusion(entry)), hanging="   ")
    yield from _about(prediction, first, layout)


def _begin(entry: Entry) -> tuple[float, int]:
    """When the entry's story ends in a fact; what is kept is the last word."""
    if isinstance(entry, Eviction):
        return entry.offset_seconds, 1
    if isinstance(entry, Cancelled):
        seconds = entry.cancelled.earliest_seconds
        return (float("-inf") if seconds is None else seconds), 0
    return float("inf"), 2


def _heading(entry: Entry, layout: Layout) -> str:
    what = {
        Eviction: "Evicted",
        Cancelled: "Timer cancelled",
        Kept: "Not evicted",
    }[type(entry)]
    owner = "" if isinstance(entry, Cancelled) or not entry.owner else entry.owner
    details = [f"node {layout.name(entry.node)}"]
    if owner:
        details.append(f"owner {layout.name(owner)}")
    if entry.uid:
        details.append(f"uid {layout.name(entry.uid)}")
    return f"{what}: {', '.join(details)}"


def _chain(links: Iterable[Because], layout: Layout) -> Iterator[str]:
    shown = [(cells.offset(link.offset_seconds), link) for link in links]
    if not shown:
        yield "  no chain of causes is recorded\n"
        return
    columns = max(len(when) for when, _ in shown)
    hanging = " " * (columns + 4)
    for when, link in shown:
        what = layout.text(link.what) or cells.UNKNOWN
        yield from layout.prose(what, f"  {when.ljust(columns)}  ", hanging=hanging)
        grounds = ", ".join(filter(None, (layout.text(link.object), layout.text(link.rule))))
        if grounds:
            for line in layout.prose(f"({grounds})", hanging, hanging=hanging + " "):
                yield layout.paint(line.rstrip("\n"), "faint") + "\n"


def _conclusion(entry: Entry) -> str:
    if isinstance(entry, Eviction):
        return _eviction_conclusion(entry)
    if isinstance(entry, Cancelled):
        return (
            f"{_likelihood(entry.certainty)} a timer runs for the pod from "
            f"{_window(entry.started)} and is cancelled at {_window(entry.cancelled)}: "
            f"{_sentence(entry.reason)}"
        )
    return f"The pod stays on its node: {_sentence(entry.reason or entry.code)}"


def _eviction_conclusion(entry: Eviction) -> str:
    when = cells.window(entry.earliest_seconds, entry.latest_seconds)
    moment = cells.offset(entry.offset_seconds)
    reference = entry.time if moment == when else f"{moment}, {entry.time} in the reference timing"
    text = (
        f"{_likelihood(entry.certainty)} {entry.controller} deletes the pod at {when} "
        f"({reference}), because {_cause(entry)}"
    )
    if entry.gone.stuck is not None:
        return f"{text}; after that it stays Terminating: {_sentence(entry.gone.stuck)}"
    end = cells.gone(entry.gone)
    return f"{text}; its object is gone at {end}." if end != cells.UNKNOWN else f"{text}."


def _cause(entry: Eviction) -> str:
    if entry.taint is None:
        return cells.why(entry, short=False)
    node = f"node {entry.node} has the taint {cells.taint(entry.taint)}"
    if entry.toleration is None:
        return f"{node}, which no toleration of the pod matches"
    seconds = entry.toleration.toleration_seconds
    place = f"toleration {entry.toleration.index}, counted from 0"
    if seconds is None:
        return f"{node}, which the pod tolerates without limit ({place})"
    if seconds <= 0:
        return f"{node}, which the pod tolerates for no time at all ({seconds}s; {place})"
    return f"{node}, which the pod tolerates for {seconds}s only ({place})"


def _about(prediction: Prediction, first: Entry, layout: Layout) -> Iterator[str]:
    """Yield the warnings that name this pod."""
    key = f"{first.namespace}/{first.pod}"
    for warning in prediction.warnings:
        if any(name == key or name.endswith(f" {key}") for name in warning.objects):
            code, message = layout.name(warning.code), layout.text(warning.message)
            yield "\n"
            yield from layout.prose(f"{layout.paint(code, 'warning')}: {message}", hanging="  ")


def _likelihood(certainty: str) -> str:
    if certainty == CERTAIN:
        return "For certain"
    return "In some admissible timings, not in all,"


def _window(value: Window) -> str:
    return cells.window(value.earliest_seconds, value.latest_seconds)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."
