"""Which toleration meets which taint, and for how long.

Upstream: ``Toleration.ToleratesTaint``, ``GetMatchingTolerations``, ``getMinTolerationTime``.
Identical in 1.16-1.37 but for the Lt/Gt operators (alpha, off).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Taint, Toleration

INFINITE_NS = -1
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def to_int64(value: int) -> int:
    """Wrap like Go's int64 arithmetic."""
    return (value - _INT64_MIN) % 2**64 + _INT64_MIN


def tolerates_taint(
    toleration: Toleration, taint: Taint, *, comparison_operators: bool = False
) -> bool:
    """``ToleratesTaint``. ``comparison_operators`` is gate TaintTolerationComparisonOperators."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if comparison_operators:
            return _compare(taint.value, toleration.operator, toleration.value)
        case _:
            return False


def _compare(taint_value: str, operator: str, toleration_value: str) -> bool:
    numbers = []
    for text in (taint_value, toleration_value):
        if not _CANONICAL_INTEGER.fullmatch(text) or len(text) > 20:
            return False
        number = int(text)
        if not _INT64_MIN <= number <= _INT64_MAX:
            return False
        numbers.append(number)
    return numbers[0] < numbers[1] if operator == "Lt" else numbers[0] > numbers[1]


def get_matching_tolerations(
    taints: Sequence[Taint],
    tolerations: Sequence[Toleration],
    *,
    comparison_operators: bool = False,
) -> tuple[bool, tuple[int, ...]]:
    """``GetMatchingTolerations``: for each taint the *first* toleration that meets it.

    Returns (all taints are met, indices into ``tolerations``, one per taint in taint order). When a
    taint is not met the indices are empty, as upstream returns none.
    """
    indices = []
    for taint in taints:
        for index, toleration in enumerate(tolerations):
            if tolerates_taint(toleration, taint, comparison_operators=comparison_operators):
                indices.append(index)
                break
        else:
            return False, ()
    return True, tuple(indices)


def get_min_toleration_time_ns(tolerations: Sequence[Toleration]) -> int:
    """``getMinTolerationTime`` in nanoseconds; negative means forever, 0 means at once.

    Seconds are multiplied in int64: 9223372037 s wraps to a negative duration (forever) and
    18446744074 s to 0.290448384 s, as in every release.
    """
    if not tolerations:
        return 0
    minimum: int | None = None
    for toleration in tolerations:
        seconds = toleration.toleration_seconds
        if seconds is None:
            continue
        if seconds <= 0:
            return 0
        minimum = seconds if minimum is None else min(minimum, seconds)
    if minimum is None or minimum == _INT64_MAX:
        return INFINITE_NS
    return to_int64(minimum * SECOND_NS)


def deciding_index(tolerations: Sequence[Toleration], used: Sequence[int]) -> int | None:
    """Index of the toleration whose seconds are the minimum over ``used``; None if none is finite."""
    best: int | None = None
    for index in used:
        seconds = tolerations[index].toleration_seconds
        if seconds is None:
            continue
        effective = max(seconds, 0)
        if best is None or effective < max(tolerations[best].toleration_seconds or 0, 0):
            best = index
    return best
