"""Worlds as users have them, for ``benchmarks/soak.py``: one seed is one world of one class.

Wider than ``realities.draw_world``, whose seeds the tests name: every distinct release, every action,
flags of all sorts, tolerations of all sorts, snapshots in the middle of an outage, starts that are not
known to the second, nodes that are created again, zones that vanish, and drains.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from building.builders import (
    SECOND_NS,
    ZONE_LABEL,
    epoch_ns,
    make_event,
    make_scenario,
    make_snapshot,
    ns,
)
from drawn.asked_drains import draw_asked_drains
from drawn.asked_worlds import asked
from drawn.begun_worlds import BegunWorld, begun, with_asked
from drawn.crowded_worlds import CrowdedWorld, crowded
from drawn.drain_worlds import NODES, READY, DrainedWorld, drain, draw_drained_world
from drawn.drawn_clusters import RELEASES, TIMEOUT_RELEASES, Cluster, Odd, WorldClass
from drawn.hurried_worlds import draw_hurried_world
from drawn.odd_objects import job
from drawn.outage_worlds import OutageWorld, outage_of
from drawn.strange_worlds import StrangeWorld, strange
from drawn.wide_script import WideScript
from msgspec.structs import replace
from realities.drawn_drains import draw_bounded_world, draw_mixed_world, draw_strange_drains
from realities.drawn_realities import World

from kubectl_evictplan.cluster.readiness import ReadyTimes, learnt_by_owner
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import (
    ClusterSnapshot,
    ControlPlaneFlags,
)
from kubectl_evictplan.scenarios.scenario import ControllerSettings, ScenarioEvent

_SILENCE = ("kubelet-stop",)
_FLAPPING = ("kubelet-stop",) * 3 + ("kubelet-start",) * 2 + ("node-ready", "kubelet-flap")
_BY_HAND = ("taint", "untaint", "taint-as-controller", "untaint-as-controller", "cordon")
_OBJECTS = ("node-delete", "node-create", "pod-create", "pod-delete", "pod-tolerations")
_STARTS = ("restart", "restart-within", "kubelet-start-within")
_RARE = ("lease-touch", "out-of-service")
_EVERYTHING = (*_FLAPPING, *_FLAPPING, *_BY_HAND, *_OBJECTS, *_STARTS, *_RARE)


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
# Clusters of which half of all nodes and pods have something that few have (``odd_objects``); of other worlds, since these are
# drawn, every fourth has a few.
ODD_OBJECTS = "odd-objects"
_ODD_SINCE = 1_000_000_000
CLASSES[ODD_OBJECTS] = WorldClass(
    (*_EVERYTHING, "node-new", "node-new", "pod-unbound", "pod-delete"), down=0.2, back=0.1
)
# The control plane is away, or fails with nodes, as ``what-if fail`` asks (``outage_worlds``); likewise of seeds from then on.
OUTAGES = "outages"
_BEFORE_OUTAGES = WorldClass(_SILENCE, down=0.25, back=0.1)
# Drains to which other things happen as well.
MIXED_DRAINS = "mixed-drains"
# Worlds of the class with everything in them, made strange (``strange_worlds``); likewise of seeds from then on.
STRANGE = "strange"
# And drains whose pods are in a namespace that may be deleted, and tell how long others of their owners take to be Ready.
STRANGE_DRAINS = "strange-drains"
_STRANGE_SINCE = 10_000_000_000
_MADE_STRANGE = ("silence", "silence", "flapping", "warm", "restarts", "timeouts", "everything")
# Worlds of all these as people ask for them (``asked_worlds``); likewise of seeds from then on.
ASKED = "asked"
ASKED_DRAINS = "asked-drains"
_ASKED_SINCE = 20_000_000_000
_ASKED_OF = (*_MADE_STRANGE, "by-hand", "objects", "unknown-starts", GONE_AND_BACK, JUST_BACK)
# Much happens in the first seconds (``hurried_worlds``); likewise of seeds from then on.
HURRIED = "hurried"
_HURRIED_SINCE = 200_000_000_000
# Many pods of a kind on a node (``crowded_worlds``); likewise of seeds from then on.
CROWDED = "crowded"
_CROWDED_SINCE = 2_000_000_000_000
_BEFORE_CROWDS = WorldClass(
    (
        *_SILENCE,
        *_FLAPPING,
        *("taint", "taint", "untaint", "node-delete", "out-of-service"),
        "pod-delete",
    ),
    down=0.15,
    tainted=0.15,
)
KINDS = (
    *(*_KINDS_AT_FIRST, JUST_BACK, GONE_AND_BACK, BEGUN, ODD_OBJECTS, OUTAGES, MIXED_DRAINS),
    *(STRANGE, STRANGE_DRAINS, ASKED, ASKED_DRAINS, HURRIED, CROWDED),
)
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
    world: World | DrainedWorld | BegunWorld | OutageWorld | StrangeWorld | CrowdedWorld


# The kinds that came later, the newest first: what each draws by, from which seed on, and one world in how many is one of it.
_ADDED_KINDS = (
    (CROWDED, "crowded", _CROWDED_SINCE, 8),
    (HURRIED, "hurried", _HURRIED_SINCE, 4),
    (ASKED, "asked", _ASKED_SINCE, 3),
    (ASKED_DRAINS, "asked drains", _ASKED_SINCE, 8),
    (STRANGE, "strange", _STRANGE_SINCE, 6),
    (STRANGE_DRAINS, "strange drains", _STRANGE_SINCE, 12),
    (ODD_OBJECTS, "odd", _ODD_SINCE, 8),
    (OUTAGES, "outages", _ODD_SINCE, 8),
    (MIXED_DRAINS, "mixed drains", _ODD_SINCE, 8),
    (BEGUN, "begun", _BEGUN_SINCE, 8),
    (JUST_BACK, "just back", 0, 16),
    (GONE_AND_BACK, "gone and back", 0, 16),
)


def kind_of(seed: int) -> str:
    """The class of the world of a seed."""
    for kind, name, since, one_in in _ADDED_KINDS:
        if seed >= since and random.Random(f"{name} {seed}").random() < 1 / one_in:
            return kind
    return random.Random(f"kind {seed}").choice(_KINDS_AT_FIRST)


def ready_of(seed: int) -> tuple[int, int]:
    """How long replacements take until they are Ready in the drains of a seed, at least and at most."""
    rng = random.Random(f"ready {seed}")
    if seed < _ANY_DRAINS_SINCE or rng.random() < 0.3:
        return READY
    least = rng.choice((0, 1, 3, 10, 40))
    return ns(least), ns(least + rng.choice((0, 0.5, 5, 30)))


def ready_times_of(seed: int, world: DrainedWorld) -> ReadyTimes:
    """The same as realities have them: where a prediction learns from pods, what these tell."""
    if kind_of(seed) == STRANGE_DRAINS:
        return ReadyTimes(by_owner=learnt_by_owner(world.snapshot.pods))
    return ReadyTimes(*ready_of(seed))


def _of_any_release(seed: int, world: DrainedWorld, *, others: bool = True) -> DrainedWorld:
    if seed < _ANY_DRAINS_SINCE:
        return world
    rng = random.Random(f"any drains {seed}")
    settings = ControllerSettings(kubernetes_version=rng.choice(RELEASES))
    configuration = resolve_configuration(settings, ControlPlaneFlags())
    events = world.scenario.events
    if others and rng.random() < 0.3:
        more = [
            drain(*rng.sample(NODES[:3], rng.randint(1, 2)), at=rng.uniform(1, 20), force=True)
            for _ in range(rng.randint(1, 2))
        ]
        every = (replace(one, force=rng.random() < 0.5) for one in (*events, *more))
        events = tuple(sorted(every, key=lambda one: one.at_ns))
    scenario = replace(world.scenario, events=events)
    return world._replace(scenario=scenario, configuration=configuration)


def _odd_of(seed: int, kind: str) -> Odd:
    rng = random.Random(f"odd objects {seed}")
    if seed < _ODD_SINCE or (kind != ODD_OBJECTS and rng.random() < 3 / 4):
        return Odd(0, rng)
    return Odd(0.5 if kind == ODD_OBJECTS else 0.15, rng)


def draw_soak_world(seed: int) -> SoakWorld:
    """The world of a seed; the same for ever, as long as this module is."""
    rng, kind = random.Random(f"soak {seed}"), kind_of(seed)
    if kind == "drains":
        return SoakWorld(kind, _of_any_release(seed, draw_drained_world(rng)))
    if kind == MIXED_DRAINS:
        return SoakWorld(kind, _of_any_release(seed, draw_mixed_world(rng), others=False))
    if kind == STRANGE_DRAINS:
        return SoakWorld(kind, _of_any_release(seed, draw_strange_drains(rng), others=False))
    if kind == ASKED_DRAINS:
        return SoakWorld(kind, _of_any_release(seed, draw_asked_drains(rng), others=False))
    if kind == "bounded-drains":
        world = draw_bounded_world(rng.randrange(2**32), rng)
        return SoakWorld(kind, _of_any_release(seed, world))
    if kind == HURRIED:
        return SoakWorld(kind, draw_hurried_world(rng, rng.choice(RELEASES)))
    more, odd = _more_flags(seed), _odd_of(seed, kind)
    if kind == BEGUN:
        drawn = (begun(_draw(rng, CLASSES[kind], more, odd, alone=False), rng) for _ in count())
        met = next(filter(None, drawn))
        return SoakWorld(kind, with_asked(met, rng) if seed >= _ASKED_SINCE else met)
    if kind == OUTAGES:
        # Where a grace period ends before kubelets are heard again each of them is a window of its own, which takes long.
        brief = rng.random() < 0.05
        drawn_worlds = (_draw(rng, _BEFORE_OUTAGES, more, odd, alone=False) for _ in count())
        usual = (w for w in drawn_worlds if brief or w.configuration.node_monitor_period_ns > ns(2))
        return SoakWorld(kind, outage_of(next(usual), rng))
    if kind == CROWDED:
        # A rate of 0 has some taints written anew every second, which no window spans.
        plain_worlds = (_draw(rng, _BEFORE_CROWDS, more, odd, alone=False) for _ in count())
        served = (one for one in plain_worlds if one.configuration.node_eviction_rate_qps > 0)
        return SoakWorld(kind, crowded(next(served), rng))
    if kind == STRANGE:
        plain = CLASSES[rng.choice(_MADE_STRANGE)]
        return SoakWorld(kind, strange(_draw(rng, plain, more, odd, alone=False), rng))
    if kind == ASKED:
        plain = CLASSES[rng.choice(_ASKED_OF)]
        drawn_world = _draw(rng, plain, more, odd, alone=False, paces=(*_PACES, *_USUAL_PACES))
        return SoakWorld(kind, asked(drawn_world, rng))
    return SoakWorld(kind, _draw(rng, CLASSES[kind], more, odd, alone=kind == "lone-node"))


def _more_flags(seed: int) -> dict[str, str]:
    """Feature gates, and how many finished pods garbage collection leaves."""
    rng, flags = random.Random(f"more flags {seed}"), dict[str, str]()
    if seed >= _MORE_FLAGS_SINCE and rng.random() < 1 / 4:
        flags["feature-gates"] = ",".join(rng.sample(_GATES, rng.randint(1, 3)))
    if seed >= _MORE_FLAGS_SINCE and rng.random() < 1 / 6:
        flags["terminated-pod-gc-threshold"] = rng.choice(("1", "2", "3"))
    return flags


# -- one world ------------------------------------------------------------------------------------


class _Pace(NamedTuple):
    """How quickly everything goes."""

    lease_seconds: int
    horizons: tuple[int, ...]
    seconds: tuple[int, ...]
    flags: tuple[tuple[str, str], ...] = ()


def _clock(*, period: str, grace: str, startup: str) -> tuple[tuple[str, str], ...]:
    names = ("node-monitor-period", "node-monitor-grace-period", "node-startup-grace-period")
    return (*zip(names, (period, grace, startup), strict=True), ("pod-eviction-timeout", "30s"))


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


# What is recommended where failures shall be noticed soon: kubelets renew as ever, and each renewal matters.
_USUAL_PACES = (
    _Pace(40, (120, 300), (0, 5, 30), _clock(period="2s", grace="20s", startup="30s")),
    _Pace(40, (120, 200), (0, 10, 30), _clock(period="2s", grace="16s", startup="20s")),
    _Pace(40, (120, 200), (0, 10, 30), _clock(period="3s", grace="13s", startup="20s")),
    _Pace(20, (100, 200), (0, 3, 20), _clock(period="4s", grace="20s", startup="60s")),
    _Pace(40, (200, 500), (0, 30, 300), _clock(period="5s", grace="60s", startup="60s")),
)


def _draw(
    rng: random.Random,
    kind: WorldClass,
    more_flags: Mapping[str, str],
    odd: Odd,
    *,
    alone: bool,
    paces: Sequence[_Pace] = (_PACES[0], _PACES[1], _PACES[1], _PACES[2]),
) -> World:
    pace = rng.choice(paces)
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
    cluster = Cluster(rng, pace.lease_seconds, period, grace, period * rng.random(), kind)
    for name in names:
        cluster.add_node(name, rng.choice(zones))
    cluster.let_come_back()
    for index in range(rng.randint(1, 7)):
        cluster.add_pod(f"p{index}", pace.seconds, names)
    cluster.make_odd(odd)
    snapshot = make_snapshot(cluster.nodes, cluster.pods, leases=cluster.leases)
    without_lease = {node.name for node in cluster.nodes} - {lease.name for lease in cluster.leases}
    if pace.lease_seconds == 40:  # without a Lease kubelets are heard every 10 s
        without_lease |= {name for name in names if rng.random() < 0.03}
    leases = {name: lease for name, lease in snapshot.leases.items() if name not in without_lease}
    snapshot = replace(snapshot, leases=leases)
    if odd.share:
        snapshot = replace(snapshot, workloads=(job(odd.rng),))
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
    cluster: Cluster,
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
