"""Runs in between the corners, for unknowns that only matter together.

Several kubelets that stop can be found silent in many orders: which zone is fully disrupted first, which
node is served before that. Corners of each heartbeat alone do not reach all of these, and all
combinations are too many. A low-discrepancy sequence of combinations does well with few. Each of
them still sits at a critical instant, so that the windows' ends are met and not just approached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import sqrt

from msgspec.structs import replace

from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.scenarios.scenario import Scenario

HeartbeatWindow = tuple[int, int]
# Fractions of a heartbeat's window that are tried; both ends carry most of the weight.
_LEVELS = (0.0, 1.0, 0.5, 0.0, 1.0, 0.25, 0.75)
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
_CRITICAL_COSTS_MAX = 12


def sequence(dimension: int, index: int) -> float:
    """The ``index``-th point of a Kronecker sequence in that dimension, in [0, 1)."""
    prime = _PRIMES[dimension % len(_PRIMES)]
    return (index + 1) * sqrt(prime) * (1 + dimension // len(_PRIMES)) % 1.0


def sampled_heartbeats(
    scenario: Scenario, windows: dict[int, list[tuple[str, int, int]]], index: int
) -> Scenario:
    """The scenario with every unknown last heartbeat somewhere in its window."""
    events = []
    dimension = 2
    for place, event in enumerate(scenario.events):
        if place not in windows:
            events.append(event)
            continue
        for name, low_ns, high_ns in windows[place]:
            dimension += 1
            level = _LEVELS[int(sequence(dimension, index) * len(_LEVELS))]
            last_ns = low_ns + round((high_ns - low_ns) * level)
            events.append(replace(event, nodes=(name,), last_heartbeat_ns=last_ns))
    return replace(scenario, events=tuple(events))


def critical_costs(
    grid_starts: Sequence[int], instants: Sequence[int], period_ns: int, cost_max_ns: int
) -> list[int]:
    """Costs of a tick with which a grid that starts at a known instant just meets, or misses, another."""
    costs: set[int] = set()
    for start_ns in grid_starts:
        for at_ns in instants:
            steps = (at_ns - start_ns) // period_ns
            if at_ns <= start_ns or steps <= 0:
                continue
            cost_ns = -(-(at_ns - start_ns) // steps) - period_ns
            costs.update(c for c in (cost_ns, cost_ns - 1) if 0 <= c <= cost_max_ns)
    return sorted(costs)[:_CRITICAL_COSTS_MAX]


def sampled_timings(
    index: int,
    corners: tuple[list[Timing], list[Timing]],
    costs: Sequence[int],
    phases_for: Callable[[int, int], list[int]],
) -> Iterator[Timing]:
    """The early and the late timing of one sample; ``phases_for(side, cost_ns)`` are critical."""
    cost_ns = costs[int(sequence(0, index) * len(costs))]
    for side in (0, 1):
        phases = phases_for(side, cost_ns)
        phase_ns = phases[int(sequence(1, index) * len(phases))]
        corner = corners[side][index % len(corners[side])]
        yield replace(corner, monitor_phase_ns=phase_ns, monitor_cost_ns=cost_ns)
