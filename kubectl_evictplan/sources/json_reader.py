"""JSON as plain values with every syntax problem named, for what people write.

Used for small files and for objects that never came from an API server; a big dump does not pay
for it. Finds duplicate keys, NaN and Infinity, numbers that overflow, nesting deeper than 200,
surrogates that are no characters. What the fast decoder refuses in a big dump is explained here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from kubectl_evictplan.sources.decoder_messages import syntax_stop
from kubectl_evictplan.sources.json_syntax import (
    DEPTH_MAX,
    JsonSyntaxError,
    SyntaxProblem,
    may_be_deep,
)

# Longer integers fit no field; int() on hostile ones takes quadratic time.
_DIGITS_KEPT = 60

# Compiled where they are needed: most files are read without.
_LEXEMES = r'(?s)"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+'
_FRACTION = r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_SURROGATE = rb"\\u[dD][89a-fA-F]"
# What may stand behind the digits that Python's decoder has taken already.
_CUT_NUMBERS = ("-", ".", "e", "E", "e+", "e-", "E+", "E-")


def read_json(data: bytes) -> Any:
    """Return the plain value of UTF-8 JSON; raises JsonSyntaxError with all problems."""
    text = data.decode()
    try:
        tree, is_odd = _decode(text)
    except json.JSONDecodeError as error:
        offset = len(text) if _is_cut(text, error) else error.pos
        is_extra = error.msg == "Extra data"
        problem = _problem_at(text, offset, _place(text, offset), is_extra=is_extra)
        raise JsonSyntaxError([problem], is_json=False) from None
    except RecursionError:
        tree, is_odd = None, True
    if is_odd or may_be_deep(data) or (re.search(_SURROGATE, data) and not _is_unicode(tree)):
        problems = list(_find_problems(text))
        if problems:
            raise JsonSyntaxError(problems)
    return tree


def _decode(text: str) -> tuple[Any, bool]:
    """Return the value, and whether a key stands twice or a number is none."""
    odd: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            odd.append("a key twice")
        return result

    def number(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            odd.append(digits)
        return value

    tree = json.loads(
        text,
        object_pairs_hook=pairs,
        parse_float=number,
        parse_int=lambda digits: int(digits[:_DIGITS_KEPT]) * 10 ** (len(digits) > _DIGITS_KEPT),
        parse_constant=odd.append,
    )
    return tree, bool(odd)


def _find_problems(text: str) -> Iterator[SyntaxProblem]:
    """Find what Python's decoder accepts and we do not, each with its place."""
    # The keys of each open object, with their offsets; None for a list.
    stack: list[dict[str, int] | None] = []
    expect_key = False
    for match in re.finditer(_LEXEMES, text):
        lexeme, offset = match.group(), match.start()
        if lexeme in "{[":
            stack.append({} if lexeme == "{" else None)
            expect_key = lexeme == "{"
            if len(stack) > DEPTH_MAX:
                yield SyntaxProblem(f"nested deeper than {DEPTH_MAX}", _place(text, offset))
                return
        elif lexeme in "}]":
            stack.pop()
            expect_key = False
        elif lexeme == ",":
            expect_key = stack[-1] is not None
        elif lexeme[0] == '"':
            if "\\u" in lexeme and not _is_unicode(json.loads(lexeme)):
                message = "a string is not valid Unicode (lone surrogate)"
                yield SyntaxProblem(message, _place(text, offset))
            keys = stack[-1] if expect_key else None
            if keys is not None and (first := keys.setdefault(json.loads(lexeme), offset)) < offset:
                line = _place(text, first).partition(":")[0]
                message = f"duplicate key {lexeme[:62]}, first on line {line}"
                yield SyntaxProblem(message, _place(text, offset))
            expect_key = False
        elif lexeme in ("NaN", "Infinity", "-Infinity"):
            yield SyntaxProblem(f"{lexeme} is not JSON", _place(text, offset), lexeme)
        elif re.fullmatch(_FRACTION, lexeme) and math.isinf(float(lexeme)):
            yield SyntaxProblem("number out of range", _place(text, offset), lexeme[:40])


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Tell whether more text could have made it right: in a string, a word or a number."""
    rest = text[error.pos :].rstrip()
    if not rest or error.msg.startswith("Unterminated string"):
        return True
    if error.msg.startswith("Invalid") and "escape" in error.msg:
        return '"' not in rest and len(rest) < 6
    return any(word.startswith(rest) for word in ("true", "false", "null")) or rest in _CUT_NUMBERS


def _problem_at(text: str, offset: int, place: str, *, is_extra: bool) -> SyntaxProblem:
    """Return a person's reason for a syntax error at a character, which stands at ``place``."""
    here = text[offset : offset + 2]
    if not text[offset:].strip():
        reason = "unexpected end of the file (was it cut?)"
    elif is_extra:
        reason = "more than one JSON value in the file"
    elif here[0] in "}]" and text[:offset].rstrip()[-1:] == ",":
        reason = "trailing comma: JSON has none (YAML accepts it in a .yaml file)"
    elif here[0] == "'":
        reason = (
            "single quotes: JSON strings need double quotes (YAML accepts them in a .yaml file)"
        )
    elif here in ("//", "/*") or here[0] == "#":
        reason = "comments are not JSON (YAML accepts # in a .yaml file)"
    elif here[0] < " ":
        reason = "control character inside a string"
    else:
        reason = f"unexpected {here[0]!r}"
    return SyntaxProblem(reason, place)


def explain(data: bytes, decoder_message: str) -> list[SyntaxProblem]:
    """Return why the fast decoder refused a big text, mostly without parsing it a second time."""
    stop = syntax_stop(decoder_message)
    # The decoder calls a lone surrogate a truncation; the slow parser knows better.
    if (not stop.is_cut_off and stop.byte is None) or (
        stop.is_cut_off and re.search(_SURROGATE, data)
    ):
        try:
            read_json(data)
        except JsonSyntaxError as error:
            return error.problems
        return [SyntaxProblem("not valid JSON", "")]
    is_extra = stop.is_extra
    offset = len(data) if stop.is_cut_off or stop.byte is None else stop.byte - is_extra
    line_start = data.rfind(b"\n", 0, offset) + 1
    column = len(data[line_start:offset].decode(errors="replace")) + 1
    place = f"{data.count(10, 0, offset) + 1}:{column}"
    # Only what is near: the text may be a gigabyte.
    before = data[max(0, offset - 4096) : offset].decode(errors="replace")
    after = data[offset : offset + 4096].decode(errors="replace")
    return [_problem_at(before + after, len(before), place, is_extra=is_extra)]


def _place(text: str, offset: int) -> str:
    """Return the 1-based ``LINE:COL`` of a character."""
    line_start = text.rfind("\n", 0, offset) + 1
    return f"{text.count(chr(10), 0, offset) + 1}:{offset - line_start + 1}"


def _is_unicode(tree: Any) -> bool:
    try:
        json.dumps(tree, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
