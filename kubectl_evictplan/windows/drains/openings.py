"""By when a pod surely goes for which several processes ask one budget, told by the clock.

``Progress`` counts whatever may ever happen to a budget. Here only that counts which can happen until then and matters still: who is
asked for by a process that cannot have come by then does nothing to anybody who has gone, and from the offset on at which a
replacement is counted the pod before it keeps nobody waiting. So an offset is proven if a pod goes by then with all
that can happen until then: would it still be there, nothing else had happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kubectl_evictplan.cluster.eviction_api import MEETS_NS
from kubectl_evictplan.engine.drain_timing import Latency
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.before import Before
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.delays import (
    ARRIVAL,
    CONFLICT,
    GRANTED,
    RETRY,
    Range,
    takes,
)
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import PlannedTurn
from kubectl_evictplan.windows.drains.progress import Progress
from kubectl_evictplan.windows.drains.rounds import Request, enough_for, forgotten_ns
from kubectl_evictplan.windows.drains.tries import first_read

# So often it is asked what can have happened until the offset that was found, and from so many offsets on.
_TIMES_MAX = 6
_SINCE_MAX = 4
# Of budgets with more requests only the counts are told: this looks through them for each node.
_REQUESTS_MAX = 100


class Openings:
    """Of all budgets; ``begins`` has, by turn, the offset before which kubectl does not come to the node."""

    def __init__(
        self,
        covered: CoveredPods,
        progress: Progress,
        before: Before,
        begins: Mapping[NodeDrain, int],
    ) -> None:
        self._covered = covered
        self._progress = progress
        self._before = before
        self._begins = begins
        self._gone_by: dict[tuple[int, NodeDrain, int, int], int | None] = {}

    def gone_by_ns(self, place: int, turn: PlannedTurn, begun_ns: int, by_ns: int) -> int | None:
        """``_last_by_ns``, found out once."""
        key = place, turn.drain, begun_ns, by_ns
        if key not in self._gone_by:
            few = len(self._progress.requests(place)) <= _REQUESTS_MAX
            self._gone_by[key] = self._last_by_ns(place, turn, begun_ns, by_ns) if few else None
        return self._gone_by[key]

    def _last_by_ns(self, place: int, turn: PlannedTurn, begun_ns: int, by_ns: int) -> int | None:
        """The offset by which each pod of the turn under the budget is evicted, but for its own changes; None: not known.

        ``place``: their one budget, which opens again and again. kubectl comes to the node from ``begun_ns`` to ``by_ns``.
        """
        if not self._progress.is_known or not self._progress.opens_again(place):
            return None
        at_ns = by_ns
        for _ in range(_TIMES_MAX):
            happening = [
                one for one in self._progress.requests(place) if self._may_be(one, turn, at_ns)
            ]
            found_ns = min(self._found_ns(place, happening, turn, begun_ns, by_ns))
            if found_ns <= at_ns:
                return found_ns
            at_ns = found_ns
        return None

    def opens_ns(self, place: int, turn: PlannedTurn, pod: Pod, begin: Range) -> int:
        """The offset before which the budget is not read for the pod when it is open; ``begin``: when kubectl comes to the node."""
        progress = self._progress
        opens_ns = progress.first_open_ns(place, pod, turn.drain)
        opens_ns = max(opens_ns, self._closed_until_ns(place, pod, begin[0]))
        if not turn.sole_controller:
            # Whom another process deletes no budget is asked about.
            opens_ns = min((opens_ns, *self._unasked_ns(place, turn, pod)))
        if (
            opens_ns <= begin[0]
            or pod.ready != "True"
            or not progress.is_calm(place)
            or self._covered.client_retries_ns(place)
        ):
            return opens_ns
        return first_read(opens_ns, begin)[0]

    def _closed_until_ns(self, place: int, pod: Pod, since_ns: int) -> int:
        """The offset until which so many others are surely away that the budget is closed, from ``since_ns`` on; 0: it may be open then."""
        covered, progress = self._covered, self._progress
        most = covered.most_at_a_time(place)
        if most is None or pod.ready != "True" or not progress.is_calm(place):
            return 0
        away = [
            self._surely_away(one)
            for one in covered.of_budget(place)
            if (one.key, one.uid) != (pod.key, pod.uid) and covered.may_be_ready(one)
        ]
        ends = sorted(until_ns for from_ns, until_ns in away if from_ns <= since_ns < until_ns)
        return ends[len(ends) - most] if most > 0 and len(ends) >= most else 0

    def _surely_away(self, pod: Pod) -> Range:
        """From when to when a pod is counted neither itself nor by another one in its stead."""
        name = pod.key, pod.uid
        since_ns = 0
        if pod.ready == "True":
            since_ns = self._before.deleted_ns.get(name, HORIZON_DEFAULT_MAX_NS)
            since_ns += takes(Latency.SYNC_BUDGET)[1]
        deleted_ns = self._before.earliest_ns.get(name, 0)
        return since_ns, deleted_ns + self._progress.back_after_ns(pod)

    def _unasked_ns(self, place: int, turn: PlannedTurn, pod: Pod) -> Iterator[int]:
        """Before which offsets other processes do not delete the pod without asking the budget."""
        for one in self._progress.requests(place):
            own = one.turn.drain == turn.drain or one.turn.controller == turn.controller
            if one.pod.key == pod.key and not own:
                yield self._begins[one.turn.drain]
        if not self._progress.is_known:
            # A process that refuses the node as it is at the start may not do so when others have been there.
            for drain, begins_ns in self._begins.items():
                if drain.node == turn.drain.node and drain.process != turn.drain.process:
                    yield begins_ns

    def _may_be(self, one: Request, turn: PlannedTurn, at_ns: int) -> bool:
        """Whether the request may have been sent by then, if kubectl waits for a pod of the turn."""
        own, other = turn.drain, one.turn.drain
        later = other.process == own.process and other.place > own.place
        return other == own or (self._begins[other] <= at_ns and not later)

    def _found_ns(
        self,
        place: int,
        happening: Sequence[Request],
        turn: PlannedTurn,
        begun_ns: int,
        by_ns: int,
    ) -> Iterator[int]:
        """By when the last pod goes, if all these requests are sent: told from some offsets on at which fewer of them matter."""
        progress = self._progress
        settled_ns = progress.settled_ns(place)
        back = {one.back_ns for one in happening if one.back_ns is not None}
        later = sorted(at_ns for at_ns in back if at_ns > settled_ns)
        for since_ns in (settled_ns, *later[:: -(-len(later) // _SINCE_MAX) or 1]):
            left = [one for one in happening if one.back_ns is None or one.back_ns > since_ns]
            writes = self._writes(place, happening, turn, max(since_ns, begun_ns))
            # Whoever is refused before that asks again so much later at most.
            again_ns = since_ns + RETRY[1] if since_ns > begun_ns + ARRIVAL[0] else by_ns
            asked_ns = max(again_ns, by_ns) + self._refused_ns(place, left)
            held_up_ns = writes * CONFLICT[1] + self._covered.client_retries_ns(place)
            yield asked_ns + ARRIVAL[1] + GRANTED[1] + held_up_ns

    def _refused_ns(self, place: int, left: Sequence[Request]) -> int:
        """How long these requests keep the pod waiting."""
        progress = self._progress
        enough = None
        if self._covered.is_deleted_once() and not forgotten_ns(left):
            enough = enough_for(left, progress.spare_in_the_end(place), 0)
        if enough is not None:
            return enough.refused * RETRY[1]
        asking = progress.asking(place)
        assert asking is not None, "a budget that opens again has rounds"
        return asking.each_ns + progress.rounds_ns(place, left)

    def _writes(
        self, place: int, happening: Sequence[Request], turn: PlannedTurn, at_ns: int
    ) -> int:
        """How many writes of the budget may hold up a request for a pod of the turn that is answered after an offset.

        Of several requests for one pod each may take a disruption, but it is gone, and replaced, once; what its own eviction writes
        holds up nobody who asks for it.
        """
        written: dict[object, int] = {}
        own: dict[object, int] = {}
        for one in happening:
            if one.kept:
                continue
            number = self._progress.writes_from(place, one, at_ns - MEETS_NS)
            if one.name in written and self._covered.is_deleted_once():
                number = min(number, 1)
            elif one.turn.drain == turn.drain:
                own[one.name] = number
            written[one.name] = written.get(one.name, 0) + number
        stirs = self._progress.conflicts(place, ())
        return stirs + sum(written.values()) - min(own.values(), default=0)
