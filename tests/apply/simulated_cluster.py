"""A cluster in this process that answers as an API server does, on a clock that only tests move.

resourceVersions, UIDs, atomic taints with managedFields, the Eviction API with its budgets (debited
before the UID is looked at, as upstream), kubelets that take their time, controllers that replace
pods, and other people. What goes wrong on the way is ``faults``'s.
"""

from __future__ import annotations

import heapq
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from apply.faults import Fault, Faults

from kubectl_evictplan.apply.cluster import (
    FIELD_MANAGER,
    Access,
    LiveLease,
    LiveNode,
    LiveWorkload,
    Outcome,
    Reply,
    Request,
    SpecChange,
)
from kubectl_evictplan.kube.objects import OwnerReference, Pod, Taint, Toleration
from kubectl_evictplan.kube.timestamps import format_rfc3339
from kubectl_evictplan.plans.document import ClusterIdentity
from kubectl_evictplan.world import World

SECOND_NS = 1_000_000_000
START_NS = 1_800_000_000 * SECOND_NS
IDENTITY = ClusterIdentity(cluster_uid="cluster-1", server="https://simulated", user="operator")


@dataclass
class SimulatedNode:
    """``owners``: which manager changed a field of the spec last."""

    name: str
    uid: str
    version: int
    taints: list[dict[str, Any]] = field(default_factory=list)
    unschedulable: bool = False
    owners: dict[str, str] = field(default_factory=dict)


@dataclass
class SimulatedPod:
    """``workload``: "Kind/name" of its controller, "" for a bare pod."""

    namespace: str
    name: str
    uid: str
    node: str
    workload: str = ""
    exit_seconds: float = 2.0
    deleted_ns: int | None = None
    ready: bool = True
    tolerations: tuple[Toleration, ...] = ()
    budgets: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass
class SimulatedWorkload:
    """A controller: ``same_name`` as StatefulSets do, else new names; ``node`` takes the new pods."""

    kind: str
    wanted: int
    node: str
    ready_seconds: float = 3.0
    same_name: bool = False


class SimulatedCluster:
    """Implements ``ClusterApi``. ``mutations`` has every request that arrived, dry runs left out."""

    def __init__(self, seed: int = 0) -> None:
        self.now = START_NS
        self.random = random.Random(seed)
        self.nodes: dict[str, SimulatedNode] = {}
        self.pods: dict[str, SimulatedPod] = {}
        self.workloads: dict[str, SimulatedWorkload] = {}
        self.budgets: dict[str, int] = {}
        self.leases: dict[str, LiveLease] = {}
        # Process IDs that are at work on the operators' machine.
        self.processes: set[int] = set()
        self.denied: set[tuple[str, str]] = set()
        self.evictions_served = True
        self.faults = Faults()
        self.mutations: list[Request] = []
        self.dry_runs = 0
        self.brief_seconds: float | None = None
        self.not_ready_nodes = 0
        # UIDs whose eviction was accepted, and those that an eviction met under another's name.
        self.evicted: Counter[str] = Counter()
        self.met_newcomer = 0
        self.before_mutation: Callable[[Request], None] = lambda _request: None
        self.after_mutation: Callable[[Request], None] = lambda _request: None
        # Each node before its last patch: what a server that lags behind still answers.
        self._before: dict[str, LiveNode] = {}
        self._versions = count(100)
        self._uids = count(1)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    # -- the clock ------------------------------------------------------------------------------

    def world(self) -> World:
        """Return clocks, sleep and chance of this cluster."""
        return World(
            monotonic=lambda: self.now / SECOND_NS,
            wall_ns=lambda: self.now + self.faults.wall_offset_ns,
            sleep=self.sleep,
            chance=self.random.random,
            process_alive=lambda pid: pid in self.processes,
        )

    def sleep(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due by then."""
        until = self.now + round(seconds * SECOND_NS)
        while self._events and self._events[0][0] <= until:
            at, _, happen = heapq.heappop(self._events)
            self.now = max(self.now, at)
            happen()
        self.now = until

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        """Let something happen later."""
        at = self.now + round(seconds * SECOND_NS)
        heapq.heappush(self._events, (at, next(self._order), happen))

    # -- making it ------------------------------------------------------------------------------

    def add_node(self, name: str, *taints: dict[str, Any], unschedulable: bool = False) -> None:
        node = SimulatedNode(name, self._uid(), self._version(), list(taints), unschedulable)
        if taints:
            node.owners["taints"] = "kubectl-taint"
        self.nodes[name] = node

    def add_pod(self, key: str, node: str, workload: str = "", **parts: Any) -> SimulatedPod:
        namespace, _, name = key.partition("/")
        pod = SimulatedPod(namespace, name, self._uid(), node, workload, **parts)
        self.pods[key] = pod
        return pod

    # -- what other people and controllers do ---------------------------------------------------

    def write_taints(self, name: str, taints: list[dict[str, Any]], manager: str) -> None:
        node = self.nodes[name]
        if node.taints != taints:
            node.taints = taints
            node.version = self._version()
            node.owners.pop("taints", None)
            if taints:
                node.owners["taints"] = manager

    def write_unschedulable(self, name: str, unschedulable: bool, manager: str) -> None:
        node = self.nodes[name]
        if node.unschedulable != unschedulable:
            node.unschedulable = unschedulable
            node.version = self._version()
            node.owners.pop("unschedulable", None)
            if unschedulable:
                node.owners["unschedulable"] = manager

    def heartbeat(self, name: str) -> None:
        self.nodes[name].version = self._version()

    def recreate_node(self, name: str) -> None:
        self.nodes[name] = SimulatedNode(name, self._uid(), self._version())

    def recreate_pod(self, key: str) -> None:
        old = self.pods[key]
        self.add_pod(key, old.node, old.workload, budgets=old.budgets)

    # -- ClusterApi: reading ----------------------------------------------------------------------

    def now_ns(self) -> int:
        return self.now

    def identity(self) -> ClusterIdentity:
        return self.faults.identity or IDENTITY

    def get_node(self, name: str, *, fresh: bool = False) -> LiveNode | None:
        self._read()
        node = self.nodes.get(name)
        if node is None:
            return None
        live = self._live(node)
        if self.faults.stale_reads and name in self._before:
            self.faults.stale_reads -= 1
            return self._before[name]
        return live

    def get_pod(self, namespace: str, name: str, *, fresh: bool = False) -> Pod | None:
        self._read()
        pod = self.pods.get(f"{namespace}/{name}")
        return None if pod is None else _read_pod(pod)

    def list_pods(self, node: str) -> tuple[Pod, ...]:
        self._read()
        return tuple(_read_pod(pod) for pod in self.pods.values() if pod.node == node)

    def get_workload(self, namespace: str, kind: str, name: str) -> LiveWorkload | None:
        self._read()
        workload = self.workloads.get(f"{namespace}/{kind}/{name}")
        if workload is None:
            return None
        mine = [
            pod
            for pod in self.pods.values()
            if pod.namespace == namespace and pod.workload == f"{kind}/{name}"
        ]
        ready = sum(pod.ready and pod.deleted_ns is None for pod in mine)
        return LiveWorkload(workload.wanted, ready)

    def count_not_ready_nodes(self) -> int:
        self._read()
        return self.not_ready_nodes

    def ask_briefly(self, seconds: float | None) -> None:
        self.brief_seconds = seconds

    def serves_evictions(self) -> bool:
        return self.evictions_served

    def may(self, access: Access) -> bool | None:
        return (access.verb, access.resource) not in self.denied

    # -- ClusterApi: mutations ----------------------------------------------------------------------

    def taint_request(
        self, node: LiveNode, taints: Sequence[dict[str, Any]], *, dry_run: bool = False
    ) -> Request:
        return _patch(node, {"taints": list(taints)}, dry_run=dry_run)

    def cordon_request(
        self, node: LiveNode, unschedulable: bool, *, dry_run: bool = False
    ) -> Request:
        return _patch(node, {"unschedulable": unschedulable or None}, dry_run=dry_run)

    def evict_request(
        self,
        namespace: str,
        name: str,
        uid: str,
        grace_period_seconds: int | None,
        *,
        dry_run: bool = False,
    ) -> Request:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        return Request("POST", path, "application/json", json.dumps(body).encode())

    def send(self, request: Request) -> Reply:
        if "dryRun=All" in request.path:
            self.dry_runs += 1
            fault = self.faults.take_dry_run()
            return self._executed(request, dry_run=True) if fault is None else fault.reply()
        self.before_mutation(request)
        self.mutations.append(request)
        self.sleep(0.01)
        reply = self._with_fault(request, self.faults.take(request))
        self.after_mutation(request)
        return reply

    def _with_fault(self, request: Request, fault: Fault | None) -> Reply:
        if fault is None:
            return self._executed(request)
        if fault is Fault.LOST_AFTER:
            self._executed(request)
            return Reply(Outcome.UNKNOWN, message="connection reset")
        if fault is Fault.LATE:
            self.after(20.0, lambda: self._ignored(request))
            return Reply(Outcome.UNKNOWN, message="timed out")
        if fault is Fault.WEBHOOK_CHANGES:
            return self._changed_by_webhook(request)
        if fault is Fault.MOVED:
            self._move(request)
            return Reply(Outcome.UNKNOWN, message="connection reset")
        if fault is Fault.OTHER_WRITES:
            self._move(request)
            return self._executed(request)
        return fault.reply()

    def _ignored(self, request: Request) -> None:
        self._executed(request)

    def _move(self, request: Request) -> None:
        """Somebody else writes the node between our read and our patch."""
        if request.method == "PATCH":
            self.heartbeat(request.path.split("/")[4].partition("?")[0])

    def _executed(self, request: Request, *, dry_run: bool = False) -> Reply:
        body = json.loads(request.body)
        if request.method == "POST":
            parts = request.path.split("/")
            return self._evict(f"{parts[4]}/{parts[6]}", body)
        return self._patched(request.path.split("/")[4].partition("?")[0], body, dry_run=dry_run)

    def _patched(self, name: str, body: dict[str, Any], *, dry_run: bool = False) -> Reply:
        node = self.nodes.get(name)
        if node is None:
            return Reply(Outcome.ABSENT, status=404, reason="NotFound")
        if body["metadata"]["resourceVersion"] != str(node.version):
            return Reply(Outcome.CONFLICT, status=409, reason="Conflict")
        if dry_run:
            before = (list(node.taints), node.unschedulable, node.version, dict(node.owners))
        if not dry_run:
            self._before[name] = self._live(node)
        if "taints" in body["spec"]:
            self.write_taints(name, body["spec"]["taints"], FIELD_MANAGER)
        else:
            self.write_unschedulable(name, bool(body["spec"]["unschedulable"]), FIELD_MANAGER)
        live = self._live(node)
        if dry_run:
            node.taints, node.unschedulable, node.version, node.owners = before
        version = live.resource_version
        return Reply(Outcome.APPLIED, status=200, node=live, resource_version=version)

    def _changed_by_webhook(self, request: Request) -> Reply:
        reply = self._executed(request)
        if reply.node is None:
            return reply
        node = self.nodes[reply.node.name]
        self.write_taints(node.name, [*node.taints, _WEBHOOKS], "webhook")
        live = self._live(node)
        version = live.resource_version
        return Reply(Outcome.APPLIED, status=200, node=live, resource_version=version)

    def _evict(self, key: str, body: dict[str, Any]) -> Reply:
        """``EvictionREST.Create``: budgets are debited before the UID is looked at."""
        pod = self.pods.get(key)
        uid = body["deleteOptions"]["preconditions"]["uid"]
        if pod is None:
            return Reply(Outcome.ABSENT, status=404, reason="NotFound")
        if pod.deleted_ns is None:
            refusal = self._ask_budgets(pod)
            if refusal is not None:
                return refusal
        if pod.uid != uid:
            self.met_newcomer += 1
            return Reply(Outcome.CONFLICT, status=409, reason="Conflict")
        self.evicted[uid] += 1
        if pod.deleted_ns is None:
            self.delete(pod)
        return Reply(Outcome.APPLIED, status=201)

    def _ask_budgets(self, pod: SimulatedPod) -> Reply | None:
        if len(pod.budgets) > 1:
            return Reply(Outcome.SEVERAL_BUDGETS, status=500, message="more than one budget")
        for budget in pod.budgets:
            if self.budgets[budget] <= 0:
                causes = ("DisruptionBudget",)
                return Reply(Outcome.BUDGET, status=429, causes=causes, message=budget)
            self.budgets[budget] -= 1
        return None

    def delete(self, pod: SimulatedPod) -> None:
        """Set deletionTimestamp; the kubelet and the controller do the rest."""
        pod.deleted_ns, pod.ready = self.now, False
        self.after(pod.exit_seconds, lambda: self._gone(pod))
        workload = self.workloads.get(f"{pod.namespace}/{pod.workload}")
        if workload is not None and not workload.same_name:
            self._replace(pod, workload, f"{pod.key}-{next(self._uids)}")

    def _gone(self, pod: SimulatedPod) -> None:
        if self.pods.get(pod.key) is not pod:
            return
        del self.pods[pod.key]
        workload = self.workloads.get(f"{pod.namespace}/{pod.workload}")
        if workload is not None and workload.same_name:
            self._replace(pod, workload, pod.key)

    def _replace(self, pod: SimulatedPod, workload: SimulatedWorkload, key: str) -> None:
        new = self.add_pod(key, workload.node, pod.workload, ready=False, budgets=pod.budgets)

        def ready() -> None:
            new.ready = True
            for budget in new.budgets:
                self.budgets[budget] += 1

        self.after(workload.ready_seconds, ready)

    # -- ClusterApi: the lock -------------------------------------------------------------------------

    def get_lease(self, namespace: str, name: str) -> LiveLease | None:
        self._read()
        return self.leases.get(f"{namespace}/{name}")

    def create_lease(
        self,
        namespace: str,
        name: str,
        holder: str,
        seconds: int,
        annotations: Mapping[str, str] | None = None,
    ) -> Reply:
        if f"{namespace}/{name}" in self.leases:
            return Reply(Outcome.CONFLICT, status=409, reason="AlreadyExists")
        lease = LiveLease(name, namespace, self._uid(), "", holder, self.now, None, seconds)
        return self._keep_lease(lease, holder, seconds, annotations or {})

    def update_lease(
        self,
        lease: LiveLease,
        holder: str,
        seconds: int,
        annotations: Mapping[str, str] | None = None,
    ) -> Reply:
        if self.faults.lease_outcome is not None:
            return Reply(self.faults.lease_outcome)
        found = self.leases.get(f"{lease.namespace}/{lease.name}")
        if found is None:
            return Reply(Outcome.ABSENT, status=404)
        if found.resource_version != lease.resource_version:
            return Reply(Outcome.CONFLICT, status=409)
        return self._keep_lease(found, holder, seconds, annotations or {})

    def _keep_lease(
        self, lease: LiveLease, holder: str, seconds: int, annotations: Mapping[str, str]
    ) -> Reply:
        version = str(self._version())
        kept = LiveLease(
            lease.name, lease.namespace, lease.uid, version, holder, self.now, self.now, seconds,
            annotations={**lease.annotations, **annotations},
        )  # fmt: skip
        self.leases[f"{lease.namespace}/{lease.name}"] = kept
        return Reply(Outcome.APPLIED, status=200, resource_version=version)

    # -- inside -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        self.sleep(0.005)
        self.faults.read()

    def _version(self) -> int:
        return next(self._versions)

    def _uid(self) -> str:
        return f"uid-{next(self._uids)}"

    def _live(self, node: SimulatedNode) -> LiveNode:
        time = format_rfc3339(self.now // SECOND_NS * SECOND_NS)
        managers = sorted(set(node.owners.values()))
        return LiveNode(
            name=node.name,
            uid=node.uid,
            resource_version=str(node.version),
            taints=tuple(Taint(t["key"], t["effect"], t.get("value", "")) for t in node.taints),
            unschedulable=node.unschedulable,
            ready="True",
            raw_taints=tuple(dict(taint) for taint in node.taints),
            changed_by=tuple(
                SpecChange(who, time, tuple(f for f, owner in node.owners.items() if owner == who))
                for who in managers
            ),
        )


_WEBHOOKS = {"key": "webhook/added", "effect": "NoSchedule"}


def _patch(node: LiveNode, spec: dict[str, Any], *, dry_run: bool) -> Request:
    body = {"metadata": {"resourceVersion": node.resource_version}, "spec": spec}
    path = f"/api/v1/nodes/{node.name}?fieldManager={FIELD_MANAGER}"
    path += "&dryRun=All" if dry_run else ""
    kind = "application/strategic-merge-patch+json"
    return Request("PATCH", path, kind, json.dumps(body).encode())


def _read_pod(pod: SimulatedPod) -> Pod:
    kind, _, name = pod.workload.partition("/")
    owners = (OwnerReference(kind, name, f"uid-{name}", controller=True),) if kind else ()
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        node_name=pod.node,
        ready="True" if pod.ready else "False",
        deletion_timestamp_ns=pod.deleted_ns,
        owner_references=owners,
        tolerations=pod.tolerations,
    )
