"""What node lifecycle did to a node in another run, done to it again by the controller's own code."""

from __future__ import annotations

import pytest
from building.builders import (
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import PodDeleted, TaintAdded, TaintRemoved, Timeline
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.playback import NodePlayback
from kubectl_evictplan.simulation.simulate import simulate

UNREACHABLE, NOT_READY = "unreachable", "not-ready"


def played(
    playback: NodePlayback,
    release: str = "1.29.6",
    *events: ScenarioEvent,
    flags: dict[str, str] | None = None,
) -> Timeline:
    """One node that was ready, with one pod that tolerates nothing."""
    snapshot = make_snapshot(
        [make_node("n0")], [make_pod("p", "n0")], leases=[make_lease("n0", -600)]
    )
    settings = ControllerSettings(kubernetes_version=release, flags=flags or {})
    configuration = resolve_configuration(settings, snapshot.control_plane)
    configuration = replace(configuration, node_lifecycle_enabled=False)
    scenario = make_scenario(events, horizon=200)
    return simulate(snapshot, scenario, configuration, played_back={"n0": playback})


def taints(timeline: Timeline) -> list[tuple[float, str, str]]:
    """NoExecute taints that come (+) and go (-)."""
    signs = {TaintAdded: "+", TaintRemoved: "-"}
    return [
        (entry.at_ns / 1e9, signs[type(entry)], entry.taint.key.rpartition("/")[2])
        for entry in timeline.entries
        if isinstance(entry, (TaintAdded, TaintRemoved)) and entry.taint.effect == "NoExecute"
    ]


def deleted(timeline: Timeline) -> list[float]:
    return [entry.at_ns / 1e9 for entry in timeline.entries if isinstance(entry, PodDeleted)]


def at(*rows: tuple[float, str]) -> tuple[tuple[int, str], ...]:
    return tuple((ns(seconds), status) for seconds, status in rows)


def test_a_node_that_is_served_gets_the_taint_of_its_condition_and_loses_its_pods() -> None:
    timeline = played(NodePlayback((ns(40),), at((45, "Unknown")), (ns(45.1),)))
    assert taints(timeline) == [(45.1, "+", UNREACHABLE)]
    assert deleted(timeline) == [45.1]


def test_a_node_that_is_never_served_keeps_its_pods() -> None:
    timeline = played(NodePlayback((ns(40),), at((45, "Unknown"))))
    assert (taints(timeline), deleted(timeline)) == ([], [])


def test_a_tick_that_finds_another_condition_swaps_the_taint_without_a_gap() -> None:
    decisions = at((45, "Unknown"), (60, "False"))
    timeline = played(NodePlayback((ns(40),), decisions, (ns(45.1),)))
    assert taints(timeline) == [
        (45.1, "+", UNREACHABLE),
        (60, "+", NOT_READY),
        (60, "-", UNREACHABLE),
    ]


def test_a_tick_that_finds_another_condition_swaps_nothing_while_the_node_waits() -> None:
    decisions = at((45, "Unknown"), (60, "False"))
    timeline = played(NodePlayback((ns(40),), decisions, (ns(70),)))
    # The pass looks at the condition that it finds.
    assert taints(timeline) == [(70, "+", UNREACHABLE)]


def test_a_return_takes_the_taint_away() -> None:
    decisions = at((45, "Unknown"), (60, "True"))
    timeline = played(NodePlayback((ns(40),), decisions, (ns(45.1),)))
    assert taints(timeline) == [(45.1, "+", UNREACHABLE), (60, "-", UNREACHABLE)]


def test_a_pass_inside_the_tick_that_enters_master_disruption_leaves_its_taint() -> None:
    """The tick puts the node in line, a pass serves it, and then the tick untaints its old copy."""
    decisions = at((45, "Unknown"), (45, "True"))
    timeline = played(NodePlayback((ns(45),), decisions, (ns(45),)))
    assert taints(timeline) == [(45, "+", UNREACHABLE)]
    assert deleted(timeline) == [45]


@pytest.mark.parametrize("release", ["1.18.6", "1.23.13"])
def test_without_taint_manager_a_served_node_loses_its_pods_by_timeout(release: str) -> None:
    flags = {"enable-taint-manager": "false"}
    timeline = played(NodePlayback((ns(40),), at((45, "")), (ns(50),)), release, flags=flags)
    assert (taints(timeline), deleted(timeline)) == ([], [50])


def test_without_taint_manager_a_new_process_knows_of_no_eviction() -> None:
    flags = {"enable-taint-manager": "false"}
    late = make_event(60, "pod-create", pod=make_pod("late", "n0", created=None))
    served = NodePlayback((ns(40),), at((45, "")), (ns(50),))
    # What appears on a node that was evicted goes at once, but not after its process.
    assert deleted(played(served, "1.23.13", late, flags=flags)) == [50, 60]
    ends = make_event(55, "controller-stop")
    begins = make_event(59, "controller-start")
    assert deleted(played(served, "1.23.13", ends, late, flags=flags)) == [50]
    assert deleted(played(served, "1.23.13", ends, begins, late, flags=flags)) == [50]
