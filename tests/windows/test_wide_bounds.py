"""Wide bounds hold: what any reality does lies within them, whatever happens in its world."""

from __future__ import annotations

import random
from collections.abc import Iterator

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
    ns,
    tolerates,
)
from drawn.soak_worlds import CLASSES, draw_soak_world, kind_of
from msgspec.structs import replace
from realities.drawn_realities import World, draw_reality
from realities.wide_worlds import WideWorld

from kubectl_evictplan.cluster.timeline import PodDeleted
from kubectl_evictplan.controllers.flags import ControllerConfiguration, resolve_configuration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Toleration
from kubectl_evictplan.prediction.predict import predict, simulated, told
from kubectl_evictplan.prediction.prepared import PreparedCluster
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.outcome import TAINT_ADDED, TAINT_REMOVED, NodeChangeKey
from kubectl_evictplan.windows.spans import NEVER_NS
from kubectl_evictplan.windows.wide_bounds import WideBounds


def worlds(seeds: range) -> Iterator[tuple[int, World]]:
    for seed in seeds:
        if kind_of(seed) in CLASSES:
            world = draw_soak_world(seed).world
            assert isinstance(world, World)
            yield seed, world


def check_worlds(seeds: range, realities: int) -> None:
    for seed, world in worlds(seeds):
        wide = WideWorld(world)
        for number in range(realities):
            reality = draw_reality(world, random.Random(f"reality {seed} {number}"))
            wrong = list(wide.contradictions(reality, world.scenario.end_ns))
            assert not wrong, (seed, number, wrong)


def test_every_reality_keeps_to_the_wide_bounds() -> None:
    check_worlds(range(40), 2)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_every_reality_of_many_worlds_keeps_to_the_wide_bounds(block: int) -> None:
    check_worlds(range(1000 + block * 400, 1400 + block * 400), 8)


# Whose exploration is not complete: kubelets that return, processes that start within a window, flapping.
SAMPLED = (1034, 1066, 1076, 1131)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SAMPLED)
def test_what_was_not_wholly_explored_is_told_as_an_outer_bound(seed: int) -> None:
    world = draw_soak_world(seed).world
    assert isinstance(world, World)
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    coverage = prediction.inputs.coverage
    assert coverage.outer_bound > 0
    assert coverage.explored == 0
    wide = WideWorld(world)
    for eviction in prediction.evictions:
        spans = [each.span for each in wide.possible[eviction.key]]
        earliest_ns = min(low_ns for low_ns, _ in spans)
        assert eviction.earliest_seconds >= earliest_ns / 1e9 - 0.001


def test_what_no_run_showed_takes_no_place_of_what_one_did() -> None:
    # In no run is n2 tainted in its first wait: what runs show is its second taint, beside which another may come before.
    world = draw_soak_world(6200491).world
    assert isinstance(world, World)
    # Nor does a write get lost, which would be told beside both.
    profile = replace(world.configuration.profile, taint_writes_conflict=True)
    configuration = replace(world.configuration, profile=profile)
    predicted = predict(world.snapshot, world.scenario, configuration)
    [node] = (each for each in predicted.nodes if each.node == "n2")
    windows = [
        (each.earliest_seconds, each.latest_seconds)
        for each in node.changes
        if each.value == f"{UNREACHABLE}:NoExecute" and each.what == "taint-added"
    ]
    assert len(windows) == 2
    # A tick that finds the node silent once more at 170.2 s has it tainted five seconds later.
    assert windows[0][1] < 110
    assert windows[1][0] <= 175.2 <= windows[1][1]


def test_what_the_nominal_run_alone_shows_has_no_instant_for_a_window() -> None:
    snapshot = make_snapshot(["n0", "n1"], [make_pod("p", "n0")])
    configuration = resolve_configuration(ControllerSettings("1.34.4"), snapshot.control_plane)
    scenario = make_scenario([make_event(1, "kubelet-stop", "n0")], horizon=90)
    whole = PreparedCluster(snapshot, configuration, scenario.start_ns)
    found = simulated(whole, snapshot, scenario)
    [[exact]] = (each.spans for each in found.exploration.evictions.values())
    found.exploration.evictions.clear()
    [eviction] = told(whole, found).evictions
    assert eviction.earliest_seconds * 1e9 <= exact[0] < exact[1] <= eviction.latest_seconds * 1e9


def test_a_taint_that_no_run_showed_taken_off_is_told_where_not_everything_was_tried() -> None:
    world = draw_soak_world(40001051).world
    assert isinstance(world, World)
    predicted = predict(world.snapshot, world.scenario, world.configuration)
    evicting = f"{UNREACHABLE}:NoExecute"
    removed = {
        node.node: [each.certainty for each in node.changes if each.what == "taint-removed"]
        for node in predicted.nodes
        if any(each.value == evicting for each in node.changes)
    }
    assert predicted.inputs.coverage.outer_bound_nodes
    assert removed and all(set(found) == {"possible"} for found in removed.values())


def surely_deleted(pod: Pod, *events: ScenarioEvent, release: str = "1.29.6") -> dict[str, int]:
    """Until when wide bounds have the pod surely deleted, in a zone of twelve nodes."""
    found = possible(pod, *events, release=release).certain_by_ns
    return {name: by_ns // 10**9 for name, by_ns in found.items()}


def possible(pod: Pod, *events: ScenarioEvent, release: str = "1.29.6") -> WideWorld:
    """The wide bounds of the pod in a zone of twelve nodes."""
    snapshot = make_snapshot([f"n{number}" for number in range(12)], [pod])
    settings = ControllerSettings(kubernetes_version=release)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    return WideWorld(World(snapshot, make_scenario([*events], horizon=900), configuration))


def test_a_taint_stands_until_one_of_its_key_and_effect_takes_its_place() -> None:
    tolerations = [Toleration("A", "Equal", "x", "NoExecute", 20), Toleration("A", "Equal", "y")]
    pod = make_pod("p", "n0", tolerations=tolerations)
    placed = make_event(150, "taint", "n0", taint="A=x:NoExecute")
    assert surely_deleted(pod, placed) == {pod.key: 170}
    for at in (150, 160):
        replaced = make_event(at, "taint", "n0", taint="A=y:NoExecute")
        assert surely_deleted(pod, placed, replaced) == {}
    # Of another effect it stands beside it; removed at the same instant it never stood.
    assert surely_deleted(pod, placed, make_event(160, "taint", "n0", taint="A=y:NoSchedule"))
    assert surely_deleted(pod, placed, make_event(150, "untaint", "n0", taint="A")) == {}


@pytest.mark.parametrize("release", ["1.16.4", "1.18.20", "1.37.0"])
def test_who_does_not_tolerate_a_taint_waits_for_no_other_countdown(release: str) -> None:
    silent = make_event(1, "kubelet-stop", "n0")
    placed = make_event(150, "taint", "n0", taint="B:NoExecute")
    pod = make_pod("p", "n0", tolerations=default_tolerations(300))
    assert surely_deleted(pod, silent, placed, release=release) == {pod.key: 150}
    # Whoever tolerates it, however short, may have to wait for the countdown that runs.
    shortly = [*default_tolerations(300), Toleration("B", "Exists", "", "NoExecute", 0)]
    pod = make_pod("p", "n0", tolerations=shortly)
    assert surely_deleted(pod, silent, placed, release=release) != {pod.key: 150}


@pytest.mark.parametrize("release", ["1.16.15", "1.18.6", "1.29.6"])
def test_up_to_1_18_no_bound_has_a_taint_come_back_that_somebody_took_off(release: str) -> None:
    pod = make_pod("p", "n0", tolerations=default_tolerations(60))
    events = [
        make_event(1, "kubelet-stop", "n0"),
        make_event(80, "untaint", "n0", taint=f"{UNREACHABLE}:NoExecute"),
        # Whatever else changes in the zone afterwards.
        make_event(120, "kubelet-stop", ["n1", "n2"]),
    ]
    found = surely_deleted(pod, *events, release=release)
    assert set(found) == ({pod.key} if release == "1.29.6" else set())
    assert set(surely_deleted(pod, events[0], release=release)) == {pod.key}


@pytest.mark.parametrize("release", ["1.16.15", "1.18.6", "1.29.6"])
def test_a_node_that_a_tick_surely_finds_ready_in_between_is_put_in_line_again(
    release: str,
) -> None:
    pod = make_pod("p", "n0", tolerations=default_tolerations(60))
    down, again = (make_event(at, "node-ready", "n0", status="False") for at in (100, 150))
    seen, unseen = (make_event(at, "node-ready", "n0", status="True") for at in (120, 149))
    # Too short a time for the first taint to be sure.
    assert set(surely_deleted(pod, down, seen, again, release=release)) == {pod.key}
    found = surely_deleted(pod, down, unseen, again, release=release)
    assert set(found) == ({pod.key} if release == "1.29.6" else set())


@pytest.mark.parametrize("release", ["1.18.6", "1.19.3", "1.20.4", "1.29.6"])
def test_a_new_process_serves_whoever_stays_down_whatever_was_in_line_before(release: str) -> None:
    pod = make_pod("p", "n0", tolerations=default_tolerations(60))
    events = [
        make_event(1, "kubelet-stop", ["n0", "n1"]),
        make_event(200, "controller-stop"),
        make_event(210, "controller-start"),
    ]
    assert set(surely_deleted(pod, *events, release=release)) == {pod.key}
    # Up to 1.20.4 what n1 has in line when it is Ready again stays at the head for ever.
    back = make_event(400, "kubelet-start", "n1")
    found = surely_deleted(pod, events[0], *events[1:], back, release=release)
    assert set(found) == {pod.key}


def test_only_a_pod_whose_name_was_used_before_may_go_at_any_time() -> None:
    first = make_pod("p", "n0", tolerations=[tolerates("A", 30)], uid="one")
    second = make_pod("p", "n1", tolerations=[tolerates("A", 30)], uid="two")
    events = [
        make_event(100, "taint", "n0", taint="A:NoExecute"),
        make_event(120, "untaint", "n0", taint="A"),
        make_event(140, "taint", "n0", taint="A:NoExecute"),
        make_event(300, "pod-create", pod=second),
    ]
    found = possible(first, *events).possible[first.key]
    spans = {(each.pod.uid, *(at_ns // 10**9 for at_ns in each.span)) for each in found}
    assert {span for span in spans if span[0] == "one"} == {("one", 170, 170)}
    assert {span for span in spans if span[0] == "two"} == {("two", 300, NEVER_NS // 10**9)}
    assert surely_deleted(first, *events) == {first.key: 170}


@pytest.mark.parametrize(("other", "by"), [("p", None), ("another", ns(3))])
def test_a_pod_is_not_surely_created_whose_name_one_on_another_node_has(
    other: str, by: int | None
) -> None:
    nodes = [make_node("n0"), make_node("n1", taints=["A:NoExecute"])]
    snapshot = make_snapshot(nodes, [make_pod(other, "n0")])
    created = make_pod("p", "n1", uid="two")
    scenario = make_scenario([make_event(3, "pod-create", pod=created)], horizon=100)
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    bounds = WideBounds.of(snapshot, scenario, configuration)
    versions = bounds.fates.versions((), {"n1"})[created.key]
    assert bounds.sure.first_deleted_by_ns(versions, "two") == by


def test_a_zone_that_is_new_leaves_all_others_without_tokens() -> None:
    nodes = [make_node(f"n{zone}", zone=zone) for zone in "abc"]
    snapshot = make_snapshot(nodes, [make_pod("p", "na")])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    silent = make_event(1, "kubelet-stop", ["na", "nb", "nc"])
    anew = [make_event(100, "node-delete", "nc"), make_event(120, "node-create", node=nodes[2])]
    for back, served in (([make_event(120, "kubelet-start", "nc")], {"default/p"}), (anew, set())):
        scenario = make_scenario([silent, *back], horizon=900)
        world = World(snapshot, scenario, configuration)
        run = simulate(*(world.snapshot, world.scenario, world.configuration))
        assert {e.pod for e in run.entries if isinstance(e, PodDeleted)} == served
        assert set(WideWorld(world).certain_by_ns) == served


def test_a_pod_that_terminates_may_go_once_more_when_a_taint_is_taken_off_and_another_stays() -> (
    None
):
    pod = make_pod("p", "n0", deleted=-5)
    taints = ["A:NoExecute", "B:NoExecute"]
    snapshot = make_snapshot([make_node("n0", taints=taints), "n1"], [pod])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    scenario = make_scenario([make_event(8, "untaint", "n0", taint="A")], horizon=100)
    spans = {
        each.span for each in WideWorld(World(snapshot, scenario, configuration)).possible[pod.key]
    }
    assert any(low_ns <= 8 * 10**9 <= high_ns for low_ns, high_ns in spans)


def test_what_is_posted_when_a_process_ends_is_seen_by_the_next_one() -> None:
    snapshot = make_snapshot(["n0", "n1"])
    events = [
        make_event(6, "controller-stop"),
        make_event(6, "node-ready", "n0", status="False"),
        make_event(9, "controller-start"),
        make_event(12, "node-ready", "n0", status="False"),
    ]
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    world = World(snapshot, make_scenario(events, horizon=60), configuration)
    run = simulate(world.snapshot, world.scenario, world.configuration)
    assert not list(WideWorld(world).changes_outside(run))


def test_a_node_waits_for_those_that_may_be_in_line_with_it_and_for_no_others() -> None:
    pod = make_pod("p", "n0")
    silent, later = (
        make_event(1, "kubelet-stop", "n0"),
        make_event(80, "kubelet-stop", ["n3", "n4"]),
    )
    # Given up by 40.2 s, in line by the tick after that: a token has been there for long.
    assert surely_deleted(pod, silent) == {pod.key: 45}
    # Each that may be before it takes one token, ten seconds and a pass.
    beside = make_event(2, "kubelet-stop", ["n1", "n2"])
    assert surely_deleted(pod, silent, beside) == {pod.key: 65}
    # The state of the zone goes on whoever changes in it.
    assert surely_deleted(pod, silent, beside, later) == {pod.key: 65}
    back = [make_event(46, "kubelet-start", "n1"), make_event(51, "kubelet-start", "n2")]
    assert surely_deleted(pod, silent, beside, *back, later) == {pod.key: 65}


def test_a_zone_in_which_everybody_was_ready_for_long_has_its_token_from_the_start() -> None:
    pod = make_pod("p", "n0")
    # The tick until 6 s finds it not ready, and a pass has a token for it at once.
    down = make_event(1, "node-ready", "n0", status="False")
    assert surely_deleted(pod, down, make_event(7, "node-ready", "n0", status="True")) == {
        pod.key: 6
    }
    # Others that were not ready just before may have it, in any order.
    others = make_event(0.5, "node-ready", "n1", status="False")
    assert surely_deleted(pod, down, others) == {pod.key: 16}


def test_where_the_state_of_a_zone_is_not_sure_nobody_knows_when_a_node_is_served() -> None:
    pod = make_pod("p", "n0")
    several = make_event(1, "kubelet-stop", [f"n{number}" for number in range(6)])
    half = make_event(1, "kubelet-stop", "n6")
    # Six of twelve are fewer than 55 %, seven are not; whether the zone is large then decides.
    assert set(surely_deleted(pod, several)) == {pod.key}
    assert surely_deleted(pod, several, half) == {}


def test_who_was_served_before_takes_no_more_tokens() -> None:
    pod = make_pod("p", "n0")
    silent = make_event(100, "kubelet-stop", "n0")
    alone = surely_deleted(pod, silent)
    before = make_event(1, "kubelet-stop", ["n1", "n2"])
    assert alone == surely_deleted(pod, before, silent)
    # Of a node that may be back at any time it is not known whether it was.
    back = make_event(50, "kubelet-start", ["n1", "n2"], within_ns=400 * 10**9)
    assert alone != surely_deleted(pod, before, back, silent)


def test_who_was_served_before_all_zones_were_down_takes_a_token_again_afterwards() -> None:
    pod, names = make_pod("p", "n0"), [f"n{number}" for number in range(12)]
    back = make_event(400, "kubelet-start", names[3:])
    all_at_once = surely_deleted(pod, make_event(300, "kubelet-stop", names), back)
    rest = make_event(300, "kubelet-stop", [names[0], *names[3:]])
    before = make_event(1, "kubelet-stop", ["n1", "n2"])
    alone = surely_deleted(pod, before, rest, make_event(400, "kubelet-start", names[1:]))
    found = surely_deleted(pod, before, rest, back)
    assert alone[pod.key] < found[pod.key] <= all_at_once[pod.key]


def test_what_a_deleted_node_leaves_in_line_takes_no_token_before_it_is_deleted() -> None:
    pod, silent = make_pod("p", "n0"), make_event(100, "kubelet-stop", "n0")
    alone = surely_deleted(pod, silent)
    assert surely_deleted(pod, silent, make_event(400, "node-delete", "n1")) == alone
    assert surely_deleted(pod, make_event(90, "node-delete", "n1"), silent) != alone


def test_each_token_is_taken_by_whoever_can_be_in_line_then() -> None:
    pod, others = make_pod("p", "n0"), [f"n{number}" for number in range(1, 5)]
    silent = make_event(100, "kubelet-stop", ["n0", *others])
    alone = surely_deleted(pod, make_event(100, "kubelet-stop", "n0"))[pod.key]
    # Four others are back when two of them can have been served.
    found = surely_deleted(pod, silent, make_event(150, "kubelet-start", others))[pod.key]
    assert alone < found < alone + 4 * 10


def test_in_a_zone_that_is_surely_served_by_nobody_no_taint_comes() -> None:
    pod = make_pod("p", "n0")
    most = make_event(1, "kubelet-stop", [f"n{number}" for number in range(1, 9)])
    late = make_event(200, "kubelet-stop", "n0")
    assert not possible(pod, most, late).possible[pod.key]
    few = make_event(1, "kubelet-stop", ["n1", "n2"])
    assert possible(pod, few, late).possible[pod.key]


def test_a_grace_period_begins_anew_only_after_all_zones_were_down() -> None:
    pod = make_pod("p", "n0")
    silent = make_event(1, "kubelet-stop", "n0")
    rest = [f"n{number}" for number in range(1, 12)]
    for at, found in ((3, set()), (200, {pod.key})):
        down = make_event(at, "kubelet-stop", rest)
        back = make_event(at + 100, "kubelet-start", rest[:4])
        assert set(surely_deleted(pod, silent, down, back)) == found


def test_a_late_informer_wastes_tokens_on_those_only_that_are_just_given_up() -> None:
    pod, others = make_pod("p", "n0"), [f"n{number}" for number in range(1, 6)]
    silent = make_event(60, "kubelet-stop", "n0")
    found = {
        (release, at): surely_deleted(
            pod, silent, make_event(at, "kubelet-stop", others), release=release
        )[pod.key]
        for release in ("1.29.6", "1.37.0")
        for at in (20, 60)
    }
    # Of five others that wait already some have been served when it is given up.
    assert found["1.29.6", 20] < found["1.29.6", 60]
    assert found["1.37.0", 20] < found["1.37.0", 60]
    # From 1.34 on it is put in line once more; tokens that are wasted on others are spent by then.
    for at in (20, 60):
        assert 0 < found["1.37.0", at] - found["1.29.6", at] < 50


def test_a_node_that_never_posted_has_its_startup_grace_period() -> None:
    fresh = make_node("fresh", ready=None, created=-10)
    snapshot = replace(
        make_snapshot(["n0", "n1"], [make_pod("p", "fresh")]),
        nodes=(*make_snapshot(["n0", "n1"]).nodes, fresh),
    )
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    silent = make_event(1, "kubelet-stop", "n0")
    assert earliest(snapshot, configuration, silent) == {"default/p": 50}
    # What the process remembers of the Node before it counts for one that is made anew.
    events = [
        make_event(20, "node-delete", "fresh"),
        make_event(30, "node-create", node=replace(fresh, creation_timestamp_ns=0)),
    ]
    assert earliest(snapshot, configuration, *events)["default/p"] == 30


@pytest.mark.parametrize(("back", "counts_from"), [(-1, 0), (-1000, 20)])
def test_where_all_zones_were_down_a_grace_period_counts_from_then_and_from_no_later_creation(
    back: float, counts_from: int
) -> None:
    """A creationTimestamp may lie in the future where a clock is wrong."""
    nodes = [make_node("n0", transition=back), make_node("fresh", ready=None, created=20)]
    snapshot = make_snapshot(nodes, [make_pod("p", "fresh")])
    snapshot = replace(snapshot, leases={"n0": snapshot.leases["n0"]})
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    assert earliest(snapshot, configuration)["default/p"] == counts_from + 60


@pytest.mark.parametrize(("apart", "heard"), [(0.4, 5), (1.4, 6.4)])
def test_a_status_is_no_heartbeat_in_the_second_of_the_one_before(
    apart: float, heard: float
) -> None:
    """Times in conditions are whole seconds; a tick between both saw the first."""
    events = [
        make_event(5, "node-ready", "n0", status="False"),
        make_event(5 + apart, "node-ready", "n0", status="True"),
        make_event(7, "kubelet-stop", "n0", last_heartbeat=4),
    ]
    snapshot = make_snapshot(["n0", "n1"])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    bounds = WideBounds.of(snapshot, make_scenario(events, horizon=100), configuration).changes
    spans = list(bounds.changes(NodeChangeKey("n0", "ready", "Unknown")))
    grace_ns = configuration.node_monitor_grace_period_ns
    assert ns(0) <= min(low_ns for low_ns, _ in spans) - grace_ns - ns(heard) < ns(0.1)


def earliest(
    snapshot: ClusterSnapshot, configuration: ControllerConfiguration, *events: ScenarioEvent
) -> dict[str, int]:
    """When taint eviction deletes each pod at the earliest, in whole seconds."""
    found = WideWorld(World(snapshot, make_scenario([*events], horizon=300), configuration))
    return {
        name: min(each.span[0] for each in possible if each.decision is not None) // 10**9
        for name, possible in found.possible.items()
        if any(each.decision is not None for each in possible)
    }


def test_what_somebody_does_to_a_taint_that_follows_the_status_is_put_right() -> None:
    nodes = [
        make_node("n0", ready="Unknown", taints=[f"{UNREACHABLE}:NoSchedule"]),
        make_node("n1"),
    ]
    events = [
        make_event(30, "untaint", ("n0", "n1"), taint=UNREACHABLE),
        make_event(40, "taint", "n1", taint=f"{UNREACHABLE}:NoSchedule"),
    ]
    snapshot = make_snapshot(nodes, leases=[make_lease("n0", -300)])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    scenario = make_scenario(events, horizon=100)
    bounds = WideBounds.of(snapshot, scenario, configuration).changes
    at_ns = {
        (name, what): [
            span
            for span in bounds.changes(NodeChangeKey(name, what, f"{UNREACHABLE}:NoSchedule"))
            if span[0] == span[1]
        ]
        for name in ("n0", "n1")
        for what in (TAINT_ADDED, TAINT_REMOVED)
    }
    assert (ns(30), ns(30)) in at_ns["n0", TAINT_ADDED]
    assert (ns(30), ns(30)) not in at_ns["n1", TAINT_ADDED]
    assert (ns(40), ns(40)) in at_ns["n1", TAINT_REMOVED]


@pytest.mark.parametrize("effect", ["NoExecute", "NoSchedule"])
def test_a_taint_of_the_start_comes_again_only_after_it_may_be_gone(effect: str) -> None:
    value = f"{UNREACHABLE}:{effect}"
    taints = [f"{UNREACHABLE}:{each}" for each in ("NoExecute", "NoSchedule")]
    dead = make_node("n0", ready="Unknown", taints=taints)
    snapshot = make_snapshot([dead, make_node("n1")], leases=[make_lease("n0", -300)])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)

    def comes(*events: ScenarioEvent) -> list[int]:
        scenario = make_scenario([make_event(10, "cordon", "n0"), *events], horizon=100)
        bounds = WideBounds.of(snapshot, scenario, configuration).changes
        return [low for low, _ in bounds.changes(NodeChangeKey("n0", TAINT_ADDED, value))]

    assert comes() == []
    assert comes(make_event(30, "untaint", "n0", taint=value)) == [ns(30)]
