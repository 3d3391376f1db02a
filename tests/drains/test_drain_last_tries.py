"""At which of its tries a pod goes at the latest: others keep it waiting that can be out at each of them."""

from __future__ import annotations

import pytest
from building.builders import ns
from drawn.drain_worlds import App, drain, drained_cluster, latest, proven, row, synced
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import EVICTION_API, KUBECTL_DELETE
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.windows.drains.bounds import DrainBounds

# From one try of kubectl to the next, at most; so long a write of the budget holds one up.
TRY, HELD_UP = 5.07, 0.59


def cordoned(snapshot: ClusterSnapshot, *names: str) -> ClusterSnapshot:
    """The cluster with nodes to which nobody comes any more."""
    nodes = (replace(one, unschedulable=one.name in names) for one in snapshot.nodes)
    return replace(snapshot, nodes=tuple(nodes))


def earliest(bounds: DrainBounds, pod: str) -> float:
    return row(bounds, pod).spans[0][0] / 1e9


def test_each_other_pod_keeps_one_waiting_at_one_try() -> None:
    def waits(*nodes: str) -> float:
        web = App("web", ["a1", *nodes, "b2"], most=1)
        snapshot = cordoned(drained_cluster(web), "a1", "b1")
        return latest(proven(snapshot, drain("a1", at=1), drain("b1", at=1)), "web-0")

    # The write that takes the disruption holds it up too.
    assert waits("b1") == pytest.approx(1.585 + TRY + HELD_UP)
    assert waits("b1", "b1") == pytest.approx(1.585 + 2 * (TRY + HELD_UP))


def test_as_long_as_a_pod_is_there_nobody_is_in_its_stead() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b2", "b2"], most=1))
    bounds = proven(snapshot, drain("a1", "b1", at=1), drain("a1", "b1", at=1.1))
    # Both ask for the only one that is there.
    assert latest(bounds, "web-0") < 1.1 + TRY


def test_who_is_back_before_a_try_keeps_nobody_waiting_there() -> None:
    web = App("web", ["a1", "b1", "b2"], most=1, grace=1)
    snapshot = cordoned(drained_cluster(web), "a1", "b1")
    at = {
        since: latest(proven(snapshot, drain("a1", at=1), drain("b1", at=since)), "web-1") - since
        for since in (3, 7)
    }
    # Evicted by 1.6 s it has another one in its stead by 5.6 s.
    assert at == {3: pytest.approx(0.585 + TRY), 7: pytest.approx(0.585)}


def test_a_pod_that_two_processes_ask_for_keeps_others_waiting_at_one_try() -> None:
    web, one = App("web", ["a1", "a1", "a1", "b2", "b2"], most=2), App("one", ["b1"], kind="")
    snapshot = cordoned(drained_cluster(web, one), "a1", "b1")
    events = drain("a1", at=1), drain("b1", "a1", at=2.5, force=True)
    # At its first try both others are out: none of them is at the next one, where they could take two disruptions each.
    assert latest(proven(snapshot, *events), "web-0") < 1.6 + TRY + 2 * HELD_UP


def test_at_a_try_that_is_refused_at_once_no_write_holds_anybody_up() -> None:
    web = App("web", ["a2", "a2", "a1", "b2"], least=2, grace=1)
    snapshot = cordoned(drained_cluster(web), "a1", "a2")
    bounds = proven(snapshot, drain("a2", at=1, disable_eviction=True), drain("a1", at=2))
    # Both others go, and are gone, while nobody may go.
    assert latest(bounds, "web-2") < 2.63 + TRY


def test_who_is_gone_when_a_process_is_through_with_an_earlier_node_is_not_evicted_by_it() -> None:
    web = App("web", ["a2", "a2", "a1", "b2"], least=2, grace=1)
    snapshot = cordoned(drained_cluster(web), "a1", "a2")
    events = drain("a2", at=1, disable_eviction=True), drain("a1", "a2", at=2)
    bounds = proven(snapshot, *events)
    # The first node takes the second process until 7 s, for its budget is closed.
    evicted = [key.pod for key in bounds.unbounded if key.controller == EVICTION_API]
    assert not evicted


def test_a_process_that_hears_late_of_a_deletion_looks_for_its_end_from_then_on() -> None:
    web = App("web", ["a1", "b1", "b2", "b2"], most=1, grace=30)
    snapshot = cordoned(drained_cluster(web), "a1", "b1")
    bounds = proven(snapshot, drain("a1", at=1), drain("a1", "b1", at=1))
    [end] = [turn.end for drain, turn in bounds.turns.items() if drain == (1, 0, "a1")]
    assert end is not None
    assert end.latest_ns is not None
    # It asks once more while the pod ends: not the time of both, but of the longer.
    assert end.latest_ns < ns(1.48 + 30.6 + 1 + 1.7)


def test_who_goes_before_the_time_is_up_is_certain_to_although_its_end_is_not_waited_for() -> None:
    web = App("web", ["a1", "b1", "b2"], most=1, grace=60)
    snapshot = cordoned(drained_cluster(web), "a1", "b1")
    events = [drain(node, at=1, timeout_ns=ns(8)) for node in ("a1", "b1")]
    assert row(proven(snapshot, *events), "web-0").certain


@pytest.mark.parametrize(("unready", "since"), [((), 5.44), ((0,), 5.36)])
def test_a_pod_is_away_from_its_deletion_on_and_not_from_the_answer(
    unready: tuple[int, ...], since: float
) -> None:
    web = App("web", ["a1", "b1", "b2"], most=1, grace=1, unready=unready)
    snapshot = cordoned(drained_cluster(web), "a1", "b1")
    bounds = proven(snapshot, drain("a1", at=1), drain("b1", at=since))
    # Deleted by 1.585 s, or by 1.505 s without a disruption, and 3.87 s later there is another one.
    assert latest(bounds, "web-1") == pytest.approx(since + 0.585)


def test_a_process_that_asks_for_a_pod_comes_to_no_later_node_before_that_is_deleted() -> None:
    web = App("web", ["a1", "a2", "b2"], most=1, grace=1, unready=(1,))
    snapshot = cordoned(drained_cluster(web), "a1", "a2")
    bounds = proven(snapshot, drain("a2", "a1", at=1), drain("a1", "b1", at=5))
    # Whoever was made anew on the last node keeps nobody waiting before: the first process asks for it twice.
    assert latest(bounds, "web-0") < 3.9 + TRY


# -- what is certain at the least --------------------------------------------------------------------------------


def test_what_happens_before_another_process_begins_is_as_without_it() -> None:
    web = App("web", ["b1", "b1", "a2", "b2"], most=1, grace=1)
    snapshot = cordoned(drained_cluster(web), "b1", "a2")
    alone = proven(snapshot, drain("b1", "a2", at=1))
    both = proven(snapshot, drain("b1", "a2", at=1), drain("a2", at=9))
    # Two tries on the first node: before 6 s kubectl does not come to the second one.
    assert earliest(both, "web-2") == earliest(alone, "web-2") > 7


def test_pods_that_go_one_after_the_other_take_a_process_as_many_tries() -> None:
    web = App("web", ["a1", "a1", "b1", "b2"], most=1, grace=1)
    snapshot = cordoned(drained_cluster(web), "a1", "a2", "b1")
    bounds = proven(snapshot, drain("a1", "b1", at=1), drain("b1", at=1))
    [first] = [turn for drain, turn in bounds.turns.items() if drain.node == "a1"]
    assert first.end is not None
    assert ns(7) < first.end.earliest_ns < ns(7.1)


def test_a_budget_whose_pods_somebody_has_surely_deleted_is_closed_until_others_can_be_ready() -> (
    None
):
    web = App("web", ["a2", "a2", "a1", "b2"], least=2, grace=1)
    snapshot = cordoned(drained_cluster(web), "a1", "a2")
    bounds = proven(snapshot, drain("a2", at=1, disable_eviction=True), drain("a1", at=2))
    assert row(bounds, "web-0", KUBECTL_DELETE).spans[-1][1] < ns(2)
    # Asked for at 2 s, and again at 7 s.
    assert 7 < earliest(bounds, "web-2") < 7.1


def test_a_pod_that_has_finished_closes_no_budget() -> None:
    web = App("web", ["a1", "b1", "b2", "b2", "b2"], least=1, unready=[2, 3, 4])
    snapshot = cordoned(drained_cluster(web), "a1", "b1")
    pods = [
        replace(pod, owner_references=(), phase="Running" if pod.ready == "True" else "Failed")
        for pod in snapshot.pods
    ]
    snapshot = synced(replace(snapshot, pods=tuple(pods), workloads=()))
    assert snapshot.budgets[0].disruptions_allowed == 1
    events = drain("a1", at=1, force=True), drain("b1", at=1, force=True)
    # Bare pods that count by number, one of whom may go whatever has failed.
    [found] = [
        one
        for key, one in proven(snapshot, *events).unbounded.items()
        if key.pod == "default/web-0"
    ]
    assert found.spans[0][0] < ns(1.1)


def test_who_deletes_a_pod_once_more_finds_it_for_the_time_that_the_other_one_left_it() -> None:
    web, one = App("web", ["a1", "b2"], most=1), App("one", ["b1"], kind="", grace=1)
    snapshot = cordoned(drained_cluster(web, one), "a1", "b1")
    events = (
        drain("a1", at=1, grace_period_seconds=5),
        drain("b1", "a1", at=1, grace_period_seconds=60, force=True),
    )
    again = [span for (pod, uid, _), span in proven(snapshot, *events).again.items() if uid]
    # The first process surely is first, and gives the pod five seconds.
    assert [span[1] < ns(1.7 + 5.6) for span in again] == [True]


def test_a_pod_or_one_in_its_stead_is_met_on_a_node_that_is_cordoned_after_the_first_try() -> None:
    def waits(pods: int) -> float:
        web = App("web", [*["b1"] * pods, "a1", "b2"], most=1, grace=1)
        snapshot = cordoned(drained_cluster(web, App("one", ["a2"], kind="")), "b1", "a2")
        events = drain("a2", "b1", at=1, force=True), drain("a1", at=2, force=True)
        return latest(proven(snapshot, *events), f"web-{pods}")

    # Only who went before may have another one in its stead there; it is back at the second try.
    assert waits(3) - waits(2) == pytest.approx(waits(2) - waits(1))
    assert waits(2) - waits(1) < TRY + 2 * HELD_UP + 0.01


def test_whoever_surely_deletes_a_pod_first_does_not_delete_it_once_more() -> None:
    snapshot = cordoned(drained_cluster(App("web", ["a1", "b2"], most=1, grace=60)), "a1")
    bounds = proven(snapshot, drain("a1", at=1), drain("a1", at=20))
    [again] = [span for (pod, uid, _), span in bounds.again.items() if uid]
    # Only the second process does, as soon as it comes.
    assert ns(20) < again[0] < again[1] < ns(22)


def test_whom_another_process_has_just_deleted_it_deletes_once_more_after_losing_to_that() -> None:
    snapshot = cordoned(drained_cluster(App("web", ["a1", "b1", "b2"], most=2, grace=9)), "a1")
    bounds = proven(snapshot, drain("a1", at=1), drain("a1", at=1))
    [(_, again_ns)] = [span for (pod, uid, _), span in bounds.again.items() if uid]
    # One of them goes at once, and the request of the other one meets the write of that.
    assert latest(bounds, "web-0") == pytest.approx(1.585)
    assert ns(1.585 + HELD_UP) <= again_ns < ns(1.585 + 3 * HELD_UP)
    ends = [turn.end.latest_ns for turn in bounds.turns.values() if turn.end is not None]
    # Its pod has ended 9.6 s later; whenever it hears of that it looks every second.
    assert ends == [ns(1.585 + 9.6 + 1)] * 2
