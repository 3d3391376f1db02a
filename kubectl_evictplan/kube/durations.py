"""Go durations (``1h30m``, ``2.5s``) as integer nanoseconds, and back.

Rules: the grammar is ``time.ParseDuration``'s, the output ``Duration.String``'s. Digits are ASCII,
nothing is trimmed, and no value ever passes through a float: ``0.1s`` is exactly 100,000,000 ns.
(Go multiplies a fraction as a float; the two can differ by one nanosecond only for fractions of
ten digits and more, where the integer here is the exact one.)
"""

from __future__ import annotations

import re

MICROSECOND_NS = 1_000
MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 60 * MINUTE_NS

# Ten years of 365 days: nobody plans further ahead, and typing errors land beyond it.
DURATION_MAX_NS = 10 * 365 * 24 * HOUR_NS

_INT64_MAX = 2**63 - 1
_UNITS = {
    "ns": 1,
    "us": MICROSECOND_NS,
    "\u00b5s": MICROSECOND_NS,  # micro sign
    "\u03bcs": MICROSECOND_NS,  # Greek mu
    "ms": MILLISECOND_NS,
    "s": SECOND_NS,
    "m": MINUTE_NS,
    "h": HOUR_NS,
}
_PART = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^0-9.]*)")
_HINT = "write Go's form, such as 1h30m, 2.5s or 500ms"
# More digits than this cannot be inside int64; int() on hostile input stays cheap.
_DIGITS_MAX = 40


def parse_duration_ns(text: str) -> int:
    """Return the nanoseconds of a Go duration, signed, like ``time.ParseDuration``.

    Raises ValueError with a message for people when the text is not a Go duration or does not fit
    into 64 bits.
    """
    negative = text.startswith("-")
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0
    if not unsigned:
        raise ValueError(f"not a duration: {_HINT}")
    total_ns = sum(_part_ns(part) for part in _PART.finditer(unsigned) if part[0])
    if total_ns > _INT64_MAX + negative:
        raise ValueError("duration is out of range: more than 292 years")
    return -total_ns if negative else total_ns


def parse_bounded_duration_ns(text: str) -> int:
    """Return the nanoseconds of a Go duration from 0 to 10 years; ValueError otherwise."""
    duration_ns = parse_duration_ns(text)
    if duration_ns < 0:
        raise ValueError("duration is negative: it must be 0 or more")
    if duration_ns > DURATION_MAX_NS:
        raise ValueError("duration is longer than 10 years (87600h)")
    return duration_ns


def format_duration(duration_ns: int) -> str:
    """Return the text Go prints for a duration: ``1h30m0s``, ``2.5s``, ``100µs``, ``0s``."""
    if duration_ns == 0:
        return "0s"
    sign = "-" if duration_ns < 0 else ""
    rest_ns = abs(duration_ns)
    if rest_ns < SECOND_NS:
        for unit, unit_ns in (("ms", MILLISECOND_NS), ("\u00b5s", MICROSECOND_NS), ("ns", 1)):
            if rest_ns >= unit_ns:
                return f"{sign}{_decimal(rest_ns, unit_ns)}{unit}"
    hours, rest_ns = divmod(rest_ns, HOUR_NS)
    minutes, rest_ns = divmod(rest_ns, MINUTE_NS)
    text = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{text}{_decimal(rest_ns, SECOND_NS)}s"


def _part_ns(match: re.Match[str]) -> int:
    """Return the nanoseconds of one ``number unit`` pair."""
    whole, _, fraction, unit = match.groups(default="")
    if not whole and not fraction:
        raise ValueError(f"a number is missing before {unit!r}: {_HINT}" if unit else _HINT)
    if not unit:
        number = match.group(0)[:_DIGITS_MAX]
        raise ValueError(f"a unit is missing after {number}: {_HINT}")
    if unit not in _UNITS:
        raise ValueError(f"unknown unit {unit!r}: units are ns, us, ms, s, m and h")
    if len(whole.lstrip("0")) > _DIGITS_MAX:
        raise ValueError("duration is out of range: more than 292 years")
    unit_ns = _UNITS[unit]
    digits = fraction[:_DIGITS_MAX]
    scale: int = 10 ** len(digits)
    fraction_ns = int(digits or "0") * unit_ns // scale
    return int(whole.lstrip("0") or "0") * unit_ns + fraction_ns


def _decimal(value: int, unit: int) -> str:
    """Return ``value / unit`` in shortest exact decimal form; ``unit`` is a power of ten."""
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
