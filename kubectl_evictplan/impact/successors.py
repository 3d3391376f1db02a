"""Who creates a pod anew, and when: the controllers of ReplicaSets, StatefulSets, DaemonSets, Jobs, and nobody.

Upstream: ``manageReplicas`` (pkg/controller/replicaset), ``processReplica`` (pkg/controller/statefulset),
``nodeShouldRunDaemonPod`` (pkg/controller/daemon), ``manageJob`` with ``getRemainingTime`` (pkg/controller/job).
"""

from __future__ import annotations

from collections.abc import Mapping

from kubectl_evictplan.controllers.replication import STATEFUL_SET
from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import NOBODY, Successor, successor_after
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.impact.placements import AT_ONCE, Placement
from kubectl_evictplan.impact.ready_after import Readiness
from kubectl_evictplan.impact.stretches import FOREVER_NS, NEVER, Between, Stretch, first_outside
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Workload

# A Job waits that long after a pod of its failed (``DefaultJobPodFailureBackOff``), and a deleted one counts as failed.
JOB_BACKOFF_NS = 10 * SECOND_NS
# A kubelet makes the image of a static pod anew in its next sync.
_STATIC_POD_SYNC_NS = 20 * SECOND_NS
AT_DELETION = frozenset({"ReplicaSet", "ReplicationController"})
# "Pod" and "Node" stand for bare and static pods.
KNOWN_OWNERS = AT_DELETION | {STATEFUL_SET, "DaemonSet", "Job", "Pod", "Node"}


def begins(kind: str, deletion: Deletion, life: NodeLife, workload: Workload | None) -> Between:
    """From when on the owner creates a successor; NEVER: it does not. StatefulSets: the name is free.

    ``kind`` is that of the managing owner, "" for a bare pod.
    """
    if kind in AT_DELETION:
        return deletion.when
    if kind == STATEFUL_SET:
        return deletion.gone
    if kind == "Job":
        return _job(deletion, workload)
    if kind == "DaemonSet":
        return _daemon_set(deletion, life)
    if kind == "Node":
        silence = life.silent_at(deletion.when.earliest_ns)
        since = deletion.gone if silence is None else silence.until
        return since.later(0, _STATIC_POD_SYNC_NS)
    if not kind:
        return NEVER
    # An operator of its own: whether and when it acts is not known.
    return Between(deletion.when.earliest_ns, FOREVER_NS)


def _job(deletion: Deletion, workload: Workload | None) -> Between:
    waits = workload is not None and workload.replaces_failed_pods_only
    if workload is not None and workload.pod_failure_policy:
        # What its rules make of the failure is not evaluated; with rules the default is to wait for the end.
        return Between(
            deletion.gone.earliest_ns if waits else deletion.when.earliest_ns, FOREVER_NS
        )
    if workload is not None and workload.backoff_limit == 0:
        return NEVER
    since = deletion.gone if waits else deletion.when
    # How often the Job has failed before is not known here; the back-off doubles each time.
    return since.later(0, JOB_BACKOFF_NS)


def _daemon_set(deletion: Deletion, life: NodeLife) -> Between:
    if not life.deleted.never:
        return NEVER
    if not deletion.taint:
        return deletion.gone
    for removed in life.untainted.get(deletion.taint, ()):
        if removed.latest_ns >= deletion.when.earliest_ns:
            gone = deletion.gone
            earliest_ns = max(removed.earliest_ns, gone.earliest_ns)
            return Between(earliest_ns, max(removed.latest_ns, gone.latest_ns))
    return NEVER


def successor(
    since: Between,
    readiness: Readiness,
    place: Placement = AT_ONCE,
    ready_not_before: Between | None = None,
) -> Successor:
    """What takes a pod's place when its owner acts from ``since`` on. ``place``: when it finds a node."""
    if since.never:
        return NOBODY
    return successor_after(since, readiness, place, ready_not_before=ready_not_before)


def in_order(
    free: Between, lower: Mapping[str, tuple[tuple[Stretch, ...], tuple[Stretch, ...]]]
) -> Between:
    """When an OrderedReady StatefulSet creates a pod whose name is free: all lower ordinals are Ready then.

    ``lower``: of each lower pod, when it is possibly and when it is surely not Ready.
    """
    if free.never:
        return NEVER
    earliest_ns, latest_ns = free
    moved = True
    while moved:
        before = earliest_ns, latest_ns
        for possible, sure in lower.values():
            earliest_ns = first_outside(earliest_ns, sure)
            latest_ns = first_outside(latest_ns, possible)
        moved = (earliest_ns, latest_ns) != before and latest_ns < FOREVER_NS
    return Between(earliest_ns, latest_ns)
