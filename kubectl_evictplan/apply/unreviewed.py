"""What a NoExecute taint would do to pods that came to a node after its plan was made.

A taint names no pods: whoever is on the node and does not tolerate it goes. So the node's pods are
listed before each one is sent, and only those of the plan may go by it. A pod that comes between
that list and the patch still goes; no precondition of the API keeps it.
"""

from __future__ import annotations

from collections.abc import Collection

from kubectl_evictplan.apply.endings import EndCode, Ended, Ending
from kubectl_evictplan.apply.working import Working
from kubectl_evictplan.kube.objects import NO_EXECUTE, Pod, Taint
from kubectl_evictplan.kube.tolerations import (
    get_matching_tolerations,
    get_min_toleration_time_ns,
)
from kubectl_evictplan.plans.document import AddTaint, AnyOperation


def refuse_unreviewed(run: Working, operation: AnyOperation, known: Collection[str]) -> None:
    """List the node's pods before a NoExecute taint, or a new value of one, is sent.

    ``known``: the UIDs of the plan's pods. Raises Ended (UNREVIEWED), naming every other pod that
    would go by the taint; also when the pods cannot be read.
    """
    if not isinstance(operation, AddTaint) or operation.taint.effect != NO_EXECUTE:
        return
    node = operation.node
    pods = run.read(lambda: run.api.list_pods(node), operation.number, node)
    wanted = operation.taint
    taint = Taint(wanted.key, wanted.effect, wanted.value)
    others = tuple(sorted(pod.key for pod in pods if pod.uid not in known and goes_by(pod, taint)))
    if others:
        ending = Ending(EndCode.UNREVIEWED, operation.number, operation.node, objects=others)
        raise Ended(ending)


def goes_by(pod: Pod, taint: Taint) -> bool:
    """Whether the taint evicts the pod, at once or when its toleration's seconds are over.

    A pod that is being deleted goes anyway. Lt and Gt (alpha) count as not tolerating, as no run can
    read the gates of a controller.
    """
    if pod.deletion_timestamp_ns is not None:
        return False
    met, used = get_matching_tolerations((taint,), pod.tolerations)
    tolerating = [pod.tolerations[index] for index in used]
    return not met or get_min_toleration_time_ns(tolerating) >= 0
