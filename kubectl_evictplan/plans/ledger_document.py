"""The ledger: what was predicted next to what happened. ``schema ledger`` prints its schema.

All ``...Seconds`` are offsets from ``start``, the earliest instant at which the change can have begun.
What happened is a ``Span``, because most clocks of a cluster tell whole seconds; it is *outside* of a
window only when all of it is, by more than a second.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from kubectl_evictplan.kube.api_version import API_VERSION

INSIDE: Literal["inside"] = "inside"
OUTSIDE: Literal["outside"] = "outside"
NOT_PREDICTED: Literal["not-predicted"] = "not-predicted"
STAYED: Literal["predicted-but-stayed"] = "predicted-but-stayed"
DID_NOT_HAPPEN: Literal["possible-did-not-happen"] = "possible-did-not-happen"
UNKNOWN: Literal["unknown"] = "unknown"
NOT_YET_DUE: Literal["not-yet-due"] = "not-yet-due"

Verdict = Literal[
    "outside",
    "not-predicted",
    "predicted-but-stayed",
    "unknown",
    "not-yet-due",
    "inside",
    "possible-did-not-happen",
]
# In the order in which rows are told.
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
# Reality is not what was predicted.
LEFT: frozenset[str] = frozenset((OUTSIDE, NOT_PREDICTED, STAYED))

# Why a verdict is not plainer: "" needs no reason.
Why = Literal[
    "",
    # The pod vanished between two looks, and that is longer than its window.
    "vanished-unseen",
    # It was never looked at, or not after its window.
    "not-observed",
    # Nobody could look: see ``gaps`` and ``not_evaluated``.
    "could-not-look",
    # Events do not tell which of several pods of this name they mean.
    "ambiguous-name",
    # The operation that was to cause it was not carried out, or may not have been.
    "operation-not-done",
    "operation-unknown",
    # Nobody was asked to evict its node's pods: they were gone before their turn.
    "gone-by-another",
    # It was taken back before the end of the window.
    "operation-taken-back",
    # The pod was made after the change of its node had begun: no prediction knows it.
    "created-later",
    # It was, and it was evicted all the same, by whomever: no window holds that, and no warning said it.
    "evicted-later",
    # It may have been deleted before the change began, or after the end of what was predicted.
    "perhaps-before",
    "perhaps-after",
    # It had finished before it was deleted: nothing was evicted.
    "finished-before",
]


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    """Camel-cased frozen record; subclasses are the objects of the document."""


class Span(_Document):
    """Not before ``earliest_seconds`` and not after ``latest_seconds`` (null: not known)."""

    earliest_seconds: float | None
    latest_seconds: float | None


class ActualDeletion(Span):
    """When a pod was deleted, and what tells it.

    ``told_by``: deletion-timestamp | event (the controller's own) | killing-event (the kubelet stops its
    containers, some seconds after at most while it is alive) | operation (our own request) | disappearance
    (between two looks).
    """

    told_by: str


class DeletedBy(_Document):
    """Who deleted a pod, by the name that predictions have for it, and the words that say so.

    ``told_by``: condition (the reason of DisruptionTarget) | event | operation (our own eviction).
    """

    controller: str
    reason: str
    told_by: str


class PodEntry(_Document):
    """One pod: predicted and actual.

    ``windows`` are the predicted ones, shifted by ``shift``: how late the operation that causes it was.
    ``off_by_seconds`` is at least how far the deletion lies from its nearest window: negative is early,
    0 inside, null not known. ``by_others``: who deleted it is known, and is not who was predicted.
    """

    verdict: Verdict
    why: Why
    namespace: str
    pod: str
    uid: str
    node: str
    certainty: str | None
    controller: str | None
    windows: tuple[Span, ...]
    shift: Span | None
    deleted: ActualDeletion | None
    off_by_seconds: float | None
    gone: Span | None
    by: DeletedBy | None
    by_others: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.pod}"


class NodeEntry(_Document):
    """One change of a node: ``what`` is ready | taint-added | taint-removed | deleted."""

    verdict: Verdict
    why: Why
    node: str
    what: str
    value: str
    certainty: str
    window: Span
    happened: Span | None
    off_by_seconds: float | None


class DrainEntry(_Document):
    """When the last pod that was to leave a node was gone; kubectl sees that a second later."""

    verdict: Verdict
    why: Why
    node: str
    window: Span
    ended: Span | None
    off_by_seconds: float | None


class OperationEntry(_Document):
    """One operation of the plan and when it began.

    ``outcome``: done | gone-by-another (a pod that was gone before its turn) | not-done | unknown.
    ``taken_back``: when a rollback did that; null as long as none did.
    """

    number: int
    operation: str
    node: str
    planned_seconds: float
    began: Span | None
    outcome: str
    taken_back: Span | None = None


class GapEntry(Span):
    """From when to when nobody looked, and why."""

    why: str


class Summary(_Document):
    """How many of each verdict, over pods, nodes and drains; ``left_windows`` decides the exit code.

    ``operations``: how many of each outcome; empty when no journal tells of any.
    """

    left_windows: bool
    complete: bool
    pods: dict[str, int]
    nodes: dict[str, int]
    drains: dict[str, int]
    by_others: int
    largest_off_by_seconds: float | None
    operations: dict[str, int] = {}


class Ledger(_Document):
    """Everything. ``start_source``: given | journal | plan | nodes; ``fingerprint`` is the plan's.

    ``prediction_fingerprint`` is the prediction's, which its ticket names as well; "" where it has none.
    """

    title: str
    fingerprint: str
    start: str
    start_uncertain_seconds: float
    start_source: str
    observed: Span
    summary: Summary
    pods: tuple[PodEntry, ...]
    nodes: tuple[NodeEntry, ...]
    drains: tuple[DrainEntry, ...]
    operations: tuple[OperationEntry, ...] = ()
    gaps: tuple[GapEntry, ...] = ()
    # Kinds that could not be read, with the server's words.
    not_evaluated: dict[str, str] = {}
    # How many objects of each kind were told and could not be read: what became of them is not known.
    unreadable: dict[str, int] = {}
    # Odd things about the observation: codes of ``observations.Oddity``.
    oddities: dict[str, int] = {}
    prediction_fingerprint: str = ""
    kind: Literal["Ledger"] = "Ledger"
    api_version: str = API_VERSION
