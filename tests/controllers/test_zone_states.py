"""Zone states, and what a change of them does to limiters and nodes."""

from __future__ import annotations

import pytest

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneCount
from kubectl_evictplan.controllers.node_lifecycle.zone_states import (
    EMPTY,
    FULL,
    INITIAL,
    NORMAL,
    PARTIAL,
    Transition,
    compute_zone_state,
    handle_disruption,
    limiter_rate_qps,
)
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.scenarios.scenario import ControllerSettings

# 0.1 and 0.01 nodes a second, 50 nodes.
DEFAULTS = resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags())
ALL_READY, SOME_DOWN, ALL_DOWN = ZoneCount(4, 0), ZoneCount(1, 3), ZoneCount(0, 4)


@pytest.mark.parametrize(
    ("ready", "not_ready", "state"),
    [
        (4, 0, NORMAL),
        (0, 1, FULL),
        (0, 4, FULL),
        (1, 2, NORMAL),
        (1, 3, PARTIAL),
        (2, 3, PARTIAL),
        (3, 3, NORMAL),
        (9, 11, PARTIAL),
        (27, 33, PARTIAL),
        (45, 54, NORMAL),
        (45, 55, PARTIAL),
    ],
)
def test_a_zone_is_partial_from_three_not_ready_and_the_threshold_on_and_full_without_a_ready_one(
    ready: int, not_ready: int, state: str
) -> None:
    assert compute_zone_state(ZoneCount(ready, not_ready), 0.55) == state


def test_every_zone_full_for_the_first_time_enters_master_disruption() -> None:
    outcome = handle_disruption({"a": ALL_DOWN, "b": ALL_DOWN}, {"a": FULL, "b": NORMAL}, 0.55)
    assert outcome.transition is Transition.ENTER


def test_a_restart_during_a_total_outage_enters_master_disruption_again() -> None:
    assert handle_disruption({"a": ALL_DOWN}, {"a": INITIAL}, 0.55).transition is Transition.ENTER


def test_every_zone_still_full_changes_nothing() -> None:
    outcome = handle_disruption({"a": ALL_DOWN}, {"a": FULL}, 0.55)
    assert outcome.transition is Transition.NOTHING


def test_one_ready_node_ends_master_disruption_for_all_zones() -> None:
    outcome = handle_disruption({"a": SOME_DOWN, "b": ALL_DOWN}, {"a": FULL, "b": FULL}, 0.55)
    assert outcome.transition is Transition.EXIT
    assert outcome.new == {"a": PARTIAL, "b": FULL}


def test_a_new_zone_with_a_ready_node_does_not_end_master_disruption() -> None:
    outcome = handle_disruption({"a": ALL_DOWN, "b": ALL_READY}, {"a": FULL, "b": INITIAL}, 0.55)
    assert outcome.transition is Transition.CHANGED
    assert outcome.new["a"] == outcome.remaining["a"] == FULL


def test_one_full_zone_among_others_is_an_ordinary_change() -> None:
    outcome = handle_disruption({"a": ALL_DOWN, "b": ALL_READY}, {"a": NORMAL, "b": NORMAL}, 0.55)
    assert outcome.transition is Transition.CHANGED


def test_a_zone_without_counted_nodes_is_forgotten_when_the_walk_reaches_it() -> None:
    outcome = handle_disruption({"b": ALL_READY}, {"a": NORMAL, "b": NORMAL}, 0.55)
    assert outcome.remaining == {"b": NORMAL}


def test_the_walk_ends_at_the_first_zone_that_was_not_full() -> None:
    outcome = handle_disruption({"a": ALL_READY}, {"a": NORMAL, "b": EMPTY}, 0.55)
    assert outcome.remaining == {"a": NORMAL, "b": EMPTY}


def test_without_any_counted_node_every_zone_is_vacuously_full() -> None:
    assert handle_disruption({}, {"a": INITIAL}, 0.55).transition is Transition.NOTHING


@pytest.mark.parametrize(
    ("state", "size", "rate"),
    [
        (NORMAL, 4, 0.1),
        (FULL, 4, 0.1),
        (PARTIAL, 50, 0.0),
        (PARTIAL, 51, 0.01),
        (EMPTY, 0, None),
        (INITIAL, 4, None),
    ],
)
def test_a_partial_zone_is_slow_when_it_is_large_and_stands_still_when_it_is_not(
    state: str, size: int, rate: float | None
) -> None:
    assert limiter_rate_qps(state, size, DEFAULTS) == rate
