"""Simulated time: a heap of callbacks and the only two ways in which time moves.

Rules of this file:

* Time is integer nanoseconds and never goes back.
* Equal instants are ordered by ``Priority``, then by a running counter, so that neither hash order
  nor memory addresses can decide a tie.
* The horizon is inclusive.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from enum import IntEnum
from operator import itemgetter

import msgspec


class Priority(IntEnum):
    """Order of things that happen at one instant."""

    EVICTION_TIMER = 0  # a timer that is due fires, also when its taint goes at that very instant
    OUTSIDE = 1  # people, kubelets: the scenario's events, in file order
    NODE_ITEM = 2  # the taint manager's node work queue: several writes, one item
    EVICTION_PASS = 3
    MONITOR_TICK = 4
    POD_GC = 5


class ScheduledCall(msgspec.Struct, eq=False):
    """A handle on a scheduled callback; ``cancel`` is lazy and idempotent."""

    at_ns: int
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        """Forget the callback; the heap entry is skipped when its time comes."""
        self.callback = None


class EventQueue(msgspec.Struct, eq=False):
    """A clock that jumps from event to event."""

    now_ns: int
    _heap: list[tuple[int, int, int, ScheduledCall]] = []
    _counter: int = 0

    def schedule(
        self, at_ns: int, priority: Priority, callback: Callable[[], None]
    ) -> ScheduledCall:
        """Run ``callback`` at ``at_ns`` (not in the past) and return a handle to cancel it."""
        assert at_ns >= self.now_ns, f"scheduled in the past: {at_ns} < {self.now_ns}"
        call = ScheduledCall(at_ns, callback)
        self._counter += 1
        heapq.heappush(self._heap, (at_ns, int(priority), self._counter, call))
        return call

    def schedule_once(
        self,
        call: ScheduledCall | None,
        at_ns: int,
        priority: Priority,
        callback: Callable[[], None],
    ) -> ScheduledCall:
        """Schedule in place of ``call``, unless that still waits and comes as early."""
        if call is not None and call.callback is not None:
            if call.at_ns <= at_ns:
                return call
            call.cancel()
        return self.schedule(at_ns, priority, callback)

    def next_ns(self, besides: Collection[ScheduledCall | None]) -> int | None:
        """When the next call comes, ``besides`` these; None where there is none."""
        waiting = (each for each in self._heap if each[3].callback is not None)
        return min((each[0] for each in waiting if each[3] not in besides), default=None)

    def run_until(self, horizon_ns: int) -> bool:
        """Run everything up to and including ``horizon_ns``; True when something is left over."""
        heap = self._heap
        while heap:
            at_ns, _, _, call = heap[0]
            callback = call.callback
            if callback is not None and at_ns > horizon_ns:
                return True
            heapq.heappop(heap)
            if callback is not None:
                self.now_ns = at_ns
                call.callback = None
                callback()
        return False

    def let_go(self) -> None:
        """Cancel what is left over: nothing more is run."""
        for *_, call in self._heap:
            call.cancel()
        self._heap.clear()


# Where a loop runs that does not take as long every time: a run, and how far apart the runs from it on are; each run
# at which that changes is named.
Course = tuple[tuple[int, int], ...]


class LoopGrid(msgspec.Struct):
    """The instants of one ``wait.Until`` loop, in nanoseconds.

    Upstream measures the period from the end of a run, so with a cost ``d`` the k-th run starts at
    ``first + k * (period + d)``; where runs cost now more, now less, the step changes (``later``). A loop that
    has been running for long (``unbounded``) has no first run that matters: its grid reaches into the past.
    """

    first_ns: int
    step_ns: int
    unbounded: bool
    # Runs from which on the step is another one, in order, each with that step.
    later: Course = ()

    @classmethod
    def of_course(cls, course: Course, origin_ns: int = 0, *, unbounded: bool) -> LoopGrid:
        """The grid of a course that counts from ``origin_ns``."""
        (first_ns, step_ns), *later = [(origin_ns + at_ns, step_ns) for at_ns, step_ns in course]
        return cls(first_ns, step_ns, unbounded, tuple(later))

    def _stretch(self, at_ns: int) -> tuple[int, int]:
        """A run, and the step from it on: the newest change of steps at or before ``at_ns``."""
        place = bisect_right(self.later, at_ns, key=itemgetter(0))
        return self.later[place - 1] if place else (self.first_ns, self.step_ns)

    def at_or_after(self, at_ns: int) -> int:
        """First run at or after ``at_ns``."""
        if at_ns <= self.first_ns and not self.unbounded:
            return self.first_ns
        run_ns, step_ns = self._stretch(at_ns) if self.later else (self.first_ns, self.step_ns)
        return run_ns - (run_ns - at_ns) // step_ns * step_ns

    def after(self, at_ns: int) -> int:
        """First run strictly after ``at_ns``."""
        return self.at_or_after(at_ns + 1)

    def between(self, low_ns: int, high_ns: int) -> Iterator[int]:
        """Runs from ``low_ns`` to ``high_ns``, both included."""
        run_ns, until_ns = self.at_or_after(low_ns), high_ns + 1
        place = bisect_right(self.later, run_ns, key=itemgetter(0))
        while run_ns < until_ns:
            step_ns = self.later[place - 1][1] if place else self.step_ns
            changes_ns = self.later[place][0] if place < len(self.later) else until_ns
            yield from range(run_ns, min(changes_ns, until_ns), step_ns)
            run_ns, place = changes_ns, place + 1

    def before(self, at_ns: int) -> int | None:
        """Last run strictly before ``at_ns``; None when the loop had not started."""
        begun_ns, step_ns = self._stretch(at_ns - 1)
        run_ns = begun_ns + (at_ns - 1 - begun_ns) // step_ns * step_ns
        return run_ns if self.unbounded or run_ns >= self.first_ns else None

    def newest(self, at_ns: int) -> int:
        """Last run strictly before ``at_ns``; the first one when there is none."""
        run_ns = self.before(at_ns)
        return self.first_ns if run_ns is None else run_ns
