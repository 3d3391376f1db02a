"""Where exploration was partial and nothing is proven: what was tried is a sample, and told as one."""

from __future__ import annotations

import random

import pytest
from building.builders import make_node, ns
from drawn.drain_worlds import DrainedWorld
from drawn.soak_worlds import draw_soak_world
from realities.contradictions import (
    contradictions,
    node_contradictions,
    told_before_start,
    zone_contradictions,
)
from realities.drawn_realities import World, draw_reality

from kubectl_evictplan.cluster.timeline import (
    TAINT_EVICTION,
    NodeBecameUnknown,
    PodDeleted,
    RunEntries,
    Timeline,
)
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE
from kubectl_evictplan.prediction.nodes import node_reports
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.explored import join_samples
from kubectl_evictplan.windows.gathered import Gathered, Slot
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    EvictionKey,
    Exploration,
    NodeChangeKey,
    PossibleEviction,
)

REALITIES = 6
# Pod eviction timeouts with nodes that return and others that wait; a start within a window while taints come and go.
SEEDS = (900024, 900039)


def test_a_window_of_samples_is_one_stretch_longer_by_a_tick_and_never_certain() -> None:
    result = Exploration()
    key = EvictionKey("default/p", "uid", "node-lifecycle", 0)
    found = PossibleEviction(
        (ns_spans((12.1, 12.1), (28.5, 28.6))), True, "n1", None, None, None, missed=frozenset("u")
    )
    result.evictions[key] = found
    proven = result.evictions[key._replace(uid="proven")] = found._replace(proven=True)
    exact = result.evictions[key._replace(uid="exact")] = found._replace(missed=frozenset())
    join_samples(result, ns(2), ns(30))
    assert result.evictions[key].spans == ns_spans((10.1, 30))
    assert not result.evictions[key].certain
    assert result.evictions[key._replace(uid="proven")] == proven
    assert result.evictions[key._replace(uid="exact")] == exact


def test_a_sampled_end_of_silence_is_widened_by_what_ticks_can_cost_until_then() -> None:
    result = Exploration()
    silent = NodeChangeKey("n1", READY, "Unknown")
    result.nodes.add((silent, 0), ns(11), ns(12), certain=True, runs=1, explored=True)
    join_samples(result, ns(1), ns(30), drift_ns=ns(0.08))
    window = result.nodes.windows[silent, 0]
    assert (window.earliest_ns, window.latest_ns, window.unsure) == (ns(10.92), ns(12.08), True)


def test_what_the_nominal_run_shows_more_often_than_any_window_is_possible_once_more() -> None:
    result = Exploration()
    result.runs = 1
    silent = NodeChangeKey("n1", READY, "Unknown")
    result.nodes.add((silent, 0), ns(11), ns(22), certain=True, runs=1)
    nominal = Timeline(0, entries=[NodeBecameUnknown(ns(at), (), "n1", 0) for at in (12, 20)])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    given = RunEntries(nominal), result, {"n1": make_node("n1")}, configuration
    [report] = node_reports(*given)
    told = [
        (one.certainty, one.earliest_seconds, one.offset_seconds, one.latest_seconds)
        for one in report.changes
    ]
    assert told == [(CERTAIN, 11, 12, 22), (POSSIBLE, 11, 20, 22)]


def test_what_happens_at_the_start_in_every_sample_is_exact_and_certain() -> None:
    gathered = Gathered(ns(30), ns(5), missed={"phase of the node monitor"})
    for piece in (0, 1):
        deleted = [
            PodDeleted(at_ns, (), f"default/{name}", name, "n0", TAINT_EVICTION)
            for name, at_ns in (("first", 0), ("later", ns(10)))
        ]
        gathered.add(Slot(piece, (), left_out_ns=ns(1)), Timeline(0, entries=[*deleted]))
    result = Exploration()
    gathered.store(result)
    join_samples(result, ns(2), ns(30))
    found = {key.uid: (each.spans, each.certain) for key, each in result.evictions.items()}
    assert found == {"first": (((0, 0),), True), "later": (((ns(7), ns(13)),), False)}


def test_changes_of_a_node_that_are_samples_leave_no_gap_between_them() -> None:
    result = Exploration()
    tainted = NodeChangeKey("n1", TAINT_ADDED, "node.kubernetes.io/unreachable:NoExecute")
    for ordinal, at in enumerate((11.4, 23.5)):
        at_ns = ns(at)
        result.nodes.add((tainted, ordinal), at_ns, at_ns, certain=True, runs=1, explored=True)
    exact = NodeChangeKey("n1", READY, "True")
    result.nodes.add((exact, 0), ns(3), ns(3), certain=True, runs=1)
    join_samples(result, ns(1), ns(30))
    first, second = (result.nodes.windows[tainted, ordinal] for ordinal in (0, 1))
    assert (first.earliest_ns, first.latest_ns) == (ns(10.4), ns(24.5))
    assert (second.earliest_ns, second.latest_ns) == (ns(22.5), ns(24.5))
    assert first.unsure and second.unsure
    known = result.nodes.windows[exact, 0]
    assert (known.earliest_ns, known.latest_ns, known.unsure) == (ns(3), ns(3), False)


@pytest.mark.parametrize("seed", [290_100_351, 290_100_377, 20_000_201_128])
def test_what_a_tick_before_the_start_left_in_line_comes_after_the_start(seed: int) -> None:
    _, world = draw_soak_world(seed)
    assert isinstance(world, World)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    assert list(told_before_start(prediction)) == []
    waited = [
        each for node in prediction.nodes for each in node.changes if each.what == TAINT_ADDED
    ]
    assert any(each.earliest_seconds == 0 and each.certainty == "possible" for each in waited)


def ns_spans(*spans: tuple[float, float]) -> tuple[tuple[int, int], ...]:
    return tuple((ns(low), ns(high)) for low, high in spans)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_windows_of_worlds_that_are_only_sampled_are_outer_bounds_and_hold(seed: int) -> None:
    _, world = draw_soak_world(seed)
    assert not isinstance(world, DrainedWorld)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    coverage = prediction.inputs.coverage
    assert (coverage.outer_bound, coverage.explored) == (len(prediction.evictions), 0)
    wrong = []
    for number in range(REALITIES):
        reality = draw_reality(world, random.Random(f"explored {number}"))
        wrong += contradictions(world.scenario.horizon_ns, prediction, reality)
        wrong += node_contradictions(prediction, reality, world.scenario.horizon_ns)
        wrong += zone_contradictions(prediction, reality, world.scenario.horizon_ns)
    assert not wrong
