"""When does a timer that is already running in a snapshot end? A window, never a guess.

Timers are not visible from outside. What is known: the taints' timeAdded or the
managedFields time (whole seconds), the pod's creation, the moment the present process became leader
(a restart starts every timer anew); that a timer is never moved once it runs; and that the pod is still
there, so it has not fired.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod, Taint
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.kube.tolerations import get_matching_tolerations, get_min_toleration_time_ns

# API times are whole seconds; handling follows within the next one.
_TRUNCATION_NS = 2 * SECOND_NS


class RunningTimer(msgspec.Struct, frozen=True):
    """Windows (epoch nanoseconds) of a timer's start and end."""

    start_earliest_ns: int
    start_latest_ns: int
    due_earliest_ns: int
    due_latest_ns: int

    def at(self, fraction: float) -> tuple[int, int]:
        """(start, due) at a place in the windows: 0 earliest, 1 latest."""
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
        return RunningTimer(now_ns, now_ns, now_ns, now_ns)
    floor_ns = max(node.creation_timestamp_ns, pod.creation_timestamp_ns)
    leader_ns = snapshot.control_plane.leader_acquire_time_ns
    if leader_ns is not None and leader_ns <= now_ns:
        floor_ns = max(floor_ns, leader_ns)
    added = [taint.time_added_ns or node.taints_changed_ns for taint in taints]
    known = [at_ns for at_ns in added if at_ns is not None]
    if len(known) == len(taints):
        order = sorted(range(len(taints)), key=lambda index: known[index])
        for place in range(1, len(order) + 1):
            present = [taints[index] for index in sorted(order[:place])]
            since_ns = max(known[order[place - 1]], floor_ns)
            later = known[order[place]] if place < len(order) else None
            if later is not None and later <= floor_ns:
                continue  # the process, the node or the pod is younger than this taint as well
            minimum_ns = _minimum_ns(present, pod, configuration)
            if minimum_ns is not None:
                return _window(since_ns, minimum_ns, minimum_ns, now_ns, sure=leader_ns is not None)
    # The order in which the taints came is not known: any of the finite ones may have started it.
    minima = [
        minimum_ns
        for taint in taints
        if (minimum_ns := _minimum_ns([taint], pod, configuration)) is not None
    ]
    return _window(floor_ns, min(minima), max(minima), now_ns, sure=False)


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
    since_ns: int, shortest_ns: int, longest_ns: int, now_ns: int, *, sure: bool
) -> RunningTimer:
    """Windows for a timer that began at ``since_ns`` or, unless ``sure``, at any later restart."""
    # The pod is still there: the timer has not fired yet.
    earliest_ns = min(max(since_ns, now_ns - longest_ns), now_ns)
    latest_ns = min(earliest_ns + _TRUNCATION_NS, now_ns) if sure else now_ns
    return RunningTimer(
        earliest_ns,
        latest_ns,
        max(earliest_ns + shortest_ns, now_ns),
        max(latest_ns + longest_ns, now_ns),
    )
