"""How long a replacement takes to be Ready: given, learnt from the owner's own pods, or the default.

A pod that is Ready since shortly after its creation tells how long its template takes. One whose Ready changed later
(a probe that failed once, a node that was lost) tells too much, so what lies far above the owner's quickest pods is
not counted. Times in the API are whole seconds: each may be a second off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.engine.drain_timing import READY_DEFAULT_NS, ReadyRange
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod

# Pods that took longer than so many times the median did something else meanwhile.
_FAR_ABOVE_MEDIAN = 3
# What is so short may differ by chance alone.
_ALWAYS_COUNTED_SECONDS = 10

OwnerName = tuple[str, str, str]  # kind, namespace, name


class LearntReady(msgspec.Struct, frozen=True):
    """What ``samples`` pods of one owner took to be Ready, at the least and at most."""

    least_ns: int
    most_ns: int
    samples: int


class ReadyTimes(msgspec.Struct, frozen=True):
    """How long after it is bound a replacement is Ready; ``latest_ns`` None: perhaps never.

    ``by_owner``: what its owner's own pods tell instead.
    """

    earliest_ns: int = READY_DEFAULT_NS
    latest_ns: int | None = READY_DEFAULT_NS
    by_owner: Mapping[OwnerName, LearntReady] = {}

    @property
    def ranges_ns(self) -> tuple[tuple[OwnerName, ReadyRange], ...]:
        """Every owner with the least and the most, sorted."""
        return tuple(
            (owner, (one.least_ns, one.most_ns)) for owner, one in sorted(self.by_owner.items())
        )

    def of(self, pods: Iterable[Pod]) -> ReadyTimes:
        """The same with nothing but what these pods and their replacements ask for."""
        owners = {owner_of(pod) for pod in pods} if self.by_owner else set()
        return replace(
            self, by_owner={owner: one for owner, one in self.by_owner.items() if owner in owners}
        )

    def range_of(self, pod: Pod) -> ReadyRange:
        """From when to when a replacement of that pod is Ready."""
        learnt = self.by_owner.get(owner) if (owner := owner_of(pod)) is not None else None
        if learnt is None:
            return self.earliest_ns, self.latest_ns
        return learnt.least_ns, learnt.most_ns

    @property
    def range_ns(self) -> int:
        """How far the readiness of one replacement may move whose owner does not tell."""
        return (self.latest_ns or self.earliest_ns) - self.earliest_ns

    @property
    def learnt_range_ns(self) -> int:
        """The same at most of those whose owners tell."""
        return max((one.most_ns - one.least_ns for one in self.by_owner.values()), default=0)


def learnt(pods: Iterable[Pod]) -> LearntReady | None:
    """What the pods of one owner tell; None when none of them is Ready since it was started."""
    known = [
        pod.ready_after_seconds
        for pod in pods
        if pod.ready_after_seconds is not None and pod.ready == "True"
    ]
    if not known:
        return None
    known.sort()
    limit = max(_FAR_ABOVE_MEDIAN * known[(len(known) - 1) // 2], _ALWAYS_COUNTED_SECONDS)
    counted = [number for number in known if number <= limit]
    if not counted:
        return None
    least_ns = max(counted[0] - 1, 0) * SECOND_NS
    return LearntReady(least_ns, (counted[-1] + 1) * SECOND_NS, len(counted))


def learnt_by_owner(pods: Iterable[Pod]) -> dict[OwnerName, LearntReady]:
    """What all pods tell of their owners, those of which any is known."""
    pods_of: dict[OwnerName, list[Pod]] = {}
    for pod in pods:
        if pod.ready_after_seconds is not None and (owner := owner_of(pod)) is not None:
            pods_of.setdefault(owner, []).append(pod)
    found = ((owner, learnt(some)) for owner, some in pods_of.items())
    return {owner: one for owner, one in found if one is not None}


def owner_of(pod: Pod) -> OwnerName | None:
    """Who makes others of its kind; None of a bare pod."""
    owner = pod.controller()
    return None if owner is None else (owner.kind, pod.namespace, owner.name)
