"""The controllers' own clients let requests wait: how much later than without their limits pods are deleted, at most.

Runs and proofs know nothing of it. A request that waits makes a deletion later, never sooner, and deletions influence neither
health nor taints. So every window of a deletion keeps its beginning, and ends as much later as the client can make it.
What may keep the later one from being made, and what comes of it, says ``throttled_ends``.
"""

from __future__ import annotations

from math import ceil

from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, POD_GC, TAINT_EVICTION
from kubectl_evictplan.controllers.client_limits import client_limit
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.client_arrivals import DeletionArrivals
from kubectl_evictplan.windows.client_buckets import Waits
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction
from kubectl_evictplan.windows.spans import Span, merge_spans
from kubectl_evictplan.windows.throttled_ends import ThrottledEnds
from kubectl_evictplan.windows.unknowns.client_limits import ClientLimits

_MILLISECONDS = SECOND_NS // MILLISECOND_NS


def span_client_limits(
    result: Exploration,
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
) -> None:
    """Let windows of deletions reach as far as the clients of those who delete can make them late."""
    limit = client_limit(configuration)
    if limit is None:
        return
    arrivals = DeletionArrivals(result, snapshot, scenario, configuration, limit)
    ends = ThrottledEnds(result, snapshot, scenario, configuration)
    late = dict[EvictionKey, int]()
    for controller in (TAINT_EVICTION, NODE_LIFECYCLE, POD_GC):
        rows = [row for row in result.evictions.items() if row[0].controller == controller]
        waits = arrivals.waits(controller, rows)
        if not waits:
            continue
        later = _LaterRows(waits, scenario.end_ns)
        for key, row in rows:
            if late_ns := later.late_ns(row):
                late[key] = late_ns
                result.evictions[key] = later.of(row, sure=ends.is_sure(key, row, late_ns))
    if late:
        result.late_ns = max(late.values())
        ends.follow(late)


class _LaterRows:
    """Rows of one controller, as late as its client can make them; those of equal windows share what they have in common."""

    def __init__(self, waits: Waits, horizon_ns: int) -> None:
        self._waits, self._horizon_ns = waits, horizon_ns
        # By the identity of windows, which rows keep alive.
        self._shared: dict[int, tuple[tuple[Span, ...], int]] = {}
        self._missed: dict[frozenset[str], frozenset[str]] = {}

    def late_ns(self, row: PossibleEviction) -> int:
        """How much later it may happen."""
        return self._of(row)[1]

    def of(self, row: PossibleEviction, *, sure: bool) -> PossibleEviction:
        """The row with its windows; ``sure``: it is as certain as before."""
        spans, late_ns = self._of(row)
        if (missed := self._missed.get(row.missed)) is None:
            missed = self._missed[row.missed] = row.missed | {ClientLimits.name}
        gone_ns = row.gone_latest_ns
        found = (
            spans,
            row.certain and sure and row.latest_ns + late_ns <= self._horizon_ns,
            *row[2:10],
            None if gone_ns is None else gone_ns + late_ns,
            row.circumstances if len(spans) == len(row.spans) else (),
            missed,
            row.proven or not row.missed,
        )
        return tuple.__new__(PossibleEviction, found)

    def _of(self, row: PossibleEviction) -> tuple[tuple[Span, ...], int]:
        found = self._shared.get(id(row.spans))
        if found is None:
            found = self._shared[id(row.spans)] = self._later(row.spans)
        return found

    def _later(self, spans: tuple[Span, ...]) -> tuple[tuple[Span, ...], int]:
        ends = spans[0][0] / SECOND_NS, spans[-1][1] / SECOND_NS
        # Whole milliseconds: what is the same at another time is told the same.
        late_ns = ceil(round(self._waits.longest(*ends) * _MILLISECONDS, 4)) * MILLISECOND_NS
        if not late_ns:
            return spans, 0
        later = (
            (low_ns, max(high_ns, min(high_ns + late_ns, self._horizon_ns)))
            for low_ns, high_ns in spans
        )
        return tuple(merge_spans(later, 0)), late_ns
