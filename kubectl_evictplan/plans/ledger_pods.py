"""The pods of a ledger: each prediction next to the pod's history.

A pod is its UID: one of the same name that came after it is another. Only for pods that a scenario itself
creates, whose UIDs no prediction can know, the name decides, in the order of creation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import EVICTION_API, TAINT_EVICTION
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.sightings import CONTROLLER_BY_REASON, Interval
from kubectl_evictplan.plans.document import Evict
from kubectl_evictplan.plans.event_evidence import DISAPPEARANCE, KILLING_EVENT, Deletion
from kubectl_evictplan.plans.expectation import (
    DONE,
    GONE_BY_ANOTHER,
    NOT_DONE,
    Begun,
    Expectation,
    Start,
    Zero,
    is_made_up,
    zero_of,
)
from kubectl_evictplan.plans.ledger_document import (
    DID_NOT_HAPPEN,
    INSIDE,
    NOT_PREDICTED,
    NOT_YET_DUE,
    OUTSIDE,
    STAYED,
    UNKNOWN,
    ActualDeletion,
    DeletedBy,
    PodEntry,
    Span,
    Verdict,
    Why,
)
from kubectl_evictplan.plans.sightings import PodHistories, PodHistory, Sightings
from kubectl_evictplan.prediction.document import CERTAIN, POSSIBLE, Eviction, PodRow
from kubectl_evictplan.scenarios.actions.pods import DeletePods

# Windows are those of controllers: what a request takes, and by how much the clocks of a cluster differ,
# is in none of them. What lies closer to its window than this is not outside.
TOLERANCE_NS = SECOND_NS


class Origin(NamedTuple):
    """The instant that the ledger's offsets count from."""

    ns: int

    def seconds(self, ns: int) -> float:
        """Return an instant as an offset."""
        return round((ns - self.ns) / SECOND_NS, 6)

    def span(self, at: Interval | None) -> Span:
        """Return an interval as offsets; both unknown for None."""
        if at is None:
            return Span(None, None)
        return Span(self.seconds(at.earliest_ns), self.seconds(at.latest_ns))


class Judged(NamedTuple):
    """A verdict, its reason, and how far off it is at least (None: not known)."""

    verdict: Verdict
    why: Why = ""
    off_by_ns: int | None = None


class _Predicted(NamedTuple):
    """All evictions that are predicted of one pod."""

    row: PodRow
    evictions: tuple[Eviction, ...]

    @property
    def certain(self) -> bool:
        return any(one.certainty == CERTAIN for one in self.evictions)

    def first_deletions(self, zero: Zero) -> list[Interval]:
        """Return the windows of its first DELETE; a later one, of a pod that goes, leaves no mark."""
        bound = min(
            (one.latest_seconds for one in self.evictions if one.certainty == CERTAIN),
            default=None,
        )
        spans = sorted(
            (window.earliest_seconds, window.latest_seconds)
            for one in self.evictions
            for window in one.windows or (one,)
        )
        return [
            window_from(zero, earliest, latest)
            for earliest, latest in dict.fromkeys(spans)
            if bound is None or earliest <= bound
        ]


def window_from(zero: Zero, earliest_seconds: float, latest_seconds: float) -> Interval:
    """Return a predicted window in the cluster's time, as wide as its beginning is unknown."""
    return Interval(
        zero.at.earliest_ns + round(earliest_seconds * SECOND_NS),
        zero.at.latest_ns + round(latest_seconds * SECOND_NS),
    )


def tolerant(window: Interval) -> Interval:
    """Return a window with what counts as inside around it."""
    return Interval(window.earliest_ns - TOLERANCE_NS, window.latest_ns + TOLERANCE_NS)


def off_by_ns(actual: Interval, windows: Iterable[Interval]) -> int:
    """Return how far an interval lies from the nearest window, at least; negative: too early.

    0 within the tolerance.
    """
    distances = []
    for window in windows:
        if actual.meets(tolerant(window)):
            return 0
        late = actual.earliest_ns - window.latest_ns
        distances.append(late if late > 0 else actual.latest_ns - window.earliest_ns)
    return min(distances, key=abs)


def entries(
    expectation: Expectation,
    histories: PodHistories,
    sightings: Sightings,
    start: Start,
    done: dict[int, Begun],
) -> tuple[PodEntry, ...]:
    """Return an entry for every pod that was predicted to go, and for every other that went."""
    judge = _Judge(expectation, sightings, start, done)
    found: list[PodEntry] = []
    used: set[str] = set()
    for predicted in _predicted(expectation):
        history = _history_of(predicted, histories, start, used)
        if history is not None:
            used.add(history.pod.uid)
        found.append(judge.predicted(predicted, history))
    for uid, history in histories.by_uid.items():
        if uid not in used and (entry := judge.other(history)) is not None:
            found.append(entry)
    return tuple(sorted(found, key=_order))


def _order(entry: PodEntry) -> tuple[float, str, str, str]:
    first = entry.windows[0].earliest_seconds if entry.windows else None
    if first is None and entry.deleted is not None:
        first = entry.deleted.earliest_seconds
    return (first or 0.0, entry.namespace, entry.pod, entry.uid)


def _predicted(expectation: Expectation) -> Iterator[_Predicted]:
    by_pod: dict[tuple[str, str, str], list[Eviction]] = defaultdict(list)
    for eviction in expectation.prediction.evictions:
        by_pod[eviction.namespace, eviction.pod, eviction.uid].append(eviction)
    for evictions in by_pod.values():
        yield _Predicted(evictions[0], tuple(evictions))


def _history_of(
    predicted: _Predicted, histories: PodHistories, start: Start, used: set[str]
) -> PodHistory | None:
    uid = predicted.row.uid
    if not is_made_up(uid):
        return histories.by_uid.get(uid)
    for history in histories.named(predicted.row.key):
        is_new = history.pod.created_ns + SECOND_NS > start.at.earliest_ns
        if is_new and history.pod.uid not in used:
            return history
    return None


# Whose deletions are evictions, and the warnings that say of replacements that these may evict them, too.
_SAYS_AGAIN = {
    TAINT_EVICTION: frozenset(
        ("replacement-may-return", "replacement-may-be-tainted", "daemonset-evicted-again")
    ),
    EVICTION_API: frozenset(("replacement-may-be-drained",)),
}


class _Judge:
    """Compares pods with their windows."""

    def __init__(
        self,
        expectation: Expectation,
        sightings: Sightings,
        start: Start,
        done: dict[int, Begun],
    ) -> None:
        self._expectation = expectation
        self._sightings = sightings
        self._start = start
        self._done = done
        self._origin = Origin(start.at.earliest_ns)
        self._kept = {row.uid for row in expectation.prediction.kept}
        self._known = {pod.uid for pod in expectation.known}
        self._ours = {
            one.uid
            for one in expectation.operations
            if isinstance(one, Evict) and one.number in done and done[one.number].became == DONE
        }
        self._reach_ns = expectation.reach_ns

    def predicted(self, predicted: _Predicted, history: PodHistory | None) -> PodEntry:
        """Return the entry of a pod that was predicted to go."""
        row, first = predicted.row, predicted.evictions[0]
        zero = zero_of(self._expectation, row.node, self._start, self._done, first)
        windows = predicted.first_deletions(zero)
        judged = self._judged(predicted, windows, zero, history)
        by = self._deleted_by(history)
        is_told = by is not None and bool(by.controller)
        controllers = {one.controller for one in predicted.evictions}
        return PodEntry(
            judged.verdict,
            judged.why,
            row.namespace,
            row.pod,
            row.uid if not is_made_up(row.uid) or history is None else history.pod.uid,
            row.node,
            CERTAIN if predicted.certain else POSSIBLE,
            first.controller,
            tuple(map(self._origin.span, windows)),
            self._origin.span(zero.at) if zero.outcome == DONE else None,
            self._deleted(history),
            _seconds(judged.off_by_ns),
            self._gone(history),
            by,
            is_told and by is not None and by.controller not in controllers,
        )

    def _judged(
        self,
        predicted: _Predicted,
        windows: list[Interval],
        zero: Zero,
        history: PodHistory | None,
    ) -> Judged:
        deletion = history.deletion if history else None
        if zero.outcome == NOT_DONE:
            if deletion is None:
                return Judged(NOT_YET_DUE, "operation-not-done")
            return self._unexpected(deletion, "operation-not-done")
        if deletion is not None:
            judged = judged_deletion(deletion, windows)
            if judged.verdict != OUTSIDE:
                return judged
            if zero.outcome != DONE:
                return Judged(UNKNOWN, _not_known(zero))
            if not predicted.certain and self._is_asked_for(predicted.row, deletion):
                return Judged(DID_NOT_HAPPEN)
            return judged
        return self._stays(predicted, windows, zero, history)

    def _is_asked_for(self, row: PodRow, deletion: Deletion) -> bool:
        """Whether the change itself deleted the pod then: who may evict it besides leaves no mark of its own."""
        asked = (
            self._start.at.later(round(event.at_seconds * SECOND_NS))
            for event in self._expectation.prediction.inputs.events
            if event.action == DeletePods.action and f"{row.namespace}/{row.pod}" in event.pods
        )
        return any(deletion.sure.meets(tolerant(at)) for at in asked)

    def _stays(
        self,
        predicted: _Predicted,
        windows: list[Interval],
        zero: Zero,
        history: PodHistory | None,
    ) -> Judged:
        """Judge a pod of which no deletion was seen."""
        last_ns = max(tolerant(window).latest_ns for window in windows)
        if zero.undone_ns is not None and zero.undone_ns <= last_ns:
            return Judged(NOT_YET_DUE, "operation-taken-back")
        if self._sightings.until_ns <= last_ns:
            return Judged(NOT_YET_DUE if self._sightings.looks else UNKNOWN, self._not_looked())
        if history is None or history.alive_ns is None or history.alive_ns <= last_ns:
            return Judged(UNKNOWN, self._not_looked() or "not-observed")
        if zero.outcome != DONE:
            return Judged(UNKNOWN, _not_known(zero))
        return Judged(STAYED if predicted.certain else DID_NOT_HAPPEN)

    def _not_looked(self) -> Why:
        if "Pod" in self._sightings.not_evaluated:
            return "could-not-look"
        return "" if self._sightings.looks else "not-observed"

    def other(self, history: PodHistory) -> PodEntry | None:
        """Return the entry of a pod of which nothing was predicted, None unless it went in time."""
        pod, deletion = history.pod, history.deletion
        if deletion is None or pod.node not in self._expectation.nodes:
            return None
        zero = zero_of(self._expectation, pod.node, self._start, self._done)
        reach = Interval(self._start.at.earliest_ns, zero.at.latest_ns + self._reach_ns)
        if not deletion.sure.meets(reach):
            return None
        # A pod that came before its node's own turn could have been seen, and reviewed, before that.
        changed_ns = (zero.began or self._start.at).earliest_ns
        why: Why = ""
        if history.finished_first:
            why = "finished-before"
        elif pod.uid not in self._known and pod.created_ns + SECOND_NS > changed_ns:
            why = "evicted-later" if self._is_evicted(history) else "created-later"
        judged = self._unexpected(deletion, why, reach)
        return PodEntry(
            judged.verdict, judged.why, pod.namespace, pod.name, pod.uid, pod.node, None, None, (),
            None, self._deleted(history), None, self._gone(history), self._deleted_by(history),
        )  # fmt: skip

    def _is_evicted(self, history: PodHistory) -> bool:
        """Whether a pod that no prediction knows was evicted, where none of its warnings says that may be."""
        by = self._deleted_by(history)
        if by is None or by.controller not in _SAYS_AGAIN:
            return False
        told = _SAYS_AGAIN[by.controller]
        return not any(one.code in told for one in self._expectation.prediction.warnings)

    def _unexpected(self, deletion: Deletion, why: Why, reach: Interval | None = None) -> Judged:
        """Judge a deletion that nothing explains, unless it was before the change, or after all."""
        reach = reach or Interval(self._start.at.earliest_ns, deletion.sure.latest_ns)
        if deletion.sure.earliest_ns < reach.earliest_ns:
            return Judged(UNKNOWN, "perhaps-before")
        if deletion.sure.latest_ns > reach.latest_ns:
            return Judged(UNKNOWN, "perhaps-after")
        return Judged(NOT_PREDICTED, why)

    def _deleted(self, history: PodHistory | None) -> ActualDeletion | None:
        if history is None or history.deletion is None:
            return None
        deletion = history.deletion
        span = self._origin.span(deletion.likely or deletion.sure)
        return ActualDeletion(span.earliest_seconds, span.latest_seconds, deletion.told_by)

    def _gone(self, history: PodHistory | None) -> Span | None:
        return self._origin.span(history.gone) if history and history.gone else None

    def _deleted_by(self, history: PodHistory | None) -> DeletedBy | None:
        if history is None or history.deletion is None:
            return None
        reason = history.disruption
        if reason:
            return DeletedBy(CONTROLLER_BY_REASON.get(reason, ""), reason, "condition")
        reason = history.deletion.reason
        if controller := CONTROLLER_BY_REASON.get(reason, ""):
            return DeletedBy(controller, reason, "event")
        if history.pod.uid in self._ours:
            return DeletedBy(EVICTION_API, "", "operation")
        return None


def judged_deletion(deletion: Deletion, windows: list[Interval]) -> Judged:
    """Judge when a pod was deleted.

    What a server or the controller itself tells is a second or so wide: it is inside when some of it is. What
    only follows from looks must lie inside as a whole, or probably inside when the kubelet tells it.
    """
    sure = deletion.sure
    off_ns = off_by_ns(sure, windows)
    if off_ns:
        return Judged(OUTSIDE, "", off_ns)
    is_told = deletion.told_by not in (DISAPPEARANCE, KILLING_EVENT)
    if is_told or any(sure.lies_in(tolerant(window)) for window in windows):
        return Judged(INSIDE, "", 0)
    if deletion.likely is not None and any(
        deletion.likely.meets(tolerant(window)) for window in windows
    ):
        return Judged(INSIDE, "", 0)
    return Judged(UNKNOWN, "ambiguous-name" if deletion.ambiguous else "vanished-unseen")


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else round(ns / SECOND_NS, 6)


def _not_known(zero: Zero) -> Why:
    return "gone-by-another" if zero.outcome == GONE_BY_ANOTHER else "operation-unknown"
