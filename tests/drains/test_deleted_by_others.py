"""Replacements of pods that somebody else than kubectl deletes, which may land on the node that is drained."""

from __future__ import annotations

import pytest
from building.builders import make_event, make_pod, ns, tolerates
from drawn.drain_worlds import CONFIGURATION, READY, App, drain, drained_cluster, drains, proven
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Lease, Taint
from kubectl_evictplan.prediction.document import CERTAIN
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ScenarioEvent
from kubectl_evictplan.windows.drains.bounds import DrainBounds

CLUSTER = drained_cluster(App("web", ["a1"]), nodes=["a1", "a2", "b1"])
NOBODY_ELSE = make_event(1, "cordon", "b1")
TAINTED = make_event(1, "taint", "a1", taint="B:NoExecute")


def with_taint() -> ClusterSnapshot:
    tainted = [replace(n, taints=(Taint("B", NO_EXECUTE),)) for n in CLUSTER.nodes[:1]]
    return replace(CLUSTER, nodes=(*tainted, *CLUSTER.nodes[1:]))


def with_slow_lease() -> ClusterSnapshot:
    """A kubelet that renews every 250 s."""
    slow = Lease("a1", renew_time_ns=CLUSTER.taken_at_ns, lease_duration_seconds=1000)
    return replace(CLUSTER, leases={**CLUSTER.leases, "a1": slow})


def latest_end(bounds: DrainBounds) -> int:
    """When kubectl is through with a2 at the latest, in nanoseconds."""
    [turn] = [turn for drain, turn in bounds.turns.items() if drain.node == "a2"]
    assert turn.end is not None and turn.end.latest_ns is not None
    return turn.end.latest_ns


@pytest.mark.parametrize(
    ("cluster", "event"),
    [
        (CLUSTER, TAINTED),
        (CLUSTER, make_event(1, "kubelet-stop", "a1")),
        (CLUSTER, make_event(1, "node-delete", "a1")),
        (CLUSTER, make_event(1, "pod-delete", pods=("default/web-0",))),
        (with_taint(), NOBODY_ELSE),
        (with_slow_lease(), NOBODY_ELSE),
    ],
)
def test_a_drain_may_meet_the_replacement_of_a_pod_that_anybody_else_may_delete_however_early(
    cluster: ClusterSnapshot, event: ScenarioEvent
) -> None:
    assert latest_end(proven(CLUSTER, NOBODY_ELSE, drain("a2", at=900))) < ns(902)
    bounds = proven(cluster, event, drain("a2", at=900))
    # It needs its grace period to end.
    assert ns(930) < latest_end(bounds) < ns(933)
    assert (bounds.exit_codes, bounds.complete) == ({0: {0}}, False)


@pytest.mark.parametrize("node", ["", "b1"])
def test_a_pod_that_is_created_or_its_replacement_may_be_there_when_kubectl_comes(
    node: str,
) -> None:
    event = make_event(2, "pod-create", pod=make_pod("new", node, owner="ReplicaSet/new"))
    assert proven(CLUSTER, drain("a2", at=0), event).exit_codes == {0: {0}}
    # Who is made unbound may be one that kubectl refuses the node for.
    assert proven(CLUSTER, event, drain("a2", at=3)).exit_codes == {0: {0, 1, None}}


def test_whoever_tolerates_cordons_may_come_while_kubectl_is_at_a_node_before() -> None:
    hardy = [
        replace(pod, tolerations=(tolerates("node.kubernetes.io/unschedulable", effect=""),))
        for pod in CLUSTER.pods
    ]
    cluster, later = replace(CLUSTER, pods=tuple(hardy)), TAINTED.moved_to(ns(4))
    assert latest_end(proven(cluster, drain("a2", at=1), later)) < ns(3)
    assert latest_end(proven(CLUSTER, drain("b1", "a2", at=1), later)) < ns(4)
    assert latest_end(proven(cluster, drain("b1", "a2", at=1), later)) > ns(31)


@pytest.mark.parametrize(
    "at",
    [
        1,
        # After the drain began: it may land there before the cordon, which few runs show.
        5.3,
    ],
)
def test_a_replacement_of_what_somebody_else_deletes_is_told_to_be_drained_perhaps(
    at: float,
) -> None:
    event = TAINTED.moved_to(ns(at))
    scenario = drains(*sorted((event, drain("a2", at=5)), key=lambda one: one.at_ns))
    found = predict(CLUSTER, scenario, CONFIGURATION, assume_ready=READY)
    (report,) = found.drains
    assert (report.exit_code, report.end_reason) == (0, "drained")
    assert report.end_latest_seconds is not None
    assert report.end_latest_seconds > 5 + 30
    assert "replacement-may-be-drained" in {one.code for one in found.warnings}
    (row,) = found.evictions
    assert (row.key, row.certainty) == ("default/web-0", CERTAIN)


def landing_beside_many(*others: App, **changes: object) -> tuple[int | None, bool]:
    """When kubectl is through with a2 if whoever a1 loses may land there, and whether it may refuse the node.

    They are of twenty owners, which keep it long, and of others.
    """
    many = [App(f"app{number}", ["a1"], grace=20) for number in range(20)]
    cluster = drained_cluster(App("own", ["a2"]), *many, *others, nodes=["a1", "a2", "b1"])
    names = {one.name for one in others}
    pods = [replace(p, **changes) if p.labels["app"] in names else p for p in cluster.pods]
    found = proven(replace(cluster, pods=tuple(pods)), TAINTED, drain("a2", at=5))
    assert {drain.node for drain in found.landings} == {"a2"}
    [turn] = found.turns.values()
    assert turn.end is not None
    return turn.end.latest_ns, DrainEnd.REFUSED in turn.reasons


def test_whoever_lands_counts_although_others_that_keep_kubectl_longer_stand_for_its_owner() -> (
    None
):
    short, held = App("short", ["a1"], grace=1), App("held", ["a1"], grace=1, least=1)
    latest_ns, refused = landing_beside_many()
    assert latest_ns is not None and not refused
    assert landing_beside_many(short) == (latest_ns, False)
    assert landing_beside_many(held) == (None, False)
    assert landing_beside_many(short, finalizers=("example.com/held",)) == (None, False)
    assert landing_beside_many(short, empty_dir=True)[1]


def test_an_end_is_not_told_where_it_is_not_known_how_long_kubectl_is_there_for_who_lands() -> None:
    held = App("held", ["a1"], least=1)
    cluster = drained_cluster(held, App("own", ["a2"]), nodes=["a1", "a2", "b1"])
    world = cluster, drains(TAINTED, drain("a2", at=5)), CONFIGURATION
    (report,) = predict(*world, assume_ready=READY).drains
    assert (report.end_latest_seconds, report.end_reason) == (None, None)
