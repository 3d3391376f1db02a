"""How long a pod can be kept waiting by its budget at most, whoever else asks the same one.

A budget that is *open again and again* has its disruptions back as soon as nobody was evicted for a while, long enough for every
replacement to be Ready and counted. So whoever is refused knows that as many others were evicted within that time as the budget
has disruptions, and kubectl evicts each pod that it finds on a node once. That bounds how long one pod asks, and all
pods together that one process evicts one after the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from kubectl_evictplan.controllers.replication import STATEFUL_SET, is_owned_by, owner_key
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.accounts import counts_pods
from kubectl_evictplan.windows.drains.before import Before
from kubectl_evictplan.windows.drains.covered import CoveredPods, OwnerKey, as_ready
from kubectl_evictplan.windows.drains.delays import (
    ARRIVAL,
    AT_ONCE,
    CAUGHT_UP_NS,
    CONFLICT,
    FORGOTTEN_NS,
    UNASKED,
    plus,
    recovery,
    until_first_node,
)
from kubectl_evictplan.windows.drains.first_openings import FirstOpenings
from kubectl_evictplan.windows.drains.guests import Guests
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import DrainPlan, PlannedTurn
from kubectl_evictplan.windows.drains.recovery import Recoveries
from kubectl_evictplan.windows.drains.rounds import (
    Enough,
    Request,
    enough_for,
    forgotten_ns,
    round_ns,
    rounds_of,
)

# An eviction is followed by so many writes of its budget's status that a request can meet: its own, with the sync that
# sees it, and that another pod is Ready; where pods are counted that it is gone and that the other one is there.
_WRITES, _WRITES_COUNTING = 2, 4
# Who finds it closed writes nothing. With one disruption at most that is so from its eviction until the other pod is Ready.
_WRITES_OF_ONE, _WRITES_OF_ONE_COUNTING = 1, 2


class Asking(NamedTuple):
    """How long at most, of one process, once the budget is settled and besides what others do to it (``Progress.once_ns``).

    ``each_ns`` for every pod that it asks for one after the other. ``refuses``: somebody may be refused at all.
    """

    each_ns: int
    refuses: bool


class _Stretch(NamedTuple):
    """A process from ``begun_ns`` on, when it comes to one of its nodes at the earliest, until it is through with its ``last`` one."""

    process: int
    last: int
    begun_ns: int


class Progress:
    """By budget: ``asking``, ``opens_again`` and ``is_closed`` of a budget's place, each found out once.

    ``settled_ns``: from that offset on nothing moves it that was before the start, or is evicted at the very first.
    """

    def __init__(
        self,
        covered: CoveredPods,
        recoveries: Recoveries,
        plan: DrainPlan,
        before: Before = Before(),  # noqa: B008 - a constant
    ) -> None:
        self._before = before
        self._covered = covered
        self._recoveries = recoveries
        self.guests = Guests(covered, recoveries, plan, before)
        self._tasks = [(turn, pod) for turn in plan.turns for pod in turn.everybody]
        self._tasks_of: dict[int, list[tuple[PlannedTurn, Pod]]] = {}
        # Places among all of them, by budget and by StatefulSet.
        self._numbers_of: dict[int | OwnerKey, list[int]] = {}
        for number, task in enumerate(self._tasks):
            for place in covered.covering(task[1]):
                self._tasks_of.setdefault(place, []).append(task)
                self._numbers_of.setdefault(place, []).append(number)
            if (owner := owner_key(task[1])) is not None and owner[0] == STATEFUL_SET:
                self._numbers_of.setdefault(owner, []).append(number)
        # By (pod, uid) how many turns may find it before somebody has deleted it.
        self._found_by = Counter((pod.key, pod.uid) for turn in plan.turns for pod in turn.pods)
        # Who else may ask is known of all nodes.
        self.is_known = all(turn.surely_found for turn in plan.turns)
        self._drains = plan.drains
        self._replaced_first = cache(self._let_go_first)
        self.spare = cache(self._spare)
        self.asking = cache(self._asking)
        self.opens_again = cache(self._opens_again)
        self.is_closed = cache(self._is_closed)
        self.settled_ns = cache(self._settled_ns)
        self._enough_until = cache(self._enough)
        self._places_asking = cache(self._own_places)
        self._first_back_ns = cache(self._back_first_ns)
        # How many disruptions there are when all is Ready that surely is some day.
        self.spare_in_the_end = cache(self._spare_in_the_end)
        self._once_until_ns = cache(self._once_ns)
        self.requests = cache(self._requests_about)
        self.requests_for = cache(self._requests_for)
        self.writes = cache(self._writes_of_an_eviction)
        self._stirs = cache(self._writes_without_evictions)
        self.is_calm = cache(self._is_calm)
        openings = FirstOpenings(covered, plan.drains, before, self._unwaiting, self.is_calm)
        self.first_open_ns = openings.first_open_ns

    def _opens_again(self, place: int) -> bool:
        """Whether the budget has a disruption again and again, whoever takes it, while one pod after the other is evicted."""
        facts = self._covered
        budget, started = facts.world.budgets[place], facts.started(place)
        known = facts.ready.latest_ns is not None and budget.disruptions_allowed is not None
        if not known or not facts.is_steady(place):
            return False
        synced = facts.synced(place, started)
        seen = synced == budget or facts.is_behind(place) or started != facts.of_budget(place)
        return (
            bool(self.spare_in_the_end(place))
            and seen
            and facts.keeps_its_wish(place)
            and facts.covers_whole_owners(place)
            and not any(owner_key(pod) in facts.overfull for pod in facts.of_budget(place))
            and all(self._recoveries.is_sure(pod) for _, pod in facts.drained_of(place))
        )

    def in_the_end(self, place: int) -> list[Pod]:
        """The budget's pods when all is Ready that surely is some day, whoever waits for the budget."""
        names = {pod.key for _, pod in self._replaced_first(place)}
        return [
            as_ready(pod) if pod.key in names else pod for pod in self._covered.in_the_end(place)
        ]

    def _let_go_first(self, place: int) -> list[tuple[PlannedTurn, Pod]]:
        """Pods that are not Ready, do not count, are asked for as soon as kubectl comes to its first node, and are made anew."""
        facts = self._covered
        return [
            (turn, pod)
            for turn, pod in facts.drained_of(place)
            if turn.is_asked_at_once
            and facts.lets_go(place, pod)
            and not is_owned_by(pod, STATEFUL_SET)
            and self._recoveries.latest_ns(pod, turn.options) is not None
            and pod not in turn.guests
        ]

    def _is_closed(self, place: int) -> bool:
        """Whether the budget lets no pod go that is Ready, ever."""
        facts = self._covered
        budget, covered = facts.world.budgets[place], facts.of_budget(place)
        return (
            facts.is_steady(place)
            and budget.disruptions_allowed == 0
            and facts.allowed_at_best(place) == 0
            and facts.keeps_its_wish(place)
            and facts.covers_whole_owners(place)
            and not any(owner_key(pod) in facts.unsure for pod in covered)
        )

    def _asking(self, place: int) -> Asking | None:
        """How long the budget keeps anybody waiting; None: perhaps for ever."""
        return self._bounded(place) if self.is_known else None

    def knows(self, place: int) -> bool:
        """Whether it is known whoever may take pods from the budget."""
        return self.is_known and self._covered.is_steady(place)

    def _unwaiting(self, place: int) -> Iterator[Request]:
        return (one for one in self.requests(place) if not self.needs_disruption(place, one))

    def _is_calm(self, place: int) -> bool:
        """Whether nothing happens to the budget's pods but what is asked for in the turns, and what follows from that."""
        facts = self._covered
        calm = self.is_known and facts.world.quiet
        return calm and all(map(facts.stays, facts.of_budget(place)))

    def needs_disruption(self, place: int, one: Request) -> bool:
        """Whether the pod does not go before the budget opens: it is Ready, and nobody deletes it without asking."""
        turn, pod = one.turn, one.pod
        asked = pod in turn.pods and not turn.options.disable_eviction
        return (
            asked and pod.ready == "True" and one.counts and place in self._covered.asked_about(pod)
        )

    def back_after_ns(self, pod: Pod) -> int:
        """How long after its deletion another pod is counted in its stead at the earliest."""
        return self._recoveries.earliest_ns(pod)

    def _bounded(self, place: int) -> Asking | None:
        if self._has_enough(place):
            return Asking(0, refuses=False)
        if not self.opens_again(place):
            return None
        recovered_ns = self._recovered_ns(place)
        return None if recovered_ns is None else Asking(round_ns(recovered_ns), refuses=True)

    def _recovered_ns(self, place: int) -> int | None:
        """From the last eviction to when everybody's replacement is counted, at most; None: not known."""
        recoveries = [
            self._recoveries.latest_ns(one.pod, one.turn.options) for one in self.requests(place)
        ]
        known = [one for one in recoveries if one is not None]
        return max(known, default=0) if len(known) == len(recoveries) else None

    def _requests_about(self, place: int) -> list[Request]:
        """Whoever may be evicted and keep the budget closed by that."""
        mattering = self._mattering(place)
        if mattering is self._tasks_of.get(place):
            return self.requests_for(place)
        return self._requests_of(place, mattering)

    def _requests_for(self, place: int) -> list[Request]:
        """Those for all pods of the budget."""
        return self._requests_of(place, self._tasks_of.get(place, ()))

    def _requests_of(self, place: int, tasks: Iterable[tuple[PlannedTurn, Pod]]) -> list[Request]:
        return [
            self._request(place, turn, pod)
            for turn, pod in tasks
            if pod not in turn.guests or not self.guests.is_elsewhere(turn, pod)
        ]

    def _request(self, place: int, turn: PlannedTurn, pod: Pod) -> Request:
        guest = pod in turn.guests
        counts = self._may_count(place, turn, pod)
        kept = self._is_kept(place, turn, pod)
        back_ns = None if guest else self._back_ns(turn, pod)
        gone = turn.delays(pod).gone
        deleted_ns = self._before.deleted_ns.get((pod.key, pod.uid), 0)
        gone_ns = None
        if back_ns is not None and gone is not None:
            gone_ns = deleted_ns + gone[1]
        name = pod.key, turn.drain if guest else None
        return Request(turn, pod, name, counts, kept, back_ns, gone_ns, deleted_ns)

    def _back_ns(self, turn: PlannedTurn, pod: Pod) -> int | None:
        """By when a pod that somebody surely deletes has a Ready replacement, which its budget counts if it opens again; None: not known.

        One request at a time may take a disruption for it: others find it terminating. Of a StatefulSet in order others that
        go later may keep it from being made.
        """
        name = pod.key, pod.uid
        facts, by_ns = self._covered, self._before.deleted_ns.get(name)
        if (
            by_ns is None
            or self._found_by[name] > 1
            or not facts.is_deleted_once()
            or self._recoveries.goes_in_order(pod)
        ):
            return None
        back_ns = self._recoveries.back_by_ns(pod, turn.options)
        return None if back_ns is None else by_ns + back_ns

    def once_ns(self, place: int, drain: NodeDrain, first: NodeDrain) -> int:
        """What all that is done to a budget with ``asking`` costs one process at most from the ``first`` node until it is through with another.

        To its own later nodes it has not come by then, and what was over before it came to the first costs it nothing.
        """
        return self._once_until_ns(place, self._stretch(place, drain, first))

    def _once_ns(self, place: int, stretch: _Stretch) -> int:
        requests = self._until(place, stretch)
        asking = self.asking(place)
        assert asking is not None, "only budgets that open again have a price"
        conflicts = self.conflicts(place, requests) + self._ends_meanwhile(place, stretch)
        names = [one.name for one in requests if not one.kept]
        if names and len(set(names)) == len(names):
            # Nobody waits for what the last of the process's own evictions writes.
            conflicts -= self.writes(place)
        once_ns = conflicts * CONFLICT[1]
        once_ns += self._covered.client_retries_ns(place)
        if not asking.refuses or self._enough_until(place, stretch) is not None:
            return once_ns
        return once_ns + self.rounds_ns(place, requests)

    def rounds_ns(self, place: int, requests: Sequence[Request]) -> int:
        """How much longer than by one round these requests keep anybody waiting."""
        asking = self.asking(place)
        assert asking is not None, "only budgets that open again have rounds"
        rounds = rounds_of(
            requests,
            self._at_a_time(place, requests),
            deleted_once=self._covered.is_deleted_once(),
        )
        return max(rounds - 1, 0) * asking.each_ns + forgotten_ns(requests)

    def conflicts(self, place: int, requests: Sequence[Request] | None = None) -> int:
        """How often the budget's status is written at most, because of these requests (or all) and of what was before the start.

        Of several requests for one pod each may take a disruption, but it is gone, and replaced, once.
        """
        requests = self.requests(place) if requests is None else requests
        asked = [one.name for one in requests if not one.kept]
        evicted = len(set(asked)) if self._covered.is_deleted_once() else len(asked)
        return evicted * self.writes(place) + len(asked) - evicted + self._stirs(place)

    def _writes_without_evictions(self, place: int) -> int:
        facts = self._covered
        covered = facts.of_budget(place)
        # Each may be gone, and another one there, in the middle of a request.
        number = len(facts.starting) + sum(
            _WRITES_COUNTING for pod in covered if not facts.is_settled(pod)
        )
        budget = facts.world.budgets[place]
        # A new process writes what the one before it has not seen.
        number += bool(facts.back_ns)
        return number + len(budget.disrupted_pods) + int(facts.synced(place, covered) != budget)

    def _stretch(self, place: int, drain: NodeDrain, first: NodeDrain) -> _Stretch:
        """From the ``first`` of a process's nodes to the end of a later one: where the same matters to the budget it is the same."""
        asking = self._places_asking(place, drain.process)
        number = bisect_right(asking, drain.place)
        begun_ns = self._before.begins_ns.get(first, 0)
        if begun_ns <= self._first_back_ns(place):
            begun_ns = 0
        return _Stretch(drain.process, asking[number - 1] if number else -1, begun_ns)

    def _own_places(self, place: int, process: int) -> list[int]:
        drains = (one.turn.drain for one in self.requests(place))
        return sorted({one.place for one in drains if one.process == process})

    def _back_first_ns(self, place: int) -> int:
        """When the first is back of those of whom it is known by when."""
        back = (one.back_ns for one in self.requests(place) if one.back_ns is not None)
        return min(back, default=HORIZON_DEFAULT_MAX_NS)

    def _until(self, place: int, stretch: _Stretch) -> list[Request]:
        """Those that may matter meanwhile."""
        process, last, begun_ns = stretch
        return [
            one
            for one in self.requests(place)
            if (one.turn.drain.process != process or one.turn.drain.place <= last)
            and (one.back_ns is None or one.back_ns >= begun_ns)
        ]

    def _ends_meanwhile(self, place: int, stretch: _Stretch) -> int:
        """How many pods whose replacements are back before kubectl comes to the node may still be there, and be gone later."""
        if not counts_pods(self._covered.world.budgets[place]):
            return 0
        back = (one for one in self.requests(place) if one.back_ns is not None)
        return len({one.name for one in back if (one.back_ns or 0) < stretch.begun_ns})

    def enough(self, place: int, drain: NodeDrain) -> Enough | None:
        """Where no more pods take a disruption than there are, so that nobody is refused for long on a node; None: it may be."""
        return self._enough_until(place, self._stretch(place, drain, drain))

    def _enough(self, place: int, stretch: _Stretch) -> Enough | None:
        requests = self._until(place, stretch)
        if not self.is_known or not self._covered.is_deleted_once() or forgotten_ns(requests):
            return None
        if self._covered.back_ns:
            # The status may be old for long.
            return None
        spare = self.spare(place)
        found = None if spare is None else enough_for(requests, spare, 0)
        if found is None and self.opens_again(place):
            found = enough_for(requests, self.spare_in_the_end(place), self.settled_ns(place))
        return found

    def _spare_in_the_end(self, place: int) -> int:
        in_the_end = self.in_the_end(place)
        return self._covered.synced_later(place, in_the_end).disruptions_allowed or 0

    def _has_enough(self, place: int) -> bool:
        """Whether there are as many disruptions from the start as ever can be taken."""
        spare = self.spare(place)
        return spare is not None and spare >= len(self._tasks_of.get(place, ()))

    def _spare(self, place: int) -> int | None:
        """How many disruptions there are from the start until somebody is evicted, whatever else happens; None: not known."""
        facts = self._covered
        budget, covered = facts.world.budgets[place], facts.of_budget(place)
        if (
            not self.is_known
            or not facts.is_steady(place)
            or budget.disrupted_pods
            or facts.synced(place, covered) != budget
            or not facts.keeps_its_wish(place)
            or any(owner_key(pod) in facts.overfull for pod in covered)
        ):
            return None
        collected = sum(1 for pod in covered if not facts.has_node(pod) and pod.ready == "True")
        return (budget.disruptions_allowed or 0) - collected

    def _may_count(self, place: int, turn: PlannedTurn, pod: Pod) -> bool:
        """Whether the pod may need a disruption; of guests nobody knows whether they are Ready."""
        if pod.deletion_timestamp_ns is not None and self._covered.is_deleted_once():
            return False
        return pod in turn.guests or not self._covered.lets_go(place, pod)

    def _writes_of_an_eviction(self, place: int) -> int:
        """How often the budget's status is written because of one eviction, at most."""
        counts = counts_pods(self._covered.world.budgets[place])
        alone = len({turn.drain.process for turn, _ in self._tasks_of.get(place, ())}) <= 1
        if alone and self._covered.lets_go_one_at_a_time(place):
            return _WRITES_OF_ONE_COUNTING if counts else _WRITES_OF_ONE
        return _WRITES_COUNTING if counts else _WRITES

    def writes_from(self, place: int, one: Request, at_ns: int) -> int:
        """How often that is so from an offset on: once another pod is counted the old one may still be there, and be gone later."""
        if one.back_ns is None or one.back_ns >= at_ns:
            return self.writes(place)
        gone = one.gone_ns is not None and one.gone_ns < at_ns
        return int(counts_pods(self._covered.world.budgets[place]) and not gone)

    def _at_a_time(self, place: int, requests: Sequence[Request]) -> int:
        """How many were evicted at least while somebody is refused.

        A StatefulSet in order may make nobody because of one that went later: there it is one.
        """
        facts, in_order = self._covered, self._recoveries.goes_in_order
        if any(in_order(one.pod) or place not in facts.covering(one.pod) for one in requests):
            return 1
        return max(self.spare_in_the_end(place), 1)

    def _mattering(self, place: int) -> Sequence[tuple[PlannedTurn, Pod]]:
        """Those whose evictions may keep the budget closed: it covers them, or they are of a StatefulSet with pods that it covers."""
        owners = {owner_key(pod) for _, pod in self._covered.drained_of(place)}
        sets = [one for one in owners if one is not None and one[0] == STATEFUL_SET]
        if not sets:
            return self._tasks_of.get(place, ())
        keys: Sequence[int | OwnerKey] = (place, *sets)
        numbers = {number for key in keys for number in self._numbers_of.get(key, ())}
        return [self._tasks[number] for number in sorted(numbers)]

    def _replaced_ns(self, turn: PlannedTurn, pod: Pod) -> int:
        """By which offset a pod of ``_let_go_first`` has a Ready replacement that is counted."""
        event = self._drains[turn.drain.process]
        begun = plus(until_first_node(len(event.nodes)), ARRIVAL, UNASKED)
        replaced_ns = self._recoveries.back_by_ns(pod, turn.options)
        assert replaced_ns is not None, "a replacement that is sure has a latest instant"
        return event.latest_ns + begun[1] + replaced_ns

    def _is_kept(self, place: int, turn: PlannedTurn, pod: Pod) -> bool:
        """Whether the budget never lets go the pod that kubectl asks for."""
        asked = pod in turn.pods and not turn.options.disable_eviction
        return (
            asked
            and pod.ready == "True"
            and self.is_closed(place)
            and place in self._covered.asked_about(pod)
        )

    def _settled_ns(self, place: int) -> int:
        """Until which offset the budget moves at most because of what was before the start."""
        facts = self._covered
        ready_ns = [recovery(AT_ONCE, (0, facts.slowest_ns(pod)))[1] for pod in facts.starting]
        ready_ns += [self._replaced_ns(*one) for one in self._replaced_first(place)]
        budget = facts.world.budgets[place]
        ready_ns += [FORGOTTEN_NS] * bool(budget.disrupted_pods)
        settled = facts.synced(place, facts.of_budget(place)) == budget
        if facts.back_ns:
            # Then whoever has gone meanwhile is replaced.
            ready_ns.append(facts.back_ns + (self._recovered_ns(place) or 0))
            settled = False
        return max(ready_ns, default=0) + (0 if settled else CAUGHT_UP_NS)
