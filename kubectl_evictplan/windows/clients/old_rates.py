"""What comes sooner, or at all, because a tick waits for its client: nodes are tainted at the rate that their zone had before.

A tick finds nodes silent, puts them in line (up to 1.33 only those that it knows to be silent), marks their pods, and only at its
end looks at states of zones (``handleDisruption``). Passes go on meanwhile, with tokens of the old rate. No run knows of that, so
whoever may be in line then may be tainted then: bounds.

A late tick finds nodes together that two ticks would have found one after the other: any of them may be the first then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cached_property

import msgspec

from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE, UNKNOWN
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_states import FULL, NORMAL, PARTIAL
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, Taint
from kubectl_evictplan.kube.taints import NOT_READY, UNREACHABLE, is_lifecycle_no_execute
from kubectl_evictplan.kube.topology import zone_display_name
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.late_windows import LateRows
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_ADDED,
    TAINT_REMOVED,
    Exploration,
    NodeChangeKey,
    WindowOverRuns,
)
from kubectl_evictplan.windows.pod_worlds import versions_on
from kubectl_evictplan.windows.spans import NEVER_NS, Span, merge_spans
from kubectl_evictplan.windows.unknowns.requests import ClientLimits

_MISSED = frozenset({ClientLimits.name})


class _Spell(msgspec.Struct, frozen=True):
    """A time in which a node is not ready: from when on, and until when at the latest; ``found``: a change begins it."""

    status: str
    low_ns: int
    high_ns: int
    found: bool = True

    @property
    def taint(self) -> Taint:
        key = UNREACHABLE if self.status == UNKNOWN else NOT_READY
        return Taint(key, NO_EXECUTE)


class _Tainted(msgspec.Struct, frozen=True):
    """A node may get the taint within the span; ``only_sooner``: it is told when at the latest."""

    node: str
    spell: _Spell
    span: Span
    only_sooner: bool


class OldRates:
    """Made before windows are put off, and told what they are after that.

    ``late_at``: how late ticks can be within a span. ``together``: nodes of which late ticks may find some together. ``sure``:
    nodes to which nothing happens but silence. ``at_start``: nodes that a tick has given up which is under way at the start: their
    zones have the rates of before that.
    """

    def __init__(
        self,
        result: Exploration,
        late_at: Callable[[Span], int],
        together: Set[str],
        sure: Set[str],
        given: Given,
        *,
        at_start: Set[str] = frozenset(),
    ) -> None:
        self._result, self._late_at, self._sure = result, late_at, sure
        self._given_up = at_start
        self._snapshot, self._scenario, self._configuration = given
        self._at_start = {node.name: node for node in self._snapshot.nodes}
        self._changes: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for (key, _), window in result.nodes.windows.items():
            if key.what == READY:
                self._changes[key.node].append((*window.span, key.value))
        # From 1.34 on the tick that finds a node puts it in line; before that the next one does.
        configuration = given.configuration
        at_once = configuration.profile.taint_on_current_condition
        self._queued_ns = 0 if at_once else configuration.node_monitor_period_ns
        served = configuration.taint_mode and configuration.node_eviction_rate_qps > 0
        self._tainted = [*self._at_old_rates(), *self._sooner(together)] if served else []

    # -- when ------------------------------------------------------------------------------------------

    @cached_property
    def _zones(self) -> dict[str, list[str]]:
        """Nodes by their zone, as it is told."""
        membership, found = ZoneMembership(self._configuration), dict[str, list[str]]()
        created = (event.node for event in self._scenario.events if event.node is not None)
        for node in (*self._snapshot.nodes, *created):
            found.setdefault(zone_display_name(membership.zone_key(node)), []).append(node.name)
        return found

    @cached_property
    def _states(self) -> dict[str, set[str]]:
        """The states that each zone may get into."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for key, _ in self._result.zones.windows:
            found[key.zone].add(key.state)
        return found

    @cached_property
    def _all_down(self) -> Span | None:
        """Within which time all zones may get down; None where they never are."""
        if self._snapshot.bystanders or any(
            FULL not in self._states.get(zone, ()) and any(map(self._is_ready, names))
            for zone, names in self._zones.items()
        ):
            return None
        spans = [
            window.span
            for (key, _), window in self._result.zones.windows.items()
            if key.state == FULL
        ]
        return (min(spans)[0], max(high for _, high in spans)) if spans else None

    def _is_ready(self, name: str) -> bool:
        node = self._at_start.get(name)
        return node is None or node.ready_status == TRUE

    def _old_rates(self) -> Iterator[tuple[str, list[Span], list[Span], int]]:
        """Zones with the times in which an old rate may stand although no run shows it.

        The first ones are those in which it may be the higher one. After all of them a token may come sooner for as long.
        """
        configuration, together = self._configuration, list[Span]()
        for (key, _), window in self._result.zones.windows.items():
            span = window.span
            late_ns = self._late_at(span)
            if late_ns and self._all_down is not None and key.state == FULL:
                together.append((span[0], span[1] + late_ns))
        for zone, names in self._zones.items():
            # A limiter of another rate has no token where the one before it has none. Where it comes later it may have one.
            secondary, rest_ns = configuration.secondary_node_eviction_rate_qps, 0
            if len(names) > configuration.large_cluster_size_threshold and secondary > 0:
                rest_ns = int(SECOND_NS / secondary)
            higher, lower = list(together), list[Span]()
            if not self._given_up.isdisjoint(names):
                higher.append((0, self._late_at((0, 0))))
            for (key, _), window in self._result.zones.windows.items():
                span = window.span
                changes = key.zone == zone and PARTIAL in self._states[zone]
                if changes and (late_ns := self._late_at(span)):
                    spans = lower if key.state == NORMAL else higher
                    spans.append((span[0], span[1] + late_ns))
            if higher or lower:
                every = merge_spans(sorted([*higher, *lower]), 0)
                yield zone, list(merge_spans(sorted(higher), 0)), list(every), rest_ns

    def _spells(self, name: str) -> Iterator[_Spell]:
        """The times in which the node may not be ready."""
        changes = sorted(self._changes.get(name, ()))
        node = self._at_start.get(name)
        if node is not None and node.ready_status not in (None, TRUE):
            changes.insert(0, (-1, -1, node.ready_status))
        for place, (low_ns, _, status) in enumerate(changes):
            if status != TRUE:
                later = (high for _, high, value in changes[place + 1 :] if value == TRUE)
                yield _Spell(status, max(low_ns, 0), next(later, NEVER_NS), found=low_ns >= 0)

    def _at_old_rates(self) -> Iterator[_Tainted]:
        for zone, higher, every, rest_ns in self._old_rates():
            for name in self._zones[zone]:
                for spell in self._spells(name):
                    yield from self._within(name, spell, higher)
                    if rest_ns and spell.found:
                        yield from self._sooner_within(name, spell, every, rest_ns)

    def _within(self, name: str, spell: _Spell, spans: Iterable[Span]) -> Iterator[_Tainted]:
        in_line_ns = spell.low_ns + (self._queued_ns if spell.found else 0)
        own = self._added(name, spell)
        is_known = name in self._sure and bool(own) and not own[0].unsure
        removed_ns = self._removed_ns(name)
        for span in spans:
            low_ns = max(in_line_ns, span[0])
            if self._is_tainted(name, spell, own, low_ns):
                low_ns = max(low_ns, removed_ns)
            high_ns = spell.high_ns
            if high_ns < NEVER_NS:  # its kubelet is heard at a tick that may be late
                high_ns += 2 * self._configuration.node_monitor_period_ns + self._late_at(span)
            high_ns = min(high_ns, span[1])
            if low_ns <= high_ns:
                yield _Tainted(name, spell, (low_ns, high_ns), is_known)

    def _added(self, name: str, spell: _Spell) -> list[WindowOverRuns]:
        """When runs taint the node for that."""
        return self._windows.get(_key(name, TAINT_ADDED, spell.taint), [])

    def _sooner_within(
        self, name: str, spell: _Spell, spans: Iterable[Span], rest_ns: int
    ) -> Iterator[_Tainted]:
        own = self._added(name, spell)
        for span in spans:
            low_ns = max(spell.low_ns + self._queued_ns, span[0])
            if own and low_ns <= span[1] + rest_ns and low_ns < own[0].earliest_ns:
                yield _Tainted(name, spell, (low_ns, own[0].latest_ns), only_sooner=True)

    def _is_tainted(
        self, name: str, spell: _Spell, own: Iterable[WindowOverRuns], at_ns: int
    ) -> bool:
        """Whether the node surely has its taint by then, if nobody has taken it off."""
        node = self._at_start.get(name)
        if not spell.found and node is not None:
            if any(map(is_lifecycle_no_execute, node.taints)):
                return True
        return any(
            spell.low_ns <= window.earliest_ns and window.latest_ns < at_ns and not window.unsure
            for window in own
        )

    def _removed_ns(self, name: str) -> int:
        """From when on a taint of node lifecycle may be taken off."""
        removals = (
            _key(name, TAINT_REMOVED, Taint(key, NO_EXECUTE)) for key in (NOT_READY, UNREACHABLE)
        )
        windows = (window for key in removals for window in self._windows.get(key, ()))
        return min((window.earliest_ns for window in windows), default=NEVER_NS)

    def _sooner(self, names: Iterable[str]) -> Iterator[_Tainted]:
        """From when on each of those may be in line that late ticks may find together."""
        for name in names:
            for spell in self._spells(name):
                own = self._added(name, spell)
                low_ns = spell.low_ns + self._queued_ns
                if spell.found and own and low_ns < own[0].earliest_ns:
                    yield _Tainted(name, spell, (low_ns, own[0].latest_ns), only_sooner=True)

    @cached_property
    def _windows(self) -> dict[NodeChangeKey, list[WindowOverRuns]]:
        """Of each change, in order."""
        return self._result.nodes.by_key()

    # -- what is told ----------------------------------------------------------------------------------

    def put(self, horizon_ns: int) -> None:
        """Let nodes be tainted then, and what follows that come then."""
        by_node: defaultdict[str, list[_Tainted]] = defaultdict(list)
        for one in self._tainted:
            if one.span[0] <= horizon_ns:
                by_node[one.node].append(one)
                key = _key(one.node, TAINT_ADDED, one.spell.taint)
                self._widen(key, one.span, horizon_ns, only_sooner=one.only_sooner)
                for span in self._removals(one) if not one.only_sooner else ():
                    removed = _key(one.node, TAINT_REMOVED, one.spell.taint)
                    self._widen(removed, span, horizon_ns)
        if by_node:
            self._put_pods(by_node, horizon_ns)

    def _removals(self, one: _Tainted) -> Iterator[Span]:
        """When the taint may be taken off again."""
        low_ns, late_ns = one.span[0], self._late_at(one.span)
        if self._all_down is not None:
            # What passes put on meanwhile the tick does not see: it stays, or another tick takes it off.
            yield max(low_ns, self._all_down[0]), self._all_down[1] + late_ns
        late_ns += 2 * self._configuration.node_monitor_period_ns
        for first_ns, last_ns, value in self._changes.get(one.node, ()):
            if value != one.spell.status and last_ns >= low_ns:
                yield max(low_ns, first_ns), last_ns + late_ns
        for event in self._scenario.events:
            if event.manager_up and event.latest_ns >= low_ns:
                yield max(low_ns, event.at_ns), event.latest_ns + late_ns

    def _widen(
        self, key: NodeChangeKey, span: Span, horizon_ns: int, *, only_sooner: bool = False
    ) -> None:
        own = self._windows.setdefault(key, [])
        low_ns, high_ns = span[0], min(span[1], horizon_ns)
        if only_sooner:
            later = (window for window in own if window.latest_ns >= low_ns)
            for window in later:
                window.earliest_ns = min(window.earliest_ns, low_ns)
                return
        if low_ns > high_ns:
            return
        for window in own:
            if window.earliest_ns <= high_ns and low_ns <= window.latest_ns:
                if low_ns < window.earliest_ns or high_ns > window.latest_ns:
                    window.earliest_ns = min(low_ns, window.earliest_ns)
                    window.latest_ns = max(high_ns, window.latest_ns)
                    window.unsure = True
                return
        # A taint of the start is the first one and has no window.
        own.append(self._result.nodes.once_more(key, (low_ns, high_ns)))

    def _put_pods(self, by_node: dict[str, list[_Tainted]], horizon_ns: int) -> None:
        rows = LateRows(self._result, self._configuration, horizon_ns, _MISSED)
        for version in versions_on(self._snapshot, by_node, self._scenario):
            pod, since_ns = version.pod, version.since_ns
            for one in by_node.get(pod.node_name, ()):
                delay_ns = rows.delay_ns(pod, one.spell.taint)
                if delay_ns is None:
                    continue
                low_ns, high_ns = (max(at_ns, since_ns) + delay_ns for at_ns in one.span)
                if one.only_sooner:
                    rows.put_sooner(pod, low_ns)
                else:
                    rows.put(pod, one.spell.taint, (low_ns, high_ns))


def _key(name: str, what: str, taint: Taint) -> NodeChangeKey:
    return NodeChangeKey(name, what, f"{taint.key}:{taint.effect}")
