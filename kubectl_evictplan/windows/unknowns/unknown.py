"""What nobody can know about a run, each thing declared as one object, and the one driver that explores them.

A *part* is a choice that is still open in some respects: grids of the monitor's ticks (``Piece``), or the
``Timing`` of a node's pods. An unknown settles one respect: it gives parts that together stand for
every value that it can have, at both sides of each value at which something changes. Where that takes more
parts than it may have, it gives fewer and says so: ``missing`` notes its name, and windows that rest on such a part
are outer bounds (``outer_bounds``) or are not called certain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from math import prod, sqrt
from typing import ClassVar, Generic, TypeVar

Part = TypeVar("Part")

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


class Unknown(ABC, Generic[Part]):
    """One thing that nobody can know. ``what`` completes the sentence "nobody can see ...", for reports and docs."""

    name: ClassVar[str]
    what: ClassVar[str]

    def fewest(self, part: Part) -> int:
        """How many parts it takes at the least."""
        return 1

    @abstractmethod
    def settle(self, part: Part, most: int) -> Iterable[Part]:
        """Parts that together stand for all values; at most about ``most`` of them."""


def settled(part: Part, unknowns: Sequence[Unknown[Part]], most: int) -> list[Part]:
    """Settle all of them, one after the other, with at most about ``most`` parts in the end."""
    parts = [part]
    for place, unknown in enumerate(unknowns, 1):
        later = prod(other.fewest(part) for other in unknowns[place:])
        share = max(1, most // (len(parts) * later))
        parts = [each for one in parts for each in unknown.settle(one, share)]
    return parts


def sequence(dimension: int, index: int) -> float:
    """The ``index``-th point of a Kronecker sequence in that dimension, in [0, 1): for what is drawn, spread evenly."""
    prime = _PRIMES[dimension % len(_PRIMES)]
    return (index + 1) * sqrt(prime) * (1 + dimension // len(_PRIMES)) % 1.0
