"""What a report says, in which order: a prediction as blocks, for any renderer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from kubectl_evictplan.prediction.document import Joint, Kept, Prediction
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Block, Column, Table
from kubectl_evictplan.report.clock import Clock
from kubectl_evictplan.report.evictions import PODS_MAX, group_table, pod_table, wide_table
from kubectl_evictplan.report.explanation import story
from kubectl_evictplan.report.nodes_and_zones import node_table, timeline, zone_table
from kubectl_evictplan.report.provenance import provenance, whole_provenance
from kubectl_evictplan.report.verdict import verdict
from kubectl_evictplan.report.warnings import alerts, all_warnings, warnings_that_matter

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
    elif (moments := timeline(prediction, clock)) is not None:
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
    if prediction.kept:
        yield _kept_table(prediction.kept)
    if prediction.cancelled:
        yield _cancelled_table(prediction)
    if prediction.joint:
        yield _joint_table(prediction.joint)
    if prediction.nodes:
        yield node_table(prediction.nodes)
    if prediction.zones:
        yield zone_table(prediction.zones)


def _kept_table(kept: tuple[Kept, ...]) -> Table:
    columns = ("NAMESPACE", "POD", "NODE", "WHY", "OWNER", "REASON")
    rows = [
        tuple(map(words.name, (k.namespace, k.pod, k.node, k.code, k.owner, k.reason)))
        for k in kept
    ]
    return Table(tuple(map(Column, columns)), rows, "Pods that stay")


def _cancelled_table(prediction: Prediction) -> Table:
    columns = ("NAMESPACE", "POD", "NODE", "CERTAINTY", "STARTED", "CANCELLED", "REASON")
    rows = [
        (
            *map(words.name, (entry.namespace, entry.pod, entry.node, entry.certainty)),
            *(
                words.window(window.earliest_seconds, window.latest_seconds, exact=True)
                for window in (entry.started, entry.cancelled)
            ),
            words.name(entry.reason),
        )
        for entry in prediction.cancelled
    ]
    return Table(tuple(map(Column, columns)), rows, "Timers that are cancelled")


def _joint_table(joints: tuple[Joint, ...]) -> Table:
    columns = ("SCOPE", "WHAT", "LEAST", "MOST", "OF", "BY")
    rows = [
        (
            *map(words.name, (joint.scope, joint.what)),
            *map(str, (joint.least, joint.most, joint.of)),
            words.offset(joint.by_seconds),
        )
        for joint in joints
    ]
    return Table(tuple(map(Column, columns)), rows, "Taken together")
