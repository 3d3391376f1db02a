"""How late the controllers' own clients make the pods of one node, where its rows are told from another node's.

What a client lets wait depends on how many pods there are, which no two nodes need have in common. So the others are predicted
without limits, and these are put over the rows at last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec.structs import replace

from kubectl_evictplan.controllers.client_limits import never_waits
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Taint
from kubectl_evictplan.prediction.document import (
    CERTAIN,
    POSSIBLE,
    Eviction,
    NodeChange,
    NodeReport,
)
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.late_requests import let_clients_wait
from kubectl_evictplan.windows.outcome import (
    EvictionKey,
    Exploration,
    NodeChangeKey,
    PossibleEviction,
    WindowOverRuns,
)


def throttled(
    rows: Iterable[tuple[Eviction, int | None]],
    reports: Sequence[NodeReport],
    silent: str,
    waiting: Mapping[str, Set[str]],
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
) -> tuple[list[Eviction], tuple[NodeReport, ...]]:
    """The same rows, and what happens to nodes, as late as clients can make them.

    With each row comes how long after the taint of its node it is, where it follows that. ``silent``: the node to which nothing
    happens but silence; ``waiting``: nodes that wait for their taint, by zone. ``snapshot`` has all pods, and says for how many each
    row stands.
    """
    given = list(rows)
    every = [row for row, _ in given]
    if never_waits(snapshot, len(reports), configuration):
        return every, tuple(reports)
    result = Exploration()
    keys = [EvictionKey(row.key, row.uid, row.controller, place) for place, row in enumerate(every)]
    result.evictions = dict(zip(keys, [_possible(*row) for row in given], strict=True))
    result.waiting = {zone: set(names) for zone, names in waiting.items()}
    result.only_silent = {silent}
    changes = list(_changes(reports))
    for nth, change in changes:
        ends = _ns(change.earliest_seconds), _ns(change.latest_seconds)
        result.nodes.add(nth, *ends, certain=change.certainty == CERTAIN, runs=1)
    let_clients_wait(result, Given(snapshot, scenario, configuration), conflicts=False)
    found = (result.evictions[key] for key in keys)
    late = [_told(row, one) for row, one in zip(every, found, strict=True)]
    if not result.ticks_late_ns:
        return late, tuple(reports)
    windows = iter([result.nodes.windows[nth] for nth, _ in changes])
    return late, tuple([_told_late(report, windows) for report in reports])


def _changes(
    reports: Iterable[NodeReport],
) -> Iterator[tuple[tuple[NodeChangeKey, int], NodeChange]]:
    """What happens to nodes, as exploration has it."""
    for report in reports:
        for place, change in enumerate(report.changes):
            yield (NodeChangeKey(report.node, change.what, change.value), place), change


def _told_late(report: NodeReport, windows: Iterator[WindowOverRuns]) -> NodeReport:
    changes = [
        replace(
            change,
            latest_seconds=window.latest_ns / SECOND_NS,
            certainty=POSSIBLE if window.unsure else CERTAIN,
        )
        for change, window in zip(report.changes, windows, strict=False)
    ]
    return replace(report, changes=tuple(changes))


def _possible(row: Eviction, delay_ns: int | None) -> PossibleEviction:
    gone = row.gone.latest_seconds
    return PossibleEviction(
        spans=((_ns(row.earliest_seconds), _ns(row.latest_seconds)),),
        certain=row.certainty == CERTAIN,
        node=row.node,
        taint=None if row.taint is None else Taint(row.taint.key, row.taint.effect),
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
