"""Realities that draw anew for every pod, pass and tick: see ``free_timing``."""

from __future__ import annotations

import random

import pytest
from building.builders import make_event, make_node, make_pod, make_scenario, make_snapshot
from realities.contradictions import contradictions, node_contradictions, zone_contradictions
from realities.drawn_realities import World, draw_reality, draw_world
from realities.free_timing import FreeTiming, Walks, every_tick_walks_anew

from kubectl_evictplan.cluster.timeline import PodGone, TaintChanged
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.simulate import simulate


def world(release: str, *flags: tuple[str, str]) -> World:
    """Three nodes of one zone fall silent, beside five that do not; each has two pods that end slowly."""
    nodes = [make_node(f"n{number}", zone="a") for number in range(8)]
    pods = [make_pod(f"p{n}-{k}", f"n{n}", grace_seconds=30) for n in range(3) for k in (1, 2)]
    scenario = make_scenario(
        [
            make_event(1, "kubelet-stop", ["n0", "n1", "n2"]),
            make_event(300, "kubelet-start", ["n0", "n1", "n2"]),
        ],
        horizon=500,
    )
    settings = ControllerSettings(kubernetes_version=release, flags=dict(flags))
    snapshot = make_snapshot(nodes, pods)
    return World(snapshot, scenario, resolve_configuration(settings, ControlPlaneFlags()))


def tainted(which: World, seed: int) -> list[str]:
    """The nodes in the order of their taints."""
    with every_tick_walks_anew(Walks(random.Random(str(seed)))):
        timing = FreeTiming.of(Timing(), str(seed))
        entries = simulate(which.snapshot, which.scenario, which.configuration, timing).entries
    found = [
        e.node for e in entries if isinstance(e, TaintChanged) and e.taint.effect == "NoExecute"
    ]
    return list(dict.fromkeys(found))


def test_each_pod_ends_when_it_likes() -> None:
    which = world("1.29.6")
    timing = FreeTiming.of(Timing(), "any")
    entries = simulate(which.snapshot, which.scenario, which.configuration, timing).entries
    gone = {entry.pod: entry.at_ns for entry in entries if isinstance(entry, PodGone)}
    assert len(set(gone.values())) > 1


@pytest.mark.parametrize("release", ["1.18.6", "1.19.3", "1.29.6"])
def test_each_tick_may_walk_the_nodes_in_another_order(release: str) -> None:
    assert len({tuple(tainted(world(release), seed)) for seed in range(30)}) == 6


def test_the_same_seed_draws_the_same() -> None:
    assert tainted(world("1.35.0"), 7) == tainted(world("1.35.0"), 7)


@pytest.mark.parametrize("seed", range(9))
def test_nothing_that_is_drawn_anew_leaves_its_windows(seed: int) -> None:
    which = draw_world(seed)
    horizon_ns = which.scenario.horizon_ns
    assert horizon_ns is not None
    prediction = predict(which.snapshot, which.scenario, which.configuration)
    for number in range(8):
        reality = draw_reality(which, random.Random(f"{seed} {number}"), free=True)
        assert not list(contradictions(horizon_ns, prediction, reality))
        assert not list(node_contradictions(prediction, reality, horizon_ns))
        assert not list(zone_contradictions(prediction, reality, horizon_ns))
