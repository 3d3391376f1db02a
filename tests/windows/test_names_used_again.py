"""A pod's name is used again on another node: what happens to both nodes decides together."""

from __future__ import annotations

from building.builders import (
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)
from msgspec.structs import replace
from realities.contradictions import contradictions
from realities.drawn_realities import World

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate


def _world() -> World:
    """The first pod goes 5 s after n0's taint; only then can the second be made, which goes with n1's taint."""
    names = ["n0", "n1", "n2", "n3"]
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "6s"}
    flags["node-eviction-rate"] = "1"
    snapshot = make_snapshot(
        [make_node(name) for name in names],
        [make_pod("p", "n0", tolerations=default_tolerations(5), grace_seconds=0, uid="first")],
        leases=[make_lease(name, -0.5, duration_seconds=8) for name in names],
    )
    second = make_pod("p", "n1", grace_seconds=0, uid="second")
    scenario = make_scenario(
        [
            make_event(6.9, "kubelet-stop", "n0", last_heartbeat=5.8),
            make_event(17.904, "pod-create", pod=second),
            make_event(20.236, "kubelet-stop", "n1", last_heartbeat=20.236),
        ],
        horizon=40,
    )
    settings = ControllerSettings("1.23.13", flags=flags)
    return World(snapshot, scenario, resolve_configuration(settings, snapshot.control_plane))


def test_a_first_node_served_early_can_come_with_a_second_one_served_late() -> None:
    world = _world()
    timing = Timing(monitor_phase_ns=ns(0.77), pass_phase_ns=ns(0.03), monitor_cost_ns=ns(0.01))
    known = world.snapshot, world.scenario, world.configuration
    assert not list(contradictions(ns(40), predict(*known), simulate(*known, timing)))


def made_again(again: float, *others: ScenarioEvent) -> Prediction:
    """A pod is deleted at 1 s; its name is used again at 5 s, and ``again`` on a node with a taint."""
    snapshot = make_snapshot(
        [make_node("n0"), make_node("n1", taints=["A:NoExecute"]), make_node("n2")],
        [make_pod("p", "n0", grace_seconds=30, uid="first")],
    )
    events = [
        make_event(1, "pod-delete", pods=["default/p"]),
        make_event(5, "pod-create", pod=make_pod("p", "n2", uid="second")),
        *others,
        make_event(again, "pod-create", pod=make_pod("p", "n1", uid="third")),
    ]
    configuration = resolve_configuration(ControllerSettings("1.16.4"), snapshot.control_plane)
    return predict(snapshot, make_scenario(events, horizon=60), configuration)


def test_an_exit_between_two_creations_lets_the_second_one_be() -> None:
    prediction = made_again(10)
    (row,) = prediction.evictions
    assert (row.uid, row.certainty, row.windows[0].earliest_seconds) == ("third", "possible", 10)
    assert prediction.inputs.coverage.exact == 1


def test_whom_another_one_makes_room_for_late_may_be_gone_at_once_itself() -> None:
    (row,) = made_again(10).evictions
    assert row.gone is not None and row.gone.earliest_seconds == 10


def test_also_where_the_kubelet_falls_silent_long_before_the_second_one() -> None:
    rows = made_again(45, make_event(8, "kubelet-stop", "n0")).evictions
    told = {row.uid: (row.certainty, row.windows[0].earliest_seconds) for row in rows}
    assert told["third"] == ("possible", 45)


def test_each_of_two_pods_of_one_name_ends_as_quickly_or_slowly_as_it_likes() -> None:
    """The first one is gone before the second one comes to be, which is still there when its node goes: the same share of both shows neither."""
    settings = ControllerSettings("1.29.6")
    snapshot = make_snapshot(["n0", "n1"], [make_pod("p", "n0", grace_seconds=30, uid="first")])
    events = [
        make_event(10, "pod-delete", pods=["default/p"]),
        make_event(20, "pod-create", pod=make_pod("p", "n0", grace_seconds=30, uid="second")),
        make_event(25, "pod-delete", pods=["default/p"]),
        make_event(45, "node-delete", "n0"),
    ]
    configuration = resolve_configuration(settings, snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(events, horizon=150), configuration)
    told = {(row.uid, row.controller, row.certainty) for row in prediction.evictions}
    assert ("second", "pod-gc", "possible") in told
    assert prediction.inputs.coverage.exact == 0


def test_a_name_that_is_used_again_once_has_no_part_in_when_one_is_that_is_used_twice() -> None:
    nodes = [make_node("n0"), make_node("n1"), make_node("n2", taints=["A:NoExecute"])]
    pods = [make_pod(name, "n0") for name in ("once", "twice")]
    events = []
    for at, name, node in ((10, "twice", "n2"), (50, "twice", "n1"), (60, "once", "n2")):
        events.append(make_event(at, "pod-delete", pods=(f"default/{name}",)))
        pod = make_pod(name, node, created=None, uid=f"uid-{at}")
        events.append(make_event(at + 5, "pod-create", pod=pod))
    snapshot = make_snapshot(nodes, pods)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(events, horizon=100), configuration)
    assert {eviction.uid for eviction in prediction.evictions} == {"uid-10", "uid-60"}


def without_a_node(*, finalizers: tuple[str, ...]) -> Prediction:
    """A pod that was never bound is deleted, and one is made under its name at once, on a node with a taint; two zones are busy."""
    nodes = [make_node("n0", zone="b"), make_node("n1", zone="b", taints=["A:NoExecute"])]
    nodes += [make_node("n2", zone="a"), make_node("n3", zone="c")]
    snapshot = make_snapshot(
        nodes,
        [make_pod("p", "", phase="Pending", finalizers=finalizers, grace_seconds=0, uid="first")],
        leases=[make_lease(node.name, -1) for node in nodes],
    )
    events = [
        make_event(3, "kubelet-stop", ("n2",)),
        make_event(10, "pod-delete", pods=("default/p",)),
        make_event(10, "pod-create", pod=make_pod("p", "n1", created=None, uid="second")),
    ]
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    return predict(snapshot, make_scenario(events, horizon=100), configuration)


def test_a_name_is_free_again_as_soon_as_a_pod_that_was_never_bound_is_deleted() -> None:
    (row,) = without_a_node(finalizers=()).evictions
    assert (row.uid, row.certainty, row.earliest_seconds) == ("second", "certain", 10)


def test_but_not_while_a_finalizer_holds_that_pod() -> None:
    assert not without_a_node(finalizers=("example.com/held",)).evictions


def test_a_countdown_may_end_while_a_pod_ends_that_another_one_made_room_for() -> None:
    # The first is gone within 4 s. The second tolerates the taint until 3 s, and people delete it at 2 s.
    leaving = replace(
        make_pod("p", "n0", uid="first"),
        deletion_timestamp_ns=epoch_ns(4),
        deletion_grace_period_seconds=5,
    )
    tolerant = make_pod("p", "n1", tolerations=(tolerates("A", seconds=2),), uid="second")
    snapshot = make_snapshot([make_node("n0"), make_node("n1", taints=["A:NoExecute"])], [leaving])
    events = [
        make_event(1, "pod-create", pod=tolerant),
        make_event(2, "pod-delete", pods=["default/p"]),
    ]
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    rows = predict(snapshot, make_scenario(events, horizon=60), configuration).evictions
    [row] = [row for row in rows if row.uid == "second"]
    assert row.certainty == "possible"
    assert any(w.earliest_seconds <= 3 <= (w.latest_seconds or 60) for w in row.windows)
