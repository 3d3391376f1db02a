"""What follows the evictions: pods that stay, timers, nodes and zones over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kubectl_evictplan.prediction.document import (
    Cancelled,
    Eviction,
    Kept,
    NodeChange,
    NodeReport,
    ZoneReport,
    ZoneState,
)
from kubectl_evictplan.report import cells
from kubectl_evictplan.report.grid import Column, Row, stream, table
from kubectl_evictplan.report.layout import Layout

_CHANGE_WORDS = {
    "taint-added": "taint added: {}",
    "taint-removed": "taint removed: {}",
    "ready": "Ready becomes {}",
    "deleted": "node deleted",
    "created": "node created",
}
_CODE_COLUMNS_MAX = 40
_REASON = Column("REASON", 24, cut_end=True)


def render_stuck(evictions: tuple[Eviction, ...], layout: Layout) -> Iterator[str]:
    """Yield why evicted pods stay Terminating, in full, with how many it concerns."""
    reasons = Counter(e.gone.stuck for e in evictions if e.gone.stuck is not None)
    if not reasons:
        return
    yield "\n" + layout.title(f"Stay Terminating: {sum(reasons.values())}")
    for reason, number in _most_common(reasons):
        yield from layout.prose(f"{number}: {layout.text(reason)}", "  ", hanging="     ")


def render_kept(kept: tuple[Kept, ...], layout: Layout) -> Iterator[str]:
    """Yield the pods that stay: per reason in the table, each by name in wide."""
    if not kept:
        return
    yield "\n" + layout.title(f"Stay: {cells.count(len(kept), 'pod')}")
    if layout.wide:
        yield from _kept_by_name(kept, layout)
        return
    by_code: dict[str, Counter[str]] = {}
    for entry in kept:
        by_code.setdefault(entry.code, Counter())[entry.reason] += 1
    counts = {code: sum(reasons.values()) for code, reasons in by_code.items()}
    columns = (Column("PODS"), Column("WHY"), _REASON)
    rows: list[Row] = []
    for code in sorted(counts, key=lambda code: (-counts[code], code)):
        reason, others = _most_common(by_code[code])[0][0], len(by_code[code]) - 1
        text = f"e.g. {reason}" if others else reason
        rows.append(
            (
                str(counts[code]),
                layout.cut(layout.name(code), _CODE_COLUMNS_MAX),
                layout.text(text) or cells.NONE,
            )
        )
    yield from _prose_last(columns, rows, layout)


def _kept_by_name(kept: tuple[Kept, ...], layout: Layout) -> Iterator[str]:
    columns = tuple(map(Column, ("NAMESPACE", "POD", "NODE", "WHY", "OWNER", "REASON")))
    rows = [
        (
            layout.name(entry.namespace),
            layout.name(entry.pod),
            layout.name(entry.node),
            layout.name(entry.code),
            layout.name(entry.owner),
            layout.name(entry.reason),
        )
        for entry in kept
    ]
    yield from stream(columns, rows, layout)


def render_cancelled(cancelled: tuple[Cancelled, ...], layout: Layout) -> Iterator[str]:
    """Yield the timers that were started and cancelled."""
    if not cancelled:
        return
    yield "\n" + layout.title(f"Timers cancelled: {len(cancelled)}")
    columns = (
        Column("NAMESPACE", 9),
        Column("POD", 10),
        Column("NODE", 8),
        Column("STARTED"),
        Column("CANCELLED"),
        _REASON,
    )
    rows = [
        (
            layout.name(entry.namespace),
            layout.name(entry.pod),
            layout.name(entry.node),
            _window(entry.started.earliest_seconds, entry.started.latest_seconds, layout),
            _window(entry.cancelled.earliest_seconds, entry.cancelled.latest_seconds, layout)
            + cells.possible_mark(entry.certainty),
            layout.name(entry.reason),
        )
        for entry in cancelled
    ]
    yield from stream(columns, rows, layout)


def render_nodes(nodes: tuple[NodeReport, ...], layout: Layout) -> Iterator[str]:
    """Yield Ready and taints of the affected nodes over time, one row per change."""
    if not nodes:
        return
    yield "\n" + layout.title(f"Nodes: {len(nodes)} affected")
    what = Column("WHAT", 20)
    columns = (Column("NODE", 8), Column("ZONE", 6), Column("AT"), what, Column("BY", 6))
    rows = [row for node in nodes for row in _node_rows(node, layout)]
    yield from table(columns, rows, layout)


def _node_rows(node: NodeReport, layout: Layout) -> Iterator[Row]:
    name, zone = layout.name(node.node), layout.name(node.zone)
    taints = [_taint_text(cells.taint(taint), layout) for taint in node.taints_at_start]
    ready = node.ready_at_start or cells.UNKNOWN
    state = f"Ready {ready}, taints {', '.join(taints) or cells.NONE}"
    yield name, zone, "start", layout.name(state), ""
    for change in node.changes:
        when = _change_window(change, layout)
        yield name, zone, when, layout.name(_change(change, layout)), layout.name(change.by)


def _change(change: NodeChange, layout: Layout) -> str:
    words = _CHANGE_WORDS.get(change.what)
    value = _taint_text(change.value, layout)
    return words.format(value) if words else f"{change.what} {value}".rstrip()


def _taint_text(text: str, layout: Layout) -> str:
    return text if layout.wide else text.removeprefix(cells.NODE_TAINT_PREFIX)


def render_zones(zones: tuple[ZoneReport, ...], layout: Layout) -> Iterator[str]:
    """Yield the state and tainting rate of each zone over time."""
    if not zones:
        return
    yield "\n" + layout.title(f"Zones: {len(zones)}")
    headers = ("ZONE", "AT", "STATE", "TAINTS", "READY", "NOT-READY")
    shrinks_to = {"ZONE": 8, "STATE": 10}
    columns = tuple(Column(header, shrinks_to.get(header)) for header in headers)
    rows = [
        (
            layout.name(zone.zone),
            _change_window(state, layout),
            layout.name(state.state),
            _rate(state),
            str(state.ready),
            str(state.not_ready),
        )
        for zone in zones
        for state in zone.states
    ]
    yield from table(columns, rows, layout)


def _rate(state: ZoneState) -> str:
    if state.rate_per_second is None:
        return cells.UNKNOWN
    if state.rate_per_second == 0:
        return "stopped"
    return f"{state.rate_per_second:.6g}/s"


def _change_window(change: NodeChange | ZoneState, layout: Layout) -> str:
    when = _window(change.earliest_seconds, change.latest_seconds, layout)
    return when + cells.possible_mark(change.certainty)


def _window(earliest: float | None, latest: float | None, layout: Layout) -> str:
    return cells.window(earliest, latest, exact=layout.wide)


def _prose_last(columns: tuple[Column, ...], rows: list[Row], layout: Layout) -> Iterator[str]:
    """Yield a table whose last column is wrapped rather than cut."""
    heads = [row[:-1] for row in rows]
    widths = [
        max(len(column.header), *(len(head[at]) for head in heads))
        for at, column in enumerate(columns[:-1])
    ]
    lead = [column.header.ljust(w) for column, w in zip(columns[:-1], widths, strict=True)]
    yield "  ".join([*lead, columns[-1].header]) + "\n"
    hanging = " " * (sum(widths) + 2 * len(widths))
    for row in rows:
        cell_texts = [cell.ljust(w) for cell, w in zip(row[:-1], widths, strict=True)]
        yield from layout.prose(row[-1], "  ".join([*cell_texts, ""]), hanging=hanging)


def _most_common(counter: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))
