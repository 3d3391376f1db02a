"""When does a timer that is already running in a snapshot end? A window, never a guess.

Timers are not visible from outside. What is known: the taints' timeAdded or the
managedFields time (whole seconds), the pod's creation and by when it was bound to its node, the moment
the present process became leader (a restart starts every timer anew, once its process knows the cluster);
that a timer is never moved once it runs; and that the pod is still there, so it has not fired.

The taints tell when a timer ran at the latest. It may have begun before: for a taint that is gone (a node that
was not ready and fell silent then changes not-ready for unreachable, and its countdowns go on), or for one that was put
on once more, which refreshes timeAdded. So it may also run for the seconds of any toleration of the pod. Or after: where it should be
over by all that is told the pod has got its tolerations, or other seconds, since then, or its delete has failed: nobody knows when it ends, or whether.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.timing import INFORMERS_FILLED_MAX_NS
from kubectl_evictplan.kube.durations import DURATION_MAX_NS, SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod, Taint
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.kube.tolerations import get_matching_tolerations, get_min_toleration_time_ns

# API times are whole seconds; handling follows within the next one.
_TRUNCATION_NS = 2 * SECOND_NS


class RunningTimer(msgspec.Struct, frozen=True):
    """Windows (epoch nanoseconds) of a timer's start and end, and where the taints tell both."""

    start_earliest_ns: int
    start_latest_ns: int
    due_earliest_ns: int
    due_latest_ns: int
    told_start_ns: int
    told_due_ns: int

    def due_within(self, start_ns: int) -> tuple[int, int]:
        """When it ends, as offsets from the start of a scenario."""
        return self.due_earliest_ns - start_ns, self.due_latest_ns - start_ns

    def at(self, fraction: float | None) -> tuple[int, int]:
        """(start, due) at a place in the windows: 0 earliest, 1 latest; None: as the taints tell."""
        if fraction is None:
            return self.told_start_ns, self.told_due_ns
        start_ns = self.start_latest_ns - self.start_earliest_ns
        due_ns = self.due_latest_ns - self.due_earliest_ns
        return (
            self.start_earliest_ns + int(start_ns * fraction),
            self.due_earliest_ns + int(due_ns * fraction),
        )


def running_timer(
    node: Node,
    pod: Pod,
    snapshot: ClusterSnapshot,
    now_ns: int,
    configuration: ControllerConfiguration,
) -> RunningTimer | None:
    """The pod's timer at a warm start; None when its node has no NoExecute taint.

    For a pod that would be deleted at once, or is tolerated forever, the windows are just "now".
    """
    taints = no_execute_taints(node.taints)
    if not taints:
        return None
    if _minimum_ns(taints, pod, configuration) is None:
        return RunningTimer(*[now_ns] * 6)
    floor_ns, leader_ns = started_earliest_ns(pod, snapshot, now_ns), _leader_ns(snapshot, now_ns)
    # Its process looks at nothing before it knows all of the cluster.
    filled_ns = now_ns if leader_ns is None else leader_ns + INFORMERS_FILLED_MAX_NS
    # A kubelet may have told of the binding only later (a pod that nobody scheduled).
    begun_ns, several_ns = max(floor_ns, pod.bound_ns), seconds_ns(pod)
    added = [_told_ns(taint, node, now_ns) for taint in taints]
    known = [at_ns for at_ns in added if at_ns is not None]
    if len(known) == len(taints):
        order = sorted(range(len(taints)), key=lambda index: known[index])
        for place in range(1, len(order) + 1):
            present = [taints[index] for index in sorted(order[:place])]
            since_ns = max(known[order[place - 1]], begun_ns)
            later = known[order[place]] if place < len(order) else None
            if later is not None and later <= begun_ns:
                continue  # the process, the node or the pod is younger than this taint as well
            minimum_ns = _minimum_ns(present, pod, configuration)
            if minimum_ns is not None:
                latest_ns = max(since_ns + _TRUNCATION_NS, filled_ns)
                return _window(floor_ns, (since_ns, latest_ns), (minimum_ns, *several_ns), now_ns)
    # The order in which the taints came is not known: any of the finite ones may have started it.
    minima = [
        minimum_ns
        for taint in taints
        if (minimum_ns := _minimum_ns([taint], pod, configuration)) is not None
    ]
    return _window(floor_ns, (floor_ns, now_ns), (min(minima), *minima, *several_ns), now_ns)


def runs_out_within(
    node: Node,
    pod: Pod,
    snapshot: ClusterSnapshot,
    start_ns: int,
    configuration: ControllerConfiguration,
) -> tuple[int, int] | None:
    """When the timer ends that runs at the start, as offsets; None where none runs.

    One that must have ended before the start, or that no taint asks for, does not.
    """
    timer = running_timer(node, pod, snapshot, start_ns, configuration)
    if timer is None or timer.due_latest_ns <= start_ns + 1:
        return None
    return timer.due_within(start_ns)


def started_earliest_ns(pod: Pod, snapshot: ClusterSnapshot, now_ns: int) -> int:
    """Before that instant no countdown of the pod began that runs now."""
    # Where the pod is older than its node, the Node was made anew: with a taint it leaves the timers alone.
    leader_ns = _leader_ns(snapshot, now_ns)
    floor_ns = pod.creation_timestamp_ns
    if floor_ns > now_ns:
        floor_ns = 0  # by a clock that is ahead, nobody knows by how much
    return floor_ns if leader_ns is None else max(floor_ns, leader_ns)


def _told_ns(taint: Taint, node: Node, now_ns: int) -> int | None:
    """When the taint came, or the newest change of any; None where nobody tells, or only by a clock that is ahead."""
    added = (taint.time_added_ns, node.taints_changed_ns)
    return next((at_ns for at_ns in added if at_ns is not None and at_ns <= now_ns), None)


def _leader_ns(snapshot: ClusterSnapshot, now_ns: int) -> int | None:
    """When the process that runs now became leader, where the snapshot tells."""
    leader_ns = snapshot.control_plane.leader_acquire_time_ns
    return leader_ns if leader_ns is not None and leader_ns <= now_ns else None


def seconds_ns(pod: Pod) -> list[int]:
    """For how long its tolerations let a timer run: whichever taint it was for, nobody may know of it any more."""
    each = (get_min_toleration_time_ns([one]) for one in pod.tolerations)
    return [runs_ns for runs_ns in each if runs_ns > 0]


def _minimum_ns(
    taints: Sequence[Taint], pod: Pod, configuration: ControllerConfiguration
) -> int | None:
    """Finite toleration time of the pod for these taints; None when not met, or forever."""
    matched, used = get_matching_tolerations(
        taints, pod.tolerations, comparison_operators=configuration.comparison_operators
    )
    if not matched:
        return None
    minimum_ns = get_min_toleration_time_ns([pod.tolerations[index] for index in used])
    return minimum_ns if minimum_ns >= 0 else None


def _window(
    floor_ns: int, told_ns: tuple[int, int], runs_ns: Sequence[int], now_ns: int
) -> RunningTimer:
    """Of a timer that began at ``floor_ns`` or later, and has not fired yet.

    The taints tell that it began in ``told_ns`` at the latest, and runs for the first of ``runs_ns``; it may run for any.
    """
    shortest_ns, longest_ns = min(runs_ns), max(runs_ns)
    earliest_ns = min(max(floor_ns, now_ns - longest_ns), now_ns)
    latest_ns = max(earliest_ns, min(told_ns[1], now_ns))
    due_latest_ns = latest_ns + longest_ns
    if told_ns[1] + longest_ns < now_ns:
        # The pod should be gone and is not. A timer runs on with the seconds that it had.
        latest_ns, due_latest_ns = now_ns, now_ns + DURATION_MAX_NS
    told_start_ns = min(max(told_ns[0], now_ns - runs_ns[0]), now_ns)
    return RunningTimer(
        earliest_ns,
        latest_ns,
        max(floor_ns + shortest_ns, now_ns + 1),
        max(due_latest_ns, now_ns + 1),
        told_start_ns,
        max(told_start_ns + runs_ns[0], now_ns + 1),
    )
