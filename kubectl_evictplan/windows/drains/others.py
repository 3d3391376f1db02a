"""What else than drains may do to the pods and nodes of a drained cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.scenarios.actions.nodes import DeleteNode, RemoveTaint
from kubectl_evictplan.scenarios.actions.processes import PostReady
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.windows.drains.deleted_by_others import is_steady
from kubectl_evictplan.windows.drains.world import DrainWorld


class OtherEvents:
    """Of one world and scenario.

    ``makes_pods``: the scenario creates some, ``makes_any``: or nodes. ``opens_nodes``: a node that takes no pods at the start may do so later.
    ``displaces``: pods of other nodes may take the room of those that are made anew. ``controllers_back_ns``: from that offset on owners
    and budgets have their controllers for good; None: perhaps never again.
    """

    def __init__(self, world: DrainWorld, scenario: Scenario) -> None:
        self._world = world
        self._scenario = scenario
        self._nodes = {node.name: node for node in world.snapshot.nodes}
        events = scenario.events
        self.makes_pods = any(event.pod is not None for event in events)
        self.makes_any = self.makes_pods or any(event.node is not None for event in events)
        self.opens_nodes = any(map(_opens_nodes, events))
        self.displaces = bool(world.unplayed) or any(world.deleted.among(world.snapshot.pods))
        self.controllers_back_ns = _back_ns(events)
        self.let_end = cache(self._lets_end)
        self._stays_cordoned = all(event.unschedulable is not False for event in events)

    def leave_alone(self, pod: Pod) -> bool:
        """Whether nobody but kubectl ever deletes the pod, and nodes that are cordoned stay so."""
        deleted = self._world.deleted
        return (
            self._stays_cordoned
            and pod.node_name in self._nodes
            and pod.node_name not in deleted.nodes
            and pod.key not in deleted.pods
        )

    def _lets_end(self, name: str) -> bool:
        """Whether the node's kubelet lives, and says that it is ready, as long as the Node exists: it ends whoever is deleted."""
        node = self._nodes.get(name)
        if node is None:
            return False
        grace_ns = self._world.configuration.node_monitor_grace_period_ns
        untainted = replace(node, taints=())
        return is_steady(untainted, self._world.snapshot, self._scenario, grace_ns) and not any(
            name in event.touched_nodes and _may_keep_pods(event) for event in self._scenario.events
        )

    def may_collect(self, name: str) -> bool:
        """Whether garbage collection may delete whoever terminates on the node (``gcTerminating``)."""
        node = self._nodes.get(name)
        tainted = node is not None and any(one.key == OUT_OF_SERVICE for one in node.taints)
        return tainted or any(
            event.feeds_pod_gc and name in event.touched_nodes
            for event in self._scenario.events
            if not isinstance(event, DeleteNode)
        )


def _back_ns(events: Sequence[ScenarioEvent]) -> int | None:
    managers = [event for event in events if event.manager_up is not None]
    if not managers:
        return 0
    last = max(managers, key=lambda event: event.at_ns)
    return max(event.latest_ns for event in managers) if last.manager_up else None


def _may_keep_pods(event: ScenarioEvent) -> bool:
    """Whether it may keep kubelets from ending pods."""
    return event.kubelets_up is False or isinstance(event, PostReady | DeleteNode)


def _opens_nodes(event: ScenarioEvent) -> bool:
    return event.kubelets_up is True or isinstance(event, RemoveTaint | PostReady)
