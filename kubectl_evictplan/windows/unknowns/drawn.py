"""Points that are spread evenly: for what is drawn where not everything can be explored."""

from __future__ import annotations

from math import sqrt

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


def sequence(dimension: int, index: int) -> float:
    """The ``index``-th point of a Kronecker sequence in that dimension, in [0, 1)."""
    prime = _PRIMES[dimension % len(_PRIMES)]
    return (index + 1) * sqrt(prime) * (1 + dimension // len(_PRIMES)) % 1.0
