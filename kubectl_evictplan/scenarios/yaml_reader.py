"""YAML (and JSON, which is YAML) as a tree in which every key and value knows its place.

The only user of ruamel.yaml. It asks for events, never for objects, so that no tag can
construct anything, no alias is expanded unseen, and no scalar is retyped: what a plain word means
is decided by the field that reads it (``Scalar.kind``). Words that YAML 1.1 and 1.2 readers take
for different things (``yes``, ``0300``, ``1:30``) are *ambiguous* and never silently one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from string import ascii_letters, digits
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.objects import Warning as FileWarning

DEPTH_MAX = 200
ALIASED_VALUES_MAX = 100_000
_SHOWN_MAX = 60

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Booleans to YAML 1.1 only.
_AMBIGUOUS_WORDS = frozenset(
    word
    for lower in ("y", "yes", "n", "no", "on", "off")
    for word in (lower, lower.capitalize(), lower.upper())
)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,39})", re.ASCII)
_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+", re.ASCII)
# Everything else that some YAML reader takes for a number: octal, hexadecimal, binary, underscores,
# base 60, exponents, infinities.
_NUMBER_LIKE = re.compile(
    r"[-+]?("
    r"0[xob]?[0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
    r"|[0-9][0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?|\.[0-9][0-9_]*([eE][-+]?[0-9]+)?"
    r"|\.(inf|Inf|INF))|\.(nan|NaN|NAN)",
    re.ASCII,
)
_UNUSUAL_LINE_BREAK = re.compile("\r(?!\n)|[\u0085\u2028\u2029]")
_PLAIN_CHARACTERS = frozenset(ascii_letters + digits + "._/-")
_ALLOWED_TAGS = (None, "!")


@dataclass(frozen=True, slots=True)
class Scalar:
    """One word; ``plain`` when it stands without quotes. Positions count from 1."""

    text: str
    plain: bool
    line: int
    column: int

    @property
    def kind(self) -> str:
        """What the word means: string, null, boolean, integer, float or ambiguous."""
        if not self.plain:
            return "string"
        if self.text in _NULLS:
            return "null"
        if self.text in _BOOLEANS:
            return "boolean"
        if _INTEGER.fullmatch(self.text):
            return "integer"
        if _FLOAT.fullmatch(self.text):
            return "float"
        if self.text in _AMBIGUOUS_WORDS or _NUMBER_LIKE.fullmatch(self.text):
            return "ambiguous"
        return "string"


@dataclass(slots=True)
class Sequence:
    """A list."""

    line: int
    column: int
    items: list[Value] = field(default_factory=list)


@dataclass(slots=True)
class Mapping:
    """A map with its keys in file order, merges (``<<``) already resolved."""

    line: int
    column: int
    entries: dict[str, tuple[Scalar, Value]] = field(default_factory=dict)

    def get(self, key: str) -> Value | None:
        """Return the value, or None when the key is absent or null."""
        entry = self.entries.get(key)
        return None if entry is None or is_null(entry[1]) else entry[1]


Value = Scalar | Sequence | Mapping


class ProblemList:
    """Collects the problems of one file; ``raise_any`` raises them in file order."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._found: list[tuple[int, int, int, Problem]] = []

    def place(self, value: Value | Any) -> str:
        """Return ``FILE:LINE:COL`` of a value or parser mark."""
        return f"{self._location}:{value.line}:{value.column}"

    def add(
        self, value: Value, message: str, *, path: str = "", got: object = None, expected: str = ""
    ) -> None:
        """Note one problem at the place of the value."""
        problem = Problem(
            message, location=self.place(value), field=path, got=got, expected=expected
        )
        self.extend(value, [problem])

    def extend(self, value: Value, problems: list[Problem]) -> None:
        """Note ready-made problems that belong to the value."""
        for problem in problems:
            self._found.append((value.line, value.column, len(self._found), problem))

    def __bool__(self) -> bool:
        return bool(self._found)

    def raise_any(self) -> None:
        """Raise InputError with every problem noted, or return."""
        if self._found:
            raise InputError([found[3] for found in sorted(self._found, key=lambda f: f[:3])])


def is_null(value: Value) -> bool:
    """Tell whether the value is YAML's null, which counts as absent."""
    return isinstance(value, Scalar) and value.kind == "null"


def describe(value: Value) -> str:
    """Return what a value is, for "got ..." in messages."""
    if isinstance(value, Scalar):
        shown = value.text if len(value.text) <= _SHOWN_MAX else value.text[:_SHOWN_MAX] + "..."
        return "null" if value.kind == "null" else repr(shown)
    return "a list" if isinstance(value, Sequence) else "a map"


def load_document(text: str, problems: ProblemList) -> tuple[Value, list[FileWarning]]:
    """Return the one document of a YAML or JSON text, with the parser's warnings.

    Raises InputError at once for what cannot be parsed; notes duplicate keys, tags and the like in
    ``problems``. Empty documents around the one are skipped; a second one is a problem.
    """
    _refuse_unusual_line_breaks(text, problems)
    if text.lstrip()[:1] in ("{", "["):
        # JSON may be indented with tabs; inside its strings a raw tab is not allowed anyway.
        text = text.replace("\t", " ")
    builder = _TreeBuilder(text, problems)
    try:
        documents = [root for root in builder.documents() if not is_null(root)]
    except YAMLError as error:
        raise InputError(_syntax_problem(error, text, problems)) from None
    except (ValueError, OverflowError) as error:
        message = f"not valid YAML: {error}"
        raise InputError(Problem(message, location=problems.place(builder.last))) from None
    if not documents:
        problems.raise_any()
        raise InputError(Problem("the file is empty", location=problems.place(builder.last)))
    for extra in documents[1:]:
        problems.add(extra, "a second document: write one per file")
    return documents[0], builder.warnings


def _refuse_unusual_line_breaks(text: str, problems: ProblemList) -> None:
    """Raise for line ends that YAML 1.1 and 1.2 readers see differently."""
    match = _UNUSUAL_LINE_BREAK.search(text)
    if match is not None:
        line = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start())
        place = Scalar("", True, line, column)
        problems.add(place, "unusual line break: lines end with LF or CR LF")
        problems.raise_any()


def to_plain(value: Value, problems: ProblemList, path: str = "") -> Any:
    """Return dicts, lists, strings, numbers, booleans and None, as a JSON reader would see them.

    Ambiguous words are noted in ``problems``: their meaning depends on the reader.
    """
    if isinstance(value, Mapping):
        return {
            key: to_plain(item, problems, f"{path}.{key}")
            for key, (_, item) in value.entries.items()
        }
    if isinstance(value, Sequence):
        return [
            to_plain(item, problems, f"{path}[{index}]") for index, item in enumerate(value.items)
        ]
    kind = value.kind
    if kind == "null":
        return None
    if kind == "boolean":
        return _BOOLEANS[value.text]
    if kind == "integer":
        return int(value.text)
    if kind == "float":
        return float(value.text)
    if kind == "ambiguous":
        problems.add(
            value,
            "means different things to different YAML readers: quote a string, write a number in "
            "plain decimal, a boolean as true or false",
            path=path,
            got=describe(value),
        )
    return value.text


def dump_document(document: dict[str, Any], one_per_line: list[Any]) -> str:
    """Return YAML text in which every reader finds the same values.

    The items of ``one_per_line``, a list inside ``document``, take a line each: wrapped lines
    would hide them from grep and diff.
    """
    tree = _quoted(document, one_per_line)
    stream = StringIO()
    writer = YAML(typ="rt", pure=True)
    writer.width = 2**30
    writer.allow_unicode = True
    writer.dump(tree, stream)
    return stream.getvalue()


def _quoted(value: Any, one_per_line: list[Any]) -> Any:
    """Return the value with every string quoted that is not plainly a string to any reader."""
    if isinstance(value, dict):
        tree = CommentedMap()
        for key, item in value.items():
            tree[_quoted(key, one_per_line)] = _quoted(item, one_per_line)
        return tree
    if isinstance(value, list):
        items = [_quoted(item, one_per_line) for item in value]
        for item in items if value is one_per_line else ():
            item.fa.set_flow_style()
        return items
    if isinstance(value, str) and not _is_plain(value):
        return DoubleQuotedScalarString(value)
    return value


def _is_plain(text: str) -> bool:
    safe = text[:1].isalnum() and set(text) <= _PLAIN_CHARACTERS
    return safe and Scalar(text, True, 1, 1).kind == "string"


class _TreeBuilder:
    """Builds the tree from parser events; recursion is as deep as ``DEPTH_MAX`` allows."""

    def __init__(self, text: str, problems: ProblemList) -> None:
        self.warnings: list[FileWarning] = []
        self.last: Value = Scalar("", True, 1, 1)
        self._events: Iterator[Any] = iter(YAML(typ="safe", pure=True).parse(StringIO(text)))
        self._problems = problems
        # None while the value is still being built: an alias to it would be a cycle.
        self._anchors: dict[str, Value | None] = {}
        # Values inside each anchored value, aliases expanded.
        self._sizes: dict[str, int] = {}
        self._values_seen = 0
        self._values_aliased = 0

    def documents(self) -> Iterator[Value]:
        """Yield the root of each document."""
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                self._start_document(event)
                yield self._value(next(self._events), 0)

    def _start_document(self, event: DocumentStartEvent) -> None:
        self._anchors, self._sizes = {}, {}
        place = _place(event)
        if event.tags:
            self._problems.add(place, "%TAG directives are not accepted")
        if event.version not in (None, (1, 2)):
            message = f"{self._problems.place(place)}: %YAML is ignored: the file is read as 1.2"
            self.warnings.append(FileWarning("yaml-version-ignored", message))

    def _value(self, event: Any, depth: int) -> Value:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        value = _empty_value(event)
        self.last = value
        self._values_seen += 1
        if depth > DEPTH_MAX:
            self._stop(value, f"nested deeper than {DEPTH_MAX}")
        if event.tag not in _ALLOWED_TAGS:
            self._problems.add(value, f"the tag {event.tag} is not accepted")
        if event.anchor is None:
            self._fill(value, depth)
            return value
        if event.anchor in self._anchors:
            message = f"{self._problems.place(value)}: anchor {event.anchor!r} is defined again"
            self.warnings.append(FileWarning("yaml-anchor-reused", message))
        self._anchors[event.anchor] = None
        size_before = self._values_seen + self._values_aliased
        self._fill(value, depth)
        self._sizes[event.anchor] = self._values_seen + self._values_aliased - size_before + 1
        self._anchors[event.anchor] = value
        return value

    def _fill(self, value: Value, depth: int) -> None:
        """Read what is inside the value, up to its end event."""
        if isinstance(value, Scalar):
            if _has_surrogate(value.text):
                self._problems.add(value, "not valid Unicode: a lone surrogate")
        elif isinstance(value, Sequence):
            while not isinstance(event := next(self._events), SequenceEndEvent):
                value.items.append(self._value(event, depth + 1))
        else:
            merged: list[Value] = []
            while not isinstance(event := next(self._events), MappingEndEvent):
                key = self._value(event, depth + 1)
                item = self._value(next(self._events), depth + 1)
                if isinstance(key, Scalar) and key.plain and key.text == "<<":
                    merged += item.items if isinstance(item, Sequence) else [item]
                else:
                    self._enter(value, key, item)
            self._merge(value, merged)

    def _enter(self, mapping: Mapping, key: Value, item: Value) -> None:
        if not isinstance(key, Scalar) or key.kind != "string":
            message = "a key must be a string: quote it"
            if isinstance(key, Mapping):
                message = "a key must be a string (is this an unrendered template?)"
            self._problems.add(key, message, got=describe(key))
        elif key.text in mapping.entries:
            first = mapping.entries[key.text][0]
            message = (
                f"duplicate key {key.text!r}: first in line {first.line}, column {first.column}"
            )
            self._problems.add(key, message)
        else:
            mapping.entries[key.text] = (key, item)

    def _merge(self, mapping: Mapping, sources: list[Value]) -> None:
        """Add what ``<<`` brings: own keys win, then earlier sources."""
        for source in sources:
            if not isinstance(source, Mapping):
                self._problems.add(source, "<< needs a map", got=describe(source))
                continue
            for name, entry in source.entries.items():
                mapping.entries.setdefault(name, entry)

    def _alias(self, event: AliasEvent) -> Value:
        place = _place(event)
        target = self._anchors.get(event.anchor)
        if target is None:
            if event.anchor in self._anchors:
                self._stop(place, f"alias {event.anchor!r} refers to itself")
            self._stop(place, f"undefined alias {event.anchor!r}")
        self._values_aliased += self._sizes[event.anchor]
        if self._values_aliased > ALIASED_VALUES_MAX:
            self._stop(place, f"aliases expand to more than {ALIASED_VALUES_MAX} values")
        return target

    def _stop(self, place: Value, message: str) -> NoReturn:
        """Raise at once: going on would be unsafe or pointless."""
        self._problems.add(place, message)
        self._problems.raise_any()
        raise AssertionError("a problem was just noted")


def _place(event: Any) -> Scalar:
    mark = event.start_mark
    return Scalar("", True, mark.line + 1, mark.column + 1)


def _empty_value(event: Any) -> Value:
    """Return the value that begins with the event, without its contents."""
    line, column = event.start_mark.line + 1, event.start_mark.column + 1
    if isinstance(event, ScalarEvent):
        text = event.value
        if _has_surrogate(text):
            # JSON writes characters beyond U+FFFF as two escapes.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            text = event.value if "\ufffd" in text else text
        return Scalar(text, event.style in (None, ""), line, column)
    return (
        Sequence(line, column) if isinstance(event, SequenceStartEvent) else Mapping(line, column)
    )


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _syntax_problem(error: YAMLError, text: str, problems: ProblemList) -> Problem:
    """Return the parser's complaint in one line, at its place."""
    line, column, message = 1, 1, "not valid YAML"
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        if mark is not None:
            line, column = mark.line + 1, mark.column + 1
        message = " ".join(part for part in (error.context, error.problem) if part) or message
    elif isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        message = f"control character U+{ord(text[error.position]):04X} is not allowed"
    if "{{" in text:
        message += " (the file looks like an unrendered template)"
    return Problem(message, location=problems.place(Scalar("", True, line, column)))
