"""Whether text is one JSON value that nothing is odd about: told quickly of what is, as nearly every file is.

Whatever is odd, or may be, is read by ``json_reader``, which names every problem with its place.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def check_json(data: bytes) -> None:
    """Raise JsonSyntaxError with all problems of UTF-8 JSON, as ``read_json`` does; much faster if it has none."""
    if not _is_plain(data):
        from kubectl_evictplan.sources.json_reader import read_json

        read_json(data)


def _is_plain(data: bytes) -> bool:
    """Whether it is an object that has no problem; nobody knows of what is found not to be.

    The fast decoder refuses everything odd but keys that stand twice and deep nesting. Of equal keys it keeps one:
    written again, the text then has fewer colons. An escaped colon would count as one more. What is written again nests
    as deep, and is shorter without its blanks.
    """
    colons = 0
    try:
        # Four times more quickly looked at than as people like it.
        compact = msgspec.json.format(data, indent=-1)
        for again in _written_again(compact):
            colons += again.count(b":")
            if may_be_deep(again, DEPTH_MAX - _DEPTH_OF_ITEMS):
                return False
    except (msgspec.MsgspecError, RecursionError):
        return False
    return colons == compact.count(b":") and not _has_escaped_colon(compact)


def _written_again(data: bytes) -> Iterator[bytes]:
    """Decode the whole and encode it again, each item of a list by itself: together they take many times the text's memory."""
    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    items = msgspec.json.decode(members.get(_ITEMS, b"null"), type=list[msgspec.Raw] | None)
    for item in items or ():
        yield _again(item)
    yield msgspec.json.encode(
        {key: None if key == _ITEMS else msgspec.Raw(_again(raw)) for key, raw in members.items()}
    )


def _again(value: msgspec.Raw) -> bytes:
    decoded: Any = msgspec.json.decode(value)
    return msgspec.json.encode(decoded)


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
