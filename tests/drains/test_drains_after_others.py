"""What is proven of a process of kubectl drain because of what another one has surely done before."""

from __future__ import annotations

import pytest
from building.builders import make_event, ns
from drawn.drain_worlds import (
    CONFIGURATION,
    READY,
    App,
    DrainedWorld,
    drain,
    drained_cluster,
    drains,
    proven,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.rooms import Room, Rooms
from kubectl_evictplan.cluster.timeline import EVICTION_API, DrainEnd
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows.drains.answers import DrainAnswers
from kubectl_evictplan.windows.drains.before import earlier_processes, over_by, with_any_room
from kubectl_evictplan.windows.drains.bounds import DrainBounds
from kubectl_evictplan.windows.drains.instants import Within
from kubectl_evictplan.windows.drains.margins import DrawnWorld
from kubectl_evictplan.windows.drains.outcomes import DrainGathered
from kubectl_evictplan.windows.drains.rivals import RowBounds
from kubectl_evictplan.windows.outcome import EvictionKey

AGAIN = ("default/web-0", "uid-default-web-0", EVICTION_API)


def window(bounds: DrainBounds, pod: str) -> tuple[float, float]:
    [(low_ns, high_ns)] = next(
        one.spans for key, one in bounds.rows.items() if key.pod == f"default/{pod}"
    )
    return low_ns / 1e9, high_ns / 1e9


def turns(bounds: DrainBounds) -> list[tuple[float, float | None]]:
    found = [one.end for one in bounds.turns.values()]
    return [
        (one.earliest_ns / 1e9, None if one.latest_ns is None else one.latest_ns / 1e9)
        for one in found
        if one is not None
    ]


def test_whom_one_process_has_deleted_another_one_deletes_at_once_if_it_is_still_there() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], most=1, grace=30))
    bounds = proven(snapshot, drain("a1", at=1), drain("a1", at=10))
    first_ns, last_ns = bounds.again[AGAIN]
    # It terminates: no budget is asked.
    assert 10 < first_ns / 1e9 < last_ns / 1e9 < 11.2
    assert window(bounds, "web-0")[1] < 2
    [_, (_, over)] = turns(bounds)
    assert over is not None and over < 1.5 + 30 + 2.3


def test_who_was_refused_just_before_another_process_is_let_through_deletes_the_pod_at_its_next_try() -> (
    None
):
    snapshot = drained_cluster(App("web", ["a1", "a1", "b1", "b2"], most=1))
    bounds = proven(snapshot, drain("a1", at=1), drain("a1", at=1.5))
    _, last_ns = bounds.again[AGAIN]
    assert last_ns / 1e9 > window(bounds, "web-0")[1] + 5


def test_who_is_gone_before_kubectl_comes_is_not_deleted_once_more() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], most=1, grace=5))
    bounds = proven(snapshot, drain("a1", at=1), drain("a1", at=20))
    assert AGAIN not in bounds.again
    [_, (_, over)] = turns(bounds)
    assert over is not None and over < 21


def test_nor_is_anybody_before_the_second_process_comes_where_drawn_runs_tell_it() -> None:
    # Either of them goes, and the other one never.
    bare = drained_cluster(App("bare", ["a2", "a2"], "", least=1))
    events = drain("a2", at=1, force=True), drain("a2", at=24, force=True)
    prediction = predict(bare, drains(*events), CONFIGURATION, assume_ready=READY)
    begins = sorted(one.windows[0].earliest_seconds for one in prediction.evictions)
    assert begins == pytest.approx([1.033, 1.033, 24.033, 24.033], abs=0.01)


def test_a_budget_does_not_open_before_somebody_else_has_gone_and_is_replaced() -> None:
    unready = App("web", ["a1", "b1"], most=1, policy="AlwaysAllow", unready=[1])
    snapshot = drained_cluster(unready)
    bounds = proven(snapshot, drain("a1", at=1), drain("b1", at=20))
    # The other one is evicted at 20 s, and its replacement Ready 3 s later.
    assert window(bounds, "web-0")[0] > 23
    # Where an owner lacks a pod that may come at once.
    wanting = tuple(replace(one, replicas=3) for one in snapshot.workloads)
    short = proven(replace(snapshot, workloads=wanting), drain("a1", at=1), drain("b1", at=20))
    assert all(row.spans[0][0] < ns(4) for key, row in short.rows.items() if "web-0" in key.pod)


def test_kubectl_gives_up_whom_nobody_lets_go_at_its_first_try_after_the_time_is_up() -> None:
    full = App("full", ["a1", "b1"], least=2)
    snapshot = drained_cluster(full, App("free", ["a1"], grace=1))
    event = drain("a1", at=10, timeout_ns=ns(19))
    bounds = proven(snapshot, event, drain("a1", at=60))
    first, _ = bounds.turns.values()
    assert first.reasons == {DrainEnd.TIMEOUT}
    (low, high), *_ = turns(bounds)
    # Tries come every 5.006 s to 5.19 s.
    assert 10 + 20 < low < high < 10 + 21.5


@pytest.mark.parametrize("parallel", [0, 2])
def test_kubectl_gives_up_on_time_although_a_budget_would_open_later(parallel: int) -> None:
    full = App("full", ["a1", "b2"], least=2)
    later = App("web", ["a1", "b1"], most=1, policy="AlwaysAllow", unready=[1])
    event = drain("a1", at=1, timeout_ns=ns(8), parallel=parallel)
    bounds = proven(drained_cluster(full, later), event, drain("b1", at=20))
    first, _ = bounds.turns.values()
    assert first.reasons == {DrainEnd.TIMEOUT}
    assert "default/web-0" not in {key.pod for key in bounds.rows}
    (low, high), *_ = turns(bounds)
    # The second try after the first request is the first that is not in time.
    assert 1 + 8 < low < 1 + 10 + 0.1 < high


def test_nobody_comes_to_a_node_that_was_cordoned_before_he_was_evicted() -> None:
    snapshot = drained_cluster(App("web", ["a2", "b1"], most=1), App("free", ["a1"]))
    # The first process cordons both of its nodes and only then evicts.
    bounds = proven(snapshot, drain("a2", "a1", at=1), drain("a1", at=1.2))
    assert [turn.guests for turn in bounds.plan.turns if turn.drain.node == "a1"] == [(), ()]
    alone = proven(snapshot, drain("a2", at=1), drain("a1", at=1.2))
    [guests] = [turn.guests for turn in alone.plan.turns if turn.drain.node == "a1"]
    assert [pod.key for pod in guests] == ["default/web-0"]


def test_what_is_over_before_another_process_begins_is_as_if_it_never_did() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1", "b2"], least=2))
    alone = proven(snapshot, drain("a1", at=1))
    [(key, row)] = alone.rows.items()
    assert proven(snapshot, drain("a1", at=1), drain("b1", at=9)).rows[key] == row
    # One that begins before is another matter.
    assert proven(snapshot, drain("a1", at=1), drain("b1", at=1.2)).rows[key] != row


def test_so_with_any_number_of_processes() -> None:
    snapshot = drained_cluster(App("web", ["a1", "a2", "b1", "b2", "b2"], most=1, grace=1))
    events = drain("a1", at=1), drain("a2", at=60), drain("b1", at=120)
    bounds = proven(snapshot, *events)
    assert window(bounds, "web-0")[1] < 2
    assert window(bounds, "web-1") == window(proven(snapshot, *events[:2]), "web-1")


def test_beginnings_are_proven_until_they_have_three_times_as_many_nodes_as_the_whole() -> None:
    def begins(number: int) -> list[int]:
        events = (drain("a1", at=at) for at in range(1, number + 1))
        found = list(earlier_processes(drains(*events)))
        assert [len(one.events) for _, one in found] == list(range(1, len(found) + 1))
        return [until_ns // 10**9 for until_ns, _ in found]

    assert begins(1) == []
    # 1 + ... + 6 nodes are three times 7.
    assert begins(7) == [2, 3, 4, 5, 6, 7]
    assert begins(8) == [2, 3, 4, 5, 6, 7]
    assert list(earlier_processes(drains(drain("a1", at=1), drain("b1", at=1)))) == []


def test_who_begins_later_may_leave_a_pod_less_time_to_end() -> None:
    key = EvictionKey("default/web-0", "u", EVICTION_API, 0)
    row = RowBounds("a1", ((ns(2), ns(3)),), True, Within(ns(6), ns(9)), exact=True)
    assert over_by(ns(5), {key: row})[key].gone == Within(ns(5), ns(9))
    assert over_by(ns(3), {key: row}) == {}
    assert over_by(ns(5), {key: row._replace(certain=False)}) == {}


def test_nodes_that_are_drained_later_may_take_replacements_until_then() -> None:
    scarce = Rooms({}, (Room(1, 1), Room(0, 0)))
    assert [one.least for one in with_any_room(scarce).rooms] == [1, 0]
    assert all(one.most > 1000 for one in with_any_room(scarce).rooms)


def test_who_has_refused_a_node_before_another_process_begins_is_as_if_it_never_came() -> None:
    snapshot = drained_cluster(App("bare", ["a1"], "", grace=1), App("web", ["a1", "b1"], most=1))
    refused, forced = drain("a1", at=1), drain("a1", at=4, force=True)
    bounds = proven(snapshot, refused, forced)
    assert bounds.rows == proven(snapshot, forced).rows
    assert {key.pod for key, row in bounds.rows.items() if row.certain} == {
        "default/bare-0",
        "default/web-0",
    }
    assert bounds.exit_codes == {0: {1}, 1: {0}}
    # The other way round it may find nothing that it would refuse the node for.
    either = {0, 1, None}
    sooner = proven(snapshot, forced.moved_to(ns(1)), refused.moved_to(ns(1.2)))
    assert sooner.exit_codes[1] == either
    assert proven(snapshot, refused, forced.moved_to(ns(1.2))).exit_codes[0] == either


@pytest.mark.parametrize(
    ("app", "ends"), [(App("web", ["a1", "b1", "b2"], least=2), False), (App("web", ["a1"]), True)]
)
def test_who_asks_a_budget_may_ask_for_ever_where_somebody_else_takes_its_pods_away(
    app: App, ends: bool
) -> None:
    # Who is evicted from b1 may be made anew on a1, or be Ready nowhere.
    events = make_event(0, "taint", "b1", taint="x:NoExecute"), drain("a1", at=60)
    world = DrainedWorld(drained_cluster(app), drains(*events))
    [report] = predict(*world, assume_ready=READY).drains
    assert report.end_earliest_seconds is not None
    assert (report.end_latest_seconds is not None) is ends


def test_a_second_deletion_of_a_pod_that_goes_on_terminating_is_told_although_no_run_shows_it() -> (
    None
):
    # The second process comes to a1 when it is through with b1: by then the 30 s of the first deletion may be over, or just not.
    snapshot = drained_cluster(App("web", ["a1"]), App("other", ["b1"]))
    bounds = proven(snapshot, drain("a1", at=1), drain("b1", "a1", at=25))
    no_runs = DrainGathered(DrawnWorld((), (), (), {}, 1, {}, {}))
    told = {
        key.ordinal: one.certain
        for key, one in DrainAnswers(no_runs, bounds, quiet=True).evictions.items()
        if key.pod == "default/web-0"
    }
    assert told == {0: True, 1: False}
