"""A lifecycle NoExecute taint that somebody removes from a silent node (kubernetes issue 89012)."""

from __future__ import annotations

import pytest
from building.builders import (
    default_tolerations,
    make_event,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
)

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.prediction.document import Eviction, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent

# Tainted at 43..48.2 (53..58.2 from 1.32 on); the timer would end 60 s later.
SILENT = make_event(2, "kubelet-stop", "n0", last_heartbeat=-2)
TOLERATED_SECONDS = 60


def predicted(release: str, *events: ScenarioEvent, phase_ns: int | None = None) -> Prediction:
    pods = [make_pod("p", "n0", tolerations=default_tolerations(TOLERATED_SECONDS))]
    snapshot = make_snapshot([make_node(f"n{index}", zone="a") for index in range(3)], pods)
    settings = ControllerSettings(kubernetes_version=release, monitor_phase_ns=phase_ns)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    scenario = make_scenario([SILENT, *events], horizon=600)
    return predict(snapshot, scenario, configuration)


def evictions(release: str, *events: ScenarioEvent) -> list[Eviction]:
    return list(predicted(release, *events).evictions)


def removed(at: float) -> ScenarioEvent:
    return make_event(at, "untaint", "n0", taint="node.kubernetes.io/unreachable:NoExecute")


@pytest.mark.parametrize("release", ["1.16.15", "1.18.6"])
def test_up_to_1_18_it_does_not_come_back_and_nothing_is_evicted(release: str) -> None:
    assert evictions(release, removed(80)) == []


@pytest.mark.parametrize("release", ["1.19.9", "1.29.6", "1.34.4"])
def test_from_1_19_it_comes_back_at_the_next_tick_and_the_countdown_begins_anew(
    release: str,
) -> None:
    (eviction,) = evictions(release, removed(80))
    assert eviction.certainty == "certain"
    # The next tick is up to 5 s (and its costs) away, the next pass 0.105 s.
    assert eviction.earliest_seconds == pytest.approx(80 + TOLERATED_SECONDS, abs=0.001)
    assert eviction.latest_seconds == pytest.approx(80 + 5 + TOLERATED_SECONDS, abs=0.3)


@pytest.mark.parametrize("release", ["1.29.6", "1.34.4"])
def test_the_offset_is_that_of_the_last_link_of_the_chain(release: str) -> None:
    (eviction,) = evictions(release, removed(80))
    offsets = [link.offset_seconds or 0 for link in eviction.because]
    assert offsets == sorted(offsets)
    assert eviction.offset_seconds == offsets[-1]
    assert eviction.earliest_seconds <= eviction.offset_seconds <= eviction.latest_seconds


def test_removed_after_the_eviction_it_changes_nothing_about_it() -> None:
    (first, *_) = evictions("1.29.6", removed(150))
    assert (first.certainty, first.latest_seconds < 110) == ("certain", True)


def test_removed_while_the_taint_may_still_be_to_come_it_may_or_may_not_delay_the_eviction() -> (
    None
):
    """The taint comes between 43 and 48.2: removed at 46 it is there or not, and by a pass that lags a little either."""
    prediction = predicted("1.29.6", removed(46))
    (found,) = prediction.evictions
    assert found.certainty == "possible"
    assert found.earliest_seconds <= 46 + TOLERATED_SECONDS
    # Put on just before 46 it is put on again with the next token, ten seconds later.
    assert found.latest_seconds >= 46 + 10 + 0.1 + TOLERATED_SECONDS
    assert prediction.inputs.coverage.exact == 0


def test_the_node_is_told_to_lose_the_taint_before_it_gets_it_again() -> None:
    (node,) = predicted("1.29.6", removed(80)).nodes
    unreachable = "node.kubernetes.io/unreachable:NoExecute"
    assert [(c.what, c.certainty) for c in node.changes if c.value == unreachable] == [
        ("taint-added", "certain"),
        ("taint-removed", "certain"),
        ("taint-added", "certain"),
    ]


def test_removing_the_other_taint_changes_nothing() -> None:
    other = make_event(80, "untaint", "n0", taint="node.kubernetes.io/not-ready:NoExecute")
    (with_it,) = evictions("1.29.6", other)
    (without,) = evictions("1.29.6")
    assert with_it.windows == without.windows
    (node,) = predicted("1.29.6", other).nodes
    taints = [c.what for c in node.changes if c.value.endswith("unreachable:NoExecute")]
    assert taints == ["taint-added"]


def test_a_taint_that_somebody_puts_on_again_is_taken_off_again() -> None:
    put_on = [
        make_event(at, "taint", "n1", taint="node.kubernetes.io/not-ready:NoExecute")
        for at in (20, 30)
    ]
    (node,) = (one for one in predicted("1.29.6", *put_on).nodes if one.node == "n1")
    first, second = (c for c in node.changes if c.what == "taint-removed")
    for removal, since in ((first, 20), (second, 30)):
        assert removal.certainty == "certain"
        assert removal.earliest_seconds == pytest.approx(since, abs=0.1)
        assert removal.latest_seconds == pytest.approx(since + 5, abs=0.1)


def test_a_tick_right_after_the_removal_puts_it_back() -> None:
    # Ticks at 0, 5, ...: the one at 80 sees the node without its taint.
    prediction = predicted("1.29.6", removed(80), phase_ns=0)
    (node,) = prediction.nodes
    *_, again = (change for change in node.changes if change.what == "taint-added")
    assert again.earliest_seconds == pytest.approx(80, abs=0.001)
