"""``-o json``: the Prediction document, indented by two, one trailing newline.

Written item by item, so that a large prediction never exists twice in memory; the bytes are those
of encoding the document at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.report.document import document_parts, to_plain

_encoder = msgspec.json.Encoder(order="deterministic")
# Outside strings JSON has only printable ASCII and newlines, so this touches strings alone.
_NOT_PRINTABLE_ASCII = re.compile(r"[^\n\x20-\x7e]")


def render_json(prediction: Prediction, *, ascii_only: bool = False) -> Iterator[str]:
    """Yield the document; ``ascii_only`` escapes everything outside ASCII."""
    for chunk in _chunks(prediction):
        yield _NOT_PRINTABLE_ASCII.sub(_escaped, chunk) if ascii_only else chunk


def _chunks(prediction: Prediction) -> Iterator[str]:
    start = "{\n"
    for key, value in document_parts(prediction):
        yield f"{start}  {_encode(key)}: "
        start = ",\n"
        if isinstance(value, tuple) and value:
            yield from _list_chunks(value)
        else:
            yield _indented(value, "  ")
    yield "\n}\n"


def _list_chunks(items: tuple[Any, ...]) -> Iterator[str]:
    start = "[\n    "
    for item in items:
        yield start + _indented(item, "    ")
        start = ",\n    "
    yield "\n  ]"


def _indented(value: Any, indent: str) -> str:
    # A raw newline cannot stand inside a JSON string, so every one is the formatter's.
    return msgspec.json.format(_encode(value), indent=2).replace("\n", "\n" + indent)


def _encode(value: Any) -> str:
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return _encoder.encode(to_plain(value)).decode()


def _escaped(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
