"""A chart of bars as the text of a Mermaid gantt diagram.

Only letters, digits and a few harmless signs reach the diagram: its syntax knows no safe escape for the rest,
and directives in labels were holes before. Exact names stand in the tables beside it. GitLab draws at most
2,000 characters of diagrams on a page without being asked, so that is the limit here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from kubectl_evictplan.report.blocks import Bar, Gantt

CHARACTERS_MAX = 1900
_LABEL_MAX = 60
_UNSAFE = re.compile(r"[^A-Za-z0-9 ._/=()+-]")
_TAGS = {"certain": "active, ", "stuck": "crit, ", "loud": "crit, "}
# Words that begin a statement of the diagram's syntax; a label may not.
_STATEMENT = re.compile(
    r"gantt|dateformat|inclusiveenddates|topaxis|axisformat|tickinterval|includes|excludes|todaymarker"
    r"|weekday|weekend|title|acctitle|accdescr|section|click|call|href",
    re.IGNORECASE,
)
_EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001 - drawn as it is written, in no zone


def gantt(block: Gantt) -> Iterator[str]:
    """Yield the lines of the diagram; bars that do not fit are counted in its last section."""
    start = _EPOCH if block.start is None else block.start.replace(tzinfo=None)
    lines = ["gantt", "  dateFormat YYYY-MM-DDTHH:mm:ss.SSS", "  axisFormat %H:%M:%S"]
    room = CHARACTERS_MAX - sum(map(len, lines))
    left_out, number = 0, 0
    for group in block.groups:
        head: list[str] = [f"  section {_label(group.name)}"]
        for bar in group.bars:
            number += 1
            line = _line(bar, start, number)
            room -= len(line) + 1 + sum(len(text) + 1 for text in head)
            if room < 0:
                left_out += 1
                continue
            lines += [*head, line]
            head = []
    yield from lines
    if left_out:
        yield f"  %% {left_out} more bars do not fit"


def _line(bar: Bar, start: datetime, number: int) -> str:
    milliseconds = max(round((bar.to_seconds - bar.from_seconds) * 1000), 0)
    at = (start + timedelta(milliseconds=round(bar.from_seconds * 1000))).isoformat(
        timespec="milliseconds"
    )
    tag = "milestone, " if not milliseconds else _TAGS.get(bar.tone, "")
    return f"    {_label(bar.label)} :{tag}b{number}, {at}, {milliseconds}ms"


def _label(text: str) -> str:
    """Return a label that the diagram can only show."""
    safe = _UNSAFE.sub("_", text.replace(": ", " - ").replace(", ", " ")).strip() or "_"
    if _STATEMENT.match(safe):
        safe = f"- {safe}"
    return safe if len(safe) <= _LABEL_MAX else safe[: _LABEL_MAX - 3] + "..."
