"""What is said of the limits of kubectl's own client."""

from __future__ import annotations

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


def test_kubectl_asks_five_times_a_second_after_ten_at_once() -> None:
    [(node, text)] = throttled(crowd(30), drain("a1"))
    assert node == "a1"
    assert "5 requests of a kind a second after 10 at once: pods go up to 4s later" in text
    assert "through with these nodes up to 10.4s later" in text


def test_who_looks_at_more_than_five_pods_sees_late_that_they_are_gone() -> None:
    [(_, text)] = throttled(crowd(6), drain("a1"))
    assert "pods go" not in text
    assert "through with these nodes up to 1.6s later" in text


def test_a_node_is_as_late_as_those_before_it_made_kubectl() -> None:
    cluster = drained_cluster(App("web", ["a1"] * 30), App("api", ["b1"] * 2))
    [(*nodes, text)] = throttled(cluster, drain("a1", "b1"))
    assert nodes == ["a1", "b1"]
    assert "pods go up to 11.2s later" in text


def test_ten_requests_wait_for_nothing() -> None:
    assert throttled(crowd(5), drain("a1")) == []


def test_pods_that_kubectl_refuses_or_leaves_alone_cost_no_request() -> None:
    assert throttled(crowd(30, kind=""), drain("a1")) == []
    assert throttled(crowd(30), drain("a1", pod_selector="app=other")) == []


def test_apply_has_a_client_of_its_own() -> None:
    assert throttled(crowd(30), drain("a1", parallel=5)) == []


def test_more_than_ten_nodes_are_read_and_cordoned_later() -> None:
    names = [f"n{number}" for number in range(20)]
    [(*nodes, text)] = throttled(drained_cluster(nodes=names), drain(*names))
    assert sorted(nodes) == sorted(names)
    assert "pods go up to 10s later" in text
