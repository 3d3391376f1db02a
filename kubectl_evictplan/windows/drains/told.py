"""What is counted from when kubectl begins with a node, told as offsets from the start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.delays import Range, plus
from kubectl_evictplan.windows.drains.instants import GAP_NS, NodeDrain, Within
from kubectl_evictplan.windows.drains.planned import DrainPlan
from kubectl_evictplan.windows.drains.rivals import RowBounds
from kubectl_evictplan.windows.drains.turn_bounds import PodFate
from kubectl_evictplan.windows.drains.waits import Wait, WaitKey
from kubectl_evictplan.windows.spans import disjoint_outcomes


class TurnBounds(NamedTuple):
    """One node. ``end`` None: kubectl is never through with it. ``whole``: nobody else waits.

    Without a latest instant: perhaps never.
    """

    start: Within
    end: Within | None
    reasons: frozenset[DrainEnd | None]
    waits: Mapping[WaitKey, Wait]
    whole: bool


def pods_asked_for(plan: DrainPlan) -> int:
    """How many pods kubectl may ask for, on all nodes together."""
    return sum(len(turn.everybody) for turn in plan.turns)


def later_begins(
    begins_ns: Mapping[NodeDrain, int], turns: Mapping[NodeDrain, TurnBounds]
) -> dict[NodeDrain, int]:
    """Before which offset kubectl does not come to each node: ``begins_ns``, or later if what is proven of it says so."""
    return {
        drain: max(at_ns, turns[drain].start.earliest_ns) if drain in turns else at_ns
        for drain, at_ns in begins_ns.items()
    }


def ends_ns(turns: Mapping[NodeDrain, TurnBounds]) -> dict[NodeDrain, int]:
    """By when kubectl is through with each node, where that is known."""
    ends = {drain: one.end for drain, one in turns.items()}
    return {
        drain: one.latest_ns
        for drain, one in ends.items()
        if one is not None and one.latest_ns is not None
    }


def refused_before(
    until_ns: int, plan: DrainPlan, turns: Mapping[NodeDrain, TurnBounds]
) -> Iterator[tuple[tuple[Drain, str], int]]:
    """Nodes that processes have surely refused before that offset, and by when."""
    for drain, turn in turns.items():
        by_ns = turn.end.latest_ns if turn.end is not None else None
        if turn.reasons == {DrainEnd.REFUSED} and by_ns is not None and by_ns < until_ns:
            yield (plan.drains[drain.process], drain.node), by_ns


def row_from(fate: PodFate, start: Range, ended_ns: int, *, exact: bool) -> RowBounds:
    """The eviction of a pod; ``ended_ns``: until then its kubelet surely lives."""
    spans = disjoint_outcomes([plus(start, span) for span in fate.spans], GAP_NS)
    gone = None
    if fate.gone is not None:
        latest_ns = spans[-1][1] + fate.gone[1]
        if latest_ns >= ended_ns:
            latest_ns = HORIZON_DEFAULT_MAX_NS
        gone = Within(spans[0][0] + fate.gone[0], latest_ns)
    return RowBounds(fate.pod.node_name, spans, fate.certain, gone, exact)


def wait_from(start: Range, wait: Wait) -> Wait:
    """The wait of a pod."""
    until = wait.until
    if until is not None:
        latest_ns = None if until.latest_ns is None else start[1] + until.latest_ns
        until = Within(start[0] + until.earliest_ns, latest_ns)
    by_ns = None if wait.by_ns is None else start[1] + wait.by_ns
    return wait._replace(from_ns=start[0] + wait.from_ns, until=until, by_ns=by_ns)


def possible(waits: Iterable[tuple[WaitKey, Wait]]) -> dict[WaitKey, Wait]:
    """The same, of which nothing is certain."""
    return {key: wait._replace(certain=False) for key, wait in waits}


def codes_after(
    codes: frozenset[int | None], reasons: frozenset[DrainEnd | None]
) -> frozenset[int | None]:
    """The exit codes after one more node."""
    found = {code for code in codes if DrainEnd.DRAINED in reasons or code is None}
    if reasons - {DrainEnd.DRAINED, None}:
        found.add(1)
    return frozenset(found | {None} if None in reasons else found)
