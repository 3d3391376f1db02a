"""Jobs that lose pods: who is replaced, after which back-off, and when the Job or an index of it fails."""

from __future__ import annotations

from typing import Any

import pytest
from building.builders import START_NS, make_event, ns
from msgspec.structs import replace
from worlds import cluster, comebacks, finding, impact_of, pods_of, workload

from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import FailureRule, Pod, Workload
from kubectl_evictplan.prediction.impact_document import Impact

TAINT = make_event(10, "taint", "a1", taint="maint=yes:NoExecute")
SILENT = make_event(10, "kubelet-stop", "a1")


def sums(**job: Any) -> Impact:
    """Of a Job with one pod on the tainted node."""
    owner = Workload("Job", "default", "sums", replicas=1, **{"failed": 0, **job})
    pods = pods_of("Job", "sums", ["a1"], grace_seconds=60)
    return impact_of(cluster(pods, workloads=[owner]), TAINT)


def whole(impact: Impact) -> tuple[float | None, float | None]:
    [spell] = workload(impact, "Job/sums").zero
    return spell.until.earliest_seconds, spell.until.latest_seconds


def test_a_job_waits_for_its_back_off_which_doubles_with_each_failure() -> None:
    assert whole(sums()) == (30, 41.25)
    assert whole(sums(failed=3)) == (30, 41.25 + 70)


def test_a_job_that_waits_for_ends_neither_fails_nor_goes_on_while_a_kubelet_is_silent() -> None:
    owner = Workload(
        "Job", "default", "sums", replicas=1, failed=0, backoff_limit=0, pod_failure_policy=True,
        failure_rules=(FailureRule("disruption", "FailJob"),),
    )  # fmt: skip
    impact = impact_of(cluster(pods_of("Job", "sums", ["a1"]), workloads=[owner]), SILENT)
    assert comebacks(impact)["sums-0"].code == "job-waits"
    assert "anew" not in finding(impact, "job-waits").remedy


@pytest.mark.parametrize(
    "job",
    [
        {"backoff_limit": 0},
        {"backoff_limit": 3, "failed": 3},
        {"backoff_limit_per_index": 0},
        {"pod_failure_policy": True, "failure_rules": (FailureRule("disruption", "FailJob"),)},
    ],
)
def test_a_job_without_an_attempt_left_fails(job: dict[str, Any]) -> None:
    impact = sums(**job)
    assert comebacks(impact)["sums-0"].code == "job-failed"
    assert finding(impact, "job-fails").severity == "medium"
    assert whole(impact) == (None, None)


def test_nobody_looks_for_a_place_for_pods_of_a_job_that_surely_fails() -> None:
    for limit, groups in ((1, 0), (2, 1)):
        owner = Workload("Job", "default", "sums", replicas=3, failed=0, backoff_limit=limit)
        pods = [
            replace(pod, needs=PodNeeds()) for pod in pods_of("Job", "sums", ["a1", "a1", "a2"])
        ]
        impact = impact_of(cluster(pods, workloads=[owner]), TAINT)
        assert len(impact.replacements) == groups


def test_a_job_that_ignores_disruptions_replaces_the_pod_whatever_its_limit() -> None:
    rules = (FailureRule("disruption", "Ignore"), FailureRule("exitCodes", "FailJob"))
    policy = {"pod_failure_policy": True, "failure_rules": rules, "replaces_failed_pods_only": True}
    earliest, latest = whole(sums(backoff_limit=0, **policy))
    assert (earliest, latest) != (None, None)
    assert latest > 70


def test_what_exit_codes_would_decide_first_is_not_known() -> None:
    rules = (FailureRule("exitCodes", "FailJob"), FailureRule("disruption", "Ignore"))
    assert whole(sums(pod_failure_policy=True, failure_rules=rules))[1] is None


def test_a_job_that_is_not_in_the_input_may_not_replace_its_pod() -> None:
    assert whole(impact_of(cluster(pods_of("Job", "sums", ["a1"])), TAINT)) == (30, None)


def test_a_job_that_replaces_failed_pods_only_waits_for_the_end() -> None:
    assert whole(sums(replaces_failed_pods_only=True))[1] > 100


def indexed(*failures: int, **job: Any) -> Impact:
    """Of an indexed Job, one pod for each index, which has failed so often before."""
    owner = Workload("Job", "default", "sums", replicas=len(failures), **{"failed": 0, **job})
    pods = [
        replace(pod, index_failures=before)
        for pod, before in zip(
            pods_of("Job", "sums", ["a1"] * len(failures)), failures, strict=True
        )
    ]
    return impact_of(cluster(pods, workloads=[owner]), TAINT)


def test_an_index_that_has_reached_its_own_limit_is_not_tried_again_the_others_are() -> None:
    impact = indexed(0, 2, backoff_limit_per_index=2)
    assert {name: one.code for name, one in comebacks(impact).items()} == {"sums-1": "job-failed"}
    assert workload(impact, "Job/sums").steps[-1].least == 1


def test_each_index_waits_for_its_own_back_off() -> None:
    # 10 s after its first failure, whatever others do; 40 s after its third.
    for before, latest in ((0, 30 + 11.25), (2, 60 + 11.25)):
        impact = indexed(before, backoff_limit_per_index=5, failed=7)
        assert whole(impact) == (30, latest)


def test_too_many_failed_indexes_may_end_the_whole_job() -> None:
    limits = {"backoff_limit_per_index": 1, "max_failed_indexes": 1}
    assert workload(indexed(0, 1, **limits), "Job/sums").steps[-1].least == 1
    assert workload(indexed(0, 1, failed_indexes=1, **limits), "Job/sums").steps[-1].least == 0


def test_what_becomes_of_a_job_that_another_controller_manages_is_not_known() -> None:
    impact = sums(managed_elsewhere=True)
    assert comebacks(impact)["sums-0"].code == "unknown-owner"
    assert whole(impact) == (30, None)


def spread(**job: Any) -> Impact:
    """Of an indexed Job with a pod on the tainted node and two elsewhere."""
    owner = Workload("Job", "default", "sums", replicas=3, **{"failed": 0, **job})
    return impact_of(cluster(pods_of("Job", "sums", ["a1", "a2", "b1"]), workloads=[owner]), TAINT)


FAIL_JOB = {"pod_failure_policy": True, "failure_rules": (FailureRule("disruption", "FailJob"),)}


@pytest.mark.parametrize(
    "job",
    [
        {"backoff_limit": 0},
        {"backoff_limit": 3, "failed": 3},
        {"backoff_limit_per_index": 0, "max_failed_indexes": 0},
        FAIL_JOB,
    ],
)
def test_a_job_that_fails_ends_all_its_other_pods(job: dict[str, Any]) -> None:
    found = workload(spread(**job), "Job/sums")
    assert (found.fewest_ready.least, found.fewest_ready.most) == (0, 0)
    assert found.whole_again.latest_seconds is None
    # Nobody evicts the others.
    assert found.never_replaced == ("sums-0",)


def test_a_job_of_which_only_an_index_fails_goes_on_and_is_to_be_kept() -> None:
    impact = spread(backoff_limit_per_index=0)
    assert workload(impact, "Job/sums").fewest_ready.least == 2
    assert "keep the Job" in comebacks(impact)["sums-0"].release


def test_a_job_of_which_it_is_not_known_how_often_it_failed_perhaps_ends_all() -> None:
    found = workload(spread(backoff_limit=1, failed=None), "Job/sums")
    assert (found.fewest_ready.least, found.fewest_ready.most) == (2, 2)
    two = Workload("Job", "default", "sums", replicas=3, failed=None, backoff_limit=1)
    pods = pods_of("Job", "sums", ["a1", "a1", "b1"])
    found = workload(impact_of(cluster(pods, workloads=[two]), TAINT), "Job/sums")
    assert (found.fewest_ready.least, found.fewest_ready.most) == (0, 1)


def test_a_job_whose_deadline_comes_before_the_deletion_ends_then_and_makes_no_other() -> None:
    impact = spread(deadline_ns=START_NS + ns(5))
    found = workload(impact, "Job/sums")
    assert (found.fewest_ready.least, found.fewest_ready.most) == (0, 0)
    assert "activeDeadlineSeconds" in comebacks(impact)["sums-0"].why
    # Within the back-off it is not certain which comes first; one much later changes nothing.
    assert workload(spread(deadline_ns=START_NS + ns(12)), "Job/sums").fewest_ready.least == 0
    assert workload(spread(deadline_ns=START_NS + ns(3600)), "Job/sums").fewest_ready.least == 2


def test_a_pod_is_perhaps_away_from_its_own_deadline_on() -> None:
    owner = Workload("Job", "default", "sums", replicas=1, failed=0)
    [pod] = pods_of("Job", "sums", ["a1"])

    def first_away(pod: Pod) -> float:
        impact = impact_of(cluster([pod], workloads=[owner]), SILENT)
        return min(step.at_seconds for step in workload(impact, "Job/sums").steps if not step.least)

    # Its node is given up 40 seconds and more after the last heartbeat.
    assert first_away(pod) > 40
    assert first_away(replace(pod, deadline_ns=START_NS + ns(20))) == 20
    assert first_away(replace(pod, deadline_ns=START_NS + ns(9000))) > 40
