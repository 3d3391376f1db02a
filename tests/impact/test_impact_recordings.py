"""Recorded failures and taints of a real control plane lie inside the impact that is predicted for them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from recorded_impacts import Checked, ImpactRecording, compare_impact, load_impact_recording
from trace_runs import trace_folders

DRAINS = Path(__file__).resolve().parents[2] / "fixtures" / "drains"
FOLDERS = {one.name: one for one in trace_folders(DRAINS)}
FAILURES = [name for name in FOLDERS if name.startswith("impact-")]


@cache
def recorded(name: str) -> tuple[ImpactRecording, list[Checked]]:
    recording = load_impact_recording(FOLDERS[name])
    return recording, compare_impact(recording)


@pytest.mark.parametrize("name", FAILURES)
def test_endpoints_leave_and_successors_come_when_predicted(name: str) -> None:
    assert [one for one in recorded(name)[1] if not one.inside] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*FOLDERS} - {*FAILURES}))
def test_so_do_those_of_drains(name: str) -> None:
    assert [one for one in recorded(name)[1] if not one.inside] == []


def test_there_is_something_to_compare_of_every_kind() -> None:
    numbers = Counter(one.what for name in FAILURES for one in recorded(name)[1])
    assert numbers == {
        "ready endpoints": 61,
        "healthy pods": 14,
        "ready replicas": 53,
        "endpoint leaves": 19,
        "successor created": 12,
        "successor ready": 12,
        "successor again": 2,
    }


@pytest.mark.parametrize(
    ("name", "service", "fewest"),
    [
        ("impact-node-dies-1.37.0", "web", 3),
        ("impact-zone-dies-1.37.0", "web", 3),
        ("impact-taint-1.37.0", "now", 1),
    ],
)
def test_the_fewest_ready_endpoints_are_told_exactly(name: str, service: str, fewest: int) -> None:
    [found] = [one for one in recorded(name)[0].impact.services if one.service == service]
    assert (found.fewest_ready.least, found.fewest_ready.most) == (fewest, fewest)


def test_a_deleted_node_s_pods_stay_ready_until_garbage_collection() -> None:
    impact = recorded("impact-node-deleted-1.37.0")[0].impact
    holes = [hole for service in impact.services for hole in service.black_holes]
    assert {hole.why for hole in holes} == {"node-deleted"}
    assert all(hole.until.earliest_seconds >= 40 for hole in holes)
