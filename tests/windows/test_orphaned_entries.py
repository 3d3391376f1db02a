"""Entries that 1.19.0-8 and 1.20.0-4 may hold since before the start keep nodes from being tainted."""

from __future__ import annotations

import pytest
from building.builders import (
    default_tolerations,
    epoch_ns,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)
from msgspec.structs import replace
from realities.drawn_realities import World
from realities.test_bounds import check_world
from windows.lines import Line

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import Node, Toleration
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.budget import Budget
from kubectl_evictplan.windows.exploration import explore
from kubectl_evictplan.windows.line_replays import Replays

STOP = make_event(2, "kubelet-stop", "n0")


def predicted(
    release: str,
    *,
    leader: float | None,
    others: tuple[Node, ...] = (),
    more: tuple[ScenarioEvent, ...] = (),
) -> Prediction:
    """n0 falls silent; every node but ``others`` has been ready since 1000 s before the start."""
    nodes = [make_node(name, transition=-1000) for name in ("n0", "n1", "n2")]
    snapshot = make_snapshot([*nodes, *others], [make_pod("p", "n0")])
    leader_ns = None if leader is None else epoch_ns(leader)
    control_plane = replace(snapshot.control_plane, leader_acquire_time_ns=leader_ns)
    snapshot = replace(snapshot, control_plane=control_plane)
    settings = ControllerSettings(kubernetes_version=release)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return predict(snapshot, make_scenario([STOP, *more]), configuration)


def certainty(prediction: Prediction) -> str:
    (eviction,) = prediction.evictions
    return eviction.certainty


def says_96876(prediction: Prediction) -> bool:
    """Whether it is said that such entries may be there unseen."""
    texts = [w.message for w in prediction.warnings if w.code == "queue-duplicates-bug"]
    return any("96876" in text and "cannot be seen" in text for text in texts)


@pytest.mark.parametrize("release", ["1.19.3", "1.19.8", "1.20.4"])
def test_an_eviction_is_only_possible_while_such_entries_cannot_be_ruled_out(release: str) -> None:
    prediction = predicted(release, leader=None)
    assert certainty(prediction) == "possible"
    assert says_96876(prediction)


@pytest.mark.parametrize("release", ["1.18.20", "1.19.9", "1.20.5", "1.29.6"])
def test_other_releases_hold_no_such_entries(release: str) -> None:
    prediction = predicted(release, leader=None)
    assert certainty(prediction) == "certain"
    assert not says_96876(prediction)


def test_behind_such_entries_alike_nodes_are_explored_once() -> None:
    nodes = [make_node(name, zone="a", transition=-1000) for name in ("n0", "n1", "n2")]
    nodes.append(make_node("other", zone="b", transition=-1000))
    snapshot = make_snapshot(nodes, [make_pod("p0", "n0"), make_pod("p1", "n1")])
    settings = ControllerSettings(kubernetes_version="1.19.3")
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario([make_event(2, "kubelet-stop", ["n0", "n1"])])
    nominal = simulate(snapshot, scenario, configuration)
    one, other = explore(snapshot, scenario, configuration, nominal).evictions.values()
    assert not one.certain
    assert one.spans is other.spans


def test_a_leader_that_took_over_after_all_nodes_were_ready_holds_no_such_entries() -> None:
    prediction = predicted("1.19.3", leader=-500)
    assert certainty(prediction) == "certain"
    assert not says_96876(prediction)


def test_a_leader_that_saw_a_node_become_ready_may_hold_its_entry() -> None:
    assert certainty(predicted("1.19.3", leader=-1500)) == "possible"


def test_a_node_that_is_not_ready_yet_may_leave_its_entry() -> None:
    late = make_node("n3", ready="False", transition=-600)
    prediction = predicted("1.19.3", leader=-500, others=(late,))
    assert {e.certainty for e in prediction.evictions if e.pod == "p"} == {"possible"}


def test_a_node_that_the_scenario_creates_may_leave_an_entry() -> None:
    join = make_event(100, "node-create", node=make_node("n9", created=None))
    assert certainty(predicted("1.19.3", leader=-500, more=(join,))) == "possible"


def test_what_waiting_nodes_leave_in_line_may_swap_their_taints_before_a_tick_does() -> None:
    names = [f"n{number}" for number in range(8)]
    snapshot = make_snapshot(names, renewed=-1)
    flags = {"node-monitor-grace-period": "20s"}
    configuration = resolve_configuration(
        ControllerSettings("1.19.3", flags=flags), snapshot.control_plane
    )
    events = [
        make_event(10.3, "node-ready", names[:2], status="False"),
        make_event(12, "kubelet-stop", names[:2], last_heartbeat=12),
    ]
    check_world(World(snapshot, make_scenario(events, horizon=90), configuration), 1, 16)


@pytest.mark.parametrize(("beside", "latest"), [((), 61.2), (("n1",), 120.0)])
def test_entries_of_a_node_that_waits_once_more_take_one_token_each_and_nobody_knows_how_many(
    beside: tuple[str, ...], latest: float
) -> None:
    stop = make_event(2, "kubelet-stop", ("n0", *beside), last_heartbeat=1)
    names = [f"n{number}" for number in range(9)]
    snapshot = make_snapshot(names, [make_pod("p", "n0")])
    configuration = resolve_configuration(ControllerSettings("1.19.3"), snapshot.control_plane)
    scenario = make_scenario([stop, make_event(110, "cordon", "n2")], horizon=120)
    [eviction] = predict(snapshot, scenario, configuration).evictions
    assert eviction.certainty == "possible"
    # Its own entries have just taken the token of the zone; those of others may take the next ones as well.
    assert eviction.latest_seconds == pytest.approx(latest, abs=0.2)


@pytest.mark.parametrize("seconds", [0, 30, 300])
@pytest.mark.parametrize("horizon", [None, 500])
def test_a_countdown_may_end_as_late_as_its_node_may_be_tainted(
    seconds: int, horizon: float | None
) -> None:
    """A node that is just ready left entries, which may take every token; what happens to a pod that people change is simulated each time."""
    ready = make_node("n3", transition=-1000, taints=["node.kubernetes.io/not-ready:NoExecute"])
    nodes = [*(make_node(name, transition=-1000) for name in ("n0", "n1", "n2")), ready]
    tolerations = default_tolerations(seconds)
    snapshot = make_snapshot(nodes, [make_pod("p", "n0", tolerations=tolerations)])
    more = (*tolerations, Toleration(key="A", operator="Exists"))
    events = [
        make_event(5, "pod-tolerations", pods="default/p", tolerations=more),
        make_event(16, "kubelet-stop", "n0", last_heartbeat=2),
    ]
    configuration = resolve_configuration(ControllerSettings("1.19.3"), snapshot.control_plane)
    scenario = make_scenario(events, horizon=horizon)
    (row,) = predict(snapshot, scenario, configuration).evictions
    assert row.certainty == "possible"
    windows = [(each.earliest_seconds, each.latest_seconds) for each in row.windows]
    assert windows == [(47 + seconds, scenario.end_ns / 1e9)]


def not_wholly_explored(line: Line, unknown: str = "order in the line") -> set[tuple[str, int]]:
    """Waits of which that was not wholly tried."""
    return {
        (name, number)
        for name, waits in line.waits(Replays(Budget())).items()
        for number, wait in enumerate(waits)
        if unknown in wait.missed
    }


def line_that_left_entries() -> Line:
    """One of a and b is tainted at 18, the other one leaves entries in line."""
    line = Line("1.19.3", step=1)
    line.silent(18, "a", "b")
    line.returns(22.3, 23, "a")
    line.returns(22.3, 23, "b")
    return line


def test_windows_of_whoever_waits_beside_entries_without_a_node_are_bounds() -> None:
    line = line_that_left_entries()
    line.silent(34, "a", "b")
    # Who had left some need not be who is taken first at 34: each tick has an order of its own.
    assert not_wholly_explored(line) == {("a", 1), ("b", 1)}


def test_entries_without_a_node_change_nothing_where_nobody_waits_any_more() -> None:
    assert not not_wholly_explored(line_that_left_entries())


def test_entries_without_a_node_change_nothing_for_who_was_served_before() -> None:
    line = Line("1.19.3", step=1)
    line.silent(5, "c")
    line.silent(18, "a", "b")
    line.returns(22.3, 23, "a")
    line.silent(34, "d")
    waits = not_wholly_explored(line)
    assert ("d", 0) in waits and ("c", 0) not in waits


def test_whether_a_node_has_an_entry_more_depends_on_lags_where_it_is_served_as_a_tick_comes() -> (
    None
):
    line = Line("1.19.3")
    line.silent(5, "a")
    line.silent(15, "b")
    line.silent(20, "c")
    line.silent(40, "d")
    # c is served just before the tick at 25, and d finds a token, or just after it, and its second entry takes that: then d is served from 45 on.
    line.returns(45.5, 50, "d")
    assert ("d", 0) in not_wholly_explored(line, "lag of passes")


def test_nothing_depends_on_lags_where_all_fall_silent_together() -> None:
    line = Line("1.19.3")
    line.silent(5, "a", "b", "c")
    assert not not_wholly_explored(line, "lag of passes")
