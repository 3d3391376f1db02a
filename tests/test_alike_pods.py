"""Pods that differ in nothing but their names: one of each kind is simulated, and all are told of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from realities import World, draw_world

from builders import make_event, make_node, make_pod, make_scenario, make_snapshot, tolerates
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.alike_pods import AlikePods
from kubectl_evictplan.prediction.predict import predict


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
    found = predict(*known)
    with monkeypatch.context() as each_alone:
        each_alone.setattr(AlikePods, "_find", lambda *_: None)
        assert msgspec.json.encode(found) == msgspec.json.encode(predict(*known))


@pytest.mark.parametrize("seed", [3, 5])
def test_what_is_predicted_of_one_pod_of_a_kind_is_what_each_of_them_gets(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_that_all_are_told_of(draw_world(seed, short=True), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1150))
def test_that_holds_in_every_world(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_that_all_are_told_of(draw_world(seed, down_at_start=seed % 3 == 0), monkeypatch)


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


def test_finished_pods_are_simulated_one_by_one() -> None:
    assert shown({"phase": "Failed"}, {"phase": "Failed"}) == ["p0", "p1"]


def test_timers_that_run_at_the_start_began_with_their_pods() -> None:
    assert shown({"created": -100}, {"created": -50}) == ["p0"]
    assert shown({"created": -100}, {"created": -50}, taints=["B:NoExecute"]) == ["p0", "p1"]
