"""A plan is carried out as reviewed: in order, in turns, and it says what became of it."""

from __future__ import annotations

from apply.clusters import drain_bench, everything_bench, taint_bench

from kubectl_evictplan.apply.endings import EndCode


def test_a_taint_is_put_on_every_node_of_the_plan_beside_the_foreign_ones() -> None:
    bench = taint_bench()

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (0, EndCode.FINISHED)
    keys = {name: [t["key"] for t in node.taints] for name, node in bench.cluster.nodes.items()}
    assert keys == {"n1": ["gpu", "maintenance"], "n2": ["stage", "gpu", "maintenance"], "n3": []}
    assert result.state.counts() == {"done": 2}


def test_a_drain_cordons_all_nodes_and_waits_for_budgets() -> None:
    bench = drain_bench()

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (0, EndCode.FINISHED)
    assert [pod.node for pod in bench.cluster.pods.values()] == ["n1", "n3", "n3", "n3"]
    assert max(bench.cluster.evicted.values()) == 1


def test_everything() -> None:
    bench = everything_bench()

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (0, EndCode.FINISHED)
