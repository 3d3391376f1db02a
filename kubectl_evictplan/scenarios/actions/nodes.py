"""Node objects: created, deleted, cordoned and uncordoned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.scenarios.field_types import NODE_MANIFEST, Manifest
from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.scenario import NodesEvent, ScenarioEvent
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster


class DeleteNode(NodesEvent, frozen=True, kw_only=True):
    """Node objects go, as by ``kubectl delete node``."""

    action = "node-delete"
    told = "the Node object is deleted"
    seen_by_monitor = True
    seen_by_pod_gc = True
    feeds_pod_gc = True

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        for name in self.nodes:
            history.remove_node(name)
        return iter(())

    def happen(self, cluster: SimulatedCluster) -> None:
        for name in cluster.existing(self):
            cluster.state.delete_node(name, cluster.note(self, node=name))


class CreateNode(ScenarioEvent, frozen=True, kw_only=True):
    """A Node object comes into being; the API server stamps it, whatever the manifest says."""

    action = "node-create"
    told = "the Node object is created"
    seen_by_monitor = True
    idle_because = "a node of that name exists then"

    manifest: Annotated[Manifest, NODE_MANIFEST]

    @property
    def node(self) -> Node:
        assert isinstance(self.manifest.stored, Node)
        return self.manifest.stored

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.node.name,)

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        if self.node.name in history.nodes:
            yield "", f"node {self.node.name!r} exists already at this instant"
        history.add_node(self.node)

    def happen(self, cluster: SimulatedCluster) -> None:
        if self.node.name not in cluster.state.nodes:
            created = replace(self.node, creation_timestamp_ns=cluster.state.now_seconds_ns)
            cluster.state.create_node(created, cluster.note(self, node=self.node.name))


class Cordon(NodesEvent, frozen=True, kw_only=True):
    """Nodes take no new pods; that alone evicts nothing."""

    action = "cordon"
    told = "the node is cordoned"
    unschedulable = True
    idle_because = "the node is cordoned already or does not exist then"

    def happen(self, cluster: SimulatedCluster) -> None:
        for name in cluster.existing(self):
            node = cluster.state.nodes[name]
            if node.unschedulable != self.unschedulable:
                cluster.state.node_causes[name] = cluster.note(self, node=name)
                cluster.state.update_node(node, replace(node, unschedulable=self.unschedulable))


class Uncordon(Cordon, frozen=True, kw_only=True):
    """Nodes take new pods again."""

    action = "uncordon"
    told = "the node is uncordoned"
    unschedulable = False
    idle_because = "the node is not cordoned or does not exist then"
