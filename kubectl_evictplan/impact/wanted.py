"""Deleted pods that their owners make no others for: they have too many, or have replaced them before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.controllers.replication import STATEFUL_SET
from kubectl_evictplan.impact.deletions import Deletion
from kubectl_evictplan.impact.fates import Moving
from kubectl_evictplan.impact.successors import AT_DELETION
from kubectl_evictplan.kube.objects import Pod, Workload
from kubectl_evictplan.kube.owners import OwnerKey


class NotWanted(msgspec.Struct, frozen=True):
    """Keys of pods that surely have no successor, and of those that perhaps have none."""

    surely: set[str]
    perhaps: set[str]


def not_wanted(
    odd: Iterable[Moving],
    owners: Iterable[OwnerKey],
    workloads: Mapping[OwnerKey, Workload],
    by_owner: Mapping[OwnerKey, Sequence[Pod]],
    deletions: Mapping[str, Deletion],
) -> NotWanted:
    """Return whom nobody makes anew. ``odd``: pods that move and are not there at the start, all else is of all that move.

    ``by_owner``: all pods of each of the ``owners``.
    """
    found = NotWanted(set(), set())
    for one in odd:
        if _replaced_before(one.owner[1], one.pod, workloads.get(one.owner)):
            found.surely.add(one.key)
    for owner in owners if workloads else ():
        workload = workloads.get(owner)
        if workload is not None and workload.replicas is not None:
            surely, perhaps = _too_many(workload, by_owner.get(owner, ()), deletions)
            found.surely.update(surely)
            found.perhaps.update(perhaps)
    return replace(found, perhaps=found.perhaps - found.surely)


def _replaced_before(kind: str, pod: Pod, workload: Workload | None) -> bool:
    """Whether its owner does not count it any more: what happens to it now makes no other pod.

    Upstream: ``IsPodActive``; a Job counts what has ended once (``getNewFinishedPods``) and, where it waits for ends, a
    deleted pod only then.
    """
    if kind in AT_DELETION:
        return not pod.active
    if kind != "Job":
        return False
    waits = workload is None or workload.waits_for_ends
    return pod.finished or (pod.deletion_timestamp_ns is not None and not waits)


def _too_many(
    workload: Workload, pods: Sequence[Pod], deletions: Mapping[str, Deletion]
) -> tuple[Sequence[str], Sequence[str]]:
    """Of an owner that has more pods than it wants, surely and perhaps (``manageReplicas``).

    Which of a ReplicaSet's go first is not known: as many as there are too many, whoever asks for their number. But
    it deletes those that are not Ready first (``ActivePodsWithRanks``): where some stay that nothing else happens to,
    these may have made up for it, and who is evicted has a successor.
    """
    kind, replicas = workload.kind, workload.replicas or 0
    if kind == STATEFUL_SET:
        first = workload.first_ordinal
        wanted = {f"{workload.name}-{first + n}" for n in range(replicas)}
        return [pod.key for pod in pods if pod.name not in wanted and pod.key in deletions], ()
    if kind not in AT_DELETION or len(pods) <= replicas:
        return (), ()
    active = [pod for pod in pods if pod.active]
    going = sorted(
        (not deletions[pod.key].certain, deletions[pod.key].when.latest_ns, pod.key)
        for pod in active
        if pod.key in deletions
    )
    too_many = max(len(active) - replicas, 0)
    spare = sum(pod.ready != "True" and pod.key not in deletions for pod in active)
    keys = [key for _, _, key in going]
    sure = max(too_many - spare, 0)
    return keys[:sure], keys[sure:] if sure < too_many else ()
