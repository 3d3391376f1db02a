"""A run whose journal is lost is adopted from its plan and its cluster, finished or taken back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from apply.clusters import BENCHES, drain_bench, taint_bench, three_nodes
from apply.crashes import final, killing, spec, steps_of
from apply.crashing_files import CrashingFiles, Killed
from apply.faults import Fault
from apply.runs import JOURNAL, Bench, add_taint, options, plan_of, records, remove_taint
from apply.simulated_cluster import IDENTITY
from msgspec.structs import replace

from kubectl_evictplan.apply.adopt import adopt
from kubectl_evictplan.apply.endings import EndCode, Ended
from kubectl_evictplan.apply.evidence import evidence_of
from kubectl_evictplan.apply.journal import read
from kubectl_evictplan.apply.lock import LOCK_SECONDS
from kubectl_evictplan.apply.preflight import CheckFailed
from kubectl_evictplan.apply.records import Kept
from kubectl_evictplan.apply.run import RunResult
from kubectl_evictplan.apply.states import Phase, RunState
from kubectl_evictplan.apply.status import status
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.report.next_commands import Typed
from kubectl_evictplan.report.run_end import status_blocks

SAMPLE = 11


def lost(make: Callable[[], Bench], at: int | None) -> Bench:
    """Kill the run at a step and lose its journal."""
    bench = make()
    killing(bench, at)
    with contextlib.suppress(Killed):
        bench.apply()
    bench.files = CrashingFiles()
    killing(bench, None)
    # Its lock is over (and has to be stolen) when the loss is found out.
    bench.cluster.sleep(LOCK_SECONDS + 1.0)
    return bench


def adopted(bench: Bench, **parts: object) -> RunState:
    return adopt(
        bench.plan, bench.cluster, JOURNAL, bench.files, replace(options(**parts), run_id="run-2")
    )


def gone_on(bench: Bench) -> RunResult:
    """Go on; once more where nobody could tell whether something was done and undone."""
    result = bench.resume(steal_lock=True)
    return bench.resume(steal_lock=True) if result.exit_code == 7 else result


def check(name: str, at: int) -> None:
    whole = BENCHES[name]()
    expected = final(whole, whole.apply())
    bench = lost(BENCHES[name], at)
    sent = len(bench.cluster.mutations)

    adopted(bench)

    assert len(bench.cluster.mutations) == sent
    assert final(bench, gone_on(bench)) == expected, (name, at)
    assert bench.cluster.met_newcomer == 0
    assert all(times <= 2 for times in bench.cluster.evicted.values())


@pytest.mark.parametrize("name", BENCHES)
def test_a_lost_run_that_was_killed_at_a_sample_of_steps_is_finished(name: str) -> None:
    for at in range(0, steps_of(BENCHES[name]), SAMPLE):
        check(name, at)


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHES)
def test_a_lost_run_that_was_killed_at_any_step_is_finished(name: str) -> None:
    for at in range(steps_of(BENCHES[name])):
        check(name, at)


@pytest.mark.parametrize("name", BENCHES)
def test_a_lost_run_is_taken_back_and_others_taints_stay(name: str) -> None:
    before = {
        node: spec(bench.cluster, node)
        for bench in [BENCHES[name]()]
        for node in bench.cluster.nodes
    }
    for at in range(0, steps_of(BENCHES[name]), SAMPLE):
        bench = lost(BENCHES[name], at)
        state = adopted(bench)
        if any(one.executed for one in state.operations.values()):
            result = bench.rollback(steal_lock=True)
            assert result.exit_code == 0, (at, result)
        after = {node: spec(bench.cluster, node) for node in bench.cluster.nodes}
        assert after == before, (name, at)


def test_what_another_did_is_not_adopted_as_ours() -> None:
    bench = taint_bench()
    bench.cluster.nodes["n1"].taints.append(
        {"key": "maintenance", "value": "true", "effect": "NoExecute"}
    )
    bench.cluster.nodes["n1"].owners["taints"] = "kubectl-taint"

    state = adopted(bench)

    assert state.operations[1].phase is Phase.DONE
    assert not state.operations[1].executed
    assert state.first_intent_ns is None
    assert bench.rollback(steal_lock=True).exit_code == 0
    assert [one["key"] for one in bench.cluster.nodes["n1"].taints][-1] == "maintenance"


@pytest.mark.parametrize("when", ["other plan", "before ours"])
def test_what_another_run_did_is_named_and_never_taken_back(when: str) -> None:
    bench = taint_bench()
    other = Bench(bench.cluster, replace(bench.plan, fingerprint="sha256:other"))
    assert other.apply().exit_code == 0
    if when == "before ours":
        bench.cluster.sleep(5.0)
        bench.cluster.leases.clear()
        assert bench.apply().exit_code == 0
        bench.files = CrashingFiles()
    before = {node: spec(bench.cluster, node) for node in bench.cluster.nodes}

    state = adopted(bench)

    assert not any(one.executed for one in state.operations.values())
    told = repr(list(status_blocks(status(JOURNAL, bench.files), str(JOURNAL), Typed("evictplan"))))
    assert "nobody can tell: taint n1 maintenance=true:NoExecute" in told
    back = bench.rollback(steal_lock=True)
    assert back.ending.code is EndCode.UNSURE
    assert {one.kept for one in back.state.reversals.values()} == {Kept.UNSURE}
    assert {node: spec(bench.cluster, node) for node in bench.cluster.nodes} == before


def test_our_taint_is_ours_whoever_wrote_the_list_since() -> None:
    bench = lost(taint_bench, None)
    bench.cluster.nodes["n1"].taints.append({"key": "theirs", "effect": "NoSchedule"})
    bench.cluster.nodes["n1"].owners["taints"] = "somebody"

    assert all(one.executed for one in adopted(bench).operations.values())
    assert bench.rollback(steal_lock=True).exit_code == 0
    assert [one["key"] for one in bench.cluster.nodes["n1"].taints] == ["gpu", "theirs"]


def test_a_taint_put_on_and_taken_off_or_never_put_on_is_decided_by_who_goes_on() -> None:
    cluster = three_nodes()
    cluster.nodes["n3"].taints.clear()
    plan = plan_of(cluster, add_taint("n3"), remove_taint("n3", 60.0))
    bench = Bench(cluster, plan)

    state = adopted(bench)

    assert state.operations[1].phase is Phase.UNKNOWN
    first = bench.resume(steal_lock=True)
    assert (first.exit_code, first.ending.code) == (7, EndCode.UNKNOWN)
    assert bench.resume(steal_lock=True).exit_code == 0


def test_what_is_left_of_a_lost_run_is_tried_by_the_server_first() -> None:
    bench = taint_bench()
    adopted(bench)
    assert records(bench, "preflight") == []

    assert bench.resume().exit_code == 0

    assert bench.cluster.dry_runs == 2
    checks = {one["name"]: one["verdict"] for one in records(bench, "preflight")[0]["checks"]}
    assert checks["dry-run"] == "ok"


def test_of_a_lost_run_of_evictions_nobody_says_that_nothing_was_sent() -> None:
    bench = drain_bench()
    state = adopted(bench)

    assert state.first_intent_ns is None
    assert not state.sent_nothing
    told = repr(list(status_blocks(status(JOURNAL, bench.files), str(JOURNAL), Typed("evictplan"))))
    assert "nothing was sent" not in told


def test_while_the_lock_is_held_nothing_is_adopted() -> None:
    bench = taint_bench()
    killing(bench, 14)
    with pytest.raises(Killed):
        bench.apply()
    bench.files = CrashingFiles()

    with pytest.raises(Ended) as caught:
        adopted(bench)

    assert caught.value.ending.code is EndCode.LOCKED
    assert bench.files.stored == {}
    bench.cluster.sleep(LOCK_SECONDS + 1.0)
    assert adopted(bench, lock_namespace="")


def test_of_another_cluster_nothing_is_adopted() -> None:
    bench = taint_bench()
    bench.cluster.faults.identity = replace(IDENTITY, cluster_uid="other")

    with pytest.raises(CheckFailed):
        adopted(bench)
    assert bench.files.stored == {}


def test_a_journal_that_is_there_is_not_written_over() -> None:
    bench = taint_bench()
    bench.apply()

    with pytest.raises(InputError, match="a journal already"):
        adopted(bench)


def test_a_recreated_node_has_nothing_of_ours() -> None:
    bench = lost(taint_bench, None)
    bench.cluster.recreate_node("n1")

    state = adopted(bench)

    assert [one.executed for one in state.operations.values()] == [False, True]
    assert bench.resume(steal_lock=True).ending.code is EndCode.DRIFT


def test_an_adopted_journal_tells_a_ledger_when_taints_came_and_not_when_pods_went() -> None:
    bench = lost(drain_bench, None)
    adopted(bench)

    told = evidence_of(read(JOURNAL, bench.files).records)

    assert told.start is not None
    assert told.deletions == ()
    assert records(bench, "begin")[0]["isAdopted"]


def test_what_a_lost_run_could_not_do_is_done_by_who_goes_on() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.extend([None, Fault.FORBIDDEN])
    assert bench.apply().exit_code == 3
    bench.files = CrashingFiles()

    adopted(bench)

    assert bench.resume(steal_lock=True).exit_code == 0
    back = bench.rollback(steal_lock=True)
    assert {one.kept for one in back.state.reversals.values()} <= {None, *Kept}
    assert back.exit_code == 0
