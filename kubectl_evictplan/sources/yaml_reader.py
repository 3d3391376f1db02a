"""YAML (and JSON, which is YAML) as kubectl reads it, with line and column of every value.

Built on libyaml's events, not on a ready-made loader: none reads scalars as kubectl does, and
only events let depth, aliases and duplicate keys be counted before they do harm. An unquoted word
becomes what kubectl makes of it (``no`` is false, ``0o644`` is 420, ``12:30`` a string); how it
was written stays beside it, because readers disagree on words such as ``0300``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from kubectl_evictplan.sources.json_syntax import DEPTH_MAX
from kubectl_evictplan.sources.marked_tree import Mark, MarkedList, MarkedMap, Place

# Every value costs some hundred bytes; a manifest of a pod has about a hundred.
VALUES_MAX = 3_000_000
# What aliases may add to a document, counted as if they were written out.
ALIAS_VALUES_MAX = 100_000
# So many characters count as one value more.
_CHARACTERS_PER_VALUE = 100

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
IS_SLOW = _PARSER is yaml.SafeLoader

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    spelling: value
    for value, words in ((True, ("y", "yes", "on", "true")), (False, ("n", "no", "off", "false")))
    for word in words
    for spelling in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)", re.ASCII
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII)
_DIGITS_MAX = 60
_CORE = "tag:yaml.org,2002:"
# JSON has no scalars of other types.
_STRING_TAGS = ("!", _CORE + "str")
_PLAIN_TAGS = tuple(_CORE + name for name in ("int", "float", "bool", "null"))
_SURROGATE = re.compile("[\ud800-\udfff]")
_TEMPLATE = re.compile(r"\{\{|\{%")
# libyaml takes these for line ends and folds them into a blank, which would change a value.
_ODD_LINE_END = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
# JSON writes characters beyond U+FFFF as two escapes, which libyaml refuses.
_SURROGATE_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)")


class YamlProblem(NamedTuple):
    """What is wrong, and where."""

    message: str
    place: Place
    got: str = ""


class YamlDocument(NamedTuple):
    """One document: its number (from 1), where it begins, its value, what was found in it."""

    number: int
    place: Place
    tree: Any
    problems: list[YamlProblem]
    # Each a code and a message.
    warnings: list[tuple[str, str]]


def plain_scalar(text: str) -> Any:
    """Return what kubectl makes of an unquoted scalar (sigs.k8s.io/yaml)."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    first = text[0]
    if not ("0" <= first <= "9" or first in "+-."):
        return text
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(digits):
        return _integer(digits)
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
    bases = {"0x": 16, "0b": 2, "0o": 8}
    base = bases.get(digits[:2].lower(), 8 if digits[0] == "0" else 10)
    return sign * int(digits, base) * (2**64 if excess else 1)


def read_documents(text: str) -> Iterator[YamlDocument]:
    """Yield each document of a stream, empty ones too; a syntax error ends it as a last one."""
    odd = _ODD_LINE_END.search(text)
    if odd:
        message = "a line separator other than LF or CRLF: write it as an escape in double quotes"
        yield _failed(1, YamlProblem(message, _place_in(text, odd.start())))
        return
    if text.lstrip()[:1] in ("{", "["):
        text = _SURROGATE_PAIR.sub(_joined_surrogates, text)
    number = 0
    try:
        events = yaml.parse(text, Loader=_PARSER)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                number += 1
                yield _Builder(events).document(number, event)
    except _GiveUp as error:
        problem = error.problem
        if _TEMPLATE.search(text.split("\n")[problem.place.line - 1]):
            problem = problem._replace(message=_UNRENDERED)
        yield _failed(number, problem)
    except yaml.YAMLError as error:
        yield _failed(max(number, 1), _syntax_problem(text, error))


# Stands for an anchored value that is not complete: an alias to it would be a cycle.
_BEING_BUILT = object()


class _GiveUp(Exception):
    """Going on would be unsafe or pointless."""

    def __init__(self, message: str, event: Any, got: str = "") -> None:
        super().__init__(message)
        self.problem = YamlProblem(message, _place(event), got)


class _Builder:
    """Makes one document's value from events; recursion is as deep as ``DEPTH_MAX`` allows."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._problems: list[YamlProblem] = []
        self._warnings: list[tuple[str, str]] = []
        self._anchors: dict[str, Any] = {}
        self._values = 0
        self._aliased_values = 0

    def document(self, number: int, start: Any) -> YamlDocument:
        """Return the document whose start was just read."""
        if start.tags:
            raise _GiveUp("%TAG directives are not accepted", start)
        if start.version:
            version = ".".join(str(part) for part in start.version)
            message = f"%YAML {version} is ignored: scalars are read as kubectl reads them"
            self._warnings.append(("yaml-directive", message))
        first = next(self._events)
        tree = self._value(first, 0)
        return YamlDocument(number, _place(first), tree, self._problems, self._warnings)

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._values += 1
        if self._values > VALUES_MAX:
            raise _GiveUp("too much for YAML: convert it with `kubectl get -o json`", event)
        is_scalar = isinstance(event, yaml.ScalarEvent)
        if event.anchor in self._anchors:
            message = f"anchor &{event.anchor} is defined again on line {_place(event).line}"
            self._warnings.append(("duplicate-anchor", message))
        if event.anchor:
            self._anchors[event.anchor] = _BEING_BUILT
        value = self._scalar(event) if is_scalar else self._container(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _scalar(self, event: Any) -> Any:
        value = event.value
        if event.tag not in (None, *_STRING_TAGS, *_PLAIN_TAGS):
            raise _GiveUp("this tag is not accepted", event, _tag_text(event.tag))
        if event.tag in _PLAIN_TAGS or _is_plain(event):
            value = plain_scalar(value)
        if isinstance(value, str) and not value.isascii() and _SURROGATE.search(value):
            self._problem(_NOT_UNICODE, event)
            return ""
        return value

    def _container(self, event: Any, depth: int) -> MarkedMap | MarkedList:
        is_map = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _CORE + ("map" if is_map else "seq")):
            raise _GiveUp("this tag is not accepted", event, _tag_text(event.tag))
        if depth >= DEPTH_MAX:
            raise _GiveUp(_TOO_DEEP, event)
        if is_map:
            return self._map(event, depth)
        container = MarkedList(_place(event))
        while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
            mark = item.start_mark
            container.marks[len(container)] = Mark(mark, mark, _plain_text(item))
            container.append(self._value(item, depth + 1))
        return container

    def _map(self, event: Any, depth: int) -> MarkedMap:
        container = MarkedMap(_place(event))
        merged: list[tuple[Any, Any]] = []
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            if isinstance(key, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                raise _GiveUp("a mapping key must be a string", key)
            name = self._value(key, depth + 1)
            item = next(self._events)
            value = self._value(item, depth + 1)
            if name == "<<" and _plain_text(key):
                merged.append((value, item))
            elif name in container or not isinstance(name, str):
                self._bad_key(container, name, key)
            else:
                container[name] = value
                container.marks[name] = Mark(item.start_mark, key.start_mark, _plain_text(item))
        for value, item in merged:
            self._merge(container, value, item)
        return container

    def _bad_key(self, container: MarkedMap, name: Any, event: Any) -> None:
        if not isinstance(name, str):
            got = getattr(event, "value", "")
            self._problem("a mapping key must be a string: quote it", event, got)
            return
        first = container.marks[name].key_place.line
        message = f'duplicate key "{name[:60]}", first on line {first}'
        if name == "apiVersion":
            # All other keys would be named as well.
            raise _GiveUp(f"{message}: is a line `---` missing between two objects?", event)
        self._problem(f"{message} (kubectl keeps the last one silently)", event)

    def _merge(self, container: MarkedMap, value: Any, event: Any) -> None:
        """Add what ``<<`` refers to; written keys win, then the earlier source."""
        for source in value if isinstance(value, MarkedList) else [value]:
            if not isinstance(source, MarkedMap):
                self._problem("<< must refer to a mapping", event)
                continue
            for key, item in source.items():
                if key not in container:
                    container[key] = item
                    container.marks[key] = source.marks[key]

    def _alias(self, event: Any) -> Any:
        name = event.anchor
        if name not in self._anchors:
            raise _GiveUp("undefined alias", event, f"*{name}")
        value = self._anchors[name]
        if value is _BEING_BUILT:
            raise _GiveUp("alias refers to itself", event, f"*{name}")
        self._aliased_values += _size(value, ALIAS_VALUES_MAX - self._aliased_values)
        if self._aliased_values > ALIAS_VALUES_MAX:
            raise _GiveUp("aliases expand to an absurd size", event)
        return value

    def _problem(self, message: str, event: Any, got: str = "") -> None:
        self._problems.append(YamlProblem(message, _place(event), got))


def _size(value: Any, limit: int) -> int:
    """Return how many values an alias repeats; more than ``limit`` need not be exact."""
    size, pending = 0, [value]
    while pending and size <= limit:
        value = pending.pop()
        size += 1
        if isinstance(value, str):
            size += len(value) // _CHARACTERS_PER_VALUE
        elif isinstance(value, list | dict):
            pending += value if isinstance(value, list) else value.values()
    return size


def _is_plain(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.tag is None and event.implicit[0]


def _plain_text(event: Any) -> str:
    """Return an unquoted word's text."""
    return event.value if _is_plain(event) else ""


def _place(event: Any) -> Place:
    mark = event.start_mark
    return Place(mark.line + 1, mark.column + 1)


def _place_in(text: str, offset: int) -> Place:
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def _failed(number: int, problem: YamlProblem) -> YamlDocument:
    return YamlDocument(number, problem.place, None, [problem], [])


def _tag_text(tag: str) -> str:
    return "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag


def _joined_surrogates(match: re.Match[str]) -> str:
    halves = [int(half, 16) for half in (match[2][2:6], match[2][8:12])]
    return match[1] + chr(0x10000 + ((halves[0] - 0xD800) << 10) + (halves[1] - 0xDC00))


_NOT_UNICODE = "not valid Unicode (lone surrogate)"
_UNRENDERED = "looks like an unrendered template: render it first"
_TOO_DEEP = f"nested deeper than {DEPTH_MAX}"


def _syntax_problem(text: str, error: yaml.YAMLError) -> YamlProblem:
    if isinstance(error, yaml.reader.ReaderError):
        # libyaml counts bytes.
        offset = (
            error.position
            if IS_SLOW
            else len(text.encode()[: error.position].decode(errors="ignore"))
        )
        message = "a control character or byte that YAML does not allow"
        return YamlProblem(message, _place_in(text, offset), f"U+{ord(text[offset]):04X}")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
    reason = getattr(error, "problem", None) or "not YAML"
    context = getattr(error, "context", None)
    if "maximum nesting depth" in reason:
        return YamlProblem(_TOO_DEEP, place)  # libyaml has a limit of its own, and looks ahead
    if "invalid Unicode character escape" in reason:
        return YamlProblem(_NOT_UNICODE, place)
    if _TEMPLATE.search(text):
        return YamlProblem(_UNRENDERED, place)
    is_no_token = "cannot start any token" in reason
    if is_no_token and text.split("\n")[place.line - 1].startswith("\t", place.column - 1):
        return YamlProblem("a tab: YAML is indented with spaces", place)
    return YamlProblem(f"{context}: {reason}" if context else reason, place)
