"""When a waiting node can be served, over every order in which its zone may serve them.

On a real cluster the order among waiting nodes is random (spec node-lifecycle 2.5, 5.2). Which nodes
wait, and when the limiter changes, does not depend on that order: health is not influenced by taints. So
one run of the controller gives the *operations* of a zone's queue, and this module replays only the queue,
in the orders that matter:

* Nodes that become eligible and leave at the same instants are interchangeable: one *class*. Whatever
  place one of them can get, each of them can get.
* A class is served earliest when it always goes first, and latest when it always goes last while the
  others are served in the order in which they would leave (which keeps the line busy for longest).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kubectl_evictplan.cluster.timeline import QueueOperation
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    RateLimiter,
    TokenBucketRateLimiter,
)
from kubectl_evictplan.controllers.node_lifecycle.rate_limited_timed_queue import (
    RateLimitedTimedQueue,
)

_NEVER_NS = 2**62
# Replaying costs (classes x episodes); beyond this the windows are taken without replaying per class.
_REPLAY_COST_MAX = 30_000


class Episode(NamedTuple):
    """One wait of one node: from eligible to leave, and when its token would be wasted."""

    name: str
    eligible_ns: int
    leave_ns: int
    # From here on the node is ready (or deleted) although it still waits: serving it wastes a token.
    useless_ns: int
    retired_ns: int

    @property
    def group(self) -> tuple[int, int, int, int]:
        """Episodes of one group are interchangeable."""
        return self.eligible_ns, self.leave_ns, self.useless_ns, self.retired_ns


class ServiceWindow(NamedTuple):
    """Offsets between which an episode is served; ``certain``: in every order."""

    earliest_ns: int
    latest_ns: int
    certain: bool


class QueueRules(NamedTuple):
    """What a replay needs to know besides the operations."""

    lag_ns: int
    rate_qps: float
    first_in_first_out: bool
    # A service this soon after eligibility wastes its token (stale informer); 0 when it cannot happen.
    stale_ns: int
    end_ns: int
    # The monitor's grid of a process that was running at the start, and its step.
    tick_phase_ns: int = 0
    tick_step_ns: int = 0
    # How long before it was noted as spent the initial token was taken.
    token_age_ns: int = 0
    # Releases that insert a waiting node once more on every tick (spec 8.3).
    inserts_twice: bool = False


def episodes_of(
    operations: Sequence[QueueOperation], useless_from: Callable[[str, int], int]
) -> list[Episode]:
    """Pair eligible and leave operations. ``useless_from(name, eligible_ns)`` as in ``Episode``."""
    open_: dict[str, tuple[int, int]] = {}
    episodes = []

    def close(name: str, leave_ns: int) -> None:
        eligible_ns, retired_ns = open_.pop(name)
        useless_ns = min(useless_from(name, eligible_ns), retired_ns)
        episodes.append(Episode(name, eligible_ns, leave_ns, useless_ns, retired_ns))

    for operation in operations:
        if operation.what == "eligible":
            open_[operation.name] = (operation.at_ns, _NEVER_NS)
        elif operation.what == "leave" and operation.name in open_:
            close(operation.name, operation.at_ns)
        elif operation.what == "retired" and operation.name in open_:
            open_[operation.name] = (open_[operation.name][0], operation.at_ns)
        elif operation.what == "stopped":
            for name in list(open_):
                close(name, operation.at_ns)
    for name in list(open_):
        close(name, _NEVER_NS)
    return episodes


def service_windows(
    operations: Sequence[QueueOperation], episodes: Sequence[Episode], rules: QueueRules
) -> dict[Episode, ServiceWindow | None]:
    """For every episode of one zone its window over all orders; None when it is never served."""
    groups: dict[tuple[int, ...], list[Episode]] = {}
    for episode in episodes:
        groups.setdefault(episode.group, []).append(episode)
    if len(groups) * len(episodes) > _REPLAY_COST_MAX:
        return _coarse_windows(operations, episodes, rules)
    windows: dict[Episode, ServiceWindow | None] = {}
    replay = _DuplicatingReplay if rules.inserts_twice else _Replay
    for group, members in groups.items():
        plays = [
            replay(operations, episodes, rules, favour=group, first=first).run()
            for first in ((True, False) if len(groups) > 1 else (True,))
        ]
        served = [play[member] for play in plays for member in members if member in play]
        certain = all(member in play for play in plays for member in members)
        window = ServiceWindow(min(served), max(served), certain) if served else None
        for member in members:
            windows[member] = window
    return windows


def _coarse_windows(
    operations: Sequence[QueueOperation], episodes: Sequence[Episode], rules: QueueRules
) -> dict[Episode, ServiceWindow | None]:
    """Sound but wider: any service between eligible and leave may be this node's."""
    replay = _DuplicatingReplay if rules.inserts_twice else _Replay
    play = replay(operations, episodes, rules, favour=None, first=True).run()
    services = sorted(play.values())
    every_one_stays = all(episode.leave_ns == _NEVER_NS for episode in episodes)
    windows: dict[Episode, ServiceWindow | None] = {}
    for episode in episodes:
        fitting = [at for at in services if episode.eligible_ns <= at < episode.useless_ns]
        certain = every_one_stays and len(services) == len(episodes)
        windows[episode] = ServiceWindow(fitting[0], fitting[-1], certain) if fitting else None
    return windows


class _Replay:
    """One zone's queue with one order of service."""

    def __init__(
        self,
        operations: Sequence[QueueOperation],
        episodes: Sequence[Episode],
        rules: QueueRules,
        *,
        favour: tuple[int, ...] | None,
        first: bool,
    ) -> None:
        self._operations = operations
        self._by_start = {(e.name, e.eligible_ns): e for e in episodes}
        self._rules = rules
        self._favour = favour
        self._first = first
        self._limiter: RateLimiter = TokenBucketRateLimiter(rules.rate_qps)
        self._heap: list[tuple[tuple[int, ...], str, Episode]] = []
        self._waiting: dict[str, Episode] = {}
        self._planned_ns: int | None = None
        self._served: dict[Episode, int] = {}
        # Nodes whose token was wasted by a stale informer, until the next tick queues them again.
        self._put_back: list[tuple[int, Episode]] = []
        self._latest_eligible_ns = -_NEVER_NS

    def run(self) -> Mapping[Episode, int]:
        """Instants at which episodes were tainted."""
        for operation in self._operations:
            self._serve_before(operation.at_ns)
            self._apply(operation)
        self._serve_before(self._rules.end_ns + 1)
        return self._served

    def _serve_before(self, limit_ns: int) -> None:
        # A pass at the very instant of a tick runs before it.
        while True:
            back_ns = self._put_back[0][0] if self._put_back else limit_ns + 1
            planned_ns = self._planned_ns
            if planned_ns is not None and planned_ns <= min(limit_ns, back_ns):
                self._planned_ns = None
                if planned_ns > self._rules.end_ns:
                    return
                self._pass(planned_ns)
                self._plan(planned_ns)
            elif back_ns <= limit_ns:
                _, episode = heapq.heappop(self._put_back)
                self._wait(episode, back_ns)
            else:
                return

    def _has_entries(self) -> bool:
        return bool(self._waiting)

    def _plan(self, now_ns: int) -> None:
        if not self._has_entries():
            return
        ready_ns = self._limiter.ready_at_ns(now_ns)
        if ready_ns is not None:
            at_ns = max(ready_ns, now_ns) + self._rules.lag_ns + 2
            if self._planned_ns is None or at_ns < self._planned_ns:
                self._planned_ns = at_ns

    def _apply(self, operation: QueueOperation) -> None:
        now_ns, name = operation.at_ns, operation.name
        match operation.what:
            case "created":
                self._limiter = TokenBucketRateLimiter(self._rules.rate_qps)
                self._waiting.clear()
                self._heap.clear()
            case "stopped":
                self._waiting.clear()
                self._planned_ns = None
            case "spent":
                self._limiter.try_accept(now_ns - self._rules.token_age_ns)
            case "swap":
                carrier = RateLimitedTimedQueue(self._limiter)
                carrier.swap_limiter(operation.qps, now_ns)
                self._limiter = carrier.limiter
                self._planned_ns = None
                self._plan(now_ns)
            case "eligible":
                self._latest_eligible_ns = now_ns
                self._wait(self._by_start[(name, now_ns)], now_ns)
            case "leave":
                self._waiting.pop(name, None)
                self._put_back = [item for item in self._put_back if item[1].name != name]
            case "retired":
                if name in self._waiting:
                    heapq.heappush(self._heap, ((-1,), name, self._waiting[name]))
            case "pass":
                self._pass(now_ns)
                self._plan(now_ns)

    def _wait(self, episode: Episode, now_ns: int) -> None:
        self._waiting[episode.name] = episode
        heapq.heappush(self._heap, (self._order(episode), episode.name, episode))
        self._plan(now_ns)

    def _next_tick_after(self, at_ns: int) -> int:
        phase_ns, step_ns = self._rules.tick_phase_ns, self._rules.tick_step_ns
        return phase_ns + ((at_ns - phase_ns) // step_ns + 1) * step_ns

    def _order(self, episode: Episode) -> tuple[int, ...]:
        rank = 1
        if self._favour is not None and episode.group == self._favour:
            rank = 0 if self._first else 2
        arrival_ns = episode.eligible_ns if self._rules.first_in_first_out else 0
        return arrival_ns, rank, min(episode.leave_ns, episode.useless_ns)

    def _head(self) -> Episode | None:
        while self._heap:
            episode = self._heap[0][2]
            if self._waiting.get(episode.name) == episode:
                return episode
            heapq.heappop(self._heap)
        return None

    def _wasted_on(self, head: Episode, now_ns: int) -> Episode | None:
        """The node on which a stale informer wastes the token; for latest instants any fresh one."""
        since_ns = now_ns - self._rules.stale_ns
        if not self._rules.stale_ns or self._latest_eligible_ns <= since_ns:
            return None
        if head.eligible_ns > since_ns or self._first:
            return head if head.eligible_ns > since_ns else None
        return next((e for e in self._waiting.values() if e.eligible_ns > since_ns), None)

    def _pass(self, now_ns: int) -> None:
        episode = self._head()
        while episode is not None and self._limiter.try_accept(now_ns):
            wasted = self._wasted_on(episode, now_ns)
            if wasted is not None:
                del self._waiting[wasted.name]
                heapq.heappush(self._put_back, (self._next_tick_after(now_ns), wasted))
                return  # wasted: the next tick queues the node again
            heapq.heappop(self._heap)
            del self._waiting[episode.name]
            if now_ns < episode.useless_ns:
                self._served[episode] = now_ns
            episode = self._head()


class _DuplicatingReplay(_Replay):
    """The queue of 1.19.0-8 and 1.20.0-4, literally (spec node-lifecycle 8.3).

    Every tick inserts every waiting node once more. Later entries of a node that is tainted already cost
    a token each; entries of a node that left are never removed and cost every token.
    """

    def __init__(
        self,
        operations: Sequence[QueueOperation],
        episodes: Sequence[Episode],
        rules: QueueRules,
        *,
        favour: tuple[int, ...] | None,
        first: bool,
    ) -> None:
        super().__init__(operations, episodes, rules, favour=favour, first=first)
        self._known: set[str] = set()
        # (instant of insertion, place among equals, serial, name)
        self._lines: list[tuple[int, tuple[int, ...], int, str]] = []
        self._serial = 0
        self._next_tick_ns = rules.tick_phase_ns

    def _serve_before(self, limit_ns: int) -> None:
        step_ns, end_ns = self._rules.tick_step_ns, self._rules.end_ns
        while True:
            pass_ns = self._planned_ns
            if limit_ns > end_ns and (not self._waiting or pass_ns is None):
                return  # nothing is left that could be served
            if not self._waiting:
                until_ns = limit_ns if pass_ns is None else min(limit_ns, pass_ns)
                if until_ns > self._next_tick_ns:
                    self._next_tick_ns += -(-(until_ns - self._next_tick_ns) // step_ns) * step_ns
            if pass_ns is not None and pass_ns <= min(limit_ns, self._next_tick_ns):
                self._planned_ns = None
                if pass_ns > end_ns:
                    return
                self._pass(pass_ns)
                self._plan(pass_ns)
            elif self._next_tick_ns < min(limit_ns, end_ns + 1):
                self._tick(self._next_tick_ns)
                self._next_tick_ns += step_ns
            else:
                return

    def _tick(self, now_ns: int) -> None:
        for episode in self._waiting.values():
            if episode.eligible_ns < now_ns:
                self._insert(episode, now_ns)

    def _insert(self, episode: Episode, at_ns: int) -> None:
        self._serial += 1
        self._known.add(episode.name)
        _, *place = self._order(episode)
        heapq.heappush(self._lines, (at_ns, tuple(place), self._serial, episode.name))

    def _has_entries(self) -> bool:
        return bool(self._lines)

    def _wait(self, episode: Episode, now_ns: int) -> None:
        self._waiting[episode.name] = episode
        self._insert(episode, now_ns)
        self._plan(now_ns)

    def _apply(self, operation: QueueOperation) -> None:
        now_ns, name = operation.at_ns, operation.name
        match operation.what:
            case "created" | "stopped":
                super()._apply(operation)
                self._lines.clear()
                self._known.clear()
                if operation.what == "created" and now_ns > 0:
                    self._next_tick_ns = now_ns
            case "leave":
                self._waiting.pop(name, None)
                if name in self._known:
                    self._known.discard(name)
                    self._drop(name)
            case "retired":
                self._waiting.pop(name, None)  # its entries stay and cost their tokens
            case _:
                super()._apply(operation)

    def _drop(self, name: str) -> None:
        first = min((line for line in self._lines if line[3] == name), default=None)
        if first is not None:
            self._lines.remove(first)
            heapq.heapify(self._lines)

    def _pass(self, now_ns: int) -> None:
        while self._lines and self._limiter.try_accept(now_ns):
            name = self._lines[0][3]
            episode = self._waiting.get(name)
            if episode is not None and now_ns < episode.useless_ns:
                self._served[episode] = now_ns
                del self._waiting[name]
            if name in self._known:
                heapq.heappop(self._lines)
