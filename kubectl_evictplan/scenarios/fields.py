"""Typed reading of one map of a scenario file, field by field, noting what is wrong with each.

Rules: null counts as absent; an unquoted word that kubectl takes for a number or a boolean is not a
string (a node called ``no``); a reading method returns None for both "absent" and "wrong", and
notes a problem for the latter, so callers go on and find the next problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.scenarios.targets import nearest
from kubectl_evictplan.sources.marked_tree import MarkedList, MarkedMap, Place, place_of, written
from kubectl_evictplan.sources.schema import describe_type

_INT64_MAX = 2**63 - 1
_SHOWN_MAX = 60
_PLAIN_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)


class ProblemList:
    """Collects the problems of one file; ``raise_any`` raises them in file order."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._found: list[tuple[Place, int, Problem]] = []

    def add(
        self, place: Place, message: str, *, path: str = "", got: object = None, expected: str = ""
    ) -> None:
        """Note one problem at its place."""
        location = f"{self.location}:{place}"
        self.extend(
            place, [Problem(message, location=location, field=path, got=got, expected=expected)]
        )

    def extend(self, place: Place, problems: list[Problem]) -> None:
        """Note ready-made problems that belong to the place."""
        for problem in problems:
            self._found.append((place, len(self._found), problem))

    def raise_any(self) -> None:
        """Raise InputError with every problem noted, or return."""
        if self._found:
            raise InputError(
                [problem for _, _, problem in sorted(self._found, key=lambda f: f[:2])]
            )


class FieldReader:
    """One map and the JSON path that leads to it."""

    def __init__(self, mapping: MarkedMap, problems: ProblemList, path: str = "") -> None:
        self.mapping_value = mapping
        self.problems = problems
        self.path = path

    @property
    def place(self) -> Place:
        """Where the map begins."""
        return self.mapping_value.place

    def keys(self) -> list[str]:
        """Return the keys in file order, those with null values included."""
        return list(self.mapping_value)

    def has(self, key: str) -> bool:
        """Tell whether the key stands here with a value that is not null."""
        return self.mapping_value.get(key) is not None

    def only(self, known: Iterable[str]) -> None:
        """Note every key that is not known, with the nearest that is."""
        names = list(known)
        for name, mark in self.mapping_value.marks.items():
            if name not in names:
                close = nearest(name, names)
                hint = f"; did you mean {close!r}?" if close else ""
                self.problems.add(
                    mark.key_place,
                    f"unknown key {name!r}{hint}",
                    path=self.path,
                    expected=f"one of {', '.join(names)}" if names else "no keys",
                )

    def problem(self, key: str, message: str, *, expected: str = "") -> None:
        """Note a problem at the key's value, or at the map itself when the key is absent."""
        value = self.mapping_value.get(key)
        got = None if value is None or isinstance(value, dict | list) else self._shown(key)
        place = place_of(self.mapping_value, (key,) if value is not None else ())
        assert place is not None, "what the reader built knows its place"
        self.problems.add(place, message, path=self._path(key), got=got, expected=expected)

    def text(self, key: str, *, required: bool = False) -> str | None:
        """Return a string."""
        value = self._value(key, required)
        if value is None or isinstance(value, str):
            return value
        self.problem(key, _not_a_string(value))
        return None

    def flag_text(self, key: str) -> str | None:
        """Return a flag's text as written: numbers and booleans need no quotes here."""
        value = self.mapping_value[key]
        if isinstance(value, str):
            return value
        if value is not None and not isinstance(value, dict | list):
            return written(self.mapping_value, key)
        self.problems.add(
            self.mapping_value.marks[key].place,
            "expected a value",
            path=self._path(key),
            got=describe_type(value),
        )
        return None

    def boolean(self, key: str) -> bool | None:
        """Return true or false."""
        value = self.mapping_value.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.problem(key, "expected true or false")
        return None

    def integer(self, key: str) -> int | None:
        """Return a 64-bit integer written in plain decimal."""
        value = self.mapping_value.get(key)
        if value is None:
            return None
        if not self._is_plain_integer(key):
            self.problem(key, "expected an integer: write plain decimal, without quotes")
        elif not -_INT64_MAX - 1 <= value <= _INT64_MAX:
            self.problem(key, "does not fit into 64 bits")
        else:
            return int(value)
        return None

    def duration_ns(
        self, key: str, parse: Callable[[str], int], *, required: bool = False
    ) -> int | None:
        """Return a Go duration in nanoseconds; ``parse`` raises ValueError."""
        if self._value(key, required) is None:
            return None
        # Go's one duration without a unit is 0, which YAML takes for a number.
        plain = self._is_plain_integer(key)
        text = written(self.mapping_value, key) if plain else self.text(key)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            self.problem(key, str(error))
            return None

    def mapping(self, key: str, *, required: bool = False) -> FieldReader | None:
        """Return a reader of the map under the key."""
        value = self._value(key, required)
        if isinstance(value, MarkedMap):
            return FieldReader(value, self.problems, self._path(key))
        if value is not None:
            self.problem(key, f"expected a map, found {describe_type(value)}")
        return None

    def sequence(self, key: str, *, required: bool = False) -> MarkedList | None:
        """Return the list under the key."""
        value = self._value(key, required)
        if value is None or isinstance(value, MarkedList):
            return value
        self.problem(key, f"expected a list, found {describe_type(value)}")
        return None

    def strings(self, key: str, *, required: bool = False) -> list[tuple[str, Place]] | None:
        """Return a list of strings, each with its place; an empty list is a problem."""
        listed = self.sequence(key, required=required)
        if listed is None:
            return None
        if not listed:
            self.problem(key, "the list is empty")
            return None
        read: list[tuple[str, Place]] = []
        for index, item in enumerate(listed):
            place = listed.marks[index].place
            if isinstance(item, str):
                read.append((item, place))
                continue
            path = f"{self._path(key)}[{index}]"
            got = written(listed, index) or describe_type(item)
            self.problems.add(place, _not_a_string(item), path=path, got=repr(got[:_SHOWN_MAX]))
        return read if len(read) == len(listed) else None

    def _value(self, key: str, required: bool) -> Any:
        value = self.mapping_value.get(key)
        if value is None and required:
            message = f"required key {key!r} is missing"
            self.problems.add(self.place, message, path=self.path)
        return value

    def _is_plain_integer(self, key: str) -> bool:
        value = self.mapping_value[key]
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return is_integer and bool(_PLAIN_DECIMAL.fullmatch(written(self.mapping_value, key)))

    def _shown(self, key: str) -> str:
        text = str(written(self.mapping_value, key) or self.mapping_value[key])
        return repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "...")

    def _path(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path and key else self.path or key


def _not_a_string(value: Any) -> str:
    if isinstance(value, dict | list) or value is None:
        return f"expected a string, found {describe_type(value)}"
    return f"{describe_type(value)} where a string is expected: quote it"
