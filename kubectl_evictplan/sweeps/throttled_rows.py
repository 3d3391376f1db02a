"""How late the controllers' own clients make the pods of one node, where its rows are told from another node's.

What a client lets wait depends on how many pods there are, which no two nodes need have in common. So the others are predicted
without limits, and these are put over the rows at last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from msgspec.structs import replace

from kubectl_evictplan.controllers.client_limits import REQUESTS_MAX, client_limit
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Eviction, NodeReport
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.outcome import (
    READY,
    EvictionKey,
    Exploration,
    NodeChangeKey,
    PossibleEviction,
)


def throttled(
    rows: Iterable[tuple[Eviction, int | None]],
    reports: Iterable[NodeReport],
    waiting: Mapping[str, Set[str]],
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
) -> list[Eviction]:
    """The same rows, as late as clients can make them.

    With each comes how long after the taint of its node it is, where it follows that. ``waiting``: nodes that wait for it, by zone.
    ``snapshot`` has all pods, and says for how many each row stands.
    """
    given = list(rows)
    every = [row for row, _ in given]
    limit, pods = client_limit(configuration), len(snapshot.pods) + sum(snapshot.stand_ins.values())
    if limit is None or REQUESTS_MAX * pods <= limit.burst:
        return every
    from kubectl_evictplan.windows import throttled_evictions  # rarely needed
    from kubectl_evictplan.windows.client_arrivals import waits_of_deletions

    result = Exploration()
    keys = [EvictionKey(row.key, row.uid, row.controller, place) for place, row in enumerate(every)]
    result.evictions = dict(zip(keys, [_possible(*row) for row in given], strict=True))
    result.waiting = {zone: set(names) for zone, names in waiting.items()}
    for report in reports:
        for place, change in enumerate(report.changes):
            if change.what == READY:
                nth = NodeChangeKey(report.node, READY, change.value), place
                ends = _ns(change.earliest_seconds), _ns(change.latest_seconds)
                result.nodes.add(nth, *ends, certain=True, runs=1)
    of_world = snapshot, scenario, configuration
    waits = waits_of_deletions(result, *of_world)
    throttled_evictions.span_client_limits(waits, result, *of_world)
    found = (result.evictions[key] for key in keys)
    return [_told(row, one) for row, one in zip(every, found, strict=True)]


def _possible(row: Eviction, delay_ns: int | None) -> PossibleEviction:
    gone = row.gone.latest_seconds
    return PossibleEviction(
        spans=((_ns(row.earliest_seconds), _ns(row.latest_seconds)),),
        certain=row.certainty == CERTAIN,
        node=row.node,
        taint=None,
        toleration_index=None,
        toleration_seconds=None,
        delay_ns=delay_ns,
        gone_latest_ns=None if gone is None else _ns(gone),
    )


def _told(row: Eviction, found: PossibleEviction) -> Eviction:
    if not found.missed:
        return row
    gone_ns = found.gone_latest_ns
    return replace(
        row,
        latest_seconds=found.latest_ns / SECOND_NS,
        certainty=CERTAIN if found.certain else POSSIBLE,
        gone=replace(row.gone, latest_seconds=None if gone_ns is None else gone_ns / SECOND_NS),
    )


def _ns(seconds: float) -> int:
    return round(seconds * SECOND_NS)
