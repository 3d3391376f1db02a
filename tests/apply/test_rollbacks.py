"""Taking back: only what the run did, newest first, and never what is somebody else's by now."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from apply.clusters import BENCHES, FOREIGN, drain_bench, taint_bench, three_nodes
from apply.crashes import KEEPS, killing
from apply.crashing_files import Killed
from apply.faults import Fault
from apply.runs import (
    JOURNAL,
    Bench,
    add_taint,
    cordon,
    plan_of,
    remove_taint,
    replace_taint,
    uncordon,
)
from apply.simulated_cluster import IDENTITY

from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.records import Kept
from kubectl_evictplan.apply.run import RunResult
from kubectl_evictplan.apply.states import Phase
from kubectl_evictplan.prediction.document import TaintReference

OLD = TaintReference("stage", "NoSchedule", "old")
NEW = TaintReference("stage", "NoSchedule", "new")


def specs(bench: Bench) -> dict[str, Any]:
    nodes = bench.cluster.nodes.values()
    return {n.name: (copy.deepcopy(n.taints), n.unschedulable) for n in nodes}


def kept(result: RunResult) -> dict[int, Kept | None]:
    return {number: one.kept for number, one in sorted(result.state.reversals.items())}


def changes_bench() -> Bench:
    """One of each change, all of which can be taken back."""
    cluster = three_nodes()
    cluster.add_node("n4", dict(FOREIGN), unschedulable=True)
    operations = [
        replace_taint("n2", OLD, NEW),
        add_taint("n1"),
        remove_taint("n4", taint=TaintReference("gpu", "NoSchedule", "yes")),
        uncordon("n4"),
        cordon("n1"),
    ]
    return Bench(cluster, plan_of(cluster, *operations))


@pytest.mark.parametrize("make", [*BENCHES.values(), changes_bench])
def test_an_undisturbed_run_is_taken_back_exactly(make: Any) -> None:
    bench = make()
    before = specs(bench)
    bench.apply()
    assert specs(bench) != before

    result = bench.rollback()

    assert (result.exit_code, result.ending.code) == (0, EndCode.FINISHED)
    assert specs(bench) == before
    assert not result.can_roll_back
    assert not result.resumable


def test_a_rollback_killed_at_any_step_and_begun_again_takes_everything_back() -> None:
    bench = changes_bench()
    before = specs(bench)
    bench.apply()
    killer = killing(bench, None)
    bench.rollback()
    steps = killer.steps

    for at in range(steps):
        for keep in (KEEPS["none"], KEEPS["all"]):
            bench = changes_bench()
            bench.apply()
            killing(bench, at)
            with pytest.raises(Killed):
                bench.rollback()
            bench.files.crash(keep)
            killing(bench, None)
            assert bench.rollback().exit_code == 0, at
            assert specs(bench) == before, at


def test_a_run_killed_at_any_step_is_taken_back() -> None:
    whole = changes_bench()
    before = specs(whole)
    killer = killing(whole, None)
    whole.apply()

    for at in range(killer.steps):
        bench = changes_bench()
        killing(bench, at)
        with pytest.raises(Killed):
            bench.apply()
        bench.files.crash(KEEPS["none"])
        killing(bench, None)
        if JOURNAL in bench.files.stored and bench.lines:
            result = bench.rollback()
            # Nobody owns a list that became empty, nor a field that was cleared: said, not guessed.
            unsure = [number for number, why in kept(result).items() if why is Kept.UNSURE]
            assert result.exit_code == (3 if unsure else 0), at
            assert set(unsure) <= {3, 4}, at
            if unsure:
                continue
        assert specs(bench) == before, at


def test_the_newest_change_is_taken_back_first() -> None:
    bench = taint_bench()
    bench.apply()
    sent = len(bench.cluster.mutations)

    bench.rollback()

    paths = [one.path.partition("?")[0] for one in bench.cluster.mutations[sent:]]
    assert paths == ["/api/v1/nodes/n2", "/api/v1/nodes/n1"]


def test_a_taint_put_on_and_taken_off_again_is_not_put_on_once_more() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1"), remove_taint("n1", 5.0)))
    bench.apply()
    sent = len(cluster.mutations)

    assert bench.rollback().exit_code == 0
    assert len(cluster.mutations) == sent


@pytest.mark.parametrize(
    ("taints", "why", "exit_code"),
    [
        ([], Kept.UNDONE_ALREADY, 0),
        ([{"key": "maintenance", "value": "no", "effect": "NoExecute"}], Kept.CHANGED_SINCE, 3),
        ([{"key": "maintenance", "value": "true", "effect": "NoExecute"}], Kept.CHANGED_SINCE, 3),
    ],
)
def test_a_taint_that_is_not_exactly_ours_any_more_stays(
    taints: list[dict[str, str]], why: Kept, exit_code: int
) -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1")))
    bench.apply()
    cluster.write_taints("n1", taints, "other")

    result = bench.rollback()

    assert (result.exit_code, kept(result)) == (exit_code, {1: why})
    assert cluster.nodes["n1"].taints == taints


def test_a_value_that_another_exchanged_again_is_not_restored() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, replace_taint("n2", OLD, NEW)))
    bench.apply()
    theirs = [{"key": "stage", "value": "theirs", "effect": "NoSchedule"}]
    cluster.write_taints("n2", theirs, "other")

    result = bench.rollback()

    assert (result.exit_code, kept(result)) == (3, {1: Kept.CHANGED_SINCE})
    assert cluster.nodes["n2"].taints == theirs


def test_foreign_taints_and_their_order_stay() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1")))
    bench.apply()
    first, last = {"key": "a", "effect": "NoSchedule"}, {"key": "z", "effect": "NoSchedule"}
    cluster.write_taints("n1", [first, *cluster.nodes["n1"].taints, last], "other")

    assert bench.rollback().exit_code == 0
    assert cluster.nodes["n1"].taints == [first, FOREIGN, last]


def test_a_cordon_that_another_made_anew_stays() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, cordon("n1")))
    bench.apply()
    cluster.write_unschedulable("n1", False, "kubectl-cordon")
    cluster.write_unschedulable("n1", True, "kubectl-cordon")

    result = bench.rollback()

    assert (result.exit_code, kept(result)) == (3, {1: Kept.CHANGED_SINCE})
    assert cluster.nodes["n1"].unschedulable


def test_a_node_that_was_cordoned_before_stays_cordoned() -> None:
    cluster = three_nodes()
    cluster.add_node("n4", unschedulable=True)
    bench = Bench(cluster, plan_of(cluster, cordon("n4")))
    bench.apply()

    assert bench.rollback().exit_code == 0
    assert cluster.nodes["n4"].unschedulable


def test_nodes_that_are_gone_or_new_are_left_alone_and_named() -> None:
    bench = taint_bench()
    bench.apply()
    bench.cluster.recreate_node("n1")
    del bench.cluster.nodes["n2"]
    sent = len(bench.cluster.mutations)

    result = bench.rollback()

    assert kept(result) == {1: Kept.NODE_RECREATED, 2: Kept.NODE_GONE}
    assert len(bench.cluster.mutations) == sent


def test_evictions_are_listed_as_what_cannot_be_undone() -> None:
    bench = drain_bench()
    bench.apply()

    result = bench.rollback()

    assert set(kept(result).values()) == {None, Kept.CANNOT_BE_UNDONE}
    assert not bench.cluster.nodes["n1"].unschedulable


def test_an_unknown_outcome_is_found_out_before_anything_is_taken_back() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.extend([None, Fault.LOST_AFTER])
    killing(bench, 12)
    with pytest.raises(Killed):
        bench.apply()
    killing(bench, None)
    bench.files.crash(KEEPS["none"])

    assert bench.rollback().exit_code == 0
    assert [t["key"] for t in bench.cluster.nodes["n1"].taints] == ["gpu"]


def test_a_rollback_that_fails_can_be_begun_again() -> None:
    bench = taint_bench()
    bench.apply()
    bench.cluster.faults.line.append(Fault.FORBIDDEN)

    failed = bench.rollback()
    again = bench.rollback()

    assert (failed.exit_code, failed.ending.code) == (3, EndCode.FORBIDDEN)
    assert failed.can_roll_back
    assert again.exit_code == 0


def test_a_conflict_while_taking_back_looks_at_the_node_again() -> None:
    bench = taint_bench()
    bench.apply()
    theirs = [{"key": "maintenance", "value": "theirs", "effect": "NoExecute"}]
    bench.cluster.before_mutation = lambda _request: bench.cluster.write_taints(
        "n2", theirs, "other"
    )

    result = bench.rollback()

    assert kept(result) == {1: None, 2: Kept.CHANGED_SINCE}
    assert bench.cluster.nodes["n2"].taints == theirs


def test_what_was_left_alone_is_looked_at_again() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1")))
    bench.apply()
    theirs = {"key": "maintenance", "value": "theirs", "effect": "NoExecute"}
    cluster.write_taints("n1", [dict(FOREIGN), theirs], "other")
    assert bench.rollback().exit_code == 3
    cluster.write_taints("n1", [dict(FOREIGN)], "other")

    result = bench.rollback()

    assert (result.exit_code, kept(result)) == (0, {1: Kept.UNDONE_ALREADY})


def test_a_run_is_not_taken_back_on_another_cluster_or_without_the_rights() -> None:
    bench = taint_bench()
    bench.apply()
    sent = len(bench.cluster.mutations)
    bench.cluster.faults.identity = msgspec.structs.replace(IDENTITY, cluster_uid="other")
    elsewhere = bench.rollback()
    bench.cluster.faults.identity = None
    bench.cluster.denied.add(("patch", "nodes"))
    powerless = bench.rollback()

    assert (elsewhere.exit_code, elsewhere.ending.objects) == (4, ("cluster",))
    assert (powerless.exit_code, powerless.ending.code) == (5, EndCode.DENIED)
    assert powerless.ending.objects == ("patch nodes n1", "patch nodes n2")
    assert len(bench.cluster.mutations) == sent


def test_an_eviction_that_may_still_be_at_work_is_waited_for_before_it_is_judged() -> None:
    bench = drain_bench()
    bench.cluster.faults.line.extend([None, None, Fault.LATE])
    bench.cluster.after_mutation = lambda _request: _dies_after(bench, 3)
    with pytest.raises(Killed):
        bench.apply()
    bench.files.crash(KEEPS["all"])
    bench.cluster.after_mutation = lambda _request: None

    result = bench.rollback()

    evictions = [one for one in result.state.operations.values() if one.operation.number == 3]
    assert [one.phase for one in evictions] == [Phase.DONE]
    assert kept(result)[3] is Kept.CANNOT_BE_UNDONE


def _dies_after(bench: Bench, mutations: int) -> None:
    if len(bench.cluster.mutations) == mutations:
        raise Killed
