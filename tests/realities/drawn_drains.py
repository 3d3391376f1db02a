"""Drawn realities of drains, and what of one of them contradicts a prediction."""

from __future__ import annotations

import random
from collections.abc import Iterator

from building.builders import default_tolerations, make_conditions, make_event, ns, tolerates
from drawn.drain_worlds import READY, DrainedWorld, draw_drained_world, synced
from msgspec.structs import replace
from realities.drain_promises import unkept
from realities.drawn_realities import World, draw_timing
from realities.renewals import with_last_heartbeats

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.timeline import (
    EVICTION_API,
    DrainProcessEnded,
    EvictionNotAllowed,
    NodeDrainEnded,
    NodeDrainStarted,
    PodDeleted,
    Timeline,
)
from kubectl_evictplan.controllers.pod_gc import GC_CHECK_PERIOD_NS
from kubectl_evictplan.engine.drain_timing import DrainTiming
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.infrastructure import Infrastructure, Namespace
from kubectl_evictplan.kube.objects import NO_EXECUTE, Taint
from kubectl_evictplan.prediction.document import CERTAIN, DrainReport, Prediction
from kubectl_evictplan.prediction.drains import NEVER
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.actions.drain import drains_among
from kubectl_evictplan.scenarios.history import History, ties
from kubectl_evictplan.scenarios.scenario import Scenario
from kubectl_evictplan.simulation.simulate import simulate


def with_history(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """The world with pods that tell how long those of their owners take to be Ready."""
    quickest: dict[str, int] = {}
    pods = []
    for pod in world.snapshot.pods:
        owner = pod.controller()
        if owner is not None and pod.ready == "True":
            least = quickest.setdefault(owner.name, rng.choice((1, 8, 45)))
            pod = replace(pod, ready_after_seconds=least + rng.randint(0, 6))
        pods.append(pod)
    return world._replace(snapshot=replace(world.snapshot, pods=tuple(pods)))


def with_gaps(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """The world with some pods on a node that is gone, owners that lack a pod, and pods that no budget covers."""
    pods = []
    for pod in world.snapshot.pods:
        fate = rng.choice(("gone", "uncovered", "", ""))
        if fate == "gone":
            pod = replace(pod, node_name="gone")
        elif fate == "uncovered":
            pod = replace(pod, labels={})
        pods.append(pod)
    short = {one.name for one in world.snapshot.workloads if rng.random() < 0.2}
    workloads = tuple(
        replace(one, replicas=(one.replicas or 0) + (one.name in short))
        for one in world.snapshot.workloads
    )
    made = synced(replace(world.snapshot, pods=tuple(pods), workloads=workloads))
    # Orphans are deleted after 40 to 80 s: drains may come when they are there, and when they are not.
    late_ns = ns(rng.choice((0, 45, 90)))
    events = tuple(one.moved_to(one.at_ns + late_ns) for one in world.scenario.events)
    return world._replace(snapshot=made, scenario=replace(world.scenario, events=events))


def with_outages(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """The world with a node whose pods somebody else deletes as well, shortly or long before the drains, or in the midst of them."""
    nodes = list(world.snapshot.nodes)
    place = rng.randrange(len(nodes))
    name, at = nodes[place].name, rng.choice((0, 0.9, 1, 3))
    what = rng.choice(("taint", "kubelet-stop", "node-delete", "tainted", "untainted"))
    events = []
    if what in {"tainted", "untainted"}:
        nodes[place] = replace(nodes[place], taints=(Taint("x", NO_EXECUTE),))
        if what == "untainted":
            events.append(make_event(at, "untaint", name, taint="x:NoExecute"))
    else:
        rest = {"taint": "x:NoExecute"} if what == "taint" else {}
        events.append(make_event(at, what, name, **rest))
    fates = ((), (tolerates("x", 7), *default_tolerations(20)), default_tolerations(300))
    tolerations = {one.name: rng.choice(fates) for one in world.snapshot.workloads}
    pods = [
        replace(pod, tolerations=tolerations[owner.name])
        if (owner := pod.controller()) is not None
        else pod
        for pod in world.snapshot.pods
    ]
    late_ns = ns(rng.choice((0, 2, 60, 120)))
    drains = [one.moved_to(one.at_ns + late_ns) for one in world.scenario.events]
    if what == "node-delete":
        # kubectl drains no node that is gone.
        drains = [one for one in drains if name not in one.nodes]
    events = sorted([*events, *drains], key=lambda one: one.at_ns)
    made = replace(world.snapshot, nodes=tuple(nodes), pods=tuple(pods))
    return world._replace(snapshot=made, scenario=replace(world.scenario, events=tuple(events)))


def with_the_rest(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """The world with pods that start, terminate, wait for a node or are held by a finalizer, and kubectl that waits only so long."""
    now_ns = world.snapshot.taken_at_ns
    pods = []
    for pod in world.snapshot.pods:
        fate = rng.choice(("starts", "ends", "waits", "held", *[""] * 12))
        if fate == "starts":
            phase = rng.choice(("Running", "Pending"))
            young_ns = now_ns - ns(rng.choice((0, 1, 2)))
            pod = replace(pod, ready="False", phase=phase, creation_timestamp_ns=young_ns)
        elif fate == "ends":
            end_ns = now_ns + ns(rng.randint(0, pod.termination_grace_period_seconds))
            grace = pod.termination_grace_period_seconds
            pod = replace(pod, deletion_timestamp_ns=end_ns, deletion_grace_period_seconds=grace)
        elif fate == "waits":
            pod = replace(pod, node_name="", phase="Pending", ready="False")
        elif fate == "held":
            pod = replace(pod, finalizers=("example.com/held",))
        pods.append(pod)
    events = tuple(
        replace(one, skip_wait_for_delete_timeout_seconds=rng.choice((0, 1, 20)))
        for one in world.scenario.events
    )
    made = synced(replace(world.snapshot, pods=tuple(pods)))
    return world._replace(snapshot=made, scenario=replace(world.scenario, events=events))


def reality(
    world: DrainedWorld,
    rng: random.Random,
    number: int,
    times: ReadyTimes = ReadyTimes(*READY),  # noqa: B008 - a constant
) -> Timeline:
    drawn = drain_timing(rng, 1_000_000 + number, times)
    looks_ns = random.Random(number).randrange(GC_CHECK_PERIOD_NS)
    timing = Timing(drain=drawn, pod_gc_phase_ns=looks_ns)
    return simulate(world.snapshot, world.scenario, world.configuration, timing)


def drain_timing(rng: random.Random, seed: int, times: ReadyTimes) -> DrainTiming:
    """How drains go in one reality."""
    share = rng.random()
    # Many latencies are never all short, or all long, by chance: then windows end.
    latency = rng.choice((None, None, 0.0, 1.0))
    return DrainTiming(
        seed=seed,
        latency=latency,
        exit_low=rng.choice((0.0, share)),
        exit_high=share,
        ready_low_ns=times.earliest_ns,
        ready_high_ns=times.latest_ns,
        ready_by_owner=times.ranges_ns,
        joins_drained_nodes=0.5 * (rng.random() < 0.3),
        late_views=rng.choice((0.0, 0.5)),
        running=rng.choice((1.0, None)),
    )


_UNSEEN = {"PodDisruptionBudget", "Namespace"}


def contradictions(timeline: Timeline, prediction: Prediction, scenario: Scenario) -> list[str]:
    """What of a run no window of a prediction holds, and what is certain and absent."""
    return [
        *_outside(timeline, prediction),
        *_absent(timeline, prediction),
        *_wrong_exits(timeline, prediction, scenario),
        *unkept(timeline, prediction, scenario),
    ]


def mistakes(world: DrainedWorld, rng: random.Random, runs: int) -> list[str]:
    """What is wrong in so many drawn realities of a world and its prediction."""
    prediction = predict(*world, assume_ready=READY)
    return [
        one
        for number in range(runs)
        for one in contradictions(reality(world, rng, number), prediction, world.scenario)
    ]


def _outside(timeline: Timeline, prediction: Prediction) -> Iterator[str]:
    windows: dict[str, list[tuple[float, float]]] = {}
    for eviction in prediction.evictions:
        windows.setdefault(eviction.key, []).extend(
            (window.earliest_seconds, window.latest_seconds) for window in eviction.windows
        )
    waits = {wait.pod for report in prediction.drains for wait in (*report.waiting, *report.failed)}
    # Who waits for a budget or a namespace that nobody has seen is not named.
    unread = {one.node for one in prediction.drains if _UNSEEN & set(one.not_in_input)}
    replacements = timeline.replacements()
    deleted = set[tuple[str, str]]()
    for entry in timeline.entries:
        at = round(entry.at_ns / 1e9, 6)
        if isinstance(entry, PodDeleted) and entry.controller != EVICTION_API:
            # A new process of a controller deletes once more what terminates: that changes nothing.
            if (entry.uid, entry.controller) in deleted:
                continue
            deleted.add((entry.uid, entry.controller))
        if isinstance(entry, PodDeleted) and entry.uid not in replacements:
            if not any(low <= at <= high for low, high in windows.get(entry.pod, ())):
                yield f"{entry.pod} at {at}"
        elif isinstance(entry, EvictionNotAllowed) and entry.uid not in replacements:
            if entry.pod not in waits and entry.node not in unread:
                yield f"{entry.pod} waits"
        elif isinstance(entry, NodeDrainStarted):
            if not any(_may_start(report, entry.node, at) for report in prediction.drains):
                yield f"{entry.node} starts at {at}"
        elif isinstance(entry, NodeDrainEnded):
            if not any(_may_end(report, entry, at) for report in prediction.drains):
                yield f"{entry.node} ends at {at}: {entry.reason.value}"


def _absent(timeline: Timeline, prediction: Prediction) -> Iterator[str]:
    """Evictions and waits that are certain, and ends that a drain surely has."""
    deleted = {(e.pod, e.controller) for e in timeline.entries if isinstance(e, PodDeleted)}
    refused = {entry.pod for entry in timeline.entries if isinstance(entry, EvictionNotAllowed)}
    ended = {entry.node for entry in timeline.entries if isinstance(entry, NodeDrainEnded)}
    for eviction in prediction.evictions:
        if eviction.certainty == CERTAIN and (eviction.key, eviction.controller) not in deleted:
            yield f"{eviction.key} is absent"
    for report in prediction.drains:
        for wait in (*report.waiting, *report.failed):
            if wait.certainty == CERTAIN and wait.pod not in refused:
                yield f"{wait.pod} does not wait"
        if report.end_latest_seconds is not None and report.node not in ended:
            yield f"{report.node} does not end"


def _wrong_exits(timeline: Timeline, prediction: Prediction, scenario: Scenario) -> Iterator[str]:
    """How kubectl ends, process by process."""
    exits = {
        timeline.entries[entry.process].event: entry.exit_code
        for entry in timeline.entries
        if isinstance(entry, DrainProcessEnded)
    }
    reports = iter(prediction.drains)
    for event in drains_among(scenario.events):
        for report in (next(reports) for _ in event.nodes):
            code = exits.get(event)
            if report.exit_code is not None and code != report.exit_code:
                yield f"{report.node}: exit {code} instead of {report.exit_code}"
            if report.end_reason == NEVER and code is not None:
                yield f"{report.node}: exit {code} although it never ends"


def _may_start(report: DrainReport, node: str, at: float) -> bool:
    first, last = report.start_seconds, report.start_latest_seconds
    return report.node == node and first is not None and first <= at <= (last or at)


def _may_end(report: DrainReport, entry: NodeDrainEnded, at: float) -> bool:
    first, last = report.end_earliest_seconds, report.end_latest_seconds
    return (
        report.node == entry.node
        and first is not None
        and first <= at <= (last or at)
        and report.end_reason in (None, entry.reason.value)
    )


def bounded(scenario: Scenario, rng: random.Random) -> Scenario:
    """The scenario with drains as apply drains: some pods at a time, with pauses."""
    drains = (
        replace(event, parallel=rng.randint(1, 3), settle_ns=ns(rng.choice((0, 20))))
        for event in scenario.events
    )
    return replace(scenario, events=tuple(drains))


def draw_bounded_world(seed: int, rng: random.Random) -> DrainedWorld:
    """A world whose drains take some pods at a time."""
    world = draw_drained_world(random.Random(2000 + seed))
    return world._replace(scenario=bounded(world.scenario, rng))


def with_returns(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """The world whose nodes have all come back just before the start; some fall silent again, or a process begins."""
    nodes = []
    for node in world.snapshot.nodes:
        since = -round(rng.uniform(0, 15), 3)
        conditions = make_conditions("True", heartbeat=since, transition=since)
        nodes.append(replace(node, conditions=conditions))
    at = round(rng.uniform(0, 40), 3)
    name = rng.choice(nodes).name
    more = rng.choice(
        (
            [make_event(at, "kubelet-stop", name)],
            [make_event(at, "kubelet-stop", name), make_event(at + 60, "kubelet-start", name)],
            [make_event(at, "controller-stop"), make_event(at + 1, "controller-start")],
            [make_event(at, "node-ready", name, status="False")],
        )
    )
    events = sorted([*world.scenario.events, *more], key=lambda one: one.at_ns)
    made = replace(world.snapshot, nodes=tuple(nodes))
    return world._replace(snapshot=made, scenario=replace(world.scenario, events=tuple(events)))


# Not one of those that nobody can delete.
_OTHER = "shop"


def with_namespace(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """The world in a namespace that is deleted, or stays, or of which nobody tells."""
    snapshot = world.snapshot
    phases = rng.choice((("Active",), ("Terminating",), ()))
    namespaces = tuple(Namespace(_OTHER, phase=phase) for phase in phases)
    made = replace(
        snapshot,
        pods=tuple(replace(pod, namespace=_OTHER) for pod in snapshot.pods),
        workloads=tuple(replace(one, namespace=_OTHER) for one in snapshot.workloads),
        budgets=tuple(replace(one, namespace=_OTHER) for one in snapshot.budgets),
        infrastructure=Infrastructure(namespaces=namespaces),
    )
    return world._replace(snapshot=synced(made))


def lived_in(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """The world with what is true of its namespace, where the input does not tell."""
    snapshot = world.snapshot
    if snapshot.infrastructure.namespaces or all(p.namespace != _OTHER for p in snapshot.pods):
        return world
    phase = rng.choice(("Active", "Terminating"))
    known = Infrastructure(namespaces=(Namespace(_OTHER, phase=phase),))
    return world._replace(snapshot=replace(snapshot, infrastructure=known))


def draw_strange_drains(rng: random.Random) -> DrainedWorld:
    """A world of which a namespace may be deleted, with owners whose pods tell how long they take to be Ready."""
    world = draw_drained_world(random.Random(rng.random()))
    if rng.random() < 0.5:
        world = with_history(world, rng)
    if rng.random() < 0.7:
        world = with_namespace(world, rng)
    if rng.random() < 0.2:
        world = world._replace(scenario=bounded(world.scenario, rng))
    return world


_VARIANTS = (with_outages, with_gaps, with_the_rest, with_returns)


def draw_mixed_world(rng: random.Random) -> DrainedWorld:
    """A world of drains to which other things happen as well, or have happened."""
    while True:
        world = draw_drained_world(random.Random(rng.random()))
        if rng.random() < 0.3:
            world = world._replace(scenario=bounded(world.scenario, rng))
        # In the order of the table: gaps and the rest are about drains alone.
        chosen = rng.sample(_VARIANTS, rng.choice((1, 1, 2, 3)))
        for change in sorted(
            chosen, key=(with_gaps, with_the_rest, with_outages, with_returns).index
        ):
            world = change(world, rng)
        if not any(_wrong(world)) and not ties(world.scenario.events):
            return world


def _wrong(world: DrainedWorld) -> Iterator[object]:
    """What a scenario file could not say."""
    history = History(world.snapshot)
    for event in world.scenario.events:
        try:
            yield from event.contradictions(history)
        except KeyError:  # it names what is gone
            yield "gone"


def mixed_reality(world: DrainedWorld, rng: random.Random, times: ReadyTimes) -> Timeline:
    """One in which the control plane has a phase of its own too, and kubelets a last heartbeat."""
    plain = World(world.snapshot, world.scenario, world.configuration)
    timing = draw_timing(plain, rng)
    scenario = with_last_heartbeats(world.snapshot, world.scenario, rng)
    drain = drain_timing(rng, rng.randrange(10**6), times)
    return simulate(world.snapshot, scenario, world.configuration, replace(timing, drain=drain))
