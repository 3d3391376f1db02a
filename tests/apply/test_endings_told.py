"""How a run that did not end as it should is told of, by its result and by its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from apply.clusters import drain_bench, taint_bench
from apply.faults import Fault
from apply.runs import JOURNAL, Bench, records

from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.states import RunState
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.errors import ForbiddenError, Problem
from kubectl_evictplan.report.blocks import Block
from kubectl_evictplan.report.next_commands import Typed, command_lines
from kubectl_evictplan.report.run_end import result_blocks, status_blocks
from kubectl_evictplan.report.terminal import Terminal

PROGRAM = "kubectl evictplan"
TYPED = Typed(PROGRAM)


def shown(blocks: Iterable[Block]) -> str:
    return "".join(Terminal(None, False, False).render(blocks))


def joined(text: str) -> str:
    """Return the words, wherever lines were broken."""
    return " ".join(text.split())


def status_of(bench: Bench) -> str:
    return shown(status_blocks(status(JOURNAL, bench.files), str(JOURNAL), TYPED))


def test_a_rollback_that_has_only_begun_is_not_said_to_have_taken_anything_back() -> None:
    bench = taint_bench()
    bench.apply()
    bench.rollback()
    at = next(at for at, line in enumerate(bench.lines) if b'"rollback-begin"' in line)
    bench.files.stored[JOURNAL].written = b"".join(line + b"\n" for line in bench.lines[: at + 1])
    assert records(bench, "end")

    text = status_of(bench)

    assert text.startswith("Rollback not ended: it was killed, or is still at work.")
    assert "taken back" not in text


def test_two_signals_leave_an_outcome_unknown_and_that_is_said_with_its_number() -> None:
    bench = taint_bench()

    def twice(_request: object) -> None:
        bench.stop.request("SIGINT")
        bench.stop.request("SIGINT")

    bench.cluster.before_mutation = twice

    text = shown(result_blocks(bench.apply(), TYPED))

    assert text.startswith("Run stopped at once by a second SIGINT.")
    assert "The outcome of operation 1 is unknown." in text
    assert "still at work" not in text
    assert "The outcome of operation 1 is unknown." in status_of(bench)


def test_what_was_all_done_and_taken_back_asks_for_a_new_plan_and_not_for_going_on() -> None:
    bench = taint_bench(canary=False)
    cluster = bench.cluster
    cluster.after_mutation = lambda _request: cluster.write_taints("n2", [], "kubectl-taint")

    text = shown(result_blocks(bench.apply(), TYPED))

    assert "Nothing is left to go on with: take back the rest, or make a new plan." in text
    assert "--resume" not in text
    assert f"{PROGRAM} apply --rollback {JOURNAL}" in text


def test_pods_that_keep_a_taint_away_are_named_at_the_end() -> None:
    bench = taint_bench()
    bench.cluster.add_pod("shop/precious", "n1")

    text = shown(result_blocks(bench.apply(), TYPED))

    assert "pods that nobody reviewed would go by this taint" in joined(text)
    assert "shop/precious" in text


def test_after_nodes_that_are_gone_going_on_is_offered_with_what_makes_it_work() -> None:
    stopped, left_out = taint_bench(settle_seconds=60.0), taint_bench(settle_seconds=60.0)
    for bench in (stopped, left_out):
        bench.cluster.after(30.0, lambda bench=bench: bench.cluster.nodes.pop("n2", None))  # type: ignore[misc]
    go_on = f"{PROGRAM} apply --resume {JOURNAL} --continue-on-absent"

    first = shown(result_blocks(stopped.apply(), TYPED))
    second = shown(result_blocks(left_out.apply(continue_on_absent=True), TYPED))

    assert "the cluster is not what the plan says: node n2 is gone" in joined(first)
    assert go_on in first
    assert go_on in second
    again = stopped.resume(continue_on_absent=True)
    assert again.ending.code is EndCode.ABSENT


def test_after_a_cordon_that_somebody_took_back_the_commands_offered_lead_to_the_end() -> None:
    bench = drain_bench()
    cluster = bench.cluster
    cluster.budgets["web"] = 0
    cluster.after(20.0, lambda: cluster.write_unschedulable("n1", False, "kubectl-uncordon"))
    typed = Typed(PROGRAM, "--context test --no-exec-auth", "--context test")

    text = shown(result_blocks(bench.apply(), typed))

    assert "  kubectl cordon n1 --context test\n" in text
    assert f"  {PROGRAM} apply --resume {JOURNAL} --context test --no-exec-auth\n" in text
    cluster.write_unschedulable("n1", True, "kubectl-cordon")
    cluster.budgets["web"] = 2
    assert bench.resume().exit_code == 0


def test_why_something_is_not_done_is_told_by_the_last_answer_only() -> None:
    bench = drain_bench(eviction_timeout_seconds=30.0)
    bench.cluster.budgets["web"] = 0
    given_up = shown(result_blocks(bench.apply(), TYPED))
    bench.cluster.pods["shop/web-a"].exit_seconds = 60.0
    bench.cluster.budgets["web"] = 1

    text = shown(result_blocks(bench.resume(), TYPED))

    assert "a budget does not allow it now" in given_up
    assert "a budget does not allow it now" not in text
    accepted = next(line for line in text.splitlines() if "3   evict shop/web-a" in line)
    assert accepted.endswith("accepted, the pod was not seen gone yet")


def test_what_may_not_be_read_is_no_matter_of_the_login() -> None:
    bench = taint_bench()

    def denied(_node: str) -> tuple[()]:
        raise ForbiddenError(Problem("GET pods: answered 403"))

    bench.cluster.list_pods = denied  # type: ignore[method-assign]

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (5, EndCode.UNREADABLE)
    text = shown(result_blocks(result, TYPED))
    assert "something that has to be looked at may not be read" in joined(text)
    assert "credentials" not in text


def test_what_a_webhook_made_of_a_patch_is_told_beside_what_was_asked() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.append(Fault.WEBHOOK_CHANGES)

    result = bench.apply()
    text = shown(result_blocks(result, TYPED))

    assert result.ending.code is EndCode.CHANGED
    assert (result.ending.unasked, result.ending.missing) == (("webhook/added:NoSchedule",), ())
    for one in (*result.ending.unasked, *result.ending.missing):
        assert one in joined(text)
    assert "last written by" not in text
    assert "1 done otherwise" in text


def refused(bench: Bench) -> None:
    bench.cluster.faults.line.extend([None, Fault.FORBIDDEN])


def interrupted(bench: Bench) -> None:
    bench.cluster.before_mutation = lambda _: bench.stop.request("SIGINT")


def node_gone(bench: Bench) -> None:
    bench.cluster.after_mutation = lambda _: bench.cluster.nodes.pop("n2", None)


@pytest.mark.parametrize(
    ("goes_wrong", "going_on"),
    [
        (lambda _: None, ""),
        (refused, "--resume {}"),
        (interrupted, "--resume {}"),
        (node_gone, "--resume {} --continue-on-absent"),
    ],
)
def test_the_last_record_holds_the_commands_that_the_end_offers(
    goes_wrong: Callable[[Bench], object], going_on: str
) -> None:
    bench = taint_bench()
    goes_wrong(bench)
    typed = Typed(PROGRAM, "--context prod")

    def commands(state: RunState, journal: Path) -> tuple[str, ...]:
        return command_lines(state, str(journal), typed)

    text = shown(result_blocks(bench.apply(commands=commands), typed))

    (end,) = records(bench, "end")
    expected = [f"{PROGRAM} apply --rollback {JOURNAL} --context prod"]
    if going_on:
        words = f"{PROGRAM} apply {going_on.format(JOURNAL)} --context prod"
        expected.insert(0, words)
    assert end["commands"] == expected
    assert all(line in text for line in expected)
    # Taken back, there is nothing to go on with.
    bench.cluster.before_mutation = bench.cluster.after_mutation = lambda _: None
    assert bench.rollback(commands=commands).exit_code in (0, 3)
    (back,) = records(bench, "rollback-end")
    assert not [line for line in back["commands"] if "--resume" in line]


@pytest.mark.parametrize(("full_at", "said"), [(4, "cannot be written"), (5, "only here")])
def test_a_run_whose_journal_failed_is_told_as_ended_though_no_record_says_so(
    full_at: int, said: str
) -> None:
    bench = taint_bench()
    bench.files.full_at = full_at

    text = joined(shown(result_blocks(bench.apply(), TYPED)))

    assert text.startswith("Run ended")
    assert said in text.partition(".")[0]
    assert "it was killed" not in text
