"""A pod that terminates where the kubelet says Ready=False may be gone before garbage collection comes, or its countdown ends."""

from __future__ import annotations

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    tolerates,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent


def certainty_of_collection(ready: str, pod: Pod, *events: ScenarioEvent) -> list[str]:
    snapshot = make_snapshot([make_node("a", ready=ready), make_node("b")], [pod])
    settings = ControllerSettings(kubernetes_version="1.37.0")
    configuration = resolve_configuration(settings, snapshot.control_plane)
    gone = make_event(14, "node-delete", "a")
    scenario = make_scenario([*events, gone], horizon=200)
    evictions = predict(snapshot, scenario, configuration).evictions
    return [each.certainty for each in evictions if each.controller == "pod-gc"]


@pytest.mark.parametrize(("ready", "told"), [("False", "possible"), ("Unknown", "certain")])
def test_of_one_that_terminates_at_the_start_it_is_certain_only_where_nobody_ends_pods(
    ready: str, told: str
) -> None:
    assert certainty_of_collection(ready, make_pod("p", "a", deleted=5)) == [told]


def test_of_one_that_somebody_deletes_it_is_not_certain_either() -> None:
    deleted = make_event(3, "pod-delete", pods=["default/p"])
    assert certainty_of_collection("False", make_pod("p", "a"), deleted) == ["possible"]


def test_of_one_that_nobody_has_deleted_before_it_is_certain() -> None:
    tolerant = make_pod("p", "a", tolerations=[tolerates("")])
    assert certainty_of_collection("False", tolerant) == ["certain"]


@pytest.mark.parametrize(("ready", "told"), [("False", "possible"), ("Unknown", "certain")])
def test_the_countdown_of_one_that_somebody_deletes_meanwhile_may_find_nobody(
    ready: str, told: str
) -> None:
    pod = make_pod("p", "a", tolerations=default_tolerations())
    snapshot = make_snapshot([make_node("a", ready=ready), make_node("b")], [pod])
    deleted = make_event(3, "pod-delete", pods=["default/p"])
    settings = ControllerSettings(kubernetes_version="1.37.0")
    configuration = resolve_configuration(settings, snapshot.control_plane)
    [eviction] = predict(snapshot, make_scenario([deleted], horizon=400), configuration).evictions
    assert eviction.certainty == told


def collected(
    pod: Pod, *events: ScenarioEvent, release: str = "1.29.6"
) -> list[tuple[float, float, str]]:
    snapshot = make_snapshot([make_node("a"), make_node("b")], [pod])
    configuration = resolve_configuration(
        ControllerSettings(kubernetes_version=release), snapshot.control_plane
    )
    evictions = predict(snapshot, make_scenario(events, horizon=300), configuration).evictions
    return [
        (each.earliest_seconds, round(each.latest_seconds), each.certainty)
        for each in evictions
        if each.controller == "pod-gc"
    ]


@pytest.mark.parametrize(("release", "within"), [("1.16.15", (0, 20)), ("1.29.6", (40, 80))])
@pytest.mark.parametrize(("at", "told"), [(3.3, True), (3.7, False)])
def test_of_a_pod_that_ends_just_before_its_node_is_deleted_nobody_may_be_told(
    release: str, within: tuple[float, float], at: float, told: bool
) -> None:
    """A kubelet takes up to 600 ms to tell; then the pod is garbage of a Node that is gone."""
    pod = make_pod("p", "a", deleted=-27, grace_seconds=30)
    found = collected(pod, make_event(at, "node-delete", "a"), release=release)
    low, high = within
    assert found == ([(at + low, round(at + high), "possible")] if told else [])


def test_likewise_where_somebody_deletes_it_or_a_taint_does() -> None:
    deleted = make_event(5, "pod-delete", pods=["default/p"])
    tainted = make_event(5, "taint", "a", taint="A:NoExecute")
    for first in (deleted, tainted):
        for at, rows in ((35.5, 1), (35.7, 0)):
            found = collected(
                make_pod("p", "a", grace_seconds=30), first, make_event(at, "node-delete", "a")
            )
            assert [certainty for *_, certainty in found] == ["possible"] * rows
