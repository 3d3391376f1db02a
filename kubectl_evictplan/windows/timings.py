"""Which node runs to make: last heartbeats, critical phases and costs, and the pieces between them.

The snapshot shows the last renewal before it was taken; a kubelet that stops later has renewed in between,
every quarter of the lease's duration and up to 4 % more.

Between two *critical* phases (a tick that just catches a heartbeat, or just misses it) the structure of
a run stays the same and its instants move with the phase. So a *piece* is told by its first and its last
phase. Where the monitor's grid is known (a given phase, a process that the scenario starts) its ticks meet
other instants only by what they cost: there pieces lie between critical costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, pairwise
from math import sqrt
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import is_silent_at, observed_at_ns, renew_period_ns
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import READY, ClusterSnapshot, Lease
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.scenarios.actions.nodes import DeleteNode
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.circumstances import Moment, MomentKind
from kubectl_evictplan.windows.unknown_instants import Stretch, stretches

# The kubelet jitters its renewal period by up to 4 %.
RENEWAL_JITTER_NUMERATOR, RENEWAL_JITTER_DENOMINATOR = 104, 100
# Parts of a window that are sampled; both ends carry most of the weight.
_LEVELS = (0.0, 1.0, 0.5, 0.0, 1.0, 0.25, 0.75)
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)

# (node, earliest, latest) of last heartbeats, by the index of the event.
HeartbeatWindows = dict[int, list[tuple[str, int, int]]]


def heartbeat_variants(snapshot: ClusterSnapshot, scenario: Scenario) -> list[Scenario]:
    """The scenario with every unknown last heartbeat as early, as late, and in turn both ways."""
    windows = heartbeat_windows(snapshot, scenario)
    if not windows:
        return [scenario]
    # Which end of its window the n-th node takes: all the first, all the last, in turn both ways.
    ways = [(0, 0), (1, 1), (0, 1), (1, 0)]
    open_windows = how_many_open(windows)
    chosen = ways[:1] if not open_windows else ways if open_windows > 1 else ways[:2]
    return [
        _filled_in(scenario, windows, lambda place, *window, way=way: window[way[place % 2]])
        for way in chosen
    ]


def how_many_open(windows: HeartbeatWindows) -> int:
    """How many last heartbeats are not known exactly."""
    return sum(low_ns != high_ns for own in windows.values() for _, low_ns, high_ns in own)


def _filled_in(
    scenario: Scenario, windows: HeartbeatWindows, choose: Callable[[int, int, int], int]
) -> Scenario:
    """The scenario with a heartbeat chosen for the n-th node of every event, from its window."""
    events: list[ScenarioEvent] = []
    for index, event in enumerate(scenario.events):
        if index not in windows:
            events.append(event)
            continue
        for place, (name, *window) in enumerate(windows[index]):
            last_ns = choose(place, *window)
            events.append(replace(event, nodes=(name,), last_heartbeat_ns=last_ns))
    return replace(scenario, events=tuple(events))


def heartbeat_windows(snapshot: ClusterSnapshot, scenario: Scenario) -> HeartbeatWindows:
    """Windows of every unknown last heartbeat."""
    return {
        index: [
            (name, *last_heartbeat_window(snapshot, scenario, index, name)) for name in event.nodes
        ]
        for index, event in enumerate(scenario.events)
        if isinstance(event, StopKubelet) and event.last_heartbeat_ns is None
    }


def last_heartbeat_window(
    snapshot: ClusterSnapshot, scenario: Scenario, index: int, name: str
) -> tuple[int, int]:
    """Earliest and latest offset of the last renewal before the stop event at ``index``.

    Known exactly while the next renewal after the Lease's renewTime is not yet due.
    """
    at_ns = scenario.events[index].at_ns
    lease = snapshot.leases.get(name)
    period_ns = renew_period_ns(lease)
    longest_ns = longest_renewal_ns(lease)
    known_ns: int | None = None
    silent = False
    if lease is not None and lease.renew_time_ns is not None:
        known_ns = lease.renew_time_ns - scenario.start_ns
        silent = is_silent_at(lease, observed_at_ns(snapshot, scenario.start_ns))
    for event in scenario.events[:index]:
        if event.kubelets_up and name in event.nodes:
            known_ns, silent = event.at_ns, False
    if known_ns is not None and silent:
        return known_ns, known_ns
    if known_ns is None:
        return at_ns - longest_ns, at_ns
    return last_renewal_window(known_ns, at_ns, period_ns, longest_ns)


def longest_renewal_ns(lease: Lease | None) -> int:
    """How far apart two renewals of a kubelet can lie."""
    return renew_period_ns(lease) * RENEWAL_JITTER_NUMERATOR // RENEWAL_JITTER_DENOMINATOR


def last_renewal_window(
    known_ns: int, at_ns: int, period_ns: int, longest_ns: int
) -> tuple[int, int]:
    """Earliest and latest instant of the last renewal at ``at_ns`` of a kubelet that renewed at ``known_ns``."""
    elapsed_ns = at_ns - known_ns
    if elapsed_ns < period_ns:
        known_ns = min(known_ns, at_ns)
        return known_ns, known_ns
    fewest = max(0, -(-elapsed_ns // longest_ns) - 1)
    most = elapsed_ns // period_ns
    earliest_ns = max(at_ns - longest_ns, known_ns + fewest * period_ns)
    return earliest_ns, min(at_ns, known_ns + most * longest_ns)


def sequence(dimension: int, index: int) -> float:
    """The ``index``-th point of a Kronecker sequence in that dimension, in [0, 1)."""
    prime = _PRIMES[dimension % len(_PRIMES)]
    return (index + 1) * sqrt(prime) * (1 + dimension // len(_PRIMES)) % 1.0


def sampled_heartbeats(scenario: Scenario, windows: HeartbeatWindows, index: int) -> Scenario:
    """The scenario with every unknown last heartbeat somewhere in its window."""
    dimensions = count(3)

    def choose(_: int, low_ns: int, high_ns: int) -> int:
        level = _LEVELS[int(sequence(next(dimensions), index) * len(_LEVELS))]
        return low_ns + round((high_ns - low_ns) * level)

    return _filled_in(scenario, windows, choose)


# Measured on recorded control planes: ticks cost 4-8 ms, passes about 1 ms. Larger clusters copy more
# nodes per tick.
MONITOR_COST_MAX_NS = 10_000_000
MONITOR_COST_PER_NODE_NS = 4_000
_CRITICAL_COSTS_MAX = 40


def monitor_cost_max_ns(snapshot: ClusterSnapshot) -> int:
    """The most that a tick costs which has nothing to write."""
    nodes = len(snapshot.nodes) + sum(snapshot.bystanders.values())
    return MONITOR_COST_MAX_NS + MONITOR_COST_PER_NODE_NS * nodes


class Grid(NamedTuple):
    """Where the monitor ticks: phase of the first tick, and what each tick costs."""

    phase_ns: int
    cost_ns: int


class Piece(NamedTuple):
    """Grids from ``first`` to ``last`` for a scenario with every last heartbeat filled in.

    ``last_scenario`` goes with ``last``: it differs from ``scenario`` where the instant of a start is
    not known. ``left_out_ns``: critical phases lie in between; instants can lie that much outside.
    ``zones_backwards``: see ``Timing``.
    """

    scenario: Scenario
    first: Grid
    last: Grid
    left_out_ns: int = 0
    zones_backwards: bool = False
    # The moments at both ends of the phases, where they are known.
    between: tuple[Moment, Moment] | None = None
    last_scenario: Scenario | None = None

    def spread_ns(self, period_ns: int, end_ns: int) -> int:
        """How far apart the same tick can lie at both ends."""
        ticks = end_ns // period_ns + 1
        costs_ns = ticks * abs(self.last.cost_ns - self.first.cost_ns)
        phases_ns = self.last.phase_ns - self.first.phase_ns
        if self.last_scenario is not None:
            phases_ns = max(phases_ns, 0) + Stretch(self.scenario, self.last_scenario).shift_ns
        return phases_ns + min(costs_ns, period_ns)


def pieces(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    runs_max: int,
) -> list[Piece]:
    """Pieces that cover every grid, for at most about ``runs_max`` node runs (two for each piece)."""
    planner = _Planner(snapshot, configuration, monitor_cost_max_ns(snapshot))
    parts = stretches(
        scenario,
        planner.instants,
        configuration.node_monitor_period_ns,
        configuration.node_monitor_grace_period_ns,
    )
    found: list[Piece] = []
    for part in parts:
        found += planner.of_stretch(part, runs_max // len(parts))
    if planner.zones_may_vanish(scenario):
        found += [piece._replace(zones_backwards=True) for piece in found]
    return found


class _Planner:
    def __init__(
        self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration, cost_max_ns: int
    ) -> None:
        self._snapshot = snapshot
        self._configuration = configuration
        self._period_ns = configuration.node_monitor_period_ns
        self._cost_max_ns = cost_max_ns

    def of_stretch(self, stretch: Stretch, runs_max: int) -> Iterator[Piece]:
        """Pieces of a scenario whose starts lie between those of both ends."""
        snapshot = self._snapshot
        variants = heartbeat_variants(snapshot, stretch.first)
        last_variants: list[Scenario] | list[None] = [None] * len(variants)
        if stretch.first is not stretch.last:
            last_variants = heartbeat_variants(snapshot, stretch.last)
        found = [list(self.exact(variant)) for variant in variants]
        if 2 * sum(map(len, found)) > runs_max:
            share = max(2, runs_max // (2 * len(variants)))
            found = [list(self.thinned(variant, share)) for variant in variants]
        for pieces_of_variant, last in zip(found, last_variants, strict=True):
            for piece in pieces_of_variant:
                left_out_ns = piece.left_out_ns + stretch.left_out_ns
                yield piece._replace(last_scenario=last, left_out_ns=left_out_ns)
        windows = heartbeat_windows(snapshot, stretch.first)
        if how_many_open(windows) > 1:
            # All ends of several unknown heartbeats do not reach every order in which they are noticed.
            for index in range(runs_max // 6):
                sampled = self.sample(sampled_heartbeats(stretch.first, windows, index), index)
                if stretch.first is not stretch.last:
                    last = sampled_heartbeats(stretch.last, windows, index)
                    sampled = sampled._replace(last_scenario=last)
                yield sampled._replace(left_out_ns=stretch.left_out_ns)

    def exact(self, scenario: Scenario) -> Iterator[Piece]:
        """Every piece, for three costs of a tick."""
        instants = self.instants(scenario)
        fixed_ns = self._fixed_phase_ns(scenario)
        costs = self._critical_costs(scenario, instants)
        if fixed_ns is not None:
            yield from self._between_costs(scenario, costs, fixed_ns)
            return
        for cost_ns in (0, self._cost_max_ns, self._cost_max_ns // 2):
            step_ns = self._period_ns + cost_ns
            moment_at = {moment.at_ns % step_ns: moment for moment in self._moments(scenario)}
            for low_ns, high_ns in _between(moment_at, step_ns):
                after, before = moment_at.get(low_ns), moment_at.get((high_ns + 1) % step_ns)
                known = None
                if cost_ns == 0 and after is not None and before is not None:
                    # Neighbouring phases may belong to moments that are several periods apart.
                    if 0 < before.at_ns - after.at_ns <= step_ns:
                        known = after, before
                for first_ns, last_ns in self._visible(low_ns, high_ns):
                    first, last = Grid(first_ns, cost_ns), Grid(last_ns, cost_ns)
                    yield Piece(scenario, first, last, between=known)
        # A grid that a new process starts: when in its period the old one ticked matters no more.
        if costs:
            yield from self._between_costs(scenario, costs, 0, self._period_ns // 2)

    def _between_costs(
        self, scenario: Scenario, costs: Sequence[int], *phases_ns: int
    ) -> Iterator[Piece]:
        for low_ns, high_ns in _between(costs, self._cost_max_ns + 1):
            for phase_ns in phases_ns:
                yield Piece(scenario, Grid(phase_ns, low_ns), Grid(phase_ns, high_ns))

    def thinned(self, scenario: Scenario, count: int) -> Iterator[Piece]:
        """``count`` pieces that each hold many: ticks without cost first, and with all of it last."""
        fixed_ns, instants = self._fixed_phase_ns(scenario), self.instants(scenario)
        costs = _every(self._critical_costs(scenario, instants), count)
        if fixed_ns is not None:
            yield from self._between_costs(scenario, costs, fixed_ns)
            return
        phases = sorted({at_ns % self._period_ns for at_ns in instants} | {0})
        for low_ns, high_ns in _between(_every(phases, count), self._period_ns):
            for first_ns, last_ns in self._visible(low_ns, high_ns):
                within = any(first_ns < phase_ns <= last_ns for phase_ns in phases)
                left_out_ns = last_ns - first_ns if within else 0
                first, last = Grid(first_ns, 0), Grid(last_ns, self._cost_max_ns)
                yield Piece(scenario, first, last, left_out_ns)
        if costs:
            yield from self._between_costs(scenario, costs, 0, self._period_ns // 2)

    def zones_may_vanish(self, scenario: Scenario) -> bool:
        """Whether some zone may be left without a node that counts, next to another one."""
        membership = ZoneMembership(self._configuration)
        nodes = [*self._snapshot.nodes]
        nodes += [event.node for event in scenario.events if event.node is not None]
        zones = {membership.zone_key(node) for node in nodes}
        deleted = {
            name
            for event in scenario.events
            if isinstance(event, DeleteNode)
            for name in event.nodes
        }
        counted = {
            membership.zone_key(node)
            for node in nodes
            if not membership.is_excluded(node) and node.name not in deleted
        }
        # Where a bystander is, a zone cannot vanish.
        elsewhere = set(self._snapshot.bystanders)
        return len(zones | elsewhere) > 1 and zones | elsewhere != counted | elsewhere

    def sample(self, scenario: Scenario, index: int) -> Piece:
        """One piece of the scenario, another one for every ``index``."""
        costs = (0, self._cost_max_ns, self._cost_max_ns // 2)
        cost_ns = costs[int(sequence(0, index) * len(costs))]
        fixed_ns = self._fixed_phase_ns(scenario)
        if fixed_ns is not None:
            return Piece(scenario, Grid(fixed_ns, cost_ns), Grid(fixed_ns, cost_ns))
        step_ns = self._period_ns + cost_ns
        spans = [
            span
            for stretch in _between([at_ns % step_ns for at_ns in self.instants(scenario)], step_ns)
            for span in self._visible(*stretch)
        ]
        low_ns, high_ns = spans[int(sequence(1, index) * len(spans))]
        return Piece(scenario, Grid(low_ns, cost_ns), Grid(high_ns, cost_ns))

    def _visible(self, low_ns: int, high_ns: int) -> Iterator[tuple[int, int]]:
        """The parts of a stretch of phases that the snapshot leaves; all of it where it tells nothing."""
        for first_ns, last_ns in self._configuration.monitor_phases_ns or ((low_ns, high_ns),):
            if max(low_ns, first_ns) <= min(high_ns, last_ns):
                yield max(low_ns, first_ns), min(high_ns, last_ns)

    def _moments(self, scenario: Scenario) -> Iterable[Moment]:
        return _critical_moments(self._snapshot, scenario, self._configuration)

    def instants(self, scenario: Scenario) -> list[int]:
        """Offsets at which it matters on which side of them a tick comes."""
        return critical_instants(self._snapshot, scenario, self._configuration)

    def _fixed_phase_ns(self, scenario: Scenario) -> int | None:
        if self._configuration.monitor_phase_ns is not None:
            return self._configuration.monitor_phase_ns
        return 0 if starts_without_controller(scenario) else None

    def _critical_costs(self, scenario: Scenario, instants: Sequence[int]) -> list[int]:
        """Costs with which a grid that starts at a known instant just meets another instant."""
        starts = [event.at_ns for event in scenario.events if event.manager_up]
        if self._configuration.monitor_phase_ns is not None:
            starts.append(self._configuration.monitor_phase_ns)
        costs: set[int] = set()
        for start_ns in starts:
            for at_ns in instants:
                steps = (at_ns - start_ns) // self._period_ns
                if steps > 0:
                    cost_ns = -(-(at_ns - start_ns) // steps) - self._period_ns
                    if 0 < cost_ns <= self._cost_max_ns:
                        costs.add(cost_ns)
        return _every(sorted(costs), _CRITICAL_COSTS_MAX)


def _between(starts: Iterable[int], end: int) -> Iterator[tuple[int, int]]:
    """(first, last) of the stretches of 0 .. ``end`` - 1 that begin at 0 and at each of ``starts``."""
    for low, high in pairwise([*sorted({0, *starts}), end]):
        yield low, high - 1


def critical_instants(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> list[int]:
    """Offsets at which it matters on which side of them a tick of the monitor comes, sorted."""
    moments = _critical_moments(snapshot, scenario, configuration)
    return sorted({moment.at_ns for moment in moments})


def _critical_moments(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> Iterable[Moment]:
    """Offsets at which it matters whether a tick comes just before or just after."""
    startup_ns = configuration.node_startup_grace_period_ns
    leader_ns = snapshot.control_plane.leader_acquire_time_ns
    for event in scenario.events:
        if event.critical_ns is not None:
            silent = event.kubelets_up is False
            kind = MomentKind.LAST_HEARTBEAT if silent else MomentKind.EVENT
            yield Moment(event.critical_ns, kind, ", ".join(event.touched_nodes))
        if event.node is not None and event.node.condition(READY) is None:
            # The API server stamps what it creates with a whole second.
            created_ns = (scenario.start_ns + event.at_ns) // SECOND_NS * SECOND_NS
            deadline_ns = created_ns + startup_ns - scenario.start_ns
            yield Moment(deadline_ns, MomentKind.STARTUP_DEADLINE, event.node.name)
    for node in snapshot.nodes:
        lease = snapshot.leases.get(node.name)
        ready = node.condition(READY)
        silent = is_silent_at(lease, observed_at_ns(snapshot, scenario.start_ns))
        if silent and lease is not None and lease.renew_time_ns is not None:
            if ready is None or ready.status != "Unknown":
                heartbeat_ns = lease.renew_time_ns - scenario.start_ns
                yield Moment(heartbeat_ns, MomentKind.LAST_HEARTBEAT, node.name)
                # A process that is younger first saw the node at its own first tick.
                if leader_ns is not None and lease.renew_time_ns < leader_ns <= scenario.start_ns:
                    process_ns = leader_ns - scenario.start_ns
                    yield Moment(process_ns, MomentKind.PROCESS_START, node.name)
        if ready is None or ready.status != TRUE or no_execute_taints(node.taints):
            # The first tick after the start has something to do.
            yield Moment(0, MomentKind.START, "")
        if ready is None:
            deadline_ns = node.creation_timestamp_ns + startup_ns - scenario.start_ns
            yield Moment(deadline_ns, MomentKind.STARTUP_DEADLINE, node.name)


def _every(values: Sequence[int], count: int) -> list[int]:
    """At most ``count`` of sorted values, evenly chosen, with both ends."""
    if len(values) <= count:
        return list(values)
    last = len(values) - 1
    return sorted({values[index * last // (count - 1)] for index in range(count)})
