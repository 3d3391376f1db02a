"""Successors that are deleted once more: on the node that they return to, and by a drain that comes later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import (
    CREATION_MAX_NS,
    Again,
    Readiness,
    Successor,
    successor_after,
)
from kubectl_evictplan.impact.losses import Loss
from kubectl_evictplan.impact.node_lives import REACTION_MAX_NS, NodeLife, between
from kubectl_evictplan.impact.placements import RETRY_MAX_NS, Placement
from kubectl_evictplan.impact.stretches import FOREVER_NS, Between, exactly
from kubectl_evictplan.impact.successors import AT_DELETION, JOB_BACKOFF_NS
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod, Workload
from kubectl_evictplan.prediction.document import DrainReport

# So many rounds of a pod that returns are told apart; from then on it may be away at any time.
_ROUNDS_MAX = 20


# The warnings that name pods that come back to the node and tolerate its taint for a while.
RETURNING = frozenset({"replacement-may-return", "daemonset-evicted-again"})


def goes_again(
    kind: str,
    deletion: Deletion,
    life: NodeLife,
    drained: DrainedTurns,
    readiness: Readiness,
    place: Placement,
    workload: Workload | None,
    *,
    returns: bool,
) -> list[Again]:
    """When successors go once more by the same taint (``returns``: they may come back to it) or by a later drain."""
    waits_ns = 0 if kind in AT_DELETION else _ends_after_ns(deletion)
    if workload is not None and workload.surges:
        # Made before the old one is gone, it may be tried again only some time after that.
        waits_ns = min(waits_ns + RETRY_MAX_NS, FOREVER_NS)
    times = [*later_drains(drained, deletion)]
    times += rounds(deletion, life, waits_ns) if returns else ()
    return [
        Again(when, successor_after(when.later(0, waits_ns), readiness, place).ready)
        for when in times
    ]


def _ends_after_ns(deletion: Deletion) -> int:
    """How long the object of such a pod is there at most once it is deleted, FOREVER_NS: nobody ends it."""
    if deletion.held:
        return FOREVER_NS
    return max(deletion.gone.latest_ns - deletion.when.earliest_ns, 0)


def rounds(deletion: Deletion, life: NodeLife, waits_ns: int) -> Iterator[Between]:
    """When a pod goes again that comes back to the node and tolerates its taint for a while, again and again.

    ``waits_ns``: so long at most its owner waits for the end of the one before.
    """
    if deletion.tolerated_seconds is None:
        return
    period_ns = max(deletion.tolerated_seconds, 1) * SECOND_NS
    ends = [when.latest_ns for when in life.untainted.get(deletion.taint, ())]
    end_ns = max(ends, default=FOREVER_NS)
    slowest_ns = period_ns + 2 * CREATION_MAX_NS + waits_ns
    for turn in range(1, _ROUNDS_MAX + 1):
        when = deletion.when.later(turn * period_ns, min(turn * slowest_ns, FOREVER_NS))
        if when.earliest_ns >= end_ns:
            return
        yield when if turn < _ROUNDS_MAX else when._replace(latest_ns=FOREVER_NS)


class DrainedTurns(msgspec.Struct, frozen=True):
    """When drains may evict: each of ``turns`` what came to its node before that was cordoned, at the offset beside it.

    The last cordon is at ``until_ns``.
    """

    turns: Sequence[tuple[int, Between]]
    until_ns: int


def drained_turns(drains: Sequence[DrainReport]) -> DrainedTurns:
    """Those of all processes; kubectl cordons all its nodes first."""
    by_origin: dict[str, float] = {}
    for drain in drains:
        if drain.start_seconds is not None:
            known = by_origin.get(drain.origin, drain.start_seconds)
            by_origin[drain.origin] = min(known, drain.start_seconds)
    cordoned: dict[str, float] = {}
    for drain in drains:
        if drain.origin in by_origin:
            at = by_origin[drain.origin]
            cordoned[drain.node] = min(cordoned.get(drain.node, at), at)
    turns = [
        (
            between(cordoned[drain.node], None).earliest_ns,
            between(drain.start_seconds, drain.end_latest_seconds),
        )
        for drain in drains
        if drain.start_seconds is not None
    ]
    return DrainedTurns(turns, max((at_ns for at_ns, _ in turns), default=0))


def later_drains(drained: DrainedTurns, deletion: Deletion) -> Iterator[Between]:
    """When a drain may evict what went to its node before that was cordoned."""
    if deletion.when.earliest_ns < drained.until_ns:
        for cordoned_ns, when in drained.turns:
            if deletion.when.earliest_ns < cordoned_ns:
                yield when


def after_losses(
    pod: Pod,
    kind: str,
    place: Placement,
    first: Successor,
    readiness: Readiness,
    *,
    returns: bool,
    moves: bool = False,
) -> Iterator[Again]:
    """When a successor may be away that came to a node before the change did. ``kind``: of its owner.

    ``returns``: it may come back to its own node, which ``rounds`` tells; ``moves``: something else may take it once more.
    """
    # Who is bound before any of the nodes takes it, and stays, never comes to one.
    if not moves and all(first.bound.latest_ns < loss.opens_ns for loss in place.losses):
        return
    for loss in place.losses:
        if returns and loss.returns_to == pod.node_name and place.at_once:
            # ``rounds`` tells them apart.
            continue
        since_ns = max(loss.since_ns, first.bound.earliest_ns)
        free = _made_anew(pod, kind, loss)
        ready = successor_after(free, readiness, place).ready if not free.never else free
        until_ns = max(ready.latest_ns if not loss.deleted.never else 0, loss.back_ns)
        if loss.back_ns >= FOREVER_NS and not loss.deleted.never:
            until_ns = ready.latest_ns
        if since_ns < until_ns:
            yield Again(exactly(since_ns), Between(since_ns, until_ns))


def _made_anew(pod: Pod, kind: str, loss: Loss) -> Between:
    """From when on the owner may create the next one; latest FOREVER_NS: nobody can tell."""
    if kind in AT_DELETION:
        return loss.deleted
    if kind in ("StatefulSet", "Job") and not loss.silent:
        grace_ns = pod.termination_grace_period_seconds * SECOND_NS
        return loss.deleted.later(0, max(grace_ns, JOB_BACKOFF_NS) + REACTION_MAX_NS)
    return loss.deleted._replace(latest_ns=FOREVER_NS)
