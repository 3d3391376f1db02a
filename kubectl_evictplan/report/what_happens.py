"""Events, nodes and zones over time: as far as they explain an eviction, or (wide) all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import SCENARIO
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    EventSummary,
    NodeChange,
    Prediction,
    ZoneState,
)
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Moment, Timeline
from kubectl_evictplan.report.words import Clock
from kubectl_evictplan.scenarios.actions.processes import (
    StartKubelet,
    StartManager,
    StopKubelet,
    StopManager,
)
from kubectl_evictplan.scenarios.outages import AWAY
from kubectl_evictplan.scenarios.scenario import Outage
from kubectl_evictplan.windows.outcome import (
    CREATED,
    DELETED,
    READY,
    TAINT_ADDED,
    TAINT_REMOVED,
)

_MOMENTS_MAX = 20
_NAMES_MAX = 5
# What a node does, and what several do.
_NODE_VERBS = {
    READY: ("becomes Ready={}", "become Ready={}"),
    TAINT_ADDED: ("gets the taint {}", "get the taint {}"),
    TAINT_REMOVED: ("loses the taint {}", "lose the taint {}"),
    CREATED: ("is created", "are created"),
    DELETED: ("is deleted", "are deleted"),
}
# What a kubelet says, also where it says the same as before.
_POSTS = ("posts Ready={}", "post Ready={}")

# What nobody types, in a title: of one node, and of several.
_SILENCE = {
    StopKubelet.action: ("the kubelet of {} falls silent", "the kubelets of {} fall silent"),
    StartKubelet.action: ("the kubelet of {} is back", "the kubelets of {} are back"),
}

# What an outage is meanwhile, and when it is over.
_MEANWHILE = {
    Outage.CONTROL_PLANE.value: "no controller acts, no kubelet is heard",
    Outage.CONTROLLER_MANAGER.value: "no controller acts; kubelets are heard",
    Outage.API_SERVER.value: "no controller acts, no kubelet is heard",
}
_BACK = {
    Outage.CONTROL_PLANE.value: "is back",
    Outage.CONTROLLER_MANAGER.value: "can run again",
    Outage.API_SERVER.value: "is back",
}
_AFTER_OUTAGES = {
    StartManager.action: "kube-controller-manager works again, it is the leader and ticks,",
    StartKubelet.action: "kubelets are heard again,",
}


class _Change(msgspec.Struct, frozen=True):
    """Something that happens to a node or a zone: what one does, and what several do."""

    kind: str
    name: str
    zone: str
    verbs: tuple[str, str]
    when: NodeChange | ZoneState


def timeline(prediction: Prediction, clock: Clock, *, wide: bool) -> Timeline | None:
    """Return the events and what follows from them, alike changes of several nodes together.

    ``wide`` leaves nothing out and puts nothing together.
    """
    changes = [*_node_changes(prediction, wide), *_zone_changes(prediction, wide)]
    told = {frozenset(event.nodes) for event in prediction.inputs.events}
    names_max = None if wide else _NAMES_MAX
    events = prediction.inputs.events if wide else tuple(_united(prediction.inputs.events))
    moments = [
        (at_seconds, 0, Moment(clock.time(at_seconds), words.offset(at_seconds), text))
        for event in events
        for at_seconds, text in _event_moments(event, names_max)
    ]
    if not changes and len(moments) < (1 if wide else 2):
        return None
    for group in ([change] for change in changes) if wide else _together(changes):
        moments.append((group[0].when.earliest_seconds, 1, _moment(group, told, clock, exact=wide)))
    moments.sort(key=lambda item: item[:2])
    more = 0 if wide else len(moments) - _MOMENTS_MAX
    note = f"and {words.count(more, 'more moment')} (-o wide has all)" if more > 0 else ""
    shown = moments[:_MOMENTS_MAX] if more > 0 else moments
    return Timeline("What happens", tuple(moment for *_, moment in shown), note)


def spans(prediction: Prediction) -> Iterator[tuple[str, float, float]]:
    """Yield what follows from the events as (text, earliest, latest), alike changes together, in order."""
    groups = list(_together([*_node_changes(prediction, False), *_zone_changes(prediction, False)]))
    groups.sort(key=lambda group: group[0].when.earliest_seconds)
    for group in groups:
        latest = max(change.when.latest_seconds for change in group)
        told = [frozenset(change.name for change in group)]
        yield _told(group, told), group[0].when.earliest_seconds, latest


def asked(prediction: Prediction) -> Iterator[str]:
    """Yield what the scenario does, alike events together, without instants; as a command where it is one."""
    events = prediction.inputs.events
    outages = {e.origin for e in events if e.outage is not None}
    # What fails with nodes is told as these.
    outages -= {e.origin for e in events if e.outage is None}
    yield from map(words.name, sorted(outages))
    for event in _united(events):
        if event.outage is not None:
            continue
        if event.command and len(event.nodes) <= _NAMES_MAX:
            names = " ".join(map(words.name, event.nodes))
            yield " ".join(names if word == "{nodes}" else word for word in event.command)
        elif event.action in _SILENCE:
            one, many = _SILENCE[event.action]
            names = words.listed(event.nodes, _NAMES_MAX)
            yield words.verb(len(event.nodes), one, many).format(names)
        else:
            yield _event_text(event, _NAMES_MAX)


def _united(events: Iterable[EventSummary]) -> Iterator[EventSummary]:
    """Yield the events; what is done at one instant to several nodes is one."""
    together: dict[tuple[float, str, str], list[EventSummary]] = {}
    for event in events:
        # Parts of an outage name no nodes: what differs is told apart.
        detail = event.detail if event.outage is not None else ""
        together.setdefault((event.at_seconds, event.action, detail), []).append(event)
    for group in together.values():
        details = {event.detail for event in group}
        commands = {event.command for event in group}
        yield replace(
            group[0],
            nodes=tuple(name for event in group for name in event.nodes),
            pods=tuple(name for event in group for name in event.pods),
            detail=details.pop() if len(details) == 1 else "",
            command=commands.pop() if len(commands) == 1 else (),
        )


def _event_moments(event: EventSummary, names_max: int | None) -> Iterator[tuple[float, str]]:
    """Yield the instants of an event, each with what happens; a part of an outage is told as the outage."""
    if event.outage is None:
        yield event.at_seconds, _event_text(event, names_max)
    elif event.action == StopManager.action:
        what, until_seconds = AWAY[event.outage.component], event.outage.until_seconds
        yield event.at_seconds, f"{what} is away: {_MEANWHILE[event.outage.component]}"
        if until_seconds is not None:
            yield until_seconds, f"{what} {_BACK[event.outage.component]}"
    elif event.action != StopKubelet.action:
        text = f"{_AFTER_OUTAGES[event.action]} {event.detail}"
        yield event.at_seconds, text.rstrip()


def _event_text(event: EventSummary, names_max: int | None) -> str:
    targets = event.nodes or event.pods
    names = words.listed(targets, names_max or len(targets))
    return " ".join(filter(None, (words.name(event.action), names, event.detail)))


def _node_changes(prediction: Prediction, wide: bool) -> Iterator[_Change]:
    """Yield what explains an eviction: readiness and NoExecute taints that nobody ordered."""
    hit = {group.shared.node for group in prediction.evictions.groups}
    for node in prediction.nodes:
        for change in node.changes:
            if wide or (
                change.moves_pods and change.by != SCENARIO and (node.node in hit or not hit)
            ):
                unforeseen = (f"{words.name(change.what)} {{}}",) * 2
                one, many = _NODE_VERBS.get(change.what, unforeseen)
                if change.what == READY and change.value != "Unknown":
                    one, many = _POSTS
                value = words.name(change.value)
                verbs = one.format(value), many.format(value)
                yield _Change("node", node.node, node.zone, verbs, change)


def _zone_changes(prediction: Prediction, wide: bool) -> Iterator[_Change]:
    """Yield states after the first; a passing one matters where something is only possible."""
    sure = all(group.shared.certainty == CERTAIN for group in prediction.evictions.groups)
    for zone in prediction.zones:
        for state in zone.states[1:]:
            if wide or not sure or state.certainty == CERTAIN:
                ready = f"{state.ready} of {state.ready + state.not_ready} nodes ready"
                text = f"becomes {words.name(state.state)}: {ready}, {_rate(state)}"
                yield _Change("zone", zone.zone, zone.zone, (text, text), state)


def _together(changes: Iterable[_Change]) -> Iterator[list[_Change]]:
    """Yield alike changes whose windows touch, as one group each."""
    alike: dict[tuple[str, str, tuple[str, str]], list[_Change]] = {}
    for change in changes:
        alike.setdefault((change.kind, change.zone, change.verbs), []).append(change)
    for members in alike.values():
        members.sort(key=lambda c: (c.when.earliest_seconds, c.when.latest_seconds))
        group: list[_Change] = []
        last = 0.0
        for change in members:
            if group and change.when.earliest_seconds > last:
                yield group
                group, last = [], 0.0
            group.append(change)
            last = max(last, change.when.latest_seconds)
        yield group


def _moment(
    group: list[_Change], told: Collection[frozenset[str]], clock: Clock, *, exact: bool
) -> Moment:
    """Return what happens to a group; ``told`` are the sets of names that stand there already."""
    first = group[0]
    earliest = first.when.earliest_seconds
    latest = max(change.when.latest_seconds for change in group)
    by = first.when.by if exact and isinstance(first.when, NodeChange) else ""
    text = _told(group, told)
    return Moment(clock.time(earliest), words.window(earliest, latest, exact=exact), text, by)


def _told(group: list[_Change], told: Collection[frozenset[str]]) -> str:
    first = group[0]
    names = sorted({change.name for change in group})
    if len(names) == 1:
        text = f"{first.kind} {words.name(first.name)} {first.verbs[0]}"
    else:
        place = f" of zone {words.name(first.zone)}" if first.zone else ""
        which = "" if frozenset(names) in told else f": {words.listed(names, _NAMES_MAX)}"
        text = f"{len(names)} nodes{place} {first.verbs[1]}{which}"
    unsure = len(names) - len({c.name for c in group if c.when.certainty == CERTAIN})
    if unsure:
        text += " (possibly)" if unsure == len(names) else f" ({unsure} of them possibly)"
    return text


def _rate(state: ZoneState) -> str:
    if state.rate_per_second is None:
        return "tainted at an unknown rate"
    if state.rate_per_second == 0:
        return "no more node is tainted"
    return f"{state.rate_per_second:.6g} nodes a second are tainted"
