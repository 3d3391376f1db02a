"""Documents of ours as JSON: UTF-8, indented by two, written some rows at a time.

The bytes are those of encoding the document at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

import msgspec

from kubectl_evictplan.prediction.eviction_json import EvictionTexts, inside
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.prediction.impact_document import Impact
from kubectl_evictplan.prediction.records import Rows, plain
from kubectl_evictplan.report.data_formats import parts, plain_values

_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=plain)
# Many rows are written faster together than one by one; all at once they would be in memory twice.
_ITEMS_AT_ONCE = 25
# Outside strings JSON has only printable ASCII and newlines, so this touches strings alone.
_NOT_PRINTABLE_ASCII = re.compile(r"[^\n\x20-\x7e]")


class Part(Enum):
    """How much of a prediction's text: it may be made in three places, and joined in this order these are the whole.

    ``LARGE_IMPACT`` tells of services and workloads, of which there may be thousands; ``REST`` what mostly follows from those.
    """

    WHOLE = "whole"
    BEFORE_IMPACT = "before impact"
    LARGE_IMPACT = "large lists of the impact"
    REST = "the rest of the impact, and what is behind it"


# The member of the impact that ``REST`` begins with.
_FIRST_OF_REST = "budgets"


def render_json(
    document: msgspec.Struct, *, ascii_only: bool = False, part: Part = Part.WHOLE
) -> Iterator[bytes]:
    """Yield the document in pieces; ``ascii_only`` escapes everything outside ASCII."""
    for piece in _pieces(document, part):
        yield _as_ascii(piece) if ascii_only else piece


def _pieces(document: msgspec.Struct, part: Part) -> Iterator[bytes]:
    members = list(parts(document))
    if part is Part.WHOLE:
        yield from _members(members, 0)
        yield b"\n}\n"
        return
    at = [key for key, _ in members].index("impact")
    if part is Part.BEFORE_IMPACT:
        yield from _members(members[:at], 0)
        return
    key, impact = members[at]
    large, rest = _parted(impact)
    if part is Part.LARGE_IMPACT:
        yield b",\n" + _indent(1) + _encode(key) + b": "
        yield from _members(large, 1)
        return
    yield from _members(rest, 1, b",\n")
    yield b"\n" + _indent(1) + b"}"
    yield from _members(members[at + 1 :], 0, b",\n")
    yield b"\n}\n"


def _parted(impact: Impact) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """Its members, those of ``LARGE_IMPACT`` and those of ``REST``."""
    members = list(parts(impact))
    cut = [key for key, _ in members].index(_FIRST_OF_REST)
    return members[:cut], members[cut:]


def make_rows(impact: Impact, part: Part = Part.WHOLE) -> None:
    """Make now what else is made when it is read, as far as ``part`` tells it: WHOLE or LARGE_IMPACT."""
    large, rest = _parted(impact)
    for _, value in (*large, *(rest if part is Part.WHOLE else ())):
        if isinstance(value, Rows):
            len(value)


def _members(
    members: Iterable[tuple[str, Any]], depth: int, before: bytes = b"{\n"
) -> Iterator[bytes]:
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
            yield _indented(value, depth + 1)


def _list(items: Sequence[Any], depth: int) -> Iterator[bytes]:
    before = b"["
    for at in range(0, len(items), _ITEMS_AT_ONCE):
        yield before
        yield _items(items[at : at + _ITEMS_AT_ONCE], depth)
        before = b","
    yield b"\n" + _indent(depth) + b"]"


def _grouped(evictions: Evictions, depth: int) -> Iterator[bytes]:
    yield b"[\n" + _indent(depth + 1)
    yield from EvictionTexts(_encode, depth + 1).chunks(evictions)
    yield b"\n" + _indent(depth) + b"]"


def _items(items: Sequence[Any], depth: int) -> bytes:
    """Items of a list that stands so deep, from before the first one to behind the last."""
    try:
        return inside(_encoder.encode(items), depth)
    except UnicodeEncodeError:
        line = b"\n" + _indent(depth + 1)
        return line + (b"," + line).join(_indented(item, depth + 1) for item in items)


def _indented(value: Any, depth: int) -> bytes:
    # A raw newline cannot stand inside a JSON string, so every one is the formatter's.
    return msgspec.json.format(_encode(value), indent=2).replace(b"\n", b"\n" + _indent(depth))


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
