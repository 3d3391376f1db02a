"""Whose pods they are: the owners of pods, and the workloads above them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache

from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Workload
from kubectl_evictplan.prediction import document
from kubectl_evictplan.prediction.grouped_evictions import Evictions, PodNames

# ``ComputeHash`` of a pod template: decimal digits after ``rand.SafeEncodeString``.
_TEMPLATE_HASH = re.compile(r"-[4-9bcdf]{6,10}$")


def owner_name(pod: Pod | None) -> str:
    """``Kind/name`` of the managing owner; "" for a bare pod."""
    controller = pod.controller() if pod is not None else None
    return f"{controller.kind}/{controller.name}" if controller is not None else ""


class OwnerNames:
    """``owner_name`` of many pods that live on. Loaders share equal owners, so few are looked at."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def of(self, pod: Pod) -> str:
        """The ``owner_name`` of one of them."""
        owner = self._known.get(id(pod.owner_references))
        if owner is None:
            owner = self._known[id(pod.owner_references)] = owner_name(pod)
        return owner

    def names(self, pods: Iterable[Pod]) -> list[PodNames]:
        """The names of each of them."""
        known, of = self._known, self.of
        return [
            PodNames(
                pod.namespace,
                pod.name,
                pod.uid,
                known.get(id(pod.owner_references)) or of(pod),
                pod,
            )
            for pod in pods
        ]


class WorkloadIndex:
    """Every workload of a cluster with its owners of pods, and how many pods each of them has.

    ReplicaSets are revisions of a Deployment.
    """

    def __init__(self, snapshot: ClusterSnapshot, owners: OwnerNames) -> None:
        self._pods = snapshot.pods
        self._deployments = deployments_of(snapshot.workloads)
        self._numbers = _numbers_of_pods(snapshot, owners)
        self._by_name = self._by_workload(self._numbers)

    def reports(
        self, evictions: Evictions, created: Iterable[Pod]
    ) -> tuple[document.WorkloadReport, ...]:
        """Return the workloads of evicted pods, sorted; bare pods have none.

        ``created`` are pods that the scenario adds; those of the snapshot may be among them.
        """
        # A node owns the images of its static pods: no workload.
        hit = {key for key in evictions.owners if key[1] and not key[1].startswith("Node/")}
        numbers, owners = self._numbers, self._by_name
        new = {pod.key: pod for pod in created}
        if new and (new := {key: pod for key, pod in new.items() if key not in self._keys}):
            numbers = numbers + Counter((pod.namespace, owner_name(pod)) for pod in new.values())
            owners = self._by_workload(numbers)
        wanted = {(key[0], top_workload(key, self._deployments)) for key in hit}
        return tuple(
            document.WorkloadReport(
                namespace, workload, tuple(sorted(names)), sum(numbers[namespace, n] for n in names)
            )
            for namespace, workload in sorted(wanted & owners.keys())
            for names in (owners[namespace, workload],)
        )

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(pod.key for pod in self._pods)

    def _by_workload(self, numbers: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
        owners: dict[tuple[str, str], list[str]] = {}
        for key in numbers:
            workload = key[0], top_workload(key, self._deployments)
            owners.setdefault(workload, []).append(key[1])
        return owners


def _numbers_of_pods(snapshot: ClusterSnapshot, owners: OwnerNames) -> Counter[tuple[str, str]]:
    """How many pods each (namespace, owner) has."""
    numbers: Counter[tuple[str, str]] = Counter()
    for stretch in snapshot.stretches:
        pod = snapshot.pods[stretch.start]
        numbers[pod.namespace, owners.of(pod)] += stretch.stop - stretch.start
    return numbers


def deployments_of(workloads: Iterable[Workload]) -> dict[tuple[str, str], str]:
    """What owns an owner of pods: by (namespace, "Kind/name") the "Kind/name" above it."""
    return {
        (workload.namespace, f"{workload.kind}/{workload.name}"): f"{owner.kind}/{owner.name}"
        for workload in workloads
        for owner in workload.owner_references
        if owner.controller
    }


def top_workload(owner: tuple[str, str], deployments: dict[tuple[str, str], str]) -> str:
    """Return what owns the owner, where the input or the name of a ReplicaSet tells it."""
    known = deployments.get(owner)
    if known is not None:
        return known
    return _by_name(owner[1])


@lru_cache(
    maxsize=100_000
)  # asked of every owner of the cluster, for the workloads that are hit and for the impact
def _by_name(owner: str) -> str:
    kind, _, name = owner.partition("/")
    base = _TEMPLATE_HASH.sub("", name)
    return f"Deployment/{base}" if kind == "ReplicaSet" and base != name else owner
