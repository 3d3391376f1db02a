"""When kubectl gives up a node with ``--timeout``: at the first try after it, and what holds tries up."""

from __future__ import annotations

from typing import Any

from building.builders import ns
from drawn.drain_worlds import App, drain, drained_cluster, make_budget, proven, row, synced
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.engine.drain_timing import Latency
from kubectl_evictplan.windows.drains.delays import takes


def seconds(spans: Any) -> list[tuple[float, float]]:
    return [(round(low / 1e9, 3), round(high / 1e9, 3)) for low, high in spans]


def test_with_a_timeout_it_gives_up_at_the_next_try() -> None:
    full = App("web", ["a1", "b1"], least="100%")
    bounds = proven(drained_cluster(full), drain("a1", at=1, timeout_ns=ns(12)))
    [turn] = bounds.turns.values()
    assert turn.end is not None
    [(low, high)] = seconds([(turn.end[0] - turn.start[0], turn.end[1] - turn.start[1])])
    # Tries at 0, 5, 10 and 15 s.
    assert (low, high) == (15.009, 15.235)
    assert (turn.reasons, bounds.exit_codes) == ({DrainEnd.TIMEOUT}, {0: frozenset({1})})


def test_a_status_that_is_written_anew_holds_up_who_is_refused_though_it_allows_nothing_more() -> (
    None
):
    snapshot = drained_cluster(App("web", ["a1", "b1"], least=2))
    miscounting = tuple(replace(one, current_healthy=1) for one in snapshot.budgets)
    ends = []
    for budgets in (snapshot.budgets, miscounting):
        bounds = proven(replace(snapshot, budgets=budgets), drain("a1", timeout_ns=ns(9)))
        [turn] = bounds.turns.values()
        assert turn.end is not None
        assert turn.end.latest_ns is not None
        ends.append(turn.end.latest_ns)
    # A conflict with the write.
    assert ends[1] - ends[0] == 590_000_000


def test_no_write_of_a_budget_that_lets_nobody_go_holds_up_who_is_refused() -> None:
    web = App("web", ["a1", "b1", "b2"], least=3, grace=1, unready=(1,), policy="AlwaysAllow")
    snapshot = drained_cluster(web)
    nodes = tuple(replace(one, unschedulable=one.name != "b2") for one in snapshot.nodes)
    events = drain("a1", at=1, timeout_ns=ns(8)), drain("b1", at=1)
    bounds = proven(replace(snapshot, nodes=nodes), *events)
    [end] = [turn.end for drained, turn in bounds.turns.items() if drained.node == "a1"]
    # Who is not Ready goes all the same, is gone and made anew: kubectl gives up at its third try.
    assert end is not None
    assert end.latest_ns is not None
    assert end.latest_ns < ns(1.48 + 2 * 5.07)


def test_a_finished_pod_that_goes_unasked_holds_up_who_is_refused_where_the_status_counts_pods() -> (
    None
):
    ends = []
    for place in ("a1", "c1"):
        snapshot = drained_cluster(App("web", ["a1", "b1", place], least=2))
        *others, last = (replace(pod, owner_references=()) for pod in snapshot.pods)
        finished = replace(last, phase="Succeeded", ready="False")
        snapshot = synced(replace(snapshot, pods=(*others, finished), workloads=()))
        bounds = proven(snapshot, drain("a1", timeout_ns=ns(9), force=True))
        [turn] = bounds.turns.values()
        assert turn.end is not None
        assert turn.end.latest_ns is not None
        ends.append(turn.end.latest_ns)
    # Its end is written once: a conflict with that.
    assert ends[0] - ends[1] == 590_000_000


def test_a_pod_given_up_beside_one_that_fails_is_not_counted_as_gone_on_the_next_node() -> None:
    web = App("web", ["a1", "b1", "b2"], "StatefulSet", most=1, grace=40)
    both = App("both", ["a1", "b2"], least=1)
    snapshot = drained_cluster(web, both, budgets=[make_budget("more", app="both", most=1)])
    bounds = proven(snapshot, drain("a1", "b1", timeout_ns=ns(10)))
    # kubectl waits 10 s for the end of web-0, which may take 40 s, and then comes to web-1.
    assert (row(bounds, "web-0").certain, row(bounds, "web-1").certain) == (True, False)


def test_whoever_goes_just_when_the_time_is_up_is_looked_for_once_all_the_same() -> None:
    snapshot = drained_cluster(App("web", ["a1", "a1", "b1"], most=1))
    last_ns = row(proven(snapshot, drain("a1", at=1)), "web-0").spans[-1][1]
    [turn] = proven(snapshot, drain("a1", at=1)).turns.values()
    assert turn.start.latest_ns is not None
    timeout_ns = last_ns - turn.start.latest_ns - ns(0.1)
    bounds = proven(snapshot, drain("a1", at=1, timeout_ns=timeout_ns))
    [turn] = bounds.turns.values()
    assert turn.end is not None
    assert turn.end.latest_ns is not None
    # The last request is sent in time, and answered 100 ms after it; who has ended by then is seen.
    assert row(bounds, "web-0").spans[-1][1] == last_ns
    assert turn.end.latest_ns == last_ns + takes(Latency.FIRST_POLL)[1] + 1
    assert turn.reasons == {DrainEnd.DRAINED, DrainEnd.TIMEOUT}


def test_who_is_refused_for_a_pod_that_another_process_deletes_gives_up_at_its_next_try() -> None:
    snapshot = drained_cluster(App("web", ["a1", "b1"], most=1))
    first, second = drain("a1", at=1, grace_period_seconds=0), drain("a1", at=1, timeout_ns=ns(2))
    _, turn = proven(snapshot, first, second).turns.values()
    assert turn.end is not None
    assert turn.end.latest_ns is not None
    # The pod goes within a second; it sleeps for five.
    assert turn.end.latest_ns > turn.start[1] + ns(5.07)
    assert DrainEnd.TIMEOUT in turn.reasons
