"""Plain values that know where they were written: what the YAML reader makes.

A map is a dict and a list a list, so whatever takes parsed JSON takes these too; only messages
look at the marks. Apart from the reader, because whoever reads JSON needs no YAML library.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

Path = tuple[str | int, ...]


class WrongField(NamedTuple):
    """One field that cannot be read as it should."""

    path: Path
    message: str
    got: str
    expected: str = ""


class Place(msgspec.Struct, frozen=True, order=True):
    """Line and column, counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class Mark(msgspec.Struct, frozen=True):
    """Where a value and its key stand (an item has no key), as the parser tells it."""

    value_start: Any
    key_start: Any
    # A number, boolean or null as it was written; any other unquoted word too, "" when quoted.
    text: str = ""

    @property
    def place(self) -> Place:
        """Where the value begins."""
        return Place(self.value_start.line + 1, self.value_start.column + 1)

    @property
    def key_place(self) -> Place:
        """Where the key begins."""
        return Place(self.key_start.line + 1, self.key_start.column + 1)


class MarkedMap(dict[str, Any]):
    """A mapping that knows where it and its values stand."""

    __slots__ = ("marks", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.marks: dict[str, Mark] = {}


class MarkedList(list[Any]):
    """A sequence that knows where it and its items stand."""

    __slots__ = ("marks", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.marks: dict[int, Mark] = {}


def place_of(tree: Any, path: Path) -> Place | None:
    """Return where a field stands, or the nearest container that exists; None when unknown."""
    found: Place | None = getattr(tree, "place", None)
    for part in path:
        mark = getattr(tree, "marks", {}).get(part)
        if mark is None:
            break
        found, tree = mark.place, tree[part]
    return found


def written(container: Any, key: str | int) -> str:
    """Return an unquoted word as it was written; "" for anything else, and for JSON."""
    mark = getattr(container, "marks", {}).get(key)
    return mark.text if mark else ""


def path_text(path: Path) -> str:
    """Return the JSON path of a field: ``spec.taints[0].key``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
