"""What is proven without a run, and where nothing is."""

from __future__ import annotations

import random

import pytest
from building.builders import (
    UNREACHABLE,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_scenario,
    make_snapshot,
)
from msgspec.structs import replace
from realities.drawn_realities import World, draw_reality

from kubectl_evictplan.cluster.timeline import TaintAdded
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, Node
from kubectl_evictplan.kube.topology import EXCLUDE_DISRUPTION
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.windows.outer_bounds import OuterBounds

NAMES = [f"n{index}" for index in range(8)]


def staggered(
    release: str, excluded: tuple[str, ...] = (), leader: float | None = None
) -> OuterBounds:
    """Of the first three nodes of one zone, which fall silent one after the other."""
    world = staggered_world(release, excluded, leader)
    return OuterBounds(world.snapshot, world.scenario, world.configuration)


def staggered_world(
    release: str, excluded: tuple[str, ...] = (), leader: float | None = None
) -> World:
    """All nodes are Ready since long before the process leads, if that is known."""
    flags = {"node-monitor-period": "1s", "node-monitor-grace-period": "3s"}
    labels = {name: {EXCLUDE_DISRUPTION: "true"} for name in excluded}
    snapshot = make_snapshot(
        [make_node(name, labels=labels.get(name, {})) for name in NAMES],
        [],
        leases=[make_lease(name, 0, duration_seconds=4) for name in NAMES],
    )
    leader_ns = None if leader is None else epoch_ns(leader)
    control_plane = replace(snapshot.control_plane, leader_acquire_time_ns=leader_ns)
    snapshot = replace(snapshot, control_plane=control_plane)
    stops = [make_event(2 + index, "kubelet-stop", [NAMES[index]]) for index in range(3)]
    settings = ControllerSettings(release, flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return World(snapshot, make_scenario(stops, horizon=60), configuration)


def test_nothing_is_proven_of_a_zone_in_which_no_node_counts() -> None:
    one_counts = staggered("1.33.4", tuple(NAMES[1:]))
    assert set(one_counts.nodes) == set(NAMES[:3])
    nobody_counts = staggered("1.33.4", tuple(NAMES))
    assert (nobody_counts.nodes, nobody_counts.zones) == ({}, {})


def test_where_nobody_sees_what_is_in_line_since_before_the_start_nobody_is_sure_to_be_served() -> (
    None
):
    mended, leaving = staggered("1.20.5").nodes, staggered("1.20.4").nodes
    assert {each.certain for each in mended.values()} == {True}
    assert {each.certain for each in leaving.values()} == {False}
    assert {each.served[1] for each in leaving.values()} == {60 * SECOND_NS}
    unknown = {name: each.unknown for name, each in mended.items()}
    assert unknown == {name: each.unknown for name, each in leaving.items()}


def test_entries_that_served_nodes_leave_behind_take_tokens_before_those_who_come_later() -> None:
    """10 s for each token; before n0 there may be three entries, before n2 an entry of each tick at which the others wait."""
    seen = staggered("1.20.4", leader=-900).nodes
    assert {each.certain for each in seen.values()} == {True}
    latest = [seen[name].served[1] // SECOND_NS for name in NAMES[:3]]
    assert latest == [49, 79, 110]
    once = staggered("1.18.6", leader=-900).nodes
    assert [once[name].served[1] // SECOND_NS for name in NAMES[:3]] == [39, 39, 39]


@pytest.mark.parametrize("release", ["1.18.6", "1.19.3", "1.20.4"])
def test_every_reality_keeps_to_the_latest_tokens_of_its_line(release: str) -> None:
    world = staggered_world(release, leader=-900)
    scenario = replace(world.scenario, horizon_ns=120 * SECOND_NS)
    world = World(world.snapshot, scenario, world.configuration)
    bounds = OuterBounds(world.snapshot, scenario, world.configuration).nodes
    for seed in range(40):
        reality = draw_reality(world, random.Random(seed))
        tainted: dict[str, int] = {}
        for entry in reality.entries:
            if isinstance(entry, TaintAdded) and entry.taint.effect == NO_EXECUTE:
                tainted.setdefault(entry.node, entry.at_ns)
        assert tainted.keys() == bounds.keys()
        for name, at_ns in tainted.items():
            assert bounds[name].served[0] <= at_ns <= bounds[name].served[1], (seed, name)


def two_zones(*more: ScenarioEvent, down: Node | None = None) -> OuterBounds:
    """Of one node in each of the zones a and b, which fall silent; others live on in both."""
    nodes = [make_node(f"{zone}{index}", zone=zone) for zone in "ab" for index in range(4)]
    nodes += [down] if down is not None else []
    leases = [make_lease(node.name, 0) for node in nodes if node is not down]
    snapshot = make_snapshot(nodes, [], leases=leases)
    scenario = make_scenario([make_event(2, "kubelet-stop", ["a0", "b0"]), *more], horizon=600)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    return OuterBounds(snapshot, scenario, configuration)


def test_a_kubelet_that_comes_back_makes_only_its_own_zone_unclear() -> None:
    assert set(two_zones().nodes) == {"a0", "b0"}
    assert set(two_zones(make_event(300, "kubelet-start", ["b0"])).nodes) == {"a0"}
    assert set(two_zones(make_event(300, "node-delete", ["b1"])).nodes) == {"a0"}


def test_a_new_process_of_the_controllers_ends_every_proof() -> None:
    again = make_event(20, "controller-stop"), make_event(30, "controller-start")
    assert two_zones(*again).nodes == {}


def test_a_node_that_is_down_at_the_start_takes_at_most_one_token_more() -> None:
    tainted = make_node("a9", zone="a", ready="Unknown", taints=[f"{UNREACHABLE}:NoExecute"])
    alone, beside = two_zones().nodes, two_zones(down=tainted).nodes
    assert {name: beside[name].certain for name in beside} == {"a0": True, "b0": True}
    # Only ticks look at one node more.
    assert beside["a0"].served[1] - alone["a0"].served[1] < SECOND_NS // 1000
    waiting = two_zones(down=make_node("a9", zone="a", ready="Unknown")).nodes
    assert waiting["a9"].served == (0, waiting["a0"].served[1])
    assert waiting["a0"].served[1] - alone["a0"].served[1] >= 10 * SECOND_NS


def test_zones_that_may_all_be_down_are_coupled() -> None:
    others = make_event(3, "kubelet-stop", [f"a{index}" for index in range(1, 4)])
    assert set(two_zones(others).nodes) == {"a0", "a1", "a2", "a3", "b0"}
    assert two_zones(others, make_event(300, "kubelet-start", ["b0"])).nodes == {}
