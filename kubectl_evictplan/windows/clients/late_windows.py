"""Windows of what follows ticks where these are late, and rows of pods that may be deleted sooner, or at all, because of that: bounds.

Whatever makes ticks late says how late each node is; ``put_off`` moves all ends by that. What only comes about because ticks are late
is told by ``LateRows``.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

import msgspec

from kubectl_evictplan.cluster.timeline import NODE_LIFECYCLE, TAINT_EVICTION
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.taint_eviction import DecisionsByTaint, delete_is_refused
from kubectl_evictplan.kube.objects import Pod, Taint
from kubectl_evictplan.kube.taints import LIFECYCLE_NO_EXECUTE_KEYS
from kubectl_evictplan.scenarios.actions.pods import DeletePods
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.outcome import (
    READY,
    TAINT_REMOVED,
    EvictionKey,
    Exploration,
    NodeChangeKey,
    PossibleEviction,
    WindowOverRuns,
    follows_ticks,
)
from kubectl_evictplan.windows.spans import Span, later_spans
from kubectl_evictplan.windows.unknowns.requests import ClientLimits
from kubectl_evictplan.windows.unknowns.unknown import Unknown

if TYPE_CHECKING:
    from kubectl_evictplan.windows.clients.first_ticks import FirstTicks


class Late(msgspec.Struct, frozen=True):
    """How much later a node is given up, how much later it is tainted and its pods go, and how late its ticks end.

    ``together``: late ticks may find it with others.
    """

    given_up_ns: int
    tainted_ns: int
    tick_ns: int
    together: bool = False


_NOT_LATE = Late(0, 0, 0)


class _Ends:
    """When what a process does is over: when it ends, or at the horizon; and when somebody else deletes a pod."""

    def __init__(self, scenario: Scenario) -> None:
        self._stops = [event for event in scenario.events if event.manager_up is not None]
        self.horizon_ns = scenario.end_ns
        if self._stops and not self._stops[-1].manager_up:
            # Nobody comes after that process.
            self.horizon_ns = min(self.horizon_ns, self._stops[-1].latest_ns)
        deleting = [event for event in scenario.events if isinstance(event, DeletePods)]
        # To the last instant before it.
        self._deleted = {(key, event.latest_ns - 1) for event in deleting for key in event.pods}

    def of_pod(self, key: EvictionKey, row: PossibleEviction) -> int:
        """Until when it can be late: what ends with the pod's deletion by somebody else is not."""
        gone = (key.pod, row.latest_ns) in self._deleted
        return row.latest_ns if gone else self.horizon_ns

    def after(self, at_ns: int) -> int:
        """The first one that may come after that."""
        stops = (event.at_ns for event in self._stops if event.latest_ns > at_ns)
        return min((*stops, self.horizon_ns))


class _Later(msgspec.Struct):
    """Makes rows late by an unknown; those of the ``certain`` nodes are as certain, if they come before it is over."""

    ends: _Ends
    certain: Set[str]
    unknown: str

    def row(self, row: PossibleEviction, late_ns: int, until_ns: int) -> PossibleEviction:
        """The row so much later, but not after that instant."""
        spans = later_spans(row.spans, late_ns, until_ns)
        sure = row.node in self.certain and row.latest_ns + late_ns <= self.ends.after(
            row.latest_ns
        )
        return row.later(spans, late_ns, self.unknown, sure=sure)


def put_off(
    result: Exploration,
    late: Mapping[str, Late],
    scenario: Scenario,
    certain: Set[str],
    first_ticks: FirstTicks | None = None,
    at_start_ns: int = 0,
    since_ns: int | None = None,
    in_time: Set[tuple[NodeChangeKey, int]] = frozenset(),
    by: type[Unknown[Span]] = ClientLimits,
) -> None:
    """Make it all as late, and be certain only of what follows silence alone and comes before it is over.

    ``first_ticks``: what first ticks of new processes make late. ``at_start_ns``: how late the tick is that is under way at the start.
    ``since_ns``: nothing is late that comes before; ``in_time``: changes of nodes that are not late either. ``by``: the unknown that makes it late.
    """
    ends = _Ends(scenario)
    ticks_late_ns = max((at_start_ns, *(one.tick_ns for one in late.values())))
    if first_ticks is not None:
        ticks_late_ns = max(ticks_late_ns, first_ticks.late_ns)
    # Two writes of one node may make later what waits for a client.
    result.ticks_late_ns += ticks_late_ns
    result.late_ns += ticks_late_ns
    changes = result.nodes.windows.items()
    lows = [window.earliest_ns for (key, _), window in changes if key.node in late]
    if first_ticks is not None and first_ticks.late_ns:
        lows.append(first_ticks.since_ns)
    if since_ns is None:
        since_ns = 0 if at_start_ns else min(lows, default=0)
    # Whether a removal is sure depends on how late everything else is.
    for nth, window in sorted(changes, key=lambda one: one[0][0].what == TAINT_REMOVED):
        change, _ = nth
        if not follows_ticks(change) or window.latest_ns < since_ns or nth in in_time:
            continue
        # A tick takes taints off whoever has them once all zones are down.
        late_ns = ticks_late_ns
        if change.what != TAINT_REMOVED:
            of_node = late.get(change.node, _NOT_LATE)
            late_ns = of_node.given_up_ns if change.what == READY else of_node.tainted_ns
        sure = change.node in certain
        if not sure and first_ticks is not None and change.what == TAINT_REMOVED:
            sure = first_ticks.surely_removes(change.node, window, late_ns)
        _put_off(window, late_ns, ends, sure=sure)
    for window in result.zones.windows.values():
        if window.latest_ns >= since_ns:
            _put_off(window, ticks_late_ns, ends, sure=True)
    later = _Later(ends, certain, by.name)
    _put_off_rows(result, late, since_ns, later)


def _put_off_rows(
    result: Exploration,
    late: Mapping[str, Late],
    since_ns: int,
    later: _Later,
) -> None:
    first: dict[tuple[int, int], PossibleEviction] = {}
    for key, row in result.evictions.items():
        late_ns = late[row.node].tainted_ns if row.node in late else 0
        if not (late_ns and row.latest_ns >= since_ns and follows_lifecycle(key, row)):
            continue
        if row.until_queued is None:
            result.evictions[key] = later.row(row, late_ns, later.ends.of_pod(key, row))
            continue
        # Nodes that only fall silent share all else.
        windows = id(row.spans), late_ns
        if (new := first.get(windows)) is None:
            new = first[windows] = later.row(row, late_ns, later.ends.horizon_ns)
        result.evictions[key] = new.on_node(row.node, row.until_queued)


def _put_off(window: WindowOverRuns, late_ns: int, ends: _Ends, *, sure: bool) -> None:
    if late_ns:
        latest_ns = window.latest_ns + late_ns
        window.unsure |= not sure or latest_ns > ends.after(window.latest_ns)
        window.latest_ns = max(window.latest_ns, min(latest_ns, ends.horizon_ns))


def follows_lifecycle(key: EvictionKey, row: PossibleEviction) -> bool:
    """Whether the deletion follows what node lifecycle does to the node."""
    if key.controller != TAINT_EVICTION:
        return key.controller == NODE_LIFECYCLE
    return row.taint is not None and row.taint.key in LIFECYCLE_NO_EXECUTE_KEYS


class LateRows:
    """The rows of one exploration, up to its horizon."""

    def __init__(
        self,
        result: Exploration,
        configuration: ControllerConfiguration,
        horizon_ns: int,
        missed: frozenset[str],
    ) -> None:
        """``missed``: the unknowns that make ticks late."""
        self._missed = missed
        self._evictions, self._horizon_ns = result.evictions, horizon_ns
        self._configuration = configuration
        self._decisions = DecisionsByTaint(configuration)
        self._sooner: dict[tuple[int, int], PossibleEviction] = {}
        self._kept: list[tuple[Span, ...]] = []

    def delay_ns(self, pod: Pod, taint: Taint) -> int | None:
        """How long after such a taint the pod is deleted; None: never."""
        if delete_is_refused(pod, self._configuration) is not None:
            return None
        return self._decisions.of(pod, taint).delay_ns

    def put(self, pod: Pod, taint: Taint, span: Span) -> None:
        """Let the pod be deleted within the span as well, for the taint; who is surely deleted may only be so sooner."""
        low_ns, high_ns = span[0], min(span[1], self._horizon_ns)
        if low_ns > high_ns:
            return
        key = _key(pod)
        row = self._evictions.get(key)
        if row is None:
            decision = self._decisions.of(pod, taint)
            new = PossibleEviction.unseen(
                pod.node_name, decision, ((low_ns, high_ns),), self._missed
            )
            self._evictions[key] = new.ending_from(low_ns)._replace(proven=True)
        elif not any(low <= low_ns and high_ns <= high for low, high in row.spans):
            self._evictions[key] = _also_within(row, low_ns, high_ns, self._missed)

    def put_sooner(self, pod: Pod, low_ns: int) -> None:
        """Let the pod, if it may be deleted at all, be so from then on."""
        key = _key(pod)
        row = self._evictions.get(key)
        if row is None or low_ns >= row.earliest_ns or low_ns > self._horizon_ns:
            return
        shared = id(row.spans), low_ns
        found = self._sooner.get(shared)
        if found is not None and row.until_queued is not None:
            # Nodes that only fall silent share all else.
            self._evictions[key] = found.on_node(row.node, row.until_queued)
            return
        spans = ((low_ns, row.spans[0][1]), *row.spans[1:]) if found is None else found.spans
        sooner = row.without(self._missed).gone_from(low_ns)._replace(spans=spans)
        # With the spans that it had, so that their id stays theirs.
        self._kept.append(row.spans)
        self._evictions[key] = self._sooner[shared] = sooner


def _key(pod: Pod) -> EvictionKey:
    return EvictionKey(pod.key, pod.uid, TAINT_EVICTION, 0)


def _also_within(
    row: PossibleEviction, low_ns: int, high_ns: int, missed: frozenset[str]
) -> PossibleEviction:
    """The same where that may come as well."""
    if row.certain:
        high_ns = min(high_ns, row.latest_ns)
        if low_ns > high_ns:
            return row
    gone_ns = row.gone_latest_ns if row.certain else None
    within = row.also_within([(low_ns, high_ns)], missed).gone_from(low_ns)
    return within._replace(certain=row.certain, gone_latest_ns=gone_ns)
