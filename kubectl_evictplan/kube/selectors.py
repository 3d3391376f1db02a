"""Label selectors as kubectl reads them: ``env=prod,tier in (a,b),!canary,size>5``.

Rules: lexer and parser follow apimachinery's ``labels.Parse`` token by token, oddities included
(``a in ()`` holds the empty value, ``a=`` means the empty value, ``in`` is a valid key), so that
a selector is accepted here exactly when kubectl accepts it. The empty selector selects everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from kubectl_evictplan.kube.validation import (
    LABEL_RULE,
    parse_int64,
    validate_label_value,
    validate_qualified_name,
)

_BINARY_OPERATORS = {
    "=": "In",
    "==": "In",
    "in": "In",
    "!=": "NotIn",
    "notin": "NotIn",
    ">": "Gt",
    "<": "Lt",
}
_END = ""
_SYMBOLS = frozenset((_END, "==", "!=", *"=!(),><"))
_TOKEN = re.compile(r"==|!=|[=!(),><]|[^=!(),>< \t\r\n]+")


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one label; ``values`` is sorted and without repetition."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels meet the condition (``Requirement.Matches``)."""
        if self.operator not in ("Gt", "Lt"):
            return meets(labels, self.key, self.operator, self.values)
        number, limit = parse_int64(labels.get(self.key, "")), parse_int64(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if self.operator == "Gt" else number < limit


class LabelSelector(msgspec.Struct, frozen=True):
    """A parsed selector: all requirements must hold; none at all selects everything."""

    text: str
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


# Keys of labels that controllers give to their pods beside those of the template.
SET_BY_CONTROLLERS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-name",
        "controller-revision-hash",
        "controller-uid",
        "job-name",
        "pod-template-generation",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
    }
)


def parse_label_selector(text: str) -> LabelSelector:
    """Return the selector; ValueError says what was found, what was expected and the column."""
    return LabelSelector(text, _Parser(text).parse())


class _Parser:
    """One pass over the tokens, with one token of lookahead; mirrors ``labels.Parser``."""

    def __init__(self, text: str) -> None:
        # A NUL byte ends the text for upstream's lexer.
        text = text.split("\0", 1)[0]
        self._tokens = [(match[0], match.start() + 1) for match in _TOKEN.finditer(text)]
        self._tokens.append((_END, len(text) + 1))
        self._next = 0
        # The token looked at last, which is the one that an error is about.
        self._seen = self._tokens[0]

    def parse(self) -> tuple[Requirement, ...]:
        requirements: list[Requirement] = []
        expected = "!, identifier, or 'end of string'"
        while self._peek() != _END or requirements:
            if self._peek() in _SYMBOLS - {"!"}:
                raise self._error(expected)
            requirements.append(self._requirement())
            if self._peek() == _END:
                break
            if self._take() != ",":
                raise self._error("',' or 'end of string'")
            expected = "identifier after ','"
        return tuple(requirements)

    def _requirement(self) -> Requirement:
        is_absent = self._peek() == "!"
        if is_absent:
            self._take()
        key = self._identifier()
        if validate_qualified_name(key):
            raise _invalid("key", key)
        if is_absent:
            return Requirement(key, "DoesNotExist")
        if self._peek() in (_END, ","):
            return Requirement(key, "Exists")
        word = self._take()
        if word not in _BINARY_OPERATORS:
            raise self._error("in, notin, =, ==, !=, gt, lt")
        values = self._value_set() if word in ("in", "notin") else {self._exact_value()}
        operator = _BINARY_OPERATORS[word]
        if operator in ("Gt", "Lt") and parse_int64(min(values)) is None:
            message = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise ValueError(f"column {self._seen[1]}: {message}")
        for value in sorted(values):
            if validate_label_value(value):
                raise _invalid("value", value)
        return Requirement(key, operator, tuple(sorted(values)))

    def _exact_value(self) -> str:
        return "" if self._peek() in (_END, ",") else self._identifier()

    def _value_set(self) -> set[str]:
        """Return the words of ``(a,b)``; a missing word is the empty value, as upstream."""
        if self._take() != "(":
            raise self._error("'('")
        if self._peek() == ")":
            self._take()
            return {""}
        if self._peek() in _SYMBOLS - {","}:
            raise self._error("',', ')' or identifier")
        values: set[str] = set()
        while True:
            word = self._take()
            if word not in _SYMBOLS:
                values.add(word)
                if self._peek() not in (",", ")"):
                    raise self._error("',' or ')'")
            elif word == ",":
                if not values or self._peek() in (",", ")"):
                    values.add("")
                if self._peek() == ",":
                    self._take()
                    continue
            else:
                raise self._error("',', or identifier")
            if self._peek() == ")":
                self._take()
                return values

    def _identifier(self) -> str:
        # Where a key or a value stands, the words "in" and "notin" are ordinary words.
        if (word := self._take()) in _SYMBOLS:
            raise self._error("identifier")
        return word

    def _peek(self) -> str:
        self._seen = self._tokens[self._next]
        return self._seen[0]

    def _take(self) -> str:
        word = self._peek()
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return word

    def _error(self, expected: str) -> ValueError:
        found, column = self._seen
        return ValueError(f"column {column}: found '{found}', expected: {expected}")


def _invalid(part: str, literal: str) -> ValueError:
    return ValueError(f"invalid label {part} '{literal}': it must be {LABEL_RULE}")


def meets(labels: Mapping[str, str], key: str, operator: str, values: tuple[str, ...]) -> bool:
    """Whether labels meet one of an object's matchExpressions; an unknown operator selects nothing."""
    match operator:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
