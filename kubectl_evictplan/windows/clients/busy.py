"""Until when a client is busy: what is asked of it one request after the other is done by then, however many requests that are.

A client is busy from the last instant at which its bucket was full until it has let through what was asked for since. What a tick or a
pass asks for is counted among that. So whoever begins at an instant is through when the client is that was busy then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from kubectl_evictplan.controllers.client_limits import ClientLimit
from kubectl_evictplan.windows.clients.buckets import Arrivals, few, within

# So often an end is found to be later; what goes on for longer takes until all requests are through.
_ROUNDS_MAX = 40
# Two ends are the same.
_CLOSE = 1e-6


class BusyClient:
    """One for which requests (``at_once``, of no tasks) come as these arrivals say."""

    def __init__(self, limit: ClientLimit, arrivals: Iterable[Arrivals]) -> None:
        self._limit = limit
        every = few(sorted(arrivals, key=lambda one: (one.low, one.high)))
        self._every: Sequence[Arrivals] = every
        self._instants = sorted({at for one in every for at in (one.low, one.high)})
        self.requests = sum(one.in_all for one in every)
        self._known: dict[float, float] = {}

    @property
    def never_waits(self) -> bool:
        """Whether all that there is goes through at once."""
        return self.requests <= self._limit.burst

    @property
    def longest(self) -> float:
        """The longest that anybody has to do with it."""
        if not self._instants:
            return 0.0
        return self.within(self._instants[0], self._instants[-1])

    def within(self, low: float, high: float) -> float:
        """How long whoever begins in that stretch takes at most."""
        return max(map(self._takes, self._met(low, high)), default=0.0)

    def after(self, low: float, high: float) -> float:
        """How long after the stretch whoever begins in it is through at the latest."""
        ends = (at + self._takes(at) for at in self._met(low, high))
        return max(max(ends, default=high) - high, 0.0)

    def _met(self, low: float, high: float) -> Iterator[float]:
        """The instants that count: in between nobody takes longer."""
        if not self.never_waits:
            first, last = bisect_left(self._instants, low), bisect_right(self._instants, high)
            yield from (low, *self._instants[first:last], high)

    def _takes(self, at: float) -> float:
        found = self._known.get(at)
        if found is None:
            end = at
            # The later it was full last, the longer it mostly takes: by then all is through of what came since it was full before.
            for since in (at, *reversed(self._instants[: bisect_right(self._instants, at)])):
                if self._through(since, end) > end:
                    end = max(self._until(since, at), end)
            found = self._known[at] = end - at
        return found

    def _until(self, since: float, at: float) -> float:
        """Of one that begins at that instant, where the bucket was full last at ``since``."""
        end = at
        for _ in range(_ROUNDS_MAX):
            through = self._through(since, end)
            if through <= end + _CLOSE:
                return end
            end = through
        limit = self._limit
        return max(since + (self.requests - limit.burst) / limit.qps, end)

    def _through(self, since: float, end: float) -> float:
        """When all is through that comes until ``end``, where the bucket was full last at ``since``."""
        limit = self._limit
        return since + (within(self._every, since, end) - limit.burst) / limit.qps
