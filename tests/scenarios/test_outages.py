"""The control plane is away for a while: when it is back, and who is evicted then."""

from __future__ import annotations

import random
from functools import cache

import pytest
from building.builders import (
    NOT_READY,
    UNREACHABLE,
    default_tolerations,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
    tolerates,
)
from building.scenario_texts import events_of, problem_of
from building.timeline_runs import simulated_facts
from building.warning_runs import message, objects
from drawn.outage_worlds import OutageWorld
from drawn.soak_worlds import draw_soak_world
from msgspec.structs import replace
from naive.model import naive_facts
from realities.drawn_realities import World, with_instants
from realities.test_bounds import check_world
from realities.test_differential import comparable

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags, Node, Pod
from kubectl_evictplan.prediction.document import CERTAIN, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.outages import (
    ControlPlane,
    Lag,
    control_plane_of,
    manager_lag,
    not_predicted,
    outage_events,
    outage_warnings,
)
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Outage, ScenarioEvent
from kubectl_evictplan.windows import exploration
from kubectl_evictplan.windows.budget import Budget

MINUTES_10 = ns(600)
GRACE_NS = ns(40)


def lag(seconds_earliest: float, seconds_latest: float) -> Lag:
    return Lag(ns(seconds_earliest), ns(seconds_latest))


# -- when kube-controller-manager is back ---------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_new_process_waits_out_the_lease_of_the_old_one(replicas: int) -> None:
    # 15 s from its first look, found over at one of the next looks, 5 s to fill its caches.
    found = manager_lag(Outage.CONTROLLER_MANAGER, MINUTES_10, ControlPlane(replicas))
    assert found == lag(15, 15 + 4.4 + 5)


def test_a_process_without_leader_election_works_as_soon_as_it_is_there() -> None:
    control_plane = ControlPlane(1, leader_elect=False)
    assert manager_lag(Outage.CONTROLLER_MANAGER, MINUTES_10, control_plane) == lag(0, 5)


def test_a_process_that_starts_without_its_api_server_waits_for_it() -> None:
    # A look of 5 s hangs, the next one comes 4.4 s later; then the lease.
    control_plane = ControlPlane(1, starts_alone=True)
    found = manager_lag(Outage.API_SERVER, MINUTES_10, control_plane)
    assert found == lag(15, 4.4 + 5 + 15 + 4.4 + 5)


@pytest.mark.parametrize(
    ("outage_seconds", "back_off_seconds"),
    [(14, 20), (25, 20), (45, 40), (100, 80), (3600, 300)],
)
def test_a_process_that_exits_without_its_api_server_is_started_at_growing_intervals(
    outage_seconds: int, back_off_seconds: int
) -> None:
    # Its connection was asked for in vain just before; then the back-off, the pod's next sync, and the lease.
    found = manager_lag(Outage.API_SERVER, ns(outage_seconds), ControlPlane(1))
    assert found == lag(15, 15 + back_off_seconds + 17 + 15 + 4.4 + 5)


def test_another_replica_takes_over_at_its_next_look_after_the_api_server_is_back() -> None:
    assert manager_lag(Outage.API_SERVER, MINUTES_10, ControlPlane(3)) == lag(0, 4.4 + 5 + 5)


def test_another_replica_waits_for_what_is_left_of_the_lease() -> None:
    assert manager_lag(Outage.API_SERVER, ns(16), ControlPlane(3)) == lag(0, 3.4 + 4.4 + 5 + 5)


def test_what_cannot_be_seen_may_be_there_at_once() -> None:
    hidden, seen = (manager_lag(Outage.CONTROL_PLANE, MINUTES_10, ControlPlane(n)) for n in (0, 1))
    assert hidden == Lag(0, seen.latest_ns)
    assert seen.earliest_ns == ns(15)


@pytest.mark.parametrize("outage", [Outage.CONTROLLER_MANAGER, Outage.API_SERVER])
def test_nobody_waits_for_a_lease_that_is_released_on_exit(outage: Outage) -> None:
    kept, released = (
        manager_lag(outage, MINUTES_10, ControlPlane(1, releases_lease=each))
        for each in (False, True)
    )
    assert kept.earliest_ns == ns(15)
    assert released == Lag(0, kept.latest_ns)


@pytest.mark.parametrize(("text", "releases"), [("true", True), ("false", False), ("T", True)])
def test_that_a_lease_is_released_on_exit_is_read_from_the_gates(text: str, releases: bool) -> None:
    gates = f"A=false, ControllerManagerReleaseLeaderElectionLockOnExit={text}"
    snapshot = make_snapshot(["a1"], [controller_manager("cp-1")])
    known = replace(snapshot.control_plane, controller_manager={"feature-gates": gates})
    found = control_plane_of(replace(snapshot, control_plane=known))
    assert found.releases_lease is releases


def test_a_gate_may_be_on_with_all_of_its_stage() -> None:
    snapshot = make_snapshot(["a1"], [controller_manager("cp-1")])
    for gates, releases in (
        ("AllAlpha=true", True),
        ("AllAlpha=true,ControllerManagerReleaseLeaderElectionLockOnExit=false", False),
        ("AllAlpha=false", False),
    ):
        known = replace(snapshot.control_plane, controller_manager={"feature-gates": gates})
        found = control_plane_of(replace(snapshot, control_plane=known))
        assert found.releases_lease is releases


def test_flags_of_leader_election_are_read_from_the_static_pod() -> None:
    flags = {"leader-elect-lease-duration": "137s", "leader-elect-retry-period": "26s"}
    snapshot = make_snapshot(["a1"], [controller_manager("cp-1")])
    known = replace(snapshot.control_plane, controller_manager=flags)
    found = control_plane_of(replace(snapshot, control_plane=known))
    assert found == ControlPlane(1, lease_duration_ns=ns(137), retry_period_ns=ns(26))
    unread = replace(known, controller_manager={"leader-elect-retry-period": "soon"})
    assert control_plane_of(replace(snapshot, control_plane=unread)) == ControlPlane(1)


def test_a_process_that_outlives_its_api_server_is_not_predicted() -> None:
    assert "14s" in not_predicted(Outage.API_SERVER, ns(13), ControlPlane(1))
    assert not not_predicted(Outage.API_SERVER, ns(14), ControlPlane(1))
    assert not not_predicted(Outage.API_SERVER, None, ControlPlane(1))
    alone = ControlPlane(1, leader_elect=False)
    assert "--leader-elect=false" in not_predicted(Outage.API_SERVER, MINUTES_10, alone)
    for outage in (Outage.CONTROL_PLANE, Outage.CONTROLLER_MANAGER):
        assert not not_predicted(outage, 0, alone)


# -- which events that is -------------------------------------------------------------------------


def controller_manager(node: str) -> Pod:
    pod = make_pod(f"kube-controller-manager-{node}", node, namespace="kube-system")
    return replace(pod, labels={"component": "kube-controller-manager"})


def told(events: list[ScenarioEvent]) -> list[tuple[str, float, float]]:
    return [(event.action, event.at_ns / 1e9, event.latest_ns / 1e9) for event in events]


def test_kubelets_that_are_heard_again_in_time_are_left_alone() -> None:
    events = outage_events(Outage.CONTROL_PLANE, MINUTES_10, small(), GRACE_NS, "test")
    assert told(events) == [("controller-stop", 0, 0), ("controller-start", 615, 956.4)]


def test_kubelets_are_silent_where_the_grace_period_is_short() -> None:
    events = outage_events(Outage.API_SERVER, MINUTES_10, small(), ns(20), "test")
    assert told(events) == [
        ("controller-stop", 0, 0),
        ("kubelet-stop", 0, 0),
        ("kubelet-start", 600, 621),
        ("controller-start", 615, 956.4),
    ]
    # Not those that were silent before.
    assert events[1].nodes == events[2].nodes == ("a1", "a2", "m")
    alone = outage_events(Outage.CONTROLLER_MANAGER, MINUTES_10, small(), ns(20), "test")
    assert [event.action for event in alone] == ["controller-stop", "controller-start"]


def with_a_node_that_posts_not_ready() -> ClusterSnapshot:
    """Beside the others of ``small``."""
    snapshot = small()
    taint = make_taint(f"{NOT_READY}:NoExecute", added=-100)
    sick = make_node("b1", ready="False", taints=[taint])
    pod = make_pod("web-b", "b1", tolerations=[tolerates(NOT_READY)])
    return replace(snapshot, nodes=(*snapshot.nodes, sick), pods=(*snapshot.pods, pod))


def test_who_says_that_it_is_not_ready_says_so_again_when_it_is_heard() -> None:
    snapshot = with_a_node_that_posts_not_ready()
    events = outage_events(Outage.API_SERVER, MINUTES_10, snapshot, ns(20), "test")
    silent, back, not_ready = (event for event in events if event.kubelets_up is not None)
    assert "b1" in silent.nodes
    assert back.nodes == ("a1", "a2", "m") and not_ready.nodes == ("b1",)
    assert back.detail == "within 21s" and not_ready.detail == "within 21s posting Ready=False"


def test_a_node_that_is_not_ready_and_not_heard_in_time_may_become_unknown() -> None:
    snapshot = with_a_node_that_posts_not_ready()
    flags = {"node-monitor-grace-period": "15s"}
    configuration = resolve_configuration(
        ControllerSettings("1.31.0", flags=flags), snapshot.control_plane
    )
    events = outage_events(Outage.API_SERVER, MINUTES_10, snapshot, ns(15), "test")
    prediction = check_world(
        World(snapshot, make_scenario(events, horizon=1200), configuration), 1, 8
    )
    # It tolerates that its node is not ready, and not that it is unreachable.
    assert "web-b" in {eviction.pod for eviction in prediction.evictions}


def test_an_outage_without_an_end_only_begins() -> None:
    events = outage_events(Outage.CONTROL_PLANE, None, small(), GRACE_NS, "test")
    assert [event.action for event in events] == ["controller-stop"]


def dead(name: str) -> Node:
    taint = make_taint(f"{UNREACHABLE}:NoExecute", added=-100)
    return make_node(name, ready="Unknown", taints=[taint])


def small() -> ClusterSnapshot:
    """Two nodes that are ready, one with a taint of an operator's, two that are dead."""
    nodes = [
        make_node("a1"),
        make_node("a2"),
        make_node("m", taints=[make_taint("maint:NoExecute", added=-50)]),
        dead("x1"),
        dead("x2"),
    ]
    pods = [
        make_pod("web-a", "a1", tolerations=default_tolerations()),
        make_pod("batch", "m", tolerations=[tolerates("maint", 100)]),
        make_pod("web-x1", "x1", tolerations=default_tolerations()),
        make_pod("web-x2", "x2", tolerations=default_tolerations()),
        controller_manager("a1"),
    ]
    return make_snapshot(nodes, pods, leases=[make_lease("x1", -300), make_lease("x2", -300)])


# -- who is evicted -------------------------------------------------------------------------------


@cache
def after(
    outage: Outage, *, release: str = "1.31.0", **flags: str
) -> tuple[Prediction, dict[str, tuple[float, float]]]:
    """The prediction for ten minutes on the small cluster, and its windows by pod."""
    snapshot = small()
    settings = ControllerSettings(release, flags={n.replace("_", "-"): v for n, v in flags.items()})
    configuration = resolve_configuration(settings, snapshot.control_plane)
    grace_ns = configuration.node_monitor_grace_period_ns
    events = outage_events(outage, MINUTES_10, snapshot, grace_ns, "test")
    prediction = predict(snapshot, make_scenario(events, horizon=None), configuration)
    assert all(eviction.certainty == CERTAIN for eviction in prediction.evictions)
    return prediction, {e.pod: (e.earliest_seconds, e.latest_seconds) for e in prediction.evictions}


def test_countdowns_begin_again_when_the_controller_is_back() -> None:
    # Back within +615 .. +624.4: 100 s for the taint of the operator; the dead nodes lose their taints, get
    # them back 10 s apart, and their pods have 300 s from there.
    _, windows = after(Outage.CONTROLLER_MANAGER)
    assert windows["batch"] == (715.0, 724.4)
    for pod in ("web-x1", "web-x2"):
        earliest, latest = windows[pod]
        assert earliest == 915.0
        assert 924.4 + 10 <= latest < 924.4 + 11
    assert "web-a" not in windows


def test_a_wide_window_of_the_return_is_one_window_of_the_evictions() -> None:
    prediction, windows = after(Outage.API_SERVER)
    assert windows["batch"] == (715.0, 956.4 + 100)
    assert all(len(eviction.windows) == 1 for eviction in prediction.evictions)


@pytest.mark.parametrize("outage", Outage)
@pytest.mark.parametrize("release", ["1.23.13", "1.31.0", "1.37.0"])
def test_pods_of_nodes_that_were_ready_stay(outage: Outage, release: str) -> None:
    _, windows = after(outage, release=release)
    assert "web-a" not in windows


def test_kubelets_that_are_later_than_a_short_grace_period_may_cost_their_pods() -> None:
    # Kubelets are back by +621, a process without lease grants 15 s from +600 at the earliest.
    snapshot = make_snapshot(
        ["a1", "a2", "a3", "a4"], [make_pod(f"p{n}", f"a{n}") for n in range(1, 5)]
    )
    flags = {"node-monitor-grace-period": "15s"}
    configuration = resolve_configuration(
        ControllerSettings("1.31.0", flags=flags), snapshot.control_plane
    )
    events = outage_events(Outage.API_SERVER, MINUTES_10, snapshot, ns(15), "test")
    scenario = make_scenario(events, horizon=1200)
    prediction = check_world(World(snapshot, scenario, configuration), 1, 40)
    assert {eviction.certainty for eviction in prediction.evictions} == {"possible"}
    assert {eviction.pod for eviction in prediction.evictions} == {"p1", "p2", "p3", "p4"}


# Windows hold with any budget: a larger one only makes them narrower.
@pytest.mark.parametrize("outage", Outage)
@pytest.mark.parametrize(
    ("release", "share"),
    [
        ("1.31.0", 8),
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ("1.20.5", "1.31.0", "1.37.0")),
    ],
)
def test_every_return_within_the_window_evicts_within_the_windows(
    outage: Outage, release: str, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploration, "Budget", lambda units: Budget(units // share))
    snapshot = small()
    configuration = resolve_configuration(ControllerSettings(release), snapshot.control_plane)
    events = outage_events(outage, MINUTES_10, snapshot, ns(20), "test")
    # Something else happens while the controller may be back or not.
    events = [*events, make_event(700, "taint", "a2", taint="late:NoExecute")]
    scenario = make_scenario(events, horizon=1400)
    check_world(World(snapshot, scenario, configuration), 7, 12)


def test_both_models_agree_on_every_return() -> None:
    snapshot, settings = small(), ControllerSettings("1.31.0")
    events = outage_events(Outage.API_SERVER, MINUTES_10, snapshot, ns(20), "test")
    scenario = make_scenario(events, horizon=1400)
    for seed in range(10):
        settled = with_instants(scenario, random.Random(seed))
        parts = (snapshot, settled, settings, Timing(monitor_phase_ns=ns(seed / 3)))
        assert comparable(simulated_facts(*parts)) == comparable(naive_facts(*parts))


# -- in scenario files, and what is said ----------------------------------------------------------


def test_a_start_can_lie_anywhere_within() -> None:
    (_, event) = events_of(
        "{at: 0s, action: controller-stop}", "{at: 10m, action: controller-start, within: 15s}"
    )
    assert (event.at_ns, event.latest_ns) == (MINUTES_10, ns(615))
    assert event.detail == "within 15s"


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        (
            (
                "{at: 0s, action: controller-stop}",
                "{at: 10s, action: controller-start, within: 5s}",
                "{at: 14s, action: controller-stop}",
            ),
            "the controller need not have started before it",
        ),
        (
            (
                "{at: 0s, action: kubelet-stop, nodes: [a1]}",
                "{at: 10s, action: kubelet-start, nodes: [a1], within: 5s}",
                "{at: 14s, action: kubelet-stop, nodes: [a1]}",
            ),
            "the kubelet of a1 need not be back before it",
        ),
        (
            (
                "{at: 0s, action: kubelet-stop, nodes: [a1]}",
                "{at: 10s, action: kubelet-start, nodes: [a1], within: 5s}",
                "{at: 14s, action: node-ready, nodes: [a1], status: 'False'}",
            ),
            "the kubelet of a1 need not be back before it",
        ),
    ],
)
def test_what_may_not_have_started_can_neither_be_stopped_nor_post(
    events: tuple[str, ...], wrong: str
) -> None:
    assert wrong in problem_of(*events)


def test_it_is_said_that_endpoints_are_frozen_meanwhile() -> None:
    prediction, _ = after(Outage.CONTROLLER_MANAGER)
    assert "(0s to 10m15s..10m24.4s)" in message(prediction.warnings, "endpoints-frozen")
    other = predict(
        small(),
        make_scenario(),
        resolve_configuration(ControllerSettings("1.31.0"), small().control_plane),
    )
    assert objects(other.warnings, "endpoints-frozen") is None


@pytest.mark.parametrize(
    ("replicas", "words"),
    [(0, "is not known"), (1, "nobody takes over"), (3, "as after --for 0s")],
)
def test_it_is_said_how_many_controller_managers_the_input_shows(replicas: int, words: str) -> None:
    pods = [controller_manager(f"cp-{number}") for number in range(replicas)]
    snapshot = make_snapshot(["a1"], pods)
    found = outage_warnings(Outage.CONTROLLER_MANAGER, MINUTES_10, snapshot, GRACE_NS)
    assert words in message(tuple(found), "outage-replicas")


def test_who_stays_whatever_taint_its_node_may_get_is_not_said_to_be_on_an_untainted_node() -> None:
    pods = [make_pod("web", "a1", tolerations=default_tolerations(300))]
    back = replace(make_event(30, "kubelet-start", "a1"), within_ns=ns(60))
    scenario = make_scenario([make_event(0, "kubelet-stop", "a1"), back])
    configuration = resolve_configuration(ControllerSettings("1.37.0"), ControlPlaneFlags())
    prediction = predict(make_snapshot(["a1", "a2"], pods), scenario, configuration)
    assert prediction.evictions == ()
    assert [one.code for one in prediction.kept] == ["perhaps-tainted"]


def test_who_fails_with_the_control_plane_is_heard_late_also_where_not_everything_was_tried() -> (
    None
):
    world = draw_soak_world(10501000009).world
    assert isinstance(world, OutageWorld)
    plain = world.world
    prediction = predict(plain.snapshot, plain.scenario, plain.configuration)
    assert prediction.inputs.coverage.outer_bound
    [back] = (
        change
        for node in prediction.nodes
        for change in node.changes
        if node.node == "n2" and (change.what, change.value) == ("ready", "True")
    )
    # The machine is back at +14s, its kubelet is heard up to 21 s after that.
    assert back.latest_seconds >= 14 + 21


@pytest.mark.parametrize("outage", [Outage.CONTROL_PLANE, Outage.API_SERVER])
def test_nobody_confirms_an_end_before_the_api_server_is_back(outage: Outage) -> None:
    # It is deleted as the outage begins; its kubelet, of which no event tells, hears of that, or is heard, up to 21 s after it.
    snapshot = make_snapshot(
        [make_node("a1", taints=[make_taint("maint:NoExecute")])],
        [make_pod("p", "a1", grace_seconds=30)],
    )
    configuration = resolve_configuration(ControllerSettings("1.31.0"), snapshot.control_plane)
    for duration, gone in ((60, (60, 60 + 21 + 30)), (None, (None, None))):
        duration_ns = None if duration is None else ns(duration)
        events = outage_events(outage, duration_ns, snapshot, GRACE_NS, "test")
        assert all(not event.nodes for event in events)
        scenario = make_scenario(events, horizon=200)
        [eviction] = predict(snapshot, scenario, configuration).evictions
        told = eviction.gone
        assert (eviction.latest_seconds, told.earliest_seconds, told.latest_seconds) == (0, *gone)


def test_an_end_is_confirmed_in_time_where_only_kube_controller_manager_is_away() -> None:
    snapshot = make_snapshot(
        [make_node("a1", taints=[make_taint("maint:NoExecute")])],
        [make_pod("p", "a1", grace_seconds=30)],
    )
    configuration = resolve_configuration(ControllerSettings("1.31.0"), snapshot.control_plane)
    events = outage_events(Outage.CONTROLLER_MANAGER, ns(60), snapshot, GRACE_NS, "test")
    [eviction] = predict(snapshot, make_scenario(events, horizon=200), configuration).evictions
    assert (eviction.gone.earliest_seconds, eviction.gone.latest_seconds) == (0, 30)
