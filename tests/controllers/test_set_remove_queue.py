"""The line of 1.19.0-8 and 1.20.0-4: every tick puts another entry of a waiting node in it.

Held against a line that is told every tick of every node, as upstream's is (``naive.queue``).
"""

from __future__ import annotations

import random

import pytest
from naive.queue import ZoneQueue

from kubectl_evictplan.controllers.node_lifecycle.set_remove_queue import SetRemoveQueue
from kubectl_evictplan.engine.event_queue import LoopGrid

STEP = 10
NAMES = ("a", "b", "c", "d")


class BothLines:
    """One zone; a tick every ``STEP`` from 0 on, a pass just after some of them. A token a pass: nobody waits for one."""

    def __init__(self) -> None:
        ticks = LoopGrid(0, STEP, unbounded=False)
        self.ours = SetRemoveQueue(1e9, rate_zero_accepts=False, ticks=ticks)
        self.upstream = ZoneQueue(1e9, zero_accepts=False)
        self.not_ready: set[str] = set()
        self.tainted: set[str] = set()
        # Ticks of our monitor look only at nodes to which something has happened.
        self.looked_at: set[str] = set()
        self.taken: list[str] = []

    def change(self, name: str) -> None:
        """The node gets ready, or not ready."""
        self.not_ready ^= {name}
        self.looked_at.add(name)

    def tick(self, now: int) -> None:
        for name in sorted(NAMES):
            if name in self.not_ready:
                lacks_taint = name not in self.tainted
                if lacks_taint:
                    self.upstream.set_remove(name)
                self.upstream.add(name, (now, NAMES.index(name)))
                if name in self.looked_at:
                    given = name, "SETREMOVE", now, now - STEP
                    self.ours.mark(*given, lacks_taint=lacks_taint)
            else:
                self.tainted.discard(name)
                self.upstream.remove(name)
                if name in self.looked_at:
                    self.ours.reachable(name, now, walked=False)
        self.looked_at.clear()

    def take_back_all(self, now: int) -> None:
        """The tick that has just walked all nodes finds all zones down."""
        for name in sorted(NAMES):
            self.tainted.discard(name)
            self.upstream.remove(name)
            self.ours.reachable(name, now, walked=True)
        self.looked_at |= self.not_ready

    def serve(self, now: int, tick: int) -> None:
        """A pass: whom it takes has to be the same."""
        told: list[str] = []
        # One head only: an entry whose name is forgotten stays, and is taken for ever.
        if self.upstream.heap.items:
            name = self.upstream.heap.items[0]["name"]
            told.append(name)
            self.upstream.remove_from_queue(name)
        head = self.ours.head(tick)
        assert [head[1]] == told if head else not told
        if told:
            self.ours.try_pass(now, tick, self._process)
            if told[0] in self.not_ready:
                self.tainted.add(told[0])
        assert bool(self.ours) == bool(self.upstream.heap.items)
        self.taken += told

    def _process(self, name: str) -> None:
        self.looked_at.add(name)
        # A token a pass.
        self.ours.limiter.fill(0.0, 1 << 61)  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(150))
def test_passes_take_whom_they_take_where_each_tick_is_told_of_each_node(seed: int) -> None:
    rng, lines = random.Random(seed), BothLines()
    for now in range(0, 60 * STEP, STEP):
        lines.tick(now)
        if rng.random() < 0.05:
            lines.take_back_all(now)
        if rng.random() < 0.5:
            lines.ours.limiter.fill(1.0, now)  # type: ignore[union-attr]
            lines.serve(now + 1, now)
        for name in NAMES:
            if rng.random() < 0.08:
                lines.change(name)
    assert len(lines.taken) > 5


def waiting(number: int, ticks: int) -> SetRemoveQueue:
    """So many nodes wait since the first of so many ticks."""
    queue = SetRemoveQueue(1.0, rate_zero_accepts=False, ticks=LoopGrid(0, STEP, unbounded=False))
    for name in NAMES[:number]:
        assert queue.mark(name, "SETREMOVE", 0, 0, lacks_taint=True)
    for name in NAMES[:number]:
        queue.retire(name, (ticks - 1) * STEP)
    return queue


def test_the_line_counts_an_entry_for_each_tick_of_each_node() -> None:
    assert waiting(3, 7).take_all(100) == 21
    assert waiting(3, 7).take_all(20) == 20


def test_nobody_counts_the_entries_of_a_node_that_still_waits() -> None:
    queue = waiting(0, 0)
    queue.mark("a", "SETREMOVE", 0, 0, lacks_taint=True)
    assert queue.take_all(100) is None


def test_nobody_counts_entries_that_stay_for_ever() -> None:
    queue = waiting(2, 5)
    queue.reachable("a", 5 * STEP, walked=True)
    assert queue.take_all(100) is None


def test_a_node_that_waits_costs_nothing_until_its_turn_comes() -> None:
    queue = waiting(4, 10**12)
    assert queue.head(10**13) == (0, "a")
    assert len(queue._block) == 4


def test_who_was_added_between_two_ticks_is_there_at_once() -> None:
    queue = waiting(0, 0)
    assert queue.mark("a", "SETREMOVE", STEP // 2, 0, lacks_taint=True)
    assert queue.head(0) == (STEP // 2, "a")
