"""Random worlds against random realities of them, for as long as asked: ``make soak``.

Every world is a seed (``tests/drawn/soak_worlds.py``). It is predicted once; then runs with everything unknown drawn
at random, or led towards the ends of windows (``tests/realities/guided_realities.py``), must agree with every word of the
prediction (``tests/realities/contradictions.py``). A world that does not is
told with the command that repeats it alone. With ``--bounds`` (``make soak BOUNDS=1``) nothing is predicted: what wide bounds say of the
world must hold in each reality, whether or not anybody is told of them. That takes a fifth of the time.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from drawn.begun_worlds import BegunWorld
from drawn.crowded_worlds import CrowdedWorld
from drawn.drain_worlds import DrainedWorld
from drawn.outage_worlds import OutageWorld
from drawn.soak_worlds import (
    CROWDED,
    KINDS,
    MIXED_DRAINS,
    STRANGE_DRAINS,
    draw_soak_world,
    kind_of,
    ready_of,
    ready_times_of,
)
from drawn.strange_worlds import StrangeWorld
from msgspec.structs import replace
from realities import drawn_drains
from realities.contradictions import (
    DeletionKey,
    Span,
    contradictions,
    end_contradictions,
    joint_contradictions,
    node_contradictions,
    predicted,
    spans_of,
    told_before_start,
    zone_contradictions,
)
from realities.drawn_realities import Reality, World, draw_reality, draw_timing, zones_of
from realities.guided_drains import DrainGuide
from realities.guided_realities import Choices, Guide
from realities.wide_worlds import WideWorld

from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.garbage import collect_rarely
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.windows.monitor_phase import with_visible_phase

# Eight of them cost a fiftieth of the prediction.
REALITIES = 32
# Worlds that say more than a user hands in.
_MORE_THAN_A_WORLD = (BegunWorld, OutageWorld, StrangeWorld, CrowdedWorld)
# Kinds that wide bounds are made for; what clients let wait is put over them at the end.
_BOUNDED_KINDS = tuple(kind for kind in KINDS if "drains" not in kind and kind != CROWDED)
# Lines told of one world.
LINES_MAX = 6
# Tell how far it is about this often.
PROGRESS_SECONDS = 30.0


class Verdict(NamedTuple):
    """What came of one world; ``wrong`` is empty when no reality contradicts its prediction."""

    seed: int
    kind: str
    release: str
    wrong: tuple[str, ...]
    seconds: float
    certain: int = 0
    possible: int = 0


def judge(seed: int, realities: int) -> Verdict:
    """Draw the world of a seed and hold its prediction against realities of it."""
    since = time.process_time()
    kind, world = draw_soak_world(seed)
    plain = world.world if isinstance(world, _MORE_THAN_A_WORLD) else world
    release = plain.configuration.profile.version
    certain = possible = 0
    try:
        if isinstance(world, DrainedWorld):
            learns = kind == STRANGE_DRAINS
            prediction = predict(*world, assume_ready=None if learns else ready_of(seed))
            found = list(_drain_contradictions(world, prediction, seed, realities))
        else:
            prediction = predict(plain.snapshot, plain.scenario, plain.configuration)
            found = list(_contradictions(world, prediction, seed, realities))
        found.extend(told_before_start(prediction))
        certain = sum(each.certainty == "certain" for each in prediction.evictions)
        possible = len(prediction.evictions) - certain
    except Exception:  # noqa: BLE001 - a crash is the worst disagreement
        found = ["crashed: " + traceback.format_exc(limit=-3)]
    spent = time.process_time() - since
    return Verdict(seed, kind, release, tuple(found), spent, certain, possible)


def judge_bounds(seed: int, realities: int) -> Verdict:
    """Hold the wide bounds of the world of a seed against realities of it; drains have others."""
    since = time.process_time()
    kind, world = draw_soak_world(seed)
    assert not isinstance(world, DrainedWorld), "kinds of drains are left out"
    plain = world.world if isinstance(world, _MORE_THAN_A_WORLD) else world
    try:
        wide, guide = WideWorld(plain), Guide(f"reality {seed}", {})
        found = [
            f"reality {number}: {wrong}"
            for number in range(realities)
            for wrong in wide.contradictions(
                _reality(world, guide.choices(number)), plain.scenario.end_ns
            )
        ]
    except Exception:  # noqa: BLE001 - a crash is the worst disagreement
        found = ["crashed: " + traceback.format_exc(limit=-3)]
    spent = time.process_time() - since
    return Verdict(seed, kind, plain.configuration.profile.version, tuple(found), spent)


def _contradictions(
    world: World | BegunWorld | OutageWorld | StrangeWorld | CrowdedWorld,
    prediction: Prediction,
    seed: int,
    realities: int,
) -> Iterator[str]:
    plain = world.world if isinstance(world, _MORE_THAN_A_WORLD) else world
    horizon_ns = plain.scenario.end_ns
    wide, guide = WideWorld(plain), guide_of(f"reality {seed}", prediction)
    zones, limited = zones_of(plain), isinstance(world, CrowdedWorld)
    for number in range(realities):
        rng = guide.choices(number)
        reality = _reality(world, rng)
        guide.learn(rng, reality.entries)
        yield from (
            f"reality {number}: {wrong}"
            for wrong in (
                *contradictions(horizon_ns, prediction, reality),
                *node_contradictions(prediction, reality, horizon_ns),
                *zone_contradictions(prediction, reality, horizon_ns),
                *end_contradictions(prediction, reality, horizon_ns),
                *joint_contradictions(prediction, reality, zones),
                # Whether or not the world was explored wholly: the bounds hold for every one, but for what clients let wait.
                *(() if limited else wide.contradictions(reality, horizon_ns)),
            )
        )


def _reality(
    world: World | BegunWorld | OutageWorld | StrangeWorld | CrowdedWorld, rng: Choices
) -> Reality:
    if isinstance(world, BegunWorld):
        return world.reality(rng)
    # Those that are not free have one value of each kind, as a prediction's runs have: they reach corners more often.
    if isinstance(world, OutageWorld | StrangeWorld | CrowdedWorld):
        return world.reality(rng, timing_near_critical, free=is_free(rng))
    return draw_reality(world, rng, timing_near_critical, free=is_free(rng))


def is_free(choices: Choices) -> bool:
    """Whether a reality draws anew whatever need not be the same twice, as three in four do."""
    return choices.part("free").random() < 3 / 4


def guide_of(seed: str, prediction: Prediction) -> Guide:
    """A guide to the ends of all windows of the prediction."""
    return Guide(seed, windows_of(prediction))


def windows_of(prediction: Prediction) -> dict[DeletionKey, list[Span]]:
    """All windows of each deletion."""
    evictions = predicted(prediction).items()
    return {key: [span for one in each for span in spans_of(one)] for key, each in evictions}


def _drain_contradictions(
    world: DrainedWorld, prediction: Prediction, seed: int, realities: int
) -> Iterator[str]:
    guide = DrainGuide(f"reality {seed}", windows_of(prediction))
    times, mixed = ready_times_of(seed, world), kind_of(seed) == MIXED_DRAINS
    for number in range(realities):
        rng = random.Random(f"reality {seed} {number}")
        lived = drawn_drains.lived_in(world, rng)
        if mixed:
            timeline = drawn_drains.mixed_reality(lived, rng, times)
        elif number % 4 < 2:
            timeline = drawn_drains.reality(lived, rng, number, times)
        else:
            timeline = guide.reality(lived, number, times)
        for wrong in drawn_drains.contradictions(timeline, prediction, world.scenario):
            yield f"reality {number}: {wrong}"


def timing_near_critical(world: World, rng: random.Random) -> Timing:
    """Phases and costs at random; half of the ticks just catch, or just miss, something that happens."""
    timing = draw_timing(world, rng)
    timing = replace(
        timing,
        zones_backwards=rng.random() < 0.5,
        pod_gc_sightings=rng.choice((0, 0, 1, 2)),
    )
    configuration = with_visible_phase(world.snapshot, world.scenario, world.configuration)
    if configuration.monitor_phases_ns or configuration.monitor_phase_ns is not None:
        return timing
    if rng.random() < 0.5:
        return timing
    graces_ns = (
        0,
        configuration.node_monitor_grace_period_ns,
        configuration.node_startup_grace_period_ns,
    )
    instants = [0]
    for event in world.scenario.events:
        instants += [event.at_ns, event.latest_ns]
    for lease in world.snapshot.leases.values():
        if lease.renew_time_ns is not None:
            instants.append(lease.renew_time_ns - world.scenario.start_ns)
    step_ns = configuration.node_monitor_period_ns + timing.monitor_cost_ns
    side_ns = rng.choice((-1, 0, 1, -1_000_000, 1_000_000, rng.randint(-(10**8), 10**8)))
    at_ns = rng.choice(instants) + rng.choice(graces_ns) + side_ns
    if timing.monitor_phase_ns == 0:
        return timing
    return replace(timing, monitor_phase_ns=at_ns % step_ns)


class Tally:
    """What came of the worlds so far; ``repeat`` is what repeats one, but for its seed."""

    def __init__(self, repeat: str) -> None:
        self._repeat = repeat
        self.worlds: Counter[str] = Counter()
        self.wrong = 0
        self._slowest: list[Verdict] = []

    def note(self, verdict: Verdict) -> None:
        """Count a world; a wrong one is told at once."""
        self.worlds[verdict.kind] += 1
        self._slowest = sorted([*self._slowest, verdict], key=lambda one: -one.seconds)[:3]
        if verdict.wrong:
            self.wrong += 1
            tell(verdict, self._repeat)

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(self.worlds.items()))
        slow = ", ".join(f"{v.seed} {v.kind} {v.release} {v.seconds:.1f} s" for v in self._slowest)
        total = self.worlds.total()
        return f"{kinds}\nslowest: {slow}\n{total} worlds ({self._repeat}): {self.wrong} wrong"


def soak(
    judged: Callable[[int], Verdict],
    seeds: Iterator[int],
    seconds: float,
    processes: int,
    tally: Tally,
) -> None:
    """Judge the worlds of these seeds until the time is over."""
    until, told = time.monotonic() + seconds, time.monotonic()
    running: set[Future[Verdict]] = set()
    with ProcessPoolExecutor(processes, initializer=_begin_to_work) as pool:
        while running or time.monotonic() < until:
            while len(running) < 2 * processes and time.monotonic() < until:
                running.add(pool.submit(judged, next(seeds)))
            try:
                ready, running = wait(running, PROGRESS_SECONDS, FIRST_COMPLETED)
            except KeyboardInterrupt:
                print("interrupted: what has begun is not waited for")
                for process in list(pool._processes.values()):
                    process.terminate()
                pool.shutdown(wait=False, cancel_futures=True)
                return
            for future in ready:
                tally.note(future.result())
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{tally.worlds.total()} worlds, {tally.wrong} wrong", flush=True)


def _begin_to_work() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process hears of it
    collect_rarely()  # as the command line does


def tell(verdict: Verdict, repeat: str) -> None:
    """Say what is wrong with a world, and how to repeat it alone."""
    print(f"WRONG: {repeat} WORLD={verdict.seed}  # {verdict.kind}, {verdict.release}")
    for line in verdict.wrong[:LINES_MAX]:
        print(f"  {line}")
    if len(verdict.wrong) > LINES_MAX:
        print(f"  and {len(verdict.wrong) - LINES_MAX} more")
    sys.stdout.flush()


def main() -> int:
    """Read the command line; the exit status is 1 when anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--seed", type=int, default=None, help="of the first world; else the clock's"
    )
    parser.add_argument("--world", type=int, help="only the world of this seed")
    parser.add_argument("--realities", type=int, default=REALITIES)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--bounds", action="store_true", help="only what wide bounds say")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only such worlds")
    given = parser.parse_args()
    kinds = tuple(given.kind or KINDS)
    repeat, judged = f"make soak REALITIES={given.realities}", judge
    if given.bounds:
        kinds = tuple(kind for kind in kinds if kind in _BOUNDED_KINDS)
        repeat, judged = f"{repeat} BOUNDS=1", judge_bounds
    if given.world is not None:
        if kind_of(given.world) not in kinds:
            parser.error(f"world {given.world} is of the kind {kind_of(given.world)}")
        verdict = judged(given.world, given.realities)
        if verdict.wrong:
            tell(verdict, repeat)
        else:
            print(
                f"{verdict.seed}: {verdict.kind}, {verdict.release}: no reality contradicts the prediction"
            )
        return 1 if verdict.wrong else 0
    seed = int(time.time()) * 1000 if given.seed is None else given.seed
    print(f"worlds from seed {seed} on", flush=True)
    tally = Tally(repeat)
    soak(
        partial(judged, realities=given.realities),
        (each for each in count(seed) if kind_of(each) in kinds),
        given.seconds,
        given.processes,
        tally,
    )
    print(tally)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
