"""Recorded drains of a real control plane lie inside what is predicted for them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from recorded_drains import (
    DrainComparison,
    DrainRecording,
    compare_drains,
    is_drain_recording,
    load_drain_recording,
    predict_drains,
)
from trace_runs import compare_deletions, load_trace, predict_trace, trace_folders

from kubectl_evictplan.prediction.document import Prediction

DRAINS = Path(__file__).resolve().parents[2] / "fixtures" / "drains"
FOLDERS = {folder.name: folder for folder in trace_folders(DRAINS)}
NAMES = [name for name, folder in FOLDERS.items() if is_drain_recording(folder)]
OTHERS = [name for name in FOLDERS if name not in NAMES]
# Requests of kubectl after its start, the conflict of two evictions, a retry's drift.
AT_ONCE_SECONDS = 0.7


@cache
def recorded(name: str) -> tuple[DrainRecording, Prediction, DrainComparison]:
    recording = load_drain_recording(FOLDERS[name])
    prediction = predict_drains(recording)
    return recording, prediction, compare_drains(recording, prediction)


def test_there_are_recordings_of_drains_and_of_what_else_befalls_owned_pods() -> None:
    assert (len(NAMES), len(OTHERS)) == (13, 4)


@pytest.mark.parametrize("name", NAMES)
def test_every_eviction_lies_in_its_window_and_nothing_certain_is_absent(name: str) -> None:
    evictions = recorded(name)[2].evictions
    assert (evictions.outside, evictions.absent) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_whoever_is_refused_was_predicted_to_wait_or_to_fail(name: str) -> None:
    assert recorded(name)[2].refusals.outside == []


@pytest.mark.parametrize("name", NAMES)
def test_kubectl_ends_in_the_window_of_its_last_node_with_the_exit_code(name: str) -> None:
    assert recorded(name)[2].ends.outside == []


@pytest.mark.parametrize("name", OTHERS)
def test_other_deletions_of_owned_pods_lie_in_their_windows(name: str) -> None:
    trace = load_trace(FOLDERS[name])
    compared = compare_deletions(trace, predict_trace(trace))
    assert compared.facts
    assert (compared.outside, compared.absent) == ([], [])


def test_what_no_budget_holds_back_is_known_to_a_fraction_of_a_second() -> None:
    for name in ("drain-min-available-1.37.0", "drain-disable-eviction-1.37.0"):
        widths = recorded(name)[2].evictions.widths_seconds
        assert widths
        assert widths[-1] < AT_ONCE_SECONDS


def test_a_retry_is_known_to_its_place_in_kubectls_rhythm() -> None:
    prediction = recorded("drain-max-unavailable-1.37.0")[1]
    for eviction in prediction.evictions:
        first, second = eviction.windows
        assert second.earliest_seconds - first.latest_seconds > 5
        assert second.latest_seconds - second.earliest_seconds < 2


def test_a_drain_against_a_full_budget_ends_with_its_timeout_and_no_other_way() -> None:
    [drain] = recorded("drain-budget-full-1.37.0")[1].drains
    assert (drain.exit_code, drain.end_reason) == (1, "timeout")
    assert drain.end_latest_seconds is not None
    assert drain.end_earliest_seconds is not None
    assert drain.end_latest_seconds - drain.end_earliest_seconds < 2
