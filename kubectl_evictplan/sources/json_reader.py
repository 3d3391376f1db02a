"""Careful JSON: plain values with every syntax problem named, for input that people write.

Used for small files and for objects that never came from an API server; a big dump does not pay
for it. Finds duplicate keys, NaN and Infinity, numbers that overflow, nesting deeper than 200,
surrogates that are no characters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

DEPTH_MAX = 200
# Longer integers fit no field; int() on hostile ones takes quadratic time.
_DIGITS_KEPT = 60

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_FRACTION = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)
_MALFORMED = re.compile(r"\(byte (\d+)\)")


class SyntaxProblem(NamedTuple):
    """What is wrong, and at which character (0-based; -1 when unknown)."""

    message: str
    offset: int
    got: str = ""


class JsonSyntaxError(ValueError):
    """The text is not one acceptable JSON value; carries every problem found."""

    def __init__(self, problems: list[SyntaxProblem]) -> None:
        super().__init__(problems[0].message)
        self.problems = problems


class _DuplicateKeys(Exception):
    pass


def read_json(data: bytes) -> Any:
    """Return the plain value of UTF-8 JSON; raises JsonSyntaxError with all problems."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise JsonSyntaxError([SyntaxProblem("not UTF-8", error.start)]) from None
    problems: list[SyntaxProblem] = []
    try:
        tree = _decode(text, problems)
    except json.JSONDecodeError as error:
        raise JsonSyntaxError([_translated(text, error)]) from None
    except RecursionError:
        raise JsonSyntaxError([_too_deep(text)]) from None
    if "\\u" in text and not _is_unicode(tree):
        problems.extend(_broken_strings(text))
    if depth_exceeds(tree, DEPTH_MAX):
        problems.append(_too_deep(text))
    if problems:
        raise JsonSyntaxError(problems)
    return tree


def _decode(text: str, problems: list[SyntaxProblem]) -> Any:
    duplicates = odd_numbers = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal duplicates
        result = dict(items)
        duplicates = duplicates or len(result) != len(items)
        return result

    def number(digits: str) -> float:
        nonlocal odd_numbers
        value = float(digits)
        odd_numbers = odd_numbers or math.isinf(value)
        return value

    def constant(_name: str) -> float:
        nonlocal odd_numbers
        odd_numbers = True
        return 0.0

    tree = json.loads(
        text,
        object_pairs_hook=pairs,
        parse_float=number,
        parse_int=lambda digits: int(digits[:_DIGITS_KEPT]) * 10 ** (len(digits) > _DIGITS_KEPT),
        parse_constant=constant,
    )
    if odd_numbers:
        problems.extend(_odd_numbers(text))
    if duplicates:
        problems.extend(_duplicate_keys(text))
    return tree


def _odd_numbers(text: str) -> Iterator[SyntaxProblem]:
    """Find what Python's decoder takes for a number and JSON does not; the rest is valid."""
    for match in _TOKEN.finditer(text):
        lexeme = match.group()
        if lexeme in ("NaN", "Infinity", "-Infinity"):
            yield SyntaxProblem(f"{lexeme} is not JSON", match.start(), lexeme)
        elif _FRACTION.fullmatch(lexeme) and math.isinf(float(lexeme)):
            yield SyntaxProblem("number out of range", match.start(), lexeme[:40])


def _broken_strings(text: str) -> Iterator[SyntaxProblem]:
    """Find strings that hold half of a surrogate pair; the text is valid JSON."""
    for match in _TOKEN.finditer(text):
        lexeme = match.group()
        if "\\u" in lexeme and not _is_unicode(json.loads(lexeme)):
            message = "a string is not valid Unicode (lone surrogate)"
            yield SyntaxProblem(message, match.start())


def _too_deep(text: str) -> SyntaxProblem:
    depth, offset = 0, -1
    for match in _TOKEN.finditer(text):
        depth += (match.group() in "{[") - (match.group() in "}]")
        if depth > DEPTH_MAX:
            offset = match.start()
            break
    return SyntaxProblem(f"nested deeper than {DEPTH_MAX}", offset)


def _duplicate_keys(text: str) -> list[SyntaxProblem]:
    """Find keys that stand twice in one object, with both lines; the text is valid JSON."""
    found: list[SyntaxProblem] = []
    stack: list[dict[str, int] | None] = []
    expect_key = False
    for match in _TOKEN.finditer(text):
        lexeme = match.group()
        if lexeme in "{[":
            stack.append({} if lexeme == "{" else None)
            expect_key = lexeme == "{"
        elif lexeme in "}]":
            stack.pop()
            expect_key = False
        elif lexeme == ",":
            expect_key = bool(stack) and stack[-1] is not None
        elif expect_key and lexeme[0] == '"':
            keys = stack[-1]
            assert keys is not None
            key = json.loads(lexeme)
            if key in keys:
                first = line_and_column(text, keys[key])[0]
                message = f'duplicate key "{key[:60]}", first on line {first}'
                found.append(SyntaxProblem(message, match.start()))
            keys.setdefault(key, match.start())
            expect_key = False
    return found


def _translated(text: str, error: json.JSONDecodeError) -> SyntaxProblem:
    if not text[error.pos :].strip():
        return SyntaxProblem("unexpected end of the file", error.pos)
    if error.msg == "Extra data":
        return SyntaxProblem("more than one JSON value in the file", error.pos)
    return SyntaxProblem(syntax_reason(text, error.pos), error.pos)


def syntax_reason(text: str, offset: int) -> str:
    """Return a person's reason for a syntax error at a character."""
    here = text[offset : offset + 2]
    before = text[:offset].rstrip()[-1:]
    if here[:1] in ("}", "]") and before == ",":
        return "trailing comma: JSON has none (YAML accepts it in a .yaml file)"
    if here[:1] == "'":
        return "single quotes: JSON strings need double quotes (YAML accepts them in a .yaml file)"
    if here in ("//", "/*") or here[:1] == "#":
        return "comments are not JSON (YAML accepts # in a .yaml file)"
    if here[:1] < " ":
        return "control character inside a string"
    return f"unexpected {here[:1]!r}"


def decoder_offset(message: str, data: bytes) -> int | None:
    """Return the byte offset that the fast decoder's message names; None without one."""
    if "truncated" in message:
        return len(data)
    match = _MALFORMED.search(message)
    if match is None:
        return None
    return int(match.group(1)) - ("trailing characters" in message)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the 1-based line and column of a character."""
    line_start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, offset - line_start + 1


def depth_exceeds(tree: Any, limit: int) -> bool:
    """Tell whether containers nest deeper than ``limit``; never recurses."""
    level = [tree]
    for _ in range(limit + 1):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return any(isinstance(item, (dict, list)) for item in level) or bool(level)


def _is_unicode(tree: Any) -> bool:
    try:
        json.dumps(tree, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
