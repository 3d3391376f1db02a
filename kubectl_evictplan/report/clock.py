"""Offsets as clock times in the operator's zone."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, tzinfo

from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock:
    """Turns offsets from ``start`` (RFC 3339) into times of ``zone``; None is the system's own zone.

    Where that cannot be done (an unreadable start, the end of the calendar) the answer is "".
    """

    def __init__(self, start: str, zone: tzinfo | None) -> None:
        self._zone = zone
        try:
            start_ns = parse_rfc3339_ns(start)
        except ValueError:
            start_ns = None
        self._start_ms = None if start_ns is None else start_ns // 1_000_000
        self._start = self._local(self._milliseconds(0.0))

    def start(self) -> str:
        """Return the start with its date and zone: ``2026-11-20 22:00:00 UTC``."""
        at = self._start
        return f"{at:%Y-%m-%d %H:%M:%S} {_zone_name(at)}" if at is not None else ""

    def time(self, seconds: float | None) -> str:
        """Return the second in which it happens: ``22:05:50``, with the date on another day."""
        at = self._local(self._milliseconds(seconds))
        return self._text(at) if at is not None else ""

    def exactly(self, seconds: float) -> str:
        """Return RFC 3339 to the millisecond, in the zone."""
        at = self._local(self._milliseconds(seconds))
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else ""

    def between(self, earliest: float | None, latest: float | None) -> str:
        """Return ``between A and B UTC`` in whole seconds outwards, or ``at A UTC``."""
        first_ms, last_ms = self._milliseconds(earliest), self._milliseconds(latest)
        if first_ms is None or last_ms is None:
            return ""
        first = self._local(first_ms // 1000 * 1000)
        last = self._local(last_ms if first_ms == last_ms else -(-last_ms // 1000) * 1000)
        if first is None or last is None:
            return ""
        if first_ms == last_ms:
            return f"at {self._text(last)} {_zone_name(last)}"
        zones = _zone_name(first), _zone_name(last)
        own = "" if zones[0] == zones[1] else f" {zones[0]}"
        return f"between {self._text(first)}{own} and {self._text(last)} {zones[1]}"

    def _milliseconds(self, seconds: float | None) -> int | None:
        if self._start_ms is None or seconds is None or not math.isfinite(seconds):
            return None
        return self._start_ms + round(seconds * 1000)

    def _local(self, epoch_ms: int | None) -> datetime | None:
        if epoch_ms is None:
            return None
        try:
            return (_EPOCH + timedelta(milliseconds=epoch_ms)).astimezone(self._zone)
        except (OverflowError, ValueError):
            return None

    def _text(self, at: datetime) -> str:
        same_day = self._start is not None and at.date() == self._start.date()
        return f"{at:%H:%M:%S}" if same_day else f"{at:%Y-%m-%d %H:%M:%S}"


def _zone_name(at: datetime) -> str:
    name = at.tzname() or ""
    return f"UTC{name}" if name[:1] in ("+", "-") else name
