"""What the impact of a prediction says of where replacements can run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from building.builders import (
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    tolerates,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.impact.assess import assess_impact
from kubectl_evictplan.impact.replacement_words import fit_sentence
from kubectl_evictplan.kube.needs import PodAffinityTerm, PodNeeds, TopologySpreadConstraint
from kubectl_evictplan.kube.objects import Node, Pod, Workload
from kubectl_evictplan.kube.pod_requests import ContainerRequests, Resized
from kubectl_evictplan.prediction.impact_document import Impact, ReplacementFit
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings

ZONE = "topology.kubernetes.io/zone"
APP = (("app", "In", ("web",)),)
NEEDS = PodNeeds((("cpu", 1000),))


def node(name: str, cpu: int = 4000, **fields: Any) -> Node:
    made = make_node(name, **fields)
    return msgspec.structs.replace(made, allocatable={"cpu": cpu, "pods": 10})


def pod(name: str, at: str, needs: PodNeeds | None = NEEDS, **fields: Any) -> Pod:
    fields = {"owner": "ReplicaSet/web", "labels": {"app": "web"}, **fields}
    return msgspec.structs.replace(make_pod(name, at, **fields), needs=needs)


def told(nodes: list[Node], pods: list[Pod], *events: Any) -> list[ReplacementFit]:
    return list(assessed(nodes, pods, *events).replacements)


def assessed(nodes: list[Node], pods: list[Pod], *events: Any, **options: Any) -> Impact:
    known = _known(nodes, pods, *events, **options)
    return assess_impact(*known, predict(*known))


def warned(nodes: list[Node], pods: list[Pod], *events: Any) -> set[str]:
    return {one.code for one in predict(*_known(nodes, pods, *events)).warnings}


def _known(
    nodes: list[Node],
    pods: list[Pod],
    *events: Any,
    release: str = "1.34.0",
    workloads: tuple[Workload, ...] = (),
) -> Any:
    snapshot = msgspec.structs.replace(make_snapshot(nodes, pods), workloads=workloads)
    configuration = resolve_configuration(ControllerSettings(release), snapshot.control_plane)
    return snapshot, make_scenario(events, horizon=900), configuration


def maintenance(name: str) -> Any:
    return make_event(0, "taint", name, taint="maintenance:NoExecute")


def codes(nodes: list[Node], pods: list[Pod], *events: Any) -> dict[str, str]:
    """Codes of findings about replacements, each with its first sentence."""
    found = assessed(nodes, pods, *events).findings
    return {
        one.code: one.summary
        for one in found
        if one.code in ("replacement-pending", "no-room-left")
    }


def test_who_is_evicted_by_a_taint_may_run_on_the_other_nodes() -> None:
    (fit,) = told([node("n1"), node("n2"), node("n3")], [pod("p", "n1")], maintenance("n1"))
    assert (fit.verdict, fit.on_nodes, fit.nodes) == ("fits", 2, ("n2", "n3"))
    assert (fit.workload, fit.pod) == ("ReplicaSet/web", "p")
    assert fit_sentence(fit) == "fits on 2 nodes"


def test_what_runs_on_elsewhere_keeps_its_room() -> None:
    (fit,) = told(
        [node("n1"), node("n2", 1500)], [pod("p", "n1"), pod("q", "n2")], maintenance("n1")
    )
    assert (fit.verdict, fit.nowhere) == ("nowhere", True)
    assert fit_sentence(fit) == (
        "fits nowhere: would stay Pending, because 1 node fails TaintToleration, 1 node fails NodeResourcesFit"
    )


def test_what_a_pod_holds_that_was_resized_in_place_nobody_else_gets() -> None:
    grown = Resized(by_container=(("cpu", 4000),), by_pod=(("cpu", 3000),))
    beside = msgspec.structs.replace(pod("q", "n2"), resized=grown)
    nodes, pods = [node("n1"), node("n2")], [pod("p", "n1"), beside]
    for release, verdict in (("1.26.0", "fits"), ("1.36.0", "nowhere"), ("1.37.0", "fits")):
        (fit,) = assessed(nodes, pods, maintenance("n1"), release=release).replacements
        assert (fit.verdict, release) == (verdict, release)


def test_who_was_resized_in_place_is_made_anew_as_its_template_says() -> None:
    grown = Resized(containers=(ContainerRequests("c", (("cpu", 9000),)),))
    resized = pod("p", "n1", PodNeeds((("cpu", 9000),)))
    resized = msgspec.structs.replace(resized, resized=grown)
    template = (ContainerRequests("c", (("cpu", 1000),)),)
    owner = Workload("ReplicaSet", "default", "web", replicas=1, template=template)
    for owners, verdict in (((), "nowhere"), ((owner,), "fits")):
        found = assessed([node("n1"), node("n2")], [resized], maintenance("n1"), workloads=owners)
        assert [fit.verdict for fit in found.replacements] == [verdict]


def test_a_selector_may_allow_only_the_node_that_goes_away() -> None:
    needs = msgspec.structs.replace(NEEDS, node_selector=(("disk", "ssd"),))
    nodes = [node("n1", labels={"disk": "ssd"}), node("n2")]
    for event in (
        maintenance("n1"),
        make_event(0, "node-delete", "n1"),
        make_event(0, "drain", "n1"),
    ):
        (fit,) = told(nodes, [pod("p", "n1", needs)], event)
        assert (fit.verdict, fit.only_on_leaving) == ("onlyOnLeaving", True)


def test_a_node_that_was_cordoned_before_is_no_part_of_the_change_although_its_taint_comes_late() -> (
    None
):
    tolerations = [tolerates("node.kubernetes.io/unschedulable", effect="NoSchedule")]
    nodes = [node("n1"), node("n2", unschedulable=True)]
    for event in (maintenance("n1"), make_event(0, "drain", "n1")):
        (fit,) = told(nodes, [pod("p", "n1", tolerations=tolerations)], event)
        assert (fit.verdict, fit.nodes) == ("fits", ("n2",))
        (fit,) = told(nodes, [pod("p", "n1")], event)
        assert fit.verdict == "onlyOnLeaving"


def test_no_node_for_replacements_is_said_where_every_node_is_cordoned_only() -> None:
    needs = msgspec.structs.replace(NEEDS, node_selector=(("disk", "ssd"),))
    nodes = [node("n1", labels={"disk": "ssd"}), node("n2", unschedulable=True)]
    drained = make_event(0, "drain", "n1")
    assert "no-node-for-replacements" in warned(nodes, [pod("p", "n1", needs)], drained)
    assert "no-node-for-replacements" not in warned(
        [*nodes, node("n3")], [pod("p", "n1", needs)], drained
    )


def test_what_is_uncordoned_after_the_evictions_is_cordoned_while_they_go_on() -> None:
    drained = make_event(10, "drain", "n1")
    for event, on_nodes in (("cordon", 0), ("uncordon", 1)):
        late = make_event(300, "uncordon", "n2")
        early = make_event(1, event, "n2")
        nodes = [node("n1"), node("n2", unschedulable=event == "uncordon")]
        (fit,) = told(nodes, [pod("p", "n1")], early, drained, late)
        assert fit.on_nodes == on_nodes


def test_a_node_that_comes_takes_replacements_if_it_says_what_it_offers() -> None:
    new = make_event(0, "node-create", node=node("n9"))
    (fit,) = told(
        [node("n1")], [pod("p", "n1")], new, make_event(5, "taint", "n1", taint="x:NoExecute")
    )
    assert fit.nodes == ("n9",)


def test_a_zone_that_is_gone_still_counts_for_spread() -> None:
    spread = (TopologySpreadConstraint(ZONE, selector=APP),)
    needs = msgspec.structs.replace(NEEDS, topology_spread=spread)
    nodes = [node("n1", zone="a"), node("n2", zone="b")]
    (fit,) = told(nodes, [pod("p", "n1", needs), pod("q", "n2", needs)], maintenance("n1"))
    assert [(one.filter, one.nodes) for one in fit.because] == [
        *(("TaintToleration", 1), ("PodTopologySpread", 1)),
    ]


def test_a_pod_that_stays_terminating_on_a_silent_node_still_keeps_its_zone() -> None:
    apart = (PodAffinityTerm(ZONE, APP),)
    needs = msgspec.structs.replace(NEEDS, pod_anti_affinity=apart)
    nodes = [node("n1", zone="a"), node("n2", zone="a")]
    (silent,) = told(nodes, [pod("p", "n1", needs)], make_event(0, "kubelet-stop", "n1"))
    assert (silent.verdict, silent.because[-1].filter) == ("nowhere", "InterPodAffinity")
    (tainted,) = told(nodes, [pod("p", "n1", needs)], maintenance("n1"))
    assert tainted.verdict == "fits"


def test_nothing_is_said_of_pods_that_nobody_makes_anew() -> None:
    pods = [pod("bare", "n1", owner=""), pod("daemon", "n1", owner="DaemonSet/d")]
    assert told([node("n1"), node("n2")], pods, maintenance("n1")) == []


def test_a_snapshot_of_before_says_that_it_does_not_know() -> None:
    (fit,) = told([make_node("n1"), make_node("n2")], [pod("p", "n1", None)], maintenance("n1"))
    assert (fit.verdict, fit.unknown) == ("unknown", ("needs",))
    assert fit_sentence(fit) == "whether it fits is unknown: its spec is not in the input"


def test_those_that_find_no_place_are_told_first() -> None:
    large = msgspec.structs.replace(NEEDS, requests=(("cpu", 9000),))
    pods = [pod("a", "n1"), pod("z", "n1", large, owner="ReplicaSet/z")]
    found = told([node("n1"), node("n2")], pods, maintenance("n1"))
    assert [one.workload for one in found] == ["ReplicaSet/z", "ReplicaSet/web"]


def test_a_finding_says_who_stays_pending_and_what_would_help() -> None:
    needs = msgspec.structs.replace(NEEDS, node_selector=(("disk", "ssd"),))
    nodes = [node("n1", labels={"disk": "ssd"}), node("n2")]
    pods = [pod("p", "n1", needs)]
    (found,) = (
        one
        for one in assessed(nodes, pods, maintenance("n1")).findings
        if one.code == "replacement-pending"
    )
    assert (found.severity, found.certainty) == ("high", "certain")
    assert found.objects == ("ReplicaSet/default/web",)
    assert found.summary == (
        "1 replacement of ReplicaSet/web in default: only fits on nodes that are going away: would stay Pending, "
        "because 1 node fails TaintToleration, 1 node fails NodeAffinity"
    )
    assert found.remedy.startswith("label another node")


def test_a_finding_says_where_room_is_short_for_all_together() -> None:
    pods = [pod(f"p{number}", "n1") for number in range(3)]
    found = codes([node("n1"), node("n2", 2000)], pods, maintenance("n1"))
    assert found == {
        "no-room-left": "3 replacements of ReplicaSet/web in default: 2 of 3 find a place, the others would "
        "stay Pending, because 1 node fails TaintToleration, 1 node fails NodeResourcesFit"
    }


def test_who_may_preempt_others_is_not_said_to_wait_for_certain() -> None:
    urgent = msgspec.structs.replace(NEEDS, priority=1000)
    nodes, pods = [node("n1"), node("n2", 1000)], [pod("p", "n1", urgent), pod("q", "n2")]
    (finding,) = (
        one
        for one in assessed(nodes, pods, maintenance("n1")).findings
        if one.code == "replacement-pending"
    )
    assert finding.certainty == "possible"
    assert finding.summary.endswith(
        "fits only where it preempts pods of lower priority, else stays Pending, because 1 node fails "
        "TaintToleration, 1 node fails NodeResourcesFit; 1 node would have room without pods of lower priority"
    )


def test_where_all_fit_there_is_no_finding() -> None:
    assert codes([node("n1"), node("n2")], [pod("p", "n1")], maintenance("n1")) == {}


def test_where_too_many_needs_compete_it_says_so_instead_of_promising_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes, pods = [node("n1"), node("n2"), node("n3")], [pod("p", "n1")]
    (sure,) = told(nodes, pods, maintenance("n1"))
    monkeypatch.setattr("kubectl_evictplan.kube.scheduling.guarantee.COUNTED_MAX", 1)
    (fit,) = told(nodes, pods, maintenance("n1"))
    assert (sure.verdict, sure.sure_of_a_node) == ("fits", 1)
    assert (fit.verdict, fit.unknown, fit.sure_of_a_node) == ("unknown", ("tooMany",), 0)
    assert fit_sentence(fit).endswith(
        "too many different needs compete for too many nodes to count what is left"
    )
    # A pod of which is certain that it fits nowhere needs no counting.
    huge = pod("p", "n1", PodNeeds((("cpu", 9000),)))
    assert [one.verdict for one in told(nodes, [huge], maintenance("n1"))] == ["nowhere"]
