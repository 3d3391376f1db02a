"""The table of evictions: one row per DELETE, in the prediction's order."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.prediction.document import CERTAIN, Eviction
from kubectl_evictplan.report import cells
from kubectl_evictplan.report.grid import Column, Painter, Row, stream
from kubectl_evictplan.report.layout import Layout

_NARROW = (
    Column("NAMESPACE", 9),
    Column("POD", 10),
    Column("NODE", 8),
    Column("EVICTED-AT"),
    Column("BY", 6),
    Column("WHY", 10),
    Column("OWNER", 6),
    Column("GONE", 18, cut_end=True),
)
_WIDE = (
    Column("NAMESPACE"),
    Column("POD"),
    Column("NODE"),
    Column("CERTAINTY"),
    Column("EVICTED-AT"),
    Column("TIME"),
    Column("BY"),
    Column("WHY"),
    Column("OWNER"),
    Column("GONE"),
    Column("UID"),
)
_EVICTED_AT = {False: 3, True: 4}
_GONE = {False: 7, True: 9}
_BY = 4


def render_evictions(
    evictions: tuple[Eviction, ...], layout: Layout, *, headers: bool
) -> Iterator[str]:
    """Yield the rows; without ``headers`` nothing but rows, and always all columns."""
    columns: tuple[Column, ...] = _WIDE if layout.wide else _NARROW
    rows = [_wide_row(e, layout) if layout.wide else _narrow_row(e, layout) for e in evictions]
    # The headline already names a controller that is alone: its column would only cost width.
    if headers and not layout.wide and len({row[_BY] for row in rows}) == 1:
        columns = columns[:_BY] + columns[_BY + 1 :]
        rows = [row[:_BY] + row[_BY + 1 :] for row in rows]
    paint = _painter(evictions, layout, len(columns)) if layout.color else None
    yield from stream(columns, rows, layout, headers=headers, paint=paint)


def _narrow_row(entry: Eviction, layout: Layout) -> Row:
    when = cells.window(entry.earliest_seconds, entry.latest_seconds, exact=False)
    return (
        layout.name(entry.namespace),
        layout.name(entry.pod),
        layout.name(entry.node),
        when + cells.possible_mark(entry.certainty),
        layout.name(cells.controller(entry.controller, short=True)),
        layout.name(cells.why(entry, short=True)),
        layout.name(cells.owner(entry.owner, short=True)),
        layout.name(cells.gone(entry.gone, exact=False)),
    )


def _wide_row(entry: Eviction, layout: Layout) -> Row:
    return (
        layout.name(entry.namespace),
        layout.name(entry.pod),
        layout.name(entry.node),
        layout.name(entry.certainty),
        cells.window(entry.earliest_seconds, entry.latest_seconds),
        layout.name(entry.time),
        layout.name(entry.controller),
        layout.name(cells.why(entry, short=False)),
        layout.name(entry.owner),
        layout.name(cells.gone(entry.gone)),
        layout.name(entry.uid),
    )


def _painter(evictions: tuple[Eviction, ...], layout: Layout, columns: int) -> Painter:
    evicted_at = _EVICTED_AT[layout.wide]
    # Counted from the end: the column BY may be left out before it.
    gone_at = _GONE[layout.wide] - (len(_WIDE if layout.wide else _NARROW) - columns)

    def paint(number: int, at: int, cell: str) -> str:
        entry = evictions[number]
        if at == evicted_at:
            return layout.paint(cell, "certain" if entry.certainty == CERTAIN else "possible")
        if at == gone_at and entry.gone.stuck is not None:
            return layout.paint(cell, "stuck")
        return cell

    return paint
