"""Who creates a pod anew, and when: the controllers of ReplicaSets, StatefulSets, DaemonSets, Jobs, and nobody.

And how long the new one takes to be Ready.

Upstream: ``manageReplicas`` (pkg/controller/replicaset), ``processReplica`` (pkg/controller/statefulset),
``nodeShouldRunDaemonPod`` (pkg/controller/daemon), ``manageJob`` with ``getRemainingTime`` and ``matchPodFailurePolicy``
(pkg/controller/job).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from kubectl_evictplan.cluster.readiness import learnt
from kubectl_evictplan.cluster.timeline import EVICTION_API, POD_GC, TAINT_EVICTION
from kubectl_evictplan.controllers.replication import STATEFUL_SET
from kubectl_evictplan.engine.drain_timing import AssumeReady
from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import (
    NOBODY,
    Readiness,
    Successor,
    going_together,
    successor_after,
)
from kubectl_evictplan.impact.node_lives import NodeLife
from kubectl_evictplan.impact.placements import AT_ONCE, RETRY_MAX_NS, Placement
from kubectl_evictplan.impact.stretches import (
    FOREVER_NS,
    NEVER,
    Absence,
    Between,
    Stretch,
    first_outside,
    last_of,
    union,
)
from kubectl_evictplan.kube.durations import MINUTE_NS, SECOND_NS
from kubectl_evictplan.kube.jobs import BACKOFF_LIMIT_DEFAULT
from kubectl_evictplan.kube.objects import Pod, Workload
from kubectl_evictplan.kube.owners import (
    AT_ONCE_READY,
    OwnerKey,
    ready_since_ns,
)

# A Job waits that long after a pod of its failed (``DefaultJobPodFailureBackOff``), and a deleted one counts as failed.
JOB_BACKOFF_NS = 10 * SECOND_NS
_JOB_BACKOFF_MAX_NS = 10 * MINUTE_NS
# They set the condition DisruptionTarget before they delete (1.26 and later by default).
_MARKED_BY = frozenset((TAINT_EVICTION, EVICTION_API, POD_GC))
_UNKNOWN = ""
# A kubelet makes the image of a static pod anew in its next sync.
_STATIC_POD_SYNC_NS = 20 * SECOND_NS
AT_DELETION = frozenset({"ReplicaSet", "ReplicationController"})
# "Pod" and "Node" stand for bare and static pods.
KNOWN_OWNERS = AT_DELETION | {STATEFUL_SET, "DaemonSet", "Job", "Pod", "Node"}


# Where it is from how long a replacement takes to be Ready.
GIVEN, LEARNT, DEFAULT = "given", "learnt", "default"


class Assumed(msgspec.Struct, frozen=True):
    """What to assume of replacements; ``given``: somebody said so, and the pods' own history does not count."""

    ready: AssumeReady
    given: bool


class ReplacementTimes:
    """Of each owner, found out once."""

    def __init__(self, assumed: Assumed) -> None:
        low_ns, high_ns = assumed.ready
        most_ns = FOREVER_NS if high_ns is None else high_ns
        self._given = assumed.given
        self._default = Readiness(low_ns, most_ns, GIVEN if assumed.given else DEFAULT)
        self._known: dict[OwnerKey, Readiness] = {}

    def of(self, owner: OwnerKey, by_owner: Mapping[OwnerKey, Sequence[Pod]]) -> Readiness:
        """How long a replacement of that owner takes to be Ready; learnt from its pods, where that is allowed."""
        known = self._known.get(owner)
        if known is None:
            known = self._known[owner] = self._find(by_owner.get(owner, ()))
        return known

    def _find(self, pods: Sequence[Pod]) -> Readiness:
        if not self._given and (found := learnt(pods)) is not None:
            return Readiness(found.least_ns, found.most_ns, LEARNT, found.samples)
        return self._default


def begins(
    kind: str,
    deletion: Deletion,
    life: NodeLife,
    workload: Workload | None,
    lost: Sequence[Lost] = (),
    *,
    returns: bool = False,
) -> Between:
    """From when on the owner creates a successor; NEVER: it does not. StatefulSets: the name is free.

    ``kind`` is that of the managing owner, "" for a bare pod. ``lost``: of a Job, which pods it loses, this one first.
    ``returns``: to its node, whose taint it tolerates for a while.
    """
    if kind in AT_DELETION:
        return deletion.when
    if kind == "StatefulSet":
        return deletion.gone
    if kind == "Job":
        return _job(deletion, workload, lost)
    if kind == "DaemonSet":
        surges = workload is not None and workload.surges
        return _daemon_set(deletion, life, returns=returns, surges=surges)
    if kind == "Node":
        silence = life.silent_at(deletion.when.earliest_ns)
        since = deletion.gone if silence is None else silence.until
        return since.later(0, _STATIC_POD_SYNC_NS)
    if not kind:
        return NEVER
    # An operator of its own: whether and when it acts is not known.
    return Between(deletion.when.earliest_ns, FOREVER_NS)


def _job(deletion: Deletion, workload: Workload | None, lost: Sequence[Lost]) -> Between:
    if workload is None or workload.managed_elsewhere:
        # How often the Job has failed before, and what it, or the controller it names, does about it, is not known.
        return Between(deletion.when.earliest_ns, FOREVER_NS)
    if workload.makes_no_more:
        return NEVER
    since = deletion.gone if workload.replaces_failed_pods_only else deletion.when
    if workload.pod_failure_policy and not workload.replaces_failed_pods_only:
        # With rules the default is to wait for the end; whoever wrote the policy may have said otherwise.
        since = Between(deletion.when.earliest_ns, deletion.gone.latest_ns)
    comes = job_replaces(workload, lost, deletion)
    if comes is Comes.NEVER:
        return NEVER
    by_index = workload.backoff_limit_per_index is not None and bool(lost)
    failures = (workload.failed or 0) + max(len(lost), 1)
    if by_index:
        pod = lost[0].pod
        failures = pod.index_failures + pod.index_failures_ignored + 1
    doubled_ns = min(JOB_BACKOFF_NS << min(failures - 1, 10), _JOB_BACKOFF_MAX_NS)
    when = since.later(0, doubled_ns)
    # Each further failure begins the back-off anew, for all that wait; each index waits for itself.
    for other in sorted(
        (one.deletion for one in lost[: 1 if by_index else None]), key=lambda one: one.when
    ):
        if other.when.earliest_ns <= when.latest_ns:
            last = other.gone if workload.replaces_failed_pods_only else other.when
            when = Between(when.earliest_ns, max(when.latest_ns, last.later(0, doubled_ns)[1]))
    return when if comes is Comes.SURELY else when._replace(latest_ns=FOREVER_NS)


class Comes(Enum):
    """Whether a Job replaces a lost pod."""

    SURELY = "surely"
    PERHAPS = "perhaps"
    NEVER = "never"


class Lost(msgspec.Struct, frozen=True):
    """A pod that a Job loses, and how."""

    pod: Pod
    deletion: Deletion


def lost_pods(
    pods: Iterable[Pod],
    deletions: Mapping[str, Deletion],
    surplus: Collection[str],
    first: Pod | None = None,
) -> list[Lost]:
    """Which of a Job's pods are deleted, ``first`` before the others; ``surplus``: keys of those that do not count."""
    return [
        Lost(pod, found)
        for pod in sorted(pods, key=lambda pod: pod is not first)
        if (found := deletions.get(pod.key)) is not None
        if pod is first or pod.key not in surplus
    ]


def job_replaces(workload: Workload, lost: Sequence[Lost], deletion: Deletion) -> Comes:
    """Whether the Job goes on after it has lost these pods, by its policy and its limits."""
    action = failure_action(workload, deletion)
    if action == "Ignore":
        return Comes.SURELY
    if action == "FailJob":
        return Comes.NEVER
    if workload.backoff_limit_per_index is not None:
        return _index_replaces(workload, lost, action)
    limit = BACKOFF_LIMIT_DEFAULT if workload.backoff_limit is None else workload.backoff_limit
    if (workload.failed or 0) + max(len(lost), 1) <= limit and action != _UNKNOWN:
        return Comes.PERHAPS if workload.failed is None else Comes.SURELY
    # One pod more than the limit ends the Job; with several it is not certain that all of them go.
    over = (workload.failed or 0) + 1 > limit and deletion.certain and action == "Count"
    return Comes.NEVER if over else Comes.PERHAPS


def _index_replaces(workload: Workload, lost: Sequence[Lost], action: str) -> Comes:
    """``isIndexFailed``: each index has its own limit; one that has reached it is not tried again."""
    limit = workload.backoff_limit_per_index
    failing = [one for one in lost if limit is not None and one.pod.index_failures >= limit]
    if action == "FailIndex" or (failing and failing[0] is lost[0]):
        return Comes.PERHAPS if action == _UNKNOWN else Comes.NEVER
    if action == _UNKNOWN or not lost:
        return Comes.PERHAPS
    # With too many indexes that have failed, or too many failures at all, the whole Job ends.
    most = workload.failed_indexes + len(failing)
    if workload.max_failed_indexes is not None and failing and most > workload.max_failed_indexes:
        return Comes.PERHAPS
    over = (
        workload.backoff_limit is not None
        and (workload.failed or 0) + len(lost) > workload.backoff_limit
    )
    return Comes.PERHAPS if over or workload.failed is None else Comes.SURELY


def failure_action(workload: Workload, deletion: Deletion) -> str:
    """What the first rule that meets the lost pod does, ``Count`` where none does."""
    for rule in workload.failure_rules:
        if rule.on == "disruption":
            if set(deletion.by) <= _MARKED_BY:
                return rule.action
            return _UNKNOWN
        # How its containers end, and what other conditions it has, is not known.
        return _UNKNOWN
    return _UNKNOWN if workload.pod_failure_policy and not workload.failure_rules else "Count"


def _daemon_set(deletion: Deletion, life: NodeLife, *, returns: bool, surges: bool) -> Between:
    """``returns``: it surely does as soon as the old one is gone; ``surges``: it may do so before (``podsShouldBeOnNode``)."""
    if not life.deleted.never:
        return NEVER
    gone = deletion.gone
    if surges:
        # Made at once, it may wait for the room of the old one.
        gone = Between(deletion.when.earliest_ns, gone.later(0, RETRY_MAX_NS).latest_ns)
    if returns or not deletion.taint:
        return gone
    untainted = life.untainted.get(deletion.taint, ())
    removed = next((one for one in untainted if one.latest_ns >= deletion.when.earliest_ns), NEVER)
    if deletion.tolerated_seconds is not None:
        # Another taint keeps it away, nobody says here until when.
        removed = removed._replace(earliest_ns=gone.earliest_ns)
    return last_of(removed, gone) if not removed.never else NEVER


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


def not_available(pod: Pod, away: Absence, within: tuple[int, int], start_ns: int) -> Absence:
    """When a lower pod holds back the next: as long as it is not Ready, and ``within`` so long after."""
    if within == AT_ONCE_READY:
        return away
    least_ns, most_ns = within
    since_ns = ready_since_ns(pod)
    became = () if since_ns is None else ((since_ns - start_ns, since_ns - start_ns),)
    return Absence(
        union((low, min(high + most_ns, FOREVER_NS)) for low, high in (*became, *away.possible)),
        union((low, min(high + least_ns, FOREVER_NS)) for low, high in (*became, *away.sure)),
        tuple(one._replace(least_ns=one.least_ns + least_ns) for one in away.anchors),
    )


def in_order(
    free: Between, lower: Mapping[str, tuple[tuple[Stretch, ...], tuple[Stretch, ...]]]
) -> Between:
    """When an OrderedReady StatefulSet creates a pod whose name is free: all lower ordinals are available then.

    ``lower``: of each lower pod, when it possibly and when it surely holds back the next.
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


def after_companions(begins: Between, deletion: Deletion, lower: Iterable[Absence]) -> Between:
    """``begins`` of a pod that goes at the same instant as lower ones of its node, which hold it back from then on."""
    token = going_together(deletion)
    if token is None or not deletion.certain:
        return begins
    ends = (
        anchor.since.earliest_ns + anchor.least_ns
        for one in lower
        for anchor in one.anchors
        if anchor.together == token
    )
    return begins._replace(earliest_ns=max((begins.earliest_ns, *ends)))
