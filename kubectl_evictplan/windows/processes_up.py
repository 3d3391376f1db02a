"""When kube-controller-manager runs in a scenario: the lives of its processes, with what is not known of their starts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.simulate import starts_without_controller
from kubectl_evictplan.windows.spans import NEVER_NS, Span


class ProcessLife(msgspec.Struct, frozen=True):
    """One process: it begins within ``begins`` and runs until ``ends_ns``; ``warm``: since long before the start."""

    begins: Span
    ends_ns: int
    warm: bool = False


def process_lives(scenario: Scenario) -> tuple[ProcessLife, ...]:
    """Return all of them in order."""
    return tuple(_lives(scenario))


def ends_of_processes(scenario: Scenario) -> Iterator[ScenarioEvent]:
    """What ends a process: a start does so only where one runs, which it replaces."""
    runs = not starts_without_controller(scenario)
    for event in scenario.events:
        if event.manager_up is None:
            continue
        if runs:
            yield event
        runs = event.manager_up


def _lives(scenario: Scenario) -> Iterator[ProcessLife]:
    begins: Span | None = None if starts_without_controller(scenario) else (0, 0)
    warm = begins is not None
    for event in scenario.events:
        if event.manager_up is None:
            continue
        if begins is not None:
            # A start replaces a process that runs.
            yield ProcessLife(begins, event.latest_ns, warm)
        begins, warm = (event.span if event.manager_up else None), False
    if begins is not None:
        yield ProcessLife(begins, NEVER_NS, warm)
