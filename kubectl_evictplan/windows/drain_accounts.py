"""Budgets of which it is certain how many of their pods may be away, as a drain goes from node to node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from kubectl_evictplan.cluster.placement import Elsewhere
from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.rooms import Room, Rooms, room_key
from kubectl_evictplan.controllers.disruption import OwnerScales
from kubectl_evictplan.controllers.replication import (
    PARALLEL,
    REPLACED_AT_ONCE,
    STATEFUL_SET,
    missing_pods,
    owner_key,
)
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.disruption import (
    ALWAYS_ALLOW,
    EvictionRules,
    Scale,
    is_behind,
    synced_status,
)
from kubectl_evictplan.kube.drain_filters import DrainOptions
from kubectl_evictplan.kube.objects import Pod, PodDisruptionBudget
from kubectl_evictplan.kube.owners import AT_ONCE_READY, available_after
from kubectl_evictplan.windows.drain_allowance import PERHAPS_NEVER_NS, Allowance, NthEviction
from kubectl_evictplan.windows.drain_delays import (
    AT_ONCE,
    CAUGHT_UP_NS,
    FORGOTTEN_NS,
    Range,
    plus,
    pod_delays,
    recovery,
)
from kubectl_evictplan.windows.drain_plan import DrainPlan, PlannedTurn
from kubectl_evictplan.windows.drain_world import DrainWorld

# The Job controller's back-off and its finalizers are not followed here.
_REPLACED = (REPLACED_AT_ONCE - {"Job"}) | {STATEFUL_SET}


class Account:
    """One budget: its allowance, from the node that is drained now on. ``budget`` has its status at the start."""

    def __init__(
        self,
        budget: PodDisruptionBudget,
        spare: int,
        coming: Sequence[Range],
        recovery_ns: Range | None,
        recoveries: int,
        rules: EvictionRules,
        made_anew_ns: int,
        leaving: int = 0,
        *,
        counts_pods: bool,
    ) -> None:
        self._budget = budget
        self._spare = spare
        self._recovery_ns = recovery_ns
        self._recoveries = recoveries
        self._rules = rules
        self._counts_pods = counts_pods
        # From the end of an old object to the return of its disruption, at most.
        self._made_anew_ns = made_anew_ns
        # Evictions never take a budget below what it wants.
        self._is_met = (budget.current_healthy or 0) >= (budget.desired_healthy or 0)
        self._coming = list(coming)
        self._stirs = 1 if coming else 0
        # Pods that terminate since before the start: the status changes when they are gone, at any time.
        self._leaving = leaving if counts_pods else 0

    def lets_go(self, pod: Pod) -> bool:
        """Whether the pod is evicted without a disruption: it is not Ready, and does not count."""
        if pod.ready == "True" or not self._rules.lets_unready_go:
            return False
        always = self._budget.unhealthy_pod_eviction_policy == ALWAYS_ALLOW
        if always and self._rules.reads_unhealthy_policy:
            return True
        return self._is_met and (self._budget.desired_healthy or 0) > 0

    def allowance(self) -> Allowance:
        """What there is when a node's turn begins."""
        return Allowance(
            self._spare,
            tuple(self._coming),
            self._recovery_ns,
            self._recoveries,
            self._stirs + self._leaving,
            self._counts_pods,
        )

    def lets_pass(self, deleted: Range) -> None:
        """A pod that was not Ready is evicted within these instants of the turn; its replacement is Ready later."""
        if self._recovery_ns is not None and self._recoveries:
            self._coming.append(plus(deleted, self._recovery_ns))
            self._recoveries -= 1
        # The status is written when it is gone and when another one is there.
        self._stirs += 2 if self._counts_pods else 0

    def spend(self, found: Sequence[NthEviction], took: Range, pause_ns: int) -> None:
        """The turn is over, and these pods were evicted and are gone; the next one begins after ``took``.

        ``pause_ns``: so long after the end of the last object at the earliest.
        """
        coming = [(low_ns - took[1], high_ns - took[0]) for low_ns, high_ns in self._coming]
        for one in found:
            if self._recovery_ns is None or not self._recoveries:
                break
            self._recoveries -= 1
            low_ns, high_ns = plus(one.within, self._recovery_ns)
            latest_ns = high_ns - took[0]
            if self._recovery_ns[1] < FORGOTTEN_NS:
                latest_ns = min(latest_ns, self._made_anew_ns - pause_ns)
            if high_ns >= PERHAPS_NEVER_NS:
                latest_ns = high_ns
            coming.append((low_ns - took[1], latest_ns))
        self._spare -= len(found)
        # One sync may be on its way still: the controller takes together what it finds.
        self._stirs = 1 if found or self._stirs else 0
        self._coming = coming


class Accounts:
    """By budget; None where nothing is proven: its status is behind, or more than a drain concerns it."""

    def __init__(
        self,
        world: DrainWorld,
        plan: DrainPlan,
        rules: EvictionRules,
        ready: ReadyTimes,
        rooms: Rooms,
    ) -> None:
        self._world = world
        self._rules = rules
        self._ready = ready
        self._rooms = rooms
        self._index = BudgetIndex(world.budgets)
        self._scales = OwnerScales(world.snapshot.workloads)
        self._elsewhere = Elsewhere(plan.taking_nodes(), world.snapshot.pods)
        self._refilled = plan.refilled
        # A pod of these is made at the start, unless something nobody sees keeps its owner from it.
        self._short = {*plan.incomplete, *missing_pods(world.snapshot)}
        self._nodes = {node.name for node in world.snapshot.nodes}
        self._covered: dict[int, list[Pod]] = {}
        for pod in world.snapshot.pods:
            for place in self._index.matching(pod):
                self._covered.setdefault(place, []).append(pod)
        self._drained = self._drained_pods(plan)
        self._all_drained = [
            pod for turns in plan.processes for turn in turns for pod in (*turn.pods, *turn.guests)
        ]
        self._found: dict[int, Account | None] = {}

    def _drained_pods(self, plan: DrainPlan) -> Mapping[int, list[tuple[PlannedTurn, Pod]]]:
        found: dict[int, list[tuple[PlannedTurn, Pod]]] = {}
        for turns in plan.processes:
            for turn in turns:
                for pod in (*turn.pods, *turn.guests):
                    for place in self._index.matching(pod):
                        found.setdefault(place, []).append((turn, pod))
        return found

    def covering(self, pod: Pod) -> Sequence[int]:
        """Places of the budgets that cover the pod."""
        return self._index.matching(pod)

    def names(self, places: Iterable[int]) -> tuple[str, ...]:
        """The budgets, as "namespace/name"."""
        return tuple(self._world.budgets[place].key for place in places)

    def account(self, place: int) -> Account | None:
        """The one account of a budget, which goes from turn to turn."""
        if place not in self._found:
            self._found[place] = self._settled(place)
        return self._found[place]

    def turn_over(
        self, asked: Mapping[int, Sequence[NthEviction]], took: Range, pause_ns: int
    ) -> None:
        """A node is drained; all instants count from the begin of the next from now on."""
        for place, account in self._found.items():
            if account is not None:
                account.spend(asked.get(place, ()), took, pause_ns)

    def forget(self, places: Iterable[int]) -> None:
        """Nothing is known of these budgets any more."""
        self._found.update(dict.fromkeys(places))

    def _settled(self, place: int) -> Account | None:
        budget, covered = self._world.budgets[place], self._covered.get(place, [])
        turns = self._drained.get(place, [])
        if (
            not self._world.steady
            or budget.disrupted_pods
            or len({turn.drain.process for turn, _ in turns}) > 1
            or any(pod in turn.guests or not turn.known for turn, pod in turns)
            or not all(map(self._is_settled, covered))
            or any(owner_key(pod) in self._short for pod in covered)
            or not self._keeps_its_wish(budget, covered)
        ):
            return None
        now_ns = self._world.snapshot.taken_at_ns
        synced = synced_status(budget, covered, self._scales.scale, now_ns)
        healthy, desired = synced.current_healthy, synced.desired_healthy
        if healthy is None or desired is None or synced.disruptions_allowed is None:
            return None
        spare = healthy - desired
        if not synced.disruptions_allowed and spare > 0:
            # Nobody scales its pods (``expectedPods`` 0, or no scale at all): it lets nobody go, ever.
            spare = -len(covered)
        pods = [pod for _, pod in turns]
        behind = self._behind(budget, synced, spare, pods)
        if behind is None:
            return None
        slowest_ns = max(self._slowest_ns(pod) for pod in pods) if pods else 0
        return Account(
            synced,
            spare - len(behind),
            behind,
            self._recovery(pods, turns[0][0].options, spare),
            self._recoveries(pods),
            self._rules,
            recovery(AT_ONCE, (0, slowest_ns))[1],
            sum(pod.deletion_timestamp_ns is not None for pod in covered),
            counts_pods=budget.max_unavailable is None and not _percent(budget),
        )

    def opens_again(self, place: int) -> bool:
        """Whether the budget has a disruption again and again, whoever takes it, while one pod after the other is evicted."""
        budget, covered = self._world.budgets[place], self._covered.get(place, [])
        ready_latest_ns, now_ns = self._ready.latest_ns, self._world.snapshot.taken_at_ns
        if ready_latest_ns is None or not self._world.steady or budget.disruptions_allowed is None:
            return False
        drained = [pod for _, pod in self._drained.get(place, [])]
        in_the_end = [
            replace(pod, ready="True", phase="Running") if self._is_starting(pod) else pod
            for pod in covered
        ]
        synced = synced_status(budget, in_the_end, self._scales.scale, now_ns)
        seen = synced == budget or is_behind(budget, covered, now_ns) or in_the_end != covered
        return (
            bool(synced.disruptions_allowed)
            and seen
            and self._keeps_its_wish(budget, covered)
            and all(pod.deletion_timestamp_ns is None and self._has_node(pod) for pod in covered)
            and all(map(self._is_replaced, drained))
        )

    def _is_replaced(self, pod: Pod) -> bool:
        """Whether somebody makes the pod anew, and there is a node for it."""
        owner = owner_key(pod)
        if owner is None or owner[0] not in _REPLACED or owner in self._short:
            return False
        if owner[0] == STATEFUL_SET and not self._is_made_in_the_end(pod, owner):
            return False
        place = self._rooms.group_of.get(room_key(pod))
        if place is not None:
            room = self._rooms.rooms[place]
            return room.least >= sum(
                1 for one in self._all_drained if room_key(one) == room_key(pod)
            )
        return self._elsewhere.takes(pod)

    def _is_made_in_the_end(self, pod: Pod, owner: tuple[str, str, str]) -> bool:
        own = [one for one in self._world.snapshot.pods if owner_key(one) == owner]
        ready = all(one.ready == "True" or self._is_starting(one) for one in own)
        return not pod.finalizers and ready

    def _behind(
        self,
        budget: PodDisruptionBudget,
        synced: PodDisruptionBudget,
        spare: int,
        pods: Sequence[Pod],
    ) -> tuple[Range, ...] | None:
        """Allowance that the status does not show yet, and when it will; None: it shows too many, or perhaps never does."""
        if synced == budget:
            return ()
        stale = (budget.observed_generation or 0) < (budget.generation or 0)
        allowed = 0 if stale else budget.disruptions_allowed
        covered = self._covered.get(self._world.budgets.index(budget), [])
        seen = stale or is_behind(budget, covered, self._world.snapshot.taken_at_ns)
        if allowed is None or not seen or any(pod.ready != "True" for pod in pods):
            return None
        missing = max(spare, 0) - allowed
        if missing < 0:
            return None
        return ((-CAUGHT_UP_NS, CAUGHT_UP_NS),) * missing

    def _is_settled(self, pod: Pod) -> bool:
        """Whether the pod stays as it is while nobody evicts it."""
        if pod.finished:
            return True
        if pod.deletion_timestamp_ns is not None:
            # It counts no more; nor does its place, unless its owner has still to fill it.
            return owner_key(pod) not in self._refilled
        return pod.phase == "Running" and self._has_node(pod) and not self._is_starting(pod)

    def _has_node(self, pod: Pod) -> bool:
        """Whether it is bound to a node that exists: else it is bound, or collected as garbage, meanwhile."""
        return pod.node_name in self._nodes

    def _slowest_ns(self, pod: Pod) -> int:
        """How long one of its owner takes at most to be Ready, if it ever is."""
        least_ns, most_ns = self._ready.range_of(pod)
        return most_ns or least_ns

    def _is_starting(self, pod: Pod) -> bool:
        """Whether the pod is so young that it will be Ready like a replacement."""
        young_ns = pod.creation_timestamp_ns + self._slowest_ns(pod)
        return (
            pod.ready != "True"
            and not pod.finished
            and bool(pod.node_name)
            and pod.controller() is not None
            and young_ns >= self._world.snapshot.taken_at_ns
        )

    def _keeps_its_wish(self, budget: PodDisruptionBudget, covered: Iterable[Pod]) -> bool:
        """Whether it wants as many healthy pods all the time, whoever of them is away.

        ReplicaSets of one Deployment are one owner: its scale counts (``getPodDeployment``).
        """
        if budget.min_available is not None and not budget.min_available.percent:
            return True
        owners = {
            (pod.namespace, owner) for pod in covered if (owner := pod.controller()) is not None
        }
        if len(owners) < 2:
            return True
        scales = [self._scales.scale(*owner) for owner in owners]
        known = {one.uid for one in scales if isinstance(one, Scale)}
        return len(known) == 1 and all(isinstance(one, Scale) for one in scales)

    def _recovery(self, pods: Sequence[Pod], options: DrainOptions, spare: int) -> Range | None:
        """From the eviction of any of the pods to the return of its disruption; None: never."""
        found = {self._recovery_of(pod, options, spare, pods) for pod in pods}
        known = [one for one in found if one is not None]
        if not known:
            return None
        latest_ns = max(high for _, high in known)
        if len(known) < len(found):
            latest_ns = PERHAPS_NEVER_NS
        return min(low for low, _ in known), latest_ns

    def _recoveries(self, pods: Sequence[Pod]) -> int:
        """How many of the pods are replaced, where that is certain; else all, and the latest instant says perhaps."""
        places = {self._rooms.group_of.get(room_key(pod)) for pod in pods}
        place = next(iter(places), None)
        if len(places) > 1 or place is None:
            return len(pods)
        room = self._rooms.rooms[place]
        return room.most if room.least == room.most else len(pods)

    def _recovery_of(
        self, pod: Pod, options: DrainOptions, spare: int, beside: Sequence[Pod]
    ) -> Range | None:
        owner, (ready_ns, ready_latest_ns) = owner_key(pod), self._ready.range_of(pod)
        if owner is None:
            return None
        place = self._rooms.group_of.get(room_key(pod))
        room = self._rooms.rooms[place] if place is not None else None
        if room.most == 0 if room is not None else not self._elsewhere.takes(pod):
            return None
        stateful = owner[0] == STATEFUL_SET
        gone = pod_delays(pod, options).gone
        fastest, slowest = recovery(
            gone if stateful and gone else AT_ONCE, (ready_ns, ready_latest_ns or ready_ns)
        )
        if stateful and gone == AT_ONCE:
            # Who comes back under its name before the budget is synced is taken for the one that is about to go.
            slowest = max(slowest, FORGOTTEN_NS)
        sure = (
            owner[0] in _REPLACED
            and ready_latest_ns is not None
            and owner not in self._short
            and (room is None or self._is_sure(room, place, len(beside)))
            and (not stateful or (gone is not None and self._is_made_at_once(owner, spare, beside)))
        )
        return fastest, slowest if sure else PERHAPS_NEVER_NS

    def _is_sure(self, room: Room, place: int | None, number: int) -> bool:
        """Whether it is certain how many of so many pods find a node, beside all others that want to."""
        group_of = self._rooms.group_of
        wanting = sum(1 for pod in self._all_drained if group_of.get(room_key(pod)) == place)
        return room.least >= wanting or (room.least == room.most and wanting == number)

    def _is_made_at_once(
        self, owner: tuple[str, str, str], spare: int, beside: Sequence[Pod]
    ) -> bool:
        """Whether a StatefulSet waits for nobody but the old pod: all others are Ready, or it does not ask.

        ``spare`` limits only how many of ``beside`` are away, the pods that are asked for at the same budget.
        """
        workloads = self._world.snapshot.workloads
        known = [one for one in workloads if (one.kind, one.namespace, one.name) == owner]
        if known and known[0].pod_management_policy == PARALLEL:
            return True
        availability = self._world.configuration.profile.stateful_set_availability
        if known and available_after(known[0], availability) != AT_ONCE_READY:
            # Whether the others are Ready for long enough is not followed here.
            return False
        own = [pod for pod in self._world.snapshot.pods if owner_key(pod) == owner]
        if not all(pod.ready == "True" and self._is_settled(pod) for pod in own):
            return False
        drained = {pod.key for pod in self._all_drained}
        going = {pod.key for pod in own} & drained
        limited = spare <= 1 and going <= {pod.key for pod in beside if self._asks_one(pod)}
        return len(going) <= 1 or limited

    def _asks_one(self, pod: Pod) -> bool:
        return len(self._index.matching(pod)) == 1


def _percent(budget: PodDisruptionBudget) -> bool:
    return budget.min_available is not None and budget.min_available.percent
