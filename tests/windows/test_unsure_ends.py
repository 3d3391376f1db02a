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
