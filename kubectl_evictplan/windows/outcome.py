"""What an exploration finds: windows of evictions, cancellations, node changes and zone states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from kubectl_evictplan.cluster.timeline import (
    CancelReason,
    PodDeleted,
    TaintAdded,
    TaintChanged,
    Timeline,
    ZoneStateChanged,
)
from kubectl_evictplan.kube.objects import Taint
from kubectl_evictplan.kube.taints import LIFECYCLE_NO_EXECUTE_KEYS, key_and_effect
from kubectl_evictplan.windows.circumstances import Circumstance
from kubectl_evictplan.windows.spans import Span, disjoint_outcomes

if TYPE_CHECKING:
    from kubectl_evictplan.controllers.taint_eviction import Decision


class EvictionKey(NamedTuple):
    """The n-th delete that one controller issues for one pod object."""

    pod: str
    uid: str
    controller: str
    ordinal: int


# Asked only where something is told of that run.
UntilQueued = Callable[[], tuple[Timeline, int] | None]


class PossibleEviction(NamedTuple):
    """A delete over all runs; ``certain`` when it happens in every one of them.

    ``spans`` are its disjoint windows, in order. ``sample`` is a run in which it happens (timeline, index of the
    delete). Where there is none, ``until_queued`` tells of a run (timeline, index) that ends with the node's wait for
    the taint, and the delete follows ``delay_ns`` after that taint.
    """

    spans: tuple[Span, ...]
    certain: bool
    node: str
    taint: Taint | None
    toleration_index: int | None
    toleration_seconds: int | None
    sample: tuple[Timeline, int] | None = None
    until_queued: UntilQueued | None = None
    delay_ns: int | None = None
    gone_earliest_ns: int | None = None
    gone_latest_ns: int | None = None
    # What leads to each of several spans.
    circumstances: tuple[Circumstance, ...] = ()
    # Names of unknowns that were not wholly explored; ``proven``: the windows are outer bounds then.
    missed: frozenset[str] = frozenset()
    proven: bool = False

    @property
    def earliest_ns(self) -> int:
        """The beginning of the first window."""
        return self.spans[0][0]

    @property
    def latest_ns(self) -> int:
        """The end of the last window."""
        return self.spans[-1][1]

    @classmethod
    def unseen(
        cls,
        node: str,
        decision: Decision | None,
        spans: tuple[Span, ...] = (),
        missed: frozenset[str] = frozenset(),
    ) -> PossibleEviction:
        """One that no run has shown, by what the pod's tolerations say (None: no taint is the reason)."""
        if decision is None:
            return cls(spans, False, node, None, None, None, missed=missed)
        index, seconds = decision.toleration_index, decision.toleration_seconds
        return cls(spans, False, node, decision.taint, index, seconds, missed=missed)

    def told_by(self, run: tuple[Timeline, int], spans: tuple[Span, ...]) -> PossibleEviction:
        """Return the same with its delete in a run (timeline, index) as the sample, and windows that hold that as well."""
        entry = run[0].entries[run[1]]
        assert isinstance(entry, PodDeleted), "an eviction is told by its delete"
        decision = entry.taint, entry.toleration_index, entry.toleration_seconds
        found = spans, self.certain, entry.node, *decision, run, None, None, *self[9:]
        return tuple.__new__(PossibleEviction, found)

    def later(
        self, spans: tuple[Span, ...], late_ns: int, unknown: str, *, sure: bool
    ) -> PossibleEviction:
        """Return the same where an unknown may make it so much later, with its windows then: bounds. ``sure``: it is as certain."""
        gone_ns = self.gone_latest_ns
        return self._replace(
            spans=spans,
            certain=self.certain and sure,
            gone_latest_ns=None if gone_ns is None else gone_ns + late_ns,
            circumstances=self.circumstances if len(spans) == len(self.spans) else (),
            missed=self.missed | {unknown},
            proven=self.proven or not self.missed,
        )

    def without(self, missed: Set[str]) -> PossibleEviction:
        """Return the same where these unknowns were not tried: what was exact is a bound then."""
        proven = self.proven or not self.missed
        return self._replace(missed=self.missed | missed, proven=proven)

    def also_within(self, spans: Iterable[Span], missed: frozenset[str]) -> PossibleEviction:
        """Return the same where it may happen within these spans as well, which are bounds: nothing of it is certain."""
        return self._replace(
            spans=disjoint_outcomes([*self.spans, *spans], 0),
            certain=False,
            gone_latest_ns=None,
            circumstances=(),
            missed=self.missed | missed,
            proven=True,
        )

    def ending_from(self, low_ns: int) -> PossibleEviction:
        """Return the same where its pod may be gone from then on as well; what is known to end sooner stays so."""
        gone_ns = self.gone_earliest_ns
        return self._replace(gone_earliest_ns=low_ns if gone_ns is None else min(gone_ns, low_ns))

    def gone_from(self, low_ns: int) -> PossibleEviction:
        """Return the same where its pod may be gone from then on as well, if it ends at all."""
        gone_ns = self.gone_earliest_ns
        return self if gone_ns is None else self._replace(gone_earliest_ns=min(gone_ns, low_ns))

    def on_node(self, node: str, until_queued: UntilQueued) -> PossibleEviction:
        """Return the same on another node: as ``_replace`` does it, for tens of thousands."""
        found = *self[:2], node, *self[3:7], until_queued, *self[8:]
        return tuple.__new__(PossibleEviction, found)


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
CREATED = "created"
DELETED = "deleted"


class NodeChangeKey(NamedTuple):
    """``what`` is one of the words above, ``value`` a status or "key:effect"."""

    node: str
    what: str
    value: str

    @property
    def effect(self) -> str:
        """That of the taint which the node gets or loses; "" where it is something else."""
        return self.value.rpartition(":")[2] if self.what in (TAINT_ADDED, TAINT_REMOVED) else ""


def is_ready(key: NodeChangeKey) -> bool:
    """Whether the Ready condition changes."""
    return key.what == READY


def follows_ticks(key: NodeChangeKey) -> bool:
    """Whether node lifecycle decides when it happens, not an event of the scenario."""
    if key.what == READY:
        return key.value == "Unknown"
    in_taint = key.what in (TAINT_ADDED, TAINT_REMOVED)
    return in_taint and key.value.rpartition(":")[0] in LIFECYCLE_NO_EXECUTE_KEYS


def taint_change(entry: TaintChanged) -> NodeChangeKey:
    """The key of a taint that a node gets or loses."""
    what = TAINT_ADDED if isinstance(entry, TaintAdded) else TAINT_REMOVED
    return NodeChangeKey(entry.node, what, key_and_effect(entry.taint))


class ZoneStateKey(msgspec.Struct, frozen=True):
    """A zone gets into a state."""

    zone: str
    state: str


Key = TypeVar("Key", CancelKey, NodeChangeKey, ZoneStateKey)


class WindowOverRuns(msgspec.Struct):
    """How one recurring occurrence (say, a node's first Unknown) fell in the runs seen so far."""

    earliest_ns: int
    latest_ns: int
    runs: int = 0
    unsure: bool = False
    # It rests on runs that do not stand for all, and no bound of it is proven.
    explored: bool = False

    @property
    def span(self) -> Span:
        """Both ends."""
        return self.earliest_ns, self.latest_ns

    def copied(self) -> WindowOverRuns:
        """Another one, for another occurrence that fell alike."""
        return WindowOverRuns(
            self.earliest_ns, self.latest_ns, self.runs, self.unsure, self.explored
        )


class WindowTable(Generic[Key]):
    """Windows by (key, ordinal), filled run by run: the n-th occurrence of a key is its own window."""

    def __init__(self) -> None:
        self.windows: dict[tuple[Key, int], WindowOverRuns] = {}

    def add(
        self,
        nth: tuple[Key, int],
        earliest_ns: int,
        latest_ns: int,
        *,
        certain: bool,
        runs: int,
        explored: bool = False,
    ) -> None:
        """Note that it happens between the instants in so many runs (``certain``: in any order)."""
        window = self.windows.get(nth)
        if window is None:
            window = self.windows[nth] = WindowOverRuns(earliest_ns, latest_ns)
        window.earliest_ns = min(window.earliest_ns, earliest_ns)
        window.latest_ns = max(window.latest_ns, latest_ns)
        window.runs += runs
        window.unsure = window.unsure or not certain
        window.explored = window.explored or explored

    def add_sequence(
        self, items: Iterable[tuple[Key, int]], padding_ns: int, starts_ns: Sequence[int] = ()
    ) -> None:
        """All occurrences (key, instant) of one run, in order.

        ``starts_ns``: when kube-controller-manager comes back; what happens then is not moved before that.
        """
        seen: dict[Key, int] = {}
        for key, at_ns in items:
            ordinal = seen[key] = seen.get(key, -1) + 1
            started_ns = max((ns for ns in starts_ns if ns <= at_ns), default=at_ns - padding_ns)
            earliest_ns = max(at_ns - padding_ns, started_ns, 0)
            self.add((key, ordinal), earliest_ns, at_ns + padding_ns, certain=True, runs=1)

    def once_more(self, key: Key, span: Span) -> WindowOverRuns:
        """Note that it may happen once more than in any run, within the span."""
        ordinal = next(place for place in count() if (key, place) not in self.windows)
        window = self.windows[key, ordinal] = WindowOverRuns(*span, unsure=True)
        return window

    def by_key(self) -> dict[Key, list[WindowOverRuns]]:
        """All windows of each key, the first occurrence first."""
        found: defaultdict[Key, list[WindowOverRuns]] = defaultdict(list)
        for key, ordinal in sorted(self.windows, key=itemgetter(1)):
            found[key].append(self.windows[key, ordinal])
        return dict(found)

    def drop_after(self, horizon_ns: int) -> None:
        """Forget what only happens after the horizon; what may is not certain, and told up to it.

        Nor is anything told from before the start, though what leads to it may have been.
        """
        for key, window in list(self.windows.items()):
            window.earliest_ns = max(window.earliest_ns, 0)
            if window.earliest_ns > horizon_ns:
                del self.windows[key]
            elif window.latest_ns > horizon_ns:
                window.latest_ns, window.unsure = horizon_ns, True


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
        # Zones, as they are told, that may be in another state at the start than the snapshot shows, until the first tick.
        self.unsure_at_start: set[str] = set()
        self.runs = 0
        # Runs with drains in them: they say nothing of nodes.
        self.drain_runs = 0
        # By (pod, uid) on drained nodes: until when somebody surely deletes it, if kubectl does not before.
        self.going: dict[tuple[str, str], int] = {}
        self.affected: set[str] = set()
        # Nodes that only fall silent: of their pods each was looked at for itself (``SimpleFates``).
        self.only_silent: set[str] = set()
        # By zone: nodes that wait for a taint in some run; and for each order in each run the instants at
        # which nodes are tainted for the first time, sorted.
        self.waiting: dict[str, set[str]] = {}
        self.services: dict[str, list[tuple[int, ...]]] = {}
        # Nodes of which runs are samples, and the unknowns that were not wholly explored there.
        self.sampled: dict[str, frozenset[str]] = {}
        # The unknowns of node runs that were not wholly explored; nodes about which a tick may decide something that no run shows.
        self.missed: frozenset[str] = frozenset()
        self.doubtful: set[str] = set()
        # Those of them of which some histories were left out, so that changes of theirs may be in no run at all.
        self.cut_short: set[str] = set()
        # What nobody can see of the time before the start may keep every node from being tainted (``may_be_passed_over``).
        self.may_pass_over = False
        # At which rate entries of before the start may eat tokens (``may_hold_orphaned_entries``); None: there are none.
        self.eaten_at_qps: float | None = None
        # How much later than without the limits of the controllers' clients, and without conflicts, any deletion can be.
        self.late_ns = 0
        # ... and anything that follows a tick of the node monitor.
        self.ticks_late_ns = 0
        # By how much windows that follow a monitor tick are widened: not every phase was tried.
        self.padding_ns = 0

    def when(self, wanted: Callable[[NodeChangeKey], bool]) -> defaultdict[str, list[Span]]:
        """By node when those of its changes happen that are wanted."""
        found: defaultdict[str, list[Span]] = defaultdict(list)
        for (key, _), window in self.nodes.windows.items():
            if wanted(key):
                found[key.node].append(window.span)
        return found

    def zones_in_line(self) -> dict[str, str]:
        """By nodes that wait for a taint in some run the zone in which they do."""
        return {name: zone for zone, names in self.waiting.items() for name in names}

    def waits_alone(self, name: str) -> bool:
        """Whether nobody else waits in any run in the zones in which the node does."""
        return all(len(names) == 1 for names in self.waiting.values() if name in names)
