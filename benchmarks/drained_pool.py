"""The generated cluster as a pool of it is drained: with its namespaces, the owners of its pods, and a budget for each of them."""

from __future__ import annotations

from msgspec.structs import replace

from kubectl_evictplan.kube.infrastructure import Namespace
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    IntOrPercent,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    Workload,
)

# A pool is one in so many of the nodes.
NODES_OF_A_POOL_NODE = 10
INSTANCE = "app.kubernetes.io/instance"


def with_budgets(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the same cluster; no namespace is being deleted; each ReplicaSet has all its pods, of which one may be away. Deterministic."""
    pods_of: dict[tuple[str, str], tuple[OwnerReference, list[Pod]]] = {}
    for pod in snapshot.pods:
        owner = pod.controller()
        assert owner is not None, "each generated pod has one"
        pods_of.setdefault((pod.namespace, owner.name), (owner, []))[1].append(pod)
    workloads = tuple(
        Workload("ReplicaSet", namespace, name, owner.uid, len(pods))
        for (namespace, name), (owner, pods) in sorted(pods_of.items())
    )
    budgets = tuple(
        PodDisruptionBudget(
            namespace,
            name,
            {INSTANCE: pods[0].labels[INSTANCE]},
            disruptions_allowed=1,
            current_healthy=len(pods),
            desired_healthy=len(pods) - 1,
            expected_pods=len(pods),
            max_unavailable=IntOrPercent(1),
            generation=1,
            observed_generation=1,
        )
        for (namespace, name), (_, pods) in sorted(pods_of.items())
    )
    namespaces = tuple(Namespace(name, phase="Active") for name in snapshot.places_of_namespaces)
    kinds = {*snapshot.kinds_seen, "DaemonSet", "Namespace", "PodDisruptionBudget", "ReplicaSet"}
    return replace(
        snapshot,
        workloads=workloads,
        budgets=budgets,
        infrastructure=replace(snapshot.infrastructure, namespaces=namespaces),
        kinds_seen=tuple(sorted(kinds)),
    )


def drain_of_pool(snapshot: ClusterSnapshot, share: float = 1.0) -> str:
    """The events of a scenario that drains the first nodes, one after the other, or so many of them."""
    number = max(int(len(snapshot.nodes) / NODES_OF_A_POOL_NODE * share), 1)
    names = ", ".join(node.name for node in snapshot.nodes[:number])
    return f"  - {{at: 0s, action: drain, nodes: [{names}], deleteEmptydirData: true}}\n"
