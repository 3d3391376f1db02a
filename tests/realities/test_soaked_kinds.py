"""Kinds of worlds that soaking draws besides scripts of events: realities of some lie in the windows told of them."""

from __future__ import annotations

import random
from itertools import count, islice

import pytest
from drawn.drain_worlds import DrainedWorld
from drawn.outage_worlds import OutageWorld
from drawn.soak_worlds import (
    HURRIED,
    MIXED_DRAINS,
    ODD_OBJECTS,
    OUTAGES,
    STRANGE,
    draw_soak_world,
    kind_of,
    ready_of,
)
from drawn.strange_worlds import StrangeWorld
from realities.contradictions import contradictions, node_contradictions
from realities.drawn_drains import contradictions as drain_contradictions
from realities.drawn_drains import mixed_reality
from realities.drawn_realities import World, draw_reality, draw_timing

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.actions.processes import StartManager


@pytest.mark.parametrize("seed", [1_000_000_011, 1_000_000_042, 1_000_000_061])
def test_odd_objects_do_what_is_told_of_them(seed: int) -> None:
    kind, world = draw_soak_world(seed)
    assert kind == ODD_OBJECTS
    assert isinstance(world, World)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    for number in range(3):
        reality = draw_reality(world, random.Random(number), free=True)
        assert list(contradictions(world.scenario.end_ns, prediction, reality)) == []


def test_what_happens_in_the_first_seconds_is_told_beside_what_nobody_sees_of_before() -> None:
    kind, world = draw_soak_world(200_000_000_468)
    assert kind == HURRIED
    assert isinstance(world, World)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    for number in range(40):
        reality = draw_reality(world, random.Random(number), free=True)
        assert list(contradictions(world.scenario.end_ns, prediction, reality)) == []
        assert list(node_contradictions(prediction, reality)) == []


def outages() -> list[int]:
    return list(islice((seed for seed in count(1_100_000_000) if kind_of(seed) == OUTAGES), 40))


def test_who_leads_next_does_so_in_the_window_of_the_outage() -> None:
    for seed in outages():
        world = draw_soak_world(seed).world
        assert isinstance(world, OutageWorld)
        told = [e for e in world.world.scenario.events if isinstance(e, StartManager)]
        for number in range(20):
            events = world.happens(random.Random(f"{seed} {number}"))
            starts_ns = [each.at_ns for each in events if isinstance(each, StartManager)]
            spans = zip(told, starts_ns, strict=True)
            assert all(event.at_ns <= at_ns <= event.latest_ns for event, at_ns in spans)


@pytest.mark.parametrize("seed", outages()[:3])
def test_outages_go_as_told_whoever_leads_and_whenever_kubelets_are_heard(seed: int) -> None:
    world = draw_soak_world(seed).world
    assert isinstance(world, OutageWorld)
    check_realities(world, 3)


def check_realities(world: OutageWorld | StrangeWorld, realities: int) -> None:
    """What happens to pods and nodes is what was told of the world."""
    plain = world.world
    prediction = predict(plain.snapshot, plain.scenario, plain.configuration)
    for number in range(realities):
        reality = world.reality(random.Random(number), draw_timing, free=True)
        assert list(contradictions(plain.scenario.end_ns, prediction, reality)) == []
        assert list(node_contradictions(prediction, reality, plain.scenario.end_ns)) == []


@pytest.mark.parametrize("seed", [1_200_000_008, 1_200_000_014])
def test_no_promise_of_drains_is_broken_by_what_else_happens(seed: int) -> None:
    kind, world = draw_soak_world(seed)
    assert kind == MIXED_DRAINS
    assert isinstance(world, DrainedWorld)
    prediction = predict(*world, assume_ready=ready_of(seed))
    times = ReadyTimes(*ready_of(seed))
    for number in range(3):
        run = mixed_reality(world, random.Random(number), times)
        assert drain_contradictions(run, prediction, world.scenario) == []


# Of clocks that are ahead, and of Leases that were never renewed.
@pytest.mark.parametrize("seed", [10_000_000_087, 10_000_000_373, 10_000_000_407])
def test_strange_clusters_do_what_is_told_of_them(seed: int) -> None:
    kind, world = draw_soak_world(seed)
    assert kind == STRANGE
    assert isinstance(world, StrangeWorld)
    check_realities(world, 4)
