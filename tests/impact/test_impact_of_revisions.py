"""StatefulSets between two revisions: a pod may be made anew from another template than the one that goes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from building.builders import make_event, make_node, ns
from drawn.drain_worlds import CONFIGURATION, App, drain, drained_cluster, drains
from msgspec.structs import replace
from worlds import cluster, impact_of, pods_of, workload

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Revisions, Workload
from kubectl_evictplan.kube.pod_requests import ContainerRequests
from kubectl_evictplan.prediction.predict import predict

TAINT = make_event(10, "taint", "a1", taint="maint:NoExecute")
SMALL, LARGE = PodNeeds((("cpu", 100),)), PodNeeds((("cpu", 9000),))
ON_DELETE, ROLLING = Revisions("old", "new", 0), Revisions("old", "new", 1)


def labelled(pods: Iterable[Pod], *revisions: str) -> list[Pod]:
    """With the needs of their revisions: what is new needs more than any node has."""
    return [
        replace(
            pod,
            labels={**pod.labels, "controller-revision-hash": revision},
            needs=LARGE if revision == "new" else SMALL,
        )
        for pod, revision in zip(pods, revisions, strict=True)
    ]


def impact_on(revisions: Revisions, *of_pods: str) -> tuple[str, tuple[str, ...], int | None]:
    """Of db-0 on a tainted node, beside db-1: the verdict, what is not known, and how many are there at least in the end."""
    nodes = [replace(make_node(n), allocatable={"cpu": 1000, "pods": 9}) for n in ("a1", "b1")]
    owner = Workload("StatefulSet", "default", "db", replicas=2, revisions=revisions)
    pods = labelled(pods_of("StatefulSet", "db", ["a1", "b1"]), *of_pods)
    impact = impact_of(cluster(pods, workloads=[owner], nodes=nodes), TAINT)
    [fit] = impact.replacements
    return fit.verdict, fit.unknown, workload(impact, "StatefulSet/db").steps[-1].least


def test_a_pod_that_is_made_of_its_own_revision_fits_as_it_did() -> None:
    assert impact_on(ROLLING, "old", "old") == ("fits", (), 2)


def test_a_pod_that_is_made_of_a_revision_that_a_sibling_has_needs_what_that_one_needs() -> None:
    assert impact_on(ON_DELETE, "old", "new") == ("nowhere", (), 1)
    assert impact_on(ROLLING, "new", "old") == ("fits", (), 2)


@pytest.mark.parametrize("revisions", [ON_DELETE, Revisions("old", "new", None)])
def test_whether_a_pod_fits_that_is_made_of_a_revision_that_no_pod_has_is_not_known(
    revisions: Revisions,
) -> None:
    assert impact_on(revisions, "old", "old") == ("unknown", ("revision",), 1)


def drained(revisions: Revisions) -> ClusterSnapshot:
    made = drained_cluster(App("db", ["a1", "b1"], "StatefulSet", most=1))
    [owner] = made.workloads
    template = (ContainerRequests("db", (("cpu", 9000),)),)
    return replace(
        made,
        pods=tuple(labelled(made.pods, "old", "old")),
        workloads=(replace(owner, revisions=revisions, template=template),),
    )


@pytest.mark.parametrize(
    ("revisions", "end"), [(Revisions("old", "new", 2), "drained"), (ON_DELETE, None)]
)
def test_no_end_of_a_drain_is_certain_that_waits_for_a_pod_of_an_unknown_revision(
    revisions: Revisions, end: str | None
) -> None:
    scenario, ready = drains(drain("a1", "b1")), (ns(3), ns(3))
    found = predict(drained(revisions), scenario, CONFIGURATION, assume_ready=ready)
    assert [one.end_reason for one in found.drains] == ["drained", end]


@pytest.mark.parametrize(
    ("revisions", "unknown", "least"), [(ROLLING, (), 1), (ON_DELETE, ("otherPods",), 0)]
)
def test_nobody_is_sure_of_a_place_beside_a_pod_of_an_unknown_revision(
    revisions: Revisions, unknown: tuple[str, ...], least: int
) -> None:
    nodes = [replace(make_node(n), allocatable={"cpu": 1000, "pods": 9}) for n in ("a1", "b1")]
    owner = Workload("StatefulSet", "default", "db", replicas=1, revisions=revisions)
    free = [replace(one, needs=SMALL) for one in pods_of("ReplicaSet", "free", ["a1"])]
    pods = [*labelled(pods_of("StatefulSet", "db", ["a1"]), "old"), *free]
    impact = impact_of(cluster(pods, workloads=[owner], nodes=nodes), TAINT)
    told = {one.workload: one.unknown for one in impact.replacements}
    assert told["ReplicaSet/free"] == unknown
    assert workload(impact, "ReplicaSet/free").steps[-1].least == least
