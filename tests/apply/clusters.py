"""The clusters that plans of tests are carried out on."""

from __future__ import annotations

from apply.runs import Bench, add_taint, cordon, drain, plan_of, remove_taint, replace_taint
from apply.simulated_cluster import SimulatedCluster, SimulatedWorkload

from kubectl_evictplan.prediction.document import TaintReference

FOREIGN = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
OLD = {"key": "stage", "value": "old", "effect": "NoSchedule"}


def three_nodes() -> SimulatedCluster:
    """Return n1 and n2 with a pod of a Deployment under a budget, one of a StatefulSet, one bare."""
    cluster = SimulatedCluster()
    cluster.add_node("n1", dict(FOREIGN))
    cluster.add_node("n2", dict(OLD), dict(FOREIGN))
    cluster.add_node("n3")
    cluster.budgets["web"] = 1
    cluster.workloads["shop/ReplicaSet/web"] = SimulatedWorkload("ReplicaSet", 2, "n3")
    cluster.workloads["shop/StatefulSet/db"] = SimulatedWorkload(
        "StatefulSet", 1, "n3", same_name=True
    )
    cluster.add_pod("shop/web-a", "n1", "ReplicaSet/web", budgets=("web",))
    cluster.add_pod("shop/web-b", "n2", "ReplicaSet/web", budgets=("web",))
    cluster.add_pod("shop/db-0", "n1", "StatefulSet/db", exit_seconds=4.0)
    cluster.add_pod("shop/bare", "n2")
    cluster.add_pod("system/agent-1", "n1", "DaemonSet/agent")
    return cluster


def taint_bench(**execution: object) -> Bench:
    """A taint on two nodes."""
    cluster = three_nodes()
    return Bench(cluster, plan_of(cluster, add_taint("n1"), add_taint("n2"), **execution))


def drain_bench(**execution: object) -> Bench:
    """A drain of two nodes."""
    cluster = three_nodes()
    return Bench(cluster, plan_of(cluster, *drain(cluster, "n1", "n2"), **execution))


def everything_bench(**execution: object) -> Bench:
    """Every kind of operation: a value exchanged, a taint taken off, timed ones, a drain."""
    cluster = three_nodes()
    operations = [
        replace_taint(
            "n2",
            TaintReference("stage", "NoSchedule", "old"),
            TaintReference("stage", "NoSchedule", "new"),
        ),
        add_taint("n1", 1.0),
        remove_taint("n1", 6.0),
        cordon("n3"),
        *drain(cluster, "n1"),
    ]
    return Bench(cluster, plan_of(cluster, *operations, **execution))


def one_pod() -> Bench:
    """The eviction of one pod, and nothing else."""
    cluster = SimulatedCluster()
    cluster.add_node("n1", unschedulable=True)
    cluster.add_pod("shop/web", "n1")
    return Bench(cluster, plan_of(cluster, *drain(cluster, "n1")[1:]))


BENCHES = {"taint": taint_bench, "drain": drain_bench, "everything": everything_bench}
