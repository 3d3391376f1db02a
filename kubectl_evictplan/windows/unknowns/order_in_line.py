"""In which order the nodes that wait in one line are served: upstream walks a hash map.

Nodes that stay change places freely, so one order stands for all of theirs (``line_windows``). Where nodes leave
unserved, the order decides how many tokens the line takes: most where those who leave first are served first, fewest
where they come last. And whoever waits to the very end is the one that comes last. A pass that sees nodes as they were wastes its
token only where one of those comes first that have just changed. Whoever loses its taint to a person takes another token
only if it was served before, and whoever got it from one takes a token that buys nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import permutations

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.windows.places_in_line import InLine, Order
from kubectl_evictplan.windows.spans import NEVER_NS
from kubectl_evictplan.windows.unknowns.unknown import Unknown

# Nodes that leave the line each get a replay in which they are served last, up to this many.
_LAST_IN_LINE_MAX = 24
# ... as long as there are not too many operations to replay.
_OPERATIONS_MAX = 4_000

# Of so many groups to which people do something every order is tried.
_IN_TURN_MAX = 2


class Served(msgspec.Struct, frozen=True):
    """An order of service, and the names of unknowns that were not wholly explored."""

    order: Order
    missed: frozenset[str] = frozenset()


def first_leaves_first(one: InLine) -> str:
    """Who leaves first is served first."""
    return f"{one.leaves_ns:020}"


def _first_leaves_last(one: InLine) -> str:
    return f"{NEVER_NS - one.leaves_ns:020}"


def _last_in_line(names: frozenset[str]) -> Order:
    return lambda one: f"{int(one.name in names)}{one.leaves_ns:020}"


def _first_in_line(names: frozenset[str]) -> Order:
    return lambda one: f"{int(one.name not in names)}{one.leaves_ns:020}"


def _in_turn(groups: Sequence[Collection[str]]) -> Order:
    """These groups one after the other, everybody else in place of the empty one."""
    place_of = {name: place for place, group in enumerate(groups) for name in group}
    elsewhere = next(place for place, group in enumerate(groups) if not group)
    return lambda one: f"{place_of.get(one.name, elsewhere)}{one.leaves_ns:020}"


class OrderInLine(Unknown[Served]):
    """Of the nodes that one tick puts in line, and from 1.21 on of all that wait."""

    name = "order in the line"
    what = "in which order the nodes of a zone are taken that wait for a taint"

    def __init__(
        self,
        leavers: Sequence[Collection[str]],
        operations: int,
        again: Sequence[Collection[str]],
        by_hand: Sequence[Collection[str]],
        *,
        seen_late: bool,
        made_anew: bool,
    ) -> None:
        """``leavers``: groups of alike nodes of which some leave unserved; ``operations`` of one replay.

        ``seen_late``: a pass may waste its token on nodes that it still sees ready; they come first then. ``again``: groups of which
        every tick puts another entry in line (1.19.0-8, 1.20.0-4), which comes before or after nodes that are new.
        ``by_hand``: groups that lose a taint to a person, or got it from one before they wait, while others wait. ``made_anew``: ticks make the line anew, and each
        time those who have their taint come again as well, before or after those who wait.
        """
        self._again = again
        self._by_hand = by_hand
        self._leavers = leavers
        self._seen_late = seen_late
        self._made_anew = made_anew
        self._fits = (
            operations * max(len(leavers), len(again)) <= _OPERATIONS_MAX * _LAST_IN_LINE_MAX
        )

    def orders(self) -> list[Served]:
        """The orders of service that matter."""
        return list(self.settle(Served(first_leaves_first), _LAST_IN_LINE_MAX))

    def settle(self, part: Served, most: int) -> Iterator[Served]:
        """Those who leave first come first, those who leave first come last, and each of them comes last once.

        In each of them those come first who may cost a token for nothing (``InLine.placed``). Where entries are put in line again, each group comes first
        once, and last once. So do those who lose their taints, or got them, by hand, where there are few groups of them in every order among
        these; where there are more, or other orders matter as well, not every combination is tried.
        """
        if self._made_anew:
            # Each line has an order of its own.
            part = replace(part, missed=part.missed | {self.name})
        several = len(self._again) if len(self._again) > 1 else 0
        if several > most or (several and not self._fits):
            several, part = 0, replace(part, missed=part.missed | {self.name})
        for group in self._again[:several]:
            yield replace(part, order=_first_in_line(frozenset(group)))
            yield replace(part, order=_last_in_line(frozenset(group)))
        if self._by_hand:
            groups = self._by_hand
            if len(groups) > _IN_TURN_MAX:
                groups = [frozenset[str]().union(*groups)]
            if len(groups) < len(self._by_hand) or self._leavers or self._again or self._seen_late:
                part = replace(part, missed=part.missed | {self.name})
            for in_turn in permutations((*groups, ())):
                yield replace(part, order=_in_turn(in_turn))
        if not self._leavers:
            yield part
            return
        groups = self._leavers[:most] if self._fits else ()
        if len(groups) < len(self._leavers):
            part = replace(part, missed=part.missed | {self.name})
        yield part
        yield replace(part, order=_first_leaves_last)
        for group in groups:
            yield replace(part, order=_last_in_line(frozenset(group)))
