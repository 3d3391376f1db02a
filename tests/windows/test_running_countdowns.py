"""Countdowns that run at the start lie in their windows, whatever the cluster has been through."""

from __future__ import annotations

import random
from itertools import product

import pytest
from building.builders import (
    NOT_READY,
    UNREACHABLE,
    epoch_ns,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    tolerates,
)
from msgspec.structs import replace
from realities.running_countdowns import Countdown, DrawnPast

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags, Node, Pod
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.running_timers import running_timer

TAINT = make_taint(f"{UNREACHABLE}:NoExecute", added=-20)
GONE_DARK = make_node("n1", ready="Unknown", taints=[TAINT])
CONFIGURATION = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())


def cluster(node: Node, pod: Pod, leads_since: float | None) -> ClusterSnapshot:
    """The node with its pod, and when the present process took over."""
    leader_ns = None if leads_since is None else epoch_ns(leads_since)
    snapshot = make_snapshot([node, make_node("n2")], [pod])
    return replace(snapshot, control_plane=ControlPlaneFlags(leader_acquire_time_ns=leader_ns))


def windows(node: Node, pod: Pod, leads_since: float) -> list[tuple[str, float, float]]:
    """When taint eviction deletes the pod, and whether that is certain."""
    scenario = make_scenario([], horizon=120)
    prediction = predict(cluster(node, pod, leads_since), scenario, CONFIGURATION)
    return [
        (eviction.certainty, window.earliest_seconds, window.latest_seconds)
        for eviction in prediction.evictions
        for window in eviction.windows
    ]


def test_a_process_that_took_over_starts_countdowns_when_it_knows_all_of_the_cluster() -> None:
    pod = make_pod("p", "n1", tolerations=[tolerates(UNREACHABLE, 60)])
    assert windows(GONE_DARK, pod, leads_since=-10) == [("certain", 50, 55)]


def test_one_that_should_be_over_ends_nobody_knows_when() -> None:
    # Its tolerations are younger than the taint, or their seconds are, which move no timer that runs: upstream did both.
    pod = make_pod("p", "n1", tolerations=[tolerates(UNREACHABLE, 10), tolerates(NOT_READY, 12)])
    assert windows(GONE_DARK, pod, leads_since=-9000) == [("possible", 0, 120)]


def test_a_countdown_of_a_node_that_is_deleted_may_end_until_garbage_collection_comes() -> None:
    pod = make_pod("p", "n1", tolerations=[tolerates(UNREACHABLE, 300)])
    scenario = make_scenario([make_event(5, "node-delete", "n1")], horizon=400)
    told = {
        each.controller: (each.certainty, each.earliest_seconds, each.latest_seconds)
        for each in predict(cluster(GONE_DARK, pod, None), scenario, CONFIGURATION).evictions
    }
    # 40 to 60 s after the node, or 80 where its wait has not quite ended when it looks.
    assert told["pod-gc"] == ("certain", 45, pytest.approx(85.1, abs=0.1))
    assert told["taint-eviction"] == ("possible", 0, pytest.approx(85.1, abs=0.1))


def test_a_countdown_goes_on_when_its_node_is_made_anew_with_a_taint() -> None:
    made_anew = make_node("n1", ready="Unknown", taints=[TAINT], created=-25)
    pod = make_pod("p", "n1", tolerations=[tolerates(UNREACHABLE, 60)], created=-50)
    assert windows(made_anew, pod, leads_since=-9000) == [("certain", 10, 42)]


def test_a_countdown_begins_when_a_pod_is_bound_that_waited_for_a_node() -> None:
    dark = make_node("n1", taints=[make_taint(f"{UNREACHABLE}:NoExecute", added=-500)])
    pod = make_pod("p", "n1", tolerations=[tolerates(UNREACHABLE, 60)], created=-400)
    bound_lately = replace(pod, bound_after_seconds=390)
    told = running_timer(dark, bound_lately, cluster(dark, pod, -9000), epoch_ns(0), CONFIGURATION)
    assert told is not None
    assert (told.told_due_ns, told.due_latest_ns) == (epoch_ns(50), epoch_ns(52))
    # Nobody may have scheduled it; then its kubelet tells, later.
    assert told.due_earliest_ns == epoch_ns(0) + 1


def test_whatever_a_cluster_has_been_through_its_countdowns_are_in_their_windows() -> None:
    lists = (
        [tolerates(UNREACHABLE, 30)],
        [tolerates(UNREACHABLE, 30), tolerates(NOT_READY, 60)],
        [tolerates(UNREACHABLE, 60), tolerates(NOT_READY, 5), tolerates("A", 40)],
        [tolerates(UNREACHABLE), tolerates("", 40)],
        [tolerates(UNREACHABLE, 0), tolerates("", 40)],
    )
    others = ([], [make_taint("A:NoExecute")], [make_taint(f"{NOT_READY}:NoExecute", added=-40)])
    drawn = 0
    since = (None, -9000, -22, -3)
    for tolerations, more, leads_since, bound_after in product(lists, others, since, (None, 90)):
        node = make_node("n1", ready="Unknown", taints=[TAINT, *more])
        pod = make_pod("p", "n1", tolerations=tolerations, created=-100)
        pod = replace(pod, bound_after_seconds=bound_after)
        snapshot = cluster(node, pod, leads_since)
        told = running_timer(node, pod, snapshot, epoch_ns(0), CONFIGURATION)
        assert told is not None
        for seed in range(40):
            past = DrawnPast(random.Random(seed))
            found = past.countdown(node, pod, snapshot, epoch_ns(0), CONFIGURATION)
            if isinstance(found, Countdown):
                drawn += 1
                assert told.start_earliest_ns <= found.started_ns <= told.start_latest_ns
                assert told.due_earliest_ns <= found.due_ns <= told.due_latest_ns
    assert drawn > 1000


def test_what_a_clock_that_is_ahead_wrote_tells_nothing_of_a_countdown() -> None:
    ahead = make_node("n1", ready="Unknown", taints=[replace(TAINT, time_added_ns=epoch_ns(30))])
    pod = make_pod("p", "n1", tolerations=[tolerates(UNREACHABLE, 60)])
    assert windows(ahead, pod, leads_since=-9000) == [("certain", 0, 60)]
    # Somebody wrote its taints 20 s ago.
    known = replace(ahead, taints_changed_ns=epoch_ns(-20))
    assert windows(known, pod, leads_since=-9000) == [("certain", 0, 42)]
    young = make_pod("p", "n1", tolerations=[tolerates(UNREACHABLE, 60)], created=30)
    for node in (GONE_DARK, ahead):
        assert windows(node, young, leads_since=-9000) == [("certain", 0, 60)]
        told = running_timer(node, young, cluster(node, young, None), epoch_ns(0), CONFIGURATION)
        assert told is not None
        for seed in range(40):
            past = DrawnPast(random.Random(seed))
            found = past.countdown(
                node, young, cluster(node, young, None), epoch_ns(0), CONFIGURATION
            )
            if isinstance(found, Countdown):
                assert told.start_earliest_ns <= found.started_ns <= told.start_latest_ns
                assert told.due_earliest_ns <= found.due_ns <= told.due_latest_ns
