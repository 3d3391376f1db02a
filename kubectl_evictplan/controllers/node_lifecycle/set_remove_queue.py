"""The queue of 1.19.0 to 1.19.8 and 1.20.0 to 1.20.4: every monitor tick puts another entry of a waiting node in line.

Upstream: ``markNodeForTainting`` of these releases calls ``SetRemove``, which forgets a name and leaves its heap entries, before
``Add``. Rules of this file:

* A node is *entering* from the tick that marks it to the last one that does: it has an entry of each tick of that stay.
  Who is handed to a pass is not entering any more: it is tainted, or the next tick looks at it.
* Ticks come one after the other, so the line is served tick by tick. Entries of a tick are made when its turn comes: waiting costs
  nothing, and most entries are never made.
* ``Remove`` takes out the entry that comes first in the heap's array, which depends on all entries and on when others were taken
  out. So the array is made when a name with entries is removed, and kept until the line is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import attrgetter

import msgspec

from kubectl_evictplan.controllers.node_lifecycle import rate_limited_timed_queue
from kubectl_evictplan.controllers.node_lifecycle.rate_limited_timed_queue import (
    RateLimitedTimedQueue,
    TimedQueue,
)
from kubectl_evictplan.engine.event_queue import LoopGrid

# Ends every stay that ticks go on with; comes after every instant.
_OPEN_NS = 1 << 62
_NAME = attrgetter("name")
# Comes after every name.
_LAST_NAME = chr(0x10FFFF)


class _Stay(msgspec.Struct, eq=False):
    """A name has an entry of the tick at ``first_ns`` and of each later one, up to ``last_ns``."""

    name: str
    first_ns: int
    last_ns: int = _OPEN_NS


class SetRemoveQueue(RateLimitedTimedQueue):
    """The queue and token bucket of one zone, whose monitor ticks at ``ticks``."""

    __slots__ = (
        "_array",
        "_block",
        "_block_ns",
        "_coming",
        "_entering",
        "_left",
        "_left_entries_ns",
        "_made",
        "_present",
        "_ticks",
    )

    def __init__(self, qps: float, *, rate_zero_accepts: bool, ticks: LoopGrid) -> None:
        super().__init__(qps, rate_zero_accepts=rate_zero_accepts)
        self._ticks = ticks
        self._entering: dict[str, _Stay] = {}
        self._array: _Array | None = None
        self._left_entries_ns: int | None = None
        self._begin_anew()

    @property
    def left_entries_ns(self) -> int | None:
        """Since when somebody waits beside, or after, entries of names that were removed; None: nobody did."""
        return self._left_entries_ns

    def _begin_anew(self) -> None:
        """The line is empty."""
        # Names that have an entry of the tick whose turn it is, the next one last.
        self._block: list[str] = []
        self._block_ns = -1
        # Stays with entries of later ticks, and those that begin with later ticks, in order.
        self._present: dict[_Stay, None] = {}
        self._coming: deque[_Stay] = deque()
        # How the array is made once it is asked for.
        self._array = None
        self._made = _History([], [])
        # Whether a name that was removed has left entries there.
        self._left = False

    def __bool__(self) -> bool:
        if self._array is not None:
            return bool(self._array.entries or self._entering)
        return bool(self._block or self._present or self._coming)

    def add(self, name: str, at_ns: int, *, refreshed: bool) -> bool:
        """``Add``, in a tick: False when the name is known. ``refreshed``: each tick from now on does that."""
        if name in self.known:
            return False
        self.known.add(name)
        if not self:
            self._begin_anew()
        stay = _Stay(name, at_ns) if refreshed else _Stay(name, at_ns, at_ns)
        if refreshed:
            self._entering[name] = stay
            self._note_left(at_ns)
        self._made.stays.append(stay)
        if self._array is not None:
            self._array.stays.append(stay)
            self._array.fill((at_ns, name))
        else:
            self._coming.append(stay)
        return True

    def mark(
        self, name: str, mode: str, now_ns: int, last_tick_ns: int, *, lacks_taint: bool
    ) -> bool:
        """``markNodeForTainting``; False where the name is known, and where each tick does that already."""
        if not lacks_taint:
            self.retire(name, last_tick_ns)
        elif name in self._entering:
            return False
        else:
            self.known.discard(name)  # ``SetRemove``
        return self.add(name, now_ns, refreshed=lacks_taint)

    def reachable(self, name: str, now_ns: int, *, walked: bool) -> bool:
        """``Remove``: forget the name and its first entry in the array."""
        if name not in self.known:
            return False
        self.known.discard(name)
        if not walked:
            self.retire(name, now_ns - 1)
        if self._array is None and self.has_entry(name):
            self._array = _Array.of(self._made, self._ticks)
        if self._array is not None:
            self._array.fill((now_ns, _LAST_NAME if walked else name))
            self.retire(name, now_ns)
            self._array.entries.remove_first(name)
            if any(each == name for _, each in self._array.entries.due()):
                self._left = True
                self._note_left(now_ns)
        return True

    def _note_left(self, now_ns: int) -> None:
        if self._left and self._entering and self._left_entries_ns is None:
            self._left_entries_ns = now_ns

    def has_entry(self, name: str) -> bool:
        """Whether there is an entry of that name, or will be when a tick's turn comes."""
        if self._array is not None:
            due = (each for _, each in self._array.entries.due())
            return name in self._entering or name in due
        stays = (*self._present, *self._coming)
        return name in self._block or any(stay.name == name for stay in stays)

    def retire(self, name: str, last_tick_ns: int) -> bool:
        """No tick inserts the name after that one; False when none did before."""
        stay = self._entering.pop(name, None)
        if stay is None:
            return False
        stay.last_ns = max(last_tick_ns, stay.first_ns)
        if stay.last_ns <= self._block_ns:
            self._present.pop(stay, None)
        return True

    def entering(self) -> list[str]:
        """Names that every tick puts in line."""
        return list(self._entering)

    def take_all(self, most: int) -> int | None:
        """None where names are entering, and where entries may stay for ever."""
        if self._array is not None or self._entering:
            return None
        number = len(self._block)
        while number < most and self._next_block(_OPEN_NS - 1):
            number += len(self._block)
        self._begin_anew()
        return min(number, most)

    def _drop_head(self, name: str, latest_tick_ns: int) -> bool:
        self.retire(name, latest_tick_ns)
        if self._array is not None:
            return self._array.entries.remove_first(name)
        self._block.pop()
        self._made.taken_ns.append(max(latest_tick_ns, self._block_ns))
        return True

    def head(self, latest_tick_ns: int) -> tuple[int, str] | None:
        """ProcessAt and name of the next one, of all entries of ticks up to the latest."""
        if self._array is not None:
            self._array.fill((latest_tick_ns, _LAST_NAME))
            return self._array.entries.head() if self._array.entries else None
        if not self._block and not self._next_block(latest_tick_ns):
            return None
        return self._block_ns, self._block[-1]

    def rivals(self, latest_tick_ns: int) -> list[str]:
        """Names of all other entries that are due when the head is."""
        head = self.head(latest_tick_ns)
        if head is None:
            return []
        if self._array is None:
            return self._block[:-1]
        found = [name for at_ns, name in self._array.entries.due() if at_ns == head[0]]
        found.remove(head[1])
        return found

    def _next_block(self, latest_tick_ns: int) -> bool:
        """Make the entries of the next tick that has some; False when there is none up to the latest."""
        grid_ns = self._ticks.after(self._block_ns) if self._present else _OPEN_NS
        at_ns = min(grid_ns, self._coming[0].first_ns) if self._coming else grid_ns
        if at_ns == grid_ns and at_ns > latest_tick_ns:  # who was added is there, tick or not
            return False
        stays = list(self._present) if at_ns == grid_ns else []
        while self._coming and self._coming[0].first_ns <= at_ns:
            stay = self._coming.popleft()
            stays.append(stay)
            self._present[stay] = None
        self._block_ns = at_ns
        self._block = self._walked([stay.name for stay in stays])
        for stay in stays:
            if stay.last_ns <= at_ns:
                del self._present[stay]
        return True

    def _walked(self, names: list[str]) -> list[str]:
        """The names in the order in which the tick at ``_block_ns`` puts them in line, backwards."""
        return sorted(names, reverse=True)


class _History(msgspec.Struct, eq=False):
    """All stays since the line was empty, in order; and of each entry that was taken at the head, the latest tick by then."""

    stays: list[_Stay]
    taken_ns: list[int]


class _Array(msgspec.Struct, eq=False):
    """Go's heap with all its entries, made in the order of ticks and of names."""

    entries: TimedQueue
    ticks: LoopGrid
    # Those that may have entries that are not made yet, and the newest tick and name up to which they are.
    stays: list[_Stay]
    filled: tuple[int, str] = (-1, _LAST_NAME)

    @classmethod
    def of(cls, history: _History, ticks: LoopGrid) -> _Array:
        """The array after all that has happened."""
        array = cls(rate_limited_timed_queue.TimedQueue(), ticks, list(history.stays))
        for latest_tick_ns in history.taken_ns:
            array.fill((latest_tick_ns, _LAST_NAME))
            array.entries.remove_first(array.entries.head()[1])
        return array

    def fill(self, until: tuple[int, str]) -> None:
        """Make the entries of all ticks and names up to that one."""
        if until <= self.filled:
            return
        # Sorted as they were left, but for those that are new.
        stays, push = sorted(self.stays, key=_NAME), self.entries.push
        for at_ns, on_grid in self._instants(until[0]):
            is_partly_made = at_ns in (self.filled[0], until[0])
            for stay in stays:
                entered = stay.first_ns == at_ns or (
                    on_grid and stay.first_ns < at_ns <= stay.last_ns
                )
                if entered and not (
                    is_partly_made and not self.filled < (at_ns, stay.name) <= until
                ):
                    push(at_ns, stay.name)
        self.filled = until
        self.stays = [stay for stay in stays if stay.last_ns >= until[0]]

    def _instants(self, until_ns: int) -> Iterator[tuple[int, bool]]:
        """When entries were made since the newest one, and whether a tick did that."""
        firsts = [stay.first_ns for stay in self.stays]
        since_ns = max(min(firsts, default=_OPEN_NS), self.filled[0])
        ticks = set(self.ticks.between(since_ns, until_ns))
        for at_ns in sorted(ticks.union(each for each in firsts if since_ns <= each <= until_ns)):
            yield at_ns, at_ns in ticks
