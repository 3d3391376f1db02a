"""Pods that somebody else than kubectl may delete, so that their owners make others: these may land on a drained node.

It does not matter who deletes them (taint eviction, evictions by timeout, pod garbage collection, people), nor how long before the
drain: when the controllers come to it is not asked here, only whether anything in the input or in the scenario can bring them to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set
from typing import NamedTuple

from kubectl_evictplan.cluster.kubelets import is_up_at_start, observed_at_ns, renew_period_ns
from kubectl_evictplan.controllers.replication import REPLACED, owner_key
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.actions.nodes import Cordon
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent


class DeletedByOthers(NamedTuple):
    """Who may be deleted. ``nodes``: whatever pods are there; ``pods``: those with these keys, wherever they are.

    ``changed``: nodes of which it is not certain that they stay as they are until they are drained: who may land there is not either.
    """

    nodes: Set[str]
    pods: Set[str]
    changed: Set[str]

    def among(self, pods: Iterable[Pod]) -> Iterator[Pod]:
        """Those of the pods that may be deleted and that an owner replaces then."""
        for pod in pods if self.nodes or self.pods else ():
            if (pod.node_name in self.nodes or pod.key in self.pods) and pod.active:
                owner = owner_key(pod)
                if owner is not None and owner[0] in REPLACED:
                    yield pod


def deleted_by_others(scenario: Scenario, unsteady: Collection[str]) -> DeletedByOthers:
    """``unsteady`` are nodes that are not ``is_steady``."""
    touched = {
        name
        for event in scenario.events
        if not is_of_drains_or_pods(event)
        for name in event.touched_nodes
    }
    changed = {
        name for event in scenario.events if not event.unschedulable for name in event.touched_nodes
    }
    named = {key for event in scenario.events for key in event.pods}
    return DeletedByOthers(touched.union(unsteady), named, changed.union(unsteady))


def is_of_drains_or_pods(event: ScenarioEvent) -> bool:
    """Whether it gives the controllers of nodes nothing to do."""
    return isinstance(event, Drain | Cordon) or event.pods_only


def is_steady(
    node: Node, snapshot: ClusterSnapshot, scenario: Scenario, monitor_grace_ns: int
) -> bool:
    """Whether the node's kubelet lives and renews in time, and nothing about the node evicts pods.

    ``monitor_grace_ns`` is ``--node-monitor-grace-period``.
    """
    ready = node.condition("Ready")
    lease = snapshot.leases.get(node.name)
    return (
        ready is not None
        and ready.status == "True"
        and not no_execute_taints(node.taints)
        and renew_period_ns(lease) <= monitor_grace_ns
        and is_up_at_start(node, lease, observed_at_ns(snapshot, scenario.start_ns))
    )
