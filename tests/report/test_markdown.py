"""Markdown: what a ticket shows is what was written, and nothing that a cluster holds becomes more."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace
from report.builders import eviction, inputs, one_of_each, prediction, text_of
from report.hostile import strings

from kubectl_evictplan.display import escape
from kubectl_evictplan.prediction.document import DrainReport, EventSummary, Prediction, WaitingPod
from kubectl_evictplan.prediction.fingerprint import fingerprint, sealed
from kubectl_evictplan.prediction.impact_document import Impact
from kubectl_evictplan.report import markdown
from kubectl_evictplan.report.blocks import (
    Bar,
    BarGroup,
    Block,
    Commands,
    Figures,
    Finding,
    Findings,
    Gantt,
    Moment,
    Phrase,
    Table,
    Timeline,
    Title,
    Verdict,
    columns,
)
from kubectl_evictplan.report.commands_to_run import PlanFile
from kubectl_evictplan.report.ticket import ticket

_PARSER = MarkdownIt("gfm-like", {"linkify": False, "html": True})
_JOINER = "\u2060"
# What a page may consist of; links, pictures, HTML and quotations are not among it.
_ALLOWED = {
    *(
        "heading_open",
        "heading_close",
        "paragraph_open",
        "paragraph_close",
        "inline",
        "text",
        "text_special",
    ),
    *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close", "strong_open"),
    *(
        "strong_close",
        "fence",
        "table_open",
        "table_close",
        "thead_open",
        "thead_close",
        "tbody_open",
    ),
    *("tbody_close", "tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close"),
}


def tokens(text: str) -> Iterator[Token]:
    for token in _PARSER.parse(text):
        yield token
        yield from token.children or ()


def shown(text: str) -> list[str]:
    """The inline texts of a page as a browser shows them."""
    return [
        "".join(child.content for child in token.children or ()).replace(_JOINER, "")
        for token in _PARSER.parse(text)
        if token.type == "inline"
    ]


def page(*blocks: Block) -> str:
    return "".join(markdown.render(blocks))


def check_hostile(text: str) -> None:
    """One string everywhere on a page: it is shown as it is, and adds nothing to the page."""
    blocks = (
        Title(text),
        Verdict((Phrase(text), Phrase(text))),
        Table(columns("A", "B"), [(text, "x"), ("y", Phrase(text))], text, notes=(text,)),
        Timeline(text, (Moment(text, "+1s", text, text),), text),
        Findings(text, (Finding("code", text, text),)),
        Figures(text, ((text, text),)),
    )
    found = list(tokens(page(*blocks)))
    assert {token.type for token in found} <= _ALLOWED, text
    kinds = [token.type for token in found]
    assert kinds.count("tr_open") == 3, text
    assert kinds.count("td_open") == 4, text
    assert kinds.count("heading_open") == 5, text
    assert kinds.count("list_item_open") == 5, text
    safe = escape(text)
    seen = shown(page(*blocks))
    for expected in (safe, f"code: {safe} ({safe})", f"{safe}: {safe}"):
        assert expected in seen, (text, seen)


def test_a_hostile_string_is_shown_as_it_is_and_adds_nothing() -> None:
    for text in strings(150):
        check_hostile(text)


@pytest.mark.slow
def test_ten_thousand_hostile_strings_are_shown_as_they_are_and_add_nothing() -> None:
    for text in strings(10_000):
        check_hostile(text)


@pytest.mark.parametrize(
    "text",
    [
        "@team",
        "a#12",
        "see !3",
        "~bug",
        "%4",
        "^alert#1",
        ":tada:",
        "http://e.example",
        "www.e.example",
    ],
)
def test_no_mention_and_no_reference_reaches_the_page_in_one_piece(text: str) -> None:
    [seen] = [
        "".join(child.content for child in token.children or ())
        for token in _PARSER.parse(page(Title(text)))
        if token.type == "inline"
    ]

    assert text not in seen
    assert text == seen.replace(_JOINER, "")


def test_no_command_leaves_its_fence() -> None:
    text = page(Commands("Do it", ("echo ```", "````", "~~~", "x"), ""))

    [fence] = [token for token in tokens(text) if token.type == "fence"]
    assert fence.content == "echo ```\n````\n~~~\nx\n"


def test_no_label_leaves_its_bar() -> None:
    for text in strings(400):
        chart = Gantt("When", (BarGroup(text, (Bar(text, 1.0, 2.0),)),), None)
        [fence] = [token for token in tokens(page(chart)) if token.type == "fence"]
        lines = fence.content.splitlines()
        assert len(lines) == 5, text
        assert lines[3].startswith("  section ")
        assert lines[4].count(":b1, ") == 1
        assert lines[4].partition(" :b1, ")[2] == "2000-01-01T00:00:01.000, 1000ms"
        assert not set("#;%{}\\\"'`<>") & set("".join(lines[3:]))
        assert ":" not in lines[3] + lines[4].partition(" :b1, ")[0]


@pytest.mark.parametrize(
    "word", ["section a", "click a", "TITLE a", "gantt", "axisFormat %H", "href"]
)
def test_no_label_begins_a_statement_of_the_diagram(word: str) -> None:
    chart = Gantt("When", (BarGroup("g", (Bar(word, 1.0, 2.0),)),), None)
    [fence] = [token for token in tokens(page(chart)) if token.type == "fence"]

    assert fence.content.splitlines()[4].strip().startswith(f"- {word[:4]}")


def test_what_other_readers_look_for_before_markdown_does_are_entities() -> None:
    """Ticket systems look for HTML, tables and formulas in the text itself: a backslash is not enough for them."""
    text = page(Verdict((Phrase("<b> a|b $x$ & c"),)))

    assert text == "- **&lt;b&gt; a&#124;b &#36;x&#36; &amp; c**\n"


def test_a_diagram_stays_below_what_gitlab_draws_unasked() -> None:
    bars = tuple(Bar(f"pod-{number}", 0.0, 1.0) for number in range(500))
    text = page(Gantt("When", (BarGroup("g", bars),), None))

    [fence] = [token for token in tokens(text) if token.type == "fence"]
    assert len(fence.content) < 2000
    assert "more bars do not fit" in fence.content


def test_a_long_page_stays_below_the_limit_and_says_what_it_left_out() -> None:
    rows = [(f"pod-{number}", "x" * 300) for number in range(5000)]
    text = page(Title("t"), Table(columns("POD", "WHY"), rows, "Pods", total=("TOTAL", "5000")))

    assert len(text.encode()) <= markdown.LIMIT_BYTES
    assert "more rows are left out here" in text
    assert "| TOTAL | 5000 |" in text


def test_even_a_page_without_rows_that_is_too_long_ends_below_the_limit() -> None:
    blocks = [Commands(f"c{number}", ("x" * 900,), "") for number in range(100)]
    text = page(*blocks)

    assert len(text.encode()) <= markdown.LIMIT_BYTES
    assert "left out" in text.splitlines()[-1]
    assert [token.content for token in tokens(text) if token.type == "fence"][-1] in (
        "",
        "x" * 900 + "\n",
    )


def test_the_verdict_comes_first_and_the_fingerprint_last() -> None:
    lines = text_of(one_of_each(), "markdown").splitlines()

    assert lines[0].startswith("# Predicted evictions: the kubelet of n1 falls silent")
    assert lines[2].startswith("- **1 pod is evicted for certain")
    assert "- Fingerprint: sha256:" in lines[-1]


def test_the_fingerprint_is_that_of_the_prediction_without_what_it_costs() -> None:
    empty = Impact((), (), (), (), (), (), ())

    assert fingerprint(prediction(impact=empty)) == fingerprint(prediction())
    assert fingerprint(prediction(impact=empty)) != fingerprint(one_of_each())


def test_a_sealed_prediction_keeps_its_fingerprint_whatever_is_made_of_it() -> None:
    whole = sealed(one_of_each())

    assert whole.fingerprint == fingerprint(whole) == fingerprint(one_of_each())
    part = json.loads(text_of(whole, "json", explain="default/web-0"))
    assert len(part["evictions"]) < len(whole.evictions)
    assert part["fingerprint"] == whole.fingerprint
    assert json.loads(text_of(one_of_each(), "findings"))["fingerprint"] == whole.fingerprint


def test_explain_tells_the_story_of_one_pod_in_tickets_too() -> None:
    for output in ("markdown", "html"):
        text = text_of(one_of_each(), output, explain="default/web-0")
        assert "Pod default/web-0" in text
        assert "How it comes about" in text
        assert "the timer fires" in text
        assert "db-0" not in text


def test_the_title_is_the_command_where_there_is_one() -> None:
    command = ("kubectl", "taint", "nodes", "{nodes}", "a=b:NoExecute")
    undo = (*command[:-1], "a=b:NoExecute-")
    event = EventSummary(0.0, "taint", ("n1", "n2"), (), "a=b:NoExecute", "", command, undo)
    lines = text_of(prediction(inputs=inputs(events=(event,))), "markdown").splitlines()

    assert lines[0] == "# Predicted evictions: kubectl taint nodes n1 n2 a=b:NoExecute"
    assert "kubectl taint nodes n1 n2 a=b:NoExecute" in lines
    assert "kubectl taint nodes n1 n2 a=b:NoExecute-" in lines


def in_shells(text: str) -> list[str]:
    """The lines that a ticket gives to paste."""
    return [
        line
        for code in re.findall("```sh\n(.*?)```", text, re.DOTALL)
        for line in code.splitlines()
    ]


def cordon(*nodes: str, **more: Any) -> Prediction:
    event = EventSummary(
        0.0,
        "cordon",
        nodes,
        command=("kubectl", "cordon", "{nodes}"),
        undo=("kubectl", "uncordon", "{nodes}"),
    )
    return prediction(inputs=inputs(events=(replace(event, **more),)))


def test_what_apply_can_do_is_planned_and_applied_and_kubectl_comes_second() -> None:
    assert in_shells(text_of(cordon("n1"), "markdown")) == [
        "kubectl evictplan what-if cordon n1 --out plan.json",
        "kubectl evictplan apply plan.json",
        "kubectl evictplan apply --status plan.journal.jsonl",
        "kubectl evictplan apply --resume plan.journal.jsonl",
        "kubectl evictplan apply --rollback plan.journal.jsonl",
        "kubectl evictplan verify plan.json --watch",
        "kubectl get pods --all-namespaces --watch --field-selector spec.nodeName=n1",
        "kubectl cordon n1",
        "kubectl uncordon n1",
    ]


def test_a_ticket_beside_a_plan_applies_that_plan_and_no_other() -> None:
    beside = PlanFile(
        "my plan.json", "my plan.journal.jsonl", "sha256:" + "0123456789ab" * 5, True, "c"
    )
    text = text_of(cordon("n1"), "markdown", plan=beside)

    assert in_shells(text)[0] == "kubectl evictplan apply 'my plan.json' --plan-digest 0123456789ab"
    assert in_shells(text)[3] == "kubectl evictplan apply --rollback 'my plan.journal.jsonl'"
    assert in_shells(text)[4] == "kubectl evictplan verify 'my plan.json' --watch"
    assert f"- Plan: {beside.fingerprint} (my plan.json)" in text.splitlines()
    offline = text_of(cordon("n1"), "markdown", plan=beside._replace(applies=False))
    assert in_shells(offline) == in_shells(text_of(cordon("n1"), "markdown"))
    assert "made from files: to be read, not applied" in offline


@pytest.mark.parametrize(
    "more",
    [
        {"action": "node-delete", "command": ("kubectl", "delete", "node", "{nodes}"), "undo": ()},
        {"action": "kubelet-stop", "command": (), "undo": ()},
        {"action": "drain", "command": ("kubectl", "drain", "{nodes}", "--disable-eviction")},
    ],
)
def test_what_apply_never_does_is_not_planned_but_verified(more: dict[str, Any]) -> None:
    lines = in_shells(text_of(cordon("n1", **more), "markdown"))

    assert not [line for line in lines if "apply" in line]
    assert "kubectl evictplan verify prediction.json --watch" in lines
    assert [line for line in lines if line.startswith("kubectl d")] == [
        " ".join(more["command"]).replace("{nodes}", "n1")
    ][: len(more["command"])]


def test_several_events_are_planned_from_their_scenario() -> None:
    one = cordon("n1").inputs.events[0]
    both = prediction(inputs=inputs(events=(one, replace(one, nodes=("n2",), at_seconds=60.0))))

    assert in_shells(text_of(both, "markdown"))[0] == (
        "kubectl evictplan what-if scenario scenario.yaml --out plan.json"
    )


def test_flags_that_kubectl_does_not_know_are_not_in_its_words() -> None:
    command = ("kubectl", "drain", "{nodes}", "--force", "--parallel=3", "--settle=1m0s")
    lines = in_shells(text_of(cordon("n1", action="drain", command=command), "markdown"))

    assert lines[0] == (
        "kubectl evictplan what-if drain n1 --force --parallel=3 --settle=1m0s --out plan.json"
    )
    assert "kubectl drain n1 --force" in lines


@pytest.mark.parametrize("name", ["n1;reboot", "N1", "$(reboot)", "n 1", "-l", ""])
def test_a_name_that_is_none_of_kubernetes_becomes_no_part_of_a_command(name: str) -> None:
    lines = in_shells(text_of(cordon(name), "markdown"))

    assert not {name, "-l", "1", "reboot"} & {word for line in lines for word in shlex.split(line)}
    assert not [line for line in lines if "spec.nodeName" in line or "cordon" in line]


def test_a_drain_that_never_ends_is_a_bar_that_outlasts_all_others() -> None:
    waits = WaitingPod("a/b", "a/pdb", 1.0, None, None, "never", "certain")
    drain = DrainReport("n1", 0.5, 0.5, None, None, None, "never", (), (waits,), ())
    [bars] = [
        group.bars
        for block in ticket(prediction(drains=(drain,), evictions=(eviction(at=9.0),)), UTC)
        if isinstance(block, Gantt)
        for group in block.groups
        if group.name == "Drains"
    ]

    assert [(bar.label, bar.tone) for bar in bars] == [
        ("n1 drain (never ends)", "stuck"),
        ("a/b waits", "possible"),
    ]
    assert all(bar.to_seconds > 9.0 for bar in bars)


def test_evictions_are_grouped_as_asked() -> None:
    text = text_of(one_of_each(), "markdown", by="node")

    assert "## Evictions by node" in text
    assert "## Evictions by workload" not in text


def test_the_fingerprint_changes_with_the_prediction() -> None:
    lasts = {
        text_of(prediction(evictions=(eviction(at=at),)), "markdown").splitlines()[-1]
        for at in (1.0, 2.0, 2.0)
    }

    assert len(lasts) == 2
