"""Which touched pods which disruption budget covers, how many it wants healthy, and whether anybody asks it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from kubectl_evictplan.cluster.timeline import EVICTION_API
from kubectl_evictplan.controllers.disruption import OwnerScales
from kubectl_evictplan.impact.fates import Fate
from kubectl_evictplan.impact.members import Labelled
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.disruption import sync_fails, synced_status
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, PodDisruptionBudget
from kubectl_evictplan.prediction.document import DrainReport


class Covered(msgspec.Struct, frozen=True):
    """A budget over at least one pod that something happens to.

    ``desired`` is how many it wants healthy, None when nobody knows; ``healthy`` how many of ``pods`` are at the
    start; ``shared`` are pods that other budgets cover as well. ``fails``: the disruption controller cannot compute it.
    """

    budget: PodDisruptionBudget
    pods: list[Pod]
    fates: list[Fate]
    desired: int | None
    healthy: int
    shared: bool
    fails: bool = False


def waits_for(drains: Iterable[DrainReport]) -> dict[str, set[str]]:
    """By budget the pods that drains have to wait for because of it, those that are never evicted too."""
    waits: dict[str, set[str]] = {}
    for drain in drains:
        for waiting in drain.waiting:
            for budget in waiting.every_budget:
                waits.setdefault(budget, set()).add(waiting.pod)
    return waits


def covered_by_budgets(
    snapshot: ClusterSnapshot, classes: Collection[Labelled], waited: Collection[str] = ()
) -> list[Covered]:
    """Return every budget that covers a pod with a fate, or is one of ``waited``. ``classes``: all pods of the cluster."""
    if not snapshot.budgets or not (waited or any(one.fates for one in classes)):
        return []
    index = BudgetIndex(snapshot.budgets)
    covered: dict[int, list[Labelled]] = {}
    several: set[int] = set()
    for one in classes:
        places = index.matching(one.pods[0])
        for place in places:
            covered.setdefault(place, []).append(one)
        if len(places) > 1:
            several.update(places)
    scales = OwnerScales(snapshot.workloads)
    found = []
    for place, some in sorted(covered.items()):
        moving = [fate for one in some for fate in one.fates]
        budget = snapshot.budgets[place]
        if moving or budget.key in waited:
            pods = [pod for one in some for pod in one.pods]
            status = synced_status(budget, pods, scales.scale, snapshot.taken_at_ns)
            fails = sync_fails(budget, pods, scales.scale)
            found.append(
                Covered(
                    budget,
                    pods,
                    moving,
                    None if fails else status.desired_healthy,
                    status.current_healthy or 0,
                    place in several,
                    fails,
                )
            )
    return found


def spare_of_asked(covered: Covered) -> int | None:
    """How many of a budget's pods may be away at one time, where nothing but drains that ask it takes any.

    None: something else does, or what it allows is not known.
    """
    if covered.desired is None or covered.shared or covered.budget.disruptions_allowed is None:
        return None
    for one in covered.fates:
        if one.deletion is None and one.away.possible:
            # It may be pushed out.
            return None
        if one.deletion is not None and one.deletion.by != (EVICTION_API,):
            return None
        if one.life.unready or one.life.silences or not one.life.deleted.never:
            return None
    spare = max(covered.healthy - covered.desired, covered.budget.disruptions_allowed, 0)
    return min(spare, covered.healthy)
