"""Pods that do not come back, or not by themselves, each with what would release it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator

from kubectl_evictplan.controllers.replication import STATEFUL_SET
from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import Fate, owner_of, shared_of
from kubectl_evictplan.impact.stretches import FOREVER_NS
from kubectl_evictplan.impact.successors import AT_DELETION
from kubectl_evictplan.impact.volumes import HELD, NEVER_MOVES, STILL_USED
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.finalizers import lasting_finalizers
from kubectl_evictplan.kube.owners import MakesNone
from kubectl_evictplan.prediction.impact_document import NotComingBack

(
    BARE_POD,
    FINALIZERS,
    LOCAL_VOLUME,
    IDENTITY_HELD,
    DAEMON_SET,
    JOB_FAILED,
    JOB_WAITS,
    NO_NODE,
    NO_ROOM,
    GATED,
    UNKNOWN_OWNER,
    VOLUME_HELD,
    VOLUME_STILL_USED,
    OWNER_DELETED,
    NAMESPACE_DELETED,
) = (
    "bare-pod",
    "finalizers",
    "local-volume",
    "identity-held",
    "daemon-set-kept-away",
    "job-failed",
    "job-waits",
    "no-node",
    "no-room",
    "gated",
    "unknown-owner",
    "volume-held",
    "volume-still-used",
    "owner-deleted",
    "namespace-deleted",
)
_BY_CLOSED = {
    MakesNone.OWNER_DELETED: OWNER_DELETED,
    MakesNone.NAMESPACE_DELETED: NAMESPACE_DELETED,
}
# The code IDENTITY_HELD where the kubelet is not silent.
_NOT_CONFIRMED = "not-confirmed"
# The code VOLUME_HELD where the kubelet is not silent.
_STAYS_ATTACHED = "stays-attached"
# The code JOB_FAILED where the Job goes on.
_INDEX_FAILED = "index-failed"
_PAST_DEADLINE = "past-deadline"
_BY_RUNNING = {IDENTITY_HELD: _NOT_CONFIRMED, VOLUME_HELD: _STAYS_ATTACHED}
# By code: why, and what releases it. "{node}" is the pod's node, "{quoted}" that for a shell.
_TELL = {
    BARE_POD: ("no controller manages it: once it is deleted it is gone for good", ""),
    FINALIZERS: ("a finalizer keeps its object", "who set the finalizer must remove it"),
    LOCAL_VOLUME: (
        "its volume lies on {node}: no other node can run it",
        "{node} has to take pods again, or the claim is given up",
    ),
    IDENTITY_HELD: (
        (
            "its StatefulSet creates it anew only when the old object is gone, and a silent kubelet "
            "never confirms that"
        ),
        (
            "the kubelet of {node} comes back; or, once the machine is surely off: "
            "kubectl taint node {quoted} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        ),
    ),
    _NOT_CONFIRMED: (
        "its StatefulSet creates it anew only when the old object is gone, and whether {node} ends it is not known",
        "look at the pod's containers and at the kubelet of {node}: it has to confirm the end",
    ),
    VOLUME_HELD: (
        "its volume stays attached to {node} while the object of the old pod stays: its successor waits on another node",
        (
            "the kubelet of {node} comes back; or, once the machine is surely off: "
            "kubectl taint node {quoted} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        ),
    ),
    _STAYS_ATTACHED: (
        "its volume stays attached to {node} while the object of the old pod stays: its successor waits on another node",
        "see what keeps the old pod on {node}",
    ),
    VOLUME_STILL_USED: (
        "its volume stays attached to {node} for another pod that uses it there: no other node gets it (Multi-Attach)",
        "the other pod moves too, or {node} takes this one again; at best every user is on one node (podAffinity)",
    ),
    DAEMON_SET: (
        "its DaemonSet keeps off {node} while the node has a taint that its pods do not tolerate",
        "remove the taint, or add the toleration to the DaemonSet",
    ),
    JOB_FAILED: (
        (
            "the lost pod fails its Job, which deletes its other pods too: backoffLimit or maxFailedIndexes is used up, "
            "or a podFailurePolicy rule says so"
        ),
        "create the Job anew",
    ),
    _PAST_DEADLINE: (
        "its Job is past activeDeadlineSeconds by then: it fails, deletes its pods and makes no others",
        "create the Job anew, or give it more time before",
    ),
    _INDEX_FAILED: (
        "the lost pod fails its index: backoffLimitPerIndex is used up, or a podFailurePolicy rule says so",
        "keep the Job: it may go on with its other indexes; run this one again once it has ended",
    ),
    JOB_WAITS: (
        "its Job judges and replaces a pod only when that has ended, and whether {node} ends it is not known",
        "the kubelet of {node} comes back, or the Node is deleted",
    ),
    NO_NODE: (
        "every node refuses its successor: it stays Pending",
        "see the finding replacement-pending of its workload",
    ),
    NO_ROOM: (
        "its workload's successors need more than the nodes have left: as many as are told so stay Pending, whichever",
        "see the finding no-room-left of its workload",
    ),
    GATED: (
        "its owner's template carries scheduling gates: nobody schedules its successor until somebody takes them off",
        "who set the gates takes them off the new pod",
    ),
    OWNER_DELETED: (
        "its owner is being deleted: nobody looks after its pods any more",
        "if it is still wanted, create the owner anew once it is gone",
    ),
    NAMESPACE_DELETED: (
        "its namespace is Terminating: the API server refuses new pods in it",
        "if it is still wanted, create the namespace and all in it anew once it is gone",
    ),
    UNKNOWN_OWNER: (
        "what its owner does about a lost pod is not known here",
        "look at the operator that owns it",
    ),
}


def not_coming_back(world: World) -> tuple[NotComingBack, ...]:
    """Every pod that is deleted and has nobody in its place by itself, sorted."""
    claiming, fates = world.volumes.claiming, world.fates.values()
    if not (claiming or world.has_gates) and _all_are_replaced(fates):
        return ()
    found = [
        _row(world, fate, code)
        for fate in fates
        # Most pods have a ReplicaSet, a place to go to and no claim.
        if (kind := fate.owner[1]) not in AT_DELETION
        or fate.key in claiming
        or (world.has_gates and world.gates_of(fate.owner))
        or fate.shared.successor.bound[0] >= FOREVER_NS
        for code in _codes(world, fate, kind)
    ]
    return tuple(sorted(found, key=lambda one: (one.namespace, one.pod, one.code)))


def _all_are_replaced(fates: Collection[Fate]) -> bool:
    """Whether all have owners that replace them, and a place to go to. Asked of what pods share, not of each of them."""
    kinds = {kind for _, kind, _ in set(map(owner_of, fates))}
    return kinds.issubset(AT_DELETION) and not any(
        shared.successor.bound[0] >= FOREVER_NS for shared in set(map(shared_of, fates))
    )


def _row(world: World, fate: Fate, code: str) -> NotComingBack:
    pod = fate.pod
    told = code if fate.life.may_be_off else _BY_RUNNING.get(code, code)
    if code == JOB_FAILED:
        told = _told_of_job(world, fate)
    why, release = (
        text.format(node=pod.node_name, quoted=shlex.quote(pod.node_name)) for text in _TELL[told]
    )
    return NotComingBack(pod.namespace, pod.name, pod.node_name, code, why, release)


def _told_of_job(world: World, fate: Fate) -> str:
    job, end = world.workloads.get(fate.owner), world.job_ends.get(fate.owner)
    if end is not None and end.certain:
        return _PAST_DEADLINE if end.by_deadline else JOB_FAILED
    by_index = job is not None and job.backoff_limit_per_index is not None
    return _INDEX_FAILED if by_index else JOB_FAILED


def _codes(world: World, fate: Fate, kind: str) -> Iterator[str]:
    deletion, pod = fate.deletion, fate.pod
    if deletion is None or pod.finished:
        return
    if (closed := world.makes_none(fate.owner)) is not None:
        if closed in _BY_CLOSED and not world.is_surplus(fate.key):
            yield _BY_CLOSED[closed]
    elif kind == "Pod":
        yield BARE_POD
    elif kind == "DaemonSet" and fate.successor.created.never and fate.life.deleted.never:
        yield DAEMON_SET
    elif kind == "Job":
        yield from _codes_of_job(world, fate, deletion)
    elif kind == STATEFUL_SET and deletion.held:
        yield FINALIZERS if lasting_finalizers(pod) else IDENTITY_HELD
    elif not world.is_known_kind(kind):
        yield UNKNOWN_OWNER
    if world.placements.of(fate.key, fate.owner).nowhere:
        yield NO_NODE
    elif world.gates_of(fate.owner) and not fate.successor.created.never:
        yield GATED
    elif deletion.certain and _finds_no_room(fate):
        yield NO_ROOM
    yield from _codes_of_volumes(world, fate, kind)


def _codes_of_volumes(world: World, fate: Fate, kind: str) -> Iterator[str]:
    holds = world.holds(fate.pod)
    codes = {hold.code for hold in holds}
    if NEVER_MOVES in codes:
        yield LOCAL_VOLUME
    if fate.successor.created.never:
        return
    # A StatefulSet makes no other while the object is there.
    if HELD in codes and kind != STATEFUL_SET:
        yield VOLUME_HELD
    if any(hold.code == STILL_USED and hold.free.never for hold in holds):
        yield VOLUME_STILL_USED


def _codes_of_job(world: World, fate: Fate, deletion: Deletion) -> Iterator[str]:
    job = world.workloads.get(fate.owner)
    if world.is_surplus(fate.key):
        return
    if job is not None and job.managed_elsewhere:
        yield UNKNOWN_OWNER
    elif fate.successor.created.never:
        yield JOB_WAITS if deletion.held and job is not None and job.waits_for_ends else JOB_FAILED


def _finds_no_room(fate: Fate) -> bool:
    """Whether its successor is made, and others of its kind surely have all the room there is."""
    return fate.successor.bound.never and not fate.successor.created.never
