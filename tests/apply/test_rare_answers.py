"""The rarer answers to an eviction, and what they mean."""

from __future__ import annotations

from apply.clusters import one_pod, taint_bench, three_nodes
from apply.runs import Bench, drain, plan_of, records
from apply.simulated_cluster import SimulatedCluster

from kubectl_evictplan.apply.cluster import Outcome, Reply, Request
from kubectl_evictplan.apply.endings import EndCode


def answering(bench: Bench, reply: Reply, times: int) -> None:
    """Let the next evictions be answered so, whatever the cluster would say."""
    send, left = bench.cluster.send, iter(range(times))

    def answered(request: Request) -> Reply:
        if request.method == "POST" and next(left, None) is not None:
            bench.cluster.mutations.append(request)
            return reply
        return send(request)

    bench.cluster.send = answered  # type: ignore[method-assign]


def test_a_pod_of_a_namespace_that_is_being_deleted_is_waited_for() -> None:
    bench = one_pod()
    causes = ("NamespaceTerminating",)
    answering(bench, Reply(Outcome.REFUSED, status=403, causes=causes), 1000)
    bench.cluster.after(12.0, lambda: bench.cluster.delete(bench.cluster.pods["shop/web"]))

    assert bench.apply().exit_code == 0
    assert len(bench.cluster.mutations) == 3


def test_two_budgets_over_one_pod_end_the_run_at_once() -> None:
    cluster = three_nodes()
    cluster.budgets["more"] = 1
    cluster.pods["shop/web-a"].budgets = ("web", "more")
    bench = Bench(cluster, plan_of(cluster, *drain(cluster, "n1", "n2")))

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (3, EndCode.REFUSED)
    assert sum(request.method == "POST" for request in cluster.mutations) == 1
    assert cluster.evicted == {}


def test_an_eviction_api_that_is_not_there_ends_the_run_and_nothing_is_deleted() -> None:
    bench = one_pod()
    answering(bench, Reply(Outcome.ABSENT, status=404, message="page not found"), 1000)

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (4, EndCode.REFUSED)
    assert len(bench.cluster.mutations) == 6
    assert {request.method for request in bench.cluster.mutations} == {"POST"}
    assert "shop/web" in bench.cluster.pods


def test_a_server_that_asks_for_too_much_patience_ends_the_run() -> None:
    patience = Reply(Outcome.NOT_NOW, status=503, retry_after_seconds=61.0)
    bench = one_pod()
    answering(bench, patience, 1)

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (6, EndCode.UNREACHABLE)


def test_an_eviction_that_another_process_left_under_way_takes_its_place_in_the_bound() -> None:
    cluster = SimulatedCluster()
    cluster.add_node("n1", unschedulable=True)
    for number in range(4):
        cluster.add_pod(f"shop/web-{number}", "n1", exit_seconds=40.0)
    bench = Bench(cluster, plan_of(cluster, *drain(cluster, "n1")[1:], parallel=2))
    cluster.after(5.0, lambda: bench.stop.request("SIGINT"))
    assert bench.apply().exit_code == 130
    most: list[int] = []
    cluster.after_mutation = lambda _request: most.append(
        sum(pod.deleted_ns is not None for pod in cluster.pods.values())
    )

    assert bench.resume().exit_code == 0
    assert max(most) == 2


def test_retries_of_an_eviction_do_not_repeat_the_request_in_the_journal() -> None:
    bench = one_pod()
    answering(bench, Reply(Outcome.BUDGET, status=429, causes=("DisruptionBudget",)), 3)

    bench.apply()

    assert [one["request"] is None for one in records(bench, "intent")] == [False] + [True] * 3
    assert len(records(bench, "wait")) == 1


def test_a_node_whose_server_asks_for_too_much_patience_ends_the_run() -> None:
    bench = taint_bench()
    send = bench.cluster.send
    patience = Reply(Outcome.NOT_NOW, status=503, retry_after_seconds=61.0)
    bench.cluster.send = lambda request: (  # type: ignore[method-assign]
        send(request) if "dryRun" in request.path else patience
    )

    result = bench.apply()

    assert (result.exit_code, result.ending.code) == (6, EndCode.UNREACHABLE)
    assert len(records(bench, "intent")) == 1
