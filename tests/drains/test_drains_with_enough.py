"""What is proven of processes of kubectl drain at a budget that has a disruption for every pod that they take from it."""

from __future__ import annotations

import pytest
from building.builders import ns
from drawn.drain_worlds import (
    CONFIGURATION,
    READY,
    ROUND,
    App,
    drain,
    drained_cluster,
    drains,
    latest,
    proven,
    synced,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import EvictionNotAllowed, NodeDrainEnded
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.drains.bounds import DrainBounds
from kubectl_evictplan.windows.drains.delays import FORGOTTEN_NS

TWICE = drain("a1", at=1), drain("a1", at=1)
# From one try of kubectl to the next, at most.
TRY = 5.07


def ends(bounds: DrainBounds) -> list[float]:
    found = [turn.end for turn in bounds.turns.values()]
    return [one.latest_ns / 1e9 for one in found if one is not None and one.latest_ns is not None]


def closed(snapshot: ClusterSnapshot, *names: str) -> ClusterSnapshot:
    """The cluster with nodes that are cordoned already, so that nobody comes to them."""
    nodes = (replace(one, unschedulable=one.name in names) for one in snapshot.nodes)
    return replace(snapshot, nodes=tuple(nodes))


# -- each pod takes one disruption, however many ask for it -----------------------------------------------------


def test_a_pod_that_two_processes_ask_for_takes_one_disruption() -> None:
    web = App("web", ["a1", "b1", "b2"], most=1, grace=0)
    assert latest(proven(drained_cluster(web), *TWICE), "web-0") < 1 + TRY


def test_but_the_second_one_may_be_refused_because_the_first_has_taken_it() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], most=1, grace=0))
    timing = DrainTiming(seed=4, latency=None, ready_low_ns=READY[0], ready_high_ns=READY[1])
    run = simulate(snapshot, drains(*TWICE), CONFIGURATION, Timing(drain=timing))
    assert [one.pod for one in run.entries if isinstance(one, EvictionNotAllowed)]
    over = [one.at_ns / 1e9 for one in run.entries if isinstance(one, NodeDrainEnded)]
    assert max(over) > 1 + TRY
    assert max(over) < min(ends(proven(snapshot, *TWICE)))


def test_requests_for_one_pod_that_meet_may_take_what_another_one_needs_until_its_next_try() -> (
    None
):
    nodes = ["a1", "a1", "b1", "b2", "b2", "b2"]
    two = proven(drained_cluster(App("web", nodes, most=2)), *TWICE)
    assert 1 + TRY < latest(two, "web-0") < 1 + 2 * TRY
    # Of four requests for two pods two are too many, and one disruption is left for each of them but one.
    three = proven(drained_cluster(App("web", nodes, most=3)), *TWICE)
    assert latest(three, "web-0") < 1 + TRY


def test_word_that_a_pod_of_a_stateful_set_is_about_to_go_may_be_left_for_minutes() -> None:
    web = App("web", ["a1", "b1", "b2"], "StatefulSet", most=1, parallel=True)
    assert latest(proven(drained_cluster(web), *TWICE), "web-0") > FORGOTTEN_NS / 1e9


def test_a_disruption_that_comes_later_is_there_for_all_that_asked_before() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], least=2, unready=[2]))
    pods = [
        replace(pod, creation_timestamp_ns=snapshot.taken_at_ns) if pod.name == "web-2" else pod
        for pod in snapshot.pods
    ]
    starting = synced(replace(snapshot, pods=tuple(pods)))
    assert starting.budgets[0].disruptions_allowed == 0
    # It is Ready, and counted, within 4.2 s of the start: the second try comes later. Five writes because of it hold that up.
    assert latest(proven(starting, *TWICE), "web-0") == pytest.approx(1.585 + TRY + 5 * 0.59)


def test_or_as_soon_as_it_is_there_where_that_is_sooner_than_after_so_many_tries() -> None:
    slow = App("slow", ["a2"])
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], least=2, unready=[2]), slow)
    pods = [
        replace(pod, creation_timestamp_ns=snapshot.taken_at_ns) if pod.name == "web-2" else pod
        for pod in snapshot.pods
    ]
    starting = synced(replace(snapshot, pods=tuple(pods)))
    # kubectl may come to the second node at once, or when the budget has opened long ago.
    both = drain("a2", "a1", at=1), drain("a2", "a1", at=1)
    quick = latest(proven(starting, *both), "web-0")
    assert latest(proven(starting, *both, ready=(ns(3), ns(12))), "web-0") == quick


def test_before_1_19_whoever_terminates_takes_another_one() -> None:
    web = App("web", ["a1", "b1", "b2"], most=1)
    now = latest(proven(drained_cluster(web), *TWICE), "web-0")
    rules = EvictionRules(ignores_pending=False)
    assert latest(proven(drained_cluster(web), *TWICE, rules=rules), "web-0") > now + TRY


# -- what is over before kubectl comes --------------------------------------------------------------------------

LATER = drain("a1", at=1), drain("b1", at=60)


def web_after(*events: ScenarioEvent, kind: str = "ReplicaSet", parallel: bool = False) -> float:
    """When the pod of the second of two nodes is evicted at the latest; nobody is made anew there."""
    web = App("web", ["a1", "b1", "b2"], kind, most=1, grace=5, parallel=parallel)
    return latest(proven(closed(drained_cluster(web), "b1"), *events), "web-1")


def test_whoever_was_evicted_and_replaced_before_kubectl_comes_costs_it_nothing() -> None:
    assert web_after(*LATER) < 60 + TRY
    assert web_after(*LATER, parallel=True, kind="StatefulSet") < 60 + TRY


def test_where_it_may_not_be_back_by_then_it_does() -> None:
    assert web_after(drain("a1", at=1), drain("b1", at=4)) > 4 + TRY


def test_nor_where_others_of_its_set_that_go_later_keep_it_from_being_made() -> None:
    assert web_after(*LATER, kind="StatefulSet") > 60 + ROUND


def test_nor_where_it_may_be_asked_for_once_more_as_long_as_that_is_over_before() -> None:
    # Both ask for it at one time.
    twice = drain("a1", at=1), drain("a1", at=1)
    assert web_after(*twice, drain("b1", at=60)) == 60.585
    assert web_after(*twice, drain("b1", at=5)) > 5 + TRY


def test_but_where_it_was_given_much_time_to_end() -> None:
    first = drain("a1", at=1, grace_period_seconds=90)
    assert web_after(first, drain("b1", at=60), kind="StatefulSet", parallel=True) > 60 + ROUND


def test_nor_before_1_19_where_whoever_terminates_may_take_another_disruption() -> None:
    web = App("web", ["a1", "a1", "b1", "b2"], most=1)
    rules = EvictionRules(ignores_pending=False)
    bounds = proven(closed(drained_cluster(web), "b1"), *LATER, rules=rules)
    assert latest(bounds, "web-2") > 60 + 2 * ROUND


def test_who_is_back_only_before_a_later_node_costs_the_first_one_a_round_and_that_one_nothing() -> (
    None
):
    nodes = "b1", "a1", "a2", "b2", "c1"

    def after(at: float) -> float:
        web = App("web", [*nodes, "c1"], least=5)
        first, second = drain("b1", at=1), drain("a1", "a2", "b2", at=at, settle_ns=ns(60))
        bounds = proven(closed(drained_cluster(web, nodes=nodes), *nodes[:4]), first, second)
        return latest(bounds, "web-3") - at

    # It may keep the first pod waiting; each later one is let go at once.
    assert after(at=5) == pytest.approx(after(at=30) + ROUND)


def test_replacements_that_the_budget_may_not_cover_are_never_back() -> None:
    snapshot = closed(drained_cluster(App("web", ["a1", "b1", "b2", "b2"], most=1)), "b1")
    pods = [replace(pod, labels={}) if pod.name == "web-3" else pod for pod in snapshot.pods]
    bounds = proven(synced(replace(snapshot, pods=tuple(pods))), *LATER)
    assert "default/web-1" not in {key.pod for key in bounds.rows}


def test_an_old_object_that_ends_meanwhile_holds_a_request_up_where_pods_are_counted() -> None:
    def after(**budget: int) -> float:
        web = App("web", ["a1", "b1", "b2"], grace=300, **budget)  # type: ignore[arg-type]
        return latest(proven(closed(drained_cluster(web), "b1"), *LATER), "web-1")

    # The end of the other one; what its own eviction writes keeps nobody waiting.
    assert after(least=2) - after(most=1) == pytest.approx(0.59)


# -- who is made anew, and where ----------------------------------------------------------------------------------


def guests_of(bounds: DrainBounds, node: str) -> set[str]:
    return {
        pod.name for turn in bounds.plan.turns if turn.drain.node == node for pod in turn.guests
    }


def test_who_goes_after_a_node_is_cordoned_is_not_made_anew_there() -> None:
    snapshot = drained_cluster(App("web", ["a1", "a2", "b2"]))
    events = drain("a1", "a2", at=1, settle_ns=ns(60)), drain("b1", at=10)
    assert guests_of(proven(snapshot, *events), "b1") == {"web-0"}
    # The scheduler may see the cordon a little later.
    shortly = drain("a1", "a2", at=1, settle_ns=ns(8.35)), drain("b1", at=10)
    assert guests_of(proven(snapshot, *shortly), "b1") == {"web-0", "web-1"}


def test_nor_whom_a_process_evicts_that_has_cordoned_the_node_itself() -> None:
    snapshot = drained_cluster(App("web", ["a2", "b2"]))
    bounds = proven(snapshot, drain("a1", "a2", at=10))
    assert guests_of(bounds, "a1") == set()
    bounds = proven(snapshot, drain("a1", "a2", at=10), drain("a2", at=40))
    assert guests_of(bounds, "a1") == set()
    bounds = proven(snapshot, drain("a1", "a2", at=10), drain("a2", at=5))
    assert guests_of(bounds, "a1") == {"web-0"}


def test_unless_nobody_knows_whom_kubectl_finds() -> None:
    web = App("web", ["a1", "a2", "b2"])
    snapshot = drained_cluster(web, App("bare", ["b2"], ""))
    others = drain("a1", "a2", at=1, settle_ns=ns(60)), drain("b1", at=10)
    # The second of these goes on once the first has taken away why the node is refused.
    forced = drain("b2", at=1, force=True, pod_selector="app=bare"), drain("b2", at=2)
    assert guests_of(proven(snapshot, *others, *forced), "b1") == {"web-0", "web-2"}
