"""A pass between the node steps of a tick and its zone logic."""

from __future__ import annotations

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
    tolerates,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import refill_ns
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.unknowns.tick_meetings import critical_instants


def predicted(*events: ScenarioEvent) -> Prediction:
    """Two zones of one node each, with a pod on n1; nothing but their first token is ever there."""
    nodes = [make_node("n1", zone="a"), make_node("n2", zone="b")]
    settings = ControllerSettings(
        kubernetes_version="1.25.16", monitor_phase_ns=0, flags={"node-eviction-rate": "0"}
    )
    return predict(
        make_snapshot(nodes, [make_pod("p", "n1")]),
        make_scenario(events, horizon=200),
        resolve_configuration(settings, ControlPlaneFlags()),
    )


def test_a_node_can_be_tainted_by_the_tick_that_finds_all_zones_down() -> None:
    # Seen by the ticks at 5 and 10: Unknown at 50 and 55, and at 55 the first of them gets in line.
    prediction = predicted(
        make_event(8, "kubelet-stop", ("n1",), last_heartbeat=4),
        make_event(9, "kubelet-stop", ("n2",), last_heartbeat=8),
    )
    windows = [window for eviction in prediction.evictions for window in eviction.windows]
    assert any(window.earliest_seconds <= 50 <= window.latest_seconds for window in windows)


def test_a_token_may_come_just_when_a_tick_that_finds_all_zones_down_takes_who_waits_out_of_line() -> (
    None
):
    """The last instant of such a piece as well: nobody knows when the zone used its last token."""
    waiting = make_node("n1", ready="Unknown", transition=-300)
    pod = make_pod("p", "n1", tolerations=[tolerates(UNREACHABLE, 7)])
    leases = [make_lease("n1", -340), make_lease("n2", -36)]
    prediction = predict(
        make_snapshot([waiting, "n2"], [pod], leases=leases),
        make_scenario([make_event(1, "cordon", ["n1"])], horizon=60),
        resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags()),
    )
    # n2 was heard last by the tick at -31 at the latest: given up 40 s later, and what nine ticks cost.
    # It is in line already: a pass before the first tick may taint it as well.
    [window] = prediction.evictions[0].windows
    assert (window.earliest_seconds, window.latest_seconds) == (7, pytest.approx(9 + 7, abs=0.1))


def test_a_zone_whose_nodes_are_deleted_may_be_forgotten_before_the_others_fail() -> None:
    prediction = predicted(
        make_event(5, "node-delete", ("n2",)),
        make_event(9, "kubelet-stop", ("n1",), last_heartbeat=4),
    )
    states = {
        (report.zone, state.state): state.certainty
        for report in prediction.zones
        for state in report.states
    }
    assert states["/a", "FullDisruption"] == "certain"
    assert states.get(("/b", "FullDisruption")) != "certain"


def test_a_taint_of_such_a_pass_outlives_the_tick_that_takes_the_node_out_of_line() -> None:
    # n1 and n3 get in line at 55; the next token is there at 65, when n2 is given up too. The tick took its
    # copies before that pass: it takes no taint off, and a second later the pod goes.
    nodes = [make_node("n1", zone="a"), make_node("n2", zone="b"), make_node("n3", zone="a")]
    settings = ControllerSettings(kubernetes_version="1.35.0", monitor_phase_ns=0)
    stops = [
        make_event(8, "kubelet-stop", ("n1", "n3"), last_heartbeat=4),
        make_event(14.5, "kubelet-stop", ("n2",), last_heartbeat=14),
    ]
    prediction = predict(
        make_snapshot(nodes, [make_pod("p", "n1", tolerations=default_tolerations(1))]),
        make_scenario(stops, horizon=68),
        resolve_configuration(settings, ControlPlaneFlags()),
    )
    windows = [window for eviction in prediction.evictions for window in eviction.windows]
    assert any(window.earliest_seconds <= 66.1 <= window.latest_seconds for window in windows)


@pytest.mark.parametrize(("ready", "matters"), [("Unknown", True), ("True", False)])
def test_whether_a_tick_comes_before_the_next_token_matters_where_one_may_just_be_spent(
    ready: str, matters: bool
) -> None:
    # A tick that changes the zone's rate finds the new token or not.
    flags = {"node-eviction-rate": "0.8"}
    instants = critical_instants(
        make_snapshot([make_node("n0", ready=ready), make_node("n1")]),
        make_scenario([], horizon=60),
        resolve_configuration(
            ControllerSettings(kubernetes_version="1.29.6", flags=flags), ControlPlaneFlags()
        ),
    )
    assert (refill_ns(0.8) in instants) == matters


def test_what_such_a_tick_meets_decides_which_pods_its_taint_finds() -> None:
    # Up to the instant at which a person deletes the pod any tick may be the one that taints its node.
    settings = ControllerSettings(kubernetes_version="1.35.0")
    prediction = predict(
        make_snapshot([make_node("n1", zone="a")], [make_pod("p", "n1", grace_seconds=0)]),
        make_scenario(
            [
                make_event(8, "kubelet-stop", ("n1",), last_heartbeat=4),
                make_event(57, "pod-delete", pods=("default/p",)),
            ],
            horizon=200,
        ),
        resolve_configuration(settings, ControlPlaneFlags()),
    )
    (eviction,) = prediction.evictions
    (window,) = eviction.windows
    assert (window.earliest_seconds, window.latest_seconds) == (54, pytest.approx(57, abs=0.001))


def test_a_taint_that_a_tick_takes_off_and_a_pass_inside_it_puts_on_may_seem_to_stay() -> None:
    """The first tick that sees a node finds it reachable before it looks at its condition."""
    new = make_node("new", zone="a", ready="False", taints=[f"{NOT_READY}:NoExecute"])
    events = [
        make_event(3, "node-create", "new", node=new),
        make_event(
            3, "pod-create", pod=make_pod("p", "new", tolerations=[tolerates(NOT_READY, 9)])
        ),
    ]
    settings = ControllerSettings(kubernetes_version="1.29.6", monitor_phase_ns=0)
    prediction = predict(
        make_snapshot([make_node("n1", zone="a")]),
        make_scenario(events, horizon=60),
        resolve_configuration(settings, ControlPlaneFlags()),
    )
    [eviction] = prediction.evictions
    # The tick at 5 s ends the countdown of the start, or nobody sees it do that.
    assert eviction.earliest_seconds == 3 + 9
    assert 5 + 9 <= eviction.latest_seconds < 5 + 9 + 0.2
