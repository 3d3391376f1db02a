"""What is said of drains: what is proven of them, and what drawn runs found where nothing is.

Drawn runs are samples. Of what rests on them alone nothing is certain, and its windows are told as explored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import BY_DRAINS, EVICTION_API, DrainEnd
from kubectl_evictplan.engine.drain_timing import Latency
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.bounds import DrainBounds
from kubectl_evictplan.windows.drains.delays import takes
from kubectl_evictplan.windows.drains.instants import NodeDrain, Within
from kubectl_evictplan.windows.drains.outcomes import DrainGathered, DrainOutcome
from kubectl_evictplan.windows.drains.rivals import RowBounds
from kubectl_evictplan.windows.drains.throttled import Lateness, Throttling, later
from kubectl_evictplan.windows.drains.told import TurnBounds, possible
from kubectl_evictplan.windows.drains.turn_bounds import FOR_EVER
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction
from kubectl_evictplan.windows.spans import Span
from kubectl_evictplan.windows.unknowns.of_drains import DrainLatencies

_DRAWN = frozenset((DrainLatencies.name,))
# Where it is not proven how kubectl exits; None: it never does.
_ANY_EXIT: frozenset[int | None] = frozenset((0, 1, None))


class Expected(NamedTuple):
    """How kubectl is through with a node if all that the input does not have is as one would expect."""

    end: Within | None
    reasons: frozenset[DrainEnd | None]
    exit_codes: frozenset[int | None]


class DrainAnswers:
    """``gathered`` has every run, ``bounds`` what is proven, ``expected`` what would be in the world ``as_expected``.

    ``missing`` are the kinds that make the difference. ``quiet``: nobody but kubectl deletes pods.
    """

    def __init__(
        self,
        gathered: DrainGathered,
        bounds: DrainBounds,
        missing: tuple[str, ...] = (),
        expected: DrainBounds | None = None,
        *,
        quiet: bool,
    ) -> None:
        self.missing = missing
        self._quiet = quiet
        self._gathered = gathered
        self._bounds = bounds
        self._expected = expected

    # Where nodes are drained, kubelets and the Job controller take so much longer until an object is gone.
    ends_later_ns = takes(Latency.REPORT_EXIT, Latency.REMOVE_FINALIZER)[1]

    @property
    def runs(self) -> int:
        """How many runs were drawn."""
        return self._gathered.runs

    @property
    def told(self) -> tuple[object, ...]:
        """Everything that drawn runs have a say in, but for which of them shows it: equal where they say the same."""
        evictions = {key: each._replace(sample=None) for key, each in self.evictions.items()}
        return evictions, self.outcomes, self.replaced_owners

    @property
    def replaced_owners(self) -> frozenset[str]:
        """Owners ("namespace/Kind/name") whose replacements are evicted themselves: in some run, or where nothing proves that they are not."""
        landing = self._bounds.landings.items()
        unproven = (owners for drain, owners in landing if drain in self._bounds.disturbed)
        return self._gathered.replaced_owners.union(*unproven)

    @property
    def left_alone(self) -> frozenset[tuple[str, str]]:
        """(pod, uid) on drained nodes that no process evicts, whatever happens."""
        return self._bounds.left_alone

    def stays_certain(self, key: EvictionKey, other: PossibleEviction) -> bool:
        """Whether a deletion by somebody else, which is certain without drains, is so with them: kubectl is not first."""
        name = key.pod, key.uid
        if name in self._bounds.left_alone:
            return True
        held_ns = self._bounds.held_until_ns.get(name, 0)
        # A budget that lets nobody go at an event does not do so within the second after it.
        return bool(held_ns) and other.latest_ns <= held_ns + SECOND_NS

    @cached_property
    def evictions(self) -> dict[EvictionKey, PossibleEviction]:
        """Deletions with their windows, all of them proven: drawn runs show how they come about."""
        return {
            key: self._throttled.eviction(key, told) if key.controller in BY_DRAINS else told
            for key, told in self._unlimited.items()
        }

    @cached_property
    def _unlimited(self) -> dict[EvictionKey, PossibleEviction]:
        """Those of a kubectl whose client lets no request wait."""
        rows = self._bounds.unbounded | self._bounds.rows
        found = {
            key: self._bounded(key, drawn)
            for key, drawn in self._gathered.evictions.items()
            if not key.ordinal or (key.uid and key.controller in BY_DRAINS) or self._again(key)
        }
        for key, row in rows.items():
            if key not in found:
                # No run shows it, and nothing proves that it cannot be.
                found[key] = _proven(_never_drawn(row), row)
        return found | dict(self._deleted_again(found))

    def _again(self, key: EvictionKey) -> Span | None:
        """When the n-th deletion of a pod, or one of what was made anew under its name, may be."""
        return self._bounds.again.get((key.pod, key.uid, key.controller))

    def _deleted_again(
        self, found: Mapping[EvictionKey, PossibleEviction]
    ) -> Iterator[tuple[EvictionKey, PossibleEviction]]:
        """Second deletions, by another process, of pods that go on terminating meanwhile, which no run shows."""
        for (pod, uid, controller), span in self._bounds.again.items():
            first, second = (EvictionKey(pod, uid, controller, nth) for nth in (0, 1))
            if uid and first in found and second not in found:
                drawn = PossibleEviction((span,), False, found[first].node, None, None, None)
                yield second, drawn._replace(missed=_DRAWN, proven=True)

    def _bounded(self, key: EvictionKey, drawn: PossibleEviction) -> PossibleEviction:
        row = self._bounds.rows.get(key)
        if row is not None:
            return _proven(drawn, row)
        again = self._again(key)
        if again is not None and (key.ordinal or not key.uid):
            return _within(drawn, again)
        row = self._bounds.unbounded.get(key)
        if row is not None:
            certain = drawn.certain and key in self._bounds.sure.evicted
            return _proven(drawn, row)._replace(certain=certain)
        if key.controller in BY_DRAINS:
            return _within(drawn, self._bounds.at_any_time(key))
        return _within(drawn, (self._by_others_since_ns(key), HORIZON_DEFAULT_MAX_NS))

    def _by_others_since_ns(self, key: EvictionKey) -> int:
        """Before which offset nobody else than kubectl deletes a pod: nothing has happened, or there is none under its name yet."""
        since_ns = self._bounds.plan.disturbed_ns
        if key.uid:
            return since_ns
        rows = self._bounds.unbounded | self._bounds.rows
        firsts = [row.spans[0][0] for one, row in rows.items() if one.pod == key.pod and one.uid]
        return max(since_ns, min(firsts, default=0)) if since_ns else 0

    def gone_by_ns(self, pod: str, uid: str) -> int | None:
        """By when the object of a pod is surely gone, because kubectl has deleted it; None: not known."""
        ends = [
            row.gone.latest_ns + self._throttled.late_ns(row.node, uid)
            for controller in BY_DRAINS
            if (row := self._bounds.rows.get(EvictionKey(pod, uid, controller, 0))) is not None
            and row.certain
            and row.gone is not None
            and row.gone.latest_ns is not None
            and self._throttled.deletes_surely(row.node)
        ]
        return min(ends, default=None)

    def may_be_collected(self, node: str) -> bool:
        """Whether garbage collection may delete whoever terminates on the node."""
        return self._bounds.plan.others.may_collect(node)

    @cached_property
    def outcomes(self) -> dict[NodeDrain, DrainOutcome]:
        """Every node of every process, in their order."""
        return {drain: self._throttled.outcome(drain) for drain in self._gathered.outcomes}

    @property
    def lateness(self) -> Mapping[NodeDrain, Lateness]:
        """How much later each node and its pods are told because kubectl's own client lets requests wait."""
        return self._throttled.late

    @cached_property
    def _throttled(self) -> Throttling:
        drawn = self._gathered.outcomes.items()
        told = {drain: self._told(drain, one) for drain, one in drawn}
        return Throttling(self._bounds.plan, told, quiet=self._quiet)

    def _told(self, drain: NodeDrain, drawn: DrainOutcome) -> DrainOutcome:
        bounds = self._bounds
        turn, end = bounds.turns.get(drain), bounds.sure.ends.get(drain)
        if turn is not None:
            told = _as_proven(drawn, turn, end)
        else:
            assert drain in bounds.never_begun, "kubectl comes to every node, or never"
            told = drawn._replace(start=None, end=None, reasons=FOR_EVER, waits={}, proven=True)
        code = bounds.sure.exit_codes.get(drain.process)
        codes = bounds.exit_codes.get(drain.process, _ANY_EXIT)
        if code is not None:
            codes = frozenset((code,))
        return told._replace(exit_codes=codes)

    def expected(self, drain: NodeDrain) -> Expected | None:
        """What would be if the input had everything; None where nothing is missing, or that is not proven either."""
        if self._expected is None or drain not in self._expected.turns:
            return None
        turn, codes = self._expected.turns[drain], self._expected.exit_codes
        exit_codes = codes.get(drain.process, _ANY_EXIT)
        return Expected(self._throttled.end(drain, turn.end), turn.reasons, exit_codes)

    def classes(self, controller: str) -> Iterator[tuple[Sequence[Pod], list[Within | None]]]:
        """For each class of exchangeable pods the window of its n-th eviction, where that is proven."""
        for pods in self._gathered.classes if controller == EVICTION_API else ():
            known = self._bounds.together.get(pods[0].key)
            if known is not None:
                number, nths = known
                late_ns = self._throttled.late_ns(pods[0].node_name, pods[0].uid)
                found = [_nth_of(place, len(pods), number, nths) for place in range(len(pods))]
                yield pods, [later(one, late_ns) for one in found]


def _nth_of(place: int, size: int, number: int, nths: Sequence[tuple[int, int]]) -> Within | None:
    """The n-th of a class, of which others may be before and after it: of ``number`` the n-th, to the last but so many."""
    if place >= len(nths):
        return None
    last = number - size + place
    return Within(nths[place][0], nths[last][1] if last < len(nths) else None)


def _proven(drawn: PossibleEviction, row: RowBounds) -> PossibleEviction:
    gone = row.gone
    return drawn._replace(
        spans=row.spans,
        certain=row.certain,
        gone_earliest_ns=gone.earliest_ns if gone is not None else drawn.gone_earliest_ns,
        gone_latest_ns=gone.latest_ns if gone is not None else drawn.gone_latest_ns,
        missed=frozenset() if row.exact else _DRAWN,
        proven=not row.exact,
    )


def _within(drawn: PossibleEviction, span: Span) -> PossibleEviction:
    """A deletion of which nothing is certain but that it lies in the span, if it ever is."""
    return drawn._replace(spans=(span,), certain=False, missed=_DRAWN, proven=True)


def _never_drawn(row: RowBounds) -> PossibleEviction:
    """A deletion that is possible, and that no run shows."""
    return PossibleEviction(row.spans, row.certain, row.node, None, None, None)


def _as_proven(drawn: DrainOutcome, turn: TurnBounds, sure: DrainEnd | None) -> DrainOutcome:
    """The node as it is proven; what kubectl refuses and passes over is the same in every run. ``sure``: how it surely ends."""
    waits = turn.waits if turn.whole else possible(drawn.waits.items()) | dict(turn.waits)
    reasons = turn.reasons if sure is None else frozenset((sure,))
    return drawn._replace(start=turn.start, end=turn.end, reasons=reasons, waits=waits, proven=True)
