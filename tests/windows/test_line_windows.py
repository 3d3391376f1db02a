"""When each node of a line can be tainted: over every order, and over every lag of the passes.

Seconds; a token every ten, a tick every five, unless said.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from building.builders import ns
from msgspec.structs import replace
from windows.lines import LAG, LAGS_ONLY, Line

from kubectl_evictplan.cluster.timeline import Told
from kubectl_evictplan.windows import line_windows
from kubectl_evictplan.windows.budget import Budget
from kubectl_evictplan.windows.line_replays import Replays
from kubectl_evictplan.windows.line_windows import (
    Spread,
    WaitWindow,
    merge_waits,
    wait_windows,
)
from kubectl_evictplan.windows.spans import NEVER_NS, Span
from kubectl_evictplan.windows.zone_lines import ZoneLine


def test_nodes_that_nothing_tells_apart_share_their_windows() -> None:
    line = Line()
    line.silent(5, "a", "b", "c")
    windows = line.windows()
    assert windows["a"] == windows["b"] == windows["c"]
    assert windows["a"] == [(((5, round(25 + 3 * LAG, 3)),), True)]


@pytest.mark.parametrize(("tick", "spans"), [(15.05, ((15.05, 15.05),)), (18, ())])
def test_a_token_that_is_too_early_by_the_lag_of_passes_alone_can_be_spent_inside_the_next_tick(
    tick: float, spans: tuple[tuple[float, float], ...]
) -> None:
    # The second token is there from 15 s on, which is b's or, with a pass inside the tick, c's; then no more comes.
    line = Line()
    line.silent(5, "a", "b")
    line.silent(tick, "c")
    line.tell(tick, Told.MID_TICK)
    line.tell(tick, Told.REACHABLE, "b", "c")
    line.tell(tick, Told.SWAP, qps=0)
    assert line.windows()["c"] == [(spans, False)]


def test_a_node_on_which_a_late_view_wasted_a_token_can_come_after_one_that_leaves() -> None:
    # The token of 5 is wasted on "new"; every tick walks the nodes anew, so that of 15 can be the other's, who leaves at 40.
    line = Line("1.37.0", stale_lister=True)
    line.status(0, "Unknown", "old")
    line.silent(5, "new")
    line.tell(5, Told.MARK, "old")
    line.returns(40, 40, "old")
    last = round(25 + 3 * LAG, 3)
    assert line.windows()["new"] == [(((5, last),), True)]
    assert line.windows()["old"] == [(((5, last),), True)]


def test_nodes_that_never_leave_can_change_places_also_when_other_ticks_queued_them() -> None:
    line = Line()
    line.silent(5, "a", "b")
    line.silent(10, "c")
    windows = line.windows()
    last = round(25 + 3 * LAG, 3)
    assert windows["b"] == [(((5, last),), True)]
    assert windows["c"] == [(((15, last),), True)]


def test_up_to_1_18_nodes_of_other_ticks_keep_their_places() -> None:
    line = Line("1.18.6")
    line.silent(5, "a", "b")
    line.silent(10, "c")
    windows = line.windows()
    assert windows["b"] == [(((5, round(15 + 2 * LAG, 3)),), True)]
    assert windows["c"] == [(((25, round(25 + 3 * LAG, 3)),), True)]


@pytest.mark.parametrize("release", ["1.18.6", "1.20.4"])
def test_first_in_first_out_has_no_order_among_the_nodes_of_one_tick(release: str) -> None:
    line = Line(release)
    line.status(0, None, "a")  # what else is known of it does not give it a place
    line.silent(5, "a", "b")
    windows = line.windows()
    assert windows["a"] == windows["b"] == [(((5, round(15 + 2 * LAG, 3)),), True)]


def test_a_return_cuts_a_wait_off_after_every_token_before_it() -> None:
    line = Line()
    line.silent(44, "a0", "a1", "a2", "a3")
    line.returns(68, 70, "a3")
    ((spans, certain),) = line.windows()["a3"]
    assert spans == ((44, round(64 + 3 * LAG, 3)),)
    assert not certain


def test_a_return_just_before_a_token_cuts_that_tokens_window_short() -> None:
    line = Line()
    line.silent(44, "a0", "a1", "a2")
    line.returns(64.1, 65, "a2")
    ((spans, _),) = line.windows()["a2"]
    assert spans[-1][1] == 64.1


def test_up_to_1_18_a_return_just_before_a_token_cuts_that_tokens_window_short_as_well() -> None:
    line = Line("1.18.6")
    line.silent(5, "a")
    line.silent(10, "b")
    line.returns(15.1, 20, "b")
    ((spans, certain),) = line.windows()["b"]
    assert spans == ((15, 15.1),)
    assert not certain


def test_a_node_that_leaves_neither_first_nor_last_can_be_served_last() -> None:
    line = Line()
    line.silent(44, "a", "b", "c")
    for name, at in {"a": 69, "b": 79, "c": 89}.items():
        line.returns(at, at + 1, name)
    ((spans, _),) = line.windows()["b"]
    assert spans == ((44, round(64 + 3 * LAG, 3)),)


def test_a_token_that_comes_just_before_the_tick_in_one_run_can_come_just_after_it() -> None:
    """Passes without lag spend the second token before c is in line, passes with lag after that."""
    line = Line(step=5.4)
    line.silent(43.2, "a", "b")
    line.silent(54, "c")
    line.rules = replace(line.rules, rate_qps=1 / 10.75)
    ((spans, _),) = line.windows()["c"]
    assert spans[0][0] == 54


@pytest.mark.parametrize("latecomer", [15.01, 15.1])
def test_a_token_that_is_a_latecomers_at_some_lags_is_anybodys_from_when_it_is_at_any(
    latecomer: float,
) -> None:
    """Who waited has had its turn by 15 s without lags; with some the token of then is the latecomer's, and that of 25 s its own."""
    line = Line()
    line.silent(5, "a", "b")
    line.silent(latecomer, "c")
    ((spans, _),) = line.windows(replace(LAGS_ONLY, gap_ns=ns(3)))["a"]
    assert spans == ((5, 5 + LAG), (15, round(15 + 2 * LAG, 3)), (25, round(25 + 3 * LAG, 3)))


def test_a_line_whose_limiter_stops_serves_only_who_got_a_token_before() -> None:
    line = Line()
    line.silent(5, "a", "b", "c")
    line.tell(20, Told.SWAP, qps=0.0)
    ((spans, certain),) = line.windows()["a"]
    assert spans == ((5, round(15 + 2 * LAG, 3)),)
    assert not certain


def test_each_wait_of_a_node_has_windows_of_its_own() -> None:
    line = Line()
    line.silent(5, "a")
    line.returns(40, 45, "a")
    line.silent(100, "a")
    assert [spans for spans, _ in line.windows()["a"]] == [((5, 5 + LAG),), ((100, 100 + LAG),)]


# -- spans ----------------------------------------------------------------------------------------


def test_the_slack_of_a_token_grows_with_every_token_before_it() -> None:
    spread = Spread(base_ns=1000, per_token_ns=10, gap_ns=0, end_ns=0)
    assert [spread.of_token(token) for token in (0, 1, 4)] == [1010, 1020, 1050]


@pytest.mark.parametrize("certain", [True, False])
def test_a_wait_is_certain_only_where_it_is_under_all_circumstances(*, certain: bool) -> None:
    sure = WaitWindow(((ns(5), ns(6)),), certain=True, eligible_ns=ns(5), useless_ns=ns(9))
    other = WaitWindow(((ns(8), ns(9)),), certain=certain, eligible_ns=ns(4), useless_ns=ns(8))
    ((merged,),) = merge_waits([{"a": [sure]}, {"a": [other]}], ns(1), NEVER_NS).values()
    assert merged == WaitWindow(sure.spans + other.spans, certain, ns(4), ns(9))


def test_a_wait_that_some_circumstances_do_not_have_is_not_certain() -> None:
    sure = WaitWindow(((ns(5), ns(6)),), certain=True, eligible_ns=ns(5), useless_ns=ns(9))
    ((merged,),) = merge_waits([{"a": [sure]}, {}], ns(1), NEVER_NS).values()
    assert not merged.certain


def test_nodes_that_stay_wait_longest_when_a_node_that_leaves_comes_first() -> None:
    line = Line()
    line.silent(44, "a", "b", "z")
    line.returns(69, 70, "z")
    ((spans, certain),) = line.windows()["b"]
    assert spans == ((44, round(64 + 3 * LAG, 3)),)
    assert certain


def test_among_very_many_that_leave_the_first_to_leave_may_come_after_all_others() -> None:
    """More than get a replay of their own in which they come last."""
    names = [f"n{index:02}" for index in range(30)]
    line = Line()
    line.silent(44, *names)
    line.returns(98, 99, names[-1])
    for index, name in enumerate(names[:-1]):
        line.returns(300 + index, 300.5 + index, name)
    ((spans, certain),) = line.windows()[names[-1]]
    assert spans == ((44, round(94 + 6 * LAG, 3)),)
    assert not certain


def test_what_a_piece_leaves_out_widens_every_wait_in_it() -> None:
    line = Line()
    line.silent(50, "a")
    # A pass is planned 2 ns after its token.
    replayed = [(ZoneLine(line.told), line.rules)]
    (whole,) = wait_windows(replayed, LAGS_ONLY, ns(2), set(), Replays(Budget()))["a"]
    assert whole.spans == ((ns(48) + 2, ns(52) + 2),)


@pytest.mark.parametrize("seed", range(6))
def test_tokens_that_are_told_stretch_by_stretch_give_the_windows_of_single_tokens(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    line = Line(rate=rng.choice((0.03, 0.1, 0.4)))
    for index in range(12):
        line.silent(5 * rng.randint(1, 12) + index * 5, f"a{index}", f"b{index}")
    line.tell(rng.randint(70, 200), Told.SWAP, qps=rng.choice((0.0, 0.02, 0.2)))
    line.told.sort(key=lambda operation: operation.at_ns)
    by_stretches = line.windows()
    monkeypatch.setattr(line_windows, "_spans", _token_by_token)
    assert by_stretches == line.windows()


def _token_by_token(replays: list[Any], spread: Spread) -> Iterator[Span]:
    for token in range(max(replay.last_token for replay in replays) + 1):
        own = [r for r in replays if r.first_token <= token <= r.last_token]
        if own:
            yield from line_windows._spans_of_token(token, own, replays, spread)


@pytest.mark.parametrize("late", ["c", "Z"])
def test_in_1_19_what_nodes_leave_in_line_comes_before_or_after_those_that_are_new(
    late: str,
) -> None:
    # b waits for c's tick, which puts another entry of it in line: c's token is the third, or the fourth.
    line = Line("1.19.3")
    line.silent(5, "a", "b")
    line.silent(10, late)
    assert line.windows()[late] == [(((25, round(35 + 4 * LAG, 3)),), True)]


def test_in_1_19_what_a_node_leaves_in_line_also_comes_between_what_others_leave() -> None:
    # From 55 on tokens go to what the tick of 10 put in line, of b, c and d: d has the first of them, the second, or the third.
    line = Line("1.19.3", rate=0.05)
    line.silent(5, "a", "b", "c")
    line.silent(10, "d")
    ((spans, certain),) = line.windows()["d"]
    assert certain
    assert all(any(low <= at <= high for low, high in spans) for at in (65, 85, 105)), spans


def test_where_lags_decide_whether_a_token_is_there_each_pass_still_has_a_lag_of_its_own() -> None:
    line = Line()
    line.silent(5, "a")
    # The next token comes at 15 and the lag of the first pass: does the tick find it, or empty the new bucket?
    line.silent(15.05, "b")
    line.tell(15.05, Told.SWAP, qps=0.01)
    (((first, last), (next_first, next_last)), certain), *_ = line.windows()["b"]
    assert first == 15.05 and last >= 15.05 + LAG
    assert next_first <= 115.05 and next_last >= 115.05 + LAG
    assert certain


def test_whoever_loses_its_taint_to_a_person_took_a_token_only_if_it_was_served_before() -> None:
    line = Line()
    line.silent(5, "a", "b")
    line.tell(14, Told.UNTAINTED, "b")
    line.tell(15, Told.MARK, "b")
    windows = line.windows()
    assert windows["a"] == [(((5, round(25 + 3 * LAG, 3)),), True)]
    assert windows["b"][-1][0][-1][1] == round(25 + 3 * LAG, 3)


@pytest.mark.parametrize(("taken_off", "untried"), [(5.05, {"lag of passes"}), (6, set())])
def test_where_the_lag_decides_whether_a_taint_stands_that_a_person_takes_off_there_is_more_between(
    taken_off: float, untried: set[str]
) -> None:
    line = Line()
    line.silent(5, "b")
    line.tell(taken_off, Told.UNTAINTED, "b")
    line.silent(10, "a")
    line.tell(10, Told.MARK, "b")
    zone = ZoneLine(line.told)
    late = replace(line.rules, lag_ns=ns(LAG))
    both = [(zone, line.rules), (zone, late)]
    waits = wait_windows(both, LAGS_ONLY, 0, set(), Replays(Budget()))
    assert waits["a"][0].missed == waits["b"][0].missed == untried


@pytest.mark.parametrize(("names", "untried"), [("bc", set()), ("bcd", {"order in the line"})])
def test_where_more_than_two_lose_their_taints_not_every_order_is_tried(
    names: str, untried: set[str]
) -> None:
    line = Line()
    line.silent(5, "a", *names)
    for number, name in enumerate(names):
        line.tell(13 + number / 2, Told.UNTAINTED, name)
    waits = wait_windows(
        [(ZoneLine(line.told), line.rules)], LAGS_ONLY, 0, set(), Replays(Budget())
    )
    assert waits["a"][0].missed == untried


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_whoever_loses_in_line_a_taint_that_it_had_before_gets_it_back_when_its_turn_comes(
    names: str,
) -> None:
    # Up to 1.18 no later tick looks at who is in line; of both whoever comes first takes the token of 5 for nothing.
    line, (one, other) = Line("1.18.6"), names
    line.status(0, "Unknown", one, other)
    line.tell(3, Told.TAINTED, one, other)
    line.tell(5, Told.MARK, one, other)
    line.tell(8, Told.UNTAINTED, one)
    assert line.windows() == {one: [(((15, round(15 + 2 * LAG, 3)),), False)]}


def test_a_turn_that_is_over_just_before_such_a_taint_goes_has_the_next_one_as_much_later() -> None:
    # In another run the tick comes after 8 s: there is one between them that comes just before it.
    lines = [Line(step=4), Line(step=4)]
    for line, at in zip(lines, (5, 8.05), strict=True):
        line.status(0, "Unknown", "a")
        line.tell(3, Told.TAINTED, "a")
        if at < 8:
            line.tell(at, Told.MARK, "a")
        line.tell(8, Told.UNTAINTED, "a")
        line.tell(max(at, 8.01), Told.MARK, "a")
    replayed = [
        (ZoneLine(line.told), replace(line.rules, lag_ns=ns(lag)))
        for line in lines
        for lag in (0, LAG)
    ]
    spread = replace(LAGS_ONLY, base_ns=ns(4))
    waits = wait_windows(replayed, spread, 0, set(), Replays(Budget()))
    assert waits["a"][-1].spans[-1][1] >= ns(18 + LAG)


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_each_late_view_may_waste_a_token_on_the_newest_whatever_the_names(
    first: str, second: str
) -> None:
    line = Line("1.34.4", stale_lister=True)
    line.silent(5, first)
    line.silent(15, second)
    rules = replace(line.rules, lag_ns=ns(0.01))
    waits = wait_windows([(ZoneLine(line.told), rules)], LAGS_ONLY, 0, set(), Replays(Budget()))
    # Tokens come right after 5, 15, 25 and 35: the first two may be wasted.
    latest = {name: round(waits[name][0].spans[-1][1] / 1e9) for name in "ab"}
    assert latest == {first: 35, second: 35}


@pytest.mark.parametrize(("tick", "latest"), [(25.1, 66), (25.0, 66), (25.4, 56)])
def test_a_late_view_wastes_a_token_also_where_only_some_lags_of_passes_meet_it(
    tick: float, latest: float
) -> None:
    # The third token is there at 25, or after three lags at 25.315; a late view ends 0.2 s after its tick.
    waits = waits_of_late_views(tick)
    assert round(waits["e"][0].spans[-1][1] / 1e9) == latest
    assert not waits["e"][0].missed


def test_who_leaves_the_line_may_be_seen_late_first_and_be_served_last() -> None:
    line = Line("1.34.4", stale_lister=True)
    line.silent(5, "a")
    line.silent(9, "b")
    line.silent(15, "c")
    for name in "abc":
        line.tell(60, Told.REACHABLE, name)
    rules = replace(line.rules, lag_ns=ns(0.01))
    waits = wait_windows([(ZoneLine(line.told), rules)], LAGS_ONLY, 0, set(), Replays(Budget()))
    # Tokens come right after 5, 15, 25, 35 and 45: the first two may be wasted on a and on c.
    latest = {name: round(waits[name][0].spans[-1][1] / 1e9) for name in "abc"}
    assert latest == {"a": 45, "b": 45, "c": 45}


def waits_of_late_views(*ticks: float) -> dict[str, list[WaitWindow]]:
    """Four nodes wait from 5 s on, one more from each of these ticks, the first of them e."""
    line = Line("1.34.4", stale_lister=True)
    line.silent(5, "a", "b", "c", "d")
    for name, tick in zip("ef", ticks, strict=False):
        line.silent(tick, name)
    told, late = ZoneLine(line.told), replace(line.rules, lag_ns=ns(LAG))
    replayed = [(told, line.rules), (told, late)]
    return wait_windows(replayed, LAGS_ONLY, 0, set(), Replays(Budget()))


def test_a_stale_view_of_a_node_that_was_not_ready_before_is_told_as_not_wholly_explored() -> None:
    line = Line("1.34.4", stale_lister=True)
    line.status(5, "False", "a")
    line.tell(5, Told.MARK, "a")
    line.silent(5, "b")
    line.status(14.9, "Unknown", "a")
    waits = wait_windows(
        [(ZoneLine(line.told), line.rules)], LAGS_ONLY, 0, set(), Replays(Budget())
    )
    assert waits["a"][0].missed == {"stale view"}
    assert not waits["b"][0].missed


def test_what_the_first_tick_of_a_process_writes_at_the_start_a_pass_may_not_see_yet() -> None:
    line = Line("1.34.4")
    line.tell(0, Told.STARTED)
    line.silent(0, "a")
    assert ZoneLine(line.told).turning_unknown == {"a"}
    assert not ZoneLine(line.told[1:]).turning_unknown


@pytest.mark.parametrize("served_inside", [False, True])
def test_alike_nodes_are_tainted_until_a_tick_takes_them_out_of_line_and_no_later(
    served_inside: bool,
) -> None:
    # The token of 15 is one node's in the line of an early tick; in that of a late one all leave before it, or just then.
    replayed = []
    for tick, lag in ((5.0, 0.0), (6.0, LAG)):
        line = Line(mid_tick_pass=served_inside)
        line.silent(tick, "a", "b", "c")
        line.tell(tick + 10, Told.MID_TICK)
        line.tell(tick + 10, Told.REACHABLE, "a", "b", "c")
        line.tell(tick + 10, Told.SWAP, qps=0)
        replayed.append((ZoneLine(line.told), replace(line.rules, lag_ns=ns(lag))))
    spread = replace(LAGS_ONLY, base_ns=ns(3))
    wait = wait_windows(replayed, spread, 0, set(), Replays(Budget()))["a"][0]
    assert wait.spans[-1][1] <= ns(16)
    assert wait.useless_ns == ns(16) + 1  # a pass inside that very tick still helps
