"""Writes of taints that conflict: a tick takes a taint off while a worker writes the other one of the same node.

Each reads the node and patches what it read. Whose node was written meanwhile tries again 100 to 200 ms later
(``UpdateTaintBackoff``), and the tick waits for that. It happens where both have the same reason: a new process looks at all nodes
for the first time, or a tick finds a node silent with which all zones are down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubectl_evictplan.controllers.node_lifecycle.zone_states import FULL
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.clients.late_windows import Late, put_off
from kubectl_evictplan.windows.outcome import (
    TAINT_REMOVED,
    Exploration,
    follows_ticks,
    is_ready,
)
from kubectl_evictplan.windows.pod_worlds import happenings
from kubectl_evictplan.windows.spans import Span, meets
from kubectl_evictplan.windows.unknowns.requests import WriteConflicts

_AGAIN_NS = WriteConflicts.longest_ns


def span_conflicts(result: Exploration, snapshot: ClusterSnapshot, scenario: Scenario) -> bool:
    """Let windows of what such a tick does, and of what follows it, reach to where it is through at the latest; False where none conflict.

    Of releases whose writes of taints conflict.
    """
    starts = [event.span for event in scenario.events if event.manager_up]
    down = [window.span for (key, _), window in result.zones.windows.items() if key.state == FULL]
    if not (starts or down):
        return False
    at_starts, in_ticks = _conflicts(result, starts, down)
    if not (at_starts or in_ticks):
        return False
    # What follows a first tick comes at times that follow from it.
    names = {key.node for key, _ in result.nodes.windows} if at_starts else in_ticks
    given_up_ns = _AGAIN_NS if at_starts else 0
    late = dict.fromkeys(names, Late(given_up_ns, _AGAIN_NS, _AGAIN_NS))
    since_ns = min((*(starts if at_starts else ()), *(down if in_ticks else ())))[0]
    sure = _undisturbed(result, snapshot, scenario, names)
    put_off(result, late, scenario, sure, since_ns=since_ns, by=WriteConflicts)
    return True


def _conflicts(
    result: Exploration, starts: Sequence[Span], down: Sequence[Span]
) -> tuple[set[str], set[str]]:
    """Nodes of which two write at once: at the start of a process, and where a zone gets ``down`` with them."""
    by_worker = result.when(lambda key: follows_ticks(key) and key.effect == NO_SCHEDULE)
    given_up = result.when(lambda key: follows_ticks(key) and is_ready(key))
    at_starts, in_ticks = set[str](), set[str]()
    for (key, _), window in result.nodes.windows.items():
        if not (follows_ticks(key) and key.effect == NO_EXECUTE):
            continue
        span = window.span
        # Also a pass meets the worker of a node that the first tick puts in line; the end of that tick waits for it.
        if meets(starts, span):
            if any(meets(starts, other) for other in by_worker[key.node]):
                at_starts.add(key.node)
        taken_off = key.what == TAINT_REMOVED
        if taken_off and meets(given_up[key.node], span) and meets(down, span):
            in_ticks.add(key.node)
    return at_starts, in_ticks


def _undisturbed(
    result: Exploration, snapshot: ClusterSnapshot, scenario: Scenario, names: Iterable[str]
) -> set[str]:
    """Those of the nodes to which nothing happens just after what node lifecycle does to them."""
    happens = happenings(scenario.events, snapshot.pods)
    disturbed = {
        key.node
        for (key, _), window in result.nodes.windows.items()
        if key.node in happens
        and meets(happens[key.node], (window.latest_ns + 1, window.latest_ns + _AGAIN_NS))
    }
    disturbed.update(
        row.node
        for row in result.evictions.values()
        if row.node in happens
        and meets(happens[row.node], (row.latest_ns + 1, row.latest_ns + _AGAIN_NS))
    )
    return set(names) - disturbed
