"""How wide predicted windows are next to what many random realities of a world use of them: ``make widths``.

One figure for each kind of worlds: the width of an eviction's windows over the spread of its instants within them, in
many realities. 1 is as narrow as a promise can be. Kinds are the classes of drawn worlds (``tests/drawn/soak_worlds.py``),
``contended-drains`` (two processes of kubectl at a time) and ``upstream``: scenarios that upstream's own controller
ran, whose recorded runs count as realities too.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import count, islice
from statistics import median, quantiles
from typing import NamedTuple

from msgspec.structs import replace
from soak import guide_of, is_free, timing_near_critical, windows_of
from upstream_runs import RELEASE, Case, load_cases

# isort: split
from drawn.drain_worlds import READY, DrainedWorld, draw_drained_world
from drawn.soak_worlds import CLASSES, draw_soak_world, kind_of
from realities import drawn_drains
from realities.contradictions import TOLERANCE_S, DeletionKey, Span, deletions, predicted, spans_of
from realities.drawn_realities import World, draw_reality
from realities.guided_drains import DrainGuide

from kubectl_evictplan.cluster.readiness import ReadyTimes
from kubectl_evictplan.cluster.timeline import TAINT_EVICTION
from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.prediction.document import Eviction, Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import HORIZON_DEFAULT_MAX_NS

# A pass comes that late; nothing is told narrower.
LEAST_WIDTH_S = 0.1
CONTENDED, UPSTREAM = "contended-drains", "upstream"
KINDS = (*CLASSES, CONTENDED, UPSTREAM)

# When each controller deletes each pod, and for which time.
Seen = defaultdict[tuple[DeletionKey, int], list[float]]


class Width(NamedTuple):
    """One eviction: its certainty, the width of its windows and the spread that was seen, in seconds."""

    world: str
    pod: str
    certainty: str
    windows: tuple[Span, ...]
    width: float
    spread: float
    seen: int

    @property
    def ratio(self) -> float:
        """Width over spread; 1 where both are no more than the wait for a pass."""
        return max(self.width, LEAST_WIDTH_S) / max(self.spread, LEAST_WIDTH_S)


class Sample(NamedTuple):
    """A prediction next to the instants of many realities; ``nth``: a second deletion has a row of its own."""

    world: str
    prediction: Prediction
    horizon_s: float
    seen: Seen
    nth: bool = False

    def widths(self) -> Iterator[Width]:
        """Every eviction whose windows end before the horizon."""
        for key, evictions in predicted(self.prediction).items():
            for place, eviction in enumerate(evictions):
                spans = spans_of(eviction)
                if spans[-1][1] < self.horizon_s - 1:
                    instants = self.seen.get((key, place if self.nth else 0), [])
                    yield self._width(key, eviction, spans, instants)

    def _width(
        self, key: DeletionKey, eviction: Eviction, spans: Sequence[Span], instants: Sequence[float]
    ) -> Width:
        width = spread = 0.0
        found = 0
        for low, high in spans:
            inside = [at for at in instants if low - TOLERANCE_S <= at <= high + TOLERANCE_S]
            width += high - low
            spread += max(inside) - min(inside) if inside else 0.0
            found += len(inside)
        return Width(self.world, key[0], eviction.certainty, tuple(spans), width, spread, found)


def samples(kind: str, first: int, worlds: int, realities: int) -> Iterator[Sample]:
    """So many worlds of a kind, each with its realities."""
    if kind == UPSTREAM:
        cases = load_cases()
        for case in cases[:: max(len(cases) // worlds, 1)]:
            yield of_upstream(case, realities)
    elif kind == CONTENDED:
        drawn = ((seed, draw_drained_world(random.Random(seed))) for seed in count(first))
        contended = ((seed, world) for seed, world in drawn if len(world.scenario.events) > 1)
        for seed, drained in islice(contended, worlds):
            yield of_drains(str(seed), drained, realities)
    else:
        for seed in islice((seed for seed in count(first) if kind_of(seed) == kind), worlds):
            world = draw_soak_world(seed).world
            assert isinstance(world, World)
            yield of_world(str(seed), world, realities)


def of_drains(name: str, world: DrainedWorld, realities: int) -> Sample:
    """One world of drains; three realities in four are led towards the ends of windows, where every choice is its own."""
    prediction = predict(*world, assume_ready=READY)
    guide, seen = DrainGuide(f"width {name}", windows_of(prediction)), Seen(list)
    for number in range(realities):
        if number % 4:
            run = guide.reality(world, number, ReadyTimes(*READY))
        else:
            run = drawn_drains.reality(world, random.Random(f"width {name} {number}"), number)
        for key, instants in deletions(run.entries).items():
            for place, at in enumerate(instants):
                seen[key, place].append(at)
    # What has no latest instant is told up to the longest horizon.
    return Sample(name, prediction, HORIZON_DEFAULT_MAX_NS / SECOND_NS, seen, nth=True)


def of_world(name: str, world: World, realities: int) -> Sample:
    """One world; three realities in four draw anew whatever need not be the same twice; as many are led towards the ends of windows.

    Clients of the controllers let all through at once in these realities: the prediction is of such a cluster.
    """
    assert world.scenario.horizon_ns is not None
    unlimited = replace(world.configuration, kube_api_qps=-1.0)
    prediction = predict(world.snapshot, world.scenario, unlimited)
    guide, seen = guide_of(f"width {name}", prediction), Seen(list)
    for number in range(realities):
        choices = guide.choices(number)
        reality = draw_reality(world, choices, timing_near_critical, free=is_free(choices))
        guide.learn(choices, reality.entries)
        for key, instants in deletions(reality.entries).items():
            seen[key, 0] += instants
    return Sample(name, prediction, world.scenario.horizon_ns / SECOND_NS, seen)


def of_upstream(case: Case, realities: int) -> Sample:
    """One scenario of upstream's, by the release of its recorded runs."""
    world = World(*case.question(RELEASE, phase_known=False))
    sample = of_world(case.name, world, realities)
    for run in case.runs:
        for pod, at_ns in run.items():
            key = f"default/{pod}", f"uid-{pod}", TAINT_EVICTION
            sample.seen[key, 0].append(at_ns / SECOND_NS)
    return sample


def main() -> None:
    """Read the command line and print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=10, help="of each kind")
    parser.add_argument("--realities", type=int, default=1000)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--worst", type=int, default=0, help="tell that many of each kind")
    given = parser.parse_args()
    for kind in given.kind or KINDS:
        found: list[Width] = []
        explored: Counter[str] = Counter()
        for sample in samples(kind, given.seed, given.worlds, given.realities):
            found += sample.widths()
            coverage = sample.prediction.inputs.coverage
            if coverage is not None:
                explored += Counter(all=coverage.exact + coverage.outer_bound + coverage.explored)
                explored += Counter(exact=coverage.exact)
        print(told(kind, found, explored), flush=True)
        for one in sorted(found, key=lambda one: -one.ratio)[: given.worst]:
            spans = " ".join(f"{low:.3f}..{high:.3f}" for low, high in one.windows)
            times = f"{one.spread:.3f} s seen, {one.seen} times"
            print(f"  {one.ratio:7.1f}  {one.world} {one.pod} {one.certainty} {spans}  {times}")


def told(kind: str, found: Sequence[Width], explored: Counter[str]) -> str:
    """The figures of one kind, on one line."""
    ratios = sorted(one.ratio for one in found if one.seen)
    never = sum(not one.seen for one in found)
    bounded = f"{explored['all'] - explored['exact']} of {explored['all']} not exact"
    if len(ratios) < 2:
        return f"{kind}: {len(found)} evictions, {never} never seen, {bounded}"
    ninth = quantiles(ratios, n=10)[-1]
    return (
        f"{kind}: {len(found)} evictions, median {median(ratios):.2f}, 90 % below {ninth:.2f}, "
        f"{never} never seen, {bounded}"
    )


if __name__ == "__main__":
    main()
