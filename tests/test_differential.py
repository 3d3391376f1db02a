"""The event-driven simulation and the naive model must agree on every fact of every world."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from naive.model import naive_facts
from strategies import World, worlds
from timeline_runs import Fact, simulated_facts

DEFAULT_EXAMPLES = 300
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


def difference(left: list[Fact], right: list[Fact]) -> list[str]:
    """What only one of the two says, in order of time."""
    only = [(fact, "simulation only") for fact in set(left) - set(right)]
    only += [(fact, "naive only") for fact in set(right) - set(left)]
    return [f"{fact[0] / 1e9:g} {' '.join(fact[1:])}: {who}" for fact, who in sorted(only)]


def agree(world: World) -> None:
    parts = (world.snapshot, world.scenario, world.settings, world.timing)
    simulated = without_repeated_zone_states(simulated_facts(*parts))
    naive = without_repeated_zone_states(naive_facts(*parts))
    assert simulated == naive, "\n".join(["", *difference(simulated, naive), "", repr(world)])


@settings(max_examples=DEFAULT_EXAMPLES, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_simulation_and_naive_model_agree(world: World) -> None:
    agree(world)


@pytest.mark.slow
@settings(
    max_examples=DEEP_EXAMPLES,
    derandomize=False,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(worlds())
def test_simulation_and_naive_model_agree_on_many_more_worlds(world: World) -> None:
    agree(world)
