"""Toleration matching and its arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_evictplan.kube.objects import EFFECTS, NO_EXECUTE, Taint, Toleration
from kubectl_evictplan.kube.tolerations import (
    get_matching_tolerations,
    get_min_toleration_time_ns,
    tolerates_taint,
)

SECOND_NS = 1_000_000_000
INT64_MAX = 2**63 - 1
TAINT = Taint(key="K", value="V", effect=NO_EXECUTE)
BARE_TAINT = Taint(key="K", effect=NO_EXECUTE)


@pytest.mark.parametrize(
    ("key", "operator", "value", "effect", "tolerated"),
    [
        ("K", "", "V", "NoExecute", True),
        ("K", "Equal", "V", "NoExecute", True),
        ("K", "", "W", "NoExecute", False),
        ("K", "Equal", "W", "NoExecute", False),
        ("K", "", "", "NoExecute", False),
        ("K", "Equal", "", "NoExecute", False),
        ("K", "Exists", "", "NoExecute", True),
        # The API rejects a value here; the matcher ignores it.
        ("K", "Exists", "x", "NoExecute", True),
        ("K", "Exists", "", "", True),
        ("K", "Equal", "V", "", True),
        ("K", "Exists", "", "NoSchedule", False),
        ("K", "Exists", "", "PreferNoSchedule", False),
        ("K", "Exists", "", "noexecute", False),
        ("", "Exists", "", "", True),
        ("", "Exists", "", "NoExecute", True),
        ("", "Exists", "", "NoSchedule", False),
        # The API rejects an empty key without Exists; the matcher compares the values.
        ("", "", "V", "NoExecute", True),
        ("", "Equal", "V", "", True),
        ("", "Equal", "W", "", False),
        ("", "Equal", "", "", False),
        ("L", "Exists", "", "", False),
        ("L", "Equal", "V", "NoExecute", False),
        ("k", "Exists", "", "NoExecute", False),
        ("K", "exists", "", "NoExecute", False),
        ("K", "equal", "V", "NoExecute", False),
        ("K", "NotIn", "V", "NoExecute", False),
    ],
)
def test_truth_table(key: str, operator: str, value: str, effect: str, tolerated: bool) -> None:
    toleration = Toleration(key=key, operator=operator, value=value, effect=effect)

    assert tolerates_taint(toleration, TAINT) is tolerated


@pytest.mark.parametrize("operator", ["", "Equal"])
def test_an_empty_value_equals_a_taint_without_value(operator: str) -> None:
    assert tolerates_taint(Toleration(key="K", operator=operator, effect=NO_EXECUTE), BARE_TAINT)


@pytest.mark.parametrize("seconds", [None, 0, -1, 60])
def test_the_seconds_play_no_part_in_matching(seconds: int | None) -> None:
    toleration = Toleration(key="K", operator="Exists", toleration_seconds=seconds)

    assert tolerates_taint(toleration, TAINT)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("tolerated_effect", ["", *EFFECTS])
def test_an_effect_tolerates_itself_and_no_effect_tolerates_all(
    effect: str, tolerated_effect: str
) -> None:
    toleration = Toleration(key="K", operator="Exists", effect=tolerated_effect)

    expected = tolerated_effect in ("", effect)
    assert tolerates_taint(toleration, Taint(key="K", effect=effect)) is expected


COMPARISONS = [
    # operator, toleration's value, taint's value, tolerated
    ("Gt", "95", "99", True),
    ("Gt", "95", "95", False),
    ("Gt", "95", "94", False),
    ("Lt", "95", "94", True),
    ("Lt", "95", "95", False),
    ("Lt", "95", "99", False),
    ("Gt", "-1", "0", True),
    ("Lt", "-1", "0", False),
    ("Lt", "100", "99", True),  # as numbers, not as text
    ("Gt", "9", "10", True),
    ("Lt", "95", "099", False),
    ("Lt", "095", "94", False),
    ("Gt", "0", "+1", False),
    ("Gt", "+1", "2", False),
    ("Gt", "-0", "1", False),
    ("Lt", "1", "-0", False),
    ("Gt", "0", "1.0", False),
    ("Gt", "0", "0x1", False),
    ("Gt", "0", "1e3", False),
    ("Gt", "", "1", False),
    ("Gt", "0", "", False),
    ("Gt", "0", " 1", False),
    ("Gt", "0", "1\n", False),
    ("Gt", "0", "1_000", False),
    ("Gt", "0", "\u0661", False),  # a digit, but not one of ASCII's
    ("Gt", "0", "9223372036854775807", True),
    ("Gt", "0", "9223372036854775808", False),
    ("Gt", "-9223372036854775808", "0", True),
    ("Gt", "-9223372036854775809", "0", False),
    ("Lt", "9223372036854775807", "9223372036854775806", True),
    ("Gt", "0", "9" * 5000, False),
]


@pytest.mark.parametrize(("operator", "value", "taint_value", "tolerated"), COMPARISONS)
def test_comparison_operators_compare_canonical_int64(
    operator: str, value: str, taint_value: str, tolerated: bool
) -> None:
    toleration = Toleration(key="K", operator=operator, value=value, effect=NO_EXECUTE)
    taint = Taint(key="K", value=taint_value, effect=NO_EXECUTE)

    assert tolerates_taint(toleration, taint, comparison_operators=True) is tolerated


@pytest.mark.parametrize(("operator", "value", "taint_value", "_tolerated"), COMPARISONS)
def test_comparison_operators_match_nothing_while_the_gate_is_off(
    operator: str, value: str, taint_value: str, _tolerated: bool
) -> None:
    toleration = Toleration(key="K", operator=operator, value=value, effect=NO_EXECUTE)
    taint = Taint(key="K", value=taint_value, effect=NO_EXECUTE)

    assert not tolerates_taint(toleration, taint)


def test_comparison_operators_still_need_key_and_effect() -> None:
    taint = Taint(key="K", value="99", effect=NO_EXECUTE)
    for wrong in ({"key": "L"}, {"effect": "NoSchedule"}):
        fields = {"key": "K", "operator": "Gt", "value": "95", "effect": NO_EXECUTE} | wrong

        assert not tolerates_taint(Toleration(**fields), taint, comparison_operators=True)


def exists(key: str, seconds: int | None = None) -> Toleration:
    return Toleration(key=key, operator="Exists", effect=NO_EXECUTE, toleration_seconds=seconds)


def taints(*keys: str) -> tuple[Taint, ...]:
    return tuple(Taint(key=key, effect=NO_EXECUTE) for key in keys)


@pytest.mark.parametrize(
    ("taint_keys", "tolerations", "matches"),
    [
        ((), (), (True, ())),
        ((), (exists("A"),), (True, ())),
        (("A",), (), (False, ())),
        (("A",), (exists("B"),), (False, ())),
        (("A", "B"), (exists("A"),), (False, ())),
        (("A", "B"), (exists("B"), exists("A")), (True, (1, 0))),
        (("A", "B"), (exists("", 60),), (True, (0, 0))),
        # The finite wildcard in front hides the endless toleration of A, and vice versa.
        (("A",), (exists("", 60), exists("A")), (True, (0,))),
        (("A",), (exists("A"), exists("", 60)), (True, (0,))),
        (("A", "B"), (exists("A"), exists("", 60)), (True, (0, 1))),
        (("A",), (exists("A", 300), exists("A", 10)), (True, (0,))),
    ],
)
def test_each_taint_takes_the_first_toleration_that_matches(
    taint_keys: tuple[str, ...],
    tolerations: tuple[Toleration, ...],
    matches: tuple[bool, tuple[int, ...]],
) -> None:
    assert get_matching_tolerations(taints(*taint_keys), tolerations) == matches


def test_comparison_operators_reach_the_matching_of_lists() -> None:
    taint = (Taint(key="K", value="99", effect=NO_EXECUTE),)
    toleration = (Toleration(key="K", operator="Gt", value="95", effect=NO_EXECUTE),)

    assert get_matching_tolerations(taint, toleration) == (False, ())
    assert get_matching_tolerations(taint, toleration, comparison_operators=True) == (True, (0,))


def minimum(seconds: Sequence[int | None]) -> int:
    return get_min_toleration_time_ns([exists("A", each) for each in seconds])


@pytest.mark.parametrize(
    ("seconds", "minimum_ns"),
    [
        ((), 0),
        ((60,), 60 * SECOND_NS),
        ((60, 120), 60 * SECOND_NS),
        ((120, 60), 60 * SECOND_NS),
        ((None, 60), 60 * SECOND_NS),
        ((60, None), 60 * SECOND_NS),
        ((0,), 0),
        ((-5,), 0),
        ((60, 0, None), 0),
        ((None, -1), 0),
        ((1,), SECOND_NS),
        # The last number of seconds whose nanoseconds fit an int64.
        ((9_223_372_036,), 9_223_372_036 * SECOND_NS),
        ((18_446_744_074,), 290_448_384),
        ((INT64_MAX, 60), 60 * SECOND_NS),
    ],
)
def test_the_minimum_over_the_tolerations_in_use(
    seconds: tuple[int | None, ...], minimum_ns: int
) -> None:
    assert minimum(seconds) == minimum_ns


@pytest.mark.parametrize(
    "seconds",
    [(None,), (None, None), (9_223_372_037,), (18_446_744_073,), (INT64_MAX,), (None, INT64_MAX)],
)
def test_no_seconds_and_an_overflow_to_a_negative_are_for_ever(
    seconds: tuple[int | None, ...],
) -> None:
    assert minimum(seconds) < 0


@given(st.integers(min_value=1, max_value=INT64_MAX - 1))
def test_nanoseconds_wrap_as_an_int64(seconds: int) -> None:
    wrapped = int.from_bytes((seconds * SECOND_NS % 2**64).to_bytes(8, "big"), "big", signed=True)

    assert (minimum((seconds,)) < 0) is (wrapped < 0)
    if wrapped >= 0:
        assert minimum((seconds,)) == wrapped


TOLERATIONS = st.builds(
    Toleration,
    key=st.sampled_from(["", "A", "B"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Lt", "Gt"]),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(["", *EFFECTS]),
    toleration_seconds=st.none() | st.integers(-2, 100),
)
TAINTS = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from(["A", "B", "C"]),
        value=st.sampled_from(["", "1", "2"]),
        effect=st.just(NO_EXECUTE),
    ),
    max_size=4,
)


@given(TAINTS, st.lists(TOLERATIONS, max_size=5))
def test_all_taints_are_met_exactly_when_each_has_a_toleration(
    node_taints: list[Taint], tolerations: list[Toleration]
) -> None:
    met, indices = get_matching_tolerations(node_taints, tolerations)

    assert met is all(
        any(tolerates_taint(toleration, taint) for toleration in tolerations)
        for taint in node_taints
    )
    if met:
        for taint, index in zip(node_taints, indices, strict=True):
            matches = [tolerates_taint(toleration, taint) for toleration in tolerations]
            assert index == matches.index(True)


@given(TAINTS, st.lists(TOLERATIONS, max_size=5), TOLERATIONS)
def test_a_toleration_appended_never_takes_tolerance_away(
    node_taints: list[Taint], tolerations: list[Toleration], more: Toleration
) -> None:
    before = get_matching_tolerations(node_taints, tolerations)
    after = get_matching_tolerations(node_taints, [*tolerations, more])

    if before[0]:
        assert after == before
