"""Runs that are not made because another one gives the same: predictions with and without them are equal."""

from __future__ import annotations

from typing import Any

import pytest
from drain_worlds import DrainedWorld
from soak_worlds import draw_soak_world
from windows.lines import Line

from builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from kubectl_evictplan.cluster.timeline import Timeline, Told
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.budget import Budget
from kubectl_evictplan.windows.line_windows import Replays
from kubectl_evictplan.windows.pod_worlds import PodWorld
from kubectl_evictplan.windows.unknowns.order_in_line import first_leaves_first
from kubectl_evictplan.windows.zone_lines import ZoneLine

RELEASE = resolve_configuration(
    ControllerSettings(kubernetes_version="1.29.6"), ControlPlaneFlags()
)
# Small worlds of several classes in which something is remembered.
FEW = (50000158, 50000165, 50000185)
MANY = range(50000100, 50000140)


def told(seed: int) -> list[object]:
    """Everything that is explored of the world of a seed."""
    _, world = draw_soak_world(seed)
    if isinstance(world, DrainedWorld):
        return []
    prediction: Prediction = predict(world.snapshot, world.scenario, world.configuration)
    return [list(prediction.evictions), prediction.nodes, prediction.inputs.coverage]


@pytest.mark.parametrize(
    "seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)]
)
def test_what_another_run_gave_is_what_this_one_gives(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = told(seed)
    monkeypatch.setattr(Replays, "_known_of", lambda *_: None)
    monkeypatch.setattr(
        PodWorld, "runs", lambda world, played, all_: (world.simulate(played, t) for t in all_)
    )
    assert told(seed) == remembered


def test_one_pod_is_simulated_for_all_whose_tolerations_come_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = [tolerates(f"own-{number}") for number in range(3)]
    lists = [default_tolerations(9), (*default_tolerations(9), own[0]), (own[1],), (own[2],), ()]
    pods = [
        make_pod(f"{node}-{place}", node, tolerations=some)
        for node in ("n1", "n2")
        for place, some in enumerate(lists)
    ]
    snapshot = make_snapshot([make_node(name, zone="a") for name in ("n1", "n2", "n3")], pods)
    scenario = make_scenario([make_event(0, "kubelet-stop", ["n1", "n2"])])
    simulate, simulated = PodWorld.simulate, list[str]()

    def noted(world: PodWorld, *known: Any) -> Timeline:
        simulated.extend(pod.name for pod in world.snapshot.pods)
        return simulate(world, *known)

    monkeypatch.setattr(PodWorld, "simulate", noted)
    found = predict(snapshot, scenario, RELEASE).evictions

    assert sorted(row.pod for row in found) == sorted(pod.name for pod in pods)
    assert len(simulated) == 2


def test_a_pass_inside_a_tick_that_finds_no_token_changes_nothing() -> None:
    line = Line()
    line.silent(5, "a", "b")
    line.tell(8, Told.MID_TICK)
    assert not line.replay().pass_inside_matters
    line.tell(20, Told.SWAP, qps=0.5)
    line.silent(30, "c")
    line.tell(30, Told.MID_TICK)
    assert line.replay().pass_inside_matters


def test_orders_with_the_same_nodes_before_each_other_are_one_replay() -> None:
    line = Line()
    line.silent(5, "a", "b")
    zone, replays, groups = ZoneLine(line.told), Replays(Budget()), [("a",), ("b",)]
    one = replays.of(zone, line.rules, first_leaves_first, groups, ns(10))
    alike = replays.of(zone, line.rules, lambda one: one.name, groups, ns(10))
    other = replays.of(zone, line.rules, lambda one: chr(200 - ord(one.name)), groups, ns(10))
    assert alike is one
    assert other is not one
