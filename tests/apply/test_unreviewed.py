"""What came, or was taken back, after the plan was reviewed is looked at before more goes."""

from __future__ import annotations

from typing import Any

import pytest
from apply.clusters import drain_bench, taint_bench, three_nodes
from apply.crashing_files import Killed
from apply.runs import MAINTENANCE, Bench, add_taint, drain, plan_of, replace_taint
from apply.simulated_cluster import SimulatedCluster

from kubectl_evictplan.apply.endings import EndCode
from kubectl_evictplan.errors import AccessError, Problem
from kubectl_evictplan.kube.objects import Toleration
from kubectl_evictplan.prediction.document import TaintReference

OTHER_EFFECT = TaintReference("maintenance", "NoSchedule", "true")


def newcomer_on_n2(bench: Bench, **parts: Any) -> None:
    """Let a pod come to n2 with the first mutation, which is n1's."""
    cluster = bench.cluster

    def comes(_request: object) -> None:
        if "shop/precious" not in cluster.pods:
            cluster.add_pod("shop/precious", "n2", **parts)

    cluster.before_mutation = comes


def test_a_taint_is_not_put_on_while_a_pod_that_nobody_reviewed_would_go_by_it() -> None:
    bench = taint_bench(canary=False)
    newcomer_on_n2(bench)

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.UNREVIEWED)
    assert (result.ending.node, result.ending.number) == ("n2", 2)
    assert result.ending.objects == ("shop/precious",)
    assert len(bench.cluster.mutations) == 1


def test_who_goes_on_looks_as_well_for_pods_that_nobody_reviewed() -> None:
    bench = taint_bench(canary=False)

    def killed(_request: object) -> None:
        raise Killed

    bench.cluster.after_mutation = killed
    with pytest.raises(Killed):
        bench.apply()
    bench.cluster.after_mutation = lambda _request: None
    bench.cluster.add_pod("shop/precious", "n2")

    result = bench.resume()

    assert (result.exit_code, result.ending.objects) == (4, ("shop/precious",))
    assert len(bench.cluster.mutations) == 1


def test_a_pod_recreated_under_a_reviewed_name_is_one_that_nobody_reviewed() -> None:
    bench = taint_bench()
    bench.cluster.recreate_pod("shop/bare")

    assert bench.apply().ending.objects == ("shop/bare",)


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(None, EndCode.FINISHED), (300, EndCode.UNREVIEWED), (0, EndCode.UNREVIEWED)],
)
def test_a_newcomer_that_tolerates_the_taint_for_a_time_goes_and_one_that_always_does_stays(
    seconds: int | None, code: EndCode
) -> None:
    bench = taint_bench(canary=False)
    toleration = Toleration("maintenance", "Exists", "", "NoExecute", seconds)
    newcomer_on_n2(bench, tolerations=(toleration,))

    assert bench.apply().ending.code is code


def test_a_newcomer_that_is_being_deleted_keeps_no_taint_away() -> None:
    bench = taint_bench(canary=False)
    newcomer_on_n2(bench, deleted_ns=bench.cluster.now)

    assert bench.apply().exit_code == 0


def test_a_taint_that_evicts_nobody_needs_no_look_at_the_pods() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, add_taint("n1", taint=OTHER_EFFECT)))
    cluster.add_pod("shop/precious", "n1")

    assert bench.apply().exit_code == 0


def test_a_new_value_of_a_taint_is_looked_at_like_a_new_taint() -> None:
    cluster = SimulatedCluster()
    old = TaintReference("maintenance", "NoExecute", "false")
    cluster.add_node("n1", {"key": old.key, "value": old.value, "effect": old.effect})
    bench = Bench(cluster, plan_of(cluster, replace_taint("n1", old, MAINTENANCE)))
    tolerates_old = Toleration(old.key, "Equal", old.value, old.effect)
    cluster.add_pod("shop/precious", "n1", tolerations=(tolerates_old,))

    assert bench.apply().ending.code is EndCode.UNREVIEWED
    assert cluster.mutations == []


def test_no_taint_is_put_on_while_the_pods_of_its_node_may_not_be_read() -> None:
    bench = taint_bench()

    def denied(_node: str) -> tuple[()]:
        raise AccessError(Problem("forbidden", location="https://simulated"))

    bench.cluster.list_pods = denied  # type: ignore[method-assign]

    assert bench.apply().exit_code == 5
    assert bench.cluster.mutations == []


# -- what somebody takes back ----------------------------------------------------------------------


def test_nothing_is_evicted_from_a_node_that_somebody_uncordoned_meanwhile() -> None:
    bench = drain_bench()
    bench.cluster.budgets["web"] = 0
    bench.cluster.pods["shop/db-0"].exit_seconds = 40.0
    bench.cluster.after(
        20.0, lambda: bench.cluster.write_unschedulable("n1", False, "kubectl-uncordon")
    )
    bench.cluster.after(26.0, lambda: bench.cluster.budgets.update(web=2))

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.REVERTED)
    assert bench.cluster.pods["shop/web-a"].deleted_ns is None


def test_who_goes_on_evicts_nothing_from_a_node_that_was_uncordoned() -> None:
    bench = drain_bench()
    bench.cluster.budgets["web"] = 0
    bench.cluster.after(2.0, lambda: bench.stop.request("SIGINT"))
    assert bench.apply().exit_code == 130
    bench.cluster.write_unschedulable("n1", False, "kubectl-uncordon")
    bench.cluster.budgets["web"] = 2
    sent = len(bench.cluster.mutations)

    result = bench.resume()

    assert (result.exit_code, result.ending.code) == (4, EndCode.REVERTED)
    assert len(bench.cluster.mutations) == sent


def test_the_named_culprit_wrote_the_field_that_was_taken_back() -> None:
    cluster = three_nodes()
    bench = Bench(cluster, plan_of(cluster, *drain(cluster, "n1")))
    taints = [{"key": "seen", "effect": "NoSchedule"}]

    def others(_request: object) -> None:
        cluster.write_taints("n1", taints, "kube-controller-manager")
        cluster.write_unschedulable("n1", False, "kubectl-uncordon")

    cluster.after_mutation = others

    result = bench.apply()

    assert result.ending.code is EndCode.REVERTED
    assert result.ending.changed_by == ()


def test_after_all_was_done_and_taken_back_going_on_is_not_offered() -> None:
    bench = taint_bench(canary=False)
    cluster = bench.cluster
    cluster.after_mutation = lambda _request: cluster.write_taints("n2", [], "kubectl-taint")

    result = bench.apply()

    assert result.ending.code is EndCode.REVERTED
    assert (result.resumable, result.can_roll_back) == (False, True)
    again = bench.resume()
    assert (again.exit_code, again.ending.code) == (4, EndCode.REVERTED)
