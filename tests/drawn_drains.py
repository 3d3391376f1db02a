"""Drawn realities of drains, and what of one of them contradicts a prediction."""

from __future__ import annotations

import random

from drain_worlds import DrainedWorld, draw_drained_world
from msgspec.structs import replace

from builders import ns
from kubectl_evictplan.cluster.timeline import (
    DrainProcessEnded,
    EvictionNotAllowed,
    NodeDrainEnded,
    PodDeleted,
    Timeline,
)
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.prediction.document import DrainReport, Prediction
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import simulate

READY = (ns(3), ns(3))


def reality(world: DrainedWorld, rng: random.Random, number: int) -> Timeline:
    share = rng.random()
    timing = DrainTiming(
        seed=1_000_000 + number,
        latency=None,
        exit_low=rng.choice((0.0, share)),
        exit_high=share,
        ready_low_ns=READY[0],
        ready_high_ns=READY[1],
        joins_drained_nodes=0.5 * (rng.random() < 0.3),
    )
    return simulate(world.snapshot, world.scenario, world.configuration, Timing(drain=timing))


def contradictions(timeline: Timeline, prediction: Prediction) -> list[str]:
    """What of a run no window of a prediction holds."""
    found = []
    windows: dict[str, list[tuple[float, float]]] = {}
    for eviction in prediction.evictions:
        windows.setdefault(eviction.key, []).extend(
            (window.earliest_seconds, window.latest_seconds) for window in eviction.windows
        )
    waits = {wait.pod for report in prediction.drains for wait in (*report.waiting, *report.failed)}
    replacements = timeline.replacements()
    for entry in timeline.entries:
        at = round(entry.at_ns / 1e9, 6)
        if isinstance(entry, PodDeleted) and entry.uid not in replacements:
            if not any(low <= at <= high for low, high in windows.get(entry.pod, ())):
                found.append(f"{entry.pod} at {at}")
        elif isinstance(entry, EvictionNotAllowed) and entry.uid not in replacements:
            if entry.pod not in waits:
                found.append(f"{entry.pod} waits")
        elif isinstance(entry, NodeDrainEnded):
            if not any(_may_end(report, entry.node, at) for report in prediction.drains):
                found.append(f"{entry.node} ends at {at}")
        elif isinstance(entry, DrainProcessEnded):
            if not any(r.exit_code in (None, entry.exit_code) for r in prediction.drains):
                found.append(f"exit {entry.exit_code}")
    return found


def _may_end(report: DrainReport, node: str, at: float) -> bool:
    first, last = report.end_earliest_seconds, report.end_latest_seconds
    return report.node == node and first is not None and first <= at <= (last or at)


def bounded(scenario: Scenario, rng: random.Random) -> Scenario:
    """The scenario with drains as apply drains: some pods at a time, with pauses."""
    drains = (
        replace(event, parallel=rng.randint(1, 3), settle_ns=ns(rng.choice((0, 20))))
        for event in scenario.events
    )
    return replace(scenario, events=tuple(drains))


def draw_bounded_world(seed: int, rng: random.Random) -> DrainedWorld:
    """A world whose drains take some pods at a time."""
    world = draw_drained_world(random.Random(2000 + seed))
    return world._replace(scenario=bounded(world.scenario, rng))
