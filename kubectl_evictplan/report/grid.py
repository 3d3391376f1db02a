"""Tables in kubectl's look: upper-case headers, two spaces between columns, no borders.

Cells are safe and made of characters that take one column each (``Layout.name``), so lengths are
widths. Bounded tables are laid out by tabulate; the evictions, of which there may be hundreds of
thousands, by ``stream``, which gives the same text some ten times faster and line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kubectl_evictplan.report.layout import Layout

GAP = "  "

Row = tuple[str, ...]
# Called with the row's number, the column's number and the padded cell.
Painter = Callable[[int, int, str], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``shrinks_to`` is how narrow it may get, None for never cut.

    ``cut_end`` columns hold sentences and lose their end, the others names that lose their middle.
    """

    header: str
    shrinks_to: int | None = None
    cut_end: bool = False


def fit(columns: Sequence[Column], rows: Sequence[Row], layout: Layout) -> list[int]:
    """Return the widths of the columns, narrowed until the table fits its layout.

    Sentences give way before names, and among equals the widest column first.
    """
    widths = [
        max(len(column.header), max((len(row[at]) for row in rows), default=0))
        for at, column in enumerate(columns)
    ]
    if layout.columns is None:
        return widths
    excess = sum(widths) + len(GAP) * (len(columns) - 1) - layout.columns
    for sentences in (True, False):
        while excess > 0:
            room = [
                at
                for at, column in enumerate(columns)
                if column.cut_end is sentences
                and column.shrinks_to is not None
                and widths[at] > max(column.shrinks_to, len(column.header))
            ]
            if not room:
                break
            widths[max(room, key=lambda at: widths[at])] -= 1
            excess -= 1
    return widths


def stream(
    columns: Sequence[Column],
    rows: Sequence[Row],
    layout: Layout,
    *,
    headers: bool = True,
    paint: Painter | None = None,
) -> Iterator[str]:
    """Yield the table's lines; no line ends in blanks."""
    widths = fit(columns, rows, layout)
    if headers:
        yield _line([column.header.ljust(w) for column, w in zip(columns, widths, strict=True)])
    for number, row in enumerate(rows):
        cells = [
            (cell if len(cell) <= w else _cut(cell, w, column, layout)).ljust(w)
            for cell, w, column in zip(row, widths, columns, strict=True)
        ]
        if paint is not None:
            cells[-1] = cells[-1].rstrip()
            cells = [paint(number, at, cell) for at, cell in enumerate(cells)]
        yield _line(cells)


def table(columns: Sequence[Column], rows: Iterable[Row], layout: Layout) -> Iterator[str]:
    """Yield the lines of a bounded table, laid out by tabulate."""
    import tabulate

    all_rows = list(rows)
    widths = fit(columns, all_rows, layout)
    cut_rows = [
        [
            cell if len(cell) <= w else _cut(cell, w, column, layout)
            for cell, w, column in zip(row, widths, columns, strict=True)
        ]
        for row in all_rows
    ]
    look = tabulate.TableFormat(
        lineabove=None,
        linebelowheader=None,
        linebetweenrows=None,
        linebelow=None,
        headerrow=tabulate.DataRow("", GAP, ""),
        datarow=tabulate.DataRow("", GAP, ""),
        padding=0,
        with_header_hide=None,
    )
    # The headers are a row like the others: tabulate would widen their columns by two.
    text = tabulate.tabulate(
        [[column.header for column in columns], *cut_rows],
        tablefmt=look,
        # Or 1e5 becomes 100000 and 0012 becomes 12: wrong names.
        disable_numparse=True,
        stralign="left",
        preserve_whitespace=True,
    )
    for line in text.split("\n"):
        yield _line([line])


def _cut(cell: str, columns: int, column: Column, layout: Layout) -> str:
    return layout.text(cell, columns) if column.cut_end else layout.cut(cell, columns)


def _line(cells: Sequence[str]) -> str:
    return GAP.join(cells).rstrip() + "\n"
