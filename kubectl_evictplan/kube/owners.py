"""What owners need before they make a pod, and what they make.

Who makes none any more, what an OrderedReady StatefulSet waits for, and of which of two revisions it makes a pod.

Upstream: ``syncReplicaSet``, ``syncJob``, ``updateStatefulSet``, ``syncDaemonSet`` manage pods only while DeletionTimestamp
is nil; the admission plugin NamespaceLifecycle refuses what is created in a namespace that is Terminating.
``processReplica`` with ``isRunningAndAvailable``, and ``newVersionedStatefulSetPod`` (pkg/controller/statefulset).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.kube.durations import MILLISECOND_NS, SECOND_NS
from kubectl_evictplan.kube.objects import (
    NAMESPACE_SYSTEM,
    ClusterSnapshot,
    Pod,
    Revisions,
    Workload,
)

# Namespace, kind, name; of a bare pod its own, with the kind "Pod".
OwnerKey = tuple[str, str, str]
# Kinds of which each pod is an owner of its own.
EACH_ITS_OWN = frozenset({"Pod", "Node"})

TERMINATING = "Terminating"
# The API server lets nobody delete them (admission plugin NamespaceLifecycle).
_NEVER_DELETED = frozenset({"default", "kube-public", NAMESPACE_SYSTEM})


def owner_key(pod: Pod) -> OwnerKey:
    """The managing owner; of a bare pod itself, with the kind "Pod"."""
    owner = pod.controller()
    if owner is None:
        return pod.namespace, "Pod", pod.name
    # Images of static pods are each their own: a node is no workload.
    return pod.namespace, owner.kind, pod.name if owner.kind == "Node" else owner.name


class MakesNone(Enum):
    """Why nobody makes another pod."""

    OWNER_DELETED = "owner-deleted"
    NAMESPACE_DELETED = "namespace-deleted"
    ENDED = "ended"


class ClosedOwners(msgspec.Struct, frozen=True):
    """``deleted``, ``ended``: Jobs; ``namespaces``: those that are Terminating."""

    deleted: frozenset[OwnerKey]
    ended: frozenset[OwnerKey]
    namespaces: frozenset[str]

    def why(self, owner: OwnerKey) -> MakesNone | None:
        """Why the owner of that (namespace, kind, name) makes no pod, None: it does."""
        if owner[0] in self.namespaces:
            return MakesNone.NAMESPACE_DELETED
        if owner in self.deleted:
            return MakesNone.OWNER_DELETED
        return MakesNone.ENDED if owner in self.ended else None


NOBODY_CLOSED = ClosedOwners(frozenset(), frozenset(), frozenset())


def closed_owners(snapshot: ClusterSnapshot) -> ClosedOwners:
    """Return who makes no more pods, as far as the input tells."""
    every = [((one.namespace, one.kind, one.name), one) for one in snapshot.workloads]
    return ClosedOwners(
        frozenset(key for key, one in every if one.being_deleted),
        frozenset(key for key, one in every if one.makes_no_more),
        terminating_namespaces(snapshot),
    )


def terminating_namespaces(snapshot: ClusterSnapshot) -> frozenset[str]:
    """Names of the namespaces that are being deleted: nothing is created in them any more."""
    return frozenset(
        one.name for one in snapshot.infrastructure.namespaces if one.phase == TERMINATING
    )


def known_namespaces(snapshot: ClusterSnapshot) -> frozenset[str]:
    """Names of the namespaces of which it is known whether they are being deleted: of any other nobody has asked, or may."""
    listed = (one.name for one in snapshot.infrastructure.namespaces)
    return _NEVER_DELETED.union(listed)


# How a release looks at spec.minReadySeconds: not at all (the gate StatefulSetMinReadySeconds is off in 1.22); so long
# after whatever it did last, which may be just too early; when the next pod becomes available.
READY, POLLED, PLANNED = "ready", "polled", "planned"
# It goes on as soon as the pod is Ready.
AT_ONCE_READY = (0, 0)
_REACTION_MAX_NS = 500 * MILLISECOND_NS


def available_after(known: Workload | None, looks: str) -> tuple[int, int]:
    """How long after a pod became Ready its set goes on to the next one, at least and at most, in nanoseconds.

    The time of the condition Ready is cut to the second. Where it polls, the queue keeps the earlier of two times
    (``enqueueSSAfter``): a look that came too early is repeated a whole minReadySeconds later.
    """
    if known is None or not known.min_ready_seconds or looks == READY:
        return AT_ONCE_READY
    whole_ns = known.min_ready_seconds * SECOND_NS
    late_ns = _REACTION_MAX_NS + (whole_ns + SECOND_NS if looks == POLLED else 0)
    return whole_ns - SECOND_NS, whole_ns + late_ns


def ready_since_ns(pod: Pod) -> int | None:
    """When it last became Ready, as an instant since the epoch; None: it is not, or nobody says."""
    if pod.ready != "True" or pod.ready_after_seconds is None:
        return None
    return pod.creation_timestamp_ns + pod.ready_after_seconds * SECOND_NS


_REVISION = "controller-revision-hash"


def made_anew(pod: Pod, owner: Workload | None, siblings: Iterable[Pod]) -> Pod:
    """The pod as its owner makes it: what was changed in place is as in the template again, and that may be another."""
    if pod.resized is not None and pod.needs is not None and owner is not None:
        requests = pod.resized.anew(owner.template)
        pod = replace(pod, needs=replace(pod.needs, requests=requests))
    return of_its_revision(pod, owner, siblings)


def of_its_revision(pod: Pod, owner: Workload | None, siblings: Iterable[Pod]) -> Pod:
    """The pod as its StatefulSet makes it anew, of a revision that need not be the pod's own.

    What that one asks for is seen on any of the ``siblings`` that is of it; where none is, the needs say that they are
    of another template. Other owners' pods are returned as they are.
    """
    known = None if owner is None else owner.revisions
    if known is None or owner is None or pod.needs is None:
        return pod
    revision = _made_of(pod, known)
    if revision is not None and pod.labels.get(_REVISION) == revision:
        return pod
    for other in siblings if revision is not None else ():
        alike = other.labels.get(_REVISION) == revision and other.resized is None
        if alike and other.needs is not None:
            return replace(pod, needs=other.needs, tolerations=other.tolerations)
    requests = dict(pod.needs.requests)
    of_template: dict[str, int] = {}
    for container in owner.template:
        for name, amount in container.requests:
            of_template[name] = of_template.get(name, 0) + amount
    for name, amount in of_template.items():
        requests[name] = max(requests.get(name, 0), amount)
    needs = replace(pod.needs, requests=tuple(sorted(requests.items())), other_template=True)
    return replace(pod, needs=needs)


def _made_of(pod: Pod, known: Revisions) -> str | None:
    """The revision; None: not known, as of names without an ordinal."""
    if known.current == known.update or known.updated_from == 0:
        return known.update
    ordinal = pod.name.rpartition("-")[2]
    if known.updated_from is None or not ordinal.isdecimal():
        return None
    return known.update if int(ordinal) >= known.updated_from else known.current
