"""Countdowns that run already at the start of a world, drawn from everything that a cluster may have been through.

A snapshot shows the taints that a node has, and when each was put on last. Others may be gone, and these may have been
there before. So a past is drawn (when the process began, when the pod was bound, which taints came and went) and
lived through by the rules of ``processPodOnNode`` alone: what then runs is what the reality begins with.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.taint_eviction import Decision, TaintEviction
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import NO_EXECUTE, ClusterSnapshot, Node, Pod, Taint
from kubectl_evictplan.kube.tolerations import get_matching_tolerations, get_min_toleration_time_ns
from kubectl_evictplan.simulation import simulate
from kubectl_evictplan.simulation.running_timers import running_timer, seconds_ns
from kubectl_evictplan.windows.older_countdowns import end_of_older_countdown

# Pasts are drawn until one has left the pod where it is.
_TRIES = 24
# From a write until the controller has handled it.
_HANDLED_MAX_NS = SECOND_NS // 10
# From winning the election until every node and pod is known: a few seconds.
_FILLED_MAX_NS = 5 * SECOND_NS
_LONG_AGO_NS = 10_000 * SECOND_NS


class Countdown(NamedTuple):
    """When it began and when it ends, since the epoch."""

    started_ns: int
    due_ns: int

    def at(self, fraction: float | None) -> Countdown:
        """What it is, wherever in a window somebody asks for."""
        return self


class _Stay(NamedTuple):
    """From when to when a taint is on the node; None: it still is."""

    taint: Taint
    since_ns: int
    until_ns: int | None = None

    def holds(self, at_ns: int) -> bool:
        return self.since_ns <= at_ns and (self.until_ns is None or at_ns < self.until_ns)


class DrawnPast:
    """The past of every pod of one reality; asked as ``running_timer`` is."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        # Ends of windows are where all pasts lean to one side.
        self._lean = rng.choice(("early", "late", "any", "any"))
        self._forgets = self._lean != "any" or rng.random() < 0.5

    @contextmanager
    def applied(self) -> Iterator[None]:
        """While this holds, runs begin with these countdowns."""
        manager = simulate.ControllerManager
        adopt_timers = manager._adopt_running_timers

        def adopt(self_: simulate.ControllerManager, eviction: TaintEviction) -> None:
            adopt_timers(self_, eviction)
            for pod, countdown in self._older(self_):
                eviction._queue.adopt(pod.key, countdown.due_ns, (_decision(pod), ()))

        with (
            mock.patch.object(simulate, "running_timer", self.countdown),
            mock.patch.object(manager, "_adopt_running_timers", adopt),
        ):
            yield

    def _older(self, manager: simulate.ControllerManager) -> Iterator[tuple[Pod, Countdown]]:
        """Countdowns that nothing asks for any more: of pods that tolerate for ever all that is left, or whose Node is gone."""
        configuration, snapshot = manager._configuration, manager._snapshot
        nodes, now_ns = {node.name: node for node in snapshot.nodes}, manager._state.now_ns
        for pod in snapshot.pods if self._forgets else ():
            node = nodes.get(pod.node_name)
            if end_of_older_countdown(pod, nodes, snapshot, now_ns, configuration) is None:
                continue
            found = (
                self.countdown(node, pod, snapshot, now_ns, configuration)
                if node is not None
                else self._of_a_gone_node(pod, snapshot, now_ns)
            )
            if isinstance(found, Countdown):
                yield pod, found

    def _of_a_gone_node(self, pod: Pod, snapshot: ClusterSnapshot, now_ns: int) -> Countdown | None:
        runs_ns = self._rng.choice(seconds_ns(pod))
        earliest_ns = max(self._begun_ns(pod, snapshot, now_ns), now_ns - runs_ns + 1)
        if earliest_ns > now_ns:
            return None
        begun_ns = self._between(earliest_ns, now_ns)
        return Countdown(begun_ns, begun_ns + runs_ns)

    def countdown(
        self,
        node: Node,
        pod: Pod,
        snapshot: ClusterSnapshot,
        now_ns: int,
        configuration: ControllerConfiguration,
    ) -> object:
        """What runs for a pod; where no past would have left it there, what the taints tell."""
        taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE]
        if not taints:
            return None
        for _ in range(_TRIES):
            begun_ns = self._begun_ns(pod, snapshot, now_ns)
            stays = [*self._present(node, taints, pod, now_ns)]
            stays += self._gone(pod, stays, begun_ns, now_ns)
            try:
                return _lived(pod, stays, begun_ns, now_ns, configuration)
            except _PodGone:
                continue
        return running_timer(node, pod, snapshot, now_ns, configuration)

    def _between(self, low_ns: int, high_ns: int) -> int:
        if high_ns <= low_ns:
            return high_ns
        return self._rng.choice((low_ns, high_ns, self._rng.randint(low_ns, high_ns)))

    def _begun_ns(self, pod: Pod, snapshot: ClusterSnapshot, now_ns: int) -> int:
        """From when on the process looks at the pod: it knows all of the cluster, and the pod is bound."""
        leader_ns = snapshot.control_plane.leader_acquire_time_ns
        created_ns = _created_ns(pod, now_ns)
        if leader_ns is None or leader_ns > now_ns:
            long_ago = self._lean != "late" and self._rng.random() < 0.6
            process_ns = created_ns if long_ago else self._between(created_ns, now_ns)
        else:
            process_ns = self._between(leader_ns, leader_ns + _FILLED_MAX_NS)
        bound_ns = (
            created_ns + pod.bound_ns - pod.creation_timestamp_ns + self._between(0, SECOND_NS)
        )
        return min(max(process_ns, bound_ns), now_ns)

    def _present(
        self, node: Node, taints: Sequence[Taint], pod: Pod, now_ns: int
    ) -> Iterator[_Stay]:
        for taint in taints:
            told_ns = taint.time_added_ns
            # What lies after the look was written by a wrong clock.
            if told_ns is None or told_ns > now_ns:
                newest_ns = min(node.taints_changed_ns or now_ns, now_ns)
                put_ns = self._between(min(_created_ns(pod, now_ns), newest_ns), newest_ns)
            else:
                put_ns = min(told_ns + self._between(0, SECOND_NS - 1), now_ns)
            handled_ns = self._rng.choice((0, _HANDLED_MAX_NS))
            yield _Stay(taint, min(put_ns + handled_ns, now_ns))

    def _gone(
        self, pod: Pod, present: Sequence[_Stay], begun_ns: int, now_ns: int
    ) -> Iterator[_Stay]:
        """Up to two that the pod has tolerated: others, or the same before they were put on once more."""
        tolerated = [
            Taint(key=each.key or "gone.example.com/it", effect=NO_EXECUTE, value=each.value)
            for each in pod.tolerations
            if each.effect in ("", NO_EXECUTE)
        ]
        first_ns = min(stay.since_ns for stay in present)
        for _ in range(self._rng.choice((0, 1, 1, 2))):
            if not tolerated:
                return
            taint = self._rng.choice(tolerated)
            matched, used = get_matching_tolerations([taint], pod.tolerations)
            runs_ns = get_min_toleration_time_ns([pod.tolerations[index] for index in used])
            not_over_ns = max(begun_ns, now_ns - runs_ns + 1) if runs_ns > 0 else begun_ns
            if not matched or not_over_ns > now_ns:
                continue
            since_ns = self._between(not_over_ns, now_ns)
            if self._lean == "early":
                since_ns = not_over_ns
            elif self._lean == "late":
                since_ns = max(not_over_ns, min(since_ns, first_ns - 1))
            last_ns = max(first_ns, since_ns) + 1
            if last_ns <= now_ns:
                yield _Stay(taint, since_ns, self._between(last_ns, now_ns))


def _created_ns(pod: Pod, now_ns: int) -> int:
    """When the pod was created; long ago where a wrong clock tells."""
    created_ns = pod.creation_timestamp_ns
    return created_ns if created_ns <= now_ns else now_ns - _LONG_AGO_NS


def _decision(pod: Pod) -> Decision:
    """For a taint that is gone."""
    return Decision((), pod.tolerations, False)


class _PodGone(Exception):
    """No pod that has been through this is still there."""


def _lived(
    pod: Pod,
    stays: Sequence[_Stay],
    begun_ns: int,
    now_ns: int,
    configuration: ControllerConfiguration,
) -> Countdown | None:
    """What runs in the end: each time taints come or go they are looked at, all of them together."""
    running: Countdown | None = None
    changes = {at_ns for stay in stays for at_ns in (stay.since_ns, stay.until_ns or begun_ns)}
    for at_ns in sorted({begun_ns, *changes}):
        if not begun_ns <= at_ns <= now_ns:
            continue
        if running is not None and running.due_ns <= at_ns:
            raise _PodGone
        taints = [stay.taint for stay in stays if stay.holds(at_ns)]
        if not taints:
            running = None
            continue
        matched, used = get_matching_tolerations(
            taints, pod.tolerations, comparison_operators=configuration.comparison_operators
        )
        if not matched:
            raise _PodGone
        runs_ns = get_min_toleration_time_ns([pod.tolerations[index] for index in used])
        if runs_ns == 0:
            if running is None:
                raise _PodGone
        elif runs_ns < 0:
            running = None if configuration.profile.cancel_on_infinite else running
        elif running is None:
            running = Countdown(at_ns, at_ns + runs_ns)
    if running is not None and running.due_ns <= now_ns:
        raise _PodGone
    return running
