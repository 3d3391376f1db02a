"""Label selectors as kubectl reads them: ``env=prod,tier in (a,b),!canary,size>5``.

Rules: lexer and parser follow apimachinery's ``labels.Parse`` token by token, oddities included
(``a in ()`` holds the empty value, ``a=`` means the empty value, ``in`` is a valid key), so that
a selector is accepted here exactly when kubectl accepts it. The empty selector selects everything.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubectl_evictplan.kube.validation import (
    LABEL_RULE,
    validate_label_value,
    validate_qualified_name,
)

EXISTS = "exists"
DOES_NOT_EXIST = "!"
IN = "in"
NOT_IN = "notin"
GREATER_THAN = "gt"
LESS_THAN = "lt"

_SPECIAL = "=!(),><"
_WHITESPACE = " \t\r\n"
_TOKENS = frozenset((")", ",", "!", "==", "=", ">", "in", "<", "!=", "notin", "("))
_OPERATOR_WORDS = ("in", "notin")
_BINARY_OPERATORS = {
    "=": IN,
    "==": IN,
    "in": IN,
    "!=": NOT_IN,
    "notin": NOT_IN,
    ">": GREATER_THAN,
    "<": LESS_THAN,
}
_END = ""
_IDENTIFIER = "identifier"
_INT64_MAX = 2**63 - 1


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one label; ``values`` is sorted and without repetition."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels meet the condition (``Requirement.Matches``)."""
        value = labels.get(self.key)
        if self.operator == IN:
            return value is not None and value in self.values
        if self.operator == NOT_IN:
            return value is None or value not in self.values
        if self.operator == EXISTS:
            return value is not None
        if self.operator == DOES_NOT_EXIST:
            return value is None
        number = None if value is None else _parse_int64(value)
        limit = _parse_int64(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if self.operator == GREATER_THAN else number < limit


class LabelSelector(msgspec.Struct, frozen=True):
    """A parsed selector: all requirements must hold; none at all selects everything."""

    text: str
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_label_selector(text: str) -> LabelSelector:
    """Return the selector; ValueError says what was found, what was expected and the column."""
    return LabelSelector(text, _Parser(text).parse())


class _Parser:
    """One pass over the tokens, with one token of lookahead; mirrors ``labels.Parser``."""

    def __init__(self, text: str) -> None:
        self._tokens = _scan(text)
        self._next = 0

    def parse(self) -> tuple[Requirement, ...]:
        requirements: list[Requirement] = []
        while True:
            kind, literal = self._peek()
            if kind == _END:
                return tuple(requirements)
            if kind not in (_IDENTIFIER, "!"):
                raise self._error(literal, "!, identifier, or 'end of string'")
            requirements.append(self._requirement())
            kind, literal = self._take()
            if kind == _END:
                return tuple(requirements)
            if kind != ",":
                raise self._error(literal, "',' or 'end of string'", taken=True)
            kind, literal = self._peek()
            if kind not in (_IDENTIFIER, "!"):
                raise self._error(literal, "identifier after ','")

    def _requirement(self) -> Requirement:
        kind, literal = self._take()
        absent = kind == "!"
        if absent:
            kind, literal = self._take()
        if kind != _IDENTIFIER:
            raise self._error(literal, "identifier", taken=True)
        if validate_qualified_name(literal):
            raise self._invalid("key", literal)
        if absent:
            return Requirement(literal, DOES_NOT_EXIST)
        if self._peek()[0] in (_END, ","):
            return Requirement(literal, EXISTS)
        return self._binary_requirement(literal)

    def _binary_requirement(self, key: str) -> Requirement:
        kind, word = self._take(operators=True)
        if kind not in _BINARY_OPERATORS:
            raise self._error(word, "in, notin, =, ==, !=, gt, lt", taken=True)
        operator = _BINARY_OPERATORS[kind]
        values = self._value_set() if kind in _OPERATOR_WORDS else {self._exact_value()}
        if operator in (GREATER_THAN, LESS_THAN) and _parse_int64(min(values)) is None:
            raise ValueError(
                f"column {self._column()}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        for value in sorted(values):
            if validate_label_value(value):
                raise self._invalid("value", value)
        return Requirement(key, operator, tuple(sorted(values)))

    def _exact_value(self) -> str:
        if self._peek()[0] in (_END, ","):
            return ""
        kind, literal = self._take()
        if kind != _IDENTIFIER:
            raise self._error(literal, "identifier", taken=True)
        return literal

    def _value_set(self) -> set[str]:
        kind, literal = self._take()
        if kind != "(":
            raise self._error(literal, "'('", taken=True)
        kind, literal = self._peek()
        if kind == ")":
            self._take()
            return {""}
        if kind not in (_IDENTIFIER, ","):
            raise self._error(literal, "',', ')' or identifier")
        values = self._identifiers()
        kind, literal = self._take()
        if kind != ")":
            raise self._error(literal, "')'", taken=True)
        return values

    def _identifiers(self) -> set[str]:
        """Return the words of ``(a,b)``; a missing word is the empty value, as upstream."""
        values: set[str] = set()
        while True:
            kind, literal = self._take()
            if kind == _IDENTIFIER:
                values.add(literal)
                following, found = self._peek()
                if following == ")":
                    return values
                if following != ",":
                    raise self._error(found, "',' or ')'")
            elif kind == ",":
                if not values:
                    values.add("")
                following, _ = self._peek()
                if following == ")":
                    values.add("")
                    return values
                if following == ",":
                    self._take()
                    values.add("")
            else:
                raise self._error(literal, "',', or identifier", taken=True)

    def _peek(self) -> tuple[str, str]:
        kind, literal, _ = self._tokens[self._next]
        # Where a key or a value stands, the words "in" and "notin" are ordinary words.
        return (_IDENTIFIER, literal) if kind in _OPERATOR_WORDS else (kind, literal)

    def _take(self, *, operators: bool = False) -> tuple[str, str]:
        kind, literal = self._tokens[self._next][:2] if operators else self._peek()
        if self._next < len(self._tokens) - 1:
            self._next += 1
        return kind, literal

    def _column(self, *, taken: bool = False) -> int:
        at_end = self._tokens[self._next][0] == _END
        return self._tokens[self._next - (1 if taken and not at_end else 0)][2]

    def _error(self, found: str, expected: str, *, taken: bool = False) -> ValueError:
        column = self._column(taken=taken)
        return ValueError(f"column {column}: found '{found}', expected: {expected}")

    def _invalid(self, part: str, literal: str) -> ValueError:
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


def _scan(text: str) -> list[tuple[str, str, int]]:
    """Return (kind, literal, 1-based column) of every token, ended by one ``_END`` token."""
    tokens = []
    position = 0
    # A NUL byte ends the text for upstream's lexer.
    text = text.split("\0", 1)[0]
    while position < len(text):
        if text[position] in _WHITESPACE:
            position += 1
            continue
        start = position
        if text[position] in _SPECIAL:
            position += 2 if text[position : position + 2] in _TOKENS else 1
            literal = text[start:position]
            tokens.append((literal, literal, start + 1))
            continue
        while position < len(text) and text[position] not in _SPECIAL + _WHITESPACE:
            position += 1
        literal = text[start:position]
        kind = literal if literal in _OPERATOR_WORDS else _IDENTIFIER
        tokens.append((kind, literal, start + 1))
    tokens.append((_END, "", len(text) + 1))
    return tokens


def _parse_int64(text: str) -> int | None:
    """Return Go's ``ParseInt(text, 10, 64)``, or None."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 100:
        return None
    number = int(text)
    return number if -_INT64_MAX - 1 <= number <= _INT64_MAX else None
