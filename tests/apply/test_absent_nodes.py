"""A node that is gone in the middle of a run ends it, or is left out where that was asked for."""

from __future__ import annotations

import pytest
from apply.clusters import drain_bench, taint_bench, three_nodes
from apply.runs import Bench, add_taint, cordon, drain, plan_of, records

from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.apply.records import Kept
from kubectl_evictplan.apply.states import Phase

GONE_AFTER_SECONDS = 30.0


def losing(bench: Bench, node: str = "n2", after: float = GONE_AFTER_SECONDS) -> Bench:
    """Let the node be deleted, with its pods, while the run pauses."""

    def gone() -> None:
        bench.cluster.nodes.pop(node, None)
        for key in [key for key, pod in bench.cluster.pods.items() if pod.node == node]:
            del bench.cluster.pods[key]

    bench.cluster.after(after, gone)
    return bench


def three_taints(**execution: object) -> Bench:
    cluster = three_nodes()
    taints = [add_taint(name) for name in ("n1", "n2", "n3")]
    return Bench(cluster, plan_of(cluster, *taints, settle_seconds=60.0, **execution))


def test_without_being_asked_to_go_on_the_run_ends_at_a_node_that_is_gone() -> None:
    bench = losing(three_taints())

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.DRIFT)
    assert len(bench.cluster.mutations) == 1


def test_a_node_that_is_gone_is_left_out_and_the_others_are_done() -> None:
    bench = losing(three_taints())

    result = bench.apply(continue_on_absent=True)

    assert (result.exit_code, result.ending.code) == (3, EndCode.ABSENT)
    assert result.ending.objects == ("n2",)
    assert [one.phase for one in result.state.operations.values()] == [
        Phase.DONE,
        Phase.LEFT,
        Phase.DONE,
    ]
    assert len(bench.cluster.mutations) == 2
    assert records(bench, "begin")[0]["continueOnAbsent"]


def test_who_goes_on_may_decide_it_too_and_what_was_left_out_is_tried_again() -> None:
    bench = losing(three_taints())
    assert bench.apply().exit_code == 4

    assert bench.resume(continue_on_absent=True).exit_code == 3
    assert records(bench, "resume")[0]["continueOnAbsent"]
    assert bench.resume().exit_code == 4


def test_the_pods_of_a_drained_node_that_is_gone_are_not_attempted() -> None:
    cluster = three_nodes()
    cluster.add_pod("shop/last", "n3", "ReplicaSet/web")
    plan = plan_of(cluster, *drain(cluster, "n1", "n2", "n3"), settle_seconds=60.0)
    bench = losing(Bench(cluster, plan))

    result = bench.apply(continue_on_absent=True)

    assert (result.exit_code, result.ending.code) == (3, EndCode.ABSENT)
    left = {
        one.operation.told for one in result.state.operations.values() if one.phase is Phase.LEFT
    }
    assert left == {"evict shop/web-b from n2", "evict shop/bare from n2"}
    assert not any(name in one.path for one in cluster.mutations for name in ("web-b", "bare"))
    assert "shop/last" not in cluster.pods


def test_a_node_that_goes_when_everything_on_it_was_done_leaves_nothing_out() -> None:
    bench = losing(three_taints(), "n2", after=90.0)

    result = bench.apply(continue_on_absent=True)

    assert (result.exit_code, result.ending.code) == (0, EndCode.FINISHED)
    back = bench.rollback()
    assert back.state.reversals[2].kept is Kept.NODE_GONE


def test_a_canary_that_is_gone_ends_the_run_all_the_same() -> None:
    bench = losing(taint_bench(settle_seconds=60.0), "n1")
    other = losing(taint_bench(settle_seconds=60.0, canary=False), "n1")

    assert bench.apply(continue_on_absent=True).exit_code == 4
    assert len(bench.cluster.mutations) == 1
    assert other.apply(continue_on_absent=True).exit_code == 0


def test_a_node_that_is_another_by_now_is_not_absent() -> None:
    bench = three_taints()
    bench.cluster.after(GONE_AFTER_SECONDS, lambda: bench.cluster.recreate_node("n2"))

    result = bench.apply(continue_on_absent=True)

    assert (result.exit_code, result.ending.code) == (4, EndCode.DRIFT)
    assert len(bench.cluster.mutations) == 1


@pytest.mark.parametrize("make", [taint_bench, drain_bench])
def test_a_node_that_is_gone_before_anything_was_sent_is_a_stale_plan(make: object) -> None:
    bench = make()  # type: ignore[operator]
    del bench.cluster.nodes["n2"]

    assert bench.apply(continue_on_absent=True).exit_code == 4
    assert bench.cluster.mutations == []


def test_after_a_sleep_of_the_machine_a_node_that_is_gone_is_left_out_too() -> None:
    bench = losing(three_taints())

    def sleeps() -> None:
        bench.cluster.faults.wall_offset_ns += 60 * 10**9

    bench.cluster.after(GONE_AFTER_SECONDS + 1.0, sleeps)

    assert bench.apply(continue_on_absent=True).exit_code == 3


def test_cordons_of_nodes_that_are_gone_are_left_out() -> None:
    cluster = three_nodes()
    plan = plan_of(cluster, cordon("n1"), cordon("n2"), cordon("n3"), settle_seconds=60.0)

    assert losing(Bench(cluster, plan)).apply(continue_on_absent=True).exit_code == 3
