"""Where replacements can run: the rules of the scheduler's filters, one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from building.builders import make_node, make_pod, tolerates

from kubectl_evictplan.kube.infrastructure import (
    Infrastructure,
    PersistentVolume,
    PersistentVolumeClaim,
    PodClaims,
)
from kubectl_evictplan.kube.needs import (
    HONOR,
    HostPort,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodNeeds,
    TopologySpreadConstraint,
)
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.kube.scheduling.answers import Fit, Surroundings, Unknown, Verdict
from kubectl_evictplan.kube.scheduling.fit import fits

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
APP = (("app", "In", ("web",)),)
WEB = {"app": "web"}


def node(name: str, cpu: int = 4000, pods: int = 10, **fields: Any) -> Node:
    labels = {HOSTNAME: name, **fields.pop("labels", {})}
    made = make_node(name, labels=labels, **fields)
    return msgspec.structs.replace(made, allocatable={"cpu": cpu, "pods": pods})


def pod(name: str, at: str = "gone", needs: PodNeeds | None = None, **fields: Any) -> Pod:
    """A pod that needs 1 cpu; without ``at`` it is one that is to be replaced."""
    fields = {"owner": "ReplicaSet/web", "labels": WEB, **fields}
    needs = PodNeeds((("cpu", 1000),)) if needs is None else needs
    return msgspec.structs.replace(make_pod(name, at, **fields), needs=needs)


def needing(cpu: int = 1000, **needs: Any) -> PodNeeds:
    return PodNeeds((("cpu", cpu),), **needs)


def one(nodes: list[Node], *replacements: Pod, **surroundings: Any) -> Fit:
    (found,) = fits(Surroundings(nodes, **surroundings), replacements or [pod("p")])
    return found


def because(fit: Fit) -> dict[str, int]:
    return {str(refusal.filter): refusal.nodes for refusal in fit.because}


def test_it_fits_on_every_node_that_no_filter_refuses() -> None:
    fit = one([node(f"n{number}") for number in range(7)])
    assert (fit.verdict, fit.on_nodes, fit.placed) == (Verdict.FITS, 7, 1)
    assert fit.nodes == ("n0", "n1", "n2", "n3", "n4")


def test_each_node_is_counted_at_the_first_filter_that_refuses_it() -> None:
    tainted = node("tainted", cpu=10, taints=["dedicated:NoSchedule"])
    cordoned = node("cordoned", unschedulable=True, taints=["dedicated:NoSchedule"])
    fit = one(
        [cordoned, tainted, node("small", cpu=10), node("soft", taints=["a:PreferNoSchedule"])]
    )
    assert because(fit) == {"NodeUnschedulable": 1, "TaintToleration": 1, "NodeResourcesFit": 1}
    assert fit.nodes == ("soft",)


def test_it_fits_nowhere_when_every_node_refuses_it() -> None:
    fit = one([node("n1", cpu=999), node("n2", taints=["x:NoExecute"])])
    assert fit.verdict == Verdict.NOWHERE
    assert because(fit) == {"TaintToleration": 1, "NodeResourcesFit": 1}


def test_who_tolerates_the_cordon_passes_it() -> None:
    cordon = "node.kubernetes.io/unschedulable"
    nodes = [node("n1", unschedulable=True, taints=[f"{cordon}:NoSchedule"])]
    assert one(nodes).verdict == Verdict.NOWHERE
    tolerating = pod("p", tolerations=[tolerates(cordon, effect="NoSchedule")])
    assert one(nodes, tolerating).verdict == Verdict.FITS


@pytest.mark.parametrize(
    ("operator", "values", "fitting"),
    [
        ("In", ("8", "16"), {"n16", "n8"}), ("NotIn", ("8",), {"n16", "none"}), ("Exists", (), {"n16", "n8"}),
        ("DoesNotExist", (), {"none"}), ("Gt", ("8",), {"n16"}), ("Lt", ("9",), {"n8"}), ("Like", ("8",), set()),
    ],
)  # fmt: skip
def test_required_affinity_knows_every_operator(
    operator: str, values: tuple[str, ...], fitting: set[str]
) -> None:
    nodes = [node("n8", labels={"c": "8"}), node("n16", labels={"c": "16"}), node("none")]
    needs = needing(node_affinity=(NodeSelectorTerm((("c", operator, values),)),))
    fit = one(nodes, pod("p", needs=needs))
    assert set(fit.nodes) == fitting
    assert because(fit)["NodeAffinity"] == 3 - len(fitting)


def test_one_term_is_enough_and_an_empty_one_matches_nothing() -> None:
    nodes = [node("n1", labels={"a": "1"}), node("n2"), node("n3")]
    terms = (
        NodeSelectorTerm((("a", "Exists", ()),)),
        NodeSelectorTerm(match_fields=(("metadata.name", "In", ("n2",)),)),
        NodeSelectorTerm(),
    )
    assert one(nodes, pod("p", needs=needing(node_affinity=terms))).nodes == ("n1", "n2")
    assert one(nodes, pod("p", needs=needing(node_affinity=()))).verdict == Verdict.NOWHERE


def test_what_runs_takes_room_and_what_has_finished_does_not() -> None:
    running = [pod("a", "n1"), pod("b", "n1"), pod("c", "n1", phase="Succeeded")]
    wants_two = pod("p", needs=needing(2000))
    assert one([node("n1")], wants_two, running=running).verdict == Verdict.FITS
    wants_three = pod("p", needs=needing(2001))
    assert one([node("n1")], wants_three, running=running).verdict == Verdict.NOWHERE


def test_a_node_takes_as_many_pods_as_it_says() -> None:
    nothing = PodNeeds()
    fit = one([node("n1", pods=1)], pod("p", needs=nothing), running=[pod("a", "n1", nothing)])
    assert because(fit) == {"NodeResourcesFit": 1}


def test_replacements_take_the_room_of_those_after_them() -> None:
    found = fits(
        Surroundings([node("n1", cpu=3000)]),
        [pod("a"), pod("b"), pod("late", owner="ReplicaSet/late", needs=needing(2000))],
    )
    assert [fit.verdict for fit in found] == [Verdict.FITS, Verdict.NO_ROOM_LEFT]
    assert found[1].room_taken


def test_of_some_replacements_a_part_may_find_a_place() -> None:
    fit = one([node("n1", cpu=2500)], *(pod(f"p{number}") for number in range(5)))
    assert (fit.verdict, fit.placed, because(fit)) == (Verdict.PARTLY, 2, {"NodeResourcesFit": 1})


def test_those_of_higher_priority_are_placed_first() -> None:
    urgent = pod("z", owner="ReplicaSet/z", needs=needing(priority=10))
    found = fits(Surroundings([node("n1", cpu=1000)]), [pod("a"), urgent])
    assert [(fit.pods[0].name, fit.placed) for fit in found] == [("z", 1), ("a", 0)]


def test_pods_of_lower_priority_may_have_to_make_room() -> None:
    running = [pod("low", "n1", needing(4000))]
    urgent = needing(priority=10)
    assert one([node("n1")], pod("p", needs=urgent), running=running).lower_priority == 1
    assert one([node("n1")], pod("p"), running=running).lower_priority == 0
    patient = msgspec.structs.replace(urgent, never_preempts=True)
    assert one([node("n1")], pod("p", needs=patient), running=running).lower_priority == 0


@pytest.mark.parametrize(
    ("taken", "wanted", "verdict"),
    [
        (HostPort(80), HostPort(80), Verdict.NOWHERE), (HostPort(80), HostPort(81), Verdict.FITS),
        (HostPort(80, "UDP"), HostPort(80), Verdict.FITS),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80), Verdict.NOWHERE),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), Verdict.FITS),
    ],
)  # fmt: skip
def test_a_port_of_a_node_is_taken_once(taken: HostPort, wanted: HostPort, verdict: str) -> None:
    running = [pod("a", "n1", needing(host_ports=(taken,)))]
    fit = one([node("n1")], pod("p", needs=needing(host_ports=(wanted,))), running=running)
    assert fit.verdict == verdict
    assert because(fit) == ({"NodePorts": 1} if verdict == Verdict.NOWHERE else {})


def test_two_replacements_do_not_share_a_port_of_a_node() -> None:
    needs = needing(host_ports=(HostPort(80),))
    fit = one([node("n1"), node("n2")], *(pod(f"p{number}", needs=needs) for number in range(3)))
    assert (fit.placed, because(fit)) == (2, {"NodePorts": 2})


def with_volume(*, bound: str = "disk", ephemeral: tuple[str, ...] = ()) -> dict[str, Any]:
    volume = PersistentVolume("disk", node_affinity=(((ZONE, "In", ("a",)),),))
    return {
        "infrastructure": Infrastructure(
            persistent_volumes=(volume,),
            persistent_volume_claims=(PersistentVolumeClaim("default", "data", bound),),
            pod_claims=(PodClaims("default", "p", ("data",), ephemeral),),
        )
    }


def test_a_volume_holds_its_pod_where_it_can_be_reached() -> None:
    nodes = [node("n1", zone="a"), node("n2", zone="b")]
    assert one(nodes, **with_volume()).nodes == ("n1",)
    assert because(one(nodes[1:], **with_volume())) == {"VolumeBinding": 1}


@pytest.mark.parametrize("volume", [{"bound": ""}, {"bound": "lost"}, {"ephemeral": ("data",)}])
def test_where_an_unbound_or_new_volume_comes_to_is_not_known(volume: dict[str, Any]) -> None:
    fit = one([node("n1")], **with_volume(**volume))
    assert (fit.verdict, fit.unknown) == (Verdict.UNKNOWN, (Unknown.VOLUMES,))


def apart(key: str, **term: Any) -> PodNeeds:
    return needing(100, pod_anti_affinity=(PodAffinityTerm(key, APP, **term),))


def test_pods_that_keep_apart_need_a_node_each() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    needs = apart(HOSTNAME)
    fit = one(nodes, pod("p", needs=needs), pod("q", needs=needs), pod("r", needs=needs),
              running=[pod("a", "n1", needs)])  # fmt: skip
    assert (fit.on_nodes, fit.placed, because(fit)) == (2, 2, {"InterPodAffinity": 3})


def test_a_pod_stuck_in_deletion_still_keeps_its_zone() -> None:
    nodes = [node("n1", zone="a"), node("n2", zone="a")]
    stuck = pod("a", "n1", apart(ZONE), deleted=-10)
    assert one(nodes, pod("p", needs=apart(ZONE)), running=[stuck]).verdict == Verdict.NOWHERE
    careless = pod("a", "n1", deleted=-10)
    assert one(nodes, pod("p", needs=apart(ZONE)), running=[careless]).verdict == Verdict.NOWHERE


def test_others_that_keep_apart_refuse_those_they_name() -> None:
    guard = pod("guard", "n1", apart(HOSTNAME), labels={"app": "guard"})
    fit = one([node("n1"), node("n2")], pod("p"), running=[guard])
    assert (fit.nodes, because(fit)) == (("n2",), {"InterPodAffinity": 1})
    stranger = pod("p", labels={"app": "other"})
    assert one([node("n1"), node("n2")], stranger, running=[guard]).on_nodes == 2


def test_a_term_is_about_its_own_namespace_unless_it_says_more() -> None:
    other = pod("a", "n1", labels=WEB, namespace="team")
    nodes, labels = [node("n1"), node("n2")], {"team": {"env": "prod"}, "default": {}}
    prod = (("env", "In", ("prod",)),)
    for term, on_nodes in (
        (apart(HOSTNAME), 2),
        (apart(HOSTNAME, namespaces=("team",)), 1),
        (apart(HOSTNAME, namespace_selector=()), 1),
        (apart(HOSTNAME, namespace_selector=prod), 1),
    ):
        fit = one(nodes, pod("p", needs=term), running=[other], namespaces=labels)
        assert fit.on_nodes == on_nodes
    unread = one(nodes, pod("p", needs=apart(HOSTNAME, namespace_selector=prod)), running=[other])
    assert (unread.verdict, unread.unknown) == (Verdict.UNKNOWN, (Unknown.NAMESPACES,))


def near(key: str, selector: Any = APP) -> PodNeeds:
    return needing(100, pod_affinity=(PodAffinityTerm(key, selector),))


def test_who_wants_to_be_near_others_needs_them_in_the_domain() -> None:
    nodes = [node("n1", zone="a"), node("n2", zone="a"), node("n3", zone="b")]
    cache = (("app", "In", ("cache",)),)
    running = [pod("a", "n1", labels={"app": "cache"})]
    fit = one(nodes, pod("p", needs=near(ZONE, cache)), running=running)
    assert (fit.nodes, because(fit)) == (("n1", "n2"), {"InterPodAffinity": 1})
    assert one(nodes, pod("p", needs=near(ZONE, cache))).verdict == Verdict.NOWHERE


def test_the_first_of_a_group_that_wants_to_be_near_itself_may_start_anywhere() -> None:
    nodes = [node("n1", zone="a"), node("n2", zone="b"), node("n3")]
    fit = one(nodes, *(pod(f"p{number}", needs=near(ZONE)) for number in range(12)))
    # Then the others follow it: ten places on its node, none elsewhere in zone a.
    assert (fit.on_nodes, fit.placed) == (2, 10)
    assert because(fit) == {"NodeResourcesFit": 1, "InterPodAffinity": 2}


def spreading(key: str = ZONE, **fields: Any) -> PodNeeds:
    return needing(10, topology_spread=(TopologySpreadConstraint(key, selector=APP, **fields),))


def test_spread_keeps_the_difference_between_domains_small() -> None:
    nodes = [node("n1", zone="a"), node("n2", zone="b"), node("keyless")]
    running = [pod("a", "n1")]
    fit = one(nodes, pod("p", needs=spreading()), running=running)
    assert (fit.nodes, because(fit)) == (("n2",), {"PodTopologySpread": 2})
    assert one(nodes, pod("p", needs=spreading(max_skew=2)), running=running).on_nodes == 2


def test_replacements_are_spread_like_pods() -> None:
    nodes = [node("n1", zone="a", pods=50), node("n2", zone="b", pods=2)]
    fit = one(nodes, *(pod(f"p{number}", needs=spreading()) for number in range(6)))
    # When zone b is full, zone a may only be one ahead.
    assert (fit.placed, because(fit)) == (5, {"NodeResourcesFit": 1, "PodTopologySpread": 1})


def test_a_cordoned_zone_still_counts_unless_taints_are_honoured() -> None:
    cordon = "node.kubernetes.io/unschedulable:NoSchedule"
    nodes = [node("n1", zone="a"), node("n2", zone="b", unschedulable=True, taints=[cordon])]
    running = [pod("a", "n1")]
    fit = one(nodes, pod("p", needs=spreading()), running=running)
    assert because(fit) == {"NodeUnschedulable": 1, "PodTopologySpread": 1}
    honouring = spreading(node_taints_policy=HONOR)
    assert one(nodes, pod("p", needs=honouring), running=running).verdict == Verdict.FITS


def test_nodes_that_its_affinity_rules_out_count_only_when_ignored() -> None:
    nodes = [node("n1", zone="a", labels={"ssd": ""}), node("n2", zone="b")]
    running = [pod("a", "n1")]
    for policy, verdict in (("Honor", Verdict.FITS), ("Ignore", Verdict.NOWHERE)):
        needs = msgspec.structs.replace(
            spreading(node_affinity_policy=policy), node_selector=(("ssd", ""),)
        )
        assert one(nodes, pod("p", needs=needs), running=running).verdict == verdict


def test_with_too_few_domains_the_smallest_counts_as_empty() -> None:
    nodes, running = [node("n1", zone="a")], [pod("a", "n1")]
    assert one(nodes, pod("p", needs=spreading()), running=running).verdict == Verdict.FITS
    wide = spreading(min_domains=2)
    assert because(one(nodes, pod("p", needs=wide), running=running)) == {"PodTopologySpread": 1}


def test_spread_counts_neither_pods_in_deletion_nor_other_revisions() -> None:
    nodes = [node("n1", zone="a"), node("n2", zone="b")]
    going = pod("a", "n1", deleted=-10)
    assert one(nodes, pod("p", needs=spreading()), running=[going]).on_nodes == 2
    assert (
        one(
            nodes, pod("p", needs=spreading()), running=[pod("a", "n1")], stuck={"default/a"}
        ).on_nodes
        == 2
    )
    old = pod("a", "n1", labels={**WEB, "hash": "1"})
    new = pod("p", needs=spreading(match_label_keys=("hash",)), labels={**WEB, "hash": "2"})
    assert one(nodes, new, running=[old]).on_nodes == 2


def test_it_may_fit_only_on_the_node_that_goes_away() -> None:
    needs = needing(node_selector=(("disk", "ssd"),))
    gone = node("gone", labels={"disk": "ssd"})
    cordoned = msgspec.structs.replace(gone, unschedulable=True)
    fit = one([node("n1"), cordoned], pod("p", needs=needs), leaving=[gone])
    assert (fit.verdict, fit.only_on_leaving, fit.returns_to) == (Verdict.ONLY_ON_LEAVING, True, 0)
    assert because(fit) == {"NodeUnschedulable": 1, "NodeAffinity": 1}


def test_it_may_return_to_the_node_that_evicted_it() -> None:
    gone = node("gone", labels={"disk": "ssd"})
    tainted = msgspec.structs.replace(gone, taints=node("x", taints=["bad:NoExecute"]).taints)
    returning = pod("p", tolerations=[tolerates("bad", 60)])
    fit = one([node("n1", cpu=1), tainted], returning, leaving=[gone])
    assert (fit.verdict, fit.returns_to, fit.placed) == (Verdict.ONLY_ON_LEAVING, 1, 0)


def test_without_a_pods_needs_nothing_is_said() -> None:
    bare = make_pod("p", "gone")
    assert one([node("n1")], bare).verdict == Verdict.UNKNOWN
    assert one([node("n1")], bare).unknown == (Unknown.NEEDS,)


def test_a_scheduler_of_its_own_and_devices_are_not_judged() -> None:
    own = one([node("n1", cpu=1)], pod("p", needs=needing(scheduler_name="volcano")))
    assert (own.verdict, own.unknown) == (Verdict.UNKNOWN, (Unknown.SCHEDULER,))
    devices = one([node("n1")], pod("p", needs=needing(resource_claims=True)))
    assert (devices.verdict, devices.unknown) == (Verdict.UNKNOWN, (Unknown.DEVICES,))


def test_a_node_that_does_not_say_what_it_offers_may_fit() -> None:
    silent = make_node("n1")
    assert one([silent]).unknown == (Unknown.OFFERS,)
    assert one([silent]).verdict == Verdict.UNKNOWN
    assert one([make_node("n1", taints=["x:NoSchedule"])]).verdict == Verdict.NOWHERE
    assert one([silent, node("n2")]).nodes == ("n2",)


def test_what_is_not_known_of_others_can_only_take_room() -> None:
    stranger = make_pod("a", "n1")
    fit = one([node("n1")], running=[stranger])
    assert (fit.verdict, fit.unknown) == (Verdict.UNKNOWN, (Unknown.OTHER_PODS,))
    assert one([node("n1", cpu=1)], running=[stranger]).verdict == Verdict.NOWHERE
    assert one([node("n1")], all_pods=False).verdict == Verdict.UNKNOWN


def test_pods_of_a_daemon_set_fit_on_their_own_node_only() -> None:
    own = (NodeSelectorTerm(match_fields=(("metadata.name", "In", ("",)),)),)
    needs = needing(node_affinity=own)
    pods = [pod("p", "n1", needs, owner="DaemonSet/d"), pod("q", "n2", needs, owner="DaemonSet/d")]
    found = fits(Surroundings([node("n1"), node("n3")]), pods)
    assert [(fit.pods[0].name, fit.nodes) for fit in found] == [("p", ("n1",)), ("q", ())]
