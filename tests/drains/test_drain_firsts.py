"""Who may be the first for whom a budget opens, and who surely finds a disruption at its first request."""

from __future__ import annotations

from building.builders import ns
from drawn.drain_worlds import (
    CONFIGURATION,
    App,
    drain,
    drained_cluster,
    drains,
    latest,
    proven,
    row,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import EVICTION_API, PodDeleted
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.drains.bounds import DrainBounds
from kubectl_evictplan.windows.outcome import EvictionKey

# How long replacements take until they are Ready (``drain_worlds.READY``).
READY = 3
WEB_0 = EvictionKey("default/web-0", "uid-default-web-0", EVICTION_API, 0)


def closed(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster with all nodes but the last one cordoned already, so that nobody comes to them."""
    last = snapshot.nodes[-1].name
    nodes = (replace(one, unschedulable=one.name != last) for one in snapshot.nodes)
    return replace(snapshot, nodes=tuple(nodes))


def earliest(bounds: DrainBounds, pod: str) -> float:
    return row(bounds, pod).spans[0][0] / 1e9


# -- a budget that is closed at first -----------------------------------------------------------------------


def test_no_pod_that_waits_for_a_budget_opens_it_nor_one_that_its_process_evicts_later() -> None:
    web = App("web", ["b1", "b1", "a2", "b2"], least=3, unready=[2])
    snapshot = closed(drained_cluster(web))
    # Only web-2, which is not Ready, goes without a disruption, and makes room when another pod is Ready.
    alone = proven(snapshot, drain("b1", "a2", at=1), drain("a2", at=60))
    assert earliest(alone, "web-2") > 60
    assert earliest(alone, "web-0") > 60 + READY
    soon = proven(snapshot, drain("b1", at=1), drain("a2", at=10))
    # It asks from 1 s on, each five seconds.
    assert 16 < earliest(soon, "web-0") < 16.1


def test_whoever_is_not_ready_opens_it_however_it_is_deleted() -> None:
    web = App("web", ["b1", "b1", "a2", "b2"], least=3, unready=[2])
    deleting = drain("a2", at=10, disable_eviction=True)
    bounds = proven(closed(drained_cluster(web)), drain("b1", at=1), deleting)
    assert ns(16) < bounds.unbounded[WEB_0].spans[0][0] < ns(16.1)


# web-2, which is not Ready, goes with the second process if the first one has taken away why that refuses the node.
REFUSED_AT_FIRST = (
    drain("b1", at=1),
    drain("a2", at=30, force=True, pod_selector="app=bare"),
    drain("a2", at=30),
)


def test_when_it_opens_is_not_known_where_nobody_knows_whom_kubectl_finds() -> None:
    web = App("web", ["b1", "b1", "a2", "b2"], least=3, unready=[2])
    bare = App("bare", ["a2"], "", grace=0)
    snapshot = closed(drained_cluster(web, bare))
    timing = DrainTiming(seed=1, latency=None, ready_low_ns=ns(READY), ready_high_ns=ns(READY))
    run = simulate(snapshot, drains(*REFUSED_AT_FIRST), CONFIGURATION, Timing(drain=timing))
    assert [one for one in run.entries if isinstance(one, PodDeleted) and one.pod == WEB_0.pod]
    bounds = proven(snapshot, *REFUSED_AT_FIRST)
    assert bounds.unbounded[WEB_0].spans[0][0] < ns(1 + READY)
    assert not bounds.held_until_ns


# -- one that is open -----------------------------------------------------------------------------------------


def test_who_is_back_by_then_and_who_is_asked_for_later_take_nothing_from_a_first_request() -> None:
    web = App("web", ["b1", "a2", "a1", "b2"], most=1, grace=1)
    snapshot = closed(drained_cluster(web))
    other = drain("b1", "a2", at=1, settle_ns=ns(60))
    assert latest(proven(snapshot, other, drain("a1", at=20)), "web-2") < 20.6
    # Another pod may not be Ready yet.
    assert latest(proven(snapshot, other, drain("a1", at=4)), "web-2") > 4 + READY


def test_an_old_object_that_is_gone_by_then_holds_no_request_up() -> None:
    web = App("web", ["a1", "b1", "b2", "b2"], least=2, grace=1)
    events = drain("a1", at=1), drain("b1", at=20)
    assert latest(proven(closed(drained_cluster(web)), *events), "web-1") < 20.6
    slow = App("web", ["a1", "b1", "b2", "b2"], least=2, grace=30)
    late = latest(proven(closed(drained_cluster(slow)), *events), "web-1")
    assert 20.6 < late < 21.2


def test_a_replacement_that_may_be_there_finds_a_disruption_as_well() -> None:
    web = App("web", ["b1", "a1", "b2", "b2"], most=2)
    limited = drain("a1", at=20, timeout_ns=ns(40))
    bounds = proven(drained_cluster(web), drain("b1", at=1), limited)
    [end] = [turn.end for drained, turn in bounds.turns.items() if drained.node == "a1"]
    assert end is not None
    assert end.latest_ns is not None
    # It is not still asked for when the time is up, only perhaps waited for.
    assert end.latest_ns < ns(61)
