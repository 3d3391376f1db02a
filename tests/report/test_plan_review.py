"""A plan as its reviewer sees it."""

from __future__ import annotations

from building.builders import make_event
from msgspec.structs import replace
from plans.planned import TAINT, plan_of, small_cluster

from kubectl_evictplan.plans.differences import Difference
from kubectl_evictplan.plans.document import Plan
from kubectl_evictplan.report.plan_review import review_blocks
from kubectl_evictplan.report.terminal import Terminal

PLAN = plan_of(small_cluster(), TAINT)


def shown(plan: Plan, *differences: Difference) -> str:
    terminal = Terminal(columns=None, color=False, ascii_only=False)
    return "".join(terminal.render(review_blocks(plan, differences)))


def test_a_review_says_what_is_done_what_follows_and_what_is_lost() -> None:
    text = shown(PLAN)
    assert text.startswith(
        "test: 1 operation on 1 node.\nLost for good: 1 pod, or the data in them."
    )
    assert "4 pods are evicted for certain, from node a1" in text
    assert "taint a1 maint=yes:NoExecute" in text
    assert (
        "bare-pod: it has no controller: nothing makes it anew (pod default/bare-0 on a1)" in text
    )
    assert "User: jane" in text


def test_a_review_says_at_which_nodes_replacements_may_end_the_run_and_what_keeps_them_off() -> (
    None
):
    later = make_event(60, "taint", ["b1"], taint="maint=yes:NoExecute")
    text = " ".join(shown(plan_of(small_cluster(), TAINT, later)).split())
    assert "May end the run (exit code 4)" in text
    assert "node b1: replacements of 3 pods from other nodes may be put here before its" in text
    assert "cordon it first, or drain" in text
    assert "May end the run" not in shown(PLAN)


def test_a_difference_is_told_first_with_what_was_what_is_and_what_it_changes() -> None:
    gone = Difference("node-gone", "node a1", "there", "gone", "its operations have no object")
    text = shown(PLAN, gone)
    assert text.startswith("Not carried out: 1 difference from")
    assert "node-gone: node a1: was there, now gone: its operations have no object" in text


def test_nothing_of_a_cluster_reaches_a_terminal_as_it_is() -> None:
    hostile = replace(
        PLAN,
        title="\x1b[2Jnothing to see",
        cluster=replace(PLAN.cluster, user="\u202eenaj", server="https://\x9b31m"),
    )
    found = Difference("node-taints", "node \x1b]0;x\x07", "\r", "\u2028", "\x00")
    text = shown(hostile, found)
    assert not {character for character in text if not character.isprintable()} - {"\n"}
