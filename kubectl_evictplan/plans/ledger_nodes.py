"""The nodes and the drains of a ledger: what was predicted of them next to what was seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import SCENARIO
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.sightings import Interval
from kubectl_evictplan.kube.taints import key_and_effect
from kubectl_evictplan.plans.expectation import (
    DONE,
    GONE_BY_ANOTHER,
    NOT_DONE,
    Begun,
    Expectation,
    Start,
    Zero,
    zero_of,
    zero_of_change,
)
from kubectl_evictplan.plans.ledger_document import (
    DID_NOT_HAPPEN,
    INSIDE,
    NOT_YET_DUE,
    OUTSIDE,
    STAYED,
    UNKNOWN,
    DrainEntry,
    NodeEntry,
    PodEntry,
    Span,
)
from kubectl_evictplan.plans.ledger_pods import Judged, Origin, off_by_ns, tolerant, window_from
from kubectl_evictplan.plans.node_histories import NodeChangeSeen, NodeHistory, node_histories
from kubectl_evictplan.plans.sightings import PodHistories, Sightings
from kubectl_evictplan.prediction.document import CERTAIN, DrainReport, NodeChange
from kubectl_evictplan.windows.outcome import DELETED, READY, TAINT_ADDED, TAINT_REMOVED

# What the scenario does itself is an operation, not a prediction, and not compared here.
_COMPARED = (READY, TAINT_ADDED, TAINT_REMOVED, DELETED)
_OPPOSITE = {TAINT_ADDED: TAINT_REMOVED, TAINT_REMOVED: TAINT_ADDED}
# kubectl looks once a second whether a pod is gone.
_POLL_NS = SECOND_NS
# How closely a watch that goes on tells when a pod was gone: to two of its pieces and a second of the clocks.
_WATCHED_NS = 3 * SECOND_NS


def entries(
    expectation: Expectation, sightings: Sightings, start: Start, done: dict[int, Begun]
) -> tuple[NodeEntry, ...]:
    """Return an entry for every change that controllers were predicted to make to a node."""
    nodes = node_histories(sightings, start.at.earliest_ns)
    origin = Origin(start.at.earliest_ns)
    found: list[NodeEntry] = []
    for report in expectation.prediction.nodes:
        history = nodes.get(report.node, NodeHistory())
        free = [one for one in history.changes if one.at.latest_ns >= start.at.earliest_ns]
        changes = [one for one in report.changes if one.what in _COMPARED and one.by != SCENARIO]
        for change in _once(changes):
            zero = zero_of_change(expectation, report.node, start, done, change)
            window = window_from(zero, change.earliest_seconds, change.latest_seconds)
            happened = _take(free, change, window)
            later = [one for one in report.changes if one.earliest_seconds > change.latest_seconds]
            judged = _judged(change, window, happened, history, zero, later, sightings)
            found.append(
                NodeEntry(
                    judged.verdict,
                    judged.why,
                    report.node,
                    change.what,
                    change.value,
                    change.certainty,
                    origin.span(window),
                    origin.span(happened.at) if happened else None,
                    None if judged.off_by_ns is None else round(judged.off_by_ns / SECOND_NS, 6),
                )
            )
    return tuple(found)


def _once(changes: Iterable[NodeChange]) -> list[NodeChange]:
    """Return the changes with those as one that can happen only once: a taint that is there is not added again.

    A prediction names each that may be the one: the first, and a later one where it may come late.
    """
    found: list[NodeChange] = []
    newest: dict[str, int] = {}
    for change in changes:
        place = newest.get(change.value)
        if change.what in _OPPOSITE and place is not None and found[place].what == change.what:
            found[place] = _either(found[place], change)
            continue
        newest[change.value] = len(found)
        found.append(change)
    return found


def _either(one: NodeChange, other: NodeChange) -> NodeChange:
    return replace(
        one,
        latest_seconds=max(one.latest_seconds, other.latest_seconds),
        certainty=CERTAIN if CERTAIN in (one.certainty, other.certainty) else one.certainty,
    )


def _take(
    free: list[NodeChangeSeen], change: NodeChange, window: Interval
) -> NodeChangeSeen | None:
    """Return the seen change that this one predicts, the nearest of several; it is used up."""
    alike = [
        one
        for one in free
        if one.what == change.what and (change.what == DELETED or change.value in one.values)
    ]
    nearest = min(alike, key=lambda one: abs(off_by_ns(one.at, [window])), default=None)
    if nearest is not None:
        free.remove(nearest)
    return nearest


def _judged(
    change: NodeChange,
    window: Interval,
    happened: NodeChangeSeen | None,
    history: NodeHistory,
    zero: Zero,
    later: Sequence[NodeChange],
    sightings: Sightings,
) -> Judged:
    if happened is not None:
        off_ns = off_by_ns(happened.at, [window])
        if off_ns:
            return Judged(OUTSIDE, "", off_ns)
        is_told = happened.at.width_ns < SECOND_NS
        if is_told or happened.at.lies_in(tolerant(window)):
            return Judged(INSIDE, "", 0)
        return Judged(UNKNOWN, "not-observed")
    if zero.outcome == NOT_DONE:
        return Judged(NOT_YET_DUE, "operation-not-done")
    last_at, last_ns = history.last_at, tolerant(window).latest_ns
    if zero.undone_ns is not None and zero.undone_ns <= last_ns:
        return Judged(NOT_YET_DUE, "operation-taken-back")
    if sightings.until_ns <= last_ns:
        return Judged(NOT_YET_DUE)
    if last_at is None or last_at.earliest_ns <= last_ns:
        return Judged(
            UNKNOWN, "could-not-look" if "Node" in sightings.not_evaluated else "not-observed"
        )
    if zero.outcome != DONE:
        return Judged(UNKNOWN, "operation-unknown")
    if any(_undoes(other, change) for other in later) or _could_be(change, history):
        # It may have come and gone between two looks, or have come unseen.
        return Judged(UNKNOWN, "not-observed")
    return Judged(STAYED if change.certainty == CERTAIN else DID_NOT_HAPPEN)


def _undoes(later: NodeChange, change: NodeChange) -> bool:
    if change.what == READY:
        return later.what in (READY, DELETED)
    is_opposite = later.what == _OPPOSITE.get(change.what) and later.value == change.value
    return is_opposite or later.what == DELETED


def _could_be(change: NodeChange, history: NodeHistory) -> bool:
    """Tell whether the node's last state is what the change leads to, whenever that was."""
    last = history.last
    if last is None:
        return True
    if change.what == READY:
        return last.ready == change.value
    if change.what == DELETED:
        return False
    has = any(key_and_effect(one) == change.value for one in last.taints)
    return has == (change.what == TAINT_ADDED)


def drain_entries(
    expectation: Expectation,
    pods: Iterable[PodEntry],
    histories: PodHistories,
    sightings: Sightings,
    start: Start,
    done: dict[int, Begun],
) -> tuple[DrainEntry, ...]:
    """Return an entry for every node that is drained: when the last of its pods was gone."""
    entries = tuple(pods)
    return tuple(
        _drain(expectation, report, entries, histories, sightings, start, done)
        for report in expectation.prediction.drains
        if report.end_reason in (None, "drained") and report.end_earliest_seconds is not None
    )


def _drain(
    expectation: Expectation,
    report: DrainReport,
    pods: Sequence[PodEntry],
    histories: PodHistories,
    sightings: Sightings,
    start: Start,
    done: dict[int, Begun],
) -> DrainEntry:
    zero = zero_of(expectation, report.node, start, done)
    origin = Origin(start.at.earliest_ns)
    assert report.end_earliest_seconds is not None
    is_open = report.end_latest_seconds is None
    last_seconds = report.end_earliest_seconds if is_open else report.end_latest_seconds
    window = window_from(zero, report.end_earliest_seconds, last_seconds or 0.0)
    span = origin.span(window)
    if is_open:
        span = Span(span.earliest_seconds, None)
        window = Interval(window.earliest_ns, max(window.latest_ns, sightings.until_ns))
    mine = [
        pod
        for pod in pods
        if pod.node == report.node and pod.controller in ("eviction-api", "kubectl-delete")
    ]
    others = _waits_for_others(report.node, histories, zero, {pod.uid for pod in mine})
    ended = None if others else _ended(mine, origin)
    judged = _judged_end(ended, window, zero, mine, sightings, is_open=is_open)
    return DrainEntry(
        judged.verdict,
        judged.why,
        report.node,
        span,
        origin.span(ended) if ended else None,
        None if judged.off_by_ns is None else round(judged.off_by_ns / SECOND_NS, 6),
    )


def _waits_for_others(
    node: str, histories: PodHistories, zero: Zero, evicted: Collection[str]
) -> bool:
    """Tell whether pods were Terminating already: kubectl waits for them, unless it is told not to."""
    return any(
        one.pod.node == node
        and one.pod.uid not in evicted
        and one.deletion is not None
        and one.deletion.sure.earliest_ns <= zero.at.latest_ns
        and (one.gone is None or one.gone.latest_ns > zero.at.latest_ns)
        for one in histories.by_uid.values()
    )


def _ended(pods: Iterable[PodEntry], origin: Origin) -> Interval | None:
    """Return when kubectl would have seen the last pod gone; None unless all are."""
    ends = []
    for pod in pods:
        gone = pod.gone
        if gone is None or gone.earliest_seconds is None or gone.latest_seconds is None:
            return None
        ends.append((gone.earliest_seconds, gone.latest_seconds))
    if not ends:
        return None
    earliest = max(earliest for earliest, _ in ends)
    latest = max(latest for _, latest in ends)
    return Interval(
        origin.ns + round(earliest * SECOND_NS), origin.ns + round(latest * SECOND_NS) + _POLL_NS
    )


def _judged_end(
    ended: Interval | None,
    window: Interval,
    zero: Zero,
    pods: Sequence[PodEntry],
    sightings: Sightings,
    *,
    is_open: bool,
) -> Judged:
    if zero.outcome == NOT_DONE:
        return Judged(NOT_YET_DUE, "operation-not-done")
    if zero.outcome == GONE_BY_ANOTHER:
        return Judged(UNKNOWN, "gone-by-another")
    if ended is not None:
        off_ns = off_by_ns(ended, [window])
        if off_ns:
            return Judged(OUTSIDE, "", off_ns)
        is_watched = ended.width_ns <= _WATCHED_NS + _POLL_NS
        if is_watched or ended.lies_in(tolerant(window)):
            return Judged(INSIDE, "", 0)
        return Judged(UNKNOWN, "vanished-unseen")
    if is_open or sightings.until_ns <= tolerant(window).latest_ns:
        return Judged(NOT_YET_DUE)
    if not pods:
        return Judged(UNKNOWN, "not-observed")
    if any(pod.verdict == UNKNOWN or pod.gone is not None for pod in pods):
        return Judged(UNKNOWN, "not-observed")
    return Judged(STAYED)
