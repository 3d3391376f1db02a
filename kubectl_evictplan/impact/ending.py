"""Pods that are ending still answer: until they exit, at most.

A deleted pod is not ready from then on, but its containers run until they have stopped, and its endpoint is serving and
terminating. Where a Service has no ready endpoint, kube-proxy sends clients there (``CategorizeEndpoints`` of pkg/proxy, 1.37).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import Fate
from kubectl_evictplan.impact.node_lives import REACTION_MAX_NS, Silence
from kubectl_evictplan.impact.stretches import FOREVER_NS, Absence, Anchor, Between, Stretch, meets
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod

AbsenceOf = Callable[[Fate], Absence]


def answering_until_exit(dead: AbsenceOf, others_ns: int = 0) -> AbsenceOf:
    """The same absence, with whoever is ending perhaps there; until ``others_ns`` pods that are ending at the start are."""

    def absence_of(fate: Fate) -> Absence:
        found = dead(fate)
        if not found.sure and not found.anchors:
            return found
        deletion = fate.deletion
        if deletion is None:
            return found if others_ns <= 0 else _surely_after(found, others_ns)
        if others_ns <= 0 and _silent_before(fate.life.unanswered, deletion.when):
            return found
        lasts_ns = _ends_within_ns(fate.pod, deletion)
        return _while_nobody_ends(found, deletion.when, lasts_ns, fate.life.unanswered, others_ns)

    return absence_of


def address_until_exit(dead: AbsenceOf) -> AbsenceOf:
    """The same of an address that no successor takes: it is dead for certain, for a moment at least, once the pod has exited."""

    def absence_of(fate: Fate) -> Absence:
        found, deletion = dead(fate), fate.deletion
        if deletion is None or not (found.sure or found.anchors):
            return found
        if not deletion.certain or _silent_before(fate.life.unanswered, deletion.when):
            return found
        ended_ns = deletion.when.latest_ns + _ends_within_ns(fate.pod, deletion)
        return _replaced(found, ended_ns)

    return absence_of


@lru_cache(maxsize=10_000)
def _replaced(dead: Absence, ended_ns: int) -> Absence:
    return Absence(dead.possible, ((ended_ns, ended_ns + 1),))


def _ends_within_ns(pod: Pod, deletion: Deletion) -> int:
    """How long after its deletion a pod runs at most, where its kubelet is heard."""
    grace_ns = pod.termination_grace_period_seconds * SECOND_NS + REACTION_MAX_NS
    if deletion.gone.latest_ns >= FOREVER_NS:
        # Its object stays; its containers do not.
        return grace_ns
    return max(grace_ns, deletion.gone.latest_ns - deletion.when.latest_ns)


def _silent_before(silences: tuple[Silence, ...], deleted: Between) -> bool:
    """Whether nobody answers anyhow, from before the deletion on and for good."""
    return any(
        one.since.latest_ns <= deleted.earliest_ns and one.until.earliest_ns >= FOREVER_NS
        for one in silences
    )


# Alike pods share one object, and go on doing so.
@lru_cache(maxsize=10_000)
def _while_nobody_ends(
    dead: Absence, deleted: Between, lasts_ns: int, silences: tuple[Silence, ...], others_ns: int
) -> Absence:
    ended_ns = deleted.latest_ns + lasts_ns if deleted.latest_ns < FOREVER_NS else FOREVER_NS
    ends = deleted.earliest_ns, ended_ns
    kept: list[Stretch] = []
    for stretch in dead.sure:
        kept += _without(stretch, ends)
        # A silent kubelet's pods answer nobody, ending or not.
        silent = ((one.since.latest_ns, one.until.earliest_ns) for one in silences)
        kept += [_both(_both(stretch, ends), one) for one in silent]
    sure = tuple(sorted(one for one in set(kept) if one[0] < one[1]))
    moved = (_begins_later(one, ends, lasts_ns, sure) for one in dead.anchors)
    anchors = tuple(one for one in moved if one.least_ns > 0 and not meets(one.since, sure))
    return _surely_after(Absence(dead.possible, sure, anchors), others_ns)


def _begins_later(one: Anchor, ends: Stretch, lasts_ns: int, sure: Sequence[Stretch]) -> Anchor:
    """What begins with the deletion, or while the pod is ending, counts from so long after that every such pod has exited."""
    if one.since.latest_ns < ends[0] or one.since.earliest_ns >= ends[1]:
        return one
    since = one.since.later(lasts_ns, lasts_ns)
    seen = any(low_ns <= since.latest_ns < high_ns for low_ns, high_ns in sure)
    # Those that may run on for another time do not count from this instant.
    together = None if one.together is None else (one.together, lasts_ns)
    return Anchor(since, one.least_ns - lasts_ns, together, seen)


@lru_cache(maxsize=10_000)
def _surely_after(dead: Absence, others_ns: int) -> Absence:
    if others_ns <= 0:
        return dead
    sure = [part for one in dead.sure for part in _without(one, (0, others_ns))]
    anchors = [one for one in dead.anchors if one.since.earliest_ns >= others_ns]
    return Absence(dead.possible, tuple(sure), tuple(anchors))


def _without(stretch: Stretch, gap: Stretch) -> list[Stretch]:
    parts = (stretch[0], min(stretch[1], gap[0])), (max(stretch[0], gap[1]), stretch[1])
    return [one for one in parts if one[0] < one[1]]


def _both(one: Stretch, other: Stretch) -> Stretch:
    return max(one[0], other[0]), min(one[1], other[1])
