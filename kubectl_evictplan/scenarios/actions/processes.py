"""Processes that stop, start and post: kubelets, their leases, and kube-controller-manager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.scenarios.field_types import (
    DURATION,
    DURATION_FROM_0,
    POSTED_STATUS,
    STATUS,
)
from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.names import listed
from kubectl_evictplan.scenarios.scenario import OUTAGE, NodesEvent, OutagePart, ScenarioEvent
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster


class StopKubelet(NodesEvent, frozen=True, kw_only=True):
    """The kubelets fall silent: power, network or process; a kubelet may be without its Node."""

    action = "kubelet-stop"
    told = "the kubelet falls silent"
    kubelets_up = False

    # Offset of the last lease renewal that was sent, negative before the start; None: from the Lease.
    last_heartbeat_ns: Annotated[int | None, DURATION] = msgspec.field(
        default=None, name="lastHeartbeat"
    )
    outage: Annotated[OutagePart | None, OUTAGE] = None

    @property
    def critical_ns(self) -> int | None:
        # What a tick sees is the last heartbeat, not the silence after it.
        return self.last_heartbeat_ns

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        if self.last_heartbeat_ns is not None and self.last_heartbeat_ns > self.at_ns:
            yield "lastHeartbeat", "the last heartbeat lies after the stop itself"
        for name in self.nodes:
            before = history.kubelets.get(name)
            if before is not None and before.latest_ns > self.at_ns:
                yield "", f"the kubelet of {name} need not be back before it: {before.where}"
            elif before is not None and not before.kubelets_up:
                yield "", f"the kubelet of {name} is already silent since {before.where}"
            history.kubelets[name] = self

    def foretell(self, cluster: SimulatedCluster) -> None:
        # Renewals before the stop are those of the scenario, not of the formula.
        if self.last_heartbeat_ns is not None:
            start_ns = cluster.state.timeline.start_ns
            stop_ns, last_ns = start_ns + self.at_ns, start_ns + self.last_heartbeat_ns
            for name in self.nodes:
                cluster.kubelets.expect_stop(name, stop_ns, last_ns)

    def happen(self, cluster: SimulatedCluster) -> None:
        last_ns = self.last_heartbeat_ns
        epoch_ns = None if last_ns is None else cluster.state.timeline.start_ns + last_ns
        for name in self.nodes:
            cluster.kubelets.stop(name, epoch_ns, cluster.note(self, node=name))


class StartKubelet(NodesEvent, frozen=True, kw_only=True):
    """The kubelets are back, post a Ready condition and finish what was deleted meanwhile.

    ``within_ns``: each of them is back so long after ``at_ns`` at the latest, nobody knows when.
    ``status``: of Ready; one that says False is heard, and ends no pods.
    """

    action = "kubelet-start"
    told = "the kubelet is back"
    kubelets_up = True
    seen_by_monitor = True

    within_ns: Annotated[int, DURATION_FROM_0] = msgspec.field(default=0, name="within")
    status: Annotated[str, POSTED_STATUS] = "True"
    outage: Annotated[OutagePart | None, OUTAGE] = None

    @property
    def latest_ns(self) -> int:
        return self.at_ns + self.within_ns

    def moved_to(self, at_ns: int) -> StartKubelet:
        return replace(self, at_ns=at_ns, within_ns=0)

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        for name in self.nodes:
            before = history.kubelets.get(name)
            if before is not None and before.latest_ns > self.at_ns:
                yield "", f"the kubelet of {name} need not be back before it: {before.where}"
            elif before is not None and before.kubelets_up:
                yield "", f"the kubelet of {name} is already back since {before.where}"
            elif before is None and history.nodes[name].ready_status == "True":
                yield "", f"the kubelet of {name} was never stopped, and the node is Ready"
            history.kubelets[name] = self

    def happen(self, cluster: SimulatedCluster) -> None:
        for name in self.nodes:
            cluster.kubelets.post_ready(name, self.status, cluster.note(self, node=name))


class PostReady(NodesEvent, frozen=True, kw_only=True):
    """The kubelets themselves post a Ready condition."""

    action = "node-ready"
    told = "the kubelet posts Ready={detail}"
    kubelets_up = True
    seen_by_monitor = True
    # Pods of out-of-service nodes are force-deleted while the node is not ready.
    seen_by_pod_gc = True

    status: Annotated[str, STATUS]

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        silent = [name for name in self.nodes if history.is_silent(name)]
        if silent:
            where = history.kubelets[silent[0]].where
            yield "", f"a silent kubelet cannot post a status: {listed(silent)} since {where}"
        for name in self.nodes:
            before = history.kubelets.get(name)
            if before is not None and before.latest_ns > self.at_ns:
                yield "", f"the kubelet of {name} need not be back before it: {before.where}"

    def happen(self, cluster: SimulatedCluster) -> None:
        for name in cluster.existing(self):
            cluster.kubelets.post_ready(name, self.status, cluster.note(self, node=name))


class TouchLease(NodesEvent, frozen=True, kw_only=True):
    """Somebody else writes the leases without renewing them: see 1.37's circuit breaker."""

    action = "lease-touch"
    told = "somebody writes the Lease without renewing it"
    seen_by_monitor = True

    def happen(self, cluster: SimulatedCluster) -> None:
        for name in cluster.existing(self):
            cluster.kubelets.touch_lease(name, cluster.note(self, node=name))


class ManagerEvent(ScenarioEvent, frozen=True, kw_only=True):
    """The process ends or begins; a first ``controller-start`` means that none ran before."""

    outage: Annotated[OutagePart | None, OUTAGE] = None

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        before, history.manager = history.manager, self
        if before is not None and before.manager_up == self.manager_up:
            state = "running" if self.manager_up else "stopped"
            yield "", f"the controller is already {state} since {before.where}"
        elif before is not None and before.latest_ns > self.at_ns:
            yield "", f"the controller need not have started before it: {before.where}"


class StopManager(ManagerEvent, frozen=True, kw_only=True):
    """The process ends: every timer and all memory are lost."""

    action = "controller-stop"
    told = "kube-controller-manager stops"
    manager_up = False
    seen_by_monitor = True
    seen_by_pod_gc = True

    def happen(self, cluster: SimulatedCluster) -> None:
        cluster.manager.stop(cluster.note(self))


class StartManager(ManagerEvent, frozen=True, kw_only=True):
    """A new process begins, whose first node monitor tick is now.

    ``within_ns``: it is not known better than that it begins so long after ``at_ns`` at the latest.
    """

    action = "controller-start"
    told = "kube-controller-manager starts"
    manager_up = True

    within_ns: Annotated[int, DURATION_FROM_0] = msgspec.field(default=0, name="within")

    @property
    def latest_ns(self) -> int:
        return self.at_ns + self.within_ns

    def moved_to(self, at_ns: int) -> StartManager:
        return replace(self, at_ns=at_ns, within_ns=0)

    def happen(self, cluster: SimulatedCluster) -> None:
        cluster.manager.start_cold(cluster.note(self))
