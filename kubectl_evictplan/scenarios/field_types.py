"""The types of the fields that a scenario's events have: how each is read, written and described.

An action annotates its fields with them (``taint: Annotated[Taint, TAINT]``); the reader of files,
the writer and the JSON Schema follow these annotations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from kubectl_evictplan.kube.durations import format_duration, parse_duration_ns
from kubectl_evictplan.kube.objects import EFFECTS, Node, Pod, Taint, Toleration
from kubectl_evictplan.scenarios.taint_words import TaintRemoval, parse_taint, parse_taint_removal

T = TypeVar("T")
Schema = dict[str, Any]
STATUSES = ("True", "False", "Unknown")


class Manifest(msgspec.Struct, frozen=True):
    """A created object: as written, and as the API server would store it."""

    stored: Node | Pod
    written: dict[str, Any] = {}


class FieldSource(Protocol):
    """One event of a file. Every method returns None after noting what is wrong with the field."""

    def parsed(self, key: str, parse: Callable[[str], T], *, expected: str = "") -> T | None:
        """Return a string's meaning; ``parse`` raises ValueError."""

    def duration_ns(self, key: str, parse: Callable[[str], int]) -> int | None:
        """Return a duration, which may also be the number 0."""

    def targets(self) -> tuple[str, ...] | None:
        """Return the names of the nodes that the event's one target means at that instant."""

    def pod_keys(self, key: str) -> tuple[str, ...] | None:
        """Return the keys of pods that exist."""

    def manifest(self, key: str, kind: str) -> Manifest | None:
        """Return one object of that kind."""

    def tolerations(self, key: str) -> tuple[Toleration, ...] | None:
        """Return a whole list of tolerations, checked as the API server would; it may be empty."""


@dataclass(frozen=True)
class FieldType(Generic[T]):
    """One type of field."""

    schema: Schema
    read: Callable[[FieldSource, str], T | None]
    write: Callable[[T], Any]


class FileField(NamedTuple):
    """One field of an action: its key in files, the attribute that holds it, its type."""

    key: str
    attribute: str
    type: FieldType[Any]
    required: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys under which a file may give it."""
        return tuple(TARGET_SCHEMAS) if self.type is TARGETS else (self.key,)


@cache
def file_fields(action: type[msgspec.Struct]) -> tuple[FileField, ...]:
    """Return the fields that an action has besides ``at`` and ``action``, in the order of a file."""
    return tuple(
        FileField(field.encode_name, field.name, kind, field.default is msgspec.NODEFAULT)
        for field in msgspec.structs.fields(action)
        for kind in getattr(field.type, "__metadata__", ())
        if isinstance(kind, FieldType)
    )


def _parsed(
    schema: Schema, parse: Callable[[str], T], write: Callable[[T], str], expected: str = ""
) -> FieldType[T]:
    """Return the type of a field that is one string with a grammar of its own."""
    return FieldType(
        schema, lambda source, key: source.parsed(key, parse, expected=expected), write
    )


def _taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"


def _added_taint(text: str) -> Taint:
    if text.endswith("-"):
        raise ValueError("to remove a taint write action: untaint, without the trailing '-'")
    return parse_taint(text)


def _removed_taint(text: str) -> TaintRemoval:
    if text.endswith("-"):
        raise ValueError("leave out the trailing '-': the action already says it")
    return parse_taint_removal(text)


def _status(text: str) -> str:
    if text not in STATUSES:
        raise ValueError("not a status of Ready")
    return text


def _written_toleration(toleration: Toleration) -> dict[str, Any]:
    """Return a ``v1.Toleration`` without what is empty; 0 seconds say something."""
    written = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
        "tolerationSeconds": toleration.toleration_seconds,
    }
    return {name: value for name, value in written.items() if value not in ("", None)}


def _manifest_of(kind: str) -> FieldType[Manifest]:
    return FieldType(
        {"type": "object", "description": f"a v1 {kind}"},
        lambda source, key: source.manifest(key, kind),
        lambda manifest: manifest.written,
    )


TEXT: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "array", "items": TEXT, "minItems": 1}
DURATION_SCHEMA: Schema = {
    "description": "a Go duration such as 1h30m or 2.5s, or 0",
    "anyOf": [
        {"type": "string", "pattern": r"^[-+]?(0|([0-9]*(\.[0-9]*)?[a-zµμ]+)+)$"},
        {"const": 0},
    ],
}
_TAINT_SCHEMA = {
    "type": "string",
    "description": "kubectl's form: key=value:Effect, key:Effect or key",
}
_TOLERATION_SCHEMA = {
    "type": "object",
    "properties": {
        "key": {"type": "string"},
        "operator": {"enum": ["Exists", "Equal", "Lt", "Gt", ""]},
        "value": {"type": "string"},
        "effect": {"enum": [*EFFECTS, ""]},
        "tolerationSeconds": {"type": "integer"},
    },
    "additionalProperties": False,
}

# Exactly one of these keys says which nodes; written as names.
TARGET_SCHEMAS: dict[str, Schema] = {
    "nodes": _TEXTS,
    "selector": {"type": "string", "description": "a label selector as kubectl's -l"},
    "zone": {"type": "string", "description": "a zone's label, or region/zone"},
    "allNodes": {"const": True},
}
TARGETS = FieldType[tuple[str, ...]](_TEXTS, lambda source, _: source.targets(), list)
POD_KEYS = FieldType[tuple[str, ...]](
    {**_TEXTS, "description": "NAMESPACE/NAME"},
    lambda source, key: source.pod_keys(key),
    list,
)
DURATION = FieldType[int](
    DURATION_SCHEMA,
    lambda source, key: source.duration_ns(key, parse_duration_ns),
    format_duration,
)
TAINT = _parsed(_TAINT_SCHEMA, _added_taint, _taint_text, "key=value:Effect or key:Effect")
TAINT_REMOVAL = _parsed(_TAINT_SCHEMA, _removed_taint, str, "key:Effect or key (every effect)")
STATUS = _parsed({"enum": list(STATUSES)}, _status, str, '"True", "False" or "Unknown"')
NODE_MANIFEST, POD_MANIFEST = _manifest_of("Node"), _manifest_of("Pod")
TOLERATIONS = FieldType[tuple[Toleration, ...]](
    {"type": "array", "items": _TOLERATION_SCHEMA},
    lambda source, key: source.tolerations(key),
    lambda tolerations: [_written_toleration(toleration) for toleration in tolerations],
)
