"""What a report says, in which order: a prediction as blocks, for any renderer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Block, Table, columns
from kubectl_evictplan.report.clock import Clock
from kubectl_evictplan.report.evictions import PODS_MAX, group_table, pod_table, wide_table
from kubectl_evictplan.report.explanation import story
from kubectl_evictplan.report.provenance import provenance, whole_provenance
from kubectl_evictplan.report.verdict import verdict
from kubectl_evictplan.report.warnings import alerts, all_warnings, warnings_that_matter
from kubectl_evictplan.report.what_happens import timeline

_GROUPS_MAX = 40


def contents(
    prediction: Prediction,
    *,
    wide: bool,
    by: str | None,
    zone: tzinfo | None,
    explain: str | None,
    rows_only: bool,
) -> Iterator[Block]:
    """Yield the blocks of a report; ``rows_only`` leaves the table of evictions, all columns."""
    clock = Clock(str(prediction.inputs.start.value), zone)
    if explain is not None:
        yield from story(prediction, explain, clock, wide=wide)
        return
    if rows_only:
        yield _evictions(prediction, clock, wide=wide, by=by or "pod", all_columns=True)
        return
    loud = alerts(prediction.warnings)
    if loud is not None:
        yield loud
    yield verdict(prediction, clock, complete=loud is None)
    if prediction.evictions:
        yield _evictions(prediction, clock, wide=wide, by=by)
    if wide:
        yield from _details(prediction)
    if (moments := timeline(prediction, clock, wide=wide)) is not None:
        yield moments
    found = (all_warnings if wide else warnings_that_matter)(prediction.warnings)
    if found is not None:
        yield found
    yield (whole_provenance if wide else provenance)(prediction, clock)


def _evictions(
    prediction: Prediction,
    clock: Clock,
    *,
    wide: bool,
    by: str | None,
    all_columns: bool = False,
) -> Table:
    if by not in (None, "pod"):
        return group_table(prediction, by)
    if wide:
        return wide_table(prediction.evictions, clock)
    if by is None and len(prediction.evictions) > PODS_MAX:
        return group_table(prediction, "workload", _GROUPS_MAX)
    return pod_table(prediction.evictions, all_columns=all_columns)


def _details(prediction: Prediction) -> Iterator[Block]:
    """Yield by name what the verdict counts."""
    if prediction.kept:
        yield Table(
            columns("NAMESPACE", "POD", "NODE", "WHY", "OWNER", "REASON"),
            [
                tuple(map(words.name, (k.namespace, k.pod, k.node, k.code, k.owner, k.reason)))
                for k in prediction.kept
            ],
            "Pods that stay",
        )
    if prediction.cancelled:
        yield Table(
            columns("NAMESPACE", "POD", "NODE", "CERTAINTY", "STARTED", "CANCELLED", "REASON"),
            [
                (
                    *map(words.name, (c.namespace, c.pod, c.node, c.certainty)),
                    *(words.gone(window, exact=True) for window in (c.started, c.cancelled)),
                    words.name(c.reason),
                )
                for c in prediction.cancelled
            ],
            "Timers that are cancelled",
        )
