"""Services whose clients are not sent to every endpoint, and nodes where these have nobody although others answer.

Upstream: ``CategorizeEndpoints`` of pkg/proxy (1.37). A node sends internal traffic (internalTrafficPolicy Local), or what comes in
from outside (externalTrafficPolicy Local), to its own endpoints only. Availability is told of the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_evictplan.impact.fates import Fate, is_counted
from kubectl_evictplan.impact.finding_items import Facts, Item
from kubectl_evictplan.impact.finding_words import told_since
from kubectl_evictplan.impact.stretches import FOREVER_NS, Between, last_of
from kubectl_evictplan.impact.telling import instant
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.infrastructure import Service
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.impact_document import Impact
from kubectl_evictplan.prediction.records import CERTAIN, POSSIBLE
from kubectl_evictplan.scenarios.names import listed

_LOCAL = "Local"


def local_endpoints_gone(facts: Facts) -> Iterator[Item]:
    """Nodes that stay while the last endpoint of a Service with a policy Local leaves them."""
    world = facts.world
    for service in world.snapshot.infrastructure.services:
        policies = _policies(service)
        if not policies or not service.selector:
            continue
        for node, since in _nodes_left(world, service):
            whose = " and ".join(policies)
            name = f"{service.namespace}/{service.name}"
            text = f"on node {node} service {name} has no ready endpoint for {whose}, from {told_since(instant(since))} on"
            certainty = POSSIBLE if since.latest_ns >= FOREVER_NS else CERTAIN
            yield Item(f"Service/{name}", text, certainty)


def _policies(service: Service) -> list[str]:
    """Whose traffic stays on its node, in words."""
    found = []
    if service.internal_traffic_policy == _LOCAL:
        found.append("clients there")
    if service.external_traffic_policy == _LOCAL:
        found.append("clients that come in there from outside")
    return found


def _nodes_left(world: World, service: Service) -> Iterator[tuple[str, Between]]:
    selector = (service.selector or {}).items()
    there: dict[str, int] = {}
    leaving: dict[str, list[Fate]] = {}
    for (namespace, _), labelled in world.by_labels.items():
        if namespace != service.namespace or not selector <= labelled.pods[0].labels.items():
            continue
        for pod in filter(is_counted, labelled.pods):
            there[pod.node_name] = there.get(pod.node_name, 0) + 1
        for fate in labelled.fates:
            if fate.counted and fate.deletion is not None:
                leaving.setdefault(fate.pod.node_name, []).append(fate)
    for node, fates in sorted(leaving.items()):
        life = fates[0].life
        # Who loses its node has no clients there either.
        if len(fates) == there[node] and not life.silences and life.deleted.never:
            yield node, last_of(*(fate.leaves for fate in fates))


def not_judged(snapshot: ClusterSnapshot, impact: Impact) -> Iterator[str]:
    """What is not evaluated of who asks from where."""
    touched = {(one.namespace, one.service) for one in impact.services}
    services = [
        one for one in snapshot.infrastructure.services if (one.namespace, one.name) in touched
    ]
    local = [f"{one.namespace}/{one.name}" for one in services if _policies(one)]
    if local:
        yield (
            f"services: clients of {listed(local)} are sent to endpoints of one node only (traffic policy Local): how many of them have "
            "nobody while others answer, and when a load balancer leaves a node out, is not known"
        )
    hinted = {
        (one.namespace, one.service)
        for one in snapshot.infrastructure.endpoint_slices
        if one.hinted
    }
    near = [
        f"{one.namespace}/{one.name}"
        for one in services
        if one.traffic_distribution or (one.namespace, one.name) in hinted
    ]
    if near:
        yield (
            f"services: clients of {listed(near)} are sent to endpoints near them first (trafficDistribution, topology hints): which share "
            "of them meets a dead endpoint is not known"
        )
