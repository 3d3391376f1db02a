"""Plans and runs of tests, in few words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apply.crashing_files import CrashingFiles
from apply.simulated_cluster import IDENTITY, SimulatedCluster
from building.bare_plans import bare_plan

from kubectl_evictplan.apply.progress import AnyProgress
from kubectl_evictplan.apply.records import Author
from kubectl_evictplan.apply.resume import resume
from kubectl_evictplan.apply.rollback import rollback
from kubectl_evictplan.apply.run import RunOptions, RunResult, apply_plan
from kubectl_evictplan.apply.stop import Stop
from kubectl_evictplan.apply.working import Outside
from kubectl_evictplan.plans.document import (
    AddTaint,
    AnyOperation,
    Cordon,
    Evict,
    NodeBefore,
    Plan,
    PodBefore,
    RemoveTaint,
    Uncordon,
)
from kubectl_evictplan.prediction.document import TaintReference

JOURNAL = Path("/journals/plan.journal.jsonl")
AUTHOR = Author(user="operator", host="laptop", pid=1, tool_version="test", machine="boot-1")
MAINTENANCE = TaintReference("maintenance", "NoExecute", "true")


def options(**parts: Any) -> RunOptions:
    return RunOptions(author=AUTHOR, run_id="run-1", **parts)


def add_taint(
    node: str, at: float = 0.0, taint: TaintReference = MAINTENANCE
) -> Callable[[int], AddTaint]:
    return lambda number: AddTaint(number, at, node, taint)


def replace_taint(node: str, old: TaintReference, new: TaintReference) -> Callable[[int], AddTaint]:
    return lambda number: AddTaint(number, 0.0, node, new, old)


def remove_taint(
    node: str, at: float = 0.0, taint: TaintReference = MAINTENANCE
) -> Callable[[int], RemoveTaint]:
    return lambda number: RemoveTaint(number, at, node, taint)


def cordon(node: str, at: float = 0.0) -> Callable[[int], Cordon]:
    return lambda number: Cordon(number, at, node)


def uncordon(node: str, at: float = 0.0) -> Callable[[int], Uncordon]:
    return lambda number: Uncordon(number, at, node)


def drain(cluster: SimulatedCluster, *nodes: str) -> list[Callable[[int], AnyOperation]]:
    """Return a drain as plans have it: all nodes cordoned first, then each one's evictions."""
    found: list[Callable[[int], AnyOperation]] = [cordon(node) for node in nodes]
    for node in nodes:
        for pod in cluster.pods.values():
            if pod.node == node and not pod.workload.startswith("DaemonSet/"):
                found.append(_evict(pod.namespace, pod.name, pod.uid, node))
    return found


def _evict(namespace: str, name: str, uid: str, node: str) -> Callable[[int], Evict]:
    return lambda number: Evict(number, 0.0, node, namespace, name, uid)


def plan_of(
    cluster: SimulatedCluster, *operations: Callable[[int], AnyOperation], **execution: Any
) -> Plan:
    """Return the plan of these operations on the cluster as it is."""
    numbered = tuple(one(number) for number, one in enumerate(operations, start=1))
    names = dict.fromkeys(one.node for one in numbered)
    nodes = (_node_before(cluster, name) for name in names)
    pods = (
        PodBefore(pod.namespace, pod.name, pod.uid, pod.node, pod.workload)
        for pod in cluster.pods.values()
        if pod.node in names
    )
    return bare_plan(IDENTITY, numbered, nodes, pods, "2027-01-15T08:00:00Z", **execution)


def _node_before(cluster: SimulatedCluster, name: str) -> NodeBefore:
    node = cluster.nodes[name]
    taints = tuple(TaintReference(t["key"], t["effect"], t.get("value", "")) for t in node.taints)
    return NodeBefore(name, node.uid, str(node.version), taints, node.unschedulable, "True")


@dataclass
class Bench:
    """A cluster, a plan and the files of its journal, to run, resume and roll back."""

    cluster: SimulatedCluster
    plan: Plan
    files: CrashingFiles = field(default_factory=CrashingFiles)
    stop: Stop = field(default_factory=Stop)
    told: list[AnyProgress] = field(default_factory=list)

    def outside(self, stop: Stop | None = None) -> Outside:
        """What a run takes from outside; ``stop`` is nobody's unless given."""
        world = self.cluster.world()
        return Outside(self.cluster, self.files, world, stop or Stop(), self.told.append)

    def apply(self, **parts: Any) -> RunResult:
        return apply_plan(self.plan, JOURNAL, self.outside(self.stop), options(**parts))

    def resume(self, **parts: Any) -> RunResult:
        return resume(self.plan, JOURNAL, self.outside(), options(**parts))

    def rollback(self, **parts: Any) -> RunResult:
        return rollback(JOURNAL, self.outside(), options(**parts))

    @property
    def lines(self) -> list[bytes]:
        """The journal's lines."""
        return self.files.read(JOURNAL).splitlines()


def records(bench: Bench, kind: str) -> list[dict[str, Any]]:
    """Return the records of one kind, as the journal has them."""
    return [found for found in map(json.loads, bench.lines) if found["record"] == kind]
