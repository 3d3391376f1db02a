"""Which toleration meets which taint, and for how long.

Upstream: ``Toleration.ToleratesTaint``, ``GetMatchingTolerations``, ``getMinTolerationTime``.
Identical in 1.16-1.37 but for the Lt/Gt operators (alpha, off).
"""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Taint, Toleration
from kubectl_evictplan.kube.validation import INT64_MAX, parse_int64

INFINITE_NS = -1


def to_int64(value: int) -> int:
    """Wrap like Go's int64 arithmetic."""
    return (value + 2**63) % 2**64 - 2**63


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
    left = parse_int64(taint_value, canonical=True)
    right = parse_int64(toleration_value, canonical=True)
    if left is None or right is None:
        return False
    return left < right if operator == "Lt" else left > right


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
    finite = (t.toleration_seconds for t in tolerations if t.toleration_seconds is not None)
    minimum = max(min(finite, default=INT64_MAX), 0)
    return INFINITE_NS if minimum == INT64_MAX else to_int64(minimum * SECOND_NS)


def deciding_index(tolerations: Sequence[Toleration], used: Sequence[int]) -> int | None:
    """Index of the toleration whose seconds are the minimum over ``used``; None if none is finite."""
    finite = [index for index in used if tolerations[index].toleration_seconds is not None]
    return min(finite, key=lambda at: max(tolerations[at].toleration_seconds or 0, 0), default=None)
