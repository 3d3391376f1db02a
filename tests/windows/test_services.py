"""The instants at which a node is taken to be tainted: all that matter where they are few enough."""

from __future__ import annotations

from building.builders import (
    NOT_READY,
    UNREACHABLE,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
    tolerates,
)

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.line_windows import WaitWindow
from kubectl_evictplan.windows.node_records import NodeRecord
from kubectl_evictplan.windows.unknowns.services import HISTORIES_MAX, History, Services


def histories(changes: int, *, beside_others: bool = False) -> list[History]:
    """Of a node with one wait, inside which the fate of a pod changes so many times."""
    changes_ns = range(110, 110 + 10 * changes, 10)
    end_ns = 200 + 10 * changes
    record = NodeRecord(decisions=[(5, "False")])
    wait = WaitWindow(((100, end_ns),), certain=True, eligible_ns=5, useless_ns=end_ns)
    services = Services(
        [wait], record, [], latest=False, changes_ns=changes_ns, beside_others=beside_others
    )
    return services.histories()


def test_every_instant_is_tried_as_long_as_all_fit_into_the_budget() -> None:
    changes = (HISTORIES_MAX - 1) // 2
    found = histories(changes)
    assert len(found) == 1 + 2 * changes
    assert not any(history.missed for history in found)


def test_more_instants_than_that_are_named_as_missed() -> None:
    found = histories(HISTORIES_MAX)
    assert len(found) < HISTORIES_MAX
    assert all(history.missed == {Services.name} for history in found)


def test_beside_other_nodes_both_ends_of_a_span_are_tried() -> None:
    assert {each.served_ns for each in histories(0, beside_others=True)} == {(100,), (200,)}
    assert {each.served_ns for each in histories(0)} == {(100,)}


def test_a_tick_may_change_the_taint_just_before_or_just_after_any_service() -> None:
    # n0 takes a token two ticks before n1 posts Ready=False; the next one comes 8 s later, as does the tick that gives n1 up:
    # that tick is later where all ticks are late, for what they cost, and earlier where none costs anything.
    nodes = [make_node(f"n{number}", zone="a") for number in range(4)]
    tolerations = tolerates(NOT_READY, 0), tolerates(UNREACHABLE, 25)
    leases = [make_lease(node.name, -0.3, duration_seconds=4) for node in nodes]
    snapshot = make_snapshot(nodes, [make_pod("p", "n1", tolerations=tolerations)], leases=leases)
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "6s"}
    flags["node-eviction-rate"] = "0.125"
    settings = ControllerSettings(kubernetes_version="1.32.9", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario(
        [
            make_event(3.4, "kubelet-stop", ["n0"], last_heartbeat=3.3),
            make_event(11.5, "node-ready", ["n1"], status="False"),
            make_event(11.6, "kubelet-stop", ["n1"], last_heartbeat=11.5),
        ],
        horizon=60,
    )
    (eviction,) = predict(snapshot, scenario, configuration).evictions
    spans = [(each.earliest_seconds, each.latest_seconds) for each in eviction.windows]
    deleted = set()
    for phase in (0.31, 0.35, 0.4, 0.45, 0.49):
        for cost_s in (0, 0.01):
            # Ticks cost something from the one on that finds n0 silent.
            courses = (((ns(phase - 70), ns(1)), (ns(10 + phase), ns(1 + cost_s))),)
            timing = Timing(ns(phase), monitor_courses=courses, pass_phase_ns=ns(0.05))
            timeline = simulate(snapshot, scenario, configuration, timing)
            at_s = next(e.at_ns for e in timeline.entries if isinstance(e, PodDeleted)) / 1e9
            assert any(low <= at_s <= high for low, high in spans), (timing, at_s, spans)
            deleted.add(at_s > 40)
    assert deleted == {False, True}
    # And no window reaches from one toleration to the other.
    assert not any(low < 30 < high for low, high in spans)
