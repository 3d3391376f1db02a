"""Pods that their owners do not count any more: they have ended, are on their way out, or are not wanted."""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import START_NS, make_event, ns
from msgspec.structs import replace
from worlds import cluster, comebacks, impact_of, pods_of, workload

from kubectl_evictplan.kube.infrastructure import Namespace
from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import Workload
from kubectl_evictplan.prediction.impact_document import Impact

TAINT = make_event(10, "taint", "a1", taint="maint:NoExecute")


def beside(kind: str, leftover: dict[str, Any], **owner: Any) -> Impact:
    """Of a workload of two on the tainted node, of which one is a leftover."""
    first, second = (replace(pod, needs=PodNeeds()) for pod in pods_of(kind, "web", ["a1", "a1"]))
    known = Workload(kind, "default", "web", **{"replicas": 1, "failed": 0, **owner})
    return impact_of(cluster([first, replace(second, **leftover)], workloads=[known]), TAINT)


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController", "Job"])
@pytest.mark.parametrize(
    "leftover",
    [
        {"phase": "Succeeded", "ready": "False"},
        {"phase": "Failed", "ready": "False"},
        {"deletion_timestamp_ns": START_NS + ns(40), "deletion_grace_period_seconds": 30},
    ],
)
def test_a_leftover_is_not_replaced_and_not_missed(kind: str, leftover: dict[str, Any]) -> None:
    impact = beside(kind, leftover)
    [fit] = impact.replacements
    assert fit.pods == 1
    found = workload(impact, f"{kind}/web")
    assert found.never_replaced == ()
    # One failure of a Job, not two: it waits ten seconds, not twenty.
    assert (found.whole_again.latest_seconds or 0) <= 10 + 10 + 21.25
    assert not comebacks(impact)


def test_a_job_that_waits_for_ends_still_replaces_a_pod_on_its_way_out() -> None:
    going = {"deletion_timestamp_ns": START_NS + ns(40), "deletion_grace_period_seconds": 30}
    [fit] = beside("Job", going, replaces_failed_pods_only=True).replacements
    assert fit.pods == 2


def test_a_job_that_makes_no_more_pods_does_not_miss_one() -> None:
    impact = beside("Job", {}, replicas=0, makes_no_more=True)
    assert not comebacks(impact)
    assert not [one.code for one in impact.findings if one.code.startswith("job-")]
    assert not impact.replacements


def test_what_nobody_wants_is_not_down() -> None:
    pods = pods_of("ReplicaSet", "web", ["a1"])
    owner = Workload("ReplicaSet", "default", "web", replicas=0)
    impact = impact_of(cluster(pods, workloads=[owner]), TAINT)
    assert workload(impact, "ReplicaSet/web").zero == ()
    assert "workload-down" not in {one.code for one in impact.findings}


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController", "StatefulSet", "Job"])
def test_an_owner_that_is_being_deleted_makes_no_other_pod(kind: str) -> None:
    impact = beside(kind, {}, replicas=2, being_deleted=True)
    assert {one.code for one in comebacks(impact).values()} == {"owner-deleted"}
    assert not impact.replacements
    assert workload(impact, f"{kind}/web").never_replaced == ("web-0", "web-1")
    assert not [one for one in impact.findings if "scale" in one.remedy]


def test_nothing_is_made_in_a_namespace_that_is_terminating() -> None:
    pods = [*pods_of("ReplicaSet", "web", ["a1"]), *pods_of("Operator", "own", ["a1"])]
    known = Workload("ReplicaSet", "default", "web", replicas=1)
    for phase, codes in (("Terminating", {"namespace-deleted"}), ("Active", {"unknown-owner"})):
        going = (Namespace("default", phase=phase),)
        impact = impact_of(cluster(pods, workloads=[known], namespaces=going), TAINT)
        assert {one.code for one in comebacks(impact).values()} == codes
        assert any("scale" in one.remedy for one in impact.findings) == (phase == "Active")
