"""The fate of the pods of one node, for one history of that node.

Taint eviction looks at one node at a time, so the pods of a node can be simulated apart from the rest of
the cluster: the same controllers, on a cluster of that node alone, with what node lifecycle did to it
played back. That is what makes windows over many runs affordable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.kubelets import ended_by_ns
from kubectl_evictplan.cluster.timeline import Exit, Timeline, ZoneStateRecorded
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.zone_states import FULL
from kubectl_evictplan.controllers.pod_gc import QUARANTINE_TIME_NS, IdleGarbage
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.taints import no_execute_taints
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, deleted_nodes
from kubectl_evictplan.scenarios.actions.pods import DeletePods, SetTolerations, uid_of_created
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.simulation.playback import NodePlayback
from kubectl_evictplan.simulation.running_timers import running_timer
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.spans import BEFORE_NS, Span


class EventIndex:
    """The scenario's events by what they concern, so that a world finds its own without a search."""

    def __init__(self, scenario: Scenario) -> None:
        self._events = scenario.events
        self._everywhere: list[int] = []
        self._of_node: dict[str, list[int]] = defaultdict(list)
        self._of_pod: dict[str, list[int]] = defaultdict(list)
        for index, event in enumerate(scenario.events):
            if event.manager_up is not None:
                self._everywhere.append(index)
            for name in event.touched_nodes:
                self._of_node[name].append(index)
            for key in event.pods:
                self._of_pod[key].append(index)

    def of(self, names: frozenset[str], pods: Iterable[Pod]) -> tuple[ScenarioEvent, ...]:
        """The parts of events that concern these nodes, their pods and pods created on them."""
        indices = set(self._everywhere)
        for name in names:
            indices.update(self._of_node.get(name, ()))
        keys = {pod.key for pod in pods}
        created = [self._events[index].pod for index in indices]
        keys.update(pod.key for pod in created if pod is not None)
        for key in keys:
            indices.update(self._of_pod.get(key, ()))
        return tuple(self._events[index].restricted_to(names, keys) for index in sorted(indices))


class Countdowns(msgspec.Struct, frozen=True):
    """Of the pods of a world: how long they take, as far as tolerations say, at the start or later; and when events may begin some.

    ``told_apart``: one may end, or somebody go at once, where one taint of a dead node is exchanged for the other. ``dues_ns``: when those
    that run at the start end at the earliest, or at the latest.
    """

    delays_ns: frozenset[int]
    begins_ns: frozenset[int]
    told_apart: bool = False
    dues_ns: frozenset[int] = frozenset()

    def begun_before(self, ends_ns: Iterable[int]) -> set[int]:
        """When countdowns begin that end at one of these instants."""
        return {at_ns - delay_ns for at_ns in ends_ns for delay_ns in self.delays_ns}

    def due(self, begins_ns: Collection[int]) -> frozenset[int]:
        """When countdowns end that run at the start, or that events begin, or something at one of these instants."""
        begins_ns = self.begins_ns.union(begins_ns)
        return self.dues_ns.union(at + delay for at in begins_ns for delay in self.delays_ns)


class PodWorld(msgspec.Struct, frozen=True):
    """Nodes with their pods, cut out of the snapshot, and the scenario's events that concern them.

    Pods are deleted by taint eviction and garbage collection; node lifecycle is played back.
    """

    names: frozenset[str]
    snapshot: ClusterSnapshot
    scenario: Scenario
    configuration: ControllerConfiguration

    def simulate(
        self,
        played_back: Mapping[str, NodePlayback],
        timing: Timing,
        idle_garbage: IdleGarbage | None = None,
    ) -> Timeline:
        """One run with that history of the nodes."""
        return simulate(
            self.snapshot,
            self.scenario,
            self.configuration,
            timing,
            played_back=played_back,
            idle_garbage=idle_garbage,
        )

    def runs(
        self, played_back: Mapping[str, NodePlayback], timings: Iterable[Timing]
    ) -> Iterator[Timeline]:
        """One run for each timing, but none for what differs only in exits of pods that nobody asked about, or in loops that delete nothing."""
        timings, whatever_exits = list(timings), set[Timing]()
        alike: dict[Timing, list[Timing]] = {}
        for timing in timings:
            alike.setdefault(but_for_loops(timing), []).append(timing)
        # Of those that differ in loops only: these as they only look, and the run with that, until it is told.
        idle: dict[Timing, IdleGarbage] = {}
        untold: dict[Timing, Timeline] = {}
        for timing in timings:
            if _but_for_exits(timing) in whatever_exits:
                continue
            rest = but_for_loops(timing)
            if rest not in idle:
                idle[rest] = IdleGarbage(alike[rest])
                if len(alike[rest]) > 1:
                    untold[rest] = self.simulate(played_back, timing, idle[rest])
                else:
                    idle[rest].acting.add(timing)
            stands_for = [timing]
            if timing in idle[rest].acting:
                timeline = self.simulate(played_back, timing)
            elif rest in untold:
                timeline, stands_for = untold.pop(rest), idle[rest].left
            else:
                continue
            if not timeline.exits_matter:
                whatever_exits.update(map(_but_for_exits, stands_for))
            yield timeline

    def exits(
        self, played_back: Mapping[str, NodePlayback], timings: Iterable[Timing]
    ) -> Callable[[Timing], Sequence[Exit]]:
        """What tells the exits in the run with one of the timings, whatever share of their grace period pods use in it.

        Runs that differ in loops which delete nothing are one.
        """
        alike: dict[Timing, list[Timing]] = {}
        for timing in timings:
            alike.setdefault(_but_for_exits(but_for_loops(timing)), []).append(timing)
        known: dict[Timing, tuple[IdleGarbage, Sequence[Exit]]] = {}

        def found(timing: Timing) -> Sequence[Exit]:
            rest, share = but_for_loops(timing), timing.pod_exit_fraction
            if rest not in known:
                several = alike[_but_for_exits(rest)]
                idle = IdleGarbage([replace(each, pod_exit_fraction=share) for each in several])
                known[rest] = idle, self.simulate(played_back, timing, idle).exits
            idle, exits = known[rest]
            return self.simulate(played_back, timing).exits if timing in idle.acting else exits

        return found

    @property
    def instants_ns(self) -> set[int]:
        """Offsets at which events happen, and by which pods on their way out are gone."""
        exits = exit_instants(self.snapshot, self.scenario).values()
        return {event.at_ns for event in self.scenario.events}.union(*exits)

    @property
    def countdowns(self) -> Countdowns:
        """The countdowns of its pods: those that events begin at a node with a taint, by a taint, a pod or other tolerations."""
        events = self.scenario.events
        several = [pod.tolerations for pod in pods_of(self.snapshot, self.scenario)]
        several += [event.tolerations for event in events if isinstance(event, SetTolerations)]
        seconds = (t.toleration_seconds for tolerations in several for t in tolerations)
        delays_ns = (each * SECOND_NS for each in seconds if each is not None and each > 0)
        begins_ns = (
            event.at_ns
            for event in events
            if isinstance(event, AddTaint | SetTolerations) or event.node or event.pod
        )
        return Countdowns(frozenset(delays_ns), frozenset(begins_ns), dues_ns=self._dues_ns)

    @property
    def _dues_ns(self) -> frozenset[int]:
        """Offsets after the start at which countdowns that run then end, at the earliest or at the latest."""
        nodes = {n.name: n for n in self.snapshot.nodes if no_execute_taints(n.taints)}
        start_ns, found = self.scenario.start_ns, set[int]()
        for pod in self.snapshot.pods:
            node = nodes.get(pod.node_name)
            if node is not None and pod.deletion_timestamp_ns is None:
                timer = running_timer(node, pod, self.snapshot, start_ns, self.configuration)
                if timer is not None:
                    found.update(timer.due_within(start_ns))
        return frozenset(at_ns for at_ns in found if at_ns > 0)

    def without_garbage_collection(self) -> PodWorld:
        """The world in which only taint eviction deletes pods."""
        return replace(self, configuration=replace(self.configuration, pod_gc_enabled=False))


class PodWorlds:
    """Cuts the worlds of some nodes out of a cluster."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
    ) -> None:
        self._snapshot = snapshot
        self._scenario = scenario
        self._configuration = configuration
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._indices: dict[int, EventIndex] = {}

    def of(
        self, names: frozenset[str], pods: list[Pod], scenario: Scenario | None = None
    ) -> PodWorld:
        """The world of these nodes with these pods; ``scenario``: the same events at instants of its own."""
        scenario, leases = scenario or self._scenario, self._snapshot.leases
        if id(scenario) not in self._indices:
            self._indices[id(scenario)] = EventIndex(scenario)
        return PodWorld(
            names,
            replace(
                self._snapshot,
                nodes=tuple(self._nodes[name] for name in sorted(names) if name in self._nodes),
                pods=tuple(pods),
                leases={name: leases[name] for name in names if name in leases},
            ),
            replace(scenario, events=self._indices[id(scenario)].of(names, pods)),
            replace(
                self._configuration, node_lifecycle_enabled=False, terminated_pod_gc_threshold=0
            ),
        )


@lru_cache(maxsize=10_000)  # every history of a world asks the same
def _but_for_exits(timing: Timing) -> Timing:
    return replace(timing, pod_exit_fraction=0.0)


@lru_cache(maxsize=10_000)  # likewise
def but_for_loops(timing: Timing) -> Timing:
    """What garbage collection asks for left out."""
    return replace(timing, pod_gc_phase_ns=0, pod_gc_cost_ns=0, pod_gc_lag_ns=0, pod_gc_sightings=0)


def pods_of(snapshot: ClusterSnapshot, scenario: Scenario) -> Iterator[Pod]:
    """All pods there ever are."""
    yield from snapshot.pods
    yield from (event.pod for event in scenario.events if event.pod is not None)


class Version(msgspec.Struct, frozen=True):
    """A pod as it may be from an instant on: later versions have other tolerations, or are other objects of its name."""

    pod: Pod
    since_ns: int


def versions_of(
    pods: Iterable[Pod], names: Container[str], events: Iterable[ScenarioEvent]
) -> dict[str, list[Version]]:
    """By the keys of these pods, and of those created on the nodes ``names``: what may be there under that name."""
    found: dict[str, list[Version]] = {}
    for pod in pods:
        found.setdefault(pod.key, []).append(Version(pod, BEFORE_NS))
    for event in events:
        made = event.pod
        if made is not None and (made.key in found or made.node_name in names):
            made = replace(made, uid=uid_of_created(made, event.at_ns))
            found.setdefault(made.key, []).append(Version(made, event.at_ns))
        elif isinstance(event, SetTolerations):
            for key in found.keys() & set(event.pods):
                found[key] += [_tolerating(version, event) for version in found[key]]
    return found


def versions_on(
    snapshot: ClusterSnapshot, names: Container[str], scenario: Scenario
) -> Iterator[Version]:
    """What may be there of pods on these nodes."""
    pods = (pod for pod in snapshot.pods if pod.node_name in names)
    if scenario.named_pods:
        yield from chain.from_iterable(versions_of(pods, names, scenario.events).values())
    else:
        yield from (Version(pod, BEFORE_NS) for pod in pods)


def _tolerating(version: Version, event: SetTolerations) -> Version:
    pod = replace(version.pod, tolerations=event.tolerations)
    return Version(pod, max(version.since_ns, event.at_ns))


def happenings(
    events: Sequence[ScenarioEvent], pods: Iterable[Pod] = ()
) -> defaultdict[str, list[Span]]:
    """By node when something happens to it, or to those of the ``pods`` that are there."""
    touched = {key for event in events for key in event.pods}
    node_of = {pod.key: pod.node_name for pod in pods if pod.key in touched} if touched else {}
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for event in events:
        for name in {*event.touched_nodes, *(node_of.get(key, "") for key in event.pods)}:
            found[name].append(event.span)
    return found


def nodes_of_touched_pods(snapshot: ClusterSnapshot, scenario: Scenario) -> set[str]:
    """Where the pods are that events name ("": on no node)."""
    touched = {key for event in scenario.events for key in event.pods}
    return {pod.node_name for pod in snapshot.pods if pod.key in touched} if touched else set()


def more_than_silent(snapshot: ClusterSnapshot, scenario: Scenario) -> set[str]:
    """Nodes to which, or to pods on which, an event does more than to make a kubelet silent."""
    found = nodes_of_touched_pods(snapshot, scenario)
    for event in scenario.events:
        if event.kubelets_up is not False:
            found.update(event.touched_nodes)
    return found


def kubelets_that_outlast_their_nodes(
    scenario: Scenario, configuration: ControllerConfiguration
) -> set[str]:
    """Nodes that a tick may give up before their kubelets stop, which are said to have renewed long before: until then they end pods."""
    grace_ns = min(
        configuration.node_monitor_grace_period_ns, configuration.node_startup_grace_period_ns
    )
    return {
        name
        for event in scenario.events
        if isinstance(event, StopKubelet)
        and event.last_heartbeat_ns is not None
        and event.last_heartbeat_ns + grace_ns <= event.at_ns
        for name in event.nodes
    }


def may_be_spared_after_eviction(world: PodWorld, timelines: Iterable[Timeline]) -> bool:
    """Whether a pod may come to a node that was evicted without taint manager, and stay for a while.

    It goes at once, but not where the timeout counts anew for the node meanwhile, of which a playback knows nothing (``processPod``): the
    kubelet is heard once more, or a node comes back after all zones were down.
    """
    configuration, events = world.configuration, world.scenario.events
    if configuration.taint_mode or not configuration.profile.repeats_deletion:
        return False
    made = (event.pod for event in events if event.pod is not None)
    if not any(pod.node_name in world.names for pod in made):
        return False
    stated = (event for event in events if isinstance(event, StopKubelet))
    heard = (event.nodes for event in stated if event.last_heartbeat_ns is not None)
    return any(map(world.names.intersection, heard)) or any(map(_may_all_be_down, timelines))


def _may_all_be_down(timeline: Timeline) -> bool:
    told = [each for each in timeline.entries if isinstance(each, ZoneStateRecorded)]
    return {each.zone for each in told} == {each.zone for each in told if each.state == FULL}


def was_missed_lately(node: Node, pods: Iterable[Pod], start_ns: int) -> bool:
    """Whether garbage collection may have missed a node of that name so lately that the name is in quarantine still: a pod on it is older."""
    if node.creation_timestamp_ns < start_ns - QUARANTINE_TIME_NS - SECOND_NS:
        return False
    on_it = (pod for pod in pods if pod.node_name == node.name)
    return any(pod.creation_timestamp_ns < node.creation_timestamp_ns for pod in on_it)


def may_leave_quarantine_early(world: PodWorld) -> bool:
    """Whether pods may go sooner with their node than 40 s after it, for a node of that name was gone shortly before the start as well."""
    configuration, start_ns = world.configuration, world.scenario.start_ns
    if not (configuration.pod_gc_enabled and configuration.profile.orphan_quarantine):
        return False
    gone = deleted_nodes(world.scenario.events)
    nodes = (node for node in world.snapshot.nodes if node.name in gone)
    return any(was_missed_lately(node, world.snapshot.pods, start_ns) for node in nodes)


def made_on_nodes(scenario: Scenario) -> list[Pod]:
    """The pods that the scenario makes on nodes, in its order."""
    return [event.pod for event in scenario.events if event.pod and event.pod.node_name]


def matters_on_no_node(pod: Pod, made: Container[str]) -> bool:
    """Whether a pod on no node is on its way out, so that garbage collection looks at it, or its name is one of those ``made`` on nodes.

    Nobody makes another one under its name before it is gone.
    """
    return not pod.node_name and (pod.deletion_timestamp_ns is not None or pod.key in made)


def exit_instants(snapshot: ClusterSnapshot, scenario: Scenario) -> dict[str, set[int]]:
    """Offsets by which a pod on its way out is gone, by its key: by its deadline, or so long after its kubelet is back.

    Of pods that people delete, or somebody did before the start.
    """
    found: dict[str, set[int]] = defaultdict(set)
    nodes = {node.name: node for node in snapshot.nodes}
    for pod in snapshot.pods:
        if pod.deletion_timestamp_ns is not None:
            deadlines_ns = {pod.deletion_timestamp_ns}
            if pod.node_name in nodes:
                deadlines_ns.add(ended_by_ns(pod, nodes[pod.node_name]))
            left_ns = (at_ns - scenario.start_ns for at_ns in deadlines_ns)
            found[pod.key].update(at_ns for at_ns in left_ns if at_ns > 0)
    deletions = [event for event in scenario.events if isinstance(event, DeletePods)]
    deleted = {key for event in deletions for key in event.pods}
    deleted |= {pod.key for pod in snapshot.pods if pod.deletion_timestamp_ns is not None}
    for pod in pods_of(snapshot, scenario) if deleted else ():
        if pod.key in deleted:
            since_ns = [event.at_ns for event in deletions if pod.key in event.pods]
            since_ns += [e.at_ns for e in scenario.events if _is_back(e, pod.node_name)]
            grace_ns = pod.termination_grace_period_seconds * SECOND_NS
            found[pod.key].update(at_ns + grace_ns for at_ns in since_ns)
    return found


def _is_back(event: ScenarioEvent, node_name: str) -> bool:
    made = event.node is not None and event.node.name == node_name
    return made or (event.kubelets_up is True and node_name in event.nodes)


def nodes_apart(
    affected: set[str], snapshot: ClusterSnapshot, scenario: Scenario
) -> Iterator[frozenset[str]]:
    """Affected nodes, joined where a pod's name is used again on another node; "" has what is on none."""
    group = {name: {name} for name in affected}
    created = made_on_nodes(scenario)
    made = {pod.key for pod in created}
    if any(matters_on_no_node(pod, made) for pod in snapshot.pods):
        group[""] = {""}
    node_of = {pod.key: pod.node_name for pod in snapshot.pods} if created else {}
    for pod in created:
        other, here = node_of.get(pod.key), pod.node_name
        if other is not None and other != here and other in group and here in group:
            merged = group[other] | group[here]
            for name in merged:
                group[name] = merged
        node_of[pod.key] = here
    done: set[str] = set()
    for name in sorted(group):
        if name not in done:
            done |= group[name]
            yield frozenset(group[name])
