"""Which runs a real control plane could make: the corners of everything that is unknown.

Between two *critical* phases (a monitor tick that just catches a heartbeat, or just misses it) the
structure of a run stays the same and its instants move with the phase. The extremes are therefore at the
critical phases; they are combined with the corners of what else is unknown:

* loop costs: every tick and every pass comes a little later than its period;
* the pass: at once, or as late as one whole pass period after a node and a token are both there;
* a tick is not instantaneous: a pass may fall between its node steps and its zone logic;
* from 1.34 on, that first pass may still see the node as ready and waste its token;
* the last heartbeat of a kubelet that stops later than the snapshot;
* the instants at which running timers started, and whether a zone has just used its token.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import is_silent_at, observed_at_ns, renew_period_ns
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import READY, TRUE
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.scenarios.actions.kubelets import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.samples import critical_costs, sampled_heartbeats, sampled_timings

# Measured on recorded control planes: ticks cost 4-8 ms, passes about 1 ms. Larger clusters copy more
# nodes per tick.
MONITOR_COST_MAX_NS = 10_000_000
MONITOR_COST_PER_NODE_NS = 4_000
PASS_LAG_MAX_NS = 105_000_000
_JUST_BEFORE_NS = 10
_TOKEN_AGES_MAX = 3
# The kubelet jitters its renewal period by up to 4 %.
RENEWAL_JITTER_NUMERATOR, RENEWAL_JITTER_DENOMINATOR = 104, 100


class AdmissibleRun(NamedTuple):
    """One choice of the unknowns; ``scenario`` has every last heartbeat filled in."""

    timing: Timing
    scenario: Scenario


class RunSet(NamedTuple):
    """The runs, and by how much a window must be widened because phases were thinned out."""

    runs: list[AdmissibleRun]
    padding_ns: int


def admissible_runs(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    runs_max: int,
) -> RunSet:
    """All corner runs, or at most about ``runs_max`` of them with evenly chosen phases."""
    scenarios = _heartbeat_variants(snapshot, scenario)
    sides = _corners(configuration, _unknown_start(snapshot, scenario, configuration))
    cost_max_ns = MONITOR_COST_MAX_NS + MONITOR_COST_PER_NODE_NS * len(snapshot.nodes)
    plans: list[_Plan] = []
    for variant in scenarios:
        instants = sorted(set(_critical_instants(snapshot, variant, configuration)))
        for cost_ns in (0, cost_max_ns, cost_max_ns // 2):
            step_ns = configuration.node_monitor_period_ns + cost_ns
            for side, corners in enumerate(sides):
                phases = _phases(configuration, scenario, instants, side, step_ns)
                plans.append(_Plan(variant, cost_ns, phases, corners))
    if sum(plan.size for plan in plans) > runs_max:
        plans = [plan for plan in plans if plan.cost_ns in (0, cost_max_ns)]
    if 4 * len(plans) > runs_max:
        # A cluster where every run is dear: ticks without cost for the earliest, with for the latest.
        plans = [plan for plan in plans if (plan.cost_ns == 0) == (plan.corners is sides[0])]
    share = max(2, runs_max // sum(len(plan.corners) for plan in plans))
    padding_ns = 0
    runs = []
    for plan in plans:
        chosen = _thin_out(plan.phases, share)
        if len(chosen) < len(plan.phases):
            gaps = [b - a for a, b in pairwise(chosen)]
            around_ns = configuration.node_monitor_period_ns - chosen[-1] + chosen[0]
            padding_ns = max(padding_ns, around_ns, *gaps)
        for phase_ns in chosen:
            for corner in plan.corners:
                timing = replace(corner, monitor_phase_ns=phase_ns, monitor_cost_ns=plan.cost_ns)
                runs.append(AdmissibleRun(timing, plan.scenario))
    runs += _sampled_runs(snapshot, scenario, configuration, runs_max // 3, cost_max_ns)
    return RunSet(runs, padding_ns)


def _phases(
    configuration: ControllerConfiguration,
    scenario: Scenario,
    instants: Iterable[int],
    side: int,
    step_ns: int,
) -> list[int]:
    if configuration.monitor_phase_ns is not None:
        return [configuration.monitor_phase_ns]
    if starts_without_controller(scenario):
        return [0]
    return sorted({(at - side) % step_ns for at in instants} | {0})


def _sampled_runs(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    count: int,
    cost_max_ns: int,
) -> Iterable[AdmissibleRun]:
    """Combinations that the corners do not hold, where there can be any."""
    windows = _heartbeat_windows(snapshot, scenario)
    unknown = sum(1 for window in windows.values() for _, low, high in window if low != high)
    period_ns = configuration.node_monitor_period_ns
    starts = [event.at_ns for event in scenario.events if event.manager_up]
    if configuration.monitor_phase_ns is not None:
        starts.append(configuration.monitor_phase_ns)
    if unknown < 2 and not starts:
        return
    corners = _corners(configuration, _unknown_start(snapshot, scenario, configuration))
    for index in range(count):
        variant = sampled_heartbeats(scenario, windows, index)
        instants = sorted(set(_critical_instants(snapshot, variant, configuration)))
        # A grid that starts at a known instant meets others only by what its ticks cost.
        costs = [0, cost_max_ns, cost_max_ns // 2]
        costs += critical_costs(starts, instants, period_ns, cost_max_ns)

        def phases_for(side: int, cost_ns: int, at: list[int] = instants) -> list[int]:
            return _phases(configuration, scenario, at, side, period_ns + cost_ns)

        for timing in sampled_timings(index, corners, costs, phases_for):
            yield AdmissibleRun(timing, variant)


class _Plan(NamedTuple):
    """Phases and corners to combine for one scenario and one cost of the monitor's loop."""

    scenario: Scenario
    cost_ns: int
    phases: list[int]
    corners: list[Timing]

    @property
    def size(self) -> int:
        return len(self.phases) * len(self.corners)


def _thin_out(phases: list[int], share: int) -> list[int]:
    if len(phases) <= share:
        return phases
    last = len(phases) - 1
    return [phases[index * last // (share - 1)] for index in range(share)]


class _UnknownStart(NamedTuple):
    running_timers: bool
    waiting_nodes: bool
    # Ages of a zone's last token for which the next one comes right before a kubelet is back.
    token_ages_ns: tuple[int, ...]


def _unknown_start(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> _UnknownStart:
    tainted = any(no_execute_taints(node.taints) for node in snapshot.nodes)
    waiting = any(
        (ready := node.condition(READY)) is None or ready.status != TRUE for node in snapshot.nodes
    )
    rate = configuration.node_eviction_rate_qps
    refill_ns = int(SECOND_NS / rate) if rate > 0 else 0
    returns = {event.at_ns for event in scenario.events if event.kubelets_up}
    ages_ns = (refill_ns - at_ns + PASS_LAG_MAX_NS + _JUST_BEFORE_NS for at_ns in sorted(returns))
    useful = tuple(age_ns for age_ns in ages_ns if 0 < age_ns < refill_ns)
    return _UnknownStart(tainted, waiting, useful[:_TOKEN_AGES_MAX])


def _corners(
    configuration: ControllerConfiguration, start: _UnknownStart
) -> tuple[list[Timing], list[Timing]]:
    """Corners for ticks that just catch a heartbeat (early) and for ticks that just miss it (late)."""
    eager = Timing(pass_lag_ns=0)
    lazy = Timing(
        pass_lag_ns=PASS_LAG_MAX_NS,
        timer_start_fraction=1.0 if start.running_timers else 0.0,
        initial_token=not start.waiting_nodes,
    )
    early = [eager, replace(eager, mid_tick_pass=True)]
    # Ticks that come late with a prompt pass: what a later tick cancels may be just in time.
    late = [lazy, replace(lazy, mid_tick_pass=True), replace(lazy, pass_lag_ns=0)]
    if start.waiting_nodes:
        # Late although there is a token: what waits for one may be cut off by then.
        late.append(replace(lazy, initial_token=True))
        late.append(replace(lazy, initial_token=True, mid_tick_pass=True))
        late.extend(replace(lazy, token_age_ns=age_ns) for age_ns in start.token_ages_ns)
    if configuration.profile.taint_on_current_condition and configuration.taint_mode:
        late.append(replace(lazy, stale_lister=True))
        late.append(replace(lazy, stale_lister=True, mid_tick_pass=True))
    return early, late


def _critical_instants(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> Iterable[int]:
    """Offsets at which it matters whether a tick comes just before or just after."""
    nodes = {node.name: node for node in snapshot.nodes}
    for event in scenario.events:
        if event.critical_ns is not None:
            yield event.critical_ns
    for name, node in nodes.items():
        lease = snapshot.leases.get(name)
        ready = node.condition(READY)
        if (
            is_silent_at(lease, observed_at_ns(snapshot, scenario.start_ns))
            and lease
            and lease.renew_time_ns is not None
        ):
            if ready is None or ready.status != "Unknown":
                yield lease.renew_time_ns - scenario.start_ns
        if ready is None or ready.status != TRUE or no_execute_taints(node.taints):
            yield 0  # the first tick after the start has something to do
        if ready is None:
            grace_ns = configuration.node_startup_grace_period_ns
            yield node.creation_timestamp_ns + grace_ns - scenario.start_ns


# -- heartbeats -------------------------------------------------------------------------------------


def _heartbeat_variants(snapshot: ClusterSnapshot, scenario: Scenario) -> list[Scenario]:
    """The scenario with every unknown last heartbeat as early, as late, and in turn both ways."""
    windows = _heartbeat_windows(snapshot, scenario)
    if not windows:
        return [scenario]
    # Which end of its window the n-th node takes: all the first, all the last, in turn both ways.
    ways = [(0, 0), (1, 1), (0, 1), (1, 0)]
    several = sum(1 for w in windows.values() for _, low, high in w if low != high) > 1
    fixed = all(low == high for w in windows.values() for _, low, high in w)
    chosen = ways[:1] if fixed else ways if several else ways[:2]
    variants = []
    for way in chosen:
        events: list[ScenarioEvent] = []
        for index, event in enumerate(scenario.events):
            if index not in windows:
                events.append(event)
                continue
            for place, (name, *window) in enumerate(windows[index]):
                heartbeat_ns = window[way[place % 2]]
                events.append(replace(event, nodes=(name,), last_heartbeat_ns=heartbeat_ns))
        variants.append(replace(scenario, events=tuple(events)))
    return variants


def _heartbeat_windows(
    snapshot: ClusterSnapshot, scenario: Scenario
) -> dict[int, list[tuple[str, int, int]]]:
    """(node, earliest, latest) of every unknown last heartbeat, by the index of its event."""
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
    longest_ns = period_ns * RENEWAL_JITTER_NUMERATOR // RENEWAL_JITTER_DENOMINATOR
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
    elapsed_ns = at_ns - known_ns
    if elapsed_ns < period_ns:
        known_ns = min(known_ns, at_ns)
        return known_ns, known_ns
    fewest = max(0, -(-elapsed_ns // longest_ns) - 1)
    most = elapsed_ns // period_ns
    earliest_ns = max(at_ns - longest_ns, known_ns + fewest * period_ns)
    return earliest_ns, min(at_ns, known_ns + most * longest_ns)
