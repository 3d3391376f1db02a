"""How many of a group are there over time, at least and at most, from the absences of each.

Cost follows the number of different absences: pods that share theirs are counted, not repeated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from operator import itemgetter

import msgspec

from kubectl_evictplan.impact.stretches import FOREVER_NS, Absence, Between, Stretch

# Of absences that begin together so many groups are looked at; what is left out only makes bounds wider.
_GROUPS_MAX = 48


class Group(msgspec.Struct, frozen=True):
    """Absences, each with how many have it; at most ``away_max`` of these are away at one time.

    A budget that a drain asks is such a limit; None: there is none. ``by_node``: the same with the node of those that
    have it, which says what begins together; empty where stretches tell as much.
    """

    absences: Sequence[tuple[Absence, int]]
    away_max: int | None = None
    by_node: Sequence[tuple[Absence, str, int]] = ()


# Of one member of a group its node, and when it is away.
Member = tuple[str, Absence]


def grouped(members: Sequence[Member], away_max: int | None = None, *, alone: bool = True) -> Group:
    """Count those that share an absence. ``alone``: there are no others."""
    nodes, absent = list(map(itemgetter(0), members)), list(map(itemgetter(1), members))
    tokens = list(map(id, absent))
    found, numbers = dict(zip(tokens, absent, strict=True)), Counter(tokens)
    absences = list(zip(found.values(), map(numbers.__getitem__, found), strict=True))
    if alone and not any(map(says_more, absences)) and len(set(nodes)) != 1:
        return Group(absences, away_max)
    pairs = Counter(zip(tokens, nodes, strict=True))
    by_node = [(found[at], node, number) for (at, node), number in pairs.items()]
    return Group(absences, away_max, by_node)


def says_more(counted: tuple[Absence, int]) -> bool:
    """Whether the absence begins for certain without being sure at any instant."""
    for anchor in counted[0].anchors:  # noqa: SIM110 - asked of every group
        if not anchor.seen:
            return True
    return False


class Dip(msgspec.Struct, frozen=True):
    """Time in which there are fewer than asked for. ``sure`` lie within; empty: it need not come."""

    possible: Stretch
    since: Between
    until: Between
    certain: bool
    least_ns: int


class _Together(msgspec.Struct, frozen=True):
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
        # They keep what they are made of alive, by whose identity the same curve is found again.
        self.groups = groups
        # Of equal length: instants, and how many are possibly and surely away from then on; of the latter gains are
        # taken off.
        self.instants: list[int] = []
        self._possibly: list[int] = []
        self._surely: list[int] = []
        self._dips: dict[int, list[Dip]] = {}
        self._sweep(groups, gains)
        self._together = list(self._groups_together(groups)) if self.instants else []

    def _sweep(self, groups: Sequence[Group], gains: Sequence[int]) -> None:
        surely: defaultdict[int, int] = defaultdict(int)
        possibly = [self._changes(group, surely) for group in groups]
        for at_ns in gains:
            surely[at_ns] -= 1
        instants = set(surely).union(*possibly)
        instants.discard(FOREVER_NS)
        self.instants = sorted(instants)
        if len(groups) == 1 and groups[0].away_max is None:
            self._count(possibly[0], surely)
            return
        limits = [self.before if one.away_max is None else one.away_max for one in groups]
        away, sure, before = [0] * len(groups), 0, self.before
        for at_ns in self.instants:
            sure += surely.get(at_ns, 0)
            total = 0
            for place, changes in enumerate(possibly):
                away[place] = number = away[place] + changes.get(at_ns, 0)
                total += min(limits[place], number)
            total = max(total, sure)
            self._possibly.append(min(before, total))
            self._surely.append(min(before, sure))

    def _count(self, possibly: dict[int, int], surely: dict[int, int]) -> None:
        """Add up the changes of a single group without a limit: nearly all are."""
        before, none = self.before, repeat(0)
        away = accumulate(map(possibly.get, self.instants, none))
        sure = list(accumulate(map(surely.get, self.instants, none)))
        self._possibly = [min(n, before) for n in map(max, sure, away)]
        self._surely = [min(n, before) for n in sure]

    @staticmethod
    def _changes(group: Group, surely: defaultdict[int, int]) -> dict[int, int]:
        """How many more are possibly away at each instant; those that surely are go to ``surely``."""
        possibly: defaultdict[int, int] = defaultdict(int)
        for (possible, sure, _), number in group.absences:
            for low_ns, high_ns in possible:
                possibly[low_ns] += number
                possibly[high_ns] -= number
            for low_ns, high_ns in sure:
                surely[low_ns] += number
                surely[high_ns] -= number
        return possibly

    def _groups_together(self, groups: Sequence[Group]) -> Iterator[_Together]:
        """Yield what is certain of those that begin at one instant, whenever that is."""
        # By what begins together: the window, how many, for how long at least, and whether stretches tell it too.
        found: dict[object, tuple[Between, int, int, bool]] = {}
        total = 0
        for group in groups:
            total += sum(number for _, number in group.absences)
            for one, node, number in group.by_node:
                for since, least_ns, together, seen in one.anchors:
                    token = node, together
                    if since[1] <= since[0]:
                        continue
                    if together is None:
                        found[len(found), "alone"] = since, 1, least_ns, seen
                    elif (known := found.get(token)) is None:
                        found[token] = since, number, least_ns, seen
                    else:
                        least_ns, seen = min(known[2], least_ns), known[3] and seen
                        found[token] = since, known[1] + number, least_ns, seen
        largest = sorted(
            [one for one in found.values() if not one[3] or one[1] == total],
            key=itemgetter(1),
            reverse=True,
        )
        # Never more than may be away at all.
        most = max(self._possibly)
        for since, number, least_ns, _ in largest[:_GROUPS_MAX]:
            yield _Together(since, least_ns, min(number + self._surely_throughout(since), most))

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
        surely = max([max(self._surely, default=0), *[one.away for one in self._together]])
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
        known = self._dips.get(wanted)
        if known is None:
            known = self._dips[wanted] = self._find_dips(wanted)
        return known

    def _find_dips(self, wanted: int) -> list[Dip]:
        spare = self.before - wanted
        if spare < 0 or max(self._possibly, default=0) <= spare:
            return []
        sure = self._stretches(self._surely, spare)
        return [self._dip(one, sure, spare) for one in self._stretches(self._possibly, spare)]

    def _stretches(self, away: Sequence[int], spare: int) -> list[Stretch]:
        """When more than ``spare`` are away."""
        found: list[Stretch] = []
        since_ns: int | None = None
        for at_ns, number in zip(self.instants, away, strict=True):
            if number > spare:
                if since_ns is None:
                    since_ns = at_ns
            elif since_ns is not None:
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
