"""What is proven of drains where nobody knows who is let through first."""

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
    row,
    synced,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import EVICTION_API, KUBECTL_DELETE, DrainEnd
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, ScenarioEvent

# What a write of the budget costs whoever asks in that moment.
CONFLICT_S = 0.6

# -- two processes at one budget -----------------------------------------------------------------------


def test_two_processes_at_one_budget_keep_each_other_waiting_for_as_many_rounds_as_pods_go() -> (
    None
):
    web = App("web", ["a1", "b1", "b2"], most=1)
    bounds = proven(drained_cluster(web), drain("a1", at=1), drain("b1", at=1))
    assert row(bounds, "web-0").certain
    assert row(bounds, "web-1").certain
    assert bounds.exit_codes == {0: frozenset({0}), 1: frozenset({0})}
    # Each may find the other's disruption taken, and perhaps that of a replacement that came to its node.
    assert 1 + ROUND < latest(bounds, "web-0") < 1 + 6 * ROUND


def test_at_a_budget_that_has_enough_for_all_nobody_waits_for_a_replacement() -> None:
    web = App("web", ["a1", "b1", "b2", "b2", "b2", "b2"], most=5)
    never = ns(3), None
    bounds = proven(drained_cluster(web), drain("a1", at=1), drain("b1", at=1), ready=never)
    assert row(bounds, "web-0").certain
    assert not any(turn.waits for turn in bounds.turns.values())
    assert bounds.exit_codes == {0: frozenset({0}), 1: frozenset({0})}


def test_a_budget_that_several_may_pass_at_a_time_keeps_everybody_waiting_for_fewer_rounds() -> (
    None
):
    nodes = ["a1", "a1", "b1", "b1", "b2", "b2"]
    events = drain("a1", at=1), drain("b1", at=1)
    one = proven(drained_cluster(App("web", nodes, most=1)), *events)
    two = proven(drained_cluster(App("web", nodes, most=2)), *events)
    assert latest(two, "web-0") + ROUND < latest(one, "web-0")


def test_a_round_costs_as_many_tries_as_come_while_the_budget_is_closed() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2", "b2"], most=1))
    events = drain("a1", at=1), drain("b1", at=1)
    one, same, five = (
        latest(proven(snapshot, *events, ready=(ns(ready), ns(ready))), "web-0")
        for ready in (1, 3, 20)
    )
    # The other pod is Ready again before whoever it keeps waiting asks once more.
    assert one == same
    # It is counted after 20.95 s at the latest, and the fifth try comes 20.01 s after the first at the earliest.
    rounds = round((same - 1.585) // ROUND)
    assert five - same == pytest.approx(rounds * 4 * ROUND)


def test_whoever_is_refused_before_a_pod_is_ready_may_meet_all_rounds_after_that() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], least=2, unready=[2]))
    pods = [
        replace(pod, creation_timestamp_ns=snapshot.taken_at_ns) if pod.name == "web-2" else pod
        for pod in snapshot.pods
    ]
    # Nobody is made anew where kubectl comes.
    nodes = [replace(node, unschedulable=node.name != "b2") for node in snapshot.nodes]
    starting = synced(replace(snapshot, pods=tuple(pods), nodes=tuple(nodes)))

    def waits(at: float) -> float:
        events = drain("a1", "a2", at=at), drain("b1", at=at)
        return latest(proven(starting, *events), "web-0") - at

    # When it is Ready kubectl may sleep until somebody else has gone.
    assert waits(1) == pytest.approx(waits(30) + ROUND)


def test_who_surely_goes_before_the_time_is_up_does_although_its_node_takes_longer() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], most=1, grace=300))
    events = [drain(node, at=1, timeout_ns=ns(40)) for node in ("a1", "b1")]
    limited, free = proven(snapshot, *events), proven(snapshot, drain("a1"), drain("b1"))
    for pod in ("web-0", "web-1"):
        assert row(limited, pod) == row(free, pod)
        assert row(limited, pod).certain
    assert all(DrainEnd.TIMEOUT in turn.reasons for turn in limited.turns.values())
    # Nobody knows whether it goes if it may be asked for in vain.
    shortly = [drain(node, at=1, timeout_ns=ns(11)) for node in ("a1", "b1")]
    assert not row(proven(snapshot, *shortly), "web-0").certain


def test_whoever_asks_before_others_can_have_taken_all_disruptions_is_let_go_at_once() -> None:
    web = App("web", ["a1", "b1", "b2"], most=1)
    early = proven(drained_cluster(web), drain("a1", at=1), drain("b1", at=10))
    assert latest(early, "web-0") == 1.585
    assert row(early, "web-0").certain
    # Who comes second waits a round, or for a replacement that came to its node.
    assert latest(early, "web-1") > 10 + ROUND
    both = proven(drained_cluster(web), drain("a1", at=1), drain("b1", at=1))
    assert min(latest(both, "web-0"), latest(both, "web-1")) > 1 + ROUND


def test_whoever_takes_no_disruption_leads_to_writes_that_hold_others_up_where_pods_are_counted() -> (
    None
):
    web = App("web", ["a1", "a1", *["b2"] * 5], least=1, unready=[1], grace=1)
    bounds = proven(drained_cluster(web), drain("a1", at=1), drain("b1", at=60))
    # Who does not count goes beside it, is made anew, Ready, and gone.
    assert latest(bounds, "web-0") == pytest.approx(1.585 + 4 * 0.59)


def test_as_far_as_nobody_but_evictions_takes_them() -> None:
    # At first two are asked for, and perhaps a replacement on either node: the other one and its own, and one write of each, hold it up.
    web = App("web", ["a1", "b1", "a2", "b2", "b2", "b2"], most=4)
    events = drain("a1", at=1), drain("b1", at=1), drain("a2", at=60)
    snapshot = drained_cluster(web)
    assert latest(proven(snapshot, *events), "web-0") == pytest.approx(1.585 + 2 * 0.59)
    # Of four one is left to a pod that garbage collection takes.
    gone = tuple(
        replace(pod, node_name="gone") if pod.name == "web-5" else pod for pod in snapshot.pods
    )
    assert latest(proven(replace(snapshot, pods=gone), *events), "web-0") > 1 + ROUND


# Of its three pods one is not Ready, and the budget wants the others.
SPENT = App("web", ["a1", "b1", "b2"], least=2, unready=[1])


def test_who_does_not_count_is_replaced_and_opens_the_budget_for_all_that_ask() -> None:
    bounds = proven(drained_cluster(SPENT), drain("a1", at=1), drain("b1", at=20))
    assert bounds.exit_codes == {0: frozenset({0}), 1: frozenset({0})}
    assert row(bounds, "web-1").certain
    # kubectl comes to it within 20.5 s of its clock.
    assert latest(bounds, "web-1") == 20.505
    assert row(bounds, "web-0").certain
    # Then another one is Ready within a round, and there is a try in the next.
    assert 20.5 + ROUND < latest(bounds, "web-0") < 20.5 + 3 * ROUND


def test_who_does_not_count_goes_at_once_if_nobody_bypasses_its_budget_before() -> None:
    web = App("web", ["a1", "a1", "b2"], most=1, unready=[0], grace=1)
    snapshot = drained_cluster(web)
    bypassing = drain("a1", at=20, disable_eviction=True)
    bounds = proven(snapshot, drain("a1", at=1), bypassing)
    # Until the other process begins nobody bypasses it, so no budget is asked: 25 ms until the request arrives, 40 ms until it is answered.
    assert latest(bounds, "web-0") == 1.44 + 0.065
    assert row(bounds, "web-0").certain
    # It is gone when the other process comes, which deletes nobody then.
    assert KUBECTL_DELETE not in [k.controller for k in bounds.rows if k.pod == "default/web-0"]
    # The other one goes when that one is replaced; if the other process comes before, it may be that which deletes it.
    assert row(bounds, "web-1").certain
    assert latest(bounds, "web-1") < 1.585 + ROUND + CONFLICT_S
    sooner = proven(snapshot, drain("a1", at=1), drain("a1", at=5, disable_eviction=True))
    assert not row(sooner, "web-1").certain
    at_once = drain("a1", at=1, disable_eviction=True)
    assert latest(proven(snapshot, drain("a1", at=1), at_once), "web-0") > 1.585


@pytest.mark.parametrize(
    "second",
    [
        # It comes to the other node only when its own pod is let go.
        drain("b2", "b1", at=1),
        # Some go one after the other, and the first may keep its place.
        drain("b1", at=1, parallel=1),
        # Who asks no budget leaves it less than it wants, and then nobody goes.
        drain("b1", at=1, disable_eviction=True),
    ],
)
def test_but_not_where_nobody_knows_that_it_is_let_go(second: ScenarioEvent) -> None:
    bounds = proven(drained_cluster(SPENT), drain("a1", at=1), second)
    assert None in bounds.exit_codes[0]
    assert not [key for key in bounds.rows if key.pod == "default/web-0"]


def test_where_replacements_may_never_be_ready_there_is_no_latest_instant() -> None:
    web = App("web", ["a1", "b1", "b2"], most=1)
    bounds = proven(drained_cluster(web), drain("a1", at=1), drain("b1", at=1), ready=(ns(3), None))
    assert bounds.rows == {}
    assert bounds.exit_codes == {0: frozenset({0, None}), 1: frozenset({0, None})}
    with_limits = proven(
        drained_cluster(web),
        drain("a1", at=1, timeout_ns=ns(20)),
        drain("b1", at=1, timeout_ns=ns(20)),
        ready=(ns(3), None),
    )
    # It gives up at its first try after 20 s, or a pod is let through that asked before.
    assert latest(with_limits, "web-0") < 35
    assert not row(with_limits, "web-0").certain
    assert with_limits.exit_codes == {0: frozenset({0, 1}), 1: frozenset({0, 1})}


# -- two processes on one node ---------------------------------------------------------------------------


def test_of_two_processes_on_one_node_one_evicts_by_when_the_first_surely_does() -> None:
    free = App("free", ["a1", "b1"])
    bounds = proven(drained_cluster(free), drain("a1", at=1), drain("a1", at=9))
    alone = row(proven(drained_cluster(free), drain("a1", at=1)), "free-0")
    assert row(bounds, "free-0")[:3] == alone[:3]
    # The second one evicts it once more if it finds it terminating, which lasts for 30 s.
    low, high = bounds.again["default/free-0", "uid-default-free-0", EVICTION_API]
    assert 9 < low / 1e9 < high / 1e9 < 9 + 1
    assert bounds.exit_codes == {0: frozenset({0}), 1: frozenset({0})}


def test_who_may_go_at_any_time_may_be_deleted_again_at_any_time_by_the_other_process() -> None:
    web = drained_cluster(App("web", ["a1", "a1", "b1"], most=1))
    bounds = proven(web, drain("a1", at=1), drain("a1", at=9), ready=(ns(3), None))
    low, high = bounds.again["default/web-0", "uid-default-web-0", EVICTION_API]
    assert (low // ns(1), high) == (9, HORIZON_DEFAULT_MAX_NS)


def test_an_object_ends_as_soon_as_after_the_first_deletion_whoever_deletes_it_again() -> None:
    free = drained_cluster(App("free", ["a1", "b1"], grace=1))
    events = drain("a1", at=1, disable_eviction=True), drain("a1", at=1.5)
    ends = [row(proven(free, *events), "free-0", by).gone for by in (KUBECTL_DELETE, EVICTION_API)]
    first, second = (one.earliest_ns / 1e9 for one in ends if one is not None)
    # 0.15 s after the DELETE; who is evicted once more is there until then.
    assert (first, second) == (1.183, 1.533)
    terminating = tuple(
        replace(pod, deletion_timestamp_ns=free.taken_at_ns + ns(2)) for pod in free.pods
    )
    left = proven(replace(free, pods=terminating), drain("a1", at=1), drain("a1", at=1))
    found = row(left, "free-0")
    assert found.gone is not None
    assert found.gone.earliest_ns == found.spans[0][0]


def test_neither_of_two_ways_to_delete_is_certain_although_the_pod_goes() -> None:
    free = App("free", ["a1", "b1"])
    bounds = proven(
        drained_cluster(free), drain("a1", at=1), drain("a1", at=1, disable_eviction=True)
    )
    assert not row(bounds, "free-0").certain
    assert not row(bounds, "free-0", KUBECTL_DELETE).certain
    assert bounds.exit_codes == {0: frozenset({0}), 1: frozenset({0})}


def test_whom_another_process_deleted_no_closed_budget_keeps_from_being_evicted_again() -> None:
    web = App("web", ["a1", "b1"], least=2)
    first = drain("a1", at=1, disable_eviction=True)
    bounds = proven(drained_cluster(web), first, drain("a1", at=2))
    assert not [key for key in bounds.rows if key.controller == EVICTION_API and key.ordinal]
    evicted = [one for key, one in bounds.rows.items() if key.controller == EVICTION_API]
    assert all(one.spans[0][0] < ns(2.1) for one in evicted)


def test_what_makes_kubectl_refuse_a_node_may_be_gone_when_another_process_was_there() -> None:
    bare = App("bare", ["a1"], "")
    bounds = proven(drained_cluster(bare), drain("a1", at=1, force=True), drain("a1", at=2))
    assert bounds.exit_codes[1] == {0, 1}


def test_then_it_may_evict_at_any_time_whom_the_other_one_gives_up() -> None:
    web, bare = App("web", ["b1", "b1", "b2"], most=1), App("bare", ["b1"], "")
    snapshot = drained_cluster(web, bare, App("slow", ["a1"]))
    limited = drain("b1", at=1.2, force=True, timeout_ns=ns(9))
    assert not row(proven(snapshot, drain("a1", at=1), limited), "web-0").certain
    # To a node that kubectl refuses as long as the bare pod is there.
    bounds = proven(snapshot, drain("a1", "b1", at=1), limited)
    assert not any(key.pod == "default/web-0" for key in bounds.rows)
    assert any(key.pod == "default/web-0" for key in bounds.unbounded)


def test_where_every_process_refuses_a_node_each_of_them_does_for_certain() -> None:
    bare = App("bare", ["a1"], "")
    bounds = proven(drained_cluster(bare), *(drain("a1", at=at) for at in (1, 1, 5)))
    assert bounds.exit_codes == dict.fromkeys(range(3), frozenset({1}))
    assert {turn.reasons for turn in bounds.turns.values()} == {frozenset({DrainEnd.REFUSED})}
    assert not bounds.rows


def test_a_replacement_that_comes_to_the_next_node_may_be_held_there_by_its_closed_budget() -> None:
    lone = App("s", ["a1"], "StatefulSet", least=1, grace=1)
    first = drain("a1", at=1, disable_eviction=True)
    bounds = proven(drained_cluster(lone), first, drain("b1", at=20, timeout_ns=ns(12)))
    assert bounds.exit_codes == {0: frozenset({0}), 1: frozenset({0, 1})}
    for_ever = proven(drained_cluster(lone), first, drain("b1", at=20))
    assert for_ever.exit_codes[1] == {0, None}


def test_beside_whoever_is_held_for_ever_others_are_let_go_as_anywhere() -> None:
    held = App("held", ["a1"], "", least=1)
    web = App("web", ["a1", "b1", "b2"], most=1)
    events = drain("b1", at=1), drain("a1", at=4, force=True)
    bounds = proven(drained_cluster(held, web), *events)
    assert bounds.exit_codes[1] == {None}
    # The first process may have taken the disruption.
    assert row(bounds, "web-0").certain
    assert 4 + ROUND < latest(bounds, "web-0") < 4 + 3 * ROUND


# -- what is told ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_two_processes_do_to_one_budget_is_told_as_proven() -> None:
    web = App("web", ["a1", "b1", "b2"], most=1)
    events = drain("a1", at=1), drain("b1", at=1)
    prediction = predict(drained_cluster(web), drains(*events), CONFIGURATION, assume_ready=READY)
    coverage = prediction.inputs.coverage
    assert coverage is not None
    assert (coverage.exact, coverage.explored, coverage.explored_nodes) == (0, 0, ())
    assert {one.exit_code for one in prediction.drains} == {0}


@pytest.mark.slow
def test_an_end_that_may_never_come_is_told_without_a_latest_instant_and_without_a_code() -> None:
    web = App("web", ["a1", "b1", "b2"], most=1)
    events = drain("a1", at=1), drain("b1", at=1)
    prediction = predict(
        drained_cluster(web), drains(*events), CONFIGURATION, assume_ready=(ns(3), None)
    )
    told = {(one.end_latest_seconds, one.exit_code, one.end_reason) for one in prediction.drains}
    assert told == {(None, None, None)}
