"""Successors that are deleted once more: on the node that they return to, and by a drain that comes later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import CREATION_MAX_NS
from kubectl_evictplan.impact.node_lives import NodeLife, between
from kubectl_evictplan.impact.stretches import FOREVER_NS, Between
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.prediction.document import DrainReport

# So many rounds of a pod that returns are told apart; from then on it may be away at any time.
_ROUNDS_MAX = 20


def rounds(deletion: Deletion, life: NodeLife) -> Iterator[Between]:
    """When a pod goes again that comes back to the node and tolerates its taint for a while, again and again."""
    if deletion.tolerated_seconds is None:
        return
    period_ns = max(deletion.tolerated_seconds, 1) * SECOND_NS
    ends = [when.latest_ns for when in life.untainted.get(deletion.taint, ())]
    end_ns = max(ends, default=FOREVER_NS)
    slowest_ns = period_ns + 2 * CREATION_MAX_NS
    for turn in range(1, _ROUNDS_MAX + 1):
        when = deletion.when.later(turn * period_ns, turn * slowest_ns)
        if when.earliest_ns >= end_ns:
            return
        yield when if turn < _ROUNDS_MAX else when._replace(latest_ns=FOREVER_NS)


def later_drains(drains: Sequence[DrainReport], deletion: Deletion) -> Iterator[Between]:
    """When a drain may evict what went to its node before that was cordoned; kubectl cordons all its nodes first."""
    cordoned: dict[str, float] = {}
    for drain in drains:
        if drain.start_seconds is not None:
            known = cordoned.get(drain.origin, drain.start_seconds)
            cordoned[drain.origin] = min(known, drain.start_seconds)
    for drain in drains:
        if drain.start_seconds is None:
            continue
        others = (
            cordoned[one.origin]
            for one in drains
            if one.node == drain.node and one.origin in cordoned
        )
        if deletion.when.earliest_ns < between(min(others), None).earliest_ns:
            yield between(drain.start_seconds, drain.end_latest_seconds)
