"""Writes of taints that get lost: before 1.26 (and some backports) whoever writes last writes back all taints that it read.

It happens where ``conflicting_writes`` has two write one node at once. A worker that read the NoExecute taint before it was taken off puts
it on again, and one that read the node before it got the taint takes that off. The next tick sees it; but where all zones are down
nobody takes a taint off, until the node is heard. Bounds.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.conflicting_writes import Meeting, meetings
from kubectl_evictplan.windows.clients.late_windows import follows_lifecycle
from kubectl_evictplan.windows.outcome import (
    TAINT_ADDED,
    TAINT_REMOVED,
    Exploration,
    NodeChangeKey,
)
from kubectl_evictplan.windows.spans import NEVER_NS, Span
from kubectl_evictplan.windows.unknowns.lines import token_max_ns
from kubectl_evictplan.windows.unknowns.requests import WriteConflicts
from kubectl_evictplan.windows.unknowns.tick_meetings import tick_steps

# Between the two requests of a worker, where its client lets them through.
_WRITE_NS = 20 * MILLISECOND_NS
_OPPOSITE = {TAINT_ADDED: TAINT_REMOVED, TAINT_REMOVED: TAINT_ADDED}


def span_lost_writes(result: Exploration, given: Given) -> bool:
    """Let what ticks and passes do be undone there, and done again; False where nothing is written at once."""
    snapshot, scenario, configuration = given
    found = meetings(result, given)
    lost: dict[str, int] = {}
    for one in found:
        (key, _), (low_ns, high_ns) = one.change, one.span
        undone_ns = high_ns + _WRITE_NS + result.ticks_late_ns
        again = _done_again(one, undone_ns, result, snapshot, configuration)
        undoing = NodeChangeKey(key.node, _OPPOSITE[key.what], key.value)
        _perhaps(result, undoing, (low_ns, undone_ns), scenario.end_ns)
        _perhaps(result, key, again, scenario.end_ns)
        if key.what == TAINT_ADDED:
            lost[key.node] = max(lost.get(key.node, 0), again[1] - high_ns)
    for row_key, row in result.evictions.items():
        late_ns = lost.get(row.node)
        if late_ns is not None and follows_lifecycle(row_key, row):
            spans = [(low, min(high + late_ns, scenario.end_ns)) for low, high in row.spans]
            missed = frozenset((WriteConflicts.name,))
            result.evictions[row_key] = row.also_within(spans, missed)
    return bool(found)


def _done_again(
    meeting: Meeting,
    undone_ns: int,
    result: Exploration,
    snapshot: ClusterSnapshot,
    configuration: ControllerConfiguration,
) -> Span:
    """When what was undone by then is done once more: at the next tick, or as late as the node may wait in line after that.

    A first tick takes taints off when it sees that a node is new to it, and again when it looks at its health.
    """
    key, _ = meeting.change
    steps, low_ns = tick_steps(snapshot, configuration), meeting.span[0]
    rate_qps = configuration.node_eviction_rate_qps
    if key.what == TAINT_REMOVED:
        if meeting.at_start:
            return low_ns, undone_ns + steps.longest_ns
        until_ns = NEVER_NS
    elif configuration.profile.queue_mode == "REMOVE_ADD" and rate_qps > 0:
        waiting = _waiting_with(key.node, result.waiting.values())
        until_ns = undone_ns + 2 * steps.longest_ns + (waiting + 1) * token_max_ns(rate_qps)
    else:
        until_ns = NEVER_NS
    return low_ns + steps.shortest_ns, until_ns


def _waiting_with(name: str, lines: Iterable[set[str]]) -> int:
    """How many may wait in one line with the node."""
    return max((len(names) for names in lines if name in names), default=0)


def _perhaps(result: Exploration, key: NodeChangeKey, span: Span, horizon_ns: int) -> None:
    """Let that happen within the span as well, or not."""
    if span[0] <= horizon_ns:
        result.nodes.once_more(key, (span[0], min(span[1], horizon_ns)))
