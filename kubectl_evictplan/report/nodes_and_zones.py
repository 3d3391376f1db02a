"""Events, nodes and zones over time: as far as they explain an eviction, and (wide) all of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from msgspec import structs

from kubectl_evictplan.prediction.document import (
    CERTAIN,
    EventSummary,
    NodeChange,
    NodeReport,
    Prediction,
    ZoneReport,
    ZoneState,
)
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Column, Moment, Row, Table, Timeline
from kubectl_evictplan.report.clock import Clock

_MOMENTS_MAX = 20
_NAMES_MAX = 5
_BY_SCENARIO = "scenario"


class _Change(NamedTuple):
    """Something that happens to ``name``; what is alike happens to several at once."""

    alike: tuple[str, ...]
    name: str
    earliest: float
    latest: float
    certain: bool


def timeline(prediction: Prediction, clock: Clock) -> Timeline | None:
    """Return the events and what follows from them for nodes and zones, alike changes together."""
    sure = all(entry.certainty == CERTAIN for entry in prediction.evictions)
    zones = [change for change in _zone_changes(prediction) if change.certain or not sure]
    changes = [*_node_changes(prediction), *zones]
    told = {frozenset(event.nodes) for event in prediction.inputs.events}
    moments = [(at, 0, moment) for at, moment in _events(prediction.inputs.events, clock)]
    if not changes and len(moments) < 2:
        return None
    for group in _together(changes):
        moments.append((group[0].earliest, 1, _moment(group, told, clock)))
    moments.sort(key=lambda item: item[:2])
    more = len(moments) - _MOMENTS_MAX
    note = f"and {words.count(more, 'more moment')} (-o wide has all)" if more > 0 else ""
    return Timeline("What happens", tuple(moment for *_, moment in moments[:_MOMENTS_MAX]), note)


def event_text(event: EventSummary, names_max: int) -> str:
    """Return an event of the scenario as a person would order it."""
    targets = words.listed(event.nodes or event.pods, names_max)
    return " ".join(filter(None, (words.name(event.action), targets, event.detail)))


def _events(events: Iterable[EventSummary], clock: Clock) -> Iterator[tuple[float, Moment]]:
    """Yield the events; what is done at one instant to several nodes is one."""
    together: dict[tuple[float, str], list[EventSummary]] = {}
    for event in events:
        together.setdefault((event.at_seconds, event.action), []).append(event)
    for (at, _), group in together.items():
        same = {event.detail for event in group}
        union = structs.replace(
            group[0],
            nodes=tuple(name for event in group for name in event.nodes),
            pods=tuple(name for event in group for name in event.pods),
            detail=same.pop() if len(same) == 1 else "",
        )
        yield at, Moment(clock.time(at), words.offset(at), event_text(union, _NAMES_MAX))


def _node_changes(prediction: Prediction) -> Iterator[_Change]:
    """Yield what explains an eviction: readiness and NoExecute taints that nobody ordered."""
    hit = {entry.node for entry in prediction.evictions}
    for node in prediction.nodes:
        if hit and node.node not in hit:
            continue
        for change in node.changes:
            if change.by == _BY_SCENARIO or change.what in ("created", "deleted"):
                continue
            if change.what.startswith("taint") and not change.value.endswith(":NoExecute"):
                continue
            yield _Change(
                ("node", node.zone, change.what, change.value),
                node.node,
                change.earliest_seconds,
                change.latest_seconds,
                change.certainty == CERTAIN,
            )


def _zone_changes(prediction: Prediction) -> Iterator[_Change]:
    for zone in prediction.zones:
        for number, state in enumerate(zone.states):
            if number:
                yield _Change(
                    (
                        "zone",
                        state.state,
                        _rate(state),
                        f"{state.ready} of {state.ready + state.not_ready} nodes ready",
                    ),
                    zone.zone,
                    state.earliest_seconds,
                    state.latest_seconds,
                    state.certainty == CERTAIN,
                )


def _together(changes: Iterable[_Change]) -> Iterator[list[_Change]]:
    """Yield alike changes whose windows touch, as one group each."""
    by_kind: dict[tuple[str, ...], list[_Change]] = {}
    for change in changes:
        by_kind.setdefault(change.alike, []).append(change)
    for alike in by_kind.values():
        alike.sort(key=lambda change: (change.earliest, change.latest))
        group: list[_Change] = []
        for change in alike:
            if group and change.earliest > max(one.latest for one in group):
                yield group
                group = []
            group.append(change)
        yield group


def _moment(group: list[_Change], told: Collection[frozenset[str]], clock: Clock) -> Moment:
    """Return what happens to a group; ``told`` are the sets of names that stand there already."""
    first, latest = group[0], max(change.latest for change in group)
    names = sorted({change.name for change in group})
    kind, *facts = first.alike
    if kind == "zone":
        state, rate, nodes = facts
        text = f"zone {words.name(first.name)} becomes {words.name(state)}: {nodes}, {rate}"
    else:
        zone, what, value = facts
        place = f" of zone {words.name(zone)}" if zone else ""
        alone = len(names) == 1
        who = f"node {words.name(names[0])}" if alone else f"{len(names)} nodes{place}"
        which = "" if alone or frozenset(names) in told else f": {words.listed(names, _NAMES_MAX)}"
        text = f"{who} {_change(what, words.name(value), len(names))}{which}"
    sure = {change.name for change in group if change.certain}
    if not sure:
        text += " (possibly)"
    elif len(sure) < len(names):
        text += f" ({len(names) - len(sure)} of them possibly)"
    return Moment(clock.time(first.earliest), words.window(first.earliest, latest), text)


def _change(what: str, value: str, number: int) -> str:
    one: dict[str, Callable[[], str]] = {
        "ready": lambda: f"{words.verb(number, 'becomes', 'become')} Ready={value}",
        "taint-added": lambda: f"{words.verb(number, 'gets', 'get')} the taint {value}",
        "taint-removed": lambda: f"{words.verb(number, 'loses', 'lose')} the taint {value}",
    }
    return one[what]() if what in one else f"{what} {value}"


def _rate(state: ZoneState) -> str:
    if state.rate_per_second is None:
        return "tainted at an unknown rate"
    if state.rate_per_second == 0:
        return "no more node is tainted"
    return f"{state.rate_per_second:.6g} nodes a second are tainted"


# -- wide -------------------------------------------------------------------------------------------


def node_table(nodes: Iterable[NodeReport]) -> Table:
    """Return Ready and taints of every affected node, one row per change."""
    columns = tuple(map(Column, ("NODE", "ZONE", "AT", "CERTAINTY", "WHAT", "BY")))
    return Table(columns, [row for node in nodes for row in _node_rows(node)], "Nodes")


def _node_rows(node: NodeReport) -> Iterator[Row]:
    place = words.name(node.node), words.name(node.zone)
    taints = ", ".join(map(words.taint, node.taints_at_start)) or words.NONE
    ready = words.name(node.ready_at_start or words.UNKNOWN)
    yield *place, "start", "", f"Ready={ready}, taints {words.name(taints)}", ""
    for change in node.changes:
        what = _change(change.what, words.name(change.value), 1)
        yield *place, _exactly(change), change.certainty, what, words.name(change.by)


def zone_table(zones: Iterable[ZoneReport]) -> Table:
    """Return every state of every zone."""
    columns = ("ZONE", "AT", "CERTAINTY", "STATE", "RATE", "READY", "NOT-READY")
    rows = [
        (
            words.name(zone.zone),
            _exactly(state),
            state.certainty,
            words.name(state.state),
            words.UNKNOWN if state.rate_per_second is None else f"{state.rate_per_second:.6g}/s",
            str(state.ready),
            str(state.not_ready),
        )
        for zone in zones
        for state in zone.states
    ]
    return Table(tuple(map(Column, columns)), rows, "Zones")


def _exactly(change: NodeChange | ZoneState) -> str:
    return words.window(change.earliest_seconds, change.latest_seconds, exact=True)
