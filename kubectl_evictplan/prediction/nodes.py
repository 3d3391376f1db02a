"""Affected nodes and their zones over time, with windows."""

from __future__ import annotations

from collections.abc import Mapping

from kubectl_evictplan.cluster.timeline import (
    NODE_CREATED,
    NODE_DELETED,
    NODE_READY,
    NODE_UNKNOWN,
    TAINT_ADDED,
    TAINT_REMOVED,
    ZONE_AT_START,
    ZONE_STATE,
    Entry,
    Timeline,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import Node
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
from kubectl_evictplan.windows.outcome import Exploration, NodeChangeKey, ZoneStateKey
from kubectl_evictplan.windows.windows import WindowOverRuns

_WHAT = {
    NODE_UNKNOWN: "ready",
    NODE_READY: "ready",
    TAINT_ADDED: "taint-added",
    TAINT_REMOVED: "taint-removed",
    NODE_CREATED: "created",
    NODE_DELETED: "deleted",
}


def node_reports(
    nominal: Timeline,
    exploration: Exploration,
    nodes: Mapping[str, Node],
    configuration: ControllerConfiguration,
) -> tuple[NodeReport, ...]:
    """Affected nodes by name, each with its changes in the order of the nominal run."""
    changes = _nominal_changes(nominal)
    names = sorted(exploration.affected | {key[0] for key in changes})
    by_node: dict[str, list[NodeChange]] = {name: [] for name in names}
    seen = set()
    for key, (entry, ordinal) in changes.items():
        name, what, value = key[0], key[1], key[2]
        window = exploration.nodes.windows.get((NodeChangeKey(name, what, value), ordinal))
        seen.add((name, what, value, ordinal))
        by_node[name].append(_change(what, value, entry, window, exploration.runs))
    for (node_key, ordinal), window in exploration.nodes.windows.items():
        name, what, value = node_key
        if (name, what, value, ordinal) not in seen and name in by_node:
            by_node[name].append(_change(what, value, None, window, exploration.runs))
    return tuple(
        NodeReport(
            node=name,
            zone=_zone(nodes.get(name), configuration),
            ready_at_start=_ready(nodes.get(name)),
            taints_at_start=_taints(nodes.get(name)),
            changes=tuple(
                sorted(by_node[name], key=lambda c: (c.earliest_seconds, c.what, c.value))
            ),
        )
        for name in names
    )


def _nominal_changes(nominal: Timeline) -> dict[tuple[str, str, str, int], tuple[Entry, int]]:
    changes: dict[tuple[str, str, str, int], tuple[Entry, int]] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for entry in nominal.entries:
        what = _WHAT.get(entry.kind)
        if what is None:
            continue
        value = "Unknown" if entry.kind == NODE_UNKNOWN else entry.value
        key = (entry.subject, what, value)
        ordinal = counts[key] = counts.get(key, -1) + 1
        changes[(*key, ordinal)] = (entry, ordinal)
    return changes


def _change(
    what: str, value: str, entry: Entry | None, window: WindowOverRuns | None, runs: int
) -> NodeChange:
    at_ns = entry.at_ns if entry is not None else None
    earliest_ns = latest_ns = at_ns if at_ns is not None else 0
    certain = True
    if window is not None:
        earliest_ns, latest_ns = window.earliest_ns, window.latest_ns
        certain = window.runs >= runs and not window.unsure
        if at_ns is not None:
            earliest_ns, latest_ns = min(earliest_ns, at_ns), max(latest_ns, at_ns)
    elif entry is not None and what.startswith("taint"):
        certain = False
    return NodeChange(
        what=what,
        value=value,
        certainty=CERTAIN if certain else POSSIBLE,
        offset_seconds=None if at_ns is None else seconds(at_ns),
        earliest_seconds=seconds(earliest_ns),
        latest_seconds=seconds(latest_ns),
        by=entry.detail if entry is not None and entry.kind in (TAINT_ADDED, TAINT_REMOVED) else "",
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
        if entry.kind == ZONE_AT_START and entry.subject in states:
            states[entry.subject].append(_zone_at_start(entry))
        if entry.kind != ZONE_STATE or entry.subject not in states:
            continue
        key = ZoneStateKey(entry.subject, entry.value)
        ordinal = counts[key] = counts.get(key, -1) + 1
        seen.add((key, ordinal))
        window = exploration.zones.windows.get((key, ordinal))
        states[entry.subject].append(_zone_state(entry, entry.value, window, exploration.runs))
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


def _zone_at_start(entry: Entry) -> ZoneState:
    ready, not_ready, rate = _counts(entry)
    return ZoneState(
        state=entry.value,
        certainty=CERTAIN,
        offset_seconds=0.0,
        earliest_seconds=0.0,
        latest_seconds=0.0,
        rate_per_second=rate,
        ready=ready,
        not_ready=not_ready,
    )


def _zone_state(
    entry: Entry | None,
    state: str,
    window: WindowOverRuns | None,
    runs: int,
    *,
    sample: Entry | None = None,
) -> ZoneState:
    at_ns = entry.at_ns if entry is not None else None
    earliest_ns = latest_ns = at_ns or 0
    certain = False
    if window is not None:
        earliest_ns, latest_ns = window.earliest_ns, window.latest_ns
        certain = window.runs >= runs
        if at_ns is not None:
            earliest_ns, latest_ns = min(earliest_ns, at_ns), max(latest_ns, at_ns)
    ready, not_ready, rate = _counts(entry if entry is not None else sample)
    return ZoneState(
        state=state,
        certainty=CERTAIN if certain else POSSIBLE,
        offset_seconds=None if at_ns is None else seconds(at_ns),
        earliest_seconds=seconds(earliest_ns),
        latest_seconds=seconds(latest_ns),
        rate_per_second=rate,
        ready=ready,
        not_ready=not_ready,
    )


def _counts(entry: Entry | None) -> tuple[int, int, float | None]:
    if entry is None:
        return 0, 0, None
    ready, not_ready, rate = entry.detail.split(", ")
    return int(ready.split()[0]), int(not_ready.split()[0]), round(float(rate.split()[0]), 6)
