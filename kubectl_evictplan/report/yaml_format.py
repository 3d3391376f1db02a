"""``-o yaml``: the same document as JSON, in block style, read alike by every YAML reader.

Own emitter: PyYAML's and ruamel's need minutes for a large prediction, and both leave strings
plain that the other version of YAML reads as something else (``no``, ``1:30``, ``0o7``, ``1e3``).
A string is plain only if it starts with a letter, has nothing but letters, digits and ``. / _ -``
(single spaces inside), and is none of the words of YAML 1.1; every other string is a double-quoted
JSON string in ASCII. Lists stand at their key's indent, as kubectl prints them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.report.document import document_parts, to_plain

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*(?: [A-Za-z0-9._/][A-Za-z0-9._/-]*)*")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_NEEDS_ESCAPE = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
# Readers refuse an implicit key of more than 1024 characters.
_IMPLICIT_KEY_MAX = 1000


def render_yaml(prediction: Prediction) -> Iterator[str]:
    """Yield the document in chunks of whole lines; always ASCII."""
    for key, value in document_parts(prediction):
        if isinstance(value, tuple) and value:
            yield f"{key}:\n"
            for item in value:
                yield _lines(_block([to_plain(item)], ""))
        else:
            yield _lines(_block({key: to_plain(value)}, ""))


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _block(value: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a non-empty mapping or sequence."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _entry(f"{indent}{_key(key, indent)}:", item, indent)
        return
    for item in value:
        if not isinstance(item, dict | list) or not item:
            yield f"{indent}- {_scalar(item)}"
            continue
        # The first line of the item's own block shares the line of its dash.
        dash = f"{indent}- "
        for line in _block(item, indent + "  "):
            yield dash + line[len(indent) + 2 :] if dash else line
            dash = ""


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    if not isinstance(item, dict | list) or not item:
        yield f"{head} {_scalar(item)}"
    else:
        yield head
        yield from _block(item, indent + "  " if isinstance(item, dict) else indent)


def _key(key: str, indent: str) -> str:
    text = _string(key)
    return text if len(text) <= _IMPLICIT_KEY_MAX else f"? {text}\n{indent}"


def _scalar(value: Any) -> str:
    """Return a scalar or an empty collection; JSON's spelling of all but strings is YAML's."""
    if isinstance(value, str):
        return _string(value)
    text = msgspec.json.encode(value).decode()
    mantissa, exponent_mark, exponent = text.partition("e")
    if not isinstance(value, float) or not exponent_mark:
        return text
    # YAML 1.1 takes it for a number only with a point and a sign.
    point = "" if "." in mantissa else ".0"
    sign = "" if exponent.startswith("-") else "+"
    return f"{mantissa}{point}e{sign}{exponent.removeprefix('+')}"


@lru_cache(maxsize=10_000)  # most of them repeat
def _string(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS and len(text) <= _IMPLICIT_KEY_MAX:
        return text
    return f'"{_NEEDS_ESCAPE.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    if character in '"\\':
        return "\\" + character
    point = ord(character)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
