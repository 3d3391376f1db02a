"""YAML manifests as kubectl reads them, with a line and column for every value.

Built on libyaml's events, not on a ready-made loader: none reads scalars as kubectl does, and
only events let depth, aliases and duplicate keys be counted before they do harm. Plain scalars
become what kubectl makes of them (``no`` is false, ``0o644`` is 420, ``12:30`` a string); an
integer that is not a plain decimal is marked, so that a field that needs it can refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from kubectl_evictplan.sources.schema import OddInteger, Path

DEPTH_MAX = 200
# What aliases may add to a document, counted as if they were written out.
ALIAS_NODES_MAX = 100_000
ALIAS_BYTES_MAX = 10 << 20

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"})
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_INTEGER = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)", re.ASCII
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII)
_DIGITS_MAX = 60
_CORE = "tag:yaml.org,2002:"
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
}
_TEMPLATE_REASON = "looks like an unrendered template: render it first"
_TEMPLATE = re.compile(r"\{\{|\{%")
# libyaml takes these for line ends and folds them into a blank, which would change a value.
_ODD_LINE_ENDS = re.compile("\r(?!\n)|[\x85\u2028\u2029]")

Marks = dict[str | int, tuple[int, int]]


class YamlMap(dict[str, Any]):
    """A mapping that knows where its keys stand (1-based line and column)."""

    __slots__ = ("marks",)

    def __init__(self) -> None:
        super().__init__()
        self.marks: Marks = {}


class YamlList(list[Any]):
    """A sequence that knows where its items stand."""

    __slots__ = ("marks",)

    def __init__(self) -> None:
        super().__init__()
        self.marks: Marks = {}


class YamlProblem(NamedTuple):
    """What is wrong, and where (1-based; 0 when unknown)."""

    message: str
    line: int
    column: int
    got: str = ""


class YamlDocument(NamedTuple):
    """One document: its number (from 1), its value, and what was found while building it."""

    number: int
    tree: Any
    problems: list[YamlProblem]
    warnings: list[tuple[str, str]]

    def position(self, path: Path) -> str:
        """Return ``LINE:COL`` of a field, or of the nearest container that exists."""
        value, found = self.tree, ""
        for part in path:
            marks = getattr(value, "marks", {})
            if part not in marks:
                break
            line, column = marks[part]
            found = f"{line}:{column}"
            value = value[part]
        return found


def plain_scalar(text: str) -> Any:
    """Return what kubectl makes of an unquoted scalar (sigs.k8s.io/yaml)."""
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    first = text[0]
    if not ("0" <= first <= "9" or first in "+-."):
        return text
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(digits):
        value = _integer(digits)
        return value if _DECIMAL.fullmatch(text) and text != "-0" else OddInteger(value, text)
    if _FLOAT.fullmatch(digits):
        return float(digits)
    if _SPECIAL_FLOAT.fullmatch(digits):
        return float(digits.replace(".", "").lower())
    return text


def _integer(digits: str) -> int:
    """Read like Go's ParseInt with base 0, except that a hostile length is cut, not computed."""
    sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits.removeprefix("+"))
    excess = len(digits) > _DIGITS_MAX
    digits = digits[:_DIGITS_MAX]
    prefix = digits[:2].lower()
    if prefix == "0x":
        value = int(digits, 16)
    elif prefix == "0b":
        value = int(digits, 2)
    elif prefix == "0o":
        value = int(digits, 8)
    else:
        value = int(digits, 8 if digits[0] == "0" else 10)
    return sign * value * (2**64 if excess else 1)


def load_documents(text: str) -> Iterator[YamlDocument]:
    """Yield each document of a stream, empty ones too; a syntax error ends it as a last one."""
    odd = _ODD_LINE_ENDS.search(text)
    if odd:
        message = "a line separator other than LF or CRLF: write it as an escape in double quotes"
        line = text.count("\n", 0, odd.start()) + 1
        yield _failed(1, YamlProblem(message, line, odd.start() - text.rfind("\n", 0, odd.start())))
        return
    builder: _Builder | None = None
    number = 0
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                number += 1
                builder = _Builder()
                builder.directives(event)
            elif isinstance(event, yaml.DocumentEndEvent):
                assert builder is not None
                yield YamlDocument(number, builder.root, builder.problems, builder.warnings)
                builder = None
            elif builder is not None:
                builder.add(event)
    except _GiveUp as error:
        problem = error.problem
        if _TEMPLATE.search(text.splitlines()[problem.line - 1]):
            problem = problem._replace(message=_TEMPLATE_REASON)
        yield _failed(number, problem)
    except yaml.YAMLError as error:
        yield _failed(max(number, 1), _syntax_problem(text, error))


class _GiveUp(Exception):
    def __init__(self, message: str, event: Any, got: str = "") -> None:
        super().__init__(message)
        line, column = _mark(event)
        self.problem = YamlProblem(message, line, column, got)


class _Frame:
    """A container under construction; ``key`` is the mapping key waiting for its value."""

    __slots__ = ("anchor", "container", "is_key", "key", "merged", "size", "waiting", "weight")

    def __init__(self, container: YamlMap | YamlList, anchor: str | None) -> None:
        self.container = container
        self.anchor = anchor
        self.key: Any = None
        self.waiting = False
        self.is_key = False
        self.merged: list[tuple[Any, Any]] = []
        self.size = 1
        self.weight = 0


class _Builder:
    """Makes one document's value from events, without recursion."""

    def __init__(self) -> None:
        self.root: Any = None
        self.problems: list[YamlProblem] = []
        self.warnings: list[tuple[str, str]] = []
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._alias_nodes = 0
        self._alias_bytes = 0

    def directives(self, event: Any) -> None:
        if event.tags:
            raise _GiveUp("%TAG directives are not accepted", event)
        if event.version:
            version = ".".join(str(part) for part in event.version)
            message = f"%YAML {version} is ignored: scalars are read as kubectl reads them"
            self.warnings.append(("yaml-directive", message))

    def add(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._open(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._close(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _scalar(self, event: Any) -> None:
        value = self._typed(event)
        if isinstance(value, str) and not _is_unicode(value):
            self._problem("not valid Unicode (lone surrogate)", event)
            value = ""
        if event.anchor:
            self._anchor(event.anchor, value, 1, len(event.value), event)
        self._put(value, 1, len(event.value), event)

    def _typed(self, event: Any) -> Any:
        tag = event.tag
        if tag is None or tag == "!":
            return plain_scalar(event.value) if event.implicit[0] and tag is None else event.value
        name = tag.removeprefix(_CORE)
        if tag == name or name not in _TYPES:
            raise _GiveUp("this tag is not accepted", event, _tag_text(tag))
        if name == "str":
            return event.value
        value = plain_scalar(event.value)
        if not isinstance(value, _TYPES[name]) or (name == "int" and isinstance(value, bool)):
            raise _GiveUp(f"the value is not what its tag !!{name} says", event)
        return value

    def _open(self, event: Any) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _CORE + ("map" if mapping else "seq")):
            raise _GiveUp("this tag is not accepted", event, _tag_text(event.tag))
        if len(self._stack) >= DEPTH_MAX:
            raise _GiveUp(f"nested deeper than {DEPTH_MAX}", event)
        if self._stack and self._expects_key():
            raise _GiveUp("a mapping key must be a string", event)
        container = YamlMap() if mapping else YamlList()
        self._put(container, 0, 0, event)
        self._stack.append(_Frame(container, event.anchor))
        if event.anchor:
            # Size 0 marks an anchor whose container is still open.
            self._anchor(event.anchor, container, 0, 0, event)

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        container = frame.container
        if isinstance(container, YamlMap):
            self._merge(container, frame.merged)
        if frame.anchor and self._anchors.get(frame.anchor, (None,))[0] is container:
            self._anchors[frame.anchor] = (container, frame.size, frame.weight)
        if self._stack:
            self._stack[-1].size += frame.size
            self._stack[-1].weight += frame.weight

    def _merge(self, container: YamlMap, merged: list[tuple[Any, Any]]) -> None:
        """Add what ``<<`` refers to; written keys win, then the earlier source."""
        for value, event in merged:
            sources = value if isinstance(value, YamlList) else [value]
            if not all(isinstance(source, YamlMap) for source in sources):
                self._problem("<< must refer to a mapping", event)
                continue
            for source in sources:
                for key, item in source.items():
                    if key not in container:
                        container[key] = item
                        container.marks[key] = source.marks[key]

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise _GiveUp("undefined alias", event, f"*{event.anchor}")
        value, size, weight = self._anchors[event.anchor]
        if size == 0:
            raise _GiveUp("alias refers to itself", event, f"*{event.anchor}")
        self._alias_nodes += size
        self._alias_bytes += weight
        if self._alias_nodes > ALIAS_NODES_MAX or self._alias_bytes > ALIAS_BYTES_MAX:
            raise _GiveUp("aliases expand to an absurd size", event)
        self._put(value, size, weight, event)

    def _anchor(self, name: str, value: Any, size: int, weight: int, event: Any) -> None:
        if name in self._anchors:
            message = f"anchor &{name} is defined again on line {_mark(event)[0]}"
            self.warnings.append(("duplicate-anchor", message))
        self._anchors[name] = (value, size, weight)

    def _expects_key(self) -> bool:
        frame = self._stack[-1]
        return isinstance(frame.container, YamlMap) and not frame.waiting

    def _put(self, value: Any, size: int, weight: int, event: Any) -> None:
        """Add a value to the open container: as a key, a value or an item."""
        if not self._stack:
            self.root = value
            return
        frame = self._stack[-1]
        frame.size += size
        frame.weight += weight
        container = frame.container
        if isinstance(container, YamlList):
            container.marks[len(container)] = _mark(event)
            container.append(value)
        elif not frame.waiting:
            self._key(frame, value, event)
        else:
            frame.waiting = False
            self._value(frame, container, value, event)

    def _key(self, frame: _Frame, value: Any, event: Any) -> None:
        frame.waiting = True
        frame.is_key = True
        plain_merge = value == "<<" and getattr(event, "implicit", (False,))[0] is True
        if not isinstance(value, str):
            got = getattr(event, "value", "")
            self._problem("a mapping key must be a string: quote it", event, got)
            frame.is_key = False
            return
        frame.key = None if plain_merge else value
        if plain_merge:
            return
        marks = frame.container.marks
        if value in marks:
            message = f'duplicate key "{value[:60]}", first on line {marks[value][0]}'
            self._problem(f"{message} (kubectl keeps the last one silently)", event)
            frame.is_key = False
            return
        marks[value] = _mark(event)

    def _value(self, frame: _Frame, container: YamlMap, value: Any, event: Any) -> None:
        if not frame.is_key:
            return
        if frame.key is not None:
            container[frame.key] = value
        else:
            # A list's items come later: what is merged is looked at when the mapping closes.
            frame.merged.append((value, event))

    def _problem(self, message: str, event: Any, got: str = "") -> None:
        self.problems.append(YamlProblem(message, *_mark(event), got))


def _mark(event: Any) -> tuple[int, int]:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _failed(number: int, problem: YamlProblem) -> YamlDocument:
    return YamlDocument(number, None, [problem], [])


def _tag_text(tag: str) -> str:
    return "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _syntax_problem(text: str, error: yaml.YAMLError) -> YamlProblem:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        return YamlProblem("a control character or byte that YAML does not allow", line, column)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    reason = getattr(error, "problem", None) or "not YAML"
    context = getattr(error, "context", None)
    if _TEMPLATE.search(text):
        return YamlProblem(_TEMPLATE_REASON, line, column)
    if mark and "cannot start any token" in reason and _tab_at(text, mark):
        return YamlProblem("a tab: YAML is indented with spaces", line, column)
    return YamlProblem(f"{context}: {reason}" if context else reason, line, column)


def _tab_at(text: str, mark: Any) -> bool:
    written: str = text.splitlines()[mark.line]
    return written[mark.column : mark.column + 1] == "\t"
