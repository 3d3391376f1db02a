r"""Make text from anywhere safe to show: the one seam between cluster data and a terminal.

Names, taints, file names and messages may be written by an adversary. Everything that is printed
for a person (tables, errors, prompts, logs) goes through ``escape`` exactly once, *before* our own
colours are added. The rules:

* Every code point that is invisible or steers the terminal (categories Cc, Cf, Cs, Co, Cn, Zl, Zp,
  every space but U+0020, and the blank Hangul fillers) becomes visible: ``\x1b``, ``\u202e``,
  ``\U000e0001``. Lone surrogates are of category Cs, so the result can always be encoded.
* A base character keeps at most three combining marks; further ones, and marks without a base,
  become visible in the same way.
* A text that is too wide is cut between characters, never inside an escape, and ends in an
  ellipsis.

Pure: no terminal is asked for anything.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

COMBINING_MARKS_MAX = 3
ELLIPSIS = "…"
ELLIPSIS_ASCII = "..."

# Letters that every font shows as nothing: a name made of them looks empty.
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")
# Medial and final Hangul jamo are drawn inside the cell of the initial one.
_JAMO_FIRST, _JAMO_LAST = "\u1160", "\u11ff"


def escape(text: str, *, max_columns: int | None = None, ascii_only: bool = False) -> str:
    """Return ``text`` with everything invisible made visible, at most ``max_columns`` wide.

    ``ascii_only`` also escapes every character outside ASCII: for streams that cannot encode
    more, and for names, where a look-alike letter must not pass for the real one. ``max_columns``
    None means no limit; below one column nothing is left.
    """
    plain = text.isascii() and text.isprintable()
    if plain and (max_columns is None or len(text) <= max_columns):
        return text
    clusters = _clusters(text, ascii_only)
    if max_columns is None:
        return "".join(clusters)
    return _cut_end(clusters, max_columns, ELLIPSIS_ASCII if ascii_only else ELLIPSIS)


def width(text: str) -> int:
    """Return the number of terminal columns ``text`` takes; meant for escaped text.

    Wide and fullwidth East Asian characters take two columns, combining marks and whatever the
    terminal does not draw take none, everything else (ambiguous width included) takes one.
    """
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(map(_columns, text))


def _clusters(text: str, ascii_only: bool) -> Iterator[str]:
    """Yield the safe text in pieces that must not be cut: base with marks, or one escape."""
    base, marks = "", 0
    for character in text:
        is_mark = unicodedata.category(character) in ("Mn", "Me", "Mc")
        if is_mark and base and marks < COMBINING_MARKS_MAX and not ascii_only:
            base += character
            marks += 1
            continue
        if base:
            yield base
        hidden = is_mark or not character.isprintable() or character in _BLANK_LETTERS
        hidden = hidden or (ascii_only and not character.isascii())
        base, marks = ("" if hidden else character), 0
        if hidden:
            yield visible(character)
    if base:
        yield base


def visible(character: str) -> str:
    r"""Return the escape of one character: ``\x1b``, ``\u202e`` or ``\U000e0001``."""
    point = ord(character)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _columns(character: str) -> int:
    if character.isascii():
        return 1 if character.isprintable() else 0
    if unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc", "Cs", "Zl", "Zp"):
        return 0
    if _JAMO_FIRST <= character <= _JAMO_LAST:
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _cut_end(clusters: Iterator[str], max_columns: int, mark: str) -> str:
    """Join clusters up to ``max_columns``; stops reading once the rest cannot matter."""
    kept: list[str] = []
    taken = 0
    for cluster in clusters:
        kept.append(cluster)
        taken += width(cluster)
        if taken > max_columns:
            mark = mark[: max(0, max_columns)]
            while kept and taken + len(mark) > max_columns:
                taken -= width(kept.pop())
            return "".join(kept) + mark
    return "".join(kept)
