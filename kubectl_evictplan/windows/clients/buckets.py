"""How long what goes through a client's bucket of tokens can wait: arrivals against what the bucket lets through.

A bucket of ``burst`` tokens gets ``qps`` a second, and serves requests in the order in which they are made. So the n-th request
since it was full goes (n - burst) / qps seconds after that, or at once. How many can have been made follows from how many tasks
can have come: a task is a chain of requests, each made when the one before it is through, and some beside that nobody waits
for (events), of which only few can be in line at once.

Two bounds hold, and the lower one is told:

* All requests that tasks can bring were made.
* While more than m tasks wait, at most ``others`` requests that nobody waits for come between m + 1 of theirs: tasks get all
  tokens but that share, whatever else there is. The burst may be gone for other things then.

Who comes while the first of a chain waits makes two requests before its third at the most, who comes while the second one waits
makes one: all are served in their order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

import msgspec

from kubectl_evictplan.controllers.client_limits import ClientLimit

# How many tasks wait, in the second bound.
_WAITING = (0, 3, 12, 48)
# Of more arrivals than these neighbours are one.
_ARRIVALS_MAX = 16
# ... and of more than these any two.
_LOOKED_AT_MAX = 128


class Arrivals(msgspec.Struct, frozen=True):
    """Tasks that come within a stretch of seconds: ``at_once`` at any instant of it, and more at a ``rate`` before and after.

    They are ``most`` in all. ``others``: requests beside them that no task makes and nobody waits for.
    """

    low: float
    high: float
    at_once: int
    rate: float = 0.0
    most: float = inf
    others: int = 0

    def within(self, since: float, until: float) -> float:
        """How many tasks can come in a stretch of time, both ends included."""
        if until < self.low or since > self.high:
            return 0
        if not self.rate:
            return self.at_once
        overlap = min(until, self.high) - max(since, self.low)
        return min(self.at_once + self.rate * overlap, self.most)

    @property
    def in_all(self) -> float:
        """How many tasks they are."""
        return self.most if self.rate else self.at_once

    @property
    def uncounted(self) -> Arrivals:
        """The same without ``most``: a line where that is far away, else all at once."""
        if not self.rate or self.most == inf:
            return self
        if self.most > (self.at_once + self.rate * (self.high - self.low)) / 2:
            return msgspec.structs.replace(self, most=inf)
        return msgspec.structs.replace(self, at_once=int(self.most), rate=0.0, most=inf)

    def in_requests(self, requests: int) -> Arrivals:
        """The same as requests, of which each task makes so many; those that no task makes are not among them."""
        return Arrivals(
            self.low, self.high, self.at_once * requests, self.rate * requests, self.most * requests
        )

    def with_other(self, other: Arrivals) -> Arrivals:
        """Both as one, at least as much at any time."""
        return Arrivals(
            min(self.low, other.low),
            max(self.high, other.high),
            self.at_once + other.at_once,
            self.rate + other.rate,
            self.in_all + other.in_all,
            self.others + other.others,
        )


class Bucket(msgspec.Struct, frozen=True):
    """A client's: each task makes a ``chain`` of requests, and ``beside`` as many that it does not wait for.

    ``others``: how many that no task waits for can be in line at once. None: tasks are done one after the other, and a task is
    a chain of 1, with all of its other requests ``beside``.
    """

    limit: ClientLimit
    chain: int
    beside: int = 0
    others: int | None = 0

    def is_ample(self, arrivals: Iterable[Arrivals]) -> bool:
        """Whether all of these never find it empty."""
        made = sum(one.in_all * (self.chain + self.beside) + one.others for one in arrivals)
        return made <= self.limit.burst

    def waits(self, arrivals: Iterable[Arrivals]) -> Waits:
        """How much later than without limits tasks are done, by the instant at which they come."""
        every = few(sorted(arrivals, key=lambda one: (one.low, one.high)))
        # What comes faster than it is let through waits longest somewhere in between, where ``most`` of them have come.
        if sum(one.rate for one in every) * (self.chain + self.beside) >= self.limit.qps:
            every = [one.uncounted for one in every]
        instants = sorted({at for one in every for at in (one.low, one.high)})
        longest = [self._wait(every, instants[:place], at) for place, at in enumerate(instants, 1)]
        return Waits(instants, longest)

    def _wait(self, every: Sequence[Arrivals], begins: Sequence[float], at: float) -> float:
        """Of a task that comes at that instant, the last of the ``begins`` of what can come before it."""
        counted = max(self._where_counted(every, since, at) for since in begins)
        if counted <= 0 or self.others is None:
            return max(counted, 0.0)
        of_others = self.others
        shared = min(
            max(self._where_shared(every, since, at, waiting, of_others) for since in begins)
            for waiting in _WAITING
        )
        return min(counted, shared)

    def _where_counted(self, every: Sequence[Arrivals], since: float, at: float) -> float:
        """The first bound, where the bucket was full last at ``since``."""
        tasks = within(every, since, at)
        others = sum(one.others for one in every if one.low <= at and one.high >= since)
        served = self.limit.burst + self.limit.qps * (at - since)
        made = tasks * (self.chain + self.beside) + others - served
        return self._through(every, since, at, made, self.beside, 0)

    def _where_shared(
        self, every: Sequence[Arrivals], since: float, at: float, waiting: int, others: int
    ) -> float:
        """The second bound, where no more tasks than ``waiting`` were under way last at ``since``."""
        share = (waiting + 1) / (waiting + 1 + others)
        tasks = within(every, since, at) + waiting
        made = tasks * self.chain - self.limit.qps * share * (at - since)
        return self._through(every, since, at, made, 0, others)

    def _through(
        self,
        every: Sequence[Arrivals],
        since: float,
        at: float,
        made: float,
        beside: int,
        others: int,
    ) -> float:
        """When the last of a chain is through, where so many are ``made`` or will be by all who came until ``at``.

        So many ``others`` are in line before each.
        """
        before, later = within(every, since, at), 0.0
        through = made + others
        for number in range(1, self.chain):
            if through <= 0:
                break
            came = within(every, since, at + through / self.limit.qps) - before
            later += came
            through = made + (number + 1) * others + beside * came + later
        return max(through, 0.0) / self.limit.qps


class Waits:
    """The longest waits of tasks that come at some instants; in between none is longer than at the nearest two."""

    def __init__(self, instants: Sequence[float], longest: Sequence[float]) -> None:
        self._instants, self._longest = instants, longest

    @property
    def any(self) -> bool:
        """Whether any task waits."""
        return any(self._longest)

    def longest(self, low: float, high: float) -> float:
        """Of a task that comes within these ends."""
        # Several may come at one instant.
        first = max(min(bisect_left(self._instants, low), bisect_right(self._instants, low) - 1), 0)
        last = max(bisect_left(self._instants, high) + 1, bisect_right(self._instants, high))
        return max(self._longest[first:last], default=0.0)


def line(low: float, high: float, tasks: int, at_once: int, rate: float) -> Arrivals:
    """So many tasks that come lot by lot: ``at_once`` is the largest lot, and ``rate`` of them a second follow at most."""
    if tasks <= at_once:
        return Arrivals(low, high, tasks)
    return Arrivals(low, high, at_once, at_once * rate, tasks)


def within(every: Iterable[Arrivals], since: float, until: float) -> float:
    """How many tasks of all these can come in a stretch of time."""
    return sum(one.within(since, until) for one in every)


def few(every: list[Arrivals]) -> list[Arrivals]:
    """The same as few enough arrivals: neighbours are one that take the shortest stretch together."""
    while len(every) > _LOOKED_AT_MAX:
        last = every[-1:] if len(every) % 2 else []
        every = [
            one.with_other(next_one) for one, next_one in zip(every[::2], every[1::2], strict=False)
        ] + last
    while len(every) > _ARRIVALS_MAX:
        together = [one.with_other(other) for one, other in pairwise(every)]
        place = min(
            range(len(together)), key=lambda place: together[place].high - together[place].low
        )
        every[place : place + 2] = [together[place]]
    return every
