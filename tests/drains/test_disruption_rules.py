"""What budgets allow: the disruption controller's sums, and the Eviction API's decision."""

from __future__ import annotations

import pytest
from building.builders import START_NS, make_pod, ns
from drawn.drain_worlds import App, make_budget
from msgspec.structs import replace

from kubectl_evictplan.controllers.disruption import OwnerScales
from kubectl_evictplan.kube.disruption import (
    Answer,
    EvictionRules,
    answer_eviction,
    decremented,
    scaled_value,
    synced_status,
)
from kubectl_evictplan.kube.objects import IntOrPercent, Pod, PodDisruptionBudget, Workload


def synced(
    budget: PodDisruptionBudget, pods: list[Pod], workloads: list[Workload], at: float = 0
) -> PodDisruptionBudget:
    return synced_status(budget, pods, OwnerScales(workloads).scale, START_NS + ns(at))


def status_of(app: App) -> tuple[int | None, ...]:
    """(disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods)."""
    found = synced(app.budgets()[0], app.pods(), app.workloads())
    return (
        found.disruptions_allowed,
        found.current_healthy,
        found.desired_healthy,
        found.expected_pods,
    )


@pytest.mark.parametrize(
    ("percent", "total", "pods"), [(30, 4, 2), (50, 3, 2), (0, 7, 0), (100, 7, 7), (1, 3, 1)]
)
def test_percentages_are_rounded_up(percent: int, total: int, pods: int) -> None:
    assert scaled_value(IntOrPercent(percent, percent=True), total) == pods


@pytest.mark.parametrize(
    ("app", "status"),
    [
        (App("web", ["a"] * 3, least=2), (1, 3, 2, 3)),
        (App("web", ["a"] * 4, most="30%"), (2, 4, 2, 4)),
        (App("web", ["a"] * 3, least="50%"), (1, 3, 2, 3)),
        (App("web", ["a"] * 3, most=5), (3, 3, 0, 3)),
        (App("web", ["a"] * 3, least="100%"), (0, 3, 3, 3)),
        (App("web", ["a"] * 3, most=1, unready=[0]), (0, 2, 2, 3)),
        # Bare pods have no owner with a scale: only a number that must be available works.
        (App("web", ["a"] * 3, kind="", most=1), (0, 3, 0, 0)),
        (App("web", ["a"] * 3, kind="", least="50%"), (0, 3, 0, 0)),
        (App("web", ["a"] * 3, kind="", least=2), (1, 3, 2, 3)),
    ],
)
def test_a_budget_allows_what_is_healthy_beyond_what_is_wanted(
    app: App, status: tuple[int, ...]
) -> None:
    assert status_of(app) == status


def test_a_replica_sets_pods_count_by_the_scale_of_its_deployment() -> None:
    pods = App("web-1", ["a"] * 2).pods()
    [replica_set] = App("web-1", ["a"] * 2).workloads()
    above = make_pod("x", owner="Deployment/web").owner_references
    workloads = [
        replace(replica_set, owner_references=above),
        Workload("Deployment", "default", "web", "uid-web", 10),
    ]
    budget = make_budget("web-1", most=1)
    assert synced(budget, pods, workloads).expected_pods == 10


@pytest.mark.parametrize("kind", ["Job", "DaemonSet"])
def test_owners_without_a_scale_fail_the_sync_and_allow_nothing(kind: str) -> None:
    app = App("web", ["a"] * 3, kind=kind, most=1)
    before = replace(app.budgets()[0], disruptions_allowed=2, expected_pods=3)
    found = synced(before, app.pods(), app.workloads())
    assert (found.disruptions_allowed, found.expected_pods) == (0, 3)


def test_an_owner_that_is_not_known_leaves_what_is_expected_as_it_was() -> None:
    app = App("web", ["a"] * 3, kind="Rollout", most=1, unready=[1])
    known = replace(app.budgets()[0], expected_pods=3, desired_healthy=2)
    assert synced(known, app.pods(), []).disruptions_allowed == 0
    assert synced(app.budgets()[0], app.pods(), []).disruptions_allowed is None


def test_terminating_pods_are_expected_but_not_healthy() -> None:
    app = App("web", ["a"] * 3, kind="", least=1)
    pods = [replace(app.pods()[0], deletion_timestamp_ns=START_NS), *app.pods()[1:]]
    found = synced(app.budgets()[0], pods, [])
    assert (found.current_healthy, found.expected_pods) == (2, 3)


def test_an_evicted_pod_counts_as_gone_for_two_minutes_unless_its_deletion_is_seen_before() -> None:
    app = App("web", ["a"] * 3, most=1)
    pods = app.pods()
    budget = decremented(synced(app.budgets()[0], pods, app.workloads()), pods[0], START_NS)
    assert (budget.disruptions_allowed, budget.disrupted_pods) == (0, (("web-0", START_NS),))
    for at, healthy, left in ((1, 2, 1), (119, 2, 1), (121, 3, 0)):
        found = synced(budget, pods, app.workloads(), at)
        assert (found.current_healthy, len(found.disrupted_pods)) == (healthy, left)
    deleted = [replace(pods[0], deletion_timestamp_ns=START_NS), *pods[1:]]
    assert synced(budget, deleted, app.workloads(), 1).disrupted_pods == ()


OLD = EvictionRules(ignores_pending=False, lets_unready_go=False, reads_unhealthy_policy=False)
READY, UNREADY = make_pod("p", "a"), make_pod("p", "a", ready="False")


def allowing(
    count: int, *, healthy: int = 2, desired: int = 2, policy: str = ""
) -> PodDisruptionBudget:
    return replace(
        make_budget("b", least=desired, policy=policy),
        disruptions_allowed=count,
        current_healthy=healthy,
        desired_healthy=desired,
        observed_generation=1,
    )


@pytest.mark.parametrize(
    ("pod", "budget", "answer"),
    [
        (READY, allowing(1), Answer.DECREMENT),
        (READY, allowing(0), Answer.TOO_MANY_REQUESTS),
        (READY, replace(allowing(1), generation=2), Answer.TOO_MANY_REQUESTS),
        (READY, replace(allowing(1), disruptions_allowed=None), Answer.UNKNOWN),
        (READY, allowing(-1), Answer.FORBIDDEN),
        # An old status is not even looked at; who needs no disruption is not kept by it.
        (READY, replace(allowing(-1), generation=2), Answer.TOO_MANY_REQUESTS),
        (UNREADY, allowing(-1), Answer.DELETE),
        # IfHealthyBudget: an unready pod may go while the others are enough.
        (UNREADY, allowing(0), Answer.DELETE),
        (UNREADY, allowing(0, healthy=1), Answer.TOO_MANY_REQUESTS),
        (UNREADY, allowing(0, healthy=0, desired=0), Answer.TOO_MANY_REQUESTS),
        (UNREADY, allowing(0, healthy=0, policy="AlwaysAllow"), Answer.DELETE),
        (READY, allowing(0, policy="AlwaysAllow"), Answer.TOO_MANY_REQUESTS),
        # Terminal, Pending and terminating pods are not asked about.
        (make_pod("p", "a", phase="Succeeded"), allowing(0), Answer.DELETE),
        (make_pod("p", "a", phase="Pending"), allowing(0), Answer.DELETE),
        (make_pod("p", "a", deleted=-1), allowing(0), Answer.DELETE),
    ],
)
def test_the_eviction_api_decides(pod: Pod, budget: PodDisruptionBudget, answer: Answer) -> None:
    assert answer_eviction(pod, [budget]) is answer


@pytest.mark.parametrize(
    ("pod", "budget", "rules", "answer"),
    [
        # Up to 1.18 only finished pods go unasked; up to 1.19 readiness plays no part; up to 1.26 nor does
        # the policy.
        (make_pod("p", "a", phase="Pending"), allowing(0), OLD, Answer.TOO_MANY_REQUESTS),
        (make_pod("p", "a", deleted=-1), allowing(0), OLD, Answer.TOO_MANY_REQUESTS),
        (make_pod("p", "a", phase="Failed"), allowing(0), OLD, Answer.DELETE),
        (UNREADY, allowing(0), OLD, Answer.TOO_MANY_REQUESTS),
        (
            UNREADY,
            allowing(0, healthy=0, policy="AlwaysAllow"),
            EvictionRules(reads_unhealthy_policy=False),
            Answer.TOO_MANY_REQUESTS,
        ),
    ],
)
def test_older_eviction_apis_ask_more_often(
    pod: Pod, budget: PodDisruptionBudget, rules: EvictionRules, answer: Answer
) -> None:
    assert answer_eviction(pod, [budget], rules) is answer


def test_several_budgets_are_an_error_and_none_is_no_obstacle() -> None:
    assert answer_eviction(READY, [allowing(1), allowing(1)]) is Answer.SEVERAL_BUDGETS
    assert answer_eviction(READY, []) is Answer.DELETE
