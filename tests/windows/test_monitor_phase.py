"""Where the monitor's own writing shows when it ticks, what is left of its period, and that it is true."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from building.builders import (
    START_NS,
    UNREACHABLE,
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from trace_runs import load_trace

from kubectl_evictplan.controllers.flags import ControllerConfiguration, resolve_configuration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, ControlPlaneFlags, Node
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.windows.monitor_phase import VisiblePhase, visible_phase
from kubectl_evictplan.windows.unknowns.tick_meetings import monitor_cost_max_ns

PERIOD_NS = 5 * SECOND_NS
LEADER = ControlPlaneFlags(leader_acquire_time_ns=epoch_ns(-3600))
CONFIGURATION = resolve_configuration(ControllerSettings("1.29.6"), LEADER)


def given_up(name: str, at: float) -> Node:
    """A node that the monitor gave up: it writes whole seconds."""
    taint = f"{UNREACHABLE}:NoExecute"
    return make_node(
        name, zone="a", ready="Unknown", transition=at, heartbeat=at - 45, taints=[taint]
    )


def cluster(
    *silent: Node, control_plane: ControlPlaneFlags = LEADER, pods: int = 0
) -> ClusterSnapshot:
    ready = [make_node(f"n{index}", zone="a") for index in range(6)]
    leases = [make_lease(node.name, -3) for node in ready]
    leases += [make_lease(node.name, -900) for node in silent]
    placed = [
        make_pod(f"p{index}", silent[0].name, tolerations=default_tolerations())
        for index in range(pods)
    ]
    snapshot = make_snapshot([*ready, *silent], placed, leases=leases)
    return replace(snapshot, control_plane=control_plane)


def seen(
    *silent: Node, configuration: ControllerConfiguration = CONFIGURATION, **fields: object
) -> VisiblePhase | None:
    snapshot = cluster(*silent, **fields)  # type: ignore[arg-type]
    return visible_phase(snapshot, START_NS, configuration)


def seconds(phase: VisiblePhase | None) -> list[tuple[float, float]]:
    assert phase is not None
    return [(first / SECOND_NS, last / SECOND_NS) for first, last in phase.spans]


def test_a_node_just_given_up_shows_a_tick_within_its_second() -> None:
    phase = seen(given_up("s", -12))
    # Ticks at -12 to -11, three periods on: 3 to 4, a little earlier and later.
    assert seconds(phase) == [pytest.approx((2.85, 4.17), abs=0.03)]
    assert phase is not None and phase.nodes == ("s",)


def test_a_span_over_the_start_is_two() -> None:
    first, second = seconds(seen(given_up("s", -10.0)))
    assert first == pytest.approx((0, 1.17), abs=0.03)
    assert second == pytest.approx((4.85, 5.01), abs=0.03)


def test_what_ticks_cost_blurs_it_with_time() -> None:
    widths = [
        phase.width_ns() for ago in (10, 60, 600) if (phase := seen(given_up("s", -ago - 0.0)))
    ]
    assert widths == sorted(widths) and len(set(widths)) == 3
    assert seen(given_up("s", -3500)) is None


def test_two_nodes_leave_what_both_allow() -> None:
    one, other = seen(given_up("s", -12)), seen(given_up("t", -36.0))
    both = seen(given_up("s", -12), given_up("t", -36.0))
    assert one is not None and other is not None and both is not None
    assert both.width_ns() < min(one.width_ns(), other.width_ns())
    assert both.nodes == ("s", "t")


def test_ticks_that_no_one_grid_has_show_nothing() -> None:
    assert seen(given_up("s", -12), given_up("t", -19.5 - 0.5)) is None


@pytest.mark.parametrize("acquired", [None, -11.0])
def test_another_process_says_nothing(acquired: float | None) -> None:
    leader = None if acquired is None else epoch_ns(acquired)
    flags = ControlPlaneFlags(leader_acquire_time_ns=leader)
    assert seen(given_up("s", -12), control_plane=flags) is None


def test_pods_that_were_not_listed_could_have_taken_any_time() -> None:
    snapshot = replace(cluster(given_up("s", -12)), pods_of_all_namespaces=False)
    assert visible_phase(snapshot, START_NS, CONFIGURATION) is None


def test_what_a_kubelet_says_of_itself_is_no_tick() -> None:
    assert seen(make_node("s", zone="a", ready="False", transition=-12)) is None
    assert seen(make_node("s", zone="a", ready="True", transition=-12)) is None


def test_a_tick_that_had_much_to_write_shows_less() -> None:
    few, more = seen(given_up("s", -12), pods=2), seen(given_up("s", -12), pods=30)
    assert few is not None and more is not None and few.width_ns() < more.width_ns()
    # 300 requests at 20 a second take longer than a period.
    assert seen(given_up("s", -12), pods=300) is None


@given(
    seed=st.integers(0, 2**32),
    first=st.floats(-400, -100),
    silent=st.lists(st.integers(0, 60), min_size=1, max_size=3, unique=True),
)
def test_the_true_phase_is_never_left_out(seed: int, first: float, silent: Sequence[int]) -> None:
    """A monitor of its own, tick by tick: each costs what it may, and writes somewhere in itself."""
    rng = random.Random(seed)
    cost_max_ns = monitor_cost_max_ns(cluster(*(given_up(f"s{i}", 0) for i in silent)))
    tick_ns, number, given_up_at = epoch_ns(first), 0, {}
    while tick_ns < START_NS:
        cost_ns = rng.choice([0, cost_max_ns, rng.randint(0, cost_max_ns)])
        if number in silent:
            cost_ns += rng.choice([0, rng.randint(0, 20_000_000)])
            given_up_at[number] = (tick_ns + rng.randint(0, cost_ns)) // SECOND_NS
        tick_ns, number = tick_ns + PERIOD_NS + cost_ns, number + 1
    nodes = [given_up(f"s{index}", at - START_NS // SECOND_NS) for index, at in given_up_at.items()]
    phase = seen(*nodes)
    if phase is not None:
        assert any(low <= tick_ns - START_NS <= high for low, high in phase.spans)


def test_a_recorded_control_plane_ticked_where_it_was_seen(fixtures_path: Path) -> None:
    """Two nodes, given up half a minute apart by one process with default flags."""
    trace = load_trace(fixtures_path / "traces" / "defaults-1.29.6")
    start_ns = trace.scenario.start_ns
    first, second = (one["t"] for one in trace.observed if one.get("ready") == "Unknown")
    given_up_ns = (start_ns + ns(first)) // SECOND_NS * SECOND_NS
    silent = given_up("a1", (given_up_ns - START_NS) / SECOND_NS)
    leader = ControlPlaneFlags(leader_acquire_time_ns=start_ns - ns(100))
    for before in (1, 2.5, 4):
        phase = visible_phase(
            cluster(silent, control_plane=leader), start_ns + ns(second - before), CONFIGURATION
        )
        assert phase is not None and phase.width_ns() < 2 * SECOND_NS
        # A watch shows a write up to 80 ms after it happened.
        assert any(low <= ns(before) and ns(before - 0.08) <= high for low, high in phase.spans)


# -- what it does to a prediction ------------------------------------------------------------------------


def predicted(*silent: Node, phase_ns: int | None = None) -> Prediction:
    snapshot = cluster(*silent, pods=1)
    pods = [*snapshot.pods, make_pod("web", "n0", tolerations=default_tolerations(30))]
    snapshot = replace(snapshot, pods=tuple(pods))
    settings = ControllerSettings("1.29.6", phase_ns)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario([make_event(0, "kubelet-stop", "n0")], horizon=200)
    return predict(snapshot, scenario, configuration)


def test_windows_get_narrower_and_say_by_how_much() -> None:
    told = predicted(given_up("s", -12))
    (eviction,) = [one for one in told.evictions if one.pod == "web"]
    assert eviction.latest_seconds - eviction.earliest_seconds < 2.5
    assert eviction.earliest_seconds <= eviction.offset_seconds <= eviction.latest_seconds
    assert told.inputs.monitor_phase.source == "observed"
    assert told.inputs.monitor_phase.origin == "when it gave up Node s"
    (warning,) = [w for w in told.warnings if w.code == "monitor-phase-unknown"]
    assert "(every 5s) is known to within 1.3" in warning.message
    assert warning.objects == ("s",)
    longer = predicted(given_up("s", -3500))
    (other,) = [one for one in longer.evictions if one.pod == "web"]
    assert other.latest_seconds - other.earliest_seconds > 5
    assert other.earliest_seconds <= eviction.earliest_seconds
    assert eviction.latest_seconds <= other.latest_seconds


@pytest.mark.parametrize("phase", [2.9, 3.2, 3.9, 4.1])
def test_every_phase_that_is_left_lies_inside(phase: float) -> None:
    (window,) = [one for one in predicted(given_up("s", -12)).evictions if one.pod == "web"]
    exact = predicted(given_up("s", -12), phase_ns=round(phase * SECOND_NS))
    (one,) = [one for one in exact.evictions if one.pod == "web"]
    assert window.earliest_seconds <= one.earliest_seconds
    assert one.latest_seconds <= window.latest_seconds
    assert exact.inputs.monitor_phase.source == "given"
