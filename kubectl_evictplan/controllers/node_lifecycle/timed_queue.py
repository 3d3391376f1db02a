"""``TimedQueue``: Go's container/heap over entries ordered by ProcessAt.

Upstream: pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go. The array is the same as in Go,
because which of several entries of one name is "the first" depends on it (1.19.0-8, 1.20.0-4).
"""

from __future__ import annotations

# (ProcessAt, name, serial). A tick walks the nodes by name, and its clock never shows one reading
# twice: entries of one instant are in the order of their names.
_Entry = tuple[int, str, int]


class TimedQueue:
    """Entries (ProcessAt, name); a name may occur more than once."""

    __slots__ = ("_entries", "_serial")

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._serial = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    def head(self) -> tuple[int, str]:
        """ProcessAt and name of the entry that is due first."""
        at_ns, name, _ = self._entries[0]
        return at_ns, name

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
