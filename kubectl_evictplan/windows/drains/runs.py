"""Windows of drains: many whole runs of the part of the cluster that takes part (``drain_world``).

What ``bounds`` proves needs no run but to tell how it comes about. For the rest there are no few critical phases: exits, readiness,
conflicts and the order of pods under one budget meet kubectl's rhythms of one and five seconds. So runs are drawn: every seed stands for one choice of
exits, readiness and chance, and is played with latencies at their shortest, at their longest, and mixed.
The first seeds are the corners: pods that exit at once or use all their grace, replacements that are ready early
or late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.rooms import NO_LIMITS, Rooms
from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.pod_gc import GC_CHECK_PERIOD_NS, QUARANTINE_TIME_NS
from kubectl_evictplan.controllers.replication import STATEFUL_SET, is_owned_by
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.disruption import can_ignore_budgets
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Workload
from kubectl_evictplan.scenarios.actions.drain import Drain, drains_among
from kubectl_evictplan.scenarios.actions.nodes import Cordon
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes, eviction_rules
from kubectl_evictplan.simulation.simulate import simulate
from kubectl_evictplan.windows.budget import spread
from kubectl_evictplan.windows.drains.answers import DrainAnswers
from kubectl_evictplan.windows.drains.bounds import DrainBounds
from kubectl_evictplan.windows.drains.instants import GAP_NS, NodeDrain
from kubectl_evictplan.windows.drains.margins import DrawnWorld
from kubectl_evictplan.windows.drains.missing import as_expected, missing_kinds
from kubectl_evictplan.windows.drains.outcomes import DrainGathered
from kubectl_evictplan.windows.drains.world import DrainWorld, drain_world, orphans
from kubectl_evictplan.windows.exploration import Progress
from kubectl_evictplan.windows.unknowns.of_drains import CORNERS, DrainLatencies, DrawnRun

# Seeds are as many as the objects of one run allow; several processes meet in more ways than one.
_SEEDS_MIN, _SEEDS_MAX, _SEEDS_MAX_OF_SEVERAL = 8, 60, 120
_OBJECTS_OF_SEEDS = 1_800
# No window rests on runs, so of large worlds few are played, one at least: so many objects in all, and fewer where everything is proven.
_OBJECTS_PLAYED, _OBJECTS_SHOWN = 8_000, 4_000
# Where nobody can come to drained nodes the corners and some from everywhere are enough, if these say the same: the rest is proven.
_SEEDS_ALONE = 12


class DrainExploration(NamedTuple):
    """What all runs found, and in which world."""

    world: DrainWorld
    drains: tuple[NodeDrain, ...]
    answers: DrainAnswers


def explore_drains(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    ready: ReadyTimes,
    progress: Progress | None = None,
    rooms: Rooms = NO_LIMITS,
    without_pods: tuple[Workload, ...] = (),
) -> DrainExploration | None:
    """Windows over many runs of every drain of the scenario, to their very ends; None without any.

    ``rooms``: which replacements find a node (``drain_rooms``). ``without_pods``: ``owners_without_pods`` of the whole cluster.
    """
    if not drained_nodes(scenario):
        return None
    world = drain_world(snapshot, scenario, configuration)._replace(without_pods=without_pods)
    ready = ready.of(world.snapshot.pods)
    drains = node_drains(scenario)
    events = drains_among(scenario.events)
    objects = len(world.snapshot.pods) + (0 if world.quiet else len(world.snapshot.nodes))
    asked = scenario, ready, rooms, eviction_rules(configuration.profile)
    bounds = DrainBounds(world, *asked)
    seeds_max = _SEEDS_MAX if len(events) == 1 else _SEEDS_MAX_OF_SEVERAL
    seeds = max(_SEEDS_MIN, min(seeds_max, _OBJECTS_OF_SEEDS // max(objects, 1)))
    if bounds.complete:
        # Runs only show how things come about.
        seeds = len(CORNERS)
    waves = _waves(world, events)
    drawn = DrawnWorld(
        events,
        exchangeable_pods(world, drains),
        exchangeable_pods(world, drains, stateful=True),
        _moves_ns(world, drains, waves, ready),
        max(seeds - len(CORNERS), 1),
        {pod.key: pod.node_name for pod in world.snapshot.pods},
        _asks(world, drains),
        {node for node, number in waves.items() if number > 1},
        whole=ready.latest_ns is not None and ready.range_ns > GAP_NS,
        collected_ns=_collected_ns(world),
    )
    whole = replace(scenario, horizon_ns=None)
    latencies = DrainLatencies(world, ready, rooms)
    most = max((_OBJECTS_SHOWN if bounds.complete else _OBJECTS_PLAYED) // max(objects, 1), 1)
    plan = list(islice(latencies.settle(DrawnRun(0, whole), seeds), most))
    missing = () if bounds.complete else missing_kinds(world, bounds.plan, bounds.covered)
    expected = None
    if missing:
        expected = DrainBounds(as_expected(world), *asked)

    def answers(runs: Iterable[tuple[int, Timeline]]) -> DrainAnswers:
        gathered = DrainGathered(drawn)
        for place, timeline in runs:
            gathered.add(plan[place].seed, timeline, drains)
        return DrainAnswers(gathered, bounds, missing, expected, quiet=world.quiet)

    runs = _Runs(world, plan, rooms, progress)
    # What becomes of those who may come to drained nodes is drawn.
    come = any(turn.guests or turn.strangers for turn in bounds.plan.turns)
    enough = seeds if come or len(plan) >= most else min(seeds, _SEEDS_ALONE)
    return DrainExploration(world, drains, _told_by(runs, seeds, enough, answers))


def _told_by(
    runs: _Runs,
    seeds: int,
    enough: int,
    answers: Callable[[Iterable[tuple[int, Timeline]]], DrainAnswers],
) -> DrainAnswers:
    """The answers of all runs, or of ``enough`` seeds from everywhere where these say nothing that the corners do not say."""
    of_seed = runs.number // seeds
    if enough < seeds:
        others = islice(spread(range(len(CORNERS), seeds)), enough - len(CORNERS))
        chosen = sorted((*range(len(CORNERS)), *others))
        some = [seed * of_seed + pace for seed in chosen for pace in range(of_seed)]
        runs.keep(some)
        found = answers(runs.at(some))
        if found.told == answers(runs.at(some[: len(CORNERS) * of_seed])).told:
            return found
    return answers(runs.at(range(runs.number)))


class _Runs:
    """The runs of a plan, by their places in it."""

    def __init__(
        self, world: DrainWorld, plan: Sequence[DrawnRun], rooms: Rooms, progress: Progress | None
    ) -> None:
        self.number = len(plan)
        self._world = world
        self._plan = plan
        self._rooms = rooms
        self._progress = progress
        self._kept: dict[int, Timeline] = {}

    def keep(self, places: Iterable[int]) -> None:
        """Play these once for several who ask."""
        self._kept.update(self.at(places))

    def at(self, places: Iterable[int]) -> Iterator[tuple[int, Timeline]]:
        """Play these, but for those that are kept."""
        for place in places:
            timeline = self._kept.get(place)
            yield place, self._play(place) if timeline is None else timeline

    def _play(self, place: int) -> Timeline:
        world, run = self._world, self._plan[place]
        given = world.snapshot, run.scenario, world.configuration, run.timing
        timeline = simulate(*given, rooms=self._rooms)
        if self._progress is not None:
            self._progress("exploring drains", place + 1, self.number)
        return timeline


def node_drains(scenario: Scenario) -> tuple[NodeDrain, ...]:
    """Every node of every drain, in the order in which kubectl takes them."""
    drains = drains_among(scenario.events)
    return tuple(
        NodeDrain(process, place, name)
        for process, event in enumerate(drains)
        for place, name in enumerate(event.nodes)
    )


def without_drains(scenario: Scenario) -> Scenario:
    """The same events, of the drains only the cordons."""
    return replace(
        scenario,
        events=tuple(
            Cordon(at_ns=event.at_ns, origin=event.origin, nodes=tuple(sorted(event.nodes)))
            if isinstance(event, Drain)
            else event
            for event in scenario.events
        ),
    )


def exchangeable_pods(
    world: DrainWorld, drains: tuple[NodeDrain, ...], *, stateful: bool = False
) -> list[list[Pod]]:
    """Pods of drained nodes that differ in nothing but their names, under one budget.

    ``stateful``: those of StatefulSets, which are made anew under their names, instead of all others.
    """
    index = BudgetIndex(world.budgets)
    drained = {drain.node for drain in drains}
    classes: dict[object, list[Pod]] = {}
    for pod in world.snapshot.pods:
        owner = pod.controller()
        if pod.node_name not in drained or owner is None:
            continue
        if (owner.kind == STATEFUL_SET) is not stateful:
            continue
        places = index.matching(pod)
        if len(places) == 1 and not can_ignore_budgets(pod):
            alike = (
                pod.node_name,
                owner.kind,
                pod.namespace,
                owner.name,
                places[0],
                pod.ready,
                pod.termination_grace_period_seconds,
                pod.tolerations,
                pod.finalizers,
                pod.mirror,
                pod.empty_dir,
                tuple(sorted(pod.labels.items())),
            )
            classes.setdefault(alike, []).append(pod)
    return [pods for pods in classes.values() if len(pods) > 1]


def _asks(world: DrainWorld, drains: tuple[NodeDrain, ...]) -> dict[str, str]:
    """By Ready pod of a drained node, the one budget that is asked whether it may go."""
    index = BudgetIndex(world.budgets)
    drained = {drain.node for drain in drains}
    found = {}
    for pod in world.snapshot.pods:
        if pod.node_name in drained and pod.ready == "True" and not can_ignore_budgets(pod):
            places = index.matching(pod)
            if len(places) == 1:
                found[pod.key] = world.budgets[places[0]].key
    return found


def _waves(world: DrainWorld, drains: Sequence[Drain]) -> dict[str, int]:
    """By drained node, how many of its pods at most go one after the other: 1 when all go at once."""
    pods: dict[str, int] = {}
    for pod in world.snapshot.pods:
        pods[pod.node_name] = pods.get(pod.node_name, 0) + 1
    waves: dict[str, int] = {}
    for drain in drains:
        for node in drain.nodes:
            number = -(-pods.get(node, 0) // drain.parallel) if drain.parallel else 1
            waves[node] = max(waves.get(node, 1), number)
    return waves


def _collected_ns(world: DrainWorld) -> int:
    """How long it can take until pods of nodes that are gone are deleted, and their budgets count them no more.

    Pod garbage collection finds an orphan at one look, and deletes it at one after its quarantine.
    """
    homeless = orphans(world.snapshot, world.snapshot.pods)
    return 2 * GC_CHECK_PERIOD_NS + QUARANTINE_TIME_NS if homeless else 0


def _moves_ns(
    world: DrainWorld,
    drains: tuple[NodeDrain, ...],
    waves: Mapping[str, int],
    ready: ReadyTimes,
) -> dict[str, int]:
    """By node, how far what happens on it moves with what can be anything between two ends.

    Every node before adds its grace periods to when the next begins, as often as its pods go one after the other; a
    StatefulSet's replacement follows its pod's exit, and readiness may be a range.
    """
    graces_ns: dict[str, int] = {}
    for pod in world.snapshot.pods:
        grace_ns = pod.termination_grace_period_seconds * SECOND_NS
        graces_ns[pod.node_name] = max(graces_ns.get(pod.node_name, 0), grace_ns)
    names = {pod.node_name for pod in world.snapshot.pods if is_owned_by(pod, STATEFUL_SET)}
    pods = Counter(pod.node_name for pod in world.snapshot.pods)
    moves: dict[str, int] = {}
    for drain in drains:
        before = {
            other.node
            for other in drains
            if other.node != drain.node
            and (other.process != drain.process or other.place < drain.place)
        }
        before_ns = sum(graces_ns.get(node, 0) * waves[node] for node in before)
        before_ns += graces_ns.get(drain.node, 0) * (waves[drain.node] - 1)
        if drain.node in names:
            before_ns += graces_ns[drain.node]
        # Each pod may have to wait for the replacement of the one before it.
        waits = sum(pods[node] for node in {*before, drain.node})
        learnt_ns = ready.learnt_range_ns * waits
        moved_ns = before_ns + ready.range_ns + learnt_ns
        moves[drain.node] = max(moved_ns, moves.get(drain.node, 0))
    return moves
