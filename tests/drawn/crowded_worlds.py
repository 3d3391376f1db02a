"""Worlds with many pods of a kind on a node, so that the controllers' own clients let requests wait."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace
from realities.drawn_realities import Reality, World, draw_reality
from realities.throttled import throttled

from kubectl_evictplan.controllers.pod_gc import is_terminated
from kubectl_evictplan.engine.timing import Timing

_COPIES = (1, 4, 10, 12, 25, 60)


@dataclass
class CrowdedWorld:
    """A world of which realities have the clients' limits."""

    world: World

    def reality(
        self,
        rng: random.Random,
        timing_of: Callable[[World, random.Random], Timing],
        *,
        free: bool,
    ) -> Reality:
        """One way in which it may go."""
        world, waits = self.world, random.Random(f"waits {rng.random()}")
        reality = draw_reality(world, rng, timing_of, free=free)
        horizon_ns = world.scenario.end_ns
        ended = {pod.key for pod in world.snapshot.pods if is_terminated(pod)}
        limits = world.configuration, horizon_ns, waits, ended
        reality.entries = throttled(reality.entries, *limits)
        return reality


def crowded(world: World, rng: random.Random) -> CrowdedWorld:
    """The same with so many copies of each pod; what the scenario does to a pod it does to the first of them."""
    pods = [
        replace(pod, name=f"{pod.name}-{number}", uid=f"{pod.uid}-{number}") if number else pod
        for pod in world.snapshot.pods
        for number in range(rng.choice(_COPIES))
    ]
    pods.sort(key=lambda pod: (pod.namespace, pod.name))
    snapshot = replace(world.snapshot, pods=tuple(pods))
    return CrowdedWorld(World(snapshot, world.scenario, world.configuration))
