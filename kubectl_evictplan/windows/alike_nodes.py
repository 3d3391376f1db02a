"""Silent nodes that one node run cannot tell apart: one of them is simulated, and counts for all.

The monitor sees a kubelet's last renewal with the first tick after it. Nodes of one zone that fall silent at
one instant, and whose last renewals the same tick sees, are from then on alike in everything: which tick
finds them dead, what it writes and whom it puts in line. Nobody is served in a node run; so they differ in their names
only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import is_up_at_start, observed_at_ns, renew_period_ns
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.engine.event_queue import LoopGrid
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario


class OneOfEach(NamedTuple):
    """A cluster and a scenario in which one of several nodes stands for all; by its name those it stands for."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    members: Mapping[str, tuple[str, ...]]


class AlikeNodes:
    """Finds out which nodes of one snapshot are alike in a run of one scenario."""

    def __init__(self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> None:
        self._snapshot = snapshot
        self._period_ns = configuration.node_monitor_period_ns
        self._zones = ZoneMembership(configuration)
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._looks: dict[str, Hashable] = {}
        # By the scenario's identity: the scenario, and the stops of nodes to which nothing else happens.
        self._stops: dict[int, tuple[Scenario, dict[str, StopKubelet]]] = {}

    def one_of_each(self, scenario: Scenario, timing: Timing) -> OneOfEach:
        """Return what to simulate with the monitor's ticks of ``timing``."""
        step_ns = self._period_ns + timing.monitor_cost_ns
        ticks = LoopGrid(timing.monitor_phase_ns, step_ns, unbounded=True)
        alike: dict[Hashable, list[str]] = {}
        for name, stop in self._only_stopped(scenario).items():
            assert stop.last_heartbeat_ns is not None, "only those are asked for that are known"
            kind = stop.at_ns, ticks.at_or_after(stop.last_heartbeat_ns), self._look(name)
            alike.setdefault(kind, []).append(name)
        several = (tuple(sorted(names)) for names in alike.values() if len(names) > 1)
        return self._without_others(scenario, {names[0]: names for names in several})

    def _without_others(
        self, scenario: Scenario, members: Mapping[str, tuple[str, ...]]
    ) -> OneOfEach:
        others = {other for name, names in members.items() for other in names if other != name}
        if not others:
            return OneOfEach(self._snapshot, scenario, {})
        events = (e for e in scenario.events if not (len(e.nodes) == 1 and e.nodes[0] in others))
        return OneOfEach(
            replace(
                self._snapshot,
                nodes=tuple(node for node in self._snapshot.nodes if node.name not in others),
                stand_ins={name: len(names) for name, names in members.items()},
            ),
            replace(scenario, events=tuple(events)),
            members,
        )

    def _only_stopped(self, scenario: Scenario) -> dict[str, StopKubelet]:
        """Healthy nodes that fall silent, each by an event of its own, and to which nothing else happens."""
        known = self._stops.get(id(scenario))
        if known is None:
            known = self._stops[id(scenario)] = scenario, self._find_stops(scenario)
        return known[1]

    def _find_stops(self, scenario: Scenario) -> dict[str, StopKubelet]:
        found: dict[str, StopKubelet] = {}
        others: set[str] = set()
        for event in scenario.events:
            if event.manager_up is not None:
                return {}
            for name in event.touched_nodes:
                if name in found or name in others:
                    others.add(name)
                elif (
                    isinstance(event, StopKubelet)
                    and event.last_heartbeat_ns is not None
                    and len(event.nodes) == 1
                ):
                    found[name] = event
                else:
                    others.add(name)
        return {
            name: stop
            for name, stop in found.items()
            if name not in others and name in self._nodes and self._is_healthy(name, scenario)
        }

    def _is_healthy(self, name: str, scenario: Scenario) -> bool:
        node, lease = self._nodes[name], self._snapshot.leases.get(name)
        seen_ns = observed_at_ns(self._snapshot, scenario.start_ns)
        return node.ready_status == "True" and is_up_at_start(node, lease, seen_ns)

    def _look(self, name: str) -> Hashable:
        """What the controller sees of a healthy node, but for its renewals and its name."""
        look = self._looks.get(name)
        if look is None:
            look = self._looks[name] = self._look_of(self._nodes[name])
        return look

    def _look_of(self, node: Node) -> Hashable:
        lease = self._snapshot.leases.get(node.name)
        return (
            self._zones.zone_key(node),
            self._zones.is_excluded(node),
            node.unschedulable,
            node.taints,
            tuple((condition.type, condition.status) for condition in node.conditions),
            renew_period_ns(lease),
            lease is None or lease.renew_time_ns is None,
        )
