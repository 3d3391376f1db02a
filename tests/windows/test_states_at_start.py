"""What a kubelet posts, and a node that comes or goes, counts in its zone with the next tick: nobody sees which was the last one before the start."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from building.builders import (
    UNREACHABLE,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
)
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Lease, Node
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.spent_tokens import all_down_until_ns
from kubectl_evictplan.windows.unknowns.tick_meetings import critical_instants

PERIOD = 5
# What a tick costs at the most, with two or three nodes.
COST = 0.011


def predicted(nodes: Iterable[Node], leases: Iterable[Lease] = ()) -> Prediction:
    """What happens where somebody only cordons a node; ``leases`` beside those of the nodes."""
    snapshot = make_snapshot([*nodes], leases=[*leases, *(make_lease(n.name, -1) for n in nodes)])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    cordon = make_event(1, "cordon", [snapshot.nodes[0].name])
    return predict(snapshot, make_scenario([cordon], horizon=60), configuration)


def states(prediction: Prediction, zone: str) -> list[tuple[str, str, float, float]]:
    [found] = [each for each in prediction.zones if each.zone == zone]
    return [(s.state, s.certainty, s.earliest_seconds, s.latest_seconds) for s in found.states]


def back(name: str, zone: str, at: float) -> Node:
    return make_node(name, zone=zone, transition=at)


def test_a_zone_whose_only_node_has_just_come_back_may_be_down_until_the_first_tick() -> None:
    found = states(predicted([back("n0", "a", -2), make_node("n1", zone="b")]), "/a")
    assert [each[:2] for each in found] == [("Normal", "possible"), ("Normal", "possible")]
    # The last tick came less than a second after what was posted, for that is cut to whole seconds.
    [(_, _, earliest, latest)] = found[1:]
    assert earliest == 0
    assert PERIOD - 1 - COST <= latest <= PERIOD - 1 + COST


@pytest.mark.parametrize("at", [-8, -300])
def test_what_was_posted_before_the_last_tick_has_been_seen(at: float) -> None:
    found = states(predicted([back("n0", "a", at), make_node("n1", zone="b")]), "/a")
    assert found == [("Normal", "certain", 0, 0)]


def test_a_zone_with_others_that_are_ready_is_in_no_other_state() -> None:
    nodes = [back("n0", "a", -2), make_node("n2", zone="a"), make_node("n1", zone="b")]
    assert states(predicted(nodes), "/a") == [("Normal", "certain", 0, 0)]


def test_a_node_of_which_only_its_lease_is_left_may_have_counted_in_any_zone() -> None:
    dead = make_node("n0", zone="a", ready="Unknown", transition=-300)
    nodes = [dead, make_node("n1", zone="b")]
    assert states(predicted(nodes), "/a") == [("FullDisruption", "certain", 0, 0)]
    found = states(predicted(nodes, [make_lease("gone", -1)]), "/a")
    assert [each[:2] for each in found] == [
        ("FullDisruption", "possible"),
        ("FullDisruption", "possible"),
    ]


def test_who_waits_in_another_zone_is_perhaps_not_served_before_all_zones_are_known_not_to_be_down() -> (
    None
):
    """All grace periods and tokens begin anew with the tick that sees the first node back."""
    waiting = make_node("n1", zone="b", ready="Unknown", transition=-300)
    taints = [
        change
        for node in predicted([back("n0", "a", -2), waiting]).nodes
        for change in node.changes
        if change.value == f"{UNREACHABLE}:NoExecute" and node.node == "n1"
    ]
    [taint] = taints
    # The limiter that was stopped begins without a token: it comes 10 s after the tick.
    assert taint.latest_seconds >= PERIOD - 1 + 10 - COST


def test_whom_a_pass_tainted_inside_the_tick_that_found_all_zones_down_may_cost_one_more_token() -> (
    None
):
    """That tick took it out of line and left the taint, and the next one put it there once more."""
    taint = make_taint(f"{UNREACHABLE}:NoExecute", added=-20)
    tainted = make_node("n0", zone="a", ready="Unknown", transition=-22, taints=[taint])
    waiting = make_node("n1", zone="a", ready="Unknown", transition=-22)
    for at, latest in ((-15, 20), (-300, 10)):
        # Only where no node was ready at -20.
        [change] = [
            change
            for node in predicted([tainted, waiting, back("n2", "b", at)]).nodes
            for change in node.changes
            if change.value == f"{UNREACHABLE}:NoExecute" and node.node == "n1"
        ]
        assert change.certainty == "certain"
        assert change.latest_seconds == pytest.approx(latest, abs=0.5)


@pytest.mark.parametrize(
    ("release", "transition", "earliest"),
    [("1.29.6", -30, 0), ("1.29.6", -1, 4), ("1.34.4", -1, 0)],
)
def test_whom_a_tick_before_the_start_has_put_in_line_may_be_served_before_the_next_one(
    release: str, transition: float, earliest: float
) -> None:
    """Up to 1.33 the tick that gives a node up leaves it to the next one to put it in line."""
    waiting = make_node("n0", ready="Unknown", transition=transition)
    snapshot = make_snapshot([waiting, "n1"], leases=[make_lease("n0", -340), make_lease("n1", -1)])
    settings = ControllerSettings(release, monitor_phase_ns=ns(4))
    configuration = resolve_configuration(settings, snapshot.control_plane)
    cordon = make_event(1, "cordon", ["n1"])
    prediction = predict(snapshot, make_scenario([cordon], horizon=60), configuration)
    [taint] = [
        change
        for node in prediction.nodes
        for change in node.changes
        if change.value == f"{UNREACHABLE}:NoExecute"
    ]
    assert taint.earliest_seconds == pytest.approx(earliest, abs=0.01)


def test_phases_are_cut_where_the_last_tick_has_just_put_a_node_in_line_or_not() -> None:
    waiting = make_node("n0", ready="Unknown", transition=-3)
    snapshot = make_snapshot([waiting, "n1"], leases=[make_lease("n0", -340), make_lease("n1", -1)])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    scenario = make_scenario([make_event(1, "cordon", ["n1"])], horizon=60)
    assert ns(-2) in critical_instants(snapshot, scenario, configuration)


def test_phases_are_cut_where_a_tick_before_the_start_is_the_first_of_its_process_or_none_of_it() -> (
    None
):
    """One of another process has put nobody in line of this one."""
    flags = ControlPlaneFlags(leader_acquire_time_ns=epoch_ns(-1.5))
    for waiting in (
        make_node("n0", ready="False", transition=-60),
        make_node("n0", ready="Unknown"),
    ):
        leases = [make_lease(name, -1) for name in ("n0", "n1")]
        snapshot = make_snapshot([waiting, "n1"], leases=leases)
        snapshot = replace(snapshot, control_plane=flags)
        configuration = resolve_configuration(ControllerSettings("1.29.6"), flags)
        scenario = make_scenario([make_event(1, "cordon", ["n1"])], horizon=60)
        assert ns(-1.5) in critical_instants(snapshot, scenario, configuration)


def taints(prediction: Prediction, name: str) -> dict[str, tuple[float, float]]:
    """When the NoExecute taint of an unreachable node is added, and removed."""
    [found] = [node for node in prediction.nodes if node.node == name]
    return {
        change.what: (change.earliest_seconds, change.latest_seconds)
        for change in found.changes
        if change.value == f"{UNREACHABLE}:NoExecute"
    }


def test_zones_that_are_all_down_may_still_be_served_where_another_one_has_lost_its_last_node() -> (
    None
):
    """When a zone that was not down vanishes, the others were down before: no tick finds that all of them have just got so."""
    dead = [make_node(name, zone="a", ready="Unknown", transition=-300) for name in ("n0", "n1")]
    assert taints(predicted(dead), "n1") == {}
    earliest, latest = taints(predicted(dead, [make_lease("gone", -1)]), "n1")["taint-added"]
    # After the token of the start, and its own one.
    assert earliest == 0
    assert latest >= 20


def test_the_first_tick_may_take_off_whenever_it_comes_what_a_pass_before_it_put_on() -> None:
    """At a tick of the start itself no pass has come yet: such a run shows nothing of it."""
    waiting = make_node("n0", ready="Unknown", transition=-9)
    leases = [
        make_lease(name, at, duration_seconds=4) for name, at in (("n0", -19), ("n1", -10.25))
    ]
    snapshot = make_snapshot([waiting, "n1"], leases=leases)
    # Else the token of this rate is there just after a tick that follows one at the start.
    flags = {"secondary-node-eviction-rate": "0.5"}
    flags |= {"node-monitor-period": "2s", "node-monitor-grace-period": "9s"}
    settings = ControllerSettings("1.34.4", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    found = taints(predict(snapshot, make_scenario([], horizon=60), configuration), "n0")
    assert found["taint-added"][0] == 0
    assert found["taint-removed"][0] == pytest.approx(0, abs=0.001)


@pytest.mark.parametrize(("at", "latest"), [(-8, 38), (-300, 3 + PERIOD)])
def test_grace_periods_may_have_begun_anew_with_the_tick_that_saw_the_first_node_back(
    at: float, latest: float
) -> None:
    """The other node is silent since -37: that ends its grace period at 3, or 40 s after a tick that comes until -2, if that ended it."""
    silent = make_node("n1", zone="b", ready="False", transition=-300)
    snapshot = make_snapshot(
        [back("n0", "a", at), silent], leases=[make_lease("n0", -1), make_lease("n1", -37)]
    )
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    scenario = make_scenario([make_event(1, "cordon", ["n0"])], horizon=90)
    given_up = [
        change
        for node in predict(snapshot, scenario, configuration).nodes
        for change in node.changes
        if (node.node, change.value) == ("n1", "Unknown") and change.earliest_seconds >= 0
    ]
    assert given_up
    assert 3 <= min(change.earliest_seconds for change in given_up) <= 3 + COST
    assert max(change.latest_seconds for change in given_up) == pytest.approx(latest, abs=0.2)


def test_grace_periods_that_began_anew_do_not_matter_where_all_kubelets_have_renewed_since() -> (
    None
):
    def back_at(seconds: float, renewed: float) -> int | None:
        nodes = [make_node(name, transition=seconds, heartbeat=seconds) for name in ("n0", "n1")]
        leases = [make_lease(node.name, renewed) for node in nodes]
        configuration = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
        return all_down_until_ns(make_snapshot(nodes, leases=leases), epoch_ns(0), configuration)

    assert back_at(-40, -5) is None
    assert back_at(-40, -38) == ns(-39)


@pytest.mark.parametrize(
    ("release", "last", "latest"),
    [("1.18.6", -1, PERIOD), ("1.23.17", -1, PERIOD), ("1.23.17", -12, 0), ("1.24.17", -1, PERIOD)],
)
def test_the_tick_that_found_all_zones_down_has_taken_everybody_out_of_line(
    release: str, last: float, latest: float
) -> None:
    """Without a rate limiters stay as they are then, and let through whom the next tick puts in line: up to 1.23 everybody, later one."""
    down = [
        make_node(name, ready="Unknown", transition=since)
        for name, since in (("n0", -30), ("n1", last))
    ]
    snapshot = make_snapshot(down, leases=[make_lease(node.name, -340) for node in down])
    settings = ControllerSettings(release, flags={"node-eviction-rate": "0"})
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario([make_event(1, "cordon", ["n0"])], horizon=60)
    [latest_seconds] = [
        change.latest_seconds
        for report in predict(snapshot, scenario, configuration).nodes
        for change in report.changes
        if report.node == "n0" and change.value == f"{UNREACHABLE}:NoExecute"
    ]
    assert latest_seconds == pytest.approx(latest, abs=0.2)
