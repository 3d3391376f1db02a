"""The nominal run may be made by another process beside the exploration: nobody can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from building.builders import (
    default_tolerations,
    encoded,
    make_event,
    make_pod,
    make_scenario,
    make_snapshot,
)

from kubectl_evictplan.cluster import carried_runs
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.prediction import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows import exploration
from kubectl_evictplan.windows.budget import NODE_RUNS_MIN

NODES = ("n1", "n2", "n3")
PODS = [make_pod(f"web-{name}", node=name, tolerations=default_tolerations()) for name in NODES]
SNAPSHOT = make_snapshot(NODES, PODS)
SILENCE = make_scenario([make_event(0, "kubelet-stop", NODES[:2])], horizon=900)
CONFIGURATION = resolve_configuration(ControllerSettings(), SNAPSHOT.control_plane)


def test_a_run_arrives_as_it_was() -> None:
    run = simulate(SNAPSHOT, SILENCE, CONFIGURATION, Timing())
    found = carried_runs.unpacked(carried_runs.packed(run))
    assert len(run.entries) > len(PODS)
    for name in run.__struct_fields__:
        assert name == "carried" or getattr(found, name) == getattr(run, name)


def test_a_run_that_arrived_goes_on_as_it_came() -> None:
    text = carried_runs.packed(simulate(SNAPSHOT, SILENCE, CONFIGURATION, Timing()))
    found = carried_runs.unpacked(text)
    assert found.carried == text
    assert carried_runs.packed(found) == text


@contextmanager
def at_once(function: Callable[[], bytes]) -> Iterator[Callable[[], bytes]]:
    text = function()
    yield lambda: text


@contextmanager
def never(function: Callable[[], bytes]) -> Iterator[Callable[[], None]]:
    yield lambda: None


@pytest.mark.parametrize("beside", [at_once, never])
@pytest.mark.parametrize("fewest", [NODE_RUNS_MIN, 320])
def test_the_nominal_run_may_be_made_beside_the_exploration(
    beside: predict.Beside, fewest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = SNAPSHOT, SILENCE, CONFIGURATION
    usual = predict.predict(*given)
    asked: list[int] = []

    def planned(*_: object) -> int:
        asked.append(fewest)
        return fewest

    monkeypatch.setattr(predict, "_MANY_NODES", 2)
    monkeypatch.setattr(exploration, "runs_planned", planned)
    monkeypatch.setattr(predict, "runs_planned", planned)
    found = predict.predict(*given, beside=beside)
    assert encoded(found) == encoded(usual)
    # What was explored on a wrong guess is explored again.
    assert len(asked) == (1 if fewest == NODE_RUNS_MIN else 2)


def test_few_nodes_are_not_worth_it() -> None:
    predict.predict(SNAPSHOT, SILENCE, CONFIGURATION, beside=lambda _: pytest.fail("it is asked"))
