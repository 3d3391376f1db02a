"""The server's clock, read off the Date headers of its answers.

A Date tells a whole second, somewhere between sending and receiving: each answer bounds the offset
from two sides, and many answers bound it closely. Predictions start at the server's time, because
controllers count by clocks of the control plane, not by this machine's.
"""

from __future__ import annotations

import calendar
from email.utils import parsedate

from kubectl_evictplan.kube.durations import SECOND_NS, format_duration

# A difference that is said; smaller ones only shift the start.
OFFSET_SAID_NS = 2 * SECOND_NS
# A difference with which nothing is changed unasked: one of the clocks is wrong, perhaps the server's.
OFFSET_REFUSED_NS = 60 * SECOND_NS


def offset_words(offset_ns: int) -> str:
    """Return how far apart the clocks are, in words; ``offset_ns`` is the server's time less the local one."""
    apart = format_duration(abs(offset_ns) // SECOND_NS * SECOND_NS)
    side = "behind" if offset_ns > 0 else "ahead of"
    return f"this machine's clock is {apart} {side} the API server's"


class ServerClock:
    """Server time minus local time, within bounds; ``is_known`` once any answer had a Date."""

    def __init__(self) -> None:
        self._least_ns: int | None = None
        self._most_ns: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether any answer told the server's time."""
        return self._least_ns is not None

    def note(self, date: str, sent_ns: int, received_ns: int) -> None:
        """Take in one Date header and the local times around its making."""
        parsed = parsedate(date)
        if parsed is None:
            return
        try:
            second_ns = calendar.timegm(parsed) * SECOND_NS
        except (ValueError, OverflowError):
            return
        least_ns, most_ns = second_ns - received_ns, second_ns + SECOND_NS - sent_ns
        if self._least_ns is None or self._most_ns is None:
            self._least_ns, self._most_ns = least_ns, most_ns
            return
        narrower = max(self._least_ns, least_ns), min(self._most_ns, most_ns)
        # Several servers behind one address, or a clock that was set: the newest counts.
        self._least_ns, self._most_ns = (
            narrower if narrower[0] <= narrower[1] else (least_ns, most_ns)
        )

    def offset_ns(self) -> int:
        """Return what to add to local time; 0 as long as the clocks may agree."""
        if self._least_ns is None or self._most_ns is None:
            return 0
        if self._least_ns <= 0 <= self._most_ns:
            return 0
        return (self._least_ns + self._most_ns) // 2

    def bounds_ns(self) -> tuple[int, int]:
        """Return the least and the most to add to local time; (0, 0) when nothing is known."""
        if self._least_ns is None or self._most_ns is None:
            return 0, 0
        return self._least_ns, self._most_ns
