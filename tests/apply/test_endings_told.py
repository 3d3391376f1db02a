"""How a run that did not end as it should is told of, by its result and by its journal."""

from __future__ import annotations

from collections.abc import Iterable

from apply.clusters import taint_bench
from apply.runs import JOURNAL, Bench, records

from kubectl_evictplan.apply.status import status
from kubectl_evictplan.report.blocks import Block
from kubectl_evictplan.report.run_end import result_blocks, status_blocks
from kubectl_evictplan.report.terminal import Terminal

PROGRAM = "kubectl evictplan"


def shown(blocks: Iterable[Block]) -> str:
    return "".join(Terminal(None, False, False).render(blocks))


def status_of(bench: Bench) -> str:
    return shown(status_blocks(status(JOURNAL, bench.files), str(JOURNAL), PROGRAM))


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

    text = shown(result_blocks(bench.apply(), PROGRAM))

    assert text.startswith("Run stopped at once by a second SIGINT.")
    assert "The outcome of operation 1 is unknown." in text
    assert "still at work" not in text
    assert "The outcome of operation 1 is unknown." in status_of(bench)


def test_what_was_all_done_and_taken_back_asks_for_a_new_plan_and_not_for_going_on() -> None:
    bench = taint_bench(canary=False)
    cluster = bench.cluster
    cluster.after_mutation = lambda _request: cluster.write_taints("n2", [], "kubectl-taint")

    text = shown(result_blocks(bench.apply(), PROGRAM))

    assert "Nothing is left to go on with: take back the rest, or make a new plan." in text
    assert "--resume" not in text
    assert f"{PROGRAM} apply --rollback {JOURNAL}" in text


def test_pods_that_keep_a_taint_away_are_named_at_the_end() -> None:
    bench = taint_bench()
    bench.cluster.add_pod("shop/precious", "n1")

    text = shown(result_blocks(bench.apply(), PROGRAM))

    assert "pods that nobody reviewed would go by this taint" in text
    assert "shop/precious" in text
