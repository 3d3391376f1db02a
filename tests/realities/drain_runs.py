"""Single runs of drains, and what is read off them."""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import ns
from drawn.drain_worlds import CONFIGURATION, drains

from kubectl_evictplan.cluster.timeline import (
    AboutPod,
    DrainProcessEnded,
    Entry,
    NodeDrainEnded,
    PodDeleted,
    Timeline,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate


def play(
    snapshot: ClusterSnapshot,
    *events: ScenarioEvent,
    ready: float | None = 3,
    exit_at: float = 0.1,
    horizon: float | None = None,
    configuration: ControllerConfiguration = CONFIGURATION,
    **timing: Any,
) -> Timeline:
    """One run with the shortest latencies; pods use ``exit_at`` of their grace period."""
    drained = DrainTiming(
        latency=0,
        exit_low=exit_at,
        exit_high=exit_at,
        ready_low_ns=ns(ready or 1000),
        ready_high_ns=None if ready is None else ns(ready),
        ready=1.0,
        **timing,
    )
    return simulate(
        snapshot, drains(*events, horizon=horizon), configuration, Timing(drain=drained)
    )


def moments(timeline: Timeline, kind: type[Entry], pod: str = "") -> list[float]:
    """When entries of a kind happened, rounded down to a tenth of a second."""
    return [
        entry.at_ns // 100_000_000 / 10
        for entry in timeline.entries
        if isinstance(entry, kind)
        and (not pod or (isinstance(entry, AboutPod) and entry.pod == f"default/{pod}"))
    ]


def about(moment: float) -> Any:
    """One moment, give or take what latencies and chance add up to."""
    return pytest.approx([moment], abs=0.15)


def deleted(timeline: Timeline) -> list[str]:
    """Names of deleted pods, in order."""
    return [e.pod.partition("/")[2] for e in timeline.entries if isinstance(e, PodDeleted)]


def exit_codes(timeline: Timeline) -> list[int]:
    return [e.exit_code for e in timeline.entries if isinstance(e, DrainProcessEnded)]


def ends(timeline: Timeline) -> list[tuple[str, str]]:
    return [(e.node, e.reason.value) for e in timeline.entries if isinstance(e, NodeDrainEnded)]
