"""The end of an object that several controllers delete: one object, one end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from kubectl_evictplan.prediction.document import CERTAIN, Eviction, Window


def with_one_end(evictions: Sequence[Eviction]) -> Iterator[Eviction]:
    """An object that several controllers delete ends once: all its rows tell the same end."""
    rows: dict[tuple[str, str], list[Eviction]] = {}
    for eviction in evictions:
        rows.setdefault((eviction.key, eviction.uid), []).append(eviction)
    for eviction in evictions:
        together = rows[eviction.key, eviction.uid] if eviction.uid else []
        if len({one.gone for one in together}) > 1:
            yield replace(eviction, gone=_one_end(together))
        else:
            yield eviction


def _one_end(rows: Iterable[Eviction]) -> Window:
    """The end of an object that each of the rows deletes: whichever is first, and certain of those that are."""
    ends = [row.gone for row in rows]
    first = min((e.earliest_seconds for e in ends if e.earliest_seconds is not None), default=None)
    sure = [
        row.gone.latest_seconds
        for row in rows
        if row.certainty == CERTAIN and row.gone.latest_seconds is not None
    ]
    if sure:
        return Window(first, min(sure))
    stuck = [end for end in ends if end.latest_seconds is None]
    if stuck:
        return Window(first, None, stuck[0].stuck)
    return Window(first, max(end.latest_seconds or 0.0 for end in ends))
