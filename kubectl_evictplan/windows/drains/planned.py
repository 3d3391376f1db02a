"""What kubectl finds on each node that it drains, as far as that is certain before anything is played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import OVERDUE_NS, ended_by_ns
from kubectl_evictplan.cluster.placement import lets_in
from kubectl_evictplan.cluster.timeline import EVICTION_API, KUBECTL_DELETE
from kubectl_evictplan.controllers.replication import STATEFUL_SET, owner_key
from kubectl_evictplan.engine.drain_timing import Latency, range_ns
from kubectl_evictplan.kube.drain_filters import Decision, DrainOptions, filter_pods
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.finalizers import Finalizers
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.kube.owners import terminating_namespaces
from kubectl_evictplan.scenarios.actions.drain import Drain, drains_among
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS, Scenario, ScenarioEvent
from kubectl_evictplan.simulation.drain_parts import known_daemon_sets
from kubectl_evictplan.windows.drains.delays import TIMEOUT_MIN_NS, PodDelays, pod_delays
from kubectl_evictplan.windows.drains.deleted_by_others import is_steady
from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.listed_pods import ListedPods
from kubectl_evictplan.windows.drains.others import OtherEvents
from kubectl_evictplan.windows.drains.replaced import ReplacedPods, refilled_owners
from kubectl_evictplan.windows.drains.world import (
    DrainWorld,
    Stranger,
    active_anywhere,
    orphans,
    short_owners,
    unknown_owners,
)

# See ``cordoning_ns``.
_CORDONING_NS = SECOND_NS
# The scheduler sees a cordon that much later at most, as it does a pod.
_LATE_VIEW_NS = range_ns(Latency.BIND_POD)[1]

# By process and node.
Refusals = Mapping[tuple[Drain, str], int]


class Leaving(NamedTuple):
    """A pod that terminates at the start, and the offset at which its object is gone at the latest; None: not known.

    ``over_ns``: from when on kubectl does not wait for it, whether it is gone or not.
    """

    pod: Pod
    end_ns: int | None
    over_ns: int | None


def controller_of(options: DrainOptions) -> str:
    """Who deletes the pods of a drain."""
    return KUBECTL_DELETE if options.disable_eviction else EVICTION_API


class PlannedTurn(NamedTuple):
    """One node of one process: the pods that are evicted, in the order of kubectl's list, and who may come as well.

    ``guests`` are pods that may be made there by then; ``leaving`` terminate since before the start, may be gone
    before kubectl looks, and are evicted once more if not. ``refused``: kubectl evicts nobody. ``listed``: all
    that is certain, and the node's kubelet lives; ``known``: and no other process evicts pods of the node. ``sole_controller``:
    nor in another way, ``others`` are the flags of those that do. ``calm_ns``: until then nothing else happens to the node or its pods.
    ``first_there``: no other process begins before this one is at the node. ``strangers``: pods that an owner makes of which
    the input does not tell what it wants may be there as well.
    """

    drain: NodeDrain
    options: DrainOptions
    pods: ListedPods
    guests: ListedPods
    leaving: tuple[Leaving, ...]
    refused: bool
    listed: bool
    known: bool
    sole_controller: bool
    others: tuple[DrainOptions, ...]
    calm_ns: int
    first_there: bool
    strangers: tuple[Stranger, ...]
    finalizers: Finalizers

    def delays(self, pod: Pod) -> PodDelays:
        """How long a pod takes that kubectl has evicted there."""
        return pod_delays(pod, self.options, self.finalizers)

    def gone_after(self, pod: Pod, at_ns: int) -> tuple[int, int] | None:
        """From a deletion at that offset or later to the end of the object, if the kubelet lives: one that terminates already may end at once."""
        for one in self.leaving:
            if one.pod is pod:
                return None if one.end_ns is None else (0, max(one.end_ns - at_ns, 0))
        return self.delays(pod).gone

    @property
    def everybody(self) -> tuple[Pod, ...]:
        """Whoever kubectl may ask for."""
        return *self.pods, *self.guests, *(one.pod for one in self.leaving)

    @property
    def may_meet_others(self) -> bool:
        """Whether kubectl may find pods there, to evict them, besides those that surely are."""
        return bool(self.guests or self.leaving or self.strangers)

    @property
    def is_asked_at_once(self) -> bool:
        """Whether kubectl surely asks for each pod of the node as soon as it has begun."""
        in_time = not 0 < self.options.timeout_ns < TIMEOUT_MIN_NS
        return self.drain.place == 0 and not self.options.parallel and in_time

    @property
    def controller(self) -> str:
        """Who deletes them."""
        return controller_of(self.options)

    @property
    def surely_found(self) -> bool:
        """Whether it is certain whom kubectl may find there: no other process takes away why it refuses the node."""
        return self.listed and (self.known or not self.refused)


class DrainPlan:
    """Every turn of every process; ``refusals``: offsets by which processes have surely refused nodes. ``guests``: see ``_coming``."""

    def __init__(
        self,
        world: DrainWorld,
        scenario: Scenario,
        refusals: Refusals = MappingProxyType({}),
        *,
        guests: bool = True,
    ) -> None:
        self._refusals = refusals
        self._guests_known = guests
        self._world = world
        self._scenario = scenario
        self.start_ns = scenario.start_ns
        self.drains = drains_among(scenario.events)
        self._nodes = {node.name: node for node in world.snapshot.nodes}
        self._pods: dict[str, list[Pod]] = {}
        for pod in world.snapshot.pods:
            self._pods.setdefault(pod.node_name, []).append(pod)
        # Those that the scenario creates may be bound there too, and are replaced as all others are.
        created = tuple(event.pod for event in scenario.events if event.pod is not None)
        self.ever_there = (*world.snapshot.pods, *created)
        self.others = OtherEvents(world, scenario)
        self.node_of = {pod.key: pod.node_name for pod in self.ever_there}
        self._names_of = [frozenset(event.nodes) for event in self.drains]
        self._times = Counter(name for event in self.drains for name in event.nodes)
        self._daemon_sets = known_daemon_sets(world.snapshot)
        self.short, self.overfull = short_owners(world.snapshot), _overfull(world)
        # Owners that may have too few pods, or too many.
        self.unknown = unknown_owners(world.snapshot)
        # Owners of which a pod may be made at any time, because they lack one, or will soon.
        self.refilled = refilled_owners(world)
        self._replaced = ReplacedPods(world.snapshot.pods, created, self.refilled, self.others)
        # Until then nothing happens in the cluster but drains and what follows from them.
        events = (one for one in scenario.events if not one.unschedulable)
        self.calm_ns = _first_ns(events) if world.steady else 0
        homeless = orphans(world.snapshot, world.snapshot.pods)
        # Until then nobody but kubectl deletes a pod.
        self.disturbed_ns = 0 if homeless else self.calm_ns
        self._met: dict[int, tuple[Stranger, ...]] = {}
        # By (pod, uid): before which offset nobody deletes it.
        self._earliest_ns: Mapping[tuple[str, str], int] = {}
        # Before which offset kubectl does not come to each node.
        self._begins_ns: Mapping[NodeDrain, int] = {}
        self._refuses_any = cache(self._whether_any_refused)
        self._plan_turns()

    def _plan_turns(self) -> None:
        self.processes = [
            [self._turn(process, place) for place in range(len(event.nodes))]
            for process, event in enumerate(self.drains)
        ]
        # Of all processes.
        self.turns = [turn for turns in self.processes for turn in turns]

    def _turn(self, process: int, place: int) -> PlannedTurn:
        event = self.drains[process]
        name = event.nodes[place]
        pods, options = self._pods.get(name, ()), event.options
        grace_ns = self._world.configuration.node_monitor_grace_period_ns
        listed = name in self._nodes and is_steady(
            self._nodes[name], self._world.snapshot, self._scenario, grace_ns
        )
        staying = [p for p in pods if p.deletion_timestamp_ns is None]
        refused, evicted = self._found(staying, options)
        may_refuse, leaving = self._found(
            [p for p in pods if p.deletion_timestamp_ns is not None], options
        )
        listed = listed and (refused or not may_refuse)
        guests = ListedPods()
        strangers: tuple[Stranger, ...] = ()
        if listed:
            may_refuse, guests = self._coming(process, self._nodes[name], options)
            strangers = tuple(self._strangers(process, name))
            perhaps_refuse, _ = self._found((one.pod for one in strangers), options)
            listed = refused or not (may_refuse or perhaps_refuse)
        if refused:
            evicted = guests = leaving = ListedPods()
            strangers = ()
        others = [one for one in self._draining(name) if self._meet(one, event, name)]
        # Where each of them refuses the node nobody takes away why the others do.
        alone = len(others) == 1 or all(self._found(staying, one.options)[0] for one in others)
        begun_ns = event.latest_ns + cordoning_ns(event)
        return PlannedTurn(
            NodeDrain(process, place, name),
            options,
            evicted,
            guests,
            tuple(self._leaving(pod, options) for pod in leaving),
            refused,
            listed,
            listed and alone,
            len({one.disable_eviction for one in others}) == 1,
            tuple(one.options for one in others if one is not event),
            self._calm_ns(name),
            place == 0 and all(one is event or one.at_ns > begun_ns for one in others),
            strangers,
            self._world.finalizers,
        )

    def _meet(self, one: Drain, other: Drain, name: str) -> bool:
        """Whether two processes that drain a node may matter to each other there: not if one has refused it before the other begins."""
        refused_ns = self._refusals.get((one, name)), self._refusals.get((other, name))
        begin_ns = other.at_ns, one.at_ns
        return not any(
            by_ns is not None and by_ns < at_ns
            for by_ns, at_ns in zip(refused_ns, begin_ns, strict=True)
        )

    def _found(self, pods: Iterable[Pod], options: DrainOptions) -> tuple[bool, ListedPods]:
        """Whether kubectl refuses the node because of one of them, and which it evicts otherwise."""
        filtered = filter_pods(pods, options, self._daemon_sets, 0)
        refused = any(one.decision is Decision.REFUSE for one in filtered)
        return refused, ListedPods(one.pod for one in filtered if one.decision is Decision.EVICT)

    def _coming(self, process: int, node: Node, options: DrainOptions) -> tuple[bool, ListedPods]:
        """``_found`` of those that may be made anew on the node; where they are not known yet: whether anybody would be refused."""
        if not self._guests_known:
            return self._refuses_any(options), ListedPods()
        coming = [_made_anew(pod, node.name) for pod in self._guests(process, node)]
        return self._found(coming, options)

    def _whether_any_refused(self, options: DrainOptions) -> bool:
        anybody = (_made_anew(pod, "") for pod in self._replaced.whoever())
        return self._found(anybody, options)[0]

    def _leaving(self, pod: Pod, options: DrainOptions) -> Leaving:
        end_ns, skipped_ns = self._end_ns(pod), options.skipped_after_ns
        over_ns = end_ns
        if skipped_ns is not None:
            left_ns = (pod.deletion_timestamp_ns or 0) - self._scenario.start_ns + skipped_ns
            over_ns = left_ns if end_ns is None else min(left_ns, end_ns)
        return Leaving(pod, end_ns, over_ns)

    def _end_ns(self, pod: Pod) -> int | None:
        """When the object of a terminating pod is gone, at the latest."""
        left_ns = (pod.deletion_timestamp_ns or 0) - self._scenario.start_ns
        if self._world.finalizers.lasting(pod) or left_ns < -OVERDUE_NS:
            return None
        if (node := self._nodes.get(pod.node_name)) is not None:
            left_ns = ended_by_ns(pod, node) - self._scenario.start_ns
        removed_ns = range_ns(Latency.REMOVE_FINALIZER)[1] if pod.finalizers else 0
        return max(left_ns, 0) + range_ns(Latency.REPORT_EXIT)[1] + removed_ns

    def _calm_ns(self, name: str) -> int:
        """Until when nobody but kubectl does anything to the node or its pods."""
        keys = {pod.key for pod in self._pods.get(name, ())}
        return _first_ns(
            event
            for event in self._scenario.events
            if not event.unschedulable
            and (
                name in event.touched_nodes
                or keys.intersection(event.pods)
                or (event.pod is not None and event.pod.key in keys)
            )
        )

    def _guests(self, process: int, node: Node) -> Iterator[Pod]:
        """Pods that may be made anew on the node before kubectl looks at its pods."""
        name = node.name
        cordoned = replace(node, unschedulable=True)
        cordoned_ns = self._cordoned_ns(name)
        early = self._may_be_first(name, cordoned_ns) if not node.unschedulable else ()
        event = self.drains[process]
        calm = event.latest_ns + cordoning_ns(event) < self.calm_ns
        # To a later node kubectl may come when something else has happened: a cordon keeps most away by then.
        for_ever = self.calm_ns >= HORIZON_DEFAULT_MAX_NS
        long_calm = calm and (name == event.nodes[0] or for_ever)
        labels: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
        with_empty_dir: set[tuple[str, str, str]] = set()
        for pod in self._replaced.perhaps_coming(
            early, calm=calm, for_ever=for_ever, cordoned=node.unschedulable
        ):
            owner = owner_key(pod)
            assert owner is not None, "an owner replaces it"
            missing = self._replaced.is_missing(pod, owner)
            untouched = not for_ever and self.others.leave_alone(pod)
            stays = untouched or long_calm or (calm and not lets_in(cordoned, pod))
            stays = pod.node_name == name or (stays and not self._times[pod.node_name])
            if stays and not missing:
                continue
            sooner = self._earliest_ns.get((pod.key, pod.uid), 0) <= cordoned_ns + _LATE_VIEW_NS
            at_once = missing or not (calm or untouched) or (pod.node_name in early and sooner)
            uncordoned = at_once and not node.unschedulable
            if lets_in(cordoned, pod) or (uncordoned and lets_in(node, pod)):
                known = labels.setdefault(owner, [])
                if pod.labels not in known:
                    known.append(pod.labels)
                if pod.empty_dir:
                    with_empty_dir.add(owner)
                yield pod
        # Which of its owner's pods a new one is like is not known: finalizers, volumes and labels may be those of any.
        for pod in self._replaced.of_owners(labels):
            owner = owner_key(pod)
            assert owner is not None, "an owner replaces it"
            other = owner[0] != STATEFUL_SET and pod.labels not in labels[owner]
            keeps_data = pod.empty_dir and owner not in with_empty_dir
            if pod.finalizers or other or keeps_data:
                with_empty_dir.update((owner,) if pod.empty_dir else ())
                yield pod

    def _strangers(self, process: int, name: str) -> Iterator[Stranger]:
        """What owners that nobody knows may make on the node before kubectl looks at its pods, and it does not leave alone."""
        if process not in self._met:
            options = self.drains[process].options
            self._met[process] = tuple(self._not_left_alone(self._world.strangers, options))
        return self._let_in(self._nodes.get(name), self._met[process])

    def as_it_may_change(self, turn: PlannedTurn) -> PlannedTurn:
        """A node whose pods others may delete too: kubectl may find, and evict, whoever is there or may come, or refuse it."""
        process, _, name = turn.drain
        guests = ListedPods()
        strangers: Iterable[Stranger] = ()
        if (node := self._nodes.get(name)) is not None:
            open_to_all = replace(node, taints=(), unschedulable=False)
            _, guests = self._coming(process, open_to_all, turn.options)
            strangers = (*self._world.strangers, *self._world.unplayed)
            strangers = self._let_in(open_to_all, self._not_left_alone(strangers, turn.options))
        return turn._replace(
            pods=self.perhaps_evicted(turn),
            guests=guests,
            strangers=tuple(strangers),
            refused=False,
            known=False,
            sole_controller=False,
            first_there=False,
        )

    def perhaps_evicted(self, turn: PlannedTurn) -> ListedPods:
        """Whom kubectl evicts of those that surely are there, also if another process takes away why it refuses the node."""
        if not turn.refused:
            return turn.pods
        pods = self._pods.get(turn.drain.node, ())
        return self._found((p for p in pods if p.deletion_timestamp_ns is None), turn.options)[1]

    def unplayed(self, turn: PlannedTurn) -> tuple[Stranger, ...]:
        """What owners that others stand for may make on the node, as ``PlannedTurn.strangers``."""
        found = self._not_left_alone(self._world.unplayed, turn.options)
        return tuple(self._let_in(self._nodes.get(turn.drain.node), found))

    def may_refuse(self, turn: PlannedTurn, strangers: Iterable[Stranger]) -> bool:
        """Whether kubectl refuses the node if one of them, or whoever else may be there, is."""
        refused, _ = self._found((one.pod for one in strangers), turn.options)
        return refused or not (turn.listed or turn.refused)

    @staticmethod
    def _let_in(node: Node | None, strangers: Iterable[Stranger]) -> Iterator[Stranger]:
        for pod, budgets in strangers:
            if node is not None and lets_in(node, pod):
                yield Stranger(_made_anew(pod, node.name), budgets)

    def _not_left_alone(
        self, strangers: Iterable[Stranger], options: DrainOptions
    ) -> Iterator[Stranger]:
        """Which of them kubectl evicts, or refuses the node for, wherever they are."""
        terminating = terminating_namespaces(self._world.snapshot)
        for one in strangers:
            if one.pod.namespace not in terminating:
                refused, evicted = self._found((_made_anew(one.pod, ""),), options)
                if refused or evicted:
                    yield one

    def _cordoned_ns(self, name: str) -> int:
        """By when some process has cordoned the node."""
        return min(event.latest_ns + _cordons_ns(event) for event in self._draining(name))

    def _draining(self, name: str) -> Iterator[Drain]:
        """The processes that drain the node."""
        return (
            event for event, names in zip(self.drains, self._names_of, strict=True) if name in names
        )

    def _may_be_first(self, name: str, cordoned_ns: int) -> set[str]:
        """Nodes of which a process may evict pods before any has cordoned the node; each cordons all of its own before."""
        return {
            other
            for process, event in enumerate(self.drains)
            if name not in self._names_of[process]
            for place, other in enumerate(event.nodes)
            if self._begins_ns.get(NodeDrain(process, place, other), event.at_ns)
            <= cordoned_ns + _LATE_VIEW_NS
        }

    def with_earliest(
        self, earliest_ns: Mapping[tuple[str, str], int], begins_ns: Mapping[NodeDrain, int]
    ) -> DrainPlan:
        """The plan without guests in the stead of pods that nobody deletes before a node is cordoned.

        ``earliest_ns``: by (pod, uid) the offset before which nobody deletes it; ``begins_ns``: that before which kubectl does not
        come to each node.
        """
        plan = copy(self)
        plan._earliest_ns, plan._begins_ns = earliest_ns, begins_ns
        plan._guests_known = True
        plan._plan_turns()
        return plan

    def with_turns(self, changed: Mapping[NodeDrain, PlannedTurn]) -> DrainPlan:
        """The plan with other turns in the place of some."""
        plan = copy(self)
        plan.processes = [
            [changed.get(turn.drain, turn) for turn in turns] for turns in self.processes
        ]
        plan.turns = [turn for turns in plan.processes for turn in turns]
        return plan

    def left_alone(self) -> frozenset[tuple[str, str]]:
        """(pod, uid) on drained nodes that no process evicts, whatever happens: passed over, or the node is refused."""
        evicted = {pod.key for turn in self.turns for pod in turn.pods}
        refused = [turn for turn in self.turns if turn.refused]
        perhaps = {turn.drain.node for turn in refused if not self._stays_so(turn)}
        return frozenset(
            (pod.key, pod.uid)
            for name in self._times
            if name not in perhaps
            for pod in self._pods.get(name, ())
            if pod.key not in evicted and pod.deletion_timestamp_ns is None
        )

    def _stays_so(self, turn: PlannedTurn) -> bool:
        """Whether the pods for which kubectl refuses the node are surely there when it looks."""
        event = self.drains[turn.drain.process]
        first = turn.drain.place == 0 and event.latest_ns + cordoning_ns(event) < turn.calm_ns
        return turn.known and (first or turn.calm_ns >= HORIZON_DEFAULT_MAX_NS)

    def taking_nodes(self) -> Sequence[Node]:
        """Nodes of the world that no process drains."""
        return [node for name, node in self._nodes.items() if not self._times[name]]


def _made_anew(pod: Pod, node: str) -> Pod:
    """What replaces a pod, as it may be there when kubectl comes."""
    return replace(pod, node_name=node, phase="Running", deletion_timestamp_ns=None)


def _first_ns(events: Iterable[ScenarioEvent]) -> int:
    return min((event.at_ns for event in events), default=HORIZON_DEFAULT_MAX_NS)


def _overfull(world: DrainWorld) -> set[tuple[str, str, str]]:
    """Owners, as (kind, namespace, name), with more pods than they want."""
    active = active_anywhere(world.snapshot)
    return {
        key
        for one in world.snapshot.workloads
        if one.replicas is not None
        and active[key := (one.kind, one.namespace, one.name)] > one.replicas
    }


def _cordons_ns(event: Drain) -> int:
    """From the start of a process to the last of its cordons, at most."""
    each_ns = range_ns(Latency.NEXT_CORDON)[1]
    return range_ns(Latency.KUBECTL_START)[1] + len(event.nodes) * each_ns


def bound_by_ns(event: Drain) -> int:
    """By when whoever is made anew on a node of the process is bound to it, if a cordon keeps pods away."""
    return event.latest_ns + _cordons_ns(event) + _LATE_VIEW_NS


def cordoning_ns(event: Drain) -> int:
    """From the start of a process to the last of its cordons and its first eviction, at most, with 10 nodes a second."""
    return _CORDONING_NS + len(event.nodes) * SECOND_NS // 10
