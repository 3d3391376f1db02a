"""Realities in which nothing is drawn once for all: every pass, tick, pod and process has values of its own.

``Timing`` has one value of each kind, which is what a prediction's runs are made of. A control plane draws anew each
time: whether *this* pass sees a node as it was, whether one falls into *this* tick, how long *this* pod takes to end.
Whatever ``Timing`` is asked here, it is asked by a single one of those, so each answer is drawn when it is given.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from unittest import mock

import msgspec

from kubectl_evictplan.controllers.node_lifecycle import rate_limited_timed_queue
from kubectl_evictplan.controllers.node_lifecycle.rate_limited_timed_queue import (
    RateLimitedTimedQueue,
    TimedQueue,
)
from kubectl_evictplan.controllers.node_lifecycle.set_remove_queue import SetRemoveQueue
from kubectl_evictplan.engine.event_queue import LoopGrid
from kubectl_evictplan.engine.timing import Timing

PASS_COST_MAX_NS = 2_000_000
GC_COST_MAX_NS = 25_000_000
# Passes of a process that cost something else each; those after them go on as the last one.
_PASSES_MAX = 1_000


class FreeTiming(Timing, frozen=True, dict=True):
    """A ``Timing`` that draws by ``seed`` whatever need not be the same twice."""

    seed: str = ""

    @classmethod
    def of(cls, timing: Timing, seed: str) -> FreeTiming:
        """The same phases and first ticks."""
        return cls(**msgspec.structs.asdict(timing), seed=seed)

    @cached_property
    def _rng(self) -> random.Random:
        return random.Random(self.seed)

    @cached_property
    def _share(self) -> float:
        """How many of the passes are late, or inside a tick, in this run."""
        return self._rng.choice((0.1, 0.5, 0.9))

    def _of(self, about: str) -> random.Random:
        """The chance for one thing: here it is one for all."""
        return self._rng

    def _happens(self, about: str) -> bool:
        return self._of(about).random() < self._share

    @property
    def stale_lister(self) -> bool:  # type: ignore[override]
        """Asked for each head of a line in each pass: who is seen as it is gets its taint, and is not asked about again."""
        return self._happens("late views")

    @property
    def mid_tick_pass(self) -> bool:  # type: ignore[override]
        """Asked once by each tick."""
        return self._happens("passes inside ticks")

    @property
    def zones_backwards(self) -> bool:  # type: ignore[override]
        """Asked once by each process."""
        return self._of("zones").random() < 0.5

    @property
    def pod_exit_fraction(self) -> float:  # type: ignore[override]
        """Asked once for each pod that is deleted."""
        return self._fraction("exits")

    @property
    def timer_start_fraction(self) -> float:  # type: ignore[override]
        """Asked once for each timer that runs at the start."""
        return self._fraction("timers")

    @property
    def pod_gc_cost_ns(self) -> int:  # type: ignore[override]
        """Asked once by each process."""
        rng = self._of("garbage collection")
        return rng.choice((0, GC_COST_MAX_NS, rng.randrange(GC_COST_MAX_NS)))

    def draw_anew(self, seed: str) -> None:
        """From now on another chance decides."""
        self._rng.seed(seed)
        self.__dict__.pop("_share", None)

    def _fraction(self, about: str) -> float:
        rng = self._of(about)
        return rng.choice((0.0, 1.0, rng.random()))

    def passes(self, first_tick_ns: int, period_ns: int, *, warm: bool) -> LoopGrid:
        """Passes of which each costs something else."""
        rng = self._of("passes")
        costs_ns = [
            rng.randint(0, PASS_COST_MAX_NS) if cost_ns is None else cost_ns
            for cost_ns in rng.choices((0, PASS_COST_MAX_NS, None), k=_PASSES_MAX)
        ]
        steps_ns = [period_ns + cost_ns for cost_ns in costs_ns]
        first_ns = first_tick_ns + self.pass_phase_ns
        later = tuple(zip(accumulate(steps_ns[:-1], initial=first_ns), steps_ns, strict=True))
        return LoopGrid(first_ns, steps_ns[0], unbounded=warm, later=later[1:])


class LedTiming(FreeTiming, frozen=True, dict=True):
    """A ``FreeTiming`` with a chance of its own for each thing, so that one can be led and the others stay as they are."""

    chance: Callable[[str], random.Random] = random.Random

    @classmethod
    def led(cls, timing: Timing, chance: Callable[[str], random.Random]) -> LedTiming:
        """The same phases and first ticks; ``chance`` gives that for each thing."""
        return cls(**msgspec.structs.asdict(timing), chance=chance)

    @cached_property
    def _parts(self) -> dict[str, random.Random]:
        return {}

    @cached_property
    def _shares(self) -> dict[str, float]:
        return {}

    def _of(self, about: str) -> random.Random:
        if about not in self._parts:
            self._parts[about] = self.chance(about)
        if about == "passes":  # one choice for all of a process: there are too many to lead each
            return random.Random(self._parts[about].random())
        return self._parts[about]

    def _happens(self, about: str) -> bool:
        if about not in self._shares:
            self._shares[about] = self._of(about).choice((0.1, 0.5, 0.9))
        return self._of(about).random() < self._shares[about]


class Walks:
    """In which order each tick walks the nodes; ``always``: all of them in the same one, for windows end where one node comes last each time."""

    def __init__(self, rng: random.Random, *, always: bool = False) -> None:
        self._rng = rng
        self._always = always
        self._places: dict[tuple[int, str], str] = {}

    def draw_anew(self, seed: str) -> None:
        """From now on another chance decides; ticks that have been are as they were."""
        self._rng.seed(seed)

    def place(self, at_ns: int, name: str) -> str:
        """Of a node in the tick of that instant, as text: the smaller the earlier."""
        at_ns = 0 if self._always else at_ns
        found = self._places.get((at_ns, name))
        if found is None:
            found = self._places[at_ns, name] = f"{self._rng.randrange(10**6):06}/{name}"
        return found


@contextmanager
def every_tick_walks_anew(walks: Walks) -> Iterator[None]:
    """Nodes that one tick puts in line stand there in an order of that tick alone."""
    head = RateLimitedTimedQueue.head

    class WalkedQueue(TimedQueue):
        """Entries of one instant come in the order in which that tick walks; each name begins with its place."""

        def head(self) -> tuple[int, str]:
            at_ns, placed, _ = self._entries[0]
            return at_ns, placed.partition("/")[2]

        def due(self) -> Iterator[tuple[int, str]]:
            return ((at_ns, placed.partition("/")[2]) for at_ns, placed, _ in self._entries)

        def push(self, at_ns: int, name: str) -> None:
            super().push(at_ns, walks.place(at_ns, name))

        def remove_first(self, name: str) -> bool:
            placed = (each for _, each, _ in self._entries if each.partition("/")[2] == name)
            first = next(placed, None)
            return first is not None and super().remove_first(first)

    def walked(queue: RateLimitedTimedQueue, latest_tick_ns: int) -> tuple[int, str] | None:
        # Refreshed entries stand in line as the latest tick put them there.
        # By name first: places are drawn in the order in which they are asked for.
        names = sorted(queue._refreshed)
        names.sort(key=lambda name: walks.place(latest_tick_ns, name))
        queue._refreshed_names = names[:1]
        return head(queue, latest_tick_ns)

    def walked_again(queue: SetRemoveQueue, names: list[str]) -> list[str]:
        tick_ns = queue._block_ns
        return sorted(names, key=lambda name: walks.place(tick_ns, name), reverse=True)

    with (
        mock.patch.object(rate_limited_timed_queue, "TimedQueue", WalkedQueue),
        mock.patch.object(SetRemoveQueue, "_walked", walked_again),
        mock.patch.object(RateLimitedTimedQueue, "head", walked),
    ):
        yield
