"""What rows tell of the impact is computed from a part of the cluster, and is what the whole impact tells.

Clusters are drawn: services by selector and by slices, overlapping budgets, workloads with and without replicas,
claims that move, wait and stay.
"""

from __future__ import annotations

import random

import pytest
from building.builders import default_tolerations, make_node, make_pod, make_snapshot
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.impact.assess import assess_impact
from kubectl_evictplan.impact.coupled import CoupledPods
from kubectl_evictplan.kube.infrastructure import (
    Endpoint,
    EndpointSlice,
    Infrastructure,
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
    Service,
)
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    IntOrPercent,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    Workload,
)
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.sweeps.failures import NODE, Failing, Failure, costs_of

NODES = [f"n{number}" for number in range(6)]
NAMESPACES = ("shop", "data")
KINDS = ("ReplicaSet", "StatefulSet", "Job", "")
LEAST = (IntOrPercent(1), IntOrPercent(2), IntOrPercent(60, percent=True))
LABELS = ({"app": "web"}, {"app": "web", "tier": "x"}, {"app": "db", "tier": "x"}, {"tier": "y"})


def drawn_pods(draw: random.Random) -> list[Pod]:
    pods = []
    for number in range(10):
        namespace, kind = draw.choice(NAMESPACES), draw.choice(KINDS)
        labels = draw.choice(LABELS)
        owner = OwnerReference(kind, f"w{number}", f"u{number}", controller=True) if kind else ""
        pods += [
            make_pod(
                f"w{number}-{replica}",
                draw.choice(NODES),
                namespace=namespace,
                tolerations=default_tolerations(draw.choice((30, 300))),
                owner=owner,
                labels=labels,
                ready=draw.choice(("True", "True", "True", "False")),
            )
            for replica in range(draw.choice((1, 1, 2, 4)))
        ]
    return pods


def drawn_infrastructure(draw: random.Random, pods: list[Pod]) -> Infrastructure:
    services = tuple(
        Service(
            namespace,
            name,
            draw.choice(({"app": "web"}, {"tier": "x"}, {"tier": "y"}, None)),
            publish_not_ready_addresses=draw.random() < 0.3,
        )
        for namespace in NAMESPACES
        for name in ("one", "two", "three")
    )
    slices = tuple(
        EndpointSlice(
            service.namespace,
            f"{service.name}-s",
            service.name,
            endpoints=tuple(
                Endpoint(
                    draw.choice((pod.name, pod.name, "")), ready=draw.choice((None, True, False))
                )
                for pod in draw.sample(pods, 3)
                if pod.namespace == service.namespace
            ),
        )
        for service in services
        if draw.random() < 0.4
    )
    claims = draw.sample(pods, 5)
    return Infrastructure(
        services=services if draw.random() < 0.8 else (),
        endpoint_slices=slices if draw.random() < 0.8 else (),
        persistent_volumes=tuple(
            PersistentVolume(f"v-{pod.name}", access_modes=("ReadWriteOnce",), local=number == 0)
            for number, pod in enumerate(claims)
        ),
        persistent_volume_claims=tuple(
            PersistentVolumeClaim(pod.namespace, f"c-{pod.name}", f"v-{pod.name}") for pod in claims
        ),
        pod_claims=tuple(PodClaims(pod.namespace, pod.name, (f"c-{pod.name}",)) for pod in claims),
    )


def drawn_cluster(seed: int) -> ClusterSnapshot:
    draw = random.Random(seed)
    pods = drawn_pods(draw)
    budgets = [
        PodDisruptionBudget(namespace, f"b{number}", labels, min_available=draw.choice(LEAST))
        for namespace in NAMESPACES
        for number, labels in enumerate(({"app": "web"}, {"tier": "x"}, {"app": "db"}))
    ]
    owners = {pod.controller(): pod.namespace for pod in pods if pod.controller() is not None}
    workloads = [
        Workload(owner.kind, namespace, owner.name, owner.uid, draw.choice((1, 2, 4)))
        for owner, namespace in owners.items()
        if owner is not None and draw.random() < 0.7
    ]
    infrastructure = drawn_infrastructure(draw, pods)
    kinds = (
        "Node",
        "Pod",
        "PodDisruptionBudget",
        *(("Service",) if infrastructure.services else ()),
    )
    cluster = make_snapshot([make_node(name, zone="z") for name in NODES], pods)
    return replace(
        cluster,
        budgets=tuple(sorted(budgets, key=lambda one: (one.namespace, one.name))),
        workloads=tuple(sorted(workloads, key=lambda one: (one.namespace, one.kind, one.name))),
        infrastructure=infrastructure,
        kinds_seen=kinds,
    )


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(s, marks=pytest.mark.slow) for s in range(4, 60))]
)
def test_costs_are_those_of_the_whole_impact(seed: int) -> None:
    snapshot = drawn_cluster(seed)
    configuration = resolve_configuration(
        ControllerSettings("1.31", None, {}), snapshot.control_plane
    )
    failing = Failing(snapshot, configuration, snapshot.taken_at_ns)
    told = 0
    for name in NODES:
        failure = Failure(NODE, name, (name,))
        prediction = failing.predicted(failure)
        impact = assess_impact(snapshot, failing.scenario(failure), configuration, prediction)
        told_of_all = costs_of(impact, snapshot)
        for whole in (False, True):
            found = failing._costs(failure, prediction, whole=whole)
            assert dict(found.nobody_ready) == {
                key: spells for key, spells in told_of_all.nobody_ready.items() if spells
            }
            assert found.broken == told_of_all.broken
            assert found.not_coming_back == told_of_all.not_coming_back
            assert found.placement_asked == whole
            told += len(found.nobody_ready) + len(found.broken)
    assert told


def test_only_pods_that_share_a_workload_or_a_budget_are_kept() -> None:
    snapshot = make_snapshot(
        [make_node("n1"), make_node("n2")],
        [
            make_pod("a-1", "n1", owner=OwnerReference("ReplicaSet", "a", controller=True)),
            make_pod("a-2", "n2", owner=OwnerReference("ReplicaSet", "a", controller=True)),
            make_pod("b-1", "n2", owner=OwnerReference("ReplicaSet", "b", controller=True)),
            make_pod("c-1", "n2", labels={"app": "c"}),
            make_pod("c-2", "n1", labels={"app": "c"}),
        ],
    )
    snapshot = replace(snapshot, budgets=(PodDisruptionBudget("default", "c", {"app": "c"}),))
    first = tuple(pod for pod in snapshot.pods if pod.name in ("a-1", "c-2"))

    part = CoupledPods(snapshot).around(replace(snapshot, pods=first))

    assert [pod.name for pod in part.pods] == ["a-1", "a-2", "c-1", "c-2"]
