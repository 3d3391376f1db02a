"""All that the parts of the impact look at, computed once: touched pods with their fates, and the groups they are in.

Costs one pass over the pods of the cluster; what happens is computed once for each kind of pod of each node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import count
from operator import add, itemgetter

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.job_tracking import job_controller_runs_in_the_end
from kubectl_evictplan.controllers.replication import PARALLEL, STATEFUL_SET
from kubectl_evictplan.impact.again import RETURNING, after_losses, drained_turns, goes_again
from kubectl_evictplan.impact.availability import Availability
from kubectl_evictplan.impact.covered import covered_by_budgets, spare_of_asked, waits_for
from kubectl_evictplan.impact.curves import Curves
from kubectl_evictplan.impact.deletions import Deletion, deletions
from kubectl_evictplan.impact.fates import (
    NOBODY,
    Fate,
    Moving,
    Readiness,
    SharedFate,
    Told,
    alike,
    deletion_of,
    end_at_deadlines,
    fate_of,
    is_counted,
    what_they_meet_with,
    when_away,
)
from kubectl_evictplan.impact.job_ends import JOB, end_jobs, job_ends
from kubectl_evictplan.impact.members import (
    Members,
    Owners,
    how_many_there,
    moving_pods,
    touched_pods,
)
from kubectl_evictplan.impact.node_lives import (
    NodeLife,
    frozen_stretches,
    node_lives,
    out_of_service_taints,
    thawed,
)
from kubectl_evictplan.impact.placements import (
    AT_ONCE,
    GATED,
    Change,
    Placement,
    Placements,
    placements_of,
)
from kubectl_evictplan.impact.pushed import fate_of_bystander, perhaps_pushed, pushed_out
from kubectl_evictplan.impact.stretches import FOREVER_NS, NEVER, NONE, Absence, Between
from kubectl_evictplan.impact.successors import (
    AT_DELETION,
    KNOWN_OWNERS,
    Assumed,
    Lost,
    ReplacementTimes,
    after_companions,
    begins,
    in_order,
    lost_pods,
    not_available,
    successor,
)
from kubectl_evictplan.impact.volumes import Hold, Volumes, ready_not_before
from kubectl_evictplan.impact.wanted import not_wanted
from kubectl_evictplan.kube.finalizers import jobs_managed_elsewhere
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.owners import (
    AT_ONCE_READY,
    NOBODY_CLOSED,
    MakesNone,
    OwnerKey,
    available_after,
    closed_owners,
    made_anew,
)
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.records import where_code
from kubectl_evictplan.scenarios.scenario import Scenario

# Nobody makes pods of these anew, or only where they were.
_NOT_PLACED = frozenset({"Pod", "Node", "DaemonSet"})


_NOTHING = NodeLife()
# Of a pod of a StatefulSet its node, and when it holds back those with higher ordinals.
_Lower = tuple[str, Absence]


class World:
    """One prediction, as the impact sees it. Read only once built."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        prediction: Prediction,
        assumed: Assumed,
        *,
        part: bool = False,
    ) -> None:
        """``part``: the snapshot is a part of the cluster, so nobody can say where successors find room."""
        self.snapshot, self.scenario, self._part = snapshot, scenario, part
        self._profile = configuration.profile
        self.prediction = prediction
        self.lives = node_lives(
            snapshot, scenario, prediction, configuration.node_monitor_period_ns
        )
        self._drained = drained_turns(prediction.drains)
        self.frozen = frozen_stretches(scenario)
        self.volumes = Volumes(snapshot.infrastructure, snapshot.pods)
        self.workloads = {(w.namespace, w.kind, w.name): w for w in snapshot.workloads}
        self.has_gates = any(one.scheduling_gates for one in snapshot.workloads)
        self._owners = Owners(snapshot.workloads)
        self._closed = closed_owners(snapshot)
        self._times = ReplacementTimes(assumed)
        touched = touched_pods(snapshot, scenario, prediction.evictions, self.lives)
        tracked = job_controller_runs_in_the_end(configuration, scenario)
        others = jobs_managed_elsewhere(snapshot.workloads)
        known = scenario, prediction.evictions, touched, self.lives
        self.deletions = deletions(*known, job_controller=tracked, elsewhere=others)
        self.returning = {
            name
            for warning in where_code(prediction.warnings, RETURNING.__contains__)
            for name in warning.objects
        }
        moving = moving_pods(touched, self.lives, self._owners, self.deletions)
        self._group(moving)
        self._out_of_service = out_of_service_taints(prediction)
        odd = [one for one in moving if id(one.pod) in self._absent] if self._absent else []
        known_owners = self.workloads, self.by_owner, self.deletions
        self._not_wanted = not_wanted(odd, self._moving_owners, *known_owners)
        self._own = self._not_wanted.surely | self._not_wanted.perhaps | self.volumes.claiming
        self.job_ends = job_ends(self.by_owner, self.workloads, self._lost, scenario.start_ns)
        self.placements = Placements() if part else self._places(moving)
        self.fates = self._fates(moving)
        end_at_deadlines(self.fates, snapshot, scenario.start_ns)
        for one in end_jobs(self.fates, self.job_ends, self.by_owner):
            moving.append(one)
            self.by_labels[one.pod.namespace, id(one.pod.labels)].moving.append(one)
        self.pushed = pushed_out(snapshot.pods, self.placements.pushes, self.owner_of)
        if self.pushed.since_ns:
            self._push_out(moving)
        for labelled in self.by_labels.values():
            labelled.settle(self.fates)
        self._limit_by_budgets()
        self._limit_pushed()
        self._kinds_of_fates: dict[OwnerKey, int] = {}
        self._numbers_of_fates: dict[Hashable, int] = {}
        self._curves = Curves(self.frozen, self.asked_budget, self.spare)

    # -- who is touched -----------------------------------------------------------------------------

    def _group(self, moving: Sequence[Moving]) -> None:
        members = Members(self.snapshot, moving, self._owners)
        self.by_owner, self.by_labels = members.by_owner, members.by_labels
        self._absent, self._moving_owners = members.absent, members.owners

    def _places(self, moving: Sequence[Moving]) -> Placements:
        """Where successors can run, and when they find their place."""
        deleted = [one for one in moving if one.deletion is not None]
        # Whoever is deleted first looks for a place first, and then by their keys; as the input mostly is.
        replaced = sorted(self._made_anew(deleted), key=itemgetter(0))
        gated = set[str]()
        if self.has_gates:
            gated.update(one.key for one in replaced if self.gates_of(one.owner))
        absent = self._absent
        going = [pod for pod in self.snapshot.pods if id(pod) in absent] if absent else []
        change = Change(
            self.snapshot,
            self.scenario,
            self.prediction,
            self.lives,
            self.deletions,
            [one.pod for one in deleted],
            [pod for pod in going if pod.deletion_timestamp_ns is not None],
            gated,
            self._profile.resized_pods_hold,
            self._profile.storage_capacity,
        )
        return placements_of(
            change,
            [
                made_anew(pod, self.workloads.get(owner), self.by_owner.get(owner, ()))
                if pod.resized is not None or owner[1] == STATEFUL_SET
                else pod
                for _, pod, owner, _ in replaced
            ],
            [one.when[0] for one in map(deletion_of, replaced) if one is not None],
        )

    def _made_anew(self, deleted: Sequence[Moving]) -> Sequence[Moving]:
        """Those of them of which an owner may make others."""
        # Of owners that replace at once each is asked about once for all of its pods.
        owners = {owner for owner in self._moving_owners if owner[1] in AT_DELETION}
        make = {owner for owner in owners if self._replaces_at_once(owner)}
        surely = self._not_wanted.surely
        if len(make) == len(self._moving_owners) and not surely:
            return deleted
        return [
            one
            for one in deleted
            if (one.owner in make or (one.owner not in owners and self._replaced(one)))
            and one.key not in surely
        ]

    def gates_of(self, owner: OwnerKey) -> tuple[str, ...]:
        """Names of the scheduling gates that the owner's template gives to successors, as far as it was read."""
        if not self.has_gates:
            return ()
        known = self.workloads.get(owner)
        return () if known is None else known.scheduling_gates

    def _place_of(self, key: str, owner: OwnerKey) -> Placement:
        """When a pod's successor finds a node; of who is not asked where (DaemonSets, a part of a cluster) what gates say."""
        place = self.placements.of(key, owner)
        return GATED if self.has_gates and place is AT_ONCE and self.gates_of(owner) else place

    def _replaced(self, moving: Moving) -> bool:
        """Whether an owner that does not replace at once may make another: whoever never comes takes nobody's room."""
        if moving.deletion is None or moving.owner[1] in _NOT_PLACED:
            return False
        if (end := self.job_ends.get(moving.owner)) is not None and end.certain:
            return False
        return not self._begins(moving.owner, moving.deletion, moving.pod).never

    @cached_property
    def deletes_nodes(self) -> bool:
        """Whether any node that is touched is deleted, perhaps."""
        return any(not life.deleted.never for life in self.lives.values())

    @property
    def has_surplus(self) -> bool:
        """Whether any pod is deleted and not missed: see ``is_surplus``."""
        return bool(self._not_wanted.surely)

    def is_surplus(self, key: str) -> bool:
        """Whether that pod is deleted and not missed: its owner has too many, or has replaced it before."""
        return key in self._not_wanted.surely

    def owner_of(self, pod: Pod) -> OwnerKey:
        """The managing owner; of a bare pod itself, with the kind "Pod"."""
        return self._owners.of(pod)

    def workload_of(self, owner: OwnerKey) -> tuple[str, str]:
        """(namespace, "Kind/name") of what people know the owner by: of a ReplicaSet its Deployment."""
        return self._owners.workload(owner)

    def makes_none(self, owner: OwnerKey) -> MakesNone | None:
        """Why an owner makes no other pods whatever it loses, None: it does. Static pods are their kubelet's."""
        if self._closed == NOBODY_CLOSED or owner[1] == "Node":
            return None
        return self._closed.why(owner)

    def kind_of_fates(self, owner: OwnerKey) -> int:
        """Equal for owners whose pods meet with the same, one by one: what follows from that is found out once."""
        known = self._kinds_of_fates.get(owner)
        if known is None:
            met = what_they_meet_with(self.fates_of(owner))
            known = self._numbers_of_fates.setdefault(met, len(self._numbers_of_fates))
            self._kinds_of_fates[owner] = known
        return known

    def fates_of(self, owner: OwnerKey) -> Sequence[Fate]:
        """What becomes of the owner's pods that something happens to."""
        return self._fates_by_owner.get(owner, ())

    @cached_property
    def _fates_by_owner(self) -> Mapping[OwnerKey, Sequence[Fate]]:
        found: dict[OwnerKey, list[Fate]] = {}
        for fate in self.fates.values():
            if (known := found.get(fate.owner)) is None:
                found[fate.owner] = [fate]
            else:
                known.append(fate)
        return found

    def wanted_by(self, owner: OwnerKey) -> int | None:
        """How many pods an owner asks for, where the input tells."""
        known = self.workloads.get(owner)
        return None if known is None else known.replicas

    @property
    def proxies_to_ending_pods(self) -> bool:
        """Whether kube-proxy of the release sends clients to pods that are ending where no endpoint is ready."""
        return self._profile.proxies_to_ending_pods

    @staticmethod
    def is_known_kind(kind: str) -> bool:
        """Whether it is known what owners of that kind do about a lost pod."""
        return kind in KNOWN_OWNERS

    def holds(self, pod: Pod) -> list[Hold]:
        """When the claims of a pod that is deleted are free; none for a pod that stays."""
        if not self.volumes.claims_of(pod) or pod.key not in self.deletions:
            return []
        life = self.lives.get(pod.node_name, _NOTHING)
        out_of_service = self._out_of_service.get(pod.node_name, NEVER)
        return self.volumes.holds(pod, life, self.deletions, out_of_service)

    # -- what becomes of them -----------------------------------------------------------------------

    def readiness_of(self, owner: OwnerKey) -> Readiness:
        """How long a replacement of that owner takes to be Ready."""
        return self._times.of(owner, self.by_owner)

    def _fates(self, moving: Sequence[Moving]) -> dict[str, Fate]:
        found: dict[str, Fate] = {}
        sets: dict[OwnerKey, list[Moving]] = {}
        numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
        alike = list(map(numbers.__getitem__, self._alike(moving)))
        # By number what alike pods share; None: each is found out for itself.
        shared = list(map(self._shared, dict(zip(alike, moving, strict=True)).values()))
        fate = partial(tuple.__new__, Fate)
        if None not in shared:
            fates = map(fate, map(add, moving, map([(one,) for one in shared].__getitem__, alike)))
            return dict(zip([one.key for one in moving], fates, strict=True))
        for one, known in zip(moving, map(shared.__getitem__, alike), strict=True):
            if known is not None:
                found[one.key] = Fate(*one, known)
            elif one.owner[1] == STATEFUL_SET:
                sets.setdefault(one.owner, []).append(one)
            else:
                found[one.key] = self._fate(one, None)
        for owner, pods in sets.items():
            found.update(self._stateful_set(owner, pods))
        return found

    def _alike(self, moving: Sequence[Moving]) -> Iterable[Hashable]:
        """Of each pod something that is equal for those that share what becomes of them."""
        place_of: Callable[[str, OwnerKey], Placement] | None = None
        if self.placements.of_pod or self.has_gates:
            place_of = self._place_of
        told = Told(
            self.lives,
            self._moving_owners,
            self._kind_of,
            place_of,
            self.returning,
            self._absent,
            self._own,
        )
        return alike(moving, told)

    def _shared(self, moving: Moving) -> SharedFate | None:
        """What becomes of a pod as far as it is the same for alike ones; None where each has to be asked about."""
        owner, deletion = moving.owner, moving.deletion
        if owner[1] == STATEFUL_SET or moving.key in self._own:
            return None
        if deletion is not None and not self._replaces_at_once(owner):
            return None
        return self._fate(moving, None).shared

    def _kind_of(self, owner: OwnerKey) -> tuple[object, ...]:
        readiness = self.readiness_of(owner)
        at_once, place = self._replaces_at_once(owner), self.placements.of_owner.get(owner)
        how = at_once, owner[1] == STATEFUL_SET, readiness.least_ns, readiness.most_ns
        return *how, id(place)

    def _replaces_at_once(self, owner: OwnerKey) -> bool:
        """Whether it makes others as soon as pods are deleted."""
        return owner[1] in AT_DELETION and not self.makes_none(owner)

    def _fate(self, moving: Moving, lower: Mapping[str, _Lower] | None) -> Fate:
        key, pod, owner, deletion = moving
        life = self.lives.get(pod.node_name, _NOTHING)
        if deletion is None or key in self._not_wanted.surely:
            return fate_of(moving, life, NOBODY)
        readiness, place = self.readiness_of(owner), self._place_of(key, owner)
        since = self._begins(owner, deletion, pod)
        if self.frozen:
            since = thawed(since, self.frozen)
        if lower is not None:
            since = in_order(since, {key: (a.possible, a.sure) for key, (_, a) in lower.items()})
            beside = [a for node, a in lower.values() if node == pod.node_name]
            since = after_companions(since, deletion, beside)
        free = ready_not_before(self.holds(pod), placed=not self._part)
        next_one = successor(since, readiness, place, free)
        if next_one.bound.never:
            return fate_of(moving, life, next_one)
        returns = key in self.returning
        known = self._drained, readiness, place, self.workloads.get(owner)
        again = goes_again(owner[1], deletion, life, *known, returns=returns)
        again += after_losses(
            pod, owner[1], place, next_one, readiness, returns=returns, moves=bool(again)
        )
        return fate_of(moving, life, next_one, again)

    def _begins(self, owner: OwnerKey, deletion: Deletion, pod: Pod) -> Between:
        """From when on the owner makes another for that pod."""
        if self.makes_none(owner) is not None:
            return NEVER
        kind = "" if owner[1] == "Pod" else owner[1]
        life = self.lives.get(pod.node_name, _NOTHING)
        known = self.workloads.get(owner), self._lost(owner, pod)
        found = begins(kind, deletion, life, *known, returns=pod.key in self.returning)
        perhaps = pod.key in self._not_wanted.perhaps
        return found._replace(latest_ns=FOREVER_NS) if perhaps else found

    def _lost(self, owner: OwnerKey, first: Pod | None = None) -> Sequence[Lost]:
        """Which pods a Job loses, the one that is asked about before the others; of other owners nobody asks."""
        if owner[1] != JOB:
            return ()
        pods = self.by_owner.get(owner, ())
        return lost_pods(pods, self.deletions, self._not_wanted.surely, first)

    def _stateful_set(self, owner: OwnerKey, pods: list[Moving]) -> Iterator[tuple[str, Fate]]:
        workload = self.workloads.get(owner)
        if workload is not None and workload.pod_management_policy == PARALLEL:
            yield from ((one.key, self._fate(one, None)) for one in pods)
            return
        within = available_after(workload, self._profile.stateful_set_availability)
        start_ns = self.scenario.start_ns
        touched = {one.key: one for one in pods}
        lower: dict[str, _Lower] = {}
        for pod in sorted(self.by_owner[owner], key=lambda one: (len(one.name), one.name)):
            node = pod.node_name
            if (one := touched.get(pod.key)) is not None:
                found = self._fate(one, lower)
                yield one.key, found
                if is_counted(pod):
                    lower[pod.key] = node, not_available(pod, found.away, within, start_ns)
            elif within != AT_ONCE_READY:
                lower[pod.key] = node, not_available(pod, NONE, within, start_ns)
            if not is_counted(pod):
                # It may become Ready at any time, or never.
                lower[pod.key] = node, Absence(((-FOREVER_NS, FOREVER_NS),))

    def _push_out(self, moving: Sequence[Moving]) -> None:
        """Let pods be perhaps away that replacements may push out, of those that move and of others."""
        known = {one.key: one for one in moving}
        everybody: list[Moving] = []
        for pod in self.snapshot.pods:
            key = pod.key
            if (from_ns := self.pushed.since_ns.get(key)) is not None:
                if key in known:
                    self.fates[key] = perhaps_pushed(self.fates[key], from_ns)
                else:
                    known[key] = Moving(key, pod, self.owner_of(pod), None)
                    self.fates[key] = fate_of_bystander(known[key], from_ns)
            if (one := known.get(key)) is not None:
                everybody.append(one)
        self._group(everybody)

    def _limit_by_budgets(self) -> None:
        self.budgets = covered_by_budgets(
            self.snapshot, self.by_labels.values(), waits_for(self.prediction.drains)
        )
        # Pods that only drains evict, under a budget that is asked: by their keys its key, and by that how many of
        # its pods may be away at one time.
        self.asked_budget: dict[str, str] = {}
        self.spare: dict[str, int] = {}
        for covered in self.budgets:
            if (spare := spare_of_asked(covered)) is not None:
                self.spare[covered.budget.key] = spare
                self.asked_budget.update((one.key, covered.budget.key) for one in covered.fates)

    def _limit_pushed(self) -> None:
        """Of one owner's pods that nothing else happens to not more are away than are pushed out."""
        for key in self.pushed.since_ns:
            fate = self.fates[key]
            if fate.deletion is None and key not in self.asked_budget:
                limit = " ".join(("pushed", *fate.owner))
                self.asked_budget[key] = limit
                self.spare[limit] = self.pushed.limits[fate.owner]

    def how_many_there(self, pods: Sequence[Pod]) -> int:
        """How many of these count as there at the start."""
        return how_many_there(pods, self._absent)

    # -- groups -------------------------------------------------------------------------------------

    def availability(
        self,
        before: int,
        fates: Iterable[Fate],
        absence_of: Callable[[Fate], Absence] = when_away,
        *,
        endpoints: bool = False,
        limited: bool = True,
    ) -> Availability:
        """How many of ``before`` are there over time; ``fates`` are those of all members that move.

        ``absence_of`` says what counts as being away. ``endpoints``: as the EndpointSlices show it.
        ``limited``: who a budget holds back is there.
        """
        known = before, fates, absence_of
        return self._curves.curve(*known, endpoints=endpoints, limited=limited)
