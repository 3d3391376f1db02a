"""Nodes as replacements find them: with every taint and cordon of the change on them.

Replacements come while evictions go on. What the change puts on a node before the last eviction counts; what is taken
off again counts as gone only if that surely comes before the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Node, Taint
from kubectl_evictplan.kube.taints import UNSCHEDULABLE, with_taint_appended, without_taint
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import CERTAIN, NodeReport
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, Cordon, CreateNode, Uncordon
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.windows import outcome


class LaterNodes(msgspec.Struct, frozen=True):
    """``nodes`` as they are then; ``leaving``, as they were, those of which the change takes its pods."""

    nodes: tuple[Node, ...]
    leaving: tuple[Node, ...]


def later_nodes(
    nodes: Iterable[Node],
    reports: Iterable[NodeReport],
    events: Iterable[ScenarioEvent],
    evicting: Iterable[str],
    between_seconds: tuple[float, float],
) -> LaterNodes:
    """Return what becomes of the nodes between the first and the last eviction.

    ``evicting`` are the names of nodes that lose pods.
    """
    by_name = {report.node: report for report in reports}
    events = list(events)
    values = {
        (event.taint.key, event.taint.effect): event.taint
        for event in events
        if isinstance(event, AddTaint)
    }
    cordoned = _cordoned(events, between_seconds)
    losing = set(evicting)
    found, leaving = [], []
    for node in nodes:
        report = by_name.get(node.name)
        later: Node | None = node
        if report is not None or node.name in cordoned:
            later = _later(node, report, values, cordoned.get(node.name), between_seconds)
        if later is not None:
            found.append(later)
        if later is not node and (
            node.name in losing or later is None or _refuses_more(node, later)
        ):
            leaving.append(node)
    created = [event.node for event in events if isinstance(event, CreateNode)]
    names = {node.name for node in found}
    found += [node for node in created if node.name not in names]
    return LaterNodes(tuple(found), tuple(leaving))


def _cordoned(
    events: Iterable[ScenarioEvent], between_seconds: tuple[float, float]
) -> dict[str, bool]:
    """Whether nodes are cordoned between the evictions, as far as somebody says so."""
    first, last = between_seconds
    found: dict[str, bool] = {}
    for event in events:
        takes_pods = isinstance(event, Uncordon)
        if isinstance(event, Cordon | Drain):
            if seconds(event.at_ns) <= (first if takes_pods else last):
                found.update((name, not takes_pods) for name in event.nodes)
    return found


def _later(
    node: Node,
    report: NodeReport | None,
    values: Mapping[tuple[str, str], Taint],
    cordoned: bool | None,
    between_seconds: tuple[float, float],
) -> Node | None:
    """Return the node then, None when it is deleted; the node itself when nothing changes."""
    first, last = between_seconds
    taints = node.taints
    for change in report.changes if report is not None else ():
        if change.earliest_seconds > last:
            continue
        key, _, effect = change.value.rpartition(":")
        if change.what == outcome.DELETED:
            return None
        if change.what == outcome.TAINT_ADDED:
            taints = with_taint_appended(taints, values.get((key, effect)) or Taint(key, effect))
        elif change.what == outcome.TAINT_REMOVED:
            if change.certainty == CERTAIN and change.latest_seconds <= first:
                taints = without_taint(taints, key, effect)
    unschedulable = node.unschedulable if cordoned is None else cordoned
    if unschedulable and not node.unschedulable:
        taints = with_taint_appended(taints, Taint(UNSCHEDULABLE, NO_SCHEDULE))
    if taints == node.taints and unschedulable == node.unschedulable:
        return node
    return replace(node, taints=taints, unschedulable=unschedulable)


def _refuses_more(before: Node, later: Node) -> bool:
    """Whether it refuses pods by something that it had not: a cordon's own taint, set late, is nothing new."""
    known = {(taint.key, taint.effect) for taint in before.taints}
    if before.unschedulable:
        known.add((UNSCHEDULABLE, NO_SCHEDULE))
    return (later.unschedulable and not before.unschedulable) or any(
        taint.effect in (NO_SCHEDULE, NO_EXECUTE) and (taint.key, taint.effect) not in known
        for taint in later.taints
    )
