"""What a reviewed prediction leads one to expect, and when each part of it really began.

A plan and a Prediction that was made without one meet here: the pods that were known, the nodes that
matter, and for each predicted eviction the operation that causes it. Windows count from that operation,
so they move with it; what happened later than planned because people were late is no wrong prediction.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubectl_evictplan.kube.durations import SECOND_NS, parse_duration_ns
from kubectl_evictplan.kube.sightings import Interval, SeenPod
from kubectl_evictplan.kube.taints import UNSCHEDULABLE
from kubectl_evictplan.kube.timestamps import parse_rfc3339_ns
from kubectl_evictplan.plans.document import (
    AddTaint,
    AnyOperation,
    Cordon,
    Evict,
    Plan,
    Uncordon,
)
from kubectl_evictplan.prediction.document import Eviction, NodeChange, Prediction
from kubectl_evictplan.windows.outcome import TAINT_ADDED

# Pods that the scenario itself creates have UIDs that no API server gives (``CreatePod``).
_MADE_UP_UID = "scenario-"
DONE, NOT_DONE, UNKNOWN_OUTCOME = "done", "not-done", "unknown"
# An eviction that nobody had to ask for: its pod was gone before its turn.
GONE_BY_ANOTHER = "gone-by-another"


class Begun(msgspec.Struct, frozen=True):
    """When an operation's first request was sent; None when it never was. ``outcome`` as above.

    ``undone_ns``: when a rollback took it back; None as long as none did. ``refused``: an eviction that
    was asked for and never executed: its windows count all the same, but it is not done.
    """

    number: int
    at: Interval | None
    outcome: str = DONE
    undone_ns: int | None = None
    refused: bool = False

    @property
    def became(self) -> str:
        """What became of it in the end, as far as is known."""
        return NOT_DONE if self.refused else self.outcome


class Start(msgspec.Struct, frozen=True):
    """When the change began, and who says so: given | journal | plan | nodes."""

    at: Interval
    source: str


class Zero(msgspec.Struct, frozen=True):
    """The instant from which the windows of one cause count; the rest is its operation's.

    ``began``: when that operation itself began, later than ``at`` by its planned offset; None when nobody
    tells.
    """

    at: Interval
    outcome: str = DONE
    undone_ns: int | None = None
    began: Interval | None = None


class Expectation(msgspec.Struct, frozen=True):
    """What is to be compared with reality. ``known_at_ns``: the known pods were there then.

    ``node_uids``: of the nodes that are changed, as far as they are known; by them a cluster is known again.
    """

    title: str
    fingerprint: str
    prediction: Prediction
    operations: tuple[AnyOperation, ...]
    known: tuple[SeenPod, ...]
    known_at_ns: int
    nodes: frozenset[str]
    node_uids: frozenset[str] = frozenset()

    @property
    def reach_ns(self) -> int:
        """How far ahead the prediction looks; after that nothing was predicted, not even to stay."""
        found = self.prediction
        ends = [one.latest_seconds for one in found.evictions]
        ends += [one.latest_seconds for report in found.nodes for one in report.changes]
        ends += [one.end_latest_seconds or 0.0 for one in found.drains]
        last_ns = round(max(ends, default=0.0) * SECOND_NS)
        try:
            return max(last_ns, parse_duration_ns(str(found.inputs.horizon.value)))
        except ValueError:
            return last_ns


def expectation_of_plan(plan: Plan) -> Expectation:
    """Return what a plan leads one to expect."""
    pods = [(pod.namespace, pod.pod, pod.uid, pod.node) for pod in plan.pods]
    known = _known([*pods, *_rows(plan.prediction)])
    return Expectation(
        plan.title,
        plan.fingerprint,
        plan.prediction,
        plan.operations,
        known,
        _instant(plan.snapshot.taken_at) or 0,
        _nodes(plan.prediction) | {node.name for node in plan.nodes},
        frozenset(node.uid for node in plan.nodes if node.uid),
    )


def expectation_of(prediction: Prediction, title: str = "") -> Expectation:
    """Return what a Prediction leads one to expect that was made without a plan."""
    said = ", ".join(dict.fromkeys(event.action for event in prediction.inputs.events))
    return Expectation(
        title or said,
        "",
        prediction,
        (),
        _known(_rows(prediction)),
        _instant(prediction.inputs.start.value) or 0,
        _nodes(prediction),
    )


def planned_start_ns(prediction: Prediction) -> int | None:
    """Return the instant of offset 0 as it was predicted; None when it cannot be read."""
    return _instant(prediction.inputs.start.value)


def is_made_up(uid: str) -> bool:
    """Tell whether a predicted pod is one that a scenario creates: its real UID is not known."""
    return not uid or uid.startswith(_MADE_UP_UID)


def zero_of(
    expectation: Expectation,
    node: str,
    start: Start,
    done: dict[int, Begun],
    eviction: Eviction | None = None,
) -> Zero:
    """Return from when windows of this node count, for one eviction or in general."""
    if not done:
        return Zero(start.at)
    evictions = [
        one for one in expectation.operations if isinstance(one, Evict) and one.node == node
    ]
    if not evictions or (eviction is not None and eviction.taint is not None):
        return _zero(_cause(expectation.operations, node, eviction), start, done)
    return _zero_of_batch(evictions, start, done, "" if eviction is None else eviction.uid)


def zero_of_change(
    expectation: Expectation, node: str, start: Start, done: dict[int, Begun], change: NodeChange
) -> Zero:
    """Return from when the window of a controller's change to a node counts.

    The node lifecycle controller taints what is cordoned: that follows the cordon, which a drain sends to all
    nodes before it evicts anything.
    """
    kind = Cordon if change.what == TAINT_ADDED else Uncordon
    is_its_taint = change.value.startswith(UNSCHEDULABLE)
    causes = [
        one
        for one in expectation.operations
        if done and is_its_taint and isinstance(one, kind) and one.node == node
        if one.at_seconds <= change.latest_seconds
    ]
    return _zero(causes[-1], start, done) if causes else zero_of(expectation, node, start, done)


def _zero_of_batch(
    evictions: Iterable[Evict], start: Start, done: dict[int, Begun], uid: str
) -> Zero:
    """Return from when windows count that evictions of one node start, for the pod ``uid`` or in general.

    They count from the first eviction that began, never from a later one of a batch. Whether a pod's own
    was carried out is its own matter.
    """
    by_uid = {one.uid: done.get(one.number) for one in evictions}
    if uid in by_uid and _was_never_meant(by_uid[uid]):
        return Zero(start.at, NOT_DONE)
    asked = [one for one in evictions if (begun := done.get(one.number)) and begun.at is not None]
    if asked:
        return _zero(min(asked, key=lambda one: done[one.number].at or start.at), start, done)
    outcomes = {NOT_DONE if begun is None else begun.outcome for begun in by_uid.values()}
    for outcome in (UNKNOWN_OUTCOME, GONE_BY_ANOTHER):
        if outcome in outcomes:
            return Zero(start.at, outcome)
    return Zero(start.at, NOT_DONE)


def _was_never_meant(begun: Begun | None) -> bool:
    return begun is None or (begun.at is None and begun.outcome == NOT_DONE)


def _zero(cause: AnyOperation | None, start: Start, done: dict[int, Begun]) -> Zero:
    if cause is None:
        return Zero(start.at)
    begun = done.get(cause.number)
    if begun is None or (begun.at is None and begun.outcome != UNKNOWN_OUTCOME):
        return Zero(start.at, NOT_DONE)
    if begun.at is None:
        return Zero(start.at, UNKNOWN_OUTCOME)
    at = begun.at.later(-round(cause.at_seconds * SECOND_NS))
    return Zero(at, begun.outcome, begun.undone_ns, begun.at)


def _cause(
    operations: Iterable[AnyOperation], node: str, eviction: Eviction | None
) -> AnyOperation | None:
    """Return the operation of the node that starts what is predicted: never a later one of a batch."""
    mine = [one for one in operations if one.node == node]
    if eviction is not None and eviction.taint is not None:
        for one in mine:
            if isinstance(one, AddTaint) and (one.taint.key, one.taint.effect) == (
                eviction.taint.key,
                eviction.taint.effect,
            ):
                return one
    others: list[AnyOperation] = [one for one in mine if not isinstance(one, Cordon)]
    return next(iter([*others, *mine]), None)


def _rows(prediction: Prediction) -> list[tuple[str, str, str, str]]:
    rows = (*prediction.evictions, *prediction.kept)
    return [(row.namespace, row.pod, row.uid, row.node) for row in rows]


def _known(rows: Iterable[tuple[str, str, str, str]]) -> tuple[SeenPod, ...]:
    return tuple(SeenPod(*row) for row in dict.fromkeys(rows) if not is_made_up(row[2]))


def _nodes(prediction: Prediction) -> frozenset[str]:
    rows = (*prediction.evictions, *prediction.kept)
    reports = (*(one.node for one in prediction.nodes), *(one.node for one in prediction.drains))
    return frozenset((*(row.node for row in rows), *reports))


def _instant(text: object) -> int | None:
    try:
        return parse_rfc3339_ns(str(text))
    except ValueError:
        return None
