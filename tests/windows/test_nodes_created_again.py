"""Nodes that are deleted and created again under their name: one node at a time, heard when it is created."""

from __future__ import annotations

import pytest

from builders import EXCLUDE_LABEL, make_event, make_node, make_scenario, make_snapshot, ns
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Node
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.latest_services import LatestServices
from kubectl_evictplan.windows.node_courses import NodeCourses
from kubectl_evictplan.windows.unknowns.last_heartbeats import last_heartbeat_window


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
    services = LatestServices(*given, NodeCourses(*given, ns(5.02)))
    *_, (_, states) = services.states("")
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
    assert last_heartbeat_window(snapshot, scenario, 3, "n0") == (ns(last), ns(last))
