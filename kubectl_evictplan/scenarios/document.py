"""The tree of one scenario file, held against a JSON Schema, with all that is wrong with it.

Rules: null counts as absent; an unquoted word that kubectl takes for a number or a boolean is not a
string (a node called ``no``); problems carry file, line and column and are raised together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.scenarios.targets import nearest
from kubectl_evictplan.sources.marked_tree import Path, Place, path_text, place_of, written
from kubectl_evictplan.sources.schema import describe_type

Schema = dict[str, Any]
T = TypeVar("T")

_SHOWN_MAX = 60
_PLAIN_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)


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
            text = str(written(container, path[-1]) or value)
            got = repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "...")
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

    def check(self, schema: Schema, path: Path = ()) -> None:
        """Note where the value has not the shape that a schema says."""
        _, value = self._find(path)
        kind = schema.get("type", "string")
        if kind == "object":
            self._check_map(value, schema, path)
        elif kind == "array":
            self._check_list(value, schema, path)
        elif message := self._wrong_scalar(value, kind, schema, path):
            self.problem(path, message)

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

    def _check_map(self, value: Any, schema: Schema, path: Path) -> None:
        if not isinstance(value, dict):
            self.problem(path, f"expected a map, found {describe_type(value)}")
            return
        others = schema.get("additionalProperties", True)
        known = schema.get("properties", {})
        for name in value:
            if name not in known and others is False:
                close = nearest(name, known)
                hint = f"; did you mean {close!r}?" if close else ""
                expected = f"one of {', '.join(known)}" if known else "no keys"
                message = f"unknown key {name!r}{hint}"
                self.problem((*path, name), message, expected=expected, at_key=True)
            elif name in known and value[name] is not None:
                self.check(known[name], (*path, name))
            elif isinstance(others, dict):
                self.check(others, (*path, name))
        whose = f" for {schema['title']}" if "title" in schema else ""
        for name in schema.get("required", ()):
            if value.get(name) is None:
                self.problem(path, f"required key {name!r} is missing{whose}")

    def _check_list(self, value: Any, schema: Schema, path: Path) -> None:
        if not isinstance(value, list):
            self.problem(path, f"expected a list, found {describe_type(value)}")
        elif len(value) < schema.get("minItems", 0):
            self.problem(path, "the list is empty")
        elif "oneOf" not in schema["items"]:
            for index in range(len(value)):
                self.check(schema["items"], (*path, index))

    def _wrong_scalar(self, value: Any, kind: Any, schema: Schema, path: Path) -> str:
        is_plain = type(value) is int and _PLAIN_DECIMAL.fullmatch(self.text(path)) is not None
        if isinstance(kind, list):
            return "" if isinstance(value, str | int | float) else "expected a value"
        if kind == "boolean":
            return "" if isinstance(value, bool) else "expected true or false"
        if kind == "integer" and not is_plain:
            return "expected an integer: write plain decimal, without quotes"
        if kind == "integer":
            return "" if -(2**63) <= value < 2**63 else "does not fit into 64 bits"
        # Go's one duration without a unit is 0, which YAML takes for a number.
        if isinstance(value, str) or (is_plain and "anyOf" in schema):
            return ""
        if isinstance(value, dict | list) or value is None:
            return f"expected a string, found {describe_type(value)}"
        return f"{describe_type(value)} where a string is expected: quote it"
