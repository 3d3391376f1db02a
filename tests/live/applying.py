"""Plans for the simulated server, carried out by the real engine over the real client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from building.bare_plans import bare_plan
from live.api_server import ApiServer
from live.changing import TAINT, changing, small_writable_cluster
from live.writable_server import WritableServer

from kubectl_evictplan.apply.cluster import ClusterApi
from kubectl_evictplan.apply.files import LocalFiles
from kubectl_evictplan.apply.progress import AnyProgress
from kubectl_evictplan.apply.records import Author
from kubectl_evictplan.apply.resume import resume
from kubectl_evictplan.apply.rollback import rollback
from kubectl_evictplan.apply.run import RunOptions, RunResult, apply_plan
from kubectl_evictplan.apply.stop import Stop
from kubectl_evictplan.apply.working import Outside
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.plans.document import (
    AddTaint,
    AnyOperation,
    Cordon,
    Evict,
    NodeBefore,
    Plan,
    PodBefore,
)
from kubectl_evictplan.prediction.document import TaintReference

MAINTENANCE = TaintReference(TAINT["key"], TAINT["effect"], TAINT["value"])


def drainable_cluster(**settings: Any) -> WritableServer:
    """The small cluster with room in its budget; evicted pods are replaced on other nodes."""
    api = small_writable_cluster(replaces=True, **settings)
    api.objects["poddisruptionbudgets"][0]["spec"] |= {"minAvailable": 4}
    return api


def plan_of(cluster: ClusterApi, operations: Sequence[AnyOperation], **execution: Any) -> Plan:
    """Return the plan of these operations on the cluster as it is."""
    names = dict.fromkeys(one.node for one in operations)
    nodes = (_node_before(cluster, name) for name in names)
    pods = (
        PodBefore(pod.namespace, pod.name, pod.uid, pod.node_name, _owner(pod))
        for name in names
        for pod in cluster.list_pods(name)
    )
    return bare_plan(
        cluster.identity(), operations, nodes, pods, "2026-11-22T00:00:00Z", **execution
    )


def drain_of(
    cluster: ClusterApi, *nodes: str, effect: str = MAINTENANCE.effect
) -> list[AnyOperation]:
    """Return a drain: a taint and a cordon for each node, then each one's evictions."""
    found: list[AnyOperation] = []
    for node in nodes:
        taint = TaintReference(MAINTENANCE.key, effect, MAINTENANCE.value)
        found.append(AddTaint(len(found) + 1, 0.0, node, taint))
        found.append(Cordon(len(found) + 1, 0.0, node))
    for node in nodes:
        for pod in cluster.list_pods(node):
            number = len(found) + 1
            found.append(Evict(number, 0.0, node, pod.namespace, pod.name, pod.uid))
    return found


def _owner(pod: Pod) -> str:
    owner = pod.controller()
    return f"{owner.kind}/{owner.name}" if owner else ""


def _node_before(cluster: ClusterApi, name: str) -> NodeBefore:
    node = cluster.get_node(name)
    assert node is not None
    taints = tuple(TaintReference(one.key, one.effect, one.value) for one in node.taints)
    return NodeBefore(name, node.uid, node.resource_version, taints, node.unschedulable, node.ready)


def options(**parts: Any) -> RunOptions:
    author = Author(user="jane", host="laptop", pid=1, tool_version="test")
    return RunOptions(author=author, **parts)


class Carrying:
    """One plan, its journal and the connection: run it, resume it, take it back."""

    def __init__(
        self, api: ApiServer, cluster: ClusterApi, plan: Plan, folder: Path, **parts: Any
    ) -> None:
        self.api, self.cluster, self.plan = api, cluster, plan
        self.journal = folder / "plan.journal.jsonl"
        self.told: list[AnyProgress] = []
        self.stop = Stop()
        self._options = options(**parts)
        self._world = api.clock.world(api.read_seconds_max)

    def apply(self) -> RunResult:
        return apply_plan(self.plan, self.journal, self._outside(self.stop), self._options)

    def resume(self) -> RunResult:
        return resume(self.plan, self.journal, self._outside(Stop()), self._options)

    def rollback(self) -> RunResult:
        return rollback(self.journal, self._outside(Stop()), self._options)

    def _outside(self, stop: Stop) -> Outside:
        return Outside(self.cluster, LocalFiles(), self._world, stop, self.told.append)


__all__ = ["Carrying", "changing", "drain_of", "drainable_cluster", "plan_of"]
