"""What of one reality contradicts what is told of one process of kubectl: its nodes one by one, and whoever waits for a budget there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubectl_evictplan.cluster.timeline import (
    NodeDrainEnded,
    NodeDrainStarted,
    PodGone,
    Timeline,
)
from kubectl_evictplan.prediction.document import DrainReport, Prediction, WaitingPod
from kubectl_evictplan.prediction.drains import HORIZON
from kubectl_evictplan.scenarios.actions.drain import drains_among
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.windows.drains.waits import FAILED, Refused, refusals

_Nodes = Mapping[str, DrainReport]


def unkept(timeline: Timeline, prediction: Prediction, scenario: Scenario) -> Iterator[str]:
    """Instants, ways to end and waits that no report of the process itself allows; two that are alike stand for each other."""
    reports = _Reports(timeline, prediction, scenario)
    for entry in timeline.entries:
        if not isinstance(entry, NodeDrainStarted | NodeDrainEnded):
            continue
        at = round(entry.at_ns / 1e9, 6)
        own = [nodes[entry.node] for nodes in reports.of(entry.process)]
        if isinstance(entry, NodeDrainStarted):
            if not any(_lies(at, one.start_seconds, one.start_latest_seconds) for one in own):
                yield f"{entry.node} starts for its own process at {at}"
        elif not any(_ends_so(at, entry.reason.value, one) for one in own):
            yield f"{entry.node} ends for its own process at {at}: {entry.reason.value}"
    gone = {entry.uid for entry in timeline.entries if isinstance(entry, PodGone)}
    replacements = timeline.replacements()
    for refused in refusals(timeline):
        entry = refused.entry
        # Who is gone before the answer comes is heard to be gone at the next try.
        if entry.uid in replacements or (refused.at_ns is None and entry.uid in gone):
            continue
        own = [nodes[entry.node] for nodes in reports.of(entry.process)]
        if not any(one.not_in_input or _waits_so(refused, one) for one in own):
            yield f"{entry.pod} waits for its own process and ends {refused.ends} at {refused.at_ns}"


class _Reports:
    """By process as a timeline has it: its nodes as they are told."""

    def __init__(self, timeline: Timeline, prediction: Prediction, scenario: Scenario) -> None:
        self._timeline = timeline
        rest = iter(prediction.drains)
        self._told = [
            (event, {node: next(rest) for node in event.nodes})
            for event in drains_among(scenario.events)
        ]

    def of(self, process: int) -> Iterator[_Nodes]:
        """What is told of the process, and of those that are just alike."""
        applied = getattr(self._timeline.entries[process], "event", None)
        return (nodes for event, nodes in self._told if event == applied)


def _lies(at: float, first: float | None, last: float | None) -> bool:
    return first is not None and first <= at <= (at if last is None else last)


def _ends_so(at: float, reason: str, report: DrainReport) -> bool:
    reasons = report.end_reasons or (report.end_reason,)
    told = reason in reasons or (report.end_reason is None and not report.end_reasons)
    return told and _lies(at, report.end_earliest_seconds, report.end_latest_seconds)


def _waits_so(refused: Refused, report: DrainReport) -> bool:
    pod = refused.entry.pod
    if refused.ends == FAILED and any(one.pod == pod for one in report.failed):
        return True
    return any(one.pod == pod and _wait_allows(refused, one) for one in report.waiting)


def _wait_allows(refused: Refused, wait: WaitingPod) -> bool:
    if refused.entry.asked_ns / 1e9 < wait.from_seconds:
        return False
    if wait.ends == HORIZON:
        return True
    if refused.ends not in (wait.possible_ends or (wait.ends,)):
        return False
    return refused.at_ns is None or _lies(
        round(refused.at_ns / 1e9, 6), wait.until_earliest_seconds, wait.until_latest_seconds
    )
