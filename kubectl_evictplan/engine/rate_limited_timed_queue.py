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

from kubectl_evictplan.engine.flowcontrol import (
    NeverRateLimiter,
    RateLimiter,
    TokenBucketRateLimiter,
    float32,
)

# (0, ProcessAt, "") for entries with a fixed ProcessAt (equal ones by insertion), (1, 0, name) for
# refreshed ones: a tick walks the nodes in sorted order.
_Key = tuple[int, int, str]


class RateLimitedTimedQueue:
    """The queue and token bucket of one zone."""

    __slots__ = ("_entries", "_heap", "_serial", "known", "limiter")

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter: RateLimiter = limiter
        self.known: set[str] = set()
        self._heap: list[tuple[_Key, int, str]] = []
        # Live entries by serial number; a name has more than one only in mode SETREMOVE.
        self._entries: dict[str, list[tuple[_Key, int]]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._entries.values())

    def __bool__(self) -> bool:
        return bool(self._entries)

    def waiting(self) -> list[str]:
        """Names with a heap entry, in the order in which they would be served."""
        ordered = sorted(
            (key, name) for name, entries in self._entries.items() for key, _ in entries
        )
        return [name for _, name in ordered]

    def add(self, name: str, at_ns: int, *, refreshed: bool) -> bool:
        """``Add``: False when the name is known. ``refreshed`` marks a REMOVE_ADD entry."""
        if name in self.known:
            return False
        self.known.add(name)
        self._push(name, (1, 0, name) if refreshed else (0, at_ns, ""))
        return True

    def _push(self, name: str, key: _Key) -> None:
        self._serial += 1
        self._entries.setdefault(name, []).append((key, self._serial))
        heapq.heappush(self._heap, (key, self._serial, name))

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
        entries = self._entries.get(name)
        if entries and entries[0][0][0] == 1:
            self._drop_first(name)
            self._push(name, (0, last_tick_ns, name))

    def _drop_first(self, name: str) -> None:
        entries = self._entries.get(name)
        if entries:
            entries.pop(0)
            if not entries:
                del self._entries[name]

    def head(self) -> str | None:
        """The name that would be served next."""
        heap = self._heap
        while heap:
            _, serial, name = heap[0]
            if any(serial == live for _, live in self._entries.get(name, ())):
                return name
            heapq.heappop(heap)
        return None

    def try_pass(self, now_ns: int, process: Callable[[str], None]) -> bool:
        """``Try``: serve heads while the limiter accepts. True when a head was served.

        ``process`` always finishes the item ("done"): the outcomes that upstream retries (lister
        errors, failed patches) do not occur against the in-memory API server.
        """
        served = False
        name = self.head()
        while name is not None and self.limiter.try_accept(now_ns):
            process(name)
            served = True
            self._remove_from_queue(name)
            name = self.head()
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
