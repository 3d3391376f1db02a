"""Wide bounds hold: what any reality does lies within them, whatever happens in its world."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from realities import World, draw_reality
from soak_worlds import CLASSES, draw_soak_world, kind_of
from wide_worlds import WideWorld

from builders import (
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_pod,
    make_scenario,
    make_snapshot,
)
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import Pod, Toleration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent


def worlds(seeds: range) -> Iterator[tuple[int, World]]:
    for seed in seeds:
        if kind_of(seed) in CLASSES:
            world = draw_soak_world(seed).world
            assert isinstance(world, World)
            yield seed, world


def check_worlds(seeds: range, realities: int) -> None:
    for seed, world in worlds(seeds):
        wide = WideWorld(world)
        for number in range(realities):
            reality = draw_reality(world, random.Random(f"reality {seed} {number}"))
            wrong = list(wide.contradictions(reality, world.scenario.end_ns))
            assert not wrong, (seed, number, wrong)


def test_every_reality_keeps_to_the_wide_bounds() -> None:
    check_worlds(range(40), 2)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_every_reality_of_many_worlds_keeps_to_the_wide_bounds(block: int) -> None:
    check_worlds(range(1000 + block * 400, 1400 + block * 400), 8)


# Whose exploration is not complete: kubelets that return, processes that start within a window, flapping.
SAMPLED = (1066, 1072, 1082, 1131)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SAMPLED)
def test_what_was_not_wholly_explored_is_told_as_an_outer_bound(seed: int) -> None:
    world = draw_soak_world(seed).world
    assert isinstance(world, World)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    coverage = prediction.inputs.coverage
    assert coverage.outer_bound > 0
    assert coverage.explored == 0
    wide = WideWorld(world)
    for eviction in prediction.evictions:
        spans = [each.span for each in wide.possible[eviction.key]]
        earliest_ns = min(low_ns for low_ns, _ in spans)
        assert eviction.earliest_seconds >= earliest_ns / 1e9 - 0.001


def test_what_no_run_showed_takes_no_place_of_what_one_did() -> None:
    # In no run is n2 tainted in its first wait: what runs show is its second taint, beside which another may come before.
    world = draw_soak_world(6200491).world
    assert isinstance(world, World)
    predicted = predict(world.snapshot, world.scenario, world.configuration)
    [node] = (each for each in predicted.nodes if each.node == "n2")
    windows = [
        (each.earliest_seconds, each.latest_seconds)
        for each in node.changes
        if each.value == f"{UNREACHABLE}:NoExecute" and each.what == "taint-added"
    ]
    assert len(windows) == 2
    # A tick that finds the node silent once more at 170.2 s has it tainted five seconds later.
    assert windows[0][1] < 110
    assert windows[1][0] <= 175.2 <= windows[1][1]


def test_a_taint_that_no_run_showed_taken_off_is_told_where_not_everything_was_tried() -> None:
    world = draw_soak_world(40001051).world
    assert isinstance(world, World)
    predicted = predict(world.snapshot, world.scenario, world.configuration)
    evicting = f"{UNREACHABLE}:NoExecute"
    removed = {
        node.node: [each.certainty for each in node.changes if each.what == "taint-removed"]
        for node in predicted.nodes
        if any(each.value == evicting for each in node.changes)
    }
    assert predicted.inputs.coverage.outer_bound_nodes
    assert removed and all(set(found) == {"possible"} for found in removed.values())


def surely_deleted(pod: Pod, *events: ScenarioEvent, release: str = "1.29.6") -> dict[str, int]:
    """Until when wide bounds have the pod surely deleted, in a zone of twelve nodes."""
    snapshot = make_snapshot([f"n{number}" for number in range(12)], [pod])
    settings = ControllerSettings(kubernetes_version=release)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    world = World(snapshot, make_scenario([*events], horizon=900), configuration)
    return {name: by_ns // 10**9 for name, by_ns in WideWorld(world).certain_by_ns.items()}


def test_a_taint_stands_until_one_of_its_key_and_effect_takes_its_place() -> None:
    tolerations = [Toleration("A", "Equal", "x", "NoExecute", 20), Toleration("A", "Equal", "y")]
    pod = make_pod("p", "n0", tolerations=tolerations)
    placed = make_event(150, "taint", "n0", taint="A=x:NoExecute")
    assert surely_deleted(pod, placed) == {pod.key: 170}
    for at in (150, 160):
        replaced = make_event(at, "taint", "n0", taint="A=y:NoExecute")
        assert surely_deleted(pod, placed, replaced) == {}
    # Of another effect it stands beside it; removed at the same instant it never stood.
    assert surely_deleted(pod, placed, make_event(160, "taint", "n0", taint="A=y:NoSchedule"))
    assert surely_deleted(pod, placed, make_event(150, "untaint", "n0", taint="A")) == {}


@pytest.mark.parametrize("release", ["1.16.15", "1.18.6", "1.29.6"])
def test_up_to_1_18_no_bound_has_a_taint_come_back_that_somebody_took_off(release: str) -> None:
    pod = make_pod("p", "n0", tolerations=default_tolerations(60))
    events = [
        make_event(1, "kubelet-stop", "n0"),
        make_event(80, "untaint", "n0", taint=f"{UNREACHABLE}:NoExecute"),
        # Whatever else changes in the zone afterwards.
        make_event(120, "kubelet-stop", ["n1", "n2"]),
    ]
    found = surely_deleted(pod, *events, release=release)
    assert set(found) == ({pod.key} if release == "1.29.6" else set())
    assert set(surely_deleted(pod, events[0], release=release)) == {pod.key}
