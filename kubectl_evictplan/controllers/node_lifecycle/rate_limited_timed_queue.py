"""``RateLimitedTimedQueue``: the line of nodes waiting to be tainted (or evicted) in one zone.

Upstream: pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go. Rules of this file:

* A name stays in ``known`` after it was processed, so that a plain ``add`` is refused until
  ``remove``: membership outlives the heap entry.
* ``try_pass`` takes the token *before* it looks at the head; a token is spent on every outcome.
* Where every monitor tick takes a waiting node out and inserts it again (``refreshed``), doing that
  literally would cost (waiting nodes x ticks). Such an entry counts as inserted at the latest tick, in
  the order of node names. Once ticks stop inserting it (the node is deleted, moves to another zone, is
  skipped), it is ``retire``d: it keeps the instant of the last tick that did, and so comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    NeverRateLimiter,
    RateLimiter,
    TokenBucketRateLimiter,
    float32,
)
from kubectl_evictplan.controllers.node_lifecycle.timed_queue import TimedQueue

# ``ActionFunc``: None when the item is done, else how long to wait before it is tried again.
ActionFunc = Callable[[str], int | None]


class RateLimitedTimedQueue:
    """The queue and token bucket of one zone."""

    __slots__ = ("_entries", "_refreshed", "_refreshed_names", "known", "limiter")

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter: RateLimiter = limiter
        self.known: set[str] = set()
        self._entries = TimedQueue()
        # Refreshed entries, and a heap of their names in which names that are gone may linger.
        self._refreshed: set[str] = set()
        self._refreshed_names: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._entries or self._refreshed)

    def add(self, name: str, at_ns: int, *, refreshed: bool) -> bool:
        """``Add``: False when the name is known. ``refreshed``: every tick inserts it again."""
        if name in self.known:
            return False
        self.known.add(name)
        if refreshed:
            self._refreshed.add(name)
            heapq.heappush(self._refreshed_names, name)
        else:
            self._entries.push(at_ns, name)
        return True

    def remove(self, name: str) -> bool:
        """``Remove``: forget the name and its first heap entry; False when it was not known."""
        if name not in self.known:
            return False
        self.known.discard(name)
        self._drop_first(name)
        return True

    def set_remove(self, name: str) -> None:
        """``SetRemove`` (1.19.0-8, 1.20.0-4): forget the name but leave its heap entries."""
        self.known.discard(name)

    def retire(self, name: str, last_tick_ns: int) -> bool:
        """No tick inserts the name any more; False when none did before."""
        if name not in self._refreshed:
            return False
        self._refreshed.discard(name)
        self._entries.push(last_tick_ns, name)
        return True

    def _drop_first(self, name: str) -> bool:
        if name in self._refreshed:
            self._refreshed.discard(name)
            return True
        return self._entries.remove_first(name)

    def head(self, latest_tick_ns: int) -> tuple[int, str] | None:
        """ProcessAt and name of the next one; refreshed entries date from ``latest_tick_ns``."""
        names = self._refreshed_names
        while names and names[0] not in self._refreshed:
            heapq.heappop(names)
        if not names:
            return self._entries.head() if self._entries else None
        refreshed = (latest_tick_ns, names[0])
        return min(self._entries.head(), refreshed) if self._entries else refreshed

    def try_pass(self, now_ns: int, latest_tick_ns: int, process: ActionFunc) -> None:
        """``Try``: hand over heads while the limiter accepts."""
        head = self.head(latest_tick_ns)
        while head is not None and self.limiter.try_accept(now_ns):
            process_at_ns, name = head
            if now_ns < process_at_ns:
                return  # the token is lost
            wait_ns = process(name)
            if wait_ns is None:
                self._remove_from_queue(name)
            elif self._drop_first(name):
                self._entries.push(now_ns + wait_ns + 1, name)
            if self.head(latest_tick_ns) == head:
                return  # an orphaned entry; upstream would hand it over for ever if tokens lasted
            head = self.head(latest_tick_ns)

    def _remove_from_queue(self, name: str) -> None:
        # Returns early when the name is not known: entries that SetRemove orphaned stay for ever.
        if name in self.known:
            self._drop_first(name)

    def swap_limiter(self, new_qps: float, now_ns: int) -> None:
        """``SwapLimiter``: nothing when the rate is equal; else a new bucket.

        The new bucket is full if the old one has a whole token now, and empty if not.
        """
        new_qps = float32(new_qps)
        if self.limiter.qps == new_qps:
            return
        if new_qps <= 0:
            self.limiter = NeverRateLimiter()
            return
        replacement = TokenBucketRateLimiter(new_qps)
        if not self.limiter.try_accept(now_ns):
            replacement.try_accept(now_ns)
        self.limiter = replacement


def mark_for_tainting(
    queue: RateLimitedTimedQueue,
    mode: str,
    name: str,
    now_ns: int,
    last_tick_ns: int,
    *,
    lacks_taint: bool,
) -> bool:
    """``markNodeForTainting`` in a release's ``queue_mode``; False when the name is known already.

    ``lacks_taint``: the node does not carry the taint that its Ready condition asks for.
    """
    if not lacks_taint:
        queue.retire(name, last_tick_ns)
    elif mode == "REMOVE_ADD":
        queue.remove(name)
    elif mode == "SETREMOVE":
        queue.set_remove(name)
    return queue.add(name, now_ns, refreshed=mode == "REMOVE_ADD" and lacks_taint)
