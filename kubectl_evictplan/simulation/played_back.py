"""What the node lifecycle controller wrote in another run, played back as events of a scenario.

They are no actions of scenario files: whoever simulates a few nodes without that controller makes
them from what it decided about the whole cluster.
"""

from __future__ import annotations

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE
from kubectl_evictplan.kube.objects import NO_EXECUTE, Taint
from kubectl_evictplan.kube.taints import with_taint_put_first, without_taint
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster


class LifecycleTaintWritten(ScenarioEvent, frozen=True, kw_only=True):
    """A NoExecute taint comes or goes."""

    name: str
    key: str
    added: bool

    def happen(self, cluster: SimulatedCluster) -> None:
        """Write the node's list; its cause is whatever happened to the node last."""
        node = cluster.state.nodes.get(self.name)
        if node is None:
            return
        if self.added:
            taints = with_taint_put_first(node.taints, Taint(self.key, NO_EXECUTE))
        else:
            taints = without_taint(node.taints, self.key, NO_EXECUTE)
        if self.added or taints != node.taints:
            cluster.state.patch_node_taints(
                self.name,
                taints,
                by=NODE_LIFECYCLE,
                because=cluster.state.node_causes.get(self.name, ()),
                rule="SwapNodeControllerTaint",
            )


class ReadyUnknownWritten(ScenarioEvent, frozen=True, kw_only=True):
    """The Ready condition becomes Unknown."""

    name: str

    def happen(self, cluster: SimulatedCluster) -> None:
        """Write the condition."""
        node = cluster.state.nodes.get(self.name)
        if node is not None:
            conditions = tuple(
                replace(condition, status="Unknown") if condition.type == "Ready" else condition
                for condition in node.conditions
            )
            cluster.state.update_node_conditions(self.name, conditions)
