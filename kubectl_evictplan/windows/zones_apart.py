"""Zones that do not matter to one another: each is explored for itself, so that what is open in them adds up and does not multiply.

What the node lifecycle controller does in a zone follows from the zone's own nodes, and from those of others in one respect only:
whether all zones are down at once. Where some node is left out because it surely stays Ready (a bystander), they never are.
So what can happen in a zone is the same whatever happens in others, and there everybody may as well be fine: bystanders, as many as
there are nodes, since what a tick costs at the most follows from their number. Zones that share a pod's name, or in
which a node of one name can be, stay together. Any zone may have used its token on a node that is gone: every part has its pods and its Lease.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.topology import zone_display_name
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.windows.outcome import Exploration, WindowTable
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.spent_tokens import StatesBefore
from kubectl_evictplan.windows.unknowns.of_node_runs import ZoneWalk


class Part(NamedTuple):
    """Some zones of a cluster, by their keys; in the others there are only bystanders."""

    zones: frozenset[str]
    snapshot: ClusterSnapshot
    scenario: Scenario


def parts(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> list[Part]:
    """Parts that can be explored each for itself; none where that cannot be, or would gain nothing."""
    return _ZonesApart(snapshot, scenario, configuration).parts()


class _ZonesApart:
    """Takes a cluster apart for one scenario."""

    def __init__(
        self, snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
    ) -> None:
        self._snapshot = snapshot
        self._scenario = scenario
        self._membership = ZoneMembership(configuration)
        self._walk = ZoneWalk(snapshot, configuration)
        self._before = StatesBefore(snapshot, scenario.start_ns, configuration)
        # A zone by its key, and the set of those that it stays together with.
        self._together: dict[str, set[str]] = {}
        self._zone_of: dict[str, str] = {}
        self._zone_of_pod: dict[str, str] = {}

    def parts(self) -> list[Part]:
        """See the function of that name."""
        events = self._scenario.events
        if not self._snapshot.bystanders or any(e.manager_up is not None for e in events):
            return []
        if self._walk.fewest(Piece(self._scenario)) > 1:
            return []  # a zone that vanishes in the very tick in which another one is down
        if self._before.zones:
            return []  # all of them may have been down just before the start
        self._place_nodes()
        touched = (self._zone_of.get(name) for event in events for name in event.touched_nodes)
        if len(set(touched)) < 2:
            return []
        self._place_pods()
        zones_of = [set(self._zones_of(event)) for event in events]
        if not all(zones_of):
            return []  # it may be about any of them
        eventful: dict[int, set[str]] = {}
        for zone in sorted(set().union(*zones_of)):
            eventful.setdefault(id(self._together[zone]), self._together[zone])
        if len(eventful) < 2:
            return []
        found = [frozenset(zones) for zones in eventful.values()]
        quiet = self._together.keys() - frozenset[str]().union(*found)
        return [self._part(found[0] | quiet, first=True), *map(self._part, found[1:])]

    # -- which zones stay together ---------------------------------------------------------------------------

    def _place_nodes(self) -> None:
        created = [event.node for event in self._scenario.events if event.node is not None]
        for zone in self._snapshot.bystanders:
            self._together.setdefault(zone, {zone})
        for node in (*self._snapshot.nodes, *created):
            zone = self._membership.zone_key(node)
            self._together.setdefault(zone, {zone})
            self._join(zone, self._zone_of.setdefault(node.name, zone))

    def _place_pods(self) -> None:
        new = (event.pod for event in self._scenario.events if event.pod is not None)
        for pod in (*self._snapshot.pods, *new):
            if pod.node_name in self._zone_of:
                zone = self._zone_of[pod.node_name]
                self._join(zone, self._zone_of_pod.setdefault(pod.key, zone))

    def _join(self, one: str, other: str) -> None:
        if self._together[one] is not self._together[other]:
            joined = self._together[one] | self._together[other]
            self._together.update(dict.fromkeys(joined, joined))

    def _zones_of(self, event: ScenarioEvent) -> Iterator[str]:
        """Yield the zones that an event is about; nothing where it is about something that is in none."""
        named = [self._zone_of.get(name) for name in event.touched_nodes]
        named += [self._zone_of_pod.get(key) for key in event.pods]
        if event.node is not None:
            named.append(self._membership.zone_key(event.node))
        if event.pod is not None:
            named.append(self._zone_of_pod.get(event.pod.key))
        if None not in named:
            yield from (zone for zone in named if zone is not None)

    # -- one of them ------------------------------------------------------------------------------------------

    def _has_nodeless(self, pod: Pod, zones: frozenset[str], first: bool) -> bool:
        """Whether a pod on no node is looked at in these zones: where another one is made under its name, else in the first part."""
        zone = self._zone_of_pod.get(pod.key)
        return first if zone is None else zone in zones

    def _part(self, zones: frozenset[str], *, first: bool = False) -> Part:
        """``first``: with pods that are on no node."""
        names = {name for name, zone in self._zone_of.items() if zone in zones}
        others = self._zone_of.keys() - names
        well = Counter(self._snapshot.bystanders)
        well.update(
            self._zone_of[node.name] for node in self._snapshot.nodes if node.name in others
        )
        # Those of nodes that are gone stay: see ``zones_without_token``.
        pods = [
            pod
            for pod in self._snapshot.pods
            if (
                pod.node_name not in others
                if pod.node_name
                else self._has_nodeless(pod, zones, first)
            )
        ]
        leases = self._snapshot.leases
        snapshot = replace(
            self._snapshot,
            nodes=tuple(node for node in self._snapshot.nodes if node.name in names),
            pods=tuple(pods),
            leases={name: lease for name, lease in leases.items() if name not in others},
            bystanders=dict(well),
        )
        events = tuple(self._events(zones, names))
        return Part(zones, snapshot, replace(self._scenario, events=events))

    def _events(self, zones: frozenset[str], names: set[str]) -> Iterator[ScenarioEvent]:
        keys = {key for key, zone in self._zone_of_pod.items() if zone in zones}
        for event in self._scenario.events:
            found = set(self._zones_of(event))
            if found <= zones:
                yield event
            elif not found.isdisjoint(zones):
                yield event.restricted_to(names, keys)


def put_together(explored: Sequence[tuple[Part, Exploration]]) -> Exploration:
    """What was found in parts of one cluster, as if it had been explored as a whole."""
    result = Exploration()
    result.runs = sum(each.runs for _, each in explored)
    for part, found in explored:
        shown = {zone_display_name(zone) for zone in part.zones}
        for state in [key for key in found.zone_samples if key.zone not in shown]:
            del found.zone_samples[state]
        for nth in [nth for nth in found.zones.windows if nth[0].zone not in shown]:
            del found.zones.windows[nth]
        result.may_pass_over |= found.may_pass_over
        result.padding_ns = max(result.padding_ns, found.padding_ns)
        result.late_ns, result.ticks_late_ns = found.late_ns, found.ticks_late_ns
        for one, other in _pairs(result, found):
            one.update(other)
        _put(found, result)
    return result


def _pairs(result: Exploration, found: Exploration) -> Iterable[tuple[Any, Any]]:
    """Dictionaries and sets of both, in which only what all parts find is in more than one: pods of nodes that are gone."""
    yield result.evictions, found.evictions
    yield result.zone_samples, found.zone_samples
    yield result.affected, found.affected
    yield result.only_silent, found.only_silent
    yield result.waiting, found.waiting
    yield result.services, found.services
    yield result.sampled, found.sampled
    yield result.cut_short, found.cut_short


def _put(found: Exploration, result: Exploration) -> None:
    """Put the windows of one part into the result, where what is in every run is in all runs of all parts."""
    tables: list[tuple[WindowTable[Any], WindowTable[Any]]] = [
        (found.nodes, result.nodes),
        (found.zones, result.zones),
        (found.cancels, result.cancels),
        (found.cancelled_starts, result.cancelled_starts),
    ]
    for own, whole in tables:
        for nth, window in own.windows.items():
            window.unsure = window.unsure or window.runs < found.runs
            window.runs = result.runs
            whole.windows[nth] = window
