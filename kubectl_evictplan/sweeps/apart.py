"""A prediction of one silent node taken apart: what it says, and when. Pure.

What it says of a pod is told of its kind, without the pod's names; instants are whole microseconds, as they are
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.prediction.document import Eviction, Kept, NodeReport, Prediction, Window

# All that rows of sweeps ask of warnings.
CODES = ("bare-pod-lost", "replacement-may-return", "daemonset-evicted-again")
MICROSECOND_NS, MICROSECONDS = 1_000, 1_000_000
_OF_EVICTION = 5

_PodRow = TypeVar("_PodRow", Eviction, Kept)
Seconds = Iterator[float | None]


class Rows(NamedTuple):
    """What is told of a pod of one kind, or of all other pods; ``codes`` with the pods that they name."""

    evictions: tuple[Eviction, ...]
    kept: tuple[Kept, ...]
    codes: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def instants(self) -> int:
        """How many instants belong to them."""
        return _OF_EVICTION * len(self.evictions)


class Shape(NamedTuple):
    """All of an answer but its instants. Rows of kinds have no names; the silent node is called ""."""

    of_kind: tuple[Rows, ...]
    others: Rows
    nodes: tuple[NodeReport, ...]


class Answer(NamedTuple):
    """``instants_us`` are those of the evictions of each kind, then of others, then of nodes."""

    renewed_us: int
    shape: Shape
    instants_us: tuple[int | None, ...]


def taken_apart(
    prediction: Prediction, kinds: Sequence[Pod], node: str, renewed_us: int
) -> Answer | None:
    """Return the answer for a node that has one pod of every kind; None where a namesake of one goes."""
    evictions: dict[str, list[Eviction]] = {}
    for eviction in prediction.evictions:
        evictions.setdefault(eviction.key, []).append(eviction)
    kept: dict[str, list[Kept]] = {}
    for one in prediction.kept:
        kept.setdefault(one.key, []).append(one)
    codes = _codes(prediction)
    of_kind: list[Rows] = []
    instants: list[float | None] = []
    for pod in kinds:
        rows, stays = evictions.pop(pod.key, []), kept.pop(pod.key, [])
        if any(row.uid != pod.uid for row in rows):
            return None
        instants += _instants(rows)
        own = tuple((code, ()) for code in codes.pop(pod.key, ()))
        nameless = tuple(_nameless(_undated(row)) for row in rows)
        of_kind.append(Rows(nameless, tuple(_nameless(_wordless(row)) for row in stays), own))
    left = [row for some in evictions.values() for row in some]
    instants += _instants(left)
    stays = [_wordless(row) for some in kept.values() for row in some]
    others = Rows(tuple(map(_undated, left)), tuple(stays), tuple(_by_code(codes)))
    reports = []
    for report in prediction.nodes:
        for change in report.changes:
            instants += (change.offset_seconds, change.earliest_seconds, change.latest_seconds)
        bare = [
            replace(change, offset_seconds=None, earliest_seconds=0.0, latest_seconds=0.0)
            for change in report.changes
        ]
        name = "" if report.node == node else report.node
        reports.append(replace(report, node=name, changes=tuple(bare)))
    shape = Shape(tuple(of_kind), others, tuple(reports))
    return Answer(renewed_us, shape, tuple(map(_microseconds, instants)))


def _codes(prediction: Prediction) -> dict[str, list[str]]:
    """Return by pod the codes that name it."""
    found: dict[str, list[str]] = {}
    for warning in prediction.warnings:
        for key in warning.objects if warning.code in CODES else ():
            found.setdefault(key, []).append(warning.code)
    return found


def _by_code(codes: dict[str, list[str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for code in CODES:
        if keys := tuple(key for key, some in codes.items() if code in some):
            yield code, keys


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * MICROSECONDS)


def _instants(rows: Sequence[Eviction]) -> Iterator[float | None]:
    for row in rows:
        yield from (row.offset_seconds, row.earliest_seconds, row.latest_seconds)
        yield from (row.gone.earliest_seconds, row.gone.latest_seconds)


def _undated(row: Eviction) -> Eviction:
    """Without instants, and without what words tell."""
    gone = Window(None, None, row.gone.stuck)
    dates = {"offset_seconds": 0.0, "earliest_seconds": 0.0, "latest_seconds": 0.0, "time": ""}
    return replace(row, windows=(), because=(), gone=gone, **dates)


def dated(row: Eviction, seconds: Seconds) -> Eviction:
    """Return the row with the next instants."""
    offset, earliest, latest = next(seconds), next(seconds), next(seconds)
    gone = Window(next(seconds), next(seconds), row.gone.stuck)
    return replace(
        row, offset_seconds=offset, earliest_seconds=earliest, latest_seconds=latest, gone=gone
    )


def dated_report(report: NodeReport, node: str, seconds: Seconds) -> NodeReport:
    """Return the report with the next instants; ``node`` is the name of the silent one."""
    changes = tuple(
        replace(
            change,
            offset_seconds=next(seconds),
            earliest_seconds=next(seconds),
            latest_seconds=next(seconds),
        )
        for change in report.changes
    )
    return replace(report, node=report.node or node, changes=changes)


def _nameless(row: _PodRow) -> _PodRow:
    return replace(row, namespace="", pod="", uid="", node="", owner="")


def _wordless(row: Kept) -> Kept:
    return replace(row, reason="", because=())
