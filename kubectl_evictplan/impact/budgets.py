"""Disruption budgets, truthfully: which are broken, when, by how many, and whether anybody asks them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from kubectl_evictplan.cluster.timeline import EVICTION_API
from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.covered import Covered, waits_for
from kubectl_evictplan.impact.fates import Fate, how_many_counted, when_away
from kubectl_evictplan.impact.successor_labels import labels_lost, until_labelled
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.budgets import selects
from kubectl_evictplan.prediction.impact_document import BudgetImpact, Count

NEVER_ASKED, NOT_READY, ASKED = "never-asked", "not-ready", "asked"


def budget_impacts(world: World) -> tuple[BudgetImpact, ...]:
    """Every budget over a pod that something happens to, or that a drain waits for, sorted."""
    waits = waits_for(world.prediction.drains)
    found = [_impact(world, one, waits.get(one.budget.key, ())) for one in world.budgets]
    return tuple(sorted(found, key=lambda one: (one.namespace, one.budget)))


def _impact(world: World, covered: Covered, waits: Collection[str]) -> BudgetImpact:
    # Where nothing happens to any of its pods, a drain waits for them all the same.
    owners = {fate.owner for fate in covered.fates} or set(map(world.owner_of, covered.pods))
    paths = {path for fate in covered.fates for path in _paths(fate)}
    before = how_many_counted(covered.pods)
    lost = _labels_lost(world, covered)
    absent = until_labelled(when_away) if lost else when_away
    healthy = world.availability(before, covered.fates, absent)
    desired = covered.desired
    least, most = healthy.fewest
    # One that was short before is broken further: while fewer are healthy than were.
    mark = min(desired or 0, before)
    broken = telling.spells(healthy, mark) if mark else ()
    broken_by = Count(0, 0)
    if desired is not None and broken:
        sure = most < mark
        broken_by = Count(desired - most if sure else 0, desired - least)
    return BudgetImpact(
        namespace=covered.budget.namespace,
        budget=covered.budget.name,
        workloads=tuple(sorted({world.workload_of(owner)[1] for owner in owners})),
        desired_healthy=desired,
        healthy_before=before,
        fewest_healthy=Count(least, most),
        broken=broken,
        broken_by=broken_by,
        paths=tuple(sorted(paths | ({ASKED} if waits else set()))),
        waits=tuple(sorted(waits)),
        steps=telling.steps(healthy),
        runtime_labels=lost,
    )


def _labels_lost(world: World, covered: Covered) -> tuple[str, ...]:
    budget = covered.budget
    keys = [*(budget.match_labels or {}), *(key for key, *_ in budget.match_expressions)]
    moving = [(fate.owner, fate.pod) for fate in covered.fates]
    pods = moving or [(world.owner_of(pod), pod) for pod in covered.pods]
    return labels_lost(pods, world.workloads, keys, partial(selects, budget))


def _paths(fate: Fate) -> Iterable[str]:
    if fate.life.unready:
        yield NOT_READY
    if fate.deletion is not None:
        yield from {ASKED if by == EVICTION_API else NEVER_ASKED for by in fate.deletion.by}
