"""RFC 3339 text to and from integer nanoseconds since the Unix epoch, exactly.

The only module of the program that knows the calendar. Rules: a zone ("Z" or an offset) is
required; fractions keep all nine digits that fit a nanosecond; Go's zero time means "unset";
a leap second counts as the last nanosecond before the next minute; years run from 1 to 9999.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

from kubectl_evictplan.kube.durations import SECOND_NS

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_SECONDS_PER_DAY = 86_400

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
# Compiled where an instant is none.
_WITHOUT_ZONE = r"(?a)\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?"
_ZERO_TIME_NS = (date(1, 1, 1).toordinal() - _EPOCH_ORDINAL) * _SECONDS_PER_DAY * SECOND_NS
FIRST_INSTANT_NS = _ZERO_TIME_NS
# The end of the year 9999.
LAST_INSTANT_NS = (date.max.toordinal() + 1 - _EPOCH_ORDINAL) * _SECONDS_PER_DAY * SECOND_NS - 1


@lru_cache(maxsize=4096)
def _day_start_seconds(year: int, month: int, day: int) -> int:
    return (date(year, month, day).toordinal() - _EPOCH_ORDINAL) * _SECONDS_PER_DAY


def parse_rfc3339_ns(text: str) -> int | None:
    """Return epoch nanoseconds, or None for Go's zero time ``0001-01-01T00:00:00Z``.

    Raises ValueError, whose text says what is wrong, for anything that is not a valid RFC 3339
    instant of the years 1 to 9999.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(_why_malformed(text))
    year, month, day, hours, minutes, seconds = map(int, match.group(1, 2, 3, 4, 5, 6))
    fraction, sign, zone_hour, zone_minute = match.group(7, 8, 9, 10)
    if hours > 23 or minutes > 59 or seconds > 60:
        raise ValueError("hour, minute or second out of range")
    try:
        whole = _day_start_seconds(year, month, day)
    except ValueError as error:
        raise ValueError(f"no such day: {error}") from None
    whole += hours * 3600 + minutes * 60
    if sign:
        whole -= _offset_seconds(sign, zone_hour, zone_minute)
    if seconds == 60:
        if (whole + 60) % _SECONDS_PER_DAY:
            raise ValueError("second 60 exists only in the last minute of a UTC day")
        return (whole + 60) * SECOND_NS - 1
    result = (whole + seconds) * SECOND_NS
    if fraction:
        result += int(fraction[:9].ljust(9, "0"))
    return None if result == _ZERO_TIME_NS else result


def is_leap_second(text: str) -> bool:
    """Tell whether a timestamp that parses names second 60."""
    return text[17:19] == "60"


def format_rfc3339(ns: int) -> str:
    """Return the instant in UTC with a ``Z``; a fraction only when it is not zero.

    Raises ValueError outside the years 1 to 9999.
    """
    seconds, nanoseconds = divmod(ns, SECOND_NS)
    days, rest = divmod(seconds, _SECONDS_PER_DAY)
    try:
        day = date.fromordinal(days + _EPOCH_ORDINAL).isoformat()
    except (ValueError, OverflowError):
        raise ValueError("instant outside the years 1 to 9999") from None
    text = f"{day}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    if nanoseconds:
        text += f".{nanoseconds:09d}".rstrip("0")
    return text + "Z"


def _offset_seconds(sign: str, hour: str, minute: str) -> int:
    hours, minutes = int(hour), int(minute)
    if hours > 23 or minutes > 59:
        raise ValueError("zone offset out of range")
    return (-1 if sign == "-" else 1) * (hours * 3600 + minutes * 60)


def _why_malformed(text: str) -> str:
    if re.fullmatch(_WITHOUT_ZONE, text):
        return "timestamp needs Z or an offset"
    if re.match(r"-\d|\d{5,}-", text):
        return "year out of range 0001 to 9999"
    return "not an RFC 3339 timestamp"
