"""When a scenario may start: not before its cluster was seen, nor near the end of the calendar."""

from __future__ import annotations

from kubectl_evictplan.kube.durations import DURATION_MAX_NS, SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.kube.timestamps import LAST_INSTANT_NS, format_rfc3339

# A dump is not taken in one instant: nodes, pods and leases are listed one after the other, while
# kubelets go on renewing. A start this little before the newest renewal is still the dump's own.
DUMP_DURATION_MAX_NS = 10 * SECOND_NS
# From here every offset that can be asked for lies before the year 10000, which no text can name.
LATEST_START_NS = LAST_INSTANT_NS - DURATION_MAX_NS


def start_problem(start_ns: int, snapshot: ClusterSnapshot) -> str:
    """Return why a scenario cannot start at this instant (epoch), or ""."""
    if start_ns < snapshot.taken_at_ns - DUMP_DURATION_MAX_NS:
        taken = format_rfc3339(snapshot.taken_at_ns)
        source = f" ({snapshot.taken_at_source})" if snapshot.taken_at_source else ""
        return f"the start lies before the snapshot was taken, {taken}{source}"
    if start_ns > LATEST_START_NS:
        latest = format_rfc3339(LATEST_START_NS // SECOND_NS * SECOND_NS)
        return f"the start is too near the end of the year 9999; the latest is {latest}"
    return ""
