"""When did a timer that is already running in a snapshot start? A window, never a guess.

Timers are not visible from outside. What is known (spec taint-eviction 11): the taint's timeAdded or the
managedFields time (whole seconds), the pod's creation, the moment the present process became leader
(a restart starts every timer anew); and that the pod is still there, so the timer has not fired.
"""

from __future__ import annotations

from kubectl_evictplan.cluster_state import SECOND_NS
from kubectl_evictplan.controllers.configuration import ControllerConfiguration
from kubectl_evictplan.model.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.model.taints import no_execute_taints
from kubectl_evictplan.model.tolerations import (
    get_matching_tolerations,
    get_min_toleration_time_ns,
)


def timer_start_window(
    node: Node,
    pod: Pod,
    snapshot: ClusterSnapshot,
    now_ns: int,
    configuration: ControllerConfiguration,
) -> tuple[int, int] | None:
    """(earliest, latest) start in epoch nanoseconds; None when the node has no NoExecute taint."""
    taints = no_execute_taints(node.taints)
    if not taints:
        return None
    matched, used = get_matching_tolerations(
        taints, pod.tolerations, comparison_operators=configuration.comparison_operators
    )
    if not matched:
        return now_ns, now_ns
    minimum_ns = get_min_toleration_time_ns([pod.tolerations[index] for index in used])
    if minimum_ns < 0:
        return now_ns, now_ns
    earliest_ns = max(node.creation_timestamp_ns, pod.creation_timestamp_ns)
    latest_ns = now_ns
    # The timer starts with the first finitely tolerated taint and is never moved afterwards.
    finite = [
        taint.time_added_ns if taint.time_added_ns is not None else node.taints_changed_ns
        for taint, index in zip(taints, used, strict=True)
        if pod.tolerations[index].toleration_seconds is not None
    ]
    known = [added_ns for added_ns in finite if added_ns is not None]
    if len(known) == len(finite) and known:
        earliest_ns = max(earliest_ns, min(known))
    leader_ns = snapshot.control_plane.leader_acquire_time_ns
    if leader_ns is not None:
        earliest_ns = max(earliest_ns, leader_ns)
        if len(known) == len(finite) and known:
            # One process since then: the taint or the pod started it, a second of truncation apart.
            latest_ns = min(latest_ns, earliest_ns + 2 * SECOND_NS)
    # The pod is still there, so the timer has not fired yet.
    earliest_ns = max(earliest_ns, now_ns - minimum_ns)
    return min(earliest_ns, now_ns), max(min(latest_ns, now_ns), min(earliest_ns, now_ns))
