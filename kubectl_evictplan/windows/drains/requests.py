"""What the Eviction API may answer when kubectl asks for one pod of a node: which budgets it asks, and whether that can be an error."""

from __future__ import annotations

from collections.abc import Sequence

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drains.covered import CoveredPods
from kubectl_evictplan.windows.drains.planned import PlannedTurn
from kubectl_evictplan.windows.drains.progress import Progress


class Requests:
    """Of all pods of all nodes; with ``--disable-eviction`` nobody is asked."""

    def __init__(self, covered: CoveredPods, progress: Progress) -> None:
        self._covered = covered
        self._progress = progress

    def may_pass(self, pod: Pod, turn: PlannedTurn) -> bool:
        """Whether a pod under several budgets may go unasked: it is Pending still, or somebody has deleted it meanwhile."""
        if self.is_refused(pod, turn) or self.may_be_refused_unseen(pod, turn):
            # Somebody else may have deleted it before kubectl comes.
            return True
        if not self._covered.is_unasked_at_times(pod):
            return False
        late = pod in turn.guests or self._covered.may_start_late(pod)
        return late or not turn.sole_controller

    def refusing(self, pod: Pod, turn: PlannedTurn) -> tuple[str, ...]:
        """The budgets, as "namespace/name", that may refuse it."""
        places = self.asked_of(pod, turn)
        changes = bool(places) and self.is_refused_if_changed(pod, turn)
        if not (changes or self.counts(pod, turn)):
            return ()
        if len(places) == 1 and (asking := self._progress.asking(places[0])) is not None:
            return self._covered.names(places if asking.refuses or changes else ())
        return self._covered.names(places)

    def is_refused_if_changed(self, pod: Pod, turn: PlannedTurn) -> bool:
        """As ``CoveredPods.is_refused_if_changed``, if it is evicted at all and not deleted."""
        evicts = not turn.options.disable_eviction
        return evicts and self._covered.is_refused_if_changed(pod, alone=turn.known)

    def counts(self, pod: Pod, turn: PlannedTurn) -> bool:
        """Whether a pod that is there at the start may need a disruption."""
        places = self.asked_of(pod, turn)
        return len(places) > 1 or any(not self._covered.lets_go(place, pod) for place in places)

    def is_an_error(self, pod: Pod, turn: PlannedTurn) -> bool:
        """Whether the Eviction API answers with an error that kubectl does not repeat."""
        fails = self.is_refused(pod, turn) and self._covered.fails_in_namespace(pod)
        return fails or len(self.asked_of(pod, turn)) > 1

    def is_refused(self, pod: Pod, turn: PlannedTurn) -> bool:
        """Whether kubectl does not evict it: its namespace is Terminating."""
        evicts = not turn.options.disable_eviction
        return evicts and self._covered.is_in_terminating_namespace(pod)

    def may_be_refused_unseen(self, pod: Pod, turn: PlannedTurn) -> bool:
        """As ``CoveredPods.may_be_refused_unseen``, if it is evicted at all and not deleted."""
        return not turn.options.disable_eviction and self._covered.may_be_refused_unseen(pod)

    def may_fail_unseen(self, pod: Pod, turn: PlannedTurn) -> bool:
        """As ``CoveredPods.may_fail_unseen``, if it is evicted at all and not deleted."""
        return not turn.options.disable_eviction and self._covered.may_fail_unseen(pod)

    def may_fail(self, pod: Pod, turn: PlannedTurn) -> bool:
        """Whether the status of its budget may be an error until it is written anew."""
        return any(map(self._covered.may_fail, self.asked_of(pod, turn)))

    def asked_of(self, pod: Pod, turn: PlannedTurn) -> Sequence[int]:
        """Places of the budgets that may be asked about it."""
        if turn.options.disable_eviction:
            return ()
        return self._covered.asked_about(pod)
