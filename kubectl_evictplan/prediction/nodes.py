"""Affected nodes and their zones over time, with windows, and what is sure of several together."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from msgspec import Struct

from kubectl_evictplan.cluster import timeline
from kubectl_evictplan.cluster.timeline import POD_GC, AboutNode, RunEntries, ZoneStateRecorded
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute, key_and_effect
from kubectl_evictplan.kube.topology import get_zone_key, zone_display_name
from kubectl_evictplan.prediction.alike_pods import AlikePods
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    NODES_TAINTED,
    PODS_EVICTED,
    POSSIBLE,
    Joint,
    NodeChange,
    NodeReport,
    TaintReference,
    ZoneReport,
    ZoneState,
)
from kubectl_evictplan.windows import outcome
from kubectl_evictplan.windows.outcome import (
    Exploration,
    PossibleEviction,
    WindowOverRuns,
    ZoneStateKey,
)


def node_reports(
    nominal: RunEntries,
    exploration: Exploration,
    nodes: Mapping[str, Node],
    configuration: ControllerConfiguration,
) -> tuple[NodeReport, ...]:
    """Affected nodes by name, each with its changes in the order of time."""
    entries: dict[_Change, list[AboutNode]] = {}
    for entry in nominal.of(*_CHANGES):
        if (change := what_changes(entry)) is not None:
            entries.setdefault((entry.node, *change), []).append(entry)
    windows = _windows(exploration)
    by_node: dict[str, list[NodeChange]] = {}
    repeated = set(_put_on_once_more(nominal, nodes))
    for key in {**entries, **windows}:
        several = windows.get(key, ())
        for found, window in _matched(entries.get(key, ()), several):
            if window is None and id(found) in repeated:
                continue  # a new timeAdded, in the nominal run only: the node shows the taint already
            own = window or _once_more(found, several)
            by_node.setdefault(key[0], []).append(_change(key, found, own, exploration.runs))
    names = exploration.affected | {node for node, *_ in entries}
    return tuple(
        _report(name, nodes.get(name), by_node.get(name, []), configuration)
        for name in sorted(names)
    )


# Node, what and value: a ``NodeChangeKey`` is one.
_Change = tuple[str, str, str]


def _windows(exploration: Exploration) -> dict[_Change, Sequence[WindowOverRuns]]:
    """Of each change its windows, the first one first."""
    found: dict[_Change, list[tuple[int, WindowOverRuns]]] = {}
    for (key, ordinal), window in exploration.nodes.windows.items():
        found.setdefault(key, []).append((ordinal, window))
    return {
        key: [window for _, window in (sorted(some) if len(some) > 1 else some)]
        for key, some in found.items()
    }


def _put_on_once_more(nominal: RunEntries, nodes: Mapping[str, Node]) -> Iterator[int]:
    """The ids of entries in which node lifecycle writes a taint, or people write one of its taints, that the node has already."""
    entries = nominal.of(timeline.TaintAdded, timeline.TaintRemoved, timeline.NodeDeleted)
    names = {entry.node for entry in entries} & nodes.keys()
    shown = {(name, key_and_effect(taint)) for name in names for taint in nodes[name].taints}
    for entry in entries:
        if isinstance(entry, timeline.TaintChanged):
            taint = entry.node, key_and_effect(entry.taint)
            if isinstance(entry, timeline.TaintRemoved):
                shown.discard(taint)
            elif taint in shown and (
                entry.by == timeline.NODE_LIFECYCLE or is_lifecycle_no_execute(entry.taint)
            ):
                yield id(entry)
            else:
                shown.add(taint)
        elif isinstance(entry, timeline.NodeDeleted):
            shown = {each for each in shown if each[0] != entry.node}


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
    entries: Sequence[AboutNode], windows: Sequence[WindowOverRuns]
) -> Iterator[tuple[AboutNode | None, WindowOverRuns | None]]:
    """Each entry of the nominal run with the window it lies in, then the windows that it misses."""
    left = list(windows)
    for entry in entries:
        own = next(iter([w for w in left if w.earliest_ns <= entry.at_ns <= w.latest_ns]), None)
        if own is None and left:
            # Not every run was tried, or this one would lie in one of them.
            own = min(left, key=lambda w: abs(w.earliest_ns - entry.at_ns))
            own.unsure = own.explored = True
        if own is not None:
            left.remove(own)
        yield entry, own
    for window in left:
        yield None, window


def _once_more(entry: AboutNode | None, windows: Sequence[WindowOverRuns]) -> WindowOverRuns | None:
    """The window of an entry of the nominal run that comes once more than there are windows: possible within the nearest of them."""
    if entry is None or not windows:
        return None
    own = min(windows, key=lambda w: abs(w.earliest_ns - entry.at_ns)).copied()
    own.unsure = own.explored = True
    return own


# Entries that may change something that a node shows.
_CHANGES: tuple[type[AboutNode], ...] = (
    timeline.NodeBecameUnknown,
    timeline.NodeReadyPosted,
    timeline.TaintAdded,
    timeline.TaintRemoved,
    timeline.NodeCreated,
    timeline.NodeDeleted,
)


def what_changes(entry: AboutNode) -> tuple[str, str] | None:
    """(what, value) of a ``NodeChange``; None for entries that change nothing that a node shows."""
    match entry:
        case timeline.NodeBecameUnknown():
            return outcome.READY, "Unknown"
        case timeline.NodeReadyPosted(status=status):
            return outcome.READY, status
        case timeline.TaintAdded(taint=taint):
            return outcome.TAINT_ADDED, key_and_effect(taint)
        case timeline.TaintRemoved(taint=taint):
            return outcome.TAINT_REMOVED, key_and_effect(taint)
        case timeline.NodeCreated():
            return outcome.CREATED, ""
        case timeline.NodeDeleted():
            return outcome.DELETED, ""
    return None


def _change(
    key: _Change, entry: AboutNode | None, window: WindowOverRuns | None, runs: int
) -> NodeChange:
    _, what, value = key
    if window is not None:
        certain = _always(window, runs)
    else:
        certain = what not in (outcome.TAINT_ADDED, outcome.TAINT_REMOVED)
    by = entry.by if isinstance(entry, timeline.TaintChanged) else ""
    return _told(what, value, _instants(certain, entry, window), by)


@lru_cache(maxsize=1000)  # nodes that are alike share what happens to them
def _told(what: str, value: str, when: _Instants, by: str) -> NodeChange:
    return NodeChange(what, value, *_in_seconds(when), by)


def _always(window: WindowOverRuns | None, runs: int) -> bool:
    return window is not None and window.runs >= runs and not window.unsure


def _when(
    certain: bool, entry: timeline.Entry | None, window: WindowOverRuns | None
) -> tuple[str, float | None, float, float]:
    """Certainty, offset in the nominal run, earliest and latest: the hull of both."""
    return _in_seconds(_instants(certain, entry, window))


# Whether it is certain, when it comes in the nominal run, and its window.
_Instants = tuple[bool, int | None, tuple[int, int] | None]


def _instants(
    certain: bool, entry: timeline.Entry | None, window: WindowOverRuns | None
) -> _Instants:
    bounds_ns = window.span if window is not None else None
    return certain, entry.at_ns if entry is not None else None, bounds_ns


def _in_seconds(when: _Instants) -> tuple[str, float | None, float, float]:
    certain, at_ns, bounds_ns = when
    hull_ns = [*(bounds_ns or ()), *(() if at_ns is None else (at_ns,))]
    offset_seconds = None if at_ns is None else seconds(at_ns)
    sure = CERTAIN if certain else POSSIBLE
    return sure, offset_seconds, seconds(min(hull_ns)), seconds(max(hull_ns))


def zone_reports(
    nominal: RunEntries, exploration: Exploration, zones: set[str]
) -> tuple[ZoneReport, ...]:
    """States of the zones that hold an affected node."""
    states: dict[str, list[ZoneState]] = {zone: [] for zone in sorted(zones)}
    windows = dict(exploration.zones.windows)
    counts: Counter[ZoneStateKey] = Counter()
    for entry in nominal.of(timeline.ZoneStateAtStart, timeline.ZoneStateChanged):
        if entry.zone not in states:
            continue
        if isinstance(entry, timeline.ZoneStateAtStart):
            when = _when(entry.zone not in exploration.unsure_at_start, entry, None)
        else:
            key = ZoneStateKey(entry.zone, entry.state)
            window = windows.pop((key, counts[key]), None)
            counts[key] += 1
            certain = _always(window, exploration.runs)
            when = _when(certain, entry, window)
        states[entry.zone].append(_zone_state(entry, when))
    for (key, _), window in windows.items():
        if key.zone in states:
            sample = exploration.zone_samples[key]
            when = _when(_always(window, exploration.runs), None, window)
            states[key.zone].append(_zone_state(sample, when))
    return tuple(
        ZoneReport(zone, tuple(sorted(found, key=lambda s: (s.earliest_seconds, s.state))))
        for zone, found in states.items()
    )


def _zone_state(
    entry: ZoneStateRecorded, when: tuple[str, float | None, float, float]
) -> ZoneState:
    return ZoneState(entry.state, *when, round(entry.rate_qps, 6), entry.ready, entry.not_ready)


# -- several nodes together ---------------------------------------------------------------------------


def joint_statements(
    exploration: Exploration,
    horizon_ns: int | None,
    alike: AlikePods,
    unsure: Collection[str] = (),
    *,
    taints: bool = True,
    by_hand: Set[str] = frozenset(),
) -> tuple[Joint, ...]:
    """Zone by zone, where it is not certain for every waiting node that it is tainted.

    Each of four nodes may be tainted or not, and yet it is certain that one of them is. Counted over every
    run and every order that the windows are taken over. ``taints``: whether that is what nodes wait for; without
    taint manager the pods of a node are deleted when it is its turn, and it is not tainted. ``unsure`` are pods that need not go
    with their nodes. Of zones in which somebody else puts such taints on nodes that wait, or takes them off (``by_hand``), nothing is
    said: whether a pass then writes one of its own is not counted.
    """
    if horizon_ns is None:
        latest_ns = max((found.latest_ns for found in exploration.evictions.values()), default=0)
        horizon_ns = -(-latest_ns // SECOND_NS) * SECOND_NS
    if not horizon_ns:
        return ()  # nobody is evicted by the start, whatever ticks do then
    waiting = exploration.waiting
    zones = [zone for zone in sorted(exploration.services) if by_hand.isdisjoint(waiting[zone])]
    found = (
        joint for zone in zones for joint in _joint(exploration, zone, horizon_ns, alike, unsure)
    )
    return tuple(joint for joint in found if taints or joint.what != NODES_TAINTED)


def _joint(
    exploration: Exploration,
    zone: str,
    until_ns: int,
    alike: AlikePods,
    unsure: Collection[str],
) -> Iterator[Joint]:
    waiting, services = exploration.waiting[zone], exploration.services[zone]
    least, _ = _bounds(services, until_ns - exploration.ticks_late_ns, len(waiting))
    _, most = _bounds(services, until_ns, len(waiting))
    if least == len(waiting):
        return
    scope = f"zone/{zone_display_name(zone)}"
    by_seconds = seconds(until_ns)
    yield Joint(scope, NODES_TAINTED, least, most, len(waiting), by_seconds)
    pods = [one for one in _going(exploration, alike, unsure) if one.node in waiting]
    if pods:
        few, many = _pods(pods, services, len(waiting), until_ns, exploration.late_ns)
        every = sum(one.number for one in pods)
        if few < every:
            yield Joint(scope, PODS_EVICTED, few, many, every, by_seconds)


class _Going(Struct, gc=False):
    """So many pods of one node that go alike: after one delay if they follow it."""

    node: str
    number: int
    delay_ns: int | None
    certain: bool


def _going(exploration: Exploration, alike: AlikePods, unsure: Collection[str]) -> Iterator[_Going]:
    """All pods that somebody else than garbage collection evicts."""
    rows: dict[tuple[str, str, str], list[tuple[str, PossibleEviction]]] = {}
    for key, eviction in exploration.evictions.items():
        pod = key.pod, key.uid, eviction.node
        rows.setdefault(pod, []).append((key.controller, eviction))
    for pod, found in rows.items():
        evictions = [eviction for controller, eviction in found if controller != POD_GC]
        if not evictions:
            continue
        delays_ns = {eviction.delay_ns for eviction in evictions}
        # One that garbage collection may take may not be there any more.
        follows = len(delays_ns) == 1 and len(evictions) == len(found)
        delay_ns = evictions[0].delay_ns if follows else None
        certain = any(eviction.certain for eviction in evictions)
        numbers = alike.numbers_on_nodes(*pod)
        if unsure:
            some = (one.node for one in alike.some_pods(*pod) if one.key in unsure)
            for node, number in Counter(some).items():
                numbers[node] -= number
                yield _Going(node, number, None, certain=False)
        for node, number in numbers.items():
            yield _Going(node, number, delay_ns, certain)


def _bounds(services: Sequence[tuple[int, ...]], until_ns: int, nodes: int) -> tuple[int, int]:
    counts = [bisect_right(instants, until_ns) for instants in services]
    return min(counts), min(max(counts), nodes)


def _pods(
    pods: Iterable[_Going],
    services: Sequence[tuple[int, ...]],
    nodes: int,
    until_ns: int,
    late_ns: int,
) -> tuple[int, int]:
    """Pods that follow their node after one delay, and ``late_ns`` at most, are bound by how many nodes are tainted in time."""
    by_delay: dict[int, Counter[str]] = {}
    certain = others = 0
    for one in pods:
        certain += one.number if one.certain else 0
        if one.delay_ns is None:
            others += one.number
        else:
            by_delay.setdefault(one.delay_ns, Counter())[one.node] += one.number
    least, most = 0, others
    for delay_ns, on_node in by_delay.items():
        few, _ = _bounds(services, until_ns - delay_ns - late_ns, nodes)
        _, many = _bounds(services, until_ns - delay_ns, nodes)
        counts = sorted([*on_node.values(), *([0] * (nodes - len(on_node)))])
        least += sum(counts[:few])
        most += sum(counts[len(counts) - many :])
    return max(least, certain), max(most, certain)
