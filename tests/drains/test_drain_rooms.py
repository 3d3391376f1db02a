"""Drains whose replacements find no node: a budget that waits for them keeps kubectl waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from building.builders import make_event, make_node, make_pod, ns
from drawn.drain_worlds import CONFIGURATION, App, drain, drained_cluster, drains
from msgspec.structs import replace

from kubectl_evictplan.kube.infrastructure import Infrastructure, Namespace
from kubectl_evictplan.kube.needs import PodAffinityTerm, PodNeeds
from kubectl_evictplan.kube.objects import ClusterSnapshot, PodWebhook
from kubectl_evictplan.kube.pod_requests import ContainerRequests, Resized
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

HOSTNAME = "kubernetes.io/hostname"
ALONE = {"pod_anti_affinity": (PodAffinityTerm(HOSTNAME, (("app", "In", ("web",)),)),)}
WEB = App("web", ["a1", "a2", "b1"], most=1)


def cluster(web: App, cpu: Mapping[str, int], **needs: Any) -> ClusterSnapshot:
    """Pods of 1000m each, on nodes that offer so much."""
    made = drained_cluster(web, nodes=tuple(cpu))
    asked = PodNeeds((("cpu", 1000),), **needs)
    return replace(
        made,
        nodes=tuple(
            replace(
                make_node(name, labels={HOSTNAME: name}), allocatable={"cpu": cpu[name], "pods": 9}
            )
            for name in sorted(cpu)
        ),
        pods=tuple(replace(pod, needs=asked) for pod in made.pods),
    )


def ends(snapshot: ClusterSnapshot, *events: ScenarioEvent) -> list[str | None]:
    """How the drains of the nodes end; None: not the same way in every run."""
    return [one.end_reason for one in drained(snapshot, *events).drains]


def drained(snapshot: ClusterSnapshot, *events: ScenarioEvent) -> Prediction:
    return predict(snapshot, drains(*events), CONFIGURATION, assume_ready=(ns(3), ns(3)))


THREE = {"a1": 4000, "a2": 4000, "b1": 4000}
BOTH = drain("a1", "a2")


def test_a_drain_never_ends_whose_budget_waits_for_a_replacement_that_fits_nowhere() -> None:
    prediction = drained(cluster(WEB, THREE, **ALONE), BOTH)
    assert [one.end_reason for one in prediction.drains] == ["drained", "never"]
    assert [(one.node, one.certainty) for one in prediction.evictions] == [("a1", CERTAIN)]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_drain_never_ends_whose_pods_share_a_room_that_is_too_small(kind: str) -> None:
    three = App("web", ["a1", "a1", "a1"], kind, most=1)
    told = drained(cluster(three, {"a1": 4000, "b1": 1000}), drain("a1")).drains
    assert [(one.end_reason, one.exit_code) for one in told] == [("never", None)]


def test_nodes_that_another_process_cordons_take_replacements_until_it_does() -> None:
    nodes = {"a1": 4000, "a2": 4000, "b1": 4000, "c1": 1000}
    room = cluster(App("web", ["a1", "a1", "c1"], most=1), nodes)
    others = {"pod_selector": "nobody=here"}
    first = drained(room, drain("a2", "b1", at=1, **others), drain("a1", at=5)).drains
    assert [one.end_reason for one in first if one.node == "a1"] == ["never"]
    later = drained(room, drain("a1", at=1), drain("a2", "b1", at=5, **others)).drains
    assert [one.end_reason for one in later if one.node == "a1"] != ["never"]


def test_a_drain_never_ends_whose_budget_waits_for_an_owner_that_makes_none() -> None:
    room = cluster(WEB, THREE)
    assert ends(room, BOTH) == ["drained", "drained"]
    going = tuple(replace(one, being_deleted=True) for one in room.workloads)
    assert ends(replace(room, workloads=going), BOTH) == ["drained", "never"]
    # In a namespace that is Terminating nobody is made, nor evicted.
    namespaces = Infrastructure(namespaces=(Namespace("default", phase="Terminating"),))
    assert ends(replace(room, infrastructure=namespaces), BOTH) == [None, None]


def test_it_is_given_up_at_its_timeout() -> None:
    assert ends(cluster(WEB, THREE, **ALONE), drain("a1", "a2", timeout_ns=ns(300))) == [
        "drained",
        "timeout",
    ]


def test_it_ends_where_a_node_takes_every_replacement() -> None:
    assert ends(cluster(WEB, THREE), BOTH) == ["drained", "drained"]
    roomy = cluster(WEB, {**THREE, "b2": 4000, "b3": 4000}, **ALONE)
    assert ends(roomy, BOTH) == ["drained", "drained"]


def test_a_replacement_without_room_beside_the_others_stays_pending_too() -> None:
    # The last node has room for one of the two.
    web = App("web", ["a1", "a2", "b1"], least=3)
    assert ends(cluster(web, {**THREE, "b1": 2000}), BOTH) == ["never", "never"]
    web = App("web", ["a1", "a2", "a2", "b1"], most=1)
    prediction = drained(cluster(web, {**THREE, "b1": 2000}), BOTH)
    assert [one.end_reason for one in prediction.drains] == ["drained", "never"]


def test_where_a_replacement_only_perhaps_fits_the_drain_only_perhaps_ends() -> None:
    # Somebody may take its gates off.
    made = cluster(WEB, THREE)
    [owner] = made.workloads
    made = replace(made, workloads=(replace(owner, scheduling_gates=("example.com/wait",)),))
    prediction = drained(made, BOTH)
    assert [one.end_reason for one in prediction.drains] == ["drained", None]
    assert {one.node: one.certainty for one in prediction.evictions} == {
        "a1": CERTAIN,
        "a2": POSSIBLE,
    }


@pytest.mark.parametrize("whole", [True, False], ids=["whole cluster", "one namespace"])
def test_what_a_drain_waits_for_is_said_where_replacements_carry_gates(whole: bool) -> None:
    made = cluster(WEB, {**THREE, "b2": 4000})
    (owner,) = made.workloads
    gated = replace(owner, scheduling_gates=("example.com/wait",))
    prediction = drained(
        replace(made, workloads=(gated,), pods_of_all_namespaces=whole), drain("a1", "a2")
    )
    # Nobody assumes that somebody takes them off, whatever else is not in the input.
    assert prediction.drains[-1].end_reason is None
    [said] = [one for one in prediction.warnings if one.code == "drain-waits-for-gates"]
    assert "scheduling gates (example.com/wait)" in said.message
    assert said.objects
    ungated = drained(made, drain("a1", "a2"))
    assert "drain-waits-for-gates" not in {one.code for one in ungated.warnings}


def test_what_else_happens_to_nodes_may_make_room() -> None:
    made = cluster(WEB, {**THREE, "b2": 4000}, **ALONE)
    closed = tuple(replace(one, unschedulable=one.name == "b2") for one in made.nodes)
    opened = make_event(60, "uncordon", "b2")
    assert ends(replace(made, nodes=closed), BOTH) == ["drained", "never"]
    assert ends(replace(made, nodes=closed), BOTH, opened) == ["drained", None]


def test_the_pods_of_no_budget_keep_nobody_waiting() -> None:
    free = App("web", ["a1", "a2", "b1"])
    assert ends(cluster(free, THREE, **ALONE), BOTH) == ["drained", "drained"]


def test_a_replacement_for_whose_room_somebody_waits_already_is_perhaps_ready_never() -> None:
    web = App("web", ["a1", "a1", "b1"], most=1)
    for everybody in (True, False):
        snapshot = cluster(web, {"a1": 4000, "b1": 3000})
        snapshot = replace(snapshot, pods_of_all_namespaces=everybody)
        assert everybody or ends(snapshot, drain("a1")) == ["drained"]
        waiting = replace(
            make_pod("other", "", owner="ReplicaSet/other", ready="False"),
            phase="Pending",
            needs=snapshot.pods[0].needs,
            node_name="",
        )
        taken = replace(snapshot, pods=(*snapshot.pods, waiting))
        assert ends(taken, drain("a1")) == [None]


def test_a_replacement_whose_creation_a_webhook_may_refuse_is_perhaps_never_made() -> None:
    web = App("web", ["a1", "a1", "b1"], most=1)
    snapshot = drained_cluster(web)
    for hook, end in (
        (PodWebhook("w", of_deletion=False, of_creation=True), None),
        (PodWebhook("w", (("app", "In", ("other",)),), of_creation=True), "drained"),
    ):
        assert ends(replace(snapshot, webhooks=(hook,)), drain("a1")) == [end]


@pytest.mark.parametrize(("asked", "end"), [(500, "drained"), (9000, None)])
def test_the_replacement_of_a_pod_that_was_resized_needs_what_its_template_asks_for(
    asked: int, end: str | None
) -> None:
    room = cluster(WEB, THREE)
    held = Resized(containers=(ContainerRequests("c", (("cpu", 1000),)),))
    template = (ContainerRequests("c", (("cpu", asked),)),)
    snapshot = replace(
        room,
        pods=tuple(replace(pod, resized=held) for pod in room.pods),
        workloads=tuple(replace(one, template=template) for one in room.workloads),
    )
    assert ends(snapshot, BOTH) == ["drained", end]
