"""Whatever world and scenario: the impact holds together, and the same input gives the same bytes."""

from __future__ import annotations

import random
import re

import pytest
from building.builders import encoded
from drawn.drain_worlds import draw_drained_world
from drawn.strategies import World, worlds
from hypothesis import given, settings
from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import is_up_at_start, observed_at_ns
from kubectl_evictplan.controllers.flags import ControllerConfiguration, resolve_configuration
from kubectl_evictplan.impact.assess import assess_impact
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.impact_document import Impact, Instant, Spell, Step
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.prediction.records import NotableRows
from kubectl_evictplan.report.costs import costs
from kubectl_evictplan.scenarios.scenario import Scenario


def assert_sound(
    snapshot: ClusterSnapshot, scenario: Scenario, configuration: ControllerConfiguration
) -> None:
    known = (snapshot, scenario, configuration)
    prediction = predict(*known)
    impact = assess_impact(*known, prediction)
    assert_short_answers_need_no_other_rows(impact, prediction)
    assert encoded(impact) == encoded(assess_impact(*known, prediction))
    for one in impact.services:
        assert_curve(one.endpoints_before, one.fewest_ready.least, one.steps)
        assert one.fewest_answering.least <= one.fewest_answering.most
    for workload in impact.workloads:
        assert_curve(workload.ready_before, workload.fewest_ready.least, workload.steps)
    for budget in impact.budgets:
        assert_curve(budget.healthy_before, budget.fewest_healthy.least, budget.steps)
        assert 0 <= budget.broken_by.least <= budget.broken_by.most
    for spell in spells(impact):
        assert_spell(spell)
    assert_only_silent_nodes_are_told_to_be_off(snapshot, scenario, impact)


def assert_short_answers_need_no_other_rows(impact: Impact, prediction: Prediction) -> None:
    """What rows of notable ones say is what all of them say."""
    told = list(costs(replace(prediction, impact=impact)))
    every = replace(
        impact, services=tuple(impact.services), replacements=tuple(impact.replacements)
    )
    assert told == list(costs(replace(prediction, impact=every)))
    for rows in (impact.services, impact.replacements):
        assert isinstance(rows, NotableRows)
        kept = [row for row in rows if row in rows.notable]
        assert list(rows.notable) == kept


def assert_only_silent_nodes_are_told_to_be_off(
    snapshot: ClusterSnapshot, scenario: Scenario, impact: Impact
) -> None:
    """The taint deletes the pods and detaches the volumes of a machine that runs."""
    seen_ns = observed_at_ns(snapshot, scenario.start_ns)
    silent = {
        node.name
        for node in snapshot.nodes
        if not is_up_at_start(node, snapshot.leases.get(node.name), seen_ns)
    }
    for event in scenario.events:
        if event.kubelets_up is not None:
            silent = (
                silent.difference(event.nodes) if event.kubelets_up else silent.union(event.nodes)
            )
    remedies = [one.remedy for one in impact.findings]
    for remedy in [*remedies, *(one.release for one in impact.not_coming_back)]:
        told = re.findall(r"kubectl taint node (\S+) \S*out-of-service", remedy)
        assert len(told) == remedy.count("out-of-service")
        assert silent.issuperset(told)


def assert_curve(before: int, fewest: int, steps: tuple[Step, ...]) -> None:
    assert all(0 <= step.least <= step.most for step in steps)
    assert min([before, *(step.least for step in steps)]) == fewest
    instants = [step.at_seconds for step in steps]
    assert instants == sorted(set(instants))


def spells(impact: Impact) -> list[Spell]:
    found = [spell for one in impact.services for spell in (*one.nobody_ready, *one.nobody_answers)]
    found += [spell for one in impact.workloads for spell in (*one.zero, *one.below_before)]
    return found + [spell for one in impact.budgets for spell in one.broken]


def assert_spell(spell: Spell) -> None:
    assert_instant(spell.since)
    assert_instant(spell.until)
    assert spell.since.earliest_seconds is not None
    if spell.certainty == "certain":
        assert spell.since.latest_seconds is not None
    if spell.most_seconds is not None:
        assert spell.least_seconds is not None
        assert spell.least_seconds <= spell.most_seconds + 1e-6


def assert_instant(when: Instant) -> None:
    if when.latest_seconds is not None:
        assert when.earliest_seconds is not None
        assert when.earliest_seconds <= when.latest_seconds


@settings(max_examples=10, deadline=None, derandomize=True)
@given(worlds())
def test_the_impact_of_any_world_is_sound(world: World) -> None:
    configuration = resolve_configuration(world.settings, world.snapshot.control_plane)
    assert_sound(world.snapshot, world.scenario, configuration)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(worlds())
def test_the_impact_of_very_many_worlds_is_sound(world: World) -> None:
    configuration = resolve_configuration(world.settings, world.snapshot.control_plane)
    assert_sound(world.snapshot, world.scenario, configuration)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_the_impact_of_any_drain_is_sound(seed: int) -> None:
    world = draw_drained_world(random.Random(seed))
    assert_sound(world.snapshot, world.scenario, world.configuration)
