"""The fate of pods over all runs: of simple nodes by addition, of others by a simulation per history.

See ``exploration`` for the place of this step.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE, no_execute_taints
from kubectl_evictplan.scenarios.actions.nodes import taints_or_cordons_unseen
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.playback import NodePlayback
from kubectl_evictplan.windows.budget import ENTRY, LOOK_UP, SIMULATION, Budget, spread
from kubectl_evictplan.windows.outcome import Exploration
from kubectl_evictplan.windows.outer_bounds import OuterBounds
from kubectl_evictplan.windows.piece_runs import PieceRun, course_over, gap_between_outcomes_ns
from kubectl_evictplan.windows.pieces import Piece
from kubectl_evictplan.windows.pod_worlds import (
    Countdowns,
    PodWorld,
    PodWorlds,
    kubelets_that_outlast_their_nodes,
    made_on_nodes,
    matters_on_no_node,
    may_be_spared_after_eviction,
    may_leave_quarantine_early,
    more_than_silent,
)
from kubectl_evictplan.windows.simple_fates import SimpleFates
from kubectl_evictplan.windows.unknowns.of_pods import (
    GarbageCollection,
    PodExit,
    PodTiming,
    PodTimings,
)
from kubectl_evictplan.windows.unknowns.services import (
    HISTORIES_MAX,
    Choice,
    History,
    Services,
)
from kubectl_evictplan.windows.unknowns.starts import has_unknown_instants
from kubectl_evictplan.windows.unknowns.tick_cells import TickSteps
from kubectl_evictplan.windows.unknowns.tick_meetings import tick_steps

if TYPE_CHECKING:
    from kubectl_evictplan.windows.gathered import Gathered, Slot
    from kubectl_evictplan.windows.unknowns.met_ticks import MetTicks, MovedTicks


class PodFates:
    """Explores the pods of one world of nodes at a time."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        configuration: ControllerConfiguration,
        horizon_ns: int,
        result: Exploration,
        bounds: OuterBounds,
    ) -> None:
        self._snapshot = snapshot
        self._scenario = scenario
        self._configuration = configuration
        self._result = result
        # The user's horizon; ``scenario`` may go on for longer.
        self._horizon_ns = horizon_ns
        self._steps = tick_steps(snapshot, configuration)
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._pods_by_node: dict[str, list[Pod]] = {}
        made = {pod.key for pod in made_on_nodes(scenario)}
        for pod in snapshot.pods:
            if pod.node_name or matters_on_no_node(pod, made):
                self._pods_by_node.setdefault(pod.node_name, []).append(pod)
        self._worlds = PodWorlds(snapshot, scenario, configuration)
        # Nodes to which more happens than silence and taints of people; found out when it is asked for.
        self._touched_otherwise: set[str] | None = None
        self._instants_vary = has_unknown_instants(scenario)
        # Nodes whose pods meet more than a silent kubelet; None: perhaps all of them.
        self._busy: set[str] | None = None
        if all(event.manager_up is None for event in scenario.events):
            self._busy = more_than_silent(snapshot, scenario)
        self._outlasting = kubelets_that_outlast_their_nodes(scenario, configuration)
        self._bounds = bounds
        # Whether nodes of a course are served once and never come back.
        self._simple_courses: dict[tuple[int, ...], bool] = {}
        self._simple = SimpleFates(self._worlds, configuration, horizon_ns, result, bounds)

    def orphans(self) -> list[Pod]:
        """Pods that are bound to nodes which the snapshot does not hold."""
        missing = self._pods_by_node.keys() - self._nodes.keys() - {""}
        return [pod for name in sorted(missing) for pod in self._pods_by_node[name]]

    def explore(self, names: frozenset[str], runs: list[PieceRun], budget: Budget) -> None:
        """Find the windows of the taints of the nodes ``names`` and of all pods on them."""
        order = sorted(names)
        if self._only_falls_silent(order):
            name = order[0]
            course = course_over(runs, name)
            if course not in self._simple_courses:
                self._simple_courses[course] = _is_served_once(name, runs)
            if self._simple_courses[course]:
                self._result.only_silent.add(name)
                self._simple.explore(name, self._pods_by_node.get(name, []), runs, course)
                if name in self._result.doubtful and not any(run.waits.get(name) for run in runs):
                    self._result.sampled[name] = self._result.missed
                return
        if self._is_empty(order, runs):
            return
        from kubectl_evictplan.windows.gathered import Gathered, taints_at_start  # rarely needed

        pods = [pod for name in order for pod in self._pods_by_node.get(name, ())]
        world = self._worlds.of(names, pods)
        alone = len(names) == 1 and self._result.waits_alone(order[0])
        gap_ns = gap_between_outcomes_ns(self._configuration, alone=alone)
        gathered = Gathered(self._horizon_ns, gap_ns, alone=alone)
        gathered.at_start = taints_at_start(world.snapshot.nodes)
        tried_all = self._simulate(world, order, runs, gathered, budget)
        unseen = not tried_all or PodExit.name in gathered.missed
        gathered.cut_short = unseen or any(run.missed_of(order) for run in runs)
        gathered.store(self._result)
        if gathered.missed:
            from kubectl_evictplan.windows.explored import note_waits  # rarely needed

            for run in runs:
                for name in order:
                    note_waits(self._result, name, run.waits.get(name, []))
            if tried_all or not _decided_again(order, runs):
                self._put_proven(order, pods)
            self._result.sampled.update(dict.fromkeys(order, frozenset(gathered.missed)))
            if gathered.cut_short:
                self._result.cut_short.update(order)

    def _put_proven(self, names: list[str], pods: list[Pod]) -> None:
        """Of a node to which nothing happens but silence, what is proven."""
        bounds = self._bounds.nodes.get(names[0])
        if bounds is None or len(names) > 1 or self._busy is None or names[0] in self._busy:
            return
        from kubectl_evictplan.windows.proven_fates import put_proven  # rarely anything to prove

        given = self._configuration, self._horizon_ns
        put_proven(self._result, self._nodes[names[0]], pods, bounds, *given)

    def _moved_worlds(self, world: PodWorld, runs: list[PieceRun]) -> dict[int, PodWorld]:
        """The world by the id of the run's scenario, where these have instants of their own."""
        if not self._instants_vary:
            return {}
        ends = (end for run in runs for end in (run.first, run.last))
        scenarios = {id(end.scenario): end.scenario for end in ends}
        pods = list(world.snapshot.pods)
        return {key: self._worlds.of(world.names, pods, each) for key, each in scenarios.items()}

    def _is_empty(self, names: list[str], runs: list[PieceRun]) -> bool:
        """Whether there are no pods that anything could happen to, and node lifecycle writes no NoExecute taint."""
        name = names[0]
        node = self._nodes.get(name)
        if len(names) > 1 or node is None or self._pods_by_node.get(name):
            return False
        if self._touched_otherwise is None:
            self._touched_otherwise = set(_touched_otherwise(self._scenario, runs))
        touched = name in self._touched_otherwise or name in self._result.doubtful
        return not touched and not no_execute_taints(node.taints)

    def _only_falls_silent(self, names: list[str]) -> bool:
        """Whether nothing but silence happens to a node, as far as the scenario tells."""
        name = names[0]
        node = self._nodes.get(name)
        if len(names) > 1 or node is None or self._busy is None or name in self._busy:
            return False
        if no_execute_taints(node.taints) or any(t.key == OUT_OF_SERVICE for t in node.taints):
            return False
        if name in self._outlasting:
            return False
        # A pod that ends may be gone before its kubelet falls silent.
        return not any(
            pod.deletion_timestamp_ns is not None for pod in self._pods_by_node.get(name, ())
        )

    # -- every other node -----------------------------------------------------------------------------

    def _simulate(
        self,
        world: PodWorld,
        names: list[str],
        runs: list[PieceRun],
        gathered: Gathered,
        budget: Budget,
    ) -> bool:
        """Simulate what the budget lasts for; whether it lasted for all of it."""
        from kubectl_evictplan.windows.gathered import Slot

        lifecycle = any(name in run.waits for run in runs for name in names)
        exits = PodExit(world, matters=lifecycle or _meet_terminating_pods(world))
        gathered.exits_varied, gathered.exits_shared = exits.matters, exits.shared
        worlds = self._moved_worlds(world, runs)
        events_ns = world.instants_ns.union(*(each.instants_ns for each in worlds.values()))
        # Who may wait to the end may be served so late that a countdown ends just before it.
        events_ns.add(world.scenario.end_ns)
        countdowns = self._countdowns(world, decided_again=_decided_again(names, runs))
        tried = _Tried(gathered, PodTimings(world, exits), instants_vary=self._instants_vary)
        gathered.missed.update(*(run.missed_of(names) for run in runs))
        timelines = (end.timeline for run in runs for end in (run.first, run.last))
        if lifecycle and may_be_spared_after_eviction(world, timelines):
            gathered.missed.add(Services.name)
        if may_leave_quarantine_early(world):
            gathered.missed.add(GarbageCollection.name)
        if not self._result.doubtful.isdisjoint(names):
            gathered.missed |= self._result.missed
        ends = [
            (Slot(piece, (), between=run.piece.between), run, latest)
            for piece, run in enumerate(runs)
            for latest in (False, True)
        ]
        if gathered.missed or budget.left < SIMULATION * len(ends):
            ends = list(spread(ends))
        is_sampled = False
        for number, (slot, run, latest) in enumerate(ends):
            if gathered.missed and not is_sampled:
                budget, is_sampled = budget.of_samples(), True
            if number and budget.is_spent:
                tried.cut_short = True
                break
            end = run.last if latest else run.first
            if self._instants_vary:
                world = worlds.get(id(end.scenario), world)
            seen = self._seen_of(names, run, latest=latest)
            # What is left out at one end leaves the pods to bounds: then few samples from everywhere are all that is wanted.
            share = budget.part(len(ends) - number) if is_sampled else budget
            on_grid = seen, run.first.timing, run.last.timing
            if not tried.end_again((seen, on_grid), slot, run.piece, share):
                found = _played_back(
                    names, run, events_ns, countdowns, gathered.missed, self._steps, latest=latest
                )
                follows_from = seen if found.of_any_grid else on_grid
                tried.of_end(world, slot, run.piece, found.played, share, follows_from)
        if tried.cut_short:
            gathered.missed.add(Services.name)
        return not tried.cut_short

    def _seen_of(self, names: list[str], run: PieceRun, *, latest: bool) -> Hashable:
        """What histories at an end of a piece follow from, but for where its ticks are that nobody saw."""
        ends = (run.first, run.last)
        records = [end.record(name).identity for name in names for end in ends]
        waits = [tuple(run.waits.get(name, ())) for name in names]
        events = [each for end in ends for each in end.scenario.events if self._instants_vary]
        stops = tuple((run.last if latest else run.first).stops)
        return latest, (*records,), (*waits,), (*(each.at_ns for each in events),), stops

    def _countdowns(self, world: PodWorld, *, decided_again: bool) -> Countdowns:
        if not (decided_again and self._configuration.taint_mode):
            return world.countdowns
        from kubectl_evictplan.windows.unknowns import begin_instants  # rarely needed

        given = world.snapshot, world.scenario, self._configuration
        told_apart = begin_instants.taints_are_told_apart(*given)
        return replace(world.countdowns, told_apart=told_apart)


class _Played(msgspec.Struct, frozen=True):
    """One history: of each node what happens to it, and whether what one tick writes is seen at its end only; where ticks are moved, how."""

    choice: Choice
    at_once: bool
    nodes: dict[str, NodePlayback]
    moved: MovedTicks | None = None


class _FoundAtEnd(msgspec.Struct, frozen=True):
    """What was found at one end of a piece; ``of_any_grid``: it asked for no tick but those that the nodes' records tell."""

    played: list[_Played]
    of_any_grid: bool


class _TriedOne(msgspec.Struct, frozen=True):
    """A history that was tried: by what it is told, and the numbers that it got."""

    choice: Choice
    at_once: bool
    decides: bool
    histories: list[int]


class _Tried:
    """The histories of a world that were simulated: each only once."""

    def __init__(self, gathered: Gathered, timings: PodTimings, *, instants_vary: bool) -> None:
        self._gathered = gathered
        self._timings = timings
        self._instants_vary = instants_vary
        self._seen: dict[object, list[int]] = {}
        # All histories of ends of pieces, by what they follow from.
        self._ends: dict[Hashable, list[_TriedOne]] = {}
        # Whether some were left out because there was no budget for them.
        self.cut_short = False

    def end_again(
        self, follow_from: Iterable[Hashable], slot: Slot, piece: Piece, budget: Budget
    ) -> bool:
        """Note the histories of an end that ``follow_from`` one of these, if they were tried before; whether they were."""
        tried = next(filter(None, map(self._ends.get, follow_from)), None)
        for one in tried or ():
            budget.spend(LOOK_UP)
            own = replace(slot, choice=one.choice, at_once=one.at_once)
            self._gathered.again(self._told(own, piece, decides=one.decides), one.histories)
        return tried is not None

    def of_end(
        self,
        world: PodWorld,
        slot: Slot,
        piece: Piece,
        found: list[_Played],
        budget: Budget,
        follows_from: Hashable,
    ) -> None:
        """Simulate the histories at one end of a piece, all of them or some from everywhere."""
        tried = list[_TriedOne]()
        if budget.left < SIMULATION * len(found):
            found = list(spread(found))
        for number, one in enumerate(found):
            if number and budget.is_spent:
                self.cut_short = True
                return
            decides = any(node.decisions for node in one.nodes.values())
            own = replace(slot, choice=one.choice, at_once=one.at_once)
            own_world = world
            if one.moved is not None and self._instants_vary:
                own_world = replace(world, scenario=one.moved.moved(world.scenario))
            own = self._told(own, piece, decides=decides)
            histories = self._try(own_world, own, one.nodes, budget)
            tried.append(_TriedOne(one.choice, one.at_once, decides, histories))
        self._ends[follows_from] = tried

    def _told(self, slot: Slot, piece: Piece, *, decides: bool) -> Slot:
        """The slot, as exact as the piece is where ticks decide something."""
        if not decides:
            return slot
        self._gathered.missed |= piece.missed
        return replace(slot, left_out_ns=piece.left_out_ns)

    def _try(
        self, world: PodWorld, slot: Slot, played: dict[str, NodePlayback], budget: Budget
    ) -> list[int]:
        events = world.scenario.events if self._instants_vary else ()
        key = tuple(event.at_ns for event in events), tuple(sorted(played.items()))
        known = self._seen.get(key)
        budget.spend(LOOK_UP)
        if known is not None:
            self._gathered.again(slot, known)
            return known
        histories = self._seen[key] = []
        is_quiet = not any(node.begins_at_start for node in played.values())
        parts = self._timings.of(world, played)
        timelines = self._run(world, played, parts, budget)
        timelines += self._run(
            world, played, self._timings.before_ends(world, parts, timelines), budget
        )
        for timeline in timelines:
            histories.append(self._gathered.add(slot, timeline, is_quiet=is_quiet))
        return histories

    def _run(
        self,
        world: PodWorld,
        played: dict[str, NodePlayback],
        parts: list[PodTiming],
        budget: Budget,
    ) -> list[Timeline]:
        """The runs of one history; notes what they miss."""
        self._gathered.missed.update(*(each.missed for each in parts))
        timelines = list(world.runs(played, [each.timing for each in parts]))
        for timeline in timelines:
            budget.spend(SIMULATION + ENTRY * len(timeline.entries))
            if timeline.exits and PodExit.is_of_each_pod(timeline, world, played):
                self._gathered.missed.add(PodExit.name)
        return timelines


def _is_served_once(name: str, runs: list[PieceRun]) -> bool:
    """Whether the node waits once at most, and never comes back."""
    return all(
        len(run.waits.get(name, ())) <= 1
        and all(end.record(name).is_steady() for end in (run.first, run.last))
        for run in runs
    )


def _decided_again(names: list[str], runs: list[PieceRun]) -> bool:
    """Whether a taint of a node may be exchanged for another: then its pods do not follow the first one in every run."""
    ends = (end for run in runs for end in (run.first, run.last))
    return any(len(end.record(name).decisions) > 1 for end in ends for name in names)


def _meet_terminating_pods(world: PodWorld) -> bool:
    """Whether events may come after a deletion: how long a deleted pod lingers matters only then."""
    nodes, pods = world.snapshot.nodes, world.snapshot.pods
    deleted_at_start = any(no_execute_taints(node.taints) for node in nodes) or any(
        pod.deletion_timestamp_ns is not None for pod in pods
    )
    return len(world.scenario.events) + deleted_at_start > 1


def _touched_otherwise(scenario: Scenario, runs: Iterable[PieceRun]) -> Iterator[str]:
    for event in scenario.events:
        if not taints_or_cordons_unseen(event) and event.kubelets_up is not False:
            yield from event.touched_nodes
    for run in runs:
        yield from run.waits
        for end in (run.first, run.last):
            yield from (name for name, node in end.nodes.items() if node.decisions or node.taints)


def _played_back(
    names: list[str],
    run: PieceRun,
    events_ns: set[int],
    countdowns: Countdowns,
    missed: set[str],
    steps: TickSteps,
    *,
    latest: bool,
) -> _FoundAtEnd:
    """Histories of all nodes of a world at one end of a piece, each with each, and whether ticks are seen at their end only. Notes what is ``missed``."""
    end = run.last if latest else run.first
    records = [(name, end.record(name)) for name in names]
    starts_ns = {event.at_ns for event in end.scenario.events if event.manager_up}
    rows = []
    for name, record in records:
        # What follows changes where an event, or a tick that takes the taint off or exchanges it, meets a timer's end.
        ending = record.ends_of_countdowns(by_exchange=countdowns.told_apart)
        ends_ns = events_ns.union(record.decisions[place][0] for place in ending)
        waits = run.waits.get(name, [])
        # A service may also cut a countdown short that something else has begun, an earlier one too.
        begins_ns = {*starts_ns, *record.taints}
        begins_ns.update(at_ns for wait in waits[:-1] for span in wait.spans for at_ns in span)
        services = Services(
            waits,
            record,
            end.stops,
            latest=latest,
            beside_others=len(names) > 1,
            changes_ns=events_ns | countdowns.begun_before(ends_ns) | countdowns.due(begins_ns),
        )
        rows.append(services.histories())
        missed.update(*(history.missed for history in rows[-1]))
    met: MetTicks | None = None
    # Ends of a piece that does not stand for all between them say nothing of what lies there.
    if not run.piece.missed and any(record.decisions for _, record in records):
        from kubectl_evictplan.windows.unknowns.met_ticks import MetTicks  # rarely needed

        met = MetTicks(run, names, countdowns, steps, latest=latest)
    # What lies between two writes of one tick is seen by a taint manager that is quick enough.
    several = any(record.decided_twice_ns() for _, record in records)
    ways = (False, True) if several else (False,)
    found: list[_Played] = []
    for chosen in _together(rows, missed):
        choice = tuple(place for history in chosen for place in history.choice)
        served = list(zip(records, (history.served_ns for history in chosen), strict=True))
        for at_once in ways:
            played = {name: one.playback(ns, at_once=at_once) for (name, one), ns in served}
            found.append(_Played(choice, at_once, played))
        moves = met.moves(chosen) if met is not None else []
        if len({moved.meets_ns for moved in moves}) > 2:
            missed.add(Services.name)
        for moved in moves:
            played = {name: moved.playback(name, one, ns) for (name, one), ns in served}
            found.append(_Played(choice, False, played, moved))
    return _FoundAtEnd(found, of_any_grid=met is None or not met.asked_for_ticks)


def _together(rows: list[list[History]], missed: set[str]) -> Iterator[tuple[History, ...]]:
    """Every history of one node with every history of the others, while that is few; else notes what is ``missed``."""
    if prod(map(len, rows)) <= HISTORIES_MAX or len(rows) == 1:
        yield from product(*rows)
        return
    missed.add(Services.name)
    for index in range(max(map(len, rows))):
        yield tuple(row[min(index, len(row) - 1)] for row in rows)
