"""What a report consists of, whatever it is rendered to: blocks of plain text, roles and order.

Blocks know nothing of predictions and nothing of terminals. Their texts may still be hostile: every
renderer escapes all of them in its own way. A further renderer (Markdown, HTML) needs this module alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

Tone = Literal["plain", "certain", "possible", "stuck", "good", "loud", "faint"]


class Phrase(NamedTuple):
    """A sentence, or a cell, that is not plain."""

    text: str
    tone: Tone = "plain"


Cell = str | Phrase
Row = tuple[Cell, ...]


class Verdict(NamedTuple):
    """The answer, in sentences, the most important first."""

    sentences: tuple[Phrase, ...]


class Column(NamedTuple):
    """``leave_out`` says when a narrow page does without the column: 1 first, 0 never."""

    header: str
    leave_out: int = 0


def columns(*headers: str) -> tuple[Column, ...]:
    """Return columns that no page does without."""
    return tuple(map(Column, headers))


class Table(NamedTuple):
    """Rows of names and figures; ``notes`` tell once what all rows share."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    title: str = ""
    total: Row | None = None
    notes: tuple[str, ...] = ()


class Moment(NamedTuple):
    """Something that happens; ``grounds`` is for those who want to look it up."""

    time: str
    offset: str
    text: str
    grounds: str = ""


class Timeline(NamedTuple):
    """Moments in order; ``note`` says what kind of order it is, or what is left out."""

    title: str
    moments: tuple[Moment, ...]
    note: str = ""


class Finding(NamedTuple):
    """Something to know: its stable code, what it says, about what."""

    code: str
    message: str
    objects: str = ""


class Findings(NamedTuple):
    """Findings, each code with all its messages; ``tone`` "loud" must not be overlooked."""

    title: str
    findings: tuple[Finding, ...]
    tone: Tone = "plain"


class Figures(NamedTuple):
    """Labelled facts, such as where the answer comes from."""

    title: str
    facts: tuple[tuple[str, str], ...]


Block = Verdict | Table | Timeline | Findings | Figures
