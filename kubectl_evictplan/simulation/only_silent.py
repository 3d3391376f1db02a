"""Which nodes only fall silent, as far as a snapshot and a scenario tell, and whose pods follow them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.followers import may_follow
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.scenarios.scenario import Scenario

_NOBODY: Mapping[str, Sequence[Pod]] = MappingProxyType({})


def followers_by_node(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> Mapping[str, Sequence[Pod]]:
    """All pods of each node whose kubelet stops, and to which and to whose pods nothing else happens.

    The monitor may still do more to it than taint it once: then ``simulate`` finds out.
    """
    if not configuration.taint_mode:
        return _NOBODY
    silent: set[str] = set()
    busy: set[str] = set()
    for event in scenario.events:
        if event.manager_up is not None:
            return _NOBODY
        (silent if event.kubelets_up is False else busy).update(event.touched_nodes)
    silent -= busy
    names = {node.name for node in snapshot.nodes if node.name in silent and _is_untainted(node)}
    if not names:
        return _NOBODY
    named = {key for event in scenario.events for key in event.pods}
    named.update(event.pod.key for event in scenario.events if event.pod is not None)
    found: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        name = pod.node_name
        if name in names:
            if may_follow(pod) and not (named and pod.key in named):
                found.setdefault(name, []).append(pod)
            else:
                names.discard(name)
    return {name: pods for name, pods in found.items() if name in names}


def _is_untainted(node: Node) -> bool:
    return not any(t.effect == NO_EXECUTE or t.key == OUT_OF_SERVICE for t in node.taints)
