"""What may reach a terminal: nothing invisible, nothing that steers it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.display import escape, width

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
ANY_TEXT = st.text(st.characters(), max_size=40)
NASTY = st.text(
    st.sampled_from(list("ab-\u0301\u20dd\u202e\x1b\x00\n\r\t\x7f\x9b\ud800界\u1160\u3164\u2028")),
    max_size=30,
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("web-0", "web-0"),
        ("", ""),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\nc\td\x00", "a\\x0db\\x0ac\\x09d\\x00"),
        ("\x7f", "\\x7f"),
        ("\u202egnp", "\\u202egnp"),
        ("\u200b\ufeff", "\\u200b\\ufeff"),
        ("\ud800", "\\ud800"),
        ("\ue000", "\\ue000"),
        ("\u0378", "\\u0378"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\U000e0041", "\\U000e0041"),
        ("a\u00a0b", "a\\xa0b"),
        ("\u3164", "\\u3164"),
        ("né界", "né界"),
    ],
)
def test_whatever_is_invisible_or_steers_the_terminal_is_shown_as_its_code(
    raw: str, shown: str
) -> None:
    assert escape(raw) == shown


def test_a_base_keeps_three_combining_marks_and_the_rest_is_visible() -> None:
    assert escape("e" + "\u0301" * 5) == "e" + "\u0301" * 3 + "\\u0301\\u0301"


def test_a_mark_without_a_base_is_visible() -> None:
    assert escape("\u0301a") == "\\u0301a"
    assert escape("\x1b\u0301") == "\\x1b\\u0301"


def test_ascii_only_escapes_look_alike_letters() -> None:
    assert escape("\u0430dmin", ascii_only=True) == "\\u0430dmin"
    assert escape("e\u0301", ascii_only=True) == "e\\u0301"


@pytest.mark.parametrize(
    ("columns", "shown"),
    [(8, "abcdefgh"), (7, "abcdef…"), (2, "a…"), (1, "…"), (0, ""), (-1, "")],
)
def test_a_long_text_is_cut_with_an_ellipsis(columns: int, shown: str) -> None:
    assert escape("abcdefgh", max_columns=columns) == shown


def test_an_escape_is_never_cut_in_half() -> None:
    assert escape("ab\x1bcd", max_columns=5) == "ab…"
    assert escape("ab\x1bcd", max_columns=7) == "ab\\x1b…"


def test_a_wide_character_is_never_cut_in_half() -> None:
    assert escape("界界界", max_columns=4) == "界…"


def test_ascii_only_cuts_with_three_dots() -> None:
    assert escape("abcdefgh", max_columns=5, ascii_only=True) == "ab..."


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("界", 2), ("ｗ", 2), ("e\u0301", 1), ("각", 2), ("", 0)]
)
def test_width_counts_terminal_columns(text: str, columns: int) -> None:
    assert width(text) == columns


@given(ANY_TEXT | NASTY)
def test_output_never_contains_control_or_format_characters(text: str) -> None:
    shown = escape(text)
    assert not FORBIDDEN & {unicodedata.category(character) for character in shown}
    shown.encode("utf-8")


@given(ANY_TEXT | NASTY)
def test_ascii_only_output_is_printable_ascii(text: str) -> None:
    shown = escape(text, ascii_only=True)
    assert shown.isascii()
    assert shown == "" or shown.isprintable()


@given(ANY_TEXT | NASTY, st.integers(-1, 30), st.booleans())
def test_output_fits_its_columns(text: str, columns: int, ascii_only: bool) -> None:
    shown = escape(text, max_columns=columns, ascii_only=ascii_only)
    assert width(shown) <= max(0, columns)


@given(ANY_TEXT | NASTY)
def test_escaping_twice_changes_nothing(text: str) -> None:
    assert escape(escape(text)) == escape(text)


@given(ANY_TEXT | NASTY)
def test_at_most_three_marks_follow_a_base(text: str) -> None:
    run = 0
    for character in escape(text):
        run = run + 1 if unicodedata.category(character).startswith("M") else 0
        assert run <= 3
