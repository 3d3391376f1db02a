"""The end of an object that several controllers delete: one object, one end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kubectl_evictplan.prediction.document import CERTAIN, Eviction, Window


def with_one_end(evictions: Sequence[Eviction]) -> Iterator[Eviction]:
    """An object that several controllers delete ends once, with whichever deletion ends it first.

    Each row tells that end as it is when its own deletion is issued: no earlier than this deletion, and no
    later than this deletion alone would end the object.
    """
    rows: dict[tuple[str, str], list[Eviction]] = {}
    for eviction in evictions:
        rows.setdefault((eviction.key, eviction.uid), []).append(eviction)
    for eviction in evictions:
        together = rows[eviction.key, eviction.uid] if eviction.uid else []
        if len({one.gone for one in together}) > 1:
            yield replace(eviction, gone=_end(eviction, together))
        else:
            yield eviction


def _end(row: Eviction, rows: Sequence[Eviction]) -> Window:
    """The end when ``row`` comes true: by any of the rows, no later than by those that are certain."""
    earliest = [one.gone.earliest_seconds for one in rows]
    first = min((end for end in earliest if end is not None), default=None)
    latest = [
        one.gone.latest_seconds
        for one in rows
        if (one is row or one.certainty == CERTAIN) and one.gone.latest_seconds is not None
    ]
    return Window(
        None if first is None else max(first, row.earliest_seconds),
        max(min(latest), row.latest_seconds) if latest else None,
        None if latest else row.gone.stuck,
    )
