"""How much is tried of one prediction, before it is told by bounds.

Work is counted, never time: so an answer is the same on every machine. A *unit* is about what one operation of a zone's
line costs that is replayed, some microseconds. One budget is for a whole prediction; each part of it, a piece, a zone, a
node's pods, gets a budget out of that of the whole. What is not tried for want of units is said (``missed``): it has its proven
bounds all the same (``outer_bounds``, ``wide_bounds``), so a budget costs width and never truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import TypeVar

_Item = TypeVar("_Item")

# Of one prediction, for lines and pods together: some seconds.
UNITS = 1_200_000
# Where few nodes take part each of their lines is short: more node runs are planned.
_FEW_NODES = 24
# Of simulating the pods of some nodes once, and for each entry of what happened; of looking up what happened before.
SIMULATION, ENTRY, LOOK_UP = 30, 2, 4
# Entries of one node run that fit into the work budget of all of them, which are planned before anything else is tried.
_NODE_RUN_ENTRIES = 24_000
NODE_RUNS_MIN, _NODE_RUNS_MAX = 8, 320
_TIMES_OF_FEW = 2
# Pieces that are planned where they cannot stand for all of them: bounds tell then, whatever they show.
SAMPLED_PIECES_MAX = 24
# Of the pods of some nodes of which bounds tell anyhow.
SAMPLED_UNITS = 3_000


def node_runs_max(entries: int, nodes: int) -> int:
    """How many node runs are planned at most, of so many entries each, in which so many nodes take part."""
    runs = max(NODE_RUNS_MIN, min(_NODE_RUNS_MAX, _NODE_RUN_ENTRIES // max(entries, 1)))
    return runs * _TIMES_OF_FEW if nodes <= _FEW_NODES else runs


class Budget:
    """Units that some part of a prediction may take, which are also those of its ``whole``."""

    def __init__(self, units: int = UNITS, whole: Budget | None = None) -> None:
        self._units = units
        self._whole = whole
        self.left = units

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is to be tried."""
        return self.left <= 0

    def spend(self, units: int) -> None:
        """Note work that was done: the last of it may take more than is left."""
        self.left -= units
        if self._whole is not None:
            self._whole.spend(units)

    def part(self, parts: int) -> Budget:
        """The budget of the next one of so many ``parts`` that are still to come.

        The first half is for whoever asks, so that what fits into it is tried wholly; the other half is shared out evenly,
        and what one does not need goes to those after it.
        """
        return Budget(max(self.left // parts, self.left - self._units // 2, 0), self)

    def nothing(self) -> Budget:
        """A budget without any units: what is done all the same is of this one."""
        return Budget(0, self)

    def of_samples(self) -> Budget:
        """The budget of what bounds tell anyhow, of which a few runs are to show how it may come about."""
        return Budget(max(min(self.left, SAMPLED_UNITS), 0), self)


def spread(items: Sequence[_Item]) -> Iterator[_Item]:
    """All of them, in an order of which every beginning has some from everywhere."""
    number = len(items)
    step = max(int(number * 0.618), 1)
    while gcd(step, number) > 1:
        step += 1
    return (items[place * step % number] for place in range(number))
