"""Spans of instants, and how those of many runs are joined to the few that are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from kubectl_evictplan.kube.durations import SECOND_NS

# Offsets of the earliest and the latest instant.
Span = tuple[int, int]
NEVER_NS = 2**62
# What began before the start, nobody knows when.
BEFORE_NS = -NEVER_NS

# More outcomes than this help nobody.
_OUTCOMES_MAX = 4


def merge_spans(spans: Iterable[Span], gap_ns: int) -> Iterator[Span]:
    """Join sorted spans that lie at most ``gap_ns`` apart."""
    current: Span | None = None
    for low_ns, high_ns in spans:
        if current is None:
            current = low_ns, high_ns
        elif low_ns <= current[1] + gap_ns:
            current = current[0], max(current[1], high_ns)
        else:
            yield current
            current = low_ns, high_ns
    if current is not None:
        yield current


def in_seconds(span: Span) -> tuple[float, float]:
    """Both ends in seconds."""
    return span[0] / SECOND_NS, span[1] / SECOND_NS


def meets(spans: Iterable[Span], other: Span) -> bool:
    """Whether one of them has an instant of the other one."""
    return any(low_ns <= other[1] and high_ns >= other[0] for low_ns, high_ns in spans)


def later_spans(
    spans: Iterable[Span], late_ns: int, horizon_ns: int = NEVER_NS
) -> tuple[Span, ...]:
    """The same spans where each may end so much later: at most to the horizon, if it does not end behind that already."""
    later = ((low, max(high, min(high + late_ns, horizon_ns))) for low, high in spans)
    return tuple(merge_spans(later, 0))


def disjoint_outcomes(
    spans: Iterable[Span], gap_ns: int, horizon_ns: int = NEVER_NS
) -> tuple[Span, ...]:
    """Sorted spans, joined where they lie at most ``gap_ns`` apart, and further until they are few.

    What begins after the horizon is one of them: nothing is told of it.
    """
    joined = list(merge_spans(sorted(spans), gap_ns))
    beyond = [span for span in joined if span[0] > horizon_ns]
    joined = joined[: len(joined) - len(beyond)]
    while len(joined) > _OUTCOMES_MAX:
        gap_ns = min(after[0] - before[1] for before, after in pairwise(joined))
        joined = list(merge_spans(joined, gap_ns))
    return (*joined, (beyond[0][0], beyond[-1][1])) if beyond else tuple(joined)
