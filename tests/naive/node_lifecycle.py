"""The node lifecycle controller, tick by tick and pass by pass."""

from __future__ import annotations

from typing import Any

from naive.profile import Profile, float32
from naive.queue import Stamp, ZoneQueue
from naive.world import Lease, Record, World, copy_node, has_taint

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
NE = "NoExecute"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
CONDITION_TAINTS = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OWNED = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *CONDITION_TAINTS.values()}
INITIAL = "Initial"
NORMAL = "Normal"
PARTIAL = "PartialDisruption"
FULL = "FullDisruption"


def zone_of(node: Record, profile: Profile) -> str:
    """``GetZoneKey``: the beta label if present, even empty; else the GA label."""

    def label(kind: str) -> str:
        labels = node["labels"]
        beta = f"failure-domain.beta.kubernetes.io/{kind}"
        if beta in labels or not profile.ga_zone_labels:
            return str(labels.get(beta, ""))
        return str(labels.get(f"topology.kubernetes.io/{kind}", ""))

    region, zone = label("region"), label("zone")
    return f"{region}:\0:{zone}" if region or zone else ""


def shown(zone: str) -> str:
    return zone.replace(":\0:", "/")


def is_excluded(node: Record, profile: Profile) -> bool:
    name = node["name"]
    if profile.exclude_name and (
        name.endswith("master") or (len(name) >= 10 and name[:-3].endswith("master-"))
    ):
        return True
    return profile.exclude_label and "node.kubernetes.io/exclude-disruption" in node["labels"]


def zone_state(statuses: list[str | None], threshold: float) -> str:
    ready = sum(1 for status in statuses if status == "True")
    not_ready = len(statuses) - ready
    if ready == 0 and not_ready > 0:
        return FULL
    if not_ready > 2 and float32(float32(not_ready) / float32(not_ready + ready)) >= threshold:
        return PARTIAL
    return NORMAL


class NodeLifecycle:
    """One process's controller; a restart makes a new one."""

    def __init__(self, world: World, profile: Profile) -> None:
        self.world = world
        self.profile = profile
        self.known: set[str] = set()
        self.health: dict[str, Record] = {}
        self.zone_states: dict[str, str] = {}
        self.queues: dict[str, ZoneQueue] = {}
        self.eviction_state: dict[str, str] = dict.fromkeys(world.nodes, "unmarked")

    def begin(self) -> None:
        """Informer ADDs of a new process: every node is reconciled, pods meet an empty map."""
        for name in sorted(self.world.nodes):
            self.no_schedule_pass(name)

    # --- informer events

    def node_changed(self, name: str, old: Record | None, new: Record | None) -> None:
        if new is None:
            self.eviction_state.pop(name, None)
            return
        if old is None:
            self.eviction_state[name] = "unmarked"
        self.no_schedule_pass(name)

    def pod_changed(self, old: Record | None, new: Record | None) -> None:
        """``processPod``; marking pods not ready is not modelled."""
        if new is None or old is not None or not new["node"] or not self.profile.pod_worker:
            return
        name = new["node"]
        health = self.health.get(name)
        node = self.world.nodes.get(name)
        if health is None or node is None or self.profile.taint_mode:
            return
        saved = health["conditions"].get("Ready")
        if saved is not None:
            self.process_notaint(node, saved["status"], [new["key"]])

    def no_schedule_pass(self, name: str) -> None:
        """NoSchedule taints follow conditions and spec.unschedulable."""
        node = self.world.nodes[name]
        if not self.profile.taint_by_condition:
            return
        conditions = node["conditions"]
        desired = {
            key
            for kind, key in CONDITION_TAINTS.items()
            if kind in conditions and conditions[kind]["status"] == "True"
        }
        ready = conditions.get("Ready")
        if ready is not None and ready["status"] == "False":
            desired.add(NOT_READY)
        if ready is not None and ready["status"] == "Unknown":
            desired.add(UNREACHABLE)
        if node["unschedulable"]:
            desired.add(UNSCHEDULABLE)
        have = {
            t["key"] for t in node["taints"] if t["effect"] == "NoSchedule" and t["key"] in OWNED
        }
        if desired - have:
            self.world.add_taints(
                name, [self.new_taint(key, "NoSchedule") for key in sorted(desired - have)]
            )
        if have - desired:
            self.world.remove_taints(name, [(key, "NoSchedule") for key in have - desired])

    def new_taint(self, key: str, effect: str) -> Record:
        return {"key": key, "effect": effect, "value": "", "added": self.world.stamp()}

    # --- queues

    def ensure_zone(self, node: Record) -> None:
        zone = zone_of(node, self.profile)
        if zone not in self.zone_states:
            self.zone_states[zone] = INITIAL
            self.queues[zone] = ZoneQueue(self.profile.rate, self.profile.rate_zero_accepts)

    def swap(self, name: str, copy: Record, add: str, remove: str) -> None:
        self.world.add_taints(name, [self.new_taint(add, NE)])
        if has_taint(copy, remove, NE):
            self.world.remove_taints(name, [(remove, NE)])

    def mark_reachable(self, copy: Record) -> None:
        for key in (UNREACHABLE, NOT_READY):
            if has_taint(copy, key, NE):
                self.world.remove_taints(copy["name"], [(key, NE)])
        self.queues[zone_of(copy, self.profile)].remove(copy["name"])

    def cancel_eviction(self, copy: Record) -> None:
        name = copy["name"]
        if name in self.eviction_state:
            self.eviction_state[name] = "unmarked"
        self.queues[zone_of(copy, self.profile)].remove(name)

    def calm(self, copy: Record) -> None:
        if self.profile.taint_mode:
            self.mark_reachable(copy)
        else:
            self.cancel_eviction(copy)

    # --- the monitor tick

    def tick(self) -> None:
        nodes = [copy_node(self.world.nodes[name]) for name in sorted(self.world.nodes)]
        names = {node["name"] for node in nodes}
        added = [node for node in nodes if node["name"] not in self.known]
        for node in nodes:
            if node["name"] in self.known:
                self.ensure_zone(node)
        for node in added:
            self.known.add(node["name"])
            self.ensure_zone(node)
            self.calm(node)
        self.known &= names
        counted: dict[str, list[str | None]] = {}
        for node in nodes:
            self.node_step(node, counted)
        self.handle_disruption(counted, nodes)

    def node_step(self, node: Record, counted: dict[str, list[str | None]]) -> None:
        found = self.update_health(node)
        if found is None:
            return
        observed, current = found
        if not is_excluded(node, self.profile):
            counted.setdefault(zone_of(node, self.profile), []).append(current)
        if current is None:
            return
        if not self.profile.taint_mode:
            pods = sorted(k for k, p in self.world.pods.items() if p["node"] == node["name"])
            self.process_notaint(node, observed, pods)
            return
        decisive = current if self.profile.current_decides else observed
        if decisive == "True":
            self.mark_reachable(node)
            return
        want, other = (NOT_READY, UNREACHABLE) if decisive == "False" else (UNREACHABLE, NOT_READY)
        if has_taint(node, other, NE):
            self.swap(node["name"], node, want, other)
            return
        queue = self.queues[zone_of(node, self.profile)]
        if not has_taint(node, want, NE):
            if self.profile.mark == "REMOVE_ADD":
                queue.remove(node["name"])
            if self.profile.mark == "SETREMOVE":
                queue.set_remove(node["name"])
        queue.add(node["name"], self.world.stamp())

    def update_health(self, node: Record) -> tuple[str, str | None] | None:
        """The observed and the current Ready status; None where the lease is not what it was."""
        name = node["name"]
        current = node["conditions"].get("Ready")
        h = self.health.get(name)
        h = dict(h) if h is not None else None
        saved = h["conditions"].get("Ready") if h is not None else None
        saved_lease = h["lease"] if h is not None else None
        if current is None:
            observed: Record = {"status": "Unknown", "synthetic": True}
            grace = self.profile.startup_grace
            created: Stamp = (node["created"], 0)
            if h is not None:
                h["conditions"] = node["conditions"]
                saved = None
            else:
                h = {
                    "conditions": node["conditions"],
                    "probe": created,
                    "trans": created,
                    "lease": None,
                }
        else:
            observed = dict(current)
            grace = self.profile.grace
        if current is not None:
            h = self.saw_ready(node, h, saved, current)
        assert h is not None
        lease = self.world.lease(name) if self.profile.leases else None
        if lease is not None and (saved_lease is None or saved_lease[0] < lease[0]):
            h["lease"] = lease
            h["probe"] = self.world.stamp()
        self.health[name] = h
        if not self.world.stamp() > (h["probe"][0] + grace, h["probe"][1]):
            return observed["status"], None if current is None else current["status"]
        if self.profile.lease_breaker and lease is not None and lease != h["lease"]:
            return None
        return observed["status"], self.expire(node, h, observed, lease)

    def saw_ready(
        self, node: Record, h: Record | None, saved: Record | None, current: Record
    ) -> Record:
        """Heartbeats since the last look move the probe, and drop the lease."""
        conditions = copy_node(node)["conditions"]
        if h is None or saved is None:
            now = self.world.stamp()
            return {"conditions": conditions, "probe": now, "trans": now, "lease": None}
        if saved["heartbeat"] != current["heartbeat"]:
            now = self.world.stamp()
            trans = now if saved["transition"] != current["transition"] else h["trans"]
            return {"conditions": conditions, "probe": now, "trans": trans, "lease": None}
        return h

    def expire(self, node: Record, h: Record, observed: Record, lease: Lease | None) -> str:
        """Write Unknown where it is not Unknown yet."""
        time = self.world.stamp()
        conditions = {kind: dict(c) for kind, c in node["conditions"].items()}
        for kind in ("Ready", *PRESSURES):
            condition = conditions.get(kind)
            if condition is None:
                conditions[kind] = {
                    "status": "Unknown",
                    "heartbeat": node["created"],
                    "transition": time[0],
                    "reason": "NodeStatusNeverUpdated",
                }
            elif condition["status"] != "Unknown":
                condition["status"] = "Unknown"
                condition["reason"] = "NodeStatusUnknown"
                condition["transition"] = time[0]
        if conditions["Ready"] != observed:
            live = copy_node(self.world.nodes[node["name"]])
            live["conditions"] = conditions
            self.world.fact("node-unknown", node["name"])
            self.health[node["name"]] = {
                "conditions": {kind: dict(c) for kind, c in conditions.items()},
                "probe": h["probe"],
                "trans": self.world.stamp(),
                "lease": lease,
            }
            self.world.write_node(node["name"], live)
        return str(conditions["Ready"]["status"])

    # --- the mode without taints

    def process_notaint(self, node: Record, observed: str, pods: list[str]) -> None:
        h = self.health[node["name"]]
        if observed == "True":
            self.cancel_eviction(node)
            return
        since = h["trans"] if observed == "False" else h["probe"]
        if not self.world.stamp() > (since[0] + self.profile.pod_eviction_timeout, since[1]):
            return
        name = node["name"]
        if self.profile.pod_worker:
            if self.eviction_state.get(name) == "evicted":
                self.delete_pods(pods)
                return
            if name in self.eviction_state:
                self.eviction_state[name] = "toBeEvicted"
        self.queues[zone_of(node, self.profile)].add(name, self.world.stamp())

    def delete_pods(self, pods: list[str]) -> None:
        for key in pods:
            pod = self.world.pods[key]
            if pod["deleting"] or pod["daemon"]:
                continue
            self.world.fact("mark", key)
            self.world.fact("delete", key, "node-lifecycle")
            self.world.delete_pod(key)

    def evict(self, name: str) -> tuple[bool, int]:
        self.delete_pods(sorted(k for k, p in self.world.pods.items() if p["node"] == name))
        if name in self.eviction_state:
            self.eviction_state[name] = "evicted"
        return True, 0

    # --- the pass

    def run_pass(self) -> None:
        work: Any = self.taint if self.profile.taint_mode else self.evict
        for zone in sorted(self.queues):
            self.queues[zone].try_all(self.world.stamp(), work)

    def taint(self, name: str) -> tuple[bool, int]:
        node = self.world.nodes.get(name)
        if node is None:
            return True, 0
        ready = node["conditions"].get("Ready")
        if ready is None:
            return not self.profile.retries_without_ready, 50_000_000
        copy = copy_node(node)
        if ready["status"] == "False":
            self.swap(name, copy, NOT_READY, UNREACHABLE)
        elif ready["status"] == "Unknown":
            self.swap(name, copy, UNREACHABLE, NOT_READY)
        return True, 0

    # --- zones

    def handle_disruption(self, counted: dict[str, list[str | None]], nodes: list[Record]) -> None:
        threshold = self.profile.threshold
        new = {zone: zone_state(statuses, threshold) for zone, statuses in counted.items()}
        for zone in sorted(new):
            self.zone_states.setdefault(zone, INITIAL)
        all_are = all(state == FULL for state in new.values())
        all_was = self.all_were_full(counted)
        if all_are and all_was:
            return
        if all_are:
            for node in nodes:
                self.calm(node)
            for zone in sorted(self.zone_states):
                self.queues[zone].swap_limiter(0, self.world.now)
                self.set_zone(zone, FULL)
            return
        if all_was:
            stamp = self.world.stamp()
            for node in nodes:
                self.health[node["name"]].update(probe=stamp, trans=stamp)
        for zone in sorted(self.zone_states):
            state = new.get(zone, "")
            if all_was or self.zone_states[zone] != state:
                self.set_limiter(zone, len(counted.get(zone, [])), state)
                self.set_zone(zone, state)

    def all_were_full(self, counted: dict[str, list[str | None]]) -> bool:
        """Forgets zones without counted nodes until the early break."""
        for zone in sorted(self.zone_states):
            if zone not in counted:
                del self.zone_states[zone]
            elif self.zone_states[zone] != FULL:
                return False
        return True

    def set_zone(self, zone: str, state: str) -> None:
        if state and self.zone_states[zone] != state:
            self.world.fact("zone-state", shown(zone), state)
        self.zone_states[zone] = state

    def set_limiter(self, zone: str, size: int, state: str) -> None:
        rate = {NORMAL: self.profile.rate, FULL: self.profile.rate}.get(state)
        if state == PARTIAL:
            rate = self.profile.secondary_rate if size > self.profile.large_zone else 0.0
        if rate is not None:
            self.queues[zone].swap_limiter(rate, self.world.now)
