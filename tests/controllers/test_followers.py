"""Pods of nodes that only fall silent are told of by their kind: as if each were simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from building.builders import (
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    tolerates,
)
from drawn.soak_worlds import draw_soak_world
from msgspec.structs import replace
from realities.drawn_realities import World, draw_world

from kubectl_evictplan.cluster.timeline import AboutPod, Entry, PodsMarkedNotReady, Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration, resolve_configuration
from kubectl_evictplan.controllers.followers import Followers, NotOnlySilentError, followers_by_node
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Pod, Taint
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate, simulate_each_pod

RELEASE = resolve_configuration(
    ControllerSettings(kubernetes_version="1.29.6"), ControlPlaneFlags()
)
UNREACHABLE_10 = tolerates("node.kubernetes.io/unreachable", 10)
UNREACHABLE_FOREVER = tolerates("node.kubernetes.io/unreachable")


def followers(world: World) -> Mapping[str, Sequence[Pod]]:
    return followers_by_node(world.snapshot, world.scenario, world.configuration)


def each_pod(world: World, by_node: Mapping[str, Sequence[Pod]] | None = None) -> Timeline:
    timing = Timing(monitor_phase_ns=world.configuration.nominal_phase_ns())
    known = world.snapshot, world.scenario, world.configuration, timing
    return simulate_each_pod(*known, followers=by_node or {})


def facts(run: Timeline) -> tuple[object, ...]:
    entries = list(map(without_time_of_taint, run.entries))
    return run.start_ns, run.end_ns, run.complete, entries, run.queue_log


def without_time_of_taint(entry: Entry) -> Entry:
    """For which taint pods go is told of all nodes alike, not when it was put on this one."""
    if isinstance(entry, AboutPod) and (taint := getattr(entry, "taint", None)) is not None:
        return replace(entry, taint=replace(taint, time_added_ns=None))
    return entry


def check(world: World) -> int:
    """Whether followers go the very way that each of them goes; of how many something is told."""
    by_node = followers(world)
    try:
        derived = each_pod(world, by_node)
    except NotOnlySilentError:
        return 0
    assert facts(derived) == facts(each_pod(world))
    about_pods = (entry for entry in derived.entries if isinstance(entry, AboutPod))
    return sum(entry.node in by_node for entry in about_pods)


def plain(world: World) -> World:
    """The world with pods that may all follow their nodes."""
    pods = [replace(pod, termination_grace_period_seconds=5) for pod in world.snapshot.pods]
    pods = [replace(pod, deletion_timestamp_ns=None, finalizers=()) for pod in pods]
    return World(replace(world.snapshot, pods=tuple(pods)), world.scenario, world.configuration)


def test_what_is_told_of_followers_is_what_a_run_of_each_of_them_tells() -> None:
    actions = ("kubelet-stop", "kubelet-stop", "taint")
    worlds = (draw_world(seed, actions=actions, short=True) for seed in range(7000, 7060))
    assert sum(check(plain(world)) for world in worlds) > 15


@pytest.mark.slow
def test_that_holds_in_worlds_as_users_have_them() -> None:
    worlds = (draw_soak_world(seed) for seed in range(91_000, 91_700))
    told = [check(each.world) for each in worlds if "drains" not in each.kind]
    assert sum(map(bool, told)) > 30


def world_of(
    pods: list[Pod], *events: ScenarioEvent, configuration: ControllerConfiguration = RELEASE
) -> World:
    nodes = [make_node(name, zone="a") for name in ("n1", "n2", "n3")]
    nodes.append(make_node("other", zone="b"))
    silence = make_event(1, "kubelet-stop", ["n1", "n2"])
    return World(make_snapshot(nodes, pods), make_scenario([silence, *events]), configuration)


def pods_of_every_sort(node: str) -> list[Pod]:
    return [
        make_pod(f"later-{node}", node, tolerations=[UNREACHABLE_10]),
        make_pod(f"never-{node}", node, tolerations=[UNREACHABLE_FOREVER]),
        make_pod(f"at-once-{node}", node, tolerations=[]),
        make_pod(f"alike-{node}", node, tolerations=[UNREACHABLE_10]),
    ]


def test_pods_of_nodes_whose_kubelet_only_stops_follow() -> None:
    world = world_of([*pods_of_every_sort("n1"), *pods_of_every_sort("n2")])
    assert {name: len(pods) for name, pods in followers(world).items()} == {"n1": 4, "n2": 4}
    assert check(world) == 2 * (3 + 1 + 2 + 3)


def test_lists_of_tolerations_that_come_to_the_same_have_one_course(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find, found = Followers._find_course, list[Pod]()

    def find_course(self: Followers, pod: Pod, taints: tuple[Taint, ...]) -> object:
        found.append(pod)
        return find(self, pod, taints)

    monkeypatch.setattr(Followers, "_find_course", find_course)
    own = [tolerates(f"own-{number}") for number in range(4)]
    lists = [[UNREACHABLE_10], [UNREACHABLE_10, own[0]], [own[1], UNREACHABLE_10], own[2:], []]
    pods = [
        make_pod(f"{place}-{node}", node, tolerations=some)
        for node in ("n1", "n2")
        for place, some in enumerate(lists)
    ]

    # Of each pod its timer, where it has one, its mark and its deletion.
    assert check(world_of(pods)) == 2 * (3 * 3 + 2 * 2)
    assert [pod.name for pod in found] == ["0-n1", "2-n1", "3-n1"]


def test_followers_count_among_the_pods_that_are_marked_not_ready_once() -> None:
    world = world_of(pods_of_every_sort("n1"))
    derived = each_pod(world, followers(world))
    marked = [entry for entry in derived.entries if isinstance(entry, PodsMarkedNotReady)]
    assert [(entry.node, entry.count) for entry in marked] == [("n1", 4)]


@pytest.mark.parametrize(
    "event",
    [
        make_event(900, "kubelet-start", ["n1"]),
        make_event(900, "taint", ["n1"], taint="A:NoExecute"),
        make_event(900, "node-delete", ["n1"]),
        make_event(900, "pod-delete", pods=["default/never-n1"]),
    ],
    ids=lambda event: event.action,
)
def test_nobody_follows_where_something_else_happens_to_the_node_or_one_of_its_pods(
    event: ScenarioEvent,
) -> None:
    world = world_of([*pods_of_every_sort("n1"), *pods_of_every_sort("n2")], event)
    assert followers(world).keys() == {"n2"}
    assert check(world) > 0


def test_nobody_follows_where_the_controllers_start_anew() -> None:
    world = world_of(pods_of_every_sort("n1"), make_event(900, "controller-stop"))
    assert not followers(world)


@pytest.mark.parametrize(
    ("release", "follow"), [("1.19.3", False), ("1.20.4", False), ("1.19.9", True)]
)
def test_nobody_follows_where_entries_left_in_line_taint_nodes_again(
    release: str, follow: bool
) -> None:
    settings = ControllerSettings(kubernetes_version=release)
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    world = world_of(pods_of_every_sort("n1"), configuration=configuration)
    assert bool(followers(world)) == follow


@pytest.mark.parametrize(
    "pod",
    [
        make_pod("odd", "n1", finalizers=["a/b"]),
        make_pod("odd", "n1", grace_seconds=0),
        make_pod("odd", "n1", phase="Succeeded"),
    ],
    ids=["finalizers", "no grace period", "finished"],
)
def test_nobody_follows_beside_a_pod_that_others_may_end(pod: Pod) -> None:
    assert not followers(world_of([*pods_of_every_sort("n1"), pod]))


def test_pods_are_simulated_one_by_one_where_their_node_loses_its_taint_again() -> None:
    # All zones are down at last: taints are taken off all nodes, and timers are cancelled.
    pods = [
        make_pod("p", "n1", tolerations=[tolerates("node.kubernetes.io/unreachable", 900)]),
    ]
    world = world_of(pods, make_event(120, "kubelet-stop", ["n3", "other"]))
    with pytest.raises(NotOnlySilentError):
        each_pod(world, followers(world))
    timing = Timing(monitor_phase_ns=RELEASE.nominal_phase_ns())
    run = simulate(world.snapshot, world.scenario, world.configuration, timing)
    assert facts(run) == facts(each_pod(world))
