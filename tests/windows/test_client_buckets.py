"""No task waits longer for its client's tokens than ``clients.buckets`` says: held against literal runs of a bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from realities.throttled import chains_through

from kubectl_evictplan.controllers.client_limits import ClientLimit
from kubectl_evictplan.windows.clients.buckets import Arrivals, Bucket, line

LIMIT = ClientLimit(20, 30)
EVICTIONS = Bucket(LIMIT, 3, beside=1, others=1)
ONLY_DELETES = Bucket(LIMIT, 1, beside=1, others=1)
ONE_BY_ONE = Bucket(LIMIT, 1, beside=2, others=None)


def waits(
    bucket: Bucket, instants: Sequence[float], random: Random
) -> Iterator[tuple[float, float]]:
    """When tasks come, and how long each takes, in one run."""
    through = chains_through(bucket.limit, instants, bucket.chain, bucket.beside, random)
    for place, at in through:
        yield instants[place], at - instants[place]


def drawn(arrivals: Sequence[Arrivals], nodes: Sequence[int], random: Random) -> list[float]:
    """When tasks of all arrivals come in one run; ``nodes``: of how many nodes each is, one after the other."""
    found = list[float]()
    for one, number in zip(arrivals, nodes, strict=True):
        if not one.rate:
            lots = random.randint(1, 3)
            places = [random.uniform(one.low, one.high) for _ in range(lots)]
            found += [random.choice(places) for _ in range(one.at_once)]
            continue
        apart, at = one.at_once / one.rate, one.low + random.uniform(0, 3)
        for _ in range(number):
            if at > one.high:
                break
            found += [at] * one.at_once
            at += apart + random.choice((0, 0, random.uniform(0, apart)))
    return found


@pytest.mark.parametrize("bucket", [EVICTIONS, ONLY_DELETES])
@pytest.mark.parametrize("seed", range(60))
def test_no_task_waits_longer_than_its_bound(bucket: Bucket, seed: int) -> None:
    random = Random(seed)
    arrivals, nodes = list[Arrivals](), list[int]()
    for _ in range(random.randint(1, 4)):
        low = random.choice((0, random.uniform(0, 60)))
        tasks = random.choice((1, 5, 12, 40, 110))
        if random.random() < 0.5:
            number = random.randint(2, 6)
            one = line(low, low + 10 * number, tasks * number, tasks, 0.1)
            arrivals.append(one)
            nodes.append(number)
        else:
            arrivals.append(Arrivals(low, low + random.choice((0, 5, 30)), tasks))
            nodes.append(1)
    bound = bucket.waits(arrivals)
    for _ in range(5):
        for at, late in waits(bucket, drawn(arrivals, nodes, random), random):
            assert late <= bound.longest(at, at) + 1e-6


@pytest.mark.parametrize(("pods", "late"), [(7, 0), (20, 2.5), (110, 16.65)])
def test_of_pods_that_are_deleted_at_one_instant_the_last_goes_nearly_as_late_as_told(
    pods: int, late: float
) -> None:
    at_once = [Arrivals(0, 0, pods)]
    assert EVICTIONS.waits(at_once).longest(0, 0) == pytest.approx(late)
    longest = max(
        late for seed in range(20) for _, late in waits(EVICTIONS, [0] * pods, Random(seed))
    )
    assert longest > late - 2.5


def test_nodes_of_one_line_wait_for_their_own_pods_only_where_these_are_through_before_the_next() -> (
    None
):
    one = EVICTIONS.waits([Arrivals(0, 0, 30)]).longest(0, 0)
    hour = EVICTIONS.waits([line(0, 3600, 30 * 360, 30, 0.1)]).longest(0, 3600)
    assert one == pytest.approx(4.5)
    assert hour < one + 2


def test_of_two_nodes_in_line_no_third_one_comes_in_between() -> None:
    two = EVICTIONS.waits([line(0, 3600, 60, 30, 0.1)]).longest(0, 3600)
    assert two == EVICTIONS.waits([line(0, 7200, 60, 30, 0.1)]).longest(0, 7200)
    assert EVICTIONS.waits([line(0, 3600, 30, 30, 0.1)]).longest(0, 3600) == pytest.approx(4.5)


def test_what_comes_much_later_makes_nothing_late_now() -> None:
    waits_now = EVICTIONS.waits([Arrivals(40, 45, 8), Arrivals(7200, 7200, 5000)])
    assert waits_now.longest(40, 45) == pytest.approx(0.1)
    assert waits_now.longest(7200, 7200) > 700


def test_who_deletes_one_after_the_other_is_late_by_all_before() -> None:
    assert ONE_BY_ONE.waits([Arrivals(0, 0, 110)]).longest(0, 0) == pytest.approx(15)


def test_more_arrivals_than_are_told_apart_are_late_as_their_neighbours() -> None:
    spread = [Arrivals(100 * place, 100 * place, 20) for place in range(40)]
    longest = EVICTIONS.waits(spread).longest(0, 4000)
    assert EVICTIONS.waits(spread[:1]).longest(0, 0) <= longest < 20
