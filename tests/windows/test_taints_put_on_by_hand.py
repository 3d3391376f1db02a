"""A lifecycle NoExecute taint that somebody puts on a node that is not ready, before or after its turn in line."""

from __future__ import annotations

import pytest
from building.builders import (
    UNREACHABLE,
    epoch_ns,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import Node, Taint
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.spent_tokens import still_in_line

TAINT = f"{UNREACHABLE}:NoExecute"


def tainted(
    *events: ScenarioEvent, down: int = 1, release: str = "1.29.6", phase: float | None = None
) -> list[tuple[str, str, float, float]]:
    """When which node gets the taint: n0 has been silent and tainted for long, others fall silent so that they wait from 2..7 on."""
    names = [f"n{index}" for index in range(1, 10)]
    snapshot = make_snapshot([_dead("n0"), *(make_node(name, zone="a") for name in names)])
    phase_ns = None if phase is None else round(phase * 1e9)
    settings = ControllerSettings(kubernetes_version=release, monitor_phase_ns=phase_ns)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    silent = [make_event(0.5, "node-ready", names[: down - 1], status="False")] if down > 1 else []
    scenario = make_scenario([*silent, *events], horizon=60)
    return [
        (report.node, change.certainty, change.earliest_seconds, change.latest_seconds)
        for report in predict(snapshot, scenario, configuration).nodes
        for change in report.changes
        if change.what == "taint-added" and change.value.endswith(":NoExecute")
    ]


def _dead(name: str) -> Node:
    node = make_node(name, zone="a", ready="Unknown", heartbeat=-900, transition=-800)
    return _tainted(node, name, added=-795)


def _tainted(node: Node, name: str, added: float | None = None) -> Node:
    """Like that node, with both taints of a dead one; the one that evicts is by hand where it has no ``added``."""
    since_ns = epoch_ns(added) if added is not None else None
    shown = Taint(UNREACHABLE, "NoSchedule", time_added_ns=epoch_ns(-30))
    return replace(
        node,
        name=name,
        uid=f"uid-{name}",
        taints=(shown, Taint(UNREACHABLE, "NoExecute", time_added_ns=since_ns)),
    )


def off(at: float) -> ScenarioEvent:
    return make_event(at, "untaint", "n0", taint=TAINT)


def on(at: float, name: str = "n0", taint: str = TAINT) -> ScenarioEvent:
    return make_event(at, "taint", name, taint=taint)


@pytest.mark.parametrize("release", ["1.18.6", "1.19.3", "1.29.6", "1.34.4"])
def test_what_is_taken_off_and_put_on_in_one_instant_leaves_nothing_to_do(release: str) -> None:
    assert tainted(off(3), on(3), release=release) == [("n0", "certain", 3.0, 3.0)]


def test_a_node_with_the_taint_is_not_in_line_and_costs_the_others_no_token() -> None:
    of_n1 = [found for found in tainted(off(3), on(3), down=2) if found[0] == "n1"]
    assert of_n1 == tainted(down=2)


@pytest.mark.parametrize("release", ["1.17.17", "1.29.6"])
@pytest.mark.parametrize(("by_hand", "other"), [("n1", "n2"), ("n2", "n1")])
def test_a_node_tainted_by_hand_before_it_is_in_line_may_cost_another_one_the_first_token(
    by_hand: str, other: str, release: str
) -> None:
    # The tick at 2 s puts both in line, in no order.
    event = on(1, by_hand, "node.kubernetes.io/not-ready:NoExecute")
    found = {row[0]: row for row in tainted(event, down=3, release=release, phase=2)}
    [alone] = tainted(down=2, release=release, phase=2)
    assert found[by_hand][1:] == ("certain", 1.0, 1.0)
    assert found[other][1:3] == alone[1:3]
    assert found[other][3] - alone[3] == pytest.approx(10, abs=0.2)


def test_a_tick_in_between_puts_the_node_in_line_and_who_is_first_writes_the_taint() -> None:
    # A tick comes within 5 s, and the pass behind it.
    ((_, certainty, earliest, latest),) = tainted(off(12), on(19))
    assert (certainty, earliest) == ("certain", pytest.approx(12, abs=0.001))
    assert latest == pytest.approx(17.1, abs=0.1)


def test_a_node_that_waits_is_tainted_by_its_token_or_by_hand_once() -> None:
    ((_, certainty, earliest, latest),) = tainted(off(3), on(5))
    assert (certainty, earliest, latest) == ("certain", pytest.approx(3, abs=0.001), 5.0)


def test_what_is_taken_off_at_the_start_is_back_with_a_tick_of_that_instant() -> None:
    ((_, certainty, earliest, latest),) = tainted(off(0), phase=0)
    assert (certainty, earliest) == ("certain", 0.0)
    assert latest == pytest.approx(10.1, abs=0.1)  # the token of the zone may be spent


def test_a_taint_that_the_next_tick_exchanges_does_not_count() -> None:
    other = "node.kubernetes.io/not-ready:NoExecute"
    (first, second) = tainted(off(3), on(3, taint=other))
    assert first == ("n0", "certain", 3.0, 3.0)
    assert second[:2] == ("n0", "certain")
    assert second[3] < 8.2


@pytest.mark.parametrize(("by_hand", "one_more"), [(True, 10.0), (False, 0.0)])
def test_whom_somebody_tainted_in_line_before_the_start_may_be_there_still_and_cost_a_token(
    by_hand: bool, one_more: float
) -> None:
    # The monitor ticks at 4 s; n1 is in line since before the start.
    waiting = make_node("n1", zone="a", ready="Unknown", transition=-20)
    first = _tainted(waiting, "n0", added=None if by_hand else -2)
    up = [make_node(f"n{index}", zone="a") for index in range(2, 9)]
    snapshot = make_snapshot([first, waiting, *up])
    settings = ControllerSettings(kubernetes_version="1.29.6", monitor_phase_ns=ns(4))
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario([make_event(30, "cordon", "n2")], horizon=60)
    [change] = [
        change
        for report in predict(snapshot, scenario, configuration).nodes
        for change in report.changes
        if change.value == TAINT
    ]
    # The token of the start may be spent, and the next one is n0's.
    assert (change.certainty, change.earliest_seconds) == ("certain", 0.0)
    assert change.latest_seconds == pytest.approx(10 + one_more, abs=0.3)


def test_several_whom_somebody_tainted_in_line_are_tried_together() -> None:
    waiting = make_node("n9", zone="a", ready="Unknown", transition=-20)
    first = [_tainted(waiting, name) for name in ("n0", "n1")]
    up = [make_node(f"n{index}", zone="a") for index in range(2, 9)]
    snapshot = make_snapshot([*first, waiting, *up], [make_pod("p", "n9")])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    scenario = make_scenario([make_event(50, "cordon", "n2")], horizon=90)
    prediction = predict(snapshot, scenario, configuration)
    [eviction] = prediction.evictions
    assert (eviction.certainty, prediction.inputs.coverage.exact) == ("certain", 1)
    assert eviction.latest_seconds == pytest.approx(30, abs=0.5)


def test_an_input_without_timeadded_tells_of_nobody_that_it_was_tainted_by_hand() -> None:
    node = make_node("n0", ready="Unknown", taints=[TAINT, f"{UNREACHABLE}:NoSchedule"])
    configuration = resolve_configuration(
        ControllerSettings("1.29.6"), make_snapshot([]).control_plane
    )
    assert still_in_line(make_snapshot([node, "n1"]), configuration) == ()
    assert still_in_line(make_snapshot([_tainted(node, "n0"), "n1"]), configuration) == ("n0",)
