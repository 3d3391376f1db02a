"""What ticks of the node monitor meet: the instants at which it matters on which side of them a tick comes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from kubectl_evictplan.cluster.kubelets import (
    is_silent_at,
    is_up_at_start,
    is_up_when_created,
    longest_renewal_ns,
    observed_at_ns,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import refill_ns
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import put_in_line_from_ns
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE, TRUE, UNKNOWN
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import READY, ClusterSnapshot, Node, NodeCondition
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute, no_execute_taints
from kubectl_evictplan.scenarios.actions.nodes import AddTaint
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.alike_nodes import is_seen_by_node_lifecycle
from kubectl_evictplan.windows.circumstances import Moment, MomentKind
from kubectl_evictplan.windows.newest_statuses import NewestStatuses
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.spent_tokens import StatesBefore, zones_without_token
from kubectl_evictplan.windows.unknowns.tick_cells import TickSteps

# Measured on recorded control planes: ticks cost 4-8 ms, passes about 1 ms. Larger clusters copy more
# nodes per tick.
MONITOR_COST_MAX_NS = 10_000_000
MONITOR_COST_PER_NODE_NS = 4_000
# By then a pass may have come that taints a node which is in line before the start.
_AFTER_START_NS = 10


def monitor_cost_max_ns(snapshot: ClusterSnapshot) -> int:
    """The most that a tick costs which has nothing to write."""
    nodes = len(snapshot.nodes) + sum(snapshot.bystanders.values())
    return MONITOR_COST_MAX_NS + MONITOR_COST_PER_NODE_NS * nodes


def tick_steps(snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> TickSteps:
    """How far apart two ticks come that have nothing to write."""
    period_ns = configuration.node_monitor_period_ns
    return TickSteps(period_ns, period_ns + monitor_cost_max_ns(snapshot))


class TickMeetings:
    """What ticks of the monitor meet in one cluster."""

    def __init__(self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> None:
        self._snapshot = snapshot
        self.configuration = configuration
        self.cost_max_ns = monitor_cost_max_ns(snapshot)
        self.period_ns = configuration.node_monitor_period_ns
        self._known: dict[int, tuple[Scenario, list[int]]] = {}
        self._countdowns: dict[int, tuple[Scenario, dict[Moment, None]]] = {}
        # By the scenario's start.
        self._at_start: dict[int, list[Moment]] = {}
        self._states_before: dict[int, StatesBefore] = {}
        self._newest: dict[int, NewestStatuses] = {}

    def moments(self, scenario: Scenario) -> Iterable[Moment]:
        """Moments at which it matters on which side of them a tick comes."""
        start_ns = scenario.start_ns
        if start_ns not in self._at_start:
            found = list(_moments_at_start(self._snapshot, start_ns, self.configuration))
            unseen_ns = self.states_before(scenario).instants
            found += [Moment(at_ns, MomentKind.EVENT, "") for at_ns in sorted(unseen_ns)]
            self._at_start[start_ns] = found
        yield from _moments_of_events(scenario, self.configuration)
        yield from self._at_start[start_ns]
        yield from _moments_of_a_young_process(self._snapshot, scenario, self.configuration)
        spans = {span for own in self.newest_statuses(scenario).values() for span in own}
        instants = sorted({at_ns for span in spans for at_ns in span})
        yield from (Moment(at_ns, MomentKind.EVENT, "") for at_ns in instants)
        if id(scenario) not in self._countdowns:
            ends = (*self._ends_of_countdowns(scenario), *self._moments_of_fates(scenario))
            self._countdowns[id(scenario)] = scenario, dict.fromkeys(ends)
        yield from self._countdowns[id(scenario)][1]

    def states_before(self, scenario: Scenario) -> StatesBefore:
        """What the newest tick before the start may have left."""
        start_ns = scenario.start_ns
        if start_ns not in self._states_before:
            given = self._snapshot, start_ns, self.configuration
            self._states_before[start_ns] = StatesBefore(*given)
        return self._states_before[start_ns]

    def newest_statuses(self, scenario: Scenario) -> Mapping[str, Collection[Span]]:
        """By the names of nodes the spans in which they came to be as they are at the start, where it matters which tick saw that."""
        start_ns = scenario.start_ns
        if start_ns not in self._newest:
            given = self._snapshot, start_ns, self.configuration
            self._newest[start_ns] = NewestStatuses(*given)
        return self._newest[start_ns].of(scenario)

    def _ends_of_countdowns(self, scenario: Scenario) -> Iterator[Moment]:
        """As ``countdown_ends``: nothing where no node has a taint that ticks put on and take off."""
        nodes, events = self._snapshot.nodes, scenario.events
        if any(is_lifecycle_no_execute(taint) for node in nodes for taint in node.taints) or any(
            isinstance(event, AddTaint) and is_lifecycle_no_execute(event.taint) for event in events
        ):
            from kubectl_evictplan.windows.unknowns import countdown_ends  # rarely needed

            step_max_ns = self.period_ns + self.cost_max_ns
            given = self._snapshot, scenario, self.configuration, step_max_ns
            yield from countdown_ends.ends_of_countdowns(*given)

    def _moments_of_fates(self, scenario: Scenario) -> Iterator[Moment]:
        """Where a tick itself may taint a node, and not a pass after it, the taint comes when the tick does: so what happens to pods meets ticks."""
        given, names = (self._snapshot, scenario), set[str]()
        exchanged = exchanged_by_ticks(*given) if self.configuration.taint_mode else set[str]()
        if self._all_may_be_down(scenario):
            names = self._queued_at_once(scenario)
            waits = any(map(_is_in_line_at_start, self._snapshot.nodes))
            if waits and self.configuration.taint_mode:
                # A tick at the start takes it out of line before any pass, a later one may take off the taint of a pass.
                yield Moment(_AFTER_START_NS, MomentKind.START, "")
        if names or exchanged:
            from kubectl_evictplan.windows.unknowns import begin_instants  # rarely needed

            found = begin_instants.taint_instants(*given, names, exchanged, self.configuration)
            found -= {moment.at_ns for moment in _moments_of_events(scenario, self.configuration)}
            yield from (Moment(at_ns, MomentKind.EVENT, "") for at_ns in sorted(found) if at_ns > 0)

    def _all_may_be_down(self, scenario: Scenario) -> bool:
        """Whether a tick may take out of line at its end whom it put there: then only a pass inside that tick taints them."""
        snapshot = self._snapshot
        if snapshot.bystanders:
            return False
        touched = scenario.touched_nodes.union(self.renewing_too_slowly(scenario))
        seen_ns = observed_at_ns(snapshot, scenario.start_ns)
        zones = ZoneMembership(self.configuration)
        return not any(
            node.name not in touched
            and node.ready_status == TRUE
            and not zones.is_excluded(node)
            and is_up_at_start(node, snapshot.leases.get(node.name), seen_ns)
            for node in snapshot.nodes
        )

    def _queued_at_once(self, scenario: Scenario) -> set[str]:
        """Nodes that a tick may put in line which finds all of them down; where taints are put on, up to 1.33, only those that say themselves that they are not ready."""
        configuration = self.configuration
        if configuration.taint_mode and not configuration.profile.taint_on_current_condition:
            return exchanged_by_ticks(self._snapshot, scenario)
        return {node.name for node in self._snapshot.nodes} | scenario.touched_nodes

    def instants(self, scenario: Scenario) -> list[int]:
        """Offsets at which it matters on which side of them a tick comes."""
        found = self._known.get(id(scenario))
        if found is None:
            found = scenario, sorted({moment.at_ns for moment in self.moments(scenario)})
            self._known[id(scenario)] = found
        return found[1]

    def begin_instants(self, scenario: Scenario) -> set[int]:
        """Offsets at which it matters to pods on which side of them a process begins."""
        from kubectl_evictplan.windows.unknowns import begin_instants  # rarely needed

        return begin_instants.begin_instants(self._snapshot, scenario)

    def fixed_phase_ns(self, scenario: Scenario) -> int | None:
        """The phase of the first tick where it is known."""
        if self.configuration.monitor_phase_ns is not None:
            return self.configuration.monitor_phase_ns
        return 0 if starts_without_controller(scenario) else None

    def visible_phases(self) -> tuple[tuple[int, int], ...]:
        """Spans in which the first tick after the start is known to come; () where nothing is known."""
        fixed_ns = self.configuration.monitor_phase_ns
        if fixed_ns is not None:
            return ((fixed_ns, fixed_ns),)
        return tuple(self.configuration.monitor_phases_ns or ())

    def ages_are_whole_ticks(self) -> bool:
        """Whether it takes the same number of ticks to reach an age from a tick on, whatever they cost."""
        return not any(whole_ticks(age_ns, self) for age_ns in self._ages_ns())

    def every_renewal_counts(self, scenario: Scenario) -> bool:
        """Whether a kubelet that is up may renew so slowly that its node is given up meanwhile."""
        leases, grace_ns = self._snapshot.leases, self.configuration.node_monitor_grace_period_ns
        if self._all_renew_in_time():
            return False
        back = {
            name
            for event in scenario.events
            if event.kubelets_up or (event.node is not None and is_up_when_created(event.node))
            for name in event.nodes
        }
        if any(longest_renewal_ns(leases.get(name)) > grace_ns for name in back):
            return True
        return any(True for _ in self.renewing_too_slowly(scenario))

    def renewing_too_slowly(self, scenario: Scenario) -> Iterator[str]:
        """Nodes with a kubelet at the start that may be given up although it goes on renewing."""
        if self._all_renew_in_time():
            return
        grace_ns = self.configuration.node_monitor_grace_period_ns
        startup_ns = self.configuration.node_startup_grace_period_ns
        seen_ns = observed_at_ns(self._snapshot, scenario.start_ns)
        for node in self._snapshot.nodes:
            lease = self._snapshot.leases.get(node.name)
            limit_ns = grace_ns if node.ready_status else startup_ns
            if longest_renewal_ns(lease) > limit_ns and is_up_at_start(node, lease, seen_ns):
                yield node.name

    def _all_renew_in_time(self) -> bool:
        """Whether no kubelet, with a Lease or without, renews more slowly than any grace period."""
        least_ns = min(
            self.configuration.node_monitor_grace_period_ns,
            self.configuration.node_startup_grace_period_ns,
        )
        leases = self._snapshot.leases.values()
        kinds = {lease.lease_duration_seconds: lease for lease in leases}
        return all(longest_renewal_ns(lease) <= least_ns for lease in (None, *kinds.values()))

    def longest_age_ns(self) -> int:
        """What is older than that was found out long ago."""
        startup_ns = self.configuration.node_startup_grace_period_ns
        return max(startup_ns, *self._ages_ns()) + 2 * (self.period_ns + self.cost_max_ns)

    def _ages_ns(self) -> Iterator[int]:
        """Ages that count from a tick."""
        yield self.configuration.node_monitor_grace_period_ns
        if not self.configuration.taint_mode:
            yield self.configuration.pod_eviction_timeout_ns


def whole_ticks(apart_ns: int, meetings: TickMeetings) -> list[int]:
    """What each tick costs if so long a time is a whole number of ticks, but for nothing."""
    most = apart_ns // meetings.period_ns
    fewest = -(-apart_ns // (meetings.period_ns + meetings.cost_max_ns))
    costs = (
        -(-apart_ns // ticks) - meetings.period_ns for ticks in range(max(fewest, 1), most + 1)
    )
    return [cost_ns for cost_ns in costs if 0 < cost_ns <= meetings.cost_max_ns]


def critical_instants(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> list[int]:
    """Offsets at which it matters on which side of them a tick of the monitor comes, sorted."""
    return TickMeetings(snapshot, configuration).instants(scenario)


def _moments_at_start(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> Iterator[Moment]:
    """What follows from the cluster as it is at the start, whatever the scenario does."""
    yield from _moments_of_nodes(snapshot, start_ns, configuration)
    if zones_without_token(snapshot, start_ns, configuration):
        # A zone may have used its token just before the start: a tick that changes its rate meets a new one or not.
        rates_qps = {
            configuration.node_eviction_rate_qps,
            configuration.secondary_node_eviction_rate_qps,
        }
        for rate_qps in sorted(rates_qps):
            if rate_qps > 0:
                yield Moment(refill_ns(rate_qps), MomentKind.REFILL, "")


def _moments_of_a_young_process(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> Iterator[Moment]:
    leader_ns = snapshot.control_plane.leader_acquire_time_ns
    if leader_ns is not None and leader_ns <= scenario.start_ns:
        # A process that is younger than a last heartbeat first saw that node at its own first tick.
        seen_ns = list(_last_seen_ns(snapshot, scenario))
        stops = (event for event in scenario.events if isinstance(event, StopKubelet))
        stated = (event.last_heartbeat_ns for event in stops)
        seen_ns += [scenario.start_ns + last_ns for last_ns in stated if last_ns is not None]
        # And one that is not ready is in line from then on, or --pod-eviction-timeout counts from there.
        for node in snapshot.nodes:
            ready, is_down = node.condition(READY), node.ready_status != TRUE
            if ready and (_is_in_line_at_start(node) if configuration.taint_mode else is_down):
                seen_ns.append(ready.last_transition_time_ns or 0)
        if min(seen_ns, default=leader_ns) < leader_ns:
            yield Moment(leader_ns - scenario.start_ns, MomentKind.PROCESS_START, "")


def exchanged_by_ticks(snapshot: ClusterSnapshot, scenario: Scenario) -> set[str]:
    """Nodes of which a tick may exchange the taint for another: not ready in both ways, or with one that does not fit."""
    created = (event.node for event in scenario.events if event.node is not None)
    names = {
        node.name
        for node in (*snapshot.nodes, *created)
        if node.ready_status == FALSE
        or (node.ready_status != TRUE and any(map(is_lifecycle_no_execute, node.taints)))
    }
    for event in scenario.events:
        if getattr(event, "status", TRUE) != TRUE or (
            isinstance(event, AddTaint) and is_lifecycle_no_execute(event.taint)
        ):
            names.update(event.touched_nodes)
    return names


def _last_seen_ns(snapshot: ClusterSnapshot, scenario: Scenario) -> Iterator[int]:
    """When each kubelet that is silent, or falls so, was heard last before the look; 0 where its Lease does not tell."""
    stopped = {
        name for event in scenario.events if event.kubelets_up is False for name in event.nodes
    }
    seen_ns = observed_at_ns(snapshot, scenario.start_ns)
    for name, lease in snapshot.leases.items():
        if name in stopped or is_silent_at(lease, seen_ns):
            renewed_ns = lease.renew_time_ns or 0
            # What lies after the look was written by a clock that is ahead.
            yield renewed_ns if renewed_ns <= seen_ns else 0


def _moments_of_events(
    scenario: Scenario, configuration: ControllerConfiguration
) -> Iterator[Moment]:
    startup_ns = configuration.node_startup_grace_period_ns
    for event in scenario.events:
        if event.critical_ns is not None:
            silent = event.kubelets_up is False
            kind = MomentKind.LAST_HEARTBEAT if silent else MomentKind.EVENT
            yield Moment(event.critical_ns, kind, ", ".join(event.touched_nodes))
        elif event.pods_only and is_seen_by_node_lifecycle(event, configuration):
            yield Moment(event.at_ns, MomentKind.EVENT, ", ".join(event.touched_nodes))
        if event.node is not None and event.node.condition(READY) is None:
            # The API server stamps what it creates with a whole second.
            created_ns = (scenario.start_ns + event.at_ns) // SECOND_NS * SECOND_NS
            deadline_ns = created_ns + startup_ns - scenario.start_ns
            yield Moment(deadline_ns, MomentKind.STARTUP_DEADLINE, event.node.name)


def _moments_of_nodes(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> Iterator[Moment]:
    startup_ns = configuration.node_startup_grace_period_ns
    seen_ns = observed_at_ns(snapshot, start_ns)
    newest_ns = start_ns - configuration.node_monitor_period_ns - SECOND_NS
    for node in snapshot.nodes:
        lease = snapshot.leases.get(node.name)
        ready = node.condition(READY)
        if ready is not None and ready.status != TRUE and configuration.taint_mode:
            # Whether the last tick before the start has put it in line.
            found_ns = put_in_line_from_ns(ready, configuration.profile)
            if found_ns is not None and newest_ns < found_ns <= start_ns:
                yield Moment(found_ns - start_ns, MomentKind.EVENT, "")
        heard_ns = lease.renew_time_ns if lease is not None else None
        if heard_ns is not None and not is_up_at_start(node, lease, seen_ns):
            # --pod-eviction-timeout counts from the tick that saw it, or saw the first Ready=False.
            if ready is None or ready.status != UNKNOWN or not configuration.taint_mode:
                yield Moment(heard_ns - start_ns, MomentKind.LAST_HEARTBEAT, node.name)
        if ready is not None and _timeout_counts_from_its_change(ready, heard_ns, configuration):
            yield Moment((ready.last_transition_time_ns or 0) - start_ns, MomentKind.EVENT, "")
        if ready is None or ready.status != TRUE or no_execute_taints(node.taints):
            # The first tick after the start has something to do.
            yield Moment(0, MomentKind.START, "")
        if ready is None:
            deadline_ns = node.creation_timestamp_ns + startup_ns - start_ns
            yield Moment(deadline_ns, MomentKind.STARTUP_DEADLINE, node.name)


def _timeout_counts_from_its_change(
    ready: NodeCondition, heard_ns: int | None, configuration: ControllerConfiguration
) -> bool:
    """Whether --pod-eviction-timeout counts from a tick that saw the first Ready=False, or wrote Unknown of a node that has no Lease."""
    counts = ready.status == FALSE or (ready.status == UNKNOWN and heard_ns is None)
    return counts and not configuration.taint_mode


def _is_in_line_at_start(node: Node) -> bool:
    """Whether node lifecycle wants a taint on it that it lacks."""
    return node.ready_status != TRUE and not any(map(is_lifecycle_no_execute, node.taints))
