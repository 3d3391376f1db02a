"""How many volumes of a driver nodes can still take, and which claims are in use by one pod alone.

Upstream: ``CSILimits.Filter`` (NodeVolumeLimits) and ``satisfyReadWriteOncePod`` (VolumeRestrictions) of 1.37. A node
whose CSINode says no limit for a driver has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kubectl_evictplan.kube.infrastructure import Infrastructure
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.kube.scheduling.node_sets import NodeSet
from kubectl_evictplan.kube.scheduling.volumes import DriverVolume, Reach, Volumes


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
        # The nodes on which a volume of a driver is attached, by both their names.
        self._places: dict[tuple[str, str], set[int]] = {}
        # By driver, number of new volumes, and whether hopeful.
        self._full: dict[tuple[str, int, bool], NodeSet] = {}
        self._exclusive: set[str] = set()
        for one in infrastructure.csi_nodes:
            place = self._place.get(one.name)
            for driver in one.drivers if place is not None else ():
                if driver.volumes_max is not None and place is not None:
                    self._limits.setdefault(driver.name, {})[place] = driver.volumes_max
        if infrastructure.pod_claims and (self._limits or volumes.any_exclusive):
            for pod in running:
                self._exclusive.update(volumes.exclusive_of(pod))
                for volume in volumes.attached_by(pod) if self._limits else ():
                    self._attach(volume, self._place[pod.node_name])
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
            if volume.driver in self._limits:
                by_driver.setdefault(volume.driver, set()).add(volume.name)
        full = 0
        for driver, names in by_driver.items():
            full |= self._full_of_new(driver, len(names), hopeful=hopeful)
            # Where some are attached already these are not new.
            for place in {at for name in names for at in self._places.get((driver, name), ())}:
                if place in self._limits[driver]:
                    new = len(names - self._by_pods[driver, place])
                    if self._refuses(driver, place, new, hopeful=hopeful):
                        full |= 1 << place
                    else:
                        full &= ~(1 << place)
        return ~full & (1 << self._count) - 1

    def _full_of_new(self, driver: str, new: int, *, hopeful: bool) -> NodeSet:
        """Nodes that refuse so many volumes that nobody uses there."""
        key = driver, new, hopeful
        full = self._full.get(key)
        if full is None:
            full = 0
            for place in self._limits[driver]:
                if self._refuses(driver, place, new, hopeful=hopeful):
                    full |= 1 << place
            self._full[key] = full
        return full

    def _refuses(self, driver: str, place: int, new: int, *, hopeful: bool) -> bool:
        attached: Collection[str] = self._by_pods.get((driver, place), ())
        others = () if hopeful else self._others.get((driver, place), ())
        there = len({*attached, *others}) if others else len(attached)
        return new > 0 and there + new > self._limits[driver][place]

    def _attach(self, volume: DriverVolume, place: int) -> None:
        self._by_pods.setdefault((volume.driver, place), set()).add(volume.name)
        self._places.setdefault((volume.driver, volume.name), set()).add(place)

    def is_free(self, reach: Reach) -> bool:
        """Whether no claim that one pod uses alone is in use."""
        return self._exclusive.isdisjoint(reach.exclusive)

    def take(self, place: int, reach: Reach) -> None:
        """Attach the volumes of a pod that is placed."""
        self._exclusive.update(reach.exclusive)
        for volume in reach.attached:
            self._attach(volume, place)
        for driver, new, hopeful in self._full:
            if place in self._limits[driver] and self._refuses(driver, place, new, hopeful=hopeful):
                self._full[driver, new, hopeful] |= 1 << place
