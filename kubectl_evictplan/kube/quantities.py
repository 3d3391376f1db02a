"""Quantities such as ``100m``, ``1.5`` and ``128Mi``, as whole numbers.

Rules: ``ParseQuantity``, ``Value`` and ``MilliValue`` of apimachinery/pkg/api/resource: what does not come out
even is rounded up, what does not fit in 64 bits is the largest number that does.
"""

from __future__ import annotations

import re

from kubectl_evictplan.kube.validation import INT64_MAX

_QUANTITY = re.compile(
    r"([+-]?)([0-9]{1,64}(?:\.[0-9]{0,64})?|\.[0-9]{1,64})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,9})?",
    re.ASCII,
)
_POWERS = {name: 1024**power for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_TENS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# No number of at most 64 digits before and behind its point is still itself beyond this.
_EXPONENT_MAX = 200
MILLI = 1000


class BadQuantity(ValueError):
    """Text that is no quantity."""


def parse_quantity(value: str | float, scale: int = 1) -> int:
    """Return the quantity times ``scale`` as a whole number; raises BadQuantity."""
    text = str(value)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise BadQuantity("not a quantity such as 500m, 2 or 128Mi")
    sign, digits, suffix = match[1], match[2], match[3] or ""
    whole, _, fraction = digits.partition(".")
    number, exponent = int(whole + fraction) * scale, -len(fraction)
    if suffix in _POWERS:
        number *= _POWERS[suffix]
    else:
        ten = _TENS[suffix] if suffix in _TENS else int(suffix[1:])
        exponent += max(-_EXPONENT_MAX, min(ten, _EXPONENT_MAX))
    up: int = 10 ** max(exponent, 0)
    down: int = 10 ** max(-exponent, 0)
    rounded = min(-(-number * up // down), INT64_MAX)
    return -rounded if sign == "-" else rounded
