"""Two plans beside each other, as a reviewer compares them."""

from __future__ import annotations

from building.builders import make_event
from msgspec.structs import replace
from plans.planned import TAINT, plan_of, small_cluster

from kubectl_evictplan.plans.comparing import compare_plans
from kubectl_evictplan.plans.document import Evict

CLUSTER = small_cluster()
PLAN = plan_of(CLUSTER, TAINT)
LATER = make_event(60, "taint", ["b1"], taint="maint=yes:NoExecute")
BOTH = plan_of(CLUSTER, TAINT, LATER)


def test_a_plan_that_was_made_again_does_the_same_whatever_its_time_and_seal() -> None:
    spec = {**PLAN.scenario["spec"], "start": "2027-01-01T00:00:00Z"}
    again = replace(
        PLAN,
        created_at="2027-01-01T00:00:00Z",
        fingerprint="sha256:other",
        scenario={**PLAN.scenario, "spec": spec},
    )

    found = compare_plans(PLAN, again)

    assert found.same
    assert [one.name for one in found.basis] == ["created_at"]


def test_an_operation_more_or_at_another_time_is_told_with_its_places() -> None:
    (more,) = compare_plans(PLAN, BOTH).operations
    sooner = plan_of(CLUSTER, TAINT, make_event(30, "taint", ["b1"], taint="maint=yes:NoExecute"))
    (moved,) = compare_plans(BOTH, sooner).operations

    assert (more.operation, more.a, more.b) == ("taint b1 maint=yes:NoExecute", None, 2)
    assert (moved.a, moved.b, moved.a_seconds, moved.b_seconds) == (2, 2, 60.0, 30.0)


def test_the_same_in_another_order_is_not_the_same() -> None:
    one = plan_of(CLUSTER, make_event(0, "cordon", ["a1", "b1"]))
    numbered = enumerate(reversed(one.operations), start=1)
    other = replace(one, operations=tuple(replace(op, number=place) for place, op in numbered))

    assert [(diff.a, diff.b) for diff in compare_plans(one, other).operations] == [(1, 2), (2, 1)]


def test_another_pod_of_the_same_name_is_another_operation() -> None:
    old, new = (
        Evict(1, 0.0, "a1", "shop", "web-0", "old"),
        Evict(1, 0.0, "a1", "shop", "web-0", "new"),
    )

    found = compare_plans(replace(PLAN, operations=(old,)), replace(PLAN, operations=(new,)))

    assert {op.operation for op in found.operations} == {
        "evict shop/web-0 from a1 (UID old)",
        "evict shop/web-0 from a1 (UID new)",
    }


def test_pace_losses_and_what_they_were_made_from_are_told() -> None:
    execution = replace(PLAN.execution, until_ready=True, abort_if=("evicted > 3",))
    cluster = replace(PLAN.cluster, user="joe")
    (node,) = PLAN.nodes
    nodes = (replace(node, unschedulable=True, resource_version="77"),)

    found = compare_plans(
        PLAN, replace(PLAN, execution=execution, cluster=cluster, nodes=nodes, losses=())
    )

    assert not found.same
    assert [(one.name, one.b) for one in found.execution] == [
        ("until_ready", "True"),
        ("abort_if", "evicted > 3"),
    ]
    assert found.losses_only_in_a == ("bare-pod default/bare-0",)
    assert [one.name for one in found.basis] == ["cluster.user", "node a1"]


def test_a_resource_version_alone_is_no_difference() -> None:
    (node,) = PLAN.nodes
    assert compare_plans(PLAN, replace(PLAN, nodes=(replace(node, resource_version="9"),))).same


def test_what_was_asked_is_told_field_by_field() -> None:
    events = [{**event, "nodes": ["a1", "b1"]} for event in PLAN.scenario["spec"]["events"]]
    scenario = {**PLAN.scenario, "spec": {**PLAN.scenario["spec"], "events": events}}

    found = compare_plans(PLAN, replace(PLAN, scenario=scenario))

    assert not found.same
    (fact,) = found.scenario
    assert (fact.name, fact.a, fact.b) == ("spec.events[0].nodes", "a1", "a1, b1")


def test_another_owner_and_data_that_would_be_lost_are_told_of_each_pod() -> None:
    first, *rest = PLAN.pods
    other = replace(first, owner="ReplicaSet/other", empty_dir=True)

    (fact,) = compare_plans(PLAN, replace(PLAN, pods=(other, *rest))).pods

    assert fact.name == f"pod {first.key}"
    assert "no emptyDir data" in fact.a
    assert fact.b == "on a1, of ReplicaSet/other, emptyDir data"
