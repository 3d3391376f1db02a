"""Realities of drains that lean towards the ends of windows: see ``guided_realities``.

What a run of drains draws has names (``DrainTiming.draw``), so a choice that led far is made again but for a few of
these names, whatever else happens in between.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from drawn.drain_worlds import DrainedWorld
from realities.contradictions import DeletionKey
from realities.guided_realities import Farthest

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.pod_gc import GC_CHECK_PERIOD_NS
from kubectl_evictplan.engine.drain_timing import DrainTiming, Latency
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.simulation.simulate import simulate

# Realities that chance alone draws first.
_FREE_AT_FIRST = 8
# How many of its choices are made in another way.
_SHARES = (0.02, 0.05, 0.1, 0.3)
_LEAST, _MOST = 0.0, 1.0 - 2**-32
_SLOW_OR_FAST = {one.value for one in Latency} | {"delay"}
# What one process of kubectl is slow or fast at, and what the API server is.
_OF_KUBECTL = {
    Latency.KUBECTL_START.value,
    Latency.NEXT_CORDON.value,
    Latency.LIST_PODS.value,
    Latency.NEXT_DELETE.value,
    Latency.KUBECTL_END.value,
}
_OF_API = {Latency.DECIDE.value, Latency.DELETE.value, Latency.FIRST_POLL.value}

# What is drawn of whom, and for the which time.
_Name = tuple[object, ...]
_Made = dict[_Name, float]


class DrainChoices:
    """Chance by name, that remembers what it gave; ``given`` is what it gives instead of what it would draw.

    Some are fast in everything, or slow; and in some each process of kubectl, the API server and the controllers have a pace of
    their own, for ends that one must be early at and another late.
    """

    def __init__(self, seed: str, given: Mapping[_Name, float]) -> None:
        self.made: _Made = {}
        self._given = given
        self._rng = random.Random(seed)
        self._seen: dict[_Name, float] = {}
        self._times: Counter[_Name] = Counter()
        habit = int(self.share("habit") * 6)
        self._habit = {2: _LEAST, 3: _MOST}.get(habit)
        self._apart = habit > 3

    def share(self, *about: object) -> float:
        """A number in [0, 1), always the same for the same ``about``.

        The instants of which a run asks move with what it drew before, so that only whom it asks about is its name.
        """
        if about not in self._seen:
            name = about[:2]
            self._times[name] += 1
            self._seen[about] = self._new((*name, self._times[name]))
        return self._seen[about]

    def _new(self, name: _Name) -> float:
        drawn = self._rng.random()
        if name[0] in _SLOW_OR_FAST and self._habit is not None:
            drawn = self._habit
        elif name[0] in _SLOW_OR_FAST and self._apart:
            drawn = self._pace_of(name)
        self.made[name] = self._given.get(name, drawn)
        return self.made[name]

    def _pace_of(self, name: _Name) -> float:
        whose: _Name = ("pace", "controllers")
        if name[0] in _OF_KUBECTL:
            whose = "pace", name[1]
        elif name[0] in _OF_API:
            whose = ("pace", "api")
        return _LEAST if self.share(*whose) < 0.5 else _MOST


class _GuidedTiming(DrainTiming, frozen=True, kw_only=True):
    """All that is drawn is asked of the choices."""

    choices: DrainChoices
    # Whether pods use all of their time, or nothing of it.
    at_ends: bool = False

    def draw(self, *about: object) -> float:
        """The choice by that name."""
        return self.choices.share(*about)

    def exit_fraction(self, pod: int) -> float:
        """How much of its grace period a pod uses."""
        fraction = super().exit_fraction(pod)
        return float(fraction > 0.5) if self.at_ends else fraction


class DrainGuide:
    """Runs of drains that lean towards the ends of the ``windows`` of each eviction, in seconds."""

    def __init__(
        self, seed: str, windows: Mapping[DeletionKey, Sequence[tuple[float, float]]]
    ) -> None:
        self._seed = seed
        self._rng = random.Random(f"guide {seed}")
        self._farthest = Farthest[_Made](windows)

    def reality(self, world: DrainedWorld, number: int, times: ReadyTimes) -> Timeline:
        """The run of that number, which the guide learns from."""
        given: _Made = {}
        if number >= _FREE_AT_FIRST and self._farthest:
            given = self._changed(self._farthest.any_of(self._rng))
        choices = DrainChoices(f"{self._seed} {number}", given)
        run = simulate(world.snapshot, world.scenario, world.configuration, _timing(choices, times))
        self._farthest.learn(choices.made, run.entries)
        return run

    def _changed(self, made: _Made) -> _Made:
        share = self._rng.choice(_SHARES)
        return {
            name: self._another(value) if self._rng.random() < share else value
            for name, value in made.items()
        }

    def _another(self, value: float) -> float:
        near = min(max(value + self._rng.gauss(0, 0.03), _LEAST), _MOST)
        return self._rng.choice((_LEAST, _MOST, self._rng.random(), near))


def _timing(choices: DrainChoices, times: ReadyTimes) -> Timing:
    share = choices.share("exits")
    joining = choices.share("joining")
    joins = 0.95 if joining < 0.2 else 0.5 if joining < 0.4 else 0.0
    at_ends = choices.share("exits at ends") < 0.4
    if at_ends:
        share = 1.0
    drain = _GuidedTiming(
        choices=choices,
        latency=None,
        exit_low=0.0 if at_ends or choices.share("exits apart") < 0.5 else share,
        exit_high=share,
        ready_low_ns=times.earliest_ns,
        ready_high_ns=times.latest_ns,
        ready_by_owner=times.ranges_ns,
        joins_drained_nodes=joins,
        late_views=0.5 if choices.share("late views") < 0.5 else 0.0,
        running=None,
        at_ends=at_ends,
    )
    looks_ns = int(choices.share("garbage collection") * GC_CHECK_PERIOD_NS)
    return Timing(drain=drain, pod_gc_phase_ns=looks_ns)
