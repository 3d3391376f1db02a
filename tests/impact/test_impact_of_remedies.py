"""Remedies are commands that help: what does not is not offered."""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import default_tolerations, make_event, make_pod
from msgspec.structs import replace
from worlds import cluster, finding, impact_of, pods_of

from kubectl_evictplan.impact.replacement_words import what_would_help
from kubectl_evictplan.kube.infrastructure import (
    Endpoint,
    EndpointSlice,
    PersistentVolumeClaim,
    PodClaims,
    Service,
)
from kubectl_evictplan.kube.needs import HONOR, PodNeeds, TopologySpreadConstraint
from kubectl_evictplan.kube.objects import IntOrPercent, Pod, PodDisruptionBudget, Workload
from kubectl_evictplan.prediction.impact_document import FilterCount, Impact

SILENT = make_event(10, "kubelet-stop", "a1")
ONCE = ("ReadWriteOnce",)


def remedy(replicas: int, **limits: Any) -> str:
    """What the finding ``budget-broken`` says of a budget over all pods of a ReplicaSet on a silent node."""
    pods = pods_of("ReplicaSet", "web", ["a1"] * replicas)
    budget = PodDisruptionBudget("default", "web", {"app": "web"}, **limits)
    owner = Workload("ReplicaSet", "default", "web", replicas=replicas)
    snapshot = cluster(pods, workloads=[owner], budgets=[budget])
    return finding(impact_of(snapshot, SILENT), "budget-broken").remedy


@pytest.mark.parametrize(
    "limits",
    [
        {"max_unavailable": IntOrPercent(0)},
        {"max_unavailable": IntOrPercent(1)},
        {"min_available": IntOrPercent(100, percent=True)},
    ],
)
def test_more_replicas_are_no_remedy_where_the_budget_wants_all_the_more(limits: Any) -> None:
    found = remedy(2, **limits)
    assert "scale" not in found
    assert found.endswith("kubectl -n default edit poddisruptionbudget/web")


@pytest.mark.parametrize(
    "limits",
    [
        {"min_available": IntOrPercent(2)},
        {"min_available": IntOrPercent(50, percent=True)},
        {"max_unavailable": IntOrPercent(50, percent=True)},
    ],
)
def test_more_replicas_are_a_remedy_where_the_budget_allows_one_more_then(limits: Any) -> None:
    found = remedy(
        3 if limits.get("min_available") == IntOrPercent(50, percent=True) else 2, **limits
    )
    assert "kubectl -n default scale replicaset/web --replicas=" in found


def with_claim(kind: str, claim: str) -> Impact:
    return impact_of(
        cluster(
            pods_of(kind, "db", ["a1"]),
            workloads=[Workload(kind, "default", "db", replicas=1)],
            pod_claims=(PodClaims("default", "db-0", (claim,)),),
            persistent_volume_claims=(
                PersistentVolumeClaim("default", claim, "pv", "Bound", ONCE),
            ),
        ),
        SILENT,
    )


def test_a_second_replica_is_no_remedy_for_a_volume_of_one_node() -> None:
    shared = finding(with_claim("ReplicaSet", "data"), "single-replica").remedy
    assert "--replicas" not in shared
    assert "ReadWriteMany" in shared
    # Each pod of a StatefulSet has a claim of its own, of its volumeClaimTemplates.
    own = finding(with_claim("StatefulSet", "data-db-0"), "single-replica").remedy
    assert own.endswith("scale statefulset/db --replicas=2")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"min_domains": 3}, "keep or add nodes in 3 domains"),
        ({"node_taints_policy": HONOR}, "add nodes to the domains with the fewest pods"),
        ({}, "set nodeTaintsPolicy: Honor"),
    ],
)
def test_what_helps_spread_pods_follows_from_their_constraint(
    fields: dict[str, Any], told: str
) -> None:
    [fit] = impact_of(cluster(pods_of("ReplicaSet", "web", ["a1"])), SILENT).replacements
    refused = replace(fit, because=(FilterCount("PodTopologySpread", 2),))
    needs = PodNeeds(topology_spread=(TopologySpreadConstraint("zone", **fields),))
    assert what_would_help(refused, needs).startswith(told)


def test_shorter_tolerations_are_no_remedy_for_whom_nobody_replaces() -> None:
    """A bare pod is gone, and a StatefulSet waits for an end that a silent kubelet never confirms."""

    def codes(*pods: Pod) -> set[str]:
        return {one.code for one in impact_of(cluster(pods), SILENT).findings}

    tolerations = default_tolerations(300)
    bare = make_pod("tool", "a1", tolerations=tolerations)
    [stateful] = pods_of("StatefulSet", "db", ["a1"], tolerations=tolerations)
    [web] = pods_of("ReplicaSet", "web", ["a1"], tolerations=tolerations)
    assert "slow-failover" not in codes(bare) | codes(stateful)
    assert "slow-failover" in codes(web)


def test_more_replicas_are_no_remedy_for_a_service_whose_endpoints_others_write() -> None:
    slices = EndpointSlice("default", "x", "web", "IPv4", (Endpoint("web-0", "a1"),))

    def down(**service: Any) -> str:
        listed = (Service("default", "web", **service),)
        pods = pods_of("ReplicaSet", "web", ["a1"])
        owner = Workload("ReplicaSet", "default", "web", replicas=1)
        known = cluster(pods, workloads=[owner], services=listed, endpoint_slices=(slices,))
        return finding(impact_of(known, SILENT), "service-down").remedy

    assert down().startswith("whoever manages its EndpointSlices")
    assert "kubectl -n default scale replicaset/web --replicas=2" in down(selector={"app": "web"})


def test_a_volume_that_is_still_to_be_made_needs_room_not_its_old_data() -> None:
    refused = replace(
        impact_of(cluster(pods_of("ReplicaSet", "web", ["a1"])), SILENT).replacements[0],
        because=(FilterCount("VolumeBinding", 2),),
    )
    assert "restore the data" in what_would_help(replace(refused, unknown=()))
    assert "storage has room" in what_would_help(replace(refused, unknown=("volumes",)))
