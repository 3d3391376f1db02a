"""Which workloads lose pods: for people, ReplicaSets are revisions of a Deployment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.prediction.document import Eviction, WorkloadReport
from kubectl_evictplan.prediction.evictions import owner_name

# ``ComputeHash`` of a pod template: decimal digits after ``rand.SafeEncodeString``.
_TEMPLATE_HASH = re.compile(r"-[4-9bcdf]{6,10}$")


def workload_reports(
    snapshot: ClusterSnapshot, evictions: Iterable[Eviction], created: Iterable[Pod]
) -> tuple[WorkloadReport, ...]:
    """Return the workloads of evicted pods, sorted; bare pods have none.

    ``created`` are pods that the scenario adds; those of the snapshot may be among them.
    """
    hit = {(eviction.namespace, eviction.owner) for eviction in evictions if eviction.owner}
    pods = {pod.key: pod for pod in (*snapshot.pods, *created)} if hit else {}
    deployments = {
        (workload.namespace, f"{workload.kind}/{workload.name}"): f"{owner.kind}/{owner.name}"
        for workload in (snapshot.workloads if hit else ())
        for owner in workload.owner_references
        if owner.controller
    }
    numbers = Counter((pod.namespace, owner_name(pod)) for pod in pods.values())
    owners: dict[tuple[str, str], list[str]] = {}
    wanted = {(key[0], _workload(key, deployments)) for key in hit}
    for key in numbers:
        workload = key[0], _workload(key, deployments)
        if workload in wanted:
            owners.setdefault(workload, []).append(key[1])
    return tuple(
        WorkloadReport(
            namespace, workload, tuple(sorted(names)), sum(numbers[namespace, n] for n in names)
        )
        for (namespace, workload), names in sorted(owners.items())
    )


def _workload(owner: tuple[str, str], deployments: dict[tuple[str, str], str]) -> str:
    """Return what owns the owner, where the input or the name of a ReplicaSet tells it."""
    known = deployments.get(owner)
    if known is not None:
        return known
    kind, _, name = owner[1].partition("/")
    base = _TEMPLATE_HASH.sub("", name)
    return f"Deployment/{base}" if kind == "ReplicaSet" and base != name else owner[1]
