"""The page: it needs nothing else, runs nothing but its own scripts, and shows hostile names as text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import html5lib
import pytest
from report.builders import eviction, one_of_each, prediction, text_of
from report.hostile import strings

from kubectl_evictplan.display import escape
from kubectl_evictplan.prediction.document import Window, ZoneReport, ZoneState
from kubectl_evictplan.report import html_page, page_parts, vega_lite
from kubectl_evictplan.report.blocks import (
    Band,
    Bands,
    Bar,
    BarGroup,
    Block,
    Commands,
    Counts,
    Figures,
    Finding,
    Findings,
    Gantt,
    Moment,
    Phrase,
    Point,
    Stories,
    Table,
    Timeline,
    Title,
    Verdict,
    columns,
)

REPOSITORY = Path(__file__).resolve().parents[2]
_ALLOWED_ATTRIBUTES = {
    *(
        "id",
        "class",
        "href",
        "aria-labelledby",
        "aria-label",
        "tabindex",
        "role",
        "scope",
        "type",
        "hidden",
    ),
    *(
        "data-rows",
        "data-stories",
        "data-story",
        "data-more",
        "data-spec",
        "lang",
        "charset",
        "name",
    ),
    *("content", "http-equiv"),
}


def page(*blocks: Block) -> str:
    return "".join(html_page.render(blocks))


def without_scripts(text: str) -> str:
    """The page up to its own scripts, which take a parser a second."""
    return text.partition("\n<script>")[0] + "\n</body>\n</html>\n"


def tree(text: str) -> ET.Element:
    """Parse as a browser does; every error of the syntax is an error."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    found: ET.Element = parser.parse(text)
    return found


def text_in(element: ET.Element) -> str:
    return "".join(element.itertext())


def unpacked(text: str, name: str) -> Any:
    match = re.search(rf'<script type="application/gzip" id="{name}">([^<]*)</script>', text)
    assert match is not None
    return json.loads(gzip.decompress(base64.b64decode(match[1])))


def hostile_blocks(text: str) -> tuple[Block, ...]:
    moment = Moment(text, text, text, text)
    return (
        Title(text),
        Verdict((Phrase(text, "certain"),)),
        Table(
            *(columns("POD", text), [(text, Phrase(text, "stuck"))], text, (text, text), (text,)),
            Stories([moment], [(0,)], [0]),
        ),
        Timeline(text, (moment,), text),
        Findings(text, (Finding(text, text, text),)),
        Figures(text, ((text, text),)),
        Commands(text, (text,), text),
        Gantt(text, (BarGroup(text, (Bar(text, 0.0, 1.0, "plain", text),)),), None, text),
        Bands(text, text, (Band(text, (Point(0.0, 1, 2),), 3.0),), text),
        Counts(text, text, ((text, 3, "good"),)),
    )


@cache
def shape_of_a_page() -> list[str]:
    """The elements and attributes of a page of harmless texts."""
    return shape(tree(without_scripts(page(*hostile_blocks("word")))))


def shape(root: ET.Element) -> list[str]:
    return [f"{element.tag} {sorted(element.attrib)}" for element in root.iter()]


def check_hostile(text: str) -> None:
    whole = without_scripts(page(*hostile_blocks(text)))
    root = tree(whole)
    assert shape(root) == shape_of_a_page(), text
    safe = escape(text)
    shown = [text_in(element) for element in root.iter("td")]
    assert shown[:2] == [safe, safe]
    assert text_in(next(root.iter("h1"))) == safe
    assert [text_in(element) for element in root.iter("dd")] == [safe]
    assert text_in(next(root.iter("code"))) == safe
    data = [e for e in root.iter("script") if e.get("type") == "application/json"]
    specs = [json.loads(text_in(element)) for element in data]
    short = escape(text, max_columns=80)
    assert specs[0]["moments"] == [[safe, safe, safe]]
    assert specs[1]["data"]["values"][0]["what"] == short
    assert specs[3]["data"]["values"][0]["what"] == short


def test_a_hostile_string_is_text_wherever_it_stands() -> None:
    assert {name for line in shape_of_a_page() for name in re.findall(r"'([^']+)'", line)} <= (
        _ALLOWED_ATTRIBUTES
    )
    for text in (*strings(70)[::4], "</script x", "<!--<script x", '" onload=x "'):
        check_hostile(text)


@pytest.mark.slow
def test_ten_thousand_hostile_strings_are_text_wherever_they_stand() -> None:
    for text in strings(10_000):
        check_hostile(text)


def test_the_policy_names_the_hash_of_every_script_and_of_the_style() -> None:
    text = page(Title("t"))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None

    ran = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    ran += re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in ran]
    assert len(ran) == 5
    assert sorted(re.findall(r"sha256-([^&']+)", policy[1].replace("&#x27;", "'"))) == sorted(
        hashes
    )
    assert policy[1].startswith("default-src &#x27;none&#x27;") or policy[1].startswith(
        "default-src 'none'"
    )
    assert "unsafe" not in policy[1]


def test_the_page_asks_nobody_for_anything() -> None:
    root = tree(without_scripts(text_of(one_of_each(), "html")))

    addresses = [e.get(name) for e in root.iter() for name in ("href", "src") if e.get(name)]
    assert addresses
    assert all(address.startswith("#") for address in addresses if address is not None)
    assert not [e.tag for e in root.iter() if e.tag in ("link", "img", "iframe", "object", "base")]


def test_every_section_can_be_reached_and_every_chart_is_a_table_too() -> None:
    root = tree(without_scripts(text_of(one_of_each(), "html")))

    ids = {element.get("id") for element in root.iter("section")}
    links = [str(element.get("href"))[1:] for element in root.iter("a")]
    assert {*links} - {"main"} <= ids
    figures = list(root.iter("figure"))
    assert len(figures) >= 4
    for figure in figures:
        assert list(figure.iter("table"))
        [box] = [e for e in figure.iter("div") if e.get("class") == "chart"]
        assert box.get("role") == "img"
        assert box.get("aria-label")


def test_a_long_table_shows_its_first_rows_and_carries_them_all() -> None:
    rows = [(f"pod-{number}", Phrase("+1s", "certain")) for number in range(1000)]
    moments = [Moment("", f"+{number}s", "happens") for number in range(2)]
    told = Stories(moments, [(0, 1), (1,)], [number % 2 for number in range(1000)])
    text = page(Table(columns("POD", "WHEN"), rows, "Pods", stories=told))

    assert re.findall(r'<tr data-story="(\d)"', text) == ["0", "1"] * 50
    first, second = unpacked(text, "t0")
    assert [first["texts"][at] for at in first["rows"]] == [name for name, _ in rows]
    assert (second["texts"], second["tones"]) == (["+1s"], ["certain"])
    assert second["rows"] == [0] * 1000
    stories = unpacked(text, "t0s")
    assert stories["rows"][:3] == [0, 1, 0]
    assert stories["chains"] == [[0, 1], [1]]


def test_charts_tell_windows_as_data() -> None:
    chart = Gantt("G", (BarGroup("n1", (Bar("a", 1.0, 4.0, "possible", "+1s .. +4s"),)),), None)
    [row] = vega_lite.gantt(chart)["data"]["values"]
    assert (row["from"], row["to"], row["kind"], row["when"]) == (
        1.0,
        4.0,
        "possible",
        "+1s .. +4s",
    )

    band = Band("b", (Point(0.0, 2, 2), Point(5.0, 0, 1)), 9.0)
    values = vega_lite.band(Bands("B", "ready", (band,)), band)["data"]["values"]
    assert values[-1] == {"at": 9.0, "least": 0, "most": 1}


def test_what_happens_at_the_start_alone_is_drawn_as_a_tick_on_an_axis_with_a_length() -> None:
    chart = Gantt("G", (BarGroup("n1", (Bar("a", 0.0, 0.0),)),), None)
    spec = vega_lite.gantt(chart)

    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["bar", "tick"]
    assert spec["data"]["values"][0]["short"]
    assert spec["encoding"]["x"]["scale"]["domainMax"] > 0
    assert len(spec["encoding"]["x"]["axis"]["values"]) > 1


@pytest.mark.parametrize("end", [0.3, 3.3, 33.0, 333.0, 3333.0, 86400.0, 10_000_000.0])
def test_an_axis_of_time_has_some_ticks_whatever_its_length(end: float) -> None:
    bars = (Bar("a", 0.0, end),)
    ticks = vega_lite.gantt(Gantt("G", (BarGroup("n1", bars),), None))["encoding"]["x"]["axis"]

    assert 2 <= len(ticks["values"]) <= 10
    assert ticks["values"][-1] <= end


def test_charts_end_soon_after_the_last_change_and_not_with_the_longest_grace_period() -> None:
    soon = eviction(at=3.0, gone=Window(3.0, 1800.0))
    found = json.loads(charts_of(text_of(prediction(evictions=(soon,)), "html"))[0])

    assert 3.0 < found["data"]["values"][-1]["at"] < 4.0


def test_zones_that_stay_as_they_are_have_no_chart() -> None:
    def drawn(*states: str) -> bool:
        found = tuple(ZoneState(state, "certain", 0.0, 0.0, 0.0, 0.1, 3, 0) for state in states)
        return ">Zones</h2>" in text_of(prediction(zones=(ZoneReport("z", found),)), "html")

    assert not drawn("Normal")
    assert drawn("Normal", "FullDisruption")


def charts_of(text: str) -> list[str]:
    """The specifications of a page's charts, in order."""
    return re.findall(r'<script type="application/json" id="c\d+n?\d*">([^<]*)</script>', text)


def test_the_story_of_a_pod_is_in_the_page() -> None:
    text = text_of(prediction(evictions=(eviction(),)), "html")

    [told] = re.findall(r'<script type="application/json" id="t\d+s">([^<]*)</script>', text)
    stories = json.loads(told)
    texts = [stories["moments"][place][1] for place in stories["chains"][stories["rows"][0]]]
    assert texts == [
        "node n1: the kubelet falls silent",
        "node n1: Ready becomes Unknown",
        "the timer starts: 300s",
        "the timer fires",
    ]


def test_shipped_libraries_are_those_that_the_documentation_names() -> None:
    rows = re.findall(
        r"^\| `([\w.-]+\.js)` \| ([\w-]+) [\d.]+ \| `([0-9a-f]{64})` \|$",
        (REPOSITORY / "docs/dependencies.md").read_text("utf-8"),
        flags=re.MULTILINE,
    )
    folder = files(page_parts.__package__).joinpath("page")
    shipped = {item.name for item in folder.iterdir() if item.name.startswith("vega")}

    assert {name for name, *_ in rows} == shipped
    for name, package, digest in rows:
        assert hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() == digest
        assert "Redistribution and use" in folder.joinpath(f"LICENSE.{package}").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here")
def test_a_browser_draws_every_chart_under_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    text = text_of(one_of_each(), "html")
    file.write_text(text)
    done = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *("--virtual-time-budget=20000", "--dump-dom", file.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert 'data-ready="true"' in done.stdout
    assert done.stdout.count("<svg") == text.count('class="chart"')
    assert "could not be drawn" not in done.stdout.partition("<script>")[0]
    assert not re.search(r"CONSOLE|Content Security Policy", done.stderr)


@pytest.mark.slow
def test_a_ticket_of_fifty_thousand_evictions_stays_small() -> None:
    rows = tuple(
        eviction(f"web-{at:06d}-x7k2q", 300.0 + at // 30, node=f"node-{at // 30:05d}", uid=f"u{at}")
        for at in range(51_000)
    )
    many = prediction(evictions=rows)

    assert len(text_of(many, "html").encode()) < 5 * 2**20
    assert len(text_of(many, "markdown").encode()) <= 32_000
