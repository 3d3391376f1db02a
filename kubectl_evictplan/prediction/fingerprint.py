"""What ties a report to the prediction, and to the plan, that it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.eviction_json import EvictionTexts
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.prediction.records import plain

_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=plain)
_ROWS_AT_ONCE = 500


def fingerprint(prediction: Prediction) -> str:
    """Return "sha256:<hex>" over the prediction's canonical JSON: keys in order, no blanks, UTF-8.

    ``impact`` counts as null: it follows from the rest, and a plan is made without it. ``fingerprint`` counts as "". Where
    a lone surrogate has no UTF-8, Python's spelling of the document counts.
    """
    bare = msgspec.structs.replace(prediction, impact=None, fingerprint="")
    digest = hashlib.sha256()
    try:
        for part in _canonical(bare):
            digest.update(part)
    except UnicodeEncodeError:
        content = repr(msgspec.to_builtins(bare, enc_hook=plain)).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(content)
    return f"sha256:{digest.hexdigest()}"


def _canonical(prediction: Prediction) -> Iterator[bytes]:
    """What ``_encoder`` makes of the document, some rows at a time: whole it would be 90 MB of a large cluster."""
    before = b"{"
    for field in msgspec.structs.fields(prediction):
        yield before + _encoder.encode(field.encode_name) + b":"
        before, value = b",", getattr(prediction, field.name)
        if isinstance(value, Evictions) and value.grouped:
            yield from _grouped(value)
        elif isinstance(value, tuple | Evictions):
            yield from _list(tuple(value))
        else:
            yield _encoder.encode(value)
    yield b"}"


def _grouped(evictions: Evictions) -> Iterator[bytes]:
    yield b"["
    yield from EvictionTexts(_encoder.encode).chunks(evictions)
    yield b"]"


def _list(rows: tuple[object, ...]) -> Iterator[bytes]:
    # Where memory ends while it makes bytes of its own longer the encoder crashes.
    before, text = b"[", bytearray()
    for at in range(0, len(rows), _ROWS_AT_ONCE):
        _encoder.encode_into(rows[at : at + _ROWS_AT_ONCE], text)
        yield before + text[1:-1]
        before = b","
    yield b"]" if rows else b"[]"


def sealed(prediction: Prediction) -> Prediction:
    """Return the prediction with its fingerprint; one that has it stays as it is.

    So whatever is made of a sealed prediction (its impact, the rows of one pod) names the whole one.
    """
    if prediction.fingerprint:
        return prediction
    return msgspec.structs.replace(prediction, fingerprint=fingerprint(prediction))
