"""Whoever reads how a run ended knows why, how far it came, and what to type."""

from __future__ import annotations

import pytest
from apply.clusters import FOREIGN, drain_bench, taint_bench
from apply.faults import Fault
from apply.runs import JOURNAL, Bench

from kubectl_evictplan.apply.cluster import SpecChange
from kubectl_evictplan.apply.endings import EndCode, Ending
from kubectl_evictplan.apply.records import Kept
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.report import run_endings

GO_ON = f"Go on:     kubectl evictplan apply --resume {JOURNAL}"
TAKE_BACK = f"Take back: kubectl evictplan apply --rollback {JOURNAL}"


def stopped() -> Bench:
    bench = taint_bench()
    bench.cluster.faults.line.extend([None, Fault.FORBIDDEN])
    return bench


def test_a_finished_run_says_so_and_how_to_take_it_back() -> None:
    assert list(run_endings.ended(taint_bench().apply())) == [
        "Done: everything is as planned",
        "2 of 2 operations are done.",
        TAKE_BACK,
    ]


def test_a_stopped_run_says_at_what_why_and_how_to_go_on() -> None:
    assert list(run_endings.ended(stopped().apply())) == [
        "Stopped: at operation 2 (taint n2 maintenance=true:NoExecute): it is not allowed (forbidden)",
        "1 of 2 operations are done.",
        "  2. taint n2 maintenance=true:NoExecute: not begun (forbidden)",
        GO_ON,
        TAKE_BACK,
    ]


def test_a_rollback_names_what_it_left_alone() -> None:
    bench = taint_bench()
    bench.apply()
    theirs = {"key": "maintenance", "value": "theirs", "effect": "NoExecute"}
    bench.cluster.write_taints("n1", [dict(FOREIGN), theirs], "other")

    lines = list(run_endings.ended(bench.rollback()))

    assert lines == [
        (
            "Stopped: somebody made something else of what was done, left alone:"
            " taint n1 maintenance=true:NoExecute"
        ),
        "1 operations are taken back.",
        "  1. taint n1 maintenance=true:NoExecute: somebody made something else of it: left alone",
        TAKE_BACK,
    ]


def test_who_wrote_last_is_named() -> None:
    bench = taint_bench()
    theirs = {"key": "maintenance", "value": "theirs", "effect": "NoExecute"}
    bench.cluster.before_mutation = lambda _request: bench.cluster.write_taints(
        "n1", [theirs], "their-tool"
    )

    assert any(
        line.startswith("  last to write taints: their-tool at 20")
        for line in run_endings.ended(bench.apply())
    )


def test_the_line_that_did_not_reach_the_disk_is_shown() -> None:
    bench = taint_bench()
    bench.files.full_at = 4

    lines = list(run_endings.ended(bench.apply()))

    assert lines[0].endswith("the last result is only told here (No space left on device)")
    assert (
        '"outcome":"applied"'
        in lines[lines.index("This line did not reach the journal; keep it:") + 1]
    )


def test_a_journal_says_by_itself_how_far_its_run_came() -> None:
    bench = stopped()
    bench.apply()

    lines = list(run_endings.status_told(JOURNAL, status(JOURNAL, bench.files)))

    assert lines[0].startswith(
        "Run run-1: a test, begun 2027-01-15T08:00:00Z by operator on laptop"
    )
    assert lines[1].startswith("It ended at 2027-01-15T08:00:")
    assert lines[-2:] == [GO_ON, TAKE_BACK]


@pytest.mark.parametrize("code", EndCode)
def test_every_ending_has_words_and_none_lets_the_cluster_steer_the_terminal(code: EndCode) -> None:
    hostile = "\x1b[2J\u202e\nDone: all is well"
    ending = Ending(
        code,
        1,
        hostile,
        hostile,
        (SpecChange(hostile, hostile, (hostile,)),),
        (hostile,) * 3,
        hostile,
        hostile,
    )
    bench = drain_bench()
    state = bench.apply().state

    told = run_endings.why(ending, state)

    assert told
    assert told.isprintable()


def test_every_reason_to_leave_something_alone_has_words() -> None:
    assert set(run_endings.KEPT_TOLD) == set(Kept)
