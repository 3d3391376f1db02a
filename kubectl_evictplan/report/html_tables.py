"""Tables of a page: sorted and filtered by a script, readable without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubectl_evictplan.display import escape
from kubectl_evictplan.report.blocks import Cell, Phrase, Row, Stories, Table
from kubectl_evictplan.report.page_parts import escaped, json_element, packed_element

# Longer tables carry their rows as data and show the first.
_STATIC_ROWS_MAX = 200
_SHOWN_ROWS = 100
_CELL_COLUMNS_MAX = 1000
# Names have no blanks, and a window is shorter.
_WORDS_MAX = 24


def table(block: Table, at: int) -> Iterator[str]:
    """Yield a table with what the script needs."""
    long = len(block.rows) > _STATIC_ROWS_MAX
    shown = block.rows[:_SHOWN_ROWS] if long else block.rows
    stories = block.stories
    name = f"t{at}"
    data = f' data-rows="{name}"' if long else ""
    told = f' data-stories="{name}s"' if stories is not None else ""
    yield f'<div class="wide" tabindex="0" role="group" aria-labelledby="h{at}"><table{data}{told}>\n'
    heads = "".join(f'<th scope="col">{escaped(column.header)}</th>' for column in block.columns)
    yield f"<thead><tr>{heads}</tr></thead>\n<tbody>\n"
    for number, row in enumerate(shown):
        yield _row(row, None if stories is None else stories.of_row[number])
    yield "</tbody>\n"
    if block.total is not None:
        yield f"<tfoot>{_row(block.total, None)}</tfoot>\n"
    yield "</table></div>\n"
    if long:
        yield f'<p class="note" data-more="{name}">The first {len(shown)} of {len(block.rows)} rows.</p>\n'
        yield packed_element(name, list(map(_column, zip(*block.rows, strict=True))))
    if stories is not None:
        element = packed_element if long else json_element
        yield element(f"{name}s", _told(stories))
    for note in block.notes:
        yield f'<p class="note">{escaped(note)}</p>\n'


def _row(row: Row, story: int | None) -> str:
    mark = "" if story is None else f' data-story="{story}"'
    return f"<tr{mark}>{''.join(map(_cell, row))}</tr>\n"


def _cell(cell: Cell) -> str:
    text, tone = cell if isinstance(cell, Phrase) else (cell, "plain")
    return f'<td class="{_class(text, tone)}">{escaped(text, _CELL_COLUMNS_MAX)}</td>'


def _class(text: str, tone: str) -> str:
    """Return how a cell looks: sentences are wrapped, names and figures are not."""
    sentence = " text" if len(text) > _WORDS_MAX and " " in text else ""
    return f"{tone}{sentence}"


def _column(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return a column as its distinct texts with their tones, and the place of each row's text in them."""
    distinct = list(dict.fromkeys(cells))
    places = dict(zip(distinct, range(len(distinct)), strict=True))
    classes = [
        _class(*cell) if isinstance(cell, Phrase) else _class(cell, "plain") for cell in distinct
    ]
    return {
        "texts": _escaped([cell.text if isinstance(cell, Phrase) else cell for cell in distinct]),
        "tones": classes if set(classes) != {"plain"} else [],
        "rows": list(map(places.__getitem__, cells)),
    }


def _escaped(texts: list[str]) -> list[str]:
    """Each text that is safe to show. Of tens of thousands of plain names nothing has to be done to any."""
    together = "".join(texts)
    if together.isascii() and together.isprintable():
        if max(map(len, texts), default=0) <= _CELL_COLUMNS_MAX:
            return texts
    return [escape(text, max_columns=_CELL_COLUMNS_MAX) for text in texts]


def _told(stories: Stories) -> dict[str, Any]:
    return {
        "moments": [
            [escape(moment.offset), escape(moment.text), escape(moment.grounds)]
            for moment in stories.moments
        ],
        "chains": stories.chains,
        "rows": stories.of_row,
    }
