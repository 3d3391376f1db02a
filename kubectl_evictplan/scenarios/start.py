"""When a scenario may start: never before the instant its cluster was seen."""

from __future__ import annotations

from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.timestamps import format_rfc3339

# A dump is not taken in one instant: nodes, pods and leases are listed one after the other, while
# kubelets go on renewing. A start this little before the newest renewal is still the dump's own.
DUMP_DURATION_MAX_NS = 10_000_000_000


def start_problem(start_ns: int | None, snapshot: ClusterSnapshot) -> str:
    """Return why a scenario cannot start at this instant (epoch), or ""."""
    if start_ns is None:
        return "the zero time is not a start"
    if start_ns < snapshot.taken_at_ns - DUMP_DURATION_MAX_NS:
        taken = format_rfc3339(snapshot.taken_at_ns)
        source = f" ({snapshot.taken_at_source})" if snapshot.taken_at_source else ""
        return f"the start lies before the snapshot was taken, {taken}{source}"
    return ""
