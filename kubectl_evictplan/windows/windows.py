"""Windows over many pieces: the earliest, the latest, and whether it happened in all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class WindowOverRuns:
    """How one recurring occurrence (say, a node's first Unknown) fell in the runs seen so far."""

    __slots__ = ("earliest_ns", "latest_ns", "runs", "unsure")

    def __init__(self) -> None:
        self.earliest_ns = 2**63
        self.latest_ns = -(2**63)
        self.runs = 0
        self.unsure = False

    def add(self, earliest_ns: int, latest_ns: int, *, certain: bool) -> None:
        """One more run in which it happens between the two instants (``certain``: in any order)."""
        self.earliest_ns = min(self.earliest_ns, earliest_ns)
        self.latest_ns = max(self.latest_ns, latest_ns)
        self.runs += 1
        self.unsure = self.unsure or not certain


class WindowTable(Generic[Key]):
    """Windows by (key, ordinal), filled run by run: the n-th occurrence of a key is its own window."""

    def __init__(self) -> None:
        self.windows: dict[tuple[Key, int], WindowOverRuns] = {}

    def add(
        self, key: Key, ordinal: int, earliest_ns: int, latest_ns: int, *, certain: bool = True
    ) -> None:
        """Note that the ``ordinal``-th occurrence of ``key`` happens in the current run."""
        window = self.windows.get((key, ordinal))
        if window is None:
            window = self.windows[key, ordinal] = WindowOverRuns()
        window.add(earliest_ns, latest_ns, certain=certain)

    def add_sequence(self, items: Iterable[tuple[Key, int]], padding_ns: int = 0) -> None:
        """All occurrences (key, instant) of one run, in order."""
        seen: dict[Key, int] = {}
        for key, at_ns in items:
            ordinal = seen[key] = seen.get(key, -1) + 1
            self.add(key, ordinal, at_ns - padding_ns, at_ns + padding_ns)

    def drop_after(self, horizon_ns: int) -> None:
        """Forget what only happens after the horizon; what may is not certain within it."""
        for key, window in list(self.windows.items()):
            if window.earliest_ns > horizon_ns:
                del self.windows[key]
            elif window.latest_ns > horizon_ns:
                window.unsure = True
