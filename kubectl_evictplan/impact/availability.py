"""How many of a group are there over time, at least and at most, from the absences of each.

Cost follows the number of different absences: pods that share theirs are counted, not repeated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.impact.stretches import FOREVER_NS, Absence, Anchor, Between, Stretch

# Of absences that begin together so many groups are looked at; what is left out only makes bounds wider.
_GROUPS_MAX = 48


class Group(NamedTuple):
    """Absences with how many have them; at most ``away_max`` of these are away at one time.

    A budget that a drain asks is such a limit; None: there is none.
    """

    absences: Mapping[Absence, int]
    away_max: int | None = None


class Dip(NamedTuple):
    """Time in which there are fewer than asked for. ``sure`` lie within; empty: it need not come."""

    possible: Stretch
    since: Between
    until: Between
    certain: bool
    least_ns: int


class _Together(NamedTuple):
    """A certain instant at which so many are away, for so long at least."""

    since: Between
    least_ns: int
    away: int


class Availability:
    """Bounds over time for a group of ``before`` members.

    ``gains`` are instants from which on there may be one more than before.
    """

    def __init__(self, before: int, groups: Sequence[Group], gains: Sequence[int] = ()) -> None:
        self.before = before
        # Of equal length: instants, and how many are possibly and surely away from then on; of the latter gains are
        # taken off.
        self.instants: list[int] = []
        self._possibly: list[int] = []
        self._surely: list[int] = []
        self._sweep(groups, gains)
        self._together = list(self._groups_together(groups)) if self.instants else []

    def _sweep(self, groups: Sequence[Group], gains: Sequence[int]) -> None:
        changes: dict[int, list[tuple[int, int, int]]] = {}
        for place, group in enumerate(groups):
            for one, number in group.absences.items():
                for low_ns, high_ns in one.possible:
                    changes.setdefault(low_ns, []).append((place, number, 0))
                    changes.setdefault(high_ns, []).append((place, -number, 0))
                for low_ns, high_ns in one.sure:
                    changes.setdefault(low_ns, []).append((place, 0, number))
                    changes.setdefault(high_ns, []).append((place, 0, -number))
        for at_ns in gains:
            changes.setdefault(at_ns, []).append((-1, 0, -1))
        changes.pop(FOREVER_NS, None)
        possibly, surely = [0] * len(groups), 0
        limits = [self.before if one.away_max is None else one.away_max for one in groups]
        for at_ns in sorted(changes):
            for place, more, more_surely in changes[at_ns]:
                if more:
                    possibly[place] += more
                surely += more_surely
            away = sum(map(min, possibly, limits))
            self.instants.append(at_ns)
            self._possibly.append(min(max(away, surely), self.before))
            self._surely.append(min(surely, self.before))

    def _groups_together(self, groups: Sequence[Group]) -> Iterator[_Together]:
        """Yield what is certain of those that begin at one instant, whenever that is."""
        numbers: Counter[Anchor] = Counter()
        for group in groups:
            for one, number in group.absences.items():
                for anchor in one.anchors:
                    if anchor.since.latest_ns > anchor.since.earliest_ns:
                        numbers[anchor] += number
        by_token: dict[object, list[tuple[Anchor, int]]] = {}
        for anchor, number in numbers.items():
            alone = anchor.together is None
            token = (anchor, "alone") if alone else (anchor.together, anchor.since)
            by_token.setdefault(token, []).append((anchor, 1 if alone else number))
        found = sorted(by_token.values(), key=lambda some: -sum(number for _, number in some))
        for some in found[:_GROUPS_MAX]:
            since = some[0][0].since
            away = sum(number for _, number in some) + self._surely_throughout(since)
            least_ns = min(anchor.least_ns for anchor, _ in some)
            yield _Together(since, least_ns, min(away, self.before))

    def _surely_throughout(self, since: Between) -> int:
        """How many others are surely away in the whole window, at the least."""
        low = bisect_left(self.instants, since.earliest_ns + 1) - 1
        high = bisect_left(self.instants, since.latest_ns)
        if low < 0:
            return 0
        return min(self._surely[low : max(high, low + 1)])

    # -- figures ------------------------------------------------------------------------------------

    @property
    def fewest(self) -> tuple[int, int]:
        """The least number at the worst moment: it is at least, and at most, so many."""
        least = self.before - max(self._possibly, default=0)
        surely = max(self._surely, default=0)
        surely = max([surely, *(one.away for one in self._together)])
        return least, self.before - surely

    def steps(self) -> Iterator[tuple[int, int, int]]:
        """Yield (instant, at least, at most) where one of them changes; it begins before all."""
        last = (self.before, self.before)
        for at_ns, possibly, surely in zip(
            self.instants, self._possibly, self._surely, strict=True
        ):
            now = (self.before - possibly, self.before - surely)
            if now != last:
                yield at_ns, *now
                last = now

    def below(self, wanted: int) -> list[Dip]:
        """When there are fewer than ``wanted``, in order; nothing where that is so all the time."""
        if wanted > self.before:
            return []
        spare = self.before - wanted
        sure = self._stretches(self._surely, lambda away: away > spare)
        return [
            self._dip(possible, sure, spare)
            for possible in self._stretches(self._possibly, lambda away: away > spare)
        ]

    def _stretches(self, away: Sequence[int], wrong: Callable[[int], bool]) -> list[Stretch]:
        found: list[Stretch] = []
        since_ns: int | None = None
        for at_ns, number in zip(self.instants, away, strict=True):
            if wrong(number) and since_ns is None:
                since_ns = at_ns
            elif not wrong(number) and since_ns is not None:
                found.append((since_ns, at_ns))
                since_ns = None
        if since_ns is not None:
            found.append((since_ns, FOREVER_NS))
        return found

    def _dip(self, possible: Stretch, sure: Sequence[Stretch], spare: int) -> Dip:
        low_ns, high_ns = possible
        inside = [one for one in sure if low_ns <= one[0] < high_ns]
        groups = [
            one
            for one in self._together
            if one.away > spare
            and low_ns <= one.since.earliest_ns
            and one.since.latest_ns <= high_ns
        ]
        if not inside and not groups:
            return Dip(possible, Between(low_ns, FOREVER_NS), Between(low_ns, high_ns), False, 0)
        begins = [one[0] for one in inside] + [one.since.latest_ns for one in groups]
        ends = [one[1] for one in inside]
        ends += [one.since.earliest_ns + one.least_ns for one in groups]
        lasts_ns = sum(min(end_ns, FOREVER_NS) - begin_ns for begin_ns, end_ns in inside)
        lasts_ns = max([lasts_ns, *(one.least_ns for one in groups)])
        since, until = Between(low_ns, min(begins)), Between(min(max(ends), high_ns), high_ns)
        return Dip(possible, since, until, True, lasts_ns)
