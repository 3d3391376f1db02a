"""What may happen where ticks and passes are so late that orders come about which no run has: bounds that need no run.

Of every node about which node lifecycle decides something, and of all pods there. Certain is only what is proven with ticks and
passes as late.
"""

from __future__ import annotations

from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.explored import join_samples
from kubectl_evictplan.windows.noticing import Lateness
from kubectl_evictplan.windows.outcome import Exploration, follows_ticks
from kubectl_evictplan.windows.unknowns.requests import ClientLimits
from kubectl_evictplan.windows.wide_bounds import WideBounds, bound_samples

_MISSED = frozenset({ClientLimits.name})


def bound_late(result: Exploration, given: Given, late: Lateness) -> None:
    """Put bounds over all of it, with ticks and passes that may be so ``late``."""
    snapshot, scenario, _ = given
    bounds = WideBounds.of(*given, late)
    courses = bounds.rates.courses
    names = {
        name
        for name in bounds.rates.zones_of
        if courses.of(name).may_be_decided_about(scenario.end_ns)
    }
    names.update(key.node for key, _ in result.nodes.windows if follows_ticks(key))
    for (key, _), window in result.nodes.windows.items():
        if follows_ticks(key):
            window.explored = window.unsure = True
    for state in result.zones.windows.values():
        state.explored = state.unsure = True
    for eviction, row in result.evictions.items():
        if row.node in names:
            result.evictions[eviction] = row._replace(missed=row.missed | _MISSED, proven=False)
    for name in names:
        result.sampled[name] = result.sampled.get(name, frozenset()) | _MISSED
    result.missed |= _MISSED
    result.late_ns += late.tick_ns
    result.ticks_late_ns = late.tick_ns
    bound_samples(result, snapshot, bounds, scenario.end_ns)
    join_samples(result, late.tick_ns, scenario.end_ns, late.tick_ns)
    for table in (result.nodes, result.zones, result.cancels):
        table.drop_after(scenario.end_ns)
