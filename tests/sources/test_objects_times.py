"""Timestamps in objects, and what follows from the newest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sources.builders import items, lease, node, pod


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("text", ["2026-11-20T22:00:00", "2026-02-30T00:00:00Z", "soon"])
def test_bad_timestamps_name_their_field(problems: Any, stored: bool, text: str) -> None:
    (line,) = problems(pod(stored=stored, meta={"creationTimestamp": text}))
    assert "Pod d/p: metadata.creationTimestamp: " in line


def test_a_leap_second_is_a_warning(codes: Any) -> None:
    assert "leap-second" in codes(pod(meta={"creationTimestamp": "2016-12-31T23:59:60Z"}))


def test_zero_time_is_unset(load: Any) -> None:
    zero = pod(meta={"deletionTimestamp": "0001-01-01T00:00:00Z"})
    assert load(zero).pods[0].deletion_timestamp_ns is None


def test_timestamps_after_the_dump_are_warnings_and_kept(load: Any) -> None:
    future = pod(meta={"creationTimestamp": "2030-01-01T00:00:00Z"})
    snapshot = load(items(lease(), future))
    assert "future-timestamp" in {warning.code for warning in snapshot.warnings}
    assert snapshot.pods[0].creation_timestamp_ns > snapshot.taken_at_ns


def test_the_dumps_time_is_the_newest_renewal_else_the_newest_timestamp(load: Any) -> None:
    snapshot = load(items(lease(), lease("n3", renewTime="2026-11-20T21:59:59Z")))
    assert snapshot.taken_at_source == "newest lease renewal"
    assert snapshot.taken_at_ns == snapshot.leases["n3"].renew_time_ns
    snapshot = load(pod(meta={"creationTimestamp": "2026-11-20T22:10:00Z",
                              "deletionTimestamp": "2026-11-20T23:10:00Z"}))  # fmt: skip
    assert snapshot.taken_at_source == "newest timestamp of the objects"
    assert snapshot.taken_at_ns == snapshot.pods[0].creation_timestamp_ns


def _renewed(ago: float, count: int = 1, first: int = 1) -> list[dict[str, Any]]:
    """So many nodes that say they are ready, and their Leases, renewed so long before 22:00."""
    found = []
    for number in range(first, first + count):
        time = (
            f"{datetime(2026, 11, 20, 22, tzinfo=UTC) - timedelta(seconds=ago):%Y-%m-%dT%H:%M:%SZ}"
        )
        name = f"m{number}"
        found += [node(name), lease(name, renewTime=time)]
    return found


@pytest.mark.parametrize("ahead", [61, 3600])
def test_a_renewal_that_makes_most_nodes_silent_that_are_ready_was_written_by_a_clock_that_is_ahead(
    load: Any, ahead: float
) -> None:
    snapshot = load(items(*_renewed(ahead, 2), *_renewed(0, 1, 3)))
    assert snapshot.taken_at_ns == snapshot.leases["m1"].renew_time_ns
    assert "odd-lease" in {one.code for one in snapshot.warnings}
    # Two of three: the other one is silent.
    snapshot = load(items(*_renewed(ahead, 1), *_renewed(0, 2, 2)))
    assert snapshot.taken_at_ns == snapshot.leases["m3"].renew_time_ns


def test_where_most_nodes_may_be_silent_or_one_clock_is_ahead_both_are_said(load: Any) -> None:
    snapshot = load(items(*_renewed(30, 2), *_renewed(0, 1, 3)))
    assert snapshot.taken_at_ns == snapshot.leases["m3"].renew_time_ns
    [told] = [one for one in snapshot.warnings if one.code == "odd-lease"]
    assert "2 nodes that say they are ready" in told.message
    assert told.objects == ("Lease m3",)
    fine = load(items(*_renewed(15, 2), *_renewed(0, 1, 3)))
    assert "odd-lease" not in {one.code for one in fine.warnings}


def test_leap_taints_changed_is_the_newest_manager_of_spec_taints(load: Any) -> None:
    def entry(time: str, fields: Any) -> dict[str, Any]:
        return {"manager": "m", "time": time, "fieldsV1": fields}

    fields = {"f:spec": {"f:taints": {}}}
    tainted = node()
    tainted["metadata"]["managedFields"] = [
        entry("2026-11-20T20:00:00Z", fields),
        entry("2026-11-20T21:00:00Z", fields),
        entry("2026-11-20T22:00:00Z", {"f:status": {}}),
        entry("2026-11-20T22:00:00Z", {"f:spec": {"f:unschedulable": {}}}),
    ]
    loaded = load(tainted).nodes
    assert loaded[1].taints_changed_ns == 1_795_208_400_000_000_000
    assert loaded[0].taints_changed_ns is None
