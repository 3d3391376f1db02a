"""The disruption controller: keeps the status of PodDisruptionBudgets.

Upstream: ``DisruptionController`` (pkg/controller/disruption/disruption.go). A change of a covered pod, or of a
budget, is followed by one ``sync`` a little later; ``kube/disruption.py`` has the sums.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_evictplan.cluster.disruption_budgets import DisruptionBudgets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.engine.drain_timing import DrainTiming, Latency
from kubectl_evictplan.engine.event_queue import Priority, ScheduledCall
from kubectl_evictplan.kube.disruption import (
    DELETION_TIMEOUT_NS,
    Scale,
    Unscaled,
    is_behind,
    is_stale,
    synced_status,
)
from kubectl_evictplan.kube.objects import OwnerReference, Pod, Workload

# Kinds that are asked for their scale (``finders``), and those that are known to have none.
_SCALED = frozenset({"ReplicaSet", "Deployment", "StatefulSet", "ReplicationController"})
_UNSCALED = frozenset({"DaemonSet", "Job", "Node"})


class OwnerScales:
    """How many pods the owners of pods want, from the workloads of the input."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._workloads = {(one.kind, one.namespace, one.name): one for one in workloads}

    def scale(self, namespace: str, owner: OwnerReference) -> Scale | Unscaled:
        """The scale of a pod's owner; of a Deployment's ReplicaSet that of the Deployment."""
        if owner.kind in _UNSCALED:
            return Unscaled.NO_SCALE
        if owner.kind not in _SCALED:
            return Unscaled.UNKNOWN
        found = self._workloads.get((owner.kind, namespace, owner.name))
        if found is None:
            return Unscaled.UNKNOWN
        for above in found.owner_references:
            if above.controller and above.kind == "Deployment":
                found = self._workloads.get(("Deployment", namespace, above.name))
        if found is None or found.replicas is None:
            return Unscaled.UNKNOWN
        return Scale(found.uid or found.name, found.replicas)


class DisruptionController:
    """One process's controller. ``start`` syncs every budget when the process is new."""

    def __init__(
        self,
        state: ClusterState,
        budgets: DisruptionBudgets,
        scales: OwnerScales,
        timing: DrainTiming,
    ) -> None:
        self._state = state
        self._budgets = budgets
        self._scales = scales
        self._timing = timing
        # Syncs that are on their way, and rechecks of pods that should have been deleted, by budget.
        self._queued: dict[int, ScheduledCall] = {}
        self._rechecks: dict[int, ScheduledCall] = {}

    def start(self, *, warm: bool) -> None:
        """Watch; a process that was running before has synced whatever the snapshot shows synced."""
        self._state.watch_pods(self._pod_changed)
        self._state.watch_readiness(self._pod_changed)
        self._budgets.watch(self._enqueue)
        for place in range(len(self._budgets)):
            budget = self._budgets[place]
            if not warm or budget.disruptions_allowed is None or budget.disrupted_pods:
                self._enqueue(place)
            elif is_stale(budget) or is_behind(
                budget, self._budgets.pods(place), self._state.events.now_ns
            ):
                self._catch_up(place)

    def _catch_up(self, place: int) -> None:
        """The controller has not come to the newest changes of the budget or its pods yet; it will."""
        events = self._state.events
        at_ns = events.now_ns + self._timing.latency_ns(Latency.CATCH_UP, place)
        self._rechecks[place] = events.schedule(
            at_ns, Priority.OUTSIDE, lambda: self._enqueue(place)
        )

    def stop(self) -> None:
        """The process is gone."""
        self._state.unwatch([self._pod_changed])
        self._budgets.unwatch(self._enqueue)
        for call in (*self._queued.values(), *self._rechecks.values()):
            call.cancel()
        self._queued.clear()
        self._rechecks.clear()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None, "a change has a pod"
        # ``getPdbForPod`` takes one of several: that all are synced changes no answer, which is 500 then.
        for place in self._budgets.covering(pod):
            self._enqueue(place)

    def _enqueue(self, place: int) -> None:
        if place in self._queued:
            return
        events = self._state.events
        delay_ns = self._timing.latency_ns(Latency.SYNC_BUDGET, place, events.now_ns)
        self._queued[place] = events.schedule(
            events.now_ns + delay_ns, Priority.OUTSIDE, lambda: self._sync(place)
        )

    def _sync(self, place: int) -> None:
        self._queued.pop(place, None)
        now_ns = self._state.events.now_ns
        budget = self._budgets[place]
        status = synced_status(budget, self._budgets.pods(place), self._scales.scale, now_ns)
        if status != budget:
            self._budgets.write(place, status)
        # A sync that fails leaves what is over in the status, and looks at nothing again (``failSafe``).
        left = (since_ns for _, since_ns in status.disrupted_pods)
        waiting = [since_ns for since_ns in left if since_ns + DELETION_TIMEOUT_NS >= now_ns]
        if waiting:
            self._recheck(place, min(waiting))

    def _recheck(self, place: int, since_ns: int) -> None:
        if place in self._rechecks:
            self._rechecks[place].cancel()
        at_ns = max(since_ns + DELETION_TIMEOUT_NS + 1, self._state.events.now_ns)
        self._rechecks[place] = self._state.events.schedule(
            at_ns, Priority.OUTSIDE, lambda: self._enqueue(place)
        )
