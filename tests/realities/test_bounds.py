"""Windows are sound and tight: every admissible reality lies inside, and comes close to their ends.

The strongest test of the predictor: for generated worlds ``predict`` gives windows, then concrete
runs with everything unknown drawn at random (``realities``) must agree with every word of it.
"""

from __future__ import annotations

import random

import pytest
from building.builders import (
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from msgspec.structs import replace
from realities.contradictions import (
    contradictions,
    end_contradictions,
    joint_contradictions,
    node_contradictions,
    zone_contradictions,
)
from realities.drawn_realities import (
    ACTIONS,
    NO_RESTART,
    RELEASES,
    SILENCE_ONLY,
    Reality,
    World,
    draw_reality,
    draw_world,
    zones_of,
)

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.unknowns.requests import WRITTEN_AGAIN_NS

WRITTEN_AGAIN = WRITTEN_AGAIN_NS / 1e9


def wrongs(world: World, prediction: Prediction, reality: Reality) -> list[str]:
    """What the reality did and the prediction excludes."""
    horizon_ns = world.scenario.horizon_ns
    assert horizon_ns is not None
    return [
        *contradictions(horizon_ns, prediction, reality),
        *node_contradictions(prediction, reality, horizon_ns),
        *zone_contradictions(prediction, reality, horizon_ns),
        *end_contradictions(prediction, reality, horizon_ns),
        *joint_contradictions(prediction, reality, zones_of(world)),
    ]


def check_world(world: World, seed: int, realities: int) -> Prediction:
    """Hold drawn realities against the prediction, which is returned."""
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    for index in range(realities):
        reality = draw_reality(world, random.Random(seed * 1000 + index))
        wrong = wrongs(world, prediction, reality)
        assert not wrong, (seed, index, reality.timing, wrong)
    return prediction


# -- soundness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_silent_kubelets_are_evicted_within_their_windows(release: str) -> None:
    for seed in range(3):
        world = draw_world(seed, actions=SILENCE_ONLY, releases=(release,))
        check_world(world, seed, 25)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("seed", [pytest.param(300, marks=pytest.mark.slow), 301])
def test_flapping_kubelets_and_taints_stay_within_their_windows(release: str, seed: int) -> None:
    world = draw_world(seed, actions=NO_RESTART, releases=(release,), short=True)
    check_world(world, seed, 25)


@pytest.mark.parametrize("release", RELEASES)
def test_restarts_and_deleted_nodes_stay_within_their_windows(release: str) -> None:
    for seed in range(400, 401):
        world = draw_world(seed, actions=ACTIONS, releases=(release,), short=True)
        check_world(world, seed, 25)


# 1.20.4 explores all orders of orphaned entries too: ten seconds.
@pytest.mark.parametrize(
    "release", ["1.18.6", pytest.param("1.20.4", marks=pytest.mark.slow), "1.29.6"]
)
def test_nodes_that_are_down_at_the_start_stay_within_their_windows(release: str) -> None:
    for seed in range(502, 503):
        world = draw_world(
            seed, actions=NO_RESTART, releases=(release,), short=True, down_at_start=True
        )
        check_world(world, seed, 25)


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("down_at_start", [False, True], ids=["up", "down"])
@pytest.mark.parametrize(
    "actions", [SILENCE_ONLY, NO_RESTART, ACTIONS], ids=["silence", "no-restart", "everything"]
)
def test_no_reality_contradicts_a_prediction(
    release: str, actions: tuple[str, ...], down_at_start: bool
) -> None:
    for seed in range(1000, 1020):
        world = draw_world(seed, actions=actions, releases=(release,), down_at_start=down_at_start)
        check_world(world, seed, 20)


# -- tightness ------------------------------------------------------------------------------------


def one_failing_node(release: str, *, last_heartbeat: float | None = None) -> World:
    """Three nodes of one zone; one falls silent and its pod tolerates that for 10 s."""
    nodes = [make_node(name, zone="a") for name in ("n0", "n1", "n2")]
    pods = [make_pod("p", "n0", tolerations=default_tolerations(10))]
    leases = [make_lease(name, -2) for name in ("n0", "n1", "n2")]
    stop = make_event(3, "kubelet-stop", "n0", last_heartbeat=last_heartbeat)
    settings = ControllerSettings(kubernetes_version=release)
    snapshot = make_snapshot(nodes, pods, leases=leases)
    # The controller found every node ready: up to 1.20.4 nothing is certain otherwise.
    leader = replace(snapshot.control_plane, leader_acquire_time_ns=epoch_ns(-500))
    snapshot = replace(snapshot, control_plane=leader)
    return World(
        snapshot,
        make_scenario([stop], horizon=120),
        resolve_configuration(settings, snapshot.control_plane),
    )


def window_of(world: World) -> tuple[float, float]:
    (eviction,) = predict(world.snapshot, world.scenario, world.configuration).evictions
    assert eviction.certainty == "certain"
    return eviction.earliest_seconds, eviction.latest_seconds


@pytest.mark.parametrize("release", RELEASES)
def test_one_failing_node_has_a_window_of_one_tick_and_one_pass(release: str) -> None:
    earliest, latest = window_of(one_failing_node(release))
    ticks_until_taint = 11 if release in ("1.33.4", "1.35.0") else 9
    costs = ticks_until_taint * 0.0101 + 0.01
    # From 1.34 on a stale informer can waste the first token: the next one takes 10 s. And the write of its pass may conflict.
    wasted = 10.105 + WRITTEN_AGAIN if release == "1.35.0" else 0.0
    assert latest - earliest <= 5 + 0.105 + costs + wasted


@pytest.mark.parametrize("release", RELEASES)
def test_realities_of_one_failing_node_come_close_to_both_ends(release: str) -> None:
    world = one_failing_node(release, last_heartbeat=2)
    earliest, latest = window_of(world)
    seen = []
    for phase_ms in range(0, 5000, 50):
        for cost_ns in (0, 10_000_000):
            timing = Timing(
                monitor_phase_ns=phase_ms * 1_000_000,
                monitor_cost_ns=cost_ns,
                pass_phase_ns=(phase_ms * 37 % 100) * 1_000_000,
                stale_lister=phase_ms % 100 == 0,
            )
            timeline = simulate(world.snapshot, world.scenario, world.configuration, timing)
            seen += [
                entry.at_ns / 1e9 for entry in timeline.entries if isinstance(entry, PodDeleted)
            ]
    assert min(seen) - earliest < 0.2
    # No run makes a write again.
    assert latest - max(seen) < 0.4 + (WRITTEN_AGAIN if release == "1.35.0" else 0.0)


def test_a_known_monitor_phase_narrows_the_window_to_passes_and_costs() -> None:
    world = one_failing_node("1.29.6", last_heartbeat=2)
    configuration = replace(world.configuration, monitor_phase_ns=0)
    earliest, latest = window_of(World(world.snapshot, world.scenario, configuration))
    assert latest - earliest < 0.105 + 10 * 0.0101 + 0.01


def test_a_stated_last_heartbeat_narrows_no_tick_away() -> None:
    """The tick's phase alone makes five seconds; a known heartbeat removes only its own share."""
    free, stated = one_failing_node("1.29.6"), one_failing_node("1.29.6", last_heartbeat=-2)
    assert window_of(free)[0] <= window_of(stated)[0] <= window_of(free)[1]
    assert window_of(stated)[1] - window_of(stated)[0] > 4.9


def test_a_taint_by_hand_leaves_no_doubt_about_when() -> None:
    snapshot = make_snapshot(["n0", "n1"], [make_pod("p", "n0")])
    scenario = make_scenario([make_event(2, "taint", "n0", taint="A:NoExecute")], horizon=60)
    configuration = resolve_configuration(
        ControllerSettings(kubernetes_version="1.29"), snapshot.control_plane
    )
    assert window_of(World(snapshot, scenario, configuration)) == (2.0, 2.0)


# -- nodes ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5011, 5029, 5036])
def test_taints_swapped_while_a_node_waits_stay_within_their_windows(seed: int) -> None:
    world = draw_world(seed, actions=NO_RESTART)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    for index in range(12):
        reality = draw_reality(world, random.Random(seed * 1000 + index))
        assert not wrongs(world, prediction, reality)


def test_a_node_that_is_just_tainted_before_a_tick_takes_all_taints_off_stays_within_its_windows() -> (
    None
):
    """The third token comes 4 s after the first one; so does the tick, but for what ticks cost."""
    world = draw_world(1005, actions=SILENCE_ONLY, releases=("1.35.0",))
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    reality = draw_reality(world, random.Random(1_005_011))
    assert not wrongs(world, prediction, reality)


@pytest.mark.slow
def test_a_token_wasted_on_a_stale_informer_stays_within_its_window() -> None:
    check_world(draw_world(4074, down_at_start=True), 4074, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7004, 7091])
def test_waiting_nodes_that_come_back_stay_within_their_windows(seed: int) -> None:
    check_world(draw_world(seed, down_at_start=True), seed, 15)


@pytest.mark.slow
def test_a_tainted_node_whose_zone_stays_partial_is_not_tainted_again_for_certain() -> None:
    check_world(draw_world(7089, down_at_start=True), 7089, 15)
