"""How long a pod can be kept waiting by its budget at most, whoever else asks the same one.

A budget that is *open again and again* has its disruptions back as soon as nobody was evicted for a while, long enough for every
replacement to be Ready and counted. So whoever is refused knows that as many others were evicted within that time as the budget
has disruptions, and kubectl evicts each pod that it finds on a node once. That bounds how long one pod asks, and all
pods together that one process evicts one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from kubectl_evictplan.controllers.replication import STATEFUL_SET, is_owned_by, owner_key
from kubectl_evictplan.kube.disruption import ALWAYS_ALLOW
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drain_accounts import counts_pods
from kubectl_evictplan.windows.drain_covered import CoveredPods, as_ready
from kubectl_evictplan.windows.drain_delays import (
    ARRIVAL,
    AT_ONCE,
    CAUGHT_UP_NS,
    CONFLICT,
    FORGOTTEN_NS,
    GRANTED,
    REFUSED,
    RETRY,
    plus,
    recovery,
    until_first_node,
)
from kubectl_evictplan.windows.drain_instants import NodeDrain
from kubectl_evictplan.windows.drain_plan import DrainPlan, PlannedTurn
from kubectl_evictplan.windows.drain_recovery import Recoveries
from kubectl_evictplan.windows.drain_turn_bounds import TIMEOUT_MIN_NS

# An eviction is followed by so many writes of its budget's status that a request can meet: its own, with the sync that
# sees it, and that another pod is Ready; where pods are counted that it is gone and that the other one is there.
_WRITES, _WRITES_COUNTING = 2, 4


class Asking(NamedTuple):
    """How long at most, of one process, once the budget is settled and besides what others do to it (``Progress.once_ns``).

    ``each_ns`` for every pod that it asks for one after the other. ``refuses``: somebody may be refused at all.
    """

    each_ns: int
    refuses: bool


class Progress:
    """By budget: ``asking``, ``opens_again`` and ``is_closed`` of a budget's place, each found out once.

    ``settled_ns``: from that offset on nothing moves it that was before the start, or is evicted at the very first.
    """

    def __init__(self, covered: CoveredPods, recoveries: Recoveries, plan: DrainPlan) -> None:
        self._covered = covered
        self._recoveries = recoveries
        self._tasks = [(turn, pod) for turn in plan.turns for pod in turn.everybody]
        # Who else may ask is known of all nodes.
        self.is_known = all(turn.surely_found for turn in plan.turns)
        self._drains = plan.drains
        self._replaced_first = cache(self._let_go_first)
        self.spare = cache(self._spare)
        self.asking = cache(self._asking)
        self.opens_again = cache(self._opens_again)
        self.is_closed = cache(self._is_closed)
        self.settled_ns = cache(self._settled_ns)
        self.once_ns = cache(self._once_ns)
        self._asked_about = cache(self._tasks_of)
        self._first_evictions = cache(self._two_first)
        self._first_open_ns = cache(self._opens_first_ns)

    def _opens_again(self, place: int) -> bool:
        """Whether the budget has a disruption again and again, whoever takes it, while one pod after the other is evicted."""
        facts = self._covered
        budget, started = facts.world.budgets[place], facts.started(place)
        known = facts.ready.latest_ns is not None and budget.disruptions_allowed is not None
        if not known or not facts.world.steady:
            return False
        synced = facts.synced(place, started)
        seen = synced == budget or facts.is_behind(place) or started != facts.of_budget(place)
        return (
            bool(facts.synced(place, self._in_the_end(place)).disruptions_allowed)
            and seen
            and facts.keeps_its_wish(place)
            and facts.covers_whole_owners(place)
            and not any(owner_key(pod) in facts.overfull for pod in facts.of_budget(place))
            and all(self._recoveries.is_sure(pod) for _, pod in facts.drained_of(place))
        )

    def _in_the_end(self, place: int) -> list[Pod]:
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
            if _is_asked_first(turn)
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
            facts.world.steady
            and budget.disruptions_allowed == 0
            and facts.synced(place, facts.at_best(place)).disruptions_allowed == 0
            and facts.keeps_its_wish(place)
            and facts.covers_whole_owners(place)
            and not any(owner_key(pod) in facts.unsure for pod in covered)
        )

    def _asking(self, place: int) -> Asking | None:
        """How long the budget keeps anybody waiting; None: perhaps for ever."""
        return self._bounded(place) if self.is_known else None

    def first_open_ns(self, place: int, pod: Pod) -> int:
        """Before that offset the budget does not let the pod go."""
        others = (one for one in self._first_evictions(place) if one[1] != pod.key)
        first_ns = next((at_ns for at_ns, _ in others), HORIZON_DEFAULT_MAX_NS)
        return self._first_open_ns(place, pod.ready == "True", first_ns)

    def _two_first(self, place: int) -> list[tuple[int, str]]:
        """When the first two of the pods that matter to a budget may be deleted, and which; without any what is missing comes from the start on.

        Nobody else than kubectl deletes any, and no owner lacks one.
        """
        facts = self._covered
        if not facts.world.quiet or not all(map(facts.stays, facts.of_budget(place))):
            return [(0, "")]
        firsts: dict[str, int] = {}
        for turn, pod in self._asked_about(place):
            event = self._drains[turn.drain.process]
            begun_ns = event.at_ns + until_first_node(len(event.nodes))[0]
            firsts[pod.key] = min(firsts.get(pod.key, begun_ns), begun_ns)
        return sorted((at_ns, key) for key, at_ns in firsts.items())[:2]

    def _opens_first_ns(self, place: int, ready: bool, first_ns: int) -> int:
        """``first_ns``: before that offset nobody is deleted who counts."""
        facts = self._covered
        budget, covered = facts.world.budgets[place], facts.of_budget(place)
        synced = facts.synced(place, covered)
        healthy, desired = synced.current_healthy or 0, synced.desired_healthy or 0
        always = budget.unhealthy_pod_eviction_policy == ALWAYS_ALLOW and not ready
        missing = desired - healthy + int(ready)
        if (
            always
            or missing <= 0
            or healthy > desired
            or synced != budget
            or budget.disruptions_allowed != 0
            or not facts.keeps_its_wish(place)
            or not facts.covers_whole_owners(place)
        ):
            return 0
        starting = sorted(facts.ready_earliest_ns(one) for one in covered if facts.is_starting(one))
        made_ns = first_ns + min((facts.ready.range_of(one)[0] for one in covered), default=0)
        later_ns = starting[missing - 1] if missing <= len(starting) else made_ns
        return max(min(later_ns, made_ns), 0)

    def _bounded(self, place: int) -> Asking | None:
        if self._has_enough(place):
            return Asking(0, refuses=False)
        if not self.opens_again(place):
            return None
        tasks = self._asked_about(place)
        recoveries = [self._recoveries.latest_ns(pod, turn.options) for turn, pod in tasks]
        known = [one for one in recoveries if one is not None]
        if len(known) < len(recoveries):
            return None
        return Asking(max(known, default=0) + RETRY[1] + REFUSED[1], refuses=True)

    def _tasks_of(self, place: int) -> list[tuple[PlannedTurn, Pod]]:
        """Whoever may be evicted and keep the budget closed by that."""
        return [(turn, pod) for turn, pod in self._tasks if self._matters(place, pod)]

    def _once_ns(self, place: int, drain: NodeDrain) -> int:
        """What all that is done to a budget with ``asking`` costs one process at most until it is through with a node.

        To its own later nodes it has not come by then.
        """
        tasks = [
            (turn, pod)
            for turn, pod in self._asked_about(place)
            if turn.drain.process != drain.process or turn.drain.place <= drain.place
        ]
        asking = self.asking(place)
        assert asking is not None, "only budgets that open again have a price"
        once_ns = self.conflicts(place, tasks) * CONFLICT[1]
        once_ns += self._covered.client_retries_ns(place)
        if not asking.refuses:
            return once_ns
        taking = [(turn, pod) for turn, pod in tasks if self._may_count(place, turn, pod)]
        rounds = max(len(taking) - 1, 0) // self._at_a_time(place, tasks)
        if self._covered.is_deleted_once():
            # Whom one process has evicted another one evicts without asking a budget.
            there = {(pod.key, turn.drain if pod in turn.guests else None) for turn, pod in taking}
            rounds = min(rounds, max(len(there) - 1, 0))
        return once_ns + max(rounds - 1, 0) * asking.each_ns + self._forgotten_ns(tasks)

    def conflicts(self, place: int, tasks: Sequence[tuple[PlannedTurn, Pod]] | None = None) -> int:
        """How often the budget's status is written at most, because of these evictions (or all) and of what was before the start."""
        facts = self._covered
        covered = facts.of_budget(place)
        tasks = self._asked_about(place) if tasks is None else tasks
        evicted = sum(1 for turn, pod in tasks if not self._is_kept(place, turn, pod))
        number = evicted * self.writes(place)
        number += sum(1 for pod in facts.world.snapshot.pods if facts.is_starting(pod))
        # Each may be gone, and another one there, in the middle of a request.
        number += sum(_WRITES_COUNTING for pod in covered if not facts.is_settled(pod))
        return number + int(facts.synced(place, covered) != facts.world.budgets[place])

    def _has_enough(self, place: int) -> bool:
        """Whether there are as many disruptions from the start as ever can be taken."""
        spare = self.spare(place)
        asking = sum(1 for _, pod in self._tasks if place in self._covered.covering(pod))
        return spare is not None and spare >= asking

    def _spare(self, place: int) -> int | None:
        """How many disruptions there are from the start until somebody is evicted, whatever else happens; None: not known."""
        facts = self._covered
        budget, covered = facts.world.budgets[place], facts.of_budget(place)
        if (
            not self.is_known
            or not facts.world.steady
            or budget.disrupted_pods
            or facts.synced(place, covered) != budget
            or not facts.keeps_its_wish(place)
            or any(owner_key(pod) in facts.overfull for pod in covered)
        ):
            return None
        collected = sum(1 for pod in covered if not facts.has_node(pod) and pod.ready == "True")
        return (budget.disruptions_allowed or 0) - collected

    def takers(self, place: int) -> list[PlannedTurn]:
        """The turns of all pods of the budget that may take a disruption, each once for each of them."""
        return [
            turn
            for turn, pod in self._tasks
            if place in self._covered.covering(pod) and self._may_count(place, turn, pod)
        ]

    def _may_count(self, place: int, turn: PlannedTurn, pod: Pod) -> bool:
        """Whether the pod may need a disruption; of guests nobody knows whether they are Ready."""
        if pod.deletion_timestamp_ns is not None and self._covered.is_deleted_once():
            return False
        return pod in turn.guests or not self._covered.lets_go(place, pod)

    def writes(self, place: int) -> int:
        """How often the budget's status is written because of one eviction, at most."""
        counts = counts_pods(self._covered.world.budgets[place])
        return _WRITES_COUNTING if counts else _WRITES

    def _at_a_time(self, place: int, tasks: Sequence[tuple[PlannedTurn, Pod]]) -> int:
        """How many were evicted at least while somebody is refused.

        A StatefulSet in order may make nobody because of one that went later: there it is one.
        """
        facts, in_order = self._covered, self._recoveries.goes_in_order
        if any(in_order(pod) or place not in facts.covering(pod) for _, pod in tasks):
            return 1
        return max(facts.synced(place, self._in_the_end(place)).disruptions_allowed or 0, 1)

    def _forgotten_ns(self, tasks: Iterable[tuple[PlannedTurn, Pod]]) -> int:
        """Two processes that evict one pod of a StatefulSet may leave word that its replacement is about to go."""
        names = Counter(pod.key for _, pod in tasks if is_owned_by(pod, STATEFUL_SET))
        return FORGOTTEN_NS * sum(1 for number in names.values() if number > 1)

    def _matters(self, place: int, pod: Pod) -> bool:
        """Whether its eviction may keep the budget closed: it is covered, or of a StatefulSet with pods that are."""
        if place in self._covered.covering(pod):
            return True
        owner = owner_key(pod)
        return (
            owner is not None
            and owner[0] == STATEFUL_SET
            and any(owner == owner_key(one) for _, one in self._covered.drained_of(place))
        )

    def _replaced_ns(self, turn: PlannedTurn, pod: Pod) -> int:
        """By which offset a pod of ``_let_go_first`` has a Ready replacement that is counted."""
        event = self._drains[turn.drain.process]
        begun = plus(until_first_node(len(event.nodes)), ARRIVAL, GRANTED)
        replaced_ns = self._recoveries.latest_ns(pod, turn.options)
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
        starting = [pod for pod in facts.world.snapshot.pods if facts.is_starting(pod)]
        ready_ns = [recovery(AT_ONCE, (0, facts.slowest_ns(pod)))[1] for pod in starting]
        ready_ns += [self._replaced_ns(*one) for one in self._replaced_first(place)]
        covered = facts.of_budget(place)
        settled = facts.synced(place, covered) == facts.world.budgets[place]
        return max(ready_ns, default=0) + (0 if settled else CAUGHT_UP_NS)


def _is_asked_first(turn: PlannedTurn) -> bool:
    """Whether kubectl surely asks for each pod of the node as soon as it has begun."""
    in_time = not 0 < turn.options.timeout_ns < TIMEOUT_MIN_NS
    return turn.drain.place == 0 and not turn.options.parallel and in_time
