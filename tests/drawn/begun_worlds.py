"""Worlds that are met in the middle: their snapshot is taken out of a run that began long before.

What a process of kube-controller-manager remembers at the start of such a world is not assumed but lived through:
tokens it has spent, who waits in its lines, timers that run, what its garbage collection has missed. All realities
of one share that past; from the snapshot on everything unknown is drawn anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from building.builders import NOT_READY, UNREACHABLE, make_event
from msgspec.structs import replace
from realities.drawn_realities import Reality, World, course_of, draw_timing, with_instants
from realities.free_timing import FreeTiming, Walks, every_tick_walks_anew
from realities.renewals import with_last_heartbeats

from kubectl_evictplan.cluster.kubelets import is_up_at_start, renew_period_ns
from kubectl_evictplan.engine.event_queue import Course
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Lease, Node, NodeCondition
from kubectl_evictplan.scenarios.actions.processes import StopKubelet
from kubectl_evictplan.scenarios.history import History, ties
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from kubectl_evictplan.scenarios.simulated_cluster import SimulatedCluster
from kubectl_evictplan.simulation.simulate import simulate_each_pod, starts_without_controller

# Instants are drawn until one is found at which the snapshot tells who is up.
_TRIES = 12
# The origin of what happens in the instant of the look.
_ASKED = "asked"


class Look(ScenarioEvent, frozen=True, kw_only=True):
    """Somebody looks at the cluster, and changes nothing."""

    action = "look"
    told = "somebody looks"

    see: Callable[[SimulatedCluster], None]

    def happen(self, cluster: SimulatedCluster) -> None:
        self.see(cluster)


@dataclass
class _Past:
    """What happened before the snapshot, all of it settled; offsets are from its own start."""

    world: World
    events: tuple[ScenarioEvent, ...]
    cut_ns: int
    timing: Timing
    seed: str
    free: bool

    @property
    def at_ns(self) -> int:
        return self.world.scenario.start_ns + self.cut_ns

    def run(
        self,
        see: Callable[[SimulatedCluster], None],
        events: Sequence[ScenarioEvent] = (),
        horizon_ns: int = 0,
        future: str = "",
    ) -> Reality:
        """Live through the past once more, look, and go on with these events and another chance."""
        walks = Walks(random.Random(f"walks {self.seed}"))
        begins_ns = [event.at_ns for event in (*self.events, *events) if event.manager_up]
        timing = replace(self.timing, monitor_courses=_courses(self, begins_ns, future))
        anew: AbstractContextManager[None] = nullcontext()
        if self.free:
            timing = FreeTiming.of(timing, f"timing {self.seed}")
            anew = every_tick_walks_anew(walks)

        told_before: list[int] = []

        def look(cluster: SimulatedCluster) -> None:
            see(cluster)
            told_before.append(len(cluster.state.timeline.entries))
            if isinstance(timing, FreeTiming):
                timing.draw_anew(f"timing {future}")
                walks.draw_anew(f"walks {future}")

        until_ns = self.cut_ns + horizon_ns
        scenario = replace(
            self.world.scenario,
            events=(
                *self.events,
                Look(at_ns=self.cut_ns, see=look),
                *events,
            ),
            horizon_ns=until_ns,
        )
        with anew:
            timeline = simulate_each_pod(
                self.world.snapshot, scenario, self.world.configuration, timing
            )
        entries = [
            replace(entry, at_ns=entry.at_ns - self.cut_ns)
            for entry in timeline.entries[told_before[0] :]
            if entry.at_ns > self.cut_ns or any(event.origin == _ASKED for event in events)
        ]
        return Reality(timing, entries, timeline)


@dataclass
class BegunWorld:
    """What a user hands in who looks at a cluster to which something has happened."""

    world: World
    past: _Past

    def reality(self, rng: random.Random) -> Reality:
        """One way in which it may go on."""
        past, seen = self.past, list[ClusterSnapshot]()
        scenario = with_instants(self.world.scenario, rng)
        jitter = rng.choice((lambda _: rng.random(), lambda _: rng.choice((0.0, 1.0))))
        scenario = with_last_heartbeats(self.world.snapshot, scenario, rng, jitter)
        events = [_shifted(event, past.cut_ns) for event in scenario.events]
        later = [event for event in events if event.at_ns > past.cut_ns or event.origin == _ASKED]
        horizon_ns = self.world.scenario.end_ns
        found = past.run(
            lambda cluster: seen.append(_nodes_and_pods(cluster)),
            later,
            horizon_ns,
            f"{rng.random()}",
        )
        told = self.world.snapshot
        assert [(one.nodes, one.pods) for one in seen] == [(told.nodes, told.pods)]
        return found


def begun(world: World, rng: random.Random) -> BegunWorld | None:
    """The world as it looks to somebody who comes later; None where no look tells who is up."""
    end_ns = world.scenario.end_ns
    for _ in range(_TRIES):
        cut_ns = rng.randrange(end_ns // 6, end_ns * 3 // 4)
        if rng.random() < 0.3:
            cut_ns -= cut_ns % SECOND_NS
        past = _past(world, cut_ns, rng)
        found = past and _as_seen(past, rng)
        if found:
            return found
    return None


def with_asked(met: BegunWorld, rng: random.Random) -> BegunWorld:
    """The same, and in the instant of the look somebody does what is asked about; as it is where that cannot be."""
    world, snapshot = met.world, met.world.snapshot
    names = [node.name for node in snapshot.nodes]
    if not names:
        return met
    asked = [replace(_asked(rng, snapshot, names), origin=_ASKED) for _ in range(rng.randint(1, 2))]
    before = [event for event in world.scenario.events if event.at_ns == 0]
    events = (*before, *asked, *world.scenario.events[len(before) :])
    trial = History(snapshot)
    for node in snapshot.nodes:
        if not is_up_at_start(node, snapshot.leases.get(node.name), world.scenario.start_ns):
            trial.kubelets[node.name] = StopKubelet(at_ns=-1, nodes=(node.name,), origin="test")
    try:
        wrong = [each for event in events for each in event.contradictions(trial)]
    except KeyError:  # it names what is gone
        return met
    if wrong:
        return met
    scenario = replace(world.scenario, events=events)
    return BegunWorld(World(snapshot, scenario, world.configuration), met.past)


def _asked(rng: random.Random, snapshot: ClusterSnapshot, names: Sequence[str]) -> ScenarioEvent:
    chosen = rng.sample(names, rng.randint(1, min(len(names), 3)))
    action = rng.choice(
        ("taint", "taint", "kubelet-stop", "kubelet-start", "untaint", "node-delete")
    )
    if action in {"taint", "untaint"}:
        taints = (
            "A=x:NoExecute",
            "B:NoExecute",
            f"{UNREACHABLE}:NoExecute",
            f"{NOT_READY}:NoExecute",
        )
        taint = rng.choice(taints[2:] if action == "untaint" else taints)
        return make_event(0, action, chosen, taint=taint)
    if action == "node-delete" and snapshot.pods and rng.random() < 0.5:
        return make_event(0, "pod-delete", pods=(rng.choice(snapshot.pods).key,))
    return make_event(0, action, chosen)


def _past(world: World, cut_ns: int, rng: random.Random) -> _Past | None:
    settled = with_instants(world.scenario, rng)
    before = replace(
        settled, events=tuple(event for event in settled.events if event.at_ns < cut_ns)
    )
    jitter = rng.choice((lambda _: rng.random(), lambda _: rng.choice((0.0, 1.0))))
    before = with_last_heartbeats(world.snapshot, before, rng, jitter)
    if starts_without_controller(world.scenario):
        return None
    if any(event.latest_ns > cut_ns > event.at_ns for event in world.scenario.events):
        return None
    timing = replace(
        draw_timing(world, rng),
        zones_backwards=rng.random() < 0.5,
        pod_gc_sightings=rng.choice((0, 0, 1, 2)),
        initial_token=True,
    )
    return _Past(world, before.events, cut_ns, timing, f"{rng.random()}", rng.random() < 0.75)


def _as_seen(past: _Past, rng: random.Random) -> BegunWorld | None:
    seen: list[ClusterSnapshot] = []
    up: set[str] = set()

    def see(cluster: SimulatedCluster) -> None:
        seen.append(_nodes_and_pods(cluster))
        up.update(filter(cluster.kubelets.is_up, cluster.state.nodes))
        leases = _leases(past, cluster)
        seen[0] = replace(seen[0], leases=leases)

    past.run(see)
    [snapshot] = seen
    start_ns, control_plane = past.at_ns, past.world.snapshot.control_plane
    begun_ns = [event.at_ns for event in past.events if event.manager_up]
    if begun_ns:
        began_ns = past.world.scenario.start_ns + begun_ns[-1]
        control_plane = replace(control_plane, leader_acquire_time_ns=began_ns)
    if rng.random() < 0.4 and not _is_young(past, begun_ns):
        control_plane = replace(control_plane, leader_acquire_time_ns=None)
    snapshot = replace(snapshot, control_plane=control_plane)
    stops = list(_stops(snapshot, start_ns, up))
    known = {name for stop in stops for name in stop.nodes}
    for node in snapshot.nodes:
        told = is_up_at_start(node, snapshot.leases.get(node.name), start_ns)
        if node.name not in known and told != (node.name in up):
            return None
    scenario = Scenario(start_ns, horizon_ns=past.world.scenario.end_ns - past.cut_ns)
    events = list(_possible(snapshot, stops, past, up))
    scenario = replace(scenario, events=tuple(events))
    manager = [e.manager_up for e in past.events if e.manager_up is not None]
    if manager[-1:] == [False] and not starts_without_controller(scenario):
        return None
    configuration = replace(past.world.configuration, monitor_phase_ns=None)
    return BegunWorld(World(snapshot, scenario, configuration), past)


def _is_young(past: _Past, begun_ns: Sequence[int]) -> bool:
    """Whether the process began less than a grace period ago: nothing is promised where its Lease does not tell that."""
    configuration = past.world.configuration
    grace_ns = max(
        configuration.node_monitor_grace_period_ns,
        configuration.node_startup_grace_period_ns,
        0 if configuration.taint_mode else configuration.pod_eviction_timeout_ns,
    )
    ticks_ns = 2 * configuration.node_monitor_period_ns
    return any(past.cut_ns - at_ns < grace_ns + ticks_ns for at_ns in begun_ns)


def _nodes_and_pods(cluster: SimulatedCluster) -> ClusterSnapshot:
    """What the API server has, which knows whole seconds only."""
    state = cluster.state
    nodes = map(_in_seconds, state.nodes.values())
    pods = state.pods.values()
    return ClusterSnapshot(
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        pods=tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name))),
        taken_at_ns=state.now_ns,
        taken_at_source="snapshot",
        kinds_seen=("Lease", "Node", "Pod"),
    )


def _in_seconds(node: Node) -> Node:
    return replace(
        node,
        creation_timestamp_ns=node.creation_timestamp_ns // SECOND_NS * SECOND_NS,
        conditions=tuple(map(_condition_in_seconds, node.conditions)),
        taints=tuple(
            replace(taint, time_added_ns=_seconds(taint.time_added_ns)) for taint in node.taints
        ),
    )


def _condition_in_seconds(condition: NodeCondition) -> NodeCondition:
    return replace(
        condition,
        last_heartbeat_time_ns=_seconds(condition.last_heartbeat_time_ns),
        last_transition_time_ns=_seconds(condition.last_transition_time_ns),
    )


def _seconds(at_ns: int | None) -> int | None:
    return None if at_ns is None else at_ns // SECOND_NS * SECOND_NS


def _leases(past: _Past, cluster: SimulatedCluster) -> dict[str, Lease]:
    """Of every node that had one or is new; of those that are gone too."""
    of_start = past.world.snapshot.leases
    seconds = next((lease.lease_duration_seconds for lease in of_start.values()), 40)
    found = {}
    had_none = {node.name for node in past.world.snapshot.nodes} - of_start.keys()
    for name in sorted(of_start.keys() | cluster.state.nodes.keys()):
        version = cluster.kubelets.lease_at(name, past.at_ns)
        if version is not None and name not in had_none:
            duration = of_start[name].lease_duration_seconds if name in of_start else seconds
            found[name] = Lease(name, version.renew_time_ns, duration, name)
    return found


def _stops(snapshot: ClusterSnapshot, start_ns: int, up: set[str]) -> Iterator[StopKubelet]:
    """Who asks knows which kubelets fell silent so shortly before that their leases do not tell."""
    for node in snapshot.nodes:
        lease = snapshot.leases.get(node.name)
        if node.name in up or not is_up_at_start(node, lease, start_ns):
            continue
        if lease is None or lease.renew_time_ns is None:
            continue
        age_ns = start_ns - lease.renew_time_ns
        stated = -age_ns if age_ns >= renew_period_ns(lease) else None
        yield StopKubelet(at_ns=0, nodes=(node.name,), last_heartbeat_ns=stated, origin="test")


def _possible(
    snapshot: ClusterSnapshot, stops: Iterable[StopKubelet], past: _Past, up: set[str]
) -> Iterator[ScenarioEvent]:
    """What may still happen, without what a scenario file could not say of this snapshot."""
    found: list[ScenarioEvent] = []
    # A file could say of them that they stop; here they do not stop twice.
    silent = {node.name for node in snapshot.nodes} - up
    was_silent = StopKubelet(at_ns=-1, nodes=tuple(sorted(silent)), origin="test")
    later = (event for event in past.world.scenario.events if event.at_ns > past.cut_ns)
    for stop in stops:
        found.append(stop)
    for event in (_shifted(event, -past.cut_ns) for event in later):
        if isinstance(event, StopKubelet) and (event.last_heartbeat_ns or 0) < 0 < event.at_ns:
            event = replace(event, last_heartbeat_ns=None)
        trial = History(snapshot)
        trial.kubelets.update(dict.fromkeys(silent, was_silent))
        try:
            told = (one for one in (*found, event) if one not in stops)
            wrong = [each for one in told for each in one.contradictions(trial)]
        except KeyError:  # it names what is gone
            continue
        if not wrong and not ties([*found, event]):
            found.append(event)
    yield from found


def _shifted(event: ScenarioEvent, by_ns: int) -> ScenarioEvent:
    moved = replace(event, at_ns=event.at_ns + by_ns)
    if isinstance(moved, StopKubelet) and moved.last_heartbeat_ns is not None:
        moved = replace(moved, last_heartbeat_ns=moved.last_heartbeat_ns + by_ns)
    return moved


def _courses(past: _Past, begins_ns: Iterable[int], future: str) -> tuple[Course, ...]:
    """Ticks that cost something else each, the same ones up to the look; none in half of the pasts."""
    if random.Random(f"drifts {past.seed}").random() < 0.5:
        return ()
    warm = _course(past, past.timing.monitor_phase_ns, future, before=70)
    return warm, *(_course(past, at_ns, future) for at_ns in begins_ns)


def _course(past: _Past, first_ns: int, future: str, before: int = 0) -> Course:
    period_ns = past.world.configuration.node_monitor_period_ns
    until_ns = past.world.scenario.end_ns + 2 * period_ns
    rng = random.Random(f"course {past.seed} {first_ns}")
    lived = course_of(rng, first_ns, until_ns, period_ns, before)
    lived = tuple(tick for tick in lived if tick[0] <= past.cut_ns)
    rng = random.Random(f"course {future} {first_ns}")
    next_ns = sum(lived[-1]) if lived else first_ns
    return *lived, *course_of(rng, next_ns, until_ns, period_ns)
