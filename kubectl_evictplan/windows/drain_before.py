"""What kubectl finds on a node that another process has surely drained of some pods before."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.windows.drain_instants import NodeDrain
from kubectl_evictplan.windows.drain_plan import DrainPlan, Leaving, PlannedTurn
from kubectl_evictplan.windows.drain_rivals import RowBounds
from kubectl_evictplan.windows.outcome import EvictionKey

# kubectl lists the pods of a node before it begins with it.
_LISTED_NS = SECOND_NS


def deleted_before(
    plan: DrainPlan, rows: Mapping[EvictionKey, RowBounds], begins: Mapping[NodeDrain, int]
) -> dict[NodeDrain, PlannedTurn]:
    """Turns that change because pods are gone, or terminate, when kubectl comes: certain ``rows`` say so.

    ``begins``: before which offset kubectl does not come to each node.
    """
    deleted = {
        (key.pod, key.uid): row for key, row in rows.items() if row.certain and not key.ordinal
    }
    found = {}
    for turn in plan.turns:
        listed_ns = begins[turn.drain] - _LISTED_NS
        before = {
            (pod.key, pod.uid): row
            for pod in turn.pods
            if (row := deleted.get((pod.key, pod.uid))) and row.spans[-1][1] < listed_ns
        }
        if before:
            pods = tuple(pod for pod in turn.pods if (pod.key, pod.uid) not in before)
            leaving = tuple(
                _leaving(pod, row, plan.start_ns)
                for pod in turn.pods
                if (row := before.get((pod.key, pod.uid))) and not _is_gone(row, listed_ns)
            )
            found[turn.drain] = turn._replace(pods=pods, leaving=(*turn.leaving, *leaving))
    return found


def _is_gone(row: RowBounds, by_ns: int) -> bool:
    return row.gone is not None and row.gone.latest_ns is not None and row.gone.latest_ns < by_ns


def _leaving(pod: Pod, row: RowBounds, start_ns: int) -> Leaving:
    """The pod as kubectl finds it, if it is still there."""
    end_ns = row.gone.latest_ns if row.gone is not None else None
    terminating = replace(pod, deletion_timestamp_ns=start_ns + row.spans[-1][1])
    return Leaving(terminating, end_ns, end_ns)
