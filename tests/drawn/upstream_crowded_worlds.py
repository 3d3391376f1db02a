"""Worlds for upstream's own controllers whose nodes have up to 110 pods, so that controllers wait for their clients' limits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import msgspec
from drawn.upstream_worlds import Drawing, Happening, Manifest, UpstreamWorld, world_of

from kubectl_evictplan.kube.durations import SECOND_NS

# More pods would make a world take longer to predict, and show nothing else.
MOST_PODS = 330


def draw_upstream_crowded_world(seed: int) -> UpstreamWorld:
    """The world of a seed."""
    rng = random.Random(f"crowded {seed}")
    start_ns = rng.randint(70 * SECOND_NS, 400 * SECOND_NS)
    end_ns = start_ns + rng.choice((120, 300, 600)) * SECOND_NS
    world = world_of(seed, _Crowd(rng, start_ns, end_ns))
    limits = rng.choice((*((0.0, 0),) * 5, (5.0, 10), (10.0, 30), (50.0, 100), (-1.0, 0)))
    flags = msgspec.structs.replace(
        world.flags, kube_api_qps=limits[0], kube_api_burst=limits[1], enable_taint_manager=True
    )
    return msgspec.structs.replace(world, flags=flags)


class _Crowd(Drawing):
    """Many pods with few lists of tolerations, and what happens to many of them at once."""

    def __init__(self, rng: random.Random, start_ns: int, end_ns: int) -> None:
        super().__init__(rng, start_ns, end_ns)
        self._lists = [self.tolerations() for _ in range(rng.choice((1, 2, 4)))]
        self._left = MOST_PODS
        # Pods that are ready are marked with their node, one request each.
        self._are_ready = rng.random() < 0.3

    def kinds(self) -> tuple[Callable[[int], Iterator[Happening]], ...]:
        """What may happen, each as often as it stands here."""
        return (
            *(self.silences, self.silences, self._taints_together, self._taints_together),
            *(self.taints, self.deletions, self._gone_meanwhile, self.new_pods, self.restarts),
            *(self.posts, self.other_tolerations),
        )

    def pods_of_first_node(self) -> int:
        """How many pods the next node begins with."""
        number = min(self.rng.choice((5, 10, 11, 20, 40, 60, 110)), self._left)
        self._left -= number
        return number

    def tolerations_of_pod(self) -> list[Manifest]:
        """One of few lists: pods of few owners."""
        return [dict(one) for one in self.rng.choice(self._lists)]

    def pod(self, name: str, node: str, *, admitted: bool) -> Manifest:
        """A pod that is ready, or none is."""
        made = super().pod(name, node, admitted=admitted)
        if self._are_ready:
            made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        return made

    def _taints_together(self, at_ns: int) -> Iterator[Happening]:
        rng = self.rng
        taint = {"key": rng.choice(("maint", "other")), "value": "", "effect": "NoExecute"}
        spread_ns = rng.choice((0, 1, 4)) * SECOND_NS
        back = rng.random() < 0.5
        for name in rng.sample(self.nodes, rng.randint(1, len(self.nodes))):
            tainted_ns = at_ns + self.within(0, spread_ns)
            yield Happening(tainted_ns, "taint", name, taint=taint)
            if back:
                gone_ns = tainted_ns + self.within(SECOND_NS // 10, 15 * SECOND_NS)
                yield Happening(gone_ns, "untaint", name, taint=taint)

    def _gone_meanwhile(self, at_ns: int) -> Iterator[Happening]:
        for pod in self.rng.sample(self.pods, min(len(self.pods), self.rng.choice((1, 5, 20)))):
            yield Happening(at_ns + self.within(0, 5 * SECOND_NS), "pod-delete", pod=pod)
