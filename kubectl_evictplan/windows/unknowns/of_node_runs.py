"""All unknowns of the node runs, among them how zones are walked, and in which states the start finds them: which pieces there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, islice, product
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.engine.event_queue import LoopGrid
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.scenarios.actions.nodes import DeleteNode
from kubectl_evictplan.scenarios.actions.processes import TouchLease
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.alike_nodes import AlikeNodes
from kubectl_evictplan.windows.budget import SAMPLED_PIECES_MAX, spread
from kubectl_evictplan.windows.pieces import Grid, Piece
from kubectl_evictplan.windows.spent_tokens import all_down_until_ns, still_in_line
from kubectl_evictplan.windows.unknowns.last_heartbeats import LastHeartbeats
from kubectl_evictplan.windows.unknowns.monitor_ticks import MonitorPhase, TickCost
from kubectl_evictplan.windows.unknowns.starts import KubeletReturns, ProcessStarts
from kubectl_evictplan.windows.unknowns.tick_meetings import TickMeetings, tick_steps
from kubectl_evictplan.windows.unknowns.tick_orders import TickOrders
from kubectl_evictplan.windows.unknowns.unknown import Unknown, settled

if TYPE_CHECKING:
    from kubectl_evictplan.windows.evicted_before import EvictedBefore, Sets


class ZoneWalk(Unknown[Piece]):
    """Upstream walks a hash map, and stops at the first zone that is not full; first and last decide."""

    name = "order of zones"
    what = "in which order the controller looks at zones that lose their last node"

    def __init__(self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> None:
        self._snapshot = snapshot
        self._membership = ZoneMembership(configuration)
        self._passes_over = configuration.lease_circuit_breaker

    @cached_property
    def _places(self) -> list[tuple[str, str, bool]]:
        """Of every node of the snapshot its name, its zone, and whether it counts there."""
        return list(map(self._place, self._snapshot.nodes))

    def _place(self, node: Node) -> tuple[str, str, bool]:
        counts = not self._membership.is_excluded(node)
        return node.name, self._membership.zone_key(node), counts

    def fewest(self, part: Piece) -> int:
        """Forwards and backwards."""
        return 2 if self._zones_may_vanish(part.scenario) else 1

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """Forwards, and backwards where it can matter."""
        yield part
        if self._zones_may_vanish(part.scenario):
            yield replace(part, zones_backwards=True)

    def _zones_may_vanish(self, scenario: Scenario) -> bool:
        """Whether some zone may have no node that counts for a while, next to another one."""
        created = [event.node for event in scenario.events if event.node is not None]
        places = [*self._places, *map(self._place, created)]
        zones = {zone for _, zone, _ in places}
        # A node that a tick passes over counts nowhere.
        taking = (DeleteNode, TouchLease) if self._passes_over else DeleteNode
        happens = (event for event in scenario.events if isinstance(event, taking))
        taken = {name for event in happens for name in event.nodes}
        stay = {zone for name, zone, counts in self._places if counts and name not in taken}
        # Who is made later keeps a zone only where there was no zone before.
        empty = {zone for name, zone, counts in places if not counts or name in taken}
        counted = stay | (zones - empty)
        # Where a bystander is, a zone cannot vanish.
        elsewhere = set(self._snapshot.bystanders)
        return len(zones | elsewhere) > 1 and zones | elsewhere != counted | elsewhere


# States of zones at the start that are tried for one piece.
_STATES_MAX = 8


class StatesAtStart(Unknown[Piece]):
    """What a kubelet posts, and nodes that come and go, count in their zones with the next tick."""

    name = "states of zones at the start"
    what = "what the last tick of the node monitor before the start had seen of nodes that changed just before it"

    def __init__(self, meetings: TickMeetings) -> None:
        self._meetings = meetings

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """As the snapshot shows them, and all that this tick may have left."""
        before = self._meetings.states_before(part.scenario)
        if not before.zones or starts_without_controller(part.scenario):
            yield part
            return
        grids, period_ns = (part.first, part.last), self._meetings.period_ns
        newest_ns = min(_newest(_warm_ticks(grid, period_ns)) for grid in grids)
        told, are_all = before.told(newest_ns, _STATES_MAX)
        part = part if are_all else part.missing(self.name)
        yield part
        for states in told:
            yield replace(part, zone_states=states)


class LinesAtStart(Unknown[Piece]):
    """Who is tainted by hand stays in line. So does whom a pass tainted inside a tick that took all nodes out of line: the next one puts it there again.

    Without taint manager nothing tells of whom no pods are left.
    """

    name = "lines at the start"
    what = (
        "whether a node is still in line that has its taint, or without taint manager no pods left"
    )

    def __init__(self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> None:
        self._names = still_in_line(snapshot, configuration)
        self._given = snapshot, configuration
        # By the scenario's start.
        self._evicted: dict[int, EvictedBefore] = {}

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """Each set of them; where these are too many none of them, and each one alone: partly."""
        if starts_without_controller(part.scenario):
            yield part
            return
        if not self._given[1].taint_mode:
            yield from self._without_taint_manager(part)
            return
        sets, are_all = self._sets()
        part = part if are_all else part.missing(self.name)
        for some in sets:
            yield replace(part, still_in_line=some) if some else part

    def _without_taint_manager(self, part: Piece) -> Iterator[Piece]:
        scenario = part.scenario
        if scenario.start_ns not in self._evicted:
            from kubectl_evictplan.windows.evicted_before import evicted_before  # rarely needed

            snapshot, configuration = self._given
            found = evicted_before(snapshot, scenario, configuration)
            self._evicted[scenario.start_ns] = found
        evicted = self._evicted[scenario.start_ns]
        touched = scenario.touched_nodes
        sets, are_all = evicted.in_line(touched, _STATES_MAX)
        early, are_all_early = evicted.early_in_line()
        part = part if are_all and are_all_early else part.missing(self.name)
        for some, sooner in product(sets, early):
            yield replace(part, still_in_line=some, early_in_line=sooner)

    def _sets(self) -> tuple[Sets, bool]:
        names = self._names
        if 2 ** len(names) <= _STATES_MAX:
            numbers = range(len(names) + 1)
            return [some for number in numbers for some in combinations(names, number)], True
        return [(), *((name,) for name in names[: _STATES_MAX - 1])], False


class ProbesAtStart(Unknown[Piece]):
    """The tick that finds that not all zones are down any more begins all grace periods anew."""

    name = "grace periods at the start"
    what = "whether all zones were down until shortly before the start, so that grace periods began anew"

    def __init__(self, snapshot: ClusterSnapshot, meetings: TickMeetings) -> None:
        self._snapshot = snapshot
        self._meetings = meetings
        # By the scenario's start.
        self._until_ns: dict[int, int | None] = {}

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """With none of the ticks before the start, and with each that can have been the one."""
        numbers = [] if starts_without_controller(part.scenario) else list(self._numbers(part))
        yield part if len(numbers) < most else part.missing(self.name)
        for number in numbers[: max(most - 1, 1)]:
            yield replace(part, probes_anew_ticks=number)

    def _numbers(self, part: Piece) -> Iterator[int]:
        """How many ticks before the start each of them is."""
        start_ns = part.scenario.start_ns
        if start_ns not in self._until_ns:
            given = self._snapshot, start_ns, self._meetings.configuration
            self._until_ns[start_ns] = all_down_until_ns(*given)
        until_ns = self._until_ns[start_ns]
        if until_ns is None:
            return
        grids, period_ns = (part.first, part.last), self._meetings.period_ns
        ticks = min((_warm_ticks(grid, period_ns) for grid in grids), key=_newest)
        last_ns, oldest_ns = ticks.at_or_after(until_ns), -self._meetings.longest_age_ns()
        tick_ns, number = ticks.newest(0), 1
        while tick_ns > oldest_ns:
            if tick_ns <= last_ns:
                yield number
            tick_ns, number = ticks.newest(tick_ns), number + 1


class PostsAtStart(Unknown[Piece]):
    """The API tells the second in which a kubelet posted a status."""

    name = "posts at the start"
    what = "whether a tick of the second in which a node came to be as it is at the start had seen that already"

    def __init__(self, meetings: TickMeetings) -> None:
        self._meetings = meetings

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """Each set of the nodes of which some tick comes in that second; of too many none, all, and each one: partly."""
        spans = self._meetings.newest_statuses(part.scenario)
        if not spans or starts_without_controller(part.scenario):
            yield part
            return
        grids, period_ns = (part.first, part.last), self._meetings.period_ns
        several = [_warm_ticks(grid, period_ns) for grid in grids]
        names = [
            name
            for name, own in sorted(spans.items())
            if any(low <= ticks.at_or_after(low) < high for ticks in several for low, high in own)
        ]
        if 2 ** len(names) <= min(_STATES_MAX, most):
            numbers = range(len(names) + 1)
            sets = [some for number in numbers for some in combinations(names, number)]
        else:
            part = part.missing(self.name)
            sets = [(), tuple(names), *((name,) for name in names[: _STATES_MAX - 2])]
        for late in sets[:most]:
            yield replace(part, posted_late=late)


def _warm_ticks(grid: Grid, period_ns: int) -> LoopGrid:
    """Ticks of the process that runs at the start."""
    phase_ns, cost_ns, courses = grid
    timing = Timing(monitor_phase_ns=phase_ns, monitor_cost_ns=cost_ns, monitor_courses=courses)
    return timing.ticks(phase_ns, period_ns, warm=True)


def _newest(ticks: LoopGrid) -> int:
    return ticks.newest(0)


# Of two answers the exact one may take twice as long.
_WORTH_BEING_EXACT = 2


def pieces(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    runs_max: int,
    alike: AlikeNodes,
) -> list[Piece]:
    """Pieces that together stand for all node runs, for at most about ``runs_max`` of them (two for each piece)."""
    meetings = TickMeetings(snapshot, configuration)
    heartbeats = LastHeartbeats(snapshot, alike, tick_steps(snapshot, configuration))
    returns = KubeletReturns(configuration)
    # Where ticks of a new process fall follows from its start and from what they cost.
    processes = ProcessStarts(configuration, meetings.instants, meetings.begin_instants)
    ticks = (TickCost(meetings), processes, MonitorPhase(meetings))
    walk, states = ZoneWalk(snapshot, configuration), StatesAtStart(meetings)
    lines, probes = LinesAtStart(snapshot, configuration), ProbesAtStart(snapshot, meetings)
    statuses = PostsAtStart(meetings)
    most = max(runs_max // 2, 1)
    enough = most * _WORTH_BEING_EXACT

    cells = TickOrders(Piece(scenario), meetings, heartbeats, enough).pieces()
    if cells is not None:
        whole = cells
        for unknown in (walk, states, lines, probes, statuses):
            whole = [each for piece in whole for each in unknown.settle(piece, enough)]
        if len(whole) <= enough:
            return _some(whole) if any(piece.missed for piece in whole) else whole
    begun = list(returns.settle(Piece(scenario), most))
    most = min(most, SAMPLED_PIECES_MAX)
    if heartbeats.is_known(scenario):
        unknowns = (returns, *ticks, heartbeats, walk, states, lines, probes, statuses)
        return _some(settled(Piece(scenario), unknowns, most))
    # Too many choices: each of a few of last heartbeats with every phase, and one phase for each of many.
    corners = [corner for part in begun for corner in heartbeats.corners(part)]
    share = max(most * 2 // 3 // len(corners), 1)
    found = [
        piece
        for each in corners
        for piece in settled(each, (*ticks, walk, states, lines, probes, statuses), share)
    ]
    for index in range(most // 3):
        drawn = heartbeats.drawn(begun[index % len(begun)], index)
        found += settled(drawn, (*ticks, walk, states, lines, probes, statuses), 1)
    return _some(found)


def _some(samples: Sequence[Piece]) -> list[Piece]:
    """Not too many of them, some from everywhere: bounds tell what each of them misses."""
    missed = frozenset[str]().union(*(piece.missed for piece in samples))
    chosen = islice(spread(samples), SAMPLED_PIECES_MAX)
    return [replace(piece, missed=missed) for piece in chosen]
