"""What is proven of a node although nobody knows who is let through first, counted from when kubectl begins with it.

Two processes may ask one budget or come to one node, pods that are made anew may be there, pods may go one after
the other. Then it is certain only that nothing happens before the steps that it takes at least, and that a budget which opens
again and again keeps nobody waiting for ever (``progress``). Ends may be missing: None is perhaps never.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.drained_pods import POLL_NS
from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.engine.drain_timing import Latency
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.delays import (
    ARRIVAL,
    CONFLICT,
    GRANTED,
    REFUSED,
    RETRY,
    UNASKED,
    Range,
    plus,
    pod_delays,
    takes,
)
from kubectl_evictplan.windows.drains.firsts import FirstRequests
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.last_tries import LastTries, LastTry
from kubectl_evictplan.windows.drains.openings import Openings
from kubectl_evictplan.windows.drains.planned import Leaving, PlannedTurn
from kubectl_evictplan.windows.drains.prices import Prices
from kubectl_evictplan.windows.drains.progress import Progress
from kubectl_evictplan.windows.drains.requests import Requests
from kubectl_evictplan.windows.drains.rounds import HEARD_NS
from kubectl_evictplan.windows.drains.tasks import Contest, Task
from kubectl_evictplan.windows.drains.timeouts import Timeouts
from kubectl_evictplan.windows.drains.turn_bounds import FOR_EVER
from kubectl_evictplan.windows.drains.world import Stranger

# From a look that is a little too early to the next one.
_LOOKS_NS = takes(Latency.FIRST_POLL)[1] + SECOND_NS


class Priced(NamedTuple):
    """The latest instants of a contest, with what its budgets cost: kubectl's begin with the node, each task, the end."""

    start_ns: int | None
    latest_ns: Sequence[int | None]
    end_ns: int | None


class _Wait(NamedTuple):
    """How long a budget may refuse a pod of a node: ``each_ns`` from the offset ``settled_ns`` on.

    ``again_ns``: so much later kubectl may hear that somebody else has got it deleted.
    """

    each_ns: int
    settled_ns: int
    again_ns: int


class Contests:
    """Of all nodes. Without ``firsts`` whoever asks a budget may be refused."""

    def __init__(
        self,
        covered: CoveredPods,
        progress: Progress,
        firsts: FirstRequests | None = None,
        openings: Openings | None = None,
        last_tries: LastTries | None = None,
    ) -> None:
        self.requests = Requests(covered, progress)
        self._timeouts = Timeouts(covered, progress, self.requests)
        self._covered = covered
        self._progress = progress
        self._firsts = firsts
        self._openings = openings
        self._last_tries = last_tries

    def priced(self, before: Sequence[Contest], contest: Contest, late_ns: int | None) -> Priced:
        """``late_ns``: when kubectl begins with the node at the latest, but for what budgets cost it ``before``."""
        if late_ns is None:
            return Priced(None, [None] * len(contest.tasks), None)
        once_ns, drain = self._progress.once_ns, contest.drain
        all_ns = Prices(once_ns, [*before, contest], drain).dearest_ns
        prices = Prices(once_ns, before, drain)
        by_place = {
            place: prices.dearest_ns if place is None else prices.with_pod_ns(contest, place)
            for place in {one.place for one in contest.tasks if one.latest_ns is not None}
        }
        latest = [
            None
            if one.latest_ns is None
            else late_ns + one.latest_ns + (all_ns if contest.one_by_one else by_place[one.place])
            for one in contest.tasks
        ]
        end_ns = None if contest.until_ns is None else late_ns + contest.until_ns + all_ns
        return Priced(late_ns + self._dearest_ns(before), latest, end_ns)

    def _dearest_ns(self, contests: Sequence[Contest]) -> int:
        """What others cost a process on all these nodes."""
        if not contests:
            return 0
        return Prices(self._progress.once_ns, contests, contests[-1].drain).dearest_ns

    def begun_by_ns(self, before: Sequence[Contest], late_ns: int | None) -> int | None:
        """When kubectl begins with the node at the latest; arguments as those of ``priced``."""
        return None if late_ns is None else late_ns + self._dearest_ns(before)

    def limited(self, contest: Contest, turn: PlannedTurn) -> Contest:
        """A node of which it is not known by when kubectl is through with it, as ``--timeout`` ends it."""
        return self._timeouts.limited(contest, turn, 0, 0)

    def of_turn(self, turn: PlannedTurn, begun_ns: int, by_ns: int | None = None) -> Contest:
        """``begun_ns``: when kubectl begins with the node at the earliest; ``by_ns``: at the latest, None: not known."""
        one_by_one = bool(turn.options.parallel) and not turn.options.disable_eviction
        if turn.refused:
            refused = frozenset((DrainEnd.REFUSED,))
            return Contest(turn.drain, (), (), (), 0, 0, frozenset(), one_by_one, refused)
        refusable = any(self._covered.is_refusable(pod, turn) for pod in turn.everybody)
        in_time_ns = None if one_by_one else by_ns
        tasks = list(self._tasks(turn, begun_ns, in_time_ns, refusable=refusable))
        if by_ns is not None and not one_by_one:
            tasks = [self._at_first(one, turn, (begun_ns, by_ns)) for one in tasks]
        places = frozenset(one.place for one in tasks if one.place is not None)
        waits = {place: self._wait(place, turn.drain, begun_ns, by_ns) for place in places}
        tasks = [one if one.place is None else _kept(one, waits[one.place]) for one in tasks]
        if by_ns is not None and not one_by_one:
            tasks = [self._by_the_clock(one, waits, turn, begun_ns, by_ns) for one in tasks]
            places = frozenset(one.place for one in tasks if one.place is not None)
            waits = {place: waits[place] for place in places}
        failing = [pod for pod in turn.pods if self.requests.is_an_error(pod, turn)]
        guests = [*turn.guests, *(one.pod for one in turn.leaving)]
        guests = [pod for pod in guests if self.requests.is_an_error(pod, turn)]
        held = [pod for pod in turn.pods if self._is_held(pod, turn)]
        met = tasks if not turn.strangers else [*tasks, *self._of_strangers(turn)]
        latest_ns = _through(met, len(failing) + len(guests), one_by_one=one_by_one)
        if refusable or (turn.strangers and not self._are_all_at_once(turn)):
            # With an answer that kubectl takes for an end, or repeats; or nobody knows how many it asks for.
            latest_ns = None
        if one_by_one:
            # Who comes last comes when kubectl is through with all others, if a place is left.
            latest_ns = None if len(held) >= turn.options.parallel else latest_ns
            tasks = [one._replace(latest_ns=latest_ns, deleted_meanwhile_ns=0) for one in tasks]
        there = [one.earliest_ns + one.through_ns[0] for one in tasks if one.there]
        there += self._one_after_the_other_ns(tasks, turn)
        fails = turn.known and any(not self.requests.may_pass(pod, turn) for pod in failing)
        reasons: set[DrainEnd | None] = {DrainEnd.ERROR} if fails else {DrainEnd.DRAINED}
        negative = any(self.requests.may_fail(one.pod, turn) for one in tasks)
        unseen = any(self._may_make_fail(one, turn) for one in turn.strangers)
        unseen = unseen or any(self.requests.may_fail_unseen(pod, turn) for pod in turn.everybody)
        if failing or guests or refusable or negative or unseen:
            reasons.add(DrainEnd.ERROR)
        if latest_ns is None:
            reasons.add(None)
        settled_ns = max((one.settled_ns for one in waits.values()), default=0)
        found = Contest(
            turn.drain,
            tasks,
            failing,
            held,
            max(there, default=0),
            latest_ns,
            frozenset() if latest_ns is None else places,
            one_by_one,
            frozenset(reasons),
            max(settled_ns - (by_ns or 0), 0),
        )
        if turn.options.timeout_ns:
            prices_ns = self._dearest_ns([found._replace(settles_ns=0)])
            return self._timeouts.limited(found, turn, max(settled_ns - begun_ns, 0), prices_ns)
        return found._replace(until_ns=None, reasons=FOR_EVER) if held else found

    def _one_after_the_other_ns(self, tasks: Sequence[Task], turn: PlannedTurn) -> Iterator[int]:
        """How long kubectl needs at least with pods that only it evicts, and of which a budget lets only so many go at a time."""
        asking: dict[int, list[Task]] = {}
        for one in tasks:
            for place in self.requests.asked_of(one.pod, turn):
                if one.there and one.pod.ready == "True" and self._progress.is_calm(place):
                    asking.setdefault(place, []).append(one)
        for place, found in asking.items() if turn.known else ():
            most = self._covered.most_at_a_time(place)
            if most and len(found) > most:
                back_ns = min(self._progress.back_after_ns(one.pod) for one in found)
                # The first that finds it closed sleeps, unless it opens while it is held up.
                once_ns = max(back_ns, RETRY[0]) if most == 1 and back_ns > CONFLICT[1] else back_ns
                rounds = (len(found) - 1) // most
                first_ns = min(one.earliest_ns + one.through_ns[0] for one in found)
                yield first_ns + once_ns + (rounds - 1) * back_ns

    def _is_held(self, pod: Pod, turn: PlannedTurn) -> bool:
        """Whether kubectl asks for it in vain, for ever, and nobody deletes it in another way."""
        places = self.requests.asked_of(pod, turn)
        one_way = len(places) == 1 and turn.sole_controller and pod.ready == "True"
        one_way = one_way and not self._covered.is_refusable(pod, turn)
        one_way = one_way and not self.requests.may_be_refused_unseen(pod, turn)
        return one_way and self._progress.is_closed(places[0])

    def _wait(self, place: int, drain: NodeDrain, begun_ns: int, by_ns: int | None) -> _Wait:
        asking, enough = self._progress.asking(place), self._progress.enough(place, drain)
        assert asking is not None, "only budgets that open again are asked so"
        if enough is None:
            settled_ns = self._progress.settled_ns(place)
            # Whoever is refused before that asks again so much later at most.
            again_ns = RETRY[1] if settled_ns > begun_ns else 0
            return _Wait(asking.each_ns + again_ns, settled_ns, 0)
        again_ns = HEARD_NS if enough.again else 0
        # Every try is at least so long after the one before it.
        tries = max(-(-(enough.since_ns - begun_ns - ARRIVAL[0]) // RETRY[0]), 0)
        later_ns = max(enough.since_ns - (begun_ns if by_ns is None else by_ns), 0)
        if tries * RETRY[1] <= RETRY[1] + later_ns:
            return _Wait((tries + enough.refused) * RETRY[1], 0, again_ns)
        return _Wait((1 + enough.refused) * RETRY[1], enough.since_ns, again_ns)

    def _tasks(
        self, turn: PlannedTurn, begun_ns: int, by_ns: int | None, *, refusable: bool
    ) -> Iterator[Task]:
        """Without the time for which budgets refuse them; ``by_ns``: when kubectl asks for all of them at the latest."""
        for pod in turn.pods:
            if self._is_held(pod, turn):
                continue
            places = self.requests.asked_of(pod, turn)
            opens_ns = begun_ns
            if places:
                opens_ns = self._open_from_ns(places[0], pod, turn, begun_ns, by_ns)
            for one in self._task(turn, pod):
                earliest_ns = max(one.earliest_ns, opens_ns - begun_ns)
                # After the first that is refused kubectl deletes nobody.
                refused = refusable and turn.options.disable_eviction
                refused = refused or self._covered.is_refusable(pod, turn)
                refused = refused or self.requests.may_fail(pod, turn)
                there, goes = one.there and not refused, one.goes and not refused
                through_ns = one.through_ns
                if opens_ns > begun_ns and not turn.known:
                    # Whom somebody else has deleted meanwhile may be gone when kubectl asks once more.
                    through_ns = 0, through_ns[1]
                yield one._replace(
                    earliest_ns=earliest_ns, through_ns=through_ns, there=there, goes=goes
                )
        for pod in turn.guests:
            for one in self._task(turn, pod, guest=True):
                yield one._replace(there=False, goes=False, replacement=True)
        for leaving in turn.leaving:
            for one in self._task(turn, leaving.pod):
                known = _left(leaving, begun_ns)
                yield one._replace(there=False, goes=False, through_ns=known)

    def _open_from_ns(
        self, place: int, pod: Pod, turn: PlannedTurn, begun_ns: int, by_ns: int | None
    ) -> int:
        if self._openings is not None and by_ns is not None:
            return self._openings.opens_ns(place, turn, pod, (begun_ns, by_ns))
        return (
            self._progress.first_open_ns(place, pod, turn.drain)
            if turn.sole_controller
            else begun_ns
        )

    def _of_strangers(self, turn: PlannedTurn) -> Iterator[Task]:
        """What kubectl may have to do with each of them; how many of a template there are makes no difference."""
        for stranger in turn.strangers:
            for one in self._task(turn, stranger.pod, guest=True):
                free = not stranger.budgets or turn.options.disable_eviction
                free = free and not self._covered.is_refusable(stranger.pod, turn)
                latest_ns = one.latest_ns if free else None
                yield one._replace(latest_ns=latest_ns, place=None, there=False, goes=False)

    @staticmethod
    def _are_all_at_once(turn: PlannedTurn) -> bool:
        """Whether it matters not how many strangers there are: kubectl asks for all pods at one time."""
        return not turn.options.disable_eviction and not turn.options.parallel

    def _may_make_fail(self, stranger: Stranger, turn: PlannedTurn) -> bool:
        """Whether kubectl may be answered with an error that it does not repeat, if such a pod is there."""
        refused = self._covered.is_refusable(stranger.pod, turn)
        return refused or stranger.budgets > 1 or self._covered.may_fail_unseen(stranger.pod)

    def _at_first(self, task: Task, turn: PlannedTurn, begin: Range) -> Task:
        """The task, sooner if its pod surely finds a disruption as soon as kubectl asks."""
        by_ns = begin[1]
        places = self.requests.asked_of(task.pod, turn)
        if self._firsts is None or len(places) != 1 or task.pod.deletion_timestamp_ns is not None:
            return task
        counts = task.replacement or self.requests.counts(task.pod, turn)
        if not counts or self.requests.may_be_refused_unseen(task.pod, turn):
            return task
        changes_ns = task.held_up_ns if task.replacement else None
        held_ns = self._firsts.held_up_ns(task.pod, turn, places[0], by_ns, changes_ns)
        if held_ns is None:
            return task
        latest_ns = answered_ns = ARRIVAL[1] + GRANTED[1] + held_ns
        if self._last_tries is not None and held_ns and not task.held_up_ns:
            tried = self._last_tries.of(places[0], turn, task.pod, begin)
            latest_ns = min(latest_ns, latest_ns if tried is None else tried.by_ns - by_ns)
        if latest_ns < answered_ns and not turn.known:
            # By then another process may have deleted it, and the writes of that hold this one up.
            task = _heard_late(task, answered_ns - latest_ns)
        goes = task.goes or not task.replacement
        others_ns = 0 if turn.first_there else task.deleted_meanwhile_ns
        return task._replace(
            latest_ns=latest_ns,
            place=None,
            goes=goes,
            granted=True,
            deleted_meanwhile_ns=others_ns,
        )

    def _by_the_clock(
        self,
        task: Task,
        waits: Mapping[int, _Wait],
        turn: PlannedTurn,
        begun_ns: int,
        by_ns: int,
    ) -> Task:
        """The task, with another proof of when its pod surely goes where that is sooner."""
        place = task.place
        if self._openings is None or place is None or task.latest_ns is None:
            return task
        found = self._last_try(place, task, turn, (begun_ns, by_ns))
        if found is None:
            return task
        gone_ns = found.by_ns + task.held_up_ns
        once_ns = self._progress.once_ns(place, turn.drain, turn.drain)
        counted_ns = task.latest_ns + once_ns + max(waits[place].settled_ns - by_ns, 0)
        if gone_ns - by_ns >= counted_ns:
            return task
        lasts_ns, timeout_ns = found.lasts_ns + task.held_up_ns, turn.options.timeout_ns
        if timeout_ns and lasts_ns >= timeout_ns:
            return task
        if not turn.known:
            # What other processes take for the pod may hold this one up, and refuse it to it once more.
            task = _heard_late(task, HEARD_NS + len(turn.others) * CONFLICT[1])
        first_ns, last_ns = task.through_ns
        if timeout_ns and (last_ns is None or lasts_ns + last_ns >= timeout_ns):
            # It goes in time, but kubectl may not wait for its end.
            last_ns = None
        return task._replace(latest_ns=gone_ns - by_ns, place=None, through_ns=(first_ns, last_ns))

    def _last_try(self, place: int, task: Task, turn: PlannedTurn, begin: Range) -> LastTry | None:
        """The sooner of two proofs of when the pod of the task is evicted at the latest."""
        begun_ns, by_ns = begin
        assert self._openings is not None, "openings are known where tasks are timed"
        gone_ns = self._openings.gone_by_ns(place, turn, begun_ns, by_ns)
        counted = None if gone_ns is None else LastTry(gone_ns, gone_ns - begun_ns)
        tried = None
        if self._last_tries is not None:
            opens_ns = self._openings.opens_ns(place, turn, task.pod, begin)
            tried = self._last_tries.of(place, turn, task.pod, begin, opens_ns)
        return min((one for one in (counted, tried) if one is not None), default=None)

    def _task(self, turn: PlannedTurn, pod: Pod, *, guest: bool = False) -> Iterator[Task]:
        """Nothing where several budgets cover it, which is an error if any of them is asked."""
        if self.requests.is_refused(pod, turn) and self._covered.fails_in_namespace(pod):
            return
        if self.requests.is_refused(pod, turn) and pod.deletion_timestamp_ns is None:
            # Until somebody else has deleted it, and perhaps until the namespace is gone.
            yield Task(pod, 0, None, None, (0, None), there=False, goes=False, replacement=False)
            return
        through, over_ns = _through_with(pod, turn)
        # What a webhook answers (429: ask again) nobody knows either.
        asked = not turn.options.disable_eviction and self._covered.is_refusable(pod, turn)
        if asked or self.requests.may_be_refused_unseen(pod, turn):
            others = self._covered.may_be_closing(pod)
            there = turn.known and not others and not asked
            there = there and not self.requests.may_fail_unseen(pod, turn)
            through = (0, None) if others else through
            earliest_ns = ARRIVAL[0] + UNASKED[0]
            yield Task(pod, earliest_ns, None, None, through, there, goes=False, replacement=False)
            return
        place, held_up_ns, others_ns = None, 0, 0
        if turn.options.disable_eviction:
            # One after the other, and then one loop that looks for all of them.
            first_ns, last_ns = takes(Latency.NEXT_DELETE)
            all_ns = len(turn.everybody) * last_ns
            evicted: tuple[int, int | None] = first_ns, all_ns
            if through[1] is not None:
                through = 0, through[1] + all_ns + _LOOKS_NS
                over_ns = through[1]
        else:
            places = self.requests.asked_of(pod, turn)
            several = len(places) > 1
            if several and not self.requests.may_pass(pod, turn):
                return
            counts = guest or self.requests.counts(pod, turn)
            alone = turn.known or (turn.first_there and not counts)
            if not guest or not self._progress.guests.is_ready(turn, pod):
                held_up_ns = self._covered.held_up_ns(pod, guest=guest, alone=alone)
                others_ns = 0 if alone else self._covered.deleted_meanwhile_ns(pod, guest=guest)
            evicted = plus(ARRIVAL, UNASKED, (0, held_up_ns))
            if several:
                yield Task(pod, *evicted, None, through, there=False, goes=False, replacement=False)
                return
            if places and counts:
                asking = self._progress.asking(places[0])
                # Who is not Ready may be let go without counting.
                at_ns = ARRIVAL[1] + GRANTED[1] + held_up_ns
                evicted = evicted[0], None if asking is None else at_ns
                place = None if asking is None else places[0]
        goes = evicted[1] is not None
        there = turn.known or turn.first_there
        found = Task(pod, *evicted, place, through, there, goes, False, held_up_ns)
        yield found._replace(deleted_meanwhile_ns=others_ns, over_ns=over_ns)


def _through_with(pod: Pod, turn: PlannedTurn) -> tuple[tuple[int, int | None], int]:
    """How long kubectl waits for an evicted pod, and ``Task.over_ns``; another process may have given it more time, or less."""
    graces = {options.grace_period_seconds for options in (turn.options, *turn.others)}
    found = [
        pod_delays(pod, options, turn.finalizers)
        for options in (
            replace(turn.options, grace_period_seconds=grace)
            if grace != turn.options.grace_period_seconds
            else turn.options
            for grace in graces
        )
    ]
    known = [one.known for one in found if one.known is not None]
    over_ns = max(one.over_ns for one in found)
    if len(known) < len(found):
        return (0, None), over_ns
    return (min(low for low, _ in known), max(high for _, high in known)), over_ns


def _kept(task: Task, wait: _Wait) -> Task:
    return task._replace(
        latest_ns=None if task.latest_ns is None else task.latest_ns + wait.each_ns,
        through_ns=_through_late(task, wait.again_ns) if wait.again_ns else task.through_ns,
    )


def _heard_late(task: Task, heard_ns: int) -> Task:
    """The task if somebody else may have deleted its pod, of which kubectl hears so much later."""
    return task._replace(through_ns=_through_late(task, heard_ns), heard_late_ns=heard_ns)


def _through_late(task: Task, heard_ns: int) -> tuple[int, int | None]:
    """``through_ns`` if kubectl hears so much later that somebody else has deleted the pod: from then on it looks every second."""
    first_ns, last_ns = task.through_ns
    if last_ns is None:
        return first_ns, None
    return first_ns, max(last_ns, task.over_ns + POLL_NS, heard_ns + takes(Latency.FIRST_POLL)[1])


def _left(leaving: Leaving, begun_ns: int) -> tuple[int, int | None]:
    """A pod that terminates already is gone at its own time, however often it is evicted."""
    if leaving.over_ns is None:
        return 0, None
    return 0, max(leaving.over_ns - begun_ns, 0) + _LOOKS_NS


def _through(tasks: Sequence[Task], failing: int, *, one_by_one: bool) -> int | None:
    """Until when kubectl is through with all pods, without the prices of their budgets."""
    ends = [ARRIVAL[1] + REFUSED[1]] * failing
    for one in tasks:
        if one.latest_ns is None or one.through_ns[1] is None:
            return None
        ends.append(one.latest_ns + one.through_ns[1])
    return sum(ends) if one_by_one else max(ends, default=0)
