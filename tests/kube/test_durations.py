"""Durations are Go's, exactly: what ``time.ParseDuration`` takes and ``Duration.String`` prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.kube.durations import (
    DURATION_MAX_NS,
    HOUR_NS,
    MINUTE_NS,
    SECOND_NS,
    format_duration,
    parse_bounded_duration_ns,
    parse_duration_ns,
)


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("+0", 0),
        ("0s", 0),
        ("5s", 5 * SECOND_NS),
        ("1h30m", 90 * MINUTE_NS),
        ("1.5h", 90 * MINUTE_NS),
        ("30m1h", 90 * MINUTE_NS),
        (".5s", SECOND_NS // 2),
        ("1.s", SECOND_NS),
        ("-5m", -5 * MINUTE_NS),
        ("+5m", 5 * MINUTE_NS),
        ("0.1s", 100_000_000),
        ("2.1s", 2_100_000_000),
        ("12.014s", 12_014_000_000),
        ("1us", 1_000),
        ("1\u00b5s", 1_000),
        ("1\u03bcs", 1_000),
        ("1.9ns", 1),
        ("0000000000000000000000000000000000000000000001s", SECOND_NS),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("0.123456789123s", 123_456_789),
        ("1s1s", 2 * SECOND_NS),
    ],
)
def test_accepts_what_go_accepts(text: str, duration_ns: int) -> None:
    assert parse_duration_ns(text) == duration_ns


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "-", "+", ".", ".s", "s", "5 m", " 5m", "5m ", "1h30", "P1D", "NaN", "inf"),
        *("1e9h", "1e3s", "\u0663s", "\uff11s", "1_0s", "1d", "1w", "1H", "1h 30m", "--5s", "5-s"),
        *(
            "1,5s",
            "0x1s",
            "9223372036854775808ns",
            "3000000h",
            "9" * 100_000 + "s",
            "5\n",
            "1.2.3s",
        ),
    ],
)
def test_refuses_what_go_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|unit|number|Go's form|write"):
        parse_duration_ns(text)


@pytest.mark.parametrize("text", ["-1ns", "-5m", "87601h"])
def test_a_bounded_duration_is_from_zero_to_ten_years(text: str) -> None:
    with pytest.raises(ValueError, match=r"negative|10 years"):
        parse_bounded_duration_ns(text)
    assert parse_bounded_duration_ns("87600h") == DURATION_MAX_NS
    assert parse_bounded_duration_ns("0") == 0


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1\u00b5s"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (4 * MINUTE_NS + 5 * SECOND_NS, "4m5s"),
        (4 * MINUTE_NS + 5 * SECOND_NS + 1_000_000, "4m5.001s"),
        (5 * HOUR_NS + 6 * MINUTE_NS + 7 * SECOND_NS + 1_000_000, "5h6m7.001s"),
        (8 * MINUTE_NS + 1, "8m0.000000001s"),
        (90 * MINUTE_NS, "1h30m0s"),
        (2**63 - 1, "2562047h47m16.854775807s"),
        (-(2**63), "-2562047h47m16.854775808s"),
        (-SECOND_NS, "-1s"),
    ],
)
def test_prints_what_go_prints(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_duration_survives_printing_and_reading(duration_ns: int) -> None:
    assert parse_duration_ns(format_duration(duration_ns)) == duration_ns


@given(st.text(alphabet="0123456789.hmsnu\u00b5 -+_e\u0663", max_size=12))
def test_no_text_raises_anything_but_value_error(text: str) -> None:
    try:
        duration_ns = parse_duration_ns(text)
    except ValueError:
        return
    assert parse_duration_ns(format_duration(duration_ns)) == duration_ns
