"""Documents of ours as JSON: UTF-8, indented by two, written some rows at a time.

The bytes are those of encoding the document at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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


# What gives the text of an impact (``impact_json``) when it is asked for.
ImpactText = Callable[[], Iterable[bytes]]


def render_json(
    document: msgspec.Struct, *, ascii_only: bool = False, impact: ImpactText | None = None
) -> Iterator[bytes]:
    """Yield the document in pieces; ``ascii_only`` escapes everything outside ASCII.

    ``impact``: the text to stand for a prediction's impact, asked for when all before it is written.
    """
    for piece in _pieces(document, impact):
        yield _as_ascii(piece) if ascii_only else piece


def impact_json(impact: Impact) -> Iterator[bytes]:
    """Yield an impact in pieces, as it stands in the JSON of its prediction."""
    return _fields(impact, 1)


def _pieces(document: msgspec.Struct, impact: ImpactText | None) -> Iterator[bytes]:
    yield from _fields(document, 0, impact)
    yield b"\n"


def _fields(
    document: msgspec.Struct, depth: int, impact: ImpactText | None = None
) -> Iterator[bytes]:
    indent, before = _indent(depth + 1), b"{\n"
    for key, value in parts(document):
        yield before + indent + _encode(key) + b": "
        before = b",\n"
        if impact is not None and key == "impact":
            yield from impact()
        elif isinstance(value, Evictions) and value.grouped and value:
            yield from _grouped(value, depth + 1)
        elif isinstance(value, tuple | Rows) and value:
            yield from _list(value, depth + 1)
        elif isinstance(value, Impact):
            yield from _fields(value, depth + 1)
        else:
            yield _indented(value, depth + 1)
    yield b"\n" + _indent(depth) + b"}"


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
