"""When a change began that somebody else carried out, by what it left in the cluster.

A taint that the change puts on tells when it was added, the first eviction of a drain, the taint of a node that
it cordoned, and the first node that was given up tell it within their own windows. All of them are guesses about which event was meant, so
they are used only where nobody says when it began.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.cluster.timeline import BY_DRAINS, SCENARIO
from kubectl_evictplan.kube.durations import MINUTE_NS, SECOND_NS
from kubectl_evictplan.kube.objects import NO_SCHEDULE, Taint
from kubectl_evictplan.kube.sightings import Interval, SeenNode, whole_second
from kubectl_evictplan.kube.taints import UNSCHEDULABLE, key_and_effect
from kubectl_evictplan.plans.expectation import Expectation, Start, planned_start_ns
from kubectl_evictplan.plans.node_histories import node_histories
from kubectl_evictplan.plans.sightings import PodHistories, Sightings
from kubectl_evictplan.prediction.document import CERTAIN, NodeChange
from kubectl_evictplan.windows.outcome import READY, TAINT_ADDED

# A beginning that is known less closely would make any deletion look as predicted.
WIDTH_MAX_NS = MINUTE_NS
# Node lifecycle's workers are told of a changed node at once; more than this they are not behind.
CORDON_SEEN_NS = 2 * SECOND_NS
# How long kubectl takes to cordon the nodes of a drain before it comes to the first, at most.
CORDON_TAKES_NS = 2 * SECOND_NS
_CORDONED = key_and_effect(Taint(UNSCHEDULABLE, NO_SCHEDULE))


def beginning(expectation: Expectation, sightings: Sightings) -> Start | None:
    """Return when the change began where nobody says so: by the prediction's own start, if it was given."""
    start = expectation.prediction.inputs.start
    planned_ns = planned_start_ns(expectation.prediction)
    if not expectation.operations and start.source == "given" and planned_ns is not None:
        return Start(Interval(planned_ns, planned_ns), "plan")
    return detected_start(expectation, sightings)


def detected_start(expectation: Expectation, sightings: Sightings) -> Start | None:
    """Return when the change began by what was seen; None when nothing tells it closely."""
    for found in (_by_taints, _by_evictions, _by_cordons, _by_ready):
        starts = list(found(expectation, sightings))
        if not starts:
            continue
        at = Interval(min(one.earliest_ns for one in starts), max(one.latest_ns for one in starts))
        if at.width_ns <= WIDTH_MAX_NS:
            return Start(at, "nodes")
    return None


def _by_taints(expectation: Expectation, sightings: Sightings) -> Iterator[Interval]:
    nodes = {node.name: node for look in sightings.looks for node in look.nodes or ()}
    for name, change in _node_changes(expectation, TAINT_ADDED):
        if change.by != SCENARIO or name not in nodes:
            continue
        added = _added(nodes[name], change.value)
        if added is not None and added.latest_ns >= expectation.known_at_ns:
            yield added.later(-round(change.earliest_seconds * SECOND_NS))


def _added(node: SeenNode, value: str) -> Interval | None:
    """Return when a node got a taint; None when it has none such, or does not tell."""
    for taint in node.taints:
        if key_and_effect(taint) != value:
            continue
        if taint.time_added_ns is not None:
            return whole_second(taint.time_added_ns)
        newest_ns = node.taints_changed_ns
        others = [one.time_added_ns for one in node.taints if one.time_added_ns is not None]
        # Otherwise the newest change of its taints may be another one.
        if newest_ns is not None and max(others, default=0) < newest_ns:
            return whole_second(newest_ns)
    return None


def _by_evictions(expectation: Expectation, sightings: Sightings) -> Iterator[Interval]:
    histories = PodHistories(sightings)
    mine = [one for one in expectation.prediction.evictions if one.controller in BY_DRAINS]
    deletions = [
        history.deletion.sure
        for one in mine
        if (history := histories.by_uid.get(one.uid)) is not None
        and history.deletion is not None
        and history.deletion.sure.width_ns < SECOND_NS
        and history.deletion.sure.latest_ns >= expectation.known_at_ns
    ]
    if deletions:
        first = min(deletions)
        yield Interval(
            first.earliest_ns - round(min(one.latest_seconds for one in mine) * SECOND_NS),
            first.latest_ns - round(min(one.earliest_seconds for one in mine) * SECOND_NS),
        )


def _by_cordons(expectation: Expectation, sightings: Sightings) -> Iterator[Interval]:
    """When nodes of drains were cordoned: node lifecycle says so by a taint, a moment later, while it runs.

    kubectl cordons all nodes of a drain before it evicts from the first.
    """
    nodes = {node.name: node for look in sightings.looks for node in look.nodes or ()}
    starts = [one for one in expectation.prediction.drains if one.start_seconds is not None]
    for drain in starts:
        if drain.node not in nodes:
            continue
        first = min(
            (one for one in starts if one.origin == drain.origin),
            key=lambda one: one.start_seconds or 0.0,
        )
        # The first node's pods are looked at when all nodes are cordoned, a request or so each.
        from_ns = max(round((first.start_seconds or 0.0) * SECOND_NS) - CORDON_TAKES_NS, 0)
        to_ns = round((first.start_latest_seconds or first.start_seconds or 0.0) * SECOND_NS)
        added = _added(nodes[drain.node], _CORDONED)
        if added is not None and added.earliest_ns >= expectation.known_at_ns:
            yield Interval(added.earliest_ns - CORDON_SEEN_NS - to_ns, added.latest_ns - from_ns)


def _by_ready(expectation: Expectation, sightings: Sightings) -> Iterator[Interval]:
    histories = node_histories(sightings, expectation.known_at_ns)
    for name, change in _node_changes(expectation, READY):
        if change.value != "Unknown" or change.certainty != CERTAIN or name not in histories:
            continue
        for seen in histories[name].changes:
            is_it = seen.what == READY and seen.values == ("Unknown",)
            if is_it and seen.at.latest_ns >= expectation.known_at_ns:
                yield Interval(
                    seen.at.earliest_ns - round(change.latest_seconds * SECOND_NS),
                    seen.at.latest_ns - round(change.earliest_seconds * SECOND_NS),
                )
                return


def _node_changes(expectation: Expectation, what: str) -> Iterator[tuple[str, NodeChange]]:
    """Yield the first such change of every node."""
    for report in expectation.prediction.nodes:
        first = next((one for one in report.changes if one.what == what), None)
        if first is not None:
            yield report.node, first
