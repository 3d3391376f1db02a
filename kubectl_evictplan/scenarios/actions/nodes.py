"""Node objects: created, deleted, cordoned, tainted, and all of it undone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import SCENARIO
from kubectl_evictplan.kube.objects import NO_EXECUTE, Node, Taint
from kubectl_evictplan.kube.taints import (
    CONTROLLERS_PREFIX,
    LIFECYCLE_NO_EXECUTE_KEYS,
    OUT_OF_SERVICE,
    is_lifecycle_no_execute,
    with_taint_put_first,
    without_taint,
)
from kubectl_evictplan.scenarios.field_types import NODE_MANIFEST, TAINT, TAINT_REMOVAL, Manifest
from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.names import listed
from kubectl_evictplan.scenarios.scenario import NodesEvent, ScenarioEvent
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster
from kubectl_evictplan.scenarios.taint_words import TaintRemoval


class DeleteNode(NodesEvent, frozen=True, kw_only=True):
    """Node objects go, as by ``kubectl delete node``."""

    action = "node-delete"
    told = "the Node object is deleted"
    done_by = "kubectl delete node {nodes}"
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
    # Pods that wait for it are garbage no more.
    seen_by_pod_gc = True
    idle_because = "a node of that name exists then"

    manifest: Annotated[Manifest, NODE_MANIFEST]

    @property
    def node(self) -> Node:
        assert isinstance(self.manifest.stored, Node)
        return self.manifest.stored

    @property
    def feeds_pod_gc(self) -> bool:
        return any(taint.key == OUT_OF_SERVICE for taint in self.node.taints)

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
    done_by = "kubectl cordon {nodes}"
    undone_by = "kubectl uncordon {nodes}"
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
    done_by = "kubectl uncordon {nodes}"
    undone_by = "kubectl cordon {nodes}"
    unschedulable = False
    idle_because = "the node is not cordoned or does not exist then"


class AddTaint(NodesEvent, frozen=True, kw_only=True):
    """A taint comes first in each node's list, as by kubectl; one of its key and effect goes."""

    action = "taint"
    told = "somebody puts the taint {detail} on"
    done_by = "kubectl taint nodes {nodes} {detail}"
    undone_by = "kubectl taint nodes {nodes} {detail}-"

    taint: Annotated[Taint, TAINT]

    @property
    def seen_by_monitor(self) -> bool:
        return is_lifecycle_no_execute(self.taint)

    @property
    def seen_by_pod_gc(self) -> bool:
        return self.taint.key == OUT_OF_SERVICE

    feeds_pod_gc = seen_by_pod_gc

    def commutes_with(self, other: ScenarioEvent) -> bool:
        return _commute(self, other)

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        for name in self.nodes:
            history.taints[name].add((self.taint.key, self.taint.effect))
        return iter(())

    def happen(self, cluster: SimulatedCluster) -> None:
        for name in cluster.existing(self):
            taints = with_taint_put_first(cluster.state.nodes[name].taints, self.taint)
            _write(self, cluster, name, taints)


class RemoveTaint(NodesEvent, frozen=True, kw_only=True):
    """A taint goes, with one effect or with all of them."""

    action = "untaint"
    told = "somebody takes the taint {detail} off"
    done_by = "kubectl taint nodes {nodes} {detail}-"
    # Said by the warning taint-not-applied.
    idle_because = ""

    removal: Annotated[TaintRemoval, TAINT_REMOVAL] = msgspec.field(name="taint")

    @property
    def seen_by_monitor(self) -> bool:
        return any(self.removal.removes(key, NO_EXECUTE) for key in LIFECYCLE_NO_EXECUTE_KEYS)

    def commutes_with(self, other: ScenarioEvent) -> bool:
        return _commute(self, other)

    def contradictions(self, history: History) -> Iterator[tuple[str, str]]:
        # A user's taint must be there; a controller's may have come meanwhile.
        absent = []
        for name in self.nodes:
            gone = {taint for taint in history.taints[name] if self.removal.removes(*taint)}
            if gone:
                history.taints[name] -= gone
                history.untainted[name, self.removal.key] = self
            elif not self.removal.key.startswith(CONTROLLERS_PREFIX):
                absent.append(name)
        if absent:
            before = history.untainted.get((absent[0], self.removal.key))
            why = f"removed already by {before.where}" if before else "never added before"
            yield "", f"taint {self.removal} is not on {listed(absent)}: {why}"

    def happen(self, cluster: SimulatedCluster) -> None:
        for name in cluster.existing(self):
            old = cluster.state.nodes[name].taints
            new = without_taint(old, self.removal.key, self.removal.effect)
            if new != old:
                _write(self, cluster, name, new)


def deleted_nodes(events: Iterable[ScenarioEvent]) -> set[str]:
    """The names of all nodes that somebody deletes."""
    deletes = (event for event in events if isinstance(event, DeleteNode))
    return {name for event in deletes for name in event.nodes}


def changes_lifecycle_taints(event: ScenarioEvent) -> bool:
    """Whether people put on nodes, or take off, a taint by which node lifecycle evicts."""
    return isinstance(event, AddTaint | RemoveTaint) and event.seen_by_monitor


def taints_or_cordons_unseen(event: ScenarioEvent) -> bool:
    """Whether people taint or cordon nodes in a way that no tick of the node monitor sees."""
    return isinstance(event, AddTaint | RemoveTaint | Cordon) and not event.seen_by_monitor


def _commute(event: ScenarioEvent, other: ScenarioEvent) -> bool:
    """Tell whether two changes concern taints that do not meet: of other keys, or of other effects."""
    one, two = _changed(event), _changed(other)
    if one is None or two is None:
        return False
    return one.key != two.key or ("" not in (one.effect, two.effect) and one.effect != two.effect)


def _changed(event: ScenarioEvent) -> Taint | TaintRemoval | None:
    if isinstance(event, AddTaint):
        return event.taint
    return event.removal if isinstance(event, RemoveTaint) else None


def _write(
    event: ScenarioEvent, cluster: SimulatedCluster, name: str, taints: tuple[Taint, ...]
) -> None:
    cause = cluster.note(event, node=name)
    cluster.state.patch_node_taints(name, taints, by=SCENARIO, because=cause, rule="kubectl taint")
