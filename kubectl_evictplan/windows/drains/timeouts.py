"""What ``--timeout`` makes of a node of which nobody knows who is let through first."""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.cluster.eviction_api import TRIES_MAX
from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.engine.drain_timing import Latency
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.allowance import Allowance, gives_up
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.delays import (
    CONFLICT,
    GRANTED,
    RETRY,
    TIMEOUT_MIN_NS,
    Range,
    takes,
)
from kubectl_evictplan.windows.drains.planned import PlannedTurn
from kubectl_evictplan.windows.drains.progress import Progress
from kubectl_evictplan.windows.drains.requests import Requests
from kubectl_evictplan.windows.drains.tasks import Contest, Task

# A request that was sent in time may lose to other writes of its budget so often.
_HELD_UP_NS = (TRIES_MAX - 1) * CONFLICT[1]


class Timeouts:
    """Of all nodes."""

    def __init__(self, covered: CoveredPods, progress: Progress, requests: Requests) -> None:
        self._covered = covered
        self._progress = progress
        self._requests = requests

    def limited(
        self, found: Contest, turn: PlannedTurn, settled_ns: int, prices_ns: int
    ) -> Contest:
        """The node as kubectl leaves it that gives up at a try, or waits no longer.

        ``settled_ns``: so long after its begin budgets are settled; ``prices_ns`` is what others cost it there at most.
        """
        timeout_ns = turn.options.timeout_ns
        until_ns = found.until_ns
        in_time = until_ns is not None and until_ns + settled_ns + prices_ns < timeout_ns
        if in_time and not found.held:
            return found
        if turn.options.disable_eviction and turn.strangers:
            # How many it deletes before it begins to wait is not known.
            return found._replace(reasons=found.reasons | {DrainEnd.TIMEOUT})
        tasks = list(found.tasks)
        if not in_time:
            tasks = [self._asked_in_time(one, found, turn, settled_ns) for one in tasks]
        reasons = found.reasons - {None}
        if reasons != {DrainEnd.ERROR} or found.one_by_one:
            # Who fails the node may not be asked in time.
            reasons |= {DrainEnd.TIMEOUT}
        # Nor does it wait for a budget that opens, or a pod that goes, only after that.
        earliest_ns = min(found.earliest_ns, timeout_ns)
        if found.held:
            reasons -= {DrainEnd.DRAINED}
            given_up = [self._given_up(pod, found, turn)[0] for pod in found.held]
            earliest_ns = max(earliest_ns, *given_up)
        return found._replace(
            tasks=tasks,
            earliest_ns=earliest_ns,
            until_ns=self._over_by_ns(found, tasks, turn),
            places=found.places if in_time else frozenset(),
            settles_ns=found.settles_ns if in_time else 0,
            reasons=reasons,
        )

    def _asked_in_time(
        self, task: Task, found: Contest, turn: PlannedTurn, settled_ns: int
    ) -> Task:
        """The task as far as kubectl asks for it in time.

        Whoever surely goes before the time is up goes as without ``--timeout``: nobody on the node is given up until then, and
        whoever else gives pods up only asks less often. Of others it is known by when kubectl asks no more.
        """
        if self._is_at_once(task, found, turn):
            return task
        once_ns = 0
        if task.place is not None:
            once_ns = self._progress.once_ns(task.place, found.drain, found.drain)
        one_way = task.goes and not (found.one_by_one or turn.options.disable_eviction)
        by_itself_ns = task.latest_ns
        if (
            one_way
            and by_itself_ns is not None
            and by_itself_ns + once_ns + settled_ns < turn.options.timeout_ns
        ):
            return task._replace(latest_ns=by_itself_ns + once_ns + found.settles_ns, place=None)
        return _asked_until(task, self._asked_until_ns(task.pod, turn))

    def _over_by_ns(self, found: Contest, tasks: Sequence[Task], turn: PlannedTurn) -> int:
        """By when kubectl is through with a node, whatever it waits for then."""
        timeout_ns = turn.options.timeout_ns
        if turn.options.disable_eviction:
            # It deletes all pods, and only then begins to wait.
            begun_ns = (1 + len(tasks)) * takes(Latency.NEXT_DELETE)[1]
            return begun_ns + timeout_ns + takes(Latency.FIRST_POLL)[1]
        # Whom another process surely deletes this one may be refused all the same, and ask for once more.
        sure = turn.known and not found.one_by_one
        asked_for = [
            one
            for one in tasks
            if not self._is_at_once(one, found, turn) and not (sure and one.goes)
        ]
        ends = [
            self._asked_until_ns(one.pod, turn) + one.held_up_ns + RETRY[1] for one in asked_for
        ]
        ends += [self._given_up(pod, found, turn)[1] for pod in found.held]
        if found.one_by_one or turn.strangers:
            ends.append(timeout_ns + _HELD_UP_NS + GRANTED[1] + RETRY[1])
        # A wait for the end of a pod is over on time, unless it has just begun.
        begun = [one.latest_ns or 0 for one in tasks if one not in asked_for]
        ends.append(max([timeout_ns, *begun]) + takes(Latency.FIRST_POLL)[1])
        return max(ends)

    def _asked_until_ns(self, pod: Pod, turn: PlannedTurn) -> int:
        """By when a pod is evicted that is asked for in time, but for its own changes."""
        places = self._requests.asked_of(pod, turn)
        retries_ns = max(map(self._covered.client_retries_ns, places), default=0)
        return turn.options.timeout_ns + self._conflicts_ns(pod, turn) + GRANTED[1] + retries_ns

    def _conflicts_ns(self, pod: Pod, turn: PlannedTurn) -> int:
        """How long a request for the pod can be held up by writes of its budget."""
        if self._requests.is_refused(pod, turn):
            return 0  # before any budget is read
        places = self._requests.asked_of(pod, turn)
        known = not self._requests.may_be_refused_unseen(pod, turn)
        if not known or len(places) != 1 or not self._progress.knows(places[0]):
            return _HELD_UP_NS
        return min(self._progress.conflicts(places[0]) * CONFLICT[1], _HELD_UP_NS)

    def _given_up(self, pod: Pod, found: Contest, turn: PlannedTurn) -> Range:
        """From when to when kubectl gives up a pod that its budget never lets go: at its first try after the time is up."""
        timeout_ns = turn.options.timeout_ns
        [place] = self._requests.asked_of(pod, turn)
        known = self._progress.knows(place) and not self._covered.client_retries_ns(place)
        if not known or found.one_by_one:
            late_ns = self._asked_until_ns(pod, turn) + RETRY[1]
            return timeout_ns, late_ns
        # Who reads that nobody may go is refused at once, whoever writes the budget.
        nothing = Allowance(0, (), None, 0, 0, counts_pods=False)
        return gives_up(nothing, (), timeout_ns)

    def _is_at_once(self, task: Task, found: Contest, turn: PlannedTurn) -> bool:
        """Whether it is evicted before any timeout counts."""
        if turn.options.disable_eviction:
            return True
        if self._requests.is_refused(task.pod, turn):
            return False  # it is asked for again and again
        if self._requests.may_be_refused_unseen(task.pod, turn):
            return False
        asked = (
            self._requests.asked_of(task.pod, turn)
            if task.replacement
            else self._requests.counts(task.pod, turn)
        )
        asked = asked and not task.granted
        return not asked and not found.one_by_one and turn.options.timeout_ns >= TIMEOUT_MIN_NS


def _asked_until(task: Task, asked_ns: int) -> Task:
    return task._replace(latest_ns=asked_ns + task.held_up_ns, place=None, goes=False)
