"""The remedy of one replica more, where it is one: with its exact command, else what to do instead."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping

import msgspec

from kubectl_evictplan.controllers.replication import STATEFUL_SET
from kubectl_evictplan.impact.successor_labels import hand_over
from kubectl_evictplan.impact.volumes import (
    DETACH,
    FORCE_DETACH,
    HELD,
    LEFT_BEHIND,
    NEVER_MOVES,
    STILL_USED,
)
from kubectl_evictplan.impact.world import World
from kubectl_evictplan.kube.objects import PodDisruptionBudget
from kubectl_evictplan.prediction.impact_document import BudgetImpact, VolumeImpact, WorkloadImpact

_KUBECTL_KINDS = {
    "Deployment": "deployment",
    "StatefulSet": "statefulset",
    "ReplicaSet": "replicaset",
    "ReplicationController": "replicationcontroller",
}
_OF_ONE_NODE = frozenset({DETACH, FORCE_DETACH, HELD, LEFT_BEHIND, NEVER_MOVES, STILL_USED})
_NEEDS_OTHER_VOLUME = (
    "its pods share a volume of one node: replicas on other nodes need one that several nodes may mount (ReadWriteMany), "
    "or a claim for each pod (StatefulSet)"
)

WorkloadName = tuple[str, str]  # namespace, "Kind/name"


class Scaling(msgspec.Struct, frozen=True):
    """Which workloads can be scaled. ``on_one_node``: those whose pods share a volume that one node may use.

    ``failing``: budgets that the disruption controller cannot compute.
    ``closed``: those whose owners make no more pods.
    """

    workloads: Mapping[WorkloadName, WorkloadImpact]
    on_one_node: Collection[WorkloadName]
    budgets: Mapping[str, PodDisruptionBudget]
    failing: Collection[str]
    closed: Collection[WorkloadName] = ()

    def of(self, namespace: str, names: Iterable[str]) -> str:
        """How to run one replica more of the first of the workloads that can be scaled, "" for none."""
        for name in names:
            known = self.workloads.get((namespace, name))
            if known is not None and (command := self.command(known)):
                if (namespace, name) in self.on_one_node:
                    return command
                spread = (
                    "on another node" if known.single_replica else "spread over nodes and zones"
                )
                return f"before the change: {command}, {spread} (topologySpreadConstraints)"
        return ""

    def command(self, one: WorkloadImpact) -> str:
        """``kubectl scale`` with one replica more; what is in its way; "" for what cannot be scaled."""
        kind, _, name = one.workload.partition("/")
        if kind not in _KUBECTL_KINDS or one.wanted is None:
            return ""
        if (one.namespace, one.workload) in self.closed:
            return ""
        if (one.namespace, one.workload) in self.on_one_node:
            return _NEEDS_OTHER_VOLUME
        words = ["kubectl", "-n", one.namespace, "scale", f"{_KUBECTL_KINDS[kind]}/{name}"]
        return shlex.join([*words, f"--replicas={one.wanted + 1}"])

    def for_budget(self, one: BudgetImpact) -> str:
        """What lets a budget allow one disruption more."""
        name = f"{one.namespace}/{one.budget}"
        words = ["kubectl", "-n", one.namespace, "edit", f"poddisruptionbudget/{one.budget}"]
        if name in self.failing:
            return f"give it minAvailable as a number, which needs no scale of an owner: {shlex.join(words)}"
        if one.runtime_labels:
            return hand_over(one.runtime_labels)
        budget = self.budgets.get(name)
        wanted = sum(
            known.wanted or 0
            for name in one.workloads
            if (known := self.workloads.get((one.namespace, name))) is not None
        )
        if budget is None or _one_more_helps(budget, wanted):
            return self.of(one.namespace, one.workloads)
        return (
            "with more replicas this budget wants more of them; if its application bears it, let it allow one more: "
            f"{shlex.join(words)}"
        )


def scaling(
    world: World,
    workloads: Mapping[WorkloadName, WorkloadImpact],
    volumes: Iterable[VolumeImpact],
) -> Scaling:
    """Return what can be scaled of a prediction's workloads."""
    shared = [
        (one, world.fates[f"{one.namespace}/{one.pod}"].owner)
        for one in volumes
        if one.code in _OF_ONE_NODE
    ]
    sharing = {
        world.workload_of(owner)
        for one, owner in shared
        # The claims of volumeClaimTemplates are each pod's own.
        if not (owner[1] == STATEFUL_SET and one.claim.endswith(f"-{one.pod}"))
    }
    budgets = {one.budget.key: one.budget for one in world.budgets}
    failing = {one.budget.key for one in world.budgets if one.fails}
    closed = {world.workload_of(one) for one in world.by_owner if world.makes_none(one) is not None}
    if closed:
        closed -= {
            world.workload_of(one) for one in world.by_owner if world.makes_none(one) is None
        }
    return Scaling(workloads, sharing, budgets, failing, closed)


def _one_more_helps(budget: PodDisruptionBudget, wanted: int) -> bool:
    """Whether a budget of so many wanted pods allows more disruptions of one pod more (``getExpectedPodCount``)."""
    return _may_be_away(budget, wanted + 1) > _may_be_away(budget, wanted)


def _may_be_away(budget: PodDisruptionBudget, wanted: int) -> int:
    if (most := budget.max_unavailable) is not None:
        return math.ceil(most.value * wanted / 100) if most.percent else most.value
    least = budget.min_available
    if least is None:
        return 0
    return wanted - (math.ceil(least.value * wanted / 100) if least.percent else least.value)
