"""How the table formats may use the terminal: columns, colours, characters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap

from kubectl_evictplan.display import cut_middle, escape, width

TABLE_COLUMNS_DEFAULT = 100
TABLE_COLUMNS_MIN = 80
# Prose stays readable even where the terminal is wider.
PROSE_COLUMNS_MAX = 100
# Private use: never in text that went through ``escape``.
_FILLER = "\ue000"

_STYLES = {
    "title": "1",
    "certain": "31",
    "possible": "33",
    "stuck": "35",
    "kept": "32",
    "warning": "33",
    "faint": "2",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """What ``-o table`` and ``-o wide`` may do; ``columns`` None means rows of any length."""

    wide: bool
    color: bool
    columns: int | None
    ascii_only: bool

    @classmethod
    def of(cls, output: str, *, color: bool, columns: int | None, ascii_only: bool) -> Layout:
        """Return the layout of ``output``; fewer than 80 ``columns`` become 80."""
        wide = output == "wide"
        limit = max(TABLE_COLUMNS_MIN, TABLE_COLUMNS_DEFAULT if columns is None else columns)
        return cls(wide, color, None if wide else limit, ascii_only)

    def text(self, value: str, max_columns: int | None = None) -> str:
        """Return free text, safe to show."""
        return escape(value, max_columns=max_columns, ascii_only=self.ascii_only)

    def name(self, value: str) -> str:
        """Return a Kubernetes name, safe to show; ``<none>`` when empty.

        Such names are ASCII by validation. Anything else is escaped, also where the stream could
        show it: a look-alike letter must not pass for the real one.
        """
        return escape(value, ascii_only=True) or "<none>"

    def cut(self, cell: str, max_columns: int) -> str:
        """Cut a safe cell in its middle."""
        return cut_middle(cell, max_columns, ascii_only=self.ascii_only)

    def paint(self, text: str, style: str) -> str:
        """Colour text that is already safe; ``style`` "" leaves it alone."""
        if not self.color or not style or not text:
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"

    def title(self, text: str) -> str:
        """Return the line that starts a section, cut to one line."""
        return self.heading(text, "title")

    def heading(self, text: str, style: str) -> str:
        """Return one painted line, cut in its middle where it does not fit."""
        cut = text if self.columns is None else self.cut(text, self.columns)
        return self.paint(cut.rstrip(), style) + "\n"

    def prose(self, text: str, indent: str = "", hanging: str | None = None) -> Iterator[str]:
        """Yield the lines of safe ``text``, wrapped; continuation lines get ``hanging``."""
        columns = min(self.columns or PROSE_COLUMNS_MAX, PROSE_COLUMNS_MAX)
        if not text.isascii():
            text = _with_fillers(text)
            columns -= 1  # a break may part a wide character from its filler
        lines = wrap(
            text,
            columns,
            initial_indent=indent,
            subsequent_indent=indent if hanging is None else hanging,
            break_on_hyphens=False,
        )
        for line in lines:
            yield line.replace(_FILLER, "").rstrip() + "\n"


def _with_fillers(text: str) -> str:
    """Give every wide character as many characters as columns: ``wrap`` counts the former."""
    return "".join(c + _FILLER if width(c) > 1 else c for c in text)
