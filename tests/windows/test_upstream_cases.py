"""Predictions agree with upstream's own node lifecycle controller (see fixtures/upstream/README.md)."""

from __future__ import annotations

import pytest
from upstream_runs import RELEASE, UPSTREAM, Case, load_cases

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.document import Eviction, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.files import load_scenario
from kubectl_evictplan.sources.files import load_files

CASES = load_cases()
# One of nearly every family, the quickest that have something to disagree about.
QUICK = (
    "allfull-1110",
    "mix-1500",
    "mix-660",
    "partial-870",
    "qdelete-130",
    "qreturn-30",
    "rates-1220",
    "restart-1100",
    "startup-70",
    "status-550",
    "swap-430",
    "threshold-1120",
    "tick-1070",
)


@pytest.mark.parametrize("case", [c for c in CASES if c.name in QUICK], ids=lambda case: case.name)
def test_a_scenario_ends_as_with_upstreams_controller(case: Case) -> None:
    assert not [line for release in case.exact for line in case.disagreements(release)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name not in QUICK], ids=lambda case: case.name
)
def test_every_copied_scenario_ends_as_with_upstreams_controller(case: Case) -> None:
    assert not [line for release in case.exact for line in case.disagreements(release)]


@pytest.mark.slow
@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize("name", ["mix-500", "status-210"])
def test_a_few_nodes_that_come_and_go_in_small_zones_are_explored_wholly(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    prediction = predict(*case.question(RELEASE, phase_known=False))
    assert prediction.inputs.coverage is not None
    assert not prediction.inputs.coverage.outer_bound


# -- cases that were once predicted wrongly ---------------------------------------------------------


def predicted(name: str, cluster: str = "nine-nodes") -> Prediction:
    snapshot = load_files([str(UPSTREAM / f"{cluster}.yaml")])
    file = UPSTREAM / f"{name}.scenario.yaml"
    loaded = load_scenario(file.read_text(encoding="utf-8"), file.name, snapshot)
    configuration = resolve_configuration(loaded.settings, snapshot.control_plane)
    return predict(snapshot, loaded.scenario, configuration)


def evictions(prediction: Prediction, pod: str) -> list[Eviction]:
    return [eviction for eviction in prediction.evictions if eviction.pod == pod]


def admitted(found: list[Eviction], at: float) -> bool:
    return any(one.earliest_seconds <= at <= one.latest_seconds for one in found)


def test_a_node_that_comes_back_before_its_turn_may_have_had_any_turn_before() -> None:
    (found,) = evictions(predicted("back-before-its-turn"), "p-a3")
    assert found.certainty == "possible"
    assert found.earliest_seconds == 44
    assert 69 <= found.latest_seconds <= 70


def test_a_token_can_be_back_right_after_the_tick_that_queues_a_node() -> None:
    (found,) = evictions(predicted("token-after-the-tick"), "p-a2")
    assert 54 <= found.earliest_seconds <= 54.03


def test_two_waits_of_which_neither_is_certain_make_no_certain_eviction() -> None:
    """Upstream did not evict it in 229 of 400 runs."""
    found = evictions(predicted("restart-while-waiting"), "p-a2")
    assert {one.certainty for one in found} == {"possible"}


def test_from_1_30_a_node_without_ready_takes_the_tokens_of_the_others() -> None:
    found = evictions(predicted("no-ready-eats-tokens"), "p-a2")
    assert admitted(found, 211.1)


def test_a_node_that_never_posted_is_judged_from_its_creation() -> None:
    prediction = predicted("never-posted", "never-posted")
    (unknown,) = (
        change
        for report in prediction.nodes
        if report.node == "f"
        for change in report.changes
        if change.what == "ready"
    )
    assert unknown.value == "Unknown"
    assert (unknown.earliest_seconds, round(unknown.latest_seconds, 1)) == (30, 35)


def test_the_startup_deadline_of_a_created_node_is_as_open_as_any_tick() -> None:
    (found,) = evictions(predicted("created-and-silent", "three-nodes"), "p-f")
    assert found.earliest_seconds == 70
    assert 75.08 <= found.latest_seconds <= 75.2


@pytest.mark.parametrize(
    ("scenario", "earliest"),
    [("recreated-and-silent-again", 195), ("recreated-without-ready", 120)],
)
def test_a_silent_node_may_be_deleted_created_again_and_fail_again(
    scenario: str, earliest: float
) -> None:
    (found,) = evictions(predicted(scenario, "three-nodes"), "q")
    assert found.certainty == "certain"
    assert found.earliest_seconds == earliest
    assert found.latest_seconds <= earliest + 5.3
