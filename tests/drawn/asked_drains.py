"""Drains as people ask for them: every flag of kubectl, several processes at once, budgets that overlap or are just written anew.

A drawn world of drains is changed in a few of these ways. Nothing but drains happens, so every word of the prediction is judged.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from building.builders import make_pod, ns
from drawn.drain_worlds import NODES, DrainedWorld, draw_drained_world, make_budget, synced
from msgspec.structs import replace

from kubectl_evictplan.kube.objects import Pod
from kubectl_evictplan.scenarios.scenario import ScenarioEvent


def draw_asked_drains(rng: random.Random) -> DrainedWorld:
    """A world of drains in one to four ways as people ask for them."""
    world = draw_drained_world(random.Random(rng.random()))
    for change in rng.sample(_CHANGES, rng.randint(1, 4)):
        world = change(world, rng)
    return world


def _with_drains(world: DrainedWorld, drains: Iterable[ScenarioEvent]) -> DrainedWorld:
    events = tuple(sorted(drains, key=lambda one: one.at_ns))
    return world._replace(scenario=replace(world.scenario, events=events))


def _with_pods(world: DrainedWorld, pods: Iterable[Pod]) -> DrainedWorld:
    in_order = tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))
    return world._replace(snapshot=synced(replace(world.snapshot, pods=in_order)))


# -- kubectl ----------------------------------------------------------------------------------------


def _flags(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """Without --force, with a patience of a moment, with a grace period of nothing."""

    def drawn(one: ScenarioEvent) -> ScenarioEvent:
        if rng.random() < 0.3:
            one = replace(one, force=False)
        if rng.random() < 0.3:
            one = replace(one, timeout_ns=ns(rng.choice((1, 2, 5, 10, 120))))
        if rng.random() < 0.3:
            one = replace(one, grace_period_seconds=rng.choice((0, 1, 3, -1)))
        if rng.random() < 0.3:
            one = replace(one, skip_wait_for_delete_timeout_seconds=rng.choice((1, 20)))
        return replace(one, disable_eviction=True) if rng.random() < 0.1 else one

    return _with_drains(world, map(drawn, world.scenario.events))


def _selected(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """Only the pods of one app, or all but these."""
    selector = rng.choice(("app=app0", "app!=app0", "app in (app0, app1)", "nobody=here"))
    events = world.scenario.events
    chosen = (replace(e, pod_selector=selector) if rng.random() < 0.6 else e for e in events)
    return _with_drains(world, chosen)


def _at_once(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """Everything begins at the start, or in the same second."""
    at_ns = ns(rng.choice((0, 0, 1)))
    return _with_drains(world, (one.moved_to(at_ns) for one in world.scenario.events))


def _more_nodes(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """Up to all nodes, one after the other."""
    first, *rest = world.scenario.events
    nodes = tuple(rng.sample(NODES, rng.randint(2, 4)))
    return _with_drains(world, [replace(first, nodes=nodes), *rest])


# -- what is there ------------------------------------------------------------------------------------


def _daemons(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """Pods of a DaemonSet, which kubectl leaves alone, or refuses to drain beside."""
    daemons = [
        make_pod(f"daemon-{node}", node, owner="DaemonSet/daemon", labels={"app": "daemon"})
        for node in NODES
        if rng.random() < 0.7
    ]
    world = _with_pods(world, [*world.snapshot.pods, *daemons])
    ignores = rng.random() < 0.7
    events = (replace(e, ignore_daemonsets=ignores) for e in world.scenario.events)
    return _with_drains(world, events)


def _scratch(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """Some pods have a volume that goes with them."""
    pods = (replace(p, empty_dir=rng.random() < 0.15) for p in world.snapshot.pods)
    world = _with_pods(world, pods)
    deletes = rng.random() < 0.6
    events = (replace(e, delete_emptydir_data=deletes) for e in world.scenario.events)
    return _with_drains(world, events)


def _overlapping(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """A second budget over the pods of an app, or one over all pods."""
    more = make_budget(
        "more", app=rng.choice(("app0", "app1")), most=rng.choice((0, 1, 2, "50%")), policy=""
    )
    if rng.random() < 0.4:
        more = replace(more, match_labels={})
    budgets = sorted([*world.snapshot.budgets, more], key=lambda one: one.name)
    return world._replace(snapshot=synced(replace(world.snapshot, budgets=tuple(budgets))))


def _written_anew(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """Budgets whose status is older than their spec, or counts evictions that the controller has not seen yet."""
    now_ns, budgets = world.snapshot.taken_at_ns, []
    names = [pod.name for pod in world.snapshot.pods]
    for one in world.snapshot.budgets:
        draw = rng.random()
        if draw < 0.3:
            one = replace(one, generation=2, observed_generation=1)
        elif draw < 0.6 and one.disruptions_allowed is not None:
            ago_ns = ns(rng.choice((1, 30, 115, 300)))
            disrupted = ((rng.choice((*names, "gone")), now_ns - ago_ns),)
            left = max(one.disruptions_allowed - 1, 0)
            one = replace(one, disrupted_pods=disrupted, disruptions_allowed=left)
        budgets.append(one)
    return world._replace(snapshot=replace(world.snapshot, budgets=tuple(budgets)))


def _cordoned(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """Nodes that nobody may come to, drained or not."""
    nodes = tuple(replace(node, unschedulable=rng.random() < 0.4) for node in world.snapshot.nodes)
    return world._replace(snapshot=replace(world.snapshot, nodes=nodes))


def _finished(world: DrainedWorld, rng: random.Random) -> DrainedWorld:
    """Pods that have ended, wait or start."""
    phases = ("Succeeded", "Failed", "Pending", *["Running"] * 9)
    pods = []
    for pod in world.snapshot.pods:
        phase = rng.choice(phases)
        ready = "False" if phase != "Running" else pod.ready
        pods.append(replace(pod, phase=phase, ready=ready))
    return _with_pods(world, pods)


_CHANGES = (
    *(_flags, _flags, _selected, _at_once, _more_nodes, _daemons, _scratch, _overlapping),
    *(_written_anew, _cordoned, _finished),
)
