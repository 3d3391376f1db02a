"""Clusters to which much has happened before somebody looks: what follows lies in the windows that are told then."""

from __future__ import annotations

import random

import pytest
from drawn.begun_worlds import BegunWorld
from drawn.soak_worlds import BEGUN, draw_soak_world, kind_of
from realities.contradictions import contradictions
from realities.wide_worlds import WideWorld

from kubectl_evictplan.prediction.predict import predict

SEEDS = [seed for seed in range(220_000_000, 220_000_060) if kind_of(seed) == BEGUN]


def begun(seed: int) -> BegunWorld:
    world = draw_soak_world(seed).world
    assert isinstance(world, BegunWorld)
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_process_remembers_lies_in_the_windows(seed: int) -> None:
    begun_world = begun(seed)
    world = begun_world.world
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    wide, horizon_ns = WideWorld(world), world.scenario.end_ns
    for number in range(3):
        reality = begun_world.reality(random.Random(number))
        assert list(contradictions(horizon_ns, prediction, reality)) == []
        assert list(wide.contradictions(reality, horizon_ns)) == []


def test_realities_of_one_world_share_their_past_only() -> None:
    # ``reality`` itself proves that each looks like the snapshot when it is taken.
    told = [
        [[(entry.at_ns, type(entry)) for entry in begun(seed).reality(random.Random(n)).entries]]
        for seed in SEEDS
        for n in range(2)
    ]
    assert any(first != second for first, second in zip(told[::2], told[1::2], strict=True))
