"""Worked timelines of the node lifecycle controller, with their literal instants.

Each runs on the program's simulation and, as a check of the reading, on the naive model. The
controller starts at 0, ticks at 0, 5, 10, ..., passes every 100 ms, healthy nodes renew every 10 s,
one unlabelled zone unless zones are named. Restarts and quirks are in test_timelines_quirks.py.
"""

from __future__ import annotations

import pytest
from building.builders import NOT_READY, make_event, make_lease, make_node, make_snapshot, ns
from building.timeline_runs import (
    CURRENT,
    FROM_1_32,
    GRACE_50,
    MODELS,
    OLD,
    REMOVE_ADD,
    SETREMOVE,
    UP_TO_1_31,
    Outcome,
    Runner,
    all_at,
    at,
    cluster,
    in_zones,
    names,
    posts_ready,
    restart,
    silence,
    two_zones,
)

from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.scenarios.scenario import ScenarioEvent


@pytest.fixture(params=sorted(MODELS))
def run(request: pytest.FixtureRequest) -> Runner:
    return Runner(MODELS[request.param])


# --- one node


@pytest.mark.parametrize(
    ("release", "unknown", "tainted"),
    [
        *((release, 45, 50.1) for release in UP_TO_1_31),
        *((release, 55, 60.1) for release in GRACE_50),
        *((release, 55, 55.1) for release in CURRENT),
    ],
)
def test_one_silent_node_of_three(
    run: Runner, release: str, unknown: float, tainted: float
) -> None:
    outcome = run(release, cluster("a", "b", "c"), [silence("a")])
    assert outcome.unknown() == [(unknown, "a")]
    assert outcome.shut() == [(unknown, "a")]
    assert outcome.tainted() == [(tainted, "a")]
    assert outcome.zones() == [(0, "Normal")]
    assert outcome.untainted() == []


@pytest.mark.parametrize(
    ("release", "last", "unknown", "tainted"),
    [
        ("1.29.6", 4, 45, 50.1),
        ("1.29.6", 2.5, 45, 50.1),
        ("1.29.6", 0, 40, 45.1),
        ("1.29.6", 5, 45, 50.1),
        ("1.29.6", 5.001, 50, 55.1),
        ("1.33.0", 4, 55, 60.1),
        ("1.33.0", 0, 50, 55.1),
        ("1.34.0", 4, 55, 55.1),
        ("1.34.0", 0, 50, 50.1),
    ],
)
def test_phase_formula_counts_from_the_first_tick_that_sees_the_heartbeat(
    run: Runner, release: str, last: float, unknown: float, tainted: float
) -> None:
    outcome = run(release, cluster("a", "b", "c"), [silence("a", last=last)])
    assert outcome.unknown() == [(unknown, "a")]
    assert outcome.tainted() == [(tainted, "a")]


@pytest.mark.parametrize("phase", [0.02, 0.05, 0.0999])
def test_the_pass_phase_is_what_lies_between_queueing_and_tainting(
    run: Runner, phase: float
) -> None:
    timing = Timing(pass_phase_ns=ns(phase))
    outcome = run("1.29.6", cluster("a", "b", "c"), [silence("a")], timing=timing)
    assert outcome.tainted() == [(50 + phase, "a")]


@pytest.mark.parametrize("release", OLD)
def test_real_drift_of_ticks_and_passes(run: Runner, release: str) -> None:
    timing = Timing(monitor_cost_ns=ns(0.02), pass_cost_ns=ns(0.001))
    snapshot = cluster("a", "b", "c", "d", "e")
    outcome = run(release, snapshot, [silence("a", "b")], timing=timing)
    assert outcome.unknown() == all_at(45.18, ["a", "b"])
    assert outcome.tainted() == at(50.298, 60.398, nodes=["a", "b"])


# --- rates


@pytest.mark.parametrize("release", UP_TO_1_31)
def test_four_of_ten_are_tainted_every_ten_seconds(run: Runner, release: str) -> None:
    down = names(4)
    outcome = run(release, cluster(*names(10)), [silence(*down)], horizon=85)
    assert outcome.unknown() == all_at(45, down)
    assert (
        outcome.tainted()[: None if release not in SETREMOVE else 3]
        == at(50.1, 60.1, 70.1, 80.1, nodes=down)[: None if release not in SETREMOVE else 3]
    )
    assert outcome.zones() == [(0, "Normal")]


@pytest.mark.parametrize("release", CURRENT)
def test_four_of_ten_from_1_34_on(run: Runner, release: str) -> None:
    down = names(4)
    outcome = run(release, cluster(*names(10)), [silence(*down)], horizon=95)
    assert outcome.unknown() == all_at(55, down)
    assert outcome.tainted() == at(55.1, 65.1, 75.1, 85.1, nodes=down)


@pytest.mark.parametrize("release", [*UP_TO_1_31, *FROM_1_32])
def test_three_of_five_in_a_small_zone_stop_tainting(run: Runner, release: str) -> None:
    unknown = 55 if release in FROM_1_32 else 45
    outcome = run(release, cluster(*"abcde"), [silence("a", "b", "c")])
    assert outcome.unknown() == all_at(unknown, ["a", "b", "c"])
    assert outcome.shut() == all_at(unknown, ["a", "b", "c"])
    assert outcome.zones() == [(0, "Normal"), (unknown, "PartialDisruption")]
    assert outcome.tainted() == []


@pytest.mark.parametrize("release", UP_TO_1_31)
def test_the_third_node_stops_tainting_before_the_first_is_served(
    run: Runner, release: str
) -> None:
    outcome = run(release, cluster(*"abcde"), [silence("a", "b"), silence("c", last=7)])
    assert outcome.unknown() == [(45, "a"), (45, "b"), (50, "c")]
    assert outcome.zones() == [(0, "Normal"), (50, "PartialDisruption")]
    assert outcome.tainted() == []


@pytest.mark.parametrize("release", CURRENT)
def test_from_1_34_on_exactly_one_node_is_tainted(run: Runner, release: str) -> None:
    outcome = run(release, cluster(*"abcde"), [silence("a", "b"), silence("c", last=7)])
    assert outcome.unknown() == [(55, "a"), (55, "b"), (60, "c")]
    assert outcome.tainted() == [(55.1, "a")]
    assert outcome.untainted() == []


@pytest.mark.parametrize(
    ("release", "unknown", "tainted"),
    [
        *(
            (release, 45, (50.1, 150.2, 250.3, 350.4))
            for release in ["1.18.0", "1.23.13", "1.31.0"]
        ),
        *((release, 55, (55.1, 155.2, 255.3, 355.4)) for release in ["1.34.0", "1.37.0"]),
    ],
)
def test_forty_of_sixty_fall_to_the_secondary_rate_with_a_full_bucket(
    run: Runner, release: str, unknown: float, tainted: tuple[float, ...]
) -> None:
    down = names(40)
    outcome = run(release, cluster(*names(60)), [silence(*down)], horizon=360)
    assert outcome.unknown() == all_at(unknown, down)
    assert outcome.zones() == [(0, "Normal"), (unknown, "PartialDisruption")]
    assert outcome.tainted() == at(*tainted, nodes=down[:4])


@pytest.mark.parametrize("release", ["1.18.0", "1.29.6"])
def test_a_swap_without_a_token_starts_an_empty_bucket(run: Runner, release: str) -> None:
    nodes = names(60)
    events = [silence(*nodes[:10]), silence(*nodes[10:40], last=32)]
    outcome = run(release, cluster(*nodes), events, horizon=280)
    assert outcome.unknown() == [*all_at(45, nodes[:10]), *all_at(75, nodes[10:40])]
    assert outcome.zones() == [(0, "Normal"), (75, "PartialDisruption")]
    assert outcome.tainted() == at(50.1, 60.1, 70.1, 175.1, 275.2, nodes=nodes[:5])


@pytest.mark.parametrize("release", ["1.18.0", "1.29.6"])
def test_back_to_the_normal_rate_starts_an_empty_bucket(run: Runner, release: str) -> None:
    nodes = names(60)
    events = [silence(*nodes[:40]), posts_ready(162, *nodes[20:40])]
    outcome = run(release, cluster(*nodes), events, horizon=200)
    assert outcome.zones() == [(0, "Normal"), (45, "PartialDisruption"), (165, "Normal")]
    assert outcome.tainted() == at(50.1, 150.2, 175, 185, 195, nodes=nodes[:5])


# --- total outages


@pytest.mark.parametrize("release", ["1.16.0", "1.18.17", "1.29.6", "1.31.0"])
def test_total_outage_then_recovery_node_by_node(run: Runner, release: str) -> None:
    events = [
        silence(*"abcde"),
        posts_ready(101, "a"),
        posts_ready(112, "b"),
        posts_ready(123, "c"),
    ]
    outcome = run(release, cluster(*"abcde"), events, horizon=160)
    assert outcome.unknown() == all_at(45, list("abcde"))
    assert outcome.zones() == [
        (0, "Normal"),
        (45, "FullDisruption"),
        (105, "PartialDisruption"),
        (125, "Normal"),
    ]
    assert outcome.tainted() == at(135, 145, nodes=["d", "e"])
    assert outcome.reopened() == [(101, "a"), (112, "b"), (123, "c")]


@pytest.mark.parametrize("release", OLD)
def test_one_dead_zone_of_two_keeps_the_full_rate(run: Runner, release: str) -> None:
    zone_a = names(3, "a")
    outcome = run(release, in_zones(release, zone_a, names(3, "b")), [silence(*zone_a)], horizon=90)
    assert outcome.zones("/a") == [(0, "Normal"), (45, "FullDisruption")]
    assert outcome.zones("/b") == [(0, "Normal")]
    assert outcome.tainted() == at(50.1, 60.1, 70.1, nodes=zone_a)


@pytest.mark.parametrize("release", OLD)
def test_the_last_zone_to_die_removes_every_no_execute_taint(run: Runner, release: str) -> None:
    zone_a, zone_b = names(3, "a"), names(3, "b")
    events = [silence(*zone_a), silence(*zone_b, last=32)]
    outcome = run(release, in_zones(release, zone_a, zone_b), events)
    assert outcome.tainted() == at(50.1, 60.1, 70.1, nodes=zone_a)
    assert outcome.untainted() == all_at(75, zone_a)
    assert outcome.zones("/a") == [(0, "Normal"), (45, "FullDisruption")]
    assert outcome.zones("/b") == [(0, "Normal"), (75, "FullDisruption")]
    assert outcome.reopened() == []


@pytest.mark.parametrize("release", ["1.18.0", "1.23.13", "1.31.0"])
def test_restart_in_the_middle_of_a_total_outage(run: Runner, release: str) -> None:
    zone_a, zone_b = names(3, "a"), names(3, "b")
    events = [silence(*zone_a, *zone_b), *restart(98), posts_ready(131, *zone_b)]
    outcome = run(release, two_zones(*zone_a, b=zone_b), events, horizon=180)
    assert outcome.unknown() == all_at(45, [*zone_a, *zone_b])
    assert outcome.zones("/a") == [(0, "Normal"), (45, "FullDisruption")]
    assert outcome.zones("/b") == [(0, "Normal"), (45, "FullDisruption"), (133, "Normal")]
    assert outcome.tainted() == at(143, 153, 163, nodes=zone_a)


# --- heartbeats


@pytest.mark.parametrize("release", UP_TO_1_31)
def test_a_flap_inside_the_grace_leaves_no_trace(run: Runner, release: str) -> None:
    events = [silence("a"), posts_ready(44, "a")]
    outcome = run(release, cluster("a", "b", "c"), events)
    assert [fact for fact in outcome.facts if fact[2] == "a"] == []


@pytest.mark.parametrize("release", OLD)
def test_a_lease_alone_never_clears_unknown(run: Runner, release: str) -> None:
    slow = make_lease("a", renewed=2 - 44, duration_seconds=4 * 44)
    snapshot = make_snapshot("abc", renewed=-8, leases=[slow])
    outcome = run(release, snapshot, horizon=130)
    assert outcome.unknown() == [(45, "a")]
    assert outcome.tainted() == [(50.1, "a")]
    assert outcome.untainted() == []
    assert outcome.reopened() == []


@pytest.mark.parametrize("release", UP_TO_1_31)
def test_recovery_between_unknown_and_queueing(run: Runner, release: str) -> None:
    events = [silence("a"), posts_ready(47, "a")]
    outcome = run(release, cluster("a", "b", "c"), events)
    assert outcome.unknown() == [(45, "a")]
    assert outcome.shut() == [(45, "a")]
    assert outcome.reopened() == [(47, "a")]
    assert outcome.tainted() == []


@pytest.mark.parametrize("release", CURRENT)
def test_from_1_34_on_the_taint_stays_until_the_next_tick(run: Runner, release: str) -> None:
    events = [silence("a"), posts_ready(57, "a")]
    outcome = run(release, cluster("a", "b", "c"), events)
    assert outcome.tainted() == [(55.1, "a")]
    assert outcome.reopened() == [(57, "a")]
    assert outcome.untainted() == [(60, "a")]


def waiting_line(run: Runner, release: str, *events: ScenarioEvent) -> Outcome:
    """Four of ten are down; n00 is tainted at 50.1 and n01 is next in line."""
    return run(release, cluster(*names(10)), [silence(*names(4)), *events], horizon=95)


@pytest.mark.parametrize("release", OLD)
def test_a_waiting_node_that_recovers_before_a_tick_costs_nothing(
    run: Runner, release: str
) -> None:
    outcome = waiting_line(run, release, posts_ready(59.95, "n01"))
    assert outcome.tainted() == at(50.1, 60.1, 70.1, nodes=["n00", "n02", "n03"])


@pytest.mark.parametrize("release", OLD)
def test_a_node_found_ready_by_the_pass_costs_a_token(run: Runner, release: str) -> None:
    outcome = waiting_line(run, release, posts_ready(60.05, "n01"))
    assert outcome.tainted() == at(50.1, 70.1, 80.1, nodes=["n00", "n02", "n03"])


@pytest.mark.parametrize("release", REMOVE_ADD)
def test_a_deleted_node_at_the_head_costs_a_token(run: Runner, release: str) -> None:
    outcome = waiting_line(run, release, make_event(56, "node-delete", "n01"))
    assert outcome.tainted() == at(50.1, 70.1, 80.1, nodes=["n00", "n02", "n03"])


@pytest.mark.parametrize(
    ("release", "unknown", "swap"),
    [
        *((release, 75, 80) for release in OLD),
        *((release, 85, 90) for release in GRACE_50),
        *((release, 85, 85) for release in CURRENT),
    ],
)
def test_ready_false_of_a_live_kubelet_then_its_death(
    run: Runner, release: str, unknown: float, swap: float
) -> None:
    events = [make_event(22, "node-ready", "n00", status="False"), silence("n00", last=32)]
    outcome = run(release, cluster(*names(10)), events)
    assert outcome.shut(NOT_READY) == [(22, "n00")]
    assert outcome.tainted(NOT_READY) == [(25.1, "n00")]
    assert outcome.unknown() == [(unknown, "n00")]
    assert outcome.shut() == [(unknown, "n00")]
    assert outcome.tainted() == [(swap, "n00")]
    assert outcome.untainted(NOT_READY) == [(swap, "n00")]


@pytest.mark.parametrize("release", [*OLD, *FROM_1_32])
def test_a_node_that_never_posts_is_judged_by_the_startup_grace(run: Runner, release: str) -> None:
    fresh = make_node("x", ready=None, created=None)
    outcome = run(release, cluster("a", "b", "c"), [make_event(13.4, "node-create", node=fresh)])
    assert outcome.unknown() == [(75, "x")]
    assert outcome.tainted() == [(75.1, "x")]


@pytest.mark.parametrize("release", [*OLD, *FROM_1_32])
def test_leases_alone_keep_a_node_that_never_posted(run: Runner, release: str) -> None:
    # Created and first renewed at the start, ticks at 2, 7, ...
    nodes = [make_node("x", ready=None, created=0), *(make_node(name) for name in "abc")]
    snapshot = make_snapshot(nodes, renewed=-1, leases=[make_lease("x", 0)])
    timing = Timing(monitor_phase_ns=ns(2))
    events = [silence("x", last=43 - 13)]
    outcome = run(release, snapshot, events, timing=timing, cold=False)
    assert outcome.unknown() == [(105 - 13, "x")]
    assert outcome.tainted() == [(92.1, "x")]
