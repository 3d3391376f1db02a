"""How the spans of many runs are joined to the few outcomes that are told."""

from __future__ import annotations

from kubectl_evictplan.windows.spans import disjoint_outcomes, merge_spans


def test_spans_at_most_a_gap_apart_are_one() -> None:
    assert list(merge_spans([(0, 1), (3, 4), (7, 8)], 2)) == [(0, 4), (7, 8)]


def test_outcomes_are_sorted_and_stay_disjoint() -> None:
    assert disjoint_outcomes([(20, 21), (0, 1), (2, 3)], 5) == ((0, 3), (20, 21))


def test_more_than_four_outcomes_are_joined_where_they_lie_closest() -> None:
    spans = [(0, 0), (100, 100), (190, 190), (300, 300), (400, 400)]
    assert disjoint_outcomes(spans, 10) == ((0, 0), (100, 190), (300, 300), (400, 400))


def test_what_begins_after_the_horizon_takes_no_place_of_an_outcome_before_it() -> None:
    spans = [(0, 0), (100, 100), (190, 190), (300, 300), (400, 400), (500, 501)]
    assert disjoint_outcomes(spans, 10, 390) == (
        *[(at, at) for at in (0, 100, 190, 300)],
        (400, 501),
    )
    assert disjoint_outcomes(spans[:3], 10, 90) == ((0, 0), (100, 190))
