"""Who surely finds a disruption at its first request, although several processes ask the budget.

Each of them takes one disruption for each pod that it finds. So whoever asks before so many others can have asked is let
through, and only writes of the budget hold its request up. Whoever takes none leads to writes as well: where pods are counted
its budget is written anew when it is made anew, and when it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from kubectl_evictplan.kube.disruption import EvictionRules
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.delays import ARRIVAL, CONFLICT, GRANTED
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import PlannedTurn
from kubectl_evictplan.windows.drains.progress import Progress
from kubectl_evictplan.windows.drains.rounds import Request


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
        self._held = cache(self._held_by_others_ns)
        self._moving = cache(self._number_moving)

    def held_up_ns(
        self,
        pod: Pod,
        turn: PlannedTurn,
        place: int,
        late_ns: int,
        changes_ns: int | None = None,
    ) -> int | None:
        """How much later than by itself a pod is evicted at its first request, at most; None: it may be refused.

        ``place``: its one budget, ``late_ns``: when kubectl begins with the node at the latest. ``changes_ns``: it is a guest, which is
        Ready or not, and its own changes hold its request up so long.
        """
        by_itself_ns = late_ns + ARRIVAL[1] + GRANTED[1]
        if pod.ready != "True" and changes_ns is None:
            return self._uncounted_ns(pod, turn, place, by_itself_ns)
        spare = self._progress.spare(place)
        if spare is None or self._covered.is_refusable(pod, turn):
            return None
        if not turn.known and not self._rules.ignores_pending:
            # Whom somebody else has deleted a budget may keep there.
            return None
        return self._held(place, turn.drain, by_itself_ns, changes_ns or 0, spare)

    def _held_by_others_ns(
        self, place: int, own: NodeDrain, by_itself_ns: int, own_ns: int, spare: int
    ) -> int | None:
        """The same of any pod of a node, which by itself is held up ``own_ns``."""
        held_ns = -1
        while True:
            asked = list(self._asked_before(place, own, by_itself_ns + held_ns))
            if sum(one.counts and not self._is_back(one, own) for one in asked) > spare:
                return None
            writes = self._moving(place) * self._progress.writes(place)
            writes += self._written(place, own, asked)
            if own_ns + writes * CONFLICT[1] == held_ns:
                return held_ns
            held_ns = own_ns + writes * CONFLICT[1]

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

    def _asked_before(self, place: int, own: NodeDrain, by_ns: int) -> Iterator[Request]:
        """The requests that can have been sent by then, with all of a node.

        None of the process's later ones are: it comes there when it is through with this node.
        """
        for one in self._progress.requests_for(place):
            other = one.turn.drain
            later = other.process == own.process and other.place > own.place
            if other == own or (self._begins[other] <= by_ns and not later):
                yield one

    def _is_back(self, one: Request, own: NodeDrain) -> bool:
        """Whether the budget counts somebody in its stead before kubectl comes to the node."""
        return one.back_ns is not None and one.back_ns < self._begins[own]

    def _written(self, place: int, own: NodeDrain, asked: Iterable[Request]) -> int:
        """How often the budget may be written because of others of these when a pod of the node is asked for."""
        progress, begun_ns = self._progress, self._begins[own]
        written = sum(progress.writes_from(place, one, begun_ns) for one in asked)
        return written - progress.writes(place)

    def _number_moving(self, place: int) -> int:
        """How many of the budget's pods change without being evicted."""
        covered = self._covered
        return sum(
            1
            for pod in covered.of_budget(place)
            if not covered.is_settled(pod) or pod.deletion_timestamp_ns is not None
        )
