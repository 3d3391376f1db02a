"""Budgets that count evictions from before the start whose pods are still there: for two minutes, and no longer."""

from __future__ import annotations

import random
from typing import Any

import pytest
from building.builders import ns
from drawn.drain_worlds import CONFIGURATION, App, drain, drained_cluster, drains
from msgspec.structs import replace
from realities.drawn_drains import DrainedWorld, mistakes

from kubectl_evictplan.controllers import disruption
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.disruption import synced_status
from kubectl_evictplan.kube.objects import PodDisruptionBudget
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.simulation.simulate import simulate


def evicted_before(ago: float, *, least: int = 2) -> DrainedWorld:
    """Three pods of which a budget wants two; somebody has just evicted one that goes on running."""
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], least=least))
    [budget] = snapshot.budgets
    since_ns = snapshot.taken_at_ns - ns(ago)
    counted = replace(
        budget,
        disrupted_pods=(("web-2", since_ns),),
        disruptions_allowed=0,
        current_healthy=2,
    )
    return DrainedWorld(replace(snapshot, budgets=(counted,)), drains(drain("a1")))


def test_a_budget_is_not_closed_for_ever_by_an_eviction_that_it_forgets() -> None:
    world = evicted_before(10)
    prediction = predict(*world, assume_ready=(ns(3), ns(3)))
    [report] = prediction.drains
    assert report.end_reason != "never"
    [eviction] = prediction.evictions
    # It is forgotten 2 minutes after it was noted, and kubectl asks every 5 s.
    assert 110 <= eviction.earliest_seconds <= eviction.latest_seconds < 125
    assert not mistakes(world, random.Random(1), 8)


def test_what_it_wants_is_missing_for_ever_whatever_it_forgets() -> None:
    world = evicted_before(10, least=3)
    [report] = predict(*world, assume_ready=(ns(3), ns(3))).drains
    assert report.end_reason == "never"


def test_a_budget_whose_sync_fails_is_not_looked_at_again_for_evictions_that_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = drained_cluster(App("logs", ["a1", "b1"], "DaemonSet", most=1))
    [budget] = snapshot.budgets
    before = ("logs-0", snapshot.taken_at_ns - ns(600))
    failing = replace(snapshot, budgets=(replace(budget, disrupted_pods=(before,)),))
    syncs: list[object] = []

    def counted(*asked: Any) -> PodDisruptionBudget:
        syncs.append(asked)
        return synced_status(*asked)

    monkeypatch.setattr(disruption, "synced_status", counted)
    simulate(failing, drains(drain("a1"), horizon=60), CONFIGURATION, Timing())
    assert 0 < len(syncs) < 5
