"""Every outcome of a mutation: what is sent next, how the run ends, what the journal says."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from apply.clusters import FOREIGN, one_pod, taint_bench, three_nodes
from apply.crashes import KEEPS
from apply.crashing_files import Killed
from apply.faults import Fault
from apply.runs import (
    MAINTENANCE,
    Bench,
    add_taint,
    plan_of,
    records,
    remove_taint,
    replace_taint,
)

from kubectl_evictplan.apply.cluster import Outcome
from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.records import Verdict
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.plans.document import RemoveTaint
from kubectl_evictplan.prediction.document import TaintReference


class Expected(NamedTuple):
    """Requests that arrive, how it ends, and what was read back."""

    sent: int
    code: EndCode
    exit_code: int
    verdicts: tuple[Verdict, ...] = ()


DONE = EndCode.FINISHED
# One fault at the first of two patches; the second patch is sent only when the first is done.
PATCHES = {
    Fault.LOST_BEFORE: Expected(3, DONE, 0, (Verdict.NOT_APPLIED,)),
    Fault.LOST_AFTER: Expected(2, DONE, 0, (Verdict.APPLIED,)),
    Fault.LATE: Expected(3, DONE, 0, (Verdict.NOT_APPLIED,)),
    Fault.MOVED: Expected(1, EndCode.UNKNOWN, 7, (Verdict.MOVED,)),
    Fault.OTHER_WRITES: Expected(3, DONE, 0),
    Fault.NOT_SENT: Expected(3, DONE, 0),
    Fault.BUSY: Expected(3, DONE, 0),
    Fault.FORBIDDEN: Expected(1, EndCode.FORBIDDEN, 5),
    Fault.INVALID: Expected(1, EndCode.REFUSED, 4),
    Fault.UNAUTHENTICATED: Expected(1, EndCode.UNAUTHENTICATED, 5),
    Fault.WEBHOOK_CHANGES: Expected(1, EndCode.CHANGED, 3),
    Fault.UNOBSERVED_BUDGET: Expected(2, DONE, 0),
}
# The same at the second patch: what was done already decides the exit code.
PATCHES_LATER = {
    Fault.FORBIDDEN: Expected(2, EndCode.FORBIDDEN, 3),
    Fault.INVALID: Expected(2, EndCode.REFUSED, 3),
    Fault.UNAUTHENTICATED: Expected(2, EndCode.UNAUTHENTICATED, 5),
    Fault.MOVED: Expected(2, EndCode.UNKNOWN, 7, (Verdict.MOVED,)),
}
# One fault at the one eviction.
EVICTIONS = {
    Fault.LOST_BEFORE: Expected(2, DONE, 0, (Verdict.NOT_APPLIED, Verdict.ABSENT)),
    Fault.LOST_AFTER: Expected(1, DONE, 0, (Verdict.DELETING, Verdict.ABSENT)),
    Fault.LATE: Expected(1, DONE, 0, (Verdict.ABSENT,)),
    Fault.MOVED: Expected(2, DONE, 0, (Verdict.NOT_APPLIED, Verdict.ABSENT)),
    Fault.OTHER_WRITES: Expected(1, DONE, 0, (Verdict.ABSENT,)),
    Fault.NOT_SENT: Expected(2, DONE, 0, (Verdict.ABSENT,)),
    Fault.BUSY: Expected(2, DONE, 0, (Verdict.ABSENT,)),
    Fault.FORBIDDEN: Expected(1, EndCode.FORBIDDEN, 5),
    Fault.INVALID: Expected(1, EndCode.REFUSED, 4),
    Fault.UNAUTHENTICATED: Expected(1, EndCode.UNAUTHENTICATED, 5),
    Fault.WEBHOOK_CHANGES: Expected(1, DONE, 0, (Verdict.ABSENT,)),
    Fault.UNOBSERVED_BUDGET: Expected(2, DONE, 0, (Verdict.ABSENT,)),
}


def check(bench: Bench, expected: Expected) -> None:
    result = bench.apply()

    verdicts = tuple(Verdict(one["verdict"]) for one in records(bench, "verify"))
    found = Expected(len(bench.cluster.mutations), result.ending.code, result.exit_code, verdicts)
    assert found == expected
    assert len(records(bench, "intent")) == len(records(bench, "result")) == expected.sent
    assert records(bench, "end")[-1]["exitCode"] == result.exit_code


@pytest.mark.parametrize("fault", PATCHES)
def test_each_fault_of_a_patch_has_one_outcome(fault: Fault) -> None:
    bench = taint_bench()
    bench.cluster.faults.line.append(fault)

    check(bench, PATCHES[fault])


def test_every_fault_has_an_expectation() -> None:
    faults = set(Fault) - {Fault.NO_DRY_RUN}
    assert set(PATCHES) == set(EVICTIONS) == faults


@pytest.mark.parametrize("fault", PATCHES_LATER)
def test_what_was_done_before_decides_the_exit_code(fault: Fault) -> None:
    bench = taint_bench()
    bench.cluster.faults.line.extend([None, fault])

    check(bench, PATCHES_LATER[fault])


@pytest.mark.parametrize("fault", EVICTIONS)
def test_each_fault_of_an_eviction_has_one_outcome(fault: Fault) -> None:
    bench = one_pod()
    bench.cluster.faults.line.append(fault)

    check(bench, EVICTIONS[fault])


@pytest.mark.parametrize(
    ("fault", "sent", "code", "exit_code"),
    [
        (Fault.OTHER_WRITES, 6, EndCode.DRIFT, 4),
        (Fault.NOT_SENT, 6, EndCode.UNREACHABLE, 6),
        (Fault.BUSY, 11, EndCode.UNREACHABLE, 6),
        (Fault.LOST_BEFORE, 4, EndCode.UNREACHABLE, 6),
    ],
)
def test_what_is_tried_again_is_tried_a_bounded_number_of_times(
    fault: Fault, sent: int, code: EndCode, exit_code: int
) -> None:
    bench = taint_bench()
    bench.cluster.faults.always = fault

    result = bench.apply()

    assert (len(bench.cluster.mutations), result.ending.code) == (sent, code)
    assert result.exit_code == exit_code


def test_a_patch_that_may_have_been_reverted_is_sent_again_when_somebody_goes_on() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.append(Fault.MOVED)
    assert bench.apply().exit_code == 7

    result = bench.resume()

    assert result.exit_code == 0
    assert len(bench.cluster.mutations) == 3


def test_a_conflict_that_somebody_elses_taint_caused_keeps_that_taint() -> None:
    bench = taint_bench()
    theirs = {"key": "theirs", "effect": "NoExecute"}
    bench.cluster.before_mutation = lambda _request: (
        bench.cluster.write_taints("n1", [theirs, FOREIGN], "other")
        if not bench.cluster.mutations
        else None
    )

    assert bench.apply().exit_code == 0
    assert [t["key"] for t in bench.cluster.nodes["n1"].taints] == ["theirs", "gpu", "maintenance"]


def test_a_taint_of_ours_that_another_put_on_meanwhile_ends_the_run_and_names_them() -> None:
    bench = taint_bench()
    theirs = {"key": "maintenance", "value": "theirs", "effect": "NoExecute"}
    bench.cluster.before_mutation = lambda _request: bench.cluster.write_taints(
        "n1", [theirs], "their-tool"
    )

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.DRIFT)
    assert [change.manager for change in result.ending.changed_by] == ["their-tool"]
    assert bench.cluster.nodes["n1"].taints == [theirs]


def test_a_taint_with_its_value_that_is_there_already_is_left_as_it_is() -> None:
    cluster = three_nodes()
    there = {"key": "maintenance", "value": "true", "effect": "NoExecute"}
    cluster.add_node("n1", there)
    bench = Bench(cluster, plan_of(cluster, add_taint("n1")))

    assert bench.apply().exit_code == 0
    assert cluster.mutations == []
    assert cluster.nodes["n1"].taints == [there]


def test_an_unknown_patch_that_another_made_superfluous_is_not_called_ours() -> None:
    bench = taint_bench()
    same = {"key": "maintenance", "value": "true", "effect": "NoExecute"}
    bench.cluster.faults.line.append(Fault.LOST_BEFORE)
    bench.cluster.after_mutation = lambda _request: bench.cluster.write_taints(
        "n1", [dict(FOREIGN), same], "other"
    )

    bench.apply()

    assert records(bench, "verify")[0]["verdict"] == "already"
    assert bench.rollback().exit_code == 3
    assert same in bench.cluster.nodes["n1"].taints


def test_a_replaced_value_goes_where_the_old_one_was() -> None:
    cluster = three_nodes()
    old = TaintReference("stage", "NoSchedule", "old")
    new = TaintReference("stage", "NoSchedule", "new")
    bench = Bench(cluster, plan_of(cluster, replace_taint("n2", old, new)))

    assert bench.apply().exit_code == 0
    assert [(t["key"], t["value"]) for t in cluster.nodes["n2"].taints] == [
        ("stage", "new"),
        ("gpu", "yes"),
    ]


def test_a_taint_of_another_value_is_not_taken_off() -> None:
    cluster = three_nodes()
    other = TaintReference("stage", "NoSchedule", "young")
    operation = remove_taint("n2", taint=other)
    bench = Bench(cluster, plan_of(cluster, operation))

    result = bench.apply()

    assert isinstance(bench.plan.operations[0], RemoveTaint)
    assert (result.exit_code, cluster.mutations) == (4, [])


def test_a_node_that_was_recreated_is_never_touched() -> None:
    bench = taint_bench()
    bench.cluster.after_mutation = lambda _request: bench.cluster.recreate_node("n2")

    result = bench.apply()

    assert (result.exit_code, result.ending.code, result.ending.node) == (4, EndCode.DRIFT, "n2")
    assert bench.cluster.nodes["n2"].taints == []


def test_what_was_undone_meanwhile_is_not_fought_for() -> None:
    bench = taint_bench(canary=False)
    bench.cluster.after_mutation = lambda _request: bench.cluster.write_taints(
        "n1", [dict(FOREIGN)], "their-tool"
    )

    result = bench.apply()

    assert (result.exit_code, result.ending.code, result.ending.node) == (
        4,
        EndCode.REVERTED,
        "n1",
    )
    assert [change.manager for change in result.ending.changed_by] == ["their-tool"]
    assert len(bench.cluster.mutations) == 2


def test_an_eviction_never_meets_a_pod_of_the_same_name() -> None:
    bench = one_pod()
    bench.cluster.before_mutation = lambda _request: bench.cluster.recreate_pod("shop/web")

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (3, EndCode.NOT_EMPTY)
    assert result.ending.objects == ("shop/web",)
    assert bench.cluster.evicted == {}
    assert "shop/web" in bench.cluster.pods


def test_a_pod_that_was_replaced_before_its_turn_is_not_asked_for() -> None:
    bench = one_pod()
    bench.cluster.recreate_pod("shop/web")

    assert bench.apply().exit_code == 3
    assert bench.cluster.mutations == []


def test_a_pod_that_somebody_deleted_is_waited_for_and_not_evicted() -> None:
    bench = one_pod()
    bench.cluster.delete(bench.cluster.pods["shop/web"])

    assert bench.apply().exit_code == 0
    assert bench.cluster.mutations == []
    assert bench.cluster.pods == {}


def test_the_same_marks_are_kept_for_every_attempt_at_a_taint() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.extend([Fault.BUSY, Fault.BUSY, Fault.BUSY])

    bench.apply()

    first = [one["timeAdded"] for one in records(bench, "intent") if one["number"] == 1]
    assert len(first) == 4
    assert len(set(first)) == 1
    assert first[0] in [t.get("timeAdded") for t in bench.cluster.nodes["n1"].taints]
    assert MAINTENANCE.key == bench.cluster.nodes["n1"].taints[-1]["key"]


def test_a_taint_that_another_took_off_while_our_answer_was_lost_is_not_called_ours() -> None:
    cluster = three_nodes()
    stage = TaintReference("stage", "NoSchedule", "old")
    bench = Bench(cluster, plan_of(cluster, remove_taint("n2", taint=stage)))
    cluster.faults.line.append(Fault.LOST_BEFORE)
    cluster.after_mutation = lambda _request: cluster.write_taints("n2", [dict(FOREIGN)], "other")

    assert bench.apply().exit_code == 0
    assert records(bench, "verify")[0]["verdict"] == "already"
    cluster.after_mutation = lambda _request: None
    assert bench.rollback().exit_code == 3
    assert cluster.nodes["n2"].taints == [FOREIGN]


def test_a_patch_that_a_dead_process_left_open_and_that_nobody_can_tell_of_ends_with_7_once() -> (
    None
):
    bench = taint_bench()
    bench.cluster.before_mutation = _dies
    with pytest.raises(Killed):
        bench.apply()
    bench.files.crash(KEEPS["all"])
    bench.cluster.before_mutation = lambda _request: None
    bench.cluster.heartbeat("n1")

    first, sent = bench.resume(), len(bench.cluster.mutations)
    second = bench.resume()

    assert (first.exit_code, first.ending.code, sent) == (7, EndCode.UNKNOWN, 0)
    assert second.exit_code == 0


def _dies(_request: object) -> None:
    raise Killed


def test_an_eviction_that_a_dead_process_left_open_is_not_sent_again_too_early() -> None:
    bench = one_pod()
    bench.cluster.before_mutation = _dies
    with pytest.raises(Killed):
        bench.apply()
    died = bench.cluster.now
    bench.files.crash(KEEPS["all"])
    sent: list[int] = []
    bench.cluster.before_mutation = lambda _request: sent.append(bench.cluster.now)

    assert bench.resume().exit_code == 0
    assert [round((at - died) / SECOND_NS) for at in sent] == [60]


def test_a_pod_that_stands_on_another_node_is_not_evicted() -> None:
    bench = one_pod()
    bench.cluster.add_node("n2")
    bench.cluster.pods["shop/web"].node = "n2"

    result = bench.apply()

    assert (result.exit_code, bench.cluster.mutations) == (4, [])


def test_a_budget_that_was_not_observed_yet_says_when_to_ask_again() -> None:
    bench = one_pod()
    bench.cluster.faults.line.append(Fault.UNOBSERVED_BUDGET)
    sent: list[int] = []
    bench.cluster.before_mutation = lambda _request: sent.append(bench.cluster.now)

    bench.apply()

    assert round((sent[1] - sent[0]) / SECOND_NS) == 10


def test_a_server_that_lags_behind_is_not_believed() -> None:
    bench = taint_bench()
    bench.cluster.after_mutation = lambda _request: setattr(
        bench.cluster.faults, "stale_reads", 2 if len(bench.cluster.mutations) == 2 else 0
    )

    assert bench.apply().exit_code == 0


def test_a_taint_is_not_called_gone_by_an_answer_from_before_it_was_put_on() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1"), remove_taint("n1", at=5.0)))
    cluster.after(3.0, lambda: setattr(cluster.faults, "stale_reads", 2))

    assert bench.apply().exit_code == 0
    assert [one["key"] for one in cluster.nodes["n1"].taints] == ["gpu"]
    assert len(cluster.mutations) == 2


def test_a_server_that_keeps_lagging_behind_ends_the_run() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1"), remove_taint("n1", at=5.0)))
    cluster.after(3.0, lambda: setattr(cluster.faults, "stale_reads", 99))

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (3, EndCode.UNREACHABLE)
    assert "from before this run's own change" in result.ending.message
    cluster.faults.stale_reads = 0
    assert bench.resume().exit_code == 0
    assert len(cluster.mutations) == 2


def test_what_a_server_that_lags_behind_shows_is_not_taken_for_taken_back() -> None:
    bench = taint_bench()
    assert bench.apply().exit_code == 0
    bench.cluster.faults.stale_reads = 2

    assert bench.rollback().exit_code == 0
    assert [one["key"] for one in bench.cluster.nodes["n1"].taints] == ["gpu"]


def test_a_pod_that_went_as_asked_counts_as_evicted() -> None:
    bench = one_pod()

    result = bench.apply()

    assert result.state.operations[1].outcome is Outcome.APPLIED
    assert result.state.operations[1].done_at


def test_one_server_that_lags_behind_does_not_make_a_patch_look_unsent() -> None:
    bench = taint_bench()
    bench.cluster.faults.line.append(Fault.LOST_AFTER)
    bench.cluster.after_mutation = lambda _request: setattr(
        bench.cluster.faults, "stale_reads", 1 if len(bench.cluster.mutations) == 1 else 0
    )

    check(bench, PATCHES[Fault.LOST_AFTER])


@pytest.mark.parametrize("value", ["young", None])
def test_a_value_is_exchanged_only_for_the_one_that_was_reviewed(value: str | None) -> None:
    cluster = three_nodes()
    old, new = (TaintReference("stage", "NoSchedule", value) for value in ("old", "new"))
    bench = Bench(cluster, plan_of(cluster, replace_taint("n2", old, new)))
    there = [] if value is None else [{"key": "stage", "value": value, "effect": "NoSchedule"}]
    cluster.write_taints("n2", there, "other")

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.DRIFT)
    assert cluster.nodes["n2"].taints == there
