"""A kubelet that posts its status after its last renewal is given up later (rule 3); when that is due shows in its newest post."""

from __future__ import annotations

import pytest
from building.builders import (
    STEPS,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.last_heartbeats import last_heartbeat_spans


def _spans(heartbeat: float, transition: float, stop: float) -> tuple[Span, ...]:
    """Of a kubelet that renewed a second before the start and posted at ``heartbeat``."""
    node = make_node("n0", heartbeat=heartbeat, transition=transition)
    snapshot = make_snapshot([node], leases=[make_lease("n0", -1)])
    scenario = make_scenario([make_event(stop, "kubelet-stop", "n0")])
    return last_heartbeat_spans(snapshot, scenario, 0, "n0", STEPS)


def test_a_post_that_is_due_between_the_last_renewal_and_the_silence_is_as_a_renewal_a_tick_later() -> (
    None
):
    # It renews at 19 to 19.8 s; a post is due from 21 s on, and the kubelet stops at 25.
    assert _spans(-279, -9000, 25) == ((ns(19), ns(19.8)), (ns(26), ns(30.02)))
    # Due from 18 s on: what is posted after the renewal at 19 s is all that counts.
    assert _spans(-282, -9000, 25) == ((ns(19), ns(19.8)), (ns(24), ns(30.02)))


@pytest.mark.parametrize("heartbeat", [-100, -200, -260, -295])
def test_posts_that_are_not_due_then_change_nothing(heartbeat: float) -> None:
    assert _spans(heartbeat, -9000, 25) == ((ns(19), ns(19.8)),)


@pytest.mark.parametrize("heartbeat", [-140, -200, -295, -400])
def test_after_a_post_that_changed_a_condition_the_next_may_come_from_half_a_period_on(
    heartbeat: float,
) -> None:
    assert _spans(heartbeat, heartbeat, 25) == ((ns(19), ns(19.8)), (ns(24), ns(30.02)))


def test_what_was_posted_up_to_the_look_shows_in_the_snapshot() -> None:
    assert _spans(-305, -9000, 0) == ((ns(-1), ns(-1)),)


def test_a_kubelet_that_is_overdue_posts_at_another_pace() -> None:
    assert _spans(-1000, -9000, 25) == ((ns(19), ns(19.8)),)


def _predicted(scenario: Scenario, heartbeat: float) -> Prediction:
    node = make_node("n0", heartbeat=heartbeat)
    snapshot = make_snapshot(
        [node, "n1", "n2"], [make_pod("p", "n0")], leases=[make_lease("n0", -1)]
    )
    configuration = resolve_configuration(ControllerSettings("1.30.14"), snapshot.control_plane)
    return predict(snapshot, scenario, configuration)


def test_windows_hold_both_a_node_that_posted_last_and_one_that_did_not() -> None:
    scenario = make_scenario([make_event(25, "kubelet-stop", "n0")], horizon=500)
    (short,) = _predicted(scenario, -100).evictions
    (long,) = _predicted(scenario, -279).evictions

    assert short.earliest_seconds == long.earliest_seconds
    # The last renewal is 5.2 s to 6 s before the stop, a post up to nothing; and a tick.
    assert long.latest_seconds - short.latest_seconds == pytest.approx(10.2, abs=0.1)
    assert short.certainty == long.certainty == "certain"
