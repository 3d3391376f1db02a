"""Typed reading of one map of a scenario file, field by field, noting what is wrong with each.

Rules: null counts as absent; an unquoted word that some YAML reader takes for a number or a boolean
is not a string (a node called ``no``); a reading method returns None for both "absent" and "wrong",
and notes a problem for the latter, so callers go on and find the next problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kubectl_evictplan.scenarios.targets import nearest
from kubectl_evictplan.scenarios.yaml_reader import (
    Mapping,
    ProblemList,
    Scalar,
    Sequence,
    Value,
    describe,
    is_null,
)

_INT64_MAX = 2**63 - 1


class FieldReader:
    """One map and the JSON path that leads to it."""

    def __init__(self, mapping: Mapping, problems: ProblemList, path: str = "") -> None:
        self.mapping_value = mapping
        self.problems = problems
        self.path = path

    def keys(self) -> list[str]:
        """Return the keys in file order, those with null values included."""
        return list(self.mapping_value.entries)

    def has(self, key: str) -> bool:
        """Tell whether the key stands here with a value that is not null."""
        return self.mapping_value.get(key) is not None

    def only(self, known: Iterable[str]) -> None:
        """Note every key that is not known, with the nearest that is."""
        names = list(known)
        for name, (key, _) in self.mapping_value.entries.items():
            if name not in names:
                close = nearest(name, names)
                hint = f"; did you mean {close!r}?" if close else ""
                self.problems.add(
                    key,
                    f"unknown key {name!r}{hint}",
                    path=self.path,
                    expected=f"one of {', '.join(names)}" if names else "no keys",
                )

    def problem(self, key: str, message: str, *, expected: str = "") -> None:
        """Note a problem at the key's value, or at the map itself when the key is absent."""
        value = self.mapping_value.get(key)
        if value is None:
            self.problems.add(self.mapping_value, message, path=self._path(key), expected=expected)
        else:
            got = describe(value) if isinstance(value, Scalar) else None
            self.problems.add(value, message, path=self._path(key), got=got, expected=expected)

    def text(self, key: str, *, required: bool = False) -> str | None:
        """Return a string."""
        value = self._value(key, required)
        return None if value is None else read_string(value, self.problems, self._path(key))

    def flag_text(self, key: str) -> str | None:
        """Return a flag's text as written: numbers and booleans need no quotes here."""
        value = self.mapping_value.entries[key][1]
        if isinstance(value, Scalar) and not is_null(value):
            return value.text
        self.problems.add(value, "expected a value", path=self._path(key), got=describe(value))
        return None

    def boolean(self, key: str) -> bool | None:
        """Return true or false."""
        value = self.mapping_value.get(key)
        if value is None:
            return None
        if isinstance(value, Scalar) and value.kind == "boolean":
            return value.text.lower() == "true"
        self.problem(key, "expected true or false")
        return None

    def integer(self, key: str) -> int | None:
        """Return a 64-bit integer written in plain decimal."""
        value = self.mapping_value.get(key)
        if value is None:
            return None
        if not isinstance(value, Scalar) or value.kind != "integer":
            self.problem(key, "expected an integer: write plain decimal, without quotes")
            return None
        number = int(value.text)
        if not -_INT64_MAX - 1 <= number <= _INT64_MAX:
            self.problem(key, "does not fit into 64 bits")
            return None
        return number

    def duration_ns(
        self, key: str, parse: Callable[[str], int], *, required: bool = False
    ) -> int | None:
        """Return a Go duration in nanoseconds; ``parse`` raises ValueError."""
        value = self._value(key, required)
        if value is None:
            return None
        # Go's one duration without a unit is 0, which YAML takes for a number.
        plain_zero = isinstance(value, Scalar) and value.kind == "integer"
        text = value.text if plain_zero and isinstance(value, Scalar) else self.text(key)
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
        if value is None:
            return None
        if isinstance(value, Mapping):
            return FieldReader(value, self.problems, self._path(key))
        self.problem(key, f"expected a map, found {_kind(value)}")
        return None

    def sequence(self, key: str, *, required: bool = False) -> Sequence | None:
        """Return the list under the key."""
        value = self._value(key, required)
        if value is None or isinstance(value, Sequence):
            return value
        self.problem(key, f"expected a list, found {_kind(value)}")
        return None

    def strings(self, key: str, *, required: bool = False) -> list[tuple[str, Value]] | None:
        """Return a list of strings, each with its place; an empty list is a problem."""
        listed = self.sequence(key, required=required)
        if listed is None:
            return None
        if not listed.items:
            self.problem(key, "the list is empty")
            return None
        read = [
            (read_string(item, self.problems, f"{self._path(key)}[{index}]"), item)
            for index, item in enumerate(listed.items)
        ]
        complete = [(text, item) for text, item in read if text is not None]
        return complete if len(complete) == len(read) else None

    def _value(self, key: str, required: bool) -> Value | None:
        value = self.mapping_value.get(key)
        if value is None and required:
            message = f"required key {key!r} is missing"
            self.problems.add(self.mapping_value, message, path=self.path)
        return value

    def _path(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path and key else self.path or key


def read_string(value: Value, problems: ProblemList, path: str) -> str | None:
    """Return the string, or None after noting why the value is not one."""
    if isinstance(value, Scalar) and value.kind == "string":
        return value.text
    if isinstance(value, Scalar):
        message = f"{_kind(value)} where a string is expected: quote it"
        problems.add(value, message, path=path, got=describe(value))
    else:
        problems.add(value, f"expected a string, found {_kind(value)}", path=path)
    return None


def _kind(value: Value) -> str:
    if isinstance(value, Sequence):
        return "a list"
    if isinstance(value, Mapping):
        return "a map"
    names = {
        "integer": "a number",
        "float": "a number",
        "boolean": "a boolean",
        "ambiguous": "a word that some readers take for a number or boolean",
        "null": "null",
    }
    return names.get(value.kind, "a string")
