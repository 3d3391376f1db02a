"""At which instant each wait of a node ends with its taint, or whether it ends without.

Where a wait's spans are known, what follows for the node's pods changes only at their ends and where an event, or a tick that
takes the taint off, meets the end of a timer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice, product
from math import prod

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.windows.line_windows import WaitWindow
from kubectl_evictplan.windows.node_records import NodeRecord
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.lines import SERVED_AFTER_NS, TIE_NS
from kubectl_evictplan.windows.unknowns.unknown import Unknown

# Instants tried inside a span, where a pod's fate can change, and histories tried for several waits.
_INNER_INSTANTS_MAX = 6
HISTORIES_MAX = 48
# And where each wait is varied for itself: more waits than that leave no end to it.
_VARIED_MAX = 192

# For each wait the place of the span in which it is served, or None when it is not.
Choice = tuple[int | None, ...]


class History(msgspec.Struct, frozen=True):
    """When a node is served; equal ``choice`` and different instants are ends of one outcome.

    ``missed``: names of unknowns of which not every value is among the histories.
    """

    choice: Choice = ()
    served_ns: tuple[int, ...] = ()
    missed: frozenset[str] = frozenset()


class _Option(msgspec.Struct, frozen=True):
    place: int | None
    at_ns: int


class Services(Unknown[History]):
    """Of one node in one run: served at the earliest (or ``latest``) instant of each span.

    Also not served at all where that is not certain. ``changes_ns``: around these the fate of a pod
    can change. ``beside_others``: at both ends of each span, since others vary with the node, and an instant inside one's
    span can come together with the other end of another's.
    """

    name = "taints of a node"
    what = "with which of the tokens that can be its own a waiting node is tainted"

    def __init__(
        self,
        waits: list[WaitWindow],
        record: NodeRecord,
        stops: list[int],
        *,
        latest: bool,
        changes_ns: Iterable[int],
        beside_others: bool = False,
    ) -> None:
        wanted = record.wanted_spans(stops)
        # Just before such a tick the pods' fate is another one than inside it.
        self._always_ns = {at_ns - side for at_ns in record.taken_back for side in (0, 1)}
        # And so it is inside one that takes a taint off which it then wants on again: the taint seems to stay.
        inside_ns = record.decided_twice_ns()
        self._always_ns |= inside_ns
        changes_ns = {*changes_ns, *record.taint_changes_ns()}
        inner_ns = {at_ns + side for at_ns in changes_ns for side in (-1, 1)} | self._always_ns
        self._options = [
            list(
                _options(wait, wanted, inner_ns, inside_ns, latest=latest, both_ends=beside_others)
            )
            for wait in waits
        ]

    def settle(self, part: History, most: int) -> Iterator[History]:
        """All combinations while they are few, else one wait varied at a time."""
        options = self._options
        if prod(map(len, options)) > most:
            options = [list(self._few_inside(choice)) for choice in options]
            part = replace(part, missed=part.missed | {self.name})
        for chosen in islice(_combinations(options, most), max(most, _VARIED_MAX)):
            served = tuple(sorted(option.at_ns for option in chosen if option.place is not None))
            choice = tuple(option.place for option in chosen)
            yield replace(part, choice=choice, served_ns=served)

    def _few_inside(self, options: Iterable[_Option]) -> Iterator[_Option]:
        """Of those in each span its end, and a few inside."""
        for _, of_span in groupby(options, key=lambda option: option.place):
            end, *inner = of_span
            few = [option for option in inner if option.at_ns not in self._always_ns]
            few = few[:_INNER_INSTANTS_MAX]
            yield end
            yield from (each for each in inner if each in few or each.at_ns in self._always_ns)

    def histories(self) -> list[History]:
        """The histories of the node in the run."""
        return list(self.settle(History(), HISTORIES_MAX))


def _options(
    wait: WaitWindow,
    wanted: list[Span],
    inner_ns: Iterable[int],
    inside_ns: Iterable[int],
    *,
    latest: bool,
    both_ends: bool,
) -> Iterator[_Option]:
    for place, (low_ns, high_ns) in enumerate(wait.spans):
        within = [
            (max(low_ns, since_ns), min(high_ns, until_ns - 1))
            for since_ns, until_ns in wanted
            # Of a token that only just does not miss the node the instant is told by so much too early.
            if since_ns <= high_ns + TIE_NS and low_ns < until_ns
        ]
        if not within:
            continue
        low_ns = within[0][0]
        high_ns = max(low_ns, within[-1][1])
        ends_ns: Sequence[int] = (high_ns, low_ns) if latest else (low_ns, high_ns)
        ends_ns = ends_ns if both_ends and low_ns < high_ns else ends_ns[:1]
        yield from (_Option(place, at_ns) for at_ns in ends_ns)
        just_before_ns = range(low_ns - SERVED_AFTER_NS, low_ns)
        yield from (_Option(place, at_ns) for at_ns in inside_ns if at_ns in just_before_ns)
        for at_ns in sorted(at for at in inner_ns if low_ns <= at <= high_ns and at not in ends_ns):
            yield _Option(place, at_ns)
    if not wait.certain:
        yield _Option(None, 0)


def _combinations(options: list[list[_Option]], most: int) -> Iterator[tuple[_Option, ...]]:
    options = [choice or [_Option(None, 0)] for choice in options]
    if prod(map(len, options)) <= most:
        yield from product(*options)
        return
    for base in (0, -1):
        first = tuple(choice[base] for choice in options)
        for index, choice in enumerate(options):
            for option in choice:
                yield (*first[:index], option, *first[index + 1 :])
