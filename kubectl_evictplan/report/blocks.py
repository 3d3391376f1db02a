"""What a report consists of, whatever it is rendered to: blocks of plain text, roles and order.

Blocks know nothing of predictions and nothing of terminals. Their texts may still be hostile: every
renderer escapes all of them in its own way, and needs this module alone. Charts are data too: what is drawn
from them is the renderer's choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

Tone = Literal["plain", "certain", "possible", "stuck", "good", "loud", "faint"]


class Phrase(NamedTuple):
    """A sentence, or a cell, that is not plain."""

    text: str
    tone: Tone = "plain"


Cell = str | Phrase
Row = tuple[Cell, ...]


class Verdict(msgspec.Struct, frozen=True):
    """The answer, in sentences, the most important first."""

    sentences: tuple[Phrase, ...]


class Column(msgspec.Struct, frozen=True):
    """``leave_out`` says when a narrow page does without the column: 1 first, 0 never."""

    header: str
    leave_out: int = 0


def columns(*headers: str) -> tuple[Column, ...]:
    """Return columns that no page does without."""
    return tuple(map(Column, headers))


class Moment(NamedTuple):
    """Something that happens; ``grounds`` is for those who want to look it up."""

    time: str
    offset: str
    text: str
    grounds: str = ""


class Stories(msgspec.Struct, frozen=True):
    """How each row of a table comes about, what rows share told once.

    ``of_row`` is the place in ``chains`` of each row; a chain are places in ``moments``, in order.
    """

    moments: Sequence[Moment]
    chains: Sequence[tuple[int, ...]]
    of_row: Sequence[int]


class Table(msgspec.Struct, frozen=True):
    """Rows of names and figures; ``notes`` tell once what all rows share."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    title: str = ""
    total: Row | None = None
    notes: tuple[str, ...] = ()
    stories: Stories | None = None


class Timeline(msgspec.Struct, frozen=True):
    """Moments in order; ``note`` says what kind of order it is, or what is left out."""

    title: str
    moments: tuple[Moment, ...]
    note: str = ""


class Finding(NamedTuple):
    """Something to know: its stable code, what it says, about what."""

    code: str
    message: str
    objects: str = ""


class Findings(msgspec.Struct, frozen=True):
    """Findings, each code with all its messages; ``tone`` "loud" must not be overlooked."""

    title: str
    findings: tuple[Finding, ...]
    tone: Tone = "plain"


class Figures(msgspec.Struct, frozen=True):
    """Labelled facts, such as where the answer comes from."""

    title: str
    facts: tuple[tuple[str, str], ...]


class Title(msgspec.Struct, frozen=True):
    """What the whole page is about."""

    text: str


class Commands(msgspec.Struct, frozen=True):
    """Lines for a shell, each complete; ``note`` says what they are for."""

    title: str
    lines: tuple[str, ...]
    note: str = ""


class Bar(msgspec.Struct, frozen=True):
    """A stretch of time on a chart, in seconds from the start; ``told`` says it in words."""

    label: str
    from_seconds: float
    to_seconds: float
    tone: Tone = "plain"
    told: str = ""


class BarGroup(msgspec.Struct, frozen=True):
    """Bars that belong together under one name."""

    name: str
    bars: tuple[Bar, ...]


class Gantt(msgspec.Struct, frozen=True):
    """A chart of bars over time; ``start`` is the clock time of offset 0, None when it is not known."""

    title: str
    groups: tuple[BarGroup, ...]
    start: datetime | None
    note: str = ""
    # Whether tones need words: not where labels say what they mean.
    legend: bool = True


class Point(msgspec.Struct, frozen=True):
    """From ``at_seconds`` until the next point at least and at most so many."""

    at_seconds: float
    least: float
    most: float


class Band(msgspec.Struct, frozen=True):
    """One number over time, between its bounds; ``end_seconds`` is where the chart ends."""

    name: str
    points: tuple[Point, ...]
    end_seconds: float


class Bands(msgspec.Struct, frozen=True):
    """Charts of numbers over time, one for each band; ``unit`` says what is counted."""

    title: str
    unit: str
    bands: tuple[Band, ...]
    note: str = ""


class Counts(msgspec.Struct, frozen=True):
    """A chart of a few numbers beside each other."""

    title: str
    unit: str
    counts: tuple[tuple[str, int, Tone], ...]


Block = (
    Title
    | Verdict
    | Table
    | Timeline
    | Findings
    | Figures
    | Commands
    | Gantt
    | Bands
    | Counts
    | Verdict
    | Table
    | Timeline
    | Findings
    | Figures
    | Commands
    | Gantt
)
