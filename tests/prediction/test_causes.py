"""What holds of every prediction: chains of causes, and the ends of deleted pods, contradict nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from realities.drawn_realities import ACTIONS, World, draw_world

from kubectl_evictplan.cluster.timeline import (
    AboutNode,
    AboutPod,
    PodGone,
)
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.pod_ends import Stuck
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.simulated_cluster import EventApplied
from kubectl_evictplan.simulation.simulate import simulate

# (seed, whether nodes are silent at the start): each broke one of the rules below, and is quick.
SEEDS = [
    (2, 0),
    (2, 1),
    (4, 0),
    (5, 0),
    (12, 0),
    (14, 1),
    (15, 0),
    (20, 0),
    (26, 1),
    (38, 1),
    (45, 1),
]
MANY = [(seed, down) for seed in range(100, 140) for down in (0, 1)]


@pytest.fixture(
    scope="module", params=[*SEEDS, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)]
)
def world(request: pytest.FixtureRequest) -> World:
    seed, down = request.param
    return draw_world(seed, actions=ACTIONS, short=True, down_at_start=bool(down))


@pytest.fixture(scope="module")
def prediction(world: World) -> Prediction:
    return predict(world.snapshot, world.scenario, world.configuration)


def test_an_eviction_happens_at_the_last_link_of_its_chain(prediction: Prediction) -> None:
    for eviction in prediction.evictions:
        assert eviction.because[-1].offset_seconds == eviction.offset_seconds, eviction
        assert eviction.earliest_seconds <= eviction.offset_seconds <= eviction.latest_seconds


def test_no_link_lies_before_its_cause(prediction: Prediction) -> None:
    for row in (*prediction.evictions, *prediction.kept):
        offsets = [link.offset_seconds or 0.0 for link in row.because]
        assert all(before <= after for before, after in pairwise(offsets)), row.because


def test_an_object_ends_no_earlier_than_it_is_deleted(prediction: Prediction) -> None:
    for eviction in prediction.evictions:
        gone = eviction.gone
        assert (gone.latest_seconds is None) == (gone.stuck is not None)
        assert gone.earliest_seconds is None or gone.earliest_seconds >= eviction.earliest_seconds
        assert gone.latest_seconds is None or gone.latest_seconds >= eviction.latest_seconds


def test_a_forced_deletion_is_the_end_of_the_object(prediction: Prediction) -> None:
    for eviction in prediction.evictions:
        if eviction.controller == "pod-gc":
            window = eviction.earliest_seconds, eviction.latest_seconds
            assert (eviction.gone.earliest_seconds, eviction.gone.latest_seconds) == window


@pytest.mark.parametrize(("seed", "down"), [(35, 0), (18, 1), (36, 1), (41, 1)])
def test_a_cancelled_timer_was_started_before(seed: int, down: int) -> None:
    world = draw_world(seed, actions=ACTIONS, short=True, down_at_start=bool(down))
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    assert prediction.cancelled
    for timer in prediction.cancelled:
        started, cancelled = timer.started, timer.cancelled
        assert started.earliest_seconds is not None
        assert cancelled.earliest_seconds is not None
        assert started.earliest_seconds <= cancelled.earliest_seconds


def test_whoever_is_named_stuck_on_a_silent_node_has_a_row_that_says_so(
    prediction: Prediction,
) -> None:
    named = {
        name
        for warning in prediction.warnings
        if warning.code == "unreachable-stuck-terminating"
        for name in warning.objects
    }
    rows = [e for e in prediction.evictions if e.gone.stuck == Stuck.KUBELET_SILENT.value]
    assert named == {f"{row.namespace}/{row.pod}" for row in rows}


def test_the_end_of_a_pod_is_caused_by_its_deletion_or_its_kubelet(world: World) -> None:
    entries = simulate(world.snapshot, world.scenario, world.configuration).entries
    for entry in entries:
        for cause in (entries[index] for index in entry.because):
            assert cause.at_ns <= entry.at_ns
            if isinstance(entry, PodGone):
                pod = cause.pod if isinstance(cause, AboutPod | EventApplied) else ""
                node = cause.node if isinstance(cause, AboutNode) else ""
                assert pod == entry.pod or node == entry.node
