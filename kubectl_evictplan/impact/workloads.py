"""Workloads: how many of their pods are Ready over time, and what is made anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

import msgspec

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.availability import Availability
from kubectl_evictplan.impact.fates import Fate, OwnerKey, Readiness
from kubectl_evictplan.impact.stretches import FOREVER_NS
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.causes import seconds
from kubectl_evictplan.prediction.impact_document import (
    Count,
    Instant,
    ReadyAfter,
    Spell,
    Step,
    TwoCopies,
    WorkloadImpact,
)
from kubectl_evictplan.prediction.rows import RowsOnDemand

# Kinds of which one pod can be all there is; of the others each pod is on its own.
REPLICATED = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})


def workload_impacts(world: World) -> tuple[WorkloadImpact, ...]:
    """Every workload that something happens to a pod of, sorted."""
    groups: dict[tuple[str, str], list[OwnerKey]] = {}
    for owner in world.by_owner:
        groups.setdefault(world.workload_of(owner), []).append(owner)
    curves: dict[tuple[int, int], _Curve] = {}
    found = []
    for key, owners in sorted(groups.items()):
        fates = [fate for owner in owners for fate in world.fates_of(owner)]
        if any(fate.away.possible or fate.deletion for fate in fates):
            found.append(_impact(world, key, owners, fates, curves))
    return tuple(found)


class _Curve(msgspec.Struct, frozen=True):
    """What is told of how many are Ready, the same for workloads that lose as much."""

    ready: Availability
    fewest: Count
    below: tuple[Spell, ...]
    zero: tuple[Spell, ...]
    whole_again: Instant
    steps: tuple[Step, ...]


def _curve(ready: Availability, mark: int) -> _Curve:
    """``mark``: how many there have to be."""
    return _Curve(
        ready,
        telling.fewest(ready),
        telling.spells(ready, mark) if mark else (),
        telling.spells(ready, 1) if mark else (),
        telling.whole_again(ready, mark),
        telling.steps(ready),
    )


def _impact(
    world: World,
    key: tuple[str, str],
    owners: list[OwnerKey],
    fates: list[Fate],
    curves: dict[tuple[int, int], _Curve],
) -> WorkloadImpact:
    pods = [pod for owner in owners for pod in world.by_owner[owner]]
    before = world.how_many_there(pods)
    ready = world.availability(before, fates)
    wanted = _wanted(world, key, pods)
    # Nobody makes another for one too many: it is whole without, and nothing is missing.
    mark = before if wanted is None else min(before, wanted)
    if (curve := curves.get((id(ready), mark))) is None:
        curve = curves[id(ready), mark] = _curve(ready, mark)
    return WorkloadImpact(
        namespace=key[0],
        workload=key[1],
        wanted=wanted,
        single_replica=_single_replica(key[1].partition("/")[0], wanted, len(pods)),
        ready_before=before,
        fewest_ready=curve.fewest,
        below_before=curve.below,
        zero=curve.zero,
        whole_again=curve.whole_again,
        never_replaced=tuple(sorted(_never_replaced(world, fates))),
        two_copies=_two_copies(fates),
        ready_after=_told(_readiness(world, owners)),
        steps=curve.steps,
    )


def _never_replaced(world: World, fates: Sequence[Fate]) -> list[str]:
    return [
        one.pod.name
        for one in fates
        if one.successor.created[0] >= FOREVER_NS
        and one.deletion is not None
        and not world.is_surplus(one.key)
    ]


def _two_copies(fates: Sequence[Fate]) -> Sequence[TwoCopies]:
    number = sum([one.twice is not None for one in fates])
    return RowsOnDemand(number, partial(_copies, fates)) if number else ()


def _copies(fates: Sequence[Fate]) -> Iterator[TwoCopies]:
    """Yield the rows by name."""
    some = [(one.pod.name, one.pod.node_name, one.twice) for one in fates if one.twice is not None]
    for name, node, twice in sorted(some):
        yield TwoCopies(name, node, telling.instant(twice))


@lru_cache(maxsize=10_000)  # thousands of workloads have one of a few
def _told(readiness: Readiness) -> ReadyAfter:
    most = None if readiness.most_ns >= FOREVER_NS else seconds(readiness.most_ns)
    return ReadyAfter(seconds(readiness.least_ns), most, readiness.source, readiness.samples)


def _single_replica(kind: str, wanted: int | None, pods: int) -> bool | None:
    """Whether it wants one pod; None: its owner is not in the input, and one pod of it is."""
    if kind not in REPLICATED:
        return False
    if wanted is None:
        return None if pods == 1 else False
    return wanted == 1


def _wanted(world: World, key: tuple[str, str], pods: list[Pod]) -> int | None:
    kind, _, name = key[1].partition("/")
    if kind == "Pod":
        return 1
    known = world.workloads.get((key[0], kind, name))
    if known is None or kind == "DaemonSet":
        return len(pods) if kind == "DaemonSet" else None
    return known.replicas


def _readiness(world: World, owners: list[OwnerKey]) -> Readiness:
    """Of several revisions the one with the most pods."""
    return world.readiness_of(max(owners, key=lambda owner: (len(world.by_owner[owner]), owner)))
