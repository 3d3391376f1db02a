"""The controllers' own clients let requests wait: how much later than without their limits pods are deleted, at most.

Runs and proofs know nothing of it. A request that waits makes a deletion later, never sooner, and deletions influence neither
health nor taints. So every window of a deletion keeps its beginning, and ends as much later as the client can make it.
What may keep the later one from being made, and what comes of it, says ``throttled_ends``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS
from kubectl_evictplan.simulation.simulate import Given
from kubectl_evictplan.windows.clients.arrivals import Row
from kubectl_evictplan.windows.clients.buckets import Waits
from kubectl_evictplan.windows.clients.throttled_ends import Delayed, ThrottledEnds
from kubectl_evictplan.windows.outcome import Exploration, PossibleEviction
from kubectl_evictplan.windows.spans import Span, in_seconds, later_spans
from kubectl_evictplan.windows.unknowns.requests import ClientLimits

_MILLISECONDS = SECOND_NS // MILLISECOND_NS


def span_client_limits(
    waits: Iterable[tuple[Waits, Sequence[Sequence[Row]]]], result: Exploration, given: Given
) -> None:
    """Let windows of deletions reach as far as the clients of those who delete can make them late.

    ``waits``: how long what is deleted can wait, with the rows of that, by their windows.
    """
    ends = ThrottledEnds(result, given)
    late, anew_ns = list[Delayed](), 0
    for of_client, alike in waits:
        anew_ns = max(anew_ns, _longest(of_client, ends.first_stop_ns, given.scenario.end_ns))
        for rows in alike:
            spans, late_ns = _later(rows[0][1].spans, of_client, given.scenario.end_ns)
            if late_ns:
                late.append((late_ns, rows))
                new = _all_later(rows, spans, late_ns, given.scenario.end_ns, ends)
                result.evictions.update(new)
    if late:
        result.late_ns += max(late_ns for late_ns, _ in late)
        ends.follow(late, anew_ns)


def _later(spans: tuple[Span, ...], waits: Waits, horizon_ns: int) -> tuple[tuple[Span, ...], int]:
    """The windows with all that may be late, and how late that is."""
    late_ns = _longest(waits, spans[0][0], spans[-1][1])
    if not late_ns:
        return spans, 0
    return later_spans(spans, late_ns, horizon_ns), late_ns


def _longest(waits: Waits, low_ns: int, high_ns: int) -> int:
    """Of what comes within these ends, in whole milliseconds: what is the same at another time is told the same."""
    longest = waits.longest(*in_seconds((low_ns, high_ns)))
    return ceil(round(longest * _MILLISECONDS, 4)) * MILLISECOND_NS


def _all_later(
    rows: Sequence[Row],
    spans: tuple[Span, ...],
    late_ns: int,
    horizon_ns: int,
    ends: ThrottledEnds,
) -> Iterator[Row]:
    """Rows that share their windows with those; nodes that only fall silent share all else as well."""
    first = rows[0][1]
    if first.until_queued is None or not ends.nothing_else:
        for key, row in rows:
            sure = ends.is_sure(key, row, late_ns)
            yield key, _one_later(row, spans, late_ns, horizon_ns, sure=sure)
        return
    new = _one_later(first, spans, late_ns, horizon_ns, sure=True)
    head, middle, tail = new[:2], new[3:7], new[8:]
    for key, row in rows:
        # Of tens of thousands: as ``on_node`` does it.
        found = *head, row[2], *middle, row[7], *tail
        yield key, tuple.__new__(PossibleEviction, found)


def _one_later(
    row: PossibleEviction, spans: tuple[Span, ...], late_ns: int, horizon_ns: int, *, sure: bool
) -> PossibleEviction:
    sure = sure and row.latest_ns + late_ns <= horizon_ns
    return row.later(spans, late_ns, ClientLimits.name, sure=sure)
