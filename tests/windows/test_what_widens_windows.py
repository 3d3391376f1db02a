"""Windows reach as far as what nobody knows can move an eviction, each thing by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from building.builders import (
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
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.prediction.document import Eviction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.outcome import WindowTable, ZoneStateKey

NAMES = tuple(f"n{index}" for index in range(9))


def first_eviction(pod: Pod, events: Iterable[ScenarioEvent], **known: Any) -> Eviction:
    return all_evictions(pod, events, **known)[0]


def all_evictions(
    pod: Pod,
    events: Iterable[ScenarioEvent],
    *,
    nodes: Iterable[Node] = (),
    release: str = "1.29.6",
    phase_ns: int | None = None,
    flags: dict[str, str] | None = None,
) -> Sequence[Eviction]:
    """``nodes`` stand for those of their names among nine ready ones of one zone."""
    all_nodes = {name: make_node(name, zone="a") for name in NAMES}
    all_nodes |= {node.name: node for node in nodes}
    down = [n.name for n in all_nodes.values() if n.conditions[-1].status == "Unknown"]
    leases = [make_lease(name, -600 if name in down else -1) for name in NAMES]
    snapshot = make_snapshot(all_nodes.values(), [pod], leases=leases)
    settings = ControllerSettings(release, phase_ns, flags or {})
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario(events, horizon=400)
    return predict(snapshot, scenario, configuration).evictions


def stop(*names: str) -> ScenarioEvent:
    return make_event(2, "kubelet-stop", names, last_heartbeat=-1)


def width(eviction: Eviction) -> float:
    return eviction.latest_seconds - eviction.earliest_seconds


def test_a_pass_comes_up_to_105_ms_after_its_tick() -> None:
    eviction = first_eviction(make_pod("p", "n0"), [stop("n0")], phase_ns=0)
    # And nine ticks that may have cost 10 ms each.
    assert width(eviction) == pytest.approx(0.105 + 9 * 0.010036, abs=0.011)


def test_a_node_that_waits_at_the_start_may_wait_for_a_token_that_was_just_spent() -> None:
    down = make_node("n0", zone="a", ready="Unknown", heartbeat=-600)
    eviction = first_eviction(make_pod("p", "n0"), [], nodes=[down])
    assert eviction.earliest_seconds == 0
    assert eviction.latest_seconds == pytest.approx(10.1, abs=0.1)


@pytest.mark.parametrize("rate", ["0.1", "0"])
def test_a_token_that_was_just_spent_in_a_disrupted_zone_is_back_at_its_secondary_rate(
    rate: str,
) -> None:
    """Six of nine nodes are down already, so that a zone that counts as large refills once in 100 s."""
    down = [
        make_node(
            name, zone="a", ready="Unknown", heartbeat=-600, taints=[f"{UNREACHABLE}:NoExecute"]
        )
        for name in NAMES[:6]
    ]
    flags = {"large-cluster-size-threshold": "3", "node-eviction-rate": rate}
    (eviction,) = all_evictions(
        make_pod("p", "n6"), [stop("n6")], nodes=down, release="1.19.16", flags=flags
    )
    assert 35 < eviction.earliest_seconds < 45
    assert eviction.latest_seconds == pytest.approx(100.2, abs=0.1)


def test_from_1_34_a_stale_informer_may_waste_the_first_token() -> None:
    quick, stale = (
        first_eviction(make_pod("p", "n0"), [stop("n0")], release=release, phase_ns=0)
        for release in ("1.33.4", "1.34.4")
    )
    assert width(quick) < 0.3
    # Then the pass may meet the worker that writes the other taint.
    assert 10 < width(stale) < 10.4 + 0.2


def test_from_1_34_a_pass_may_fall_inside_the_tick_that_finds_the_whole_cluster_down() -> None:
    eviction = first_eviction(make_pod("p", "n0"), [stop(*NAMES)], release="1.34.4", phase_ns=0)
    assert eviction.certainty == "possible"


def test_a_pass_may_fall_inside_the_tick_that_queues_a_node_and_stops_its_zone() -> None:
    """n0 gets in line at 45; the same tick finds five more nodes silent: a small zone stops."""
    others = make_event(4, "kubelet-stop", NAMES[1:6], last_heartbeat=3)
    eviction = first_eviction(make_pod("p", "n0"), [stop("n0"), others], phase_ns=0)
    assert eviction.certainty == "possible"
    assert (round(eviction.earliest_seconds, 1), round(eviction.latest_seconds, 1)) == (45, 45.1)


def test_a_timer_that_a_return_may_cancel_ends_at_any_instant_before() -> None:
    """Four nodes wait: n3's taint comes between 44 and 79, its timer ends a minute later."""
    pod = make_pod("p", "n3", tolerations=default_tolerations(60))
    back = make_event(120, "kubelet-start", "n3")
    eviction = first_eviction(pod, [stop("n0", "n1", "n2", "n3"), back])
    assert eviction.certainty == "possible"
    assert eviction.earliest_seconds == 104
    assert eviction.latest_seconds >= 119.9


def test_a_running_timer_that_an_event_may_cancel_ends_at_any_instant_before() -> None:
    tainted = make_node("n0", zone="a", taints=["A:NoExecute"])
    pod = make_pod("p", "n0", tolerations=[tolerates("A", 300)], created=-200)
    untaint = make_event(150, "untaint", "n0", taint="A:NoExecute")
    eviction = first_eviction(pod, [untaint], nodes=[tainted])
    assert eviction.certainty == "possible"
    assert eviction.earliest_seconds == pytest.approx(100, abs=1)
    assert eviction.latest_seconds == pytest.approx(150, abs=0.001)


def test_nothing_is_moved_before_the_return_of_the_controller_that_does_it() -> None:
    table: WindowTable[ZoneStateKey] = WindowTable()
    key = ZoneStateKey("a", "Normal")
    table.add_sequence([(key, 7), (key, 105)], 10, starts_ns=(100,))
    first, second = table.windows[key, 0], table.windows[key, 1]
    assert (first.earliest_ns, first.latest_ns) == (0, 17)
    assert (second.earliest_ns, second.latest_ns) == (100, 115)


def test_an_orphan_may_have_to_wait_for_one_loop_more_when_quarantine_ends_just_after_one() -> None:
    deleted = make_event(10, "node-delete", "n0")
    eviction = first_eviction(make_pod("p", "n0"), [deleted])
    assert eviction.controller == "pod-gc"
    # Found missing up to one loop later, and deleted 40 s after that, or at the loop after.
    assert eviction.earliest_seconds == 50
    assert eviction.latest_seconds == pytest.approx(10 + 20 + 60, abs=0.2)


def test_a_deleted_pod_may_be_gone_at_once_or_still_be_there_when_its_kubelet_falls_silent() -> (
    None
):
    taint = make_event(10, "taint", "n0", taint="a:NoExecute")
    silent = make_event(20, "kubelet-stop", "n0", last_heartbeat=19)
    gone = first_eviction(make_pod("p", "n0"), [taint, silent]).gone
    assert gone.earliest_seconds == 10
    assert gone.stuck is not None


@pytest.mark.parametrize(("release", "certainty"), [("1.32.0", "possible"), ("1.33.4", "certain")])
def test_up_to_1_32_a_stale_key_may_shield_the_next_pod_of_that_name(
    release: str, certainty: str
) -> None:
    """The first one is deleted at 31 and gone at once; the same name comes to the tainted node at 40."""
    first, second = (
        make_pod("p", "n0", tolerations=[tolerates("A", 30)], grace_seconds=0, uid=uid)
        for uid in ("one", "two")
    )
    events = [
        make_event(1, "taint", "n0", taint="A:NoExecute"),
        make_event(40, "pod-create", pod=second),
    ]
    found = [(one.uid, one.certainty) for one in all_evictions(first, events, release=release)]
    assert found == [("one", "certain"), ("two", certainty)]


def test_what_may_come_after_the_horizon_is_told_up_to_it() -> None:
    snapshot = make_snapshot([make_node("n0")], [make_pod("p", "n0")])
    silent = make_event(10, "kubelet-stop", "n0", last_heartbeat=9)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    prediction = predict(snapshot, make_scenario([silent], horizon=52), configuration)
    [report] = prediction.nodes
    [unknown] = [each for each in report.changes if each.value == "Unknown"]
    assert (unknown.certainty, unknown.latest_seconds) == ("possible", 52)
