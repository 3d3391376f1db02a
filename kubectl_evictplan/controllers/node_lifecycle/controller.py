"""NodeLifecycleController: from silence to a NoExecute taint (or, up to 1.26, to deletion).

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go (spec node-lifecycle 3-10).

Rules of this file:

* ``monitor_tick`` has upstream's order: new zones, added, deleted, each node, disruption (spec 4).
* A tick works on the nodes that can have changed: ``_attention`` (something was written, or the
  controller's own memory moved in the last tick) and ``_deadlines`` (a grace period or an eviction timeout ends).
  For every other node the tick would be a no-op; its health is *reconstructed* from its renewals when it
  is needed (``_health_before``). tests/ hold a naive model that does every tick in full.
* Decisions use the copy of a node taken at the beginning of the tick (spec 15, rule 1).
"""

from __future__ import annotations

import heapq

from kubectl_evictplan.cluster.kubelets import Kubelets
from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import (
    NODE_LIFECYCLE,
    NodeBecameUnknown,
    PodsMarkedNotReady,
)
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.eviction_by_timeout import EvictionByTimeout
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import NoExecuteTainter
from kubectl_evictplan.controllers.node_lifecycle.node_health import (
    READY,
    TRUE,
    UNKNOWN,
    NodeHealth,
    try_update_node_health,
)
from kubectl_evictplan.controllers.node_lifecycle.zone_disruption import Transition
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.controllers.node_lifecycle.zone_queues import ZoneQueues
from kubectl_evictplan.controllers.node_lifecycle.zone_states import ZoneStates
from kubectl_evictplan.engine.event_queue import Priority, ScheduledCall
from kubectl_evictplan.engine.loop_grid import LoopGrid
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import Node, NodeCondition, Pod
from kubectl_evictplan.kube.taints import needs_no_schedule_pass, reconcile_no_schedule

NODE_EVICTION_PERIOD_NS = 100_000_000


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
    ) -> None:
        self._state = state
        self._kubelets = kubelets
        self._configuration = configuration
        self._profile = configuration.profile
        self._timing = timing
        self._warm = warm
        self._grid = LoopGrid(
            first_tick_ns,
            configuration.node_monitor_period_ns + timing.monitor_cost_ns,
            unbounded=warm,
        )
        self._first_tick_ns = first_tick_ns
        pass_grid = LoopGrid(
            first_tick_ns + timing.pass_phase_ns,
            NODE_EVICTION_PERIOD_NS + timing.pass_cost_ns,
            unbounded=warm,
        )
        self._zones = ZoneMembership(configuration)
        zone_of = self._zones.zone_of
        self._queues = ZoneQueues(state, configuration, timing, pass_grid, self._latest_tick_ns)
        self._zone_states = ZoneStates(state, configuration, self._queues)
        self._tainter = NoExecuteTainter(state, self._profile, self._queues, zone_of, timing)
        self._by_timeout = EvictionByTimeout(state, configuration, self._queues, zone_of)
        self._queues.process = (
            self._tainter.taint_in_pass
            if configuration.taint_mode
            else self._by_timeout.evict_in_pass
        )
        self._known: set[str] = set()
        self._health: dict[str, NodeHealth] = {}
        # No probe is older: the process began then, or left master disruption (spec 9.3, 10).
        self._probe_floor_ns: int | None = None
        if process_start_ns is not None:
            self._probe_floor_ns = self._grid.at_or_after(process_start_ns)
        # Nodes whose kubelet renews: probe and lease of their health are out of date on purpose.
        self._steady: set[str] = set()
        self._attention: set[str] = set()
        self._membership_changed: set[str] = set()
        self._deadlines: list[tuple[int, str]] = []
        self._tick_call: ScheduledCall | None = None
        self._ticked_ns: int | None = None
        self._stopped = False

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Subscribe; a cold start ticks at once, a warm one continues where a long run would be."""
        self._state.watch_nodes(self._node_changed)
        self._state.watch_pods(self._pod_changed)
        self._kubelets.watchers.append(self._kubelet_changes)
        for node in self._state.nodes.values():
            self._zones.enter(node)
            self._by_timeout.node_added(node.name)
        if self._warm:
            self._load_warm()
        else:
            self._membership_changed.update(self._state.nodes)
            self._attention.update(self._state.nodes)
            self._schedule_tick(self._first_tick_ns)
        for node in list(self._state.nodes.values()):
            if needs_no_schedule_pass(node):
                self._do_no_schedule_tainting_pass(node)

    def stop(self) -> None:
        """The process ends: nothing of it happens any more, all memory is lost."""
        self._stopped = True
        self._state.unwatch([self._node_changed, self._pod_changed])
        self._kubelets.watchers.remove(self._kubelet_changes)
        if self._tick_call is not None:
            self._tick_call.cancel()
        self._queues.stop()

    def _load_warm(self) -> None:
        """Memory of a controller that has been watching this cluster for long."""
        for name, node in self._state.nodes.items():
            self._known.add(name)
            ready = node.condition(READY)
            self._zones.count(node, ready)
            steady = self._kubelets.is_up(name) and not self._may_expire_while_up(name)
            is_ready = ready is not None and ready.status == TRUE
            if not is_ready or not steady or self._tainter.owns_taint(node):
                self._remember_health(name, node)
                self._attention.add(name)
        self._zone_states.load(self._zones.populated(), self._zones.counts())
        for name, node in self._state.nodes.items():
            if self._tainter.owns_taint(node):
                self._queues.mark_served(self._zones.zone_of(name), name)
        if not self._timing.initial_token:
            self._queues.spend_tokens()
        if self._attention or self._zone_states.unsettled:
            self._schedule_tick(self._grid.at_or_after(self._state.events.now_ns))

    # -- watching ---------------------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if self._tainter.tainting_in_pass and self._profile.queue_mode != "SETREMOVE":
            # The next tick would find the wanted taint and the name in the set: nothing to do.
            return
        name = (new or old).name  # type: ignore[union-attr]
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
        else:
            self._remember_health(name, old)
            if old.labels is not new.labels and old.labels != new.labels:
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
        if not self._configuration.taint_mode and new.node_name in self._state.nodes:
            self._remember_health(new.node_name, self._state.nodes[new.node_name])
            self._attention.add(new.node_name)
            self._request_tick()

    def _process_pod(self, pod: Pod) -> None:
        """The pod worker (1.17+, spec 5.6); what it cannot decide now it drops."""
        node = self._state.nodes.get(pod.node_name)
        if node is None:
            return
        if pod.node_name in self._steady:
            self._remember_health(pod.node_name, node)
            self._steady.add(pod.node_name)  # only looked at: no tick has to follow
        health = self._health.get(pod.node_name)
        if health is None or health.ready is None:
            return
        status = health.ready.status
        if not self._configuration.taint_mode:
            now_ns = self._state.events.now_ns
            self._by_timeout.process_pod(pod.node_name, status, health, now_ns, pod.key)
        if status != TRUE:
            self._state.mark_pods_not_ready(pod.node_name, only=pod.key)

    def _kubelet_changes(self, name: str) -> None:
        node = self._state.nodes.get(name)
        if node is not None:
            self._remember_health(name, node)
            self._attention.add(name)
            self._request_tick()

    def _change_zone(self, name: str, node: Node) -> None:
        if self._zones.zone_key(node) != self._zones.zone_of(name):
            self._leave_zone(name)
            self._zones.enter(node)

    def _leave_zone(self, name: str) -> None:
        """The zone's queue keeps its entry; no tick refreshes it any more (spec 9.5, TL-16 c)."""
        last_tick_ns = self._grid.before(self._state.events.now_ns) or self._first_tick_ns
        self._queues.retire(self._zones.zone_of(name), name, last_tick_ns)
        self._zones.leave(name)

    # -- health that nobody had to look at ----------------------------------------------------

    def _remember_health(self, name: str, node: Node, *, in_step: bool = False) -> None:
        """Write down the health of a steady node as of the last tick, before it changes."""
        if name not in self._known or (name in self._health and name not in self._steady):
            return
        now_ns = self._state.events.now_ns
        # This instant's tick has looked at the node as well, unless it is about to.
        looked = self._ticked_ns == now_ns and not in_step
        last_tick_ns = now_ns if looked else self._grid.before(now_ns)
        if last_tick_ns is None:
            return
        self._steady.discard(name)
        renew_ns = self._kubelets.newest_renewal(name, last_tick_ns)
        if renew_ns is None:
            probe_ns = last_tick_ns
        else:
            probe_ns = min(self._grid.at_or_after(renew_ns), last_tick_ns)
        remembered = self._health.get(name)
        ready = node.condition(READY)
        if remembered is not None:
            transition_ns = remembered.ready_transition_ns
        else:
            changed_ns = ready.last_transition_time_ns if ready is not None else None
            transition_ns = probe_ns if changed_ns is None else changed_ns
        if self._probe_floor_ns is not None:
            probe_ns = max(probe_ns, self._probe_floor_ns)
            transition_ns = max(transition_ns, self._probe_floor_ns)
        self._health[name] = NodeHealth(probe_ns, transition_ns, ready, renew_ns)

    def _may_expire_while_up(self, name: str) -> bool:
        """Whether a healthy kubelet renews too slowly for the grace period."""
        # The lease is looked at before the age, which thus stays below one renewal period.
        grace_ns = self._configuration.node_monitor_grace_period_ns
        return self._kubelets.renews_slower_than(name, grace_ns)

    # -- ticks ------------------------------------------------------------------------------------

    def _latest_tick_ns(self, now_ns: int) -> int:
        tick_ns = now_ns if self._ticked_ns == now_ns else self._grid.before(now_ns)
        return self._first_tick_ns if tick_ns is None else tick_ns

    def _request_tick(self) -> None:
        now_ns = self._state.events.now_ns
        # What changes during or after this instant's tick is seen by the next one.
        self._schedule_tick(
            self._grid.after(now_ns)
            if now_ns == self._ticked_ns
            else self._grid.at_or_after(now_ns)
        )

    def _schedule_tick(self, at_ns: int) -> None:
        call = self._tick_call
        if call is not None and call.callback is not None:
            if call.at_ns <= at_ns:
                return
            call.cancel()
        self._tick_call = self._state.events.schedule(
            at_ns, Priority.MONITOR_TICK, self.monitor_tick
        )

    def monitor_tick(self) -> None:
        """``monitorNodeHealth`` (spec 4)."""
        if self._stopped:
            return
        now_ns = self._ticked_ns = self._state.events.now_ns
        names, self._attention = self._attention, set()
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            names.add(heapq.heappop(self._deadlines)[1])
        # A pass inside this tick may change nodes that the tick itself does not look at.
        at_start = dict(self._state.nodes) if self._timing.mid_tick_pass else self._state.nodes
        for zone in self._zones.populated():
            if zone not in self._zone_states:
                self._zone_states.create(zone)
        added, deleted = self._classify()
        names |= added
        copies = {name: self._state.nodes[name] for name in names if name in self._state.nodes}
        for name in sorted(added):
            self._known.add(name)
            if self._configuration.taint_mode:
                self._tainter.mark_reachable(copies[name])
            else:
                self._by_timeout.cancel_eviction(name)
        for name in deleted:
            self._known.discard(name)
            self._zones.uncount(name)
        for name in sorted(copies):
            self._node_step(copies[name], now_ns)
        if self._timing.mid_tick_pass:
            self._queues.run_pass_inside_tick()
        self._handle_disruption(now_ns, {**at_start, **copies})
        self._schedule_next(now_ns)

    def _classify(self) -> tuple[set[str], list[str]]:
        added = set()
        deleted = []
        for name in sorted(self._membership_changed):
            exists, known = name in self._state.nodes, name in self._known
            if exists and not known:
                added.add(name)
            elif known and not exists:
                deleted.append(name)
        self._membership_changed.clear()
        return added, deleted

    def _schedule_next(self, now_ns: int) -> None:
        if self._attention or self._zone_states.unsettled or self._membership_changed:
            self._schedule_tick(self._grid.after(now_ns))
        elif self._deadlines:
            self._schedule_tick(self._grid.at_or_after(max(self._deadlines[0][0], now_ns + 1)))

    def _node_step(self, node: Node, now_ns: int) -> None:
        """One node of one tick (spec 4.1); ``node`` is the copy taken at the tick's start."""
        name = node.name
        if name in self._steady:
            self._remember_health(name, node, in_step=True)
        before = self._health.get(name)
        update = try_update_node_health(
            node,
            before,
            self._kubelets.newest_renewal(name, now_ns),
            now_ns,
            monitor_grace_ns=self._configuration.node_monitor_grace_period_ns,
            startup_grace_ns=self._configuration.node_startup_grace_period_ns,
        )
        self._health[name] = update.health
        if update.conditions is not None:
            self._write_unknown(node, update.conditions, now_ns)
        self._zones.count(node, update.current)
        if update.current is not None:
            decided = (
                update.current if self._profile.taint_on_current_condition else update.observed
            )
            if self._configuration.taint_mode:
                self._tainter.process(node, decided.status, now_ns)
            else:
                self._by_timeout.process(node, update.observed.status, update.health, now_ns)
            if update.current.status != TRUE and update.observed.status == TRUE:
                self._mark_pods_not_ready(name)
        self._look_again(node, update.changed, update.current, now_ns)

    def _look_again(
        self, node: Node, changed: bool, current: NodeCondition | None, now_ns: int
    ) -> None:
        """When must a tick look at this node next? Otherwise it is steady or waits for a deadline."""
        name = node.name
        health = self._health[name]
        waiting_literally = (
            self._profile.queue_mode == "SETREMOVE"
            and self._configuration.taint_mode
            and (current is None or current.status != TRUE)
            and self._queues.is_known(self._zones.zone_of(name), name)
            and not self._tainter.has_wanted_taint(node)
        )
        if changed or waiting_literally:
            self._attention.add(name)
            return
        if not self._configuration.taint_mode:
            deadline_ns = self._by_timeout.deadline_ns(current, health)
            if deadline_ns is not None and deadline_ns > now_ns:
                heapq.heappush(self._deadlines, (self._grid.at_or_after(deadline_ns), name))
        if self._kubelets.is_up(name):
            self._steady.add(name)  # probe and lease are reconstructed when they matter
            if not self._may_expire_while_up(name):
                return
        if current is None:
            grace_ns = self._configuration.node_startup_grace_period_ns
        else:
            grace_ns = self._configuration.node_monitor_grace_period_ns
        if current is None or current.status != UNKNOWN:
            heapq.heappush(
                self._deadlines,
                (self._grid.at_or_after(max(health.probe_ns + grace_ns, now_ns + 1)), name),
            )

    def _write_unknown(
        self, node: Node, conditions: tuple[NodeCondition, ...], now_ns: int
    ) -> None:
        cause = self._state.node_cause.get(node.name)
        self._state.node_cause[node.name] = self._state.timeline.append(
            NodeBecameUnknown(
                self._state.offset_ns,
                () if cause is None else (cause,),
                node.name,
                probe_ns=self._health[node.name].probe_ns - self._state.timeline.start_ns,
            )
        )
        self._state.update_node_conditions(node.name, conditions)

    def _mark_pods_not_ready(self, name: str) -> None:
        pods = self._state.pods_by_node.get(name, {})
        count = sum(1 for pod in pods.values() if pod.ready == TRUE)
        if count:
            self._state.mark_pods_not_ready(name)
            self._state.timeline.append(
                PodsMarkedNotReady(
                    self._state.offset_ns, (self._state.node_cause[name],), name, count
                )
            )

    # -- zones ------------------------------------------------------------------------------------

    def _handle_disruption(self, now_ns: int, at_start: dict[str, Node]) -> None:
        """``handleDisruption``: zones and limiters, and what a transition means for the nodes."""
        counts = self._zones.counts()
        transition = self._zone_states.handle_disruption(counts)
        if transition is Transition.ENTER:
            self._untaint_all(at_start)
            self._zone_states.enter_master_disruption(counts)
        elif transition is Transition.EXIT:
            self._restart_all_probes(now_ns)
        # A zone whose nodes exist but of which none was counted is re-created on the next tick.
        if any(zone not in self._zone_states for zone in self._zones.populated()):
            self._zone_states.unsettled = True
            self._attention.update(self._not_ready_nodes())

    def _not_ready_nodes(self) -> list[str]:
        """Nodes that the next tick must queue again because the line they stood in is gone."""
        return [
            name
            for name, node in self._state.nodes.items()
            if (ready := node.condition(READY)) is None or ready.status != TRUE
        ]

    def _untaint_all(self, at_start: dict[str, Node]) -> None:
        # Upstream clears with the copies from the start of the tick (spec 9.3, real-time race).
        for name, node in sorted(at_start.items()):
            if name not in self._state.nodes:
                continue
            if self._configuration.taint_mode:
                self._tainter.mark_reachable(node)
            else:
                self._by_timeout.cancel_eviction(name)
        # Nodes that wait are queued again on the next tick (spec 9.3).
        self._attention.update(self._not_ready_nodes())

    def _restart_all_probes(self, now_ns: int) -> None:
        self._probe_floor_ns = now_ns
        for name in list(self._health):
            if name in self._state.nodes:
                self._health[name] = self._health[name]._replace(
                    probe_ns=now_ns, ready_transition_ns=now_ns
                )
                self._attention.add(name)

    # -- NoSchedule -------------------------------------------------------------------------------

    def _do_no_schedule_tainting_pass(self, node: Node) -> None:
        """``doNoScheduleTaintingPass``: event driven, not rate limited (spec 5.5)."""
        current = self._state.nodes.get(node.name)
        if current is None or self._stopped:
            return
        taints = reconcile_no_schedule(current, self._state.events.now_ns)
        if taints != current.taints:
            cause = self._state.node_cause.get(node.name)
            self._state.patch_node_taints(
                node.name,
                taints,
                by=NODE_LIFECYCLE,
                because=() if cause is None else (cause,),
                rule="doNoScheduleTaintingPass",
            )
