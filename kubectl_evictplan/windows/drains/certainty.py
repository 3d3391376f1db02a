"""What surely happens in drains although nobody knows when: kubectl asks until it is let through.

Without ``--timeout`` a drain ends in one way only, when every pod is gone. So it is enough that each budget that it asks is open
again and again: in the end it has a disruption, all of its evicted pods are replaced and Ready, and so few are evicted that it
comes to everybody. Who asks at the same time matters not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import DrainEnd
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import DrainPlan, Leaving, PlannedTurn
from kubectl_evictplan.windows.drains.progress import Progress
from kubectl_evictplan.windows.drains.world import Stranger
from kubectl_evictplan.windows.outcome import EvictionKey

_FAILING = (DrainEnd.ERROR, DrainEnd.REFUSED)


class _Fates(NamedTuple):
    """How kubectl gets through with the pods of a node, with guests, and how many of all may keep it there for ever."""

    pods: Sequence[DrainEnd | None]
    guests: Sequence[DrainEnd | None]
    endless: int


class SureDrains:
    """``evicted`` surely are; ``ends`` are nodes with which kubectl is through some day, and how.

    ``exit_codes`` are those of processes that surely exit in one way.
    """

    def __init__(
        self,
        plan: DrainPlan,
        covered: CoveredPods,
        progress: Progress,
    ) -> None:
        self.evicted: set[EvictionKey] = set()
        self.ends: dict[NodeDrain, DrainEnd] = {}
        self.exit_codes: dict[int, int] = {}
        self._covered = covered
        self._progress = progress
        self._found: dict[NodeDrain, _Fates] = {}
        # Nothing else happens to any node or pod, ever.
        if plan.calm_ns >= HORIZON_DEFAULT_MAX_NS:
            for process, turns in enumerate(plan.processes):
                self._follow(process, turns)

    def _follow(self, process: int, turns: Sequence[PlannedTurn]) -> None:
        told = True
        for turn in turns:
            if not turn.listed:
                return
            self.evicted.update(self._surely_evicted(turn))
            end = self._end(turn)
            if end is not None:
                self.ends[turn.drain] = end
            elif self._never_surely_ends(turn):
                return
            else:
                told = False
        if told:
            failed = any(self.ends[turn.drain] in _FAILING for turn in turns)
            self.exit_codes[process] = int(failed)

    def _never_surely_ends(self, turn: PlannedTurn) -> bool:
        """Whether nothing says that it is over some day, one way or the other."""
        return not (turn.options.timeout_ns or turn.refused) and self._end(turn) is None

    def _end(self, turn: PlannedTurn) -> DrainEnd | None:
        """How kubectl gets through with a node to which it comes; None: perhaps not, or in several ways."""
        if turn.refused:
            # Another process may have taken away the reason.
            return DrainEnd.REFUSED if turn.known else None
        if turn.options.timeout_ns:
            nobody = not turn.pods and not turn.may_meet_others
            return DrainEnd.DRAINED if nobody else None
        fates = self._fates(turn)
        met = all(self._is_surely_met(one, turn) for one in turn.strangers)
        if fates.endless or not met or any(end is not DrainEnd.DRAINED for end in fates.guests):
            return None
        return DrainEnd.ERROR if DrainEnd.ERROR in fates.pods else DrainEnd.DRAINED

    def _surely_evicted(self, turn: PlannedTurn) -> Iterator[EvictionKey]:
        """Whoever goes in the end of those that surely are there."""
        if turn.refused or turn.options.timeout_ns or not turn.sole_controller:
            return
        fates = self._fates(turn)
        if _comes_to_all(turn, fates.endless):
            for pod, end in zip(turn.pods, fates.pods, strict=True):
                if end is DrainEnd.DRAINED:
                    yield EvictionKey(pod.key, pod.uid, turn.controller, 0)

    def _fates(self, turn: PlannedTurn) -> _Fates:
        if turn.drain not in self._found:
            self._found[turn.drain] = self._find_fates(turn)
        return self._found[turn.drain]

    def _find_fates(self, turn: PlannedTurn) -> _Fates:
        pods = [self._end_of(pod, turn) for pod in turn.pods]
        guests = [self._end_of(pod, turn) for pod in turn.guests]
        skipped = turn.options.skipped_after_ns is not None
        lasting = [
            not skipped and bool(turn.finalizers.lasting(pod)) for pod in (*turn.pods, *turn.guests)
        ]
        endless = sum(
            end is None or lasts for end, lasts in zip((*pods, *guests), lasting, strict=True)
        )
        endless += sum(not self._ends(one, turn) for one in turn.leaving)
        return _Fates(pods, guests, endless)

    def _ends(self, leaving: Leaving, turn: PlannedTurn) -> bool:
        """Whether kubectl is through some day with a pod that terminates at the start, however often it asks."""
        free = not self._covered.asked_about(leaving.pod)
        free = free and not self._covered.is_refusable(leaving.pod, turn)
        free = free and not self._covered.may_be_refused_unseen(leaving.pod)
        free = free and not self._covered.fails_in_namespace(leaving.pod)
        return leaving.over_ns is not None and free

    def _is_surely_met(self, stranger: Stranger, turn: PlannedTurn) -> bool:
        """Whether kubectl is through some day with such a pod."""
        if stranger.budgets and not turn.options.disable_eviction:
            return False
        ends = (
            not turn.finalizers.lasting(stranger.pod) or turn.options.skipped_after_ns is not None
        )
        return ends and self._end_of(stranger.pod, turn) is DrainEnd.DRAINED

    def _end_of(self, pod: Pod, turn: PlannedTurn) -> DrainEnd | None:
        """How kubectl gets through with a pod, whose object ends some day."""
        if self._covered.is_refusable(pod, turn):
            return None
        if turn.options.disable_eviction:
            return DrainEnd.DRAINED
        if self._covered.is_in_terminating_namespace(pod):
            return None
        if self._covered.may_be_refused_unseen(pod):
            return None
        if self._covered.is_never_asked_about(pod):
            return DrainEnd.DRAINED
        places = self._covered.asked_about(pod)
        if len(places) > 1:
            # A pod that another process evicts first needs no budget.
            sure = turn.known and not self._covered.may_start_late(pod)
            return DrainEnd.ERROR if sure else None
        sure = all(map(self._progress.opens_again, places))
        sure = sure and not any(map(self._covered.may_fail, places))
        return DrainEnd.DRAINED if sure else None


def _comes_to_all(turn: PlannedTurn, endless: int) -> bool:
    """Whether each pod has a place some day, where so many of those that are known may keep theirs for ever.

    So may one that nobody knows.
    """
    places = turn.options.parallel
    return not places or (not turn.strangers and endless < places)
