"""Owners that make no pods any more: they are being deleted, or their namespace is.

Upstream: ``syncReplicaSet``, ``syncJob``, ``updateStatefulSet``, ``syncDaemonSet`` manage pods only while DeletionTimestamp
is nil; the admission plugin NamespaceLifecycle refuses what is created in a namespace that is Terminating.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kubectl_evictplan.kube.objects import ClusterSnapshot

TERMINATING = "Terminating"


class MakesNone(Enum):
    """Why nobody makes another pod."""

    OWNER_DELETED = "owner-deleted"
    NAMESPACE_DELETED = "namespace-deleted"
    ENDED = "ended"


class ClosedOwners(NamedTuple):
    """``deleted``, ``ended`` (Jobs): (namespace, kind, name); ``namespaces``: those that are Terminating."""

    deleted: frozenset[tuple[str, str, str]]
    ended: frozenset[tuple[str, str, str]]
    namespaces: frozenset[str]

    def why(self, owner: tuple[str, str, str]) -> MakesNone | None:
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
        frozenset(
            one.name for one in snapshot.infrastructure.namespaces if one.phase == TERMINATING
        ),
    )
