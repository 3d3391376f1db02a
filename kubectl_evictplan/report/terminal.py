"""Blocks as text for a terminal or a pipe; knows nothing of predictions.

Everything is escaped here, once, before our own colours are added. No name is ever cut: a narrow
terminal loses columns in a fixed order, and what then still is too wide becomes a longer line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

import msgspec

from kubectl_evictplan.display import escape, width
from kubectl_evictplan.report.blocks import (
    Block,
    Cell,
    Column,
    Commands,
    Figures,
    Findings,
    Row,
    Table,
    Timeline,
    Verdict,
)

# Prose stays readable even where the terminal is wider.
PROSE_COLUMNS_MAX = 100
PROSE_COLUMNS_MIN = 40
GAP = "  "
# A hostile or generated message must not bury the others.
_MESSAGE_COLUMNS_MAX = 1000
# Private use: never in text that went through ``escape``.
_FILLER = "\ue000"

_STYLES = {
    "title": "1",
    "loud": "1;31",
    "certain": "31",
    "possible": "33",
    "stuck": "35",
    "good": "32",
    "faint": "2",
}


class Terminal(msgspec.Struct, frozen=True):
    """How wide lines may be (None: as wide as they want), in which characters and colours."""

    columns: int | None
    color: bool
    ascii_only: bool
    headers: bool = True

    def render(self, blocks: Iterable[Block]) -> Iterator[str]:
        """Yield the text in chunks of whole lines, an empty line between blocks."""
        for at, block in enumerate(blocks):
            if at:
                yield "\n"
            yield from self._block(block)

    def _block(self, block: Block) -> Iterator[str]:
        match block:
            case Verdict(sentences):
                for text, tone in sentences:
                    yield from self._prose(text, tone=tone, hanging="  ")
            case Table():
                yield from self._table(block)
            case Timeline():
                yield from self._timeline(block)
            case Findings():
                yield from self._findings(block)
            case Figures(title, facts):
                yield from self._title(title)
                for label, text in facts:
                    yield from self._prose(f"{label}: {text}", hanging="  ")
            case Commands():
                yield from self._commands(block)

    # -- prose ------------------------------------------------------------------------------------

    def _title(self, text: str, style: str = "title") -> Iterator[str]:
        if text:
            yield from self._prose(text, tone=style)

    def _prose(
        self, text: str, lead: str = "", hanging: str = "", tone: str = "plain"
    ) -> Iterator[str]:
        """Yield wrapped lines; a name that does not fit into one makes it longer."""
        text = escape(text, ascii_only=self.ascii_only)
        if not text.isascii():
            text = "".join(c + _FILLER if width(c) > 1 else c for c in text)
        lines = wrap(
            text,
            self._prose_columns(),
            initial_indent=lead,
            subsequent_indent=hanging,
            break_on_hyphens=False,
            break_long_words=False,
        )
        for line in lines:
            yield self._paint(line.replace(_FILLER, "").rstrip(), tone) + "\n"

    def _prose_columns(self) -> int:
        limit = PROSE_COLUMNS_MAX if self.columns is None else self.columns
        return max(PROSE_COLUMNS_MIN, min(limit, PROSE_COLUMNS_MAX))

    def _paint(self, text: str, tone: str) -> str:
        style = _STYLES.get(tone, "")
        return f"\x1b[{style}m{text}\x1b[0m" if self.color and style and text else text

    # -- tables -----------------------------------------------------------------------------------

    def _table(self, table: Table) -> Iterator[str]:
        rows: list[Row] = list(table.rows)
        if self.headers:
            yield from self._title(table.title)
            rows += [table.total] if table.total is not None else []
        heads = [column.header if self.headers else "" for column in table.columns]
        texts = [[self._cell(cell) for cell in row] for row in rows]
        widths = [
            max(len(head), *(len(row[at]) for row in texts)) if texts else len(head)
            for at, head in enumerate(heads)
        ]
        left_out = self._left_out(table.columns, widths) if self.headers else set()
        shown = [at for at in range(len(heads)) if at not in left_out]
        if self.headers:
            yield GAP.join(heads[at].ljust(widths[at]) for at in shown).rstrip() + "\n"
        for row, line in zip(rows, texts, strict=True):
            cells = (self._padded(line[at], row[at], widths[at]) for at in shown)
            yield GAP.join(cells).rstrip() + "\n"
        if self.headers:
            yield from self._notes(table, left_out)

    def _left_out(self, columns: Sequence[Column], widths: Sequence[int]) -> set[int]:
        """Return the columns that a narrow page does without, in the order they are to go."""
        out: set[int] = set()
        order = sorted((column.leave_out, at) for at, column in enumerate(columns))
        for rank, at in order:
            kept = [widths[other] for other in range(len(widths)) if other not in out]
            if self.columns is None or sum(kept) + len(GAP) * (len(kept) - 1) <= self.columns:
                break
            if rank:
                out.add(at)
        return out

    def _notes(self, table: Table, left_out: set[int]) -> Iterator[str]:
        for note in table.notes:
            yield from self._prose(note, hanging="  ", tone="faint")
        if left_out:
            names = ", ".join(table.columns[at].header for at in sorted(left_out))
            text = f"Too narrow for {names}: a wider terminal, a pipe or -o wide shows them."
            yield from self._prose(text, hanging="  ", tone="faint")

    # -- lists ------------------------------------------------------------------------------------

    def _timeline(self, block: Timeline) -> Iterator[str]:
        yield from self._title(block.title)
        times = [escape(moment.time) for moment in block.moments]
        offsets = [escape(moment.offset) for moment in block.moments]
        time_width, offset_width = max(map(len, times)), max(map(len, offsets))
        for at, moment in enumerate(block.moments):
            lead = f"  {times[at]:<{time_width}}  {offsets[at]:<{offset_width}}  "
            # Where the text would become a narrow column it starts a line of its own.
            hanging = " " * (len(lead) if 2 * len(lead) <= self._prose_columns() else 6)
            yield from self._prose(moment.text, lead, hanging)
            if moment.grounds:
                yield from self._prose(f"({moment.grounds})", hanging, hanging, "faint")
        if block.note:
            yield from self._prose(block.note, "  ", "  ", "faint")

    def _findings(self, block: Findings) -> Iterator[str]:
        yield from self._title(block.title, "loud" if block.tone == "loud" else "title")
        for code, message, objects in block.findings:
            text = f"{code}: {escape(message, max_columns=_MESSAGE_COLUMNS_MAX)}"
            yield from self._prose(f"{text} ({objects})" if objects else text, "  ", "    ")

    def _commands(self, block: Commands) -> Iterator[str]:
        yield from self._title(f"{block.title}: {block.note}" if block.note else block.title)
        for line in block.lines:
            # Never wrapped: it is to be copied.
            yield f"  {escape(line, ascii_only=self.ascii_only)}\n"

    def _cell(self, cell: Cell) -> str:
        return escape(cell if isinstance(cell, str) else cell.text, ascii_only=True)

    def _padded(self, text: str, cell: Cell, columns: int) -> str:
        return self._paint(text, _tone(cell)) + " " * (columns - len(text))


def _tone(cell: Cell) -> str:
    return "plain" if isinstance(cell, str) else cell.tone
