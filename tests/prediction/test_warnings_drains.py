"""What is said of the limits of kubectl's own client."""

from __future__ import annotations

import pytest
from drawn.drain_worlds import CONFIGURATION, READY, App, drain, drained_cluster, drains

from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ScenarioEvent


def throttled(snapshot: ClusterSnapshot, *events: ScenarioEvent) -> list[tuple[str, ...]]:
    """Of each warning its objects and its text."""
    prediction = predict(snapshot, drains(*events), CONFIGURATION, assume_ready=READY)
    found = [one for one in prediction.warnings if one.code == "kubectl-throttling"]
    return [(*one.objects, one.message) for one in found]


def crowd(pods: int, kind: str = "ReplicaSet") -> ClusterSnapshot:
    return drained_cluster(App("web", ["a1"] * pods, kind=kind))


@pytest.mark.parametrize(("pods", "last", "looks"), [(5, "", "0.4s"), (30, "4s", "10.4s")])
def test_kubectl_asks_five_times_a_second_after_ten_at_once(
    pods: int, last: str, looks: str
) -> None:
    [(node, text)] = throttled(crowd(pods), drain("a1"))
    assert node == "a1"
    assert f"sees that they are gone about {looks} after" in text
    assert (f"the last goes about {last} after" in text) is bool(last)


def test_a_node_is_as_late_as_those_before_it_made_kubectl() -> None:
    cluster = drained_cluster(App("web", ["a1"] * 30), App("api", ["b1"] * 2))
    [(_, first), (node, second)] = sorted(throttled(cluster, drain("a1", "b1")))
    assert "sees that they are gone about 10.6s after" in first
    assert node == "b1"
    assert "the last goes about 10.6s after" in second


def test_with_disable_eviction_it_deletes_by_the_client_that_looks() -> None:
    [(_, text)] = throttled(crowd(30), drain("a1", disable_eviction=True))
    assert "the last goes about 4.4s after" in text


def test_ten_requests_wait_for_nothing() -> None:
    assert throttled(crowd(4), drain("a1")) == []


def test_pods_that_kubectl_refuses_or_leaves_alone_cost_no_request() -> None:
    assert throttled(crowd(30, kind=""), drain("a1")) == []
    assert throttled(crowd(30), drain("a1", pod_selector="app=other")) == []


def test_apply_has_a_client_of_its_own() -> None:
    assert throttled(crowd(30), drain("a1", parallel=5)) == []


def test_more_than_ten_nodes_are_read_and_cordoned_later() -> None:
    names = [f"n{number}" for number in range(20)]
    [(*nodes, text)] = throttled(drained_cluster(nodes=names), drain(*names))
    assert sorted(nodes) == sorted(names)
    assert "begins to drain about 4s after" in text
