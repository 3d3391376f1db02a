"""The part of a cluster that the workloads and budgets of a failure are about, for any number of failures.

What is told of a workload or a budget follows from all of its pods. So pods are coupled that share one of them; every
other pod is left out, and nobody can tell. Services are not: see ``Endpoints``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.infrastructure import Infrastructure
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Workload
from kubectl_evictplan.prediction.workloads import deployments_of, owner_name, top_workload


class _Group(NamedTuple):
    """What couples pods: ``kind`` workload | budget; ``place`` of a budget, else 0."""

    kind: str
    namespace: str
    name: str
    place: int = 0


_Groups = tuple[_Group, ...]


class CoupledPods:
    """Which pods share a workload or a budget. Read only."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._place = {pod.key: place for place, pod in enumerate(snapshot.pods)}
        self._workloads = {(w.namespace, w.kind, w.name): w for w in snapshot.workloads}
        self._claims = _ClaimIndex(snapshot.infrastructure)
        self._groups: list[_Groups] = []
        self._members: dict[_Group, list[int]] = {}
        self._find_groups()

    def around(self, relevant: ClusterSnapshot) -> ClusterSnapshot:
        """Return the cluster with the pods of ``relevant`` and those that are coupled with them; without services."""
        snapshot, groups, places = self._snapshot, set[_Group](), set[int]()
        for pod in relevant.pods:
            place = self._place[pod.key]
            places.add(place)
            groups.update(self._groups[place])
        for group in groups:
            places.update(self._members[group])
        pods = tuple(snapshot.pods[place] for place in sorted(places))
        # A pod under two budgets makes both of them refuse drains: their other budgets as well.
        budgets = {g.place for place in places for g in self._groups[place] if g.kind == "budget"}
        return replace(
            relevant,
            pods=pods,
            workloads=tuple(self._owners_of(pods)),
            budgets=tuple(snapshot.budgets[place] for place in sorted(budgets)),
            infrastructure=self._claims.of(pods),
        )

    def _find_groups(self) -> None:
        snapshot = self._snapshot
        budgets = BudgetIndex(snapshot.budgets)
        deployments = deployments_of(snapshot.workloads)
        memo: dict[tuple[str, int, int], _Groups] = {}
        for place, pod in enumerate(snapshot.pods):
            # Pods of one template share their labels and owners.
            token = pod.namespace, id(pod.labels), id(pod.owner_references)
            groups = memo.get(token)
            if groups is None:
                found = [_Group("budget", "", "", number) for number in budgets.matching(pod)]
                groups = memo[token] = (*found, *_workload_group(pod, deployments))
            self._groups.append(groups)
            for group in groups:
                self._members.setdefault(group, []).append(place)

    def _owners_of(self, pods: Iterable[Pod]) -> Iterable[Workload]:
        """The owners of pods, and the owners of these."""
        found: dict[tuple[str, str, str], Workload] = {}
        wanted = {
            (pod.namespace, owner.kind, owner.name)
            for pod in {(p.namespace, id(p.owner_references)): p for p in pods}.values()
            if (owner := pod.controller()) is not None
        }
        while wanted:
            key = wanted.pop()
            workload = self._workloads.get(key)
            if workload is None or key in found:
                continue
            found[key] = workload
            owners = workload.owner_references
            wanted.update((key[0], one.kind, one.name) for one in owners if one.controller)
        return (found[key] for key in sorted(found))


class _ClaimIndex:
    """The volumes of pods."""

    def __init__(self, infrastructure: Infrastructure) -> None:
        self._all = infrastructure
        self._of_pod = {f"{one.namespace}/{one.name}": one for one in infrastructure.pod_claims}
        self._claims = {
            (one.namespace, one.name): one for one in infrastructure.persistent_volume_claims
        }
        self._volumes = {one.name: one for one in infrastructure.persistent_volumes}

    def of(self, pods: Iterable[Pod]) -> Infrastructure:
        """Return the infrastructure with the claims of these pods and their volumes alone."""
        pod_claims = [self._of_pod[pod.key] for pod in pods if pod.key in self._of_pod]
        names = {(one.namespace, name) for one in pod_claims for name in one.claims}
        claims = [self._claims[name] for name in sorted(names) if name in self._claims]
        volumes = {one.volume_name for one in claims}
        return replace(
            self._all,
            services=(),
            endpoint_slices=(),
            pod_claims=tuple(pod_claims),
            persistent_volume_claims=tuple(claims),
            persistent_volumes=tuple(
                self._volumes[name] for name in sorted(volumes) if name in self._volumes
            ),
        )


def _workload_group(pod: Pod, deployments: dict[tuple[str, str], str]) -> list[_Group]:
    owner = owner_name(pod)
    if not owner:
        return []
    workload = top_workload((pod.namespace, owner), deployments)
    return [_Group("workload", pod.namespace, workload)]
