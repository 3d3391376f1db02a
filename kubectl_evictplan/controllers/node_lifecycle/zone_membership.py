"""Which node is in which zone, and what each counted node contributes to its zone.

Upstream rebuilds ``zoneToNodeConditions`` from all nodes on every tick; here it is kept up to date by the
nodes that a tick looks at, since a node that nobody has to look at contributes what it did before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType

import msgspec

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.kube.objects import Node, NodeCondition
from kubectl_evictplan.kube.topology import EXCLUDE_DISRUPTION, get_zone_key, is_master_by_name


class ZoneCount(msgspec.Struct, frozen=True):
    """Counted nodes of one zone in one tick."""

    ready: int
    not_ready: int

    @property
    def size(self) -> int:
        """Number of counted nodes: what the large-cluster threshold is compared with."""
        return self.ready + self.not_ready


class ZoneMembership:
    """Zones of nodes, and counted ready and not ready nodes per zone.

    ``bystanders``: ready nodes of each zone that only count: nothing ever happens to them, and nobody asks for them.
    ``stand_ins``: nodes that count for several, see ``ClusterSnapshot.stand_ins``.
    """

    def __init__(
        self,
        configuration: ControllerConfiguration,
        bystanders: Mapping[str, int] = MappingProxyType({}),
        stand_ins: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._configuration = configuration
        self._stand_ins = stand_ins
        self._zone_of_node: dict[str, str] = {}
        self._members = Counter(bystanders)
        # What each counted node contributed to its zone in its last evaluation: (zone, ready?).
        self._counted: dict[str, tuple[str, bool]] = {}
        self._counts = {zone: [number, 0] for zone, number in bystanders.items()}

    def zone_of(self, name: str) -> str:
        """Zone key of a node (the last known one of a deleted node)."""
        return self._zone_of_node.get(name, "")

    def zone_key(self, node: Node) -> str:
        """Zone key that the node's labels ask for."""
        ga_labels = self._configuration.profile.ga_zone_labels
        return get_zone_key(node.labels, ga_labels=ga_labels)

    def enter(self, node: Node) -> None:
        """The node exists from now on, in the zone of its labels."""
        zone = self._zone_of_node[node.name] = self.zone_key(node)
        self._members[zone] += self._stand_ins.get(node.name, 1)

    def leave(self, name: str) -> None:
        """The node is deleted or changes its zone."""
        self._members[self.zone_of(name)] -= self._stand_ins.get(name, 1)

    def populated(self) -> list[str]:
        """Zones in which nodes exist, sorted."""
        return sorted(zone for zone, number in self._members.items() if number > 0)

    def are_apart(self, names: Collection[str]) -> bool:
        """Whether each of these nodes is in another zone."""
        zones = {self.zone_of(name) for name in names}
        return len(zones) == sum(self._stand_ins.get(name, 1) for name in names)

    def is_excluded(self, node: Node) -> bool:
        """Whether the node counts in no zone; it is health-checked and tainted all the same."""
        by_name = self._configuration.exclusion_by_name and is_master_by_name(node.name)
        return by_name or (
            self._configuration.exclusion_by_label and EXCLUDE_DISRUPTION in node.labels
        )

    def count(self, node: Node, current: NodeCondition | None) -> None:
        """Note the node's Ready condition after this tick; None counts as not ready."""
        if self.is_excluded(node):
            self.uncount(node.name)
            return
        zone = self.zone_of(node.name)
        ready = current is not None and current.status == TRUE
        if self._counted.get(node.name) == (zone, ready):
            return
        self.uncount(node.name)
        self._counted[node.name] = (zone, ready)
        number = self._stand_ins.get(node.name, 1)
        self._counts.setdefault(zone, [0, 0])[0 if ready else 1] += number

    def uncount(self, name: str) -> None:
        """The node contributes to no zone any more."""
        contribution = self._counted.pop(name, None)
        if contribution is not None:
            zone, ready = contribution
            pair = self._counts[zone]
            pair[0 if ready else 1] -= self._stand_ins.get(name, 1)
            if pair == [0, 0]:
                del self._counts[zone]

    def counts(self) -> dict[str, ZoneCount]:
        """``zoneToNodeConditions``, counted."""
        return {zone: ZoneCount(*pair) for zone, pair in self._counts.items()}
