"""Whom each budget covers, and which of them are drained: the facts about budgets that do not change as drains go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property

from msgspec.structs import replace

from kubectl_evictplan.cluster.drained_pods import CLIENT_RETRIES
from kubectl_evictplan.cluster.placement import lets_in
from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.controllers.disruption import OwnerScales
from kubectl_evictplan.controllers.replication import STATEFUL_SET, owner_key
from kubectl_evictplan.kube.budgets import BudgetIndex, webhooks_asked
from kubectl_evictplan.kube.disruption import (
    DELETION_TIMEOUT_NS,
    EvictionRules,
    Scale,
    can_ignore_budgets,
    is_behind,
    is_negative,
    is_stale,
    needs_no_disruption,
    synced_status,
)
from kubectl_evictplan.kube.objects import Pod, PodDisruptionBudget
from kubectl_evictplan.kube.owners import known_namespaces, terminating_namespaces
from kubectl_evictplan.windows.drains.delays import CLIENT_RETRY, CONFLICT, REFUSED, RETRY
from kubectl_evictplan.windows.drains.newcomers import budgets_over
from kubectl_evictplan.windows.drains.planned import DrainPlan, PlannedTurn
from kubectl_evictplan.windows.drains.world import DrainWorld

OwnerKey = tuple[str, str, str]


class CoveredPods:
    """Budgets are known by their places in the world's list.

    ``drained`` are all pods that some process may evict, those that may come to its nodes too;
    ``drained_keys`` are their keys. ``unsure`` are owners,
    as (kind, namespace, name), of which a pod is made at the start, unless something nobody sees keeps them from it, and ``overfull``
    ones, that have more pods than they want, as far as that is known: which of them they take back is not played.
    """

    def __init__(
        self, world: DrainWorld, plan: DrainPlan, ready: ReadyTimes, rules: EvictionRules
    ) -> None:
        self._rules = rules
        self._start_ns = plan.start_ns
        self._others = plan.others
        self.world = world
        # Whether nobody but kubectl ever takes pods from a budget, or keeps them from being Ready: where something else happens its
        # controllers may be away until ``back_ns``.
        self.is_steady = cache(self._is_steady)
        self.back_ns = 0 if world.steady else plan.others.controllers_back_ns or 0
        self.ready = ready
        self._refilled, self.overfull = plan.refilled, {*plan.overfull, *plan.unknown}
        self.unsure = {*plan.short, *self.overfull}
        self._index = BudgetIndex(world.budgets)
        # By namespace and labels, which the entry keeps alive.
        self._matching: dict[tuple[str, int], tuple[Mapping[str, str], list[int]]] = {}
        self._scales = OwnerScales(world.snapshot.workloads)
        self._nodes = {node.name for node in world.snapshot.nodes}
        self._terminating = terminating_namespaces(world.snapshot)
        self._known_namespaces = known_namespaces(world.snapshot)
        self._known_budgets = world.budgets_listed and not world.budgets_denied
        self._owned: dict[OwnerKey, list[Pod]] = {}
        self._covered: dict[int, list[Pod]] = {}
        for pod in world.snapshot.pods:
            if (owner := owner_key(pod)) is not None:
                self._owned.setdefault(owner, []).append(pod)
            for place in self.covering(pod):
                self._covered.setdefault(place, []).append(pod)
        self.stays_met = cache(self._stays_met)
        # How many disruptions a budget has at most, as long as nobody is away; None: not known.
        self.most_at_a_time = cache(self._most_at_a_time)
        # Budgets under which there may be pods that nobody knows.
        self._open = budgets_over(world.without_pods, world.budgets)
        self._asking: dict[int, list[tuple[PlannedTurn, Pod]]] = {}
        self.drained: list[Pod] = []
        for turn in plan.turns:
            for pod in (*turn.pods, *turn.guests):
                self.drained.append(pod)
                for place in self.covering(pod):
                    self._asking.setdefault(place, []).append((turn, pod))
        self.drained_keys = {pod.key for pod in self.drained}
        # Places of budgets over pods that kubectl evicts if another process takes away why it refuses their node.
        self.perhaps_asked = {
            place
            for turn in plan.turns
            if not turn.surely_found
            for pod in plan.perhaps_evicted(turn)
            for place in self.covering(pod)
        }

    def covering(self, pod: Pod) -> Sequence[int]:
        """Places of the budgets that cover the pod."""
        # Pods of a template share their labels.
        name = pod.namespace, id(pod.labels)
        known = self._matching.get(name)
        if known is None:
            known = self._matching[name] = (pod.labels, self._index.matching(pod))
        return known[1]

    def asked_about(self, pod: Pod) -> Sequence[int]:
        """Places of the budgets that the Eviction API may ask about it."""
        unasked = self.is_never_asked_about(pod) or self.is_in_terminating_namespace(pod)
        return () if unasked else self.covering(pod)

    def is_never_asked_about(self, pod: Pod) -> bool:
        """Whether it goes whatever budgets say. Who starts may be Running before kubectl comes."""
        return can_ignore_budgets(pod, self._rules) and not self.is_starting(pod)

    def is_unasked_at_times(self, pod: Pod) -> bool:
        """Whether no budget is asked about it while it is Pending, or terminates already (``canIgnorePDB``)."""
        return can_ignore_budgets(replace(pod, phase="Pending"), self._rules)

    def is_deleted_once(self) -> bool:
        """Whether no budget is asked about whoever terminates already (1.19 and later)."""
        return self._rules.ignores_pending

    def may_start_late(self, pod: Pod) -> bool:
        """Whether it may be Pending still when kubectl asks, so that it goes whatever budgets say."""
        return self.is_starting(pod) and can_ignore_budgets(pod, self._rules)

    def may_be_refused(self, pod: Pod, *, evicts: bool) -> bool:
        """Whether a webhook is asked before it is evicted, or deleted, which may refuse it with whatever answer."""
        return bool(webhooks_asked(self.world.snapshot.webhooks, pod, evicts=evicts))

    def is_refusable(self, pod: Pod, turn: PlannedTurn) -> bool:
        """``may_be_refused`` when kubectl comes to its node."""
        return self.may_be_refused(pod, evicts=not turn.options.disable_eviction)

    def held_up_ns(self, pod: Pod, *, guest: bool, alone: bool) -> int:
        """How much later it is evicted at most because it changes in the moment of a DELETE that must find it as it was read.

        Who is Pending (a ``guest`` too) may be Running then: that is read again at once. Who is not Ready may be then,
        or, unless kubectl is ``alone``, be deleted by somebody else.
        """
        if not self._may_change(pod, guest=guest):
            return 0
        begins = self._rules.ignores_pending and (guest or self.may_start_late(pod))
        begun_ns = CONFLICT[1] if begins else 0
        starting_ns = self._asked_again_ns(pod) if guest or self.is_starting(pod) else 0
        others_ns = 0 if alone else self.deleted_meanwhile_ns(pod, guest=guest)
        return begun_ns + starting_ns + others_ns

    def deleted_meanwhile_ns(self, pod: Pod, *, guest: bool) -> int:
        """So much of ``held_up_ns`` only if somebody else has deleted it meanwhile.

        Who is Pending is read again at once then too; of others that is a 429 where a budget covers them.
        """
        if not self._may_change(pod, guest=guest):
            return 0
        pending = self._rules.ignores_pending and (guest or pod.phase == "Pending")
        return max(self._asked_again_ns(pod), CONFLICT[1] if pending else 0)

    def is_refused_if_changed(self, pod: Pod, *, alone: bool) -> bool:
        """Whether its budget, which lets it go unready, may answer 429 once all the same, because it changes in that moment.

        ``alone``: nobody else deletes it.
        """
        changes = self._may_change(pod, guest=False) and (not alone or self.is_starting(pod))
        return changes and self._asked_again_ns(pod) > 0

    @staticmethod
    def _may_change(pod: Pod, *, guest: bool) -> bool:
        if pod.finished or pod.deletion_timestamp_ns is not None:
            return False
        return pod.ready != "True" or guest

    def _asked_again_ns(self, pod: Pod) -> int:
        """From the request for a pod that its budget lets go unready, and that changes then, to the next one; 0 where that is no 429."""
        if not self._rules.lets_unready_go or len(self.asked_about(pod)) != 1:
            return 0
        retry = CLIENT_RETRY if self._rules.tells_when_to_retry else RETRY
        # It is found out by the DELETE of what was read, then answered.
        return REFUSED[1] + retry[1]

    def is_in_terminating_namespace(self, pod: Pod) -> bool:
        """Whether the Eviction API never evicts it: kubectl waits until somebody else has deleted it."""
        return pod.namespace in self._terminating

    def may_be_closing(self, pod: Pod) -> bool:
        """Whether its namespace, which the input does not have, may be being deleted: then somebody else may delete it too."""
        return pod.namespace not in self._known_namespaces and pod.deletion_timestamp_ns is None

    def may_be_refused_unseen(self, pod: Pod) -> bool:
        """Whether something that the input does not have may refuse its eviction: a budget, or a namespace that is being deleted."""
        if self.may_be_closing(pod):
            return True
        asked = not self.is_never_asked_about(pod) and not self.is_in_terminating_namespace(pod)
        return asked and not self._known_budgets

    def may_fail_unseen(self, pod: Pod) -> bool:
        """Whether it may do so with an error that kubectl does not repeat: several budgets, or a namespace (1.16)."""
        told = self._rules.tells_of_terminating_namespaces
        known = told or pod.namespace in self._known_namespaces
        return self.may_be_refused_unseen(pod) and not (known and self._known_budgets)

    def fails_in_namespace(self, pod: Pod) -> bool:
        """Whether that is an error for kubectl, because the answer does not say why (1.16)."""
        told = self._rules.tells_of_terminating_namespaces
        return not told and self.is_in_terminating_namespace(pod)

    def may_fail(self, place: int) -> bool:
        """Whether the budget may answer with an error that kubectl does not repeat, until its status is written anew."""
        return is_negative(self.world.budgets[place])

    def names(self, places: Iterable[int]) -> tuple[str, ...]:
        """The budgets, as "namespace/name"."""
        return tuple(self.world.budgets[place].key for place in places)

    def of_budget(self, place: int) -> Sequence[Pod]:
        """All pods that the budget covers."""
        return self._covered.get(place, [])

    def drained_of(self, place: int) -> Sequence[tuple[PlannedTurn, Pod]]:
        """Those of ``drained`` that it covers, each with the turn in which it is asked about."""
        return self._asking.get(place, ())

    def of_owner(self, owner: OwnerKey) -> Sequence[Pod]:
        """The pods of one owner."""
        return self._owned.get(owner, ())

    def covers_whole_owners(self, place: int) -> bool:
        """Whether it covers all or none of each owner's pods: else nobody knows which of them a new one is like.

        A StatefulSet's has the name, and with it what covers it. Pods that are left out of the world are under none of its budgets.
        """
        left_out = self.world.snapshot.left_out or {}
        owners = {
            owner
            for pod in self.of_budget(place)
            if (owner := owner_key(pod)) is not None and owner[0] != STATEFUL_SET
        }
        return not any("/".join(owner) in left_out for owner in owners) and all(
            place in self.covering(pod) for owner in owners for pod in self.of_owner(owner)
        )

    def synced(self, place: int, covered: Sequence[Pod]) -> PodDisruptionBudget:
        """The budget as the disruption controller would write it, if it covered these."""
        now_ns = self.world.snapshot.taken_at_ns
        return synced_status(self.world.budgets[place], covered, self._scales.scale, now_ns)

    def synced_later(self, place: int, covered: Sequence[Pod]) -> PodDisruptionBudget:
        """``synced`` when evictions from before the start are forgotten (``DeletionTimeout``)."""
        budget = replace(self.world.budgets[place], disrupted_pods=())
        return synced_status(budget, covered, self._scales.scale, self.world.snapshot.taken_at_ns)

    def forgotten_ns(self, place: int) -> list[int]:
        """The offsets before which pods that were evicted before the start, and are still there, do not count again."""
        disrupted = self.world.budgets[place].disrupted_pods
        return [at_ns + DELETION_TIMEOUT_NS - self._start_ns for _, at_ns in disrupted]

    def started(self, place: int) -> list[Pod]:
        """Its pods, when those that are starting are Ready."""
        return [as_ready(pod) if self.is_starting(pod) else pod for pod in self.of_budget(place)]

    def in_the_end(self, place: int) -> list[Pod]:
        """Those of ``started`` that stay: pods of nodes that are gone are collected, and perhaps nobody makes them anew."""
        return [pod for pod in self.started(place) if self.has_node(pod) or pod.ready != "True"]

    def allowed_at_best(self, place: int) -> int | None:
        """How many disruptions it has if all its pods are Ready: there are never more, unless an owner lacks some.

        Who counts as disrupted from before the start, and is still there, does not for long.
        """
        return self._allowed_if_ready(place, self.of_budget(place))

    def may_be_ready(self, pod: Pod) -> bool:
        """Whether it is, or may be some day: whoever may not counts in no budget as it is, and is missed in none."""
        return not (pod.finished or self._leaves(pod))

    def _leaves(self, pod: Pod) -> bool:
        return pod.deletion_timestamp_ns is not None and self.is_settled(pod)

    def _allowed_if_ready(self, place: int, pods: Iterable[Pod]) -> int | None:
        at_best = [pod if pod.finished else as_ready(pod) for pod in pods]
        return self.synced_later(place, at_best).disruptions_allowed

    def lets_go_one_at_a_time(self, place: int) -> bool:
        """Whether it never has more than one disruption: whoever does not take it finds it closed until it is back."""
        most = self.most_at_a_time(place)
        return most is not None and most <= 1

    def _most_at_a_time(self, place: int) -> int | None:
        staying = [pod for pod in self.of_budget(place) if not self._leaves(pod)]
        most = self._allowed_if_ready(place, staying)
        known = (
            self.is_steady(place)
            and self.keeps_its_wish(place)
            and self.covers_whole_owners(place)
            and not any(owner_key(pod) in self.unsure for pod in self.of_budget(place))
        )
        if most is None or not known:
            return None
        return max(most, self.world.budgets[place].disruptions_allowed or 0)

    def is_behind(self, place: int) -> bool:
        """Whether the status is seen to be older than its spec, or than the pods listed beside it."""
        now_ns, budget = self.world.snapshot.taken_at_ns, self.world.budgets[place]
        return is_stale(budget) or is_behind(budget, self.of_budget(place), now_ns)

    def client_retries_ns(self, place: int) -> int:
        """How long client-go may ask before kubectl hears that the budget refuses a pod.

        Once, if its status is written anew meanwhile; else as often as it may.
        """
        budget = self.world.budgets[place]
        if not is_stale(budget) or not self._rules.tells_when_to_retry:
            return 0
        written = self.is_steady(place) and not is_stale(self.synced(place, self.of_budget(place)))
        return CLIENT_RETRY[1] * (1 if written else CLIENT_RETRIES)

    def _stays_met(self, place: int) -> bool:
        """Whether nobody takes healthy pods from the budget but kubectl, as far as the input tells."""
        covered = self.of_budget(place)
        as_told = self.synced(place, covered) == self.world.budgets[place]
        as_told = as_told and self.is_steady(place) and place not in self._open
        as_told = as_told and not any(owner_key(pod) in self.overfull for pod in covered)
        return as_told and all(map(self.has_node, covered))

    def _is_steady(self, place: int) -> bool:
        if self.world.steady:
            return True
        changed = [n for n in self.world.snapshot.nodes if n.name in self.world.deleted.changed]
        own = [*self.of_budget(place), *(pod for _, pod in self.drained_of(place))]
        owners = {owner for pod in own if (owner := owner_key(pod)) is not None}
        own += [pod for owner in owners for pod in self.of_owner(owner)]
        return (
            self._others.controllers_back_ns is not None
            and not self._others.makes_any
            and all(map(self._others.leave_alone, own))
            # What is made anew lands where nothing else happens.
            and not any(lets_in(node, pod) for node in changed for pod in own)
            and not self._others.opens_nodes
            and not self._others.displaces
        )

    def bypassing(self, place: int) -> Sequence[PlannedTurn]:
        """Turns in which pods of the budget are deleted without asking it."""
        return [turn for turn, _ in self.drained_of(place) if turn.options.disable_eviction]

    def is_uncounted(self, place: int, pod: Pod) -> bool:
        """Whether the budget lets the pod go because it does not count, unless somebody bypasses the budget before.

        Evictions leave it what it wants.
        """
        return (
            needs_no_disruption(pod, self.world.budgets[place], self._rules)
            and self.stays_met(place)
            and pod.phase == "Running"
            and pod.deletion_timestamp_ns is None
            and len(self.covering(pod)) == 1
            and not self.is_starting(pod)
            and not self.may_be_refused(pod, evicts=True)
            and not self.is_in_terminating_namespace(pod)
        )

    def lets_go(self, place: int, pod: Pod) -> bool:
        """Whether the budget lets the pod go as soon as it is asked, whenever that is."""
        return self.is_uncounted(place, pod) and not self.bypassing(place)

    def is_settled(self, pod: Pod) -> bool:
        """Whether the pod stays as it is while nobody evicts it."""
        if pod.finished:
            return True
        if pod.deletion_timestamp_ns is not None:
            # It counts no more; nor does its place, unless its owner has still to fill it.
            return owner_key(pod) not in self._refilled
        return pod.phase == "Running" and self.has_node(pod) and not self.is_starting(pod)

    def stays(self, pod: Pod) -> bool:
        """``is_settled``, and nobody makes another one like it before it is evicted."""
        owner = owner_key(pod)
        free = owner is None or (owner not in self._refilled and owner not in self.unsure)
        return free and pod.deletion_timestamp_ns is None and self.is_settled(pod)

    def has_node(self, pod: Pod) -> bool:
        """Whether it is bound to a node that exists: else it is bound, or collected as garbage, meanwhile."""
        return pod.node_name in self._nodes

    def slowest_ns(self, pod: Pod) -> int:
        """How long one of its owner takes at most to be Ready, if it ever is."""
        least_ns, most_ns = self.ready.range_of(pod)
        return most_ns or least_ns

    def ready_earliest_ns(self, pod: Pod) -> int:
        """The offset before which a pod that is starting is not Ready."""
        return pod.creation_timestamp_ns + self.ready.range_of(pod)[0] - self._start_ns

    @cached_property
    def starting(self) -> Sequence[Pod]:
        """All of the world that are (``is_starting``)."""
        return [pod for pod in self.world.snapshot.pods if self.is_starting(pod)]

    def is_starting(self, pod: Pod) -> bool:
        """Whether the pod is so young that it will be Ready like a replacement."""
        young_ns = pod.creation_timestamp_ns + self.slowest_ns(pod)
        return (
            pod.ready != "True"
            and not pod.finished
            and bool(pod.node_name)
            and pod.controller() is not None
            and young_ns >= self.world.snapshot.taken_at_ns
        )

    def keeps_its_wish(self, place: int) -> bool:
        """Whether it wants as many healthy pods all the time, whoever of them is away, and has no others.

        ReplicaSets of one Deployment are one owner: its scale counts (``getPodDeployment``).
        """
        if place in self._open:
            return False
        budget = self.world.budgets[place]
        if budget.min_available is not None and not budget.min_available.percent:
            return True
        owners = {
            (pod.namespace, owner)
            for pod in self.of_budget(place)
            if (owner := pod.controller()) is not None
        }
        if len(owners) < 2:
            return True
        scales = [self._scales.scale(*owner) for owner in owners]
        known = {one.uid for one in scales if isinstance(one, Scale)}
        return len(known) == 1 and all(isinstance(one, Scale) for one in scales)


def as_ready(pod: Pod) -> Pod:
    """The pod as it is when it has started."""
    return replace(pod, ready="True", phase="Running", deletion_timestamp_ns=None)
