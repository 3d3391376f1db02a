"""Whether text is one JSON value that nothing is odd about: told quickly of what is, as nearly every file is.

Whatever is odd, or may be, is read by ``json_reader``, which names every problem with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

DEPTH_MAX = 200
# An item of a list stands in its object and in its list.
_DEPTH_OF_ITEMS = 2

_ITEMS = "items"
# What an escaped colon begins with, and also < = > and digits.
_ESCAPED = rb"\u003"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class SyntaxProblem(NamedTuple):
    """What is wrong, and at which ``LINE:COL``; "" when unknown."""

    message: str
    place: str
    got: str = ""

    def below(self, lines: int) -> SyntaxProblem:
        """Return it for a text that stands below so many others."""
        line, colon, column = self.place.partition(":")
        return self._replace(place=f"{int(line) + lines}{colon}{column}") if colon else self


class JsonSyntaxError(ValueError):
    """The text is not one acceptable JSON value; carries every problem found."""

    def __init__(self, problems: list[SyntaxProblem], *, is_json: bool = True) -> None:
        super().__init__(problems[0].message)
        self.problems = problems
        # False: no JSON at all, perhaps YAML that begins with a brace.
        self.is_json = is_json


def check_json(data: bytes) -> bytes:
    """Raise JsonSyntaxError with all problems of UTF-8 JSON, as ``read_json`` does; much faster if it has none.

    Return the same, shorter by its blanks where it has many.
    """
    compact = _compact_plain(data)
    if compact is None:
        from kubectl_evictplan.sources.json_reader import read_json

        read_json(data)
    return data if compact is None else compact


def _compact_plain(data: bytes) -> bytes | None:
    """Return the text of an object that has no problem, without its blanks; of what gives None nobody knows.

    The fast decoder refuses everything odd but keys that stand twice and deep nesting. Of equal keys it keeps one.
    """
    try:
        # Four times more quickly looked at than as people like it.
        compact = msgspec.json.format(data, indent=-1)
        members = msgspec.json.decode(compact, type=dict[str, msgspec.Raw])
        is_plain = _keeps_keys(compact, members) and all(map(_is_plain, _values(members)))
    except (msgspec.MsgspecError, RecursionError):
        return None
    return compact if is_plain else None


def _values(members: Mapping[str, msgspec.Raw]) -> Iterator[bytes]:
    """Yield what there is in an object, each item of a list by itself: decoded together they take many times the text's memory."""
    for key, value in members.items():
        if key == _ITEMS:
            yield from map(bytes, msgspec.json.decode(value, type=list[msgspec.Raw] | None) or ())
        else:
            yield bytes(value)


def _is_plain(text: bytes) -> bool:
    decoded: Any = msgspec.json.decode(text)
    return _keeps_keys(text, decoded) and not may_be_deep(text, DEPTH_MAX - _DEPTH_OF_ITEMS)


def _keeps_keys(text: bytes, decoded: object) -> bool:
    """Whether no key was lost when it was decoded; False also where that is not sure.

    Written again it is the same, unless it was written in other words (escapes, numbers): then it has as many colons. An
    escaped colon would count as one more.
    """
    again = msgspec.json.encode(decoded)
    return again == text or (again.count(b":") == text.count(b":") and not _has_escaped_colon(text))


def _has_escaped_colon(data: bytes) -> bool:
    at = data.find(_ESCAPED)
    while at >= 0 and data[at + len(_ESCAPED)] not in b"aA":
        at = data.find(_ESCAPED, at + 1)
    return at >= 0


def may_be_deep(data: bytes, depth_max: int = DEPTH_MAX) -> bool:
    """Tell whether brackets nest deeper than that, those in strings included.

    Strings could also hide depth; but not from the parser's own limit, and only fields that are
    read are ever walked.
    """
    brackets = data.translate(None, _NO_BRACKETS)
    for _ in range(depth_max):
        before = len(brackets)
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(brackets) == before:
            # Nothing left, or only what strings left unbalanced.
            return False
    return bool(brackets)
