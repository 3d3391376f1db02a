"""What became of nodes, by looks at them and by events: their Ready condition and their taints over time.

A taint of a controller tells when it was added (``timeAdded``), Ready since when it is what it is. What came
and went between two looks leaves no mark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.sightings import (
    NODE_NOT_READY,
    Interval,
    SeenEvent,
    SeenNode,
    whole_second,
)
from kubectl_evictplan.kube.taints import key_and_effect
from kubectl_evictplan.plans.sightings import Sightings
from kubectl_evictplan.windows.outcome import DELETED, READY, TAINT_ADDED, TAINT_REMOVED

_NOT_TRUE = ("False", "Unknown")


class NodeChangeSeen(msgspec.Struct, frozen=True, order=True):
    """A change of a node: ``what`` and ``value`` as in a prediction's ``NodeChange``.

    ``values``: it is one of these, where an event does not tell which.
    """

    at: Interval
    what: str
    values: tuple[str, ...]


class NodeHistory(msgspec.Struct, frozen=True):
    """All changes in order; the last look at the node (None: it was missing then) and when that was."""

    changes: tuple[NodeChangeSeen, ...] = ()
    last: SeenNode | None = None
    last_at: Interval | None = None


def node_histories(sightings: Sightings, start_ns: int) -> dict[str, NodeHistory]:
    """Return the history of every node that was looked at, or that an event names."""
    seen: dict[str, list[tuple[Interval, SeenNode | None]]] = defaultdict(list)
    looks = sorted(
        (look for look in sightings.looks if look.nodes is not None),
        key=lambda look: (look.at.latest_ns, look.at.earliest_ns),
    )
    names = {node.name for look in looks for node in look.nodes or ()}
    for look in looks:
        nodes = {node.name: node for node in look.nodes or ()}
        for name in names:
            if name in nodes or not look.may_hide_node(name):
                seen[name].append((look.at, nodes.get(name)))
    events = defaultdict(list)
    for event in dict.fromkeys(sightings.events):
        if event.kind == "Node":
            events[event.name].append(event)
    return {name: _history(seen[name], events[name], start_ns) for name in sorted({*seen, *events})}


def _history(
    seen: list[tuple[Interval, SeenNode | None]], events: Iterable[SeenEvent], start_ns: int
) -> NodeHistory:
    changes = set(_by_events(events))
    before: SeenNode | None = None
    before_at: Interval | None = None
    for at, node in seen:
        since_ns = start_ns if before_at is None else before_at.earliest_ns
        between = Interval(min(since_ns, at.latest_ns), at.latest_ns)
        changes |= _between(before, node, between, is_first=before_at is None)
        before, before_at = node, at
    told = _without_repeats(sorted(changes))
    return NodeHistory(tuple(told), before, before_at)


def _between(
    before: SeenNode | None, node: SeenNode | None, between: Interval, *, is_first: bool
) -> set[NodeChangeSeen]:
    """Return what changed from one look to the next; the first look tells by timestamps alone."""
    if node is None:
        return set() if before is None else {NodeChangeSeen(between, DELETED, ("",))}
    changes: set[NodeChangeSeen] = set()
    if before is not None and "" != before.uid != node.uid != "":
        changes.add(NodeChangeSeen(between, DELETED, ("",)))
    known = before if before is not None and before.uid == node.uid else None
    if node.ready_since_ns is not None and (known is None or known.ready != node.ready):
        at = whole_second(node.ready_since_ns)
        changes.add(NodeChangeSeen(at, READY, (node.ready,)))
    old = {_identity(taint) for taint in known.taints} if known else set()
    for taint in node.taints:
        if _identity(taint) in old:
            continue
        if taint.time_added_ns is not None:
            at = whole_second(taint.time_added_ns)
        elif is_first and node.taints_changed_ns is None:
            continue
        else:
            at = _changed(node, between)
        changes.add(NodeChangeSeen(at, TAINT_ADDED, (key_and_effect(taint),)))
    now = {_identity(taint) for taint in node.taints}
    for taint in known.taints if known else ():
        if _identity(taint) not in now:
            at = _changed(node, between)
            changes.add(NodeChangeSeen(at, TAINT_REMOVED, (key_and_effect(taint),)))
    return changes


def _changed(node: SeenNode, between: Interval) -> Interval:
    """Return when taints changed between two looks: not after the newest change of any of them."""
    if node.taints_changed_ns is None:
        return between
    return (
        whole_second(node.taints_changed_ns)
        ._replace(earliest_ns=between.earliest_ns)
        .common(between)
        or between
    )


def _identity(taint: Taint) -> tuple[str, str, str, int | None]:
    return taint.key, taint.effect, taint.value, taint.time_added_ns


def _by_events(events: Iterable[SeenEvent]) -> Iterable[NodeChangeSeen]:
    for event in events:
        for at in dict.fromkeys((event.first, event.last)):
            if event.reason == NODE_NOT_READY:
                yield NodeChangeSeen(at, READY, _NOT_TRUE)


def _without_repeats(changes: Iterable[NodeChangeSeen]) -> Iterable[NodeChangeSeen]:
    """Leave out what an event repeats of a change that the node itself tells."""
    kept: list[NodeChangeSeen] = []
    for change in changes:
        twins = [
            other
            for other in kept
            if other.what == change.what == READY
            and set(other.values) & set(change.values)
            and other.at.meets(change.at.later(0))
            and len(other.values) != len(change.values)
        ]
        if not twins:
            kept.append(change)
        elif len(change.values) == 1:
            kept[kept.index(twins[0])] = change
    return kept
