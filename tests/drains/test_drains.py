"""``kubectl drain`` as it is played: rhythm, refusals, budgets, replacements, ends."""

from __future__ import annotations

import pytest
from building.builders import START_NS, make_event, make_pod, ns, tolerates
from drawn.drain_worlds import CONFIGURATION, App, drain, drained_cluster, drains, make_budget
from msgspec.structs import replace
from realities.drain_runs import about, deleted, ends, exit_codes, moments, play

from kubectl_evictplan.cluster.disruption_budgets import DisruptionBudgets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    DrainProcessEnded,
    EvictionGivenUp,
    EvictionNotAllowed,
    NodeDrainEnded,
    NodeDrainStarted,
    PodCreated,
    PodDeleted,
    PodGone,
    PodReady,
    Timeline,
)
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.event_queue import EventQueue
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.needs import PodNeeds
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.simulate import simulate

WEB = App("web", ["a1", "a1", "b1"], most=1)
FREE = App("free", ["a1", "b1"])


def test_pods_without_a_budget_go_at_once_and_kubectl_looks_every_second() -> None:
    run = play(drained_cluster(FREE), drain("a1"))
    assert moments(run, PodDeleted) == [1.0]
    assert moments(run, PodGone) == about(4.2)
    # Looks at 1.04, 2.04 … 5.04.
    assert moments(run, NodeDrainEnded) == [5.0]
    assert exit_codes(run) == [0]


def test_under_one_budget_the_second_pod_waits_for_the_firsts_replacement() -> None:
    run = play(drained_cluster(WEB), drain("a1"), ready=7)
    first, second = moments(run, PodDeleted)
    assert first < 1.7
    # Ready at 8, asked again every 5 s from the first answer on.
    assert 11 <= second < 12.3
    assert len(moments(run, EvictionNotAllowed)) == 1


def test_replicas_are_replaced_as_soon_as_a_pod_is_terminating() -> None:
    run = play(drained_cluster(FREE), drain("a1"), exit_at=1)
    assert moments(run, PodCreated) == [1.0]
    assert moments(run, PodReady) == [4.0]
    assert moments(run, PodGone) == about(31.2)


def test_of_a_bounded_drain_a_pod_goes_when_one_of_those_before_it_is_seen_to_be_gone() -> None:
    apps = App("free", ["a1", "a1", "a1", "a1", "b1"])
    run = play(drained_cluster(apps), drain("a1", parallel=2))
    assert set(deleted(run)[:2]) == {"free-0", "free-1"}
    # Gone at 4, seen at 5.
    assert moments(run, PodDeleted) == [1.0, 1.0, 5.0, 5.0]
    assert moments(run, NodeDrainEnded) == about(9.1)


def test_a_bound_that_no_node_reaches_changes_nothing() -> None:
    apps = App("free", ["a1", "a1", "b1"])
    unbounded, bounded = (
        [replace(e, because=()) for e in play(drained_cluster(apps), event).entries[3:]]
        for event in (drain("a1"), drain("a1", parallel=2))
    )
    assert unbounded == bounded


def test_a_drain_that_settles_pauses_between_nodes_and_not_behind_the_last() -> None:
    apps = App("free", ["a1", "a2", "b1"])
    run = play(drained_cluster(apps), drain("a2", "a1", settle_ns=ns(60)))
    assert moments(run, NodeDrainStarted) == [1.0, 65.0]
    assert moments(run, DrainProcessEnded) == about(69.1)


def test_nodes_are_cordoned_first_and_drained_one_after_the_other() -> None:
    apps = App("free", ["a1", "a2", "b1"])
    run = play(drained_cluster(apps), drain("a2", "a1"))
    assert deleted(run) == ["free-1", "free-0"]
    assert moments(run, NodeDrainStarted) == [1.0, 5.0]
    assert [node for node, _ in ends(run)] == ["a2", "a1"]


def test_a_drain_that_can_never_end_is_seen_to_be_waiting_and_costs_nothing() -> None:
    run = play(drained_cluster(App("web", ["a1", "b1"], least="100%")), drain("a1"))
    assert run.complete
    assert (ends(run), exit_codes(run)) == ([], [])
    assert len(run.entries) < 20


@pytest.mark.parametrize(("label", "drained"), [("b1", True), ("a1", False), ("a2", False)])
def test_a_replacement_that_no_other_node_lets_in_keeps_its_budget_spent(
    label: str, drained: bool
) -> None:
    """Node a2 is cordoned: only b1 can stand in for a1."""
    cluster = drained_cluster(WEB)
    needs = PodNeeds(node_selector=(("disk", "ssd"),))
    nodes = tuple(
        replace(
            node,
            labels={"disk": "ssd"} if node.name == label else {},
            unschedulable=node.name == "a2",
        )
        for node in cluster.nodes
    )
    pods = tuple(replace(pod, needs=needs) for pod in cluster.pods)
    run = play(replace(cluster, nodes=nodes, pods=pods), drain("a1"))
    assert ends(run) == ([("a1", "drained")] if drained else [])


def test_a_replacement_that_tolerates_the_cordon_comes_back_on_a_cordoned_node() -> None:
    cluster = drained_cluster(WEB, nodes=("a1", "b1"))
    nodes = tuple(replace(node, unschedulable=node.name == "b1") for node in cluster.nodes)
    cordon = tolerates("node.kubernetes.io/unschedulable", effect="NoSchedule")
    for tolerations, drained in (((), False), ((cordon,), True)):
        pods = tuple(replace(pod, tolerations=tolerations) for pod in cluster.pods)
        run = play(replace(cluster, nodes=nodes, pods=pods), drain("a1"))
        assert ends(run) == ([("a1", "drained")] if drained else [])


def test_a_timeout_is_seen_at_the_next_try_by_a_pod_that_is_refused() -> None:
    full = drained_cluster(App("web", ["a1"], least=1))
    run = play(full, drain("a1", timeout_ns=ns(12)))
    assert ends(run) == [("a1", "timeout")]
    assert moments(run, NodeDrainEnded) == [16.0]
    assert exit_codes(run) == [1]


def test_a_try_comes_a_sleep_after_the_answer_before_however_often_its_budget_is_written() -> None:
    web = App("web", ["a1", "b1", "b2"], least=3, grace=1, unready=(1,), policy="AlwaysAllow")
    slow = Timing(drain=DrainTiming(latency=1.0))
    for others in ((), (drain("b1"),)):
        events = drains(drain("a1", timeout_ns=ns(12)), *others)
        entries = simulate(drained_cluster(web), events, CONFIGURATION, slow).entries
        [asked] = [one.asked_ns for one in entries if isinstance(one, EvictionNotAllowed)]
        [up] = [one.at_ns for one in entries if isinstance(one, EvictionGivenUp)]
        # Three times 40 ms to the answer, the sleep, and 30 ms to get the pod.
        assert up - asked == pytest.approx(3 * ns(5.07), abs=10)


def test_a_timeout_ends_a_wait_for_termination_on_time() -> None:
    run = play(drained_cluster(FREE), drain("a1", timeout_ns=ns(10)), exit_at=1)
    assert moments(run, NodeDrainEnded) == [11.0]


def test_several_budgets_fail_the_node_after_its_other_pods_and_the_next_node_is_drained() -> None:
    double = App("web", ["a1", "b1"], least=1)
    snapshot = drained_cluster(
        double, App("free", ["a1", "a2"]), budgets=[make_budget("z", app="web", most=1)]
    )
    run = play(snapshot, drain("a1", "a2"))
    assert deleted(run) == ["free-0", "free-1"]
    assert ends(run) == [("a1", "error"), ("a2", "drained")]
    assert moments(run, NodeDrainEnded)[0] == 5.0
    assert exit_codes(run) == [1]


def test_a_refused_node_keeps_all_its_pods_and_stays_cordoned() -> None:
    snapshot = drained_cluster(FREE, App("bare", ["a1"], kind=""))
    run = play(snapshot, drain("a1"))
    assert deleted(run) == []
    assert ends(run) == [("a1", "refused")]
    assert deleted(play(snapshot, drain("a1", force=True))) in (
        ["free-0", "bare-0"],
        ["bare-0", "free-0"],
    )


def test_disable_eviction_deletes_one_after_the_other_past_every_budget() -> None:
    full = drained_cluster(App("web", ["a1", "a1", "b1"], least="100%"))
    run = play(full, drain("a1", disable_eviction=True))
    assert deleted(run) == ["web-0", "web-1"]
    assert {e.controller for e in run.entries if isinstance(e, PodDeleted)} == {"kubectl-delete"}
    assert exit_codes(run) == [0]


@pytest.mark.parametrize(("asked", "gone"), [(-1, 31.2), (5, 6.2), (60, 61.2), (0, 1.0)])
def test_grace_period_shortens_and_lengthens(asked: int, gone: float) -> None:
    run = play(drained_cluster(FREE), drain("a1", grace_period_seconds=asked), exit_at=1)
    assert moments(run, PodGone) == about(gone)


def test_a_second_drain_may_shorten_the_grace_of_what_is_terminating() -> None:
    events = drain("a1"), drain("a1", at=6, grace_period_seconds=10)
    run = play(drained_cluster(FREE), *events, exit_at=1)
    # It was deleted in second 1: until second 11, which its kubelet is told at 6.
    assert moments(run, PodDeleted) == [1.0, 6.0]
    assert moments(run, PodGone)[0] <= 16.2


def test_a_terminating_pod_is_evicted_again_and_waited_for() -> None:
    snapshot = drained_cluster(FREE)
    dying = make_pod("old", "a1", owner="ReplicaSet/free", deleted=-10)
    run = play(replace(snapshot, pods=(*snapshot.pods, dying)), drain("a1"), exit_at=1)
    assert sorted(deleted(run)) == ["free-0", "old"]


def test_skip_wait_for_delete_timeout_counts_from_the_deletion_timestamp() -> None:
    snapshot = drained_cluster(App("slow", ["a1"], grace=2))
    silent = make_event(0.5, "kubelet-stop", "a1", last_heartbeat=0)
    events = silent, drain("a1", skip_wait_for_delete_timeout_seconds=5)
    run = play(snapshot, *events, horizon=40)
    # Deleted in second 1 with 2 s of grace: more than 5 s after second 3.
    assert moments(run, NodeDrainEnded) == [9.0]


def test_an_ordered_stateful_set_creates_the_next_pod_only_after_the_one_before_is_ready() -> None:
    db = App("db", ["a1", "a1", "b1"], kind="StatefulSet")
    run = play(drained_cluster(db), drain("a1"), ready=5)
    zero, one = moments(run, PodCreated, "db-0"), moments(run, PodCreated, "db-1")
    assert zero == about(4.2)
    assert one == about(9.2)
    parallel = play(drained_cluster(db._replace(parallel=True)), drain("a1"), ready=5)
    assert moments(parallel, PodCreated, "db-1") == about(4.2)


@pytest.mark.parametrize(("release", "held"), [("1.22", 0), ("1.23", 19), ("1.37", 19)])
def test_and_available_for_as_long_as_minreadyseconds_from_1_23_on(
    release: str, held: float
) -> None:
    snapshot = drained_cluster(App("db", ["a1", "a1", "b1"], kind="StatefulSet"))
    slow = tuple(replace(one, min_ready_seconds=20) for one in snapshot.workloads)
    settings = ControllerSettings(kubernetes_version=release)
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    known = replace(snapshot, workloads=slow)
    run = play(known, drain("a1"), ready=5, configuration=configuration)
    assert moments(run, PodCreated, "db-1") == about(9.2 + held)


def test_a_name_that_is_used_again_counts_as_evicted() -> None:
    db = App("db", ["a1", "b1"], kind="StatefulSet")
    run = play(drained_cluster(db), drain("a1"))
    assert ends(run) == [("a1", "drained")]


def test_replacements_wait_while_every_node_is_cordoned() -> None:
    snapshot = drained_cluster(WEB, nodes=("a1", "b1"))
    run = play(snapshot, drain("a1", "b1"))
    assert moments(run, PodReady) == []
    assert len(deleted(run)) == 1
    released = play(snapshot, drain("a1", "b1"), make_event(30, "uncordon", "b1"))
    assert moments(released, PodReady)[0] == 33.0


def test_a_replacement_may_land_on_the_next_node_and_is_evicted_there_while_pending() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1"], most=1), nodes=("a1", "b1"))
    events = drain("a1"), drain("b1", at=3)
    run = play(snapshot, *events, ready=60, exit_at=0.01, joins_drained_nodes=0.5)
    names = deleted(run)
    assert "web-0" in names
    assert any(name.startswith("web-replacement") for name in names)
    assert "web-1" not in names


def test_a_budgets_status_stands_still_while_kube_controller_manager_is_down() -> None:
    snapshot = drained_cluster(WEB)
    down, up = make_event(0.5, "controller-stop"), make_event(30, "controller-start")
    run = play(snapshot, down, drain("a1"), up, horizon=120)
    assert moments(run, PodDeleted)[0] < 2
    assert moments(run, PodCreated)[0] == 30.0
    assert moments(run, PodDeleted)[1] > 33


def test_a_silent_nodes_pods_are_refused_for_good_and_without_a_budget_stay_terminating() -> None:
    db = App("db", ["a1", "b1"], kind="StatefulSet")
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], most=1), db)
    unready = [
        replace(pod, ready="False") if pod.name in ("web-0", "web-1", "db-0") else pod
        for pod in snapshot.pods
    ]
    snapshot = replace(
        snapshot,
        pods=tuple(unready),
        budgets=tuple(
            replace(one, current_healthy=1, disruptions_allowed=0) for one in snapshot.budgets
        ),
    )
    silent = make_event(0.5, "kubelet-stop", "a1", last_heartbeat=0)
    run = play(snapshot, silent, drain("a1"), horizon=30)
    assert deleted(run) == ["db-0"]
    assert moments(run, PodGone) == []
    forced = play(snapshot, silent, drain("a1", grace_period_seconds=0, force=True), horizon=30)
    assert moments(forced, PodGone, "db-0") == [1.0]
    assert "web-0" not in deleted(forced)


def test_simultaneous_evictions_conflict_and_the_losers_are_held_for_half_a_second() -> None:
    many = drained_cluster(App("web", ["a1"] * 6 + ["b1"] * 2, most=3))
    slow = DrainTiming(seed=3, latency=1.0, exit_low=0.1, exit_high=0.1)
    run = simulate(many, drains(drain("a1")), CONFIGURATION, Timing(drain=slow))
    instants = sorted(
        entry.at_ns / 1e9
        for entry in run.entries
        if isinstance(entry, PodDeleted | EvictionNotAllowed) and entry.at_ns < ns(4)
    )
    assert instants[-1] - instants[0] > 0.45


def test_only_who_may_have_read_an_open_budget_conflicts_with_a_write_of_it() -> None:
    state = ClusterState(EventQueue(START_NS), Timeline(START_NS))
    seen = replace(make_budget("web"), generation=1, observed_generation=1)
    closed, opened = (replace(seen, disruptions_allowed=number) for number in (0, 1))
    budgets = DisruptionBudgets(state, [closed])
    budgets.write(0, opened)
    # Who read it before was refused.
    assert budgets.written_open_ns(0) is None
    budgets.write(0, closed)
    assert budgets.written_open_ns(0) == START_NS
    stale = DisruptionBudgets(state, [replace(opened, generation=2)])
    stale.write(0, closed)
    assert stale.written_open_ns(0) is None


def test_the_same_timing_gives_the_same_run_and_the_clock_starts_at_the_scenarios() -> None:
    one, other = (play(drained_cluster(WEB), drain("a1")) for _ in range(2))
    assert one.entries == other.entries
    assert one.start_ns == START_NS
