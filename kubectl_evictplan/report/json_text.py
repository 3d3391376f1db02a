"""Documents of ours as JSON: UTF-8, indented by two, written some rows at a time.

The bytes are those of encoding the document at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from kubectl_evictplan.prediction.eviction_json import EvictionTexts, inside
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.prediction.impact_document import Impact
from kubectl_evictplan.prediction.records import Rows, plain
from kubectl_evictplan.report.data_formats import parts, plain_values

_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=plain)
# Many rows are written faster together than one by one; all at once they would be in memory twice.
_ITEMS_AT_ONCE = 25
# But no more of compact JSON than the processor has at hand when it is laid out.
_BYTES_AT_ONCE = 1 << 18
# Outside strings JSON has only printable ASCII and newlines, so this touches strings alone.
_NOT_PRINTABLE_ASCII = re.compile(r"[^\n\x20-\x7e]")


class Part(Enum):
    """How much of a prediction's text: it may be made in two places, and joined in this order these are the whole."""

    WHOLE = "whole"
    BEFORE_IMPACT = "before impact"
    REST = "the impact, and what is behind it"


class Compact(NamedTuple):
    """A piece of the text that is not laid out yet: compact JSON that stands so deep, of a value, or of ``items`` of a list."""

    text: bytes
    depth: int
    items: bool


Piece = bytes | Compact


def render_json(
    document: msgspec.Struct, *, ascii_only: bool = False, part: Part = Part.WHOLE
) -> Iterator[bytes]:
    """Yield the document in pieces; ``ascii_only`` escapes everything outside ASCII."""
    return laid_out(pieces(document, part), ascii_only=ascii_only)


def laid_out(pieces: Iterable[Piece], *, ascii_only: bool) -> Iterator[bytes]:
    """Yield the text of pieces, wherever they come from."""
    for piece in pieces:
        text = piece
        if isinstance(text, Compact):
            text = inside(text.text, text.depth) if text.items else _formatted(*text[:2])
        yield _as_ascii(text) if ascii_only else text


def pieces(document: msgspec.Struct, part: Part) -> Iterator[Piece]:
    """Yield what the text is made of."""
    members = list(parts(document))
    if part is Part.WHOLE:
        yield from _members(members, 0)
    else:
        at = [key for key, _ in members].index("impact")
        if part is Part.BEFORE_IMPACT:
            yield from _members(members[:at], 0)
            return
        yield from _members(members[at:], 0, b",\n")
    yield b"\n}\n"


def make_rows(impact: Impact) -> None:
    """Make now what else is made when it is read."""
    for _, value in parts(impact):
        if isinstance(value, Rows):
            len(value)


def _members(
    members: Iterable[tuple[str, Any]], depth: int, before: bytes = b"{\n"
) -> Iterator[Piece]:
    """``before``: what stands before the first."""
    indent = _indent(depth + 1)
    for key, value in members:
        yield before + indent + _encode(key) + b": "
        before = b",\n"
        if isinstance(value, Evictions) and value.grouped and value:
            yield from _grouped(value, depth + 1)
        elif isinstance(value, tuple | Rows) and value:
            yield from _list(value, depth + 1)
        elif isinstance(value, Impact):
            yield from _members(parts(value), depth + 1)
            yield b"\n" + indent + b"}"
        else:
            yield Compact(_encode(value), depth + 1, items=False)


def _list(items: Sequence[Any], depth: int) -> Iterator[Piece]:
    before, at, number = b"[", 0, 1
    while at < len(items):
        yield before
        piece = _items(items[at : at + number], depth)
        yield piece
        before, at = b",", at + number
        size = len(piece.text if isinstance(piece, Compact) else piece)
        number = max(1, min(_ITEMS_AT_ONCE, number * _BYTES_AT_ONCE // size))
    yield b"\n" + _indent(depth) + b"]"


def _grouped(evictions: Evictions, depth: int) -> Iterator[bytes]:
    yield b"[\n" + _indent(depth + 1)
    yield from EvictionTexts(_encode, depth + 1).chunks(evictions)
    yield b"\n" + _indent(depth) + b"]"


def _items(items: Sequence[Any], depth: int) -> Piece:
    """Items of a list that stands so deep, from before the first one to behind the last."""
    try:
        return Compact(_encoder.encode(items), depth, items=True)
    except UnicodeEncodeError:
        line = b"\n" + _indent(depth + 1)
        return line + (b"," + line).join(_formatted(_encode(item), depth + 1) for item in items)


def _formatted(text: bytes, depth: int) -> bytes:
    # A raw newline cannot stand inside a JSON string, so every one is the formatter's.
    return msgspec.json.format(text, indent=2).replace(b"\n", b"\n" + _indent(depth))


def _indent(depth: int) -> bytes:
    return b"  " * depth


def _encode(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        # Its keys are in order: sorted by name a row would not begin as the others do.
        return msgspec.json.encode(plain_values(value))


def _as_ascii(text: bytes) -> bytes:
    return _NOT_PRINTABLE_ASCII.sub(_escaped, text.decode()).encode()


def _escaped(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
