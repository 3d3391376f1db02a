"""Worlds as users have them, for ``benchmarks/soak.py``: one seed is one world of one class.

Wider than ``realities.draw_world``, whose seeds the tests name: every distinct release, every action,
flags of all sorts, tolerations of all sorts, snapshots in the middle of an outage, starts that are not
known to the second, nodes that are created again, zones that vanish, and drains.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import floor
from typing import NamedTuple

from begun_worlds import BegunWorld, begun
from drain_worlds import NODES, READY, DrainedWorld, drain, draw_drained_world
from drawn_drains import draw_bounded_world
from msgspec.structs import replace
from realities import World
from wide_script import WideScript, draw_tolerations

from builders import (
    EXCLUDE_LABEL,
    NOT_READY,
    SECOND_NS,
    UNREACHABLE,
    ZONE_LABEL,
    epoch_ns,
    make_conditions,
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    make_taint,
    ns,
)
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
    Lease,
    Node,
    Pod,
)
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent

# One of each profile of the table, and the newest.
RELEASES = (
    "1.16.4",
    "1.16.15",
    "1.17.9",
    "1.17.17",
    "1.18.6",
    "1.18.10",
    "1.18.20",
    "1.19.3",
    "1.19.16",
    "1.20.4",
    "1.20.15",
    "1.21.14",
    "1.23.13",
    "1.24.17",
    "1.25.16",
    "1.26.8",
    "1.27.16",
    "1.28.15",
    "1.29.6",
    "1.30.14",
    "1.31.14",
    "1.32.9",
    "1.33.4",
    "1.34.4",
    "1.35.0",
    "1.37.0",
)
# Those with the mode without taint manager.
TIMEOUT_RELEASES = tuple(release for release in RELEASES if int(release.split(".")[1]) <= 26)

_SILENCE = ("kubelet-stop",)
_FLAPPING = ("kubelet-stop",) * 3 + ("kubelet-start",) * 2 + ("node-ready", "kubelet-flap")
_BY_HAND = ("taint", "untaint", "taint-as-controller", "untaint-as-controller", "cordon")
_OBJECTS = ("node-delete", "node-create", "pod-create", "pod-delete", "pod-tolerations")
_STARTS = ("restart", "restart-within", "kubelet-start-within")
_RARE = ("lease-touch", "out-of-service")
_EVERYTHING = (*_FLAPPING, *_FLAPPING, *_BY_HAND, *_OBJECTS, *_STARTS, *_RARE)


class WorldClass(NamedTuple):
    """What the worlds of a class have in common."""

    actions: tuple[str, ...]
    # The share of nodes that are down, or only look fine, at the start.
    down: float = 0.0
    releases: tuple[str, ...] = RELEASES
    flags: tuple[tuple[str, str], ...] = ()
    # The share of nodes that are Ready again since just before the start.
    back: float = 0.0
    # The share of nodes with a taint of a person, and of pods that are on their way out.
    tainted: float = 0.06
    leaving: float = 0.04


CLASSES: dict[str, WorldClass] = {
    "lone-node": WorldClass(_SILENCE),
    "silence": WorldClass(_SILENCE),
    "flapping": WorldClass(_FLAPPING),
    "by-hand": WorldClass((*_SILENCE, *_SILENCE, *_BY_HAND)),
    "restarts": WorldClass((*_SILENCE, *_FLAPPING, "restart", "restart")),
    "unknown-starts": WorldClass((*_SILENCE, *_FLAPPING, *_STARTS, *_STARTS)),
    "objects": WorldClass((*_SILENCE, *_FLAPPING, *_OBJECTS, *_OBJECTS)),
    "warm": WorldClass((*_SILENCE, *_FLAPPING, "untaint-as-controller"), down=0.4),
    "warm-restart": WorldClass((*_FLAPPING, *_STARTS), down=0.4),
    "timeouts": WorldClass(
        (*_FLAPPING, "restart", "node-delete"),
        down=0.15,
        releases=TIMEOUT_RELEASES,
        flags=(("enable-taint-manager", "false"),),
    ),
    "everything": WorldClass(_EVERYTHING, down=0.2),
}
# Drawn for one seed in 16, whatever kind it was before this class was there.
JUST_BACK = "just-back"
CLASSES[JUST_BACK] = WorldClass((*_SILENCE, *_FLAPPING, "node-ready", "node-ready"), back=0.5)
DRAINS = ("drains", "bounded-drains")
_KINDS_AT_FIRST = (*(name for name in CLASSES if name != JUST_BACK), *DRAINS)
# Likewise: kube-controller-manager that stops for good, or begins while pods are on their way out and countdowns are cut
# short; nodes that come back while their pods are in quarantine; taints taken off while others wait.
GONE_AND_BACK = "gone-and-back"
CLASSES[GONE_AND_BACK] = WorldClass(
    (
        *("kubelet-stop", "kubelet-stop", "kubelet-start", "node-ready"),
        *("controller-stop", "restart-within", "node-again", "node-again", "pod-delete"),
        *("taint", "untaint", "untaint-as-controller", "pod-create"),
    ),
    tainted=0.3,
    leaving=0.3,
)
# Clusters to which all that has happened before somebody looks (``begun_worlds``); tests name seeds of before this class was there.
BEGUN = "begun"
_BEGUN_SINCE = 220_000_000
CLASSES[BEGUN] = WorldClass(
    (*_SILENCE, *_FLAPPING, *_FLAPPING, *_BY_HAND, "node-delete", "restart")
)
KINDS = (*_KINDS_AT_FIRST, JUST_BACK, GONE_AND_BACK, BEGUN)
# Seeds from here on may have these as well.
_MORE_FLAGS_SINCE = 252_000_000
_GATES = (
    "TaintBasedEvictions=false",
    "SeparateTaintEvictionController=false",
    "NodeDisruptionExclusion=true",
    "NodeDisruptionExclusion=false",
    "LegacyNodeRoleBehavior=false",
    "NodeOutOfServiceVolumeDetach=false",
    "PodDisruptionConditions=true",
    "PodDisruptionConditions=false",
    "NodeControllerLeaseCircuitBreaker=false",
    "TaintTolerationComparisonOperators=true",
)
# Drains of every release, of pods that are Ready sooner or later, and beside processes that refuse nodes.
_ANY_DRAINS_SINCE = 900_000_000


class SoakWorld(NamedTuple):
    """One world with the class it was drawn from; drains have realities of their own."""

    kind: str
    world: World | DrainedWorld | BegunWorld


def kind_of(seed: int) -> str:
    """The class of the world of a seed."""
    if seed >= _BEGUN_SINCE and random.Random(f"begun {seed}").random() < 1 / 8:
        return BEGUN
    if random.Random(f"just back {seed}").random() < 1 / 16:
        return JUST_BACK
    if random.Random(f"gone and back {seed}").random() < 1 / 16:
        return GONE_AND_BACK
    return random.Random(f"kind {seed}").choice(_KINDS_AT_FIRST)


def ready_of(seed: int) -> tuple[int, int]:
    """How long replacements take until they are Ready in the drains of a seed, at least and at most."""
    rng = random.Random(f"ready {seed}")
    if seed < _ANY_DRAINS_SINCE or rng.random() < 0.3:
        return READY
    least = rng.choice((0, 1, 3, 10, 40))
    return ns(least), ns(least + rng.choice((0, 0.5, 5, 30)))


def _of_any_release(seed: int, world: DrainedWorld) -> DrainedWorld:
    if seed < _ANY_DRAINS_SINCE:
        return world
    rng = random.Random(f"any drains {seed}")
    settings = ControllerSettings(kubernetes_version=rng.choice(RELEASES))
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    events = world.scenario.events
    if rng.random() < 0.3:
        more = [
            drain(*rng.sample(NODES[:3], rng.randint(1, 2)), at=rng.uniform(1, 20), force=True)
            for _ in range(rng.randint(1, 2))
        ]
        every = (replace(one, force=rng.random() < 0.5) for one in (*events, *more))
        events = tuple(sorted(every, key=lambda one: one.at_ns))
    scenario = replace(world.scenario, events=events)
    return world._replace(scenario=scenario, configuration=configuration)


def draw_soak_world(seed: int) -> SoakWorld:
    """The world of a seed; the same for ever, as long as this module is."""
    rng, kind = random.Random(f"soak {seed}"), kind_of(seed)
    if kind == "drains":
        return SoakWorld(kind, _of_any_release(seed, draw_drained_world(rng)))
    if kind == "bounded-drains":
        world = draw_bounded_world(rng.randrange(2**32), rng)
        return SoakWorld(kind, _of_any_release(seed, world))
    if kind == BEGUN:
        more = _more_flags(seed)
        drawn = (begun(_draw(rng, CLASSES[kind], more, alone=False), rng) for _ in count())
        return SoakWorld(kind, next(filter(None, drawn)))
    return SoakWorld(kind, _draw(rng, CLASSES[kind], _more_flags(seed), alone=kind == "lone-node"))


def _more_flags(seed: int) -> dict[str, str]:
    """Feature gates, and how many finished pods garbage collection leaves."""
    rng, flags = random.Random(f"more flags {seed}"), dict[str, str]()
    if seed >= _MORE_FLAGS_SINCE and rng.random() < 1 / 4:
        flags["feature-gates"] = ",".join(rng.sample(_GATES, rng.randint(1, 3)))
    if seed >= _MORE_FLAGS_SINCE and rng.random() < 1 / 6:
        flags["terminated-pod-gc-threshold"] = rng.choice(("1", "2", "3"))
    return flags


@dataclass
class _Cluster:
    """What is at the start; ``lease_seconds`` are four periods of a kubelet."""

    rng: random.Random
    lease_seconds: int
    period: float
    grace: float
    # What shows of ticks before the start is on one grid.
    phase: float
    kind: WorldClass
    nodes: list[Node] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    up: set[str] = field(default_factory=set)

    def add_node(self, name: str, zone: str) -> None:
        """A node that is fine, or one that is not."""
        labels = {EXCLUDE_LABEL: "true"} if self.rng.random() < 0.08 else {}
        if self.rng.random() < self.kind.down:
            self._add_down(name, zone, labels)
            return
        taints = ("A=x:NoExecute",) if self.rng.random() < self.kind.tainted else ()
        self.nodes.append(make_node(name, zone=zone, labels=labels, taints=taints))
        self.leases.append(self._fresh(name))
        self.up.add(name)

    def let_come_back(self) -> None:
        """Of the nodes that are fine, some were not until just before the start."""
        share = self.kind.back
        if not share:
            return
        for place, node in enumerate(self.nodes):
            if node.name in self.up and self.rng.random() < share:
                since = -round(self.rng.uniform(0, 12), 3)
                conditions = make_conditions("True", heartbeat=since, transition=since)
                self.nodes[place] = replace(node, conditions=conditions)

    def _fresh(self, name: str) -> Lease:
        renewed = -round(self.rng.random() * self.lease_seconds / 4, 3)
        return make_lease(name, renewed, duration_seconds=self.lease_seconds)

    def _add_down(self, name: str, zone: str, labels: dict[str, str]) -> None:
        rng = self.rng
        given_up = self.phase - self.period * rng.randint(1, round(60 / self.period))
        how = rng.choice(("silent", "silent", "silent", "not ready", "just silent", "never posted"))
        key = NOT_READY if how in ("not ready", "never posted") else UNREACHABLE
        since = floor(given_up) if how == "silent" else -round(rng.uniform(1, 60), 3)
        added = float(rng.randint(floor(since), -1))
        given = [make_taint(f"{key}:NoExecute", added=added)]
        taints = given if rng.random() < 0.6 and how != "just silent" else []
        statuses = {"silent": "Unknown", "not ready": "False", "never posted": None}
        node = make_node(
            name,
            zone=zone,
            labels=labels,
            taints=taints,
            ready=statuses.get(how, "True"),
            heartbeat=since - 50,
            transition=since,
        )
        self.nodes.append(node)
        if how == "not ready":
            self.leases.append(self._fresh(name))
            self.up.add(name)
        elif how != "never posted":
            # Silent for more than two periods, which is when a kubelet is taken to be down.
            renewed = given_up - self.grace - self.period * rng.uniform(0.1, 0.9)
            if how == "just silent":
                not_noticed = self.phase - self.period - self.grace + 0.1
                renewed = rng.uniform(not_noticed, -0.51 * self.lease_seconds)
            self.leases.append(make_lease(name, renewed, duration_seconds=self.lease_seconds))

    def add_pod(self, name: str, seconds: tuple[int, ...], names: list[str]) -> None:
        """A pod somewhere; now and then its node is not there, or it is on its way out."""
        rng = self.rng
        on = "missing" if rng.random() < 0.04 else rng.choice(names)
        self.pods.append(
            make_pod(
                name,
                on,
                tolerations=tuple(draw_tolerations(rng, seconds)),
                grace_seconds=rng.choice((0, 1, 5, 30)),
                created=-float(rng.randint(60, 5000)),
                deleted=-float(rng.randint(0, 20)) if rng.random() < self.kind.leaving else None,
                finalizers=("example.com/held",) if rng.random() < 0.04 else (),
                phase=rng.choice(("Running",) * 8 + ("Succeeded", "Pending")),
                owner=rng.choice(("", "ReplicaSet/a", "DaemonSet/d", "StatefulSet/s")),
            )
        )


# -- one world ------------------------------------------------------------------------------------


class _Pace(NamedTuple):
    """How quickly everything goes."""

    lease_seconds: int
    horizons: tuple[int, ...]
    seconds: tuple[int, ...]
    flags: tuple[tuple[str, str], ...] = ()


_PACES = (
    _Pace(40, (200, 500), (0, 5, 30, 300)),
    _Pace(
        6,
        (60, 90),
        (0, 1, 3, 5, 12),
        (
            ("node-monitor-period", "1s"),
            ("node-monitor-grace-period", "6s"),
            ("node-startup-grace-period", "8s"),
            ("pod-eviction-timeout", "9s"),
        ),
    ),
    # Kubelets that renew every second.
    _Pace(
        4,
        (40, 60),
        (0, 1, 2, 7),
        (
            ("node-monitor-period", "2s"),
            ("node-monitor-grace-period", "9s"),
            ("node-startup-grace-period", "5s"),
            ("pod-eviction-timeout", "4s"),
        ),
    ),
)


def _draw(
    rng: random.Random, kind: WorldClass, more_flags: Mapping[str, str], *, alone: bool
) -> World:
    pace = rng.choice((_PACES[0], _PACES[1], _PACES[1], _PACES[2]))
    zones = rng.choice((("",), ("a",), ("a", "b"), ("a", "b"), ("a", "b", "c")))
    names = [f"n{index}" for index in range(rng.choice((1, 2, 3, 4, 5, 6, 8)) + alone * 2)]
    release = rng.choice(kind.releases)
    flags = dict(pace.flags) | _draw_flags(rng, pace) | dict(more_flags)
    settings = ControllerSettings(
        kubernetes_version=release, flags={**_known_flags(flags, release), **dict(kind.flags)}
    )
    plain = resolve_configuration(settings, ControlPlaneFlags())
    period = plain.node_monitor_period_ns / SECOND_NS
    grace = plain.node_monitor_grace_period_ns / SECOND_NS
    cluster = _Cluster(rng, pace.lease_seconds, period, grace, period * rng.random(), kind)
    for name in names:
        cluster.add_node(name, rng.choice(zones))
    cluster.let_come_back()
    for index in range(rng.randint(1, 7)):
        cluster.add_pod(f"p{index}", pace.seconds, names)
    snapshot = make_snapshot(cluster.nodes, cluster.pods, leases=cluster.leases)
    without_lease = {node.name for node in cluster.nodes} - {lease.name for lease in cluster.leases}
    if pace.lease_seconds == 40:  # without a Lease kubelets are heard every 10 s
        without_lease |= {name for name in names if rng.random() < 0.03}
    leases = {name: lease for name, lease in snapshot.leases.items() if name not in without_lease}
    snapshot = replace(snapshot, leases=leases)
    snapshot = _with_leader(rng, snapshot)
    configuration = resolve_configuration(settings, snapshot.control_plane)
    if rng.random() < 0.1:
        configuration = replace(configuration, monitor_phase_ns=ns(cluster.phase))
    horizon = rng.choice(pace.horizons)
    events = list(_draw_events(rng, kind, cluster, snapshot, pace, horizon, alone=alone))
    scenario = make_scenario(events, horizon=horizon, cold=rng.random() < 0.06)
    return World(snapshot, scenario, configuration)


def _draw_events(
    rng: random.Random,
    kind: WorldClass,
    cluster: _Cluster,
    snapshot: ClusterSnapshot,
    pace: _Pace,
    horizon: int,
    *,
    alone: bool,
) -> Iterator[ScenarioEvent]:
    nodes = {node.name: node for node in cluster.nodes}
    script = WideScript(
        rng,
        nodes,
        cluster.pods,
        horizon,
        kind.actions,
        seconds=pace.seconds,
        lease_seconds=pace.lease_seconds,
        zones=tuple(sorted({node.labels.get(ZONE_LABEL, "") for node in cluster.nodes})),
        snapshot=snapshot,
    )
    script.up = set(cluster.up)
    if alone:
        yield make_event(round(rng.uniform(0.001, horizon / 4), 3), "kubelet-stop", "n0")
        return
    for _ in range(rng.randint(1, 7)):
        script.step()
    yield from script.events


def _draw_flags(rng: random.Random, pace: _Pace) -> dict[str, str]:
    flags: dict[str, str] = {}
    if pace.flags or rng.random() < 0.3:
        flags["node-eviction-rate"] = rng.choice(("0.1", "0.1", "0.5", "1", "2", "0"))
        flags["secondary-node-eviction-rate"] = rng.choice(("0.01", "0.1", "0.5"))
        flags["large-cluster-size-threshold"] = rng.choice(("50", "3", "2"))
        flags["unhealthy-zone-threshold"] = rng.choice(("0.55", "0.55", "0.3", "0.9"))
    if rng.random() < 0.08:
        flags["controllers"] = rng.choice(("*,-podgc", "*,-taint-eviction-controller"))
    return flags


def _known_flags(flags: dict[str, str], release: str) -> dict[str, str]:
    """The flags without those that the release does not have."""
    minor = int(release.split(".")[1])
    since = {"pod-eviction-timeout": minor <= 26, "controllers": minor >= 29}
    return {name: text for name, text in flags.items() if since.get(name, True)}


def _with_leader(rng: random.Random, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Half of the snapshots show since when the present kube-controller-manager leads."""
    if rng.random() < 0.5:
        return snapshot
    acquired_ns = epoch_ns(-round(rng.choice((0.5, 20.0, 600.0)) * (0.1 + rng.random()), 3))
    leader = replace(snapshot.control_plane, leader_acquire_time_ns=acquired_ns)
    return replace(snapshot, control_plane=leader)
