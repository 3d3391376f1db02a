"""The controllers' clients let requests wait, 20 a second after 30 at once: windows of deletions reach as far as that can make them late."""

from __future__ import annotations

import pytest
from building.builders import (
    default_tolerations,
    epoch_ns,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    tolerates,
)
from building.warning_runs import configured
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Pod, Toleration
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

TAINT = make_event(1, "taint", "n1", taint="a=b:NoExecute")


def crowd(number: int, node: str = "n1", *tolerations: Toleration) -> list[Pod]:
    """Pods that no tick has to mark: they were not ready before."""
    return [
        make_pod(
            f"{node}-{place}", node, owner="ReplicaSet/web", ready="False", tolerations=tolerations
        )
        for place in range(number)
    ]


def told(
    pods: list[Pod],
    *events: ScenarioEvent,
    release: str = "1.37",
    horizon: float | None = None,
    flags: dict[str, str] | None = None,
) -> Prediction:
    nodes = [make_node(name, zone="a") for name in ("n1", "n2", "n3", "n4", "n5")]
    scenario = make_scenario(events, horizon=horizon)
    return predict(make_snapshot(nodes, pods), scenario, configured(release, flags or {}))


def latest(prediction: Prediction, node: str = "n1") -> float:
    return max(one.latest_seconds for one in prediction.evictions if one.node == node)


def certainties(prediction: Prediction) -> set[str]:
    return {one.certainty for one in prediction.evictions}


@pytest.mark.parametrize("pods", [1, 7])
def test_few_deletions_wait_for_nothing(pods: int) -> None:
    prediction = told(crowd(pods), TAINT)
    assert latest(prediction) == 1
    assert prediction.inputs.coverage.outer_bound == 0


@pytest.mark.parametrize(
    ("release", "pods", "late"), [("1.37", 20, 2.5), ("1.37", 110, 16.65), ("1.25", 110, 6.65)]
)
def test_of_many_pods_any_may_be_the_last_that_is_deleted_and_all_surely_are(
    release: str, pods: int, late: float
) -> None:
    prediction = told(crowd(pods), TAINT, release=release)
    assert latest(prediction) == pytest.approx(1 + late, abs=0.01)
    assert certainties(prediction) == {"certain"}
    assert min(one.earliest_seconds for one in prediction.evictions) == 1
    assert prediction.inputs.coverage.outer_bound == pods


def test_a_client_without_a_limit_lets_nothing_wait() -> None:
    assert latest(told(crowd(110), TAINT, flags={"kube-api-qps": "-1"})) == 1


def test_pods_of_nodes_in_one_line_wait_for_those_of_their_own_node_only() -> None:
    silent = [make_event(0, "kubelet-stop", name) for name in ("n1", "n2")]
    few, many = (
        told(
            [
                *crowd(number, "n1", *default_tolerations()),
                *crowd(number, "n2", *default_tolerations()),
            ],
            *silent,
        )
        for number in (5, 30)
    )
    assert 4 < latest(many) - latest(few) < 7
    assert certainties(many) == {"certain"}


def test_what_is_deleted_hours_later_makes_nothing_late_now() -> None:
    long, short = tolerates("a", 7200), tolerates("a", 60)
    prediction = told(
        [*crowd(400, "n1", long), *crowd(5, "n2", short)],
        TAINT,
        make_event(1, "taint", "n2", taint="a=b:NoExecute"),
    )
    assert latest(prediction, "n2") == 61
    assert latest(prediction, "n1") > 7261


def test_a_process_that_ends_forgets_what_waits_and_the_next_one_may_delete_it() -> None:
    stop, start = make_event(5, "controller-stop"), make_event(60, "controller-start")
    few, many = (told(crowd(number), TAINT, stop, start, horizon=200) for number in (5, 60))
    assert certainties(few) == {"certain"}
    assert certainties(many) == {"possible"}
    assert latest(many) > 60


def test_what_the_next_process_deletes_waits_for_all_that_it_deletes_twice() -> None:
    stop, start = make_event(3, "controller-stop"), make_event(10, "controller-start")
    prediction = told(crowd(40), TAINT, stop, start, horizon=200)
    # GET, PATCH, DELETE and an event, twice for each.
    assert latest(prediction) > 10 + (2 * 4 * 40 - 30) / 20


def test_what_is_due_beyond_the_horizon_is_not_certain() -> None:
    prediction = told(crowd(110), TAINT, horizon=10)
    assert certainties(prediction) == {"possible"}
    assert latest(prediction) == 10


def test_a_pod_that_somebody_deletes_while_it_waits_is_not_surely_evicted() -> None:
    deleted = make_event(4, "pod-delete", pods=["default/n1-0"])
    prediction = told(crowd(60), TAINT, deleted)
    assert {one.certainty for one in prediction.evictions if one.pod.endswith("n1-0")} == {
        "possible"
    }


def test_who_may_be_hit_by_a_late_delete_of_its_name_may_still_end_before_that() -> None:
    """A taint of its node deletes the second pod at once; what may wait for the client is another DELETE of the first one."""
    first = make_pod("p", "n1", deleted=-10)
    second = make_event(3, "pod-create", pod=make_pod("p", "n2", uid="two"))
    tainted = make_event(0.5, "taint", "n2", taint="a=b:NoExecute")
    crowded = make_event(9, "taint", "n1", taint="c=d:NoExecute")
    prediction = told([first, *crowd(60)], tainted, second, crowded, horizon=60)
    [row] = (one for one in prediction.evictions if one.uid == "two")
    assert row.earliest_seconds == 3 < row.latest_seconds
    assert row.gone.earliest_seconds == 3


def test_orphans_are_collected_one_after_the_other() -> None:
    few, many = (told(crowd(number), make_event(1, "node-delete", "n1")) for number in (5, 110))
    # PATCH and DELETE of each, and a GET of the node.
    assert latest(many) - latest(few) == pytest.approx((2 * 110 + 1 - 30) / 20, abs=0.2)
    assert certainties(many) == {"certain"}


def test_the_first_loop_of_a_new_process_collects_one_after_the_other_too() -> None:
    # At one instant: up to 1.16 it does not wait until a Node is surely gone.
    events = [make_event(0, "controller-stop"), make_event(1, "node-delete", "n1")]
    found = told(crowd(110), *events, make_event(10, "controller-start"), release="1.16.15")
    # DELETE of each, and a GET of the node.
    assert latest(found) == pytest.approx(10 + (110 + 1 - 30) / 20, abs=0.2)


def test_every_further_change_of_its_taints_has_the_pods_of_a_node_deleted_once_more() -> None:
    other = make_event(2, "taint", "n1", taint="c=d:NoExecute")
    once, twice = told(crowd(60), TAINT), told(crowd(60), TAINT, other)
    # Up to seven requests more for each.
    assert 60 * 3 / 20 < latest(twice) - latest(once) < 60 * 8 / 20


def test_a_taint_that_is_there_at_the_start_is_the_first_one() -> None:
    nodes = [make_node("n1", taints=["a=b:NoExecute"]), make_node("n2")]
    other = make_event(2, "taint", "n1", taint="c=d:NoExecute")
    once, twice = (
        predict(make_snapshot(nodes, crowd(60)), make_scenario(events), configured("1.37"))
        for events in ([], [other])
    )
    assert latest(twice) > latest(once) + 60 * 3 / 20


def test_too_many_terminated_pods_are_collected_as_the_client_lets_them() -> None:
    pods = [make_pod(f"done-{place:03}", "n1", phase="Succeeded") for place in range(100)]
    prediction = told(pods, flags={"terminated-pod-gc-threshold": "1"}, horizon=60)
    assert latest(prediction) == pytest.approx(20.025 + (99 - 30) / 20, abs=0.01)


@pytest.mark.parametrize(("number", "late"), [(5, 0), (60, 0.61), (100, 1.01), (600, 25.1)])
def test_garbage_collection_of_many_pods_lasts_as_long_as_its_writes(
    number: int, late: float
) -> None:
    gone = make_event(1, "node-delete", "n1")
    flags = {"kube-api-qps": "20", "kube-api-burst": "99"}
    few = told(crowd(1), gone, release="1.16", flags=flags, horizon=90)
    many = told(crowd(number), gone, release="1.16", flags=flags, horizon=90)
    assert latest(many) - latest(few) == pytest.approx(late, abs=0.002)
    assert certainties(many) == {"certain"}


def test_a_loop_also_collects_who_is_deleted_late_on_a_node_that_is_gone() -> None:
    # Of none of those that the taint evicts the kubelet, which falls silent, has seen the deletion in time.
    stays = crowd(14, "n1", tolerates("a"))
    events = [
        TAINT,
        make_event(4, "kubelet-stop", "n1", last_heartbeat=3),
        make_event(4.5, "node-delete", "n1"),
    ]

    def collected(evicted: int) -> float:
        pods = [*stays, *(make_pod(f"e{place}", "n1", grace_seconds=1) for place in range(evicted))]
        prediction = told(pods, *events, release="1.29", horizon=120)
        names = {pod.name for pod in stays}
        return max(
            one.latest_seconds
            for one in prediction.evictions
            if one.controller == "pod-gc" and one.pod in names
        )

    assert collected(90) - collected(2) > 90 * 2 / 20 - 2


def test_a_countdown_that_is_cancelled_costs_an_event_for_each_pod_that_is_alike() -> None:
    off = make_event(5, "untaint", "n1", taint="a")
    at_once = make_event(5, "taint", "n2", taint="c=d:NoExecute")
    waiting = crowd(90, "n1", tolerates("a", 60))
    none, many = (
        told([*before, *crowd(9, "n2")], TAINT, off, at_once, horizon=50)
        for before in ([], waiting)
    )
    assert latest(many, "n2") > latest(none, "n2") > 5


def test_of_few_pods_it_counts_how_often_they_are_deleted_once_more() -> None:
    pods = [*crowd(3), *crowd(4, "n2", tolerates("a", 1))]
    at_once = make_event(2, "taint", "n2", taint="a=b:NoExecute")
    again = [make_event(3, "taint", "n1", taint=f"{n}=b:NoExecute") for n in range(5)]
    once, often = told(pods, TAINT, at_once), told(pods, TAINT, at_once, *again)
    assert latest(once, "n2") == 3
    assert latest(often, "n1") == 1
    assert latest(often, "n2") > 3 + 5


def test_a_countdown_that_has_not_run_out_is_not_made_again() -> None:
    later = make_event(2, "taint", "n1", taint="c=d:PreferNoSchedule")
    pods = crowd(7, "n1", tolerates("a", 60), tolerates("c"))
    other = [make_event(2 + n, "taint", "n1", taint="c=d:NoExecute") for n in range(2)]
    assert latest(told(pods, TAINT, later)) == latest(told(pods, TAINT, *other)) == 61


def test_pods_that_a_drain_may_send_to_a_node_wait_with_those_of_its_taint() -> None:
    drain = make_event(0.2, "drain", "n2", timeout="")
    alone = told(crowd(9), TAINT)
    beside = told([*crowd(9), *crowd(20, "n2")], drain, TAINT)
    assert latest(beside) > latest(alone) + 2
    assert {one.certainty for one in beside.evictions if one.node == "n1"} == {"certain"}


def test_pods_that_a_drain_may_send_to_a_node_are_collected_with_its_own() -> None:
    drain, gone = make_event(0.2, "drain", "n2", timeout=""), make_event(1, "node-delete", "n1")
    alone = told(crowd(9), gone)
    beside = told([*crowd(9), *crowd(20, "n2")], drain, gone)
    # PATCH and DELETE of each, and a GET of the node; 30 at once.
    assert latest(beside) - latest(alone) == pytest.approx((2 * 29 + 1 - 30) / 20, abs=0.2)


def test_what_a_process_deletes_that_has_just_begun_may_be_gone_when_it_is_tried() -> None:
    """Each pod twice, and five times whom the second request does not find."""
    nodes = [make_node("n1", taints=["a:NoExecute"]), make_node("n2"), make_node("n3")]
    snapshot = make_snapshot(nodes, crowd(20))
    leader = replace(snapshot.control_plane, leader_acquire_time_ns=epoch_ns(-1))
    taint = make_event(5, "taint", "n2", taint="a=b:NoExecute")
    snapshot = replace(snapshot, control_plane=leader, pods=[*snapshot.pods, make_pod("p", "n2")])
    scenario = make_scenario([taint], horizon=100)
    prediction = predict(snapshot, scenario, configured("1.25"))
    # With an event of each, and once more what is told of them.
    requests = 20 * (1 + 1) + 20 * (5 + 1) + 20 * (1 + 1)
    assert latest(prediction, "n2") > -1 + (requests - 30) / 20
