"""Affected nodes and their zones over time, with windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.timeline import AboutNode, Timeline, ZoneStateRecorded
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.taints import key_and_effect
from kubectl_evictplan.kube.topology import get_zone_key, zone_display_name
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    POSSIBLE,
    NodeChange,
    NodeReport,
    TaintReference,
    ZoneReport,
    ZoneState,
)
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    TAINT_REMOVED,
    Exploration,
    NodeChangeKey,
    ZoneStateKey,
)
from kubectl_evictplan.windows.windows import WindowOverRuns


def node_reports(
    nominal: Timeline,
    exploration: Exploration,
    nodes: Mapping[str, Node],
    configuration: ControllerConfiguration,
) -> tuple[NodeReport, ...]:
    """Affected nodes by name, each with its changes in the order of time."""
    entries: dict[NodeChangeKey, list[AboutNode]] = {}
    for entry in nominal.entries:
        if isinstance(entry, AboutNode) and (change := what_changes(entry)) is not None:
            entries.setdefault(NodeChangeKey(entry.node, *change), []).append(entry)
    windows: dict[NodeChangeKey, list[WindowOverRuns]] = {}
    for (key, _), window in sorted(exploration.nodes.windows.items()):
        windows.setdefault(key, []).append(window)
    by_node: dict[str, list[NodeChange]] = {}
    for key in {**entries, **windows}:
        for found in _matched(entries.get(key, []), windows.get(key, [])):
            by_node.setdefault(key.node, []).append(_change(key, *found, exploration.runs))
    names = exploration.affected | {key.node for key in entries}
    return tuple(
        _report(name, nodes.get(name), by_node.get(name, []), configuration)
        for name in sorted(names)
    )


def _report(
    name: str, node: Node | None, changes: list[NodeChange], configuration: ControllerConfiguration
) -> NodeReport:
    # A swap adds before it removes; a taint that is put back has gone before, at a surer instant.
    changes.sort(key=lambda c: (c.earliest_seconds, c.latest_seconds, c.what, c.value))
    if node is None:
        return NodeReport(name, "", "<unknown>", (), tuple(changes))
    ready = node.condition("Ready")
    return NodeReport(
        node=name,
        zone=zone_display_name(
            get_zone_key(node.labels, ga_labels=configuration.profile.ga_zone_labels)
        ),
        ready_at_start=ready.status if ready is not None else "<unknown>",
        taints_at_start=tuple(TaintReference(t.key, t.effect, t.value) for t in node.taints),
        changes=tuple(changes),
    )


def _matched(
    entries: list[AboutNode], windows: list[WindowOverRuns]
) -> Iterator[tuple[AboutNode | None, WindowOverRuns | None]]:
    """Each entry of the nominal run with the window it lies in, then the windows that it misses."""
    left = list(windows)
    for entry in entries:
        own = next((w for w in left if w.earliest_ns <= entry.at_ns <= w.latest_ns), None)
        if own is not None:
            left.remove(own)
        yield entry, own
    yield from ((None, window) for window in left)


def what_changes(entry: AboutNode) -> tuple[str, str] | None:
    """(what, value) of a ``NodeChange``; None for entries that change nothing that a node shows."""
    match entry:
        case timeline.NodeBecameUnknown():
            return READY, "Unknown"
        case timeline.NodeReadyPosted(status=status):
            return READY, status
        case timeline.TaintAdded(taint=taint):
            return TAINT_ADDED, key_and_effect(taint)
        case timeline.TaintRemoved(taint=taint):
            return TAINT_REMOVED, key_and_effect(taint)
        case timeline.NodeCreated():
            return "created", ""
        case timeline.NodeDeleted():
            return "deleted", ""
    return None


def _change(
    key: NodeChangeKey, entry: AboutNode | None, window: WindowOverRuns | None, runs: int
) -> NodeChange:
    if window is not None:
        certain = window.runs >= runs and not window.unsure
    else:
        certain = not key.what.startswith("taint")
    by = entry.by if isinstance(entry, timeline.TaintChanged) else ""
    return NodeChange(key.what, key.value, *_when(certain, entry, window), by)


def _when(
    certain: bool, entry: timeline.Entry | None, window: WindowOverRuns | None
) -> tuple[str, float | None, float, float]:
    """Certainty, offset in the nominal run, earliest and latest: the hull of both."""
    offsets = [seconds(entry.at_ns)] if entry is not None else []
    bounds = [seconds(window.earliest_ns), seconds(window.latest_ns)] if window is not None else []
    hull = sorted(offsets + bounds)
    return CERTAIN if certain else POSSIBLE, offsets[0] if offsets else None, hull[0], hull[-1]


def zone_reports(
    nominal: Timeline, exploration: Exploration, zones: set[str]
) -> tuple[ZoneReport, ...]:
    """States of the zones that hold an affected node."""
    states: dict[str, list[ZoneState]] = {zone: [] for zone in sorted(zones)}
    windows = dict(exploration.zones.windows)
    counts: Counter[ZoneStateKey] = Counter()
    for entry in nominal.entries:
        if not isinstance(entry, ZoneStateRecorded) or entry.zone not in states:
            continue
        if isinstance(entry, timeline.ZoneStateAtStart):
            when = _when(True, entry, None)
        else:
            key = ZoneStateKey(entry.zone, entry.state)
            window = windows.pop((key, counts[key]), None)
            counts[key] += 1
            certain = window is not None and window.runs >= exploration.runs
            when = _when(certain, entry, window)
        states[entry.zone].append(_zone_state(entry, when))
    for (key, _), window in windows.items():
        if key.zone in states:
            sample = exploration.zone_samples[key]
            when = _when(window.runs >= exploration.runs, None, window)
            states[key.zone].append(_zone_state(sample, when))
    return tuple(
        ZoneReport(zone, tuple(sorted(found, key=lambda s: (s.earliest_seconds, s.state))))
        for zone, found in states.items()
    )


def _zone_state(
    entry: ZoneStateRecorded, when: tuple[str, float | None, float, float]
) -> ZoneState:
    return ZoneState(entry.state, *when, round(entry.rate_qps, 6), entry.ready, entry.not_ready)
