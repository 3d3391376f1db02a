"""How wide predicted windows are next to what many random realities of a world use of them.

One figure for each class of worlds (``tests/soak_worlds.py``): the width of an eviction's windows over the
spread of its instants within them, in many realities. 1 is as narrow as a promise can be.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from statistics import median, quantiles
from typing import NamedTuple

from soak import timing_near_critical

# isort: split
from contradictions import TOLERANCE_S, Span, deletions, predicted, spans_of
from drain_worlds import DrainedWorld
from realities import World, draw_reality
from soak_worlds import CLASSES, draw_soak_world, kind_of

from kubectl_evictplan.prediction.predict import predict

# A pass comes that late; nothing is told narrower.
LEAST_WIDTH_S = 0.1


class Width(NamedTuple):
    """One eviction: its certainty, the width of its windows and the spread that was seen, in seconds."""

    seed: int
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


def widths_of(seed: int, world: World, realities: int) -> Iterator[Width]:
    """Every eviction of the world whose windows end before its horizon."""
    prediction = predict(world.snapshot, world.scenario, world.configuration)
    seen: dict[object, list[float]] = defaultdict(list)
    for number in range(realities):
        rng = random.Random(f"width {seed} {number}")
        entries = draw_reality(world, rng, timing_near_critical).entries
        for key, instants in deletions(entries).items():
            seen[key] += instants
    assert world.scenario.horizon_ns is not None
    horizon = world.scenario.horizon_ns / 1e9
    for key, evictions in predicted(prediction).items():
        for eviction in evictions:
            spans = spans_of(eviction)
            if spans[-1][1] < horizon - 1:
                width, spread, found = _compared(spans, seen[key])
                yield Width(seed, key[0], eviction.certainty, tuple(spans), width, spread, found)


def _compared(spans: Sequence[Span], instants: Sequence[float]) -> tuple[float, float, int]:
    width = spread = 0.0
    found = 0
    for low, high in spans:
        inside = [at for at in instants if low - TOLERANCE_S <= at <= high + TOLERANCE_S]
        width += high - low
        spread += max(inside) - min(inside) if inside else 0.0
        found += len(inside)
    return width, spread, found


def main() -> None:
    """Read the command line and print a line for each class."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=10, help="of each class")
    parser.add_argument("--realities", type=int, default=1000)
    parser.add_argument("--kind", action="append", choices=tuple(CLASSES))
    parser.add_argument("--worst", type=int, default=0, help="tell that many of each class")
    given = parser.parse_args()
    for kind in given.kind or CLASSES:
        seeds = (seed for seed in count(given.seed) if kind_of(seed) == kind)
        found: list[Width] = []
        for _ in range(given.worlds):
            seed = next(seeds)
            world = draw_soak_world(seed).world
            assert not isinstance(world, DrainedWorld)
            found += widths_of(seed, world, given.realities)
        print(told(kind, found), flush=True)
        for one in sorted(found, key=lambda one: -one.ratio)[: given.worst]:
            spans = " ".join(f"{low:.3f}..{high:.3f}" for low, high in one.windows)
            times = f"{one.spread:.3f} s seen, {one.seen} times"
            print(f"  {one.ratio:7.1f}  {one.seed} {one.pod} {one.certainty} {spans}  {times}")


def told(kind: str, found: Sequence[Width]) -> str:
    """The figures of one class, on one line."""
    ratios = sorted(one.ratio for one in found if one.seen)
    never = sum(not one.seen for one in found)
    if len(ratios) < 2:
        return f"{kind}: {len(found)} evictions, {never} never seen"
    ninth = quantiles(ratios, n=10)[-1]
    return (
        f"{kind}: {len(found)} evictions, median {median(ratios):.2f}, 90 % below {ninth:.2f}, "
        f"{never} never seen"
    )


if __name__ == "__main__":
    main()
