"""What ties a report to the prediction, and to the plan, that it was made from."""

from __future__ import annotations

import hashlib

import msgspec

from kubectl_evictplan.prediction.document import Prediction

_encoder = msgspec.json.Encoder(order="deterministic")


def fingerprint(prediction: Prediction) -> str:
    """Return "sha256:<hex>" over the prediction's canonical JSON: keys in order, no blanks, UTF-8.

    ``impact`` counts as null: it follows from the rest, and a plan is made without it. ``fingerprint`` counts as "". Where
    a lone surrogate has no UTF-8, Python's spelling of the document counts.
    """
    bare = msgspec.structs.replace(prediction, impact=None, fingerprint="")
    try:
        content = _encoder.encode(bare)
    except UnicodeEncodeError:
        content = repr(msgspec.to_builtins(bare)).encode("utf-8", "surrogatepass")
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def sealed(prediction: Prediction) -> Prediction:
    """Return the prediction with its fingerprint; one that has it stays as it is.

    So whatever is made of a sealed prediction (its impact, the rows of one pod) names the whole one.
    """
    if prediction.fingerprint:
        return prediction
    return msgspec.structs.replace(prediction, fingerprint=fingerprint(prediction))
