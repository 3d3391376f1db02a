"""Writes of taints that conflict: a tick takes a taint off while a worker writes the other one of the same node.

Each reads the node and patches what it read. Whose node was written meanwhile tries again 100 to 200 ms later
(``UpdateTaintBackoff``), and the tick waits for that. It happens where both have the same reason: a new process looks at all nodes
for the first time, or a tick finds a node silent with which all zones are down, or from 1.34 on one that has the taint of Ready=False.
What a pass writes so late is part of its wait (``unknowns.lines.written_late_ns``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from kubectl_evictplan.controllers.node_lifecycle.zone_states import FULL
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, ClusterSnapshot
from kubectl_evictplan.kube.taints import NOT_READY
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.late_windows import Late, put_off
from kubectl_evictplan.windows.outcome import (
    TAINT_REMOVED,
    Exploration,
    NodeChangeKey,
    follows_ticks,
    is_ready,
)
from kubectl_evictplan.windows.pod_worlds import happenings
from kubectl_evictplan.windows.spans import Span, meets
from kubectl_evictplan.windows.unknowns.lines import PASS_LAG_MAX_NS
from kubectl_evictplan.windows.unknowns.requests import WriteConflicts
from kubectl_evictplan.windows.unknowns.tick_meetings import monitor_cost_max_ns

_AGAIN_NS = WriteConflicts.longest_ns

Change = tuple[NodeChangeKey, int]


class Meeting(msgspec.Struct, frozen=True):
    """A write of a NoExecute taint that may meet a worker, within ``span``: the first look of a process, or a tick that has just ``given_up`` the node."""

    change: Change
    span: Span
    given_up: Sequence[Change] = ()

    @property
    def at_start(self) -> bool:
        """Whether the first look of a process does."""
        return not self.given_up


def span_conflicts(result: Exploration, given: Given) -> bool:
    """Let windows of what such a tick does, and of what follows it, reach to where it is through at the latest; False where none conflict.

    Of releases whose writes of taints conflict.
    """
    snapshot, scenario, _ = given
    found = meetings(result, given)
    if not found:
        return False
    # What follows such a tick comes at times that follow from it.
    names = {key.node for key, _ in result.nodes.windows}
    late = dict.fromkeys(names, Late(_AGAIN_NS, _AGAIN_NS, _AGAIN_NS))
    sure = _undisturbed(result, snapshot, scenario, names)
    in_time: set[Change] = set()
    if not any(one.at_start for one in found):
        in_time.update(change for one in found for change in one.given_up)
    since_ns = min(one.span[0] for one in found)
    put_off(result, late, scenario, sure, since_ns=since_ns, in_time=in_time, by=WriteConflicts)
    return True


def meetings(result: Exploration, given: Given) -> list[Meeting]:
    """Where two write one node at once: at the start of a process, and where a tick finds it silent with which a zone gets down.

    From 1.34 on also where it is tainted for Ready=False.
    """
    snapshot, scenario, configuration = given
    starts = [event.span for event in scenario.events if event.manager_up]
    down = [window.span for (key, _), window in result.zones.windows.items() if key.state == FULL]
    swaps = configuration.profile.taint_on_current_condition
    if not (starts or down or swaps):
        return []
    by_worker = result.when(lambda key: follows_ticks(key) and key.effect == NO_SCHEDULE)
    given_up: defaultdict[str, list[tuple[Change, Span]]] = defaultdict(list)
    for nth, window in result.nodes.windows.items():
        if is_ready(nth[0]) and follows_ticks(nth[0]):
            given_up[nth[0].node].append((nth, window.span))
    found = []
    for nth, window in result.nodes.windows.items():
        key, span = nth[0], window.span
        if not (follows_ticks(key) and key.effect == NO_EXECUTE):
            continue
        # Also a pass meets the worker of a node that the first tick puts in line; the end of that tick waits for it.
        for start in starts:
            if meets((start,), span) and meets(by_worker[key.node], start):
                until_ns = start[1] + monitor_cost_max_ns(snapshot) + PASS_LAG_MAX_NS
                until_ns = min(until_ns + result.ticks_late_ns, span[1])
                found.append(Meeting(nth, (max(start[0], span[0]), until_ns)))
        swapped = swaps and key.value.startswith(f"{NOT_READY}:")
        if key.what == TAINT_REMOVED and (swapped or meets(down, span)):
            with_it = [one for one in given_up[key.node] if meets((one[1],), span)]
            if with_it:
                since_ns = min(low_ns for _, (low_ns, _) in with_it)
                found.append(Meeting(nth, (since_ns, span[1]), [change for change, _ in with_it]))
    return found


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
