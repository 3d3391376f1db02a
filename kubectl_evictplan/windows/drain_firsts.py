"""Who surely finds a disruption at its first request, although several processes ask the budget.

Each of them takes one disruption for each pod that it finds. So whoever asks before so many others can have asked is let
through, and only writes of the budget hold its request up. Whoever takes none leads to writes as well: where pods are counted
its budget is written anew when it is made anew, and when it is gone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cache

from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drain_covered import CoveredPods
from kubectl_evictplan.windows.drain_delays import ARRIVAL, CONFLICT, GRANTED
from kubectl_evictplan.windows.drain_instants import NodeDrain
from kubectl_evictplan.windows.drain_plan import PlannedTurn
from kubectl_evictplan.windows.drain_progress import Progress


class FirstRequests:
    """``begins`` has, by turn, the offset before which kubectl does not come to the node."""

    def __init__(
        self,
        covered: CoveredPods,
        progress: Progress,
        begins: Mapping[NodeDrain, int],
        rules: EvictionRules,
    ) -> None:
        self._covered = covered
        self._progress = progress
        self._begins = begins
        self._rules = rules
        self._begins_of = cache(self._begins_of_takers)
        self._writers_of = cache(self._begins_of_writers)
        self._moving = cache(self._number_moving)

    def held_up_ns(self, pod: Pod, turn: PlannedTurn, place: int, late_ns: int) -> int | None:
        """How much later than by itself a pod is evicted at its first request, at most; None: it may be refused.

        ``place``: its one budget, ``late_ns``: when kubectl begins with the node at the latest.
        """
        by_itself_ns = late_ns + ARRIVAL[1] + GRANTED[1]
        if pod.ready != "True":
            return self._uncounted_ns(pod, turn, place, by_itself_ns)
        spare = self._progress.spare(place)
        if spare is None or self._covered.is_refusable(pod, turn):
            return None
        if not turn.known and not self._rules.ignores_pending:
            # Whom somebody else has deleted a budget may keep there.
            return None
        takers, writers = self._begins_of(place), self._writers_of(place)
        held_ns = -1
        while True:
            others = _number_of_others(takers, turn, by_itself_ns + held_ns)
            if others >= spare:
                return None
            writing = _number_of_others(writers, turn, by_itself_ns + held_ns)
            writes = (writing + self._moving(place)) * self._progress.writes(place)
            if writes * CONFLICT[1] == held_ns:
                return held_ns
            held_ns = writes * CONFLICT[1]

    def _uncounted_ns(
        self, pod: Pod, turn: PlannedTurn, place: int, by_itself_ns: int
    ) -> int | None:
        """The same of a pod that is not Ready: a budget that nobody bypasses before lets it go."""
        covered = self._covered
        alone = turn.known or turn.first_there
        held_ns = covered.held_up_ns(pod, guest=False, alone=alone)
        bypassed_ns = [self._begins[one.drain] for one in covered.bypassing(place)]
        sure = self._progress.is_known and covered.is_uncounted(place, pod)
        if not sure or any(begun_ns <= by_itself_ns + held_ns for begun_ns in bypassed_ns):
            return None
        return held_ns

    def _begins_of_takers(self, place: int) -> list[tuple[int, NodeDrain]]:
        """When each pod that may take a disruption is asked for at the earliest, and in which turn."""
        return self._begins_of_turns(self._progress.takers(place))

    def _begins_of_writers(self, place: int) -> list[tuple[int, NodeDrain]]:
        """The same of each pod whose eviction leads to writes of the budget."""
        return self._begins_of_turns(self._progress.writers(place))

    def _begins_of_turns(self, turns: Iterable[PlannedTurn]) -> list[tuple[int, NodeDrain]]:
        return sorted((self._begins[turn.drain], turn.drain) for turn in turns)

    def _number_moving(self, place: int) -> int:
        """How many of the budget's pods change without being evicted."""
        covered = self._covered
        return sum(
            1
            for pod in covered.of_budget(place)
            if not covered.is_settled(pod) or pod.deletion_timestamp_ns is not None
        )


def _number_of_others(begins: list[tuple[int, NodeDrain]], turn: PlannedTurn, by_ns: int) -> int:
    """How many beside one pod of the turn can have been asked for by then; all of its own turn are."""
    own = sum(1 for _, drain in begins if drain == turn.drain)
    return max(own, bisect_right(begins, by_ns, key=lambda one: one[0])) - 1
