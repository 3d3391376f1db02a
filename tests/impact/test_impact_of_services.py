"""Services: to whom their clients are sent while pods end, and who among them has nobody."""

from __future__ import annotations

import pytest
from building.builders import make_event, make_pod, ns, tolerates
from msgspec.structs import replace
from worlds import READY, budget, cluster, finding, impact_of, pods_of, service

from kubectl_evictplan.kube.infrastructure import Endpoint, EndpointSlice, Service
from kubectl_evictplan.kube.objects import Workload
from kubectl_evictplan.prediction.impact_document import Impact
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

TAINT = make_event(10, "taint", "a1", taint="maint=yes:NoExecute")
WEB = Service("default", "web", {"app": "web"})


def tainted(*, grace_seconds: int = 60, web: Service = WEB, release: str = "1.37.0") -> Impact:
    """Both pods of a Service end, each for at most that long; successors are Ready after 20 s."""
    pods = pods_of("ReplicaSet", "web", ["a1", "a1"], grace_seconds=grace_seconds)
    return impact_of(cluster(pods, services=(web,)), TAINT, release=release)


# -- pods that are ending ----------------------------------------------------------------------------


def test_pods_that_are_ending_may_answer_until_their_successors_do() -> None:
    impact = tainted()
    found = service(impact, "web")
    [unready], [nobody] = found.nobody_ready, found.nobody_answers
    assert (unready.certainty, unready.least_seconds) == ("certain", 20)
    assert (nobody.certainty, nobody.least_seconds) == ("possible", 0)
    assert nobody.most_seconds == unready.most_seconds
    assert (found.fewest_ready.most, found.fewest_answering.least) == (0, 0)
    assert found.fewest_answering.most == 2
    told = finding(impact, "service-down")
    assert told.certainty == "certain"
    assert "has no ready endpoint" in told.summary
    assert "may answer until they exit" in told.summary


def test_nobody_answers_for_certain_once_the_grace_period_is_over() -> None:
    [nobody] = service(tainted(grace_seconds=5), "web").nobody_answers
    assert nobody.certainty == "certain"
    # The grace period, and half a second for everybody to hear of it.
    assert 14 <= nobody.least_seconds <= 15
    assert nobody.since.earliest_seconds == 10
    assert 15 <= nobody.since.latest_seconds <= 16


@pytest.mark.parametrize(
    ("web", "release"),
    [(WEB, "1.25.0"), (Service("default", "web", {"app": "web"}, headless=True), "1.37.0")],
)
def test_nobody_is_sent_to_pods_that_are_ending_before_1_26_nor_by_dns(
    web: Service, release: str
) -> None:
    [nobody] = service(tainted(web=web, release=release), "web").nobody_answers
    assert (nobody.certainty, nobody.least_seconds) == ("certain", 20)


def test_a_pod_that_is_ending_at_the_start_may_answer_as_long_as_it_does() -> None:
    old = make_pod("old", "b1", labels={"app": "web"}, deleted=-1, grace_seconds=30)
    pods = [*pods_of("ReplicaSet", "web", ["a1"], grace_seconds=1), old]
    ready = (ns(40), ns(40))
    snapshot = cluster(pods, services=(WEB,))
    [nobody] = service(impact_of(snapshot, TAINT, assume_ready=ready), "web").nobody_answers
    assert nobody.certainty == "certain"
    # It ends at 29 s; the successor of the other is Ready at 50 s.
    assert 29 <= nobody.since.latest_seconds <= 30
    assert nobody.least_seconds == pytest.approx(20.5, abs=1)


def test_a_silent_node_answers_nobody_although_its_pods_never_end() -> None:
    pods = pods_of("ReplicaSet", "web", ["a1", "a1"], grace_seconds=600)
    impact = impact_of(
        cluster(pods, services=(WEB,)), make_event(10, "kubelet-stop", "a1"), assume_ready=READY
    )
    [nobody] = service(impact, "web").nobody_answers
    assert nobody.certainty == "certain"
    assert nobody.since.earliest_seconds == 10


# -- labels that no template gives -------------------------------------------------------------------


LEADS = {"app": "db", "role": "leader"}


def led(**template: str) -> Impact:
    """A database whose leader is on the tainted node, with a Service and a budget over it."""
    owner = Workload("StatefulSet", "default", "db", replicas=2, template_labels=template)
    leader, other = pods_of("StatefulSet", "db", ["a1", "b1"])
    over = replace(budget("db", least=1), match_labels=LEADS)
    snapshot = cluster(
        [replace(leader, labels=LEADS), other],
        workloads=[owner],
        budgets=[over],
        services=(Service("default", "leader", LEADS),),
    )
    return impact_of(snapshot, TAINT)


def test_nobody_knows_when_a_pod_gets_a_label_that_its_template_does_not_give() -> None:
    impact = led(app="db")
    found, [over] = service(impact, "leader"), impact.budgets
    assert found.runtime_labels == over.runtime_labels == ("role",)
    for spell in (found.nobody_ready[0], over.broken[0]):
        assert (spell.certainty, spell.least_seconds, spell.most_seconds) == ("certain", 0, None)
    assert found.whole_again.latest_seconds is None
    assert any(line.startswith("labels: ") and "role" in line for line in impact.not_evaluated)


def test_no_replica_more_is_recommended_where_it_would_not_get_the_label() -> None:
    impact = led(app="db")
    for code in ("service-down", "budget-broken"):
        remedy = finding(impact, code).remedy
        assert "hand the role over" in remedy
        assert "scale" not in remedy


def test_a_label_of_the_template_comes_back_with_the_successor() -> None:
    impact = led(**LEADS)
    found = service(impact, "leader")
    assert found.runtime_labels == ()
    assert found.nobody_ready[0].most_seconds is not None


def test_a_drain_is_not_recommended_to_whom_the_budget_has_nobody_to_spare() -> None:
    assert "kubectl drain" not in finding(led(**LEADS), "budget-broken").remedy


# -- clients that stay near --------------------------------------------------------------------------


def of_each_node(event: ScenarioEvent = TAINT, **policies: str) -> Impact:
    """A DaemonSet with a Service, and another pod on each node that asks it."""
    agents = pods_of("DaemonSet", "agent", ["a1", "a2"])
    clients = pods_of("DaemonSet", "client", ["a1", "a2"], tolerations=[tolerates("", None)])
    by_node = Service("default", "agent", {"app": "agent"}, **policies)
    return impact_of(cluster([*agents, *clients], services=(by_node,)), event)


def test_who_asks_only_its_own_node_has_nobody_once_the_last_endpoint_leaves_it() -> None:
    impact = of_each_node(internal_traffic_policy="Local")
    found = finding(impact, "local-endpoints-gone")
    assert (found.certainty, found.objects) == ("certain", ("Service/default/agent",))
    assert found.summary.startswith("on node a1 service default/agent has no ready endpoint")
    assert service(impact, "agent").fewest_ready.least == 1
    assert any("traffic policy Local" in line for line in impact.not_evaluated)


def test_who_comes_in_at_a_node_from_outside_has_nobody_there_either() -> None:
    found = finding(of_each_node(external_traffic_policy="Local"), "local-endpoints-gone")
    assert "clients that come in there from outside" in found.summary


def test_clients_that_may_go_anywhere_or_are_gone_with_their_node_are_no_finding() -> None:
    silent = make_event(10, "kubelet-stop", "a1")
    for impact in (of_each_node(), of_each_node(silent, internal_traffic_policy="Local")):
        assert "local-endpoints-gone" not in {one.code for one in impact.findings}


@pytest.mark.parametrize("hinted", [True, False])
def test_clients_that_go_to_their_own_zone_first_are_said_to_be_not_evaluated(hinted: bool) -> None:
    endpoints = tuple(Endpoint(f"web-{n}", "a1", ready=True) for n in range(2))
    slices = EndpointSlice("default", "x", "web", "IPv4", endpoints, hinted)
    near = Service(
        "default", "web", {"app": "web"}, traffic_distribution="" if hinted else "PreferClose"
    )
    pods = pods_of("ReplicaSet", "web", ["a1", "a1"])
    impact = impact_of(cluster(pods, services=(near,), endpoint_slices=(slices,)), TAINT)
    assert any("trafficDistribution" in line for line in impact.not_evaluated)
