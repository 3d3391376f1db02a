"""Nodes over time, as those find them who look for a place: taints and cordons that come and go, silence, deletion.

What a node refuses is known between bounds only. Time is cut into few phases; within each a node counts once as it refuses
the least at any instant, once as it refuses the most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.impact.node_lives import REACTION_MAX_NS, NodeLife, between, what_happens
from kubectl_evictplan.impact.stretches import FOREVER_NS, Between, Stretch, exactly
from kubectl_evictplan.kube.objects import NO_SCHEDULE, Node, Taint
from kubectl_evictplan.kube.scheduling.answers import Phase
from kubectl_evictplan.kube.taints import UNSCHEDULABLE, key_and_effect
from kubectl_evictplan.prediction.document import CERTAIN, NodeReport
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, Cordon, CreateNode, Uncordon
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.windows.outcome import TAINT_ADDED, TAINT_REMOVED

# So many instants at which nodes open, and close, are told apart; between two of them bounds get wider.
_OPENINGS_MAX = 6
_CLOSINGS_MAX = 4
_ALWAYS: Stretch = (-FOREVER_NS, FOREVER_NS)
_NOTHING = NodeLife()


class TimedPhase(msgspec.Struct, frozen=True):
    """``phase`` holds from one instant until before another. ``opens``: some node may open in it or at its beginning."""

    since_ns: int
    until_ns: int
    phase: Phase
    opens: bool


class Refusal(msgspec.Struct, frozen=True):
    """When something that keeps pods off is possibly, and when it is surely there."""

    possible: tuple[Stretch, ...]
    sure: tuple[Stretch, ...]

    def throughout(self, since_ns: int, until_ns: int) -> bool:
        """Whether it surely is, at every instant."""
        for low, high in self.sure:  # noqa: SIM110 - asked of every node
            if low <= since_ns and until_ns <= high:
                return True
        return False

    def ever(self, since_ns: int, until_ns: int) -> bool:
        """Whether it possibly is, at any instant."""
        for low, high in self.possible:  # noqa: SIM110 - asked of every node
            if low < until_ns and since_ns < high:
                return True
        return False


class _Change(NamedTuple):
    """It comes (``on``) or goes."""

    when: Between
    on: bool
    certain: bool = True


class _Times(msgspec.Struct, frozen=True):
    """What keeps pods off a node."""

    taints: Mapping[Taint, Refusal]
    cordon: Refusal
    silent: Refusal
    missing: Refusal

    def refusals(self) -> Iterator[Refusal]:
        yield from (*self.taints.values(), self.cordon, self.silent, self.missing)


class NodeKind(msgspec.Struct, frozen=True):
    """Nodes, as they are at the start, to which the same happens. ``report``: of one of them, None where none is told of.

    ``taints``: when they have which, by "key:effect".
    """

    nodes: list[Node]
    report: NodeReport | None
    life: NodeLife
    taints: Mapping[str, Refusal]
    times: _Times


class _State(msgspec.Struct, frozen=True):
    """What holds of nodes with the same times in one phase: as they refuse the least, and the most."""

    least: tuple[Taint, ...]
    most: tuple[Taint, ...]
    surely_cordoned: bool
    perhaps_cordoned: bool
    surely_missing: bool
    perhaps_missing: bool
    surely_silent: bool
    perhaps_silent: bool


def node_phases(
    kinds: Sequence[NodeKind], listed: Collection[str], since_ns: int
) -> tuple[TimedPhase, ...]:
    """Cut the time from ``since_ns`` on into phases. ``listed``: names of the nodes that can be asked about."""
    openings, closings = _instants(kinds, since_ns)
    starts = sorted(
        {since_ns, *_thinned(openings, _OPENINGS_MAX), *_thinned(closings, _CLOSINGS_MAX)}
    )
    ends = [*starts[1:], FOREVER_NS]
    return tuple(
        TimedPhase(
            low, high, _phase(kinds, listed, low, high), any(low <= at < high for at in openings)
        )
        for low, high in zip(starts, ends, strict=True)
    )


def _instants(kinds: Iterable[NodeKind], since_ns: int) -> tuple[list[int], list[int]]:
    """When nodes may open, and when they may close."""
    openings: set[int] = set()
    closings: set[int] = set()
    for kind in kinds:
        for refusal in kind.times.refusals():
            for low, high in (*refusal.possible, *refusal.sure):
                if since_ns < high < FOREVER_NS:
                    openings.add(high)
                # Of a node that is surely silent nothing more closes.
                if low > since_ns and not kind.times.silent.throughout(low, low + 1):
                    closings.add(low)
    return sorted(openings), sorted(closings)


def _thinned(instants: Sequence[int], count: int) -> list[int]:
    if len(instants) <= count:
        return list(instants)
    return [instants[at * (len(instants) - 1) // (count - 1)] for at in range(count)]


def _phase(
    kinds: Iterable[NodeKind], listed: Collection[str], since_ns: int, until_ns: int
) -> Phase:
    hopeful: dict[str, Node | None] = {}
    doubtful: dict[str, Node | None] = {}
    silent, perhaps, elsewhere = set[str](), set[str](), set[str]()
    for kind in kinds:
        state = _state(kind.times, (since_ns, until_ns))
        gone, perhaps_gone = state.surely_missing, state.perhaps_missing
        names = [node.name for node in kind.nodes]
        for name, node in zip(names, kind.nodes, strict=True):
            hopeful[name] = None if gone else _with(node, state.least, state.surely_cordoned)
            doubtful[name] = (
                None if perhaps_gone else _with(node, state.most, state.perhaps_cordoned)
            )
        if not gone:
            elsewhere.update(name for name in names if name not in listed)
        if state.surely_silent:
            silent.update(names)
        if state.perhaps_silent:
            perhaps.update(names)
    return Phase(hopeful, doubtful, silent, perhaps, frozenset(elsewhere))


def _state(one: _Times, span: Stretch) -> _State:
    return _State(
        tuple(taint for taint, when in one.taints.items() if when.throughout(*span)),
        tuple(taint for taint, when in one.taints.items() if when.ever(*span)),
        one.cordon.throughout(*span),
        one.cordon.ever(*span),
        one.missing.throughout(*span),
        one.missing.ever(*span),
        one.silent.throughout(*span),
        one.silent.ever(*span),
    )


def _with(node: Node, taints: tuple[Taint, ...], unschedulable: bool) -> Node:
    if unschedulable:
        taints = (*taints, Taint(UNSCHEDULABLE, NO_SCHEDULE))
    return replace(node, taints=taints, unschedulable=unschedulable)


# -- what happens to them -------------------------------------------------------------------------------


def node_kinds(
    nodes: Iterable[Node],
    reports: Iterable[NodeReport],
    events: Sequence[ScenarioEvent],
    lives: Mapping[str, NodeLife],
    first: Collection[Drain] = (),
) -> Sequence[NodeKind]:
    """All nodes to which something happens. ``first``: drains before whose evictions nobody looks for a place."""
    by_name = {report.node: report for report in reports}
    values = {key_and_effect(e.taint): e.taint for e in events if isinstance(e, AddTaint)}
    cordons = _cordons(events, first)
    created = {e.node.name: e for e in events if isinstance(e, CreateNode)}
    known = set[str]()
    kinds: dict[object, NodeKind] = {}

    def add(node: Node, created_ns: int | None) -> None:
        report, life = by_name.get(node.name), lives.get(node.name, _NOTHING)
        changes = tuple(cordons.get(node.name, ()))
        told = None if report is None else what_happens(report)
        token = id(life), told, node.taints, node.unschedulable, changes, created_ns
        if (kind := kinds.get(token)) is None:
            taints = {} if report is None else _taint_times(report)
            times = _times(node, taints, values, changes, life, created_ns)
            kind = kinds[token] = NodeKind([], report, life, taints, times)
        kind.nodes.append(node)

    for node in nodes:
        known.add(node.name)
        if node.name in by_name or node.name in cordons:
            add(node, None)
    for name, event in created.items():
        if name not in known:
            add(event.node, event.at_ns)
    return list(kinds.values())


def _times(
    node: Node,
    told: Mapping[str, Refusal],
    values: Mapping[str, Taint],
    cordons: Sequence[_Change],
    life: NodeLife,
    created_ns: int | None,
) -> _Times:
    own = {key_and_effect(taint): taint for taint in node.taints}
    times = {**{name: Refusal((_ALWAYS,), (_ALWAYS,)) for name in own}, **told}
    times.pop(f"{UNSCHEDULABLE}:{NO_SCHEDULE}", None)
    taints = {
        own.get(name) or values.get(name) or _taint(name): when for name, when in times.items()
    }
    silences = [
        one
        for silence in life.silences
        for one in (_Change(silence.since, on=True), _Change(silence.until, on=False))
        if not one.when.never
    ]
    missing = [] if life.deleted.never else [_Change(life.deleted, on=True)]
    if created_ns is not None:
        missing.insert(0, _Change(exactly(created_ns), on=False))
    heard = _refusal(silences, False)
    if created_ns is not None:
        # Whether its kubelet comes up nobody says.
        heard = replace(heard, possible=(_ALWAYS,))
    return _Times(
        taints,
        _refusal(cordons, node.unschedulable),
        heard,
        _refusal(missing, created_ns is not None),
    )


def _taint_times(report: NodeReport) -> dict[str, Refusal]:
    changes: dict[str, list[_Change]] = {}
    for change in report.changes:
        if change.what in (TAINT_ADDED, TAINT_REMOVED):
            when = between(change.earliest_seconds, change.latest_seconds)
            on, certain = change.what == TAINT_ADDED, change.certainty == CERTAIN
            changes.setdefault(change.value, []).append(_Change(when, on, certain))
    at_start = [f"{one.key}:{one.effect}" for one in report.taints_at_start]
    return {
        name: _refusal(changes.get(name, ()), name in at_start)
        for name in dict.fromkeys((*at_start, *changes))
    }


def _taint(name: str) -> Taint:
    key, _, effect = name.rpartition(":")
    return Taint(key, effect)


def _cordons(events: Iterable[ScenarioEvent], first: Collection[Drain]) -> dict[str, list[_Change]]:
    found: dict[str, list[_Change]] = {}
    for event in events:
        if isinstance(event, Cordon | Drain):
            on = not isinstance(event, Uncordon)
            # kubectl drain cordons all its nodes before it evicts: whoever it makes look for a place finds them so.
            delay_ns = 0 if event in first else REACTION_MAX_NS
            when = exactly(event.at_ns).later(0, delay_ns)
            for name in event.nodes:
                found.setdefault(name, []).append(_Change(when, on))
    return found


def _refusal(changes: Iterable[_Change], at_start: bool) -> Refusal:
    """When it is there, told by its changes."""
    possible: list[Stretch] = []
    sure: list[Stretch] = []
    maybe_ns = sure_ns = -FOREVER_NS if at_start else None
    for when, on, certain in sorted(changes):
        if on:
            maybe_ns = when.earliest_ns if maybe_ns is None else maybe_ns
            if certain and sure_ns is None:
                sure_ns = when.latest_ns
            continue
        if sure_ns is not None and sure_ns < when.earliest_ns:
            sure.append((sure_ns, when.earliest_ns))
        sure_ns = None
        if certain and maybe_ns is not None:
            possible.append((maybe_ns, when.latest_ns))
            maybe_ns = None
    if maybe_ns is not None:
        possible.append((maybe_ns, FOREVER_NS))
    if sure_ns is not None and sure_ns < FOREVER_NS:
        sure.append((sure_ns, FOREVER_NS))
    return Refusal(tuple(possible), tuple(sure))
