"""Pods that are made anew on nodes to which kubectl has still to come: one in the stead of one, and Ready since long."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from drawn.drain_worlds import (
    CONFIGURATION,
    READY,
    App,
    drain,
    drained_cluster,
    drains,
    latest,
    proven,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows.drains.bounds import DrainBounds
from kubectl_evictplan.windows.drains.soonest import plan_of
from kubectl_evictplan.windows.drains.world import drain_world

# Where somebody is evicted first, and a node that takes replacements until another process cordons it.
FIRST, LATER = "a1", "b1"
OTHERS = "a2", "b2"


def cluster(nodes: Sequence[str], kind: str = "ReplicaSet") -> ClusterSnapshot:
    return drained_cluster(App("web", nodes, kind, most=1, grace=1, parallel=True))


def over(bounds: DrainBounds) -> float:
    """When the last of all turns is over, in seconds."""
    ends = [one.end for one in bounds.turns.values()]
    assert all(one is not None and one.latest_ns is not None for one in ends)
    return max(one.latest_ns / 1e9 for one in ends if one is not None and one.latest_ns is not None)


def of_two(snapshot: ClusterSnapshot, at: float, *later: str) -> DrainBounds:
    return proven(snapshot, drain(FIRST, at=1), drain(*later, at=at))


def test_whoever_was_made_anew_long_before_is_ready_when_kubectl_comes() -> None:
    snapshot = cluster((FIRST, *OTHERS))
    # Deleted by 1.6 s and Ready 3 s later; who may be Ready just then is refused once more, for 10 s.
    assert over(of_two(snapshot, 60, LATER)) < 60 + 8
    assert over(of_two(snapshot, 3, LATER)) > 3 + 10


def test_in_the_stead_of_one_pod_there_is_one_on_all_nodes_of_a_process() -> None:
    snapshot = cluster((FIRST, *OTHERS))
    # That it may be on either node keeps the pod of the second one waiting once.
    assert latest(of_two(snapshot, 60, LATER, "a2"), "web-1") < 70


def test_it_may_keep_others_waiting_on_any_of_these_nodes() -> None:
    snapshot = cluster((FIRST, FIRST, "a2", "b2"))
    bounds = of_two(snapshot, 60, LATER, "a2")
    [turn] = (one for drain, one in bounds.turns.items() if drain.node == "a2")
    assert turn.start.latest_ns is not None
    # Both may be on the second node, and be let go there before the one that was there all the time: at a try each.
    assert latest(bounds, "web-2") > turn.start.latest_ns / 1e9 + 10


def test_unless_an_owner_lacks_pods_and_may_make_them_at_any_time() -> None:
    snapshot = cluster((FIRST, *OTHERS))
    workloads = tuple(replace(one, replicas=4) for one in snapshot.workloads)
    bounds = of_two(replace(snapshot, workloads=workloads), 60, LATER)
    # Nothing says by when kubectl is through with whoever is made then.
    assert any(one.end is not None and one.end.latest_ns is None for one in bounds.turns.values())


def test_unless_two_later_processes_may_meet_it_one_after_the_other() -> None:
    snapshot = cluster((FIRST, "a2", "a2"))
    bounds = proven(snapshot, drain(FIRST, at=1), drain(LATER, at=60), drain("b2", at=64))
    # Who is made anew on the first node may be evicted there shortly before, and be made anew on the second one.
    assert over(bounds) > 64 + 10


@pytest.mark.parametrize("kept_by", [None, "web-1", "web-2"])
def test_a_new_pod_may_keep_data_on_its_node_where_any_of_its_owner_s_does(
    kept_by: str | None,
) -> None:
    """Then kubectl refuses the second node if it is made there, and whose the data is says nothing of the one that goes."""
    web, alone = App("web", (FIRST, *OTHERS[1:], "b2")), App("alone", (LATER,))
    plain = drained_cluster(web, alone)
    pods = tuple(replace(pod, empty_dir=pod.name == kept_by) for pod in plain.pods)
    scenario = drains(drain(FIRST, at=1), drain(LATER, at=60))
    known = replace(plain, pods=pods), scenario, CONFIGURATION
    rows = predict(*known, assume_ready=READY).evictions
    certainty = {row.pod: row.certainty for row in rows}
    assert certainty["web-0"] == CERTAIN
    assert certainty["alone-0"] == (CERTAIN if kept_by is None else POSSIBLE)


def test_nobody_is_made_anew_in_the_stead_of_pods_that_go_after_the_cordon() -> None:
    firsts, others = ([f"{name}{at}" for at in range(6)] for name in "ab")
    snapshot = drained_cluster(App("web", [*firsts, *others], most=1), nodes=[*firsts, *others])
    scenario = drains(drain(*firsts), drain(*others))
    world = drain_world(snapshot, scenario, CONFIGURATION)
    plan = plan_of(world, scenario, {}, ReadyTimes(*READY), EvictionRules())
    met = {pod.key for turn in plan.processes[0] for pod in turn.guests}
    # Each has cordoned all its nodes 0.6 s after it has begun, and needs a second for the first of them.
    assert met == {"default/web-6"}
