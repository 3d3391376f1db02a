"""The chart of a prediction: what happens to nodes and zones, and when each workload's pods go."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kubectl_evictplan.prediction.document import CERTAIN, Prediction
from kubectl_evictplan.report.blocks import Bar, BarGroup, Gantt
from kubectl_evictplan.report.evictions import grouped
from kubectl_evictplan.report.what_happens import spans
from kubectl_evictplan.report.words import Clock

_CHANGES_MAX = 8
_WORKLOADS_MAX = 12


def gantt(prediction: Prediction, clock: Clock) -> Gantt | None:
    """Return the chart; None where nothing follows from the events."""
    groups = [BarGroup("Nodes and zones", tuple(_changes(prediction)))]
    workloads = tuple(_workloads(prediction))
    groups.append(BarGroup("Evictions by workload", workloads))
    groups = [group for group in groups if group.bars]
    if not groups:
        return None
    note = "A bar reaches from the earliest to the latest instant of what it names."
    more = len(grouped(prediction, "workload")) - len(workloads)
    if more > 0:
        note += f" {more} more workloads are in the table."
    return Gantt("When", tuple(groups), clock.start_time(), note)


def _changes(prediction: Prediction) -> Iterator[Bar]:
    for text, earliest, latest in islice(spans(prediction), _CHANGES_MAX):
        yield Bar(text, earliest, latest)


def _workloads(prediction: Prediction) -> Iterator[Bar]:
    """Yield the largest groups of evictions, in the order of time."""
    largest = list(grouped(prediction, "workload").items())[:_WORKLOADS_MAX]
    largest.sort(key=lambda item: (min(entry.earliest_seconds for entry in item[1]), item[0]))
    for key, group in largest:
        sure = all(entry.certainty == CERTAIN for entry in group)
        pods = len({entry.key for entry in group})
        yield Bar(
            f"{'/'.join(key)} ({pods})" if pods > 1 else "/".join(key),
            min(entry.earliest_seconds for entry in group),
            max(entry.latest_seconds for entry in group),
            "certain" if sure else "possible",
        )
