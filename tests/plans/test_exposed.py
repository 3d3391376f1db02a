"""Which nodes may be given replacements before their taint, so that a run would end there."""

from __future__ import annotations

import pytest
from building.builders import make_event
from plans.planned import plan_of, small_cluster

from kubectl_evictplan.plans.exposed import exposed_nodes
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

CLUSTER = small_cluster()


def taint(seconds: float, *nodes: str) -> ScenarioEvent:
    return make_event(seconds, "taint", nodes, taint="maint=yes:NoExecute")


def cordon(seconds: float, *nodes: str) -> ScenarioEvent:
    return make_event(seconds, "cordon", nodes)


def exposed(*events: ScenarioEvent) -> list[tuple[str, int]]:
    return list(map(tuple, exposed_nodes(plan_of(CLUSTER, *events))))


def codes(*events: ScenarioEvent) -> set[str]:
    return {one.code for one in plan_of(CLUSTER, *events).prediction.warnings}


@pytest.mark.parametrize(
    ("events", "nodes"),
    [
        # One node alone has nobody's replacements to fear.
        ([taint(0, "a1")], []),
        # a1 loses two of web and one of db (bare pods are not replaced); b1 gets its taint later.
        ([taint(0, "a1"), taint(60, "b1")], [("b1", 3)]),
        ([taint(0, "a1"), taint(60, "b1"), taint(90, "b2")], [("b1", 3), ("b2", 4)]),
        # One after the other is later, too, also when both are planned for one instant.
        ([taint(0, "a1", "b1")], [("b1", 3)]),
        ([cordon(0, "a1", "b1"), taint(1, "a1"), taint(60, "b1")], []),
        ([taint(0, "a1"), cordon(30, "b1"), taint(60, "b1")], []),
        ([make_event(0, "taint", ["a1", "b1"], taint="maint=yes:NoSchedule")], []),
    ],
)
def test_a_node_is_exposed_from_the_first_eviction_elsewhere_to_its_own_taint_or_cordon(
    events: list[ScenarioEvent], nodes: list[tuple[str, int]]
) -> None:
    assert exposed(*events) == nodes


def test_a_prediction_warns_of_what_is_staged() -> None:
    staged = (taint(0, "a1"), taint(60, "b1"))

    assert "replacement-may-be-tainted" in codes(*staged)
    assert "replacement-may-be-tainted" not in codes(taint(0, "a1", "b1"))
    assert "replacement-may-be-tainted" not in codes(cordon(0, "b1"), *staged)
    (told,) = (
        one for one in plan_of(CLUSTER, *staged).prediction.warnings if one.code.endswith("tainted")
    )
    assert tuple(told.objects) == ("b1",)
