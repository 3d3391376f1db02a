"""``-o table`` and ``-o wide``: what a person sees first, and that it always fits and is safe."""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.builders import (
    MAINTENANCE,
    cancelled,
    eviction,
    inputs,
    kept,
    node_report,
    one_of_each,
    prediction,
    zone_report,
)

from kubectl_evictplan.display import width
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import Warning
from kubectl_evictplan.prediction.document import (
    Because,
    EventSummary,
    NodeChange,
    Prediction,
    Sourced,
    TaintReference,
    TolerationReference,
    Window,
    ZoneState,
)
from kubectl_evictplan.report import cells, grid, render
from kubectl_evictplan.report.layout import Layout

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


def text_of(value: Prediction, output: str = "table", **options: Any) -> str:
    return "".join(render(value, output, **options))


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
            return type(item)(*(replaced(getattr(item, f)) for f in item.__struct_fields__))
        return item

    return replaced(one_of_each())  # type: ignore[no-any-return]


# --- the headline ---------------------------------------------------------------------------


def test_the_first_line_counts_certain_possible_and_kept_pods() -> None:
    value = prediction(
        evictions=(
            eviction("a"),
            eviction("b", node="n2"),
            eviction("c", certainty="possible"),
        ),
        kept=(kept(),),
    )
    first = text_of(value).splitlines()[0]
    assert first == "2 pods are evicted for certain, 1 possibly, from 2 nodes; 1 stays."


def test_a_pod_that_is_evicted_twice_counts_once_and_as_certain() -> None:
    value = prediction(evictions=(eviction("a"), eviction("a", certainty="possible")))
    assert text_of(value).startswith("1 pod is evicted for certain, from 1 node; 0 stay.\n")


def test_a_pod_that_may_stay_or_go_counts_as_possible_only() -> None:
    value = prediction(
        evictions=(eviction("a", certainty="possible"),), kept=(kept("a", namespace="default"),)
    )
    line = "1 pod is possibly evicted, none for certain, from 1 node; 0 stay.\n"
    assert text_of(value).startswith(line)


def test_nothing_evicted_is_said_in_words_and_prints_no_empty_table() -> None:
    text = text_of(prediction(kept=(kept(),)))
    assert text.startswith("No pod is evicted; 1 stays.\n")
    assert "EVICTED-AT" not in text


def test_flags_that_deviate_are_listed_and_defaults_counted() -> None:
    assert (
        "Flags: 1 (default of release); node-eviction-rate=0.25, node-monitor-grace-period=6s "
        "(given)." in text_of(prediction())
    )
    assert "node-monitor-period=5s (default of release)" in text_of(prediction(), "wide")


def test_many_events_are_cut_in_the_table_and_complete_in_wide() -> None:
    events = tuple(EventSummary(float(at), "cordon", (f"n{at}",)) for at in range(5))
    value = prediction(inputs=inputs(events=events))
    assert "Event ...: and 2 more" in text_of(value)
    assert "Event +4s: cordon n4" in text_of(value, "wide")


def test_assumptions_are_shown() -> None:
    value = prediction(inputs=inputs(assumptions=("kubelets are honest",)))
    assert "Assumed: kubelets are honest\n" in text_of(value)


# --- rows -----------------------------------------------------------------------------------


def test_a_possible_eviction_is_marked_and_the_mark_explained() -> None:
    text = text_of(prediction(evictions=(eviction(certainty="possible"),)))
    assert "+5m50.5s ?" in text
    assert "? = possible" in text


def test_the_controller_has_a_column_only_where_controllers_differ() -> None:
    alone = text_of(prediction(evictions=(eviction("a"), eviction("b"))))
    assert "  BY  " not in alone
    mixed = text_of(prediction(evictions=(eviction("a"), eviction("b", controller="pod-gc"))))
    assert "  BY  " in mixed
    assert "deleted by pod-gc, taint-eviction." in mixed


def test_without_headers_there_are_rows_alone_always_with_the_same_columns() -> None:
    text = text_of(one_of_each(), headers=False)
    assert len(text.splitlines()) == 2
    assert text.splitlines()[0].split()[:4] == ["default", "web-0", "n1", "+5m50.5s"]
    assert "taint" in text.splitlines()[0].split()


@pytest.mark.parametrize(
    ("fields", "short", "long"),
    [
        ({}, "unreachable after 300s", "tolerated for 300s (toleration 1)"),
        ({"taint": MAINTENANCE, "toleration": None}, "maintenance=true", "not tolerated"),
        ({"toleration": TolerationReference(0, None)}, "unreachable", "tolerated without limit"),
        ({"taint": None}, "the timer fires", "the timer fires"),
        ({"taint": None, "because": ()}, "<unknown>", "<unknown>"),
    ],
)
def test_why_names_the_taint_and_its_seconds(fields: Any, short: str, long: str) -> None:
    entry = eviction(**fields)
    assert cells.why(entry, short=True) == short
    assert long in cells.why(entry, short=False)


def test_a_stuck_pod_says_so_in_its_row_and_in_full_below() -> None:
    reason = "the kubelet of node n1 is silent and cannot confirm that the containers ended"
    value = prediction(evictions=(eviction(gone=Window(1, None, reason)), eviction("other")))
    text = text_of(value)
    assert "stuck: the kubelet" in text
    assert f"  1: {reason}\n" in text
    assert "1 evicted pod stays Terminating (stuck).\n" in text


def test_a_pod_without_owner_has_none() -> None:
    row = text_of(prediction(evictions=(eviction(owner=""),)), headers=False)
    assert "<none>" in row.split()


def test_kept_pods_are_grouped_by_reason_most_frequent_first() -> None:
    value = prediction(
        kept=(
            kept("a", code="no-timer", reason="one"),
            kept("b", code="no-timer", reason="two"),
            kept("c"),
            kept("d"),
            kept("e"),
        )
    )
    lines = text_of(value).splitlines()
    at = lines.index("Stay: 5 pods")
    assert lines[at + 2].split()[:2] == ["3", "tolerated-forever"]
    assert lines[at + 3].split() == ["2", "no-timer", "e.g.", "one"]


def test_wide_names_every_kept_pod() -> None:
    text = text_of(prediction(kept=(kept("a"), kept("b"))), "wide")
    assert re.search(r"^kube-system +a +n1 +tolerated-forever +DaemonSet/ds ", text, re.MULTILINE)
    assert re.search(r"^kube-system +b ", text, re.MULTILINE)


def test_warnings_are_grouped_by_code_with_the_first_objects() -> None:
    value = prediction(
        warnings=(
            Warning("missing-lease", "the node has no Lease", ("n1", "n2")),
            Warning("tie-at-instant", "order decides", ()),
            Warning("missing-lease", "the node has no Lease", ("n3", "n4", "n2")),
        )
    )
    text = text_of(value)
    assert text.count("missing-lease\n") == 1
    assert "    n1, n2, n3 and 1 more\n" in text
    assert text.index("missing-lease") < text.index("tie-at-instant")


def test_more_than_three_messages_of_one_code_are_counted() -> None:
    value = prediction(warnings=tuple(Warning("c", f"message {i}") for i in range(5)))
    assert "  and 2 more of this kind (see -o wide)\n" in text_of(value)
    assert "message 4" in text_of(value, "wide")


def test_a_stopped_zone_says_so_and_an_unknown_rate_is_unknown() -> None:
    states = (
        ZoneState("FullDisruption", "certain", 1.0, 1.0, 1.0, 0.0, 0, 3),
        ZoneState("Normal", "possible", None, 2.0, 3.0, None, 3, 0),
    )
    text = text_of(prediction(zones=(zone_report("", states=states),)))
    assert re.search(r"^<none> +\+1s +FullDisruption +stopped +0 +3$", text, re.MULTILINE)
    assert re.search(r"^<none> +\+2s \.\. \+3s \? +Normal +<unknown> +3 +0$", text, re.MULTILINE)


def test_a_change_of_an_unforeseen_kind_is_shown_as_it_is() -> None:
    changes = (NodeChange("cordoned", "", "certain", 1.0, 1.0, 1.0),)
    text = text_of(prediction(nodes=(node_report(changes=changes, ready_at_start=""),)))
    assert re.search(r"^n1 +eu/1a +\+1s +cordoned +<none>$", text, re.MULTILINE)
    assert "Ready <unknown>, taints <none>" in text


# --- times ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("earliest", "latest", "exact", "rounded"),
    [
        (0.0, 0.0, "+0s", "+0s"),
        (350.8121, 350.8124, "+5m50.812s", "+5m50.812s"),
        (350.81, 356.2, "+5m50.81s .. +5m56.2s", "+5m50s .. +5m57s"),
        (20.12, 21.31, "+20.12s .. +21.31s", "+20.1s .. +21.4s"),
        (-2.5, 1.0, "-2.5s .. +1s", "-2.5s .. +1s"),
        (59.95, 60.01, "+59.95s .. +1m0.01s", "+59s .. +1m1s"),
        (3590.2, 5400.7, "+59m50.2s .. +1h30m0.7s", "+59m .. +1h31m"),
        (0.0, 7200.5, "+0s .. +2h0m0.5s", "+0s .. +2h1m"),
        (5.0, None, "+5s or later", "+5s or later"),
        (None, 5.0, "until +5s", "until +5s"),
        (None, None, "<unknown>", "<unknown>"),
        (float("nan"), float("inf"), "<unknown>", "<unknown>"),
    ],
)
def test_windows_read_as_go_durations_and_round_outwards(
    earliest: float | None, latest: float | None, exact: str, rounded: str
) -> None:
    assert cells.window(earliest, latest) == exact
    assert cells.window(earliest, latest, exact=False) == rounded


# --- form -----------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["table", "wide"])
@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("explain", [False, True])
def test_no_string_reaches_the_terminal_unescaped(output: str, hostile: str, explain: bool) -> None:
    value = with_every_string(hostile)
    name = f"{hostile}/{hostile}" if explain else None
    lines = text_of(value, output, explain=name).split("\n")
    categories = {unicodedata.category(c) for c in itertools.chain.from_iterable(lines)}
    assert not FORBIDDEN & categories
    assert not [line for line in lines if line != line.rstrip()]
    plain = text_of(value, output, explain=name, ascii_only=True)
    assert plain.isascii()


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_table_fits_100_columns_whatever_the_names(hostile: str) -> None:
    lines = text_of(with_every_string(hostile)).splitlines()
    assert max(map(width, lines)) <= 100


@given(
    st.lists(
        st.tuples(
            st.text("ab-", min_size=1, max_size=60),
            st.floats(0, 90_000),
            st.floats(0, 90_000),
            st.sampled_from(["taint-eviction", "node-lifecycle", "pod-gc"]),
        ),
        max_size=5,
    ),
    st.integers(-1, 200),
)
def test_the_table_fits_the_columns_it_is_given(rows: list[Any], columns: int) -> None:
    value = prediction(
        evictions=tuple(
            eviction(
                name,
                at,
                namespace=name,
                node=name,
                latest_seconds=at + more,
                gone=Window(at, at + more),
                controller=controller,
                certainty="possible",
            )
            for name, at, more, controller in rows
        )
    )
    lines = text_of(value, width=columns).splitlines()
    assert max(map(width, lines)) <= max(100, columns)


def test_long_names_keep_their_beginning_and_their_end() -> None:
    name = "checkout-frontend-" + "x" * 80 + "-7d9fcbf4b-q8zkp"
    text = text_of(prediction(evictions=(eviction(name),)))
    assert re.search(r"^default +checkout-f\w*…\w*cbf4b-q8zkp ", text, re.MULTILINE)
    assert name in text_of(prediction(evictions=(eviction(name),)), "wide")


def test_a_name_outside_ascii_cannot_pass_for_another() -> None:
    assert "\\u0430dmin" in text_of(prediction(evictions=(eviction("\u0430dmin"),)))


def test_a_name_like_a_number_stays_as_it_is() -> None:
    value = prediction(nodes=(node_report("1e5"), node_report("0012"), node_report("nan")))
    lines = text_of(value).splitlines()
    assert {"1e5", "0012", "nan"} <= {line.split()[0] for line in lines if line}


def test_colours_only_when_asked_and_they_change_nothing_else() -> None:
    for output in ("table", "wide"):
        plain = text_of(one_of_each(), output)
        colored = text_of(one_of_each(), output, color=True)
        assert "\x1b" not in plain
        assert colored != plain
        assert [line.rstrip() for line in ANSI.sub("", colored).split("\n")] == plain.split("\n")


def test_rows_come_one_by_one() -> None:
    value = prediction(evictions=tuple(eviction(f"p{i}") for i in range(50)))
    chunks = list(render(value, "table"))
    assert len(chunks) > 50
    assert all(chunk.endswith("\n") for chunk in chunks)


def test_rendering_twice_gives_the_same_bytes() -> None:
    for output in ("table", "wide", "json", "yaml", "name"):
        assert text_of(one_of_each(), output) == text_of(one_of_each(), output)


CELLS = st.text("ab.:=/", min_size=1, max_size=30)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6), st.booleans())
def test_both_table_writers_give_the_same_text(rows: list[Any], wide: bool) -> None:
    layout = Layout(wide, False, None if wide else 40, ascii_only=False)
    columns = (grid.Column("A", 5), grid.Column("B"), grid.Column("C", 4, cut_end=True))
    assert list(grid.table(columns, rows, layout)) == list(grid.stream(columns, rows, layout))


# --- one pod's story ------------------------------------------------------------------------


def test_the_story_is_told_oldest_first_and_ends_in_one_sentence() -> None:
    text = text_of(prediction(evictions=(eviction(),)), explain="default/web-0")
    places = [text.index(part) for part in ("falls silent", "becomes Unknown", "timer fires")]
    assert places == sorted(places)
    assert "=> For certain taint-eviction deletes the pod at +5m50.5s" in text
    flat = " ".join(text.split())
    assert "which the pod tolerates for 300s only (toleration 1, counted from 0)" in flat


@pytest.mark.parametrize(
    ("toleration", "words"),
    [
        (None, "which no toleration of the pod matches"),
        (TolerationReference(0, 0), "tolerates for no time at all (0s; toleration 0,"),
        (TolerationReference(2, None), "tolerates without limit (toleration 2,"),
    ],
)
def test_the_conclusion_says_how_the_taint_was_tolerated(
    toleration: TolerationReference | None, words: str
) -> None:
    value = prediction(evictions=(eviction(taint=MAINTENANCE, toleration=toleration),))
    assert words in " ".join(text_of(value, explain="default/web-0").split())


def test_a_kept_pod_says_why_not() -> None:
    chain = (Because(3.0, "taint added", "node/n1", "scenario"),)
    text = text_of(prediction(kept=(kept(because=chain),)), explain="kube-system/ds-1")
    assert "Not evicted: node n1" in text
    assert "=> The pod stays on its node: every NoExecute taint of the node" in text
    assert "taint added" in text


def test_every_eviction_of_the_pod_is_told_in_order() -> None:
    value = prediction(
        evictions=(eviction(at=90.0, uid="two"), eviction(at=30.0, uid="one")),
        cancelled=(cancelled("web-0"),),
    )
    text = text_of(value, explain="default/web-0")
    numbers = [text.index(f"({i} of 3)") for i in (1, 2, 3)]
    assert numbers == sorted(numbers)
    assert text.index("uid one") < text.index("Timer cancelled") < text.index("uid two")


def test_warnings_about_the_pod_end_its_story() -> None:
    value = prediction(
        evictions=(eviction(),),
        warnings=(
            Warning("finalizers-block", "a finalizer holds it", ("default/web-0",)),
            Warning("missing-lease", "the node has no Lease", ("n2",)),
        ),
    )
    text = text_of(value, explain="default/web-0")
    assert "finalizers-block: a finalizer holds it" in text
    assert "missing-lease" not in text


@pytest.mark.parametrize("name", ["default/web-0", "web-0", "pod/web-0"])
def test_a_pod_may_be_named_without_namespace_while_that_is_unambiguous(name: str) -> None:
    text = text_of(prediction(evictions=(eviction(),)), explain=name)
    assert text.startswith("Pod default/web-0\n")


def test_an_ambiguous_pod_is_refused_with_the_choices() -> None:
    value = prediction(evictions=(eviction(), eviction(namespace="shop")))
    with pytest.raises(InputError, match="one of default/web-0, shop/web-0"):
        render(value, "table", explain="web-0")


def test_an_unknown_pod_is_refused_with_a_suggestion_before_anything_is_rendered() -> None:
    with pytest.raises(InputError, match="did you mean default/web-0"):
        render(prediction(evictions=(eviction(),)), "table", explain="default/web-00")


def test_a_chain_without_known_instants_says_unknown() -> None:
    because = (Because(None, "", "", ""),)
    text = text_of(prediction(kept=(kept(because=because),)), explain="ds-1")
    assert "  <unknown>  <unknown>\n" in text


def test_a_taint_of_another_effect_is_spelled_in_full() -> None:
    taint = TaintReference("k", "NoSchedule")
    assert cells.taint(taint) == "k:NoSchedule"
    assert cells.seconds_text(Sourced("10m", "given")) == "10m (given)"
    assert cells.seconds_text(Sourced(True, "")) == "true"
