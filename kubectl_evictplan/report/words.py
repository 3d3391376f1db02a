"""Words for the values of a prediction, as an operator reads them.

Offsets are spelled as Go spells durations, with a sign: ``+5m50s``. Windows that differ by less
than a millisecond are one number. Where a window is not ``exact`` it is rounded outwards, so that it
never promises more than was predicted: to tenths of a second in the first minute, to seconds in
the first hour, to minutes after that. ``<unknown>`` and ``<none>`` are kubectl's.

Names of objects that become part of a sentence go through ``name``, which makes look-alike letters
visible; everything else is escaped by whoever renders it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from kubectl_evictplan.controllers.flags import DEFAULT
from kubectl_evictplan.display import escape
from kubectl_evictplan.kube.durations import HOUR_NS, MILLISECOND_NS, MINUTE_NS, format_duration
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.taints import taint_text
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.prediction import document
from kubectl_evictplan.prediction.pod_ends import Stuck
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNKNOWN = "<unknown>"
NONE = "<none>"
# So far anything is followed where nobody gives a horizon: what may end later has no end that is known.
_LATER = " or later"
_FOLLOWED_MS = HORIZON_DEFAULT_MAX_NS // MILLISECOND_NS


def name(value: str) -> str:
    """Return a Kubernetes name in ASCII, as valid ones are; ``<none>`` when it is empty."""
    # Every name of every row comes here: the plain ones, which nearly all are, go the short way.
    if value and value.isascii() and value.isprintable():
        return value
    return escape(value, ascii_only=True) or NONE


def offset(seconds: float | None) -> str:
    """Return an offset to the millisecond, e.g. ``+5m50.25s``."""
    ms = _milliseconds(seconds)
    return UNKNOWN if ms is None else _offset(ms)


@lru_cache(maxsize=100_000)  # most of them repeat: many pods share a node
def window(
    earliest_seconds: float | None, latest_seconds: float | None, *, exact: bool = False
) -> str:
    """Return ``+a``, ``+a .. +b`` or ``+a or later``; not ``exact`` rounds outwards."""
    first, last = _milliseconds(earliest_seconds), _milliseconds(latest_seconds)
    if first is None and last is None:
        return UNKNOWN
    if first is None:
        return f"until {_offset(last or 0)}"
    if last is None or first < _FOLLOWED_MS <= last:
        return f"{_offset(first)}{_LATER}"
    if first == last:
        return _offset(first)
    return " .. ".join((_offset(first), _offset(last)) if exact else _outwards(first, last))


def lasting(least_seconds: float | None, most_seconds: float | None) -> str:
    """Return how long something lasts, rounded outwards; None has no end within reach."""
    if least_seconds is None:
        return "no end in sight"
    first, last = _milliseconds(least_seconds) or 0, _milliseconds(most_seconds)
    if last is None:
        least = _offset(first)[1:]
        return f"at least {least}, perhaps without end" if least_seconds else "possibly without end"
    if first == last:
        return _offset(first)[1:]
    shortest, longest = (text[1:] for text in _outwards(first, last))
    return f"{shortest} to {longest}" if least_seconds else f"up to {longest}"


def outcomes(windows: Sequence[document.OutcomeWindow], *, exact: bool = False) -> str:
    """Return disjoint outcomes apart: ``+a .. +b or +c .. +d``; exact ones with what leads there."""
    if len(windows) == 1 and not exact:
        return window(windows[0].earliest_seconds, windows[0].latest_seconds)
    return " or ".join(
        window(one.earliest_seconds, one.latest_seconds, exact=exact)
        + (f" ({one.when})" if exact and one.when else "")
        for one in windows
    )


def gone(end: document.Window, *, exact: bool = False) -> str:
    """Return when the object ends, or that it is stuck (why, when ``exact``)."""
    if end.stuck is None or (not exact and may_end(end)):
        return window(end.earliest_seconds, end.latest_seconds, exact=exact)
    if not exact:
        return "not certain" if end.stuck == Stuck.NOT_CERTAIN.value else "stuck"
    ever = end.earliest_seconds
    return f"stuck: {end.stuck}{'' if ever is None else f' (at the earliest {offset(ever)})'}"


def may_end(end: document.Window) -> bool:
    """Return whether an object that is not surely gone in the end may well be: nothing that is known holds it."""
    return end.stuck == Stuck.NOT_CERTAIN.value and end.earliest_seconds is not None


def taint(reference: document.TaintReference) -> str:
    """Return a taint as kubectl writes it."""
    return taint_text(Taint(reference.key, reference.effect, reference.value))


def tolerated(reference: document.TolerationReference | None) -> str:
    """Say how the deciding taint is tolerated."""
    if reference is None:
        return "not tolerated"
    if reference.toleration_seconds is None:
        return "tolerated without limit"
    return f"tolerated for {reference.toleration_seconds}s"


def flags(inputs: document.Inputs) -> str:
    """Return the flags by where their values come from; of those at their default only the number."""
    by_source: dict[str, list[str]] = {}
    for flag, value in sorted(inputs.flags.items()):
        by_source.setdefault(value.source, []).append(f"{flag}={value.value}")
    # Defaults are known from the release; what deviates is what an operator must check.
    defaults = by_source.pop(DEFAULT, [])
    told = [f"{', '.join(found)} ({source})" for source, found in by_source.items()]
    return "; ".join([*told, f"{len(defaults)} at {DEFAULT}"] if defaults else told) or NONE


def sourced(value: document.Sourced) -> str:
    """Return a resolved input with where it came from: ``1.29.6 (detected)``."""
    if value.value is None and value.source == "unknown":
        return UNKNOWN
    text = UNKNOWN if value.value is None else str(value.value)
    return f"{text} ({value.source})" if value.source and value.source != text else text


def sourced_wholly(value: document.Sourced) -> str:
    """Return the same with what says so: ``1.29.6 (detected: Pod kube-system/...)``."""
    if not value.origin:
        return sourced(value)
    text = UNKNOWN if value.value is None else str(value.value)
    return f"{text} ({value.source}: {value.origin})"


def count(number: int, noun: str) -> str:
    """Return ``1 pod`` or ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def between(least: int, most: int) -> str:
    """Return ``3``, or ``3 to 5`` where it is not certain."""
    return str(least) if least == most else f"{least} to {most}"


def verb(number: int, one: str, many: str) -> str:
    """Return the form of a verb, or of any word, for so many."""
    return one if number == 1 else many


def listed(names: Collection[str], limit: int) -> str:
    """Return the first names, whole, and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(name, list(names)[:limit])) + more


def _milliseconds(seconds: float | None) -> int | None:
    return round(seconds * 1000) if seconds is not None and math.isfinite(seconds) else None


def _offset(ms: int) -> str:
    return ("-" if ms < 0 else "+") + format_duration(abs(ms) * MILLISECOND_NS)


def _outwards(first_ms: int, last_ms: int) -> tuple[str, str]:
    """Return both bounds, each rounded by its own size: a cause is never shown after its effect."""
    down, up = _rounding_step_ms(abs(first_ms)), _rounding_step_ms(abs(last_ms))
    return _coarse(first_ms // down * down, down), _coarse(-(-last_ms // up) * up, up)


def _rounding_step_ms(ms: int) -> int:
    if ms * MILLISECOND_NS < MINUTE_NS:
        return 100
    return 1000 if ms * MILLISECOND_NS < HOUR_NS else 60_000


def _coarse(ms: int, step_ms: int) -> str:
    text = _offset(ms)
    # "1h30m0s" rounded to minutes must not look exact to the second.
    return text.removesuffix("0s") if step_ms == 60_000 and ms else text


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
        self._start_ms = None if start_ns is None else start_ns // MILLISECOND_NS
        self._start = self._at(0.0)

    def start(self) -> str:
        """Return the start with its date and zone: ``2026-11-20 22:00:00 UTC``."""
        at = self._start
        return f"{at:%Y-%m-%d %H:%M:%S} {_zone_name(at)}" if at is not None else ""

    def start_time(self) -> datetime | None:
        """Return the start in the zone; None where it cannot be said."""
        return self._start

    def time(self, seconds: float | None) -> str:
        """Return the second in which it happens: ``22:05:50``, with the date on another day."""
        at = self._at(seconds)
        return self._text(at) if at is not None else ""

    def exactly(self, seconds: float) -> str:
        """Return RFC 3339 to the millisecond, in the zone."""
        at = self._at(seconds)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else ""

    def between(self, earliest: float | None, latest: float | None) -> str:
        """Return ``between A and B UTC`` in whole seconds outwards, or ``at A UTC``."""
        exact = self._at(latest)
        if (window(earliest, latest)).endswith(_LATER):
            first = self._at(earliest, 1000)
            return f"from {self._text(first)} {_zone_name(first)} on" if first is not None else ""
        first, last = self._at(earliest, 1000), self._at(latest, -1000)
        if exact is None or first is None or last is None:
            return ""
        if _milliseconds(earliest) == _milliseconds(latest):
            return f"at {self._text(exact)} {_zone_name(exact)}"
        zones = _zone_name(first), _zone_name(last)
        own = "" if zones[0] == zones[1] else f" {zones[0]}"
        return f"between {self._text(first)}{own} and {self._text(last)} {zones[1]}"

    def _at(self, seconds: float | None, step_ms: int = 1) -> datetime | None:
        """Return the instant, rounded down to a multiple of ``step_ms`` (up, if that is negative)."""
        offset_ms = _milliseconds(seconds)
        if self._start_ms is None or offset_ms is None:
            return None
        epoch_ms = (self._start_ms + offset_ms) // step_ms * step_ms
        try:
            return (_EPOCH + timedelta(milliseconds=epoch_ms)).astimezone(self._zone)
        except (OverflowError, ValueError):
            return None

    def _text(self, at: datetime) -> str:
        same_day = self._start is not None and at.date() == self._start.date()
        return f"{at:%H:%M:%S}" if same_day else f"{at:%Y-%m-%d %H:%M:%S}"


def _zone_name(at: datetime) -> str:
    # A zone that the system does not know may have no name.
    name = at.tzname() or f"{at:%z}"
    return f"UTC{name}" if name[:1] in ("+", "-") else name
