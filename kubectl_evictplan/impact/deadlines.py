"""Pods that end at their own activeDeadlineSeconds while something else happens to them.

Upstream: ``pastActiveDeadline`` (pkg/kubelet): the kubelet ends the containers, and the pod is Failed. Its owner makes
another by rules that look at more than we know (a Job counts it as failed), so nothing is promised from then on.
"""

from __future__ import annotations

from kubectl_evictplan.impact.fates import Fate
from kubectl_evictplan.impact.stretches import (
    FOREVER_NS,
    NEVER,
    Between,
    absence,
    first_of,
    together,
)


def end_at_deadlines(fates: dict[str, Fate], start_ns: int) -> None:
    """Let these pods be perhaps away from their deadlines on, unless they surely go before."""
    for key, fate in fates.items():
        deadline_ns, deletion = fate.pod.deadline_ns, fate.deletion
        if deadline_ns is None or not fate.counted:
            continue
        ends = Between(max(deadline_ns - start_ns, 0), FOREVER_NS)
        if deletion is not None and deletion.certain and deletion.when.latest_ns <= ends[0]:
            continue
        gone = absence(ends, NEVER, certain=False)
        fates[key] = fate._replace(
            away=together(fate.away, gone),
            dead=together(fate.dead, gone),
            leaves=first_of(fate.leaves, ends),
        )
