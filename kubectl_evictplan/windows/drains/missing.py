"""What drains rest on and the input does not have, and the world in which it is as one would expect.

There no budget covers a pod that none in the input covers, every owner has as many pods as it wants, and no
namespace is being deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kubectl_evictplan.controllers.replication import owner_key
from kubectl_evictplan.kube.infrastructure import Namespace
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Workload
from kubectl_evictplan.kube.owners import known_namespaces
from kubectl_evictplan.windows.drains.covered import CoveredPods, OwnerKey
from kubectl_evictplan.windows.drains.planned import DrainPlan, PlannedTurn
from kubectl_evictplan.windows.drains.world import DrainWorld, active_anywhere, unknown_owners

_BUDGET, _NAMESPACE, _DEPLOYMENT = "PodDisruptionBudget", "Namespace", "Deployment"


def missing_kinds(world: DrainWorld, plan: DrainPlan, covered: CoveredPods) -> tuple[str, ...]:
    """Kinds of which the input does not have all objects, where these may keep kubectl from its end, sorted."""
    found: set[str] = set()
    for turn in plan.turns:
        found.update(_kinds_of(one.pod for one in turn.strangers))
        with_them = _asked_with(turn, covered)
        found.update(_kinds_of(pod for pod in with_them if owner_key(pod) in plan.unknown))
        found.update(_kinds_not_scaled(turn, world, covered))
        if not turn.options.disable_eviction:
            found.update(_that_may_refuse(turn, world, covered))
    return tuple(sorted(found))


def _that_may_refuse(turn: PlannedTurn, world: DrainWorld, covered: CoveredPods) -> Iterator[str]:
    known = known_namespaces(world.snapshot)
    for pod in filter(covered.may_be_refused_unseen, turn.everybody):
        if pod.namespace not in known:
            yield _NAMESPACE
        if world.budgets_denied or not world.budgets_listed:
            yield _BUDGET


def _asked_with(turn: PlannedTurn, covered: CoveredPods) -> Iterator[Pod]:
    """All pods under the budgets that kubectl asks."""
    asking = () if turn.options.disable_eviction else turn.everybody
    for place in {place for pod in asking for place in covered.asked_about(pod)}:
        yield from covered.of_budget(place)


def _kinds_of(pods: Iterable[Pod]) -> Iterator[str]:
    return (owner.kind for pod in pods if (owner := pod.controller()) is not None)


def _kinds_not_scaled(turn: PlannedTurn, world: DrainWorld, covered: CoveredPods) -> Iterator[str]:
    """Deployments, where ReplicaSets of theirs have pods under these budgets, which count what they want."""
    listed = {
        (one.namespace, one.name) for one in world.snapshot.workloads if one.kind == _DEPLOYMENT
    }
    sets = {
        (one.kind, one.namespace, one.name)
        for one in world.snapshot.workloads
        for above in one.owner_references
        if above.controller and above.kind == _DEPLOYMENT
        if (one.namespace, above.name) not in listed
    }
    if any(owner_key(pod) in sets for pod in _asked_with(turn, covered)):
        yield _DEPLOYMENT


def as_expected(world: DrainWorld) -> DrainWorld:
    """The world with everything that is missing."""
    snapshot = world.snapshot
    infrastructure = snapshot.infrastructure
    spaces = {pod.namespace for pod in snapshot.pods} - known_namespaces(snapshot)
    namespaces = (*infrastructure.namespaces, *map(Namespace, sorted(spaces)))
    return world._replace(
        snapshot=replace(
            snapshot,
            workloads=tuple(_every_owner(snapshot)),
            infrastructure=replace(infrastructure, namespaces=namespaces),
        ),
        budgets_denied=False,
        budgets_listed=True,
        strangers=(),
        without_pods=(),
    )


def _every_owner(snapshot: ClusterSnapshot) -> Iterator[Workload]:
    """Each has the pods that it wants; a Deployment those of its ReplicaSets."""
    active, unknown = active_anywhere(snapshot), unknown_owners(snapshot)
    known = {(one.kind, one.namespace, one.name): one for one in snapshot.workloads}
    wanted: Counter[OwnerKey] = Counter()
    for key in sorted(unknown - known.keys()):
        yield Workload(*key, uid="/".join(key), replicas=active[key])
    for key, one in known.items():
        found = replace(one, replicas=active[key]) if key in unknown else one
        for above in found.owner_references:
            if above.controller and above.kind == _DEPLOYMENT:
                wanted[_DEPLOYMENT, one.namespace, above.name] += found.replicas or 0
        yield found
    for key, number in wanted.items():
        if key not in known:
            yield Workload(*key, uid="/".join(key), replicas=number)
