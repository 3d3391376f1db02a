"""Nodes that one node run cannot tell apart: one of them is simulated, and counts for all.

The monitor sees a kubelet's last renewal with the first tick after it. Nodes of one zone that fall silent at
one instant, and whose last renewals the same tick sees, are from then on alike in everything: which tick
finds them dead, what it writes and whom it puts in line. Nobody is served in a node run; so they differ in their names
only. Healthy nodes that people taint are alike whenever their kubelets renew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import (
    is_up_at_start,
    observed_at_ns,
    posted_since_renewal_ns,
    renew_period_ns,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.engine.event_queue import LoopGrid
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.scenarios.actions.nodes import taints_or_cordons_unseen
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent


def is_seen_by_node_lifecycle(event: ScenarioEvent, configuration: ControllerConfiguration) -> bool:
    """Whether it may change what node lifecycle does with a node.

    Of what happens to pods that is only that one comes to a node, and only without taint manager: it is put in line where it has been
    not ready for long enough, which its next tick would have done (``processPod``, 1.16.8 to 1.26).
    """
    if not event.pods_only:
        return True
    comes = event.pod is not None and bool(event.pod.node_name)
    return comes and not configuration.taint_mode and configuration.profile.repeats_deletion


class OneOfEach(msgspec.Struct, frozen=True):
    """A cluster and a scenario in which one of several nodes stands for all; by its name those it stands for."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    members: Mapping[str, tuple[str, ...]]


class _SameCourse(msgspec.Struct, frozen=True):
    """Healthy nodes that look alike and to which the same happens; by the instants of their last renewals, if these are known."""

    names: Sequence[str]
    last_heartbeats_ns: Sequence[int]

    def seen_alike(self, ticks: LoopGrid) -> Iterator[Sequence[str]]:
        """Yield those whose last renewals the same tick sees first."""
        start, last_ns = 0, self.last_heartbeats_ns
        while start < len(last_ns):
            end = bisect_right(last_ns, ticks.at_or_after(last_ns[start]), start)
            yield self.names[start:end]
            start = end
        if not last_ns:
            yield self.names


class AlikeNodes:
    """Finds out which nodes of one snapshot are alike in a run of one scenario."""

    def __init__(self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> None:
        # Who asks has no use for pods.
        self._snapshot = replace(snapshot, pods=())
        self._configuration = configuration
        self._zones = ZoneMembership(configuration)
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._looks: dict[str, Hashable] = {}
        # By the start, and the node's name.
        self._healthy: dict[tuple[int, str], bool] = {}
        # By the scenario's identity: the scenario, and nodes that may be alike.
        self._known: dict[int, tuple[Scenario, list[_SameCourse]]] = {}
        # What the scenario that was asked about last states of kubelets.
        self._stated: tuple[Scenario, dict[str, int]] | None = None

    def one_of_each(self, scenario: Scenario, timing: Timing) -> OneOfEach:
        """Return what to simulate with the monitor's ticks of ``timing``."""
        period_ns = self._configuration.node_monitor_period_ns
        ticks = timing.ticks(timing.monitor_phase_ns, period_ns, warm=True)
        if id(scenario) not in self._known:
            self._known[id(scenario)] = scenario, list(self._courses(scenario))
        several = [
            tuple(sorted(names))
            for course in self._known[id(scenario)][1]
            for names in course.seen_alike(ticks)
            if len(names) > 1
        ]
        return self._without_others(scenario, {names[0]: names for names in several})

    def _without_others(
        self, scenario: Scenario, members: Mapping[str, tuple[str, ...]]
    ) -> OneOfEach:
        others = {other for name, names in members.items() for other in names if other != name}
        if not others:
            return OneOfEach(self._snapshot, scenario, {})
        nodes = tuple(node for node in self._snapshot.nodes if node.name not in others)
        events = []
        for event in scenario.events:
            if others.isdisjoint(event.nodes):
                events.append(event)
                continue
            # Some of them may be made only later, and are not among the nodes of the snapshot.
            left = set(event.nodes) - others
            if left:
                events.append(event.restricted_to(left, ()))
        stand_ins = {name: len(alike) for name, alike in members.items()}
        return OneOfEach(
            replace(self._snapshot, nodes=nodes, stand_ins=stand_ins),
            replace(scenario, events=tuple(events)),
            members,
        )

    def _courses(self, scenario: Scenario) -> Iterator[_SameCourse]:
        """Healthy nodes that people taint or cordon, or that fall silent once, by what happens to them: no others are there."""
        told: dict[str, list[Hashable]] = {}
        last_ns: dict[str, int] = {}
        others: set[str] = set()
        for index, event in enumerate(scenario.events):
            if event.manager_up is not None:
                return
            if isinstance(event, StopKubelet) and event.last_heartbeat_ns is not None:
                for name in event.nodes:
                    told.setdefault(name, []).append(("stop", event.at_ns))
                    if name in last_ns:
                        others.add(name)
                    last_ns[name] = event.last_heartbeat_ns
            elif taints_or_cordons_unseen(event):
                for name in event.nodes:
                    told.setdefault(name, []).append(index)
            elif is_seen_by_node_lifecycle(event, self._configuration):
                others.update(event.touched_nodes)
        alike: dict[Hashable, list[str]] = {}
        candidates = [name for name in told if name not in others]
        for name in filter(partial(self.is_healthy, scenario=scenario), candidates):
            alike.setdefault((tuple(told[name]), self.look(name)), []).append(name)
        for names in alike.values():
            if names[0] in last_ns:
                names.sort(key=last_ns.__getitem__)
            yield _SameCourse(names, [last_ns[name] for name in names if name in last_ns])

    def is_healthy(self, name: str, scenario: Scenario) -> bool:
        """Whether the node is Ready, and only its last renewal can count."""
        key = scenario.start_ns, name
        if key not in self._healthy:
            self._healthy[key] = name in self._nodes and self._renews(name, scenario.start_ns)
        return self._healthy[key] and not self._may_end_with_a_status(name, scenario)

    def _may_end_with_a_status(self, name: str, scenario: Scenario) -> bool:
        """Whether the last that is heard of the kubelet may be a status of before the start, and not a renewal."""
        node, lease = self._nodes[name], self._snapshot.leases.get(name)
        seen_ns = observed_at_ns(self._snapshot, scenario.start_ns)
        last_ns = self._stated_of(scenario).get(name)
        if posted_since_renewal_ns(node, lease, seen_ns, last_ns) is None:
            return False
        from kubectl_evictplan.windows.newest_statuses import falls_silent_then  # few nodes

        return falls_silent_then(name, lease, scenario)

    def _stated_of(self, scenario: Scenario) -> Mapping[str, int]:
        """What the scenario states of the last that is heard of kubelets."""
        if self._stated is None or self._stated[0] is not scenario:
            from kubectl_evictplan.windows.newest_statuses import stated_last_heartbeats

            self._stated = scenario, stated_last_heartbeats(scenario)
        return self._stated[1]

    def _renews(self, name: str, start_ns: int) -> bool:
        node, lease = self._nodes[name], self._snapshot.leases.get(name)
        seen_ns = observed_at_ns(self._snapshot, start_ns)
        if node.ready_status != "True" or not is_up_at_start(node, lease, seen_ns):
            return False
        # Otherwise each of its renewals counts.
        return renew_period_ns(lease) <= self._configuration.node_monitor_grace_period_ns

    def look(self, name: str) -> Hashable:
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
