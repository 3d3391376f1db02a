"""Workloads: how many of their pods are Ready over time, and what is made anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from operator import attrgetter

import msgspec

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.availability import Availability
from kubectl_evictplan.impact.fates import Fate, Readiness
from kubectl_evictplan.impact.stretches import FOREVER_NS
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.owners import OwnerKey
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
from kubectl_evictplan.prediction.records import RowsOnDemand

# Kinds of which one pod can be all there is; of the others each pod is on its own.
REPLICATED = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})
_name_of = attrgetter("pod.name")


def workload_impacts(world: World) -> tuple[WorkloadImpact, ...]:
    """Every workload that something happens to a pod of, sorted."""
    groups: dict[tuple[str, str], list[OwnerKey]] = {}
    for owner in world.by_owner:
        groups.setdefault(world.workload_of(owner), []).append(owner)
    curves: dict[object, _Curve] = {}
    found = []
    for key, owners in sorted(groups.items()):
        fates = _fates(world, owners)
        for fate in fates:
            if fate.deletion is not None or fate.shared.away.possible:
                found.append(_impact(world, key, owners, fates, curves))
                break
    return tuple(found)


def _fates(world: World, owners: Sequence[OwnerKey]) -> Sequence[Fate]:
    if len(owners) == 1:
        return world.fates_of(owners[0])
    return [fate for owner in owners for fate in world.fates_of(owner)]


class _Curve(msgspec.Struct, frozen=True):
    """What is told of how many are Ready, the same for workloads that lose as much.

    ``copies``: how many of the pods may run twice, ``gone``: whether nobody makes some of them anew.
    """

    ready: Availability
    fewest: Count
    below: tuple[Spell, ...]
    zero: tuple[Spell, ...]
    whole_again: Instant
    steps: tuple[Step, ...]
    copies: int
    gone: bool


def _curve(ready: Availability, mark: int, fates: Sequence[Fate]) -> _Curve:
    """``mark``: how many there have to be."""
    return _Curve(
        ready,
        telling.fewest(ready),
        telling.spells(ready, mark) if mark else (),
        telling.spells(ready, 1) if mark else (),
        telling.whole_again(ready, mark),
        telling.steps(ready),
        len([fate for fate in fates if fate.shared.twice is not None]),
        any(map(_is_gone, fates)),
    )


def _impact(
    world: World,
    key: tuple[str, str],
    owners: Sequence[OwnerKey],
    fates: Sequence[Fate],
    curves: dict[object, _Curve],
) -> WorkloadImpact:
    pods = [world.by_owner[owner] for owner in owners]
    before, number = sum(map(world.how_many_there, pods)), sum(map(len, pods))
    wanted = _wanted(world, key, number)
    # Nobody makes another for one too many: it is whole without, and nothing is missing.
    mark = before if wanted is None else min(before, wanted)
    # Where budgets limit who is away it depends on which pods these are.
    kinds = [world.kind_of_fates(owner) for owner in owners]
    token = (before, mark, *kinds, *(owners if world.asked_budget else ()))
    if (curve := curves.get(token)) is None:
        curve = curves[token] = _curve(world.availability(before, fates), mark, fates)
    return WorkloadImpact(
        key[0],
        key[1],
        wanted,
        _single_replica(key[1], wanted, number),
        before,
        curve.fewest,
        curve.below,
        curve.zero,
        curve.whole_again,
        tuple(sorted(_never_replaced(world, fates))) if curve.gone else (),
        RowsOnDemand(curve.copies, partial(_copies, fates)) if curve.copies else (),
        _told(_readiness(world, owners)),
        curve.steps,
    )


def _never_replaced(world: World, fates: Iterable[Fate]) -> list[str]:
    return [one.pod.name for one in fates if _is_gone(one) and not world.is_surplus(one.key)]


def _is_gone(fate: Fate) -> bool:
    """Whether it is deleted and nobody makes it anew."""
    return fate.deletion is not None and fate.shared.successor.created[0] >= FOREVER_NS


def _copies(fates: Iterable[Fate]) -> Iterator[TwoCopies]:
    """Yield the rows by name."""
    for fate in sorted(fates, key=_name_of):
        if (twice := fate.shared.twice) is not None:
            pod = fate.pod
            yield TwoCopies(pod.name, pod.node_name, telling.instant(twice))


@lru_cache(maxsize=10_000)  # thousands of workloads have one of a few
def _told(readiness: Readiness) -> ReadyAfter:
    most = None if readiness.most_ns >= FOREVER_NS else seconds(readiness.most_ns)
    return ReadyAfter(seconds(readiness.least_ns), most, readiness.source, readiness.samples)


def _single_replica(workload: str, wanted: int | None, pods: int) -> bool | None:
    """Whether it wants one pod; None: its owner is not in the input, and one pod of it is."""
    if workload.partition("/")[0] not in REPLICATED:
        return False
    if wanted is None:
        return None if pods == 1 else False
    return wanted == 1


def _wanted(world: World, key: tuple[str, str], pods: int) -> int | None:
    kind, _, name = key[1].partition("/")
    if kind == "Pod":
        return 1
    known = world.workloads.get((key[0], kind, name))
    if known is None or kind == "DaemonSet":
        return pods if kind == "DaemonSet" else None
    return known.replicas


def _readiness(world: World, owners: Sequence[OwnerKey]) -> Readiness:
    """Of several revisions the one with the most pods."""
    if len(owners) == 1:
        return world.readiness_of(owners[0])
    return world.readiness_of(max(owners, key=lambda owner: (len(world.by_owner[owner]), owner)))
