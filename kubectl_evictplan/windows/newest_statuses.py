"""What nodes came to be shortly before the start, of which the API tells the second: whether a tick of that second has seen it.

A tick that sees a new status forgets the Lease, and the next one accepts that again (``tryUpdateNodeHealth``): so where a kubelet has posted a
status since its last renewal, it counts as heard by the tick after the one that sees this. A status that says Ready=False puts the
node in line. So does the tick itself that writes Ready=Unknown from 1.34 on, but for a pass that still sees the node as ready:
until the next tick it is out of line again.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubectl_evictplan.cluster.kubelets import (
    is_up_at_start,
    longest_renewal_ns,
    observed_at_ns,
    posted_since_renewal_ns,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import FALSE, UNKNOWN
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import READY, ClusterSnapshot, Lease, Node, NodeCondition
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.spans import Span


def heard_until_ns(
    node: Node, snapshot: ClusterSnapshot, start_ns: int, step_max_ns: int, last_ns: int
) -> int | None:
    """The offset until which a renewal lies that is as good as what the kubelet has posted since its last one, not before ``last_ns``; None: nothing."""
    given = node, snapshot.leases.get(node.name), observed_at_ns(snapshot, start_ns)
    posted_ns = posted_since_renewal_ns(*given, start_ns + last_ns)
    return None if posted_ns is None else posted_ns + SECOND_NS + step_max_ns - start_ns


def falls_silent_then(name: str, lease: Lease | None, scenario: Scenario) -> bool:
    """Whether the kubelet may stop before it renews the Lease that the snapshot shows."""
    renewed_ns = 0 if lease is None else (lease.renew_time_ns or 0) - scenario.start_ns
    for event in scenario.events:
        if isinstance(event, StopKubelet) and name in event.nodes:
            last_ns = event.last_heartbeat_ns
            if last_ns is None:
                last_ns = event.at_ns - longest_renewal_ns(lease)
            if last_ns <= max(renewed_ns, 0):
                return True
    return False


def stated_last_heartbeats(scenario: Scenario) -> dict[str, int]:
    """The earliest last heartbeat of each kubelet of which the scenario states any (epoch)."""
    found: dict[str, int] = {}
    for event in scenario.events:
        if isinstance(event, StopKubelet) and event.last_heartbeat_ns is not None:
            last_ns = scenario.start_ns + event.last_heartbeat_ns
            for name in event.nodes:
                found[name] = min(found.get(name, last_ns), last_ns)
    return found


class NewestStatuses:
    """Of the nodes of one snapshot, whatever happens after it."""

    def __init__(
        self, snapshot: ClusterSnapshot, start_ns: int, configuration: ControllerConfiguration
    ) -> None:
        self._snapshot = snapshot
        self._start_ns = start_ns
        self._configuration = configuration
        self._seen_ns = observed_at_ns(snapshot, start_ns)
        # By name, when these seconds begin; the latter if nothing more is heard of the kubelet.
        self._told: dict[str, int] = {}
        self._told_if_silent: dict[str, int] = {}
        # Whose last renewal a scenario may state to be before what the Lease shows.
        self._up: dict[str, Node] = {}
        if configuration.node_lifecycle_enabled:
            for node in snapshot.nodes:
                ready = node.condition(READY)
                if ready is not None:
                    self._note(node, ready)

    def of(self, scenario: Scenario) -> Mapping[str, set[Span]]:
        """By the names of nodes of which that matters: spans of offsets in which it came to be."""
        found = {name: {self._span(at_ns)} for name, at_ns in self._told.items()}
        for name, at_ns in self._told_if_silent.items():
            if falls_silent_then(name, self._snapshot.leases.get(name), scenario):
                found.setdefault(name, set()).add(self._span(at_ns))
        for name, last_ns in stated_last_heartbeats(scenario).items():
            node = self._up.get(name)
            if node is not None:
                lease = self._snapshot.leases.get(name)
                posted_ns = posted_since_renewal_ns(node, lease, self._seen_ns, last_ns)
                if posted_ns is not None:
                    found.setdefault(name, set()).add(self._span(posted_ns))
        return found

    def _span(self, at_ns: int) -> Span:
        since_ns = at_ns - self._start_ns
        return since_ns, min(since_ns + SECOND_NS, 0)

    def _note(self, node: Node, ready: NodeCondition) -> None:
        lease = self._snapshot.leases.get(node.name)
        posted_ns = posted_since_renewal_ns(node, lease, self._seen_ns)
        up = is_up_at_start(node, lease, self._seen_ns)
        if ready.status != UNKNOWN or not self._configuration.taint_mode:
            if posted_ns is not None:
                (self._told_if_silent if up else self._told)[node.name] = posted_ns
            elif up:
                self._up[node.name] = node
        changed_ns = ready.last_transition_time_ns
        if changed_ns is not None and self._is_new(node, ready.status, changed_ns):
            self._told[node.name] = changed_ns

    def _is_new(self, node: Node, status: str, changed_ns: int) -> bool:
        """Whether it is not ready since then, and a tick may not have put it in line yet, or --pod-eviction-timeout counts from that."""
        configuration = self._configuration
        lasts_ns = configuration.node_monitor_period_ns + 2 * SECOND_NS
        if not configuration.taint_mode:
            matters = status == FALSE
            lasts_ns += configuration.pod_eviction_timeout_ns + configuration.node_monitor_period_ns
        else:
            at_once = configuration.profile.taint_on_current_condition
            matters = status == FALSE or (status == UNKNOWN and at_once)
            matters = matters and not any(map(is_lifecycle_no_execute, node.taints))
        return matters and self._start_ns - lasts_ns < changed_ns <= self._start_ns
