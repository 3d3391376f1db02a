"""When kubectl comes to each node and when it is through with it, over all runs of a drain.

kubectl takes one node after the other, so what is early or late on one adds to what is early or late on the
next. Few drawn runs are early everywhere; so the parts are put together here: a node begins when the one before
it ends, and takes as long as in some run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache

from kubectl_evictplan.cluster.drained_pods import RETRY_NS
from kubectl_evictplan.engine.drain_timing import Latency, range_ns
from kubectl_evictplan.scenarios.actions.drain import Drain
from kubectl_evictplan.windows.drains.instants import GAP_NS, Instants, NodeDrain, Within
from kubectl_evictplan.windows.spans import Span, merge_spans


class Turns:
    """Fills itself run by run; to be asked only when the last run is in."""

    def __init__(self, drains: Sequence[Drain]) -> None:
        self._drains = drains
        self._starts: Instants[NodeDrain] = Instants(lambda _: GAP_NS)
        self._ends: Instants[NodeDrain] = Instants(lambda _: GAP_NS)
        self._takes: Instants[NodeDrain] = Instants(lambda _: GAP_NS)
        # How long after its node's start something happens, by what and which node.
        self._after: Instants[tuple[object, NodeDrain]] = Instants(lambda _: GAP_NS)
        self._turns_of: dict[object, set[NodeDrain]] = {}
        # Turns in some run of which a refused pod finds at its next try that the time was up.
        self._given_up_late: set[NodeDrain] = set()
        self.started = cache(self._started)
        self.ended = cache(self._ended)

    def add(
        self, drain: NodeDrain, seed: int, start_ns: int, end_ns: int | None, *, timed_out: bool
    ) -> None:
        """One turn of one run; ``end_ns`` None: it never ends."""
        self._starts.add(drain, seed, start_ns)
        if end_ns is not None:
            self._ends.add(drain, seed, end_ns)
            self._takes.add(drain, seed, end_ns - start_ns)
            if timed_out and end_ns - start_ns > self._drains[drain.process].timeout_ns:
                self._given_up_late.add(drain)

    def add_within(self, what: object, drain: NodeDrain, seed: int, after_ns: int) -> None:
        """Something happens in a turn, so long after its start."""
        self._turns_of.setdefault(what, set()).add(drain)
        self._after.add((what, drain), seed, after_ns)

    def all(self) -> Sequence[NodeDrain]:
        """Every turn that begins in some run."""
        return tuple(self._starts.by_seed)

    def in_which(self) -> Mapping[object, Collection[NodeDrain]]:
        """By what happens, the turns in which it does."""
        return self._turns_of

    def _started(self, drain: NodeDrain) -> tuple[Span, ...]:
        """When kubectl comes to the node; none: it never does."""
        spans = list(self._starts.spans(drain))
        before = self._before(drain)
        if spans and before is not None:
            fast_ns, slow_ns = range_ns(Latency.LIST_PODS)
            settle_ns = self._drains[drain.process].settle_ns
            spans += [
                (low_ns + fast_ns + settle_ns, high_ns + slow_ns + settle_ns)
                for low_ns, high_ns in self.ended(before)
            ]
        return tuple(merge_spans(sorted(spans), GAP_NS))

    def _ended(self, drain: NodeDrain) -> tuple[Span, ...]:
        """When kubectl is through with the node; none: it never is."""
        sums = _sums(self.started(drain), self._takes.spans(drain))
        spans = (*self._ends.spans(drain), *sums, *self._late_ends(drain))
        return tuple(merge_spans(sorted(spans), GAP_NS))

    def _late_ends(self, drain: NodeDrain) -> list[Span]:
        """When a pod may give up that sleeps at its deadline: at its next try, which can be at any instant.

        Only where first requests follow others' exits; else tries are a multiple of 5 s after the start, as drawn.
        """
        event = self._drains[drain.process]
        if drain not in self._given_up_late or not (drain.place or event.parallel):
            return []
        until_try_ns = RETRY_NS + sum(
            range_ns(one)[1] for one in (Latency.FIRST_POLL, Latency.DECIDE)
        )
        return _sums(self.started(drain), [(event.timeout_ns, event.timeout_ns + until_try_ns)])

    def _before(self, drain: NodeDrain) -> NodeDrain | None:
        before = [
            one
            for one in self._starts.by_seed
            if (one.process, one.place) == (drain.process, drain.place - 1)
        ]
        return before[0] if before else None

    def start_within(self, drain: NodeDrain, runs: int) -> Within | None:
        """The hull; without a latest end if it does not begin in as many as ``runs``."""
        return _hull(self.started(drain), self._starts.runs.get(drain, 0) >= runs)

    def end_within(self, drain: NodeDrain, runs: int) -> Within | None:
        """The hull; without a latest end if it does not end in as many as ``runs``."""
        return _hull(self.ended(drain), self._ends.runs.get(drain, 0) >= runs)

    def within(self, what: object) -> list[Span]:
        """When something happens, if its turns may begin whenever they can."""
        return [
            span
            for drain in self._turns_of.get(what, ())
            for span in _sums(self.started(drain), self._after.spans((what, drain)))
        ]

    def first_start_ns(self, node: str) -> int | None:
        """When kubectl first comes to the node, at the earliest."""
        starts = [self.started(one) for one in self._starts.by_seed if one.node == node]
        return min((spans[0][0] for spans in starts), default=None)


def _sums(starts: Sequence[Span], afters: Sequence[Span]) -> list[Span]:
    return [
        (start_low + after_low, start_high + after_high)
        for start_low, start_high in starts
        for after_low, after_high in afters
    ]


def _hull(spans: Sequence[Span], always: bool) -> Within | None:
    return Within(spans[0][0], spans[-1][1] if always else None) if spans else None
