"""Admissible realities: what a real control plane could do where a prediction only gives windows.

A *world* is drawn from a seed; a *reality* of it is one concrete ``simulate`` run with everything
unknown chosen at random: the phase and the cost of both loops, when pods exit, when garbage
collection runs, which renewal was a kubelet's last, when countdowns of before the start began (``running_countdowns``),
which zones lack their token (``spent_tokens``), what else the process remembers (``states_at_start``), and the order
among waiting nodes (nodes are renamed at random, because the simulation serves them by name, and the names are mapped back).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, repeat

from building.builders import (
    SECOND_NS,
    UNREACHABLE,
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    tolerates,
)
from msgspec.structs import replace
from realities.free_timing import LedTiming, Walks, every_tick_walks_anew
from realities.renewals import renewal_habits, with_last_heartbeats
from realities.running_countdowns import DrawnPast
from realities.spent_tokens import limiters_drawn, may_be_stopped, zones_that_served
from realities.states_at_start import with_states_at_start

from kubectl_evictplan.cluster.timeline import AboutNode, AboutPod, Entry, Timeline
from kubectl_evictplan.controllers.flags import (
    ControllerConfiguration,
    resolve_configuration,
)
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.engine.event_queue import Course
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod
from kubectl_evictplan.kube.topology import zone_display_name
from kubectl_evictplan.scenarios.field_types import Manifest
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from kubectl_evictplan.simulation.simulate import simulate, starts_without_controller
from kubectl_evictplan.windows.monitor_phase import with_visible_phase

RELEASES = ("1.18.6", "1.20.4", "1.23.13", "1.29.6", "1.33.4", "1.35.0")
_SHORT_FLAGS = {
    "node-monitor-period": "1s",
    "node-monitor-grace-period": "6s",
    "node-startup-grace-period": "8s",
}
MONITOR_COST_MAX_NS = 10_000_000
PASS_COST_MAX_NS = 2_000_000


@dataclass
class World:
    """What a user hands in."""

    snapshot: ClusterSnapshot
    scenario: Scenario
    configuration: ControllerConfiguration


@dataclass
class Script:
    """Draws events in time order and keeps what is true at each instant."""

    rng: random.Random
    nodes: dict[str, Node]
    pods: list[Pod]
    horizon: float
    actions: tuple[str, ...]
    up: set[str] = field(default_factory=set)
    gone: dict[str, Node] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    running: bool = True
    now: float = 0.0
    events: list[ScenarioEvent] = field(default_factory=list)

    def step(self) -> None:
        """One more event, or none when the drawn action is impossible now."""
        self.now = round(self.now + self.rng.choice((0.0, 0.3, 2.5, 7.0)) * self.rng.random(), 3)
        self.now = max(round(self.now + self.horizon / 12 * self.rng.random(), 3), 0.001)
        if self.now < self.horizon:
            getattr(self, self.rng.choice(self.actions).replace("-", "_"))()

    def _some(self, names: set[str], most: int) -> list[str]:
        count = min(len(names), self.rng.randint(1, most))
        return sorted(self.rng.sample(sorted(names), count))

    def kubelet_stop(self) -> None:
        chosen = self._some(self.up, 6)
        if not chosen:
            return
        self.up -= set(chosen)
        last: float | None = None
        if self.rng.random() < 0.4:
            earliest = max(self.since.get(name, -0.4) for name in chosen)
            last = max(round(self.now - self.rng.choice((0.0, 0.1, 0.9)), 3), earliest)
        self.events.append(make_event(self.now, "kubelet-stop", chosen, last_heartbeat=last))

    def kubelet_start(self) -> None:
        chosen = self._some(set(self.nodes) - self.up, 4)
        if chosen:
            self.up |= set(chosen)
            self.since.update(dict.fromkeys(chosen, self.now))
            self.events.append(make_event(self.now, "kubelet-start", chosen))

    def node_ready(self) -> None:
        chosen = self._some(self.up, 3)
        if chosen:
            status = self.rng.choice(("True", "False", "False"))
            self.since.update(dict.fromkeys(chosen, self.now))
            self.events.append(make_event(self.now, "node-ready", chosen, status=status))

    def taint(self) -> None:
        if self.nodes:
            taint = self.rng.choice(("A=x:NoExecute", "B:NoExecute"))
            chosen = self._some(set(self.nodes), 3)
            self.events.append(make_event(self.now, "taint", chosen, taint=taint))

    def untaint(self) -> None:
        if self.nodes:
            taint = self.rng.choice(("A", "B:NoExecute"))
            chosen = self._some(set(self.nodes), 3)
            self.events.append(make_event(self.now, "untaint", chosen, taint=taint))

    def node_delete(self) -> None:
        if self.nodes:
            (name,) = self._some(set(self.nodes), 1)
            self.gone[name] = self.nodes.pop(name)
            self.up.discard(name)
            self.events.append(make_event(self.now, "node-delete", name))

    def restart(self) -> None:
        self.events.append(make_event(self.now, "controller-stop"))
        self.now = round(self.now + self.rng.choice((0.01, 1.0, 5.0)), 3)
        self.events.append(make_event(self.now, "controller-start"))


ACTIONS = ("kubelet-stop",) * 4 + (
    "kubelet-start",
    "kubelet-start",
    "node-ready",
    "taint",
    "untaint",
    "restart",
    "node-delete",
)
SILENCE_ONLY = ("kubelet-stop",)
NO_RESTART = tuple(a for a in ACTIONS if a not in ("restart", "node-delete"))


def draw_world(
    seed: int,
    *,
    actions: tuple[str, ...] = ACTIONS,
    releases: tuple[str, ...] = RELEASES,
    short: bool | None = None,
    down_at_start: bool = False,
) -> World:
    """A cluster of 2 to 8 nodes in 1 to 3 zones with pods, and a few events on it."""
    rng = random.Random(seed)
    short = rng.random() < 0.7 if short is None else short
    lease_seconds = 6 if short else 40
    period = lease_seconds / 4
    zones = rng.choice((("",), ("a",), ("a", "b"), ("a", "b"), ("a", "b", "c")))
    names = [f"n{index}" for index in range(rng.randint(2, 8))]
    down = {name for name in names if down_at_start and rng.random() < 0.3}
    node_list, leases = [], []
    for name in names:
        zone = rng.choice(zones)
        if name in down:
            node_list.append(_down_node(rng, name, zone))
            leases.append(make_lease(name, -120, duration_seconds=lease_seconds))
        else:
            node_list.append(make_node(name, zone=zone))
            renewed = -round(rng.random() * period, 3)
            leases.append(make_lease(name, renewed, duration_seconds=lease_seconds))
    pods = list(_draw_pods(rng, names, short=short))
    horizon = rng.choice((60, 90)) if short else rng.choice((200, 500))
    script = Script(rng, {n.name: n for n in node_list}, pods, horizon, actions)
    script.up = set(names) - down
    for _ in range(rng.randint(1, 6)):
        script.step()
    flags = dict(_SHORT_FLAGS) if short else {}
    if short or rng.random() < 0.3:
        flags["node-eviction-rate"] = rng.choice(("0.1", "0.5", "1", "2"))
        flags["secondary-node-eviction-rate"] = rng.choice(("0.01", "0.1", "0.5"))
        flags["large-cluster-size-threshold"] = rng.choice(("50", "3"))
    settings = ControllerSettings(kubernetes_version=rng.choice(releases), flags=flags)
    snapshot = make_snapshot(node_list, pods, leases=leases)
    return World(
        snapshot,
        make_scenario(script.events, horizon=horizon),
        resolve_configuration(settings, snapshot.control_plane),
    )


def _down_node(rng: random.Random, name: str, zone: str) -> Node:
    since = -round(rng.uniform(5, 60))
    node = make_node(name, zone=zone, ready="Unknown", heartbeat=-110, transition=since)
    if rng.random() < 0.6:
        tainted = make_node(name, zone=zone, taints=[f"{UNREACHABLE}:NoExecute"]).taints[0]
        added_ns = epoch_ns(float(rng.randint(since, -1)))
        node = replace(node, taints=(replace(tainted, time_added_ns=added_ns),))
    return node


def _draw_pods(rng: random.Random, names: list[str], *, short: bool) -> Iterator[Pod]:
    seconds = (0, 1, 3, 5, 12) if short else (0, 5, 30, 300)
    for index in range(rng.randint(1, 6)):
        kind = rng.random()
        if kind < 0.25:
            tolerations = default_tolerations(rng.choice(seconds))
        elif kind < 0.5:
            tolerations = ()
        else:
            keys = ("A", "B", UNREACHABLE, "")
            tolerations = tuple(
                tolerates(rng.choice(keys), rng.choice((None, *seconds)))
                for _ in range(rng.randint(1, 3))
            )
        yield make_pod(
            f"p{index}",
            rng.choice(names),
            tolerations=tolerations,
            grace_seconds=rng.choice((0, 1, 5, 30)),
            created=-float(rng.randint(60, 5000)),
        )


# -- realities ------------------------------------------------------------------------------------


@dataclass
class Reality:
    """One run, told in the user's names."""

    timing: Timing
    entries: list[Entry]
    timeline: Timeline


def draw_reality(
    world: World,
    rng: random.Random,
    timing_of: Callable[[World, random.Random], Timing] | None = None,
    *,
    free: bool = False,
) -> Reality:
    """Choose everything that is unknown, run, and map the names back.

    ``free``: whatever need not be the same twice is drawn each time (``free_timing``).
    """
    part = partial(part_of, rng)
    timing = (timing_of or draw_timing)(world, part("timing"))
    scenario = with_instants(world.scenario, part("instants"))
    jitter = renewal_habits(part) if free else None
    scenario = with_last_heartbeats(world.snapshot, scenario, part("renewals"), jitter)
    names = sorted(node.name for node in world.snapshot.nodes)
    renamed = dict(zip(names, part("names").sample(names, len(names)), strict=True))
    # A tick of the second of which a status tells may have come before that was posted, or after it.
    posts = random.Random(f"posts {timing.monitor_phase_ns} {timing.timer_start_fraction}")
    late = tuple(renamed[name] for name in names if posts.random() < 0.4)
    timing = replace(timing, posted_late=late)
    drift = part("drift")
    if drift.random() < 0.5:
        timing = drifting(world, scenario, timing, drift)
    known = world.snapshot, scenario, world.configuration
    timing = with_states_at_start(*known, timing, part("states at start"))
    timing = replace(
        timing,
        still_in_line=tuple(renamed[name] for name in timing.still_in_line),
        early_in_line=tuple(renamed[name] for name in timing.early_in_line),
    )
    anew: AbstractContextManager[None] = nullcontext()
    if free:
        timing, walks = LedTiming.led(timing, part), part("walks")
        anew = every_tick_walks_anew(Walks(walks, always=walks.random() < 0.5))
    past = part("past")
    limiters = limiters_drawn(
        _zones_that_served(world), part("limiters"), stopped=_may_be_stopped(world)
    )
    with anew, limiters, DrawnPast(past).applied():
        timeline = simulate(
            rename_snapshot(world.snapshot, renamed),
            rename_scenario(scenario, renamed),
            world.configuration,
            timing,
        )
    back = {new: old for old, new in renamed.items()}
    entries = [
        replace(entry, node=back.get(entry.node, entry.node))
        if isinstance(entry, AboutNode | AboutPod)
        else entry
        for entry in timeline.entries
    ]
    return Reality(timing, entries, timeline)


def part_of(rng: random.Random, about: str) -> random.Random:
    """Chance for one thing: where somebody leads it (``guided_realities``), what is chosen there moves nothing else."""
    part = getattr(rng, "part", None)
    return random.Random(f"{about} {rng.random()}") if part is None else part(about)


def draw_timing(world: World, rng: random.Random) -> Timing:
    """Phases, costs and races of one reality."""
    cost_ns = rng.choice((0, rng.randint(0, MONITOR_COST_MAX_NS), MONITOR_COST_MAX_NS))
    return Timing(
        monitor_phase_ns=_phase_ns(world, rng, cost_ns),
        monitor_cost_ns=cost_ns,
        pass_phase_ns=rng.randrange(100_000_000),
        pass_cost_ns=rng.randint(0, PASS_COST_MAX_NS),
        mid_tick_pass=rng.random() < 0.3,
        stale_lister=rng.random() < 0.3,
        # A zone can only have used its token on a node that is not ready, or was not just before.
        initial_token=rng.random() < 0.5
        or not (_zones_that_served(world) or _may_be_stopped(world)),
        pod_gc_phase_ns=rng.randrange(20 * SECOND_NS),
        pod_gc_cost_ns=rng.randrange(25_000_000),
        pod_gc_lag_ns=rng.choice((0, rng.randrange(25_000_000))),
        timer_start_fraction=rng.choice((0.0, 1.0, rng.random())),
        stale_nil=rng.choice(("grace0", "never")),
        pod_exit_fraction=rng.random(),
    )


def _phase_ns(world: World, rng: random.Random, cost_ns: int) -> int:
    """One that the snapshot leaves."""
    step_ns = world.configuration.node_monitor_period_ns + cost_ns
    phase_ns = rng.randrange(step_ns)
    seen = with_visible_phase(world.snapshot, world.scenario, world.configuration)
    if seen.monitor_phase_ns is not None:
        return seen.monitor_phase_ns
    if starts_without_controller(world.scenario):
        return 0
    # What is drawn of a whole step is a share of all that may be.
    spans = seen.monitor_phases_ns or ((0, step_ns - 1),)
    left_ns = phase_ns * sum(last_ns - first_ns + 1 for first_ns, last_ns in spans) // step_ns
    for first_ns, last_ns in spans:
        if left_ns <= last_ns - first_ns:
            return first_ns + left_ns
        left_ns -= last_ns - first_ns + 1
    raise AssertionError("a share of all is within one of them")


def drifting(world: World, scenario: Scenario, timing: Timing, rng: random.Random) -> Timing:
    """The same first ticks, but every tick costs something else."""
    period_ns = world.configuration.node_monitor_period_ns
    until_ns = scenario.end_ns + 2 * period_ns
    begins_ns = [event.at_ns for event in scenario.events if event.manager_up]
    courses = [course_of(rng, at_ns, until_ns, period_ns) for at_ns in begins_ns]
    if not starts_without_controller(scenario):
        courses.insert(0, course_of(rng, timing.monitor_phase_ns, until_ns, period_ns, before=70))
    return replace(timing, monitor_courses=tuple(courses))


def course_of(
    rng: random.Random, first_ns: int, until_ns: int, period_ns: int, before: int = 0
) -> Course:
    """Ticks from ``first_ns`` on, and some ``before``: quick ones and slow ones for a while each, or any."""
    earlier_ns = list(_costs(rng, before))
    ticks_ns = [first_ns - before * period_ns - sum(earlier_ns)]
    for cost_ns in (*earlier_ns, *_costs(rng, (until_ns - first_ns) // period_ns + 2)):
        ticks_ns.append(ticks_ns[-1] + period_ns + cost_ns)
    return tuple((at_ns, after_ns - at_ns) for at_ns, after_ns in pairwise(ticks_ns))


def _costs(rng: random.Random, number: int) -> Iterator[int]:
    bits, draw = (MONITOR_COST_MAX_NS + 1).bit_length(), rng.getrandbits
    while number > 0:
        left = min(rng.choice((1, 3, 10, 40)), number)
        cost_ns = rng.choice((0, MONITOR_COST_MAX_NS, -1))
        number -= left
        if cost_ns >= 0:
            yield from repeat(cost_ns, left)
            continue
        for _ in range(left):
            # As ``randint`` draws, at half its price: there are a thousand ticks in most realities.
            cost_ns = draw(bits)
            while cost_ns > MONITOR_COST_MAX_NS:
                cost_ns = draw(bits)
            yield cost_ns


def _zones_that_served(world: World) -> frozenset[str]:
    return zones_that_served(world.snapshot, world.scenario.start_ns, world.configuration)


def _may_be_stopped(world: World) -> bool:
    return may_be_stopped(world.snapshot, world.configuration)


def with_instants(scenario: Scenario, rng: random.Random) -> Scenario:
    """Settle every instant that is a window: each kubelet comes back at its own."""
    events: list[ScenarioEvent] = []
    for event in scenario.events:
        if event.latest_ns == event.at_ns:
            events.append(event)
            continue
        parts = [event.restricted_to((name,), ()) for name in event.nodes] or [event]
        events += [part.moved_to(_within(part, rng)) for part in parts]
    return replace(scenario, events=tuple(sorted(events, key=lambda event: event.at_ns)))


def _within(event: ScenarioEvent, rng: random.Random) -> int:
    ends = (event.at_ns, event.latest_ns)
    return rng.choice((*ends, rng.randint(*ends), rng.randint(*ends)))


def zones_of(world: World) -> dict[str, str]:
    """Of each node that ever is its zone, as answers call it; nothing where one is made in another zone."""
    zone_key = ZoneMembership(world.configuration).zone_key
    made = (event.node for event in world.scenario.events if event.node is not None)
    places = {(n.name, zone_display_name(zone_key(n))) for n in (*made, *world.snapshot.nodes)}
    zones = dict(places)
    return zones if len(zones) == len(places) else {}


def rename_snapshot(snapshot: ClusterSnapshot, names: dict[str, str]) -> ClusterSnapshot:
    """The same cluster with nodes (and their leases, and their pods' nodes) renamed."""
    nodes = [replace(node, name=names[node.name]) for node in snapshot.nodes]
    leases = {
        names.get(name, name): replace(lease, name=names.get(name, name))
        for name, lease in snapshot.leases.items()
    }
    pods = [replace(p, node_name=names.get(p.node_name, p.node_name)) for p in snapshot.pods]
    return replace(
        snapshot,
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        leases=leases,
        pods=tuple(pods),
    )


def rename_scenario(scenario: Scenario, names: dict[str, str]) -> Scenario:
    """The same events on the renamed nodes."""
    events = []
    for event in scenario.events:
        node, pod = event.node, event.pod
        if node is not None:
            node = replace(node, name=names.get(node.name, node.name))
            event = replace(event, manifest=Manifest(node))
        elif pod is not None:
            pod = replace(pod, node_name=names.get(pod.node_name, pod.node_name))
            event = replace(event, manifest=Manifest(pod))
        elif event.nodes:
            chosen = tuple(sorted(names.get(name, name) for name in event.nodes))
            event = replace(event, nodes=chosen)
        events.append(event)
    return replace(scenario, events=tuple(events))
