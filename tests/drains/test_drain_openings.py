"""When pods go for which several processes ask one budget, told by the clock: at tries of kubectl, and by what can have happened until then."""

from __future__ import annotations

from building.builders import ns
from drawn.drain_worlds import App, drain, drained_cluster, latest, proven, row

from kubectl_evictplan.cluster.timeline import EVICTION_API
from kubectl_evictplan.windows.drains.bounds import DrainBounds
from kubectl_evictplan.windows.drains.tries import first_read

# kubectl comes to a node.
BEGIN = ns(1), ns(1.4)


def read(since: float) -> tuple[float, float]:
    low_ns, high_ns = first_read(ns(since), BEGIN)
    return low_ns / 1e9, high_ns / 1e9


def earliest(bounds: DrainBounds, pod: str) -> float:
    return row(bounds, pod).spans[0][0] / 1e9


def test_a_refused_pod_is_asked_for_every_five_seconds_and_not_in_between() -> None:
    assert read(0.5) == (1, 1.425)
    # The try at six seconds is over.
    low, high = read(7)
    assert 11 < low < 11.1
    assert 11.4 < high < 11.7


def test_who_is_refused_for_long_may_ask_at_any_time() -> None:
    assert read(1000) == (1000, 1005.07)


def test_a_budget_that_opens_between_two_tries_lets_go_at_the_second_one() -> None:
    unready = App("web", ["b1", "a2"], least="50%", unready=[0])
    bounds = proven(drained_cluster(unready), drain("a2", at=1), drain("b1", at=3.6))
    # Somebody may be Ready from 6.6 s on, and kubectl has asked in vain shortly before.
    assert 11 < earliest(bounds, "web-1") < latest(bounds, "web-1") < 13.1


def test_but_at_the_first_one_if_it_may_meet_the_write_that_opens_it() -> None:
    unready = App("web", ["b1", "a2"], least="50%", unready=[0])
    bounds = proven(drained_cluster(unready), drain("a2", at=1), drain("b1", at=3.3))
    assert 6 < earliest(bounds, "web-1") < 7


def test_whom_another_process_deletes_without_asking_kubectl_deletes_at_its_next_try() -> None:
    closed = App("db", ["a2", "a1", "b2"], "StatefulSet", most=1, unready=[1], parallel=True)
    events = drain("a2", at=1), drain("a2", at=8.4, disable_eviction=True)
    [(low_ns, high_ns)] = row(proven(drained_cluster(closed), *events), "db-0").spans
    # Its object may be there for 30 s.
    assert 11 < low_ns / 1e9 < high_ns / 1e9 < 15


def test_that_may_do_so_too_which_would_have_refused_the_node_before() -> None:
    closed, bare = App("db", ["a2"], least=1, grace=1), App("bare", ["a2"], kind="", grace=1)
    snapshot = drained_cluster(closed, bare)
    # The second process refuses the bare pod, if that is still there.
    events = drain("a2", at=1, force=True), drain("a2", at=20, disable_eviction=True)
    bounds = proven(snapshot, *events, ready=(ns(40), ns(41)))
    [first] = (one for key, one in bounds.turns.items() if not key.process)
    assert first.end is not None and first.end.earliest_ns < ns(21)


def test_whoever_is_replaced_when_kubectl_may_still_come_keeps_nobody_waiting() -> None:
    snapshot = drained_cluster(App("web", ["b1", "b1", "a2", "b2", "b2"], most=1, grace=10))
    bounds = proven(snapshot, drain("b1", "a2", at=1), drain("a2", at=25))
    # One process comes to the node at 7 s to 19.7 s, the other one at 25 s; pods before are replaced by 11.9 s.
    assert latest(bounds, "web-2") < 26.5
    again_ns = bounds.again["default/web-2", "uid-default-web-2", EVICTION_API]
    assert again_ns[1] / 1e9 < 28


def test_whom_another_process_deletes_may_be_gone_at_the_next_try() -> None:
    closed = App("db", ["a2", "a1", "b2"], "StatefulSet", most=1, unready=[1], parallel=True)
    events = drain("a2", at=1), drain("a2", at=8.4, disable_eviction=True)
    bounds = proven(drained_cluster(closed), *events)
    ends = [turn.end for node, turn in bounds.turns.items() if node.process == 0]
    # Then kubectl does not wait for its end.
    [(first_ns, _)] = ends
    assert 11 < first_ns / 1e9 < 11.1


def test_so_may_whom_another_process_evicts_as_soon_as_the_budget_opens() -> None:
    web = App("web", ["b1", "a2", "b2"], most=1, unready=[0], grace=1)
    bounds = proven(drained_cluster(web), drain("a2", at=1), drain("b1", "a2", at=2.5))
    [first_ns, _] = [
        turn.end.earliest_ns
        for node, turn in bounds.turns.items()
        if node.node == "a2" and turn.end
    ]
    # The budget opens at 5 s, and kubectl asks at 6 s.
    assert 6 < first_ns / 1e9 < 6.1
