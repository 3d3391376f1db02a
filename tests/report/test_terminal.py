"""What may reach a terminal: whole names, nothing that redraws it, columns that fit."""

from __future__ import annotations

import itertools
import re
import unicodedata
from functools import cache
from typing import Any, Literal, get_origin, get_type_hints

import msgspec
import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.builders import (
    eviction,
    inputs,
    kept,
    node_report,
    one_of_each,
    prediction,
    table_of,
    text_of,
)
from report.hostile import strings

from kubectl_evictplan.display import width
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import (
    EventSummary,
    NodeChange,
    Prediction,
    ZoneReport,
    ZoneState,
)
from kubectl_evictplan.report import render
from kubectl_evictplan.report.blocks import (
    Column,
    Commands,
    Figures,
    Finding,
    Findings,
    Moment,
    Phrase,
    Table,
    Timeline,
    Verdict,
)
from kubectl_evictplan.report.terminal import Terminal

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
HOSTILE = (
    "\x1b]0;owned\x07",
    "a\rb",
    "a\nb",
    "\u202egnp.exe",
    "\ud800",
    "z" + "\u0301" * 50,
    "界" * 200,
    "x" * 500,
    "x " * 300,
    "",
    "|`<b>&amp;@me",
)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@cache
def free_fields(kind: type[msgspec.Struct]) -> dict[str, bool]:
    """The fields by name, and whether any text can stand there: reading refuses what a Literal does not list."""
    return {name: get_origin(one) is not Literal for name, one in get_type_hints(kind).items()}


def with_every_string(text: str) -> Prediction:
    """A full prediction with ``text`` in every string field."""

    def replaced(item: Any) -> Any:
        if isinstance(item, str):
            return text
        if isinstance(item, dict):
            return dict.fromkeys([text], replaced(next(iter(item.values()))))
        if isinstance(item, list | tuple):
            return tuple(map(replaced, item))
        if isinstance(item, msgspec.Struct):
            free = free_fields(type(item))
            values = {name: getattr(item, name) for name in item.__struct_fields__}
            return type(item)(*(replaced(v) if free[name] else v for name, v in values.items()))
        return item

    return replaced(one_of_each())  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "options", [{}, {"by": "workload"}, {"explain": "{0}/{0}"}, {"columns": 30}]
)
@pytest.mark.parametrize("output", ["table", "wide"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_string_reaches_the_terminal_unescaped(
    output: str, hostile: str, options: dict[str, Any]
) -> None:
    value = with_every_string(hostile)
    if "explain" in options:
        options = {"explain": f"{hostile}/{hostile}"}
    lines = text_of(value, output, **options).split("\n")
    categories = {unicodedata.category(c) for c in itertools.chain.from_iterable(lines)}
    assert not FORBIDDEN & categories
    assert not [line for line in lines if line != line.rstrip()]
    assert text_of(value, output, ascii_only=True, **options).isascii()


NAMES = st.text("abc-", min_size=1, max_size=60)


@given(
    st.lists(
        st.tuples(NAMES, NAMES, NAMES, st.floats(0, 90_000), st.floats(0, 90_000)),
        min_size=1,
        max_size=5,
    ),
    st.none() | st.integers(-1, 200),
)
def test_no_name_is_ever_cut_and_columns_go_before_a_line_is_too_long(
    rows: list[Any], columns: int | None
) -> None:
    value = prediction(
        evictions=tuple(
            eviction(pod, at, namespace=namespace, node=node, latest_seconds=at + more)
            for namespace, pod, node, at, more in rows
        )
    )
    head, *cells = table_of(value, columns=columns)
    for (namespace, pod, node, *_), row in zip(rows, cells, strict=True):
        assert row[:2] == [namespace, pod]
        assert ("NODE" in head) <= (node in row)
    lines = text_of(value, columns=columns).split("\n\n")[1].splitlines()
    least = ["NAMESPACE", "POD", "EVICTED-AT"]
    table = [line for line in lines if re.match(rf"NAMESPACE|{'|'.join(r[0] for r in rows)}", line)]
    if columns is not None and max(map(width, table[: len(rows) + 1])) > max(columns, 100):
        assert head == least


def test_columns_go_in_a_fixed_order_and_it_is_said_once_which_are_missing() -> None:
    value = prediction(evictions=(eviction("a"), eviction("b", node="n2", controller="pod-gc")))
    full = table_of(value)[0]
    assert full == ["NAMESPACE", "POD", "NODE", "EVICTED-AT", "BY", "GONE", "OWNER"]
    seen = [full]
    for columns in range(100, 10, -1):
        head = table_of(value, columns=columns)[0]
        if head != seen[-1]:
            seen.append(head)
    gone = [set(before) - set(after) for before, after in itertools.pairwise(seen)]
    assert gone == [{"OWNER"}, {"BY"}, {"GONE"}, {"NODE"}]
    text = " ".join(text_of(value, columns=20).split())
    assert "Too narrow for NODE, BY, GONE, OWNER: a wider terminal, a pipe or -o wide" in text
    assert "Too narrow" not in text_of(value)


def test_a_name_longer_than_the_terminal_makes_a_longer_line() -> None:
    name = "checkout-frontend-" + "x" * 80 + "-7d9fcbf4b-q8zkp"
    value = prediction(
        evictions=(eviction(name),), warnings=(Warning("empty-dir-lost", "…", (f"d/{name}",)),)
    )
    assert text_of(value, columns=40).count(name) == 2


def test_a_name_outside_ascii_cannot_pass_for_another() -> None:
    text = text_of(prediction(evictions=(eviction("\u0430dmin", node="\u0430"),)))
    assert "\\u0430dmin" in text
    assert "\u0430" not in text


def test_a_name_like_a_number_stays_as_it_is() -> None:
    value = prediction(evictions=tuple(eviction(name) for name in ("1e5", "0012", "nan")))
    assert [row[1] for row in table_of(value)[1:]] == ["1e5", "0012", "nan"]


def test_prose_fits_the_terminal_and_a_hundred_columns_elsewhere() -> None:
    for columns, limit in ((80, 80), (120, 100), (None, 100)):
        text = text_of(one_of_each(), columns=columns)
        assert max(map(len, text.splitlines())) <= limit


def test_colours_only_when_asked_and_they_change_nothing_else() -> None:
    for output in ("table", "wide"):
        plain = text_of(one_of_each(), output)
        colored = text_of(one_of_each(), output, color=True)
        assert "\x1b" not in plain
        assert colored != plain
        assert [line.rstrip() for line in ANSI.sub("", colored).split("\n")] == plain.split("\n")


def test_rows_come_in_chunks_of_lines_and_columns_stay_aligned() -> None:
    rows = [(f"p{'x' * (at // 400)}", "1e5") for at in range(1200)]
    table = Table((Column("A"), Column("B")), rows)
    chunks = list(Terminal(None, color=False, ascii_only=False).render([table]))
    assert len(chunks) == 1201
    assert all(chunk.endswith("\n") for chunk in chunks)
    assert {chunk.index("B" if chunk.startswith("A") else "1e5") for chunk in chunks} == {5}


def test_rendering_twice_gives_the_same_bytes() -> None:
    for output in ("table", "wide", "json", "yaml", "name"):
        assert text_of(one_of_each(), output) == "".join(render(one_of_each(), output))


# --- what follows the evictions ---------------------------------------------------------------


def test_warnings_name_their_first_objects_and_count_the_rest() -> None:
    value = prediction(
        warnings=(
            Warning("missing-lease", "the node has no Lease", ("n1", "n2")),
            Warning("tie-at-instant", "order decides", ()),
            Warning("missing-lease", "the node has no Lease", ("n3", "n4", "n2")),
        )
    )
    text = text_of(value)
    assert "  missing-lease: the node has no Lease (n1, n2, n3 and 1 more)\n" in text
    assert "  missing-lease: the node has no Lease (n1, n2, n3, n4)\n" in text_of(value, "wide")
    assert text.index("missing-lease") < text.index("tie-at-instant")


def test_routine_warnings_are_noted_and_told_in_wide() -> None:
    value = prediction(warnings=(Warning("monitor-phase-unknown", "when it ticks"),))
    assert "  noted: monitor-phase-unknown (-o wide explains)\n" in text_of(value)
    assert "monitor-phase-unknown: when it ticks\n" in text_of(value, "wide")


def test_nodes_that_change_alike_are_told_together() -> None:
    change = NodeChange("ready", "Unknown", "certain", 42.0, 42.0, 47.0)
    value = prediction(
        evictions=(eviction(node="n1"), eviction(node="n2"), eviction(node="n3")),
        nodes=tuple(node_report(name, changes=(change,)) for name in ("n1", "n2", "n3", "n4")),
    )
    flat = " ".join(text_of(value).split())
    assert "22:00:42 +42s .. +47s 3 nodes of zone eu/1a become Ready=Unknown: n1, n2, n3 " in flat


def test_what_a_kubelet_posts_is_no_change_of_what_its_node_is() -> None:
    changes = [NodeChange("ready", value, "certain", 3.0, 3.0, 3.0) for value in ("True", "False")]
    value = prediction(nodes=(node_report("n1", changes=changes), node_report("n2")))
    told = text_of(value, "wide")
    assert "node n1 posts Ready=True" in told
    assert "node n1 posts Ready=False" in told


def test_what_happens_leaves_out_what_explains_no_eviction() -> None:
    changes = (
        NodeChange("taint-added", "k:NoExecute", "certain", 3.0, 3.0, 3.0, "scenario"),
        NodeChange("taint-added", "k:NoSchedule", "certain", 4.0, 4.0, 4.0, "node-lifecycle"),
    )
    passing = ZoneState("PartialDisruption", "possible", None, 5.0, 5.0, 0.0, 1, 2)
    zones = (ZoneReport("eu/1a", (ZoneState("Normal", "certain", 0, 0, 0, 0.1, 3, 0), passing)),)
    nodes = (node_report(changes=changes),)
    value = prediction(evictions=(eviction(),), nodes=nodes, zones=zones)
    assert "What happens" not in text_of(value)
    assert "  22:00:04  +4s  node n1 gets the taint k:NoSchedule\n" in text_of(value, "wide")
    assert "zone eu/1a becomes PartialDisruption" in text_of(value, "wide")


def test_a_stopped_zone_says_so() -> None:
    states = (
        ZoneState("Normal", "certain", 0.0, 0.0, 0.0, 0.1, 3, 0),
        ZoneState("PartialDisruption", "certain", 1.0, 1.0, 1.0, 0.0, 1, 2),
    )
    text = text_of(prediction(zones=(ZoneReport("eu/1a", states),)))
    assert (
        "zone eu/1a becomes PartialDisruption: 1 of 3 nodes ready, no more node is tainted" in text
    )


def test_events_at_one_instant_are_one_and_come_before_what_they_cause() -> None:
    events = tuple(EventSummary(3.0, "kubelet-stop", (f"n{at}",), detail=str(at)) for at in (1, 2))
    change = NodeChange("ready", "False", "certain", 3.0, 3.0, 3.0)
    value = prediction(inputs=inputs(events=events), nodes=(node_report("n1", changes=(change,)),))
    moments = text_of(value).split("What happens\n")[1].splitlines()[:2]
    assert moments == [
        "  22:00:03  +3s  kubelet-stop n1, n2",
        "  22:00:03  +3s  node n1 posts Ready=False",
    ]


def test_wide_names_every_kept_pod() -> None:
    text = text_of(prediction(kept=(kept("a"), kept("b"))), "wide")
    assert re.search(r"^kube-system +a +n1 +tolerated-forever +DaemonSet/ds ", text, re.MULTILINE)
    assert re.search(r"^kube-system +b ", text, re.MULTILINE)


def emulated(text: str) -> pyte.Screen:
    """A terminal with room for all of ``text``, that has been written it as a terminal's driver does."""
    lines = text.splitlines()
    screen = pyte.Screen(2 * max(map(len, lines), default=1) + 20, len(lines) + 3)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    return screen


def without_marks(text: str) -> str:
    """Return a line without its combining marks: this terminal loses those of wide characters."""
    apart = unicodedata.normalize("NFD", text)
    return "".join(one for one in apart if unicodedata.category(one) not in ("Mn", "Me", "Mc"))


def check_hostile(text: str) -> None:
    """A real terminal shows the lines as they are written, each on its own, and nothing else changes."""
    moment = Moment(text, text, text, text)
    blocks = (
        Verdict((Phrase(text, "loud"),)),
        Table(
            (Column("A"), Column("B")),
            [(text, Phrase(text, "stuck")), ("x", "y")],
            text,
            notes=(text,),
        ),
        Timeline(text, (moment,), text),
        Findings(text, (Finding(text, text, text),), "loud"),
        Figures(text, ((text, text),)),
        Commands(text, (text,), text),
    )
    page = "".join(Terminal(None, color=True, ascii_only=False).render(blocks))
    screen = emulated(page)
    lines = list(map(without_marks, ANSI.sub("", page).splitlines()))
    assert len(page.splitlines()) == page.count("\n"), text
    shown = [without_marks(line).rstrip() for line in screen.display]
    assert shown == [line.rstrip() for line in lines] + [""] * 3, text
    assert (screen.cursor.y, screen.cursor.x) == (len(lines), 0), text
    untouched = emulated("")
    assert (screen.title, screen.icon_name, screen.mode, screen.margins) == (
        *(untouched.title, untouched.icon_name, untouched.mode, untouched.margins),
    ), text
    # Our own colours end with what they colour.
    assert screen.cursor.attrs == untouched.cursor.attrs, text


def test_a_terminal_shows_hostile_strings_where_they_are_written() -> None:
    for text in strings(8):
        check_hostile(text)


@pytest.mark.slow
def test_a_terminal_shows_ten_thousand_hostile_strings_where_they_are_written() -> None:
    for text in strings(10_000):
        check_hostile(text)
