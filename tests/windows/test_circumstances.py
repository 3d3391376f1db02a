"""What leads to one outcome rather than to another, and the words for it."""

from __future__ import annotations

import pytest
from building.builders import ns

from kubectl_evictplan.prediction.causes import describe_circumstance
from kubectl_evictplan.windows.circumstances import (
    Circumstance,
    Contribution,
    Moment,
    MomentKind,
    PlaceInLine,
    TaintedInWait,
    TickBetween,
    tell_apart,
    tell_spans_apart,
)

STOP = Moment(ns(3.5), MomentKind.LAST_HEARTBEAT, "w1")
RETURN = Moment(ns(4), MomentKind.EVENT, "w2")
DEADLINE = Moment(ns(60), MomentKind.STARTUP_DEADLINE, "w3")


def test_outcomes_of_pieces_of_their_own_are_told_apart_by_the_moments_around_the_tick() -> None:
    early = Contribution(0, (STOP, RETURN), 0)
    late = Contribution(1, (RETURN, STOP), 0)
    assert tell_apart([[early], [late]]) == [
        TickBetween(after=STOP, before=RETURN),
        TickBetween(after=RETURN, before=STOP),
    ]


def test_neighbouring_pieces_are_one_stretch() -> None:
    outcome = [Contribution(0, (STOP, RETURN), 0), Contribution(1, (RETURN, DEADLINE), 0)]
    other = [Contribution(2, (DEADLINE, STOP), 0)]
    assert tell_apart([outcome, other])[0] == TickBetween(after=STOP, before=DEADLINE)


def test_an_outcome_of_unknown_moments_is_told_by_nothing() -> None:
    assert tell_apart([[Contribution(0, None, 0)], [Contribution(1, None, 0)]]) == [None, None]


def test_outcomes_of_the_same_pieces_are_told_apart_by_the_wait_in_which_the_node_is_tainted() -> (
    None
):
    waits = [[Contribution(0, None, 0)], [Contribution(0, None, 1)]]
    assert tell_apart(waits) == [TaintedInWait(1), TaintedInWait(2)]


def test_outcomes_of_one_wait_are_told_apart_by_the_place_in_line() -> None:
    same = [Contribution(0, None, 0)]
    assert tell_apart([same, same]) == [PlaceInLine(first=True), PlaceInLine(first=False)]


def test_no_place_in_line_is_told_of_a_node_that_waits_alone() -> None:
    same = [Contribution(0, None, 0)]
    assert tell_apart([same, same], alone=True) == [None, None]


def test_a_node_that_is_not_tainted_by_lifecycle_tells_nothing_apart() -> None:
    never = [Contribution(0, None, None)]
    assert tell_apart([never, never]) == [None, None]


def test_a_single_outcome_needs_no_circumstance() -> None:
    assert tell_spans_apart([(0, 1)], [(Contribution(0, (STOP, RETURN), 0), [(0, 1)])]) == ()


@pytest.mark.parametrize(
    ("circumstance", "words"),
    [
        (
            TickBetween(STOP, RETURN),
            (
                "if a tick of the node monitor falls after the last heartbeat of w1 (+3.500s) and before "
                "what happens to w2 (+4.000s)"
            ),
        ),
        (TaintedInWait(1), "if the node is tainted the first time that it is not ready"),
        (TaintedInWait(2), "if the node is not tainted before it is not ready for time 2"),
        (PlaceInLine(first=True), "if the node is tainted before others that wait in its zone"),
        (PlaceInLine(first=False), "if others that wait in its zone are tainted before"),
        (None, ""),
    ],
)
def test_a_circumstance_reads_as_a_clause(circumstance: Circumstance, words: str) -> None:
    assert describe_circumstance(circumstance) == words
