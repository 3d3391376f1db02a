"""Affected nodes and their zones over time, with windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubectl_evictplan.cluster.timeline import (
    AboutNode,
    Entry,
    NodeBecameUnknown,
    NodeCreated,
    NodeDeleted,
    NodeReadyPosted,
    TaintAdded,
    TaintChanged,
    TaintRemoved,
    Timeline,
    ZoneStateAtStart,
    ZoneStateChanged,
    ZoneStateRecorded,
)
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
    entries = _nominal_changes(nominal)
    windows: dict[NodeChangeKey, list[WindowOverRuns]] = {}
    for (key, _), window in sorted(exploration.nodes.windows.items()):
        windows.setdefault(key, []).append(window)
    names = sorted(exploration.affected | {key.node for key in entries})
    by_node: dict[str, list[NodeChange]] = {name: [] for name in names}
    for key in [*entries, *(key for key in windows if key not in entries)]:
        for entry, found in _matched(entries.get(key, []), windows.get(key, [])):
            if key.node in by_node:
                by_node[key.node].append(_change(key, entry, found, exploration.runs))
    return tuple(
        NodeReport(
            node=name,
            zone=_zone(nodes.get(name), configuration),
            ready_at_start=_ready(nodes.get(name)),
            taints_at_start=_taints(nodes.get(name)),
            changes=tuple(sorted(by_node[name], key=_in_time)),
        )
        for name in names
    )


def _in_time(change: NodeChange) -> tuple[float, float, str, str]:
    """A swap adds before it removes; a taint that is put back has gone before, at a surer instant."""
    return change.earliest_seconds, change.latest_seconds, change.what, change.value


def _nominal_changes(nominal: Timeline) -> dict[NodeChangeKey, list[AboutNode]]:
    changes: dict[NodeChangeKey, list[AboutNode]] = {}
    for entry in nominal.entries:
        if isinstance(entry, AboutNode) and (change := what_changes(entry)) is not None:
            changes.setdefault(NodeChangeKey(entry.node, *change), []).append(entry)
    return changes


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
        case NodeBecameUnknown():
            return READY, "Unknown"
        case NodeReadyPosted(status=status):
            return READY, status
        case TaintAdded(taint=taint):
            return TAINT_ADDED, key_and_effect(taint)
        case TaintRemoved(taint=taint):
            return TAINT_REMOVED, key_and_effect(taint)
        case NodeCreated():
            return "created", ""
        case NodeDeleted():
            return "deleted", ""
    return None


def _change(
    key: NodeChangeKey, entry: Entry | None, window: WindowOverRuns | None, runs: int
) -> NodeChange:
    at_ns = entry.at_ns if entry is not None else None
    earliest_ns = latest_ns = at_ns if at_ns is not None else 0
    certain = True
    if window is not None:
        earliest_ns, latest_ns = window.earliest_ns, window.latest_ns
        certain = window.runs >= runs and not window.unsure
    elif entry is not None and key.what.startswith("taint"):
        certain = False
    return NodeChange(
        what=key.what,
        value=key.value,
        certainty=CERTAIN if certain else POSSIBLE,
        offset_seconds=None if at_ns is None else seconds(at_ns),
        earliest_seconds=seconds(earliest_ns),
        latest_seconds=seconds(latest_ns),
        by=entry.by if isinstance(entry, TaintChanged) else "",
    )


def _zone(node: Node | None, configuration: ControllerConfiguration) -> str:
    if node is None:
        return ""
    ga_labels = configuration.profile.ga_zone_labels
    return zone_display_name(get_zone_key(node.labels, ga_labels=ga_labels))


def _ready(node: Node | None) -> str:
    ready = node.condition("Ready") if node is not None else None
    return ready.status if ready is not None else "<unknown>"


def _taints(node: Node | None) -> tuple[TaintReference, ...]:
    if node is None:
        return ()
    return tuple(TaintReference(t.key, t.effect, t.value) for t in node.taints)


def zone_reports(
    nominal: Timeline, exploration: Exploration, zones: set[str]
) -> tuple[ZoneReport, ...]:
    """States of the zones that hold an affected node."""
    states: dict[str, list[ZoneState]] = {zone: [] for zone in sorted(zones)}
    counts: dict[ZoneStateKey, int] = {}
    seen = set()
    for entry in nominal.entries:
        if isinstance(entry, ZoneStateAtStart) and entry.zone in states:
            states[entry.zone].append(_zone_at_start(entry))
        if not isinstance(entry, ZoneStateChanged) or entry.zone not in states:
            continue
        key = ZoneStateKey(entry.zone, entry.state)
        ordinal = counts[key] = counts.get(key, -1) + 1
        seen.add((key, ordinal))
        window = exploration.zones.windows.get((key, ordinal))
        states[entry.zone].append(_zone_state(entry, entry.state, window, exploration.runs))
    for (key, ordinal), window in exploration.zones.windows.items():
        if (key, ordinal) not in seen and key[0] in states:
            sample = exploration.zone_samples.get(key)
            states[key[0]].append(
                _zone_state(None, key[1], window, exploration.runs, sample=sample)
            )
    return tuple(
        ZoneReport(zone, tuple(sorted(found, key=lambda s: (s.earliest_seconds, s.state))))
        for zone, found in states.items()
    )


def _zone_at_start(entry: ZoneStateAtStart) -> ZoneState:
    return ZoneState(
        state=entry.state,
        certainty=CERTAIN,
        offset_seconds=0.0,
        earliest_seconds=0.0,
        latest_seconds=0.0,
        rate_per_second=_rate(entry),
        ready=entry.ready,
        not_ready=entry.not_ready,
    )


def _zone_state(
    entry: ZoneStateChanged | None,
    state: str,
    window: WindowOverRuns | None,
    runs: int,
    *,
    sample: ZoneStateChanged | None = None,
) -> ZoneState:
    at_ns = entry.at_ns if entry is not None else None
    earliest_ns = latest_ns = at_ns or 0
    certain = False
    if window is not None:
        earliest_ns, latest_ns = window.earliest_ns, window.latest_ns
        certain = window.runs >= runs
        if at_ns is not None:
            earliest_ns, latest_ns = min(earliest_ns, at_ns), max(latest_ns, at_ns)
    known = entry if entry is not None else sample
    return ZoneState(
        state=state,
        certainty=CERTAIN if certain else POSSIBLE,
        offset_seconds=None if at_ns is None else seconds(at_ns),
        earliest_seconds=seconds(earliest_ns),
        latest_seconds=seconds(latest_ns),
        rate_per_second=_rate(known) if known is not None else None,
        ready=known.ready if known is not None else 0,
        not_ready=known.not_ready if known is not None else 0,
    )


def _rate(entry: ZoneStateRecorded) -> float:
    return round(entry.rate_qps, 6)
