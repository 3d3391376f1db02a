"""``RateLimitedTimedQueue``: the line of nodes waiting to be tainted (or evicted) in one zone.

Upstream: pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go (spec node-lifecycle 7).
Rules of this file:

* A name stays in ``known`` after it was processed, so that a plain ``add`` is refused until
  ``remove``: membership outlives the heap entry.
* ``try_pass`` takes the token *before* it looks at the head; a token is spent on every outcome.
* In mode REMOVE_ADD every waiting node is taken out and re-inserted on every monitor tick. Doing
  that literally would cost (waiting nodes x ticks); here such an entry is *refreshed*: it counts as
  inserted at the latest tick, in the order of node names. Entries that no tick re-inserts
  any more (a deleted node, a node that moved to another zone) are ``retire``d: they keep the instant of
  the last tick that did, and so come first.
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


class RateLimitedTimedQueue:
    """The queue and token bucket of one zone."""

    __slots__ = ("_entries", "_fixed", "_refreshed", "_serial", "known", "limiter")

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter: RateLimiter = limiter
        self.known: set[str] = set()
        # (ProcessAt, serial, name) of entries that stay as they were inserted.
        self._fixed: list[tuple[int, int, str]] = []
        # (name, serial) of refreshed entries: a tick walks the nodes in sorted order.
        self._refreshed: list[tuple[str, int]] = []
        # Live entries by name, oldest first; more than one only in mode SETREMOVE.
        self._entries: dict[str, list[int]] = {}
        self._serial = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, name: str, at_ns: int, *, refreshed: bool) -> bool:
        """``Add``: False when the name is known. ``refreshed`` marks a REMOVE_ADD entry."""
        if name in self.known:
            return False
        self.known.add(name)
        self._push(name, None if refreshed else at_ns)
        return True

    def _push(self, name: str, at_ns: int | None) -> None:
        self._serial += 1
        self._entries.setdefault(name, []).append(self._serial)
        if at_ns is None:
            heapq.heappush(self._refreshed, (name, self._serial))
        else:
            heapq.heappush(self._fixed, (at_ns, self._serial, name))

    def remove(self, name: str) -> bool:
        """``Remove``: forget the name and its first heap entry; False when it was not known."""
        if name not in self.known:
            return False
        self.known.discard(name)
        self._drop_first(name)
        return True

    def set_remove(self, name: str) -> None:
        """Forget the name but leave its heap entries (the 1.19/1.20 regression, spec 8.3)."""
        self.known.discard(name)

    def retire(self, name: str, last_tick_ns: int) -> None:
        """Stop refreshing: the entry keeps the instant of the last tick that re-inserted it."""
        entries = self._entries.get(name, ())
        if any((name, serial) in self._refreshed for serial in entries):
            self._drop_first(name)
            self._push(name, last_tick_ns)

    def _drop_first(self, name: str) -> None:
        entries = self._entries.get(name)
        if entries:
            entries.pop(0)
            if not entries:
                del self._entries[name]

    def head(self, latest_tick_ns: int) -> str | None:
        """The name that would be served next; refreshed entries date from ``latest_tick_ns``."""
        fixed, refreshed = self._fixed, self._refreshed
        while fixed and fixed[0][1] not in self._entries.get(fixed[0][2], ()):
            heapq.heappop(fixed)
        while refreshed and refreshed[0][1] not in self._entries.get(refreshed[0][0], ()):
            heapq.heappop(refreshed)
        if not fixed or not refreshed:
            return fixed[0][2] if fixed else refreshed[0][0] if refreshed else None
        fixed_first = (fixed[0][0], fixed[0][2]) < (latest_tick_ns, refreshed[0][0])
        return fixed[0][2] if fixed_first else refreshed[0][0]

    def try_pass(self, now_ns: int, latest_tick_ns: int, process: Callable[[str], None]) -> bool:
        """``Try``: serve heads while the limiter accepts. True when a head was served.

        ``process`` always finishes the item ("done"): the outcomes that upstream retries (lister
        errors, failed patches) do not occur against the in-memory API server.
        """
        served = False
        name = self.head(latest_tick_ns)
        while name is not None and self.limiter.try_accept(now_ns):
            process(name)
            served = True
            self._remove_from_queue(name)
            name = self.head(latest_tick_ns)
        return served

    def _remove_from_queue(self, name: str) -> None:
        # Returns early when the name is not known: the orphaned entry of spec 8.3 (b) stays.
        if name in self.known:
            self._drop_first(name)

    def swap_limiter(self, new_qps: float, now_ns: int) -> None:
        """``SwapLimiter``: one bit of carry-over, and nothing at all when the rate is equal."""
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
