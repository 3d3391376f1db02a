"""What happened, when, and because of what: the typed record of one simulation.

Entries are appended in the order of events. ``because`` points to earlier entries by index, so a
causal chain is a walk to the left.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kubectl_evictplan.kube.objects import Taint

# Kinds of entries. The first group is compared with other models by ``Timeline.facts``.
NODE_UNKNOWN = "node-unknown"
TAINT_ADDED = "taint-added"
TAINT_REMOVED = "taint-removed"
ZONE_STATE = "zone-state"
DELETE = "delete"
MARK = "mark"
CANCEL = "cancel"
GONE = "gone"

SCENARIO_EVENT = "scenario-event"
ZONE_AT_START = "zone-at-start"
NODE_READY = "node-ready"
NODE_QUEUED = "node-queued"
TOKEN_WASTED = "token-wasted"  # noqa: S105 - a rate limiter's token
PODS_MARKED_NOT_READY = "pods-marked-not-ready"
EVICTION_SCHEDULED = "eviction-scheduled"
EVICTION_REFUSED = "eviction-refused"
TOLERATED_FOREVER = "tolerated-forever"
DELETE_FAILED = "delete-failed"
NODE_CREATED = "node-created"
NODE_DELETED = "node-deleted"
POD_CREATED = "pod-created"
CONTROLLER_STARTED = "controller-started"
CONTROLLER_STOPPED = "controller-stopped"
MASTER_DISRUPTION = "master-disruption"

_FACTS = {NODE_UNKNOWN, TAINT_ADDED, TAINT_REMOVED, ZONE_STATE, DELETE, MARK, CANCEL, GONE}

TAINT_EVICTION = "taint-eviction"
NODE_LIFECYCLE = "node-lifecycle"
POD_GC = "pod-gc"


class Entry(msgspec.Struct, frozen=True):
    """One thing that happened at ``at_ns`` (offset from the start) to ``subject``.

    ``subject`` is a node's name, a pod's "namespace/name" or a zone's display name, by ``kind``.
    ``value`` depends on the kind (a taint as "key:effect", a state, a controller). ``rule`` names the
    upstream function. ``due_ns`` is when a scheduled eviction fires.
    """

    at_ns: int
    kind: str
    subject: str
    value: str = ""
    rule: str = ""
    because: tuple[int, ...] = ()
    node: str = ""
    uid: str = ""
    taint: Taint | None = None
    toleration_index: int | None = None
    toleration_seconds: int | None = None
    due_ns: int | None = None
    detail: str = ""


class QueueOperation(NamedTuple):
    """One thing that a zone's queue was told at ``at_ns`` (offset).

    ``what`` is

    * created | stopped | spent (zone): a new queue with a full bucket; the end of the process; the
      zone's token is taken;
    * swap (zone, ``qps``): the limiter changes;
    * eligible | leave | retired (zone, ``name``): from *eligible* to *leave* a node waits or has been
      served; a *retired* one still waits but no tick refreshes it;
    * pass: all zones are served inside a monitor tick;
    * decided (``zone`` holds the Ready status, ``name``): what the node's taint has to be from now on.
    """

    at_ns: int
    what: str
    zone: str
    name: str = ""
    qps: float = 0.0


class Timeline:
    """The entries of one run and the instants at which it began and ended."""

    __slots__ = ("complete", "end_ns", "entries", "queue_log", "start_ns")

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.end_ns = start_ns
        # False when the horizon cut off things that were still going to happen.
        self.complete = True
        self.entries: list[Entry] = []
        # What the zone queues were told, whatever the order in which they served: see QueueOperation.
        self.queue_log: list[QueueOperation] = []

    def append(self, entry: Entry) -> int:
        """Record an entry and return its index, for later ``because`` links."""
        self.entries.append(entry)
        return len(self.entries) - 1

    def facts(self) -> list[tuple[int, str, str, str]]:
        """Sorted (offset_ns, kind, subject, value) of everything that another model can check."""
        return sorted(
            (entry.at_ns, entry.kind, entry.subject, entry.value)
            for entry in self.entries
            if entry.kind in _FACTS
        )
