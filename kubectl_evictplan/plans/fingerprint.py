"""The plan as text, and the fingerprint that binds a review to exactly one plan.

Two texts of one plan differ in nothing: keys stand in the order of the types, one fact to a line.
"""

from __future__ import annotations

import hashlib
import re

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.errors import mistake
from kubectl_evictplan.plans.document import Plan
from kubectl_evictplan.prediction import fingerprint as predictions
from kubectl_evictplan.prediction.records import plain

PREFIX = "sha256:"
# So many hexadecimal digits of a fingerprint are enough to name a plan.
SHORT_MIN = 8
SHORT = 12

_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=plain)


def fingerprint(plan: Plan) -> str:
    """Return "sha256:<hex>" over everything in the plan but the fingerprint itself."""
    return PREFIX + hashlib.sha256(_encode(replace(plan, fingerprint=""))).hexdigest()


def sealed(plan: Plan) -> Plan:
    """Return the plan with its fingerprint and its prediction's; InputError when it cannot be written as text."""
    plan = replace(plan, prediction=predictions.sealed(plan.prediction))
    return replace(plan, fingerprint=fingerprint(plan))


def plan_text(plan: Plan) -> bytes:
    """Return the file: JSON, indented by two, one fact to a line."""
    return msgspec.json.format(_encode(plan), indent=2) + b"\n"


def short(text: str) -> str:
    """Return the beginning of a fingerprint that is shown and typed."""
    return text.removeprefix(PREFIX)[:SHORT]


def names_plan(typed: str, text: str) -> bool:
    """Tell whether a typed fingerprint, or its beginning of 8 digits or more, is that of the plan."""
    digits = typed.strip().lower().removeprefix(PREFIX)
    is_hex = re.fullmatch(f"[0-9a-f]{{{SHORT_MIN},64}}", digits) is not None
    return is_hex and text.removeprefix(PREFIX).startswith(digits)


def _encode(plan: Plan) -> bytes:
    try:
        return _encoder.encode(plan)
    except UnicodeEncodeError:
        raise mistake("a name of the cluster holds half a character: no plan can name it") from None
