"""A tick that waits for its client at the start: a node was given up just before, and some of its pods still say that they are ready.

The tick writes statuses first, and marks pods one after the other; until it is through there is no other one. Nobody sees what else
waits, so the bucket may be empty.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubectl_evictplan.controllers.client_limits import GIVEN_UP, ClientLimit, per_marked_pod
from kubectl_evictplan.controllers.node_lifecycle.node_health import STATUS_UNKNOWN
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import READY
from kubectl_evictplan.simulation.simulate import Given, starts_without_controller

# Times in conditions are whole seconds, and clocks differ.
_SECONDS_NS = 2 * SECOND_NS


class UnderWay(msgspec.Struct, frozen=True):
    """A tick that began so long before the start at the most, has so many requests to make still, and has given these nodes up."""

    since_ns: int
    requests: int
    nodes: frozenset[str]


def tick_under_way(given: Given, limit: ClientLimit, of_pods: Mapping[str, int]) -> UnderWay | None:
    """The tick that may be under way at the start, if it waits; ``of_pods``: by node how many requests it takes to mark its ready pods."""
    snapshot, scenario, configuration = given
    if starts_without_controller(scenario):
        return None
    given_up: dict[str, int] = {}
    for node in snapshot.nodes:
        ready = node.condition(READY) if node.ready_status == "Unknown" else None
        if ready is not None and ready.reason == STATUS_UNKNOWN:
            given_up[node.name] = ready.last_transition_time_ns or 0
    if not any(of_pods.get(name) for name in given_up):
        return None
    pods = sum(number for (name, _), number in snapshot.counted.items() if name in given_up)
    most = GIVEN_UP * len(given_up) + per_marked_pod(configuration) * pods
    longest_ns = int((most - limit.burst) * SECOND_NS / limit.qps)
    oldest_ns = scenario.start_ns - longest_ns - configuration.node_monitor_period_ns - _SECONDS_NS
    since = {name: at_ns for name, at_ns in given_up.items() if at_ns >= oldest_ns}
    waiting = sum(of_pods.get(name, 0) for name in since)
    if longest_ns <= 0 or not waiting:
        return None
    requests = waiting + GIVEN_UP * len(since)
    since_ns = max(scenario.start_ns - min(since.values()), 0)
    return UnderWay(since_ns, requests, frozenset(since))
