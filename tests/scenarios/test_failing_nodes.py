"""What of the control plane fails with nodes, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from building.builders import (
    default_tolerations,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from msgspec.structs import replace
from realities.drawn_realities import World
from realities.test_bounds import check_world

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.infrastructure import Infrastructure, LeaderLease
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.prediction.document import CERTAIN
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.failing_nodes import Fallen, control_plane_nodes
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.sweeps.failures import NODE, Failing, Failure, ranked

GRACE_NS = ns(50)
FOR_EVER = tolerates("")
NODES = ("a1", "a2", "b1", "b2")
MASTERS = ("a1", "a2", "b1")
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "etcd")


def static_pod(component: str, node: str) -> Pod:
    pod = make_pod(f"{component}-{node}", node, namespace="kube-system", tolerations=[FOR_EVER])
    return replace(pod, labels={"component": component}, mirror=True)


def cluster(
    masters: Sequence[str] = MASTERS, holder: str = "a1_x", components: Sequence[str] = COMPONENTS
) -> ClusterSnapshot:
    """Static pods of the components on the masters, and one pod beside them; ``holder`` "": no Lease."""
    pods = [static_pod(component, node) for node in masters for component in components]
    worker = make_pod("web", NODES[0], tolerations=default_tolerations())
    snapshot = make_snapshot(map(make_node, NODES), [worker, *pods])
    if not holder:
        return snapshot
    lease = LeaderLease("kube-system", "kube-controller-manager", holder)
    flags = replace(snapshot.control_plane, leader_acquire_time_ns=1)
    infrastructure = Infrastructure(leader_leases=(lease,))
    return replace(snapshot, control_plane=flags, infrastructure=infrastructure)


def events(
    snapshot: ClusterSnapshot, *nodes: str, back: float | None = None
) -> list[tuple[str, float, float]]:
    back_ns = None if back is None else ns(back)
    known = control_plane_nodes(snapshot)
    found = known.events(nodes, back_ns, snapshot, GRACE_NS, "fail node")
    return [(one.action, one.at_ns / 1e9, one.latest_ns / 1e9) for one in found]


def said(snapshot: ClusterSnapshot, *nodes: str, back: float | None = None) -> dict[str, str]:
    back_ns = None if back is None else ns(back)
    found = control_plane_nodes(snapshot).warnings(nodes, back_ns)
    return {one.code: one.message for one in found}


SILENCE = ("kubelet-stop", 0, 0)
NOBODY = ("controller-stop", 0, 0)


def test_another_process_takes_over_from_a_leader_that_fails_with_its_node() -> None:
    # Renewed up to 2 s before; seen within 4.4 s, 15 s, found over within 4.4 s, a request of 5 s, 5 s to fill caches.
    assert events(cluster(), "a1") == [SILENCE, NOBODY, ("controller-start", 13, 33.8)]
    message = said(cluster(), "a1")["leader-fails-too"]
    assert "between +13s and +34s" in message
    assert "kubelet-stop" in message


def test_a_leader_on_another_node_goes_on() -> None:
    assert (events(cluster(), "a2"), said(cluster(), "a2")) == ([SILENCE], {})
    managed = cluster((), "ip-10-0-0-1_x")
    assert (events(managed, "a1", back=60), said(managed, *NODES)) == (
        [SILENCE, ("kubelet-start", 60, 60)],
        {},
    )


@pytest.mark.parametrize(
    ("masters", "components", "nodes", "words"),
    [
        (["a1"], COMPONENTS, ["a1"], "every API server of the input fails with a1"),
        (MASTERS, COMPONENTS, ["a1", "b1"], "etcd loses its majority with a1, b1 (1 of 3 left, 2"),
        (["a1"], ["kube-controller-manager"], ["a1"], "every kube-controller-manager of the input"),
    ],
    ids=["API server", "etcd", "controllers"],
)
def test_without_a_control_plane_nobody_acts_until_it_is_back(
    masters: Sequence[str], components: Sequence[str], nodes: Sequence[str], words: str
) -> None:
    snapshot = cluster(masters, "a1_x", components)
    assert events(snapshot, *nodes) == [SILENCE, NOBODY]
    assert words in said(snapshot, *nodes)["control-plane-fails-too"]
    back = events(snapshot, *nodes, back=600)
    assert [one[0] for one in back] == [SILENCE[0], NOBODY[0], "kubelet-start", "controller-start"]
    assert back[-1][1] >= 600


def test_nodes_that_are_not_ready_are_heard_some_time_after_the_control_plane_is_back() -> None:
    snapshot = cluster(["a1"])
    down = make_node("a2", ready="Unknown", heartbeat=-90)
    nodes = tuple(down if node.name == "a2" else node for node in snapshot.nodes)
    back = events(replace(snapshot, nodes=nodes), "a1", "a2", back=60)
    assert [one for one in back if one[0] == "kubelet-start"] == [
        ("kubelet-start", 60, 60),
        ("kubelet-start", 60, 81),
    ]


def test_nodes_that_fail_with_the_control_plane_are_heard_some_time_after_it_is_back() -> None:
    snapshot = cluster(["a1"])
    found = control_plane_nodes(snapshot).events(["a1", "b2"], ns(60), snapshot, GRACE_NS, "x")
    configuration = resolve_configuration(ControllerSettings("1.37.0"), snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(found, horizon=300), configuration)
    back = {
        report.node: [(c.earliest_seconds, c.latest_seconds) for c in report.changes]
        for report in prediction.nodes
    }
    assert back == {"a1": [(60, 81)], "b2": [(60, 81)]}


def test_members_of_etcd_that_are_down_already_count_for_the_majority() -> None:
    snapshot = cluster(holder="b1_x")
    down = [replace(pod, ready="False") if pod.name == "etcd-a2" else pod for pod in snapshot.pods]
    known = control_plane_nodes(replace(snapshot, pods=tuple(down)))
    assert known.fallen({"a1"}) is Fallen.CONTROL_PLANE
    assert known.fallen({"a2"}) is Fallen.NOTHING


def test_where_the_lease_is_not_in_the_input_it_is_said_that_the_leader_may_fail() -> None:
    unknown = cluster(holder="")
    assert events(unknown, "a1") == [SILENCE]
    assert "is too early" in said(unknown, "a1")["leader-may-fail-too"]
    assert said(unknown, "b2") == {}


def test_what_is_away_for_less_than_a_lease_is_taken_as_going_on() -> None:
    assert events(cluster(), "a1", back=10) == [SILENCE, ("kubelet-start", 10, 10)]
    assert "is taken as going on" in said(cluster(), "a1", back=10)["leader-fails-too"]


@pytest.mark.parametrize("host", ["master-1", "a1", "a1.example.com"])
def test_the_holder_of_the_lease_is_found_by_its_host_name(host: str) -> None:
    snapshot = cluster(holder=f"{host}_8c5d")
    first, *rest = snapshot.nodes
    named = replace(first, name="a1.example.com", labels={"kubernetes.io/hostname": "master-1"})
    known = control_plane_nodes(replace(snapshot, nodes=(named, *rest)))
    assert known.leader == "a1.example.com"


def test_where_no_component_has_a_pod_the_roles_of_nodes_tell() -> None:
    role = {"node-role.kubernetes.io/control-plane": "true", "node-role.kubernetes.io/etcd": "true"}
    snapshot = replace(cluster(), pods=())
    nodes = [replace(n, labels=role if n.name in MASTERS else {}) for n in snapshot.nodes]
    known = control_plane_nodes(replace(snapshot, nodes=tuple(nodes)))
    assert known.fallen({"a1"}) is Fallen.LEADER
    assert known.fallen({"a2", "b1"}) is Fallen.CONTROL_PLANE


def failing(snapshot: ClusterSnapshot) -> Failing:
    settings = ControllerSettings(kubernetes_version="1.34.0", monitor_phase_ns=0)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return Failing(snapshot, configuration, snapshot.taken_at_ns)


def test_pods_of_the_leaders_node_are_evicted_a_takeover_later() -> None:
    snapshot = cluster()
    of_leader = failing(snapshot).predicted(Failure(NODE, "a1", ("a1",)))
    [eviction] = of_leader.evictions
    assert (eviction.pod, eviction.certainty) == ("web", CERTAIN)
    assert (eviction.earliest_seconds, round(eviction.latest_seconds)) == (363, 394)


def test_whenever_another_process_takes_over_pods_go_within_their_windows() -> None:
    snapshot = cluster()
    configuration = resolve_configuration(
        ControllerSettings(kubernetes_version="1.34.0"), snapshot.control_plane
    )
    known = control_plane_nodes(snapshot)
    scenario = make_scenario(known.events(["a1"], None, snapshot, GRACE_NS, "test"), horizon=900)
    check_world(World(snapshot, scenario, configuration), 5, 20)


def test_a_sweep_ranks_a_lost_control_plane_first_and_names_what_fails_with_a_node() -> None:
    many = failing(cluster(["a1"]))
    lost = [many.row(Failure(NODE, name, (name,))) for name in ("b1", "a1")]
    rows = ranked(lost)
    assert [(one.rank, one.name, one.control_plane) for one in rows] == [
        (1, "a1", "control-plane"),
        (2, "b1", ""),
    ]
    assert many.row(Failure(NODE, "b1", ("b1",))).evicted_certain == 0
    of_leader = failing(cluster()).row(Failure(NODE, "a1", ("a1",)))
    assert (of_leader.control_plane, of_leader.first_earliest_seconds) == ("leader", 363)
    unknown = failing(cluster(holder="")).row(Failure(NODE, "a1", ("a1",)))
    assert (unknown.control_plane, unknown.first_earliest_seconds) == ("leader-perhaps", 345)


def test_the_pods_of_each_namespace_are_found_where_they_stand() -> None:
    names = {"b": ("x", "y"), "a": ("z",), "a-b": ("w", "x")}
    pods = [make_pod(name, namespace=one) for one in names for name in names[one]]
    snapshot = make_snapshot(pods=pods)

    found = snapshot.places_of_namespaces
    assert list(found) == ["a", "a-b", "b"]
    for namespace, place in found.items():
        told = [(pod.namespace, pod.name) for pod in snapshot.pods[place]]
        assert told == [(namespace, name) for name in names[namespace]]
    assert make_snapshot().places_of_namespaces == {}
