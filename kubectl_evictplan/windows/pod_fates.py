"""The fate of pods over all runs: of simple nodes by addition, of others by a simulation per history.

See ``exploration`` for the place of this step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from msgspec.structs import replace

from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE
from kubectl_evictplan.controllers.pod_gc import GC_CHECK_PERIOD_NS
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE, no_execute_taints
from kubectl_evictplan.scenarios.actions.nodes import AddTaint, Cordon, RemoveTaint
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.playback import NodePlayback
from kubectl_evictplan.simulation.running_timers import running_timer
from kubectl_evictplan.windows.gathered import Gathered, Slot
from kubectl_evictplan.windows.node_runs import (
    NodeRecord,
    NodeRun,
    PieceRun,
    gap_between_outcomes_ns,
)
from kubectl_evictplan.windows.outcome import Exploration
from kubectl_evictplan.windows.pod_worlds import Choice, EventIndex, PodWorld, histories
from kubectl_evictplan.windows.simple_fates import SimpleFates
from kubectl_evictplan.windows.unknowns.starts import has_unknown_instants

# "Just before" an instant, and how many places in the windows of running timers are tried.
_JUST_NS = 1_000
# Passes are taken to come 2 ns after the token, which may be as much after the tick.
_TIE_NS = 10
_FRACTIONS_MAX = 8
# What a loop of pod garbage collection may take.
_GC_COST_NS = 25_000_000


class PodFates:
    """Explores the pods of one world of nodes at a time."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        horizon_ns: int,
        result: Exploration,
    ) -> None:
        self._snapshot = snapshot
        self._scenario = scenario
        self._configuration = configuration
        self._result = result
        # The user's horizon; ``scenario`` may go on for longer.
        self._horizon_ns = horizon_ns
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._pods_by_node: dict[str, list[Pod]] = {}
        for pod in snapshot.pods:
            if pod.node_name:
                self._pods_by_node.setdefault(pod.node_name, []).append(pod)
        self._indices: dict[int, EventIndex] = {}
        # Nodes to which more happens than silence and taints of people; found out when it is asked for.
        self._touched_otherwise: set[str] | None = None
        self._instants_vary = has_unknown_instants(scenario)
        self._busy = self._nodes_with_other_events()
        self._simple = SimpleFates(self._world, configuration, horizon_ns, result)

    def _nodes_with_other_events(self) -> set[str] | None:
        """Nodes whose pods meet more than a silent kubelet; None when that may be all of them."""
        busy: set[str] = set()
        for event in self._scenario.events:
            if event.manager_up is not None:
                return None
            if event.kubelets_up is not False:
                busy.update(event.touched_nodes)
        touched = {key for event in self._scenario.events for key in event.pods}
        busy.update(pod.node_name for pod in self._snapshot.pods if pod.key in touched)
        return busy

    def explore(self, names: frozenset[str], runs: list[PieceRun]) -> None:
        """Find the windows of the taints of the nodes ``names`` and of all pods on them."""
        order = sorted(names)
        if self._is_simple(order, runs):
            self._result.only_silent.add(order[0])
            self._simple.explore(order[0], self._pods_by_node.get(order[0], []), runs)
            return
        if self._is_empty(order, runs):
            return
        pods = [pod for name in order for pod in self._pods_by_node.get(name, ())]
        world = self._world(names, pods)
        gathered = Gathered(self._horizon_ns, gap_between_outcomes_ns(self._configuration))
        self._simulate(world, order, runs, gathered)
        gathered.store(self._result)

    def _world(
        self, names: frozenset[str], pods: list[Pod], scenario: Scenario | None = None
    ) -> PodWorld:
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

    def _moved_worlds(self, world: PodWorld, runs: list[PieceRun]) -> dict[int, PodWorld]:
        """The world by the id of the run's scenario, where these have instants of their own."""
        if not self._instants_vary:
            return {}
        ends = (end for run in runs for end in (run.first, run.last))
        scenarios = {id(end.scenario): end.scenario for end in ends}
        pods = list(world.snapshot.pods)
        return {key: self._world(world.names, pods, each) for key, each in scenarios.items()}

    def _is_empty(self, names: list[str], runs: list[PieceRun]) -> bool:
        """Whether there are no pods that anything could happen to, and node lifecycle writes no NoExecute taint."""
        name = names[0]
        node = self._nodes.get(name)
        if len(names) > 1 or node is None or self._pods_by_node.get(name):
            return False
        if self._touched_otherwise is None:
            self._touched_otherwise = set(_touched_otherwise(self._scenario, runs))
        return name not in self._touched_otherwise and not no_execute_taints(node.taints)

    def _is_simple(self, names: list[str], runs: list[PieceRun]) -> bool:
        """Whether a node only falls silent, is served once, and never comes back."""
        name = names[0]
        node = self._nodes.get(name)
        if len(names) > 1 or node is None or self._busy is None or name in self._busy:
            return False
        if no_execute_taints(node.taints) or any(t.key == OUT_OF_SERVICE for t in node.taints):
            return False
        return all(
            len(run.waits.get(name, ())) <= 1
            and all(end.record(name).is_steady() for end in (run.first, run.last))
            for run in runs
        )

    # -- every other node -----------------------------------------------------------------------------

    def _simulate(
        self, world: PodWorld, names: list[str], runs: list[PieceRun], gathered: Gathered
    ) -> None:
        seen: dict[object, list[int]] = {}
        base = list(self._base_timings(world, names, runs))
        gathered.exits_varied = any(timing.pod_exit_fraction == 0.0 for timing in base)
        timers = self._running_timers(world)
        worlds = self._moved_worlds(world, runs)
        all_worlds = (world, *worlds.values())
        events_ns = {event.at_ns for each in all_worlds for event in each.scenario.events}
        delays_ns = _delays_ns(world.snapshot.pods)
        for piece, run in enumerate(runs):
            for choice, played, end in _played_back(names, run, events_ns, delays_ns):
                world = worlds.get(id(end.scenario), world)
                by_lifecycle = any(node.decisions for node in played.values())
                left_out_ns = run.piece.left_out_ns if by_lifecycle else 0
                slot = Slot(piece, choice, left_out_ns, run.piece.between)
                events = world.scenario.events if self._instants_vary else ()
                starts = tuple(event.at_ns for event in events)
                key = starts, tuple(sorted(played.items()))
                known = seen.get(key)
                if known is not None:
                    gathered.again(slot, known)
                    continue
                fractions = _timer_fractions(world, played.values(), timers)
                seen[key] = [
                    gathered.add(
                        slot, world.simulate(played, replace(timing, timer_start_fraction=fraction))
                    )
                    for timing, fraction in product(base, fractions)
                ]

    def _base_timings(
        self, world: PodWorld, names: list[str], runs: list[PieceRun]
    ) -> Iterator[Timing]:
        """Phases of garbage collection, races of taint eviction, and how long pods take to end."""
        stale = ("grace0", "never") if self._may_meet_stale_key(world) else ("grace0",)
        # How long a deleted pod lingers matters only if something happens to the node afterwards.
        lifecycle = any(name in run.waits for run in runs for name in names)
        exits = (0.0, 1.0) if lifecycle or len(world.scenario.events) > 1 else (1.0,)
        for loops, stale_nil, exit_fraction in product(self._gc_loops(world), stale, exits):
            yield replace(loops, stale_nil=stale_nil, pod_exit_fraction=exit_fraction)

    def _running_timers(self, world: PodWorld) -> set[tuple[int, int]]:
        """(earliest, latest) end of every timer that runs at the start, as offsets."""
        start_ns = self._scenario.start_ns
        ends = set()
        for pod in world.snapshot.pods:
            node = self._nodes.get(pod.node_name)
            if node is None or pod.deletion_timestamp_ns is not None:
                continue
            timer = running_timer(node, pod, world.snapshot, start_ns, self._configuration)
            if timer is not None and timer.due_latest_ns > timer.due_earliest_ns:
                ends.add((timer.due_earliest_ns - start_ns, timer.due_latest_ns - start_ns))
        return ends

    def _gc_loops(self, world: PodWorld) -> list[Timing]:
        """What pod garbage collection can do with these pods, at its quickest and its slowest."""
        missing = not world.names <= self._nodes.keys()
        return [
            Timing(
                pod_gc_phase_ns=phase_ns,
                pod_gc_cost_ns=cost_ns,
                pod_gc_lag_ns=lag_ns,
                pod_gc_sightings=sightings,
            )
            for cost_ns, lag_ns in ((0, 0), (_GC_COST_NS, 2 * _GC_COST_NS + 1))
            for phase_ns in self._gc_phases(world, GC_CHECK_PERIOD_NS + cost_ns)
            for sightings in ((0, 2) if missing else (0,))
        ]

    def _gc_phases(self, world: PodWorld, step_ns: int) -> list[int]:
        """Phases of loops every ``step_ns`` that matter to these pods."""
        events = world.scenario.events
        instants = {event.at_ns for event in events if event.seen_by_pod_gc}
        starts = [event.at_ns for event in events if event.manager_up]
        if not world.names <= self._nodes.keys() or any(
            taint.key == OUT_OF_SERVICE for node in world.snapshot.nodes for taint in node.taints
        ):
            instants.add(0)
        if 0 not in instants and not any(event.feeds_pod_gc for event in events):
            return [0]
        # A new process counts its loops from its own start.
        return sorted(
            {
                (at - start - side) % step_ns
                for at in (*instants, *starts)
                for start in (0, *starts)
                for side in (0, 1)
            }
        )

    def _may_meet_stale_key(self, world: PodWorld) -> bool:
        if not self._configuration.profile.keep_nil_key:
            return False
        created = [event.pod for event in world.scenario.events if event.pod is not None]
        keys = [pod.key for pod in (*world.snapshot.pods, *created)]
        return len(set(keys)) < len(keys)


def _touched_otherwise(scenario: Scenario, runs: Iterable[PieceRun]) -> Iterator[str]:
    for event in scenario.events:
        people = isinstance(event, AddTaint | RemoveTaint | Cordon) and not event.seen_by_monitor
        if not people and event.kubelets_up is not False:
            yield from event.touched_nodes
    for run in runs:
        yield from run.waits
        for end in (run.first, run.last):
            yield from (name for name, node in end.nodes.items() if node.decisions or node.taints)


def _delays_ns(pods: Iterable[Pod]) -> set[int]:
    """How long after its service a node's pods go, as far as their tolerations say."""
    seconds = {
        toleration.toleration_seconds
        for pod in pods
        for toleration in pod.tolerations
        if toleration.toleration_seconds is not None and toleration.toleration_seconds > 0
    }
    return {each * SECOND_NS for each in seconds}


def _played_back(
    names: list[str], run: PieceRun, events_ns: set[int], delays_ns: set[int]
) -> Iterator[tuple[Choice, dict[str, NodePlayback], NodeRun]]:
    """Histories of all nodes of a world at both ends of a piece; several nodes vary together."""
    for end, latest in ((run.first, False), (run.last, True)):
        rows = []
        for name in names:
            record = end.record(name)
            # What follows changes where an event, or a tick that takes the taint off, meets a timer's end.
            ends_ns = {*events_ns, *(at_ns for at_ns, status in record.decisions if status == TRUE)}
            found = histories(
                run.waits.get(name, []),
                record,
                end.stops,
                latest=latest,
                changes_ns=events_ns | {at - delay for at in ends_ns for delay in delays_ns},
            )
            rows.append(list(found))
        for index in range(max(len(row) for row in rows)):
            chosen = [row[min(index, len(row) - 1)] for row in rows]
            choice = tuple(place for history in chosen for place in history.choice)
            records = [(name, end.record(name)) for name in names]
            tie = any(
                _is_tie(record, history.served_ns, delays_ns)
                for (_, record), history in zip(records, chosen, strict=True)
            )
            for late_ns in (0, 2 * _TIE_NS) if tie else (0,):
                played = {
                    name: record.playback(history.served_ns, late_ns)
                    for (name, record), history in zip(records, chosen, strict=True)
                }
                yield choice, played, end


def _is_tie(record: NodeRecord, served_ns: tuple[int, ...], delays_ns: set[int]) -> bool:
    """Whether a tick takes the taint off just when a pod's time is over: with any cost it comes later."""
    return any(
        0 <= at_ns + delay_ns - tick_ns <= _TIE_NS
        for tick_ns, status in record.decisions
        if status == TRUE
        for at_ns in served_ns
        for delay_ns in delays_ns
    )


def _timer_fractions(
    world: PodWorld, played: Iterable[NodePlayback], timers: set[tuple[int, int]]
) -> list[float]:
    """Both ends of the windows of running timers, and places just before a change."""
    if not timers:
        return [0.0]
    instants = {event.at_ns for event in world.scenario.events}
    for node in played:
        instants.update(node.served_ns)
        instants.update(at_ns for at_ns, _ in node.decisions)
    others = {
        (at_ns - _JUST_NS - earliest_ns) / (latest_ns - earliest_ns)
        for earliest_ns, latest_ns in timers
        for at_ns in instants
        if earliest_ns < at_ns - _JUST_NS < latest_ns
    }
    return [0.0, 1.0, *sorted(others - {0.0, 1.0}, reverse=True)[:_FRACTIONS_MAX]]
