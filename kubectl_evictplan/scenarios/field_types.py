"""The types of the fields that a scenario's events have: how each is described, read and written.

An action annotates its fields with them (``taint: Annotated[Taint, TAINT]``); the reader of files,
the writer and the JSON Schema follow these annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import astuple, replace

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.durations import (
    SECOND_NS,
    format_duration,
    parse_bounded_duration_ns,
    parse_duration_ns,
)
from kubectl_evictplan.kube.objects import Node, Pod, Taint, Toleration
from kubectl_evictplan.kube.selectors import parse_label_selector
from kubectl_evictplan.kube.taints import taint_text
from kubectl_evictplan.kube.validation import validate_tolerations
from kubectl_evictplan.scenarios.names import unknown_name
from kubectl_evictplan.scenarios.taint_words import TaintRemoval, parse_taint, parse_taint_removal
from kubectl_evictplan.scenarios.targets import nodes_by_selector, nodes_by_zone
from kubectl_evictplan.sources.marked_tree import Path
from kubectl_evictplan.sources.wire import WireToleration

if TYPE_CHECKING:
    from kubectl_evictplan.scenarios.document import Document
    from kubectl_evictplan.scenarios.history import History
    from kubectl_evictplan.scenarios.scenario import ScenarioEvent

T = TypeVar("T")
# Turns one manifest object and its location into the typed object; raises InputError.
ManifestDecoder = Callable[[dict[str, Any], str], Node | Pod]


class Manifest(msgspec.Struct, frozen=True):
    """A created object: as the API server would store it, and as written."""

    stored: Node | Pod
    written: dict[str, Any] = {}


class Encounter(msgspec.Struct, frozen=True):
    """One event of a file and what came before it; without an instant where that is wrong."""

    document: Document
    path: Path
    action: type[ScenarioEvent]
    written: dict[str, Any]
    at_ns: int | None
    history: History
    decode_manifest: ManifestDecoder

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes that exist then."""
        return self.history.nodes_ever if self.at_ns is None else self.history.nodes

    def problem(self, message: str, *below: str | int, expected: str = "") -> None:
        """Note a problem of the event, or of what stands below it."""
        self.document.problem((*self.path, *below), message, expected=expected)

    def read(self, field: FileField) -> Any:
        """Return a field's value; None after noting what is wrong with it."""
        is_target = field.type in TARGET_TYPES
        keys = tuple(TARGET_KEYS) if is_target else (field.key,)
        if not all(self.document.is_sound((*self.path, key)) for key in keys):
            return None
        value = self.written if is_target else self.written[field.key]
        try:
            return field.type.read(value, field.key, self)
        except ValueError as error:
            self.problem(str(error), field.key, expected=field.type.expected)
            return None


class FieldType(msgspec.Struct, Generic[T], frozen=True):
    """One type of field.

    ``wire`` is its type in a file. ``read`` gets such a value and the field's key; it returns None after
    noting problems, or raises ValueError with the one that the whole field has.
    """

    wire: Any
    read: Callable[[Any, str, Encounter], T | None]
    write: Callable[[T], Any]
    # How an answer tells of it, with {key} and {value} as they are written; "": not at all.
    detail: str = ""
    expected: str = ""


class FileField(msgspec.Struct, frozen=True):
    """One field of an action: its key in files, the attribute that holds it, its type."""

    key: str
    attribute: str
    type: FieldType[Any]
    required: bool
    # What leaving it out means, which is neither written nor told.
    default: Any


@cache
def file_fields(action: type[msgspec.Struct]) -> tuple[FileField, ...]:
    """Return the fields that an action has besides ``at`` and ``action``, in the order of a file."""
    return tuple(
        FileField(
            field.encode_name, field.name, kind, field.default is msgspec.NODEFAULT, field.default
        )
        for field in msgspec.structs.fields(action)
        for kind in getattr(field.type, "__metadata__", ())
        if isinstance(kind, FieldType)
    )


# -- reading ------------------------------------------------------------------------------------


def _targets(event: dict[str, Any], _: str, meets: Encounter) -> tuple[str, ...] | None:
    """Return the names of the nodes that the event's one target means at that instant."""
    given = [key for key in TARGET_KEYS if event.get(key) is not None]
    if len(given) != 1:
        which = f"both {given[0]!r} and {given[1]!r}" if given else "none"
        meets.problem(f"one target is needed, given: {which}", expected=_TARGETS_EXPECTED)
        return None
    key, value, nodes = given[0], event[given[0]], meets.nodes
    try:
        if key == "nodes":
            return _known("node", value, key, nodes, meets)
        if key == "allNodes" and not value:
            raise ValueError("only 'allNodes: true' selects nodes")
        if key == "allNodes" and not nodes:
            raise ValueError("there is no node")
        if key == "allNodes":
            return tuple(sorted(nodes))
        select = nodes_by_selector if key == "selector" else nodes_by_zone
        return tuple(node.name for node in select(nodes, value))
    except ValueError as error:
        meets.problem(str(error), key, expected=_TARGETS_EXPECTED if key == "allNodes" else "")
        return None


def _targets_in_order(event: dict[str, Any], key: str, meets: Encounter) -> tuple[str, ...] | None:
    """Return the names in the order in which they are written; what a selector finds is sorted."""
    found = _targets(event, key, meets)
    named = event.get("nodes")
    return tuple(dict.fromkeys(named)) if found and named is not None else found


def _known(
    kind: str, names: list[str], key: str, known: Mapping[str, Any], meets: Encounter
) -> tuple[str, ...] | None:
    """Return the names, sorted; None after noting those that are not known."""
    if not names:
        raise ValueError("the list is empty")
    missing = [index for index, name in enumerate(names) if name not in known]
    for index in missing:
        message = unknown_name(kind, names[index], known)
        if kind == "node" and names[index] in meets.history.nodes_ever:
            message = f"node {names[index]!r} is deleted at this instant"
        is_key = kind == "node" or names[index].count("/") == 1
        meets.problem(message, key, index, expected="" if is_key else "NAMESPACE/NAME")
    return None if missing else tuple(sorted(set(names)))


def _duration_from_0(_: str | int, key: str, meets: Encounter) -> int:
    return parse_bounded_duration_ns(meets.document.text((*meets.path, key)))


def _whole_seconds(_: str | int, key: str, meets: Encounter) -> int:
    seconds, rest_ns = divmod(_duration_from_0(_, key, meets), SECOND_NS)
    if rest_ns:
        raise ValueError("must be whole seconds")
    return seconds


def _selector(text: str, *_: object) -> str:
    parse_label_selector(text)
    return text


def _manifest(kind: str, written: dict[str, Any], key: str, meets: Encounter) -> Manifest | None:
    """Return the object, decoded as the API server would store it."""
    if written.get("kind") != kind:
        meets.problem(f"a {kind} is needed", key, "kind")
        return None
    try:
        return Manifest(meets.decode_manifest(written, meets.document.location), written)
    except InputError as error:
        path = (*meets.path, key)
        for problem in error.problems:
            meets.document.note(meets.document.place(path), problem, path)
        return None


def _tolerations(
    written: list[dict[str, Any]], key: str, meets: Encounter
) -> tuple[Toleration, ...] | None:
    """Return the whole list, checked as the API server would; it may be empty."""
    read = tuple(msgspec.convert(item, WrittenToleration).toleration() for item in written)
    # Lt and Gt are judged with the release that is simulated, not here.
    found = validate_tolerations(read, comparison_operators=True)
    for index, (name, message, _) in found:
        below = (name,) if written[index].get(name) is not None else ()
        meets.problem(message, key, index, *below)
    return None if found else read


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


# -- the types ----------------------------------------------------------------------------------


def _word(
    parse: Callable[[str], T], write: Callable[[T], str], expected: str, wire: Any
) -> FieldType[T]:
    """Return the type of a field that is one string with a grammar of its own."""
    return FieldType(wire, lambda text, *_: parse(text), write, "{value}", expected)


def _object(kind: str) -> FieldType[Manifest]:
    wire = Annotated[dict[str, Any], Meta(description=f"a v1 {kind}")]
    return FieldType(wire, partial(_manifest, kind), lambda manifest: manifest.written)


class WrittenToleration(WireToleration, rename="camel", forbid_unknown_fields=True):
    """All that a toleration of a scenario can have."""

    def said(self) -> dict[str, Any]:
        """Return it without what is empty; 0 seconds say something."""
        written = msgspec.to_builtins(self)
        return {name: value for name, value in written.items() if value not in ("", None)}


STATUSES = ("True", "False", "Unknown")
COUNT_MAX = 1_000_000
Text = Annotated[str, Meta(min_length=1)]
_Texts = Annotated[list[Text], Meta(min_length=1)]
# Go's one duration without a unit is 0, which YAML takes for a number.
WireDuration = Annotated[
    Any,
    Meta(
        description="a Go duration such as 1h30m or 2.5s, or 0",
        extra_json_schema={
            "anyOf": [
                {"type": "string", "pattern": r"^[-+]?(0|([0-9]*(\.[0-9]*)?[a-zµμ]+)+)$"},
                {"const": 0},
            ]
        },
    ),
]
_WireTaint = Annotated[str, Meta(description="kubectl's form: key=value:Effect, key:Effect or key")]
_WireStatus = Annotated[str, Meta(extra_json_schema={"enum": list(STATUSES)})]

# Exactly one of these keys says which nodes; written as names.
TARGET_KEYS: dict[str, Any] = {
    "nodes": _Texts,
    "selector": Annotated[str, Meta(description="a label selector as kubectl's -l")],
    "zone": Annotated[str, Meta(description="a zone's label, or region/zone")],
    "allNodes": Annotated[bool, Meta(extra_json_schema={"const": True})],
}
_TARGETS_EXPECTED = "one of nodes, selector, zone, allNodes: true"
TARGETS = FieldType[tuple[str, ...]](_Texts, _targets, list)
# For actions on one node after the other.
TARGETS_IN_ORDER = FieldType[tuple[str, ...]](_Texts, _targets_in_order, list)
TARGET_TYPES = (TARGETS, TARGETS_IN_ORDER)
POD_KEYS = FieldType[tuple[str, ...]](
    Annotated[_Texts, Meta(description="NAMESPACE/NAME")],
    # Pods that exist, or existed.
    lambda names, key, meets: _known("pod", names, key, meets.history.pods, meets),
    list,
)
DURATION = FieldType[int](
    WireDuration,
    lambda _, key, meets: parse_duration_ns(meets.document.text((*meets.path, key))),
    format_duration,
    "{key} {value}",
)
DURATION_FROM_0 = FieldType[int](WireDuration, _duration_from_0, format_duration, "{key} {value}")
WHOLE_SECONDS = FieldType[int](
    WireDuration,
    _whole_seconds,
    lambda seconds: format_duration(seconds * SECOND_NS),
    "{key} {value}",
)
COUNT = FieldType[int](
    Annotated[int, Meta(ge=0, le=COUNT_MAX)], lambda number, *_: number, int, "{key} {value}"
)
FLAG = FieldType[bool](bool, lambda said, *_: said, bool, "{key}")
LABEL_SELECTOR = FieldType[str](
    Annotated[str, Meta(description="a label selector as kubectl's -l")],
    _selector,
    str,
    "{key} {value}",
)
TAINT = _word(_added_taint, taint_text, "key=value:Effect or key:Effect", _WireTaint)
TAINT_REMOVAL = _word(_removed_taint, str, "key:Effect or key (every effect)", _WireTaint)
STATUS = _word(_status, str, '"True", "False" or "Unknown"', _WireStatus)
# Of a kubelet that is back.
POSTED_STATUS = replace(STATUS, detail="posting Ready={value}")
NODE_MANIFEST, POD_MANIFEST = _object("Node"), _object("Pod")
TOLERATIONS = FieldType[tuple[Toleration, ...]](
    list[WrittenToleration],
    _tolerations,
    lambda tolerations: [WrittenToleration(*astuple(t)).said() for t in tolerations],
)
