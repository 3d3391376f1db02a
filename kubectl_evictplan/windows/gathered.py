"""What happened to the pods of one world over all its histories, put together to windows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from functools import partial

import msgspec

from kubectl_evictplan.cluster.timeline import (
    POD_GC,
    EvictionScheduled,
    NodeDeleted,
    PodDeleted,
    PodGone,
    TaintChanged,
    TaintRemoved,
    Timeline,
    TimerCancelled,
)
from kubectl_evictplan.kube.objects import Node
from kubectl_evictplan.kube.taints import (
    is_lifecycle_no_execute,
    key_and_effect,
    no_execute_taints,
)
from kubectl_evictplan.windows.circumstances import (
    Circumstance,
    Contribution,
    Moment,
    tell_spans_apart,
)
from kubectl_evictplan.windows.outcome import (
    TAINT_ADDED,
    CancelKey,
    EvictionKey,
    Exploration,
    NodeChangeKey,
    PossibleEviction,
    WindowTable,
    taint_change,
)
from kubectl_evictplan.windows.spans import Span, disjoint_outcomes
from kubectl_evictplan.windows.unknowns.services import Choice


class Slot(msgspec.Struct, frozen=True):
    """One outcome of one piece: instants in it differ, but what happens does not."""

    piece: int
    choice: Choice
    left_out_ns: int = 0
    between: tuple[Moment, Moment] | None = None
    # What one tick writes is seen at its end only.
    at_once: bool = False

    def wait_of(self, ordinal: int) -> int:
        """In which of its waits a node gets a taint for the n-th time: the n-th in which it is served."""
        served = [index for index, place in enumerate(self.choice) if place is not None]
        return served[ordinal] if ordinal < len(served) else ordinal

    def contribution(self) -> Contribution:
        """What the slot says about how an outcome comes about."""
        served = (index for index, place in enumerate(self.choice) if place is not None)
        return Contribution(self.piece, self.between, next(served, None))


class _Gone(msgspec.Struct, frozen=True):
    pod: str
    uid: str


class _Started(msgspec.Struct, frozen=True):
    """The start of a timer that is cancelled."""

    cancel: CancelKey


# Whatever recurs and gets a window: the n-th of its kind.
_Key = EvictionKey | CancelKey | NodeChangeKey | _Gone | _Started
_Nth = tuple[_Key, int]
# What has happened to a pod so far, in order: what was cancelled, and what deleted it for which taint and toleration. Instants of one fate have an earliest and a latest
# one in a piece, with everything between them; between two fates there may be nothing.
_Fate = tuple[Hashable, ...]


class _Found(msgspec.Struct, eq=False):
    """One occurrence: its instants by slot and by its pod's fate, and the histories in which it was found."""

    sample: tuple[Timeline, int] | None
    by_fate: dict[tuple[Slot, _Fate], Span] = {}
    histories: set[int] = set()

    def note(self, slot: Slot, fate: _Fate, history: int, at_ns: int) -> None:
        low_ns, high_ns = self.by_fate.get((slot, fate), (at_ns, at_ns))
        self.by_fate[slot, fate] = min(low_ns, at_ns), max(high_ns, at_ns)
        self.histories.add(history)

    def circumstances(self, spans: Sequence[Span], *, alone: bool) -> tuple[Circumstance, ...]:
        """What leads to each of the spans."""
        found = ((slot.contribution(), (span,)) for (slot, _), span in self.by_fate.items())
        return tell_spans_apart(spans, found, alone=alone)

    def spans(self, gap_ns: int, horizon_ns: int) -> tuple[Span, ...]:
        """Disjoint windows, none before the start."""
        widened = (
            (max(low_ns - slot.left_out_ns, 0), high_ns + slot.left_out_ns)
            for (slot, _), (low_ns, high_ns) in self.by_fate.items()
        )
        return disjoint_outcomes(widened, gap_ns, horizon_ns)


def _pod_of(key: _Key) -> str:
    """The pod to which it happens; "" where it is a node."""
    if isinstance(key, NodeChangeKey):
        return ""
    return key.cancel.pod if isinstance(key, _Started) else key.pod


def _with_fates(
    facts: Iterable[tuple[_Nth, int]], timeline: Timeline
) -> Iterator[tuple[_Nth, int, _Fate]]:
    """Each with what has happened to its pod by then. Loops of garbage collection have no fates: they are tried around instants only."""
    why = {
        (each.pod, each.controller, each.at_ns): (
            each.taint and each.taint.key,
            each.toleration_index,
        )
        for each in timeline.entries
        if isinstance(each, PodDeleted)
    }
    fates: dict[str, _Fate] = {}
    for nth, at_ns in facts:
        key = nth[0]
        if isinstance(key, EvictionKey) and key.controller == POD_GC:
            yield nth, at_ns, ()
            continue
        pod = _pod_of(key)
        fate = fates.get(pod, ())
        if isinstance(key, EvictionKey):
            fate = (*fate, nth, why[pod, key.controller, at_ns])
        elif isinstance(key, CancelKey):
            fate = (*fate, nth)
        fates[pod] = fate
        yield nth, at_ns, fate


def taints_at_start(nodes: Iterable[Node]) -> frozenset[NodeChangeKey]:
    """The NoExecute taints that these nodes have, as what put them there."""
    return frozenset(
        NodeChangeKey(node.name, TAINT_ADDED, key_and_effect(taint))
        for node in nodes
        for taint in no_execute_taints(node.taints)
    )


def _written_anew(timeline: Timeline, at_start: frozenset[NodeChangeKey]) -> Iterator[int]:
    """The places of entries in which a taint is put on a node that has it: its time is another one, and nothing that a node shows."""
    stands = set(at_start)
    for index, entry in enumerate(timeline.entries):
        if isinstance(entry, TaintChanged):
            key = taint_change(entry)
            if isinstance(entry, TaintRemoved):
                stands.discard(key._replace(what=TAINT_ADDED))
            elif key in stands:
                yield index
            else:
                stands.add(key)
        elif isinstance(entry, NodeDeleted):
            stands = {each for each in stands if each.node != entry.node}


class Gathered(msgspec.Struct, eq=False):
    """Fills itself history by history; ``store`` writes the windows down."""

    _horizon_ns: int
    _gap_ns: int
    # Whether runs have pods exit at once as well; but those with these uids only if others do so likewise (``PodExit``).
    exits_varied: bool = False
    exits_shared: frozenset[str] = frozenset()
    # One node, beside which nobody waits.
    alone: bool = False
    # Names of unknowns that were not wholly explored: nothing of these pods is certain.
    missed: set[str] = set()
    # Whole histories were left out: even what all others begin with may be missing in them.
    cut_short: bool = False
    _found: dict[_Nth, _Found] = {}
    _facts: list[list[tuple[_Nth, int, _Fate]]] = []
    # Histories in which node lifecycle does nothing at the start itself.
    _quiet: set[int] = set()
    # Pods whose timer ends after the horizon in some run.
    _cut_off: set[str] = set()
    # NoExecute taints that nodes have at the start.
    at_start: frozenset[NodeChangeKey] = frozenset()

    def add(self, slot: Slot, timeline: Timeline, *, is_quiet: bool = False) -> int:
        """One more history; returns its number, for ``again``. ``is_quiet``: node lifecycle does nothing in it at the start itself."""
        history = len(self._facts)
        if is_quiet:
            self._quiet.add(history)
        facts: list[tuple[_Nth, int]] = []
        ordinals: dict[_Key, int] = {}
        ended: set[tuple[str, int]] = set()
        written_anew = set(_written_anew(timeline, self.at_start))
        for index, entry in enumerate(timeline.entries):
            key = self._key(entry)
            if isinstance(key, EvictionKey):
                ended.add((key.pod, entry.at_ns))
            if isinstance(key, CancelKey) and (key.pod, entry.at_ns) in ended:
                continue  # a timer that has done its work: whether it hears of the end before it is put away is a race
            if key is None:
                if isinstance(entry, EvictionScheduled) and entry.due_ns > self._horizon_ns:
                    self._cut_off.add(entry.pod)
                continue
            ordinal = ordinals[key] = ordinals.get(key, -1) + 1
            if isinstance(key, EvictionKey) and ordinal:
                continue  # the object is Terminating or gone: another DELETE of it changes nothing
            if index in written_anew:
                continue
            nth = (key, ordinal)
            if nth not in self._found and not isinstance(key, NodeChangeKey):
                self._found[nth] = _Found((timeline, index))
            facts.append((nth, entry.at_ns))
            if isinstance(key, CancelKey):
                # Work that was due at once has no entry of its start: it was started just then.
                start = timeline.entries[entry.because[0]] if entry.because else entry
                started = (_Started(key), ordinal)
                self._found.setdefault(started, _Found((timeline, index)))
                facts.append((started, start.at_ns))
        self._facts.append(list(_with_fates(facts, timeline)))
        self.again(slot, [history])
        return history

    def again(self, slot: Slot, histories: Collection[int]) -> None:
        """The same histories happen in another slot."""
        for history in histories:
            for (key, ordinal), at_ns, fate in self._facts[history]:
                nth = (key, slot.wait_of(ordinal) if isinstance(key, NodeChangeKey) else ordinal)
                found = self._found.get(nth)
                if found is None:
                    found = self._found[nth] = _Found(None)
                found.note(slot, fate, history, at_ns)

    @staticmethod
    def _key(entry: object) -> _Key | None:
        if isinstance(entry, PodDeleted):
            return EvictionKey(entry.pod, entry.uid, entry.controller, 0)
        if isinstance(entry, PodGone):
            return _Gone(entry.pod, entry.uid)
        if isinstance(entry, TimerCancelled):
            return CancelKey(entry.pod, entry.uid, entry.node, entry.reason)
        if isinstance(entry, TaintChanged) and is_lifecycle_no_execute(entry.taint):
            return taint_change(entry)
        return None

    # -- windows ----------------------------------------------------------------------------------

    def store(self, result: Exploration) -> None:
        """Write the windows into the exploration's tables."""
        for (key, ordinal), found in self._found.items():
            if isinstance(key, _Gone):
                continue
            missed = self._missed_of(found)
            spans = self._spans(found) if missed or not self.missed else ((0, 0),)
            low_ns, high_ns = spans[0][0], spans[-1][1]
            note = partial(
                WindowTable.add,
                earliest_ns=low_ns,
                latest_ns=high_ns,
                certain=self._always(found, missed),
                runs=result.runs,
                explored=bool(missed),
            )
            if isinstance(key, EvictionKey):
                row = self._eviction(key, found, missed, spans)
                if row is not None:
                    result.evictions[key._replace(ordinal=ordinal)] = row
            elif isinstance(key, CancelKey):
                note(result.cancels, (key, ordinal))
            elif isinstance(key, _Started):
                note(result.cancelled_starts, (key.cancel, ordinal))
            else:
                note(result.nodes, (key, ordinal))

    def _spans(self, found: _Found) -> tuple[Span, ...]:
        return found.spans(self._gap_ns, self._horizon_ns)

    def _always(self, found: _Found, missed: frozenset[str]) -> bool:
        """In every history, of all that there are; ``missed`` are ``_missed_of`` it."""
        return not missed and len(found.histories) == len(self._facts)

    def _missed_of(self, found: _Found) -> frozenset[str]:
        """What was not wholly explored of it: nothing where every history begins with it, before any tick.

        Where histories were left out it takes one that shows it without node lifecycle: that comes after all else of one instant.
        """
        at_start = set(found.by_fate.values()) == {(0, 0)}
        in_all = len(found.histories) == len(self._facts)
        if at_start and in_all and (self._quiet or not self.cut_short):
            return frozenset()
        return frozenset(self.missed)

    def _eviction(
        self,
        key: EvictionKey,
        found: _Found,
        missed: frozenset[str],
        every_span: tuple[Span, ...],
    ) -> PossibleEviction | None:
        """None where it is after the horizon; ``missed`` are ``_missed_of`` it."""
        spans = [span for span in every_span if span[0] <= self._horizon_ns]
        if not spans:
            return None
        assert found.sample is not None, "the first history in which a pod is deleted is kept"
        timeline, index = found.sample
        entry = timeline.entries[index]
        assert isinstance(entry, PodDeleted), "an eviction is told by its delete"
        certain = self._always(found, missed) and every_span[-1][1] <= self._horizon_ns
        low_ns, high_ns = spans[-1]
        if key.pod in self._cut_off and not certain:
            high_ns = self._horizon_ns
        spans[-1] = low_ns, min(high_ns, self._horizon_ns)
        gone = self._found.get((_Gone(key.pod, key.uid), 0))
        gone_spans = self._spans(gone) if gone is not None else None
        gone_earliest_ns = None
        if gone_spans is not None:
            # Without runs in which pods exit at once, a pod that ends may end at its deletion.
            at_once = self.exits_varied and key.uid not in self.exits_shared
            gone_earliest_ns = gone_spans[0][0] if at_once else spans[0][0]
        whole = gone is not None and self._always(gone, self._missed_of(gone))
        return PossibleEviction(
            spans=tuple(spans),
            certain=certain,
            node=entry.node,
            taint=entry.taint,
            toleration_index=entry.toleration_index,
            toleration_seconds=entry.toleration_seconds,
            sample=found.sample,
            gone_earliest_ns=gone_earliest_ns,
            gone_latest_ns=gone_spans[-1][1] if gone_spans is not None and whole else None,
            circumstances=found.circumstances(spans, alone=self.alone),
            missed=missed,
        )
