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
from collections.abc import Callable, Iterator, Sequence

import msgspec

from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    NeverRateLimiter,
    RateLimiter,
    TokenBucketRateLimiter,
    float32,
)
from kubectl_evictplan.controllers.releases import ReleaseProfile
from kubectl_evictplan.engine.event_queue import LoopGrid

# ``ActionFunc``: None when the item is done, else how long to wait before it is tried again.
ActionFunc = Callable[[str], int | None]


# (ProcessAt, name, serial). A tick walks the nodes by name, and its clock never shows one reading
# twice: entries of one instant are in the order of their names.
_Entry = tuple[int, str, int]


class TimedQueue(msgspec.Struct, eq=False):
    """Go's container/heap over entries (ProcessAt, name); a name may occur more than once.

    The array is the same as in Go, because which of several entries of one name is "the first" depends
    on it (``SetRemoveQueue``).
    """

    _entries: list[_Entry] = []
    _serial: int = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    def head(self) -> tuple[int, str]:
        """ProcessAt and name of the entry that is due first."""
        at_ns, name, _ = self._entries[0]
        return at_ns, name

    def due(self) -> Iterator[tuple[int, str]]:
        """ProcessAt and name of every entry, in no order."""
        return ((at_ns, name) for at_ns, name, _ in self._entries)

    def push(self, at_ns: int, name: str) -> None:
        """``heap.Push``."""
        self._serial += 1
        self._entries.append((at_ns, name, self._serial))
        self._up(len(self._entries) - 1)

    def remove_first(self, name: str) -> bool:
        """``heap.Remove`` of the entry of that name which comes first in the array."""
        for index, entry in enumerate(self._entries):
            if entry[1] == name:
                last = self._entries.pop()
                if index < len(self._entries):
                    self._entries[index] = last
                    if not self._down(index):
                        self._up(index)
                return True
        return False

    def _up(self, index: int) -> None:
        entries = self._entries
        while index and entries[index] < entries[(index - 1) // 2]:
            parent = (index - 1) // 2
            entries[index], entries[parent] = entries[parent], entries[index]
            index = parent

    def _down(self, start: int) -> bool:
        entries, index = self._entries, start
        while (child := 2 * index + 1) < len(entries):
            if child + 1 < len(entries) and entries[child + 1] < entries[child]:
                child += 1
            if not entries[child] < entries[index]:
                break
            entries[index], entries[child] = entries[child], entries[index]
            index = child
        return index > start


class RateLimitedTimedQueue:
    """The queue and token bucket of one zone."""

    __slots__ = ("_entries", "_refreshed", "_refreshed_names", "known", "limiter")

    @property
    def left_entries_ns(self) -> int | None:
        """Since when somebody waits beside, or after, entries of names that were removed: see ``SetRemoveQueue``."""
        return None

    def __init__(self, qps: float, *, rate_zero_accepts: bool) -> None:
        """With a full bucket of that rate: see ``TokenBucketRateLimiter``."""
        self.limiter: RateLimiter = TokenBucketRateLimiter(qps, rate_zero_accepts=rate_zero_accepts)
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

    def mark(
        self, name: str, mode: str, now_ns: int, last_tick_ns: int, *, lacks_taint: bool
    ) -> bool:
        """``markNodeForTainting`` in a release's ``queue_mode``; False when the name is known already.

        ``lacks_taint``: the node does not carry the taint that its Ready condition asks for.
        """
        if not lacks_taint:
            self.retire(name, last_tick_ns)
        elif mode == "REMOVE_ADD":
            self.remove(name)
        return self.add(name, now_ns, refreshed=mode == "REMOVE_ADD" and lacks_taint)

    def remove(self, name: str) -> bool:
        """``Remove``: forget the name and its first heap entry; False when it was not known."""
        if name not in self.known:
            return False
        self.known.discard(name)
        self._drop_first(name)
        return True

    def reachable(self, name: str, now_ns: int, *, walked: bool) -> bool:
        """``markNodeAsReachable`` in a tick, which has ``walked`` all nodes before, or those whose names come first."""
        return self.remove(name)

    def retire(self, name: str, last_tick_ns: int) -> bool:
        """No tick inserts the name any more; False when none did before."""
        if name not in self._refreshed:
            return False
        self._refreshed.discard(name)
        self._entries.push(last_tick_ns, name)
        return True

    def take_all(self, most: int) -> int | None:
        """Empty the line, and say how many entries it had, ``most`` if more; None where nobody can say (``SetRemoveQueue``)."""
        return None

    def _drop_head(self, name: str, latest_tick_ns: int) -> bool:
        """Take the head out, which has that name; False when it is no entry of the queue's."""
        return self._drop_first(name)

    def has_entry(self, name: str) -> bool:
        """Whether there is an entry of that name: one that was processed may be known and have none."""
        return name in self._refreshed or any(each == name for _, each in self._entries.due())

    def entering(self) -> Sequence[str]:
        """Names of which every tick puts another entry in line: see ``SetRemoveQueue``."""
        return ()

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

    def rivals(self, latest_tick_ns: int) -> list[str]:
        """Names of all other entries that are due when the head is: only names decide between them."""
        head = self.head(latest_tick_ns)
        if head is None:
            return []
        found = [name for at_ns, name in self._entries.due() if at_ns == head[0]]
        if head[0] == latest_tick_ns:
            found += self._refreshed
        found.remove(head[1])
        return found

    def try_pass(self, now_ns: int, latest_tick_ns: int, process: ActionFunc) -> None:
        """``Try``: hand over heads while the limiter accepts."""
        head = self.head(latest_tick_ns)
        while head is not None and self.limiter.try_accept(now_ns):
            process_at_ns, name = head
            if now_ns < process_at_ns:
                return  # the token is lost
            wait_ns = process(name)
            if wait_ns is None:
                if name in self.known:  # entries that SetRemove orphaned stay for ever
                    self._drop_head(name, latest_tick_ns)
            elif self._drop_head(name, latest_tick_ns):
                self._entries.push(now_ns + wait_ns + 1, name)
            if self.head(latest_tick_ns) == head:
                return  # an orphaned entry; upstream would hand it over for ever if tokens lasted
            head = self.head(latest_tick_ns)

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


def new_queue(
    qps: float, profile: ReleaseProfile, ticks: LoopGrid, *, taint_mode: bool
) -> RateLimitedTimedQueue:
    """An empty one with a full bucket, as that release has it, where the monitor ticks at ``ticks``."""
    accepts = profile.rate_zero_accepts
    if taint_mode and profile.queue_mode == "SETREMOVE":
        from kubectl_evictplan.controllers.node_lifecycle import set_remove_queue  # few releases

        return set_remove_queue.SetRemoveQueue(qps, rate_zero_accepts=accepts, ticks=ticks)
    return RateLimitedTimedQueue(qps, rate_zero_accepts=accepts)
