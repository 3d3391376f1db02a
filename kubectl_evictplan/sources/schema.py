"""Plain values checked against the wire types, every wrong field named.

A decoder stops at its first problem; a user wants them all. So what a person wrote, and any object
that a decoder refuses, is parsed into plain values and read here, field by field, as ``wire``
types say. ``null`` is always accepted and means absent, as in Go.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from kubectl_evictplan.kube.quantities import BadQuantity, parse_quantity
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.sources.marked_tree import Path, WrongField, written

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_PLAIN_DECIMAL = r"-?(0|[1-9][0-9]*)"


# What must be a value of these types to be looked into.
_SHAPES: dict[type[inspect.Type], tuple[type, str]] = {
    inspect.StructType: (dict, "an object"),
    inspect.DictType: (dict, "an object"),
    inspect.ListType: (list, "a list"),
    inspect.VarTupleType: (list, "a list"),
    inspect.BoolType: (bool, "a boolean"),
}


class FieldsRead(msgspec.Struct, frozen=True):
    """What an object says in the fields that are read; wrong ones are left out of ``tree``."""

    # Builtin types only, as the decoder of the wire type accepts them.
    tree: dict[str, Any]
    wrong: list[WrongField]
    # Fields that are not read, each with the one that was probably meant.
    misspelled: list[tuple[Path, str]]
    # Fields that a type with ``forbid_unknown_fields`` has not, each with those that it has.
    unknown: list[tuple[Path, tuple[str, ...]]]


def read_fields(wire_type: type[msgspec.Struct], tree: dict[str, Any]) -> FieldsRead:
    """Read the fields of one object, as many as are right."""
    reader = _FieldWalk()
    result = reader.struct(tree, _struct_type(wire_type), ())
    return FieldsRead(result, reader.wrong, reader.misspelled, reader.unknown)


@cache
def _struct_type(wire_type: type[msgspec.Struct]) -> inspect.StructType:
    found = inspect.type_info(wire_type)
    assert isinstance(found, inspect.StructType)
    return found


class _FieldWalk:
    """Walks a value and its type side by side."""

    def __init__(self) -> None:
        self.wrong: list[WrongField] = []
        self.misspelled: list[tuple[Path, str]] = []
        self.unknown: list[tuple[Path, tuple[str, ...]]] = []

    def struct(self, value: Any, expected: inspect.StructType, path: Path) -> dict[str, Any]:
        result = {}
        fields = {field.encode_name: field for field in expected.fields}
        for name, field in fields.items():
            item = value.get(name)
            if item is None and field.required and expected.forbid_unknown_fields:
                self._note(path, f"required key {name!r} is missing", "")
            elif item is not None or field.required:
                found = self._value(item, field.type, (*path, name), written(value, name))
                if found is not None:
                    result[name] = found
        for name in value:
            if expected.forbid_unknown_fields:
                self.unknown += [((*path, name), tuple(fields))] if name not in fields else []
            # Keys with these are data: annotations and the paths of managedFields.
            elif name not in fields and "/" not in name and ":" not in name:
                likely = _likely_name(name[:80], tuple(fields))
                self.misspelled += [((*path, name), likely)] if likely else []
        return result

    def _value(self, value: Any, expected: inspect.Type, path: Path, text: str) -> Any:
        """Return the value as it may be encoded; None after noting why it is wrong."""
        kinds, extra = _unwrapped(expected)
        kind = kinds[0]
        if "quantity" in extra:
            return self._quantity(value, path, text)
        shape, name = _SHAPES.get(type(kind), (object, ""))
        is_of_shape = isinstance(value, shape)
        if not is_of_shape:
            return self._note(path, f"must be {name}", describe(value))
        match kind:
            case inspect.StructType():
                return self.struct(value, kind, path)
            case inspect.DictType():
                items = {
                    key: self._value(item, kind.value_type, (*path, key), written(value, key))
                    for key, item in value.items()
                }
                return {key: item for key, item in items.items() if item is not None}
            case inspect.ListType() | inspect.VarTupleType():
                found = [
                    self._value(item, kind.item_type, (*path, index), written(value, index))
                    for index, item in enumerate(value)
                ]
                if isinstance(kind.item_type, inspect.StructType):
                    # An item that is no object stays as an empty one: the others keep their numbers.
                    return [{} if item is None else item for item in found]
                return [item for item in found if item is not None]
            case inspect.AnyType() | inspect.BoolType():
                return value
            case inspect.IntType():
                is_text = isinstance(value, str) and len(kinds) > 1
                return value if is_text else self._integer(value, path, text)
        if "timestamp" in extra:
            return self._timestamp(value, path)
        return self._string(value, path, text)

    def _string(self, value: Any, path: Path, text: str) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            message = f"must be a string, but it is read as {describe_type(value)}: quote it"
            return self._note(path, message, text or describe(value))
        return self._note(path, "must be a string", describe(value))

    def _timestamp(self, value: Any, path: Path) -> Any:
        message = "must be a time"
        if isinstance(value, str):
            try:
                if value:
                    parse_rfc3339_ns(value)
                return value
            except ValueError as error:
                message = str(error)
        expected = "RFC 3339 such as 2026-11-20T22:00:00Z"
        return self._note(path, message, describe(value), expected)

    def _quantity(self, value: Any, path: Path, text: str) -> Any:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            try:
                if parse_quantity(value) >= 0:
                    return value
            except BadQuantity:
                pass
        expected = "a quantity such as 500m, 2 or 128Mi"
        return self._note(path, "must be a quantity", text or describe(value), expected)

    def _integer(self, value: Any, path: Path, text: str) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            message = "must be an integer: write a plain decimal"
            return self._note(path, message, text or describe(value))
        if text and not re.fullmatch(_PLAIN_DECIMAL, text):
            message = "write a plain decimal integer: YAML readers disagree on this one"
            return self._note(path, message, text)
        if not _INT64_MIN <= value <= _INT64_MAX:
            return self._note(path, "does not fit in 64 bits", describe(value))
        return value

    def _note(self, path: Path, message: str, got: str, expected: str = "") -> None:
        self.wrong.append(WrongField(path, message, got, expected))


def _unwrapped(expected: inspect.Type) -> tuple[list[inspect.Type], dict[str, Any]]:
    """Return the alternatives without null, and what the annotation adds."""
    union = expected.types if isinstance(expected, inspect.UnionType) else (expected,)
    kinds = [kind for kind in union if not isinstance(kind, inspect.NoneType)]
    extra: dict[str, Any] = {}
    if isinstance(kinds[0], inspect.Metadata):
        extra = kinds[0].extra or {}
        kinds[0] = _held(extra["holds"]) if "holds" in extra else kinds[0].type
    return kinds, extra


@cache
def _held(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def describe_type(value: Any) -> str:
    """Return the JSON type of a parsed value, with its article."""
    for types, name in (
        (bool, "a boolean"),
        ((int, float), "a number"),
        (str, "a string"),
        (list, "a list"),
        (dict, "an object"),
    ):
        if isinstance(value, types):
            return name
    return "null"


def describe(value: Any) -> str:
    """Return a value for a message, short; objects and lists by their type only."""
    if isinstance(value, dict | list) or value is None:
        return describe_type(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) > 10**60:
        return "a number of more than 60 digits"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


@lru_cache(maxsize=4096)
def _likely_name(name: str, fields: tuple[str, ...]) -> str:
    import difflib

    lower = {field.lower(): field for field in fields}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.85)
    return lower[close[0]] if close else ""
