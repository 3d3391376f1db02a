"""Controllers that replace pods: ReplicaSet, ReplicationController and Job under new names, StatefulSet.

Upstream: ``manageReplicas`` (pkg/controller/replicaset), ``syncJob``, and ``updateStatefulSet``
(pkg/controller/statefulset/stateful_set_control.go). Each owner keeps as many pods as it has at the start, and makes what
it lacks then (``missing_pods``): rollouts and scaling are not played. A DaemonSet creates nothing where its pods are not wanted any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.engine.drain_timing import DrainTiming, Latency
from kubectl_evictplan.engine.event_queue import Priority, ScheduledCall
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.objects import ClusterSnapshot, OwnerReference, Pod, Workload
from kubectl_evictplan.kube.owners import (
    AT_ONCE_READY,
    READY,
    available_after,
    closed_owners,
    ready_since_ns,
)

REPLACED_AT_ONCE = frozenset({"ReplicaSet", "ReplicationController", "Job"})
_SCALED_AT_ONCE = REPLACED_AT_ONCE - {"Job"}
STATEFUL_SET = "StatefulSet"
REPLACED = REPLACED_AT_ONCE | {STATEFUL_SET}
PARALLEL = "Parallel"

_OwnerKey = tuple[str, str, str]


def owner_key(pod: Pod) -> _OwnerKey | None:
    """(kind, namespace, name) of a pod's managing owner."""
    owner = pod.controller()
    return None if owner is None else (owner.kind, pod.namespace, owner.name)


def is_owned_by(pod: Pod, kind: str) -> bool:
    """Whether the managing owner is of that kind."""
    owner = pod.controller()
    return owner is not None and owner.kind == kind


class ReplicationControllers:
    """Creates what was deleted, as the owners of pods do."""

    def __init__(
        self,
        state: ClusterState,
        workloads: dict[_OwnerKey, Workload],
        timing: DrainTiming,
        availability: str = READY,
        missing: Mapping[_OwnerKey, int] = MappingProxyType({}),
    ) -> None:
        """``availability``: what the release makes of minReadySeconds (``kube/owners.py``); ``missing``: ``missing_pods``."""
        self._state = state
        self._availability = availability
        # When a StatefulSet goes on past each of its pods that are Ready; who is not in it was so long before.
        self._available: dict[str, int] = {}
        self._workloads = workloads
        self._timing = timing
        self._queued: dict[_OwnerKey, ScheduledCall] = {}
        # Active pods of each owner, by their keys.
        self._active: dict[_OwnerKey, set[str]] = {}
        # What each owner keeps: a number of pods, or (StatefulSets) their names in order.
        self._wanted: dict[_OwnerKey, int] = {}
        self._names: dict[_OwnerKey, list[str]] = {}
        self._templates: dict[_OwnerKey, Pod] = {}
        self._created = 0
        for pod in state.pods.values():
            self._adopt(pod)
        for key, active in self._active.items():
            self._wanted[key] = len(active) + missing.get(key, 0)
            if key[0] == STATEFUL_SET:
                self._names[key] = self._ordered_names(key)
        for pod in state.pods.values():
            self._is_ready_since(pod, ready_since_ns(pod))

    def start(self, *, warm: bool) -> None:
        """Watch; owners that have lost pods while no process ran notice it now."""
        self._state.watch_pods(self._pod_changed)
        self._state.watch_readiness(self._pod_changed)
        if warm:
            for key, active in self._active.items():
                if key not in self._names and len(active) < self._wanted.get(key, 0):
                    self._enqueue(key)
            return
        for active in self._active.values():
            active.clear()
        for pod in self._state.pods.values():
            self._adopt(pod)
        for key in self._active:
            self._enqueue(key)

    def stop(self) -> None:
        """The process is gone."""
        self._state.unwatch([self._pod_changed])
        for call in self._queued.values():
            call.cancel()
        self._queued.clear()

    def _adopt(self, pod: Pod) -> _OwnerKey | None:
        """Enter a pod as its owner sees it now; None when nobody replaces it."""
        key = owner_key(pod)
        if key is None or key[0] not in REPLACED:
            return None
        active = self._active.setdefault(key, set())
        (active.add if pod.active else active.discard)(pod.key)
        self._templates.setdefault(key, pod)
        return key

    def _ordered_names(self, key: _OwnerKey) -> list[str]:
        """Return the names by ordinal: those that spec.replicas asks for, else those of the input.

        The names of a redacted snapshot have no ordinals, but their order.
        """
        workload = self._workloads.get(key)
        first, count = (workload.first_ordinal, workload.replicas or 0) if workload else (0, 0)
        wanted = [f"{key[2]}-{ordinal}" for ordinal in range(first, first + count)]
        known = {pod.partition("/")[2] for pod in self._active[key]}
        return wanted if known <= {*wanted} else sorted(known, key=lambda name: (len(name), name))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None, "a change has a pod"
        key = self._adopt(pod)
        if key is None:
            return
        if new is None:
            self._active[key].discard(pod.key)
        elif new.ready == "True" and (old is None or old.ready != "True" or old.uid != new.uid):
            self._is_ready_since(new, self._state.events.now_ns)
        if key in self._names or len(self._active[key]) < self._wanted.get(key, 0):
            self._enqueue(key)

    def _is_ready_since(self, pod: Pod, since_ns: int | None) -> None:
        """Note when its StatefulSet goes on past it, and have it look then."""
        key = owner_key(pod)
        self._available.pop(pod.key, None)
        if since_ns is None or key is None or key not in self._names:
            return
        within = available_after(self._workloads.get(key), self._availability)
        if within == AT_ONCE_READY:
            return
        number = self._state.number(pod.key)
        at_ns = since_ns + self._timing.delay_ns(within, "available", number, since_ns)
        events = self._state.events
        if at_ns > events.now_ns:
            self._available[pod.key] = at_ns
            events.schedule(at_ns, Priority.OUTSIDE, lambda: self._enqueue(key))

    def _enqueue(self, key: _OwnerKey) -> None:
        if key in self._queued:
            return
        events = self._state.events
        owner = self._state.number("/".join(key))
        delay_ns = self._timing.latency_ns(Latency.REPLACE_POD, owner, events.now_ns)
        self._queued[key] = events.schedule(
            events.now_ns + delay_ns, Priority.OUTSIDE, lambda: self._sync(key)
        )

    def _sync(self, key: _OwnerKey) -> None:
        self._queued.pop(key, None)
        if key in self._names:
            self._sync_stateful_set(key)
            return
        for _ in range(self._wanted.get(key, 0) - len(self._active[key])):
            self._created += 1
            self._create(key, f"{key[2]}-replacement-{self._created}")

    def _sync_stateful_set(self, key: _OwnerKey) -> None:
        """``processReplica`` by ordinal; OrderedReady goes on only past pods that are Running and available."""
        workload = self._workloads.get(key)
        in_order = workload is None or workload.pod_management_policy != PARALLEL
        for name in self._names[key]:
            pod = self._state.pods.get(f"{key[1]}/{name}")
            if pod is None:
                self._create(key, name)
            healthy = (
                pod is not None
                and pod.deletion_timestamp_ns is None
                and pod.phase == "Running"
                and pod.ready == "True"
                and self._available.get(pod.key, 0) <= self._state.events.now_ns
            )
            if in_order and not healthy:
                return

    def _create(self, key: _OwnerKey, name: str) -> None:
        template = self._templates[key]
        owner: OwnerReference | None = template.controller()
        assert owner is not None, "templates are pods of an owner"
        self._created += 1
        created = replace(
            template,
            name=name,
            # No uid of an API server has a space.
            uid=f"replacement {self._created}",
            resource_version="",
            node_name="",
            phase="Pending",
            ready="False",
            creation_timestamp_ns=self._state.events.now_ns,
            deletion_timestamp_ns=None,
            deletion_grace_period_seconds=None,
            status_reason="",
        )
        self._state.create_pod(created, made_for=f"{key[1]}/{key[0]}/{key[2]}")


def missing_pods(snapshot: ClusterSnapshot) -> dict[_OwnerKey, int]:
    """How many pods fewer than spec.replicas owners have that make them at once, as far as all their pods are counted.

    Where nobody counted those that are left out (``ClusterSnapshot.left_out``), these are owners of which a budget covers
    every pod. ``manageReplicas`` makes what is missing whatever it was that took it: nothing has to be deleted first.
    """
    wanted = {
        key: one.replicas
        for one in snapshot.workloads
        if one.replicas and (key := (one.kind, one.namespace, one.name))[0] in _SCALED_AT_ONCE
    }
    if not wanted:
        return {}
    active: dict[_OwnerKey, list[Pod]] = {}
    for pod in snapshot.pods:
        if (owner := owner_key(pod)) in wanted and owner is not None:
            active.setdefault(owner, []).extend((pod,) if pod.active else ())
    left_out, counted = snapshot.left_out or {}, snapshot.left_out is not None
    short = {
        key: missing
        for key, replicas in wanted.items()
        if key in active
        and (missing := replicas - len(active[key]) - left_out.get("/".join(key), 0)) > 0
    }
    if not short:
        return {}
    index, closed = BudgetIndex(snapshot.budgets), closed_owners(snapshot)
    return {
        key: number
        for key, number in short.items()
        if active[key]
        and (counted or all(map(index.matching, active[key])))
        and closed.why((key[1], key[0], key[2])) is None
    }
