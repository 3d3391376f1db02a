"""Nodes as replacements find them: with every taint and cordon of the change on them.

Replacements come while evictions go on. What the change puts on a node before the last eviction counts; what is taken
off again counts as gone only if that surely comes before the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.impact.node_phases import NodeKind
from kubectl_evictplan.kube.objects import NO_EXECUTE, NO_SCHEDULE, Node, Taint
from kubectl_evictplan.kube.taints import UNSCHEDULABLE, with_taint_appended, without_taint
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import CERTAIN
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
    kinds: Iterable[NodeKind],
    events: Sequence[ScenarioEvent],
    evicting: Iterable[str],
    between_seconds: tuple[float, float],
) -> LaterNodes:
    """Return what becomes of the nodes between the first and the last eviction. ``kinds``: of those to which something happens.

    ``evicting`` are the names of nodes that lose pods.
    """
    values = {
        (event.taint.key, event.taint.effect): event.taint
        for event in events
        if isinstance(event, AddTaint)
    }
    cordoned = _cordoned(events, between_seconds)
    then: dict[str, Node | None] = {}
    for kind in kinds:
        # All of them are cordoned at the same time.
        cordon = cordoned.get(kind.nodes[0].name)
        then.update(_later(kind, values, cordon, between_seconds))
    losing = set(evicting)
    found, leaving = [], []
    for node in nodes:
        later = then.get(node.name, node)
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
    kind: NodeKind,
    values: Mapping[tuple[str, str], Taint],
    cordoned: bool | None,
    between_seconds: tuple[float, float],
) -> Mapping[str, Node | None]:
    """Return by name each node then, None when it is deleted; nothing where nothing changes."""
    first, last = between_seconds
    node, report = kind.nodes[0], kind.report
    taints = node.taints
    for change in report.changes if report is not None else ():
        if change.earliest_seconds > last:
            continue
        key, _, effect = change.value.rpartition(":")
        if change.what == outcome.DELETED:
            return dict.fromkeys(node.name for node in kind.nodes)
        if change.what == outcome.TAINT_ADDED:
            taints = with_taint_appended(taints, values.get((key, effect)) or Taint(key, effect))
        elif change.what == outcome.TAINT_REMOVED:
            if change.certainty == CERTAIN and change.latest_seconds <= first:
                taints = without_taint(taints, key, effect)
    unschedulable = node.unschedulable if cordoned is None else cordoned
    if unschedulable and not node.unschedulable:
        taints = with_taint_appended(taints, Taint(UNSCHEDULABLE, NO_SCHEDULE))
    if taints == node.taints and unschedulable == node.unschedulable:
        return {}
    return {
        node.name: replace(node, taints=taints, unschedulable=unschedulable) for node in kind.nodes
    }


def _refuses_more(before: Node, later: Node) -> bool:
    """Whether it refuses pods by something that it had not: a cordon's own taint, set late, is nothing new."""
    known = {(taint.key, taint.effect) for taint in before.taints}
    if before.unschedulable:
        known.add((UNSCHEDULABLE, NO_SCHEDULE))
    return (later.unschedulable and not before.unschedulable) or any(
        taint.effect in (NO_SCHEDULE, NO_EXECUTE) and (taint.key, taint.effect) not in known
        for taint in later.taints
    )
