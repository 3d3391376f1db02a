"""The one-glance answer on top of the table: how many pods, from where, when, and on what grounds."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.prediction.document import (
    CERTAIN,
    EventSummary,
    Eviction,
    Inputs,
    Prediction,
)
from kubectl_evictplan.report import cells
from kubectl_evictplan.report.layout import Layout

_EVENTS_SHOWN_MAX = 3
_NODES_SHOWN_MAX = 3
_HANGING = "  "

_Pod = tuple[str, str, str]


def render_headline(prediction: Prediction, layout: Layout) -> Iterator[str]:
    """Yield the headline's lines, the verdict first."""
    yield from _verdict(prediction, layout)
    yield from _times(prediction.evictions, layout)
    for event_line in _events(prediction.inputs.events, layout):
        yield from layout.prose(event_line, hanging=_HANGING)
    yield from layout.prose(layout.text(_grounds(prediction.inputs)), hanging=_HANGING)
    flags = _flags(prediction.inputs, wide=layout.wide)
    yield from layout.prose(layout.text(flags), hanging=_HANGING)
    if layout.wide:
        yield from layout.prose(layout.text(_source(prediction.inputs)), hanging=_HANGING)
    for assumption in prediction.inputs.assumptions:
        yield from layout.prose(layout.text(f"Assumed: {assumption}"), hanging=_HANGING)


def _verdict(prediction: Prediction, layout: Layout) -> Iterator[str]:
    certain, possible, stuck = _evicted_pods(prediction.evictions)
    stays = {(kept.namespace, kept.pod, kept.uid) for kept in prediction.kept}
    stays -= certain | possible
    nodes = len({entry.node for entry in prediction.evictions})
    text = _evicted_text(len(certain), len(possible), layout)
    if nodes:
        text += f", from {cells.count(nodes, 'node')}"
    yield f"{text}; {len(stays)} {'stays' if len(stays) == 1 else 'stay'}.\n"
    if stuck:
        verb = "stays" if len(stuck) == 1 else "stay"
        note = f"{cells.count(len(stuck), 'evicted pod')} {verb} Terminating (stuck)."
        yield layout.paint(note, "stuck") + "\n"


def _evicted_pods(evictions: tuple[Eviction, ...]) -> tuple[set[_Pod], set[_Pod], set[_Pod]]:
    """Return the pods evicted for certain, possibly only, and those that stay Terminating."""
    certain: set[_Pod] = set()
    possible: set[_Pod] = set()
    stuck: set[_Pod] = set()
    for entry in evictions:
        pod = (entry.namespace, entry.pod, entry.uid)
        (certain if entry.certainty == CERTAIN else possible).add(pod)
        if entry.gone.stuck is not None:
            stuck.add(pod)
    return certain, possible - certain, stuck


def _evicted_text(certain: int, possible: int, layout: Layout) -> str:
    if not certain and not possible:
        return layout.paint("No pod is evicted", "kept")
    if not certain:
        pods = cells.count(possible, "pod")
        verb = "is" if possible == 1 else "are"
        return layout.paint(f"{pods} {verb} possibly evicted, none for certain", "possible")
    verb = "is" if certain == 1 else "are"
    text = layout.paint(f"{cells.count(certain, 'pod')} {verb} evicted for certain", "certain")
    return f"{text}, {layout.paint(f'{possible} possibly', 'possible')}" if possible else text


def _times(evictions: tuple[Eviction, ...], layout: Layout) -> Iterator[str]:
    if not evictions:
        return
    first = min(evictions, key=lambda entry: (entry.earliest_seconds, entry.offset_seconds))
    last = max(evictions, key=lambda entry: (entry.latest_seconds, entry.offset_seconds))
    text = f"First {_moment(first)}"
    if _moment(last) != _moment(first):
        text += f", last {_moment(last)}"
    controllers = sorted({entry.controller for entry in evictions})
    text += f", deleted by {', '.join(controllers)}."
    yield from layout.prose(layout.text(text), hanging=_HANGING)


def _moment(entry: Eviction) -> str:
    when = cells.window(entry.earliest_seconds, entry.latest_seconds, exact=False)
    return f"{when} ({entry.time})"


def _events(events: tuple[EventSummary, ...], layout: Layout) -> Iterator[str]:
    shown = events if layout.wide else events[:_EVENTS_SHOWN_MAX]
    for event in shown:
        yield layout.text(f"Event {cells.offset(event.at_seconds)}: {_event(event)}")
    if len(events) > len(shown):
        yield f"Event ...: and {len(events) - len(shown)} more"


def _event(event: EventSummary) -> str:
    targets = event.nodes or event.pods
    names = ", ".join(targets[:_NODES_SHOWN_MAX])
    if len(targets) > _NODES_SHOWN_MAX:
        names += f" and {len(targets) - _NODES_SHOWN_MAX} more"
    return " ".join(part for part in (event.action, names, event.detail) if part)


def _grounds(inputs: Inputs) -> str:
    return (
        f"Kubernetes {cells.sourced(inputs.release)}; "
        f"start {cells.sourced(inputs.start)}; "
        f"horizon {cells.seconds_text(inputs.horizon)}; "
        f"monitor phase {cells.seconds_text(inputs.monitor_phase)}."
    )


def _flags(inputs: Inputs, *, wide: bool) -> str:
    by_source: dict[str, list[str]] = {}
    for name, value in sorted(inputs.flags.items()):
        by_source.setdefault(value.source, []).append(f"{name}={cells.plain(value.value)}")
    if not by_source:
        return "Flags: <none>."
    texts = []
    for source, flags in sorted(by_source.items()):
        # Defaults are known from the release; what deviates is what an operator must check.
        listed = wide or not source.startswith("default")
        texts.append(f"{', '.join(flags) if listed else len(flags)} ({source})")
    return f"Flags: {'; '.join(texts)}."


def _source(inputs: Inputs) -> str:
    ignored = ", ".join(f"{number} {kind}" for kind, number in sorted(inputs.ignored_kinds.items()))
    return (
        f"Read {cells.count(inputs.nodes, 'node')}, {cells.count(inputs.pods, 'pod')}"
        f"{f', ignored {ignored}' if ignored else ''}; "
        f"{inputs.source_digest or 'no digest'}; kubectl-evictplan {inputs.tool_version}."
    )
