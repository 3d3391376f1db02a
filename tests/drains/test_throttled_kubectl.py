"""kubectl's client lets requests wait, five a second after ten at once: windows reach as far as that can make things late."""

from __future__ import annotations

import pytest
from building.builders import ns
from drawn.drain_worlds import CONFIGURATION, READY, App, drain, drained_cluster, drains

from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ScenarioEvent


def told(snapshot: ClusterSnapshot, *events: ScenarioEvent) -> Prediction:
    return predict(snapshot, drains(*events), CONFIGURATION, assume_ready=READY)


def crowd(*pods: int) -> ClusterSnapshot:
    """So many pods on a1, b1 and c1, which no budget keeps there."""
    nodes = zip(("a1", "b1", "c1"), pods, strict=False)
    return drained_cluster(*(App(f"web-{node}", [node] * number) for node, number in nodes))


def latest(prediction: Prediction, node: str = "a1") -> float:
    return max(one.latest_seconds for one in prediction.evictions if one.node == node)


@pytest.mark.parametrize("pods", [1, 10])
def test_ten_evictions_wait_for_nothing(pods: int) -> None:
    assert latest(told(crowd(pods), drain("a1"))) < 1.6  # kubectl begins at 1 s


@pytest.mark.parametrize(("pods", "late"), [(11, 0.2), (30, 4), (110, 20)])
def test_of_more_pods_any_may_be_the_last_that_is_evicted_and_all_surely_are(
    pods: int, late: float
) -> None:
    unlimited = latest(told(crowd(10), drain("a1")))
    prediction = told(crowd(pods), drain("a1"))

    assert latest(prediction) == pytest.approx(unlimited + late, abs=0.05)
    assert {one.certainty for one in prediction.evictions} == {"certain"}
    assert min(one.earliest_seconds for one in prediction.evictions) < 1.1
    assert prediction.inputs.coverage.outer_bound == pods


def test_kubectl_comes_as_much_later_to_the_next_node_as_it_can_be_late_with_this_one() -> None:
    few, many = (told(crowd(pods, 2), drain("a1", "b1")) for pods in (3, 30))
    # 30 evictions take 4 s, a look at 30 pods and 3 requests before 6.6 s, the next list 0.2 s and two more evictions 0.4 s.
    late = 4 + 6.6 + 0.2 + 0.4
    assert latest(many, "b1") - latest(few, "b1") == pytest.approx(late, abs=0.05)
    assert many.drains[1].end_latest_seconds is not None
    assert few.drains[1].end_latest_seconds is not None
    assert many.drains[1].end_latest_seconds > few.drains[1].end_latest_seconds + 10


def test_nodes_of_few_pods_one_after_the_other_make_nothing_late() -> None:
    two, three = told(crowd(3, 3), drain("a1", "b1")), told(crowd(3, 3, 0), drain("a1", "b1"))
    assert latest(two, "b1") == latest(three, "b1")
    assert two.inputs.coverage.outer_bound == 0


def test_a_timeout_that_the_wait_for_tokens_can_meet_makes_the_last_possible_only() -> None:
    prediction = told(crowd(60), drain("a1", timeout_ns=ns(5)))
    assert {one.certainty for one in prediction.evictions} == {"possible"}
    assert prediction.drains[0].end_reason is None or "timeout" in str(prediction.drains[0])


def test_with_disable_eviction_pods_are_deleted_by_the_client_that_looks() -> None:
    deleted = latest(told(crowd(30), drain("a1", disable_eviction=True)))
    assert deleted > latest(told(crowd(10), drain("a1", disable_eviction=True))) + 4


def test_apply_does_not_limit_itself() -> None:
    assert latest(told(crowd(10), drain("a1", parallel=30))) == latest(
        told(crowd(30), drain("a1", parallel=30))
    )


def test_a_timeout_that_only_the_ends_of_pods_can_meet_leaves_their_evictions_certain() -> None:
    prediction = told(crowd(11), drain("a1", timeout_ns=ns(20)))
    assert {one.certainty for one in prediction.evictions} == {"certain"}


def test_pods_wait_for_others_of_their_own_budget_only() -> None:
    """The budget of each lets nobody go until the replacement of the pod on the node before is Ready."""
    few, many = (
        drained_cluster(*(App(f"web-{index}", ["a1", "b1"], most=1) for index in range(pods)))
        for pods in (2, 20)
    )
    both = [told(cluster, drain("a1", "b1")) for cluster in (few, many)]
    assert latest(both[1], "b1") < latest(both[0], "b1") + 25
    assert {one.certainty for one in both[1].evictions} == {"certain"}


def test_processes_that_drain_other_nodes_evict_as_surely_as_alone() -> None:
    two = told(crowd(30, 30), drain("a1"), drain("b1"))
    assert {one.certainty for one in two.evictions} == {"certain"}
    limited = told(crowd(30, 30), drain("a1"), drain("b1", timeout_ns=ns(5)))
    assert {one.certainty for one in limited.evictions} == {"possible"}
    both = told(crowd(30, 30), drain("a1", "b1"), drain("b1"))
    assert "certain" not in {one.certainty for one in both.evictions if one.node == "b1"}
