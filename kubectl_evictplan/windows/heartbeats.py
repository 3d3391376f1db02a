"""When a kubelet that falls silent renewed its lease for the last time, as far as that is known.

The snapshot shows the last renewal before it was taken; a kubelet that stops later has renewed in between,
every quarter of the lease's duration and up to 4 % more.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from math import sqrt

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import is_silent_at, observed_at_ns, renew_period_ns
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent

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
