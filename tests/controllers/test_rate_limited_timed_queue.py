"""The line of one zone. Instants are seconds; a waiting node is *served* by a pass."""

from __future__ import annotations

import pytest
from building.builders import ns

from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    NeverRateLimiter,
)
from kubectl_evictplan.controllers.node_lifecycle.rate_limited_timed_queue import (
    RateLimitedTimedQueue,
)


class Line:
    """A queue of one rate, told what a monitor and a pass would tell it."""

    def __init__(self, rate: float = 1.0, *, rate_zero_accepts: bool = False) -> None:
        self.queue = RateLimitedTimedQueue(rate, rate_zero_accepts=rate_zero_accepts)
        self.tick = 0.0
        self.retry: dict[str, int] = {}

    def add(self, *names: str, at: float = 0, refreshed: bool = True) -> list[bool]:
        self.tick = at
        return [self.queue.add(name, ns(at), refreshed=refreshed) for name in names]

    def served(self, *passes: float) -> list[str]:
        """Whom passes at these instants serve."""
        found: list[str] = []

        def process(name: str) -> int | None:
            found.append(name)
            return self.retry.get(name)

        for at in passes:
            self.queue.try_pass(ns(at), ns(self.tick), process)
        return found


def test_a_pass_serves_one_node_per_token() -> None:
    line = Line()
    line.add("a", "b", "c")
    assert line.served(0.1) == ["a"]
    assert line.served(0.2, 1.0) == []
    assert line.served(1.1, 2.1) == ["b", "c"]


def test_a_name_in_line_is_not_added_again() -> None:
    line = Line()
    assert line.add("a", "a") == [True, False]


def test_a_name_that_was_served_is_known_until_it_is_removed() -> None:
    line = Line()
    line.add("a")
    line.served(0.1)
    assert line.add("a", at=5) == [False]
    assert line.queue.remove("a")
    assert not line.queue.remove("a")
    assert line.add("a", at=5) == [True]


def test_first_come_first_served_where_no_tick_inserts_again() -> None:
    line = Line()
    line.add("z", at=0, refreshed=False)
    line.add("a", at=5, refreshed=False)
    assert line.served(5.1, 6.1) == ["z", "a"]


def test_nodes_that_every_tick_inserts_again_are_served_in_the_order_of_their_names() -> None:
    line = Line()
    line.add("z", at=0)
    line.add("a", at=5)
    assert line.served(5.1, 6.1) == ["a", "z"]


def test_a_retired_node_keeps_the_instant_of_its_last_tick_and_comes_first() -> None:
    line = Line()
    line.add("a", "z", at=5)
    assert line.queue.retire("z", ns(5))
    line.tick = 10
    assert line.served(10.1, 11.1) == ["z", "a"]


def test_of_a_retired_and_a_waiting_node_of_one_tick_the_name_decides() -> None:
    line = Line()
    line.add("a", "z", at=5)
    line.queue.retire("z", ns(5))
    assert line.served(5.1) == ["a"]


def test_a_node_that_no_tick_inserts_cannot_be_retired() -> None:
    line = Line()
    line.add("a", refreshed=False)
    assert not line.queue.retire("a", 0)
    assert not line.queue.retire("nobody", 0)


def test_an_empty_line_takes_no_token() -> None:
    line = Line(0.1)
    line.served(0.1)
    line.add("a", at=5)
    assert line.served(5.1) == ["a"]


def test_a_node_that_is_tried_again_comes_before_those_that_later_ticks_insert() -> None:
    line = Line(0.1)
    line.add("a", "b", at=5)
    line.retry = {"a": ns(0.05)}
    for tick in (5, 15, 25):
        line.tick = tick
        assert line.served(tick + 0.1) == ["a"]
    line.retry.clear()
    line.tick = 45
    assert line.served(45.1, 55.1) == ["a", "b"]


def test_a_token_is_lost_on_a_node_that_is_not_due_again_yet() -> None:
    line = Line(20)
    line.add("a")
    line.retry = {"a": ns(0.05)}
    assert line.served(0.1, 0.15) == ["a"]
    # The token of 0.15 is gone, the next one comes at 0.2.
    assert line.served(0.199) == []
    assert line.served(0.2) == ["a"]


def test_names_forgotten_without_their_entries_are_inserted_twice() -> None:
    line = Line()
    line.add("a", refreshed=False)
    line.queue.known.discard("a")
    assert line.add("a", at=5, refreshed=False) == [True]
    assert line.served(5.1, 6.1, 7.1) == ["a", "a"]


def test_an_orphaned_entry_is_never_removed_and_eats_every_token() -> None:
    line = Line()
    line.add("a", refreshed=False)
    line.queue.known.discard("a")
    line.add("a", at=5, refreshed=False)
    line.queue.remove("a")
    line.add("b", at=10, refreshed=False)
    assert line.served(10.1, 11.1, 12.1) == ["a", "a", "a"]


def test_without_a_rate_up_to_1_23_one_pass_serves_all() -> None:
    line = Line(0, rate_zero_accepts=True)
    line.add("a", "b", "c")
    assert line.served(0.1) == ["a", "b", "c"]


# -- SwapLimiter --------------------------------------------------------------------------------------


def test_a_swap_to_the_same_rate_changes_nothing() -> None:
    line = Line(0.1)
    before = line.queue.limiter
    line.queue.swap_limiter(0.1, ns(1))
    assert line.queue.limiter is before


def test_a_swap_carries_a_whole_token_over() -> None:
    line = Line(0.1)
    line.queue.swap_limiter(0.01, ns(7))
    line.add("a", at=7)
    assert line.served(7.1) == ["a"]


@pytest.mark.parametrize("waited", [0.1, 9.9])
def test_a_swap_drops_a_fraction_of_a_token(waited: float) -> None:
    line = Line(0.1)
    line.add("a", "b")
    line.served(0)
    line.queue.swap_limiter(1, ns(waited))
    assert line.served(waited + 0.999) == []
    assert line.served(waited + 1) == ["b"]


def test_a_swap_to_zero_stops_the_line() -> None:
    line = Line(0.1)
    line.queue.swap_limiter(0, ns(1))
    assert isinstance(line.queue.limiter, NeverRateLimiter)


def test_a_swap_from_a_stopped_line_begins_without_a_token() -> None:
    line = Line(0.1)
    line.queue.swap_limiter(0, ns(1))
    line.queue.swap_limiter(0.5, ns(100))
    line.add("a", at=100)
    assert line.served(101.9) == []
    assert line.served(102) == ["a"]


def test_a_swap_to_rate_one_does_not_start_a_stopped_line() -> None:
    line = Line(1)
    line.queue.swap_limiter(0, ns(1))
    line.queue.swap_limiter(1, ns(100))
    line.add("a", at=100)
    assert line.served(100_000) == []


def test_a_swap_to_zero_leaves_a_bucket_that_never_had_a_rate() -> None:
    line = Line(0)
    line.queue.swap_limiter(0, ns(1))
    line.add("a", "b", at=1)
    assert line.served(1.1, 1000) == ["a"]
