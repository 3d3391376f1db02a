"""What a reality did and a prediction excludes: every word of the answer, held against one run.

Deletions and taints outside their windows, certain ones that never came, states of zones and statements
about several nodes together likewise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kubectl_evictplan.cluster.timeline import (
    POD_GC,
    SCENARIO,
    AboutNode,
    Entry,
    NodeQueued,
    PodDeleted,
    PodGone,
    TaintAdded,
    ZoneStateChanged,
)
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    NODES_TAINTED,
    Eviction,
    Prediction,
)
from kubectl_evictplan.prediction.nodes import what_changes
from kubectl_evictplan.windows.outcome import DELETED, TAINT_ADDED, TAINT_REMOVED, NodeChangeKey

TOLERANCE_S = 0.001
# Windows are rounded to a microsecond; a last delete this close to the horizon may fall after it.
HORIZON_SLACK_S = 0.02

Span = tuple[float, float]
# Pod as "namespace/name", UID, controller.
DeletionKey = tuple[str, str, str]


class Told(Protocol):
    """A run, told in the user's names."""

    entries: list[Entry]


def predicted(prediction: Prediction) -> dict[DeletionKey, list[Eviction]]:
    """The evictions of a prediction by what they delete and who does it."""
    found: dict[DeletionKey, list[Eviction]] = defaultdict(list)
    for eviction in prediction.evictions:
        found[eviction.key, eviction.uid, eviction.controller].append(eviction)
    return found


def deletions(entries: Iterable[Entry]) -> dict[DeletionKey, list[float]]:
    """When each controller deleted each pod, in seconds."""
    found: dict[DeletionKey, list[float]] = defaultdict(list)
    for entry in entries:
        if isinstance(entry, PodDeleted):
            found[entry.pod, entry.uid, entry.controller].append(entry.at_ns / 1e9)
    return found


def contradictions(horizon_ns: int, prediction: Prediction, reality: Told) -> Iterator[str]:
    """Deletions outside every window, and certain ones that are absent.

    A first delete counts: repetitions change nothing any more.
    """
    windows, deletes = predicted(prediction), deletions(reality.entries)
    for key, instants in deletes.items():
        spans = [span for eviction in windows.get(key, []) for span in spans_of(eviction)]
        if not _any_holds(spans, instants[:1]):
            yield f"{key} deleted at {instants[0]}, predicted {spans}"
    for key, evictions in windows.items():
        for eviction in evictions:
            spans = spans_of(eviction)
            if not _is_due(eviction.certainty, spans[-1][1], horizon_ns):
                continue
            if not _any_holds(spans, deletes.get(key, [])):
                yield f"{key} certain within {spans}, deleted at {deletes.get(key, [])}"


def told_before_start(prediction: Prediction) -> Iterator[str]:
    """Windows that begin before the scenario does: what has happened by then is in its input."""
    for eviction in prediction.evictions:
        if spans_of(eviction)[0][0] < 0:
            yield f"{eviction.key} within {spans_of(eviction)}"
    for node in prediction.nodes:
        for change in node.changes:
            if change.earliest_seconds < 0:
                yield f"{node.node} {change}"
    for zone in prediction.zones:
        for state in zone.states:
            if state.earliest_seconds < 0:
                yield f"zone {zone.zone} {state}"


def spans_of(eviction: Eviction) -> list[Span]:
    """The windows of one eviction."""
    return [(window.earliest_seconds, window.latest_seconds) for window in eviction.windows]


def _is_due(certainty: str, latest_seconds: float, horizon_ns: int) -> bool:
    return certainty == CERTAIN and latest_seconds <= horizon_ns / 1e9 - HORIZON_SLACK_S


def _any_holds(spans: Iterable[Span], instants: Sequence[float]) -> bool:
    return any(
        low - TOLERANCE_S <= at <= high + TOLERANCE_S for low, high in spans for at in instants
    )


def node_contradictions(
    prediction: Prediction, reality: Told, horizon_ns: int | None = None
) -> Iterator[str]:
    """Likewise of nodes; with a horizon also what is certain there and did not come."""
    windows = defaultdict(list)
    for report in prediction.nodes:
        for change in report.changes:
            window = change.earliest_seconds, change.latest_seconds
            windows[report.node, change.what, change.value].append((change.certainty, window))
    has = {
        (report.node, f"{taint.key}:{taint.effect}")
        for report in prediction.nodes
        for taint in report.taints_at_start
    }
    happened = defaultdict(list)
    for key, entry, anew in node_changes(reality.entries, has):
        at = entry.at_ns / 1e9
        happened[key].append(at)
        spans = [span for _, span in windows.get(key, [])]
        if anew and not _any_holds(spans, [at]):
            yield f"{key} at {at}, predicted {spans}"
    if horizon_ns is not None:
        yield from _certain_and_absent(windows, happened, horizon_ns)


def node_changes(
    entries: Iterable[Entry], has: set[tuple[str, str]]
) -> Iterator[tuple[NodeChangeKey, AboutNode, bool]]:
    """What nodes show, with its entry, and whether it is news: a taint that is put on once more changes nothing.

    ``has``: the taints (node, key and effect) of the start.
    """
    for entry in entries:
        change = what_changes(entry) if isinstance(entry, AboutNode) else None
        if change is None:
            continue
        assert isinstance(entry, AboutNode)
        what, value = change
        anew = what != TAINT_ADDED or (entry.node, value) not in has
        if what == TAINT_ADDED:
            has.add((entry.node, value))
        elif what == TAINT_REMOVED:
            has.discard((entry.node, value))
        elif what == DELETED:
            has -= {each for each in has if each[0] == entry.node}
        yield NodeChangeKey(entry.node, what, value), entry, anew


def zone_contradictions(prediction: Prediction, reality: Told, horizon_ns: int) -> Iterator[str]:
    """States of zones that hold an affected node; they are reported from the start on."""
    windows = defaultdict(list)
    for report in prediction.zones:
        for state in report.states:
            window = state.earliest_seconds, state.latest_seconds
            windows[report.zone, state.state].append((state.certainty, window))
    told = {report.zone for report in prediction.zones}
    happened = defaultdict(list)
    for entry in reality.entries:
        if isinstance(entry, ZoneStateChanged) and entry.zone in told:
            happened[entry.zone, entry.state].append(entry.at_ns / 1e9)
    for key, instants in happened.items():
        spans = [span for _, span in windows.get(key, [])]
        for at in instants:
            if not _any_holds(spans, [at]):
                yield f"zone {key} at {at}, predicted {spans}"
    later = {
        key: [(how, span) for how, span in rows if span[1] > 0] for key, rows in windows.items()
    }
    yield from _certain_and_absent(later, happened, horizon_ns)


def end_contradictions(prediction: Prediction, reality: Told, horizon_ns: int) -> Iterator[str]:
    """Objects of deleted pods that are gone earlier or later than told, or at all where they are told to stay."""
    ends = {
        (entry.pod, entry.uid): entry.at_ns / 1e9
        for entry in reality.entries
        if isinstance(entry, PodGone)
    }
    deletes = deletions(reality.entries)
    for key, evictions in predicted(prediction).items():
        for gone in (each.gone for each in evictions if key in deletes):
            at, low, high = ends.get(key[:2]), gone.earliest_seconds, gone.latest_seconds
            if at is not None and low is not None and at < low - TOLERANCE_S:
                yield f"{key} gone at {at}, predicted {gone}"
            if high is None or high > horizon_ns / 1e9 - HORIZON_SLACK_S:
                continue
            if at is None or at > high + TOLERANCE_S:
                yield f"{key} gone at {at}, predicted {gone}"


def joint_contradictions(
    prediction: Prediction, reality: Told, zones: Mapping[str, str]
) -> Iterator[str]:
    """Fewer nodes tainted, or pods evicted, than told of all together, or more. ``zones``: of each node that of the answer; none where one has several."""
    for joint in prediction.joint:
        scope, _, name = joint.scope.partition("/")
        if scope not in ("zone", "pod") or (scope == "zone" and not zones):
            continue
        # What comes within the tolerance may be told as in time; it need not be.
        in_time, perhaps = (
            [entry for entry in reality.entries if entry.at_ns <= (joint.by_seconds + late) * 1e9]
            for late in (0, TOLERANCE_S)
        )
        if scope == "pod":
            deleted = (each for each in perhaps if isinstance(each, PodDeleted))
            least = most = int(any(each.pod == name for each in deleted))
        elif joint.what == NODES_TAINTED:
            served = _nodes_served(perhaps, name, zones)
            least, most = len(served), len(_nodes_served(in_time, name, zones))
            if most > joint.most:
                # Who exchanges one taint for another need not have waited for that.
                most = len(_nodes_served(in_time, name, zones) - _tainted_at_start(prediction))
        else:
            least = len(_pods_evicted(perhaps, name, zones))
            # Pods of nodes that never waited are not among those that it is about: they go for taints that somebody put on.
            waited = {entry.node for entry in in_time if isinstance(entry, NodeQueued)}
            own = {node: zone for node, zone in zones.items() if node in waited}
            most = len(_pods_evicted(in_time, name, own))
        # Nodes that do not wait, and their pods, are not among those that it is about.
        if least < joint.least or joint.most < most <= joint.of:
            yield f"{least if least < joint.least else most}, predicted {joint}"


def _nodes_served(entries: Iterable[Entry], zone: str, zones: Mapping[str, str]) -> set[str]:
    """Nodes of the zone that node lifecycle has tainted."""
    return {
        entry.node
        for entry in entries
        if isinstance(entry, TaintAdded) and zones.get(entry.node) == zone
        if is_lifecycle_no_execute(entry.taint) and entry.by != SCENARIO
    }


def _pods_evicted(
    entries: Iterable[Entry], zone: str, zones: Mapping[str, str]
) -> set[tuple[str, str]]:
    return {
        (entry.pod, entry.uid)
        for entry in entries
        if isinstance(entry, PodDeleted) and zones.get(entry.node) == zone
        if entry.controller != POD_GC
    }


def _tainted_at_start(prediction: Prediction) -> set[str]:
    return {report.node for report in prediction.nodes if report.taints_at_start}


def _certain_and_absent(
    windows: Mapping[Any, Iterable[tuple[str, Span]]],
    happened: Mapping[Any, Sequence[float]],
    horizon_ns: int,
) -> Iterator[str]:
    for key, rows in windows.items():
        for certainty, span in rows:
            due = _is_due(certainty, span[1], horizon_ns)
            if due and not _any_holds([span], happened.get(key, [])):
                yield f"{key} certain within {span}, was at {happened.get(key, [])}"
