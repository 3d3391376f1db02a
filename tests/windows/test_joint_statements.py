"""Statements about the nodes of one zone, and their pods, together."""

from __future__ import annotations

import pytest
from building.builders import (
    make_event,
    make_node,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
)

from kubectl_evictplan.cluster.timeline import POD_GC, TAINT_EVICTION
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.alike_pods import AlikePods
from kubectl_evictplan.prediction.document import Joint
from kubectl_evictplan.prediction.nodes import joint_statements
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.outcome import EvictionKey, Exploration, PossibleEviction

ZONE = "eu:\x00:a"
EACH_ALONE = AlikePods(make_snapshot([]), None)


def exploration(nodes: str, services: list[tuple[float, ...]]) -> Exploration:
    """Nodes that wait in one zone; for every admissible run when nodes are tainted, in seconds."""
    found = Exploration()
    found.waiting[ZONE] = set(nodes.split())
    found.services[ZONE] = [tuple(map(ns, instants)) for instants in services]
    return found


def add_pod(
    found: Exploration, pod: str, node: str, delay: float | None, *, certain: bool = False
) -> None:
    key = EvictionKey(f"default/{pod}", f"uid-{pod}", TAINT_EVICTION, 0)
    found.evictions[key] = PossibleEviction(
        spans=((ns(50), ns(100)),),
        certain=certain,
        node=node,
        taint=None,
        toleration_index=None,
        toleration_seconds=None,
        sample=None,
        delay_ns=None if delay is None else ns(delay),
        gone_earliest_ns=None,
        gone_latest_ns=None,
    )


def stated(found: Exploration, horizon: float) -> dict[str, tuple[int, int, int]]:
    statements = joint_statements(found, ns(horizon), EACH_ALONE)
    assert {statement.scope for statement in statements} <= {"zone/eu/a"}
    return {joint.what: (joint.least, joint.most, joint.of) for joint in statements}


def test_exactly_one_of_four_nodes_is_tainted_when_every_run_taints_one() -> None:
    found = exploration("n0 n1 n2 n3", [(44,), (49,)])
    assert joint_statements(found, ns(300), EACH_ALONE) == (
        Joint("zone/eu/a", "nodes tainted", 1, 1, 4, 300.0),
    )


def test_runs_that_taint_fewer_give_the_least_and_runs_that_taint_more_the_most() -> None:
    found = exploration("n0 n1 n2", [(), (44,), (44, 54)])
    assert stated(found, 300) == {"nodes tainted": (0, 2, 3)}


def test_what_is_tainted_after_the_horizon_does_not_count() -> None:
    found = exploration("n0 n1", [(44, 54), (49, 59)])
    assert stated(found, 54) == {"nodes tainted": (1, 2, 2)}


def test_nothing_is_said_where_every_node_that_waits_is_tainted_for_certain() -> None:
    assert joint_statements(exploration("n0 n1", [(44, 54)]), ns(300), EACH_ALONE) == ()


def test_pods_of_the_emptiest_and_of_the_fullest_nodes_bound_how_many_are_evicted() -> None:
    found = exploration("n0 n1 n2", [(44, 54)])
    for pod, node in {"a": "n0", "b": "n0", "c": "n0", "d": "n1"}.items():
        add_pod(found, pod, node, 0)
    # n2 has no pod: at least n1's one, at most n0's three and n1's one.
    assert stated(found, 300)["pods evicted"] == (1, 4, 4)


def test_pods_that_a_webhook_may_keep_or_that_may_be_gone_are_not_counted_on() -> None:
    found = exploration("n0 n1 n2", [(44, 54)])
    for pod, node in {"a": "n0", "b": "n0", "c": "n0", "d": "n1"}.items():
        add_pod(found, pod, node, 0)
    told = joint_statements(found, ns(300), EACH_ALONE, frozenset({"default/b", "default/d"}))
    [pods] = [joint for joint in told if joint.what == "pods evicted"]
    # None of n1 for sure, nor of n2.
    assert (pods.least, pods.most, pods.of) == (0, 4, 4)


def test_pods_that_tolerate_the_taint_for_longer_count_only_nodes_tainted_in_time() -> None:
    found = exploration("n0 n1", [(44,), (60,)])
    for node in ("n0", "n1"):
        add_pod(found, f"quick-{node}", node, 0)
        add_pod(found, f"slow-{node}", node, 50)
    assert stated(found, 100) == {"nodes tainted": (1, 1, 2), "pods evicted": (1, 2, 4)}
    assert stated(found, 110)["pods evicted"] == (2, 2, 4)


def test_a_pod_whose_fate_is_not_that_of_its_node_may_go_or_stay() -> None:
    found = exploration("n0 n1", [(44,)])
    add_pod(found, "a", "n0", 0)
    add_pod(found, "b", "n1", None)
    assert stated(found, 300)["pods evicted"] == (0, 2, 2)


def test_a_pod_that_garbage_collection_may_take_need_not_be_evicted_by_the_taint() -> None:
    found = exploration("n0 n1", [(44,)])
    add_pod(found, "a", "n0", 0)
    add_pod(found, "b", "n1", 0)
    assert stated(found, 300)["pods evicted"] == (1, 1, 2)
    taint_eviction = next(iter(found.evictions))
    collected = found.evictions[taint_eviction]._replace(delay_ns=None)
    found.evictions[taint_eviction._replace(controller=POD_GC)] = collected
    assert stated(found, 300)["pods evicted"] == (0, 2, 2)


def test_pods_that_are_certain_are_the_least() -> None:
    found = exploration("n0 n1", [(44,)])
    add_pod(found, "a", "n0", None, certain=True)
    add_pod(found, "b", "n1", None)
    assert stated(found, 300)["pods evicted"] == (1, 2, 2)


def test_without_taint_manager_no_node_is_said_to_be_tainted() -> None:
    found = exploration("n0 n1", [(44,)])
    for pod, node in (("a", "n0"), ("b", "n1")):
        add_pod(found, pod, node, 0)
    (joint,) = joint_statements(found, ns(300), EACH_ALONE, taints=False)
    assert (joint.what, joint.least, joint.most, joint.of) == ("pods evicted", 1, 1, 2)


def test_a_prediction_knows_what_nodes_wait_for() -> None:
    snapshot = make_snapshot([make_node(f"n{number}", zone="a") for number in range(3)], [])
    stopped = [make_event(1, "kubelet-stop", [node.name for node in snapshot.nodes[:2]])]
    said = {}
    for manager in ("true", "false"):
        flags = {"enable-taint-manager": manager}
        settings = ControllerSettings(kubernetes_version="1.26.8", flags=flags)
        configuration = resolve_configuration(settings, snapshot.control_plane)
        prediction = predict(snapshot, make_scenario(stopped, horizon=49), configuration)
        said[manager] = {joint.what for joint in prediction.joint}
    assert said == {"true": {"nodes tainted"}, "false": set()}


def test_a_node_whose_taint_is_exchanged_for_another_is_tainted_beside_those_that_take_tokens() -> (
    None
):
    # Of zone b n0 has not-ready, which the tick exchanges once the kubelet is silent; n1 takes the token.
    not_ready = make_taint("node.kubernetes.io/not-ready:NoExecute", added=-5)
    failed = make_node("n0", zone="b", ready="False", heartbeat=-60, taints=[not_ready])
    snapshot = make_snapshot([failed, make_node("n1", zone="b"), make_node("n2", zone="a")])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    events = [
        make_event(5, "kubelet-stop", ["n0", "n1"], last_heartbeat=5),
        make_event(60, "kubelet-stop", "n2", last_heartbeat=60),
    ]
    prediction = predict(snapshot, make_scenario(events, horizon=400), configuration)
    of_zone = [(each.least, each.most, each.of) for each in prediction.joint if "/b" in each.scope]
    assert of_zone == [(1, 2, 2)]


def test_whom_somebody_tainted_before_the_start_may_be_in_line_and_need_not_be() -> None:
    shown = [make_taint("node.kubernetes.io/unreachable:NoSchedule", added=-30)]
    by_hand = [*shown, make_taint("node.kubernetes.io/unreachable:NoExecute")]
    dead = [
        make_node(name, zone="a", ready="Unknown", transition=-60, taints=by_hand)
        for name in ("n0", "n1")
    ]
    snapshot = make_snapshot([*dead, make_node("n2", zone="a"), make_node("n3", zone="a")])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    back = make_event(30, "kubelet-start", ["n0", "n1"])
    prediction = predict(snapshot, make_scenario([back], horizon=60), configuration)
    (joint,) = prediction.joint
    assert (joint.what, joint.least, joint.most, joint.of) == ("nodes tainted", 0, 2, 2)


def test_whom_a_new_process_taints_need_not_be_whom_the_one_before_it_did() -> None:
    """Each of the two has one token, for one of three nodes, and takes the other's taint off."""
    snapshot = make_snapshot(["n0", "n1", "n2", make_node("well", zone="other")])
    flags = {"node-eviction-rate": "0", "node-monitor-period": "2s"}
    configuration = resolve_configuration(
        ControllerSettings("1.31.14", flags=flags), snapshot.control_plane
    )
    events = [
        make_event(0, "node-ready", ["n0", "n1", "n2"], status="False"),
        make_event(3, "controller-stop"),
        make_event(8, "controller-start"),
    ]
    prediction = predict(snapshot, make_scenario(events, horizon=60), configuration)
    (joint,) = (each for each in prediction.joint if each.what == "nodes tainted")
    assert (joint.least, joint.most, joint.of) == (1, 2, 3)


def test_where_somebody_else_taints_who_waits_nothing_is_said_of_the_zone() -> None:
    found = exploration("n0 n1 n2 n3", [(44,), (54,)])
    assert joint_statements(found, ns(300), EACH_ALONE)
    assert joint_statements(found, ns(300), EACH_ALONE, by_hand={"another"})
    assert joint_statements(found, ns(300), EACH_ALONE, by_hand={"n2"}) == ()


@pytest.mark.parametrize(("what", "said"), [("unreachable", 0), ("mine", 1)])
def test_only_taints_of_node_lifecycle_are_such(what: str, said: int) -> None:
    snapshot = make_snapshot([make_node(f"n{number}", zone="a") for number in range(3)], [])
    key = "mine" if what == "mine" else f"node.kubernetes.io/{what}"
    events = [
        make_event(1, "kubelet-stop", ["n0", "n1"]),
        make_event(20, "taint", "n1", taint=f"{key}:NoExecute"),
    ]
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(events, horizon=49), configuration)
    assert len(prediction.joint) == said


def test_by_the_start_nothing_is_said() -> None:
    assert joint_statements(exploration("n0 n1", [(44,), ()]), None, EACH_ALONE) == ()
