"""Pods of nodes that are not there: pod garbage collection deletes them after a quarantine that may have begun before the start."""

from __future__ import annotations

import pytest

from builders import make_event, make_node, make_pod, make_scenario, make_snapshot
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
