"""One budget for a whole prediction: what is not tried for want of it is said, and bounded."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from drawn.drain_worlds import DrainedWorld
from drawn.soak_worlds import draw_soak_world
from realities.contradictions import contradictions, node_contradictions, zone_contradictions
from realities.drawn_realities import World, draw_reality

from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows import exploration
from kubectl_evictplan.windows.budget import UNITS, Budget, node_runs_max, spread
from kubectl_evictplan.windows.piece_runs import PieceRun

# Taints that a run of the start exchanges at once and others later (1.24), delays that differ from run to run (1.19), kubelets
# that return.
SEEDS = (71500085, 71000147, 71000033)
# Processes that begin within a window while nodes come and go.
EXPENSIVE = (290100269, 290300013)
# Lines need more than half of what it takes, and pods little.
FEW_UNITS = 3254


def predicted_with(
    budget: Budget, seed: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[World, Prediction]:
    _, world = draw_soak_world(seed)
    assert not isinstance(world, DrainedWorld)
    monkeypatch.setattr(exploration, "Budget", lambda _: budget)
    return world, predict(world.snapshot, world.scenario, world.configuration)


def test_the_first_half_is_for_whoever_asks_and_the_rest_is_shared_evenly() -> None:
    whole = Budget(100)
    assert whole.part(10).left == 50
    whole.spend(20)
    assert whole.part(10).left == 30
    whole.spend(40)
    assert whole.part(10).left == 4
    whole.spend(50)
    assert whole.part(10).left == 0
    assert whole.is_spent


def test_what_a_part_spends_is_spent_of_the_whole() -> None:
    whole = Budget(100)
    whole.part(2).part(3).spend(7)
    assert whole.left == 93


def test_every_beginning_of_what_is_tried_has_some_from_everywhere() -> None:
    for number in range(1, 60):
        assert sorted(spread(range(number))) == list(range(number))
    first = sorted(list(spread(range(100)))[:10])
    assert max(after - before for before, after in pairwise(first)) < 25


@pytest.mark.parametrize("seed", SEEDS)
def test_without_any_budget_bounds_hold_and_nothing_is_called_exact(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, prediction = predicted_with(Budget(0), seed, monkeypatch)
    coverage, horizon_ns = prediction.inputs.coverage, world.scenario.horizon_ns
    assert coverage is not None
    assert not coverage.exact and not coverage.explored
    for number in range(2):
        reality = draw_reality(world, random.Random(f"budget {number}"))
        assert not list(contradictions(horizon_ns, prediction, reality))
        assert not list(node_contradictions(prediction, reality, horizon_ns))
        assert not list(zone_contradictions(prediction, reality, horizon_ns))


def test_lines_that_got_too_little_get_what_is_not_needed_elsewhere_before_pods_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enough = Budget()
    predicted_with(enough, FEW_UNITS, monkeypatch)
    # At first each half of it is for lines and for pods.
    tight = Budget((UNITS - enough.left) * 4 // 3)
    _, prediction = predicted_with(tight, FEW_UNITS, monkeypatch)
    coverage = prediction.inputs.coverage
    assert coverage is not None
    assert coverage.exact and not coverage.outer_bound


def test_where_few_nodes_take_part_more_node_runs_are_planned() -> None:
    assert node_runs_max(100, 24) > node_runs_max(100, 25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", EXPENSIVE)
def test_a_prediction_takes_little_more_than_its_budget(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = 100_000  # both worlds would take more
    budget = Budget(units)
    predicted_with(budget, seed, monkeypatch)
    # What is given up because it does not fit takes less.
    assert -units // 20 < budget.left < units // 8


@pytest.mark.slow
def test_lines_of_which_half_of_their_budget_shows_few_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    explored_lines, left = exploration._explored_lines, list[int]()

    def noted(*given: Any) -> list[PieceRun]:
        runs = explored_lines(*given)
        left.append(given[5].left)
        return runs

    monkeypatch.setattr(exploration, "_explored_lines", noted)
    for least in (exploration._DONE_WITH_HALF, 0):
        monkeypatch.setattr(exploration, "_DONE_WITH_HALF", least)
        predicted_with(Budget(100_000), EXPENSIVE[1], monkeypatch)
    given_up, tried_on = left
    assert given_up > tried_on
