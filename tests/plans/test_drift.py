"""What counts as a difference from a plan, and what does not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from building.builders import (
    START_NS,
    make_conditions,
    make_event,
    make_pod,
    make_taint,
    ns,
    tolerates,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from plans.planned import (
    DRAIN,
    IDENTITY,
    TAINT,
    kinds,
    later,
    plan_of,
    small_cluster,
    with_more,
    with_node,
    with_pod,
    without_pod,
)

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.plans.differences import Difference
from kubectl_evictplan.plans.document import Evict, Plan
from kubectl_evictplan.plans.drift import Fresh, differences_of_rest, refused
from kubectl_evictplan.plans.fingerprint import plan_text, sealed
from kubectl_evictplan.plans.reading import read_plan

CLUSTER = small_cluster()
TAINTING = plan_of(CLUSTER, TAINT)


@pytest.fixture(scope="module")
def draining() -> Plan:
    return plan_of(CLUSTER, DRAIN)


def test_a_cluster_that_only_grew_older_is_as_planned() -> None:
    assert later(TAINTING, CLUSTER, TAINT) == ()


@pytest.mark.slow
def test_a_drain_of_a_cluster_that_only_grew_older_is_as_planned(draining: Plan) -> None:
    assert later(draining, CLUSTER, DRAIN) == ()


@pytest.mark.parametrize(
    ("part", "value", "kind"),
    [
        ("cluster_uid", "other", "cluster"),
        ("cluster_uid", "", "cluster"),
        ("ca_sha256", "other", "cluster"),
        ("user", "john", "identity"),
        ("user", "", "identity"),
        ("kubernetes_version", "1.38.0", "release"),
        ("kubernetes_version", "1.37.1", "release"),
    ],
)
def test_another_cluster_user_or_release_is_a_difference(part: str, value: str, kind: str) -> None:
    found = later(TAINTING, CLUSTER, TAINT, identity=replace(IDENTITY, **{part: value}))
    assert kinds(found) == [kind]
    assert found[0].acceptable == (value == "1.37.1")


@pytest.mark.parametrize("kind", ["PodDisruptionBudget", "Lease"])
def test_what_decides_and_cannot_be_read_any_more_is_a_difference_where_nothing_else_is(
    kind: str,
) -> None:
    denied = replace(CLUSTER, denied=(kind,))
    assert "partial" in kinds(later(TAINTING, denied, TAINT))
    rest = partial(differences_of_rest, touched=(), stopped_ns=START_NS)
    assert "partial" in kinds(later(TAINTING, denied, TAINT, compare=rest))
    assert later(plan_of(denied, TAINT), denied, TAINT, compare=rest) == ()


def test_what_decides_nothing_may_be_unread() -> None:
    denied = replace(CLUSTER, denied=("EndpointSlice",))
    assert later(TAINTING, denied, TAINT) == ()


def test_another_name_of_the_same_server_is_none() -> None:
    identity = replace(IDENTITY, server="https://b:6443", context="other")
    assert later(TAINTING, CLUSTER, TAINT, identity=identity) == ()


def test_what_was_not_known_then_is_not_the_same_now() -> None:
    unknown = replace(IDENTITY, cluster_uid="", ca_sha256="", user="")
    plan = replace(TAINTING, cluster=unknown)
    assert kinds(later(plan, CLUSTER, TAINT, identity=unknown)) == [
        "cluster",
        "cluster",
        "identity",
    ]


def _recreated(cluster: ClusterSnapshot) -> ClusterSnapshot:
    return with_node(cluster, "a1", lambda node: replace(node, uid="uid-new"))


def _tainted(cluster: ClusterSnapshot) -> ClusterSnapshot:
    taints = (make_taint("other=x:NoSchedule"),)
    return with_node(cluster, "a1", lambda node: replace(node, taints=taints))


def _cordoned(cluster: ClusterSnapshot) -> ClusterSnapshot:
    return with_node(cluster, "a1", lambda node: replace(node, unschedulable=True))


def _gone(cluster: ClusterSnapshot) -> ClusterSnapshot:
    return replace(cluster, nodes=tuple(node for node in cluster.nodes if node.name != "a1"))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (_gone, "node-gone"),
        (_recreated, "node-recreated"),
        (_tainted, "node-taints"),
        (_cordoned, "node-schedulable"),
    ],
)
def test_a_node_that_is_not_what_it_was_is_a_difference_that_nobody_can_accept(
    change: Any, kind: str
) -> None:
    found = later(TAINTING, change(CLUSTER), TAINT)
    assert kinds(found) == [kind]
    assert refused(found, [kind]) == found


def test_a_node_that_became_ready_is_harmless_and_one_that_did_not_is_not() -> None:
    silent = with_node(
        CLUSTER, "a1", lambda node: replace(node, conditions=make_conditions("False", heartbeat=-5))
    )
    (before,) = (node for node in TAINTING.nodes)
    planned_while_silent = replace(TAINTING, nodes=(replace(before, ready="False"),))
    ready = [one for one in later(planned_while_silent, CLUSTER, TAINT) if one.kind == "node-ready"]
    (unready,) = (one for one in later(TAINTING, silent, TAINT) if one.kind == "node-ready")
    assert [one.acceptable for one in ready] == [True]
    assert not unready.acceptable


def test_a_pod_that_is_gone_is_harmless_and_a_recreated_one_is_not() -> None:
    gone = later(TAINTING, without_pod(CLUSTER, "bare-0"), TAINT)
    assert [(one.kind, one.acceptable) for one in gone] == [("pod-gone", True)]
    assert refused(gone, ["pod-gone"]) == ()
    assert refused(gone, []) == gone
    recreated = with_pod(CLUSTER, "db-0", lambda pod: replace(pod, uid="uid-new"))
    assert kinds(later(TAINTING, recreated, TAINT)) == ["pod-recreated"]


def test_a_pod_that_lives_on_elsewhere_under_its_name_is_gone_from_its_node() -> None:
    moved = with_pod(CLUSTER, "db-0", lambda pod: replace(pod, uid="uid-new", node_name="b1"))
    assert kinds(later(TAINTING, moved, TAINT)) == ["pod-gone"]


def test_a_pod_more_is_a_difference_only_where_it_would_go_too() -> None:
    newcomer = make_pod("late", "a1", owner="ReplicaSet/late")
    tolerant = make_pod("late", "a1", owner="ReplicaSet/late", tolerations=[tolerates("maint")])
    assert kinds(later(TAINTING, with_more(CLUSTER, newcomer), TAINT)) == ["pod-added"]
    assert later(TAINTING, with_more(CLUSTER, tolerant), TAINT) == ()


def test_a_toleration_that_changes_a_fate_is_found_by_predicting_anew() -> None:
    forever = with_pod(
        CLUSTER, "bare-0", lambda pod: replace(pod, tolerations=(tolerates("maint"),))
    )
    a_while = with_pod(
        CLUSTER, "bare-0", lambda pod: replace(pod, tolerations=(tolerates("maint", 60),))
    )
    stays, moves = later(TAINTING, forever, TAINT), later(TAINTING, a_while, TAINT)
    assert [(one.kind, one.object) for one in stays] == [("prediction", "pod default/bare-0")]
    assert (stays[0].now, moves[0].now) == ("stays", "evicted at +60s")


@pytest.mark.slow
def test_a_budget_that_became_tighter_is_found_by_predicting_anew(draining: Plan) -> None:
    budgets = tuple(
        replace(budget, max_unavailable=replace(budget.max_unavailable, value=0))
        for budget in CLUSTER.budgets
        if budget.max_unavailable is not None
    )
    found = later(draining, replace(CLUSTER, budgets=budgets), DRAIN)
    assert set(kinds(found)) == {"prediction"}
    assert "node a1" in [one.object for one in found]


@pytest.mark.slow
def test_a_pod_that_makes_kubectl_refuse_the_drain_keeps_the_plan_from_being_carried_out(
    draining: Plan,
) -> None:
    newcomer = replace(make_pod("scratch", "a1", owner="ReplicaSet/x"), empty_dir=True)
    found = later(draining, with_more(CLUSTER, newcomer), DRAIN)
    assert [(one.kind, one.acceptable) for one in found] == [("prediction", False)]
    assert "local storage" in found[0].now


def test_trouble_elsewhere_is_named_and_can_be_accepted() -> None:
    taints = (make_taint("broken:NoExecute", added=60),)
    cluster = with_node(CLUSTER, "b2", lambda node: replace(node, taints=taints))
    found = later(TAINTING, cluster, TAINT)
    assert kinds(found) == ["elsewhere"]
    assert refused(found, ["elsewhere"]) == ()


def test_a_review_counts_for_a_quarter_of_an_hour() -> None:
    assert later(TAINTING, CLUSTER, TAINT, minutes=15) == ()
    found = later(TAINTING, CLUSTER, TAINT, minutes=16)
    assert [(one.kind, one.now) for one in found] == [("age", "16m0s old")]


def test_what_could_not_be_read_is_said_again_when_the_plan_is_carried_out() -> None:
    snapshot = replace(
        TAINTING.snapshot, namespace="shop", not_evaluated=("PodDisruptionBudget", "Service")
    )
    found = later(replace(TAINTING, snapshot=snapshot), CLUSTER, TAINT)
    assert [one.object for one in found] == ["PodDisruptionBudget", "pods outside namespace shop"]


@st.composite
def _irrelevant(draw: st.DrawFn) -> ClusterSnapshot:
    """The cluster with changes that decide nothing for node a1."""
    cluster = CLUSTER
    version = draw(st.text("0123456789", min_size=1, max_size=6))
    heartbeat = draw(st.floats(-30, 0))
    for name in draw(st.sets(st.sampled_from(("a1", "a2", "b1", "b2")))):
        cluster = with_node(
            cluster,
            name,
            lambda node: replace(
                node,
                resource_version=version,
                labels={**node.labels, "rack": version},
                conditions=make_conditions(heartbeat=heartbeat, transition=-1000),
            ),
        )
    for name in draw(st.sets(st.sampled_from(("web-0", "web-1", "db-0", "bare-0")))):
        cluster = with_pod(
            cluster,
            name,
            lambda pod: replace(
                pod, resource_version=version, labels={**pod.labels, "build": version}
            ),
        )
    # Without an owner: one that nobody has read may make more pods, which a budget may count.
    for number in range(draw(st.integers(0, 2))):
        other = make_pod(f"x{number}", draw(st.sampled_from(("a2", "b1", "b2"))))
        cluster = with_more(cluster, other)
    return cluster


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(_irrelevant())
def test_changes_that_decide_nothing_are_no_difference(cluster: ClusterSnapshot) -> None:
    assert later(TAINTING, cluster, TAINT) == ()


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(cluster=_irrelevant())
def test_changes_that_decide_nothing_for_a_drain_are_no_difference(
    draining: Plan, cluster: ClusterSnapshot
) -> None:
    assert later(draining, cluster, DRAIN) == ()


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(_irrelevant(), st.sampled_from((_gone, _recreated, _tainted, _cordoned)))
def test_what_decides_is_found_among_whatever_else_changes(
    cluster: ClusterSnapshot, change: Any
) -> None:
    found = later(TAINTING, change(cluster), TAINT)
    assert any(one.kind.startswith("node-") and not one.acceptable for one in found)


def test_operations_that_the_scenario_does_not_ask_for_are_a_difference_whatever_the_seal(
    draining: Plan,
) -> None:
    forged = replace(draining, operations=draining.operations[:-1])
    assert set(kinds(later(forged, CLUSTER, DRAIN))) == {"operations"}
    two = make_event(0, "taint", ["a1", "b1"], taint="maint=yes:NoExecute")
    both = plan_of(CLUSTER, two)
    backwards = tuple(
        replace(one, number=place) for place, one in enumerate(reversed(both.operations), start=1)
    )
    (found,) = later(replace(both, operations=backwards), CLUSTER, two)
    assert (found.kind, found.acceptable) == ("operations", False)
    other = replace(TAINTING.operations[0], taint=replace(TAINTING.operations[0].taint, value="x"))
    found_two = later(replace(TAINTING, operations=(other,)), CLUSTER, TAINT)
    assert kinds(found_two) == ["operations", "operations"]


@pytest.mark.parametrize(
    "forged",
    [
        {"parallel": 100},
        {"settle_seconds": 0.5},
        {"eviction_timeout_seconds": 1.0},
        {"canary": False},
    ],
)
def test_a_plan_is_carried_out_as_its_scenario_says_whatever_the_seal(
    draining: Plan, forged: dict[str, Any]
) -> None:
    for plan, event in ((draining, DRAIN), (TAINTING, TAINT)):
        other = sealed(replace(plan, execution=replace(plan.execution, **forged)))
        (found,) = later(other, CLUSTER, event)
        assert (found.kind, found.object, found.acceptable) == ("execution", *forged, False)


def test_losses_that_the_plan_does_not_name_are_a_difference() -> None:
    assert TAINTING.losses
    assert kinds(later(replace(TAINTING, losses=()), CLUSTER, TAINT)) == ["losses"]


def test_a_plan_whose_evictions_or_losses_are_of_pods_that_it_does_not_list_is_refused(
    draining: Plan,
) -> None:
    pods = tuple(pod for pod in draining.pods if pod.pod != "bare-0")
    with pytest.raises(InputError, match=r"pods: pod 'default/bare-0' of operation"):
        read_plan(plan_text(sealed(replace(draining, pods=pods))), "plan.json")
    evict = next(one for one in draining.operations if isinstance(one, Evict))
    elsewhere = replace(evict, number=len(draining.operations) + 1, uid="of-another-node")
    forged = sealed(replace(draining, operations=(*draining.operations, elsewhere)))
    with pytest.raises(InputError, match="is missing, or another one"):
        read_plan(plan_text(forged), "plan.json")


def test_only_nodes_that_a_run_has_not_come_to_are_compared_when_it_goes_on() -> None:
    event = make_event(0, "taint", ["a1", "b1"], taint="maint=yes:NoExecute")
    plan = plan_of(CLUSTER, event)
    begun = without_pod(_tainted(CLUSTER), "web-0")

    def found(cluster: ClusterSnapshot) -> list[str]:
        def rest(of: Plan, fresh: Fresh) -> tuple[Difference, ...]:
            return differences_of_rest(of, fresh, {"a1"}, fresh.now_ns)

        return kinds(later(plan, cluster, event, compare=rest))

    assert found(begun) == []
    assert found(with_more(begun, make_pod("precious", "b1"))) == ["pod-added"]
    cordoned = with_node(begun, "b1", lambda node: replace(node, unschedulable=True))
    assert found(cordoned) == ["node-schedulable"]


def test_a_run_that_stood_still_for_a_quarter_of_an_hour_is_reviewed_again() -> None:
    fresh = Fresh(IDENTITY, CLUSTER, START_NS + ns(16 * 60))
    (found,) = differences_of_rest(TAINTING, fresh, {"a1"}, START_NS)
    assert (found.kind, found.object, found.acceptable) == ("age", "run", True)
