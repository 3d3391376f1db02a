"""NodeLifecycleController: from silence to a NoExecute taint (or, up to 1.26, to deletion).

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go.

Rules of this file:

* ``monitor_tick`` has the order of ``monitorNodeHealth``: new zones, added, deleted, each node, disruption.
* A tick looks at the nodes that can have changed: ``_attention`` (something was written since the
  last tick, or by it) and ``_deadlines`` (a grace period or an eviction timeout ends). For every other
  node it would change nothing that ``NodeHealthMap`` cannot tell later. tests/naive looks at all.
* Decisions use the copy of a node taken at the beginning of the tick.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from types import MappingProxyType

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    Causes,
    NodeBecameUnknown,
    NodePassedOver,
    PodsMarkedNotReady,
    Told,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.eviction_by_timeout import EvictionByTimeout
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import (
    NoExecuteTainter,
    fell_since,
    put_in_line_from_ns,
)
from kubectl_evictplan.controllers.node_lifecycle.node_health import (
    TRUE,
    UNKNOWN,
    HealthUpdate,
    NodeHealthMap,
    try_update_node_health,
)
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_queues import ZoneQueues
from kubectl_evictplan.controllers.node_lifecycle.zone_states import Transition, ZoneStates
from kubectl_evictplan.engine.event_queue import Priority, ScheduledCall
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import READY, Node, NodeCondition, Pod
from kubectl_evictplan.kube.taints import needs_no_schedule_pass, reconcile_no_schedule

NODE_EVICTION_PERIOD_NS = 100_000_000
# A node that waits alone in a zone that is made anew on every tick surely has its taint after so many.
_IDLE_TICKS = 3


class NodeLifecycle:
    """One process life of the controller. ``stop`` ends it; a restart is a new instance."""

    def __init__(
        self,
        state: ClusterState,
        kubelets: Kubelets,
        configuration: ControllerConfiguration,
        timing: Timing,
        first_tick_ns: int,
        *,
        warm: bool,
        process_start_ns: int | None = None,
        bystanders: Mapping[str, int] = MappingProxyType({}),
        stand_ins: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._state = state
        self._kubelets = kubelets
        self._configuration = configuration
        self._profile = configuration.profile
        self._timing = timing
        self._warm = warm
        self._process_start_ns = process_start_ns
        period_ns, start_ns = configuration.node_monitor_period_ns, state.timeline.start_ns
        self._grid = timing.ticks(first_tick_ns, period_ns, start_ns, warm=warm)
        passes = timing.passes(first_tick_ns, NODE_EVICTION_PERIOD_NS, warm=warm)
        self._zones = ZoneMembership(configuration, bystanders, stand_ins)
        self._queues = ZoneQueues(state, configuration, timing, self._zones, passes, self._grid)
        self._zone_states = ZoneStates(
            state, configuration, self._zones, self._queues, timing.zones_backwards
        )
        self._tainter = NoExecuteTainter(state, self._profile, self._queues, timing)
        self._by_timeout = EvictionByTimeout(state, configuration, self._queues)
        self._queues.process = (
            self._tainter.taint_in_pass
            if configuration.taint_mode
            else self._by_timeout.evict_in_pass
        )
        self._known: set[str] = set()
        self._health = NodeHealthMap(kubelets, self._grid, configuration, process_start_ns)
        self._passed_over: set[str] = set()
        self._attention: set[str] = set()
        self._membership_changed: set[str] = set()
        self._deadlines: list[tuple[int, str]] = []
        self._tick_call: ScheduledCall | None = None
        # Who waits alone in a zone that is made anew on every tick, and in how many ticks on end nothing else was to be looked at.
        self._over_and_over: set[str] = set()
        self._idle_ticks = 0

    # -- life -------------------------------------------------------------------------------------

    def start(self, because: Causes) -> None:
        """Subscribe; a cold start ticks at once, a warm one continues where a long run would be."""
        self._state.watch_nodes(self._node_changed)
        self._state.watch_pods(self._pod_changed)
        self._kubelets.watchers.append(self._look_at)
        for node in self._state.nodes.values():
            self._zones.enter(node)
            self._by_timeout.node_added(node.name)
            if because:
                self._state.node_causes[node.name] += because
        if self._warm:
            self._load_warm()
        else:
            self._queues.record(Told.STARTED)
            self._tell_what_no_process_saw()
            self._membership_changed.update(self._state.nodes)
            self._attention.update(self._state.nodes)
            self._schedule_tick(self._grid.first_ns)
        for node in list(self._state.nodes.values()):
            if needs_no_schedule_pass(node):
                self._do_no_schedule_tainting_pass(node)

    def stop(self) -> None:
        """The process ends: nothing of it happens any more, all memory is lost."""
        self._state.unwatch([self._node_changed, self._pod_changed])
        if self._tick_call is not None:
            self._tick_call.cancel()
        self._queues.stop()
        self.let_go()

    def let_go(self) -> None:
        """Nothing of the process is asked for any more: hold nothing that holds it."""
        self._kubelets.watchers.remove(self._look_at)
        del self._queues.process

    def _load_warm(self) -> None:
        """Memory of a controller that has been watching this cluster for long."""
        now_ns = self._state.now_ns
        self._health.load(now_ns, self._timing)
        for name, node in self._state.nodes.items():
            self._known.add(name)
            ready = node.condition(READY)
            self._zones.count(node, ready)
            self._health.assume_steady(name)
            silent = not self._kubelets.is_up(name) or self._may_expire_while_up(name, ready)
            if node.ready_status != TRUE or silent or self._tainter.owns_taint(node):
                self._health.catch_up(name, node, lambda: self._grid.before(now_ns))
                self._attention.add(name)
        self._zone_states.load(dict(self._timing.zone_states))
        for name, node in self._state.nodes.items():
            # In the other mode a taint that is left tells nothing of whom the line has served.
            served = self._tainter.owns_taint(node) and name not in self._timing.still_in_line
            if self._configuration.taint_mode and served:
                self._queues.mark_served(name)
            if node.ready_status != TRUE:
                self._queues.record(Told.STATUS, name=name, status=node.ready_status)
        if not self._timing.initial_token:
            self._queues.spend_tokens()
        newest_tick_ns = self._grid.newest(now_ns)
        if not self._has_emptied_lines(newest_tick_ns):
            for name in sorted(self._attention):
                self._stay_in_line(self._state.nodes[name], newest_tick_ns)
        self._queues.record(Told.LOADED)
        if self._attention or self._zone_states.unsettled:
            self._schedule_tick(self._grid.at_or_after(now_ns))

    def _has_emptied_lines(self, newest_tick_ns: int) -> bool:
        """Whether the newest tick before the start was the first to find all zones down, and took everybody out of line.

        Asked of buckets without a rate, which are not exchanged then and let through whom they can: others let nobody through.
        """
        has_rate = self._configuration.node_eviction_rate_qps > 0
        if has_rate or not self._zone_states.all_full_at_start:
            return False
        before_ns = newest_tick_ns - self._configuration.node_monitor_period_ns
        counted = (node for node in self._state.nodes.values() if not self._zones.is_excluded(node))
        return before_ns < (self._process_start_ns or 0) or any(
            fell_since(node, before_ns, newest_tick_ns) for node in counted
        )

    def _stay_in_line(self, node: Node, newest_tick_ns: int) -> None:
        """A node that the newest tick before the start has put in line is there, and may be served before the next one."""
        ready = node.condition(READY)
        if ready is None or ready.status == TRUE:
            return
        still = node.name in self._timing.still_in_line
        if not self._configuration.taint_mode:
            still |= self._zone_states.all_full_at_start  # then who was evicted is forgotten
            given = node.name, ready.status, self._health[node.name], newest_tick_ns
            self._by_timeout.load(*given, self._timing, may_wait=still)
            return
        if self._tainter.owns_taint(node) and not still:
            return
        late = node.name in self._timing.posted_late
        seen_ns = put_in_line_from_ns(ready, self._profile, late=late) or newest_tick_ns
        if self._process_start_ns is not None:
            seen_ns = max(seen_ns, self._process_start_ns)
        if seen_ns <= newest_tick_ns:
            self._tainter.process(node, ready.status, ticked_ns=newest_tick_ns)

    def _tell_what_no_process_saw(self) -> None:
        """What a pass of a new process would see of nodes, where that is not what was told last."""
        told: dict[str, str | None] = {}
        for operation in self._state.timeline.queue_log:
            if operation.told is Told.STATUS:
                told[operation.name] = operation.status
            elif operation.told is Told.NODE_GONE:
                told.pop(operation.name, None)
        for name, node in self._state.nodes.items():
            if node.ready_status != told.pop(name, TRUE):
                self._queues.record(Told.STATUS, name=name, status=node.ready_status)
        for name in told:
            self._queues.record(Told.NODE_GONE, name=name)

    # -- watching ---------------------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if self._tainter.tainting_in_pass:
            # The next tick would find the wanted taint and the name in the set: nothing to do.
            return
        name = (new or old).name  # type: ignore[union-attr]
        if old is not None:
            self._health.catch_up(name, old, self._queues.latest_tick_ns)
        # What a pass would see of the node, for replays of the queues.
        if new is None:
            self._queues.record(Told.NODE_GONE, name=name)
        elif old is None or (
            old.conditions is not new.conditions and old.ready_status != new.ready_status
        ):
            self._queues.record(Told.STATUS, name=name, status=new.ready_status)
        if new is None:
            self._by_timeout.node_deleted(name)
            self._membership_changed.add(name)
            self._leave_zone(name)
            self._request_tick()
            return
        if old is None:
            self._by_timeout.node_added(name)
            self._membership_changed.add(name)
            self._zones.enter(new)
        elif old.labels is not new.labels and old.labels != new.labels:
            self._change_zone(name, new)
        self._attention.add(name)
        self._request_tick()
        self._do_no_schedule_tainting_pass(new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.node_name:
            return
        if old is not None and old.node_name == new.node_name:
            return
        if self._profile.repeats_deletion:
            self._process_pod(new)
        if not self._configuration.taint_mode:
            self._look_at(new.node_name)

    def _process_pod(self, pod: Pod) -> None:
        """``processPod`` (from 1.16.8 and 1.17 on); what it cannot decide now it drops."""
        node = self._state.nodes.get(pod.node_name)
        if node is None:
            return
        health = self._health.current(node, self._queues.latest_tick_ns())
        if health is None or health.ready is None:
            return
        status = health.ready.status
        if not self._configuration.taint_mode:
            self._by_timeout.process(pod.node_name, status, health, only=pod.key)
        if status != TRUE:
            self._state.mark_pods_not_ready(pod.node_name, only=pod.key)

    def _look_at(self, name: str) -> None:
        """Something about the node is about to change: the next tick looks at it."""
        node = self._state.nodes.get(name)
        if node is not None:
            self._health.catch_up(name, node, self._queues.latest_tick_ns)
            self._attention.add(name)
            self._request_tick()

    def _change_zone(self, name: str, node: Node) -> None:
        if self._zones.zone_key(node) != self._zones.zone_of(name):
            self._leave_zone(name)
            self._zones.enter(node)

    def _leave_zone(self, name: str) -> None:
        self._queues.leave_zone(name)
        self._zones.leave(name)

    def _may_expire_while_up(self, name: str, ready: NodeCondition | None) -> bool:
        """Whether a healthy kubelet renews too slowly for the grace period."""
        configuration = self._configuration
        grace_ns = configuration.node_startup_grace_period_ns
        if ready is not None:
            # From the tick that accepted a Lease to one that judges its age it is a whole number of periods, or more.
            period_ns = configuration.node_monitor_period_ns
            grace_ns = -(-configuration.node_monitor_grace_period_ns // period_ns) * period_ns
        return self._kubelets.renews_slower_than(name, grace_ns)

    # -- ticks ------------------------------------------------------------------------------------

    def _request_tick(self) -> None:
        now_ns, call = self._state.now_ns, self._tick_call
        if call is not None and call.callback is not None:
            if 0 < call.at_ns - now_ns < self._configuration.node_monitor_period_ns:
                return  # no tick comes before that one
        # What changes during or after this instant's tick is seen by the next one.
        self._schedule_tick(
            self._grid.after(now_ns)
            if now_ns == self._queues.ticked_ns
            else self._grid.at_or_after(now_ns)
        )

    def _schedule_tick(self, at_ns: int) -> None:
        self._tick_call = self._state.events.schedule_once(
            self._tick_call, at_ns, Priority.MONITOR_TICK, self.monitor_tick
        )

    def monitor_tick(self) -> None:
        """``monitorNodeHealth``."""
        now_ns = self._queues.ticked_ns = self._state.now_ns
        names, self._attention = self._attention, set()
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            names.add(heapq.heappop(self._deadlines)[1])
        # A pass inside this tick may change nodes that the tick itself does not look at.
        pass_inside = self._timing.mid_tick_pass
        at_start = dict(self._state.nodes) if pass_inside else self._state.nodes
        self._zone_states.create_missing()
        changed, self._membership_changed = self._membership_changed, set()
        added = {name for name in changed if name in self._state.nodes} - self._known
        deleted = {name for name in changed & self._known if name not in self._state.nodes}
        names |= added
        self._idle_ticks = self._idle_ticks + 1 if names and names == self._over_and_over else 0
        copies = {name: self._state.nodes[name] for name in names if name in self._state.nodes}
        for name in sorted(added):
            self._known.add(name)
            if self._configuration.taint_mode:
                self._tainter.mark_reachable(copies[name])
            else:
                self._by_timeout.cancel_eviction(name)
        for name in sorted(deleted):
            self._known.discard(name)
            self._zones.uncount(name)
        for name in sorted(copies):
            self._node_step(copies[name], now_ns)
        if pass_inside:
            self._queues.run_pass_inside_tick()
        self._handle_disruption({**at_start, **copies})
        self._schedule_next(now_ns)

    def _schedule_next(self, now_ns: int) -> None:
        if self._attention or self._zone_states.unsettled or self._membership_changed:
            at_ns = self._grid.after(now_ns)
            if self._idle_ticks >= _IDLE_TICKS and self._attention == self._over_and_over:
                # Ticks that come to the same are left out, but for the one before whatever happens next.
                next_ns = self._next_event_ns()
                if next_ns is None:
                    return
                at_ns = max(at_ns, self._grid.newest(next_ns))
            self._schedule_tick(at_ns)
        elif self._deadlines:
            self._schedule_tick(self._grid.at_or_after(max(self._deadlines[0][0], now_ns + 1)))

    def _next_event_ns(self) -> int | None:
        """When anything happens but ticks and passes of this process."""
        calls = [self._tick_call, self._queues.call]
        next_ns = self._state.events.next_ns(calls)
        due_ns = min((at_ns for at_ns, _ in self._deadlines), default=None)
        return min((each for each in (next_ns, due_ns) if each is not None), default=None)

    def _node_step(self, node: Node, now_ns: int) -> None:
        """One node of one tick; ``node`` is the copy taken at the tick's start."""
        name = node.name
        self._health.catch_up(name, node, lambda: self._grid.before(now_ns))
        update = try_update_node_health(
            node,
            self._health.get(name),
            self._kubelets.lease_at(name, now_ns),
            now_ns,
            self._configuration,
        )
        self._health[name] = update.health
        if update.skipped:
            self._pass_over(name)
            return
        self._passed_over.discard(name)
        if update.conditions is not None:
            self._write_unknown(node, update.conditions)
        self._zones.count(node, update.current)
        if update.current is not None:
            decided = (
                update.current if self._profile.taint_on_current_condition else update.observed
            )
            if self._configuration.taint_mode:
                self._tainter.process(node, decided.status)
            else:
                self._by_timeout.process(name, update.observed.status, update.health)
            if update.current.status != TRUE and update.observed.status == TRUE:
                self._mark_pods_not_ready(name)
        self._look_again(node, update, now_ns)

    def _pass_over(self, name: str) -> None:
        """The lease circuit breaker is open: no decision is made, and its zone does not count it."""
        self._zones.uncount(name)
        self._queues.retire(name)
        if self._kubelets.is_up(name):
            self._attention.add(name)
        if name not in self._passed_over:
            self._passed_over.add(name)
            because = self._state.node_causes[name] + self._kubelets.touch_causes.get(name, ())
            self._state.record_node(NodePassedOver, because, name)

    def _look_again(self, node: Node, update: HealthUpdate, now_ns: int) -> None:
        """When must a tick look at this node next? Writes of this tick have asked for it already."""
        name, current, health = node.name, update.current, update.health
        up = self._kubelets.is_up(name)
        if up:
            settled = self._health.settle(node, now_ns)
        else:
            # A new heartbeat made the controller forget the Lease: the next tick accepts it again.
            lease = self._kubelets.lease_at(name, now_ns)
            settled = (health.lease is None) == (lease is None)
        if not settled:
            self._attention.add(name)
            self._idle_ticks = 0
            return
        if not self._configuration.taint_mode:
            status = current.status if current is not None else None
            deadline_ns = self._by_timeout.deadline_ns(status, health)
            if deadline_ns is not None and deadline_ns > now_ns:
                heapq.heappush(self._deadlines, (self._grid.at_or_after(deadline_ns), name))
        if up and not self._may_expire_while_up(name, current):
            return
        if current is None or current.status != UNKNOWN:
            due_ns = max(health.probe_ns + update.grace_ns, now_ns + 1)
            heapq.heappush(self._deadlines, (self._grid.at_or_after(due_ns), name))

    def _write_unknown(self, node: Node, conditions: tuple[NodeCondition, ...]) -> None:
        state, name = self._state, node.name
        probe_ns = self._health[name].probe_ns - state.timeline.start_ns
        state.record_node(NodeBecameUnknown, state.node_causes[name], name, probe_ns)
        self._tainter.unknown_written(node)
        state.update_node_conditions(name, conditions)

    def _mark_pods_not_ready(self, name: str) -> None:
        count = self._state.mark_pods_not_ready(name)
        if count:
            self._state.record(PodsMarkedNotReady, self._state.node_causes[name], name, count)

    # -- zones ------------------------------------------------------------------------------------

    def _handle_disruption(self, at_start: dict[str, Node]) -> None:
        """``handleDisruption``: zones and limiters, and what a transition means for the nodes."""
        transition = self._zone_states.handle_disruption()
        if transition is Transition.ENTER:
            self._untaint_all(at_start)
            self._zone_states.enter_master_disruption()
        elif transition is Transition.EXIT:
            names = [name for name in self._state.nodes if self._health.get(name) is not None]
            self._health.restart_all_probes(names, self._state.now_ns)
            self._attention.update(names)
        # Zones without a counted node are made anew on every tick: who waits there is queued again.
        uncounted = [z for z in self._zones.populated() if z not in self._zone_states]
        if uncounted:
            waiting = [n for n in self._not_ready_nodes() if self._zones.zone_of(n) in uncounted]
            self._attention.update(waiting)
            # Each has a token of its own on every tick: after two it has its taint. Of several in a zone nobody knows who is served.
            comes_to_the_same = not self._timing.serves_queues or self._zones.are_apart(waiting)
            self._over_and_over = set(waiting) if comes_to_the_same else set()

    def _not_ready_nodes(self) -> list[str]:
        """Nodes that the next tick must queue again because the line they stood in is gone."""
        return [name for name, node in self._state.nodes.items() if node.ready_status != TRUE]

    def _untaint_all(self, at_start: dict[str, Node]) -> None:
        # Upstream clears with the copies from the start of the tick: a taint that a pass wrote
        # meanwhile stays.
        for name, node in sorted(at_start.items()):
            if name not in self._state.nodes:
                continue
            if self._configuration.taint_mode:
                self._tainter.mark_reachable(node, walked=True)
            else:
                self._by_timeout.cancel_eviction(name)
        # Nodes that waited are queued again on the next tick.
        self._attention.update(self._not_ready_nodes())

    # -- NoSchedule -------------------------------------------------------------------------------

    def _do_no_schedule_tainting_pass(self, node: Node) -> None:
        """``doNoScheduleTaintingPass``: event driven, not rate limited."""
        current = self._state.nodes.get(node.name)
        if current is not None:
            taints = reconcile_no_schedule(current, self._state.now_ns)
            if taints != current.taints:
                self._tainter.patch_taints(node.name, taints, rule="doNoScheduleTaintingPass")
