"""Simulated time: a heap of callbacks and the only two ways in which time moves.

Rules of this file:

* Time is integer nanoseconds and never goes back.
* Equal instants are ordered by ``Priority``, then by a running counter, so that neither hash order
  nor memory addresses can decide a tie.
* The horizon is inclusive.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import IntEnum


class Priority(IntEnum):
    """Order of things that happen at one instant."""

    EVICTION_TIMER = 0  # a timer that is due fires, also when its taint goes at that very instant
    OUTSIDE = 1  # people, kubelets: the scenario's events, in file order
    NODE_ITEM = 2  # the taint manager's node work queue: several writes, one item
    EVICTION_PASS = 3
    MONITOR_TICK = 4
    POD_GC = 5


class ScheduledCall:
    """A handle on a scheduled callback; ``cancel`` is lazy and idempotent."""

    __slots__ = ("at_ns", "callback")

    def __init__(self, at_ns: int, callback: Callable[[], None]) -> None:
        self.at_ns = at_ns
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Forget the callback; the heap entry is skipped when its time comes."""
        self.callback = None


class EventQueue:
    """A clock that jumps from event to event."""

    __slots__ = ("_counter", "_heap", "now_ns")

    def __init__(self, start_ns: int) -> None:
        self.now_ns = start_ns
        self._heap: list[tuple[int, int, int, ScheduledCall]] = []
        self._counter = 0

    def schedule(
        self, at_ns: int, priority: Priority, callback: Callable[[], None]
    ) -> ScheduledCall:
        """Run ``callback`` at ``at_ns`` (not in the past) and return a handle to cancel it."""
        assert at_ns >= self.now_ns, f"scheduled in the past: {at_ns} < {self.now_ns}"
        call = ScheduledCall(at_ns, callback)
        self._counter += 1
        heapq.heappush(self._heap, (at_ns, int(priority), self._counter, call))
        return call

    def step(self) -> bool:
        """Run the next live callback; False when there is none."""
        while self._heap:
            at_ns, _, _, call = heapq.heappop(self._heap)
            callback = call.callback
            if callback is None:
                continue
            assert at_ns >= self.now_ns, "time went backwards"
            self.now_ns = at_ns
            call.callback = None
            callback()
            return True
        return False

    def run_until(self, horizon_ns: int) -> bool:
        """Run everything up to and including ``horizon_ns``; True when something is left over."""
        heap = self._heap
        while heap:
            if heap[0][3].callback is None:
                heapq.heappop(heap)
            elif heap[0][0] <= horizon_ns:
                self.step()
            else:
                return True
        return False
