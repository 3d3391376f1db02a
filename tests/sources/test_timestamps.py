"""Timestamps: RFC 3339 with all nine digits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.kube.timestamps import format_rfc3339, parse_rfc3339_ns

SECOND = 1_000_000_000


def test_the_epoch_is_zero() -> None:
    assert parse_rfc3339_ns("1970-01-01T00:00:00Z") == 0


@pytest.mark.parametrize("text", ["2026-11-20T22:00:00", "2026-11-20 22:00:00.5"])
def test_a_zone_is_required(text: str) -> None:
    with pytest.raises(ValueError, match="needs Z or an offset"):
        parse_rfc3339_ns(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T22:00:00+25:00",
        "2026-11-20T22:00:00+01:60",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T22:60:00Z",
        "2026-11-20T22:00:61Z",
        "2026-11-20",
        "20261120T220000Z",
        "٢026-11-20T22:00:00Z",
        "2026-11-20T22:00:00Z ",
        "2026-11-20T22:00:00.Z",
        "",
        "now",
    ],
)
def test_impossible_instants_are_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse_rfc3339_ns(text)
    assert "strptime" not in str(caught.value)


def test_a_leap_second_is_the_last_nanosecond_before_the_minute() -> None:
    next_day = parse_rfc3339_ns("2017-01-01T00:00:00Z")
    assert parse_rfc3339_ns("2016-12-31T23:59:60Z") == next_day - 1
    assert parse_rfc3339_ns("2017-01-01T01:59:60+02:00") == next_day - 1


def test_second_60_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match="last minute"):
        parse_rfc3339_ns("2016-12-31T22:59:60Z")


def test_nine_digits_are_kept_exactly() -> None:
    assert parse_rfc3339_ns("1970-01-01T00:00:01.123456789Z") == SECOND + 123_456_789
    assert parse_rfc3339_ns("1970-01-01T00:00:01.1Z") == SECOND + 100_000_000


def test_zero_time_is_unset() -> None:
    assert parse_rfc3339_ns("0001-01-01T00:00:00Z") is None


@pytest.mark.parametrize("year", ["0000", "10000", "-001"])
def test_years_outside_1_to_9999_are_refused(year: str) -> None:
    with pytest.raises(ValueError, match="year"):
        parse_rfc3339_ns(f"{year}-01-01T00:00:00Z")


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001
    st.integers(min_value=-23 * 60, max_value=23 * 60),
)
def test_agrees_with_the_standard_library(moment: datetime, offset_minutes: int) -> None:
    sign = "-" if offset_minutes < 0 else "+"
    offset = f"{sign}{abs(offset_minutes) // 60:02d}:{abs(offset_minutes) % 60:02d}"
    text = moment.isoformat() + offset
    delta = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    expected = (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds * 1000
    assert parse_rfc3339_ns(text) == expected


@given(st.integers(min_value=-62_135_596_799 * SECOND, max_value=253_402_300_800 * SECOND - 1))
def test_formatting_and_parsing_round_trip(ns: int) -> None:
    text = format_rfc3339(ns)
    assert parse_rfc3339_ns(text) == ns
    assert text.endswith("Z")
    assert ".0" not in text or text.rstrip("Z")[-1] != "0"


def test_a_fraction_is_printed_only_when_it_is_not_zero() -> None:
    assert format_rfc3339(0) == "1970-01-01T00:00:00Z"
    assert format_rfc3339(500_000_000) == "1970-01-01T00:00:00.5Z"
    assert format_rfc3339(-1) == "1969-12-31T23:59:59.999999999Z"


def test_instants_without_a_calendar_day_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        format_rfc3339(10**30)
