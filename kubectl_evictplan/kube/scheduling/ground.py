"""What a check of where replacements can run knows before it places anything."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.scheduling.answers import Surroundings
from kubectl_evictplan.kube.scheduling.capacity import Capacity
from kubectl_evictplan.kube.scheduling.inter_pod import InterPodAffinity
from kubectl_evictplan.kube.scheduling.node_filters import NodeFilters
from kubectl_evictplan.kube.scheduling.peers import PodIndex
from kubectl_evictplan.kube.scheduling.spread import Spread
from kubectl_evictplan.kube.scheduling.topologies import Topologies
from kubectl_evictplan.kube.scheduling.volume_limits import AttachedVolumes


class Ground(msgspec.Struct, frozen=True):
    """``running``: place of the node, needs, how many such pods. ``names``: of nodes by their places, those elsewhere last."""

    around: Surroundings
    nodes: Sequence[Node]
    names: Sequence[str]
    filters: NodeFilters
    capacity: Capacity
    running: Sequence[tuple[int, PodNeeds | None, int]]
    topologies: Topologies
    pods: PodIndex
    spread: Spread
    inter_pod: InterPodAffinity
    asks_for_peers: bool
    attached: AttachedVolumes
