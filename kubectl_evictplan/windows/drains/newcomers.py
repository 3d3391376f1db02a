"""Owners that want pods and have none in the input, as where a quota or a webhook refuses all that they create.

Nobody knows whether they make any while nodes are drained. None is played, and no budget that may cover such a pod proves anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_evictplan.controllers.replication import REPLACED, owner_key
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, PodDisruptionBudget, Workload
from kubectl_evictplan.kube.owners import closed_owners


def owners_without_pods(snapshot: ClusterSnapshot) -> tuple[Workload, ...]:
    """Those that would make pods, and of which the input has none."""
    wanting = [one for one in snapshot.workloads if one.kind in REPLACED and one.replicas]
    if not wanting:
        return ()
    closed = closed_owners(snapshot)
    # Pods of one owner share their references.
    one_of_each = {(pod.namespace, id(pod.owner_references)): pod for pod in snapshot.pods}
    owning = {owner_key(pod) for pod in one_of_each.values()}
    return tuple(
        one
        for one in wanting
        if (one.kind, one.namespace, one.name) not in owning
        and closed.why((one.namespace, one.kind, one.name)) is None
    )


def budgets_over(
    owners: Iterable[Workload], budgets: tuple[PodDisruptionBudget, ...]
) -> frozenset[int]:
    """Places of the budgets that may cover what these owners make: every one of the namespace where its labels are not known."""
    index = BudgetIndex(budgets)
    found: set[int] = set()
    for one in owners:
        if one.template_labels is None:
            found.update(at for at, each in enumerate(budgets) if each.namespace == one.namespace)
        else:
            found.update(index.matching(Pod(one.namespace, "", labels=one.template_labels)))
    return frozenset(found)
