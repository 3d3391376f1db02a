"""How many tries in a row a budget can be closed by others, each of whom is out at one of them at the most.

A pod that several processes ask for may take a disruption for each of them, but all in the moment in which it is evicted. So who is out at
which try is chosen for all tries together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# So many choices are looked at; beyond that a pod may take one disruption at one try and another one at another.
_CHOICES_MAX = 500

# How many disruptions a pod may have taken at each try.
_Takes = tuple[int, ...]
# Pods that take the same, and how many they are.
_Left = tuple[tuple[_Takes, int], ...]


class Met(NamedTuple):
    """What a try may meet: it is refused if others have taken ``wanted`` disruptions, and each of them may have taken so many."""

    wanted: int
    taken: Sequence[int]


def closed_tries(tries: Sequence[Met]) -> int:
    """How many of the tries, from the first one on, may all be refused; ``taken`` has the same pods at each of them."""
    closed = _one_by_one(tries)
    pods = Counter(zip(*(one.taken for one in tries[:closed]), strict=True))
    if any(most > 1 for takes in pods for most in takes):
        return _Choices([one.wanted for one in tries[:closed]]).closed(pods)
    return closed


def _one_by_one(tries: Sequence[Met]) -> int:
    """The same if each disruption that a pod may take could be one of its own: those come first that are back first."""
    left: list[tuple[int, int]] = []
    for takes in zip(*(one.taken for one in tries), strict=True):
        last = max((nth for nth, most in enumerate(takes) if most), default=0)
        for taken in range(max(takes)):
            first = next(nth for nth, most in enumerate(takes) if most > taken)
            left.append((last, first))
    left.sort()
    for nth, one in enumerate(tries):
        out = [each for each in left if each[1] <= nth <= each[0]][: one.wanted]
        if len(out) < one.wanted:
            return nth
        for each in out:
            left.remove(each)
    return len(tries)


class _Choices:
    """Who is out at which try, looked through; ``wanted`` has how many disruptions must be taken at each."""

    def __init__(self, wanted: Sequence[int]) -> None:
        self._wanted = wanted
        self._found: dict[tuple[int, _Left], int] = {}
        self._looked_at = 0

    def closed(self, pods: Counter[_Takes]) -> int:
        """How many tries may be refused; all of them if there is too much to choose from."""
        found = self._from(0, tuple(sorted(pods.items())))
        return found if self._looked_at < _CHOICES_MAX else len(self._wanted)

    def _from(self, nth: int, left: _Left) -> int:
        """How many from that try on, with those who have not been out yet; they are told from that try on."""
        more = len(self._wanted) - nth
        if not more or self._looked_at >= _CHOICES_MAX:
            return more
        if (nth, left) not in self._found:
            closed = 0
            for rest in self._rests(self._wanted[nth], left):
                self._looked_at += 1
                closed = max(closed, 1 + self._from(nth + 1, _later(rest)))
                if closed == more:
                    break
            self._found[nth, left] = closed
        return self._found[nth, left]

    def _rests(self, wanted: int, left: _Left) -> Iterator[_Left]:
        """Who is left when some have taken so many at this try, nobody of whom could have been spared."""
        if wanted <= 0:
            yield left
        elif left:
            (takes, number), others = left[0], left[1:]
            enough = -(-wanted // takes[0]) if takes[0] else 0
            for out in range(min(number, enough), -1, -1):
                for rest in self._rests(wanted - out * takes[0], others):
                    yield ((takes, number - out), *rest)


def _later(left: _Left) -> _Left:
    """The same from the next try on, without those who take nothing any more."""
    found: Counter[_Takes] = Counter()
    for takes, number in left:
        if number and any(takes[1:]):
            found[takes[1:]] += number
    return tuple(sorted(found.items()))
