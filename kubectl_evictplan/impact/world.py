"""All that the parts of the impact look at, computed once: touched pods with their fates, and the groups they are in.

Costs one pass over the pods of the cluster; what happens is computed once for each kind of pod of each node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.job_tracking import job_controller_runs_in_the_end
from kubectl_evictplan.controllers.replication import PARALLEL, STATEFUL_SET
from kubectl_evictplan.impact.again import after_losses, later_drains, rounds
from kubectl_evictplan.impact.availability import Availability, Group
from kubectl_evictplan.impact.covered import covered_by_budgets, spare_of_asked
from kubectl_evictplan.impact.deletions import Deletion, Rows, deletions, rows_of
from kubectl_evictplan.impact.fates import NOBODY, Again, Fate, fate_of, is_counted, successor_after
from kubectl_evictplan.impact.node_lives import (
    NodeLife,
    between,
    frozen_stretches,
    node_lives,
    thawed,
    thawed_absence,
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
from kubectl_evictplan.impact.ready_after import DEFAULT, GIVEN, Readiness, learnt
from kubectl_evictplan.impact.stretches import FOREVER_NS, NEVER, NONE, Absence, Between
from kubectl_evictplan.impact.successors import (
    AT_DELETION,
    KNOWN_OWNERS,
    Lost,
    begins,
    in_order,
    not_wanted,
    successor,
)
from kubectl_evictplan.impact.volumes import Hold, Volumes, ready_not_before
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.workloads import deployments_of, top_workload
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.windows.drain_runs import AssumeReady
from kubectl_evictplan.windows.outcome import TAINT_ADDED

JOB = "Job"
# Nobody makes pods of these anew, or only where they were.
_NOT_PLACED = frozenset({"Pod", "Node", "DaemonSet"})

OwnerKey = tuple[str, str, str]  # namespace, kind, name; kind "" for a bare pod


class Assumed(NamedTuple):
    """What to assume of replacements; ``given``: somebody said so, and the pods' own history does not count."""

    ready: AssumeReady
    given: bool


# What counts as being away: neither the pod nor a successor is Ready, or nobody answers in its place.
away: Callable[[Fate], Absence] = attrgetter("away")
dead: Callable[[Fate], Absence] = attrgetter("dead")


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
        self._resized_pods_hold = configuration.profile.resized_pods_hold
        self.prediction = prediction
        self.lives = node_lives(
            snapshot, scenario, prediction, configuration.node_monitor_period_ns
        )
        self.frozen = frozen_stretches(scenario)
        self.volumes = Volumes(snapshot.infrastructure)
        self.workloads = {(w.namespace, w.kind, w.name): w for w in snapshot.workloads}
        self._has_gates = any(one.scheduling_gates for one in snapshot.workloads)
        self._deployments = deployments_of(snapshot.workloads)
        self._assumed = assumed
        self._drained = bool(drained_nodes(scenario))
        self._owners: dict[tuple[str, int], OwnerKey] = {}
        rows = rows_of(prediction)
        touched = self._touched_pods(rows)
        tracked = job_controller_runs_in_the_end(configuration, scenario)
        self.deletions = deletions(scenario, rows, touched, self.lives, job_controller=tracked)
        self.returning = {
            name
            for warning in prediction.warnings
            if warning.code == "replacement-may-return"
            for name in warning.objects
        }
        moving = {
            key: pod
            for key, pod in touched.items()
            if key in self.deletions or self._is_disturbed(pod.node_name)
        }
        # Pods of every workload that has a moving pod, by owner; all pods by what labels they carry. In input order.
        self.by_owner: dict[OwnerKey, list[Pod]] = {}
        self.by_labels: dict[tuple[str, int], list[Pod]] = {}
        self._group(moving)
        self._out_of_service = self._out_of_service_taints()
        self._readiness: dict[OwnerKey, Readiness] = {}
        self._not_wanted = self._find_not_wanted(moving.values())
        self.placements = Placements() if part else self._places(touched)
        self.fates = dict(self._fates(moving))
        self.pushed = pushed_out(snapshot.pods, self.placements.pushes, self.owner_of)
        if self.pushed.since_ns:
            self._push_out(moving)
        # Whether a pod moves whose node does nothing.
        self._elsewhere = any(pod.node_name not in self.lives for pod in moving.values())
        self._limit_by_budgets()
        self._limit_pushed(moving)

    # -- who is touched -----------------------------------------------------------------------------

    def _touched_pods(self, rows: Rows) -> dict[str, Pod]:
        lives = self.lives
        named = {key for event in self.scenario.events for key in event.pods}
        named.update(
            key for key, some in rows.items() if any(row.node not in lives for row in some)
        )
        if not named:
            return {pod.key: pod for pod in self.snapshot.pods if pod.node_name in lives}
        return {
            pod.key: pod for pod in self.snapshot.pods if pod.node_name in lives or pod.key in named
        }

    def _is_disturbed(self, node: str) -> bool:
        life = self.lives.get(node)
        return life is not None and bool(life.silences or life.unready or not life.deleted.never)

    def _find_not_wanted(self, moving: Iterable[Pod]) -> frozenset[str]:
        """Deleted pods that their owners make no others for, because they want fewer."""
        return frozenset(
            key
            for owner in {self.owner_of(pod) for pod in moving}
            for key in not_wanted(
                owner[1], self.workloads.get(owner), self.by_owner.get(owner, ()), self.deletions
            )
        )

    def _places(self, touched: Mapping[str, Pod]) -> Placements:
        """Where successors can run, and when they find their place."""
        order = sorted((one.when.earliest_ns, key) for key, one in self.deletions.items())
        evicted = {key: touched[key] for _, key in order}
        replaced = [
            self._made_anew(pod)
            for key, pod in evicted.items()
            if self.owner_of(pod)[1] not in _NOT_PLACED and self._replaced(pod, self.deletions[key])
        ]
        gated = {pod.key for pod in replaced if self.gates_of(pod)}
        change = Change(
            self.snapshot,
            self.scenario,
            self.prediction,
            self.lives,
            self.deletions,
            evicted,
            gated,
            self._resized_pods_hold,
        )
        return placements_of(change, replaced)

    def _made_anew(self, pod: Pod) -> Pod:
        """The pod as its owner makes it: what was changed in place is as in the template again."""
        owner = self.workloads.get(self.owner_of(pod)) if pod.resized is not None else None
        if pod.resized is None or pod.needs is None or owner is None:
            return pod
        requests = pod.resized.anew(owner.template)
        return replace(pod, needs=replace(pod.needs, requests=requests))

    def gates_of(self, pod: Pod) -> tuple[str, ...]:
        """Names of the scheduling gates that the owner's template gives to successors, as far as it was read."""
        if not self._has_gates:
            return ()
        owner = self.workloads.get(self.owner_of(pod))
        return () if owner is None else owner.scheduling_gates

    def _place_of(self, pod: Pod) -> Placement:
        """When its successor finds a node; of who is not asked where (DaemonSets, a part of a cluster) what gates say."""
        place = self.placements.of(pod.key)
        return GATED if place is AT_ONCE and self.gates_of(pod) else place

    def _replaced(self, pod: Pod, deletion: Deletion) -> bool:
        """Whether the owner may make another: whoever never comes takes nobody's room."""
        if pod.key in self._not_wanted:
            return False
        return not self._begins(self.owner_of(pod), deletion, pod).never

    def is_surplus(self, pod: Pod) -> bool:
        """Whether it is deleted and its owner, which has too many, makes no other for it."""
        return pod.key in self._not_wanted

    def fate_of(self, pod: Pod) -> Fate | None:
        """What becomes of a pod; None when nothing does."""
        if pod.node_name not in self.lives and not self._elsewhere:
            return None
        return self.fates.get(pod.key)

    def owner_of(self, pod: Pod) -> OwnerKey:
        """The managing owner; of a bare pod itself, with the kind "Pod"."""
        if not pod.owner_references:
            return pod.namespace, "Pod", pod.name
        token = pod.namespace, id(pod.owner_references)
        known = self._owners.get(token)
        if known is None:
            owner = pod.controller()
            if owner is None:
                return pod.namespace, "Pod", pod.name
            # Images of static pods are each their own: a node is no workload.
            if owner.kind == "Node":
                return pod.namespace, "Node", pod.name
            known = self._owners[token] = pod.namespace, owner.kind, owner.name
        return known

    def workload_of(self, owner: OwnerKey) -> tuple[str, str]:
        """(namespace, "Kind/name") of what people know the owner by: of a ReplicaSet its Deployment."""
        namespace, kind, name = owner
        if kind == "Node":
            return namespace, f"Pod/{name}"
        return namespace, top_workload((namespace, f"{kind}/{name}"), self._deployments)

    def wanted_by(self, owner: OwnerKey) -> int | None:
        """How many pods an owner asks for, where the input tells."""
        known = self.workloads.get(owner)
        return None if known is None else known.replicas

    @staticmethod
    def is_known_kind(kind: str) -> bool:
        """Whether it is known what owners of that kind do about a lost pod."""
        return kind in KNOWN_OWNERS

    def holds(self, pod: Pod) -> list[Hold]:
        """When the claims of a pod that is deleted are free; none for a pod that stays."""
        deletion = self.deletions.get(pod.key)
        if deletion is None or not self.volumes.claims_of(pod):
            return []
        life = self.lives.get(pod.node_name, NodeLife())
        out_of_service = self._out_of_service.get(pod.node_name, NEVER)
        return self.volumes.holds(pod, life, deletion, out_of_service)

    def _group(self, moving: Mapping[str, Pod]) -> None:
        wanted = {self.workload_of(owner) for owner in {self.owner_of(p) for p in moving.values()}}
        # Owners and labels of pods of one template are one object each.
        classes: dict[tuple[str, int, int], list[Pod]] = {}
        for pod in self.snapshot.pods:
            token = pod.namespace, id(pod.owner_references), id(pod.labels)
            alike = classes.get(token)
            if alike is None:
                classes[token] = [pod]
            else:
                alike.append(pod)
        for (namespace, _, labels), pods in classes.items():
            self.by_labels.setdefault((namespace, labels), []).extend(pods)
            for owner, some in self._owned(pods):
                if self.workload_of(owner) in wanted:
                    self.by_owner.setdefault(owner, []).extend(some)

    def _owned(self, pods: list[Pod]) -> Iterable[tuple[OwnerKey, list[Pod]]]:
        """Pods with one object for their owners, by owner: each its own where it has none."""
        owner = self.owner_of(pods[0])
        if owner[1] in ("Pod", "Node"):
            return [(self.owner_of(pod), [pod]) for pod in pods]
        return [(owner, pods)]

    # -- what becomes of them -----------------------------------------------------------------------

    def readiness_of(self, owner: OwnerKey) -> Readiness:
        """How long a replacement of that owner takes to be Ready."""
        known = self._readiness.get(owner)
        if known is None:
            known = self._readiness[owner] = self._learn(owner)
        return known

    def _learn(self, owner: OwnerKey) -> Readiness:
        low_ns, high_ns = self._assumed.ready
        most_ns = FOREVER_NS if high_ns is None else high_ns
        if not self._assumed.given and not self._drained:
            found = learnt(self.by_owner.get(owner, ()))
            if found is not None:
                return found
        return Readiness(low_ns, most_ns, GIVEN if self._assumed.given else DEFAULT)

    def _fates(self, moving: Mapping[str, Pod]) -> Iterator[tuple[str, Fate]]:
        sets: dict[OwnerKey, list[Pod]] = {}
        memo: dict[object, Fate] = {}
        likes: dict[int, str] = {}
        for key, pod in moving.items():
            owner = self.owner_of(pod)
            if owner[1] == STATEFUL_SET:
                sets.setdefault(owner, []).append(pod)
                continue
            readiness = self.readiness_of(owner)
            deletion = self.deletions.get(key)
            if key in self._not_wanted:
                yield key, self._fate(pod, owner, None)
                continue
            if (alike := likes.get(id(deletion))) is None:
                alike = likes[id(deletion)] = _without_end(deletion)
            plain = deletion is None or owner[1] in AT_DELETION
            plain = plain and not self.volumes.claims_of(pod)
            token = (
                pod.node_name,
                readiness.least_ns,
                readiness.most_ns,
                alike,
                is_counted(pod),
                key in self.returning,
                id(self._place_of(pod)),
            )
            if plain and (known := memo.get(token)) is not None:
                yield key, known._replace(pod=pod, deletion=deletion)
                continue
            found = self._fate(pod, owner, None)
            if plain:
                memo[token] = found
            yield key, found
        for owner, pods in sets.items():
            yield from self._stateful_set(owner, pods)

    def _fate(self, pod: Pod, owner: OwnerKey, lower: Mapping[str, Absence] | None) -> Fate:
        life = self.lives.get(pod.node_name, NodeLife())
        deletion = self.deletions.get(pod.key)
        readiness = self.readiness_of(owner)
        next_one, place = NOBODY, self._place_of(pod)
        if deletion is not None and pod.key not in self._not_wanted:
            since = thawed(self._begins(owner, deletion, pod), self.frozen)
            if lower is not None:
                since = in_order(since, {k: (a.possible, a.sure) for k, a in lower.items()})
            next_one = successor(
                since, readiness, place, ready_not_before(self.holds(pod), placed=not self._part)
            )
        again: list[Again] = []
        if deletion is not None and not next_one.bound.never:
            times = [*later_drains(self.prediction.drains, deletion)]
            times += rounds(deletion, life) if pod.key in self.returning else ()
            again = [Again(when, successor_after(when, readiness, place).ready) for when in times]
            again += after_losses(
                pod, owner[1], place, next_one, readiness, returns=pod.key in self.returning
            )
        return fate_of(pod, life, deletion, next_one, again)

    def _begins(self, owner: OwnerKey, deletion: Deletion, pod: Pod) -> Between:
        """From when on the owner makes another for that pod."""
        kind = "" if owner[1] == "Pod" else owner[1]
        life = self.lives.get(pod.node_name, NodeLife())
        return begins(kind, deletion, life, self.workloads.get(owner), self._lost(owner, pod))

    def _lost(self, owner: OwnerKey, first: Pod) -> Sequence[Lost]:
        """Which pods a Job loses, the one that is asked about before the others; of other owners nobody asks."""
        if owner[1] != JOB:
            return ()
        pods = (first, *(pod for pod in self.by_owner.get(owner, ()) if pod.key != first.key))
        return [
            Lost(pod, found) for pod in pods if (found := self.deletions.get(pod.key)) is not None
        ]

    def _stateful_set(self, owner: OwnerKey, pods: list[Pod]) -> Iterator[tuple[str, Fate]]:
        workload = self.workloads.get(owner)
        if workload is not None and workload.pod_management_policy == PARALLEL:
            yield from ((pod.key, self._fate(pod, owner, None)) for pod in pods)
            return
        touched = {pod.key for pod in pods}
        lower: dict[str, Absence] = {}
        for pod in sorted(self.by_owner[owner], key=lambda one: (len(one.name), one.name)):
            if pod.key in touched:
                found = self._fate(pod, owner, lower)
                yield pod.key, found
                if is_counted(pod):
                    lower[pod.key] = found.away
            if not is_counted(pod):
                # It may become Ready at any time, or never.
                lower[pod.key] = Absence(((-FOREVER_NS, FOREVER_NS),))

    def _out_of_service_taints(self) -> dict[str, Between]:
        """When nodes get the out-of-service taint; they may have it from the start."""
        found: dict[str, Between] = {}
        for report in self.prediction.nodes:
            for change in report.changes:
                if change.what == TAINT_ADDED and change.value.startswith(OUT_OF_SERVICE + ":"):
                    when = between(change.earliest_seconds, change.latest_seconds)
                    found.setdefault(report.node, when)
            if any(taint.key == OUT_OF_SERVICE for taint in report.taints_at_start):
                found[report.node] = Between(0, 0)
        return found

    def _push_out(self, moving: dict[str, Pod]) -> None:
        """Let pods be perhaps away that replacements may push out, of those that move and of others."""
        since_ns = self.pushed.since_ns
        for pod in self.snapshot.pods:
            if (from_ns := since_ns.get(pod.key)) is None:
                continue
            fate = self.fates.get(pod.key)
            self.fates[pod.key] = (
                perhaps_pushed(fate, from_ns) if fate else fate_of_bystander(pod, from_ns)
            )
            moving[pod.key] = pod
        self.by_owner, self.by_labels = {}, {}
        self._group(moving)

    def _limit_by_budgets(self) -> None:
        self.budgets = covered_by_budgets(self.snapshot, self.by_labels.values(), self.fates)
        # Pods that only drains evict, under a budget that is asked: by their keys its key, and by that how many of
        # its pods may be away at one time.
        self.asked_budget: dict[str, str] = {}
        self.spare: dict[str, int] = {}
        for covered in self.budgets:
            if (spare := spare_of_asked(covered)) is not None:
                self.spare[covered.budget.key] = spare
                self.asked_budget.update((one.pod.key, covered.budget.key) for one in covered.fates)

    def _limit_pushed(self, moving: Mapping[str, Pod]) -> None:
        """Of one owner's pods that nothing else happens to not more are away than are pushed out."""
        for key in self.pushed.since_ns:
            if self.fates[key].deletion is None and key not in self.asked_budget:
                owner = self.owner_of(moving[key])
                limit = " ".join(("pushed", *owner))
                self.asked_budget[key] = limit
                self.spare[limit] = self.pushed.limits[owner]

    # -- groups -------------------------------------------------------------------------------------

    def availability(
        self,
        before: int,
        fates: Iterable[Fate],
        absence_of: Callable[[Fate], Absence] = away,
        *,
        endpoints: bool = False,
    ) -> Availability:
        """How many of ``before`` are there over time; ``fates`` are those of all members that move.

        ``absence_of`` says what counts as being away. ``endpoints``: as the EndpointSlices show it.
        """
        free: dict[int, list[Any]] = {}
        asked: dict[str, dict[int, list[Any]]] = {}
        gains: list[int] = []
        budgets = self.asked_budget
        for one in fates:
            absent = absence_of(one)
            if absent is NONE:
                if (gain_ns := one.gain_ns) is not None:
                    gains.append(gain_ns)
                continue
            numbers = free
            if budgets and (budget := budgets.get(one.pod.key)) is not None:
                numbers = asked.setdefault(budget, {})
            # Alike pods share one object, and comparing what it holds is slow.
            if (known := numbers.get(id(absent))) is None:
                numbers[id(absent)] = [absent, 1]
            else:
                known[1] += 1
        frozen = self.frozen if endpoints else ()
        groups = [Group([(thawed_absence(one, frozen), number) for one, number in free.values()])]
        for budget, numbers in asked.items():
            absences = [(one, number) for one, number in numbers.values()]
            groups.append(Group(absences, self.spare[budget]))
        return Availability(before, groups, gains)


def _without_end(deletion: Deletion | None) -> str:
    """All of a deletion but the end of the object, which owners that replace at once do not wait for."""
    if deletion is None:
        return ""
    when = deletion.when
    return f"{when} {deletion.certain} {deletion.by} {deletion.taint} {deletion.tolerated_seconds}"
