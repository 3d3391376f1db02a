"""Realities that lean towards the ends of windows: a choice that led far is made again, but for a few of its parts.

Chance alone rarely reaches an end, where a dozen unknowns must all lean to one side. So for either end of every window
the reality that led farthest is kept, and three in four of what follows differ from one of them in some choices.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from realities.contradictions import DeletionKey, deletions

from kubectl_evictplan.cluster.timeline import Entry

# An end is reached where a reality leads that close to it.
_REACHED_S = 0.01
# Realities that chance alone draws first.
_FREE_AT_FIRST = 8
# About how much choices are made in another way, and how many of them.
_SHARES_OF_PARTS = (0.05, 0.2, 1.0)
_SHARES = (0.02, 0.05, 0.1, 0.3)

# Shares, and whole numbers, in the order in which they were chosen.
_Line = list[float | int]
# All choices of one reality, by what they are about.
Made = dict[str, _Line]
_Made = TypeVar("_Made")
# A pod and its deleter, in which of its windows, for which time, and the later or the earlier.
_End = tuple[DeletionKey, int, int, bool]

# Called a thousand times by most realities.
_RANDOM, _GETRANDBITS = random.Random.random, random.Random.getrandbits


class Part(random.Random):
    """Chance that remembers what it ``gave``, and gives what it is told to as long as that fits."""

    def __init__(self, seed: str, given: Sequence[float | int] = ()) -> None:
        super().__init__(seed)
        self.gave: _Line = []
        self._given = given

    def random(self) -> float:
        """A share, the given one if it is one."""
        value = _RANDOM(self)
        gave, given = self.gave, self._given
        if len(gave) < len(given):
            one = given[len(gave)]
            if isinstance(one, float):
                value = one
        gave.append(value)
        return value

    def getrandbits(self, k: int, /) -> int:
        """A whole number, the given one if it is one and not too large."""
        value = _GETRANDBITS(self, k)
        gave, given = self.gave, self._given
        if len(gave) < len(given):
            one = given[len(gave)]
            if isinstance(one, int) and one < 1 << k:
                value = one
        gave.append(value)
        return value


class Choices(Part):
    """All chance of one reality, part by part: another choice in one of them moves nothing in the others."""

    def __init__(self, seed: str, given: Mapping[str, Sequence[float | int]] = {}) -> None:
        super().__init__(seed, given.get("", ()))
        self.made: Made = {"": self.gave}
        self._seed = seed
        self._of_parts = given

    def part(self, about: str) -> Part:
        """The part of it that is about one thing; another one each time that it is asked for."""
        number = sum(name.partition("#")[0] == about for name in self.made)
        name = f"{about}#{number}"
        part = Part(f"{self._seed} {name}", self._of_parts.get(name, ()))
        self.made[name] = part.gave
        return part


class Farthest(Generic[_Made]):
    """The choices that led farthest so far; ``windows`` of each eviction, in seconds."""

    def __init__(self, windows: Mapping[DeletionKey, Sequence[tuple[float, float]]]) -> None:
        self._windows = windows
        self._of_ends: dict[_End, tuple[float, _Made]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_ends)

    def any_of(self, rng: random.Random) -> _Made:
        """Those of one end or another, of one that is not reached if there is any."""
        away = [end for end, (far, _) in self._of_ends.items() if not self._is_reached(end, far)]
        return self._of_ends[rng.choice(away or list(self._of_ends))][1]

    def _is_reached(self, end: _End, how_far: float) -> bool:
        key, place, _, later = end
        low, high = self._windows[key][place]
        return how_far > (high if later else -low) - _REACHED_S

    def learn(self, made: _Made, entries: Iterable[Entry]) -> None:
        """See how far a reality led."""
        for key, instants in deletions(entries).items():
            for place, (low, high) in enumerate(self._windows.get(key, ())):
                for nth, at in enumerate(instants):
                    if low <= at <= high:
                        self._keep((key, place, nth, False), -at, made)
                        self._keep((key, place, nth, True), at, made)

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
        given: Made = {}
        if number >= _FREE_AT_FIRST and number % 4 and self._farthest:
            given = self._changed(self._farthest.any_of(self._rng))
        return Choices(f"{self._seed} {number}", given)

    def _changed(self, made: Made) -> Made:
        """The same but for some choices about some things."""
        about, share = self._rng.choice(_SHARES_OF_PARTS), self._rng.choice(_SHARES)
        return {
            name: self._changed_part(line, share) if self._rng.random() < about else line
            for name, line in made.items()
        }

    def _changed_part(self, line: _Line, share: float) -> _Line:
        share = max(share, 1 / max(len(line), 1))
        return [self._another(each) if self._rng.random() < share else each for each in line]

    def _another(self, value: float | int) -> float | int:
        """An end, any other one, or one that is near, much nearer or not."""
        rng = self._rng
        if isinstance(value, float):
            near = min(max(value + rng.gauss(0, 0.3 ** rng.randint(1, 6)), 0.0), 1.0 - 2**-53)
            return rng.choice((0.0, 1.0 - 2**-53, rng.random(), near, near))
        bits = max(value.bit_length(), 1)
        far = 1 << rng.randrange(bits)
        near = max(value + rng.randint(-far, far), 0)
        return rng.choice((0, rng.getrandbits(bits), rng.getrandbits(bits), near, near))

    def learn(self, choices: Choices, entries: Iterable[Entry]) -> None:
        """See how far a reality led."""
        self._farthest.learn(choices.made, entries)
