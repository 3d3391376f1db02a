"""Pods that differ in nothing but their names: one of each kind is simulated, and all are told of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from building.builders import (
    encoded,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    tolerates,
)
from msgspec.structs import replace
from realities.drawn_realities import World, draw_world

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.finalizers import JOB_TRACKING
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.alike_pods import AlikePods, Lot
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings

RELEASE = ControllerSettings(kubernetes_version="1.29.6")


def tripled(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Every pod three times: once before it in the order of names, and once after."""
    pods = [
        replace(pod, name=name, uid=f"uid of {name}")
        for pod in snapshot.pods
        for name in (f"0-{pod.name}", pod.name, f"{pod.name}-z")
    ]
    return replace(snapshot, pods=tuple(sorted(pods, key=lambda pod: pod.key)))


def check_that_all_are_told_of(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    known = tripled(world.snapshot), world.scenario, world.configuration
    found = encoded(without_samples(predict(*known)))
    with monkeypatch.context() as each_alone:
        each_alone.setattr(AlikePods, "_find", lambda pods, _: pods._each_alone())
        assert found == encoded(without_samples(predict(*known)))


def without_samples(prediction: Prediction) -> Prediction:
    """How many histories are tried depends on what each costs, and timers that are cancelled have no bounds where not all were."""
    sampled = {
        *prediction.inputs.coverage.outer_bound_nodes,
        *prediction.inputs.coverage.explored_nodes,
    }
    cancelled = tuple(each for each in prediction.cancelled if each.node not in sampled)
    return replace(prediction, cancelled=cancelled)


@pytest.mark.parametrize("seed", [3, 5])
def test_what_is_predicted_of_one_pod_of_a_kind_is_what_each_of_them_gets(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_that_all_are_told_of(draw_world(seed, short=True), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1050))
def test_that_holds_in_every_world(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_that_all_are_told_of(draw_world(seed, down_at_start=seed % 3 == 0), monkeypatch)


def test_pods_of_nodes_that_are_only_tainted_share_their_fate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"n{index}" for index in range(6)]
    pods = [
        pod
        for name in names
        for pod in (
            make_pod(f"a-{name}", name, tolerations=[tolerates("A", 20)]),
            make_pod(f"b-{name}", name, owner="StatefulSet/b", grace_seconds=0),
            make_pod(f"c-{name}", name, tolerations=[tolerates("A"), tolerates("B", 30)]),
        )
    ]
    lists = {pod.tolerations: pod.tolerations for pod in pods}
    pods = [replace(pod, tolerations=lists[pod.tolerations]) for pod in pods]
    snapshot = make_snapshot([make_node(name, zone="a") for name in names], pods)
    scenario = make_scenario(
        [
            make_event(1, "taint", names, taint="A:NoExecute"),
            make_event(5, "taint", names[:2], taint="B:NoExecute"),
            make_event(9, "untaint", names[1:4], taint="A"),
            make_event(2, "cordon", names[3]),
            make_event(3, "kubelet-stop", names[5]),
        ],
        horizon=60,
    )
    world = World(snapshot, scenario, resolve_configuration(RELEASE, snapshot.control_plane))
    check_that_all_are_told_of(world, monkeypatch)
    steady = AlikePods(snapshot, scenario, names[:5])
    of_each = {pod.node_name for pod in steady.snapshot.pods}
    assert of_each == {"n0", "n1", "n2", "n3", "n4", "n5"}
    both = AlikePods(snapshot, make_scenario(scenario.events[:1]), names[:5])
    assert {pod.node_name for pod in both.snapshot.pods} == {"n0", "n5"}


def shown(*pods: dict[str, Any], taints: Iterable[str] = ()) -> list[str]:
    """Names of the pods that are simulated of these, all on one node that is tainted."""
    made = [make_pod(f"p{index}", "a1", **options) for index, options in enumerate(pods)]
    snapshot = make_snapshot([make_node("a1", taints=taints)], made)
    scenario = make_scenario([make_event(1, "taint", "a1", taint="A:NoExecute")])
    return [pod.name for pod in AlikePods(snapshot, scenario).snapshot.pods]


def test_one_of_several_pods_that_are_alike_is_simulated() -> None:
    assert shown({}, {}, {}) == ["p0"]


@pytest.mark.parametrize(
    "different",
    [
        {"tolerations": [tolerates("A", 5)]},
        {"grace_seconds": 0},
        {"finalizers": ["a/b"]},
        {"phase": "Pending"},
        {"ready": "False"},
        {"deleted": -5},
        {"duplicate_env_or_port": True},
        {"owner": "StatefulSet/s"},
    ],
    ids=lambda different: next(iter(different)),
)
def test_a_pod_that_differs_in_what_decides_is_simulated_itself(
    different: dict[str, Any],
) -> None:
    assert shown({}, different, {}) == ["p0", "p1"]


def test_jobs_of_one_name_in_two_namespaces_are_two_where_a_finalizer_waits_for_them() -> None:
    tracked = {"owner": "Job/sums", "finalizers": [JOB_TRACKING]}
    assert shown(tracked, {**tracked, "namespace": "other"}) == ["p0", "p1"]


def test_finished_pods_are_simulated_one_by_one() -> None:
    assert shown({"phase": "Failed"}, {"phase": "Failed"}) == ["p0", "p1"]


def test_timers_that_run_at_the_start_began_with_their_pods() -> None:
    assert shown({"created": -100}, {"created": -50}) == ["p0"]
    assert shown({"created": -100}, {"created": -50}, taints=["B:NoExecute"]) == ["p0", "p1"]


def of_two_nodes() -> AlikePods:
    pods = [
        make_pod("a", "n1"),
        make_pod("b", "n2"),
        make_pod("c", "n1", grace_seconds=0),
        make_pod("d", "n1"),
        make_pod("e", "n2"),
    ]
    snapshot = make_snapshot([make_node("n1"), make_node("n2")], pods)
    return AlikePods(snapshot, make_scenario([make_event(1, "taint", "n1", taint="A:NoExecute")]))


def test_a_lot_is_pods_of_one_node_that_nothing_tells_apart() -> None:
    lots = [(lot.place, lot.pod.name, lot.count) for lot in of_two_nodes().lots]
    assert lots == [(0, "a", 2), (1, "b", 2), (2, "c", 1)]


def test_pods_of_lots_come_in_the_order_of_the_snapshot_and_others_behind_them() -> None:
    alike = of_two_nodes()
    first, second, _ = alike.lots
    new = Lot(-1, make_pod("0", "n1"))
    assert alike.keys_of([new, second, first]) == [f"default/{name}" for name in "abde0"]
    assert [pod.name for pod in alike.pods_of([new, first])] == ["a", "d", "0"]
    assert [pod.name for pod in alike.pods_in(second)] == ["b", "e"]


def test_another_pod_of_the_name_stands_for_itself() -> None:
    alike = of_two_nodes()
    assert [lot.place for lot in alike.lots_of("default/a", "uid-default-a", "n1")] == [0]
    assert alike.lots_of("default/a", "another", "n1") == ()
    assert alike.lots_of("default/a", "uid-default-a", "n2") == ()
    assert alike.lots_of("default/new", "", "n1") == ()
