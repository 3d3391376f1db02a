"""What a person sees of a run: lines, the view that redraws itself, and how it ended."""

from __future__ import annotations

import io
import os
import select
from typing import Any

import msgspec
import pytest
from apply.clusters import drain_bench, taint_bench
from apply.runs import JOURNAL
from apply.simulated_cluster import SimulatedCluster

from kubectl_evictplan.apply.cluster import Outcome, SpecChange
from kubectl_evictplan.apply.endings import EndCode, Ending
from kubectl_evictplan.apply.lock import EXPIRED
from kubectl_evictplan.apply.progress import (
    AnyProgress,
    BudgetWaits,
    EvictionAccepted,
    LeftAlone,
    NodeStarted,
    OperationStarted,
    Paused,
    RunEnded,
    RunStarted,
    WasReadBack,
)
from kubectl_evictplan.apply.records import Kept, Verdict
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.commands import applying, carrying
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.plans.document import ClusterIdentity, Evict
from kubectl_evictplan.report.live_view import PlainLines, following
from kubectl_evictplan.report.next_commands import Typed
from kubectl_evictplan.report.run_end import result_blocks, status_blocks
from kubectl_evictplan.report.run_view import PodStage, RunView, Stage
from kubectl_evictplan.report.run_words import ENDINGS, KEPT, ending_words, line, outcome_words
from kubectl_evictplan.report.terminal import Terminal
from kubectl_evictplan.world import World

PROGRAM = "kubectl evictplan"
TYPED = Typed(PROGRAM)
EVICT = Evict(1, 0.0, "n1", "shop", "web", "uid-web")


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClosedPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def waits(at_ns: int, *causes: str) -> BudgetWaits:
    return BudgetWaits(
        at_ns=at_ns,
        operation=EVICT,
        attempts=1,
        outcome=Outcome.BUDGET,
        causes=causes,
        message="",
        retry_seconds=5.0,
    )


def plain(*events: AnyProgress) -> list[str]:
    stream = io.StringIO()
    lines = PlainLines(stream)
    for event in events:
        lines(event)
    return stream.getvalue().splitlines()


def shown(blocks: Any) -> str:
    return "".join(Terminal(None, False, False).render(blocks))


def test_every_event_of_a_drain_is_a_line_or_nothing_a_person_needs() -> None:
    bench = drain_bench()
    bench.apply()
    lines = plain(*bench.told)
    assert lines[0].endswith("run run-1 begins: 6 operations")
    assert "08:00:00  cordon n1: done" in lines
    assert "08:00:00  evict shop/web-a from n1: accepted" in lines
    assert lines[-1].endswith("ended: everything is done")


@pytest.mark.parametrize("code", EndCode)
def test_every_end_has_words(code: EndCode) -> None:
    event = RunEnded(at_ns=0, ending=Ending(code), exit_code=0)
    assert line(event) == f"ended: {ENDINGS[code]}"


def test_a_rollback_that_is_over_says_so_and_not_that_everything_is_done() -> None:
    bench = taint_bench()
    bench.apply()
    bench.told.clear()
    bench.rollback()
    (over,) = [one for one in bench.told if isinstance(one, RunEnded)]
    words = line(over)
    assert words is not None
    assert "taken back" in words
    assert "everything is done" not in words


def test_the_last_writer_is_named_who_is_the_newest() -> None:
    writers = tuple(
        SpecChange(name, f"2027-01-15T08:0{minute}:00Z", ("taints",))
        for minute, name in enumerate(("ours", "older", "newest"))
    )
    words = ending_words(Ending(EndCode.REVERTED, changed_by=writers))
    assert "last written by newest at 2027-01-15T08:02:00Z" in words


def test_every_outcome_verdict_and_reason_has_words() -> None:
    assert all(outcome_words(outcome) for outcome in Outcome)
    assert all(line(WasReadBack(at_ns=0, operation=EVICT, verdict=one)) for one in Verdict)
    assert all(KEPT[why] in str(line(LeftAlone(at_ns=0, operation=EVICT, why=why))) for why in Kept)


def test_a_wait_is_told_when_it_begins_when_its_cause_changes_and_once_a_minute() -> None:
    second = 1_000_000_000
    told = plain(
        waits(second, "web"),
        waits(6 * second, "web"),
        waits(11 * second, "all"),
        waits(16 * second, "all"),
        waits(80 * second, "all"),
    )
    assert [one[:8] for one in told] == ["00:00:01", "00:00:11", "00:01:20"]


def test_hostile_strings_of_servers_reach_no_line() -> None:
    evil = "\x1b[2J\u202e\r\n"
    pod = msgspec.structs.replace(EVICT, pod=evil, node=evil)
    events: list[AnyProgress] = [
        msgspec.structs.replace(waits(0, evil), message=evil, operation=pod),
        Paused(at_ns=0, why="until-ready", node=evil, objects=(evil,)),
        RunEnded(
            at_ns=0, ending=Ending(EndCode.REFUSED, message=evil, objects=(evil,)), exit_code=3
        ),
    ]
    assert all(str(line(event)).isprintable() for event in events)
    assert all(text.isascii() for text in map(str, map(line, events)))


def test_a_closed_pipe_ends_the_lines_and_not_the_run() -> None:
    lines = PlainLines(ClosedPipe())
    lines(waits(0, "web"))
    lines(waits(0, "other"))


def test_the_view_knows_how_far_each_node_and_pod_is() -> None:
    bench = drain_bench()
    bench.apply()
    view = RunView(bench.plan.prediction)
    seen = []
    for event in bench.told:
        view.add(event)
        stages = tuple(node.stage for node in view.nodes.values())
        seen += [stages] if not seen or seen[-1] != stages else []
    assert (Stage.PREPARED, Stage.PREPARED) in seen
    assert (Stage.EVICTING, Stage.PREPARED) in seen
    assert seen[-1] == (Stage.DONE, Stage.DONE)
    pods = [pod for node in view.nodes.values() for pod in node.pods]
    assert {pod.stage for pod in pods} == {PodStage.GONE}
    assert all(pod.actual_seconds is not None for pod in pods)


def test_a_run_that_stops_leaves_its_node_as_not_done() -> None:
    bench = drain_bench()
    view = RunView(None)
    view.add(RunStarted(at_ns=0, run_id="run", operations=bench.plan.operations))
    view.add(EvictionAccepted(at_ns=0, operation=bench.plan.operations[2], ours=True))
    view.nodes["n1"].stage = Stage.EVICTING
    view.add(RunEnded(at_ns=0, ending=Ending(EndCode.ABORTED), exit_code=3))
    assert [node.stage for node in view.nodes.values()] == [Stage.STOPPED, Stage.WAITING]


def test_on_a_terminal_the_view_redraws_itself_and_cuts_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    bench = drain_bench()
    bench.apply()
    stream = Tty()
    with following(stream, None, color=False, redraw=True) as tell:
        for event in bench.told:
            tell(event)
    assert "\x1b[" in stream.getvalue()
    assert "shop/web-a" in stream.getvalue()
    assert "…" not in stream.getvalue()


def test_a_dumb_terminal_and_a_pipe_get_lines() -> None:
    for stream in (Tty(), io.StringIO()):
        with following(stream, None, color=True, redraw=False) as tell:
            tell(waits(0, "web"))
        assert "\x1b" not in stream.getvalue()
        assert "a budget does not allow it now" in stream.getvalue()


def test_a_run_that_could_not_finish_says_what_is_not_done_and_what_to_type() -> None:
    bench = drain_bench(eviction_timeout_seconds=30.0)
    bench.cluster.budgets["web"] = 0
    text = shown(result_blocks(bench.apply(), TYPED))
    assert text.startswith(
        "Run ended at operation 3 (evict shop/web-a from n1): not all pods were evicted within the time"
    )
    assert "3   evict shop/web-a from n1  given up" in text
    assert f"  {PROGRAM} apply --resume {JOURNAL}\n" in text
    assert f"  {PROGRAM} apply --rollback {JOURNAL}\n" in text


def test_an_old_journal_is_not_told_to_be_gone_on_with_but_made_anew() -> None:
    bench = drain_bench(eviction_timeout_seconds=30.0)
    bench.cluster.budgets["web"] = 0
    result = bench.apply()
    behind = Ending(EndCode.JOURNAL_BEHIND)
    result.state.ending = behind
    text = shown(result_blocks(msgspec.structs.replace(result, ending=behind), TYPED))
    assert "--resume" not in text
    assert "--rollback" not in text
    assert f"{PROGRAM} apply --adopt " in text
    assert " --journal /journals/plan-adopted.journal.jsonl\n" in text


def test_a_rollback_says_what_it_took_back_and_which_evictions_stay() -> None:
    bench = drain_bench(eviction_timeout_seconds=30.0)
    bench.cluster.budgets["web"] = 0
    bench.apply()
    text = shown(result_blocks(bench.rollback(), TYPED))
    assert text.startswith("Rollback ended: what this run changed is taken back.")
    assert "Of 2 operations: 2 done." in text
    assert "4   evict shop/db-0 from n1" in text
    assert "web-a" not in text


def test_the_status_of_a_journal_tells_whose_run_it_is() -> None:
    bench = taint_bench()
    bench.apply()
    found = status(JOURNAL, bench.files)
    text = shown(status_blocks(found, str(JOURNAL), TYPED))
    assert text.startswith("Run ended: everything is done.\nOf 2 operations: 2 done.")
    assert "by: operator on laptop" in text
    assert "--resume" not in text


def test_a_lock_that_was_not_given_back_is_explained() -> None:
    objects = ("jane@laptop/7/run-x", "2026-11-22T05:00:00Z", "2026-11-22T05:01:00Z")
    lock = "another run holds the lock: jane@laptop/7/run-x, since 2026-11-22T05:00:00Z, until 2026-11-22T05:01:00Z"

    assert ending_words(Ending(EndCode.LOCKED, objects=objects)) == lock
    stale = ending_words(Ending(EndCode.LOCKED, objects=objects, message=EXPIRED))
    assert stale.startswith(lock)
    assert "--steal-lock" in stale


def test_a_record_that_did_not_reach_the_disk_is_told_and_room_is_made_first() -> None:
    bench = taint_bench()
    bench.files.full_at = 5

    shown = "".join(Terminal(None, False, False).render(result_blocks(bench.apply(), TYPED)))

    assert "record: on standard error, as one line: keep it" in shown
    assert "make room for the journal" in shown
    assert "--resume" in shown


def test_a_pod_that_waits_for_hours_is_told_of_less_and_less_often() -> None:
    bench = drain_bench()
    bench.cluster.budgets["web"] = 0
    bench.cluster.after(600.0, lambda: bench.cluster.budgets.update(web=2))
    bench.apply()

    waited = [event for event in bench.told if isinstance(event, BudgetWaits)]
    assert len(waited) > 100
    assert sum(line(event) is not None for event in waited) == 7


def test_a_rollback_is_drawn_by_what_its_first_event_says() -> None:
    bench = taint_bench()
    bench.apply()
    bench.told.clear()
    bench.rollback()
    stream = Tty()
    with following(stream, None, color=False, redraw=True) as tell:
        for event in bench.told:
            tell(event)
    assert "n1" in stream.getvalue()


def test_the_first_line_of_any_run_has_the_servers_time() -> None:
    told = [False]

    class Cluster(SimulatedCluster):
        def identity(self) -> ClusterIdentity:
            told[0] = True
            return super().identity()

        def now_ns(self) -> int:
            return World().wall_ns() + told[0] * 3600 * SECOND_NS

    offset = carrying.options(Cluster(), ConnectionFlags()).clock_offset_seconds
    assert offset == pytest.approx(3600, abs=1)


def test_the_record_that_did_not_reach_the_disk_is_one_line_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench = taint_bench()
    bench.files.full_at = 5
    carrying._keep_unwritten(bench.apply().unwritten)
    captured = capsys.readouterr()
    (record,) = captured.err.splitlines()
    assert msgspec.json.decode(record)["outcome"] == "applied"
    assert not captured.out


def stages(view: RunView) -> list[Stage]:
    return [node.stage for node in view.nodes.values()]


def test_what_was_done_before_a_resume_is_drawn_as_done() -> None:
    operations = taint_bench().plan.operations
    view = RunView(None)
    view.add(
        RunStarted(
            at_ns=0, run_id="r", operations=operations, finished=frozenset({1}), resumed=True
        )
    )
    assert stages(view) == [Stage.DONE, Stage.WAITING]


def test_a_node_whose_time_has_not_come_is_not_being_changed() -> None:
    operations = taint_bench().plan.operations
    view = RunView(None)
    view.add(RunStarted(at_ns=0, run_id="r", operations=operations))
    view.add(NodeStarted(at_ns=0, node="n1"))
    view.add(Paused(at_ns=0, why="offset", seconds=5.0, node="n1"))
    assert stages(view) == [Stage.PAUSING, Stage.WAITING]
    view.add(OperationStarted(at_ns=1, operation=operations[0]))
    assert stages(view) == [Stage.CHANGING, Stage.WAITING]


def test_a_rollback_draws_what_it_takes_back_and_what_it_leaves_alone() -> None:
    bench = taint_bench()
    bench.apply()
    bench.told.clear()
    node = bench.cluster.nodes["n2"]
    node.taints[:] = [{**one, "value": "else"} for one in node.taints]
    bench.rollback()
    view = RunView(None)
    seen = []
    for event in bench.told:
        view.add(event)
        seen.append(tuple(stages(view)))
    assert (Stage.TAKING_BACK, Stage.LEFT_ALONE) in seen
    assert seen[-1] == (Stage.TAKEN_BACK, Stage.LEFT_ALONE)


def test_an_eviction_that_never_happened_is_nothing_that_a_rollback_leaves_behind() -> None:
    bench = drain_bench(eviction_timeout_seconds=30.0)
    bench.cluster.budgets["web"] = 0
    bench.apply()
    bench.told.clear()
    bench.rollback()
    left = [event.operation.told for event in bench.told if isinstance(event, LeftAlone)]
    assert left == ["evict shop/db-0 from n1"]


def test_a_second_rollback_says_that_the_first_took_it_back() -> None:
    bench = taint_bench()
    bench.apply()
    bench.rollback()
    bench.told.clear()
    bench.rollback()
    lines = [one for one in plain(*bench.told) if "taken back" in one and "taint" in one]
    assert len(lines) == 2
    assert all(one.endswith("taken back by an earlier rollback") for one in lines)


def test_an_eviction_that_was_asked_for_and_refused_has_begun() -> None:
    bench = drain_bench()
    bench.cluster.budgets["web"] = 0
    bench.cluster.after(12.0, lambda: bench.stop.request("SIGTERM"))
    text = shown(result_blocks(bench.apply(), TYPED))
    assert "1 waiting for a budget" in text
    row = next(one for one in text.splitlines() if "evict shop/web-a from n1" in one)
    assert "waiting for a budget" in row
    assert "asked 3 times" in row


def test_what_somebody_else_took_back_is_not_said_to_be_left() -> None:
    bench = taint_bench()
    before = {name: list(bench.cluster.nodes[name].taints) for name in ("n1", "n2")}
    bench.apply()
    for name, taints in before.items():
        bench.cluster.write_taints(name, taints, "kubectl-taint")
    text = shown(result_blocks(bench.rollback(), TYPED))
    assert "Of 2 operations: 2 taken back already by somebody else." in text
    assert "left alone" not in text


def test_what_was_typed_before_the_question_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "wb", buffering=0) as keyboard, os.fdopen(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        keyboard.write(b"yes\n")
        assert select.select([terminal], [], [], 5.0)[0]
        applying._forget_typed()
        keyboard.write(b"no\n")
        assert terminal.readline() == "no\n"
