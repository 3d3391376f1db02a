"""Where node runs cannot stand for all that there are a few of them are samples, and bounds tell the rest, whatever the samples show."""

from __future__ import annotations

import random
from typing import NoReturn

import pytest
from drawn.drain_worlds import DrainedWorld
from drawn.outage_worlds import OutageWorld
from drawn.soak_worlds import draw_soak_world
from realities.contradictions import contradictions, node_contradictions, zone_contradictions
from realities.drawn_realities import World, draw_reality

from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows import exploration
from kubectl_evictplan.windows.budget import SAMPLED_PIECES_MAX, UNITS, Budget
from kubectl_evictplan.windows.unknowns import met_ticks, of_node_runs

# Kubelets that come back in windows, and fall silent again; nodes that come and go beside a process that starts in a window.
SEEDS = (290101411, 290101502, 290101923, 290102448)
# Two of four nodes of zone b are ready perhaps, perhaps one, perhaps none.
ZONES_UNSURE = 290101147
# Pods that do not tolerate a taint that is there at the start.
AT_ONCE = 290101303
# The token of the start changes more in its lines than is told apart.
LINES_MISSED = 290100455


def world_of(seed: int) -> World:
    _, world = draw_soak_world(seed)
    assert not isinstance(world, DrainedWorld)
    return world.world if isinstance(world, OutageWorld) else world


def predicted(world: World) -> Prediction:
    return predict(world.snapshot, world.scenario, world.configuration)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_hold_however_few_pieces_are_tried(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_node_runs, "SAMPLED_PIECES_MAX", 1)
    world = world_of(seed)
    prediction, horizon_ns = predicted(world), world.scenario.horizon_ns
    for number in range(4):
        reality = draw_reality(world, random.Random(f"sampled {number}"))
        assert not list(contradictions(horizon_ns, prediction, reality))
        assert not list(node_contradictions(prediction, reality, horizon_ns))
        assert not list(zone_contradictions(prediction, reality, horizon_ns))


@pytest.mark.parametrize("seed", SEEDS[1:2])
def test_more_samples_tell_nothing_surer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(seed)
    few = predicted(world)
    monkeypatch.setattr(of_node_runs, "SAMPLED_PIECES_MAX", 3 * SAMPLED_PIECES_MAX)
    many = predicted(world)
    told = [
        {(e.pod, e.uid, e.controller): (e.certainty, e.windows) for e in each.evictions}
        for each in (few, many)
    ]
    assert told[0] == told[1]


def test_a_state_of_a_zone_that_no_sample_shows_is_told() -> None:
    prediction = predicted(world_of(ZONES_UNSURE))
    [zone] = [each for each in prediction.zones if each.zone == "/b"]
    windows = [(s.earliest_seconds, s.latest_seconds) for s in zone.states[1:]]
    partial = [s for s in zone.states[1:] if s.state == "PartialDisruption"]
    assert any(s.earliest_seconds < 10.65 < s.latest_seconds for s in partial), windows
    assert all(s.certainty == "possible" and s.not_ready > 2 for s in partial)


def test_what_happens_at_the_start_itself_is_certain_however_little_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_node_runs, "SAMPLED_PIECES_MAX", 1)
    prediction = predicted(world_of(AT_ONCE))
    coverage = prediction.inputs.coverage
    assert coverage is not None
    assert coverage.exact == 2 and not coverage.outer_bound
    assert {(e.certainty, e.latest_seconds) for e in prediction.evictions} == {("certain", 0.0)}


def test_no_tick_is_held_elsewhere_between_the_ends_of_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Asked:
        def __init__(self, *_: object, **__: object) -> NoReturn:
            raise AssertionError("between the ends of a sample there may be anything")

    monkeypatch.setattr(met_ticks, "MetTicks", Asked)
    coverage = predicted(world_of(SEEDS[0])).inputs.coverage
    assert coverage is not None
    assert coverage.outer_bound


def test_what_bounds_tell_anyhow_takes_little_of_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget = Budget()
    monkeypatch.setattr(exploration, "Budget", lambda _: budget)
    coverage = predicted(world_of(LINES_MISSED)).inputs.coverage
    assert coverage is not None
    assert coverage.outer_bound
    assert UNITS - budget.left < UNITS // 50
