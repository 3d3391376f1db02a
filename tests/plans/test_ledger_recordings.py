"""The ledgers of recorded runs of real control planes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace
from plans.ledger_worlds import (
    NAMES,
    QUICK,
    RECORDINGS,
    ledger_of_recording,
    prediction_of,
)
from plans.recorded_sightings import Recorded, recorded

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.plans.expectation import expectation_of
from kubectl_evictplan.plans.ledger import ledger_of
from kubectl_evictplan.plans.ledger_document import PodEntry
from kubectl_evictplan.plans.sightings import Change, Look, Sightings

# -- recorded runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_reality_of_a_recorded_run_never_left_the_windows(name: str) -> None:
    ledger = ledger_of_recording(name)
    predicted = [pod for pod in ledger.pods if pod.windows]
    assert {pod.verdict for pod in predicted} <= {"inside", "possible-did-not-happen"}
    assert not ledger.summary.left_windows


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_whose_deletions_come_much_later_is_outside_of_every_bounded_window(
    name: str,
) -> None:
    later = 600.0
    ledger = ledger_of_recording(name, shifted_seconds=later)
    deleted = [pod for pod in ledger.pods if pod.deleted and _is_bounded(pod, later)]
    assert all(pod.verdict == "outside" for pod in deleted)
    assert all((pod.off_by_seconds or 0) > 1 for pod in deleted)
    assert ledger.summary.left_windows or not deleted


def _is_bounded(pod: PodEntry, seconds: float) -> bool:
    """Whether windows of the pod end before that; where nobody knows the budgets they do not."""
    return bool(pod.windows) and all((one.latest_seconds or 0) < seconds for one in pod.windows)


@pytest.mark.parametrize("name", QUICK)
def test_the_order_of_what_was_seen_and_seeing_it_twice_change_nothing(name: str) -> None:
    seen = recorded(RECORDINGS[name])
    expectation = expectation_of(prediction_of(name))
    expected = ledger_of(expectation, seen.sightings, seen.start)
    looks, changes = list(seen.sightings.looks), list(seen.sightings.changes)
    for seed in range(5):
        drawn = random.Random(seed)
        mixed = Sightings(
            tuple(_mixed(drawn, looks)),
            tuple(_mixed(drawn, changes)),
        )
        assert ledger_of(expectation, mixed, seen.start) == expected


def _mixed(drawn: random.Random, seen: list[Any]) -> list[Any]:
    more = [*seen, *drawn.choices(seen, k=3)]
    drawn.shuffle(more)
    return more


def test_moving_one_deletion_changes_the_row_of_that_pod_alone() -> None:
    name = "taint-basics-1.29.6"
    seen = recorded(RECORDINGS[name])
    expectation = expectation_of(prediction_of(name))
    before = {pod.uid: pod for pod in ledger_of(expectation, seen.sightings, seen.start).pods}
    for uid in before:
        after = ledger_of(expectation, _one_later(seen, uid), seen.start).pods
        assert {pod.uid for pod in after if pod != before[pod.uid]} == {uid}
        assert next(pod for pod in after if pod.uid == uid).verdict == "outside"


def _one_later(seen: Recorded, uid: str) -> Sightings:
    late_ns = 100 * SECOND_NS

    def moved(change: Change) -> Change:
        pod = change.pod
        if pod.uid != uid:
            return change
        if pod.deletion_timestamp_ns is not None:
            pod = replace(pod, deletion_timestamp_ns=pod.deletion_timestamp_ns + late_ns)
        return replace(change, pod=pod, at=change.at.later(late_ns))

    last = seen.sightings.looks[-1]
    there = next(change.pod for change in seen.sightings.changes if change.pod.uid == uid)
    alive = replace(there, deletion_timestamp_ns=None, deletion_grace_period_seconds=None)
    assert last.pods is not None
    looks = (*seen.sightings.looks[:-1], replace(last, pods=(*last.pods, alive)))
    changes = tuple(moved(change) for change in seen.sightings.changes)
    end = Look(last.at.later(2 * late_ns), last.pods)
    return replace(seen.sightings, looks=(*looks, end), changes=changes)
