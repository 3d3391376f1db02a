"""Pods that nothing happens to but that replacements of higher priority may push out: perhaps away, nobody says which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.impact.fates import NOBODY, Fate, Moving, is_counted
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.impact.placements import TimedPush
from kubectl_evictplan.impact.stretches import (
    FOREVER_NS,
    NONE,
    Absence,
    Between,
    absence,
    exactly,
    together,
)
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.kube.scheduling.preemption import at_most


class Pushed(NamedTuple):
    """``since_ns``: from when on which pod may be pushed out; ``limits``: how many at most of one owner's."""

    since_ns: Mapping[str, int] = {}
    limits: Mapping[Hashable, int] = {}


def pushed_out(
    pods: Iterable[Pod], pushes: Sequence[TimedPush], owner_of: Callable[[Pod], Hashable]
) -> Pushed:
    """Return who may be pushed out; a pod of which nothing is known is as low as any."""
    if not pushes:
        return Pushed()
    by_node: dict[str, list[int]] = {}
    for number, one in enumerate(pushes):
        for name in one.push.nodes:
            by_node.setdefault(name, []).append(number)
    since_ns: dict[str, int] = {}
    there: Counter[tuple[int, Hashable, str]] = Counter()
    like: dict[tuple[int, Hashable], Pod] = {}
    for pod in pods:
        for number in by_node.get(pod.node_name, ()) if not pod.finished else ():
            push, from_ns = pushes[number]
            if pod.needs is not None and pod.needs.priority < push.needs.priority:
                since_ns[pod.key] = min(since_ns.get(pod.key, from_ns), from_ns)
                owner = owner_of(pod)
                there[number, owner, pod.node_name] += 1
                like.setdefault((number, owner), pod)
    return Pushed(since_ns, _limits(pushes, there, like))


def _limits(
    pushes: Sequence[TimedPush],
    there: Mapping[tuple[int, Hashable, str], int],
    like: Mapping[tuple[int, Hashable], Pod],
) -> dict[Hashable, int]:
    on_a_node: dict[tuple[int, Hashable], int] = {}
    for (number, owner, _), count in there.items():
        on_a_node[number, owner] = max(on_a_node.get((number, owner), 0), count)
    limits: dict[Hashable, int] = {}
    for (number, owner), count in on_a_node.items():
        needs = like[number, owner].needs
        assert needs is not None
        limits[owner] = limits.get(owner, 0) + at_most(pushes[number].push, needs, count)
    return limits


def fate_of_bystander(moving: Moving, since_ns: int) -> Fate:
    """What becomes of a pod that is perhaps pushed out: whether another finds a place, nobody can say."""
    counted = is_counted(moving.pod)
    gone = _perhaps_away(since_ns) if counted else NONE
    leaves = Between(since_ns, FOREVER_NS)
    return Fate(*moving, NodeLife(), NOBODY, gone, gone, leaves, counted, None)


def perhaps_pushed(fate: Fate, since_ns: int) -> Fate:
    """The same pod, which may be pushed out before."""
    if not fate.counted:
        return fate
    gone = _perhaps_away(since_ns)
    return fate._replace(away=together(fate.away, gone), dead=together(fate.dead, gone))


def _perhaps_away(since_ns: int) -> Absence:
    until = Between(since_ns, FOREVER_NS)
    return absence(exactly(since_ns), until, certain=False)
