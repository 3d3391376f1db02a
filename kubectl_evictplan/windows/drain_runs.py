"""Windows of drains: many whole runs of the part of the cluster that takes part (``drain_world``).

Unlike node failures, drains have no few critical phases: exits, readiness, conflicts and the order of pods
under one budget meet kubectl's rhythms of one and five seconds. So runs are drawn: every seed stands for one choice of
exits, readiness and chance, and is played with latencies at their shortest, at their longest, and mixed.
The first seeds are the corners: pods that exit at once or use all their grace, replacements that are ready early
or late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.replication import STATEFUL_SET, is_owned_by
from kubectl_evictplan.engine.drain_timing import READY_DEFAULT_NS, DrainTiming
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.budgets import BudgetIndex
from kubectl_evictplan.kube.disruption import can_ignore_budgets
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod
from kubectl_evictplan.scenarios.actions.drain import Drain, drains_among
from kubectl_evictplan.scenarios.actions.nodes import Cordon
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.drain_parts import drained_nodes
from kubectl_evictplan.simulation.simulate import simulate, starts_without_controller
from kubectl_evictplan.windows.drain_instants import GAP_NS, NodeDrain
from kubectl_evictplan.windows.drain_outcomes import DrainGathered
from kubectl_evictplan.windows.drain_world import DrainWorld, drain_world
from kubectl_evictplan.windows.unknowns.drawn import sequence
from kubectl_evictplan.windows.unknowns.last_heartbeats import (
    heartbeat_windows,
    sampled_heartbeats,
)
from kubectl_evictplan.windows.unknowns.starts import has_unknown_instants

Progress = Callable[[str, int, int], None]

# Seeds are as many as the objects of one run allow; several processes meet in more ways than one.
_SEEDS_MIN, _SEEDS_MAX, _SEEDS_MAX_OF_SEVERAL = 8, 60, 120
_OBJECTS_OF_SEEDS = 1_800
# (place of every latency in its range, luck): all early, all late, and anything.
_PACES: tuple[tuple[float | None, int | None], ...] = (
    (0.0, 1),
    (1.0, -1),
    (None, None),
    (None, None),
)
# (share of the grace period that every pod uses, place of readiness in its range).
_CORNERS = ((0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0))


class AssumeReady(NamedTuple):
    """How long after it is bound a replacement is Ready; ``latest_ns`` None: perhaps never."""

    earliest_ns: int = READY_DEFAULT_NS
    latest_ns: int | None = READY_DEFAULT_NS


class DrainExploration(NamedTuple):
    """What all runs found, and in which world."""

    world: DrainWorld
    drains: tuple[NodeDrain, ...]
    gathered: DrainGathered


def explore_drains(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    configuration: ControllerConfiguration,
    assume_ready: AssumeReady,
    progress: Progress | None = None,
) -> DrainExploration | None:
    """Windows over many runs of every drain of the scenario, to their very ends; None without any."""
    if not drained_nodes(scenario):
        return None
    world = drain_world(snapshot, scenario, configuration)
    drains = node_drains(scenario)
    events = drains_among(scenario.events)
    objects = len(world.snapshot.pods) + (0 if world.quiet else len(world.snapshot.nodes))
    seeds_max = _SEEDS_MAX if len(events) == 1 else _SEEDS_MAX_OF_SEVERAL
    seeds = max(_SEEDS_MIN, min(seeds_max, _OBJECTS_OF_SEEDS // max(objects, 1)))
    waves = _waves(world, events)
    gathered = DrainGathered(
        events,
        exchangeable_pods(world, drains),
        exchangeable_pods(world, drains, stateful=True),
        _moves_ns(world, drains, waves, assume_ready),
        seeds - len(_CORNERS),
        {pod.key: pod.node_name for pod in world.snapshot.pods},
        _asks(world, drains),
        {node for node, number in waves.items() if number > 1},
        whole=assume_ready.latest_ns is not None
        and assume_ready.latest_ns - assume_ready.earliest_ns > GAP_NS,
    )
    whole = replace(scenario, horizon_ns=None)
    plan = list(_plan(world, whole, assume_ready, seeds))
    for index, (seed, played, timing) in enumerate(plan):
        gathered.add(seed, _play(world, played, timing), drains)
        if progress is not None:
            progress("exploring drains", index + 1, len(plan))
    return DrainExploration(world, drains, gathered)


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


def _moves_ns(
    world: DrainWorld,
    drains: tuple[NodeDrain, ...],
    waves: Mapping[str, int],
    assume_ready: AssumeReady,
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
    range_ns = (assume_ready.latest_ns or assume_ready.earliest_ns) - assume_ready.earliest_ns
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
        moves[drain.node] = max(before_ns + range_ns, moves.get(drain.node, 0))
    return moves


def _play(world: DrainWorld, scenario: Scenario, timing: Timing) -> Timeline:
    return simulate(world.snapshot, scenario, world.configuration, timing)


def _plan(
    world: DrainWorld, scenario: Scenario, assume_ready: AssumeReady, seeds: int
) -> Iterator[tuple[int, Scenario, Timing]]:
    """(seed, scenario, timing) of every run."""
    windows = {} if world.quiet else heartbeat_windows(world.snapshot, scenario)
    for seed in range(seeds):
        played = sampled_heartbeats(scenario, windows, seed) if windows else scenario
        played = _settled(played, seed)
        drain = _drain_timing(seed, seeds, assume_ready)
        for place, (latency, luck) in enumerate(_PACES):
            chosen = replace(drain, seed=seed + place * seeds, latency=latency, luck=luck)
            yield seed, played, _timing(world, scenario, seed, chosen)


def _settled(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with every start of which only a window is known somewhere in it."""
    if not has_unknown_instants(scenario):
        return scenario
    events = []
    for place, event in enumerate(scenario.events):
        window_ns = event.latest_ns - event.at_ns
        # The corners are those of the windows too.
        share = seed % 2 if seed < len(_CORNERS) else sequence(5 + place, seed)
        events.append(event.moved_to(event.at_ns + int(window_ns * share)) if window_ns else event)
    return replace(scenario, events=tuple(events))


def _drain_timing(seed: int, seeds: int, assume_ready: AssumeReady) -> DrainTiming:
    low_ns, high_ns = assume_ready
    if seed < len(_CORNERS):
        share, ready = _CORNERS[seed]
        low, high, place = share, share, ready
    else:
        # Shares of grace periods are spread evenly: they decide when the next node is begun.
        number = seed - len(_CORNERS)
        high = number / max(seeds - len(_CORNERS) - 1, 1)
        low = high if number % 2 else 0.0
        place = sequence(0, number)
    return DrainTiming(
        seed=seed,
        exit_low=low,
        exit_high=high,
        ready_low_ns=low_ns,
        ready_high_ns=high_ns,
        ready=place if seed % 4 < 3 else None,
        joins_drained_nodes=(0.0, 0.5, 1.0)[seed % 3],
    )


def _timing(world: DrainWorld, scenario: Scenario, seed: int, drain: DrainTiming) -> Timing:
    if world.quiet:
        return Timing(drain=drain)
    configuration = world.configuration
    phase_ns = configuration.nominal_phase_ns()
    if configuration.monitor_phase_ns is None and not starts_without_controller(scenario):
        spans = configuration.monitor_phases_ns or ((0, configuration.node_monitor_period_ns - 1),)
        low_ns, high_ns = spans[seed % len(spans)]
        phase_ns = low_ns + int((high_ns - low_ns) * sequence(1, seed))
    return Timing(
        monitor_phase_ns=phase_ns,
        pass_phase_ns=int(SECOND_NS // 10 * sequence(2, seed)),
        pod_gc_phase_ns=int(20 * SECOND_NS * sequence(3, seed)),
        timer_start_fraction=sequence(4, seed),
        drain=drain,
    )
