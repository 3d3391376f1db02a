"""At which of its tries a pod goes at the latest for which several processes ask one budget.

kubectl asks for a pod that is refused every five seconds. A try that is refused needs so many others out of service at that moment
as the budget has disruptions: evicted by then, and not yet replaced by a Ready pod that is counted. Each of them is evicted once, within
bounds that are known, and is out for so long at most. So it is asked which others can be out at the first try, at the second one, and so on, always
taking those first that are back first: the first try for which too few are left is granted. And of the writes of the budget only those hold a try
up that can be made in the moment of one of its requests, each of them once.

The begin with a node may be far from certain: all tries move with it, and instants are counted from it. So it is cut into cells, in which
others that can come to the first try are told apart from those that are back by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from kubectl_evictplan.controllers.replication import STATEFUL_SET, is_owned_by
from kubectl_evictplan.engine.drain_timing import Latency
from kubectl_evictplan.kube.durations import MILLISECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.accounts import counts_pods
from kubectl_evictplan.windows.drains.before import Before
from kubectl_evictplan.windows.drains.closed_tries import Met, closed_tries
from kubectl_evictplan.windows.drains.covered import CoveredPods, as_ready
from kubectl_evictplan.windows.drains.delays import (
    ARRIVAL,
    CONFLICT,
    GRANTED,
    REFUSED,
    RETRY,
    Range,
    plus,
    takes,
)
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import PlannedTurn
from kubectl_evictplan.windows.drains.progress import Progress
from kubectl_evictplan.windows.drains.recovery import Recoveries
from kubectl_evictplan.windows.drains.rounds import Request, forgotten_ns

_CELLS_MAX = 16
_CELL_MIN_NS = 500 * MILLISECOND_NS
# The pod, and of guests the node.
_Name = tuple[str, NodeDrain | None]

# Whoever may be refused more often, or has more rivals, is told by counts alone.
_TRIES_MAX = 40
_RIVALS_MAX = 40
# Of so many pods it is asked whether they or others in their stead may be there.
_STEADS_MAX = 3
# From the write that takes a disruption to the last one because the pod is away, and another one made: sooner than a request that meets one of them begins anew.
_SYNCED_NS = takes(Latency.DELETE, Latency.REPLACE_POD, Latency.SYNC_BUDGET)[1]
assert _SYNCED_NS + REFUSED[1] < CONFLICT[0]


class LastTry(NamedTuple):
    """By which offset a pod is evicted, and how long after kubectl has come to its node at most."""

    by_ns: int
    lasts_ns: int


class _Taker(NamedTuple):
    """A pod that may be evicted while another one waits: from when to when, counted from the begin with the node of that one, and how long after that it is away.

    ``asked_ns``: before which instants none of its requests, only one, and so on, is sent: of several each may take a disruption, but for a moment
    only. ``counts``: it may take one at all.
    """

    evicted: Range
    away: Range
    gone_ns: int
    asked_ns: tuple[int, ...]
    counts: bool

    def takes(self, read: Range, most: int) -> int:
        """How many disruptions it may have taken of so many, when the budget is read."""
        low_ns, high_ns = read
        if not self.counts or self.evicted[1] + self.away[1] < low_ns:
            return 0
        return min(sum(1 for at_ns in self.asked_ns if at_ns <= high_ns), most)


class _Rival(NamedTuple):
    """A pod that may be evicted while a pod of a node waits, by offsets from the start.

    ``there``: so many of its requests are of that node, ``before``: from an earlier one of the same process. ``since_ns`` has when each other one is
    sent at the earliest, ``until_ns`` when they are at the latest, ``deleted_ns`` by when it surely is deleted. ``stead_ns``: it is there only if the
    pod of its name is deleted by then. The rest as that of ``_Taker``.
    """

    there: int
    before: bool
    since_ns: tuple[int, ...]
    until_ns: int
    deleted_ns: int
    stead_ns: int | None
    away: Range
    gone_ns: int
    counts: bool

    def within(self, begin: Range) -> _Taker:
        """The same, if kubectl comes to the node of the pod that waits within ``begin``."""
        since = sorted([*(at_ns - begin[1] for at_ns in self.since_ns), *[0] * self.there])
        asked = tuple(at_ns + ARRIVAL[0] for at_ns in since)
        until_ns = self.until_ns - begin[0]
        if self.before:
            until_ns = max(until_ns, 0)
        # Who takes a disruption is deleted that much later at most, and away from then on.
        taken_ns = self.deleted_ns - takes(Latency.DELETE)[1]
        until_ns = max(min(until_ns, taken_ns - begin[0]), asked[0])
        return _Taker((asked[0], until_ns), self.away, self.gone_ns, asked, self.counts)


class _Tries(NamedTuple):
    """The tries for a pod from the first one on, which may be within ``first``; writes hold them up ``held_up_ns`` in sum.

    Until ``closed_ns`` the budget is surely closed: who reads that nobody may go is refused at once, whoever writes the budget.
    """

    first: Range
    held_up_ns: int
    closed_ns: int

    def read(self, number: int) -> Range:
        """From when to when its budget is read at one of them."""
        low_ns, high_ns = self.first
        low_ns, high_ns = low_ns + number * RETRY[0], high_ns + number * RETRY[1]
        return low_ns, high_ns if high_ns < self.closed_ns else high_ns + self.held_up_ns

    def open_reads(self, last: int) -> list[Range]:
        """The same for those up to the last one that may find it open."""
        every = map(self.read, range(last + 1))
        return [
            (max(low_ns, self.closed_ns), high_ns)
            for low_ns, high_ns in every
            if high_ns >= self.closed_ns
        ]


class LastTries:
    """Of all budgets; ``begins`` has, by turn, the offset before which kubectl does not come to the node."""

    def __init__(
        self,
        covered: CoveredPods,
        progress: Progress,
        recoveries: Recoveries,
        before: Before,
        begins: Mapping[NodeDrain, int],
    ) -> None:
        self._covered = covered
        self._progress = progress
        self._recoveries = recoveries
        self._before = before
        self._begins = begins
        self._found: dict[object, int | None] = {}
        self._is_followed = cache(self._follows)
        self._rivals = cache(self._rivals_of)
        # By budget, from which offsets on pods that were not Ready have others in their stead that are.
        self._refreshed = cache(self._refreshed_ns)
        self._spare = cache(self._spare_without)

    def of(
        self, place: int, turn: PlannedTurn, pod: Pod, begin: Range, opens_ns: int = 0
    ) -> LastTry | None:
        """When the pod is evicted at the latest, but for its own changes; None: not known so.

        ``place``: its one budget. ``begin``: from when to when kubectl comes to the node, with all of its pods at once. ``opens_ns``: before that
        offset the budget is closed whenever it is read for the pod.
        """
        if not self._is_followed(place):
            return None
        itself = self._is_itself(turn, pod)
        left = frozenset((turn.drain,)) if pod in turn.guests else self._nodes_left(place, pod)
        every = self._rivals(place, turn.drain, left | {turn.drain})
        rivals = {name: one for name, one in every.items() if name not in itself}
        if len(rivals) > _RIVALS_MAX:
            return None
        found = [
            self._of_cell(place, way, cell, opens_ns)
            for way in _ways(rivals)
            for cell in _cells(begin)
        ]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        return LastTry(max(one.by_ns for one in known), max(one.lasts_ns for one in known))

    def _of_cell(
        self, place: int, rivals: Sequence[_Rival], begin: Range, opens_ns: int
    ) -> LastTry | None:
        takers = tuple(sorted(one.within(begin) for one in rivals))
        key = place, begin[0], max(opens_ns - begin[1], 0), takers
        if key not in self._found:
            self._found[key] = self._lasts_ns(*key)
        lasts_ns = self._found[key]
        return None if lasts_ns is None else LastTry(begin[1] + lasts_ns, lasts_ns)

    def _follows(self, place: int) -> bool:
        """Whether the budget opens again and again, and whoever takes a disruption is back after a time of its own."""
        covered, progress = self._covered, self._progress
        known = progress.is_known and covered.is_deleted_once() and not covered.back_ns
        if not known or not progress.opens_again(place):
            return False
        requests = progress.requests(place)
        return not forgotten_ns(requests) and all(
            place in covered.covering(one.pod)
            and not self._recoveries.goes_in_order(one.pod)
            and self._recoveries.latest_ns(one.pod, one.turn.options) is not None
            for one in requests
        )

    def _is_itself(self, turn: PlannedTurn, pod: Pod) -> frozenset[_Name]:
        """Names of requests that are not sent, or not for others, as long as the pod is there: nobody is in its stead then."""
        if pod in turn.guests:
            return frozenset(((pod.key, self._progress.guests.told_on(turn, pod)),))
        own: set[_Name] = {(pod.key, None)}
        if self._progress.guests.are_in_their_stead(pod):
            own.update((pod.key, drain) for drain in self._begins)
        return frozenset(own)

    def _nodes_left(self, place: int, pod: Pod) -> frozenset[NodeDrain]:
        """Nodes that processes leave only when the pod is deleted: there they ask for it as long as it takes."""
        covered = self._covered
        if covered.may_fail(place):
            return frozenset()
        return frozenset(
            one.turn.drain
            for one in self._progress.requests(place)
            if (one.pod.key, one.pod.uid) == (pod.key, pod.uid)
            and one.pod not in one.turn.guests
            and not one.turn.options.timeout_ns
            and not covered.is_refusable(pod, one.turn)
        )

    def _rivals_of(
        self, place: int, own: NodeDrain, left: frozenset[NodeDrain]
    ) -> dict[_Name, _Rival]:
        """Whoever may be evicted while a pod waits that is deleted before any process comes to a node after those that are ``left`` then."""
        by_name: dict[_Name, list[Request]] = {}
        for one in self._progress.requests(place):
            other = one.turn.drain
            later = any(other.process == it.process and other.place > it.place for it in left)
            if not (later or one.kept):
                by_name.setdefault(one.name, []).append(one)
        return {name: self._rival(requests, own) for name, requests in by_name.items()}

    def _rival(self, requests: Sequence[Request], own: NodeDrain) -> _Rival:
        away = [self._away(one) for one in requests]
        gone = [one.turn.delays(one.pod).gone for one in requests]
        turns = {one.turn.drain for one in requests}
        if any(self._may_be_met(one, own) for one in requests):
            turns.add(own)
        # kubectl is through with a node before it comes to the next one.
        before = {one for one in turns if one.process == own.process and one.place < own.place}
        ends_ns, never_ns = self._before.ends_ns, HORIZON_DEFAULT_MAX_NS
        others = [one.turn.drain for one in requests if one.turn.drain != own]
        return _Rival(
            len(requests) - len(others),
            bool(before),
            tuple(sorted(self._begins[one] for one in others)),
            max((ends_ns.get(one, never_ns) for one in turns - before), default=0),
            min(map(self._deleted_by_ns, requests)),
            self._stead_ns(requests),
            (min(low for low, _ in away), max(high for _, high in away)),
            max(never_ns if one is None else one[1] for one in gone),
            any(one.counts for one in requests),
        )

    def _may_be_met(self, one: Request, own: NodeDrain) -> bool:
        """Whether a guest that is told of an earlier node of the process may be on that one."""
        guest = one.pod in one.turn.guests and one.turn.drain.process == own.process
        return guest and self._progress.guests.may_be_on(own, one.pod)

    def _stead_ns(self, requests: Sequence[Request]) -> int | None:
        known = [
            self._progress.guests.deleted_by_ns(one.turn, one.pod)
            for one in requests
            if one.pod in one.turn.guests
        ]
        found = [one for one in known if one is not None]
        return max(found) if len(found) == len(requests) else None

    def _deleted_by_ns(self, one: Request) -> int:
        if one.pod in one.turn.guests:
            return HORIZON_DEFAULT_MAX_NS
        return self._before.deleted_ns.get((one.pod.key, one.pod.uid), HORIZON_DEFAULT_MAX_NS)

    def _away(self, one: Request) -> Range:
        """From the deletion of a pod to when another one is counted in its stead."""
        latest_ns = self._recoveries.latest_ns(one.pod, one.turn.options)
        assert latest_ns is not None, "only budgets are followed whose pods are all made anew"
        return self._recoveries.earliest_ns(one.pod), latest_ns

    def _spare_at(self, place: int, at_ns: int) -> int:
        """How many disruptions there are from that offset on, but for those that others take."""
        return self._spare(
            place, sum(1 for back_ns, _ in self._refreshed(place) if back_ns <= at_ns)
        )

    def _spare_without(self, place: int, refreshed: int) -> int:
        back = {key for _, key in self._refreshed(place)[:refreshed]}
        pods = [
            as_ready(pod) if pod.key in back else pod for pod in self._progress.in_the_end(place)
        ]
        return max(self._covered.synced_later(place, pods).disruptions_allowed or 0, 0)

    def _refreshed_ns(self, place: int) -> list[tuple[int, str]]:
        found: dict[str, int] = {}
        for one in self._progress.requests(place):
            deleted_ns = self._deleted_by_ns(one)
            unready = one.pod.ready != "True" and not is_owned_by(one.pod, STATEFUL_SET)
            if unready and deleted_ns < HORIZON_DEFAULT_MAX_NS:
                back_ns = deleted_ns + self._away(one)[1] - takes(Latency.DELETE)[1]
                found[one.pod.key] = max(found.get(one.pod.key, 0), back_ns)
        return sorted((back_ns, key) for key, back_ns in found.items())

    def _lasts_ns(
        self, place: int, begun_ns: int, closed_ns: int, takers: Sequence[_Taker]
    ) -> int | None:
        """How long after kubectl has come to the node the pod is evicted at most; ``begun_ns``: when it comes there at the earliest."""
        first = plus(ARRIVAL, (0, self._covered.client_retries_ns(place)))
        writes = 0
        while True:
            tries = _Tries(first, writes * CONFLICT[1], closed_ns)
            refused = self._refused(place, begun_ns, takers, tries)
            if refused is None:
                return None
            found = self._writes(place, takers, tries, refused)
            if found <= writes:
                return tries.read(refused)[1] + GRANTED[1]
            writes = found

    def _refused(
        self, place: int, begun_ns: int, takers: Sequence[_Taker], tries: _Tries
    ) -> int | None:
        """How many tries may be refused; None: too many.

        Who is out at one of them is back at the one that comes ``apart`` tries later: so of so many tries one is looked at.
        """
        settled_ns = self._progress.settled_ns(place)
        most = self._spare(place, len(self._refreshed(place)))
        apart = max((one.away[1] for one in takers if one.counts), default=0) // RETRY[0] + 1
        numbers, tries_met = [], []
        for number in range(0, _TRIES_MAX, apart):
            read = tries.read(number)
            since_ns = begun_ns + read[0]
            if since_ns >= settled_ns:
                numbers.append(number)
                taken = [one.takes(read, most) for one in takers]
                tries_met.append(Met(self._spare_at(place, since_ns), taken))
        closed = closed_tries(tries_met)
        return numbers[closed] if closed < len(numbers) else None

    def _writes(self, place: int, takers: Sequence[_Taker], tries: _Tries, refused: int) -> int:
        """How many writes of the budget may each be made in the moment of a request, up to the try after those that are refused."""
        every = tries.open_reads(refused)
        reads = [(low_ns, high_ns + REFUSED[1]) for low_ns, high_ns in every]
        counting = counts_pods(self._covered.world.budgets[place])
        # With one disruption at most nothing is open from an eviction until the other pod is Ready.
        closes = self._covered.lets_go_one_at_a_time(place)
        found = self._progress.conflicts(place, ())
        for one in takers:
            since_ns, until_ns = one.evicted
            back_ns, last_ns = one.away
            away = _meets(since_ns, until_ns + _SYNCED_NS, reads)
            back = not closes and _meets(since_ns + back_ns, until_ns + last_ns, reads)
            both = away and back and _may_both_be_met(one, tries)
            found += 2 if both else int(away or back)
            if counting:
                gone_ns = one.gone_ns + _SYNCED_NS
                first_ns = back_ns if closes else 0
                found += first_ns <= gone_ns and _meets(
                    since_ns + first_ns, until_ns + gone_ns, reads
                )
        return found


def _ways(rivals: Mapping[_Name, _Rival]) -> Iterator[Sequence[_Rival]]:
    """Who may be there together: a pod that goes late, or one in its stead, on a node that was not cordoned before the pod went."""
    found: list[tuple[_Name, _Name]] = []
    for name, one in rivals.items():
        own: _Name = name[0], None
        late = rivals.get(own)
        if one.stead_ns is not None and late is not None and late.deleted_ns > one.stead_ns:
            found.append((own, name))
    for choice in product((False, True), repeat=min(len(found), _STEADS_MAX)):
        way = dict(rivals)
        for there, (own, guest) in zip(choice, found, strict=False):
            stead_ns = rivals[guest].stead_ns
            if there and stead_ns is not None:
                way[own] = way[own]._replace(deleted_ns=min(way[own].deleted_ns, stead_ns))
            else:
                del way[guest]
        yield list(way.values())


def _cells(begin: Range) -> Iterator[Range]:
    """The begin, cut up."""
    low_ns, high_ns = begin
    width_ns = max(-(-(high_ns - low_ns) // _CELLS_MAX), _CELL_MIN_NS)
    yield from (
        (at_ns, min(at_ns + width_ns, high_ns))
        for at_ns in range(low_ns, max(high_ns, low_ns + 1), width_ns)
    )


def _meets(first_ns: int, last_ns: int, reads: Iterable[Range]) -> bool:
    """Whether a write that is made between these instants may be within the moment of one of the requests."""
    return any(low_ns <= last_ns and first_ns <= high_ns for low_ns, high_ns in reads)


def _may_both_be_met(one: _Taker, tries: _Tries) -> bool:
    """Whether one pod may meet both the writes because of an eviction, and that because another pod is Ready.

    From one request to the next after a conflict it is half a second, or a sleep more.
    """
    in_one_try = tries.held_up_ns >= one.away[0] - _SYNCED_NS - REFUSED[1]
    return in_one_try or one.away[1] + REFUSED[1] >= RETRY[0] + CONFLICT[0]
