"""Blocks as GitHub-flavoured Markdown that GitHub, GitLab, Jira and ServiceNow take; knows nothing of predictions.

Everything is escaped here, once: nothing that a cluster's owner wrote becomes a link, a picture, a mention,
a reference, HTML or a row of its own. The page stays readable as plain text, and below ``LIMIT_BYTES``: long
tables lose rows first, the longest first, and say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from kubectl_evictplan.display import escape
from kubectl_evictplan.report.blocks import (
    Block,
    Cell,
    Commands,
    Figures,
    Findings,
    Gantt,
    Row,
    Table,
    Timeline,
    Title,
    Verdict,
)
from kubectl_evictplan.report.mermaid import gantt

# Jira's default for one text field is 32,767 characters, the least of the four (GitHub: 65,536).
LIMIT_BYTES = 32_000
# Rows of one table: as many as fit, of these.
_ROWS = (60, 40, 25, 15, 8, 4, 2, 1, 0)
_TEXT_COLUMNS_MAX = 1000
_CELL_COLUMNS_MAX = 400

_ENTITIES = {"<": "&lt;", ">": "&gt;", "|": "&#124;", "$": "&#36;"}
_SPECIAL = re.compile(r"[\\`*_\[\]{}~<>|$]")
# What becomes a mention, an issue, a merge request, a label, an epic, a milestone or an emoji.
_REFERENCE = re.compile(r"[@#!%^~&](?=[\w\"'])|:(?=[a-z_+][\w+-]*:)", re.IGNORECASE)
_AUTOLINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
# A word joiner: shown as nothing, and no reference goes across it.
_JOINER = "&#8288;"
_BLOCK_START = re.compile(r"[-+=#]|\d+(?=[.)])")
_SPACES = re.compile(r"^ |(?<= ) | $")


def escaped(text: str, columns_max: int = _TEXT_COLUMNS_MAX) -> str:
    """Return a text as Markdown that shows it, whatever it holds, on one line."""
    safe = escape(text, max_columns=columns_max)
    # The ampersand first: entities are added after it.
    parts = []
    joined_at = {match.end() for match in _REFERENCE.finditer(safe)}
    joined_at |= {match.end() for match in _AUTOLINK.finditer(safe)}
    for at, character in enumerate(safe):
        if at in joined_at:
            parts.append(_JOINER)
        parts.append(_character(character))
    return _SPACES.sub("&#32;", "".join(parts))


def _line_of(text: str) -> str:
    """Return a text as a line of its own: it begins no list, heading or quotation."""
    done = escaped(text)
    start = _BLOCK_START.match(done)
    if start is None:
        return done
    end = start.end() - (not start[0].isdigit())
    return f"{done[:end]}\\{done[end:]}"


def _character(character: str) -> str:
    if character == "&":
        return "&amp;"
    if character in _ENTITIES:
        return _ENTITIES[character]
    return "\\" + character if _SPECIAL.match(character) else character


def render(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the page in chunks of whole lines, below ``LIMIT_BYTES``."""
    every = list(blocks)
    text = ""
    for rows_max in _ROWS:
        text = _page(every, rows_max)
        if len(text.encode()) <= LIMIT_BYTES:
            yield text
            return
    yield _first_lines(text)


def _page(blocks: Sequence[Block], rows_max: int) -> str:
    return "\n".join("\n".join(_block(block, rows_max)) + "\n" for block in blocks)


def _first_lines(text: str) -> str:
    """Return what fits of a page that is too long even without rows, and that something is missing."""
    end = "\n_The rest is left out: a ticket takes no more. -o html and -o json have everything._\n"
    room, kept = LIMIT_BYTES - len(end.encode()) - 8, []
    for line in text.splitlines(keepends=True):
        room -= len(line.encode())
        if room < 0:
            break
        kept.append(line)
    fence = "```\n" if sum(line.startswith("```") for line in kept) % 2 else ""
    return "".join(kept) + fence + end


def _block(block: Block, rows_max: int) -> Iterator[str]:
    match block:
        case Title(text):
            yield f"# {escaped(text)}"
        case Verdict(sentences):
            for at, (text, tone) in enumerate(sentences):
                yield (
                    f"- **{escaped(text)}**" if not at or tone == "loud" else f"- {_line_of(text)}"
                )
        case Table():
            yield from _table(block, rows_max)
        case Timeline():
            yield from _heading(block.title)
            for moment in block.moments[: max(rows_max, 1)]:
                grounds = f" ({escaped(moment.grounds)})" if moment.grounds else ""
                time, offset = escaped(moment.time), escaped(moment.offset)
                yield f"- **{time}** ({offset}): {escaped(moment.text)}{grounds}"
            rest = len(block.moments) - max(rows_max, 1)
            yield from _notes((block.note, f"and {rest} more" if rest > 0 else ""))
        case Findings():
            yield from _findings(block, rows_max)
        case Figures(title, facts):
            yield from _heading(title)
            for label, text in facts:
                yield f"- {_line_of(label)}: {escaped(text)}"
        case Commands():
            yield from _heading(block.title)
            yield from _fenced("sh", [escape(line) for line in block.lines])
            yield from _notes((block.note,))
        case Gantt():
            yield from _heading(block.title)
            yield from _fenced("mermaid", gantt(block))
            yield from _notes((block.note,))


def _heading(title: str) -> Iterator[str]:
    if title:
        yield f"## {escaped(title)}"
        yield ""


def _notes(notes: Iterable[str]) -> Iterator[str]:
    for note in filter(None, notes):
        yield ""
        yield _line_of(note)


def _fenced(language: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as they are between fences that none of them can close."""
    every = list(lines)
    longest = max((len(run) for line in every for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence + language
    yield from every
    yield fence


def _table(table: Table, rows_max: int) -> Iterator[str]:
    """Yield the table; its total stands below all rows, shown or not."""
    yield from _heading(table.title)
    rest = len(table.rows) - rows_max
    rows: list[Row] = list(table.rows[:rows_max])
    if table.total is not None:
        rows.append(table.total)
    yield _line(column.header for column in table.columns)
    yield "|" + " --- |" * len(table.columns)
    for row in rows:
        yield _line(map(_cell, row))
    left_out = f"{rest} more rows are left out here: -o html and -o json have them."
    yield from _notes((*table.notes, left_out if rest > 0 else ""))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(cell: Cell) -> str:
    return escaped(cell if isinstance(cell, str) else cell.text, _CELL_COLUMNS_MAX)


def _findings(block: Findings, rows_max: int) -> Iterator[str]:
    yield from _heading(block.title)
    shown = block.findings[: max(rows_max, 5)]
    for code, message, objects in shown:
        about = f" ({escaped(objects)})" if objects else ""
        yield f"- **{escaped(code)}**: {escaped(message)}{about}"
    if len(block.findings) > len(shown):
        yield from _notes((f"and {len(block.findings) - len(shown)} more",))
