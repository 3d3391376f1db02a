"""One rate-limited queue per zone, and the loop that serves them every 100 ms.

Upstream: ``zoneNoExecuteTainter`` / ``zonePodEvictor`` and ``doNoExecuteTaintingPass`` /
``doEvictionPass``. A pass that no queue can use is not run: a refused
``TryAccept`` changes nothing, and an empty queue takes no token. What is skipped is therefore exactly
what has no effect.
"""

from __future__ import annotations

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import NodeQueued, QueueOperation, Told
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import (
    NeverRateLimiter,
    TokenBucketRateLimiter,
)
from kubectl_evictplan.controllers.node_lifecycle.rate_limited_timed_queue import (
    ActionFunc,
    RateLimitedTimedQueue,
    mark_for_tainting,
)
from kubectl_evictplan.engine.event_queue import Priority, ScheduledCall
from kubectl_evictplan.engine.loop_grid import LoopGrid
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.topology import zone_display_name


class ZoneQueues:
    """The queues of all zones. ``process`` is set by the controller: what a pass does with a node."""

    def __init__(
        self,
        state: ClusterState,
        configuration: ControllerConfiguration,
        timing: Timing,
        grid: LoopGrid,
        ticks: LoopGrid,
    ) -> None:
        self._state = state
        self._ticks = ticks
        # The newest tick that had something to do; set when it begins.
        self.ticked_ns: int | None = None
        self._configuration = configuration
        self._serves = timing.serves_queues
        self._grid = grid
        self._queues: dict[str, RateLimitedTimedQueue] = {}
        self._call: ScheduledCall | None = None
        self._stopped = False
        # Nodes that wait or were served since they were last reachable: one timeline entry per wait.
        self._announced: dict[str, str] = {}
        self.process: ActionFunc | None = None

    def latest_tick_ns(self) -> int:
        """Instant of the newest monitor tick that has begun."""
        now_ns = self._state.events.now_ns
        return now_ns if now_ns == self.ticked_ns else self._tick_before_ns(now_ns)

    def _tick_before_ns(self, at_ns: int) -> int:
        tick_ns = self._ticks.before(at_ns)
        return self._ticks.first_ns if tick_ns is None else tick_ns

    def create(self, zone: str) -> None:
        """A new queue with a full bucket; the old one, its entries and its debt are dropped."""
        self.record(Told.CREATED, zone)
        for name in [name for name, where in self._announced.items() if where == zone]:
            self.forget_wait(name)
        limiter = TokenBucketRateLimiter(
            self._configuration.node_eviction_rate_qps,
            rate_zero_accepts=self._configuration.profile.rate_zero_accepts,
        )
        self._queues[zone] = RateLimitedTimedQueue(limiter)

    def stop(self) -> None:
        """The process ends."""
        self._stopped = True
        self.record(Told.STOPPED)
        if self._call is not None:
            self._call.cancel()

    def record(
        self,
        told: Told,
        zone: str = "",
        name: str = "",
        *,
        qps: float = 0.0,
        status: str | None = None,
    ) -> None:
        """Note what the queues are told, for replays in another order of service."""
        self._state.timeline.queue_log.append(
            QueueOperation(self._state.offset_ns, told, zone, name, qps, status)
        )

    def is_known(self, zone: str, name: str) -> bool:
        """Whether the name is in the zone's set (waiting or already processed)."""
        queue = self._queues.get(zone)
        return queue is not None and name in queue.known

    def spend_tokens(self) -> None:
        """Take the token of every zone: somebody was served right before the start."""
        for zone, queue in self._queues.items():
            self.record(Told.SPENT, zone)
            queue.limiter.try_accept(self._state.events.now_ns)

    def rate_of(self, zone: str) -> float:
        """Nodes per second that the zone's limiter lets through now."""
        queue = self._queues.get(zone)
        if queue is None or isinstance(queue.limiter, NeverRateLimiter):
            return 0.0
        return queue.limiter.qps

    def mark(
        self, zone: str, name: str, mode: str, *, lacks_taint: bool, because: tuple[int, ...]
    ) -> None:
        """``markNodeForTainting``; a wait is told once."""
        now_ns = self._state.events.now_ns
        queue = self._queues[zone]
        last_tick_ns = self._tick_before_ns(now_ns)
        if mark_for_tainting(queue, mode, name, now_ns, last_tick_ns, lacks_taint=lacks_taint):
            if name not in self._announced:
                self._announced[name] = zone
                queued = NodeQueued(self._state.offset_ns, because, name, zone_display_name(zone))
                self._state.node_causes[name] = (self._state.timeline.append(queued),)
            self._plan_pass()

    def remove(self, zone: str, name: str) -> bool:
        """Take a node out of its zone's line and memory."""
        queue = self._queues.get(zone)
        return queue is not None and queue.remove(name)

    def mark_served(self, zone: str, name: str) -> None:
        """A warm start: the node was served before, its name is in the zone's set."""
        queue = self._queues.get(zone)
        if queue is not None:
            queue.known.add(name)
            self.record(Told.TAINTED_BEFORE, zone, name)

    def forget_wait(self, name: str) -> None:
        """The node is reachable again: a later wait is a new one."""
        self._announced.pop(name, None)

    def retire(self, zone: str, name: str) -> None:
        """No tick inserts the waiting node again, from this one on."""
        queue = self._queues.get(zone)
        if queue is not None:
            if queue.retire(name, self._tick_before_ns(self._state.events.now_ns)):
                self.record(Told.RETIRED, zone, name)

    def leave_zone(self, zone: str, name: str) -> None:
        """The node is deleted or moves away; what it has in this queue stays there."""
        self._announced.pop(name, None)
        self.retire(zone, name)

    def swap_limiter(self, zone: str, qps: float) -> None:
        """``SwapLimiter`` of one zone, now."""
        queue = self._queues.get(zone)
        if queue is not None:
            self.record(Told.SWAP, zone, qps=qps)
            queue.swap_limiter(qps, self._state.events.now_ns)
            self._plan_pass()

    # -- the loop -----------------------------------------------------------------------------------

    def _next_pass_ns(self) -> int | None:
        now_ns = self._state.events.now_ns
        soonest: int | None = None
        for queue in self._queues.values():
            if queue:
                ready_ns = queue.limiter.ready_at_ns(now_ns)
                if ready_ns is not None and (soonest is None or ready_ns < soonest):
                    soonest = ready_ns
        if soonest is None:
            return None
        return self._grid.at_or_after(max(soonest, now_ns + 1))

    def _plan_pass(self) -> None:
        at_ns = self._next_pass_ns() if self._serves else None
        if at_ns is None or self._stopped:
            return
        call = self._call
        if call is not None and call.callback is not None:
            if call.at_ns <= at_ns:
                return
            call.cancel()
        self._call = self._state.events.schedule(at_ns, Priority.EVICTION_PASS, self._loop)

    def run_pass_inside_tick(self) -> None:
        """A pass that happens to fall between the node steps and the zone logic of a tick."""
        self.record(Told.MID_TICK)
        self.run_pass()

    def _loop(self) -> None:
        self.run_pass()
        self._plan_pass()

    def run_pass(self) -> None:
        """One pass over the queues of all zones, in sorted order."""
        if self._stopped or not self._serves:
            return
        assert self.process is not None, "the controller says what a pass does"
        now_ns, latest_tick_ns = self._state.events.now_ns, self.latest_tick_ns()
        for zone in sorted(self._queues):
            self._queues[zone].try_pass(now_ns, latest_tick_ns, self.process)
