"""Warnings about ends of pods that are in no list of evictions."""

from __future__ import annotations

import pytest
from building.builders import START_NS, make_pod, make_snapshot, ns, tolerates
from building.warning_runs import TAINT, warn
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import ClusterSnapshot, FailureRule, Workload

KEPT = (tolerates("maint"),)


def job_cluster(**job: object) -> ClusterSnapshot:
    """A Job with a pod that goes, and one on the same node that is kept."""
    pods = [
        make_pod("sums-0", "n1", owner="Job/sums"),
        make_pod("sums-1", "n1", owner="Job/sums", tolerations=KEPT),
    ]
    owner = Workload("Job", "default", "sums", replicas=2, **job)  # type: ignore[arg-type]
    return replace(make_snapshot(["n1"], pods), workloads=(owner,))


def said(snapshot: ClusterSnapshot, code: str) -> list[tuple[str, tuple[str, ...]]]:
    found = warn([], events=[TAINT], snapshot=snapshot)
    return [(one.message, one.objects) for one in found if one.code == code]


@pytest.mark.parametrize(
    "job",
    [
        {"backoff_limit": 0, "failed": 0},
        {"failed": 6},
        {"failed": 0, "failure_rules": (FailureRule("disruption", "FailJob"),)},
        {"backoff_limit_per_index": 0, "max_failed_indexes": 0, "failed": 0},
    ],
)
def test_a_job_that_may_fail_by_its_losses_deletes_pods_that_are_kept_too(
    job: dict[str, object],
) -> None:
    [(message, objects)] = said(job_cluster(**job), "job-deletes-its-pods")
    assert message.startswith("Job default/sums may fail by the pods that it loses")
    assert objects == ("default/sums-0", "default/sums-1")


@pytest.mark.parametrize(
    "job",
    [
        {"failed": 0},
        {"backoff_limit": 0, "failed": 0, "managed_elsewhere": True},
        {
            "backoff_limit": 0,
            "failed": 0,
            "failure_rules": (FailureRule("disruption", "Ignore"),),
        },
    ],
    ids=["attempts left", "managed elsewhere", "disruptions ignored"],
)
def test_a_job_that_goes_on_deletes_nothing(job: dict[str, object]) -> None:
    assert said(job_cluster(**job), "job-deletes-its-pods") == []


def test_a_job_deletes_its_pods_at_its_deadline_within_the_horizon() -> None:
    soon, late = (
        job_cluster(failed=0, deadline_ns=START_NS + ns(seconds)) for seconds in (90, 100_000)
    )
    [(message, objects)] = said(soon, "job-deletes-its-pods")
    assert "past its activeDeadlineSeconds at +1m30s" in message
    assert len(objects) == 2
    assert said(late, "job-deletes-its-pods") == []


@pytest.mark.parametrize(
    ("deadline_seconds", "tolerations", "told"),
    [(90, KEPT, True), (-5, KEPT, True), (90, (), False), (5, (), True), (100_000, KEPT, False)],
    ids=["kept", "over already", "gone before", "before it goes", "beyond the horizon"],
)
def test_a_pod_that_its_kubelet_ends_at_its_own_deadline_is_told(
    deadline_seconds: float, tolerations: tuple[object, ...], told: bool
) -> None:
    pod = make_pod("p", "n1", tolerations=tolerations)
    pod = replace(pod, deadline_ns=START_NS + ns(deadline_seconds))
    found = said(make_snapshot(["n1"], [pod]), "pod-past-its-deadline")
    assert [objects for _, objects in found] == ([("default/p",)] if told else [])
