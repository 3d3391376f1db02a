"""One zone's line, replayed. Seconds; a token every ten, a tick every five, unless said."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from windows.lines import Line, in_order

from kubectl_evictplan.cluster.timeline import Told
from kubectl_evictplan.windows.line_replays import keep_to_the_line


def a_b_and_later_c(release: str) -> Line:
    """a and b wait from 5 on, c from 10; the tokens come at 5, 15 and 25."""
    line = Line(release)
    line.silent(5, "a", "b")
    line.silent(10, "c")
    return line


def test_up_to_1_18_who_came_first_is_served_first() -> None:
    served = a_b_and_later_c("1.18.6").served(in_order("c", "a", "b"))
    assert served == {"a": [5], "b": [15], "c": [25]}


def test_from_1_21_every_tick_puts_all_who_wait_in_line_anew() -> None:
    served = a_b_and_later_c("1.29.6").served(in_order("c", "a", "b"))
    assert served == {"a": [5], "c": [15], "b": [25]}


def test_up_to_1_18_only_tokens_spent_on_nodes_of_its_tick_can_be_a_waits_own() -> None:
    history = a_b_and_later_c("1.18.6").replay()
    keep_to_the_line(history)
    found = {name: (w.first_token, w.last_token) for name, (w,) in history.waits.items()}
    assert found == {"a": (0, 0), "b": (0, 1), "c": (2, 2)}


def test_in_1_19_a_tick_puts_one_entry_in_line_where_the_monitor_decides_again() -> None:
    line = Line("1.19.3")
    line.silent(5, "a", "b")
    line.tell(10, Told.MARK, "b")
    line.silent(20, "c")
    # At 25 what b left in line at 10 takes the token.
    assert line.served() == {"a": [5.0], "b": [15.0], "c": [35.0]}


def test_in_1_19_a_line_whose_rate_is_zero_serves_everybody_at_once() -> None:
    line = Line("1.19.3", rate=0.0)
    line.silent(5, "a", "b")
    line.tell(10, Told.CREATED)
    line.tell(10, Told.MARK, "a")  # has its taint, and takes a token once more
    assert line.served() == {"a": [5.0], "b": [5.0]}


def test_in_1_19_a_line_whose_rate_is_negative_has_its_first_token_and_no_other() -> None:
    line = Line("1.19.3", rate=-1.0)
    line.silent(0, "a")
    line.tell(5, Told.CREATED)
    line.tell(5, Told.MARK, "a")  # has its taint, and takes a token once more
    assert line.served() == {"a": [0.0]}
    assert line.tokens() == [0.0, 5.0]


@pytest.mark.parametrize(("release", "at"), [("1.18.6", 25), ("1.19.3", 35), ("1.29.6", 25)])
def test_in_1_19_a_node_that_waits_for_another_tick_leaves_an_entry_that_eats_a_token(
    release: str, at: float
) -> None:
    line = Line(release)
    line.silent(5, "a", "b")
    line.silent(20, "c")
    assert line.served()["b"] == [15]
    assert line.served()["c"] == [at]


def test_a_swapped_limiter_begins_empty_when_the_old_one_has_no_token() -> None:
    line = Line()
    line.silent(5, "a", "b")
    line.tell(10, Told.SWAP, qps=0.02)
    assert line.served() == {"a": [5], "b": [60]}


def test_a_swapped_limiter_begins_full_when_the_old_one_has_a_token() -> None:
    line = Line()
    line.silent(5, "a")
    line.tell(20, Told.SWAP, qps=0.02)
    line.silent(25, "b", "c")
    assert line.served() == {"a": [5], "b": [25], "c": [75]}


def test_a_node_that_returns_before_a_tick_takes_it_out_wastes_its_token() -> None:
    line = Line(rate=0.125)
    line.silent(5, "a", "b", "c")
    line.returns(12, 15, "b")
    assert line.tokens() == [5, 13, 21]
    assert line.served() == {"a": [5], "b": [], "c": [21]}


def test_a_node_that_wasted_its_token_is_not_put_in_line_by_the_tick_that_finds_it_ready() -> None:
    line = Line(rate=0.125)
    line.silent(5, "a", "b")
    line.returns(12, 15, "b")
    assert len(line.replay().waits["b"]) == 1


def test_a_deleted_node_stands_before_all_that_later_ticks_put_in_line() -> None:
    line = Line(rate=1 / 18)
    line.silent(5, "a", "b", "c")
    line.tell(12, Told.NODE_GONE, "c")
    line.tell(12, Told.RETIRED, "c")
    assert line.tokens() == [5, 23, 41]
    assert line.served() == {"a": [5], "b": [41], "c": []}


def test_from_1_30_a_node_without_ready_keeps_the_head_and_eats_every_token() -> None:
    line = Line("1.34.4")
    line.silent(5, "a", "b")
    line.status(5, None, "a")
    line.tell(6, Told.RETIRED, "a")
    line.tell(40, Told.REACHABLE, "a")
    assert line.served() == {"a": [], "b": [45]}
    assert line.tokens() == [5, 15, 25, 35, 45]


@pytest.mark.parametrize(("release", "again"), [("1.18.6", []), ("1.29.6", [15])])
def test_a_taint_removed_by_hand_comes_back_at_the_next_tick_and_token_from_1_19_on(
    release: str, again: list[float]
) -> None:
    line = Line(release)
    line.silent(5, "a")
    line.tell(12, Told.UNTAINTED, "a")
    assert line.served() == {"a": [5, *again]}


def test_a_taint_removed_by_hand_waits_for_the_tick_although_there_is_a_token() -> None:
    line = Line(rate=1)
    line.silent(5, "a")
    line.tell(11, Told.UNTAINTED, "a")
    assert line.served() == {"a": [5, 15]}


def test_a_taint_removed_at_the_very_instant_of_a_tick_comes_back_with_that_tick() -> None:
    line = Line()
    line.silent(5, "a")
    line.tell(20, Told.UNTAINTED, "a")
    assert line.served() == {"a": [5, 20]}


def test_a_taint_put_on_by_hand_keeps_the_node_out_of_line() -> None:
    line = Line()
    line.silent(5, "a", "b")
    line.tell(26, Told.UNTAINTED, "a")
    line.tell(27, Told.TAINTED, "a")
    line.tell(30, Told.MARK, "a")
    assert line.served() == {"a": [5], "b": [15]}


@pytest.mark.parametrize("release", ["1.18.6", "1.29.6"])
def test_a_taint_put_on_by_hand_in_line_costs_its_token_all_the_same(release: str) -> None:
    line = Line(release)
    line.silent(5, "a", "b", "c")
    line.tell(12, Told.TAINTED, "b")
    assert line.tokens() == [5, 15, 25]


def test_who_gets_its_taint_by_hand_in_line_comes_before_those_whom_ticks_put_there_anew() -> None:
    line = Line("1.29.6")
    line.silent(5, "a", "b", "c")
    line.tell(7, Told.TAINTED, "c")
    assert line.served() == {"a": [5], "c": [15], "b": [25]}


@pytest.mark.parametrize(("spent", "at"), [(False, 2), (True, 10)])
def test_a_token_spent_just_before_the_start_is_back_after_ten_seconds(
    *, spent: bool, at: float
) -> None:
    line = Line(spent_at_start=float(spent))
    line.tell(0, Told.SPENT)
    line.silent(2, "a")
    assert line.served() == {"a": [at]}


@pytest.mark.parametrize(("inside", "served"), [(False, []), (True, [5])])
def test_a_pass_inside_a_tick_still_has_the_limiter_that_the_tick_takes_away(
    *, inside: bool, served: list[float]
) -> None:
    line = Line(mid_tick_pass=inside)
    line.silent(5, "a")
    line.tell(5, Told.MID_TICK)
    line.tell(5, Told.SWAP, qps=0.0)
    assert line.served() == {"a": served}


@pytest.mark.parametrize(("stale", "at"), [(False, 5), (True, 10)])
def test_a_node_whose_token_a_stale_informer_wasted_is_back_in_line_at_the_next_tick(
    *, stale: bool, at: float
) -> None:
    line = Line("1.34.4", rate=1, stale_lister=stale)
    line.silent(5, "a")
    assert line.served() == {"a": [at]}
    assert line.tokens() == ([5, 10] if stale else [5])


def test_a_new_process_begins_with_a_full_bucket_and_ticks_of_its_own() -> None:
    line = Line()
    line.silent(5, "a", "b")
    line.tell(7, Told.STOPPED)
    line.tell(8, Told.STARTED)
    line.tell(8, Told.MARK, "b")
    line.tell(9, Told.UNTAINTED, "b")
    assert line.served() == {"a": [5], "b": [8, 18]}


def test_what_the_process_before_wrote_is_no_stale_view_of_the_next() -> None:
    line = Line("1.34.4", stale_lister=True)
    line.status(5, "Unknown", "a")
    line.tell(5, Told.STOPPED)
    line.tell(5.1, Told.STARTED)
    line.tell(5.1, Told.MARK, "a")
    assert line.served() == {"a": [5.1]}


@pytest.mark.parametrize("before", ["True", None])
def test_a_stale_informer_wastes_the_token_of_a_node_that_was_ready_or_had_never_posted(
    before: str | None,
) -> None:
    line = Line("1.34.4", rate=1, stale_lister=True)
    line.status(0, before, "a")
    line.silent(5, "a")
    line.tell(10, Told.MARK, "a")
    assert line.served() == {"a": [10]}


def test_a_tick_that_turns_one_taint_into_another_puts_nobody_in_line() -> None:
    # The first tick of a new process: who had the other taint waits from the second tick on.
    line = Line("1.37.0")
    line.status(5, "Unknown", "a")
    line.tell(5, Told.SWAPPED, "a")
    assert line.served() == {}
    line.tell(10, Told.MARK, "a")
    assert line.served() == {"a": [10]}


@pytest.mark.parametrize("taint_mode", [False, True])
def test_only_a_pass_that_evicts_by_itself_comes_to_a_node_that_was_deleted_in_line(
    taint_mode: bool,
) -> None:
    line = Line("1.18.6")
    line.rules = replace(line.rules, taint_mode=taint_mode)
    line.silent(5, "a", "b")
    line.tell(10, Told.NODE_GONE, "b")
    assert [len(served) for served in line.served().values()] == [1, int(not taint_mode)]
