"""What the control plane may remember at the start of a world that no object tells: drawn for each reality.

States of zones as the newest tick before the start left them, who is in line although nothing shows it, and grace periods that
began anew when not all zones were down any more. What there may be of it is asked where predictions ask; what follows is not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.event_queue import LoopGrid
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.evicted_before import evicted_before
from kubectl_evictplan.windows.spent_tokens import StatesBefore, all_down_until_ns, still_in_line
from kubectl_evictplan.windows.unknowns.tick_meetings import TickMeetings

# So many combinations of states are drawn from.
_STATES_MAX = 64


def with_states_at_start(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    timing: Timing,
    rng: random.Random,
) -> Timing:
    """The timing with what a process of before the start may remember; nothing where none runs then."""
    if starts_without_controller(scenario) or not configuration.node_lifecycle_enabled:
        return timing
    given = snapshot, scenario.start_ns, configuration
    period_ns = configuration.node_monitor_period_ns
    ticks = timing.ticks(timing.monitor_phase_ns, period_ns, warm=True)
    told, _ = StatesBefore(*given).told(ticks.newest(0), _STATES_MAX)
    states = rng.choice(((), *told))
    anew = [0]
    until_ns = all_down_until_ns(*given)
    if until_ns is not None:
        longest_ns = TickMeetings(snapshot, configuration).longest_age_ns()
        anew += _ticks_before(ticks, ticks.at_or_after(until_ns), -longest_ns)
    return replace(
        timing,
        zone_states=states,
        still_in_line=tuple(_in_line(snapshot, scenario, configuration, rng)),
        early_in_line=tuple(_early_in_line(snapshot, scenario, configuration, timing)),
        probes_anew_ticks=rng.choice(anew),
    )


def _ticks_before(ticks: LoopGrid, last_ns: int, oldest_ns: int) -> Iterator[int]:
    tick_ns, number = ticks.newest(0), 1
    while tick_ns > oldest_ns:
        if tick_ns <= last_ns:
            yield number
        tick_ns, number = ticks.newest(tick_ns), number + 1


def _early_in_line(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    timing: Timing,
) -> Iterator[str]:
    # Drawn apart, so that what else is drawn of a seed stays as it is.
    rng = random.Random(f"early {timing.monitor_phase_ns} {timing.pass_phase_ns}")
    early = evicted_before(snapshot, scenario, configuration).early
    yield from (name for name in early if rng.random() < 0.4)


def _in_line(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    rng: random.Random,
) -> Iterator[str]:
    share = rng.choice((0.0, 0.5, 1.0))
    if configuration.taint_mode:
        perhaps = still_in_line(snapshot, configuration)
    else:
        evicted = evicted_before(snapshot, scenario, configuration)
        yield from evicted.waiting
        perhaps = tuple(name for names in evicted.perhaps for name in names)
    yield from (name for name in perhaps if rng.random() < share)
