"""Worlds as people ask for them: everything at one instant, at the start or at whole seconds, without a horizon, of a look that is old.

A drawn world is changed in a few of these ways: when things happen, what else happens that is usual in real clusters (nodes that are
made with a taint of their network, pods that come while their node is tainted, kubelets that are back and not ready), how many nodes
there are, and flags as people choose them.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterable, Iterator

from building.builders import (
    EXCLUDE_LABEL,
    NOT_READY,
    UNREACHABLE,
    ZONE_LABEL,
    default_tolerations,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_taint,
    ns,
    tolerates,
)
from msgspec.structs import replace
from realities.drawn_realities import World

from kubectl_evictplan.cluster.kubelets import is_up_at_start
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import Toleration
from kubectl_evictplan.scenarios.actions.processes import StartKubelet, StopKubelet
from kubectl_evictplan.scenarios.history import History
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

_EFFECTS = ("NoExecute", "NoSchedule")
# A network's own: its nodes are made with it, and lose it when its agent runs.
_OF_NETWORK = "node.cilium.io/agent-not-ready"


def asked(world: World, rng: random.Random) -> World:
    """The world in two to four ways as people ask for one."""
    made = world
    for change in rng.sample(_CHANGES, rng.randint(2, 4)):
        made = change(made, rng)
    # A zone in which no node counts gets a line at nearly every tick, and a day has too many of them.
    counted = not any(EXCLUDE_LABEL in node.labels for node in made.snapshot.nodes)
    if rng.random() < 0.4 and counted:
        scenario = replace(made.scenario, horizon_ns=None)
        made = dataclasses.replace(made, scenario=scenario)
    return made


def _if_possible(world: World, events: Iterable[ScenarioEvent]) -> World:
    """The world with these events, or as it is where a scenario file could not say them."""
    in_order = sorted(events, key=lambda event: event.at_ns)
    history = History(world.snapshot)
    try:
        wrong = [each for event in in_order for each in event.contradictions(history)]
    except KeyError:  # they name what is gone
        return world
    if wrong:
        return world
    return dataclasses.replace(world, scenario=replace(world.scenario, events=tuple(in_order)))


def _horizon(world: World) -> float:
    assert world.scenario.horizon_ns is not None
    return world.scenario.horizon_ns / SECOND_NS


# -- when -----------------------------------------------------------------------------------------


def _at(event: ScenarioEvent, at_ns: int) -> ScenarioEvent:
    """The event then, with a window that is as long as it was."""
    if isinstance(event, StopKubelet) and event.last_heartbeat_ns is not None:
        last_ns = min(event.last_heartbeat_ns, at_ns)
        return replace(event, at_ns=at_ns, last_heartbeat_ns=last_ns)
    return replace(event, at_ns=at_ns)


def _at_whole_seconds(world: World, rng: random.Random) -> World:
    step_ns = rng.choice((SECOND_NS, world.configuration.node_monitor_period_ns, 10 * SECOND_NS))
    events = (_at(event, event.at_ns // step_ns * step_ns) for event in world.scenario.events)
    return _if_possible(world, events)


def _from_the_start(world: World, rng: random.Random) -> World:
    events = world.scenario.events
    first_ns = min((event.at_ns for event in events), default=0)
    return _if_possible(world, [_at(event, event.at_ns - first_ns) for event in events])


def _at_one_instant(world: World, rng: random.Random) -> World:
    """Some that follow each other come at once."""
    events = list(world.scenario.events)
    first = rng.randrange(len(events) + 1)
    last = rng.randint(first, len(events))
    together = [_at(event, events[first].at_ns) for event in events[first:last]]
    return _if_possible(world, [*events[:first], *together, *events[last:]])


def _at_the_horizon(world: World, rng: random.Random) -> World:
    """Nothing is cut more sharply than what happens in the last instant."""
    events = world.scenario.events
    if not events:
        return world
    horizon_ns = max(events[-1].latest_ns, ns(5))
    scenario = replace(world.scenario, horizon_ns=horizon_ns)
    return dataclasses.replace(world, scenario=scenario)


def _later_than_the_look(world: World, rng: random.Random) -> World:
    """The scenario starts a while after the dump was taken."""
    late_ns = ns(rng.choice((0.4, 3, 37.5, 600, 5000)) * (0.1 + rng.random()))
    start_ns = world.scenario.start_ns + late_ns
    return dataclasses.replace(world, scenario=replace(world.scenario, start_ns=start_ns))


# -- what else happens ------------------------------------------------------------------------------


def _instants(world: World, rng: random.Random) -> Iterator[float]:
    """Where something happens anyhow, just there or a little later, or anywhere."""
    told = [event.at_ns / SECOND_NS for event in world.scenario.events]
    while True:
        at = rng.choice((*told, 0.0, rng.uniform(0, _horizon(world) / 2)))
        yield round(at + rng.choice((0, 0, 0.05, 1, 5, 11)), 3)


def _tolerations(rng: random.Random) -> tuple[Toleration, ...]:
    seconds = rng.choice((0, 1, 5, 30))
    return rng.choice(
        (
            (),
            default_tolerations(seconds),
            (tolerates("", None),),
            (tolerates(_OF_NETWORK), tolerates(NOT_READY, seconds)),
            (tolerates("A", seconds), tolerates(UNREACHABLE)),
        )
    )


def _new_nodes(world: World, rng: random.Random) -> World:
    """An autoscaler makes nodes with a taint of their network, which are Ready and lose it later; pods are there already."""
    zones = sorted({node.labels.get(ZONE_LABEL, "") for node in world.snapshot.nodes})
    at = next(_instants(world, rng))
    events = list(world.scenario.events)
    names = tuple(f"auto{number}" for number in range(rng.choice((1, 1, 2))))
    for name in names:
        effects = rng.sample(("NoExecute", "NoExecute", "NoSchedule"), rng.randint(1, 2))
        taints = [make_taint(f"{_OF_NETWORK}:{effect}") for effect in sorted(set(effects))]
        if rng.random() < 0.2:
            taints.append(make_taint(f"{NOT_READY}:NoExecute"))
        node = make_node(
            name,
            zone=rng.choice(zones),
            labels={EXCLUDE_LABEL: "true"} if rng.random() < 0.1 else {},
            taints=taints,
            ready=rng.choice(("False", "False", "True", None)),
            created=None,
            heartbeat=at,
        )
        events.append(make_event(at, "node-create", node=node))
        for number in range(rng.randint(0, 2)):
            pod = make_pod(f"{name}-{number}", name, tolerations=_tolerations(rng), created=None)
            later = at + rng.choice((0, 0.5, 8))
            events.append(make_event(round(later, 3), "pod-create", pod=pod))
    ready_at = round(at + rng.uniform(0, 25), 3)
    events.append(make_event(ready_at, "node-ready", names, status="True"))
    untainted = round(ready_at + rng.choice((0, 2, 9)), 3)
    if rng.random() < 0.7:
        events.append(make_event(untainted, "untaint", names, taint=_OF_NETWORK))
    if rng.random() < 0.4:
        gone = round(untainted + rng.uniform(0, 30), 3)
        events.append(make_event(gone, rng.choice(("kubelet-stop", "node-delete")), names[0]))
    return _if_possible(world, events)


def _pods_come(world: World, rng: random.Random) -> World:
    """Pods are bound to nodes just when something happens to these, or to nodes that are tainted already."""
    instants = _instants(world, rng)
    events = list(world.scenario.events)
    names = [node.name for node in world.snapshot.nodes]
    for number in range(rng.randint(1, 3)):
        key = rng.choice((f"comes{number}", *(pod.name for pod in world.snapshot.pods[:2])))
        pod = make_pod(
            key,
            rng.choice(names),
            tolerations=_tolerations(rng),
            grace_seconds=rng.choice((0, 1, 30)),
            created=None,
            uid=f"uid-comes-{number}",
        )
        at = next(instants)
        same_name = any(one.name == key for one in world.snapshot.pods)
        if same_name:
            events.append(make_event(at, "pod-delete", pods=(pod.key,)))
        events.append(make_event(at, "pod-create", pod=pod))
    return _if_possible(world, events)


def _back_and_not_ready(world: World, rng: random.Random) -> World:
    """Kubelets that are back say that they are not ready, some of them at an instant that is not known."""
    events: list[ScenarioEvent] = []
    for event in world.scenario.events:
        if isinstance(event, StartKubelet) and rng.random() < 0.6:
            event = replace(event, status="False")
        events.append(event)
    return _if_possible(world, events)


def _silent_before(world: World, rng: random.Random) -> World:
    """It is known that kubelets had been silent for a while when they were said to be."""
    events: list[ScenarioEvent] = []
    heard: set[str] = set()
    for event in world.scenario.events:
        # Nobody can have been silent since before he was heard.
        heard.update(event.nodes if event.kubelets_up or event.node is not None else ())
        may_be = isinstance(event, StopKubelet) and heard.isdisjoint(event.nodes)
        if may_be and rng.random() < 0.6:
            ago_ns = ns(round(rng.choice((1.0, 12.0, 60.0)) * rng.random(), 3))
            event = replace(event, last_heartbeat_ns=event.at_ns - ago_ns)
        events.append(event)
    return _if_possible(world, events)


def _maintenance(world: World, rng: random.Random) -> World:
    """Somebody cordons and taints a node, switches it off, and takes all of that back, taints of controllers too."""
    names = [node.name for node in world.snapshot.nodes]
    name, at = rng.choice(names), next(_instants(world, rng))
    events = [
        make_event(at, "cordon", name),
        make_event(at, "taint", name, taint=f"maint=yes:{rng.choice(('NoExecute', 'NoSchedule'))}"),
    ]
    at = round(at + rng.uniform(0, 10), 3)
    events.append(make_event(at, "kubelet-stop", name))
    at = round(at + rng.choice((3, 45, 90)) * rng.random(), 3)
    back = (
        make_event(at, "kubelet-start", name),
        make_event(at, "uncordon", name),
        make_event(at, "untaint", name, taint="maint"),
        make_event(at, "untaint", name, taint=rng.choice((UNREACHABLE, NOT_READY))),
        make_event(at, "taint", name, taint=f"{UNREACHABLE}:{rng.choice(_EFFECTS)}"),
    )
    events += rng.sample(back, rng.randint(0, len(back)))
    return _if_possible(world, [*world.scenario.events, *events])


# -- how many, and flags ----------------------------------------------------------------------------


def _crowd(world: World, rng: random.Random) -> World:
    """There are more nodes, and many of one zone fall silent at once."""
    snapshot = world.snapshot
    zones = sorted({node.labels.get(ZONE_LABEL, "") for node in snapshot.nodes})
    seconds = next((each.lease_duration_seconds for each in snapshot.leases.values()), 40)
    zone, leases, more = rng.choice(zones), dict(snapshot.leases), []
    for number in range(rng.choice((3, 6, 12))):
        name = f"c{len(snapshot.nodes) + number:02}"
        more.append(make_node(name, zone=zone if rng.random() < 0.7 else rng.choice(zones)))
        renewed = -round(rng.random() * seconds / 4, 3)
        leases[name] = make_lease(name, renewed, duration_seconds=seconds)
    nodes = tuple(sorted([*snapshot.nodes, *more], key=lambda node: node.name))
    pods = [
        make_pod(f"on-{node.name}", node.name, tolerations=_tolerations(rng)) for node in more[:4]
    ]
    in_order = sorted([*snapshot.pods, *pods], key=lambda pod: (pod.namespace, pod.name))
    larger = replace(snapshot, nodes=nodes, leases=leases, pods=tuple(in_order))
    made = dataclasses.replace(world, snapshot=larger)
    fall = [node.name for node in more if node.labels.get(ZONE_LABEL, "") == zone]
    stops = [event for event in world.scenario.events if isinstance(event, StopKubelet)]
    at = rng.choice(stops).at_ns / SECOND_NS if stops and rng.random() < 0.5 else 0.0
    fall = fall[: rng.randint(0, len(fall))]
    if not fall:
        return made
    return _if_possible(made, [*world.scenario.events, make_event(at, "kubelet-stop", fall)])


def _at_the_threshold(world: World, rng: random.Random) -> World:
    """A zone is partially disrupted from just as many nodes on, and large with just as many."""
    in_zones = Counter(node.labels.get(ZONE_LABEL, "") for node in world.snapshot.nodes)
    count = max(rng.choice(sorted(in_zones.values())), 4)
    share = rng.randint(min(3, count - 1), count - 1) / count
    configuration = replace(
        world.configuration,
        unhealthy_zone_threshold=share,
        large_cluster_size_threshold=rng.choice((count, count - 1, 50)),
    )
    return dataclasses.replace(world, configuration=configuration)


def _tolerant(world: World, rng: random.Random) -> World:
    """Pods have what DaemonSets give, or what admission gives, and nothing else."""
    fates = (
        default_tolerations(rng.choice((30, 300))),
        (tolerates(NOT_READY), tolerates(UNREACHABLE)),
        default_tolerations(0),
    )
    pods = tuple(
        replace(pod, tolerations=rng.choice(fates)) if rng.random() < 0.7 else pod
        for pod in world.snapshot.pods
    )
    return dataclasses.replace(world, snapshot=replace(world.snapshot, pods=pods))


def _untold(world: World, rng: random.Random) -> World:
    """Of taints it is not told since when they are there, of pods not since when they were bound."""
    nodes = []
    for node in world.snapshot.nodes:
        lease = world.snapshot.leases.get(node.name)
        if rng.random() < 0.6:
            taints = (replace(taint, time_added_ns=None) for taint in node.taints)
            node = replace(node, taints=tuple(taints))
        if is_up_at_start(node, lease, epoch_ns(0)) and rng.random() < 0.1:
            added = make_taint(f"{_OF_NETWORK}:NoExecute", added=None)
            node = replace(node, taints=(*node.taints, added))
        nodes.append(node)
    return dataclasses.replace(world, snapshot=replace(world.snapshot, nodes=tuple(nodes)))


_CHANGES = (
    *(_at_whole_seconds, _from_the_start, _from_the_start, _at_one_instant, _at_the_horizon),
    *(_later_than_the_look, _new_nodes, _pods_come, _back_and_not_ready, _silent_before),
    *(_maintenance, _crowd, _crowd, _at_the_threshold, _tolerant, _untold),
)
