"""One rate-limited queue per zone, and the loop that serves them every 100 ms.

Upstream: ``zoneNoExecuteTainter`` / ``zonePodEvictor`` and ``doNoExecuteTaintingPass`` /
``doEvictionPass``. A pass that no queue can use is not run: a refused ``TryAccept`` changes nothing, and
an empty queue takes no token. What is skipped is therefore exactly what has no effect.
"""

from __future__ import annotations

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import NodeQueued, QueueOperation, Told
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.flowcontrol import NeverRateLimiter
from kubectl_evictplan.controllers.node_lifecycle.rate_limited_timed_queue import (
    ActionFunc,
    RateLimitedTimedQueue,
    new_queue,
)
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.engine.event_queue import LoopGrid, Priority, ScheduledCall
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.topology import zone_display_name


class ZoneQueues:
    """The queues of all zones; a node is in the queue of its own."""

    # Set by the controller: what a pass does with a node.
    process: ActionFunc

    def __init__(
        self,
        state: ClusterState,
        configuration: ControllerConfiguration,
        timing: Timing,
        zones: ZoneMembership,
        passes: LoopGrid,
        ticks: LoopGrid,
    ) -> None:
        self._state = state
        self._configuration = configuration
        self._timing = timing
        self._zones = zones
        self._passes = passes
        self._ticks = ticks
        # The newest tick that had something to do; set when it begins.
        self.ticked_ns: int | None = None
        self._queues: dict[str, RateLimitedTimedQueue] = {}
        # The next pass.
        self.call: ScheduledCall | None = None
        # Nodes that wait or were served since they were last reachable: one timeline entry per wait.
        self._announced: dict[str, str] = {}

    def latest_tick_ns(self) -> int:
        """Instant of the newest monitor tick that has begun."""
        now_ns = self._state.now_ns
        return now_ns if now_ns == self.ticked_ns else self._ticks.newest(now_ns)

    def create(self, zone: str) -> None:
        """A new queue with a full bucket; the old one, its entries and its debt are dropped."""
        self.record(Told.CREATED, zone)
        for name in [name for name, where in self._announced.items() if where == zone]:
            del self._announced[name]
        configuration = self._configuration
        self._queues[zone] = new_queue(
            configuration.node_eviction_rate_qps,
            configuration.profile,
            self._ticks,
            taint_mode=configuration.taint_mode,
        )

    def stop(self) -> None:
        """The process ends."""
        self.record(Told.STOPPED)
        if self.call is not None:
            self.call.cancel()

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
        operation = QueueOperation(self._state.offset_ns, told, zone, name, qps, status)
        self._state.timeline.queue_log.append(operation)

    def spend_tokens(self) -> None:
        """Take the token of every zone: somebody was served right before the start."""
        for zone, queue in self._queues.items():
            self.record(Told.SPENT, zone)
            queue.limiter.try_accept(self._state.now_ns)

    def rate_of(self, zone: str) -> float:
        """Nodes per second that the zone's limiter lets through now."""
        queue = self._queues.get(zone)
        if queue is None or isinstance(queue.limiter, NeverRateLimiter):
            return 0.0
        return queue.limiter.qps

    def swap_limiter(self, zone: str, qps: float) -> None:
        """``SwapLimiter`` of one zone, now."""
        queue = self._queues.get(zone)
        if queue is not None:
            self.record(Told.SWAP, zone, qps=qps)
            queue.swap_limiter(qps, self._state.now_ns)
            self._plan_pass()

    # -- one node -----------------------------------------------------------------------------------

    def wanted(self, name: str, status: str | None = None, *, swapped: bool = False) -> None:
        """A tick finds that the node has to be tainted for that Ready status (None: evicted).

        ``swapped``: it turns another taint of the node into that at once, and puts nobody in line.
        """
        told = Told.SWAPPED if swapped else Told.MARK
        self.record(told, self._zones.zone_of(name), name, status=status)

    def mark(
        self, name: str, mode: str, *, lacks_taint: bool, ticked_ns: int | None = None
    ) -> None:
        """``markNodeForTainting``; a wait is told once. ``ticked_ns``: when the tick was that does it, if not now."""
        now_ns, zone = self._state.now_ns, self._zones.zone_of(name)
        last_tick_ns = self._ticks.newest(now_ns)
        queue = self._queues[zone]
        waited = bool(queue)
        at_ns = now_ns if ticked_ns is None else ticked_ns
        if queue.mark(name, mode, at_ns, last_tick_ns, lacks_taint=lacks_taint):
            if name not in self._announced:
                self._announced[name] = zone
                because = self._state.node_causes[name]
                self._state.record_node(NodeQueued, because, name, zone_display_name(zone))
            if not waited:  # else its next pass is planned
                self._plan_pass()

    def mark_served(self, name: str) -> None:
        """A warm start: the node was served before, its name is in the zone's set."""
        zone = self._zones.zone_of(name)
        if zone in self._queues:
            self._queues[zone].known.add(name)
            self.record(Told.TAINTED_BEFORE, zone, name)

    def reachable(self, name: str, *, walked: bool = False) -> None:
        """Take a node out of its zone's line and memory: a later wait is a new one.

        ``walked``: the tick has put in line whoever waits, else those only whose names come first.
        """
        zone = self._zones.zone_of(name)
        self.record(Told.REACHABLE, zone, name)
        if zone in self._queues:
            self._queues[zone].reachable(name, self._state.now_ns, walked=walked)
        self._announced.pop(name, None)

    def retire(self, name: str) -> None:
        """No tick inserts the waiting node again, from this one on."""
        zone = self._zones.zone_of(name)
        queue = self._queues.get(zone)
        if queue is not None and queue.retire(name, self._ticks.newest(self._state.now_ns)):
            self.record(Told.RETIRED, zone, name)

    def leave_zone(self, name: str) -> None:
        """The node is deleted or moves away; what it has in this queue stays there."""
        self._announced.pop(name, None)
        self.retire(name)

    # -- the loop -----------------------------------------------------------------------------------

    def _plan_pass(self) -> None:
        if not self._timing.serves_queues:
            return
        now_ns = self._state.now_ns
        ready = [queue.limiter.ready_at_ns(now_ns) for queue in self._queues.values() if queue]
        soonest_ns = min((at_ns for at_ns in ready if at_ns is not None), default=None)
        if soonest_ns is not None:
            at_ns = self._passes.at_or_after(max(soonest_ns, now_ns + 1))
            self.call = self._state.events.schedule_once(
                self.call, at_ns, Priority.EVICTION_PASS, self._loop
            )

    def run_pass_inside_tick(self) -> None:
        """A pass that happens to fall between the node steps and the zone logic of a tick."""
        self.record(Told.MID_TICK)
        self._run_pass()

    def _loop(self) -> None:
        self._run_pass()
        self._plan_pass()

    def _run_pass(self) -> None:
        """One pass over the queues of all zones, in sorted order."""
        if self._timing.serves_queues:
            now_ns, latest_tick_ns = self._state.now_ns, self.latest_tick_ns()
            for zone in sorted(self._queues):
                self._queues[zone].try_pass(now_ns, latest_tick_ns, self.process)
