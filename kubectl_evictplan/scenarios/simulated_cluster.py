"""The cluster of one simulation, as the scenario's events find it and change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import Causes, Entry
from kubectl_evictplan.kube.drain_filters import DrainOptions
from kubectl_evictplan.scenarios.scenario import ScenarioEvent


class EventApplied(Entry, frozen=True):
    """An event of the scenario changed something: a node, a pod, or the controller (both names "")."""

    event: ScenarioEvent
    node: str = ""
    pod: str = ""


class ManagerProcess(Protocol):
    """kube-controller-manager, which may go away and come back."""

    def start_cold(self, because: Causes) -> None:
        """Start a new process, which knows nothing, in place of the one that runs."""

    def stop(self, because: Causes) -> None:
        """End the process, if there is one."""


class Drains(Protocol):
    """Processes of ``kubectl drain``."""

    def start(self, options: DrainOptions, nodes: Mapping[str, Causes]) -> None:
        """Start one process, which drains the nodes in this order; each exists and has its cause."""


class SimulatedCluster(msgspec.Struct, frozen=True):
    """API objects, kubelets, the controllers' process and those of people."""

    state: ClusterState
    kubelets: Kubelets
    manager: ManagerProcess
    drains: Drains

    def existing(self, event: ScenarioEvent) -> list[str]:
        """Return the event's nodes that exist now."""
        return [name for name in event.nodes if name in self.state.nodes]

    def note(self, event: ScenarioEvent, *, node: str = "", pod: str = "") -> Causes:
        """Record that the event happens to a node, a pod or (neither) the controllers' process."""
        return self.state.record(EventApplied, (), event, node, pod)
