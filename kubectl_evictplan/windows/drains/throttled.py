"""kubectl's own client lets requests wait: how much later than without its limit things happen, at most.

Each group of requests has a bucket of its own (``rest.DefaultQPS``, ``rest.DefaultBurst``; nothing sets them otherwise). Proofs and
runs know nothing of it. A request that waits only makes kubectl later: what is proven keeps its earliest instants.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.cluster.drained_pods import RETRY_NS
from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.engine.drain_timing import CLIENT_BURST, CLIENT_QPS
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.windows.drains.instants import NodeDrain, Within
from kubectl_evictplan.windows.drains.outcomes import DrainOutcome
from kubectl_evictplan.windows.drains.planned import DrainPlan, PlannedTurn
from kubectl_evictplan.windows.drains.waits import Wait
from kubectl_evictplan.windows.outcome import EvictionKey, PossibleEviction
from kubectl_evictplan.windows.spans import later_spans
from kubectl_evictplan.windows.unknowns.of_drains import DrainLatencies

_RETRY_SECONDS = RETRY_NS // SECOND_NS


class Lateness(NamedTuple):
    """So much later than without limits, at most: kubectl comes to the node, has deleted a pod of it, and is through with it."""

    begins_ns: int
    deletes_ns: int
    ends_ns: int


class _Bucket:
    """The tokens of one kind of requests: how many kubectl takes as soon as it comes to each node, and when that is."""

    def __init__(self) -> None:
        self._taken: list[tuple[int, Within]] = []

    def take(self, tokens: int, start: Within) -> None:
        """Those of the next node."""
        self._taken.append((tokens, start))

    def last_waits_ns(self, tokens: int, start: Within, again: int) -> int:
        """How long the last of so many more requests waits; ``again``: so many a second follow until then."""
        if again > CLIENT_QPS:
            # Those before it may have left no token, and all of its own wait for each other.
            return _for_tokens_ns(tokens)
        missing, taken = tokens - CLIENT_BURST, tokens
        for number, before in reversed(self._taken):
            if missing >= tokens:
                break
            taken += number
            began_ns = before.latest_ns
            since_ns = 0 if began_ns is None else max(start.earliest_ns - began_ns, 0)
            refilled = (CLIENT_QPS - again) * since_ns // SECOND_NS
            missing = max(missing, taken - CLIENT_BURST - refilled)
        return _for_tokens_ns(min(missing, tokens))


class Throttling:
    """Of all processes; ``outcomes`` are those without limits. ``quiet``: nobody but kubectl deletes pods."""

    def __init__(
        self, plan: DrainPlan, outcomes: Mapping[NodeDrain, DrainOutcome], *, quiet: bool
    ) -> None:
        self._outcomes = outcomes
        self._timeouts_ns = {turn.drain: turn.options.timeout_ns for turn in plan.turns}
        several = len(plan.processes) > 1
        # Of several processes each may wait for whom another one deletes.
        self._waiting = _waiting(*outcomes.values()) if several else None
        # ``apply`` drains in the place of kubectl, and does not limit itself.
        limited = [
            {} if event.parallel else dict(self._of_process(turns))
            for event, turns in zip(plan.drains, plan.processes, strict=True)
        ]
        deletes_ns = [max((one.deletes_ns for one in own.values()), default=0) for own in limited]
        self.late = {
            drain: _behind_others(late, drain, sum(deletes_ns) - deletes_ns[drain.process])
            for own in limited
            for drain, late in own.items()
        }
        self._most_ns = sum(deletes_ns)
        # Who is first may be another one then, and whom --timeout makes give up.
        nodes = Counter(turn.drain.node for turn in plan.turns)
        meet = several and (max(nodes.values()) > 1 or any(self._timeouts_ns.values()))
        self._doubtful = bool(self._most_ns) and (meet or not quiet)
        self._of_node: dict[str, list[NodeDrain]] = {}
        for drain in self.late:
            self._of_node.setdefault(drain.node, []).append(drain)

    def _of_process(self, turns: Sequence[PlannedTurn]) -> Iterator[tuple[NodeDrain, Lateness]]:
        # Each node is read first, and written then.
        begins_ns = 2 * _for_tokens_ns(len(turns) - CLIENT_BURST)
        asked, looked = _Bucket(), _Bucket()
        retried = looked_at = 0
        for turn in turns:
            outcome = self._outcomes.get(turn.drain)
            if outcome is None or outcome.start is None:
                return
            start = outcome.start
            pods = 0 if turn.refused and turn.surely_found else len(turn.everybody)
            deletes = pods if turn.options.disable_eviction else 0
            lists = 1 if turn.drain.place else len(turns) + 1
            asks, looks = pods - deletes, lists + pods + deletes
            listed_ns = looked.last_waits_ns(lists, start, looked_at)
            retried = max(retried, pods if outcome.waits else 0)
            looked_at = max(looked_at, pods)
            asks_ns = asked.last_waits_ns(asks, start, -(-retried // _RETRY_SECONDS))
            looks_ns = max(looked.last_waits_ns(looks, start, looked_at) - listed_ns, 0)
            if deletes:
                # One after the other, and each look asks for all of them.
                asks_ns, looks_ns = looks_ns, 2 * looks_ns
            if outcome.waits:
                # Before each try the pod is read, while all others may be looked at; and whom it waits for may be as late:
                # those on nodes before this one are, by when kubectl comes to it.
                reads_ns = looked.last_waits_ns(looks, start, looked_at - 1)
                waiting = _waiting(outcome) if self._waiting is None else self._waiting
                asks_ns = (asks_ns + reads_ns) * (1 + waiting)
            asked.take(asks, start)
            looked.take(looks, start)
            deleted_ns = begins_ns + listed_ns + asks_ns
            yield turn.drain, Lateness(begins_ns, deleted_ns, deleted_ns + looks_ns)
            begins_ns = deleted_ns + looks_ns

    def outcome(self, drain: NodeDrain) -> DrainOutcome:
        """What is told of the node, as late as kubectl's client can make it."""
        told, late = self._outcomes[drain], self.late.get(drain)
        if late is None or not late.ends_ns:
            return told
        reasons, codes = told.reasons, told.exit_codes
        if self._may_time_out(drain):
            reasons, codes = reasons | {DrainEnd.TIMEOUT}, codes | {1}
        unsure = late.deletes_ns > late.begins_ns or self._doubtful
        waits = {key: _wait_later(wait, late, unsure=unsure) for key, wait in told.waits.items()}
        return told._replace(
            start=later(told.start, late.begins_ns),
            end=later(told.end, late.ends_ns),
            reasons=reasons,
            exit_codes=codes,
            waits=waits,
        )

    def end(self, drain: NodeDrain, end: Within | None) -> Within | None:
        """The end of the node without limits, as late as with them."""
        late = self.late.get(drain)
        return end if late is None else later(end, late.ends_ns)

    def _may_time_out(self, drain: NodeDrain) -> bool:
        """Whether what ``--timeout`` would not end without limits may take too long with them."""
        timeout_ns, late, told = self._timeouts_ns[drain], self.late[drain], self._outcomes[drain]
        if not timeout_ns or late.ends_ns == late.begins_ns:
            return False
        if told.start is None or told.end is None or told.end.latest_ns is None:
            return True
        longest_ns = told.end.latest_ns - told.start.earliest_ns
        return longest_ns + late.ends_ns - late.begins_ns >= timeout_ns

    def late_ns(self, node: str, uid: str) -> int:
        """How much later a pod of the node is deleted, at most; "": what was made anew under its name follows others."""
        late = (self.late[drain].deletes_ns for drain in self._of_node.get(node, ()))
        return max(late, default=0) if uid else self._most_ns

    def deletes_surely(self, node: str) -> bool:
        """Whether what is certain to be deleted there without limits is so with them."""
        return not self._doubtful and not any(map(self._may_give_up, self._of_node.get(node, ())))

    def _may_give_up(self, drain: NodeDrain) -> bool:
        """Whether ``--timeout`` may end a wait for a token, or for a turn that comes later because of one."""
        late, timeout_ns = self.late[drain], self._timeouts_ns[drain]
        asks_ns = late.deletes_ns - late.begins_ns
        in_time = asks_ns + SECOND_NS < timeout_ns and not self._outcomes[drain].waits
        return bool(timeout_ns and asks_ns) and not in_time

    def eviction(self, key: EvictionKey, told: PossibleEviction) -> PossibleEviction:
        """A deletion by kubectl, as late as its client can make it: a bound then."""
        late_ns = self.late_ns(told.node, key.uid)
        if not late_ns:
            return told
        spans, sure = later_spans(told.spans, late_ns), self.deletes_surely(told.node)
        return told.later(spans, late_ns, DrainLatencies.name, sure=sure)


def _waiting(*outcomes: DrainOutcome) -> int:
    """How many pods may wait for one another there: as many as one budget keeps, or several that keep one pod."""
    keys = {key for one in outcomes for key in one.waits}
    if any(len(key.budgets) > 1 for key in keys):
        return len({key.pod for key in keys})
    pods_of: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for key in keys:
        pods_of[key.budgets].add(key.pod)
    return max(map(len, pods_of.values()), default=0)


def later(within: Within | None, late_ns: int) -> Within | None:
    """The same, so much later at most."""
    if within is None or within.latest_ns is None:
        return within
    return Within(within.earliest_ns, within.latest_ns + late_ns)


def _behind_others(late: Lateness, drain: NodeDrain, others_ns: int) -> Lateness:
    """The same where other processes delete so much later whatever this one may wait for."""
    begins_ns = late.begins_ns + (others_ns if drain.place else 0)
    return Lateness(begins_ns, late.deletes_ns + others_ns, late.ends_ns + others_ns)


def _wait_later(wait: Wait, late: Lateness, *, unsure: bool) -> Wait:
    by_ns = None if wait.by_ns is None else wait.by_ns + late.deletes_ns
    until = later(wait.until, late.ends_ns)
    return wait._replace(until=until, by_ns=by_ns, certain=wait.certain and not unsure)


def _for_tokens_ns(missing: int) -> int:
    """How long so many tokens take."""
    return max(missing, 0) * SECOND_NS // CLIENT_QPS
