"""The cluster of one simulation, as the scenario's events find it and change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import Entry
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.scenarios.scenario import ScenarioEvent


class EventApplied(Entry, frozen=True):
    """An event of the scenario changed something: a node, a pod, or the controller (both names "")."""

    event: ScenarioEvent
    node: str = ""
    pod: str = ""


Causes = tuple[int, ...]


class ManagerProcess(Protocol):
    """kube-controller-manager, which may go away and come back."""

    def start_cold(self, because: Causes) -> None:
        """Start a new process, which knows nothing, in place of the one that runs."""

    def stop(self, because: Causes) -> None:
        """End the process, if there is one."""


@dataclass(frozen=True)
class SimulatedCluster:
    """API objects, kubelets and the controllers' process."""

    state: ClusterState
    kubelets: Kubelets
    manager: ManagerProcess

    @property
    def now_seconds_ns(self) -> int:
        """The instant (epoch) as the API server stamps it: whole seconds."""
        return self.state.events.now_ns // SECOND_NS * SECOND_NS

    def existing(self, event: ScenarioEvent) -> list[str]:
        """Return the event's nodes that exist now."""
        return [name for name in event.nodes if name in self.state.nodes]

    def note(self, event: ScenarioEvent, *, node: str = "", pod: str = "") -> Causes:
        """Record that the event happens to a node, a pod or (neither) the controllers' process."""
        applied = EventApplied(self.state.offset_ns, (), event, node, pod)
        return (self.state.timeline.append(applied),)
