"""Who may be refused on a node of which nobody knows who is let through first, and what becomes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kubectl_evictplan.windows.drains.certainty import SureDrains
from kubectl_evictplan.windows.drains.contests import Priced
from kubectl_evictplan.windows.drains.delays import ARRIVAL, FIRST_REFUSED_NS
from kubectl_evictplan.windows.drains.instants import Within
from kubectl_evictplan.windows.drains.planned import PlannedTurn
from kubectl_evictplan.windows.drains.requests import Requests
from kubectl_evictplan.windows.drains.tasks import Contest
from kubectl_evictplan.windows.drains.waits import EVICTED, FAILED, NEVER, TIMED_OUT, Wait, WaitKey


class ContestWaits:
    """Of all nodes; ``never_wait`` are (pod, uid) of those that are surely let go at once."""

    def __init__(
        self, requests: Requests, sure: SureDrains, never_wait: Collection[tuple[str, str]]
    ) -> None:
        self._requests = requests
        self._sure = sure
        self._never_wait = never_wait

    def comes_to(self, turn: PlannedTurn, priced: Priced) -> bool:
        """Whether kubectl surely begins with the node some day: it is through with all before it."""
        return priced.start_ns is not None or turn.drain in self._sure.ends

    def of(
        self, turn: PlannedTurn, low_ns: int, contest: Contest, priced: Priced
    ) -> Iterator[tuple[WaitKey, Wait]]:
        """Who may be refused; those of several budgets are, once and for all."""
        since_ns = low_ns + ARRIVAL[0]
        process, timeout = turn.drain.process, turn.options.timeout_ns > 0
        by_ns = None if priced.start_ns is None else priced.start_ns + FIRST_REFUSED_NS
        if contest.one_by_one:
            by_ns = priced.end_ns
        for task, latest_ns in zip(contest.tasks, priced.latest_ns, strict=True):
            budgets = () if task.replacement else self._requests.refusing(task.pod, turn)
            waits = not task.replacement and task.pod not in contest.failing
            refused = self._requests.is_refused(task.pod, turn)
            refused = refused and task.pod.deletion_timestamp_ns is None
            granted = task.granted and not self._requests.is_refused_if_changed(task.pod, turn)
            waits = waits and not granted and (bool(budgets) or refused)
            if waits and (task.pod.key, task.pod.uid) not in self._never_wait:
                # Nobody gives up whom he surely evicts.
                gives_up = timeout and not (task.goes and turn.known)
                ends = {EVICTED, TIMED_OUT} if gives_up else {EVICTED}
                unseen = self._requests.may_fail_unseen(task.pod, turn)
                if unseen or self._requests.may_fail(task.pod, turn):
                    ends.add(FAILED)
                until = Within(since_ns, priced.end_ns if gives_up else latest_ns)
                if until.latest_ns is None:
                    ends.add(NEVER)
                key = WaitKey(process, task.pod.key, task.pod.uid, budgets)
                yield key, Wait(since_ns, until, frozenset(ends), certain=False)
        for pod in contest.held:
            budgets = self._requests.refusing(pod, turn)
            tries = Within(low_ns + contest.earliest_ns, priced.end_ns)
            sure = self.comes_to(turn, priced) and not contest.one_by_one
            yield (
                WaitKey(process, pod.key, pod.uid, budgets),
                Wait(
                    since_ns,
                    tries if timeout else None,
                    frozenset((TIMED_OUT if timeout else NEVER,)),
                    certain=sure,
                    by_ns=by_ns,
                ),
            )
        for pod in contest.failing:
            budgets = self._requests.refusing(pod, turn)
            sure = turn.known and not (timeout and contest.one_by_one)
            sure = sure and not self._requests.may_pass(pod, turn)
            sure = sure and self.comes_to(turn, priced)
            if contest.one_by_one and turn.drain not in self._sure.ends:
                # Those before it may never leave their places.
                sure = sure and contest.until_ns is not None
            until = Within(since_ns, priced.end_ns)
            wait = Wait(since_ns, until, frozenset((FAILED,)), certain=sure, by_ns=by_ns)
            yield WaitKey(process, pod.key, pod.uid, budgets), wait
        for leaving in turn.leaving:
            if self._requests.is_an_error(leaving.pod, turn):
                # If it is still there.
                budgets = self._requests.refusing(leaving.pod, turn)
                until = Within(since_ns, priced.end_ns)
                wait = Wait(since_ns, until, frozenset((FAILED,)), certain=False)
                yield WaitKey(process, leaving.pod.key, leaving.pod.uid, budgets), wait
