"""A pass writes the taint of the Ready status that it finds, whatever the tick decided that put the node in line."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from building.builders import (
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.line_windows import WaitWindow
from kubectl_evictplan.windows.node_records import NodeRecord
from kubectl_evictplan.windows.unknowns.services import Services

UNKNOWN = ("ready", "Unknown")
UNREACHABLE = ("taint-added", "node.kubernetes.io/unreachable:NoExecute")


def earliest(
    events: Iterable[ScenarioEvent],
    *,
    nodes: int,
    release: str = "1.29.6",
) -> dict[tuple[str, str], float]:
    """When each thing can happen to n00 first, or next where it happens more than once."""
    names = [f"n{index:02}" for index in range(nodes)]
    leases = [make_lease(name, -0.5) for name in names]
    snapshot = make_snapshot([make_node(name) for name in names], leases=leases)
    configuration = resolve_configuration(ControllerSettings(release), snapshot.control_plane)
    scenario = make_scenario(list(events), horizon=200)
    reports = predict(snapshot, scenario, configuration).nodes
    [report] = [report for report in reports if report.node == "n00"]
    return {(each.what, each.value): each.earliest_seconds for each in report.changes}


def test_a_node_that_waits_as_not_ready_is_tainted_as_unreachable_once_it_is_silent() -> None:
    """Five wait, for 40 s; meanwhile the kubelet of one falls silent and the monitor gives it up."""
    waiting = [f"n{index:02}" for index in range(5)]
    not_ready = make_event(1, "node-ready", waiting, status="False")
    silent = make_event(1.5, "kubelet-stop", "n00", last_heartbeat=1.5)
    found = earliest([not_ready, silent], nodes=20)
    assert found[UNREACHABLE] == pytest.approx(found[UNKNOWN], abs=0.001)


@pytest.mark.parametrize("release", ["1.19.8", "1.20.4"])
def test_what_a_node_left_in_line_may_have_it_tainted_before_a_tick_puts_it_there_again(
    release: str,
) -> None:
    events = [
        make_event(25, "kubelet-stop", "n00", last_heartbeat=21),
        make_event(86, "kubelet-start", "n00"),
        make_event(104, "kubelet-stop", "n00", last_heartbeat=96),
    ]
    found = earliest(events, nodes=1, release=release)
    assert found[UNREACHABLE] == pytest.approx(found[UNKNOWN], abs=0.001)


@pytest.mark.parametrize("latest", [False, True])
def test_a_node_may_be_tainted_just_before_the_tick_that_clears_all_taints_and_inside_it(
    latest: bool,
) -> None:
    record = NodeRecord(decisions=[(5, "False"), (20, "True")], taken_back={20})
    wait = WaitWindow(((10, 30),), certain=True, eligible_ns=5, useless_ns=30)
    services = Services([wait], record, [], latest=latest, changes_ns=())
    served = {history.served_ns for history in services.histories()}
    assert {(19,), (20,)} <= served


@pytest.mark.parametrize(("release", "latest"), [("1.33.13", 30.3), ("1.37.0", 45.7 + 0.2)])
def test_a_token_wasted_on_a_node_that_is_seen_late_delays_all_who_wait(
    release: str, latest: float
) -> None:
    """The newest release has three of them at 40.9 s; what the token of the start meets beside the tick is told more widely.

    Its pass may meet the worker that writes the node's other taint, and write 0.2 s later.
    """
    waiting = [make_node("n0", ready="Unknown"), make_node("n1", ready="False")]
    nodes = [*waiting, make_node("n2"), *(make_node(f"m{index}") for index in range(5))]
    leases = [make_lease("n0", -87), make_lease("n2", -45)]
    leases += [make_lease(node.name, -0.2) for node in nodes if node.name not in ("n0", "n2")]
    snapshot = make_snapshot(nodes, [make_pod("p", "n2")], leases=leases)
    configuration = resolve_configuration(ControllerSettings(release), snapshot.control_plane)
    (eviction,) = predict(snapshot, make_scenario([], horizon=120), configuration).evictions
    assert eviction.latest_seconds == pytest.approx(latest, abs=0.1)


def test_where_a_late_view_wastes_tokens_every_other_pass_has_a_lag_of_its_own() -> None:
    # A pass that is quick enough wastes its token, and the others come up to 0.105 s late all the same.
    silent = (("n1", 20), ("n2", 25), ("n0", 35))
    events = [make_event(at, "kubelet-stop", name, last_heartbeat=at) for name, at in silent]
    nodes = [*(make_node(name, zone="a") for name, _ in silent), make_node("x", zone="b")]
    snapshot = make_snapshot(nodes, [make_pod("p", "n0")])
    flags = {"node-eviction-rate": "0.2"}
    settings = ControllerSettings(kubernetes_version="1.34.4", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    events.append(make_event(95, "kubelet-start", "n1"))
    scenario = make_scenario(events, horizon=200)
    (eviction,) = predict(snapshot, scenario, configuration).evictions
    # Each of the three costs a token before the first is tainted: a run with such passes got there at 100.405 s.
    assert eviction.latest_seconds > 100.41
