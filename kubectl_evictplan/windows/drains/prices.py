"""What others cost a process on some of its nodes: each of their budgets once, however often it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from kubectl_evictplan.windows.drains.instants import NodeDrain
from kubectl_evictplan.windows.drains.tasks import Contest


class Prices:
    """Of the nodes of ``contests``, until the process is through with that of ``drain``; ``once_ns``: as that of ``Progress``."""

    def __init__(
        self,
        once_ns: Callable[[int, NodeDrain, NodeDrain], int],
        contests: Sequence[Contest],
        drain: NodeDrain,
    ) -> None:
        self._once_ns = once_ns
        self._drain = drain
        self._settles_ns = max((one.settles_ns for one in contests), default=0)
        # By budget the first node on which it is asked.
        self._firsts = {place: one.drain for one in reversed(contests) for place in one.places}
        # On each node it is one pod that kubectl waits for last.
        self._waits = min(sum(1 for one in contests if one.places), len(self._firsts))
        if any(one.one_by_one for one in contests):
            self._waits = len(self._firsts)

    @cached_property
    def dearest_ns(self) -> int:
        """What they cost at most."""
        return self._settles_ns + sum(self._falling[: self._waits])

    def with_pod_ns(self, last: Contest, place: int) -> int:
        """The same with one more pod, of the node ``last``, that asks the budget at that place."""
        price_ns = self._prices.get(place)
        own_ns = price_ns
        if own_ns is None:
            own_ns = self._once_ns(place, self._drain, self._drain)
        own_ns += max(self._settles_ns, last.settles_ns)
        others_ns = self.dearest_ns - self._settles_ns
        if price_ns is not None and price_ns >= self._falling[self._waits - 1]:
            # It is among the dearest, and another one comes in its place.
            others_ns += sum(self._falling[self._waits : self._waits + 1]) - price_ns
        return own_ns + others_ns

    @cached_property
    def _prices(self) -> dict[int, int]:
        return {
            place: self._once_ns(place, self._drain, first) for place, first in self._firsts.items()
        }

    @cached_property
    def _falling(self) -> list[int]:
        return sorted(self._prices.values(), reverse=True)
