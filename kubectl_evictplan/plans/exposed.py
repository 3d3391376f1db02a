"""Nodes that may be given, before their own NoExecute taint, replacements of pods that the plan evicts elsewhere; pure.

Nobody reviews what happens to such a replacement, so a run ends at that taint rather than evict it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubectl_evictplan.plans.document import AddTaint, Cordon, Evict, Plan, Uncordon

# Changes that are planned for one instant are made one after the other: so much later is the last one, perhaps.
ONE_AFTER_ANOTHER_SECONDS = 5.0
_NO_EXECUTE = "NoExecute"
# Bare pods are not replaced, those of a DaemonSet not elsewhere.
_STAYS = ("", "DaemonSet")


class Exposed(NamedTuple):
    """A node, and how many pods of the plan's other nodes may have been evicted before its taint."""

    node: str
    pods: int


def exposed_nodes(plan: Plan) -> Iterator[Exposed]:
    """Yield those nodes in the order of the plan; what keeps replacements off is a cordon that comes first."""
    is_open = {node.name: not node.unschedulable for node in plan.nodes}
    begun: set[str] = set()
    for one in plan.operations:
        if isinstance(one, Cordon | Uncordon):
            is_open[one.node] = isinstance(one, Uncordon)
        elif isinstance(one, Evict):
            begun.add(one.node)
        elif isinstance(one, AddTaint) and one.taint.effect == _NO_EXECUTE:
            latest_seconds = one.at_seconds + ONE_AFTER_ANOTHER_SECONDS
            pods = {
                row.key
                for row in plan.prediction.evictions
                if row.node in begun - {one.node}
                and row.owner.partition("/")[0] not in _STAYS
                and row.earliest_seconds <= latest_seconds
            }
            if pods and is_open[one.node]:
                yield Exposed(one.node, len(pods))
            begun.add(one.node)
            # From here on it refuses those that it evicts.
            is_open[one.node] = False
