"""Which workloads lose pods: the totals behind "7 of 9 pods"."""

from __future__ import annotations

import pytest
from building.builders import make_pod, make_snapshot
from msgspec.structs import replace
from report.builders import eviction

from kubectl_evictplan.kube.objects import OwnerReference, Pod, Workload
from kubectl_evictplan.prediction.document import WorkloadReport
from kubectl_evictplan.prediction.grouped_evictions import Evictions
from kubectl_evictplan.prediction.workloads import OwnerNames, WorkloadIndex


def owned(name: str, kind: str, owner: str) -> Pod:
    reference = OwnerReference(kind, owner, controller=True)
    return replace(make_pod(name, "n1"), owner_references=(reference,))


def reports(pods: list[Pod], *workloads: Workload, owner: str) -> tuple[WorkloadReport, ...]:
    snapshot = replace(make_snapshot(["n1"], pods), workloads=workloads)
    return WorkloadIndex(snapshot, OwnerNames()).reports(Evictions.of([eviction(owner=owner)]), ())


def test_every_pod_of_the_workload_counts_evicted_or_not() -> None:
    pods = [owned("db-0", "StatefulSet", "db"), owned("db-1", "StatefulSet", "db")]
    found = reports([*pods, make_pod("bare", "n1")], owner="StatefulSet/db")
    assert found == (WorkloadReport("default", "StatefulSet/db", ("StatefulSet/db",), 2),)


def test_bare_pods_have_no_workload() -> None:
    assert reports([make_pod("bare", "n1")], owner="") == ()


@pytest.mark.parametrize(
    ("replica_set", "workload"),
    [
        ("web-67f69fd496", "Deployment/web"),
        ("my-db", "ReplicaSet/my-db"),
        ("web-0f1", "ReplicaSet/web-0f1"),
    ],
)
def test_the_hash_in_a_name_tells_the_deployment(replica_set: str, workload: str) -> None:
    pods = [owned("a", "ReplicaSet", replica_set)]
    (found,) = reports(pods, owner=f"ReplicaSet/{replica_set}")
    assert found.workload == workload


def test_the_replica_sets_of_a_deployment_count_together() -> None:
    pods = [owned("a", "ReplicaSet", "web-1"), owned("b", "ReplicaSet", "web-2")]
    owners = (OwnerReference("Deployment", "web", controller=True),)
    sets = [
        Workload("ReplicaSet", "default", n, owner_references=owners) for n in ("web-1", "web-2")
    ]
    found = reports(pods, *sets, owner="ReplicaSet/web-1")
    both = ("ReplicaSet/web-1", "ReplicaSet/web-2")
    assert found == (WorkloadReport("default", "Deployment/web", both, 2),)


def test_pods_of_an_owner_count_wherever_they_stand_among_others() -> None:
    names = [("a", "web"), ("b", "other"), ("c", "web"), ("d", "web")]
    pods = [owned(name, "StatefulSet", owner) for name, owner in names]
    (found,) = reports(pods, owner="StatefulSet/web")
    assert found.pods == 3


def test_pods_of_owners_that_share_a_list_count_by_namespace() -> None:
    pod = owned("a", "StatefulSet", "web")
    pods = [pod, replace(pod, name="b"), replace(pod, namespace="other")]
    (found,) = reports(pods, owner="StatefulSet/web")
    assert found == WorkloadReport("default", "StatefulSet/web", ("StatefulSet/web",), 2)
