"""What nobody can know about the pods of a node once it is known when the node is served."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import (
    POD_GC,
    Entry,
    EvictionScheduled,
    Exit,
    NodeBecameUnknown,
    NodeCreated,
    NodeDeleted,
    NodeReadyPosted,
    PodDeleted,
    PodGone,
    TaintChanged,
    Timeline,
)
from kubectl_evictplan.controllers.pod_gc import GC_CHECK_PERIOD_NS
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, DeleteNode
from kubectl_evictplan.simulation.playback import NodePlayback
from kubectl_evictplan.simulation.running_timers import running_timer
from kubectl_evictplan.windows.pod_worlds import PodWorld, but_for_loops
from kubectl_evictplan.windows.unknowns.unknown import Unknown, settled

# What a loop of pod garbage collection may take at most.
GC_COST_MAX_NS = 25_000_000
# "Just before" an instant.
_JUST_NS = 1_000
# Simulations of one history, and of them for the timers that run.
_TIMINGS_MAX, _FRACTIONS_MAX = 64, 16
# Places of exits between creations of one name.
_EXITS_MAX = 12


class PodTiming(msgspec.Struct, frozen=True):
    """The timing of one simulation, and the names of unknowns that were not wholly explored."""

    timing: Timing = Timing()
    missed: frozenset[str] = frozenset()


class GarbageCollection(Unknown[PodTiming]):
    """Its loops: when they come, what they cost, and what they have seen before the start."""

    name = "pod garbage collection"
    what = "when pod garbage collection looks, what that takes, and what it saw before the start"

    def __init__(
        self, world: PodWorld, met_ns: Collection[int] = (), ends_ns: Collection[int] = ()
    ) -> None:
        """What loops meet besides the scenario's events, in one history: ``met_ns`` see ``at``, ``ends_ns`` see ``ends_of_orphans``."""
        self._world = world
        self._met_ns = met_ns
        self._ends_ns = ends_ns
        self._known = {node.name for node in world.snapshot.nodes}
        self._node_is_missing = not world.names <= self._known

    @property
    def looks_at_ends(self) -> bool:
        """Whether loops look for pods that are on their way out, of a node that is out of service."""
        world = self._world
        if not (world.configuration.out_of_service and world.configuration.pod_gc_enabled):
            return False
        nodes = [*world.snapshot.nodes]
        nodes += [event.node for event in world.scenario.events if event.node is not None]
        taints = [taint for node in nodes for taint in node.taints]
        taints += [e.taint for e in world.scenario.events if isinstance(e, AddTaint)]
        return any(taint.key == OUT_OF_SERVICE for taint in taints)

    def at(self, world: PodWorld, timeline: Timeline) -> GarbageCollection:
        """The loops in one history: ``timeline`` tells what they would meet there, and has none of them.

        When a pod is on its way out, or its node is not ready, is up to that history.
        """
        return GarbageCollection(
            world, {entry.at_ns for entry in timeline.entries if _is_seen_by_loops(entry)}
        )

    @property
    def looks_for_orphans(self) -> bool:
        """Whether loops may find pods of a node that is not there."""
        if not self._world.configuration.pod_gc_enabled:
            return False
        deletes = any(isinstance(event, DeleteNode) for event in self._world.scenario.events)
        return deletes or self._node_is_missing

    def ends_of_orphans(self, timeline: Timeline) -> Iterator[int]:
        """When a timer, a kubelet or node lifecycle ends pods of nodes that are not there then: until then any loop may come first."""
        there, collected = set(self._known), set[tuple[str, int]]()
        for entry in timeline.entries:
            match entry:
                case NodeCreated():
                    there.add(entry.node)
                case NodeDeleted():
                    there.discard(entry.node)
                case PodDeleted() if entry.controller == POD_GC:
                    collected.add((entry.pod, entry.at_ns))
                case PodGone() if entry.node and entry.node not in there:
                    if (entry.pod, entry.at_ns) not in collected:
                        yield entry.at_ns

    def settle(self, part: PodTiming, most: int) -> Iterator[PodTiming]:
        """Both sides of each instant that a loop can meet, at its quickest and at its slowest."""
        if not self._instants_ns():
            yield part  # there is nothing that a loop could find
            return
        slowest = ((GC_COST_MAX_NS, 0), _missing(GC_COST_MAX_NS))
        # Only an event can tell loops apart that come late from those that come a period later.
        told_apart = len(self._world.scenario.events) + self._node_is_missing > 1
        # Those of a process that begins meet an instant only with some costs, and find all the sooner or later.
        begins = any(event.manager_up for event in self._world.scenario.events)
        between = [(cost_ns, 0) for cost_ns in self._critical_costs_ns()]
        if begins:
            between += [_missing(cost_ns) for cost_ns in (0, *(cost_ns for cost_ns, _ in between))]
        for cost_ns, lag_ns in ((0, 0), *slowest[not told_apart :], *between):
            for phase_ns in self._phases_ns(GC_CHECK_PERIOD_NS + cost_ns, slow=cost_ns > 0):
                for sightings in (0, 1, 2) if self._node_is_missing else (0,):
                    timing = replace(
                        part.timing,
                        pod_gc_phase_ns=phase_ns,
                        pod_gc_cost_ns=cost_ns,
                        pod_gc_lag_ns=lag_ns,
                        pod_gc_sightings=sightings,
                    )
                    yield replace(part, timing=timing)

    def _critical_costs_ns(self) -> list[int]:
        """With which loops of a new process, which begin at its start, just meet an instant, or just miss it."""
        starts = [event.at_ns for event in self._world.scenario.events if event.manager_up]
        found: set[int] = set()
        for since_ns in (at - start for at in self._instants_ns() for start in starts):
            loops = since_ns // GC_CHECK_PERIOD_NS
            if loops > 0:
                cost_ns = -(-since_ns // loops) - GC_CHECK_PERIOD_NS
                found.update((cost_ns, cost_ns - 1))
        return sorted(cost_ns for cost_ns in found if 0 < cost_ns < GC_COST_MAX_NS)

    def _instants_ns(self) -> set[int]:
        """Offsets at which there is something else to find for a loop; none where there never is anything."""
        world, events = self._world, self._world.scenario.events
        instants = {event.at_ns for event in events if event.seen_by_pod_gc}
        instants.update(self._met_ns, self._ends_ns)
        if self._node_is_missing or any(
            taint.key == OUT_OF_SERVICE for node in world.snapshot.nodes for taint in node.taints
        ):
            instants.add(0)
        if 0 not in instants and not any(event.feeds_pod_gc for event in events):
            return set()
        return instants

    def _phases_ns(self, step_ns: int, *, slow: bool) -> list[int]:
        """Phases of loops every ``step_ns`` that matter to these pods.

        Where there are many, of a history, the quickest loops just meet each instant and the slowest just miss it.
        """
        sides = (int(slow),) if self._met_ns else (0, 1)
        events, instants = self._world.scenario.events, self._instants_ns()
        starts = [event.at_ns for event in events if event.manager_up]
        # A new process counts its loops from its own start.
        return sorted(
            {
                (at - start - side) % step_ns
                for at in (*instants, *starts)
                for start in (0, *starts)
                for side in sides
            }
        )


def _missing(cost_ns: int) -> tuple[int, int]:
    """Loops of that cost with a lag: the one 40 s after the first sighting finds the name in quarantine still."""
    return cost_ns, 2 * cost_ns + 1


def _is_seen_by_loops(entry: Entry) -> bool:
    """Whether it makes a pod of a node that is out of service worth a DELETE, or not any more."""
    if isinstance(entry, TaintChanged):
        return entry.taint.key == OUT_OF_SERVICE
    return isinstance(entry, NodeReadyPosted | NodeBecameUnknown | PodDeleted | PodGone)


class StaleKey(Unknown[PodTiming]):
    """Up to 1.32 the key of a pod that vanishes at once may stay behind, or not."""

    name = "stale key"
    what = "whether taint eviction hears of a pod's end before it forgets the pod's timer"

    def __init__(self, world: PodWorld) -> None:
        created = [event.pod for event in world.scenario.events if event.pod is not None]
        keys = [pod.key for pod in (*world.snapshot.pods, *created)]
        names_return = len(set(keys)) < len(keys)
        self._matters = world.configuration.profile.keep_nil_key and names_return

    def settle(self, part: PodTiming, most: int) -> Iterator[PodTiming]:
        """It stays, and where a pod's name is used again, it does not."""
        for stale in ("grace0", "never") if self._matters else ("grace0",):
            yield replace(part, timing=replace(part.timing, stale_nil=stale))


class PodExit(Unknown[PodTiming]):
    """How much of its grace period a deleted pod uses."""

    name = "exit of pods"
    what = "how much of its grace period each deleted pod uses"

    def __init__(self, world: PodWorld, *, matters: bool) -> None:
        self.matters = matters
        # A name that is free for the second creation, or the third, and not for the one before.
        creations = world.scenario.creations_ns.items()
        self._creations_ns = {key: each for key, each in creations if len(each) > 1}
        made = (event.pod for event in world.scenario.events if event.pod is not None)
        # Pods that another one of their name makes room for: runs have them use the same share of their grace period.
        self.shared = frozenset(pod.uid for pod in made if pod.key in self._creations_ns)
        # Who is not gone when its kubelet falls silent stays.
        events = world.scenario.events
        self._silences_ns = [event.at_ns for event in events if event.kubelets_up is False]

    @property
    def decides_who_is_created(self) -> bool:
        """Whether of several pods of one name it may be this one or that one that comes to be."""
        return self.matters and bool(self._creations_ns)

    def settle(self, part: PodTiming, most: int) -> Iterator[PodTiming]:
        """All of it; and none of it, where something happens to the node afterwards."""
        for fraction in (0.0, 1.0) if self.matters else (1.0,):
            yield _exiting(part, fraction)

    def between_creations(
        self, part: PodTiming, exits: Callable[[Timing], Sequence[Exit]]
    ) -> Iterator[PodTiming]:
        """Likewise; and such that a pod is gone just before each creation under its name, or before its kubelet is silent. All pods use as much of it.

        ``exits``: what tells those of the run with a timing.
        Where two of one name may end between creations, one after the other, that does not stand for everything.
        """
        left, tried = [0.0, 1.0], set[float]()
        decided: set[tuple[str, int]] = set()
        while left:
            fraction = left.pop(0)
            if fraction in tried:
                continue
            tried.add(fraction)
            for key, from_ns, most_ns in exits(_exiting(part, fraction).timing):
                creations_ns = self._creations_ns.get(key, ())
                ends_ns = (*creations_ns, *self._silences_ns) if creations_ns else ()
                inside = [at for at in ends_ns if _JUST_NS < at - from_ns <= most_ns]
                decided.update((key, from_ns) for at in inside if at in creations_ns)
                left += [(at - from_ns - _JUST_NS) / most_ns for at in inside]
            if len(tried) + len(left) > _EXITS_MAX:
                left.clear()
                part = replace(part, missed=part.missed | {self.name})
        if len({key for key, _ in decided}) < len(decided):
            part = replace(part, missed=part.missed | {self.name})
        yield from (_exiting(part, fraction) for fraction in sorted(tried))

    @staticmethod
    def is_of_each_pod(
        timeline: Timeline, world: PodWorld, played: Mapping[str, NodePlayback]
    ) -> bool:
        """Whether a run shows a pod that makes room for another one of its name, and that one on its way out while something happens.

        How much of its grace period each of them uses may be another share then; in a run it is the same.
        """
        exits = timeline.exits
        if len({key for key, _, _ in exits}) == len(exits):
            return False
        events_ns = {event.at_ns for event in world.scenario.events}
        # A countdown may end before the pod does, also where it is put away with it here.
        scheduled = (each for each in timeline.entries if isinstance(each, EvictionScheduled))
        events_ns.update(each.due_ns for each in scheduled)
        instants_ns = events_ns.union(*map(_instants_ns, played.values()))
        creations_ns = world.scenario.creations_ns
        return any(
            key == other
            and any(
                from_ns < at_ns <= min(from_ns + most_ns, later_ns) for at_ns in creations_ns[key]
            )
            and any(later_ns < at_ns <= later_ns + longest_ns for at_ns in instants_ns)
            for key, from_ns, most_ns in exits
            for other, later_ns, longest_ns in exits
        )


def _instants_ns(node: NodePlayback) -> set[int]:
    """When something happens to the node in one history."""
    return {*node.served_ns, *(at_ns for at_ns, _ in node.decisions)}


def _exiting(part: PodTiming, fraction: float) -> PodTiming:
    return replace(part, timing=replace(part.timing, pod_exit_fraction=fraction))


def _but_for_garbage(part: PodTiming) -> PodTiming:
    """The same with loops that nobody has settled."""
    return replace(part, timing=but_for_loops(part.timing))


class RunningTimers(Unknown[PodTiming]):
    """When timers that run at the start were started."""

    name = "running timers"
    what = "when each countdown began that runs already at the start"

    def __init__(self, timers: Collection[tuple[int, int]], instants: Iterable[int] = ()) -> None:
        """``timers``: earliest and latest ends; ``instants`` at which a pod's fate changes."""
        self._timers = timers
        self._instants = frozenset(instants)

    @property
    def any_runs(self) -> bool:
        """Whether there are any: else every history has the same timings."""
        return bool(self._timers)

    def at(self, world: PodWorld, played: Iterable[NodePlayback]) -> RunningTimers:
        """The same timers in one history."""
        instants = world.instants_ns.union(*map(_instants_ns, played))
        return RunningTimers(self._timers, instants)

    def may_outlive_nodes(self, world: PodWorld) -> bool:
        """Whether some run, and a node is deleted meanwhile."""
        deletes = any(isinstance(event, DeleteNode) for event in world.scenario.events)
        return bool(self._timers) and deletes

    def also_before(self, instants: Iterable[int]) -> RunningTimers:
        """The same, with these instants as well."""
        return RunningTimers(self._timers, self._instants.union(instants))

    def settle(self, part: PodTiming, most: int) -> Iterator[PodTiming]:
        """Both ends of their windows, and places just before a change."""
        others = sorted(
            {
                (at_ns - _JUST_NS - earliest_ns) / (latest_ns - earliest_ns)
                for earliest_ns, latest_ns in self._timers
                for at_ns in self._instants
                if earliest_ns < at_ns - _JUST_NS < latest_ns
            }
            - {0.0, 1.0},
            reverse=True,
        )
        if len(others) > _FRACTIONS_MAX:
            part = replace(part, missed=part.missed | {self.name})
        ends = (0.0, 1.0) if self._timers else (0.0,)
        for fraction in (*ends, *others[:_FRACTIONS_MAX]):
            yield replace(part, timing=replace(part.timing, timer_start_fraction=fraction))


def running_timers(world: PodWorld) -> RunningTimers:
    """The timers that run at the start, of which the end is not known exactly."""
    start_ns, ends = world.scenario.start_ns, set()
    nodes = {node.name: node for node in world.snapshot.nodes}
    for pod in world.snapshot.pods:
        node = nodes.get(pod.node_name)
        if node is None or pod.deletion_timestamp_ns is not None:
            continue
        timer = running_timer(node, pod, world.snapshot, start_ns, world.configuration)
        if timer is not None and timer.due_latest_ns > timer.due_earliest_ns:
            ends.add(timer.due_within(start_ns))
    return RunningTimers(ends)


class PodTimings:
    """What matters to the pods of a world: of every history the timings that stand for all that there are."""

    def __init__(self, world: PodWorld, exits: PodExit) -> None:
        self._garbage = GarbageCollection(world)
        self._timers = running_timers(world)
        # Where loops look at what becomes of pods, each history has instants of its own for them.
        self._of_each_history = self._garbage.looks_at_ends
        garbage = () if self._of_each_history else (self._garbage,)
        # And so has who is created, where it is one pod of a name or another.
        self._exits = exits if exits.decides_who_is_created else None
        unknowns = (*garbage, StaleKey(world), exits)[: None if self._exits is None else -1]
        self._base = settled(PodTiming(), unknowns, _TIMINGS_MAX)
        if not self._timers.any_runs:
            self._base = [each for part in self._base for each in self._timers.settle(part, 0)]
        # By the instants of the events, which differ from world to world: see ``_collected_last``.
        self._collected: dict[tuple[int, ...], dict[int, set[int]]] = {}

    def of(self, world: PodWorld, played: Mapping[str, NodePlayback]) -> list[PodTiming]:
        """The timings of one history; ``world`` is this one, with starts at instants of their own."""
        parts = self._base
        if self._timers.any_runs:
            parts = self._with_running_timers(world, played)
        if self._exits is not None:
            exits = world.exits(played, [part.timing for part in parts])
            parts = [each for one in parts for each in self._exits.between_creations(one, exits)]
        if not self._of_each_history:
            return parts
        apart = world.without_garbage_collection()
        return [
            each
            for part in parts
            for each in self._garbage.at(world, apart.simulate(played, part.timing)).settle(part, 0)
        ]

    def _with_running_timers(
        self, world: PodWorld, played: Mapping[str, NodePlayback]
    ) -> list[PodTiming]:
        running = self._timers.at(world, played.values())
        collected = self._collected_last(world) if running.may_outlive_nodes(world) else {}
        return [
            each
            for place, part in enumerate(self._base)
            for each in running.also_before(collected.get(place, ())).settle(part, 0)
        ]

    def before_ends(
        self, world: PodWorld, parts: Sequence[PodTiming], timelines: Iterable[Timeline]
    ) -> list[PodTiming]:
        """Loops that come just before somebody else ends an orphan in one history, but for those among its ``parts``.

        ``timelines``: the runs of these. Whom the latest loops do not collect ends in them.
        """
        garbage = self._garbage
        if self._of_each_history or not garbage.looks_for_orphans:
            return []
        ends_ns = {at_ns for timeline in timelines for at_ns in garbage.ends_of_orphans(timeline)}
        if not ends_ns:
            return []
        loops, known = GarbageCollection(world, ends_ns=ends_ns), set(parts)
        several = dict.fromkeys(map(_but_for_garbage, parts))
        return [each for one in several for each in loops.settle(one, 0) if each not in known]

    def _collected_last(self, world: PodWorld) -> dict[int, set[int]]:
        """With which of the timings garbage collection comes last to pods whose nodes are deleted, and when: no history has a say in that."""
        if self._of_each_history:
            return {}
        events_ns = tuple(event.at_ns for event in world.scenario.events)
        if events_ns not in self._collected:
            found: dict[int, set[int]] = {}
            for place, part in enumerate(self._base):
                entries = world.simulate({}, part.timing).entries
                deleted = (each for each in entries if isinstance(each, PodDeleted))
                found[place] = {each.at_ns for each in deleted if each.controller == POD_GC}
            last = max(found, key=lambda place: max(found[place], default=0))
            self._collected[events_ns] = {last: found[last]}
        return self._collected[events_ns]
