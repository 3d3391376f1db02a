"""A node that is told from others like it gets the very row that its own prediction gives.

Clusters are drawn: renewals to the microsecond, many of them critical or just beside that, pods that go at once, later,
never, or get stuck; and with them nodes that are silent, cordoned or out of sight already.
"""

from __future__ import annotations

import random

import pytest
from building.builders import (
    default_tolerations,
    make_lease,
    make_node,
    make_pod,
    make_snapshot,
    tolerates,
)
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    IntOrPercent,
    Lease,
    Node,
    Pod,
    PodDisruptionBudget,
    PodWebhook,
)
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.sweeps.failures import NODE, Failing, Failure

RELEASES = ("1.29.6", "1.35.0", "1.18.20", "1.26.1", "1.20.15")
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATIONS = (
    (),
    default_tolerations(300),
    default_tolerations(30),
    (tolerates(UNREACHABLE),),
    (tolerates(UNREACHABLE, 0),),
)
OWNERS = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job", "")
MICROSECOND_NS = 1_000


def drawn_lease(draw: random.Random, name: str) -> Lease:
    """Renewed up to 10.6 s ago: after more than 10 s it may have been renewed once more."""
    ago_us = draw.randrange(10_600_000)
    if draw.random() < 0.3:
        ago_us = draw.choice((0, 5_000_000, 10_000_000, 4_970_000)) + draw.choice((0, 1, 2))
    lease = make_lease(name, 0)
    assert lease.renew_time_ns is not None
    return replace(lease, renew_time_ns=lease.renew_time_ns - ago_us * MICROSECOND_NS)


def drawn_pods(draw: random.Random, names: list[str]) -> list[Pod]:
    pods = []
    for number in range(len(names)):
        kind, app = draw.choice(OWNERS), f"w{number}"
        alike = {
            "tolerations": draw.choice(TOLERATIONS),
            "finalizers": draw.choice(((), (), (), ("a/b",))),
            "grace_seconds": draw.choice((30, 30, 0)),
            "ready": draw.choice(("True", "True", "False")),
            "labels": {"app": app, "tier": draw.choice(("x", "y"))},
            "owner": f"{kind}/{app}" if kind else "",
        }
        pods += [
            make_pod(f"{app}-{replica}", draw.choice(names), **alike)
            for replica in range(draw.choice((1, 2, 4)))
        ]
    return pods


def odd_nodes(draw: random.Random) -> tuple[list[Node], list[Lease]]:
    """None, or nodes beside the others to which something happens anyway."""
    nodes, leases = [], []
    if draw.random() < 0.5:
        nodes.append(make_node("m-cordoned", zone="a", unschedulable=True))
    if draw.random() < 0.3:
        nodes.append(make_node("n0-silent", zone="a"))
        leases.append(make_lease("n0-silent", -draw.choice((22.5, 37.25))))
    if draw.random() < 0.3:
        nodes.append(make_node("z-lost", zone="b", ready="Unknown"))
        leases.append(make_lease("z-lost", -4000))
    return nodes, leases


def drawn_cluster(draw: random.Random) -> ClusterSnapshot:
    names = [f"n{number}" for number in range(40)]
    nodes = [make_node(name, zone=draw.choice(("a", "a", "b"))) for name in names]
    odd, odd_leases = odd_nodes(draw)
    pods = drawn_pods(draw, [*names, *(node.name for node in odd)])
    leases = [drawn_lease(draw, name) for name in names]
    webhook = PodWebhook("w/one", object_selector=(("tier", "In", ("y",)),))
    return replace(
        make_snapshot([*nodes, *odd], pods, leases=[*leases, *odd_leases]),
        budgets=(
            PodDisruptionBudget("default", "b", {"tier": "x"}, min_available=IntOrPercent(3)),
        ),
        webhooks=(webhook,) if draw.random() < 0.3 else (),
        kinds_seen=("Lease", "Node", "Pod", "PodDisruptionBudget"),
    )


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 60))]
)
def test_rows_of_alike_nodes_are_those_of_their_own_predictions(seed: int) -> None:
    draw = random.Random(seed)
    snapshot = drawn_cluster(draw)
    settings = ControllerSettings(RELEASES[seed % len(RELEASES)], None, {})
    horizon_ns = draw.choice((None, None, 47 * SECOND_NS))
    configuration = resolve_configuration(settings, snapshot.control_plane)
    known = snapshot, configuration, snapshot.taken_at_ns, horizon_ns
    together, alone = Failing(*known), Failing(*known)
    failures = [Failure(NODE, node.name, (node.name,)) for node in snapshot.nodes]
    together.prepare(failures)

    for failure in failures[:: 2 if seed == 0 else 1]:
        assert together.row(failure) == alone.row(failure)
    assert together._alike is not None
    # A short horizon may cut the nodes of each class apart; then each is predicted alone.
    assert horizon_ns or any(together._alike.prediction(failure.name) for failure in failures)


def test_nodes_that_are_alike_are_not_predicted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number:02}" for number in range(30)]
    leases = [make_lease(name, -1 - place / 10) for place, name in enumerate(names)]
    pods = [make_pod(f"p{name}", name, tolerations=TOLERATIONS[1]) for name in names]
    snapshot = make_snapshot([make_node(name) for name in names], pods, leases=leases)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    failing = Failing(snapshot, configuration, snapshot.taken_at_ns)
    failing.prepare([Failure(NODE, name, (name,)) for name in names])
    predicted: list[str] = []
    monkeypatch.setattr(failing, "predicted", lambda failure: predicted.append(failure.name))

    rows = [failing.row(Failure(NODE, name, (name,))) for name in names]

    assert predicted == []
    assert [row.not_coming_back for row in rows] == [(f"default/p{name}",) for name in names]
    found = [row.unknown_latest_seconds for row in rows if row.unknown_latest_seconds is not None]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == len(names)


def test_beside_nodes_that_are_alike_writes_conflict_as_well() -> None:
    """From 1.34 on the tick that finds a node silent exchanges its taint at once, while a worker exchanges the other one."""
    names = [f"n{number:02}" for number in range(8)]
    taints = [f"node.kubernetes.io/not-ready:{effect}" for effect in ("NoSchedule", "NoExecute")]
    nodes = [make_node("c0", ready="False", taints=taints), *map(make_node, names)]
    leases = [make_lease(name, -1 - place / 10) for place, name in enumerate(names)]
    leases.append(make_lease("c0", -30))
    pods = [make_pod(f"p{name}", name, tolerations=TOLERATIONS[1]) for name in names]
    snapshot = make_snapshot(nodes, pods, leases=leases)
    configuration = resolve_configuration(ControllerSettings("1.37.0"), snapshot.control_plane)
    failing = Failing(snapshot, configuration, snapshot.taken_at_ns)
    failures = [Failure(NODE, name, (name,)) for name in names]
    failing.prepare(failures)
    assert failing._alike is not None

    for failure in failures:
        told, alone = failing._alike.prediction(failure.name), failing.predicted(failure)
        assert told is not None
        [found, expected] = (
            [change for report in one.nodes for change in report.changes if report.node == "c0"]
            for one in (told, alone)
        )
        assert [(one.value, one.latest_seconds) for one in found] == [
            (one.value, one.latest_seconds) for one in expected
        ]
