"""A process killed at any step, then resumed, leaves what an uninterrupted run leaves."""

from __future__ import annotations

import pytest
from apply.clusters import BENCHES, everything_bench
from apply.crashes import KEEPS, NONE, final, killed_then_resumed, steps_of

# One kill after the other costs too much for every run of the tests.
SAMPLE = 7


def check(name: str, kills: tuple[int, ...], keep: str) -> None:
    make = BENCHES[name]
    whole = make()
    expected = final(whole, whole.apply())

    bench, result = killed_then_resumed(make, kills, KEEPS[keep])

    assert final(bench, result) == expected, (name, kills, keep)
    assert bench.cluster.met_newcomer == 0
    assert all(times <= 2 for times in bench.cluster.evicted.values())
    planned = {one.uid for one in bench.plan.pods}
    assert set(bench.cluster.evicted) <= planned


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("name", BENCHES)
def test_a_run_killed_at_a_sample_of_steps_ends_as_an_uninterrupted_one(
    name: str, keep: str
) -> None:
    offset = list(KEEPS).index(keep)
    for at in range(offset, steps_of(BENCHES[name]), SAMPLE):
        check(name, (at,), keep)


@pytest.mark.slow
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("name", BENCHES)
def test_a_run_killed_at_any_step_ends_as_an_uninterrupted_one(name: str, keep: str) -> None:
    for at in range(steps_of(BENCHES[name])):
        check(name, (at,), keep)


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHES)
def test_a_run_killed_at_any_step_and_while_it_goes_on_ends_the_same(name: str) -> None:
    steps = steps_of(BENCHES[name])
    for first in range(0, steps, 2):
        for second in range(0, steps, 5):
            check(name, (first, second), "none")


def test_steps_are_many_enough_to_prove_something() -> None:
    assert all(steps_of(make) > 30 for make in BENCHES.values())
    assert NONE(b"x") == b""
    assert everything_bench().plan.operations
