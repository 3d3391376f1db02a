"""Timers that run out just before something would have stopped them."""

from __future__ import annotations

from building.builders import (
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

from kubectl_evictplan.cluster.timeline import (
    MasterDisruptionEntered,
    PodDeleted,
    TimerCancelled,
)
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate

NODES = ("n0", "n1", "n2", "n3", "n4")
SNAPSHOT = make_snapshot(
    [make_node(name) for name in NODES],
    [make_pod("p", "n0", tolerations=default_tolerations(30))],
)
# The last nodes fall silent, and all taints go, about when the timer of the first ones runs out.
SCENARIO = make_scenario(
    [
        make_event(42.124, "kubelet-stop", ["n0", "n3"], last_heartbeat=42.124),
        make_event(83.452, "kubelet-stop", ["n1", "n2", "n4"], last_heartbeat=82.552),
    ],
    horizon=300,
)
CONFIGURATION = resolve_configuration(
    ControllerSettings(kubernetes_version="1.18.6"), SNAPSHOT.control_plane
)


def test_a_pod_that_just_goes_before_the_master_disruption_is_in_its_window() -> None:
    timeline = simulate(SNAPSHOT, SCENARIO, CONFIGURATION, Timing(monitor_phase_ns=664_025_241))
    (disruption_ns,) = (e.at_ns for e in timeline.entries if isinstance(e, MasterDisruptionEntered))
    deletions = [e.at_ns for e in timeline.entries if isinstance(e, PodDeleted)]

    (eviction,) = predict(SNAPSHOT, SCENARIO, CONFIGURATION).evictions

    assert eviction.certainty == "possible"
    assert eviction.latest_seconds is not None
    assert deletions
    for at_ns in deletions:
        assert at_ns < disruption_ns
        assert eviction.earliest_seconds <= at_ns / 1e9 <= eviction.latest_seconds


def test_a_timer_that_has_deleted_its_pod_is_not_cancelled_by_the_end_of_it() -> None:
    pods = [make_pod("p", "n0", tolerations=default_tolerations(30), phase="Succeeded")]
    going = make_pod("q", "n0", tolerations=default_tolerations(30), deleted=-1)
    snapshot = make_snapshot(NODES, [*pods, going])
    scenario = make_scenario([make_event(1, "kubelet-stop", "n0")], horizon=300)
    prediction = predict(snapshot, scenario, CONFIGURATION)
    assert "p" in [row.pod for row in prediction.evictions]
    assert not prediction.cancelled


def test_a_countdown_that_ends_with_its_pod_is_not_told() -> None:
    """Its kubelet ends it at any time within its grace period: between the two ends of that it may take the countdown along, or not."""
    going = make_pod("q", "n0", tolerations=[tolerates("maint", 60)], deleted=40)
    hand = make_event(44, "taint", "n0", taint="maint:NoExecute")
    snapshot, scenario = make_snapshot(NODES, [going]), make_scenario([hand], horizon=300)
    played = simulate(snapshot, scenario, CONFIGURATION, Timing(pod_exit_fraction=0.7))
    assert any(isinstance(entry, TimerCancelled) for entry in played.entries)
    assert not predict(snapshot, scenario, CONFIGURATION).cancelled


def test_a_tick_may_just_cut_a_countdown_short_that_ends_at_a_known_instant() -> None:
    # n0 is Ready with its taint still on; its kubelet is silent, so it is tainted once more soon after.
    taint = make_taint(f"{UNREACHABLE}:NoExecute", added=0)
    node = make_node("n0", zone="a", heartbeat=-0.3, transition=0, taints=[taint])
    snapshot = make_snapshot(
        [node, make_node("n1", zone="b")],
        [make_pod("p", "n0", tolerations=default_tolerations(1))],
        leases=[
            make_lease("n0", -8.999, duration_seconds=4),
            make_lease("n1", -1, duration_seconds=4),
        ],
    )
    flags = {"node-monitor-period": "2s", "node-monitor-grace-period": "9s"}
    flags["node-eviction-rate"] = "2"
    settings = ControllerSettings(kubernetes_version="1.32.9", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario([], horizon=60)
    (eviction,) = predict(snapshot, scenario, configuration).evictions
    spans = [(each.earliest_seconds, each.latest_seconds) for each in eviction.windows]
    late = 0
    for phase in (0.0, 0.5, 0.9, 0.99, 0.999, 1.0, 1.5, 1.99):
        timeline = simulate(snapshot, scenario, configuration, Timing(monitor_phase_ns=ns(phase)))
        deleted = next(e.at_ns for e in timeline.entries if isinstance(e, PodDeleted)) / 1e9
        assert any(low <= deleted <= high for low, high in spans), (phase, deleted, spans)
        late += deleted > 5.9
    assert late


def test_what_happens_at_one_end_of_a_piece_only_may_come_as_late_as_instants_in_it_do() -> None:
    # All zones are down, and all taints go, about 12 s after n0 got its own: the later ticks are, the more they cost, and a
    # timer that is cut short where all of them are early ends in time where all of them are late. n0 is tainted once more when n1 is back.
    snapshot = make_snapshot(
        [make_node("n0", zone="a"), make_node("n1", zone="b")],
        [make_pod("p", "n0", tolerations=default_tolerations(12))],
        leases=[make_lease(name, -1, duration_seconds=4) for name in ("n0", "n1")],
    )
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "6s"}
    settings = ControllerSettings(kubernetes_version="1.32.9", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario(
        [
            make_event(3.5, "kubelet-stop", ["n0"], last_heartbeat=3.347),
            make_event(16.9, "kubelet-stop", ["n1"], last_heartbeat=16.847),
            make_event(25.6, "kubelet-start", ["n1"]),
        ],
        horizon=60,
    )
    (eviction,) = predict(snapshot, scenario, configuration).evictions
    spans = [(each.earliest_seconds, each.latest_seconds) for each in eviction.windows]
    for phase in (0.0, 0.1, 0.2, 0.3, 0.34, 0.9, 0.95, 0.99):
        timing = Timing(monitor_phase_ns=ns(phase), pass_phase_ns=ns(0.09))
        timeline = simulate(snapshot, scenario, configuration, timing)
        deleted = next(e.at_ns for e in timeline.entries if isinstance(e, PodDeleted)) / 1e9
        assert 47 < deleted < 49
        assert any(low <= deleted <= high for low, high in spans), (phase, deleted, spans)
    # And no window reaches from one fate to the other.
    assert not any(low < 40 < high for low, high in spans)


def told_of_a_silent_node(
    added: float | None, seconds: int | None, *events: ScenarioEvent
) -> list[tuple[float, float]]:
    """Windows of a pod that tolerates the taint B for so many seconds (None: for ever), and nothing else; its node falls silent, and is tainted some time after 10.6.

    ``added``: since when the node has that taint; None: it has it not at the start.
    """
    taints = [] if added is None else [make_taint("B:NoExecute", added=added)]
    snapshot = make_snapshot(
        [make_node("n0", taints=taints), make_node("n1")],
        [make_pod("p", "n0", tolerations=[tolerates("B", seconds)])],
        leases=[make_lease(name, -0.5, duration_seconds=4) for name in ("n0", "n1")],
    )
    flags = {"node-monitor-period": "2s", "node-monitor-grace-period": "9s"}
    settings = ControllerSettings(kubernetes_version="1.35.0", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    silent = make_event(0.7, "kubelet-stop", ["n0"], last_heartbeat=0.6)
    scenario = make_scenario([silent, *events], horizon=60)
    (eviction,) = predict(snapshot, scenario, configuration).evictions
    return [(each.earliest_seconds, each.latest_seconds) for each in eviction.windows]


def test_a_pass_may_cut_a_countdown_short_until_just_before_it_ends() -> None:
    put = make_event(8.3, "taint", ["n0"], taint="B:NoExecute")
    assert told_of_a_silent_node(None, 4, put) == [(10.6, 12.3)]


def test_also_one_that_a_new_process_has_begun() -> None:
    restart = make_event(2, "controller-stop"), make_event(3, "controller-start")
    *_, last = told_of_a_silent_node(-20, 13, *restart)
    assert last[1] == 16
    assert last[0] < 12.1


def test_also_one_that_other_tolerations_have_begun() -> None:
    tolerations = [tolerates("B", 4)]
    event = make_event(8.3, "pod-tolerations", pods=("default/p",), tolerations=tolerations)
    assert told_of_a_silent_node(-20, None, event)[-1] == (10.6, 12.3)
