"""When the node monitor ticks, where its own writing shows it.

The node lifecycle controller writes Ready (and the pressure conditions) only when it gives a node up:
status Unknown, reason NodeStatusUnknown or NodeStatusNeverUpdated, and lastTransitionTime the instant of
that tick, cut to the second (``tryUpdateNodeHealth``). So a tick is visible while a node that this process
gave up is still silent, and known to within that second, what the tick did before it came to the node, and
what all ticks since then may have cost. After some minutes nothing is left of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import (
    STATUS_NEVER_UPDATED,
    STATUS_UNKNOWN,
)
from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS
from kubectl_evictplan.kube.objects import READY, ClusterSnapshot, Node
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.unknowns.tick_meetings import monitor_cost_max_ns

_GIVEN_UP = (STATUS_UNKNOWN, STATUS_NEVER_UPDATED)
# Clocks of a control plane that are kept by NTP differ by less.
_CLOCKS_NS = 100 * MILLISECOND_NS
# Of one request to the API server, when it is not delayed by the client's own limit.
_REQUEST_NS = 10 * MILLISECOND_NS
# What a tick writes for a node beside its pods: its status, and what it may have to read again.
_REQUESTS_PER_NODE = 2

Spans = list[tuple[int, int]]


class VisiblePhase(msgspec.Struct, frozen=True):
    """Spans (first, last) in which the first tick after the start falls, and which nodes show it."""

    spans: tuple[tuple[int, int], ...]
    nodes: tuple[str, ...]

    def width_ns(self) -> int:
        """How much of the monitor's period is left."""
        return sum(last - first + 1 for first, last in self.spans)


def with_visible_phase(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> ControllerConfiguration:
    """Return the configuration with what can be seen of the monitor's phase, unless it is given."""
    if configuration.monitor_phase_ns is not None or starts_without_controller(scenario):
        return configuration
    seen = visible_phase(snapshot, scenario.start_ns, configuration)
    if seen is None:
        return configuration
    return replace(configuration, monitor_phases_ns=seen.spans, monitor_seen_on=seen.nodes)


def visible_phase(
    snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
) -> VisiblePhase | None:
    """Return when the first tick at or after ``start_ns`` comes; None where nothing shows it.

    Needs the time at which the present process became leader: another one's ticks say nothing. And
    all pods: a tick writes something for each pod of a node that it gives up, which takes time.
    """
    leader_ns = snapshot.control_plane.leader_acquire_time_ns
    is_whole = snapshot.pods_of_all_namespaces and "Pod" not in snapshot.denied
    if leader_ns is None or not is_whole:
        return None
    period_ns, cost_max_ns = configuration.node_monitor_period_ns, monitor_cost_max_ns(snapshot)
    # A tick that costs something can make the next one come so much after a whole period.
    left: Spans = [(0, period_ns + cost_max_ns)]
    nodes = []
    for node in snapshot.nodes:
        seen_ns = _given_up_at_ns(node)
        if seen_ns is None or not leader_ns < seen_ns <= start_ns:
            continue
        work_ns = _work_ns(snapshot, seen_ns - period_ns, configuration)
        spans = _spans(seen_ns, work_ns, start_ns, period_ns, cost_max_ns)
        common = _common(left, spans)
        if not common:
            return None  # two ticks that no one grid has: something is not as it is taken to be
        if common != left:
            nodes.append(node.name)
            left = common
    return VisiblePhase(tuple(left), tuple(nodes)) if nodes else None


def _given_up_at_ns(node: Node) -> int | None:
    ready = node.condition(READY)
    if ready is None or ready.status != "Unknown" or ready.reason not in _GIVEN_UP:
        return None
    return ready.last_transition_time_ns


def _work_ns(
    snapshot: ClusterSnapshot, since_ns: int, configuration: ControllerConfiguration
) -> int:
    """How much longer ticks since then may have taken than others, for what they had to write.

    Every node whose Ready moved, back and forth too, and one request for each of its pods.
    """
    pods = Counter(pod.node_name for pod in snapshot.pods)
    requests = 0
    for node in snapshot.nodes:
        ready = node.condition(READY)
        moved_ns = ready.last_transition_time_ns if ready is not None else None
        if moved_ns is None or moved_ns >= since_ns:
            requests += pods[node.name] + _REQUESTS_PER_NODE
    delayed_ns = 0
    if configuration.kube_api_qps > 0:
        beyond = max(0, requests - max(configuration.kube_api_burst, 0))
        delayed_ns = int(beyond / configuration.kube_api_qps * SECOND_NS)
    return requests * _REQUEST_NS + delayed_ns


def _spans(seen_ns: int, work_ns: int, start_ns: int, period_ns: int, cost_max_ns: int) -> Spans:
    """Return spans of the first tick after the start, for a tick that wrote the second ``seen_ns``."""
    earliest_ns = seen_ns - cost_max_ns - work_ns - _CLOCKS_NS
    ticks = (start_ns - earliest_ns) // period_ns + 1
    width_ns = seen_ns + SECOND_NS + _CLOCKS_NS - earliest_ns + ticks * cost_max_ns + work_ns
    if width_ns >= period_ns:
        return [(0, period_ns + cost_max_ns)]
    first = (earliest_ns - start_ns) % period_ns
    last = first + width_ns
    if last < period_ns:
        return [(first, last)]
    return [(0, last - period_ns), (first, period_ns + cost_max_ns)]


def _common(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> Spans:
    """Return what two lists of spans have in common."""
    return sorted(
        (max(first, low), min(last, high))
        for first, last in one
        for low, high in other
        if max(first, low) <= min(last, high)
    )
