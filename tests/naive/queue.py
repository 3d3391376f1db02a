"""One zone's queue and its token bucket, over a list and a set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from naive.profile import SECOND, float32


class Bucket:
    """A token bucket of burst 1 that is full when made; rate None is the Never limiter."""

    def __init__(self, rate: float | None, zero_accepts: bool = False) -> None:
        self.rate = rate
        self.zero_accepts = zero_accepts
        self.tokens = 1.0
        self.last: int | None = None

    def qps(self) -> float:
        return 1.0 if self.rate is None else self.rate

    def try_accept(self, now: int) -> bool:
        if self.rate is None:
            return False
        if self.rate == 0 and self.zero_accepts:
            return True
        elapsed = 0 if self.last is None else now - self.last
        seconds = float(elapsed // SECOND) + float(elapsed % SECOND) / 1e9
        tokens = min(1.0, self.tokens + (seconds * self.rate if self.rate > 0 else 0.0)) - 1.0
        if tokens < 0:
            if self.rate <= 0:
                return False
            if int(1e9 * (-tokens / self.rate)) > 0:
                return False
        self.tokens = tokens
        self.last = now
        return True


Try = Callable[[str], tuple[bool, int]]
Stamp = tuple[int, int]
Item = dict[str, Any]


class GoHeap:
    """Go's container/heap over a list: which duplicate comes first depends on its array order."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def _swap(self, i: int, j: int) -> None:
        self.items[i], self.items[j] = self.items[j], self.items[i]

    def _up(self, j: int) -> None:
        while j > 0 and self.items[j]["at"] < self.items[(j - 1) // 2]["at"]:
            self._swap(j, (j - 1) // 2)
            j = (j - 1) // 2

    def _down(self, i: int, size: int) -> bool:
        start = i
        while 2 * i + 1 < size:
            child = 2 * i + 1
            if child + 1 < size and self.items[child + 1]["at"] < self.items[child]["at"]:
                child += 1
            if not self.items[child]["at"] < self.items[i]["at"]:
                break
            self._swap(i, child)
            i = child
        return i > start

    def push(self, item: Item) -> None:
        self.items.append(item)
        self._up(len(self.items) - 1)

    def remove_first(self, name: str) -> bool:
        """Remove the first entry of that name in array order (``heap.Remove``)."""
        for i, item in enumerate(self.items):
            if item["name"] != name:
                continue
            last = len(self.items) - 1
            if i != last:
                self._swap(i, last)
                if not self._down(i, last):
                    self._up(i)
            self.items.pop()
            return True
        return False


class ZoneQueue:
    """``set`` outlives heap membership: a processed name stays in it."""

    def __init__(self, rate: float, zero_accepts: bool) -> None:
        self.heap = GoHeap()
        self.set: set[str] = set()
        self.bucket = Bucket(float32(rate), zero_accepts)

    def add(self, name: str, stamp: Stamp) -> None:
        if name not in self.set:
            self.heap.push({"name": name, "at": stamp})
            self.set.add(name)

    def remove(self, name: str) -> bool:
        if name not in self.set:
            return False
        self.set.discard(name)
        self.heap.remove_first(name)
        return True

    def set_remove(self, name: str) -> None:
        self.set.discard(name)

    def remove_from_queue(self, name: str) -> None:
        if name in self.set:
            self.heap.remove_first(name)

    def replace(self, name: str, at: Stamp) -> None:
        if self.heap.remove_first(name):
            self.heap.push({"name": name, "at": at})

    def try_all(self, stamp: Stamp, fn: Try) -> None:
        """``Try``: hand waiting items to ``fn`` while tokens last."""
        while self.heap.items:
            item = self.heap.items[0]
            if not self.bucket.try_accept(stamp[0]):
                return
            if stamp < item["at"]:
                return
            done, wait = fn(item["name"])
            if done:
                self.remove_from_queue(item["name"])
            else:
                self.replace(item["name"], (stamp[0] + wait + 1, stamp[1]))
            if self.heap.items and self.heap.items[0] is item:
                return  # a duplicate that nothing removes; upstream tries it for ever while it may

    def swap_limiter(self, rate: float, now: int) -> None:
        if self.bucket.qps() == float32(rate):
            return
        if rate <= 0:
            self.bucket = Bucket(None)
            return
        fresh = Bucket(float32(rate))
        if not self.bucket.try_accept(now):
            fresh.try_accept(now)
        self.bucket = fresh
