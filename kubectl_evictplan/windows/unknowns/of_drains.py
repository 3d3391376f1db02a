"""All that nobody can know about a drain: it is drawn, because no few values of it matter more than others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.rooms import Rooms
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.unknowns.last_heartbeats import (
    heartbeat_windows,
    sampled_heartbeats,
)
from kubectl_evictplan.windows.unknowns.starts import has_unknown_instants
from kubectl_evictplan.windows.unknowns.tick_meetings import tick_steps
from kubectl_evictplan.windows.unknowns.unknown import Unknown, sequence

if TYPE_CHECKING:
    from kubectl_evictplan.windows.drains.world import DrainWorld

# (place of every latency in its range, luck): all early, all late, and anything.
_PACES: tuple[tuple[float | None, int | None], ...] = (
    (0.0, 1),
    (1.0, -1),
    (None, None),
    (None, None),
)
# (share of the grace period that every pod uses, place of readiness in its range).
CORNERS = ((0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0))


class DrawnRun(msgspec.Struct, frozen=True):
    """One run of the part of the cluster that takes part; ``timing`` is None before it is drawn."""

    seed: int
    scenario: Scenario
    timing: Timing = Timing()


class DrainLatencies(Unknown[DrawnRun]):
    """Exits, readiness, answers, conflicts, and with them phases and heartbeats, as one draw."""

    name = "drains"
    what = (
        "how long exits of pods, readiness of replacements and answers take in a drain, and who wins "
        "where two requests meet"
    )

    def __init__(self, world: DrainWorld, ready: ReadyTimes, rooms: Rooms) -> None:
        """``ready``: how long after it is bound a replacement is Ready."""
        self._world = world
        self._ready = ready
        self._rooms = rooms

    def settle(self, part: DrawnRun, most: int) -> Iterator[DrawnRun]:
        """``most`` draws, each at every pace."""
        world, scenario = self._world, part.scenario
        steps = tick_steps(world.snapshot, world.configuration)
        windows = {} if world.quiet else heartbeat_windows(world.snapshot, scenario, steps)
        for seed in range(most):
            played = sampled_heartbeats(scenario, windows, seed) if windows else scenario
            played = _settled(played, seed)
            drain = _drain_timing(seed, most, self._ready)
            for place, (latency, luck) in enumerate(_PACES):
                chosen = replace(drain, seed=seed + place * most, latency=latency, luck=luck)
                yield DrawnRun(seed, played, _timing(world, scenario, seed, chosen))
                if not self._rooms.sure:
                    # The same with less room, told apart from it: it is another outcome.
                    room = 0.0 if seed < len(CORNERS) else sequence(6, seed)
                    tight = replace(chosen, room=room)
                    yield DrawnRun(seed + most, played, _timing(world, scenario, seed, tight))


def _settled(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with every start of which only a window is known somewhere in it."""
    if not has_unknown_instants(scenario):
        return scenario
    events = []
    for place, event in enumerate(scenario.events):
        window_ns = event.latest_ns - event.at_ns
        # The corners are those of the windows too.
        share = seed % 2 if seed < len(CORNERS) else sequence(5 + place, seed)
        events.append(event.moved_to(event.at_ns + int(window_ns * share)) if window_ns else event)
    return replace(scenario, events=tuple(events))


def _drain_timing(seed: int, seeds: int, times: ReadyTimes) -> DrainTiming:
    if seed < len(CORNERS):
        share, ready = CORNERS[seed]
        low, high, place = share, share, ready
    else:
        # Shares of grace periods are spread evenly: they decide when the next node is begun.
        number = seed - len(CORNERS)
        high = number / max(seeds - len(CORNERS) - 1, 1)
        low = high if number % 2 else 0.0
        place = sequence(0, number)
    return DrainTiming(
        seed=seed,
        exit_low=low,
        exit_high=high,
        ready_low_ns=times.earliest_ns,
        ready_high_ns=times.latest_ns,
        ready_by_owner=times.ranges_ns,
        ready=place if seed % 4 < 3 else None,
        joins_drained_nodes=(0.0, 0.5, 1.0)[seed % 3],
    )


def _timing(world: DrainWorld, scenario: Scenario, seed: int, drain: DrainTiming) -> Timing:
    if world.quiet:
        return Timing(drain=drain)
    configuration = world.configuration
    phase_ns = configuration.nominal_phase_ns()
    if configuration.monitor_phase_ns is None and not starts_without_controller(scenario):
        spans = configuration.monitor_phases_ns or ((0, configuration.node_monitor_period_ns - 1),)
        low_ns, high_ns = spans[seed % len(spans)]
        phase_ns = low_ns + int((high_ns - low_ns) * sequence(1, seed))
    return Timing(
        monitor_phase_ns=phase_ns,
        pass_phase_ns=int(SECOND_NS // 10 * sequence(2, seed)),
        pod_gc_phase_ns=int(20 * SECOND_NS * sequence(3, seed)),
        timer_start_fraction=sequence(4, seed),
        drain=drain,
    )
