"""What node runs need not show where they do not stand for all that there are: then bounds say of whom they may show too little.

Where pieces are samples a tick may find a node silent that it finds in none of them. So of every node of which a tick may decide
something, whatever the runs show, all is bounded; and so are the states that its zone may get into.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.kube.topology import zone_display_name
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.outcome import Exploration
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.zone_rates import ZoneRates


def note_doubtful(
    result: Exploration, plan: Sequence[Piece], scenario: Scenario, rates: ZoneRates
) -> None:
    """Note which unknowns the pieces miss some of, of which nodes they may show too little, and that each of these may wait in its zones.

    ``rates`` are those of the scenario.
    """
    result.missed = frozenset[str]().union(*(piece.missed for piece in plan))
    result.unsure_at_start.update(map(zone_display_name, rates.before.zones))
    for name, zones in rates.zones_of.items():
        if rates.courses.of(name).may_be_decided_about(scenario.end_ns):
            result.doubtful.add(name)
            for zone in zones:
                result.waiting.setdefault(zone, set()).add(name)
                result.services.setdefault(zone, [])
    result.affected |= result.doubtful
