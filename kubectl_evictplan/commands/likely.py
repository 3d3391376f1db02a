"""What a mistyped duration, instant or release probably means; "" where nobody can tell."""

from __future__ import annotations

import re

from kubectl_evictplan.kube.durations import (
    DURATION_MAX_NS,
    HOUR_NS,
    MICROSECOND_NS,
    MILLISECOND_NS,
    MINUTE_NS,
    SECOND_NS,
    format_duration,
    parse_duration_ns,
)
from kubectl_evictplan.kube.timestamps import format_rfc3339, parse_rfc3339_ns

_UNITS_NS = {
    "ns": 1,
    "us|\u00b5s": MICROSECOND_NS,
    "ms|milli(second)?s?": MILLISECOND_NS,
    "s|secs?|seconds?": SECOND_NS,
    "m|mins?|minutes?": MINUTE_NS,
    "h|hrs?|hours?": HOUR_NS,
    "d|days?": 24 * HOUR_NS,
    "w|weeks?": 7 * 24 * HOUR_NS,
}
# Patterns are compiled where a word is wrong, not wherever one might be.
_NUMBER_AND_UNIT = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([a-z\u00b5]*)[\s,]*"
_TIME_OF_DAY = (
    r"(?P<hour>\d\d?)(?::(?P<minute>\d\d))?(?::(?P<second>\d\d))?(?:\.\d+)?\s*(?P<half>[ap]m)?"
)
_INSTANT = (
    r"(?:(?P<year>\d{4})[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)"
    r"|(?P<day2>\d\d?)\.(?P<month2>\d\d?)\.(?P<year2>\d{4})|(?P<word>now|today|tomorrow|tonight))?"
    rf"[t ,]*(?:{_TIME_OF_DAY})?\s*(?:z|utc|gmt|(?P<sign>[+-])(?P<east>\d\d):?(?P<east2>\d\d))?"
)
_RELEASE = r"(?<![\d.])1[._,-](\d{1,3})(?:[._,-](\d{1,2})(?!\d))?|^\D*(\d\d)\D*$"


def likely_duration(text: str, bare_unit_ns: int = MINUTE_NS) -> str:
    """Return a Go duration; a number without a unit counts in ``bare_unit_ns``."""
    plain = text.strip().lower().replace(",", ".").lstrip("+-pt")[:40]
    if clock := re.fullmatch(r"(\d\d?):(\d\d)(?::(\d\d))?", plain, re.ASCII):
        plain = f"{clock[1]}h{clock[2]}m{clock[3] or 0}s"
    if not re.fullmatch(f"(?:{_NUMBER_AND_UNIT})+", plain):
        return ""
    total_ns, previous_ns = 0, 0
    for number, unit in re.findall(_NUMBER_AND_UNIT, plain):
        # Behind an hour, a bare number is minutes: 1h30.
        unit_ns = previous_ns // 60 or bare_unit_ns
        if unit:
            unit_ns = next((ns for words, ns in _UNITS_NS.items() if re.fullmatch(words, unit)), 0)
        if not unit_ns:
            return ""
        total_ns += int(float(number) * unit_ns)
        previous_ns = unit_ns
    if not 0 < total_ns <= DURATION_MAX_NS:
        return ""
    return re.sub(r"(?<=h)0m$", "", re.sub(r"(?<=m)0s$", "", format_duration(total_ns)))


def likely_seconds(text: str) -> str:
    """Return whole seconds, as a number without a unit."""
    likely = likely_duration(text, SECOND_NS)
    return str(parse_duration_ns(likely) // SECOND_NS) if likely else ""


def likely_instant(text: str, now_ns: int) -> str:
    """Return an RFC 3339 instant; times of day are the next ones, in UTC where no zone is given."""
    plain = text.strip().lower()
    if re.fullmatch(r"\d{10}|\d{13}", plain, re.ASCII):
        return format_rfc3339(int(plain[:10]) * SECOND_NS)
    match = re.fullmatch(_INSTANT, plain, re.ASCII)
    if match is None or not plain:
        return ""
    part = match.groupdict(default="")
    if part["word"] in ("now", "today") and not part["hour"]:
        return format_rfc3339(now_ns // SECOND_NS * SECOND_NS)
    if int(part["hour"] or 0) > 23:
        return ""
    hour = int(part["hour"] or 0) % (12 if part["half"] else 24) + 12 * (part["half"] == "pm")
    time = f"{hour:02d}:{part['minute'] or '00'}:{part['second'] or '00'}"
    zone = f"{part['sign']}{part['east']}:{part['east2']}" if part["sign"] else "Z"
    year, month, day = (part[name] or part[name + "2"] for name in ("year", "month", "day"))
    if year:
        return _checked(f"{year}-{month:>02}-{day:>02}T{time}{zone}")
    if not (part["minute"] or part["half"] or part["word"]):
        return ""
    days = [_checked(f"{format_rfc3339(now_ns + n)[:10]}T{time}{zone}") for n in (0, 24 * HOUR_NS)]
    later = [found for found in days if found and (parse_rfc3339_ns(found) or 0) >= now_ns]
    return next(iter(later[part["word"] == "tomorrow" :] or later), "")


def likely_release(text: str, minors: range, patch_max: int) -> str:
    """Return a release "1.MINOR" or "1.MINOR.PATCH" that is known."""
    if text.strip().lower() in ("latest", "newest", "stable", "current"):
        return f"1.{minors[-1]}"
    match = re.search(_RELEASE, text.strip(), re.ASCII)
    if match is None:
        return ""
    typed = int(match[1] or match[3])
    if typed in minors and match[2] and int(match[2]) <= patch_max:
        return f"1.{typed}.{int(match[2])}"
    return f"1.{min(max(typed, minors[0]), minors[-1])}"


def _checked(text: str) -> str:
    try:
        return text if parse_rfc3339_ns(text) is not None else ""
    except ValueError:
        return ""
