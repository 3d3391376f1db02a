"""Worked timelines: restarts, the mode without taints, and quirks.

Conventions as in test_timelines.py.
"""

from __future__ import annotations

import pytest
from building.builders import (
    EXCLUDE_LABEL,
    NOT_READY,
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from building.timeline_runs import (
    ADD,
    CURRENT,
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
    names,
    posts_ready,
    restart,
    silence,
    two_zones,
)
from naive.model import NaiveRun

from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent


@pytest.fixture(params=sorted(MODELS))
def run(request: pytest.FixtureRequest) -> Runner:
    return Runner(MODELS[request.param])


# --- restarts


@pytest.mark.parametrize("release", UP_TO_1_31)
def test_a_restart_before_detection_starts_the_grace_again(run: Runner, release: str) -> None:
    outcome = run(release, cluster("a", "b", "c"), [silence("a"), *restart(33)])
    assert outcome.unknown() == [(73, "a")]
    assert outcome.tainted() == [(78.1, "a")]


@pytest.mark.parametrize(
    ("release", "first", "restarted"),
    [
        *((release, 50.1, 103.0) for release in OLD),
        *((release, 55.1, 113.0) for release in CURRENT),
    ],
)
def test_a_restart_untaints_and_taints_again_one_by_one(
    run: Runner, release: str, first: float, restarted: float
) -> None:
    down = names(3)
    pods = [make_pod(f"p-{name}", name, tolerations=default_tolerations()) for name in down]
    snapshot = make_snapshot(names(10), pods, renewed=-8)
    outcome = run(release, snapshot, [silence(*down), *restart(restarted)], horizon=450)
    again = restarted + 0.1
    times = (first, first + 10, first + 20, again, again + 10, again + 20)
    assert outcome.tainted() == [
        (round(time, 1), name) for time, name in zip(times, [*down, *down], strict=True)
    ]
    assert outcome.untainted() == all_at(restarted, down)
    # The new process knows no timers; the old ones died with it.
    assert outcome.deleted("taint-eviction") == [
        (round(again + 300 + 10 * i, 1), f"default/p-{name}") for i, name in enumerate(down)
    ]


# --- a lease that the controller forgot


class StatusWithoutRenewal(NaiveRun):
    """No scenario event posts a status without renewing: only the naive model can be told."""

    def happen_to_node(self, event: ScenarioEvent, name: str) -> None:
        if event.action == "node-ready":
            self.world.post_ready(name, event.status)
        else:
            super().happen_to_node(event, name)


@pytest.mark.parametrize("release", UP_TO_1_31)
def test_a_status_post_after_the_last_renewal_grants_a_free_tick(release: str) -> None:
    events = [silence("a", last=9), make_event(11, "node-ready", "a", status="True")]
    settings = ControllerSettings(kubernetes_version=release)
    scenario = make_scenario(events, horizon=70, cold=True)
    outcome = Outcome(
        StatusWithoutRenewal(cluster("a", "b", "c"), scenario, settings, Timing()).run()
    )
    assert outcome.unknown() == [(60, "a")]
    assert outcome.tainted() == [(65.1, "a")]


@pytest.mark.parametrize("release", UP_TO_1_31)
def test_status_and_lease_seen_by_one_tick_grant_no_free_tick(run: Runner, release: str) -> None:
    events = [make_event(11, "node-ready", "a", status="True"), silence("a", last=11)]
    outcome = run(release, cluster("a", "b", "c"), events)
    assert outcome.unknown() == [(55, "a")]


@pytest.mark.parametrize("release", UP_TO_1_31)
def test_control_status_at_9_and_lease_at_11(run: Runner, release: str) -> None:
    events = [make_event(9, "node-ready", "a", status="True"), silence("a", last=11)]
    outcome = run(release, cluster("a", "b", "c"), events)
    assert outcome.unknown() == [(55, "a")]


# --- --enable-taint-manager=false

NO_TAINT_MANAGER = {"enable-taint-manager": "false"}
NONTAINT = ["1.16.0", "1.17.0", "1.18.0", "1.20.0", "1.23.13", "1.26.0"]


def nontaint_pods(*node_names: str) -> list[Pod]:
    daemon = make_pod("daemon", node_names[0], owner="DaemonSet/agent")
    return [daemon, *(make_pod(f"p-{name}", name) for name in node_names)]


@pytest.mark.parametrize("release", NONTAINT)
def test_pods_go_three_hundred_seconds_after_the_last_observed_heartbeat(
    run: Runner, release: str
) -> None:
    snapshot = make_snapshot("abc", nontaint_pods("a"), renewed=-8)
    late = make_event(307, "pod-create", pod=make_pod("late", "a"))
    outcome = run(release, snapshot, [silence("a"), late], horizon=330, flags=NO_TAINT_MANAGER)
    assert outcome.unknown() == [(45, "a")]
    assert outcome.tainted() == []
    deleted = [(305.1, "default/p-a")]
    if release != "1.16.0":
        # The pod worker meets a node in state evicted: no rate limit.
        deleted.append((307, "default/late"))
    assert outcome.deleted() == deleted
    assert outcome.deleted("node-lifecycle") == deleted


@pytest.mark.parametrize("release", NONTAINT)
def test_a_posted_false_counts_from_the_tick_that_saw_it(run: Runner, release: str) -> None:
    snapshot = make_snapshot("abc", nontaint_pods("a"), renewed=-8)
    events = [make_event(22, "node-ready", "a", status="False")]
    outcome = run(release, snapshot, events, horizon=330, flags=NO_TAINT_MANAGER)
    assert outcome.unknown() == []
    assert outcome.deleted() == [(325.1, "default/p-a")]


@pytest.mark.parametrize("release", NONTAINT)
@pytest.mark.parametrize(("changed", "deleted"), [(-16, -15), (-15, -15), (-14, -10)])
def test_a_false_posted_before_the_start_counts_from_the_tick_that_saw_it(
    run: Runner, release: str, changed: float, deleted: float
) -> None:
    nodes = [make_node("a", ready="False", transition=changed, heartbeat=changed), "b", "c"]
    snapshot = make_snapshot(nodes, [make_pod("p", "a")], renewed=-3)
    flags = {**NO_TAINT_MANAGER, "pod-eviction-timeout": "32s"}
    outcome = run(release, snapshot, flags=flags, cold=False)
    # 32 s end between two ticks; the pass after the next one deletes.
    assert outcome.deleted() == [(deleted + 35.1, "default/p")]


@pytest.mark.parametrize("release", NONTAINT)
def test_leaving_a_total_outage_restarts_the_countdown(run: Runner, release: str) -> None:
    snapshot = make_snapshot("abcd", nontaint_pods("c", "d"), renewed=-8)
    events = [silence(*"abcd"), posts_ready(202, "a", "b")]
    outcome = run(release, snapshot, events, horizon=520, flags=NO_TAINT_MANAGER)
    assert outcome.zones() == [(0, "Normal"), (45, "FullDisruption"), (205, "Normal")]
    assert outcome.deleted() == [(505.1, "default/p-c"), (515.1, "default/p-d")]


# --- quirks


@pytest.mark.parametrize("release", ["1.18.0", "1.23.13", "1.31.0"])
def test_a_new_ready_zone_does_not_end_the_disruption_of_the_old_one(
    run: Runner, release: str
) -> None:
    zone_a = names(4, "a")
    created = make_event(82, "node-create", node=make_node("b00", zone="b", created=None))
    outcome = run(release, two_zones(*zone_a, b=[]), [silence(*zone_a), created], horizon=200)
    assert outcome.zones("/a") == [(0, "Normal"), (45, "FullDisruption")]
    assert outcome.zones("/b") == [(85, "Normal")]
    assert outcome.tainted() == []


@pytest.mark.parametrize("release", ["1.18.0", "1.23.13", "1.31.0"])
def test_a_known_zone_that_recovers_does_end_it(run: Runner, release: str) -> None:
    zone_a = names(4, "a")
    events = [silence(*zone_a, "b00"), posts_ready(82, "b00")]
    outcome = run(release, two_zones(*zone_a, b=["b00"]), events, horizon=140)
    assert outcome.zones("/b") == [(0, "Normal"), (45, "FullDisruption"), (85, "Normal")]
    assert outcome.tainted() == at(95, 105, 115, 125, nodes=zone_a)


@pytest.mark.parametrize("release", ["1.18.0", "1.23.13", "1.31.0"])
@pytest.mark.parametrize(("rate", "tainted"), [("1", []), ("0.5", [(87, "a"), (89, "b")])])
def test_rate_one_is_never_restored_after_never(
    run: Runner, release: str, rate: str, tainted: list[tuple[float, str]]
) -> None:
    events = [silence("a", "b", "c"), posts_ready(82, "c")]
    flags = {"node-eviction-rate": rate}
    outcome = run(release, cluster(*"abcde"), events, flags=flags)
    assert outcome.zones() == [(0, "Normal"), (45, "PartialDisruption"), (85, "Normal")]
    assert outcome.tainted() == tainted


@pytest.mark.parametrize("release", SETREMOVE)
def test_duplicates_taint_the_same_nodes_again(run: Runner, release: str) -> None:
    outcome = run(release, cluster(*names(10)), [silence(*names(3))])
    assert outcome.tainted() == [
        (50.1, "n00"),
        (60.1, "n01"),
        (70.1, "n02"),
        (80.1, "n01"),
        (90.1, "n02"),
        (100.1, "n01"),
        (110.1, "n02"),
        (120.1, "n02"),
        (130.1, "n02"),
    ]


@pytest.mark.parametrize("release", SETREMOVE)
def test_an_orphaned_duplicate_blocks_its_zone_for_ever(run: Runner, release: str) -> None:
    events = [silence(*names(3)), posts_ready(57, "n01", "n02"), silence("n05", last=62)]
    outcome = run(release, cluster(*names(10)), events, horizon=400)
    assert outcome.unknown() == [*all_at(45, names(3)), (105, "n05")]
    assert outcome.shut()[-1] == (105, "n05")
    assert outcome.tainted() == [(50.1, "n00")]


@pytest.mark.parametrize("release", REMOVE_ADD)
def test_without_duplicates_the_next_node_is_served(run: Runner, release: str) -> None:
    events = [silence(*names(3)), posts_ready(57, "n01", "n02"), silence("n05", last=62)]
    outcome = run(release, cluster(*names(10)), events, horizon=400)
    assert outcome.tainted() == [(50.1, "n00"), (110.1, "n05")]


@pytest.mark.parametrize("release", OLD)
def test_eleven_of_twenty_is_partial_in_single_precision(run: Runner, release: str) -> None:
    outcome = run(release, cluster(*names(20)), [silence(*names(11))])
    assert outcome.zones() == [(0, "Normal"), (45, "PartialDisruption")]
    assert outcome.tainted() == []


@pytest.mark.parametrize("release", ["1.18.0", "1.29.6"])
def test_only_a_change_of_state_changes_the_rate(run: Runner, release: str) -> None:
    nodes = names(51)
    events = [silence(*nodes[:29]), make_event(62, "node-delete", nodes[-2:])]
    outcome = run(release, cluster(*nodes), events, horizon=260)
    assert outcome.zones() == [(0, "Normal"), (45, "PartialDisruption")]
    assert outcome.tainted() == at(50.1, 150.2, 250.3, nodes=nodes[:3])


@pytest.mark.parametrize(
    ("release", "tainted"),
    [*((r, [50.1]) for r in ADD), *((r, [50.1, 65.1]) for r in REMOVE_ADD)],
)
def test_a_taint_removed_by_hand_comes_back_since_the_reconcile(
    run: Runner, release: str, tainted: list[float]
) -> None:
    by_hand = make_event(62, "untaint", "a", taint=f"{UNREACHABLE}:NoExecute")
    outcome = run(release, cluster("a", "b", "c"), [silence("a"), by_hand])
    assert outcome.tainted() == [(time, "a") for time in tainted]


@pytest.mark.parametrize("release", OLD)
def test_a_single_node_is_a_total_outage(run: Runner, release: str) -> None:
    outcome = run(release, cluster("a"), [silence("a")])
    assert outcome.zones() == [(0, "Normal"), (45, "FullDisruption")]
    assert outcome.tainted() == []


@pytest.mark.parametrize("release", OLD)
def test_one_of_two_and_two_of_three_are_normal(run: Runner, release: str) -> None:
    one = run(release, cluster("a", "b"), [silence("a")])
    assert one.tainted() == [(50.1, "a")]
    two = run(release, cluster("a", "b", "c"), [silence("a", "b")])
    assert two.tainted() == [(50.1, "a"), (60.1, "b")]


@pytest.mark.parametrize("release", CURRENT)
def test_a_pass_that_reads_a_stale_lister_wastes_its_token(release: str) -> None:
    # The naive model has no watch lag.
    timing = Timing(pass_phase_ns=ns(0.02), stale_lister=True)
    outcome = Runner(MODELS["simulation"])(
        release, cluster("a", "b", "c"), [silence("a")], timing=timing
    )
    assert outcome.unknown() == [(55, "a")]
    assert outcome.tainted() == [(65.02, "a")]


@pytest.mark.parametrize("release", CURRENT)
def test_a_new_process_never_sees_a_node_as_it_was_before_its_first_tick(release: str) -> None:
    # The process before wrote Ready=Unknown 15 ms ago; what the first tick of this one read shows it.
    timing = Timing(pass_phase_ns=ns(0.02), stale_lister=True)
    outcome = Runner(MODELS["simulation"])(
        release, cluster("a", "b", "c"), [silence("a"), *restart(55.015)], timing=timing
    )
    assert outcome.unknown() == [(55, "a")]
    assert outcome.tainted() == [(55.035, "a")]


@pytest.mark.parametrize("release", CURRENT)
def test_a_stale_lister_that_shows_ready_false_has_the_taint_for_that_written(release: str) -> None:
    # One token in 50 s: b is still in line when it is given up, and the pass after that sees what it posted.
    timing = Timing(pass_phase_ns=ns(0.02), stale_lister=True)
    posted = make_event(3, "node-ready", ["a", "b"], status="False")
    outcome = Runner(MODELS["simulation"])(
        release,
        cluster("a", "b", "c", "d"),
        [posted, silence("a", "b", last=3.2)],
        flags={"node-eviction-rate": "0.02"},
        timing=timing,
    )
    assert outcome.unknown() == [(55, "a"), (55, "b")]
    assert outcome.tainted(NOT_READY) == [(5.02, "a"), (55.12, "b")]
    assert outcome.tainted() == [(55, "a"), (60, "b")]


@pytest.mark.parametrize("release", OLD)
def test_a_zone_of_excluded_nodes_gets_a_fresh_token_every_tick(run: Runner, release: str) -> None:
    gate = {"feature-gates": "NodeDisruptionExclusion=true"}
    flags = gate if release.startswith(("1.16.", "1.17.", "1.18.")) else {}
    nodes = [make_node(name, labels={EXCLUDE_LABEL: ""}) for name in "abcd"]
    snapshot = make_snapshot(nodes, renewed=-8)
    outcome = run(release, snapshot, [silence("a", "b", "c")], flags=flags, horizon=66)
    assert outcome.unknown() == all_at(45, ["a", "b", "c"])
    assert outcome.zones() == []
    assert outcome.tainted() == [(50.1, "a"), (55.1, "a"), (60.1, "a"), (65.1, "a")]
