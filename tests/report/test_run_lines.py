"""Every event of a run has a line, or a reason to have none; lines are plain and safe."""

from __future__ import annotations

from apply.clusters import drain_bench, taint_bench
from apply.faults import Fault
from apply.runs import Bench

from kubectl_evictplan.apply import progress
from kubectl_evictplan.apply.progress import AnyProgress, BudgetWaits
from kubectl_evictplan.report.run_lines import line


def lines(bench: Bench) -> list[str]:
    """Return what the bench told, without times."""
    return [said.partition(" ")[2] for said in map(line, bench.told) if said is not None]


def test_a_run_reads_as_a_log() -> None:
    bench = taint_bench(settle_seconds=60.0)
    bench.cluster.faults.line.extend([Fault.OTHER_WRITES, None, Fault.LOST_AFTER])
    bench.apply()

    assert lines(bench) == [
        "run run-1 begins: 2 operations",
        "checked identity: ok",
        "checked access: ok",
        "the lock is held",
        "checked nodes: ok",
        "checked dry-run: ok",
        "node n1",
        "taint n1 maintenance=true:NoExecute: conflict 409",
        "waiting 134ms: somebody wrote the node meanwhile",
        "taint n1 maintenance=true:NoExecute: done",
        "waiting 1m0s: pause after the node",
        "node n1: done",
        "node n2",
        "taint n2 maintenance=true:NoExecute: unknown: connection reset",
        "taint n2 maintenance=true:NoExecute: read back: applied",
        "taint n2 maintenance=true:NoExecute: done",
        "node n2: done",
    ]


def test_a_line_begins_with_the_servers_time() -> None:
    bench = taint_bench()
    bench.apply()

    assert line(bench.told[0]) == "2027-01-15T08:00:00Z run run-1 begins: 2 operations"


def test_a_pod_that_waits_for_hours_is_told_of_less_and_less_often() -> None:
    bench = drain_bench()
    bench.cluster.budgets["web"] = 0
    bench.cluster.after(600.0, lambda: bench.cluster.budgets.update(web=2))
    bench.apply()

    waits = [event for event in bench.told if isinstance(event, BudgetWaits)]
    assert len(waits) > 100
    assert [said for said in lines(bench) if "waits" in said] == [
        "evict shop/web-a from n1: waits (asked once): web",
        *(f"evict shop/web-a from n1: waits (asked {n} times): web" for n in (2, 4, 8, 16, 32, 64)),
    ]


def test_a_rollback_is_told_as_well() -> None:
    bench = drain_bench()
    bench.apply()
    bench.told.clear()
    bench.rollback()

    told = lines(bench)
    assert told[0] == "run run-1 is taken back"
    assert "cordon n2: taken back" in told
    assert "evict shop/db-0 from n1: cannot be undone" in told


def test_strings_of_the_cluster_cannot_steer_the_terminal() -> None:
    hostile = "\x1b[2J\nall is well"
    events: list[AnyProgress] = [
        progress.NodeDone(at_ns=0, node=hostile, others=(hostile,)),
        progress.Paused(at_ns=0, why="until-ready", node=hostile, objects=(hostile,)),
    ]

    assert all((line(event) or "").isprintable() for event in events)
