"""In which order the node lifecycle controller walks its zones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
from kubectl_evictplan.scenarios.actions.nodes import DeleteNode
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.unknowns.unknown import Unknown


class ZoneWalk(Unknown[Piece]):
    """Upstream walks a hash map, and stops at the first zone that is not full; first and last decide."""

    name = "order of zones"
    what = "in which order the controller looks at zones that lose their last node"

    def __init__(self, snapshot: ClusterSnapshot, configuration: ControllerConfiguration) -> None:
        self._snapshot = snapshot
        self._membership = ZoneMembership(configuration)

    @cached_property
    def _places(self) -> list[tuple[str, str, bool]]:
        """Of every node of the snapshot its name, its zone, and whether it counts there."""
        return list(map(self._place, self._snapshot.nodes))

    def _place(self, node: Node) -> tuple[str, str, bool]:
        counts = not self._membership.is_excluded(node)
        return node.name, self._membership.zone_key(node), counts

    def fewest(self, part: Piece) -> int:
        """Forwards and backwards."""
        return 2 if self._zones_may_vanish(part.scenario) else 1

    def settle(self, part: Piece, most: int) -> Iterator[Piece]:
        """Forwards, and backwards where it can matter."""
        yield part
        if self._zones_may_vanish(part.scenario):
            yield part._replace(zones_backwards=True)

    def _zones_may_vanish(self, scenario: Scenario) -> bool:
        """Whether some zone may be left without a node that counts, next to another one."""
        created = [event.node for event in scenario.events if event.node is not None]
        places = [*self._places, *map(self._place, created)]
        zones = {zone for _, zone, _ in places}
        deleted = {
            name
            for event in scenario.events
            if isinstance(event, DeleteNode)
            for name in event.nodes
        }
        counted = {zone for name, zone, counts in places if counts and name not in deleted}
        # Where a bystander is, a zone cannot vanish.
        elsewhere = set(self._snapshot.bystanders)
        return len(zones | elsewhere) > 1 and zones | elsewhere != counted | elsewhere
