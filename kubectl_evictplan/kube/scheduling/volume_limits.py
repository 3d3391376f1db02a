"""How many volumes of a driver nodes can still take, and which claims are in use by one pod alone.

Upstream: ``CSILimits.Filter`` (NodeVolumeLimits) and ``satisfyReadWriteOncePod`` (VolumeRestrictions) of 1.37. A node
whose CSINode says no limit for a driver has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubectl_evictplan.kube.infrastructure import Infrastructure
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet
from kubectl_evictplan.kube.scheduling.volumes import Reach, Volumes


class AttachedVolumes:
    """What is attached where; ``take`` attaches more."""

    def __init__(
        self,
        nodes: Sequence[Node],
        infrastructure: Infrastructure,
        volumes: Volumes,
        running: Iterable[Pod],
    ) -> None:
        """``running``: pods on these nodes."""
        self._count = len(nodes)
        self._place = {node.name: place for place, node in enumerate(nodes)}
        # By driver and place.
        self._limits: dict[str, dict[int, int]] = {}
        self._by_pods: dict[tuple[str, int], set[str]] = {}
        self._others: dict[tuple[str, int], set[str]] = {}
        self._exclusive: set[str] = set()
        for one in infrastructure.csi_nodes:
            place = self._place.get(one.name)
            for driver in one.drivers if place is not None else ():
                if driver.volumes_max is not None and place is not None:
                    self._limits.setdefault(driver.name, {})[place] = driver.volumes_max
        if infrastructure.pod_claims:
            for pod in running:
                self._exclusive.update(volumes.exclusive_of(pod))
                for volume in volumes.attached_by(pod) if self._limits else ():
                    place = self._place[pod.node_name]
                    self._by_pods.setdefault((volume.driver, place), set()).add(volume.name)
        drivers = {one.name: one.driver for one in infrastructure.persistent_volumes if one.driver}
        for attachment in infrastructure.volume_attachments if self._limits else ():
            place = self._place.get(attachment.node_name)
            name = attachment.volume_name
            if place is not None and name in drivers:
                self._others.setdefault((drivers[name], place), set()).add(name)

    def limited(self, reach: Reach) -> frozenset[str]:
        """The drivers of its volumes that any node limits."""
        return frozenset(one.driver for one in reach.attached if one.driver in self._limits)

    def passing(self, reach: Reach, *, hopeful: bool = False) -> NodeSet:
        """Nodes that pass NodeVolumeLimits.

        ``hopeful``: without volumes that no pod there uses any more, which older releases do not count.
        """
        by_driver: dict[str, set[str]] = {}
        for volume in reach.attached:
            by_driver.setdefault(volume.driver, set()).add(volume.name)
        full = 0
        for driver, names in by_driver.items():
            for place, limit in self._limits.get(driver, {}).items():
                attached = self._by_pods.get((driver, place), set())
                others = set() if hopeful else self._others.get((driver, place), set())
                new = len(names - attached)
                if new and len(attached | others) + new > limit:
                    full |= 1 << place
        return ~full & (1 << self._count) - 1

    def is_free(self, reach: Reach) -> bool:
        """Whether no claim that one pod uses alone is in use."""
        return self._exclusive.isdisjoint(reach.exclusive)

    def take(self, place: int, reach: Reach) -> None:
        """Attach the volumes of a pod that is placed."""
        self._exclusive.update(reach.exclusive)
        for volume in reach.attached:
            self._by_pods.setdefault((volume.driver, place), set()).add(volume.name)
