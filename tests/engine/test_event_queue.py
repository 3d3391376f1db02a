"""Simulated time: what runs when, and in which order."""

from __future__ import annotations

import pytest

from kubectl_evictplan.engine.event_queue import EventQueue, Priority


def queue_with(*calls: tuple[int, Priority, str]) -> tuple[EventQueue, list[tuple[int, str]]]:
    """A queue that notes (instant, name) of every call."""
    events, seen = EventQueue(0), []
    for at_ns, priority, name in calls:
        note = lambda name=name: seen.append((events.now_ns, name))  # noqa: E731
        events.schedule(at_ns, priority, note)
    return events, seen


def test_calls_run_in_the_order_of_their_instants() -> None:
    events, seen = queue_with(
        (5, Priority.OUTSIDE, "late"),
        (1, Priority.POD_GC, "early"),
        (3, Priority.MONITOR_TICK, "middle"),
    )
    events.run_until(10)
    assert seen == [(1, "early"), (3, "middle"), (5, "late")]


def test_at_one_instant_timers_come_first_then_people_the_pass_the_tick_and_garbage_collection() -> (
    None
):
    events, seen = queue_with(*((7, priority, priority.name) for priority in reversed(Priority)))
    events.run_until(7)
    assert [name for _, name in seen] == [
        "EVICTION_TIMER",
        "OUTSIDE",
        "NODE_ITEM",
        "EVICTION_PASS",
        "MONITOR_TICK",
        "POD_GC",
    ]


def test_equal_instants_and_priorities_run_in_the_order_in_which_they_were_scheduled() -> None:
    events, seen = queue_with(*((1, Priority.OUTSIDE, name) for name in "cab"))
    events.run_until(1)
    assert [name for _, name in seen] == ["c", "a", "b"]


def test_a_call_scheduled_for_now_runs_at_this_instant_if_its_priority_is_still_to_come() -> None:
    events, seen = EventQueue(0), []

    def tick() -> None:
        events.schedule(events.now_ns, Priority.POD_GC, lambda: seen.append(events.now_ns))

    events.schedule(4, Priority.MONITOR_TICK, tick)
    events.run_until(4)
    assert seen == [4]


def test_the_horizon_is_inclusive_and_what_lies_beyond_it_is_left_over() -> None:
    events, seen = queue_with((10, Priority.OUTSIDE, "at"), (11, Priority.OUTSIDE, "beyond"))
    assert events.run_until(10)
    assert seen == [(10, "at")]
    assert not events.run_until(11)


def test_a_cancelled_call_neither_runs_nor_is_left_over() -> None:
    events, seen = queue_with((1, Priority.OUTSIDE, "kept"))
    call = events.schedule(20, Priority.OUTSIDE, lambda: seen.append((0, "cancelled")))
    call.cancel()
    call.cancel()
    assert not events.run_until(10)
    assert not events.run_until(30)
    assert seen == [(1, "kept")]


def test_nothing_can_be_scheduled_in_the_past() -> None:
    events, _ = queue_with((5, Priority.OUTSIDE, "x"))
    events.run_until(5)
    with pytest.raises(AssertionError, match="in the past"):
        events.schedule(4, Priority.OUTSIDE, lambda: None)
