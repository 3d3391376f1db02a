"""Zones in which nothing that a tick of the monitor sees ever gets better: what ``outer_bounds`` needs.

Kubelets fall silent there, and stay so; nodes that are down at the start stay down. A zone is *unclear* where more than that
can happen: a kubelet that is heard again or posts another status, a node that comes or goes, a taint of node lifecycle that
people put on or take off, a node that never posted anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.cluster.kubelets import is_up_at_start, longest_renewal_ns, observed_at_ns
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.kube.objects import ClusterSnapshot, Lease, Node
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute
from kubectl_evictplan.scenarios.actions.nodes import taints_or_cordons_unseen
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.windows.newest_statuses import heard_until_ns
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.last_heartbeats import (
    last_heartbeat_window,
)
from kubectl_evictplan.windows.unknowns.tick_cells import TickSteps


class FallingZones:
    """Of one scenario, by the keys of zones; ``unclear`` zones are in none of the others.

    ``down``: nodes that are not Ready at the start; ``waiting``: those of them that lack the taint, so that they are in line;
    ``silent``: last heartbeats of nodes that look fine but are, or fall, silent.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        step_max_ns: int,
    ) -> None:
        """``step_max_ns``: ticks of the monitor come at most so far apart."""
        self.unclear: set[str] = set()
        self.down: dict[str, set[str]] = {}
        self.waiting: dict[str, set[str]] = {}
        self.silent: dict[str, dict[str, Span]] = {}
        self._snapshot = snapshot
        self._scenario = scenario
        self._seen_ns = observed_at_ns(snapshot, scenario.start_ns)
        self._step_max_ns = step_max_ns
        self._steps = TickSteps(configuration.node_monitor_period_ns, step_max_ns)
        # A tick sees a kubelet's newest renewal at most so much later than the one before it.
        self._renewal_max_ns = configuration.node_monitor_grace_period_ns - step_max_ns
        zones = ZoneMembership(configuration)
        self._zone_of = {node.name: zones.zone_key(node) for node in snapshot.nodes}
        for event in scenario.events:
            if not _leaves_others_alone(event):
                self.unclear.update(self._touched_zones(event))
                if event.node is not None:
                    self.unclear.add(zones.zone_key(event.node))
        stopped = dict(self._last_heartbeats())
        for node in snapshot.nodes:
            if not self._note(node, stopped.get(node.name)):
                self.unclear.add(self._zone_of[node.name])
        for zone in self.unclear:
            for found in (self.down, self.waiting, self.silent):
                found.pop(zone, None)

    def _touched_zones(self, event: ScenarioEvent) -> Iterator[str]:
        yield from (self._zone_of[name] for name in event.touched_nodes if name in self._zone_of)

    def _last_heartbeats(self) -> Iterator[tuple[str, Span]]:
        for index, event in enumerate(self._scenario.events):
            if isinstance(event, StopKubelet):
                known_ns = event.last_heartbeat_ns
                for name in event.nodes:
                    if known_ns is not None:
                        yield name, (known_ns, known_ns)
                    else:
                        given = self._snapshot, self._scenario, index, name, self._steps
                        yield name, last_heartbeat_window(*given)

    def _note(self, node: Node, stopped: Span | None) -> bool:
        """Put the node where it belongs; False where it makes its zone unclear."""
        zone, lease = self._zone_of[node.name], self._snapshot.leases.get(node.name)
        tainted = any(map(is_lifecycle_no_execute, node.taints))
        up = is_up_at_start(node, lease, self._seen_ns)
        if node.ready_status == "True" and not tainted:
            heartbeat = stopped
            if not up and lease is not None and lease.renew_time_ns is not None:
                renewed_ns = lease.renew_time_ns - self._scenario.start_ns
                if stopped is not None and stopped[1] > renewed_ns:
                    return False  # the scenario says that it is heard once more
                heartbeat = renewed_ns, renewed_ns
            if heartbeat is not None:
                given = node, self._snapshot, self._scenario.start_ns, self._step_max_ns
                until_ns = heard_until_ns(*given, heartbeat[0])
                if until_ns is not None and heartbeat[0] <= 0:
                    heartbeat = heartbeat[0], max(heartbeat[1], until_ns)
                self.silent.setdefault(zone, {})[node.name] = heartbeat
            return not up or self._renews_in_time(lease)
        stays = node.ready_status == "Unknown" or (
            node.ready_status == "False" and up and self._renews_in_time(lease)
        )
        if not stays or stopped is not None:
            return False
        self.down.setdefault(zone, set()).add(node.name)
        if not tainted:
            self.waiting.setdefault(zone, set()).add(node.name)
        return True

    def _renews_in_time(self, lease: Lease | None) -> bool:
        return longest_renewal_ns(lease) < self._renewal_max_ns


def only_falls(scenario: Scenario) -> bool:
    """Whether no process of the controllers ends or begins, and each event says which nodes it is about."""
    return all(
        event.manager_up is None
        and (_leaves_others_alone(event) or event.node is not None or bool(event.touched_nodes))
        for event in scenario.events
    )


def _leaves_others_alone(event: ScenarioEvent) -> bool:
    """Whether nothing that a tick sees gets better by it: silence, people's own taints, pods."""
    harmless = taints_or_cordons_unseen(event) or isinstance(event, StopKubelet)
    return harmless or event.pods_only
