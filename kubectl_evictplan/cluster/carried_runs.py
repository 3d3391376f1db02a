"""A run on its way to another process: its entries as columns, of which each kind has its own."""

from __future__ import annotations

import pickle
from collections import defaultdict
from operator import attrgetter

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import Entry, Timeline

# Of a kind of entries the columns of its fields.
_Columns = tuple[type[Entry], list[list[object]]]


def packed(run: Timeline) -> bytes:
    """The run as bytes that only ``unpacked`` of this very program reads."""
    by_kind: defaultdict[type[Entry], list[Entry]] = defaultdict(list)
    kinds = list(map(type, run.entries))
    for kind, entry in zip(kinds, run.entries, strict=True):
        by_kind[kind].append(entry)
    columns: list[_Columns] = [
        (kind, [list(map(attrgetter(field), some)) for field in kind.__struct_fields__])
        for kind, some in by_kind.items()
    ]
    number = {kind: number for number, kind in enumerate(by_kind)}
    order = [number[kind] for kind in kinds]
    return pickle.dumps(
        (replace(run, entries=[], carried=b""), columns, order), pickle.HIGHEST_PROTOCOL
    )


def unpacked(text: bytes) -> Timeline:
    """The run again."""
    run, columns, order = pickle.loads(text)  # noqa: S301 - from a copy of this process
    kinds = [map(kind, *of_fields) for kind, of_fields in columns]
    run.entries = [next(kinds[number]) for number in order]
    run.carried = text
    found: Timeline = run
    return found
