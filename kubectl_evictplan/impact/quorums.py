"""Groups that need a majority: etcd, and sets that a label or an option says it of."""

from __future__ import annotations

from collections.abc import Collection

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.fates import how_many_counted, is_counted, when_dead
from kubectl_evictplan.impact.members import Owners
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.owners import OwnerKey
from kubectl_evictplan.prediction.impact_document import QuorumImpact
from kubectl_evictplan.scenarios.names import similar

# On pods; its value names the group ("true": the pod's owner does).
LABEL = "evictplan.dev/quorum"


def quorum_impacts(world: World, named: Collection[str]) -> tuple[QuorumImpact, ...]:
    """Every such group that something happens to a member of, sorted. ``named``: "namespace/owner"."""
    groups: dict[tuple[str, str], list[Pod]] = {}
    for labelled in world.by_labels.values():
        first = labelled.pods[0]
        # Asked of every kind of pod, not of every pod: names of owners differ within one kind of labels too rarely.
        if not (LABEL in first.labels or _may_be_etcd(first) or named):
            continue
        for pod in labelled.pods:
            owner = world.owner_of(pod)
            if (group := _group(pod, owner, world.workload_of(owner), named)) is not None:
                groups.setdefault(group, []).append(pod)
    found = [_impact(world, *group, pods) for group, pods in sorted(groups.items())]
    return tuple(one for one in found if one is not None)


def _may_be_etcd(pod: Pod) -> bool:
    return pod.labels.get("component") == "etcd" or _is_etcd(pod.name)


def _group(
    pod: Pod, of: OwnerKey, above: tuple[str, str], named: Collection[str]
) -> tuple[str, str] | None:
    """(name, what says so); None for what needs no majority. ``of`` owns the pod, ``above`` is what people know that by."""
    namespace, kind, name = of
    owner, workload = f"{namespace}/{name}", _name_of(above)
    for one in (owner, workload):
        if one in named:
            return one, "option"
    if (value := pod.labels.get(LABEL)) is not None and value != "false":
        return (owner if value in ("", "true") else f"{namespace}/{value}"), "label"
    if pod.labels.get("component") == "etcd" and kind == "Node":
        return f"{namespace}/etcd", "etcd"
    if kind == "StatefulSet" and _is_etcd(name):
        return owner, "etcd"
    return None


def _name_of(workload: tuple[str, str]) -> str:
    return f"{workload[0]}/{workload[1].partition('/')[2]}"


def owners_like(snapshot: ClusterSnapshot, named: Collection[str]) -> dict[str, list[str]]:
    """By each name that is no owner of pods of the input, and no group that needs a majority anyway, those that it may stand for."""
    owners = Owners(snapshot.workloads)
    known = {f"{one.namespace}/{one.name}" for one in snapshot.workloads}
    # Pods of one owner share their references.
    for pod in {(pod.namespace, id(pod.owner_references)): pod for pod in snapshot.pods}.values():
        owner = owners.of(pod)
        known |= {f"{owner[0]}/{owner[2]}", _name_of(owners.workload(owner))}
    for pod in snapshot.pods:
        if not pod.owner_references or LABEL in pod.labels or _may_be_etcd(pod):
            owner = owners.of(pod)
            group = _group(pod, owner, owners.workload(owner), ())
            known.add(group[0] if group is not None else f"{owner[0]}/{owner[2]}")
    return {
        # A name without its namespace is the likeliest mistake.
        name: sorted(one for one in known if one.endswith(f"/{name}")) or similar(name, known)
        for name in named
        if name not in known
    }


def _impact(world: World, name: str, told_by: str, pods: list[Pod]) -> QuorumImpact | None:
    fates = [world.fates[p.key] for p in pods if p.key in world.fates and is_counted(p)]
    if not any(fate.dead.possible for fate in fates):
        return None
    members = max(len(pods), world.wanted_by(world.owner_of(pods[0])) or 0)
    needed = members // 2 + 1
    voting = world.availability(how_many_counted(pods), fates, when_dead)
    return QuorumImpact(
        name=name,
        told_by=told_by,
        members=members,
        needed=needed,
        fewest_voting=telling.fewest(voting),
        majority_lost=telling.spells(voting, needed),
    )


def _is_etcd(name: str) -> bool:
    """Whether one of the words of a name is etcd."""
    return "etcd" in name.split("-")
