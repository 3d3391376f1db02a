"""The generated cluster without room to spare: pods of many kinds, nodes that offer little more than is taken."""

from __future__ import annotations

from collections import Counter
from random import Random
from zlib import crc32

from msgspec.structs import replace

from kubectl_evictplan.kube.needs import CPU, PODS, PodNeeds
from kubectl_evictplan.kube.objects import ClusterSnapshot

KINDS = 40
MEMORY = "memory"
MIB = 1 << 20
# So much a node has left at most: room for a few pods on some, for none on others.
CPU_LEFT_MAX = 3000
MEMORY_LEFT_MAX = 4096 * MIB


def tight(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the same cluster; what a pod asks for follows from its owner's name. Deterministic."""
    draw = Random(1)
    kinds = [
        PodNeeds(((CPU, draw.randint(300, 750)), (MEMORY, draw.randint(256, 2400) * MIB)))
        for _ in range(KINDS)
    ]
    taken: Counter[tuple[str, str]] = Counter()
    pods = []
    for pod in snapshot.pods:
        owner = pod.controller()
        needs = kinds[crc32((owner.name if owner else pod.name).encode()) % KINDS]
        pods.append(replace(pod, needs=needs))
        for resource, amount in needs.requests:
            taken[pod.node_name, resource] += amount
    nodes = [
        replace(
            node,
            allocatable={
                CPU: taken[node.name, CPU] + draw.randint(0, CPU_LEFT_MAX),
                MEMORY: taken[node.name, MEMORY] + draw.randint(0, MEMORY_LEFT_MAX),
                PODS: 110,
            },
        )
        for node in snapshot.nodes
    ]
    return replace(snapshot, nodes=tuple(nodes), pods=tuple(pods))
