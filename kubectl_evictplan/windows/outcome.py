"""What an exploration finds: windows of evictions, cancellations, node changes and zone states."""

from __future__ import annotations

from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import CancelReason, Timeline, ZoneStateChanged
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.windows.circumstances import Circumstance
from kubectl_evictplan.windows.line_windows import Span
from kubectl_evictplan.windows.windows import WindowTable


class EvictionKey(NamedTuple):
    """The n-th delete that one controller issues for one pod object."""

    pod: str
    uid: str
    controller: str
    ordinal: int


class PossibleEviction(NamedTuple):
    """A delete over all runs; ``certain`` when it happens in every one of them.

    ``spans`` are its disjoint windows, in order. ``sample`` is a run in which it happens (timeline, index of
    the newest entry that led to it); with a ``delay_ns`` the timeline ends with the wait for the taint, and the delete
    follows that long after the taint.
    """

    spans: tuple[Span, ...]
    certain: bool
    node: str
    taint: Taint | None
    toleration_index: int | None
    toleration_seconds: int | None
    sample: tuple[Timeline, int] | None
    delay_ns: int | None
    gone_earliest_ns: int | None
    gone_latest_ns: int | None
    # What leads to each of several spans.
    circumstances: tuple[Circumstance, ...] = ()

    @property
    def earliest_ns(self) -> int:
        """The beginning of the first window."""
        return self.spans[0][0]

    @property
    def latest_ns(self) -> int:
        """The end of the last window."""
        return self.spans[-1][1]


class CancelKey(NamedTuple):
    """A cancelled timer."""

    pod: str
    uid: str
    node: str
    reason: CancelReason


# What changes about a node.
READY = "ready"
TAINT_ADDED = "taint-added"
TAINT_REMOVED = "taint-removed"


class NodeChangeKey(NamedTuple):
    """``what`` is one of the words above, ``value`` a status or "key:effect"."""

    node: str
    what: str
    value: str


class ZoneStateKey(NamedTuple):
    """A zone gets into a state."""

    zone: str
    state: str


class Exploration:
    """Everything that can happen, with its windows."""

    def __init__(self) -> None:
        self.evictions: dict[EvictionKey, PossibleEviction] = {}
        self.cancels: WindowTable[CancelKey] = WindowTable()
        # When the timers that are cancelled were started, by the same keys.
        self.cancelled_starts: WindowTable[CancelKey] = WindowTable()
        self.nodes: WindowTable[NodeChangeKey] = WindowTable()
        self.zones: WindowTable[ZoneStateKey] = WindowTable()
        # An entry of some run for every state that a zone can get into.
        self.zone_samples: dict[ZoneStateKey, ZoneStateChanged] = {}
        self.runs = 0
        self.affected: set[str] = set()
        # By zone: nodes that wait for a taint in some run; and for each order in each run the instants at
        # which nodes are tainted for the first time, sorted.
        self.waiting: dict[str, set[str]] = {}
        self.services: dict[str, list[tuple[int, ...]]] = {}
        # Entries that nobody can see may keep every node from being tainted.
        self.orphaned_entries = False
        # By how much windows that follow a monitor tick are widened: not every phase was tried.
        self.padding_ns = 0
