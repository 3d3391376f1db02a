"""What happened, when, and because of what: the typed record of one simulation.

Entries are appended in the order of events, one class per kind of entry. ``because`` points to earlier
entries by index, so a causal chain is a walk to the left. An entry holds facts, never sentences: what
people read about it is written in ``prediction/causes.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.kube.drain_filters import Reason
from kubectl_evictplan.kube.objects import Taint

# Who deletes pods, and who writes taints.
TAINT_EVICTION = "taint-eviction"
NODE_LIFECYCLE = "node-lifecycle"
POD_GC = "pod-gc"
EVICTION_API = "eviction-api"
KUBECTL_DELETE = "kubectl-delete"
DAEMON_SET = "daemon-set"
SCENARIO = "scenario"
# Both are kubectl's, when it drains.
BY_DRAINS = frozenset((EVICTION_API, KUBECTL_DELETE))

# Indices of the entries that led to something.
Causes = tuple[int, ...]


class Entry(msgspec.Struct, frozen=True, gc=False):
    """Something that happened at ``at_ns`` (offset from the start)."""

    at_ns: int
    because: Causes


class ControllerManagerStarted(Entry, frozen=True):
    """A new kube-controller-manager process runs."""


class ControllerManagerStopped(Entry, frozen=True):
    """The kube-controller-manager process ends, and with it every timer and queue."""


# -- nodes ----------------------------------------------------------------------------------------


class AboutNode(Entry, frozen=True):
    """Something that happened to a node."""

    node: str


class NodeCreated(AboutNode, frozen=True):
    """A Node object appears, with this status of its Ready condition ("": it has none)."""

    status: str


class NodeDeleted(AboutNode, frozen=True):
    """A Node object is deleted; its pods stay."""


class KubeletSilent(AboutNode, frozen=True):
    """The kubelet renews no more, or did not at the start (its last renewal is an offset)."""

    last_renewal_ns: int | None


class NodeReadyPosted(AboutNode, frozen=True):
    """The kubelet posts a Ready condition (``syncNodeStatus``)."""

    status: str


class NodeBecameUnknown(AboutNode, frozen=True):
    """Ready becomes Unknown; ``probe_ns`` is when the last sign of life was noticed (offset), if known."""

    probe_ns: int | None


class NodePassedOver(AboutNode, frozen=True):
    """The node is due to become Unknown, but its Lease was written since it was judged (from 1.37)."""


class NodeQueued(AboutNode, frozen=True):
    """The node is put in its zone's line for the NoExecute taint (or for deletion by timeout)."""

    zone: str


class PodsMarkedNotReady(AboutNode, frozen=True):
    """``MarkPodsNotReady``: how many pods of the node were ready."""

    count: int


class TaintChanged(AboutNode, frozen=True):
    """``by`` is who wrote it, ``rule`` the upstream function (or command) that did."""

    taint: Taint
    by: str
    rule: str


class TaintAdded(TaintChanged, frozen=True):
    """The node carries a taint that it did not carry, or with another value or timeAdded."""


class TaintRemoved(TaintChanged, frozen=True):
    """The node carries no taint of this key and effect any more."""


# -- zones ----------------------------------------------------------------------------------------


class ZoneStateRecorded(Entry, frozen=True):
    """A zone's state with the counts behind it; ``rate_qps`` is how many nodes it taints a second.

    ``zone`` is its display name.
    """

    zone: str
    state: str
    ready: int
    not_ready: int
    rate_qps: float


class ZoneStateAtStart(ZoneStateRecorded, frozen=True):
    """What a process that has been running for long knows at the start."""


class ZoneStateChanged(ZoneStateRecorded, frozen=True):
    """``handleDisruption`` finds another state."""


class MasterDisruptionEntered(Entry, frozen=True):
    """No node of any zone is ready: nothing is tainted, and what was is untainted."""


# -- pods -----------------------------------------------------------------------------------------


class AboutPod(Entry, frozen=True):
    """Something that happened to a pod ("namespace/name"); uid and node are "" where nobody knows."""

    pod: str
    uid: str
    node: str

    def of_another(self, at_ns: int, because: Causes, pod: str, uid: str, node: str) -> AboutPod:
        """Return what it is when the same happens to another pod."""
        return replace(self, at_ns=at_ns, because=because, pod=pod, uid=uid, node=node)


class PodCreated(AboutPod, frozen=True):
    """A Pod object appears; ``made_for`` is the owner ("namespace/Kind/name") whose controller replaces one by it."""

    made_for: str = ""


class ToleratedForever(AboutPod, frozen=True):
    """Taint eviction finds that no taint of the node ever evicts the pod."""

    taint: Taint | None
    toleration_index: int | None


class EvictionScheduled(AboutPod, frozen=True):
    """Taint eviction starts a timer that fires at ``due_ns`` (offset)."""

    taint: Taint | None
    toleration_index: int | None
    toleration_seconds: int | None
    due_ns: int

    def of_another(self, at_ns: int, because: Causes, pod: str, uid: str, node: str) -> AboutPod:
        """Return the timer of another pod, as long as this one."""
        due_ns = self.due_ns + at_ns - self.at_ns
        return replace(
            self, at_ns=at_ns, because=because, pod=pod, uid=uid, node=node, due_ns=due_ns
        )


class EvictionRefused(AboutPod, frozen=True):
    """``AddWork`` finds an older key of the same pod name and starts nothing."""


class TimerCancelled(AboutPod, frozen=True):
    """A timer is cancelled (``cancelWorkWithEvent``)."""

    reason: CancelReason


class MarkedForDeletion(AboutPod, frozen=True):
    """The event "Marking for deletion Pod": a delete is about to be tried."""


class DeleteFailed(AboutPod, frozen=True):
    """Every attempt of taint eviction to delete the pod fails."""

    reason: DeleteFailure


class PodDeleted(AboutPod, frozen=True):
    """``controller`` sends the DELETE; a taint and a toleration decided, or garbage collection did."""

    controller: str
    taint: Taint | None = None
    toleration_index: int | None = None
    toleration_seconds: int | None = None
    garbage: GarbageReason | None = None


class PodGone(AboutPod, frozen=True):
    """The object's end."""


class PodReady(AboutPod, frozen=True):
    """A replacement becomes Ready; ``owner`` is "Kind/name" of what created it."""

    owner: str


# -- drains ---------------------------------------------------------------------------------------


class NodeDrainStarted(AboutNode, frozen=True):
    """kubectl lists the node's pods; ``process`` is the entry of the event that started kubectl."""

    process: int


class NodeDrainEnded(AboutNode, frozen=True):
    """kubectl is through with the node."""

    process: int
    reason: DrainEnd


class DrainProcessEnded(Entry, frozen=True):
    """kubectl exits."""

    process: int
    exit_code: int


class PodPassedOver(AboutPod, frozen=True):
    """kubectl's filters leave a pod alone."""

    process: int
    reason: Reason


class PodRefused(AboutPod, frozen=True):
    """kubectl's filters refuse to drain the node because of this pod."""

    process: int
    reason: Reason
    why: str


class EvictionNotAllowed(AboutPod, frozen=True):
    """The Eviction API answers 429 (a budget allows nothing now), 500 (several budgets) or 403.

    403: the pod's namespace is Terminating, without a budget; or the one budget's status is negative.
    ``budgets`` are "namespace/name"; ``asked_ns`` is when the request was sent (offset). ``is_repeated``: by kubectl; what
    it repeats is not recorded.
    """

    process: int
    asked_ns: int
    budgets: tuple[str, ...]
    code: int
    is_repeated: bool = True


class EvictionGivenUp(AboutPod, frozen=True):
    """kubectl stops trying to evict a pod, or waiting for its end."""

    process: int
    reason: DrainEnd


# -- reasons --------------------------------------------------------------------------------------


class CancelReason(StrEnum):
    """Why a timer is cancelled."""

    NO_TAINT_LEFT = "no-taint-left"
    TAINT_NOT_TOLERATED = "taint-not-tolerated"
    TOLERATED_FOREVER = "tolerated-forever"
    POD_GONE = "pod-gone"


class DrainEnd(StrEnum):
    """How the drain of a node ends."""

    DRAINED = "drained"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    ERROR = "error"


class WasteReason(StrEnum):
    """Why a token of a zone buys no taint."""

    NODE_NOT_FOUND = "node-not-found"
    NO_READY_CONDITION = "no-ready-condition"
    NODE_READY = "node-ready"
    STALE_INFORMER = "stale-informer"


class DeleteFailure(StrEnum):
    """Why taint eviction cannot delete a pod."""

    POD_NOT_FOUND = "pod-not-found"
    REFUSED_BY_API_SERVER = "refused-by-api-server"
    MAY_NOT_GET_PODS = "may-not-get-pods"
    CONDITION_NOT_APPLIED = "condition-not-applied"


class GarbageReason(StrEnum):
    """Why garbage collection deletes a pod."""

    TERMINATED = "terminated"
    OUT_OF_SERVICE = "out-of-service"
    ORPHANED = "orphaned"
    UNSCHEDULED_TERMINATING = "unscheduled-terminating"


class Told(Enum):
    """What a zone's queue of waiting nodes is told, and what a pass over it needs to know of nodes."""

    # Of one zone: a new queue with a full bucket; its token was taken before the start; the limiter changes.
    CREATED = "created"
    SPENT = "spent"
    SWAP = "swap"
    # Of all zones: what a process of before the start remembers has been told; a new process, the end of one, and the midst of a
    # tick, where a pass may fall.
    LOADED = "loaded"
    STARTED = "started"
    STOPPED = "stopped"
    MID_TICK = "mid-tick"
    # Of a node: the monitor wants it tainted, or not; it leaves the zone but not the queue; it had its
    # taint before the start.
    MARK = "mark"
    # It wants it tainted, and turned the other NoExecute taint of it into this one at once: who is not in line stays out of it.
    SWAPPED = "swapped"
    REACHABLE = "reachable"
    RETIRED = "retired"
    TAINTED_BEFORE = "tainted-before"
    # Its Ready status changes; it is deleted; somebody else takes its taint away, or puts the one on that it is to have.
    STATUS = "status"
    NODE_GONE = "node-gone"
    UNTAINTED = "untainted"
    TAINTED = "tainted"


class QueueOperation(msgspec.Struct, frozen=True, gc=False):
    """One thing that was told at ``at_ns`` (offset). ``status`` is a Ready status, None without one."""

    at_ns: int
    told: Told
    zone: str = ""
    name: str = ""
    qps: float = 0.0
    status: str | None = None


# Whose, from when on, and how long at most; see ``Timeline``.
Exit = tuple[str, int, int]


class Timeline(msgspec.Struct, eq=False):
    """The entries of one run and the instants at which it began and ended."""

    start_ns: int
    end_ns: int = 0
    # False when the horizon cut off things that were still going to happen.
    complete: bool = True
    # Somebody asked how much of its grace period a deleted pod uses; without it ``Timing`` could say anything about that.
    exits_matter: bool = False
    # Of pods whose names are used several times: key, offset from which on it may end, and how long that takes at most.
    exits: list[Exit] = []
    entries: list[Entry] = []
    # What the zone queues were told, whatever the order in which they served: see QueueOperation.
    queue_log: list[QueueOperation] = []
    # What ``cluster/carried_runs.py`` made of it, where it came from another process.
    carried: bytes = b""

    def append(self, entry: Entry) -> int:
        """Record an entry and return its index, for later ``because`` links."""
        self.entries.append(entry)
        return len(self.entries) - 1

    def replacements(self) -> dict[str, str]:
        """The owner ("namespace/Kind/name") of every pod that a controller made anew in this run, by the pod's uid."""
        if PodCreated not in set(map(type, self.entries)):
            return {}  # most runs have none
        created = (entry for entry in self.entries if isinstance(entry, PodCreated))
        return {entry.uid: entry.made_for for entry in created if entry.made_for}


_Kind = TypeVar("_Kind", bound=Entry)


class RunEntries:
    """The entries of a run that has ended, by kind: gone through once, for everybody who asks. Read only."""

    def __init__(self, run: Timeline) -> None:
        self.run = run
        places: defaultdict[type[Entry], list[int]] = defaultdict(list)
        for place, kind in enumerate(map(type, run.entries)):
            places[kind].append(place)
        self._places: Mapping[type[Entry], list[int]] = places

    def places(self, *kinds: type[Entry]) -> Sequence[int]:
        """Where entries of these very kinds are, in order."""
        if len(kinds) == 1:
            return self._places.get(kinds[0], ())
        return sorted(place for kind in kinds for place in self._places.get(kind, ()))

    def of(self, *kinds: type[_Kind]) -> list[_Kind]:
        """Those of these very kinds, in the order of the run."""
        entries = self.run.entries
        return [entries[place] for place in self.places(*kinds)]  # type: ignore[misc]
