"""Which timers may end because a late tick takes their taint off late.

Node lifecycle takes its taint off a node that is heard again, or once all zones are down: at a tick. Where that tick waits for its
client the taint stands for longer than in any run, and a timer may be over first. Bounds: from the time of the taint on, as long as
the pod tolerates it, and until the tick is through.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from kubectl_evictplan.kube.objects import Node, Taint
from kubectl_evictplan.kube.taints import LIFECYCLE_NO_EXECUTE, is_lifecycle_no_execute
from kubectl_evictplan.simulation.running_timers import runs_out_within
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.late_windows import LateRows
from kubectl_evictplan.windows.outcome import (
    TAINT_ADDED,
    TAINT_REMOVED,
    Exploration,
    NodeChangeKey,
    WindowOverRuns,
)
from kubectl_evictplan.windows.pod_worlds import versions_on
from kubectl_evictplan.windows.processes_up import ProcessLife, process_lives
from kubectl_evictplan.windows.spans import Span


class _Tainted(msgspec.Struct, frozen=True):
    """A taint that a node gets within ``put``, or has at the start, and loses at the latest ``until_ns``."""

    taint: Taint
    put: Span | None
    until_ns: int


def span_late_removals(result: Exploration, given: Given, missed: frozenset[str]) -> None:
    """Let windows of deletions reach to where the taint is taken off, once that is put off by the unknowns that were ``missed``."""
    snapshot, scenario, configuration = given
    if not configuration.taint_eviction_enabled:
        return
    nodes = {node.name: node for node in snapshot.nodes}
    tainted, lives = _taken_off(result, nodes), process_lives(scenario)
    rows = LateRows(result, configuration, scenario.end_ns, missed)
    for version in versions_on(snapshot, tainted, scenario):
        pod, since_ns = version.pod, version.since_ns
        for one in tainted.get(pod.node_name, ()):
            delay_ns = rows.delay_ns(pod, one.taint)
            if delay_ns is None:
                continue
            for life in lives:
                if one.put is None and life.warm and since_ns < 0:
                    node, start_ns = nodes[pod.node_name], scenario.start_ns
                    due = runs_out_within(node, pod, snapshot, start_ns, configuration)
                else:
                    due = _begun(one, life, since_ns, delay_ns)
                if due is not None:
                    rows.put(pod, one.taint, (due[0], min(due[1], one.until_ns, life.ends_ns)))


def _begun(one: _Tainted, life: ProcessLife, since_ns: int, delay_ns: int) -> Span | None:
    """When a timer ends that the process begins for the taint, of a pod that is there so since then; it forgets it with its end."""
    put = one.put or (0, 0)
    low_ns, high_ns = (max(ends) for ends in zip(put, life.begins, (since_ns,) * 2, strict=True))
    if low_ns > min(life.ends_ns, one.until_ns):
        return None
    return low_ns + delay_ns, high_ns + delay_ns


def _taken_off(result: Exploration, nodes: dict[str, Node]) -> dict[str, list[_Tainted]]:
    """By node the taints of node lifecycle that ticks take off again."""
    found: defaultdict[str, list[_Tainted]] = defaultdict(list)
    windows = result.nodes.by_key()
    for key, removals in windows.items():
        taint = LIFECYCLE_NO_EXECUTE.get(key.value)
        if key.what != TAINT_REMOVED or taint is None:
            continue
        added = windows.get(NodeChangeKey(key.node, TAINT_ADDED, key.value), ())
        for put in _put(added, nodes.get(key.node), taint):
            if (until_ns := _removed_by_ns(removals, put)) is not None:
                found[key.node].append(_Tainted(taint, put, until_ns))
    return found


def _put(added: Iterable[WindowOverRuns], node: Node | None, taint: Taint) -> Iterator[Span | None]:
    """When the node gets the taint; None: it has it at the start."""
    if node is not None and any(
        taint.key == each.key and is_lifecycle_no_execute(each) for each in node.taints
    ):
        yield None
    yield from (window.span for window in added)


def _removed_by_ns(removals: Iterable[WindowOverRuns], put: Span | None) -> int | None:
    """Until when a taint that comes then is there if one of these takes it off; None where none can."""
    low_ns, high_ns = put or (0, 0)
    until_ns = None
    for window in sorted(removals, key=lambda one: one.latest_ns):
        if window.latest_ns >= low_ns:
            until_ns = window.latest_ns
            if window.earliest_ns > high_ns and not window.unsure:
                break
    return until_ns
