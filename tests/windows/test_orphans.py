"""Pods of nodes that are not there: pod garbage collection deletes them after a quarantine that may have begun before the start."""

from __future__ import annotations

import pytest
from building.builders import (
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    tolerates,
)
from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent


def collected(*events: ScenarioEvent) -> list[tuple[float, float]]:
    """When an orphan is collected, which has to wait for 40 s and a loop of those that come every 20 s."""
    snapshot = make_snapshot([make_node("n0")], [make_pod("p", "missing", grace_seconds=0)])
    configuration = resolve_configuration(ControllerSettings("1.33.4"), snapshot.control_plane)
    scenario = make_scenario(list(events), horizon=90)
    (eviction,) = predict(snapshot, scenario, configuration).evictions
    assert eviction.controller == "pod-gc"
    return [(each.earliest_seconds, each.latest_seconds) for each in eviction.windows]


def test_an_orphan_may_have_been_seen_by_no_loop_one_or_two_before_the_start() -> None:
    assert collected() == [(0.0, pytest.approx(80, abs=0.2))]


def test_an_orphan_is_collected_until_its_process_ends_or_it_is_deleted() -> None:
    stops = make_event(25.436, "controller-stop")
    starts = make_event(30.0, "controller-start")
    deleted = make_event(40.0, "pod-delete", pods="default/p")
    assert collected(stops, starts, deleted) == [(0.0, pytest.approx(25.436, abs=0.001))]


def test_a_loop_may_just_end_the_quarantine_before_a_person_deletes_the_pod() -> None:
    # From 10 s on loops come 20 s and their costs apart; the third one finds the pod, or nobody does before 65 s.
    pod = make_pod("p", "gone", grace_seconds=0)
    snapshot = make_snapshot(["n0"], [pod])
    events = [
        make_event(9, "controller-stop"),
        make_event(10, "controller-start"),
        make_event(65, "pod-delete", pods=[pod.key]),
    ]
    settings = ControllerSettings(kubernetes_version="1.29.6")
    configuration = resolve_configuration(settings, snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(events, horizon=100), configuration)
    (eviction,) = prediction.evictions
    assert eviction.latest_seconds == 50.05


def windows(release: str, *events: ScenarioEvent, pod: str = "") -> list[tuple[float, float]]:
    """When pod garbage collection deletes the pod of n1, or one that is created."""
    snapshot = make_snapshot(["n0", "n1"], [make_pod(pod, "n1")] if pod else [])
    configuration = resolve_configuration(ControllerSettings(release), snapshot.control_plane)
    prediction = predict(snapshot, make_scenario(list(events), horizon=120), configuration)
    return [
        (window.earliest_seconds, window.latest_seconds)
        for eviction in prediction.evictions
        if eviction.controller == "pod-gc"
        for window in eviction.windows
    ]


@pytest.mark.parametrize(
    ("release", "at", "window"), [("1.16.15", 12, (5, 12)), ("1.33.4", 52, (45, 52))]
)
def test_an_orphan_may_be_collected_by_any_loop_until_its_node_is_created_again(
    release: str, at: float, window: tuple[float, float]
) -> None:
    again = make_event(at, "node-create", node=make_node("n1", created=None))
    assert windows(release, make_event(5, "node-delete", "n1"), again, pod="p") == [window]


@pytest.mark.parametrize(("release", "latest"), [("1.16.15", 32.025), ("1.33.4", 92.1)])
def test_a_pod_that_is_created_on_a_node_that_is_gone_meets_any_loop_after_that(
    release: str, latest: float
) -> None:
    created = make_event(12, "pod-create", pod=make_pod("q", "n1", created=None))
    ((first, last),) = windows(release, make_event(5, "node-delete", "n1"), created)
    assert first == (12 if release == "1.16.15" else 52) and last == pytest.approx(latest, abs=0.1)


def test_pods_of_a_node_that_is_created_out_of_service_meet_any_loop_once_they_are_deleted() -> (
    None
):
    taint = "node.kubernetes.io/out-of-service=x:NoSchedule"
    node = make_node("n2", ready="False", taints=[taint], created=None)
    found = windows(
        "1.33.4",
        make_event(9, "node-create", node=node),
        make_event(12, "pod-create", pod=make_pod("q", "n2", created=None)),
    )
    # It is deleted at the taint of not-ready, at 14.1 s at the latest.
    assert found == [(12, pytest.approx(14.1 + 20, abs=0.1))]


def test_a_loop_of_a_new_process_may_just_meet_a_node_that_is_gone_by_what_loops_cost() -> None:
    # Loops at 10 s, 30 s and, as far as two of them cost anything, 50 s to 50.05 s.
    events = [
        make_event(9, "controller-stop"),
        make_event(10, "controller-start"),
        make_event(50.01, "node-delete", "n1"),
    ]
    ((earliest, latest),) = windows("1.16.15", *events, pod="p")
    assert (earliest, latest) == (50.01, pytest.approx(70.015, abs=0.001))


def test_quick_loops_of_a_new_process_may_miss_the_end_of_the_quarantine_as_well() -> None:
    # Those at 10 s and 30 s miss the node if one of them costs less than 10 ms; the one at 50 s is the first that does not find it, and
    # the one at 90 s comes just before its 40 s are over.
    events = [
        make_event(9, "controller-stop"),
        make_event(10, "controller-start"),
        make_event(30.01, "node-delete", "n1"),
    ]
    ((earliest, latest),) = windows("1.34", *events, pod="p")
    assert (earliest, latest) == (70.03, pytest.approx(110.05, abs=0.001))


@pytest.mark.parametrize("bound", [False, True])
def test_a_pod_without_a_node_that_is_on_its_way_out_goes_with_the_next_loop(bound: bool) -> None:
    snapshot = make_snapshot(["n0"], [make_pod("p", deleted=-3), make_pod("q", phase="Pending")])
    again = make_event(5, "pod-create", pod=make_pod("p", "n0", uid="another"))
    configuration = resolve_configuration(ControllerSettings("1.34.4"), snapshot.control_plane)
    scenario = make_scenario([again] if bound else [], horizon=90)
    prediction = predict(snapshot, scenario, configuration)
    (eviction,) = prediction.evictions
    window = eviction.earliest_seconds, eviction.latest_seconds
    assert (eviction.certainty, *window) == ("certain", 0, pytest.approx(20.025))


@pytest.mark.parametrize(
    ("release", "gates", "phase", "goes"),
    [
        ("1.25.16", "", "Running", True),
        ("1.26.8", "", "Running", False),
        ("1.26.8", "", "Succeeded", True),
        ("1.26.8", "PodDisruptionConditions=false", "Running", True),
        ("1.28.15", "", "Running", True),
    ],
)
def test_an_orphan_that_cannot_be_marked_as_failed_is_never_collected(
    release: str, gates: str, phase: str, *, goes: bool
) -> None:
    pods = [
        make_pod("orphan", "gone", phase=phase, duplicate_env_or_port=True),
        make_pod("unbound", phase=phase, deleted=-5, duplicate_env_or_port=True),
        make_pod("plain", "gone"),
    ]
    flags = {"feature-gates": gates} if gates else {}
    snapshot = make_snapshot(["n0"], pods)
    settings = ControllerSettings(kubernetes_version=release, flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    prediction = predict(snapshot, make_scenario([], horizon=120), configuration)
    found = {one.pod for one in prediction.evictions if one.controller == "pod-gc"}
    assert found == ({"orphan", "unbound", "plain"} if goes else {"plain"})


@pytest.mark.parametrize(
    ("release", "seconds", "window"), [("1.16.15", 15, (10, 23)), ("1.33.4", 50, (50, 58))]
)
def test_an_orphan_may_be_collected_by_any_loop_until_its_countdown_ends(
    release: str, seconds: int, window: tuple[float, float]
) -> None:
    pod = make_pod("p", "n1", tolerations=[tolerates("A", seconds)], phase="Succeeded")
    snapshot = make_snapshot(["n0", "n1"], [pod])
    configuration = resolve_configuration(ControllerSettings(release), snapshot.control_plane)
    events = [
        make_event(8, "taint", "n1", taint="A=x:NoExecute"),
        make_event(10, "node-delete", "n1"),
    ]
    prediction = predict(snapshot, make_scenario(events, horizon=120), configuration)
    found = {
        each.controller: (each.earliest_seconds, each.latest_seconds)
        for each in prediction.evictions
    }
    assert found == {"pod-gc": window, "taint-eviction": (window[1], window[1])}


def test_an_orphan_may_be_collected_by_any_loop_until_its_node_is_served_without_taint_manager() -> (
    None
):
    node = make_node("n1", ready="Unknown", heartbeat=-70, transition=-30)
    snapshot = make_snapshot(["n0", node], [make_pod("p", "n1", phase="Succeeded")])
    flags = {
        "enable-taint-manager": "false",
        "pod-eviction-timeout": "9s",
        "node-monitor-period": "1s",
    }
    settings = ControllerSettings("1.16.15", flags=flags)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario([make_event(8, "node-delete", "n1")], horizon=60)
    prediction = predict(snapshot, scenario, configuration)
    latest = {each.controller: each.latest_seconds for each in prediction.evictions}
    assert latest["pod-gc"] == latest["node-lifecycle"] > 10


def test_whom_only_a_finalizer_holds_is_not_told_beside_other_orphans_either() -> None:
    held = make_pod("held", "gone", finalizers=["a.b/c"], deleted=-5)
    held = replace(held, deletion_grace_period_seconds=0)
    for others in ([], [make_pod("p", "gone")]):
        snapshot = make_snapshot(["n0"], [held, *others])
        configuration = resolve_configuration(ControllerSettings("1.33.4"), snapshot.control_plane)
        evictions = predict(snapshot, make_scenario([], horizon=120), configuration).evictions
        assert [each.pod for each in evictions] == [pod.name for pod in others]


@pytest.mark.parametrize(("pod_created", "earliest"), [(-500, 5), (-3, 45)])
def test_a_node_that_was_made_anew_shortly_before_the_start_may_be_in_quarantine_still(
    pod_created: float, earliest: float
) -> None:
    """Its pod is older than itself: a loop may have missed it while it was gone, and what it began then goes on."""
    pod = make_pod("p", "n1", grace_seconds=0, created=pod_created)
    snapshot = make_snapshot(["n0", make_node("n1", created=-8)], [pod])
    configuration = resolve_configuration(ControllerSettings("1.29.6"), snapshot.control_plane)
    scenario = make_scenario([make_event(5, "node-delete", "n1")], horizon=120)
    (eviction,) = predict(snapshot, scenario, configuration).evictions
    assert eviction.controller == "pod-gc" and eviction.earliest_seconds == earliest
