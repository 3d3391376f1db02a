"""What is said of how completely the unknowns were explored, and bounds that hold where it was not completely."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
from building.builders import (
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from msgspec.structs import replace
from realities.drawn_realities import SILENCE_ONLY, World, draw_reality, draw_world
from realities.test_bounds import check_world, contradictions

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.controllers.node_lifecycle.zone_states import PARTIAL
from kubectl_evictplan.prediction.document import CERTAIN, PARTLY, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.outer_bounds import OuterBounds
from kubectl_evictplan.windows.unknowns import registry
from kubectl_evictplan.windows.unknowns.unknown import Unknown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "windows.md"


def silent_world(
    nodes: int,
    *,
    others: int = 6,
    at: float = 31.7,
    horizon: float = 900,
    more: tuple[ScenarioEvent, ...] = (),
    flags: dict[str, str] | None = None,
) -> World:
    """``nodes`` of one zone fall silent half a minute after the snapshot, each with a pod; the others live on."""
    names = [f"n{index:02}" for index in range(nodes)]
    healthy = [f"h{index:02}" for index in range(others)]
    snapshot = make_snapshot(
        [make_node(name, zone="a") for name in (*names, *healthy)],
        [make_pod(f"p-{name}", name) for name in names],
        leases=[make_lease(name, -1 - index / 7) for index, name in enumerate((*names, *healthy))],
    )
    stop = make_event(at, "kubelet-stop", names)
    settings = ControllerSettings("1.29.6", flags=flags or {})
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return World(snapshot, make_scenario([stop, *more], horizon=horizon), configuration)


@cache
def many_silent() -> tuple[World, Prediction]:
    """More unknown heartbeats than are tried one by one."""
    world = silent_world(16, others=14)
    return world, predicted(world)


def predicted(world: World) -> Prediction:
    return predict(world.snapshot, world.scenario, world.configuration)


def partly(prediction: Prediction) -> set[str]:
    assert prediction.inputs.coverage is not None
    return {each.name for each in prediction.inputs.coverage.unknowns if each.explored == PARTLY}


def test_every_unknown_is_registered_and_stands_in_the_page_on_windows() -> None:
    declared = {
        each
        for each in Unknown.__subclasses__()
        if each.__module__.startswith("kubectl_evictplan.windows.unknowns.")
    }
    assert declared == set(registry.UNKNOWNS)
    text = PAGE.read_text("utf-8")
    assert [each.__name__ for each in registry.UNKNOWNS if f"`{each.__name__}`" not in text] == []
    assert len({each.name for each in registry.UNKNOWNS}) == len(registry.UNKNOWNS)


def test_a_node_that_fails_alone_has_exact_windows() -> None:
    prediction = predicted(silent_world(1))
    coverage = prediction.inputs.coverage
    assert coverage is not None
    assert (coverage.exact, coverage.outer_bound, coverage.explored) == (1, 0, 0)
    assert not partly(prediction)


def test_many_unknown_heartbeats_have_outer_bounds_that_say_what_was_not_tried() -> None:
    _, prediction = many_silent()
    coverage = prediction.inputs.coverage
    assert coverage is not None
    assert (coverage.exact, coverage.outer_bound, coverage.explored) == (0, 16, 0)
    assert coverage.outer_bound_nodes == tuple(f"n{index:02}" for index in range(16))
    assert "last heartbeats" in partly(prediction)
    assert {eviction.certainty for eviction in prediction.evictions} == {"certain"}


def test_a_few_unknown_heartbeats_are_all_tried() -> None:
    coverage = predicted(silent_world(4)).inputs.coverage
    assert coverage is not None
    assert (coverage.exact, coverage.outer_bound, coverage.explored) == (4, 0, 0)


def test_outer_bounds_hold_and_what_they_call_certain_happens() -> None:
    world, prediction = many_silent()
    for seed in range(4):
        assert not list(
            contradictions(
                world.scenario.end_ns, prediction, draw_reality(world, random.Random(seed))
            )
        )


def test_a_pod_on_its_way_out_takes_no_proof_from_the_others_of_its_node() -> None:
    world = silent_world(16, others=14)
    ending = make_pod("ending", "n00", grace_seconds=3000, deleted=-1)
    pods = (*world.snapshot.pods, ending)
    world = World(replace(world.snapshot, pods=pods), world.scenario, world.configuration)
    prediction = predicted(world)
    assert prediction.inputs.coverage is not None
    assert prediction.inputs.coverage.explored == 0
    told = {each.pod: each for each in prediction.evictions}
    assert (told["p-n00"].certainty, told["ending"].certainty) == ("certain", "possible")
    assert told["ending"].windows == told["p-n00"].windows
    assert not list(
        contradictions(world.scenario.end_ns, prediction, draw_reality(world, random.Random(1)))
    )


def test_nothing_is_proven_certain_where_the_zone_may_stop_tainting() -> None:
    # 16 of 20 are at least 55 %: a small zone taints nobody then.
    prediction = predicted(silent_world(16, others=4, flags={"kube-api-qps": "-1"}))
    assert prediction.inputs.coverage is not None
    assert prediction.inputs.coverage.outer_bound == 16
    assert {eviction.certainty for eviction in prediction.evictions} == {"possible"}
    # And whoever is tainted is tainted before the tick is through that stops it.
    stopped = [
        state for zone in prediction.zones for state in zone.states if state.state == PARTIAL
    ]
    assert max(e.latest_seconds for e in prediction.evictions) <= stopped[0].latest_seconds


@pytest.mark.slow
@pytest.mark.usefixtures("unlimited")
def test_who_is_surely_tainted_before_one_node_comes_back_is_certain() -> None:
    back = make_event(300, "kubelet-start", ["n05"])
    prediction = predicted(silent_world(16, others=14, more=(back,)))
    coverage = prediction.inputs.coverage
    assert coverage is not None
    assert (coverage.exact, coverage.outer_bound, coverage.explored) == (0, 16, 0)
    assert {eviction.certainty for eviction in prediction.evictions} == {"certain"}
    assert max(eviction.latest_seconds for eviction in prediction.evictions) < 300


@pytest.mark.usefixtures("unlimited")
def test_every_exact_window_lies_within_what_is_proven() -> None:
    enclosed(range(2), "1.29.6")


@pytest.mark.slow
@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize("release", ["1.18.6", "1.20.4", "1.23.13", "1.29.6", "1.35.0"])
def test_all_exact_windows_lie_within_what_is_proven(release: str) -> None:
    enclosed(range(1000, 1060), release)


def enclosed(seeds: range, release: str) -> None:
    for seed in seeds:
        world = draw_world(seed, actions=SILENCE_ONLY, releases=(release,))
        bounds = OuterBounds(world.snapshot, world.scenario, world.configuration)
        prediction = predicted(world)
        assert bounds.nodes
        assert prediction.inputs.coverage is not None
        not_exact = prediction.inputs.coverage.explored_nodes
        for report in prediction.nodes:
            for change in report.changes:
                proven = bounds.nodes.get(report.node)
                if proven is None or (change.what, change.value) != ("ready", "Unknown"):
                    continue
                low_ns, high_ns = proven.unknown
                assert low_ns / 1e9 - 1e-5 <= change.earliest_seconds, (seed, report.node)
                assert change.latest_seconds <= high_ns / 1e9 + 1e-5, (seed, report.node)
        for eviction in prediction.evictions:
            proven = bounds.nodes.get(eviction.node)
            if eviction.node in not_exact:
                continue
            if proven is not None and eviction.controller == "taint-eviction":
                assert proven.served[0] / 1e9 - 1e-5 <= eviction.earliest_seconds, (
                    seed,
                    eviction.pod,
                )


def test_who_only_falls_silent_is_given_up_once_where_lines_were_cut_short() -> None:
    world = draw_world(1007, actions=SILENCE_ONLY, releases=("1.20.4",))
    prediction = predicted(world)
    assert prediction.inputs.coverage.outer_bound
    for report in prediction.nodes:
        [given_up] = (each for each in report.changes if each.what == "ready")
        assert (given_up.value, given_up.certainty) == ("Unknown", CERTAIN)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.18.6", "1.20.4", "1.29.6", "1.35.0"])
def test_worlds_with_many_unknown_heartbeats_keep_their_word(release: str) -> None:
    for seed in range(2000, 2040):
        world = draw_world(seed, actions=SILENCE_ONLY, releases=(release,))
        if partly(predicted(world)):
            check_world(world, seed, 25)
