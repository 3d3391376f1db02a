"""Nodes that are deleted and created again under their name: one node at a time, heard when it is created."""

from __future__ import annotations

import pytest
from building.builders import (
    EXCLUDE_LABEL,
    STEPS,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Node
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.node_courses import NodeCourses
from kubectl_evictplan.windows.unknowns.last_heartbeats import last_heartbeat_window
from kubectl_evictplan.windows.zone_rates import ZoneRates


def states_in_the_end(created: Node, *down: str) -> tuple[str, str]:
    """The best and the worst state of a zone of four nodes, of which these are not ready and n0 was created again."""
    snapshot = make_snapshot([f"n{number}" for number in range(4)])
    scenario = make_scenario(
        [
            make_event(1, "node-delete", "n0"),
            make_event(8, "node-create", node=created),
            make_event(11, "node-ready", down, status="False"),
        ]
    )
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    given = snapshot, scenario, configuration
    rates = ZoneRates(*given)
    *_, (_, states) = rates.states("")
    return states.best, states.worst


def test_a_node_that_is_created_again_counts_once_in_its_zone() -> None:
    assert states_in_the_end(make_node("n0", created=None), "n0", "n1") == ("Normal", "Normal")


def test_of_a_node_that_is_created_again_but_excluded_it_is_not_known_whether_it_counts() -> None:
    excluded = make_node("n0", labels={EXCLUDE_LABEL: "true"}, created=None)
    found = states_in_the_end(excluded, "n0", "n1", "n2")
    assert found == ("Normal", "PartialDisruption")


@pytest.mark.parametrize(("ready", "last"), [("True", 12), ("False", 12), (None, -2)])
def test_a_node_that_is_created_with_a_status_was_heard_at_that_instant(
    ready: str | None, last: float
) -> None:
    snapshot = make_snapshot(["n0"], renewed=-2)
    scenario = make_scenario(
        [
            make_event(3, "kubelet-stop", "n0"),
            make_event(10, "node-delete", "n0"),
            make_event(12, "node-create", node=make_node("n0", ready=ready, created=None)),
            make_event(13, "kubelet-stop", "n0"),
        ]
    )
    assert last_heartbeat_window(snapshot, scenario, 3, "n0", STEPS) == (ns(last), ns(last))


def test_a_node_that_is_created_again_elsewhere_waits_in_each_line_for_itself() -> None:
    nodes = [make_node(f"{zone}{number}", zone=zone) for zone in "ab" for number in range(4)]
    snapshot = make_snapshot(nodes, renewed=-1)
    events = [
        make_event(2, "kubelet-stop", ["a0", "a1"], last_heartbeat=1),
        make_event(90, "node-delete", "a0"),
        make_event(100, "node-create", node=make_node("a0", zone="b", created=None)),
        make_event(150, "node-ready", "a0", status="False"),
    ]
    configuration = resolve_configuration(ControllerSettings("1.18.6"), ControlPlaneFlags())
    prediction = predict(snapshot, make_scenario(events, horizon=200), configuration)
    changes = next(report.changes for report in prediction.nodes if report.node == "a0")
    added = [each for each in changes if each.what == "taint-added" and "NoExecute" in each.value]
    # One line of two, each of them first or second; then a line of its own.
    spans = [(each.earliest_seconds, each.latest_seconds) for each in added]
    assert len(spans) == 2 and all(each.certainty == "certain" for each in added)
    assert spans[0][0] <= 46.1 and spans[0][1] > 60
    assert spans[1][0] <= 150.1 and spans[1][1] < 156


def test_a_last_heartbeat_before_a_node_is_gone_counts_whenever_its_kubelet_stops() -> None:
    snapshot = make_snapshot(["n0", "n1"], renewed=-2)
    events = [
        make_event(100, "node-delete", "n0"),
        make_event(101, "kubelet-stop", "n0", last_heartbeat=5),
    ]
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    given = snapshot, make_scenario(events), configuration
    exists, _ = NodeCourses(*given, ns(5.02)).of("n0").stretches
    assert exists.unknown is not None
    assert ns(44) < exists.unknown[0] <= ns(45) and ns(50) <= exists.unknown[1] < ns(51)


def test_a_node_that_is_created_again_between_two_ticks_comes_before_or_after_who_waits() -> None:
    """Whatever place it had when it was served: the next tick puts it in line anew, in any order."""
    snapshot = make_snapshot([f"n{number}" for number in range(6)], renewed=-1)
    events = [
        make_event(2, "kubelet-stop", ["n0", "n1"], last_heartbeat=1),
        make_event(52, "node-delete", "n0"),
        make_event(52.5, "node-create", node=make_node("n0", ready="False", created=None)),
        make_event(52.5, "pod-create", pod=make_pod("p", "n0")),
        make_event(90, "node-delete", "n1"),
    ]
    settings = ControllerSettings("1.29.6", monitor_phase_ns=0)
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    prediction = predict(snapshot, make_scenario(events, horizon=100), configuration)
    (found,) = [each for each in prediction.evictions if each.pod == "p"]
    # n0, n1 and the new n0 take the tokens of 50, 60 and 70 s; or n1 and the new n0 those of 50 and 60 s.
    assert found.certainty == "certain"
    assert found.earliest_seconds == 60 and 70 <= found.latest_seconds <= 70.5


def test_a_node_that_is_created_again_renews_as_its_lease_tells_that_is_left() -> None:
    """A kubelet that renews every 1.5 s is never given up after 6 s; nobody takes it for one that renews every 10 s."""
    leases = [make_lease(name, -0.5, duration_seconds=6) for name in ("n0", "n1")]
    snapshot = make_snapshot(["n1"], [make_pod("p", "n0")], leases=leases)
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "6s"}
    configuration = resolve_configuration(
        ControllerSettings("1.29.6", flags=flags), ControlPlaneFlags()
    )
    events = [
        make_event(10, "node-create", node=make_node("n0", heartbeat=10)),
        make_event(15, "node-ready", "n0", status="False"),
    ]
    prediction = predict(snapshot, make_scenario(events, horizon=60), configuration)
    changes = [change.value for row in prediction.nodes for change in row.changes]
    assert "False" in changes and "Unknown" not in changes


@pytest.mark.parametrize(("renewed", "given_up"), [(-2, False), (-60, True)])
def test_a_kubelet_that_outlives_its_node_keeps_one_alive_that_is_created_without_a_status(
    renewed: float, given_up: bool
) -> None:
    leases = [make_lease("n0", renewed), make_lease("n1", -0.5)]
    snapshot = make_snapshot(["n1"], leases=leases)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    created = make_event(10, "node-create", node=make_node("n0", ready=None))
    prediction = predict(snapshot, make_scenario([created], horizon=300), configuration)
    changes = [change.value for row in prediction.nodes for change in row.changes]
    assert ("Unknown" in changes) == given_up


def test_what_a_process_remembers_of_a_name_may_end_the_startup_grace_of_its_next_node() -> None:
    """The Lease was renewed for the node before: its age counts, and not that of the node, which has posted nothing."""
    node = make_node("n0", ready=None, created=-2)
    snapshot = make_snapshot([node, "n1"], leases=[make_lease("n0", -118)])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
    (stretch,) = (
        NodeCourses(snapshot, make_scenario([]), configuration, ns(5.02)).of("n0").stretches
    )
    assert stretch.unknown is not None and stretch.unknown[0] == 0
