"""What becomes of the pods of one node while kubectl drains it, counted from when it begins with the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapreplace
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.engine.drain_timing import Latency
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.accounts import Account, Accounts
from kubectl_evictplan.windows.drains.allowance import NthEviction, evictions_in_turn, gives_up
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.delays import (
    ARRIVAL,
    AT_ONCE,
    CONFLICT,
    FIRST_REFUSED_NS,
    REFUSED,
    RETRY,
    TIMEOUT_MIN_NS,
    UNASKED,
    Range,
    plus,
    polled,
    takes,
)
from kubectl_evictplan.windows.drains.instants import Within
from kubectl_evictplan.windows.drains.planned import Leaving, PlannedTurn
from kubectl_evictplan.windows.drains.waits import EVICTED, FAILED, NEVER, TIMED_OUT, Wait
from kubectl_evictplan.windows.spans import Span


class PodFate(NamedTuple):
    """One pod. ``gone`` counts from its eviction, None: not known. ``exact``: each instant of ``spans`` can be."""

    pod: Pod
    spans: tuple[Span, ...] = ()
    certain: bool = False
    gone: Range | None = None
    exact: bool = False
    wait: Wait | None = None
    budgets: tuple[str, ...] = ()


class Passing(NamedTuple):
    """Until when kubectl is through with some pods, and how that may end: drained, timeout, error, None (never).

    ``gives_up``: it may be through with pods that are still there, although that ends as an error.
    """

    until: Range
    reasons: frozenset[DrainEnd | None]
    gives_up: bool = False


class TurnFates(NamedTuple):
    """``passing`` None: not known. ``together`` are pods that take each other's place; ``asked`` budgets' places.

    ``whole``: of every pod of the node.
    """

    pods: Sequence[PodFate]
    together: Sequence[tuple[tuple[Pod, ...], list[Range]]]
    asked: Mapping[int, Sequence[NthEviction]]
    passing: Passing | None
    whole: bool
    exact: bool


NOT_PROVEN = TurnFates((), (), {}, None, whole=False, exact=False)
# How a drain ends that never does.
FOR_EVER: frozenset[DrainEnd | None] = frozenset((None,))
_AT_ONCE_EVICTED = plus(ARRIVAL, UNASKED)
# A Pending pod that is Running in the moment of its DELETE is asked for once more.
_PERHAPS_CHANGED = plus(_AT_ONCE_EVICTED, (0, CONFLICT[1]))
_DRAINED = frozenset((DrainEnd.DRAINED,))
_NOTHING_TO_DO = Passing(AT_ONCE, _DRAINED)


def fates_of_turn(turn: PlannedTurn, begun_ns: int, accounts: Accounts) -> TurnFates:
    """Return all that is proven of one node; of pods whose budget has no account nothing is.

    ``begun_ns``: when kubectl begins with the node at the earliest.
    """
    if turn.refused:
        refused = Passing(AT_ONCE, frozenset((DrainEnd.REFUSED,)))
        return TurnFates([], [], {}, refused, whole=True, exact=True)
    if 0 < turn.options.timeout_ns < TIMEOUT_MIN_NS:
        return NOT_PROVEN
    if turn.options.disable_eviction:
        return _deleted(turn)
    if turn.options.parallel:
        return _some_at_a_time(turn, accounts)
    return _Evicting(turn, begun_ns, accounts).fates()


class _Evicting:
    """All pods at once, as kubectl does."""

    def __init__(self, turn: PlannedTurn, begun_ns: int, accounts: Accounts) -> None:
        self._turn = turn
        self._begun_ns = begun_ns
        self._options = turn.options
        self._accounts = accounts
        self._covered = accounts.covered
        self._pods: list[PodFate] = []
        self._together: list[tuple[tuple[Pod, ...], list[Range]]] = []
        self._asked: dict[int, list[NthEviction]] = {}
        self._passings: list[Passing | None] = []

    def fates(self) -> TurnFates:
        """Ask each budget about all of its pods."""
        asking: dict[int, list[Pod]] = {}
        for pod in self._turn.pods:
            places = self._covered.asked_about(pod)
            if self._covered.is_in_terminating_namespace(pod):
                self._pods.append(PodFate(pod))
                self._passings.append(None)
            elif not places:
                self._let_go(pod, exact=True)
                self._accounts.pass_unasked(pod)
            elif len(places) > 1 and self._covered.may_start_late(pod):
                self._passings.append(None)
            elif len(places) > 1:
                self._fail(pod, self._covered.names(places))
            else:
                asking.setdefault(places[0], []).append(pod)
        for place, pods in asking.items():
            account = self._accounts.account(place)
            if account is None:
                self._passings.append(None)
            else:
                self._ask(place, account, pods)
        for pod in self._turn.guests:
            self._meet_guest(pod)
        for leaving in self._turn.leaving:
            self._meet_leaving(leaving)
        if self._turn.strangers:
            self._passings.append(None)
        exact = not asking and not self._turn.guests
        exact = exact and not any(pod.finalizers for pod in self._turn.pods)
        return TurnFates(
            self._pods,
            self._together,
            self._asked,
            _all_of(self._passings),
            whole=None not in self._passings,
            exact=exact,
        )

    def _let_go(self, pod: Pod, *, exact: bool) -> None:
        evicted = _unasked(pod, self._covered)
        exact = exact and evicted == _AT_ONCE_EVICTED
        delays = self._turn.delays(pod)
        self._pods.append(PodFate(pod, (evicted,), certain=True, gone=delays.gone, exact=exact))
        self._passings.append(_passing(pod, evicted, self._turn))

    def _fail(self, pod: Pod, budgets: tuple[str, ...]) -> None:
        """More than one budget: an error, which kubectl does not repeat."""
        answered = plus(ARRIVAL, REFUSED)
        ends, until = frozenset((FAILED,)), Within(*answered)
        wait = Wait(ARRIVAL[0], until, ends, certain=True, by_ns=FIRST_REFUSED_NS)
        self._pods.append(PodFate(pod, wait=wait, budgets=budgets))
        self._passings.append(Passing(answered, frozenset((DrainEnd.ERROR,))))

    def _meet_guest(self, pod: Pod) -> None:
        """A pod that may be there: it can only make the turn longer."""
        passing = None
        refused = self._covered.is_in_terminating_namespace(pod)
        if not refused and not self._covered.covering(pod):
            passing = _passing(pod, _PERHAPS_CHANGED, self._turn)
        if passing is None:
            self._passings.append(None)
        else:
            reasons = passing.reasons | _DRAINED
            self._passings.append(Passing((0, passing.until[1]), reasons))

    def _meet_leaving(self, leaving: Leaving) -> None:
        """A pod that terminates already: if it is still there it is evicted once more, and its end waited for."""
        pod = leaving.pod
        if self._covered.asked_about(pod) or self._covered.fails_in_namespace(pod):
            self._passings.append(None)
            return
        evicted = plus(ARRIVAL, UNASKED)
        over = self._left(leaving.over_ns)
        if over is not None and over[1] < 0:
            return
        if not self._covered.is_in_terminating_namespace(pod):
            self._pods.append(PodFate(pod, (evicted,), gone=self._left(leaving.end_ns)))
        if over is None:
            self._passings.append(None)
            return
        known = plus(evicted, polled(over, takes(Latency.FIRST_POLL)))
        passing = _until((0, known[1]), self._options.timeout_ns)
        self._passings.append(passing._replace(reasons=passing.reasons | _DRAINED))

    def _left(self, end_ns: int | None) -> Range | None:
        """From the eviction of a pod to an end of which only the latest offset is known."""
        if end_ns is None:
            return None
        return 0, end_ns - self._begun_ns - ARRIVAL[0] - UNASKED[0]

    def _ask(self, place: int, account: Account, pods: Sequence[Pod]) -> None:
        free = [pod for pod in pods if account.lets_go(pod)]
        for pod in free:
            self._let_go(pod, exact=False)
            account.lets_pass(plus(ARRIVAL, UNASKED))
        pods = [pod for pod in pods if not account.lets_go(pod)]
        allowance, timeout_ns = account.allowance(), self._options.timeout_ns
        found = evictions_in_turn(allowance, len(pods), timeout_ns)
        if found is not None:
            self._asked[place] = found
        if found is None or (found and any(pod.ready != "True" for pod in pods)):
            # Perhaps never; or a pod that does not count takes a disruption for a moment only.
            self._accounts.forget([place])
            self._passings.append(None)
            return
        up = gives_up(allowance, found, timeout_ns) if timeout_ns else None
        every = len(found) == len(pods)
        spans = tuple(sorted(span for one in found for span in one.spans))
        certain = every and all(one.certain for one in found)
        wait = _wait(found, every=every, certain=certain, up=up)
        names = self._covered.names([place])
        for pod in pods:
            gone = self._turn.delays(pod).gone
            self._pods.append(PodFate(pod, spans, certain, gone, wait=wait, budgets=names))
        self._together.append((tuple(pods), [one.within for one in found]))
        self._passings += self._passings_of(pods, found, certain=certain, up=up)

    def _passings_of(
        self, pods: Sequence[Pod], found: Sequence[NthEviction], *, certain: bool, up: Range | None
    ) -> Iterator[Passing | None]:
        if found:
            first, last = found[0].within, found[-1].within
            for pod in pods:
                yield _passing(pod, (first[0], last[1]), self._turn)
            # Whoever is the last is evicted no sooner than that.
            if len(found) == len(pods):
                ends = [_passing(pod, last, self._turn) for pod in pods]
                known = [one for one in ends if one is not None]
                if known and certain:
                    yield min(known, key=lambda one: one.until)
        if certain:
            return
        if up is None:
            yield Passing(AT_ONCE, FOR_EVER)
        else:
            timeout = frozenset((DrainEnd.TIMEOUT,))
            some = len(found) == len(pods)
            yield Passing((0, up[1]), timeout | _DRAINED) if some else Passing(up, timeout)


def _wait(
    found: Sequence[NthEviction], *, every: bool, certain: bool, up: Range | None
) -> Wait | None:
    """What each of the pods may have to wait; None: nobody is refused."""
    late = [one for one in found if one.held_up]
    if not late and every:
        return None
    ends = set()
    instants: list[Range] = []
    if late:
        ends.add(EVICTED)
        instants.append((max(late[0].within[0], RETRY[0]), late[-1].within[1]))
    if up is not None and not certain:
        ends.add(TIMED_OUT)
        instants.append(up)
    if up is None and not every:
        ends.add(NEVER)
    until = None
    if instants:
        latest_ns = None if NEVER in ends else max(high for _, high in instants)
        until = Within(min(low for low, _ in instants), latest_ns)
    sure = not found or found[0].refused_first
    return Wait(ARRIVAL[0], until, frozenset(ends), certain=sure, by_ns=FIRST_REFUSED_NS)


def _passing(pod: Pod, evicted: Range, turn: PlannedTurn) -> Passing | None:
    """How long kubectl has to do with a pod that is evicted then; None: nobody knows."""
    known, timeout_ns = turn.delays(pod).known, turn.options.timeout_ns
    looks_ns = evicted[1] + takes(Latency.FIRST_POLL)[1]
    if known is None:
        if timeout_ns:
            until = timeout_ns, max(timeout_ns, looks_ns + 1)
            return Passing(until, frozenset((DrainEnd.TIMEOUT,)))
        return Passing(AT_ONCE, FOR_EVER)
    return _until(plus(evicted, known), timeout_ns, looks_ns)


def _until(known: Range, timeout_ns: int, looks_ns: int = 0) -> Passing:
    """When kubectl sees it, or stops waiting for it: not before its first look, which is at ``looks_ns`` at the latest."""
    if not timeout_ns or known[1] < timeout_ns:
        return Passing(known, _DRAINED)
    reasons = frozenset((DrainEnd.TIMEOUT,))
    until = min(known[0], timeout_ns), max(timeout_ns, looks_ns + 1)
    surely_late = known[0] > timeout_ns > looks_ns
    return Passing(until, reasons if surely_late else reasons | _DRAINED)


def _all_of(passings: Sequence[Passing | None]) -> Passing | None:
    """Through with all of them; the worst of their ends decides."""
    if not passings:
        return _NOTHING_TO_DO
    known = [one for one in passings if one is not None]
    if any(one.reasons == FOR_EVER for one in known):
        return Passing(AT_ONCE, FOR_EVER)
    if len(known) < len(passings) or any(None in one.reasons for one in known):
        return None
    until = max(one.until[0] for one in known), max(one.until[1] for one in known)
    reasons: frozenset[DrainEnd | None] = _DRAINED
    for worse in (DrainEnd.TIMEOUT, DrainEnd.ERROR):
        if any(one.reasons == {worse} for one in known):
            reasons = frozenset((worse,))
        elif any(worse in one.reasons for one in known):
            reasons |= {worse}
    return Passing(until, reasons, any(DrainEnd.TIMEOUT in one.reasons for one in known))


def _unasked(pod: Pod, covered: CoveredPods) -> Range:
    """When a pod is evicted that no budget is asked about."""
    return _PERHAPS_CHANGED if covered.may_start_late(pod) else _AT_ONCE_EVICTED


# -- other ways to drain ------------------------------------------------------------------------------------


def _deleted(turn: PlannedTurn) -> TurnFates:
    """``--disable-eviction``: one DELETE after another, then one loop that waits for all."""
    if turn.may_meet_others:
        return NOT_PROVEN
    fates: list[PodFate] = []
    at = AT_ONCE
    for pod in turn.pods:
        at = plus(at, takes(Latency.NEXT_DELETE))
        gone = turn.delays(pod).gone
        fates.append(PodFate(pod, (at,), certain=True, gone=gone, exact=True))
    if not fates:
        return TurnFates([], [], {}, _NOTHING_TO_DO, whole=True, exact=True)
    first = plus(at, takes(Latency.FIRST_POLL))
    passings: list[Passing | None] = []
    for fate in fates:
        if fate.gone is None:
            passings.append(None)
            continue
        gone = plus(fate.spans[0], fate.gone)
        after = max(gone[0] - first[1], 0), max(gone[1] - first[0] + SECOND_NS, 0)
        passing = _until(after, turn.options.timeout_ns)
        passings.append(passing._replace(until=plus(first, passing.until)))
    return TurnFates(fates, [], {}, _all_of(passings), whole=None not in passings, exact=False)


def _some_at_a_time(turn: PlannedTurn, accounts: Accounts) -> TurnFates:
    """``parallel``: a pod's turn comes when another one is through; nothing is proven where budgets are asked."""
    covered = accounts.covered
    asks = [
        pod
        for pod in (*turn.pods, *turn.guests)
        if covered.asked_about(pod) or covered.is_in_terminating_namespace(pod)
    ]
    ways = [_passing(pod, _unasked(pod, covered), turn) for pod in turn.pods]
    known = [one for one in ways if one is not None and one.reasons == _DRAINED]
    if asks or turn.may_meet_others or len(known) < len(ways):
        return NOT_PROVEN
    if not known:
        return TurnFates([], [], {}, _NOTHING_TO_DO, whole=True, exact=True)
    begin, end = zip(
        *(_in_slots([one.until[side] for one in known], turn.options.parallel) for side in (0, 1)),
        strict=True,
    )
    until = end[0], end[1]
    if turn.options.timeout_ns and until[1] >= turn.options.timeout_ns:
        return NOT_PROVEN
    fates = []
    for place, pod in enumerate(turn.pods):
        unasked = _unasked(pod, covered)
        span = plus((begin[0][place], begin[1][place]), unasked)
        gone = turn.delays(pod).gone
        exact = unasked == _AT_ONCE_EVICTED
        fates.append(PodFate(pod, (span,), certain=True, gone=gone, exact=exact))
    return TurnFates(fates, [], {}, Passing(until, _DRAINED), whole=True, exact=True)


def _in_slots(durations: Sequence[int], slots: int) -> tuple[list[int], int]:
    """When each begins, one after another in the first free slot, and when all are over."""
    free = [0] * slots
    begins, end = [], 0
    for duration_ns in durations:
        begins.append(free[0])
        end = max(end, free[0] + duration_ns)
        heapreplace(free, free[0] + duration_ns)
    return begins, end
