"""The chart of a prediction: what happens to nodes and zones, and when each workload's pods go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kubectl_evictplan.prediction.document import CERTAIN, Eviction, Prediction
from kubectl_evictplan.report import words
from kubectl_evictplan.report.blocks import Bar, BarGroup, Gantt, Tone
from kubectl_evictplan.report.drains import waited_for
from kubectl_evictplan.report.evictions import count_pods, grouped
from kubectl_evictplan.report.what_happens import spans
from kubectl_evictplan.report.words import Clock

_CHANGES_MAX = 8
_WORKLOADS_MAX = 12


def gantt(prediction: Prediction, clock: Clock) -> Gantt | None:
    """Return the chart; None where nothing follows from the events."""
    groups = [BarGroup("Drains", tuple(drain_bars(prediction)))]
    groups.append(BarGroup("Nodes and zones", tuple(_changes(prediction))))
    by_workload = grouped(prediction, "workload")
    workloads = tuple(_workloads(by_workload, prediction.evicted.once))
    groups.append(BarGroup("Evictions by workload", workloads))
    groups = [group for group in groups if group.bars]
    if not groups:
        return None
    note = "A bar reaches from the earliest to the latest instant of what it names."
    if prediction.drains:
        note = f"Drains and waits last as long as their bars. Else: {note[0].lower()}{note[1:]}"
    more = len(by_workload) - len(workloads)
    if more > 0:
        note += f" {more} more workloads are in the table."
    return Gantt("When", tuple(groups), clock.start_time(), note)


def drain_bars(prediction: Prediction) -> Iterator[Bar]:
    """Yield each drain, and what waits in it; what never ends goes on for as long as anything else twice over."""
    ends = [group.shared.latest_seconds for group in prediction.evictions.groups]
    ends += [drain.end_latest_seconds or 0.0 for drain in prediction.drains]
    never = 2 * max(ends, default=0.0) + 60
    for drain in islice(prediction.drains, _CHANGES_MAX):
        if drain.start_seconds is None:
            continue
        end = never if drain.end_latest_seconds is None else drain.end_latest_seconds
        tone: Tone = "certain" if drain.end_reason == "drained" else "stuck"
        how = drain.end_reason or "depends on timing"
        text = f"{words.name(drain.node)} drain ({'never ends' if how == 'never' else how})"
        told = words.window(drain.start_seconds, drain.end_latest_seconds)
        yield Bar(text, drain.start_seconds, end, tone, told)
        for one in islice(drain.waiting, _CHANGES_MAX):
            until = one.until_latest_seconds
            told = f"waits for {waited_for(one)}, {words.window(one.from_seconds, until)}"
            stop = never if until is None else until
            yield Bar(f"{words.name(one.pod)} waits", one.from_seconds, stop, "possible", told)


def _changes(prediction: Prediction) -> Iterator[Bar]:
    for text, earliest, latest in islice(spans(prediction), _CHANGES_MAX):
        yield Bar(text, earliest, latest)


def _workloads(
    by_workload: Mapping[tuple[str, ...], Sequence[Eviction]], once: bool
) -> Iterator[Bar]:
    """Yield the largest groups of evictions, in the order of time."""
    largest = list(islice(by_workload.items(), _WORKLOADS_MAX))
    largest.sort(key=lambda item: (min(entry.earliest_seconds for entry in item[1]), item[0]))
    for key, group in largest:
        sure = all(entry.certainty == CERTAIN for entry in group)
        pods = count_pods(group, once)
        yield Bar(
            f"{'/'.join(key)} ({pods})" if pods > 1 else "/".join(key),
            min(entry.earliest_seconds for entry in group),
            max(entry.latest_seconds for entry in group),
            "certain" if sure else "possible",
        )
