"""The tree of one file that people write (a scenario, a policy), with all that is wrong with it.

Rules: null counts as absent; an unquoted word that kubectl takes for a number or a boolean is not a
string (a node called ``no``); problems carry file, line and column and are raised together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.scenarios.names import did_you_mean, shown, similar
from kubectl_evictplan.sources.marked_tree import Path, Place, path_text, place_of, written
from kubectl_evictplan.sources.schema import describe_type, read_fields

T = TypeVar("T")


class Document:
    """What one file holds."""

    def __init__(self, location: str, tree: Any = None) -> None:
        self.location = location
        self.tree = tree
        self._found: list[tuple[Place, int, Problem]] = []
        # Every path at or below which something is wrong.
        self._unsound: set[Path] = set()

    def place(self, path: Path = ()) -> Place:
        """Return where the value under the path stands, or what should hold it."""
        return place_of(self.tree, path) or Place(1, 1)

    def problem(
        self, path: Path, message: str, *, expected: str = "", at_key: bool = False
    ) -> None:
        """Note a problem at the value under the path, or at its key."""
        container, value = self._find(path)
        place, field, got = self.place(path), path_text(path), None
        if at_key:
            place, field = container.marks[path[-1]].key_place, path_text(path[:-1])
        elif value is not None and not isinstance(value, dict | list):
            got = shown(str(written(container, path[-1]) or value))
        location = f"{self.location}:{place}"
        problem = Problem(message, location=location, field=field, got=got, expected=expected)
        self.note(place, problem, path)

    def note(self, place: Place, problem: Problem, path: Path = ()) -> None:
        """Note a ready-made problem of the value under the path."""
        self._found.append((place, len(self._found), problem))
        self._unsound.update(path[:length] for length in range(len(path) + 1))

    def is_sound(self, path: Path) -> bool:
        """Tell whether nothing is wrong with the value under the path, as far as is known."""
        return path not in self._unsound

    def raise_any(self) -> None:
        """Raise InputError with every problem noted, in the order of the file, or return."""
        if self._found:
            raise InputError([found[2] for found in sorted(self._found, key=lambda f: f[:2])])

    def text(self, path: Path) -> str:
        """Return a string, or a number or boolean as it was written; "" for what is not there."""
        container, value = self._find(path)
        return value if isinstance(value, str) else written(container, path[-1])

    def parsed(self, path: Path, parse: Callable[[str], T], expected: str = "") -> T | None:
        """Return the meaning of a text; None when there is none, or after noting what is wrong."""
        _, value = self._find(path)
        if value is None or not self.is_sound(path):
            return None
        try:
            return parse(self.text(path))
        except ValueError as error:
            self.problem(path, str(error), expected=expected)
            return None

    def check(self, wire_type: type[Struct], path: Path = ()) -> None:
        """Note which fields are not as a type says, or are none of its fields."""
        _, value = self._find(path)
        if not isinstance(value, dict):
            self.problem(path, f"must be an object, not {describe_type(value)}")
            return
        read = read_fields(wire_type, value)
        for field in read.wrong:
            self.problem((*path, *field.path), field.message, expected=field.expected)
        for below, known in read.unknown:
            message = f"unknown key {below[-1]!r}{did_you_mean(similar(str(below[-1]), known))}"
            expected = f"one of {', '.join(known)}"
            self.problem((*path, *below), message, expected=expected, at_key=True)

    def _find(self, path: Path) -> tuple[Any, Any]:
        """Return what holds the value under the path, and the value; None for what is not there."""
        container, value = None, self.tree
        for part in path:
            container = value
            if isinstance(part, int):
                value = container[part]
            else:
                value = container.get(part) if isinstance(container, dict) else None
        return container, value
