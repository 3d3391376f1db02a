"""The Prediction document as ordered parts, the same for every data format.

Top-level keys are those of ``Prediction``, ``apiVersion`` and ``kind`` first. A lone
surrogate cannot be written as UTF-8; it becomes U+FFFD, as Go's decoder would read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from kubectl_evictplan.prediction.document import Cancelled, Eviction, Kept, Prediction

_PodRow = TypeVar("_PodRow", Eviction, Kept, Cancelled)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def document_parts(prediction: Prediction) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of the document; lists come as tuples of structs, to be streamed."""
    yield "apiVersion", prediction.api_version
    yield "kind", prediction.kind
    for field in msgspec.structs.fields(prediction):
        if field.name not in ("api_version", "kind"):
            yield field.encode_name, getattr(prediction, field.name)


def only_pod(prediction: Prediction, pod: str) -> Prediction:
    """Return ``prediction`` with the entries of one pod ("namespace/name"); the rest stays as it is."""

    def only(entries: tuple[_PodRow, ...]) -> tuple[_PodRow, ...]:
        return tuple(entry for entry in entries if f"{entry.namespace}/{entry.pod}" == pod)

    return msgspec.structs.replace(
        prediction,
        evictions=only(prediction.evictions),
        kept=only(prediction.kept),
        cancelled=only(prediction.cancelled),
    )


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
