"""Rows for spreadsheets: ``-o csv`` of a prediction's evictions and of a sweep.

Columns are called as in the JSON document. What a spreadsheet would take for a formula is text: a quote stands before
it. Cells are ASCII on one line, because names of a cluster may be hostile.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubectl_evictplan.display import escape
from kubectl_evictplan.prediction.document import Eviction, Prediction
from kubectl_evictplan.prediction.records import Record
from kubectl_evictplan.report import words
from kubectl_evictplan.sweeps.document import ClusterRow, FailureRow, FlagRow, Sweep

Value = str | int | float | None
# How a formula begins, in ASCII and in the full width that East Asian spreadsheets accept.
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20\t\r\0")
# Lists that are null are not known; an empty cell is a list without anything in it.
_UNKNOWN = "<unknown>"


def render_evictions(prediction: Prediction, *, headers: bool = True) -> Iterator[str]:
    """Yield one row for each eviction, in the document's order; windows are their hull."""
    return _rendered(map(_eviction, prediction.evictions), _EVICTION, headers=headers)


def render_sweep(sweep: Sweep) -> Iterator[str]:
    """Yield one row for each failure, choice of flags or cluster, in the document's order."""
    kind: type[Record] = FailureRow
    found: Sequence[Record] = sweep.failures
    if sweep.what == "flags":
        kind, found = FlagRow, sweep.cells
    elif sweep.what == "fleet":
        kind, found = ClusterRow, sweep.clusters
    heads = tuple(name for name, _ in _flat(None, kind))
    return _rendered((dict(_flat(one, kind)) for one in found), heads)


def cell(text: str) -> str:
    """Return text as a spreadsheet shows it and never computes it."""
    safe = escape(text, ascii_only=True)
    return f"'{safe}" if text.lstrip(" ").startswith(_FORMULA) else safe


# -- evictions --------------------------------------------------------------------------------------

_EVICTION = (
    *("namespace", "pod", "uid", "node", "owner", "certainty", "time"),
    *("offsetSeconds", "earliestSeconds", "latestSeconds", "outcomes", "controller"),
    *("taint", "tolerationSeconds", "goneEarliestSeconds", "goneLatestSeconds", "stuck"),
)


def _eviction(one: Eviction) -> dict[str, Value]:
    found: tuple[Value, ...] = (
        *(one.namespace, one.pod, one.uid, one.node, one.owner, one.certainty, one.time),
        *(one.offset_seconds, one.earliest_seconds, one.latest_seconds, len(one.windows)),
        one.controller,
        None if one.taint is None else words.taint(one.taint),
        None if one.toleration is None else one.toleration.toleration_seconds,
        *(one.gone.earliest_seconds, one.gone.latest_seconds, one.gone.stuck),
    )
    return dict(zip(_EVICTION, found, strict=True))


# -- sweeps -----------------------------------------------------------------------------------------


def _flat(
    record: Record | None, kind: type[Record], prefix: str = ""
) -> Iterator[tuple[str, Value]]:
    """Yield the columns of a row; a record in it gives its own, a list its length as well.

    ``record`` None: the columns alone, empty.
    """
    for field in msgspec.structs.fields(kind):
        name = f"{prefix}.{field.encode_name}" if prefix else field.encode_name
        value = None if record is None else getattr(record, field.name)
        if FailureRow in _alternatives(field.type):
            yield from _flat(value, FailureRow, name)
        elif any(getattr(one, "__origin__", one) is tuple for one in _alternatives(field.type)):
            missing = None if record is None else _UNKNOWN
            yield f"{name}.count", missing if value is None else len(value)
            yield name, missing if value is None else "; ".join(value)
        elif isinstance(value, Mapping):
            yield name, "; ".join(f"{key}={one}" for key, one in value.items())
        elif isinstance(value, bool):
            yield name, str(value).lower()
        else:
            yield name, value


def _alternatives(annotation: Any) -> Sequence[Any]:
    """Return the types of ``A | None``, and of A alone."""
    is_tuple = getattr(annotation, "__origin__", None) is tuple
    return (annotation,) if is_tuple else getattr(annotation, "__args__", (annotation,))


# -- text -------------------------------------------------------------------------------------------


def _rendered(
    rows: Iterable[Mapping[str, Value]], columns: Sequence[str], *, headers: bool = True
) -> Iterator[str]:
    """Yield RFC 4180 with every text in quotes and lines that end in a newline alone."""
    writer = csv.writer(_Echo(), quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    if headers:
        yield writer.writerow(columns)
    for row in rows:
        values = (row[name] for name in columns)
        yield writer.writerow(
            "" if value is None else cell(value) if isinstance(value, str) else value
            for value in values
        )


class _Echo:
    """What ``csv.writer`` writes to: hands each row back to whoever writes it."""

    def write(self, row: str) -> str:
        return row
