"""What the events of a file make of the cluster, as far as a file can know, and which of them tie.

What controllers themselves do meanwhile is not known here, so anything they may cause (their own
taints, evicted pods) is never called a contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.objects import Warning as FileWarning
from kubectl_evictplan.scenarios.scenario import ScenarioEvent


class History:
    """Nodes, pods, kubelets and the controllers' process after the events so far."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.warnings: list[FileWarning] = []
        self.nodes: dict[str, Node] = {}
        self.nodes_ever: dict[str, Node] = {}
        # Key and effect of every taint of each node that exists.
        self.taints: dict[str, set[tuple[str, str]]] = {}
        # Pods that ever existed: what evicts them is not known here.
        self.pods: dict[str, Pod] = {pod.key: pod for pod in snapshot.pods}
        # The event that removed a taint last, by node and key.
        self.untainted: dict[tuple[str, str], ScenarioEvent] = {}
        # The event that stopped or started each kubelet last.
        self.kubelets: dict[str, ScenarioEvent] = {}
        self.manager: ScenarioEvent | None = None
        for node in snapshot.nodes:
            self.add_node(node)

    def add_node(self, node: Node) -> None:
        """Enter a node that exists from now on."""
        self.nodes[node.name] = self.nodes_ever[node.name] = node
        self.taints[node.name] = {(taint.key, taint.effect) for taint in node.taints}

    def remove_node(self, name: str) -> None:
        """Forget a node and what was done to its kubelet."""
        del self.nodes[name], self.taints[name]
        self.kubelets.pop(name, None)

    def is_silent(self, name: str) -> bool:
        """Tell whether an event stopped the node's kubelet and none started it again."""
        event = self.kubelets.get(name)
        return event is not None and event.kubelets_up is False


def ties(events: Sequence[ScenarioEvent]) -> list[str]:
    """Return where events stand that touch one object at one instant, so that their order matters."""
    origins: dict[str, None] = {}
    at_ns = -1
    latest: dict[str, ScenarioEvent] = {}
    for event in events:
        if event.at_ns != at_ns:
            at_ns, latest = event.at_ns, {}
        objects = [f"node/{name}" for name in event.touched_nodes]
        objects += [f"pod/{key}" for key in event.pods]
        for touched in objects if event.manager_up is None else ["kube-controller-manager"]:
            before = latest.get(touched)
            if before is not None and not before.commutes_with(event):
                origins.update({before.origin: None, event.origin: None})
            latest[touched] = event
    return [origin for origin in origins if origin]
