"""kube-controller-manager goes away and comes back."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster


class ManagerEvent(ScenarioEvent, frozen=True, kw_only=True):
    """The process ends or begins; a first ``controller-start`` means that none ran before."""

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        before, history.manager = history.manager, self
        if before is not None and before.manager_up == self.manager_up:
            state = "running" if self.manager_up else "stopped"
            yield "", f"the controller is already {state} since {before.where}"


class StopManager(ManagerEvent, frozen=True, kw_only=True):
    """The process ends: every timer and all memory are lost."""

    action = "controller-stop"
    told = "kube-controller-manager stops"
    manager_up = False
    seen_by_monitor = True

    def happen(self, cluster: SimulatedCluster) -> None:
        cluster.manager.stop(cluster.note(self))


class StartManager(ManagerEvent, frozen=True, kw_only=True):
    """A new process begins, whose first node monitor tick is now."""

    action = "controller-start"
    told = "kube-controller-manager starts"
    manager_up = True

    def happen(self, cluster: SimulatedCluster) -> None:
        cluster.manager.start_cold(cluster.note(self))
