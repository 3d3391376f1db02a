"""Pods that nothing happens to but that replacements of higher priority may push out: perhaps away, nobody says which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.impact.fates import NOBODY, Fate, Moving, SharedFate, is_counted
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.impact.placements import TimedPush
from kubectl_evictplan.impact.stretches import (
    FOREVER_NS,
    NONE,
    Absence,
    Between,
    absence,
    exactly,
)
from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.answers import Push
from kubectl_evictplan.kube.scheduling.preemption import at_most


class Pushed(msgspec.Struct, frozen=True):
    """``since_ns``: from when on which pod may be pushed out; ``limits``: how many at most of one owner's."""

    since_ns: Mapping[str, int] = {}
    limits: Mapping[Hashable, int] = {}


def pushed_out(
    pods: Iterable[Pod], pushes: Sequence[TimedPush], owner_of: Callable[[Pod], Hashable]
) -> Pushed:
    """Return who may be pushed out; a pod of which nothing is known is as low as any."""
    if not pushes:
        return Pushed()
    classes = _classes(pushes)
    by_node: dict[str, list[int]] = {}
    for number, one in enumerate(classes):
        for name in one.nodes:
            by_node.setdefault(name, []).append(number)
    since_ns: dict[str, int] = {}
    there: Counter[tuple[int, Hashable, str]] = Counter()
    like: dict[tuple[int, Hashable], Pod] = {}
    for pod in pods:
        for number in by_node.get(pod.node_name, ()) if not pod.finished else ():
            one = classes[number]
            if pod.needs is not None and pod.needs.priority < one.priority:
                since_ns[pod.key] = min(since_ns.get(pod.key, one.since_ns), one.since_ns)
                owner = owner_of(pod)
                there[number, owner, pod.node_name] += 1
                like.setdefault((number, owner), pod)
    return Pushed(since_ns, _limits(classes, there, like))


class _Class(msgspec.Struct, frozen=True):
    """Pushes of one priority on the same nodes. ``pods``: how many, by all else that counts."""

    priority: int
    nodes: frozenset[str]
    since_ns: int
    pods: Mapping[tuple[frozenset[str] | None, object], tuple[Push, int]]

    def at_most(self, victim: PodNeeds, on_a_node: int) -> int:
        """How many pods like that they push out at most together, if so many are on one node."""
        return sum(number * at_most(one, victim, on_a_node) for one, number in self.pods.values())


def _classes(pushes: Sequence[TimedPush]) -> list[_Class]:
    found: dict[tuple[int, int], list[TimedPush]] = {}
    equal: dict[frozenset[str], frozenset[str]] = {}
    for one in pushes:
        nodes = equal.setdefault(one.push.nodes, one.push.nodes)
        found.setdefault((one.push.needs.priority, id(nodes)), []).append(one)
    return [
        _Class(
            priority,
            several[0].push.nodes,
            min(one.since_ns for one in several),
            _summed(one.push for one in several),
        )
        for (priority, _), several in found.items()
    ]


def _summed(
    pushes: Iterable[Push],
) -> dict[tuple[frozenset[str] | None, object], tuple[Push, int]]:
    """What one of those pushes does that are equal but for their number, and their number."""
    found: dict[tuple[frozenset[str] | None, object], tuple[Push, int]] = {}
    for push in pushes:
        key = push.scarce, push.scarce and push.needs.requests
        single, number = found.get(key) or (replace(push, pods=1), 0)
        found[key] = single, number + push.pods
    return found


def _limits(
    classes: Sequence[_Class],
    there: Mapping[tuple[int, Hashable, str], int],
    like: Mapping[tuple[int, Hashable], Pod],
) -> dict[Hashable, int]:
    on_a_node: dict[tuple[int, Hashable], int] = {}
    for (number, owner, _), count in there.items():
        on_a_node[number, owner] = max(on_a_node.get((number, owner), 0), count)
    limits: dict[Hashable, int] = {}
    # Pods of many owners have equal needs.
    known: dict[tuple[int, PodNeeds, int], int] = {}
    for (number, owner), count in on_a_node.items():
        needs = like[number, owner].needs
        assert needs is not None
        key = number, needs, count
        if key not in known:
            known[key] = classes[number].at_most(needs, count)
        limits[owner] = limits.get(owner, 0) + known[key]
    return limits


def fate_of_bystander(moving: Moving, since_ns: int) -> Fate:
    """What becomes of a pod that is perhaps pushed out: whether another finds a place, nobody can say."""
    counted = is_counted(moving.pod)
    gone = _perhaps_away(since_ns) if counted else NONE
    leaves = Between(since_ns, FOREVER_NS)
    return Fate(*moving, SharedFate(NodeLife(), NOBODY, gone, gone, leaves, counted, None))


def perhaps_pushed(fate: Fate, since_ns: int) -> Fate:
    """The same pod, which may be pushed out before."""
    if not fate.counted:
        return fate
    gone = _perhaps_away(since_ns)
    return fate.also_gone(gone)


def _perhaps_away(since_ns: int) -> Absence:
    until = Between(since_ns, FOREVER_NS)
    return absence(exactly(since_ns), until, certain=False)
