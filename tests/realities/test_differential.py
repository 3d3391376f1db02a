"""The event-driven simulation and the naive model must agree on every fact of every world."""

from __future__ import annotations

from collections import Counter

import pytest
from building.timeline_runs import Fact, simulated_facts
from drawn.strategies import World, worlds
from hypothesis import HealthCheck, Phase, given, settings
from naive.model import naive_facts

DEFAULT_EXAMPLES = 120
DEEP_EXAMPLES = 10_000


def without_repeated_zone_states(facts: list[Fact]) -> list[Fact]:
    """A new process, or a zone met again, may say once more what was already the case."""
    shown: dict[str, str] = {}
    kept = []
    for fact in facts:
        _, what, subject, value = fact
        if what == "zone-state":
            if shown.get(subject) == value:
                continue
            shown[subject] = value
        kept.append(fact)
    return kept


def without_races(facts: list[Fact]) -> list[Fact]:
    """Leave out "cancel" of a pod that vanishes through the very DELETE its timer issued.

    Whether the watch event or the timer's own bookkeeping comes first is a race of the real
    controller; the recorded runs show the event, not every time.
    """
    vanished = {(f[0], f[2]) for f in facts if f[1] == "delete"}
    vanished &= {(f[0], f[2]) for f in facts if f[1] == "gone"}
    return [f for f in facts if f[1] != "cancel" or (f[0], f[2]) not in vanished]


def without_vain_collection(facts: list[Fact]) -> list[Fact]:
    """Leave out garbage collection that finalizers defeat: whether and how often a loop asks
    again for an object that is already being deleted with grace 0 changes nothing.
    """
    gone = {(f[0], f[2]) for f in facts if f[1] == "gone"}
    return [f for f in facts if f[3] != "pod-gc" or (f[0], f[2]) in gone]


def without_repetitions(facts: list[Fact]) -> list[Fact]:
    """Leave out taints that are put on once more, and pods that go for it once more while they end.

    Ticks that make nothing but a line anew are not all run by the simulation.
    """
    shown: set[tuple[str, ...]] = set()
    kept = []
    for fact in facts:
        _, what, *about = fact
        if what == "taint-removed":
            shown.discard(("taint-added", *about))
        elif what == "gone":
            shown -= {each for each in shown if each[1] == about[0]}
        elif what == "taint-added" or (what in ("mark", "delete") and about[1] != "pod-gc"):
            if (what, *about) in shown:
                continue
            shown.add((what, *about))
        kept.append(fact)
    return kept


def comparable(facts: list[Fact]) -> list[Fact]:
    facts = without_repetitions(without_repeated_zone_states(facts))
    return without_races(without_vain_collection(facts))


def difference(left: list[Fact], right: list[Fact]) -> list[str]:
    """What only one of the two says, in order of time."""
    more, less = Counter(left), Counter(right)
    only = [(fact, "simulation only") for fact in more - less]
    only += [(fact, "naive only") for fact in less - more]
    return [f"{fact[0] / 1e9:g} {' '.join(fact[1:])}: {who}" for fact, who in sorted(only)]


def agree(world: World) -> None:
    parts = (world.snapshot, world.scenario, world.settings, world.timing)
    simulated = comparable(simulated_facts(*parts))
    naive = comparable(naive_facts(*parts))
    assert simulated == naive, "\n".join(["", *difference(simulated, naive), "", repr(world)])


@settings(
    max_examples=DEFAULT_EXAMPLES,
    # A failure here should cost seconds; the deep run below is the one that shrinks.
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(worlds())
def test_simulation_and_naive_model_agree(world: World) -> None:
    agree(world)


@pytest.mark.slow
@settings(
    max_examples=DEEP_EXAMPLES,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(worlds())
def test_simulation_and_naive_model_agree_on_many_more_worlds(world: World) -> None:
    agree(world)
