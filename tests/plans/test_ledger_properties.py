"""Laws of ledgers, on random windows, deletions and looks."""

from __future__ import annotations

import random
from itertools import pairwise

from msgspec.structs import replace
from plans.ledger_worlds import POD, at, deleted, expectation, predicted

from kubectl_evictplan.kube.durations import SECOND_NS
from kubectl_evictplan.kube.sightings import Interval, SeenPod
from kubectl_evictplan.plans.expectation import Start
from kubectl_evictplan.plans.ledger import ledger_of
from kubectl_evictplan.plans.ledger_document import PodEntry
from kubectl_evictplan.plans.sightings import Change, Look, Sightings

RUNS = 150


class World:
    """One pod, its windows, and when it really was deleted and gone; ``start`` is known to some extent."""

    def __init__(self, seed: int, *, inside: bool = True) -> None:
        self.dice = random.Random(seed)
        dice = self.dice
        spans, since = [], dice.uniform(0, 60)
        for _ in range(dice.choice((1, 1, 2, 3))):
            width = dice.choice((0.0, dice.random(), dice.uniform(1, 20)))
            spans.append((round(since, 6), round(since + width, 6)))
            since += width + dice.uniform(4, 30)
        self.spans = spans
        self.late = dice.uniform(0, 100)
        window = dice.choice(spans)
        self.deleted = self.late + dice.uniform(*window)
        if not inside:
            self.deleted = self.late + spans[-1][1] + dice.uniform(5, 50)
        self.gone = self.deleted + dice.uniform(0, 30)
        slack = dice.choice((0.0, 0.3, 1.0))
        earliest = at(self.late - dice.random() * slack)
        self.start = Start(Interval(earliest, at(self.late) + round(slack * SECOND_NS)), "given")

    def seen_at(self, seconds: float) -> SeenPod | None:
        if seconds >= self.gone:
            return None
        return deleted(POD, self.deleted) if seconds >= self.deleted else POD

    def looks(self, count: int) -> list[Look]:
        """Looks at random instants, each known to some extent."""
        found = []
        for _ in range(count):
            seconds = self.dice.uniform(self.late, self.gone + 60)
            seen = self.seen_at(seconds)
            known = Interval(at(seconds - self.dice.random()), at(seconds + self.dice.random()))
            found.append(Look(known, () if seen is None else (seen,)))
        return found

    def changes(self) -> list[Change]:
        """What a watch tells, each change known to some seconds."""
        early, late = self.dice.random() * 3, self.dice.random() * 3
        marked = deleted(POD, self.deleted)
        first = Interval(at(self.deleted - early), at(self.deleted + late))
        last = Interval(at(self.gone - early), at(self.gone + late))
        return [Change(first, marked), Change(last, marked, gone=True)]

    def entry(self, looks: list[Look], changes: list[Change]) -> PodEntry:
        sightings = Sightings(tuple(looks), tuple(changes))
        expected = replace(expectation(predicted(*self.spans)), known_at_ns=at(0))
        (entry,) = ledger_of(expected, sightings, self.start).pods
        return entry


def test_what_happened_in_its_window_is_never_said_to_be_elsewhere() -> None:
    verdicts = set()
    for seed in range(RUNS):
        world = World(seed)
        watched = world.dice.random() < 0.5
        entry = world.entry(
            world.looks(world.dice.randint(1, 6)), world.changes() if watched else []
        )
        verdicts.add(entry.verdict)
    assert verdicts == {"inside", "unknown", "not-yet-due"}


def test_what_happened_long_after_its_windows_is_never_said_to_be_inside() -> None:
    verdicts = set()
    for seed in range(RUNS):
        world = World(seed, inside=False)
        watched = world.dice.random() < 0.5
        entry = world.entry(
            world.looks(world.dice.randint(1, 6)), world.changes() if watched else []
        )
        verdicts.add(entry.verdict)
    assert "inside" not in verdicts
    assert verdicts >= {"outside", "unknown"}


def test_whoever_watches_all_the_time_always_knows() -> None:
    for seed in range(RUNS):
        for inside in (True, False):
            world = World(seed, inside=inside)
            end = Look(Interval(at(world.gone + 99), at(world.gone + 99)), ())
            entry = world.entry([end], world.changes())
            assert entry.verdict == ("inside" if inside else "outside")


def test_a_further_look_never_takes_back_what_was_decided() -> None:
    decided = {"inside", "outside", "predicted-but-stayed"}
    for seed in range(RUNS // 4):
        world = World(seed, inside=bool(seed % 2))
        looks = world.looks(8)
        verdicts = [world.entry(looks[: n + 1], []).verdict for n in range(len(looks))]
        for before, after in pairwise(verdicts):
            if before in ("inside", "outside"):
                assert after == before, (seed, verdicts)
            assert before not in decided or after in decided, (seed, verdicts)
