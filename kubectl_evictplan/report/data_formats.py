"""Documents of ours as data: ``-o yaml`` and, of a Prediction, ``-o name``, and what both have in common with ``-o json``.

Written item by item, so that a large prediction never exists twice in memory. Top-level keys are those of
``Prediction``, ``apiVersion``, ``kind`` and ``fingerprint`` first. A lone surrogate cannot be written as UTF-8; it becomes
U+FFFD, as Go's decoder would read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from kubectl_evictplan.display import visible
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.records import Rows, plain

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def only_pod(prediction: Prediction, pod: str) -> Prediction:
    """Return ``prediction`` with the entries of one pod ("namespace/name"); the rest stays as it is."""
    rows = {name: getattr(prediction, name) for name in ("kept", "cancelled")}
    only = {name: tuple(row for row in rows[name] if row.key == pod) for name in rows}
    drains = tuple(
        msgspec.structs.replace(
            drain,
            **{
                name: tuple(one for one in getattr(drain, name) if one.pod == pod)
                for name in ("refused", "waiting", "failed")
            },
        )
        for drain in prediction.drains
    )
    evictions = prediction.evictions.of_pod(pod)
    return msgspec.structs.replace(prediction, **only, evictions=evictions, drains=drains)


def parts(document: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of the document; lists come as tuples of structs, to be streamed."""
    fields = {field.name: field.encode_name for field in msgspec.structs.fields(document)}
    first = (name for name in ("api_version", "kind", "fingerprint") if name in fields)
    for name in dict.fromkeys((*first, *fields)):
        yield fields[name], getattr(document, name)


def plain_values(value: Any) -> Any:
    """Return ``value`` as dicts, lists and scalars, keys in order, lone surrogates replaced."""
    return _without_surrogates(msgspec.to_builtins(value, order="deterministic", enc_hook=plain))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


# -- yaml ---------------------------------------------------------------------------------------------
# Own emitter: PyYAML's and ruamel's need minutes for a large prediction, and both leave strings plain that
# the other version of YAML reads as something else (``no``, ``1:30``, ``0o7``, ``1e3``).

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*(?: [A-Za-z0-9._/][A-Za-z0-9._/-]*)*")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_NEEDS_ESCAPE = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
# Readers refuse an implicit key of more than 1024 characters.
_IMPLICIT_KEY_MAX = 1000


def render_yaml(document: msgspec.Struct) -> Iterator[str]:
    """Yield the document in chunks of whole lines, in block style; every YAML reader reads it alike.

    A string is plain only if it starts with a letter, has nothing but letters, digits and ``. / _ -``
    (single spaces inside), and is none of the words of YAML 1.1; every other string is a double-quoted
    JSON string in ASCII. Lists stand at their key's indent, as kubectl prints them.
    """
    for key, value in parts(document):
        if isinstance(value, tuple | Rows) and value:
            yield f"{key}:\n"
            for item in value:
                yield _lines(_block([plain_values(item)], ""))
        else:
            yield _lines(_block({key: plain_values(value)}, ""))


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
    return f'"{_NEEDS_ESCAPE.sub(_escaped_in_yaml, text)}"'


def _escaped_in_yaml(match: re.Match[str]) -> str:
    character = match.group()
    return "\\" + character if character in '"\\' else visible(character)


# -- names --------------------------------------------------------------------------------------------

# Blanks, quotes and backslashes would make xargs see another word than the one printed.
_NOT_IN_A_WORD = re.compile(r"[^A-Za-z0-9._:-]")


def render_names(prediction: Prediction) -> Iterator[str]:
    """Yield ``pod/NAME`` per pod that some timing evicts, as ``kubectl get -o name`` prints it.

    One line per pod, certain and possible alike, in the order of first eviction. As with kubectl the
    namespace is not part of the line, so that the lines can be handed to ``xargs kubectl -n NAMESPACE``;
    whoever predicts for several namespaces at once wants ``-o json``. What cannot be in a Kubernetes name
    is escaped: a line is always one word.
    """
    names_in_order = (names for names, _ in prediction.evictions.in_order)
    for _, pod in dict.fromkeys((names.namespace, names.pod) for names in names_in_order):
        yield f"pod/{_NOT_IN_A_WORD.sub(lambda match: visible(match.group()), pod)}\n"
