"""The Prediction document as ordered parts, the same for every data format.

Top-level keys follow the public contract, section 3: ``apiVersion`` and ``kind`` first. A lone
surrogate cannot be written as UTF-8; it becomes U+FFFD, as Go's decoder would read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kubectl_evictplan.prediction.document import Prediction

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_LISTS = ("evictions", "kept", "cancelled", "nodes", "zones", "warnings")


def document_parts(prediction: Prediction) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of the document; lists come as tuples of structs, to be streamed."""
    yield "apiVersion", prediction.api_version
    yield "kind", prediction.kind
    yield "inputs", prediction.inputs
    for name in _LISTS:
        yield name, getattr(prediction, name)


def to_plain(value: Any) -> Any:
    """Return ``value`` as dicts, lists and scalars, keys in order, lone surrogates replaced."""
    return without_surrogates(msgspec.to_builtins(value, order="deterministic"))


def without_surrogates(value: Any) -> Any:
    """Return the plain ``value`` with every lone surrogate, in keys too, replaced."""
    if isinstance(value, str):
        return value if value.isascii() else _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_surrogates(item) for item in value]
    return value
