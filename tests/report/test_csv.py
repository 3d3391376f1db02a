"""``-o csv``: rows that a spreadsheet sorts, and never computes."""

from __future__ import annotations

import csv
import io

import pytest
from msgspec.structs import replace
from report.builders import eviction, failure_row, one_of_each, prediction, text_of
from report.hostile import strings

from kubectl_evictplan.display import escape
from kubectl_evictplan.report.csv_rows import cell, render_sweep
from kubectl_evictplan.sweeps.document import ClusterRow, FlagRow, Sweep

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def read(text: str) -> list[list[str]]:
    """The cells as a strict reader of RFC 4180 has them."""
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def check_hostile(text: str) -> None:
    found = eviction("p", owner=text)
    page = text_of(prediction(evictions=(replace(found, pod=text, node=text), found)), "csv")
    heads, first, second = read(page)
    assert len(first) == len(second) == len(heads), text
    shown = dict(zip(heads, first, strict=True))
    safe = escape(text, ascii_only=True)
    for head in ("pod", "node", "owner"):
        assert shown[head].removeprefix("'") in (safe, safe.removeprefix("'"))
        assert shown[head].endswith(safe)
        assert not shown[head].strip(" ").startswith(FORMULA), text
    assert page.isascii()
    assert len(page.splitlines()) == 3
    assert set(page) & {"\r", "\0", "\x1b"} == set()


def test_a_hostile_string_stays_in_its_cell_and_computes_nothing() -> None:
    for text in strings(150):
        check_hostile(text)


@pytest.mark.slow
def test_ten_thousand_hostile_strings_stay_in_their_cells_and_compute_nothing() -> None:
    for text in strings(10_000):
        check_hostile(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-0", "web-0"),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("  =1", "'  =1"),
        ("\t=1", "'\\x09=1"),
        ("\r=1", "'\\x0d=1"),
        ("\0=1", "'\\x00=1"),
        ("\uff1d1", "'\\uff1d1"),
        ("a=1", "a=1"),
        ("", ""),
    ],
)
def test_what_a_spreadsheet_takes_for_a_formula_is_text(text: str, shown: str) -> None:
    assert cell(text) == shown


def test_a_row_has_what_the_document_has_of_an_eviction_under_its_names() -> None:
    one = eviction("web-0", 20.5)
    heads, row = read(text_of(prediction(evictions=(one,)), "csv"))
    found = dict(zip(heads, row, strict=True))

    assert (found["namespace"], found["pod"], found["node"]) == (one.namespace, one.pod, one.node)
    assert float(found["offsetSeconds"]) == one.offset_seconds
    assert found["taint"] == "node.kubernetes.io/unreachable:NoExecute"
    # A number is no text: spreadsheets sort it as one.
    assert f",{one.offset_seconds}," in text_of(prediction(evictions=(one,)), "csv")


def test_no_headers_leaves_the_rows_and_explain_those_of_one_pod() -> None:
    heads, *rows = read(text_of(one_of_each(), "csv"))

    assert read(text_of(one_of_each(), "csv", headers=False)) == rows
    assert heads[0] == "namespace"
    mine = read(text_of(one_of_each(), "csv", headers=False, explain="default/web-0"))
    assert mine == [row for row in rows if row[:2] == ["default", "web-0"]] != []
    assert text_of(prediction(), "csv", headers=False) == ""


def test_rows_of_a_sweep_count_what_they_name_and_say_what_is_not_known() -> None:
    row = failure_row(emptied=("a/x", "=b"), budgets_broken=None)
    found = _only_row(Sweep("nodes", None, failures=(row,)))

    assert (found["emptied.count"], found["emptied"]) == ("2", "a/x; =b")
    assert (found["stuck"], found["servicesDown.count"], found["servicesDown"]) == ("0", "0", "")
    assert found["budgetsBroken"] == found["budgetsBroken.count"] == "<unknown>"
    assert (
        _only_row(Sweep("nodes", None, failures=(failure_row(emptied=("=b",)),)))["emptied"]
        == "'=b"
    )


def test_rows_of_flags_and_fleets_have_the_failure_in_them() -> None:
    row = failure_row(name="n1")
    flags = _only_row(Sweep("flags", None, cells=(FlagRow({"a": "1s", "b": "2"}, None, 3, row),)))
    assert (flags["flags"], flags["tolerationSeconds"]) == ("a=1s; b=2", "")
    assert (flags["missedRenewals"], flags["failure.name"]) == ("3", "n1")

    none = _only_row(Sweep("fleet", None, clusters=(ClusterRow("c.json", 1, 0, 1, 0, None),)))
    some = _only_row(Sweep("fleet", None, clusters=(ClusterRow("c.json", 1, 0, 1, 1, row),)))
    assert list(none) == list(some)
    assert (none["worst.name"], some["worst.name"]) == ("", "n1")
    assert none["worst.budgetsBroken"] == ""


def _only_row(sweep: Sweep) -> dict[str, str]:
    heads, row = read("".join(render_sweep(sweep)))
    return dict(zip(heads, row, strict=True))
