"""Worlds that nobody plans: clocks that disagree, labels of zones that do, flags at their odd ends, Leases of every length.

A drawn world is made strange in a few of these ways. Where times of the input lie after the look, the clock that wrote them is
wrong, and nobody knows by how much: each reality draws what they were by a right one.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from building.builders import (
    NOT_READY,
    UNREACHABLE,
    ZONE_LABEL,
    epoch_ns,
    make_event,
    make_lease,
    make_node,
    make_taint,
    ns,
)
from msgspec.structs import replace
from realities.drawn_realities import Reality, World, draw_reality

from kubectl_evictplan.cluster.kubelets import is_up_at_start
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.objects import ClusterSnapshot, Lease, Node, Pod
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE
from kubectl_evictplan.kube.topology import BETA_REGION, BETA_ZONE, REGION, ZONE
from kubectl_evictplan.scenarios.history import History, ties
from kubectl_evictplan.scenarios.scenario import ScenarioEvent

_JITTER = 1.04


@dataclass(frozen=True)
class StrangeWorld:
    """What a user hands in; ``fast``: nodes whose kubelet's clock is ahead, so that its Lease lies in the future."""

    world: World
    fast: frozenset[str] = field(default_factory=frozenset)

    def reality(
        self,
        rng: random.Random,
        timing_of: Callable[[World, random.Random], Timing],
        *,
        free: bool,
    ) -> Reality:
        """One way in which it may go, with Leases as a right clock would have written them."""
        snapshot = self.world.snapshot
        leases = {
            name: _as_it_was(lease, self.world.scenario.start_ns, rng)
            if name in self.fast
            else lease
            for name, lease in snapshot.leases.items()
        }
        lived = dataclasses.replace(self.world, snapshot=replace(snapshot, leases=leases))
        return draw_reality(lived, rng, timing_of, free=free)


def _as_it_was(lease: Lease, start_ns: int, rng: random.Random) -> Lease:
    longest_ns = int(lease.lease_duration_seconds * SECOND_NS // 4 * _JITTER)
    age_ns = rng.choice((0, longest_ns, rng.randint(0, longest_ns)))
    return replace(lease, renew_time_ns=start_ns - age_ns)


def strange(world: World, rng: random.Random) -> StrangeWorld:
    """The world in one to three ways stranger than it is."""
    made, fast = world, frozenset[str]()
    for change in rng.sample(_CHANGES, rng.randint(1, 3)):
        made = change(made, rng)
    if rng.random() < 0.3:
        made, fast = _with_fast_clocks(made, rng)
    return StrangeWorld(made, fast)


# -- Leases and clocks ----------------------------------------------------------------------------


def _up(snapshot: ClusterSnapshot) -> Iterator[Node]:
    for node in snapshot.nodes:
        if is_up_at_start(node, snapshot.leases.get(node.name), epoch_ns(0)):
            yield node


def _with_leases(world: World, leases: dict[str, Lease]) -> World:
    return dataclasses.replace(world, snapshot=replace(world.snapshot, leases=leases))


def _leases_of_every_length(world: World, rng: random.Random) -> World:
    """Each kubelet that is up renews at its own pace, a few more slowly than any grace period."""
    leases = dict(world.snapshot.leases)
    usual = next((each.lease_duration_seconds for each in leases.values()), 40)
    lengths = (usual // 2, usual + 1, 2 * usual, 3 * usual)
    if rng.random() < 0.15:
        lengths = (*lengths, 10 * usual)
    for node in _up(world.snapshot):
        if node.name in leases and rng.random() < 0.6:
            seconds = rng.choice(lengths)
            renewed = -round(rng.random() * seconds / 4, 3)
            leases[node.name] = make_lease(node.name, renewed, duration_seconds=seconds)
    return _with_leases(world, leases)


def _odd_leases(world: World, rng: random.Random) -> World:
    """Leases of nodes that are not there, without a renewTime, and nodes without one."""
    leases = dict(world.snapshot.leases)
    for name in sorted(leases):
        draw = rng.random()
        if draw < 0.15:
            del leases[name]
        elif draw < 0.3:
            leases[name] = replace(leases[name], renew_time_ns=None)
    if rng.random() < 0.7:
        leases["gone"] = make_lease("gone", -rng.uniform(0, 100))
    return _with_leases(world, leases)


def _with_fast_clocks(world: World, rng: random.Random) -> tuple[World, frozenset[str]]:
    leases = dict(world.snapshot.leases)
    fast = {n.name for n in _up(world.snapshot) if n.name in leases and rng.random() < 0.5}
    for name in sorted(fast):
        if leases[name].renew_time_ns is None:
            fast.discard(name)
            continue
        ahead = rng.choice((0.2, 3.0, 15.0, 200.0)) * (0.1 + rng.random())
        leases[name] = replace(leases[name], renew_time_ns=epoch_ns(ahead))
    return _with_leases(world, leases), frozenset(fast)


def _times_to_come(world: World, rng: random.Random) -> World:
    """Objects that were made, or changed, after the look."""

    def later() -> int:
        return epoch_ns(float(rng.choice((1, 4, 30, 500))))

    def node(one: Node) -> Node:
        if rng.random() < 0.3:
            taints = (replace(each, time_added_ns=later()) for each in one.taints)
            one = replace(one, taints=tuple(taints))
        if rng.random() < 0.2:
            one = replace(one, creation_timestamp_ns=later())
        if rng.random() < 0.3:
            at_ns = later()
            conditions = (
                replace(each, last_heartbeat_time_ns=at_ns, last_transition_time_ns=at_ns)
                for each in one.conditions
            )
            one = replace(one, conditions=tuple(conditions))
        return one

    def pod(one: Pod) -> Pod:
        return replace(one, creation_timestamp_ns=later()) if rng.random() < 0.3 else one

    snapshot = world.snapshot
    nodes, pods = tuple(map(node, snapshot.nodes)), tuple(map(pod, snapshot.pods))
    return dataclasses.replace(world, snapshot=replace(snapshot, nodes=nodes, pods=pods))


# -- zones ----------------------------------------------------------------------------------------


def _labels_of_zones(world: World, rng: random.Random) -> World:
    """The same zone in several regions, regions without zones, and labels of old that say something else."""

    def labelled(node: Node) -> Node:
        labels = dict(node.labels)
        draw = rng.random()
        if draw < 0.3:
            labels[REGION] = rng.choice(("r1", "r2"))
        elif draw < 0.5:
            labels[BETA_ZONE] = rng.choice(("", "a", "other"))
        elif draw < 0.6:
            labels[BETA_REGION] = rng.choice(("", "r1"))
        elif draw < 0.7:
            labels.pop(ZONE_LABEL, None)
            labels[REGION] = "r1"
        elif draw < 0.8:
            labels.pop(ZONE_LABEL, None)
        return replace(node, labels=labels)

    nodes = tuple(map(labelled, world.snapshot.nodes))
    return dataclasses.replace(world, snapshot=replace(world.snapshot, nodes=nodes))


def _a_zone_each(world: World, rng: random.Random) -> World:
    """Every node is alone in its zone, and there are more of them."""
    snapshot = world.snapshot
    nodes = [
        replace(node, labels={**node.labels, ZONE: f"z{place}"})
        for place, node in enumerate(snapshot.nodes)
    ]
    more = [make_node(f"m{place}", zone=f"zm{place}") for place in range(rng.choice((0, 3, 10)))]
    seconds = next((each.lease_duration_seconds for each in snapshot.leases.values()), 40)
    leases = dict(snapshot.leases)
    for node in more:
        renewed = -round(rng.random() * seconds / 4, 3)
        leases[node.name] = make_lease(node.name, renewed, duration_seconds=seconds)
    nodes = sorted([*nodes, *more], key=lambda node: node.name)
    return dataclasses.replace(world, snapshot=replace(snapshot, nodes=tuple(nodes), leases=leases))


# -- flags ----------------------------------------------------------------------------------------


def _odd_flags(world: World, rng: random.Random) -> World:
    """Flags at their ends."""
    configuration = world.configuration
    for change in rng.sample(_FLAGS, rng.randint(1, 3)):
        configuration = change(configuration, rng)
    return dataclasses.replace(world, configuration=configuration)


def _rate(one: ControllerConfiguration, rng: random.Random) -> ControllerConfiguration:
    return replace(one, node_eviction_rate_qps=rng.choice((0.0, 0.001, 3.0, 10.0, 1e6, -1.0)))


def _second_rate(one: ControllerConfiguration, rng: random.Random) -> ControllerConfiguration:
    rate_qps = rng.choice((0.0, 1.0, 0.001, 1e6))
    return replace(one, secondary_node_eviction_rate_qps=rate_qps)


def _large(one: ControllerConfiguration, rng: random.Random) -> ControllerConfiguration:
    return replace(one, large_cluster_size_threshold=rng.choice((0, 1, -1)))


def _threshold(one: ControllerConfiguration, rng: random.Random) -> ControllerConfiguration:
    return replace(one, unhealthy_zone_threshold=rng.choice((0.0, 1.0, 0.75)))


def _startup(one: ControllerConfiguration, rng: random.Random) -> ControllerConfiguration:
    return replace(one, node_startup_grace_period_ns=ns(rng.choice((0, 1, 200))))


def _grace(one: ControllerConfiguration, rng: random.Random) -> ControllerConfiguration:
    period_ns = one.node_monitor_period_ns
    grace_ns = rng.choice((period_ns // 2, period_ns, 3 * period_ns, 3 * period_ns + 1))
    return replace(one, node_monitor_grace_period_ns=grace_ns)


def _timeout(one: ControllerConfiguration, rng: random.Random) -> ControllerConfiguration:
    return replace(one, pod_eviction_timeout_ns=ns(rng.choice((0, 1))))


_FLAGS = (_rate, _rate, _second_rate, _large, _threshold, _startup, _grace, _timeout)


# -- pods and taints ------------------------------------------------------------------------------


def _namespaces(world: World, rng: random.Random) -> World:
    """Pods of several namespaces, some of one name, of one age, and over."""
    named = {key for event in world.scenario.events for key in event.pods}
    named |= {event.pod.key for event in world.scenario.events if event.pod is not None}
    snapshot, limit = world.snapshot, rng.choice((0, 1, 2))
    # More of them than are left where they have ended.
    pods = [
        replace(pod, name=f"{pod.name}{more}", uid=f"{pod.uid}{more}") if more else pod
        for pod in snapshot.pods
        for more in range(2 if pod.key not in named else 1)
    ]
    found: dict[str, Pod] = {}
    ages_ns = [epoch_ns(-float(rng.randint(60, 5000))) for _ in range(2)]
    for pod in pods:
        made = pod
        if pod.key not in named and rng.random() < 0.6:
            name = rng.choice((pod.name, "same", "same", f"a{pod.name}"))
            made = replace(pod, namespace=rng.choice(("a", "zz")), name=name)
        if rng.random() < 0.5:
            made = replace(made, phase=rng.choice(("Succeeded", "Failed")), ready="False")
        if rng.random() < 0.7:
            made = replace(made, creation_timestamp_ns=rng.choice(ages_ns))
        found.setdefault(made.key, made)
    in_order = sorted(found.values(), key=lambda pod: (pod.namespace, pod.name))
    made_world = dataclasses.replace(world, snapshot=replace(snapshot, pods=tuple(in_order)))
    if not limit:
        return made_world
    configuration = replace(world.configuration, terminated_pod_gc_threshold=limit)
    return dataclasses.replace(made_world, configuration=configuration)


def _out_of_service(world: World, rng: random.Random) -> World:
    """Nodes that somebody has given up for good, with pods that terminate there."""
    snapshot = world.snapshot
    chosen = {node.name for node in snapshot.nodes if rng.random() < 0.5}
    effect = rng.choice(("NoExecute", "NoExecute", "NoSchedule"))
    taint = make_taint(f"{OUT_OF_SERVICE}=nodeshutdown:{effect}", added=-float(rng.randint(1, 99)))
    nodes = tuple(
        replace(node, taints=(*node.taints, taint)) if node.name in chosen else node
        for node in snapshot.nodes
    )
    pods = tuple(
        replace(
            pod,
            deletion_timestamp_ns=epoch_ns(float(rng.randint(-200, 30))),
            deletion_grace_period_seconds=30,
        )
        if pod.node_name in chosen and rng.random() < 0.4
        else pod
        for pod in snapshot.pods
    )
    return dataclasses.replace(world, snapshot=replace(snapshot, nodes=nodes, pods=pods))


def _beside_the_failure(world: World, rng: random.Random) -> World:
    """Somebody taints nodes in the instant in which they fail, or just before or after it."""
    events = list(world.scenario.events)
    stops = [event for event in events if event.kubelets_up is False]
    for stop in stops[:2]:
        key = rng.choice(("A=x", "B", UNREACHABLE, NOT_READY))
        name = rng.choice(stop.nodes)
        at = stop.at_ns / SECOND_NS + rng.choice((0.0, 0.0, 0.001, -0.001, 41.0))
        if at >= 0:
            events.append(make_event(at, "taint", name, taint=f"{key}:NoExecute"))
    return _if_possible(world, events)


def _if_possible(world: World, events: list[ScenarioEvent]) -> World:
    """The world with these events, or as it is where a scenario file could not say them."""
    events.sort(key=lambda event: event.at_ns)
    history = History(world.snapshot)
    try:
        wrong = [each for event in events for each in event.contradictions(history)]
    except KeyError:  # they name what is gone
        return world
    if wrong or ties(events):
        return world
    return dataclasses.replace(world, scenario=replace(world.scenario, events=tuple(events)))


_CHANGES = (
    *(_leases_of_every_length, _odd_leases, _times_to_come, _labels_of_zones, _a_zone_each),
    *(_odd_flags, _odd_flags, _namespaces, _out_of_service, _beside_the_failure),
)
