"""``--rollback-on-failure``: a failed run takes itself back, under its own lock, and its failure stays visible."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from apply.clusters import drain_bench, taint_bench, three_nodes
from apply.crashes import KEEPS, killing
from apply.crashing_files import Killed
from apply.faults import Fault
from apply.runs import JOURNAL, Bench, add_taint, cordon, plan_of, records

from kubectl_evictplan.apply.cluster import Request
from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.journal import digest, summed
from kubectl_evictplan.apply.progress import LockNoted
from kubectl_evictplan.apply.run import RunResult
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.report.blocks import Verdict
from kubectl_evictplan.report.next_commands import Typed
from kubectl_evictplan.report.run_end import result_blocks

# What ``begin``, ``resume`` and ``end`` did not say at first, and the digest of a whole line.
NEW = ("context", "rollbackOnFailure", "commands", "sum")


def specs(bench: Bench) -> dict[str, Any]:
    nodes = bench.cluster.nodes.values()
    return {n.name: (copy.deepcopy(n.taints), n.unschedulable) for n in nodes}


def refused(*more: Fault | None) -> Bench:
    """Two nodes to taint, of which the server refuses the second; then ``more``."""
    bench = taint_bench()
    bench.cluster.faults.line.extend((None, Fault.FORBIDDEN, *more))
    return bench


def verdict(result: RunResult) -> str:
    block = next(iter(result_blocks(result, Typed("evictplan"))))
    assert isinstance(block, Verdict)
    return " ".join(phrase.text for phrase in block.sentences)


def kinds(bench: Bench) -> list[str]:
    interesting = ("end", "rollback-begin", "rollback-intent", "rollback-result", "rollback-end")
    return [kind for line in bench.lines for kind in interesting if f'"{kind}"' in line.decode()]


def test_a_failed_run_takes_itself_back_and_keeps_its_exit_code() -> None:
    bench = refused()
    before = specs(bench)

    result = bench.apply(rollback_on_failure=True)

    assert (result.exit_code, result.ending.code) == (3, EndCode.FORBIDDEN)
    assert specs(bench) == before
    assert kinds(bench) == [
        *("end", "rollback-begin", "rollback-intent", "rollback-result", "rollback-end")
    ]
    assert [one["exitCode"] for one in records(bench, "rollback-end")] == [0]
    assert [one["onFailure"] for one in records(bench, "rollback-begin")] == [True]
    assert (result.resumable, result.can_roll_back) == (False, False)
    said = verdict(result)
    assert said.index("Run ended at operation 2 (taint n2 ") < said.index("Rollback ended: ")


def test_nothing_is_taken_back_unasked() -> None:
    bench = refused()
    before = specs(bench)
    assert bench.apply().exit_code == 3
    assert specs(bench) != before
    assert kinds(bench) == ["end"]


def test_the_lock_is_held_from_the_first_change_to_the_last_one_taken_back() -> None:
    bench = refused()
    holders: list[str] = []

    def look(request: Request) -> None:
        if request.method == "PATCH":
            (lease,) = bench.cluster.leases.values()
            holders.append(lease.holder_identity)

    bench.cluster.before_mutation = look
    bench.apply(rollback_on_failure=True)
    assert holders == [records(bench, "begin")[0]["lock"]["holder"]] * 3
    assert [one.what for one in bench.told if isinstance(one, LockNoted)] == ["held"]


def test_a_drain_that_runs_out_of_time_is_uncordoned_newest_first_and_its_evictions_listed() -> (
    None
):
    bench = drain_bench(eviction_timeout_seconds=30.0)
    bench.cluster.budgets["web"] = 0
    before = specs(bench)
    result = bench.apply(rollback_on_failure=True)
    assert (result.exit_code, result.ending.code) == (3, EndCode.TIMED_OUT)
    assert specs(bench) == before
    back = [one["target"]["name"] for one in records(bench, "rollback-intent")]
    assert back == ["n2", "n1"]
    assert {one["why"] for one in records(bench, "rollback-left")} == {"cannot-be-undone"}


def test_when_the_rollback_fails_too_both_errors_are_told_and_it_can_be_gone_on_with() -> None:
    bench = refused(Fault.INVALID)
    before = specs(bench)
    result = bench.apply(rollback_on_failure=True)
    assert (result.exit_code, result.ending.code) == (3, EndCode.FORBIDDEN)
    assert result.can_roll_back
    assert not result.resumable
    said = verdict(result)
    assert "forbidden" in said.split("Rollback")[0]
    assert "invalid" in said.split("Rollback")[1]
    assert bench.rollback().exit_code == 0
    assert specs(bench) == before


def test_what_another_made_of_it_is_left_alone_and_told() -> None:
    bench = refused()

    def interfere(request: Request) -> None:
        if bench.cluster.nodes["n2"].name in request.path and request.method == "PATCH":
            taints = bench.cluster.nodes["n1"].taints
            taints[:] = [{**one, "value": "theirs"} for one in taints]

    bench.cluster.before_mutation = interfere
    result = bench.apply(rollback_on_failure=True)
    assert result.exit_code == 3
    assert any(one.get("value") == "theirs" for one in bench.cluster.nodes["n1"].taints)
    assert [one["ending"]["code"] for one in records(bench, "rollback-end")] == ["changed-since"]


def test_an_outcome_that_becomes_unknown_while_taking_back_wins() -> None:
    bench = refused(Fault.MOVED)
    result = bench.apply(rollback_on_failure=True)
    assert (result.exit_code, result.can_roll_back) == (7, True)


def test_nothing_is_taken_back_while_an_outcome_is_unknown() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.extend((None, Fault.MOVED))
    assert bench.apply(rollback_on_failure=True).exit_code == 7
    assert kinds(bench) == ["end"]


def test_a_lost_answer_that_could_be_read_back_keeps_nothing_from_being_taken_back() -> None:
    bench = taint_bench()
    before = specs(bench)
    bench.cluster.faults.line.extend((Fault.LOST_AFTER, Fault.FORBIDDEN))
    assert bench.apply(rollback_on_failure=True).exit_code == 3
    assert specs(bench) == before


def test_a_signal_is_no_failure() -> None:
    bench = taint_bench()
    bench.cluster.before_mutation = lambda _: bench.stop.requested or bench.stop.request("SIGINT")
    result = bench.apply(rollback_on_failure=True)
    assert (result.exit_code, result.resumable) == (130, True)
    assert "rollback-begin" not in kinds(bench)


@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_while_taking_back_settles_what_is_under_way_and_the_same_command_goes_on(
    signals: int,
) -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1"), cordon("n1"), add_taint("n2")))
    cluster.faults.line.extend((None, None, Fault.FORBIDDEN))
    before = specs(bench)

    def interrupt(_request: Request) -> None:
        if "rollback-intent" in kinds(bench):
            for _ in range(signals):
                bench.stop.request("SIGINT")

    bench.cluster.before_mutation = interrupt
    result = bench.apply(rollback_on_failure=True)
    assert (result.exit_code, result.can_roll_back) == (130, True)
    assert result.stopped_at_once == (signals == 2)
    bench.cluster.before_mutation = lambda _: None
    with pytest.raises(InputError, match="taken back"):
        bench.resume()
    assert bench.rollback().exit_code == 0
    assert specs(bench) == before


def test_killed_at_any_step_of_run_or_rollback_it_is_taken_back_by_the_same_command() -> None:
    whole = refused()
    before = specs(whole)
    killer = killing(whole, None)
    whole.apply(rollback_on_failure=True)

    for at in range(killer.steps):
        bench = refused()
        killing(bench, at)
        with pytest.raises(Killed):
            bench.apply(rollback_on_failure=True)
        bench.files.crash(KEEPS["none"])
        bench.cluster.faults.line.clear()
        killing(bench, None)
        if JOURNAL in bench.files.stored and bench.lines:
            assert bench.rollback().exit_code == 0, at
        assert specs(bench) == before, at


def test_nothing_was_changed_and_nothing_is_taken_back() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.append(Fault.FORBIDDEN)
    assert bench.apply(rollback_on_failure=True).exit_code == 5
    assert kinds(bench) == ["end"]


def test_a_resumed_run_that_fails_takes_back_what_all_of_it_did() -> None:
    bench = refused(Fault.FORBIDDEN)
    before = specs(bench)
    bench.apply()
    assert bench.resume(rollback_on_failure=True).exit_code == 3
    assert specs(bench) == before


def test_whoever_goes_on_knows_what_was_asked_for_at_the_beginning() -> None:
    asked, unasked = taint_bench(), taint_bench()
    for bench, what in ((asked, True), (unasked, False)):
        bench.stop.request("SIGINT")
        bench.apply(rollback_on_failure=what, context="prod")

    (begin,) = records(asked, "begin")
    assert (begin["rollbackOnFailure"], begin["context"]) == (True, "prod")
    assert status(JOURNAL, asked.files).state.takes_itself_back
    assert not status(JOURNAL, unasked.files).state.takes_itself_back
    asked.resume(rollback_on_failure=False)
    assert not status(JOURNAL, asked.files).state.takes_itself_back
    assert not records(asked, "resume")[0]["rollbackOnFailure"]


def test_a_journal_from_before_these_options_is_read_as_without_them() -> None:
    bench = taint_bench()
    bench.stop.request("SIGINT")
    bench.apply(rollback_on_failure=True, context="prod")
    old = [
        {name: value for name, value in json.loads(line).items() if name not in NEW}
        for line in bench.lines
    ]
    lines: list[bytes] = []
    for record in old:
        record["prev"] = digest(lines[-1]) if lines else ""
        lines.append(summed(json.dumps(record, separators=(",", ":")).encode()))
    bench.files.stored[JOURNAL].written = b"".join(lines)

    state = status(JOURNAL, bench.files).state

    assert (state.takes_itself_back, state.begin.context) == (False, "")
    assert bench.resume(lock_namespace="").exit_code == 0
