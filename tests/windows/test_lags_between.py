"""Passes with lags between none and all of it: what neither passes at once nor late ones show.

Seconds; a token every four, a tick every second.
"""

from __future__ import annotations

from building.builders import ns
from msgspec.structs import replace
from windows.lines import LAG, Line

from kubectl_evictplan.cluster.timeline import Told
from kubectl_evictplan.windows.budget import Budget
from kubectl_evictplan.windows.line_replays import Replays
from kubectl_evictplan.windows.unknowns.lines import PassLag
from kubectl_evictplan.windows.unknowns.order_in_line import first_leaves_first
from kubectl_evictplan.windows.zone_lines import ZoneLine, groups_of


def _two_wait_and_one_joins(tick: float) -> Line:
    """The second token is there at 9, or as much later as passes lag."""
    line = Line(rate=0.25, step=1)
    line.silent(5, "a", "b")
    line.silent(tick, "c")
    return line


def test_a_token_that_is_there_when_its_limiter_changes_is_spent_by_the_next_pass() -> None:
    # At once, b has it before the change; late, it is not there yet. Either way the new bucket is empty.
    line = _two_wait_and_one_joins(9.04)
    line.tell(9.04, Told.SWAP, qps=0.0001)
    ((spans, certain),) = line.windows()["c"]
    assert spans[0][0] == 9.04
    assert 9.04 + LAG <= spans[-1][1] < 10
    assert not certain


def test_a_token_that_no_lag_brings_past_a_change_leaves_the_new_bucket_empty() -> None:
    line = _two_wait_and_one_joins(9.04 + 2 * LAG)
    line.tell(9.04 + 2 * LAG, Told.SWAP, qps=0.0001)
    assert line.windows()["c"] == [((), False)]


def test_a_limiter_that_keeps_its_rate_keeps_its_tokens() -> None:
    line, same = _two_wait_and_one_joins(9.04), _two_wait_and_one_joins(9.04)
    same.tell(9.04, Told.SWAP, qps=0.25)
    assert same.windows() == line.windows()


def test_a_token_that_two_wait_for_only_if_its_pass_is_late_is_followed_by_one_that_need_not_be() -> (
    None
):
    # The second token is b's before c joins, and may be c's after that; the third comes 4 s later, in time for b if that pass was not too late.
    line = _two_wait_and_one_joins(9.04)
    line.returns(13.06, 13.08, "b")
    ((spans, certain),) = line.windows()["b"]
    assert spans[0][0] == 5
    assert 13.05 < spans[-1][1] <= 13.06
    assert not certain


def _three_tokens_meet_who_joins(after: float) -> Line:
    """The tokens at 9, 13 and 17 meet ticks so long after them; b is back when a later one may just be there."""
    line = Line(rate=0.25, step=1)
    line.silent(5, *"abcde")
    for token, name in ((9, "f"), (13, "g"), (17, "h")):
        line.silent(token + after, name)
    line.returns(21.3, 21.4, "b")
    return line


def test_three_tokens_that_may_come_before_somebody_joins_or_after_that_are_tried_together() -> (
    None
):
    waits = _three_tokens_meet_who_joins(0.1).waits(Replays(Budget()))
    assert not any(wait.missed for several in waits.values() for wait in several)


def test_a_token_that_is_late_because_the_one_before_it_is_held_is_not_held_as_well() -> None:
    line, known = _three_tokens_meet_who_joins(0.1), Replays(Budget())
    asked = ZoneLine(line.told), line.rules
    first, both = ((1, ns(9.1) + 1),), ((1, ns(9.1) + 1), (2, ns(13.1) + 1))
    order = first_leaves_first, groups_of(asked[:1]), ns(12)
    alone = known.of(asked[0], replace(asked[1], held=first), *order)
    assert known.of(asked[0], replace(asked[1], held=both), *order) is alone
    sooner = known.of(asked[0], replace(asked[1], held=both[1:]), *order)
    assert sooner.tokens.at_ns[1] < alone.tokens.at_ns[1]


def test_lags_in_between_for_which_nothing_is_left_are_missed() -> None:
    line = _two_wait_and_one_joins(9.04)
    line.tell(9.04, Told.SWAP, qps=0.0001)
    enough, nothing = Replays(Budget()), Replays(Budget(0))
    assert not any(wait.missed for waits in line.waits(enough).values() for wait in waits)
    assert not enough.cut_short
    assert all(PassLag.name in wait.missed for (wait,) in line.waits(nothing).values())
    assert nothing.cut_short
    assert nothing.budget.left > enough.budget.left - Budget().left


def test_passes_are_work_as_what_a_line_is_told_is() -> None:
    line, longer = _two_wait_and_one_joins(9.04), _two_wait_and_one_joins(9.04)
    longer.silent(400, "d", "e", "f")
    spent = []
    for one in (line, longer):
        one.returns(500, 500.02, "b")  # so they are not told alike
        known = Replays(Budget())
        one.waits(known)
        spent.append(Budget().left - known.budget.left)
    told = len(longer.told) - len(line.told)
    assert spent[1] - spent[0] > 2 * told  # with passes at once, and late
