"""Budgets: who asks them, which are broken, and drains that wait for them or do not end well."""

from __future__ import annotations

from building.builders import default_tolerations, make_event, make_pod, ns, tolerates
from msgspec.structs import replace
from worlds import budget, cluster, finding, impact_of, pods_of, workload

from kubectl_evictplan.kube.objects import IntOrPercent, PodDisruptionBudget, Workload

TAINT = make_event(10, "taint", "a1", taint="maint=yes:NoExecute")
SILENT = make_event(10, "kubelet-stop", "a1")


def test_a_taint_breaks_a_budget_and_never_asks_it() -> None:
    pods = pods_of("ReplicaSet", "web", ["a1", "a1"])
    impact = impact_of(cluster(pods, budgets=[budget("web", least=1)]), TAINT)
    [found] = impact.budgets
    assert (found.desired_healthy, found.healthy_before) == (1, 2)
    assert (found.broken_by.least, found.broken_by.most) == (1, 1)
    assert found.paths == ("never-asked",)
    assert found.broken[0].certainty == "certain"
    told = finding(impact, "budget-broken")
    assert told.severity == "high"
    assert "nobody asks it" in told.summary
    assert "kubectl drain a1 --ignore-daemonsets" in told.remedy


def test_a_budget_that_was_short_before_is_broken_further_while_fewer_are_healthy_than_were() -> (
    None
):
    *ready, broken = pods_of("ReplicaSet", "web", ["a1", "b1", "b1"])
    pods = [*ready, replace(broken, ready="False")]
    impact = impact_of(cluster(pods, budgets=[budget("web", least=3)]), TAINT)
    [found] = impact.budgets
    [spell] = found.broken
    assert (found.healthy_before, spell.certainty, spell.since.earliest_seconds) == (
        2,
        "certain",
        10,
    )
    assert (found.broken_by.least, found.broken_by.most) == (2, 2)
    assert "has only 2 before the change" in finding(impact, "budget-broken").summary


def test_a_budget_whose_sync_fails_wants_nobody_knows_how_many_and_needs_a_number() -> None:
    most = PodDisruptionBudget(
        "default", "job", {"app": "j"}, (), 0,
        max_unavailable=IntOrPercent(1), current_healthy=0, desired_healthy=0, expected_pods=0,
    )  # fmt: skip
    pods = pods_of("Job", "j", ["a1", "b1"])
    impact = impact_of(cluster(pods, budgets=[most]), make_event(10, "drain", ["a1"]))
    assert impact.budgets[0].desired_healthy is None
    remedy = finding(impact, "drain-waits").remedy
    assert "minAvailable as a number" in remedy
    assert "edit poddisruptionbudget/job" in remedy


def test_a_drain_asks_and_never_goes_below_what_the_budget_wants() -> None:
    pods = pods_of("ReplicaSet", "web", ["a1", "a1"], tolerations=default_tolerations())
    status = replace(budget("web", least=1), disruptions_allowed=1, current_healthy=2)
    owner = Workload("ReplicaSet", "default", "web", replicas=2)
    drain = make_event(10, "drain", ["a1"])
    impact = impact_of(cluster(pods, budgets=[status], workloads=[owner]), drain)
    [found] = impact.budgets
    assert (found.fewest_healthy.least, found.broken, found.paths) == (1, (), ("asked",))
    assert found.waits
    assert finding(impact, "drain-waits").objects == ("PodDisruptionBudget/default/web",)
    # The workload is never without a pod either, although each of its windows alone would allow it.
    assert workload(impact, "ReplicaSet/web").zero == ()


def test_a_silent_node_takes_pods_from_a_budget_before_anybody_deletes_them() -> None:
    pods = pods_of("ReplicaSet", "web", ["a1", "a1"], tolerations=[tolerates("", None)])
    impact = impact_of(cluster(pods, budgets=[budget("web", least=2)]), SILENT)
    assert impact.budgets[0].paths == ("not-ready",)
    assert impact.budgets[0].broken_by.least == 2


def test_unread_budgets_are_said_to_be_missing() -> None:
    snapshot = replace(cluster(pods_of("ReplicaSet", "w", ["a1"])), kinds_seen=("Pod",))
    assert (
        "budgets: PodDisruptionBudgets are not in the input"
        in impact_of(snapshot, TAINT).not_evaluated
    )


def test_a_drain_that_waits_for_ever_is_a_finding_although_nothing_happens_to_any_pod() -> None:
    none = PodDisruptionBudget(
        "default", "none", {"app": "web"}, (), 0,
        max_unavailable=IntOrPercent(0), current_healthy=2, desired_healthy=2, expected_pods=2,
    )  # fmt: skip
    owner = Workload("ReplicaSet", "default", "web", replicas=2)
    pods = pods_of("ReplicaSet", "web", ["a1", "b1"])
    snapshot = cluster(pods, workloads=[owner], budgets=[none])
    impact = impact_of(snapshot, make_event(10, "drain", ["a1"]))
    assert finding(impact, "drain-waits").objects == ("PodDisruptionBudget/default/none",)
    [budget] = impact.budgets
    assert (budget.waits, budget.paths) == (("default/web-0",), ("asked",))
    assert budget.workloads == ("ReplicaSet/web",)
    assert (budget.fewest_healthy.least, budget.broken) == (2, ())


def test_a_node_that_is_not_drained_in_the_end_is_a_finding_whatever_the_reason() -> None:
    bare = cluster([make_pod("tool", "a1")])
    refused = finding(impact_of(bare, make_event(10, "drain", ["a1"])), "drain-unfinished")
    assert (refused.certainty, refused.severity, refused.objects) == (
        "certain",
        "high",
        ("Node/a1",),
    )
    assert "because of 1 pod" in refused.summary
    assert "--force" in refused.remedy
    pods = pods_of("ReplicaSet", "web", ["a1", "b1"])
    none = replace(budget("web", least=2), disruptions_allowed=0)
    owner = Workload("ReplicaSet", "default", "web", replicas=2)
    held = cluster(pods, workloads=[owner], budgets=[none])
    for option, told in (({}, "never ends"), ({"timeout_ns": ns(60)}, "is given up")):
        impact = impact_of(held, make_event(10, "drain", ["a1"], **option))
        assert told in finding(impact, "drain-unfinished").summary
    # An owner that is not known may make another pod yet, and the budget has room then.
    unowned = impact_of(cluster(pods, budgets=[none]), make_event(10, "drain", ["a1"]))
    assert finding(unowned, "drain-unfinished").certainty == "possible"
    free = impact_of(cluster(pods, workloads=[owner]), make_event(10, "drain", ["a1"]))
    assert "drain-unfinished" not in {one.code for one in free.findings}
