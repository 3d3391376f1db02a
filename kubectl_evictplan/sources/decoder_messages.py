"""What msgspec's exceptions say, as values: the one place that reads their words.

msgspec tells the place of a wrong field and the kind of a syntax error in its message alone: its exceptions have no
attribute beside it. Whatever the words are, they are shown; only the field and "cut off" depend on their form.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

# "Expected `str`, got `int` - at `$.evictions[...].pod`".
_AT = r"(?s)^(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?$"
_BYTE = r"\(byte (\d+)\)"


class WrongField(NamedTuple):
    """What is wrong, in lower case, and with which field ("" for the whole document)."""

    what: str
    field: str

    @property
    def is_missing(self) -> bool:
        """Whether a field is not there at all."""
        return "missing required field" in self.what


def wrong_field(error: msgspec.ValidationError) -> WrongField:
    """Return what a ``msgspec.ValidationError`` says."""
    found = re.match(_AT, str(error))
    assert found is not None, "everything matches"
    what, path = found["what"], found["path"] or ""
    return WrongField(f"{what[:1].lower()}{what[1:]}", path.removeprefix("$").removeprefix("."))


class SyntaxStop(msgspec.Struct, frozen=True):
    """Why a decoder stopped: the data ends too early, or goes on behind its end; at which ``byte``, where that is told."""

    is_cut_off: bool
    is_extra: bool
    byte: int | None


def syntax_stop(message: str) -> SyntaxStop:
    """Return what a ``msgspec.DecodeError`` says that is no ValidationError."""
    found = re.search(_BYTE, message)
    return SyntaxStop(
        "truncated" in message, "trailing characters" in message, int(found[1]) if found else None
    )
