"""What others cost a process on its nodes: the dearest of its budgets, one for each node, and that of a pod besides."""

from __future__ import annotations

import random
from heapq import nlargest

from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.prices import Prices
from kubectl_evictplan.windows.drains.tasks import Contest


def contest(place: int, budgets: set[int], settles_ns: int, *, one_by_one: bool) -> Contest:
    drain = NodeDrain(0, place, f"n{place}")
    none: frozenset[None] = frozenset()
    places = frozenset(budgets)
    return Contest(drain, (), (), (), 0, 0, places, one_by_one, none, settles_ns)


def test_a_pod_adds_its_own_budget_to_the_dearest_of_all_others() -> None:
    rng = random.Random(7)
    for _ in range(300):
        one_by_one = rng.random() < 0.2
        contests = [
            contest(
                place,
                set(rng.sample(range(6), rng.randint(0, 4))),
                rng.randint(0, 3),
                one_by_one=one_by_one,
            )
            for place in range(rng.randint(0, 5))
        ]
        last = contest(9, set(), rng.randint(0, 3), one_by_one=one_by_one)
        price = [rng.randint(0, 4) for _ in range(6)]
        prices = Prices(
            lambda place, _, first, of=price: of[place] + first.place, contests, last.drain
        )
        firsts = {
            place: min(one.drain.place for one in contests if place in one.places)
            for place in {place for one in contests for place in one.places}
        }
        costs = {place: price[place] + first for place, first in firsts.items()}
        waits = len(costs) if one_by_one else sum(bool(one.places) for one in contests)
        settles_ns = max((one.settles_ns for one in contests), default=0)
        assert prices.dearest_ns == settles_ns + sum(nlargest(waits, costs.values()))
        for place in range(6):
            others = [cost for other, cost in costs.items() if other != place]
            own = price[place] + firsts.get(place, last.drain.place)
            expected = max(settles_ns, last.settles_ns) + own + sum(nlargest(waits, others))
            assert prices.with_pod_ns(last, place) == expected
