"""What an exploration finds: windows of evictions, cancellations, node changes and zone states."""

from __future__ import annotations

from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import CancelReason, Timeline, ZoneStateChanged
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.windows.windows import WindowTable


class EvictionKey(NamedTuple):
    """The n-th delete that one controller issues for one pod object."""

    pod: str
    uid: str
    controller: str
    ordinal: int


class Occurrence(NamedTuple):
    """A window over all runs; ``certain`` when it happens in every one of them."""

    earliest_ns: int
    latest_ns: int
    certain: bool
    node: str
    taint: Taint | None
    toleration_index: int | None
    toleration_seconds: int | None
    # A run in which it happened, for the chain of causes: (timeline, index of the entry).
    sample: tuple[Timeline, int] | None
    gone_earliest_ns: int | None
    gone_latest_ns: int | None


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
        self.evictions: dict[EvictionKey, Occurrence] = {}
        self.cancels: WindowTable[CancelKey] = WindowTable()
        # When the timers that are cancelled were started, by the same keys.
        self.cancelled_starts: WindowTable[CancelKey] = WindowTable()
        self.nodes: WindowTable[NodeChangeKey] = WindowTable()
        self.zones: WindowTable[ZoneStateKey] = WindowTable()
        # An entry of some run for every state that a zone can get into.
        self.zone_samples: dict[ZoneStateKey, ZoneStateChanged] = {}
        self.runs = 0
        self.affected: set[str] = set()
        # By how much windows that follow a monitor tick are widened: not every phase was tried.
        self.padding_ns = 0
