"""Pods that are made anew on nodes which kubectl has still to come to: how many in the stead of one, and since when they are Ready.

A process cordons all of its nodes before it evicts anybody, so nobody is made anew there because of its own evictions. Where no other
process can meet replacements of an owner, each of them on its nodes is in the stead of a pod that was there at the start, which
somebody else has deleted once: it is on one of its nodes at the most, and not younger than that deletion makes it.
"""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from kubectl_evictplan.cluster.placement import lets_in
from kubectl_evictplan.controllers.replication import STATEFUL_SET, owner_key
from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS
from kubectl_evictplan.windows.drains.before import Before
from kubectl_evictplan.windows.drains.covered import CoveredPods, OwnerKey
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.planned import DrainPlan, PlannedTurn, bound_by_ns
from kubectl_evictplan.windows.drains.recovery import Recoveries


class Guests:
    """Of all turns."""

    def __init__(
        self, covered: CoveredPods, recoveries: Recoveries, plan: DrainPlan, before: Before
    ) -> None:
        self._covered = covered
        self._recoveries = recoveries
        self._before = before
        self._calm = covered.world.quiet and plan.calm_ns >= HORIZON_DEFAULT_MAX_NS
        self._calm &= all(turn.surely_found for turn in plan.turns)
        self._bound_by_ns = [bound_by_ns(event) for event in plan.drains]
        self._nodes = {node.name: node for node in covered.world.snapshot.nodes}
        # By owner the processes that may meet pods which are made anew.
        self._met_by: dict[OwnerKey, set[int]] = {}
        # By process and pod the first of its nodes on which another one may be in its stead.
        self._first_on: dict[tuple[int, str], NodeDrain] = {}
        self._on: set[tuple[NodeDrain, str]] = set()
        for turn in plan.turns:
            for pod in turn.guests:
                if (owner := owner_key(pod)) is not None:
                    self._met_by.setdefault(owner, set()).add(turn.drain.process)
                self._first_on.setdefault((turn.drain.process, pod.key), turn.drain)
                self._on.add((turn.drain, pod.key))
        self._is_followed = cache(self._follows)

    def deleted_by_ns(self, turn: PlannedTurn, pod: Pod) -> int | None:
        """By when a pod is deleted that has a guest of the turn in its stead, which was bound before a cordon was seen; None: not known."""
        node = self._nodes.get(turn.drain.node)
        if node is None or not (self._is_one(pod) and self.are_in_their_stead(pod)):
            return None
        if lets_in(replace(node, unschedulable=True), pod):
            return None
        return self._bound_by_ns[turn.drain.process]

    def is_elsewhere(self, turn: PlannedTurn, pod: Pod) -> bool:
        """Whether a guest of the turn is, if it is on any node of the process, the one of an earlier turn."""
        return self.told_on(turn, pod) != turn.drain

    def told_on(self, turn: PlannedTurn, pod: Pod) -> NodeDrain:
        """The turn as whose guest one of the turn is told: where there is one at most, the first of those that may find it."""
        first = self._first_on[turn.drain.process, pod.key]
        return first if self._is_one(pod) else turn.drain

    def may_be_on(self, drain: NodeDrain, pod: Pod) -> bool:
        """Whether another one may be in the stead of a pod on that node."""
        return (drain, pod.key) in self._on

    def is_ready(self, turn: PlannedTurn, pod: Pod) -> bool:
        """Whether the guest is Ready, and counted by its budget, before kubectl comes to the node."""
        deleted_ns = self._before.deleted_ns.get((pod.key, pod.uid))
        begun_ns = self._before.begins_ns.get(turn.drain)
        if deleted_ns is None or begun_ns is None or not self._is_one(pod):
            return False
        back_ns = self._recoveries.back_by_ns(pod, turn.options)
        return back_ns is not None and deleted_ns + back_ns < begun_ns

    def are_in_their_stead(self, pod: Pod) -> bool:
        """Whether a guest by the name of a pod is there only once that pod is deleted."""
        owner = owner_key(pod)
        if owner is None or owner[0] == STATEFUL_SET:
            return True
        own = self._covered.of_owner(owner)
        alike = all(
            one.labels == pod.labels and one.empty_dir == pod.empty_dir and not one.finalizers
            for one in own
        )
        return alike and self._calm and all(map(self._covered.stays, own))

    def _is_one(self, pod: Pod) -> bool:
        """Whether one pod at most is there in its stead."""
        owner = owner_key(pod)
        return owner is not None and self._is_followed(owner)

    def _follows(self, owner: OwnerKey) -> bool:
        """Whether pods of the owner are made only in the stead of those that one process, or none, may meet before they are.

        Of a StatefulSet others that go later may keep one from being made.
        """
        own = self._covered.of_owner(owner)
        return (
            self._calm
            and owner[0] != STATEFUL_SET
            and len(self._met_by.get(owner, ())) <= 1
            and all(map(self._covered.stays, own))
        )
