"""The naive run: look for the next instant at which anything happens, do it, repeat.

Order at one instant: due eviction timers; the outside (renewals, events in
file order, finished pods); node items of the taint evictor; the pass; the tick; garbage collection.
"""

from __future__ import annotations

from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.scenarios.scenario import ControllerSettings, Scenario, ScenarioEvent
from naive.node_lifecycle import FULL, NORMAL, PARTIAL, NodeLifecycle, is_excluded, zone_of
from naive.node_lifecycle import zone_state as compute_zone_state
from naive.pod_gc import PodGC
from naive.profile import SECOND, Profile, make_profile
from naive.queue import ZoneQueue
from naive.taint_eviction import TaintEviction
from naive.world import Fact, World, copy_node, has_taint, renewals

PASS_PERIOD = SECOND // 10
POD_GC_PERIOD = 20 * SECOND
TIMERS, RENEWALS, EVENTS, FINISHED, NODE_ITEMS, PASS, TICK, POD_GC = range(8)


class NaiveRun:
    """One run of one scenario; ``facts`` afterwards holds everything observable."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        scenario: Scenario,
        settings: ControllerSettings,
        timing: Timing,
    ) -> None:
        self.scenario = scenario
        self.timing = timing
        self.profile: Profile = make_profile(settings.kubernetes_version, settings.flags)
        self.world = World(snapshot, scenario)
        assert scenario.horizon_ns is not None
        self.end = scenario.start_ns + scenario.horizon_ns
        self.renewals = renewals(self.world, scenario, self.end)
        self.events = [(scenario.start_ns + e.at_ns, e) for e in scenario.events]
        self.nlc: NodeLifecycle | None = None
        self.eviction: TaintEviction | None = None
        self.pod_gc: PodGC | None = None
        self.next_pass = self.next_tick = self.next_gc = self.end + 1
        first = next((e for e in scenario.events if e.action.startswith("controller-")), None)
        if first is None or first.action == "controller-stop":
            self.warm()

    # --- the controllers' process

    def start_controllers(self) -> None:
        world, profile = self.world, self.profile
        world.listeners.clear()
        self.nlc = NodeLifecycle(world, profile)
        self.eviction = TaintEviction(world, profile, self.timing.stale_nil)
        self.pod_gc = PodGC(world, profile, self.timing.pod_gc_lag_ns)
        if profile.eviction_runs:
            world.listeners.append(self.eviction)
        if profile.node_lifecycle_runs:
            world.listeners.append(self.nlc)

    def cold(self) -> None:
        self.start_controllers()
        now, timing = self.world.now, self.timing
        assert self.nlc is not None
        assert self.eviction is not None
        if self.profile.eviction_runs:
            self.eviction.begin()
        if self.profile.node_lifecycle_runs:
            self.nlc.begin()
        self.next_tick = now
        self.next_pass = now + timing.pass_phase_ns
        self.next_gc = now

    def stop_controllers(self) -> None:
        self.world.listeners.clear()
        self.nlc = self.eviction = self.pod_gc = None

    def warm(self) -> None:
        """Everything has been running for a long time on the same grids."""
        self.start_controllers()
        start, timing = self.world.start, self.timing
        interval = self.profile.period + timing.monitor_cost_ns
        self.next_tick = start + timing.monitor_phase_ns
        pass_interval = PASS_PERIOD + timing.pass_cost_ns
        self.next_pass = start + (timing.monitor_phase_ns + timing.pass_phase_ns) % pass_interval
        self.next_gc = start + timing.pod_gc_phase_ns
        nlc, pod_gc = self.nlc, self.pod_gc
        assert nlc is not None
        assert pod_gc is not None
        if timing.pod_gc_sightings:
            interval_gc = POD_GC_PERIOD + timing.pod_gc_cost_ns
            pod_gc.sighted(self.next_gc - timing.pod_gc_sightings * interval_gc)
        for node in self.world.nodes.values():
            self.remember(nlc, node["name"], interval)
        self.remember_zones(nlc)
        if self.next_pass == start:
            self.next_pass += pass_interval  # that one has just been
        if self.profile.taint_mode:
            self.remember_lines(nlc, self.next_tick - interval)
        else:
            self.remember_evictions(nlc, self.next_tick - interval)
        if self.profile.node_lifecycle_runs:
            nlc.begin()
        if self.eviction is not None and self.profile.eviction_runs:
            self.eviction.begin()

    def remember(self, nlc: NodeLifecycle, name: str, interval: int) -> None:
        """What earlier ticks stored about a node: ticks lie at next_tick - k * interval."""
        node = self.world.nodes[name]
        nlc.known.add(name)
        last_tick = self.next_tick - interval
        lease = self.world.leases.get(name)
        ready = node["conditions"].get("Ready")

        def tick_after(time: int) -> int:
            return self.next_tick - (self.next_tick - time) // interval * interval

        seen = [node["created"]]
        posted = ready["heartbeat"] if ready is not None else None
        conditions = copy_node(node)["conditions"]
        if lease is not None and self.profile.leases:
            if lease > last_tick:
                lease -= self.world.lease_periods[name]
            seen.append(lease)
        elif posted is not None:
            seen.append(posted)
        if ready is None and lease is None:
            probe = node["created"]
        else:
            probe = min(tick_after(max(seen)), last_tick)
        if posted is not None and lease is not None and lease < posted:
            # A tick that sees a new status forgets the Lease, the next one accepts it again.
            first = tick_after(posted)
            if first > last_tick:
                conditions["Ready"]["heartbeat"] = None
            elif first != probe and first == last_tick:
                probe, lease = first, None
            elif first != probe:
                probe = first + interval
        changed = ready["transition"] if ready is not None else None
        nlc.health[name] = {
            "conditions": conditions,
            "probe": (probe, 0),
            "trans": (tick_after(changed) if changed is not None else probe, 0),
            "lease": None if lease is None else (lease, 0),
        }

    def remember_zones(self, nlc: NodeLifecycle) -> None:
        counted: dict[str, list[str | None]] = {}
        profile = self.profile
        for name in sorted(self.world.nodes):
            node = self.world.nodes[name]
            zone = zone_of(node, profile)
            nlc.queues.setdefault(zone, ZoneQueue(profile.rate, profile.rate_zero_accepts))
            ready = node["conditions"].get("Ready")
            if not is_excluded(node, profile):
                counted.setdefault(zone, []).append(None if ready is None else ready["status"])
            if any(
                has_taint(node, f"node.kubernetes.io/{key}", "NoExecute")
                for key in ("not-ready", "unreachable")
            ):
                nlc.queues[zone].set.add(name)
        # Earlier ticks found the uncounted zones as well, and forgot those that they reached.
        for zone in nlc.queues:
            nlc.zone_states[zone] = ""
        for zone, statuses in counted.items():
            nlc.zone_states[zone] = compute_zone_state(statuses, profile.threshold)
        nlc.all_were_full(counted)
        all_full = all(nlc.zone_states[zone] == FULL for zone in counted)
        for zone, statuses in counted.items():
            state = nlc.zone_states[zone]
            small = len(statuses) <= profile.large_zone
            if all_full or (state == PARTIAL and small):
                nlc.queues[zone].swap_limiter(0, self.world.start)
            elif state == PARTIAL:
                nlc.queues[zone].swap_limiter(profile.secondary_rate, self.world.start)
            else:
                assert state in (NORMAL, FULL)

    def remember_lines(self, nlc: NodeLifecycle, last_tick: int) -> None:
        """Who the last tick before the start has put in line."""
        for name in sorted(self.world.nodes):
            node = self.world.nodes[name]
            queue, ready = nlc.queues[zone_of(node, self.profile)], node["conditions"].get("Ready")
            if ready is None or ready["status"] == "True" or name in queue.set:
                continue
            since = last_tick if ready["transition"] is None else ready["transition"]
            if ready["status"] == "Unknown" and not self.profile.current_decides:
                since += 1_000_000_000  # written by the tick before
            if since <= last_tick:
                queue.add(name, self.world.stamp())

    def remember_evictions(self, nlc: NodeLifecycle, last_tick: int) -> None:
        """Whose timeout was over with the last tick before the start: in line with pods to delete, else deleted before."""
        full = all(state in (FULL, "") for state in nlc.zone_states.values())
        for name in sorted(self.world.nodes):
            node, health = self.world.nodes[name], nlc.health[name]
            queue, ready = nlc.queues[zone_of(node, self.profile)], node["conditions"].get("Ready")
            queue.set.discard(name)
            if ready is None or ready["status"] == "True":
                continue
            since = health["trans" if ready["status"] == "False" else "probe"][0]
            if since + self.profile.pod_eviction_timeout > last_tick:
                continue
            pods = (pod for pod in self.world.pods.values() if pod["node"] == name)
            if full or any(not pod["deleting"] and not pod["daemon"] for pod in pods):
                queue.add(name, self.world.stamp())
            else:
                queue.set.add(name)
                nlc.eviction_state[name] = "evicted"

    # --- the loop

    def run(self) -> list[Fact]:
        while True:
            timers = self.eviction.next_fire() if self.eviction is not None else None
            running, never = self.nlc is not None, self.end + 1
            items = self.eviction is not None and self.eviction.node_items
            steps: list[tuple[int, int]] = [
                (timers if timers is not None else never, TIMERS),
                (self.renewals[0][0] if self.renewals else never, RENEWALS),
                (self.events[0][0] if self.events else never, EVENTS),
                (min((entry[0] for entry in self.world.gone_at), default=never), FINISHED),
                (self.world.now if items else never, NODE_ITEMS),
                (self.next_pass if running else never, PASS),
                (self.next_tick if running else never, TICK),
                (self.next_gc if running else never, POD_GC),
            ]
            time, kind = min(steps)
            if time > self.end:
                return sorted(self.world.facts)
            assert time >= self.world.now, (time, kind, self.world.now)
            self.world.now = time
            self.step(kind)

    def step(self, kind: int) -> None:
        timing, profile = self.timing, self.profile
        if kind == RENEWALS:
            self.world.renew(self.renewals.pop(0)[1])
        elif kind == EVENTS:
            self.happen(self.events.pop(0)[1])
        elif kind == FINISHED:
            self.world.finish_due()
        elif kind in (TIMERS, NODE_ITEMS):
            assert self.eviction is not None
            if kind == TIMERS:
                self.eviction.fire_due()
            else:
                self.eviction.handle_node_items()
        elif kind == PASS:
            self.next_pass += PASS_PERIOD + timing.pass_cost_ns
            if self.nlc is not None and profile.node_lifecycle_runs:
                self.nlc.run_pass()
        elif kind == TICK:
            self.next_tick += profile.period + timing.monitor_cost_ns
            if self.nlc is not None and profile.node_lifecycle_runs:
                self.nlc.tick()
        else:
            self.next_gc += POD_GC_PERIOD + timing.pod_gc_cost_ns
            if self.pod_gc is not None and profile.pod_gc_runs:
                self.pod_gc.loop()

    def happen(self, event: ScenarioEvent) -> None:
        """One scenario event."""
        if event.action == "controller-start":
            self.cold()
        elif event.action == "controller-stop":
            self.stop_controllers()
        elif event.action == "node-create":
            assert event.node is not None
            self.world.create_node(event.node)
        elif event.action == "pod-create":
            assert event.pod is not None
            self.world.create_pod(event.pod)
        elif event.action == "pod-delete":
            for key in event.pods:
                if key in self.world.pods:
                    self.world.delete_pod(key)
        elif event.action == "pod-tolerations":
            for key in event.pods:
                self.world.set_tolerations(key, event.tolerations)
        else:
            for name in event.nodes:
                self.happen_to_node(event, name)

    def happen_to_node(self, event: ScenarioEvent, name: str) -> None:
        world = self.world
        node = world.nodes.get(name)
        if event.action == "kubelet-stop":
            world.kubelet_stops(name)
        elif event.action == "kubelet-start":
            world.kubelet_posts(name, "True")
        elif node is None:
            return
        elif event.action == "taint":
            assert event.taint is not None
            t = event.taint
            record = {"key": t.key, "effect": t.effect, "value": t.value, "added": t.time_added_ns}
            world.add_taints(name, [record], first=True)
        elif event.action == "untaint":
            matching = [
                (t["key"], t["effect"])
                for t in node["taints"]
                if t["key"] == event.removal.key and event.removal.effect in ("", t["effect"])
            ]
            world.remove_taints(name, matching)
        elif event.action == "node-ready":
            if world.kubelet_up.get(name, False):
                world.kubelet_posts(name, event.status)
        elif event.action == "lease-touch":
            world.touch(name)
        elif event.action == "node-delete":
            world.write_node(name, None)
        else:
            world.write_node(name, {**copy_node(node), "unschedulable": event.action == "cordon"})


def naive_facts(
    snapshot: ClusterSnapshot,
    scenario: Scenario,
    settings: ControllerSettings,
    timing: Timing | None = None,
) -> list[Fact]:
    """All facts of one run, sorted; the same vocabulary as ``Timeline.facts``."""
    return NaiveRun(snapshot, scenario, settings, timing or Timing()).run()
