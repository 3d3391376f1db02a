"""Realities that lean towards the ends of windows: a choice that led far is made again, but for a few of its parts.

Chance alone rarely reaches an end, where a dozen unknowns must all lean to one side. So for either end of every window
the reality that led farthest is kept, and three in four of what follows differ from one of them in some choices.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from contradictions import DeletionKey, deletions

from kubectl_evictplan.cluster.timeline import Entry

# Realities that chance alone draws first.
_FREE_AT_FIRST = 8
# How many of its choices are made in another way.
_SHARES = (0.02, 0.05, 0.1, 0.3)

# All choices of one reality, in the order in which they were made: shares, and whole numbers.
Made = list[float | int]
_Made = TypeVar("_Made")
# A pod and its deleter, in which of its windows, and the later or the earlier.
_End = tuple[DeletionKey, int, bool]


class Choices(random.Random):
    """Chance that remembers what it gave, and gives what it is told to as long as that fits."""

    def __init__(self, seed: str, given: Sequence[float | int] = ()) -> None:
        super().__init__(seed)
        self.made: Made = []
        self._given = given

    def random(self) -> float:
        """A share, the given one if it is one."""
        drawn, given = super().random(), self._next_given()
        self.made.append(given if isinstance(given, float) else drawn)
        return float(self.made[-1])

    def getrandbits(self, k: int, /) -> int:
        """A whole number, the given one if it is one and not too large."""
        drawn, given = super().getrandbits(k), self._next_given()
        self.made.append(given if isinstance(given, int) and given < 1 << k else drawn)
        return int(self.made[-1])

    def _next_given(self) -> float | int | None:
        place = len(self.made)
        return self._given[place] if place < len(self._given) else None


class Farthest(Generic[_Made]):
    """The choices that led farthest so far; ``windows`` of each eviction, in seconds."""

    def __init__(self, windows: Mapping[DeletionKey, Sequence[tuple[float, float]]]) -> None:
        self._windows = windows
        self._of_ends: dict[_End, tuple[float, _Made]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_ends)

    def any_of(self, rng: random.Random) -> _Made:
        """Those of one end or another."""
        return self._of_ends[rng.choice(list(self._of_ends))][1]

    def learn(self, made: _Made, entries: Iterable[Entry]) -> None:
        """See how far a reality led."""
        for key, instants in deletions(entries).items():
            for place, (low, high) in enumerate(self._windows.get(key, ())):
                for at in instants:
                    if low <= at <= high:
                        self._keep((key, place, False), -at, made)
                        self._keep((key, place, True), at, made)

    def _keep(self, end: _End, how_far: float, made: _Made) -> None:
        known = self._of_ends.get(end)
        if known is None or how_far >= known[0]:
            self._of_ends[end] = how_far, made


class Guide:
    """Realities that lean towards the ends of the ``windows`` of each eviction, in seconds."""

    def __init__(
        self, seed: str, windows: Mapping[DeletionKey, Sequence[tuple[float, float]]]
    ) -> None:
        self._seed = seed
        self._rng = random.Random(f"guide {seed}")
        self._farthest = Farthest[Made](windows)

    def choices(self, number: int) -> Choices:
        """Chance for the reality of that number."""
        given: Made = []
        if number >= _FREE_AT_FIRST and number % 4 and self._farthest:
            given = self._changed(self._farthest.any_of(self._rng))
        return Choices(f"{self._seed} {number}", given)

    def _changed(self, made: Made) -> Made:
        share = self._rng.choice(_SHARES)
        return [self._another(each) if self._rng.random() < share else each for each in made]

    def _another(self, value: float | int) -> float | int:
        rng = self._rng
        if isinstance(value, float):
            near = min(max(value + rng.gauss(0, 0.03), 0.0), 1.0 - 2**-53)
            return rng.choice((0.0, 1.0 - 2**-53, rng.random(), near))
        bits = max(value.bit_length(), 1)
        near = max(value + rng.randint(-(1 << bits // 2), 1 << bits // 2), 0)
        return rng.choice((rng.getrandbits(bits), rng.getrandbits(bits), near))

    def learn(self, choices: Choices, entries: Iterable[Entry]) -> None:
        """See how far a reality led."""
        self._farthest.learn(choices.made, entries)
