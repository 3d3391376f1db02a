"""A run that is over holds nothing that holds itself: its memory is free at once, without anybody who looks for garbage."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from drawn.drain_worlds import draw_drained_world

from kubectl_evictplan.cluster.timeline import PodDeleted, Timeline
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.controllers.followers import NotOnlySilentError, followers_by_node
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.simulate import simulate, simulate_each_pod


def _silence_and_restarts() -> Timeline:
    """One process ends, another goes on to the horizon with timers and passes before it."""
    nodes = [make_node(name) for name in ("a1", "a2", "a3")]
    pods = [
        make_pod(f"p-{one.name}", node=one.name, tolerations=default_tolerations(30))
        for one in nodes
    ]
    events = [
        make_event(5, "kubelet-stop", "a1"),
        make_event(5, "kubelet-stop", "a2"),
        make_event(30, "controller-stop"),
        make_event(40, "controller-start"),
        make_event(130, "kubelet-start", "a2"),
        make_event(140, "kubelet-stop", "a3"),
    ]
    configuration = resolve_configuration(ControllerSettings(), ControlPlaneFlags())
    return simulate(make_snapshot(nodes, pods), make_scenario(events, horizon=200), configuration)


def _pods_that_follow_no_node() -> Timeline:
    """A run that is given up, for all zones are down in the end: more happens to a node than silence."""
    nodes = [make_node(name) for name in ("a1", "a2")]
    pods = [
        make_pod(f"p-{one.name}", one.name, tolerations=default_tolerations(60)) for one in nodes
    ]
    events = [make_event(5, "kubelet-stop", "a1"), make_event(200, "kubelet-stop", "a2")]
    configuration = resolve_configuration(ControllerSettings(), ControlPlaneFlags())
    cluster = make_snapshot(nodes, pods), make_scenario(events, horizon=900), configuration
    followers = followers_by_node(*cluster)
    given_up = True  # ``pytest.raises`` keeps what it catches
    with suppress(NotOnlySilentError):
        simulate_each_pod(*cluster, followers=followers)
        given_up = False
    assert given_up
    return simulate(*cluster)


def _drains_that_end() -> Timeline:
    world = draw_drained_world(random.Random(5))
    return simulate(world.snapshot, world.scenario, world.configuration)


@pytest.mark.parametrize(
    "run", [_silence_and_restarts, _pods_that_follow_no_node, _drains_that_end]
)
def test_a_run_that_is_over_leaves_nothing_that_holds_itself(run: Callable[[], Timeline]) -> None:
    run()  # what is imported and remembered on the way is there now
    gc.collect()
    gc.disable()
    try:
        timeline = run()
        left = gc.collect()
    finally:
        gc.enable()
    assert any(isinstance(entry, PodDeleted) for entry in timeline.entries)
    assert left == 0
