"""Groups that need a majority: etcd, and sets that a label or an option says it of."""

from __future__ import annotations

from collections.abc import Collection

from kubectl_evictplan.impact import telling
from kubectl_evictplan.impact.fates import how_many_counted, is_counted
from kubectl_evictplan.impact.world import World, dead
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.impact_document import QuorumImpact

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
            if (group := _group(world, pod, named)) is not None:
                groups.setdefault(group, []).append(pod)
    found = [_impact(world, *group, pods) for group, pods in sorted(groups.items())]
    return tuple(one for one in found if one is not None)


def _may_be_etcd(pod: Pod) -> bool:
    return pod.labels.get("component") == "etcd" or _is_etcd(pod.name)


def _group(world: World, pod: Pod, named: Collection[str]) -> tuple[str, str] | None:
    """(name, what says so); None for what needs no majority."""
    namespace, kind, name = world.owner_of(pod)
    owner = f"{namespace}/{name}"
    if owner in named:
        return owner, "option"
    if (value := pod.labels.get(LABEL)) is not None and value != "false":
        return (owner if value in ("", "true") else f"{namespace}/{value}"), "label"
    if pod.labels.get("component") == "etcd" and kind == "Node":
        return f"{namespace}/etcd", "etcd"
    if kind == "StatefulSet" and _is_etcd(name):
        return owner, "etcd"
    return None


def _impact(world: World, name: str, told_by: str, pods: list[Pod]) -> QuorumImpact | None:
    fates = [world.fates[p.key] for p in pods if p.key in world.fates and is_counted(p)]
    if not any(fate.dead.possible for fate in fates):
        return None
    members = max(len(pods), world.wanted_by(world.owner_of(pods[0])) or 0)
    needed = members // 2 + 1
    voting = world.availability(how_many_counted(pods), fates, dead)
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
