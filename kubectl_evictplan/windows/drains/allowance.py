"""When the n-th of the pods of one node that ask one budget is evicted, at the earliest and at the latest.

All instants count from when kubectl begins with the node. A budget has *disruptions*: so many healthy pods more than it
wants. An eviction takes one, and brings it back when its replacement is Ready (``Allowance.recovery``).

* Before the n-th of them has come nobody can be the n-th who is evicted; and that happens in a try of kubectl.
* When it has come and only n-1 are evicted, the budget is open, and whoever tries first is let through.

Tries come in the rhythm of kubectl: an answer, a sleep and a GET after the one before. A write of the budget
can hold a request up once, so writes bound how much later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kubectl_evictplan.cluster.eviction_api import MEETS_NS
from kubectl_evictplan.engine.drain_timing import Latency, range_ns
from kubectl_evictplan.windows.drains.delays import (
    ARRIVAL,
    CONFLICT,
    GRANTED,
    REFUSED,
    RETRY,
    Range,
    plus,
)
from kubectl_evictplan.windows.spans import Span

_EVER_NS = -(1 << 62)
# So late that it stays so whatever is added or taken away.
_NEVER_NS = 1 << 62
# The latest instant of a disruption that perhaps never comes.
PERHAPS_NEVER_NS = 1 << 63
# Beyond so many tries in a row they are told as one stretch.
_TRIES_MAX = 8
_SYNC_MAX_NS = range_ns(Latency.SYNC_BUDGET)[1]


class Allowance(NamedTuple):
    """What a budget has to give when a turn begins.

    ``spare`` are the disruptions that are there (below 0: so many must come before one is to be had), ``coming`` when others come
    back. ``recovery`` is from an eviction to the return of its disruption, None: it never does; nor does any after so many
    ``recoveries``: there is no room for more replacements. ``stirs``: writes of its
    status that come at any time because of something else. ``counts_pods``: the status changes with every pod that is made or gone, not only with those that are Ready.
    ``one_at_a_time``: there is never more than one disruption.
    """

    spare: int
    coming: tuple[Range, ...]
    recovery: Range | None
    recoveries: int
    stirs: int
    counts_pods: bool
    one_at_a_time: bool = False


class NthEviction(NamedTuple):
    """``spans`` are its windows; ``certain``: kubectl does not give up before.

    ``held_up``: it may be one that was refused before; ``refused_first``: it surely is.
    """

    spans: tuple[Span, ...]
    certain: bool
    held_up: bool
    refused_first: bool

    @property
    def within(self) -> Range:
        """From the earliest to the latest instant."""
        return self.spans[0][0], self.spans[-1][1]


def evictions_in_turn(allowance: Allowance, pods: int, timeout_ns: int) -> list[NthEviction] | None:
    """Return the n-th eviction of so many pods; fewer where the disruptions for more never come, None where perhaps.

    ``timeout_ns`` 0: kubectl does not give up.
    """
    found: list[NthEviction] = []
    for nth in range(pods):
        disruption = _disruption(allowance, found, nth)
        if disruption is None:
            break
        if disruption[1] > _NEVER_NS:
            if timeout_ns and disruption[0] > timeout_ns:
                break
            return None
        one = _eviction(disruption, _Tries(allowance, found), timeout_ns)
        if one is None:
            break
        found.append(one)
    return found


def _disruption(allowance: Allowance, before: Sequence[NthEviction], nth: int) -> Range | None:
    """When the budget has had one disruption more than ``nth``."""
    there = [(_EVER_NS, _EVER_NS)] * max(allowance.spare, 0)
    back: list[Range] = []
    if allowance.recovery is not None:
        recovering = before[: allowance.recoveries]
        back = [plus(one.within, allowance.recovery) for one in recovering]
    every = [*there, *allowance.coming, *back]
    place = nth + max(-allowance.spare, 0)
    if place >= len(every):
        return None
    return sorted(low for low, _ in every)[place], sorted(high for _, high in every)[place]


def _eviction(disruption: Range, tries: _Tries, timeout_ns: int) -> NthEviction | None:
    first, last = tries.around(disruption)
    certain = not timeout_ns or tries.start(last)[1] < timeout_ns
    starts = tries.from_to(first, last)
    if timeout_ns:
        # What is asked in time may be held up beyond.
        limit_ns = timeout_ns + tries.held_up_ns(last)
        starts = [(low, min(high, limit_ns)) for low, high in starts if low < timeout_ns]
    # The request itself may be on its way when the disruption comes.
    asked = [(max(low, disruption[0]), max(high, disruption[0])) for low, high in starts]
    if not asked or asked[0][0] > asked[-1][1]:
        return None
    refused_first = disruption[0] > tries.start(0)[1] + REFUSED[1]
    spans = tuple(plus(one, GRANTED) for one in asked)
    return NthEviction(spans, certain, disruption[1] > 0, refused_first)


def gives_up(allowance: Allowance, found: Sequence[NthEviction], timeout_ns: int) -> Range:
    """From when to when kubectl stops asking, if some pod is refused to the end: at its next try."""
    tries = _Tries(allowance, found)
    first, last = tries.around((timeout_ns, timeout_ns))
    return max(timeout_ns, tries.start(first)[0]), tries.start(last)[1]


class _Tries:
    """The tries of whoever is still waiting for the n-th eviction."""

    def __init__(self, allowance: Allowance, before: Sequence[NthEviction]) -> None:
        # Those of the budget that a request can lose to.
        written = _writes_while_open if allowance.one_at_a_time else _writes
        self._writes = sorted(written(allowance, before))

    def start(self, number: int) -> Range:
        """From when to when a try may begin, or begin anew after conflicts."""
        low_ns, high_ns = self._undisturbed(number)
        conflicts = 0
        while True:
            held_up_ns = high_ns + conflicts * CONFLICT[1]
            more = sum(1 for at_ns in self._writes if at_ns <= held_up_ns + REFUSED[1])
            if more <= conflicts:
                return low_ns, held_up_ns
            conflicts = more

    def _undisturbed(self, number: int) -> Range:
        return ARRIVAL[0] + number * RETRY[0], ARRIVAL[1] + number * RETRY[1]

    def held_up_ns(self, number: int) -> int:
        """How much later than by itself a try may be, because of conflicts."""
        return self.start(number)[1] - self._undisturbed(number)[1]

    def from_to(self, first: int, last: int) -> list[Range]:
        """Each of these tries; of many in a row one stretch."""
        if last - first > _TRIES_MAX:
            return [(self.start(first)[0], self.start(last)[1])]
        return [self.start(number) for number in range(first, last + 1)]

    def around(self, disruption: Range) -> Range:
        """The first try that can meet the disruption, and the first that surely does."""
        number = max(0, (disruption[0] - self._undisturbed(0)[1]) // RETRY[1] - 1)
        number = max(0, number - (len(self._writes) * CONFLICT[1]) // RETRY[0])
        while self.start(number)[1] + REFUSED[1] < disruption[0]:
            number += 1
        last = max(number, 0)
        while self._undisturbed(last)[0] < disruption[1]:
            last += 1
        return number, last


def _writes(allowance: Allowance, before: Sequence[NthEviction]) -> Iterator[int]:
    """The earliest instants of writes that requests of the turn can meet."""
    yield from (_EVER_NS,) * allowance.stirs
    for low_ns, high_ns in allowance.coming:
        if high_ns + MEETS_NS >= 0:
            yield low_ns - _SYNC_MAX_NS
        if allowance.counts_pods:
            # Its old object may end, and its new one appear, at any time.
            yield from (_EVER_NS, _EVER_NS)
    for one in before:
        low_ns, _ = one.within
        # The eviction itself and the sync that sees it are closer than two tries of one request.
        yield low_ns - GRANTED[1]
        if allowance.counts_pods:
            yield from (low_ns, low_ns)
        if allowance.recovery is not None:
            yield low_ns + allowance.recovery[0]


def _writes_while_open(allowance: Allowance, before: Sequence[NthEviction]) -> Iterator[int]:
    """Those of a budget that an eviction closes until another pod is Ready: who finds it closed writes nothing."""
    yield from (_EVER_NS,) * allowance.stirs
    if allowance.counts_pods:
        # Old objects may end then.
        yield from (_EVER_NS,) * len(allowance.coming)
    for one in before:
        low_ns, _ = one.within
        yield low_ns - GRANTED[1]
        if allowance.counts_pods:
            yield low_ns
