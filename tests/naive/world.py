"""The API objects and the kubelets of the naive model: plain dictionaries and loops.

All times are epoch nanoseconds. Watches are instantaneous: every write calls the listeners.
"""

from __future__ import annotations

from typing import Any

from kubectl_evictplan.kube.objects import ClusterSnapshot, Node, Pod, Toleration
from kubectl_evictplan.scenarios.scenario import Scenario, ScenarioEvent
from naive.profile import SECOND

Fact = tuple[int, str, str, str]
Record = dict[str, Any]
# What tells one resourceVersion of a lease from another: renewTime, and writes that left it alone.
Lease = tuple[int, int]
DEFAULT_LEASE_PERIOD = 10 * SECOND
_NEW_BASE = ("kubelet-stop", "kubelet-start", "node-ready", "node-create")


def whole_second(time: int) -> int:
    """The API keeps condition times and creationTimestamp in whole seconds."""
    return time // SECOND * SECOND


def node_record(node: Node) -> Record:
    return {
        "name": node.name,
        "labels": dict(node.labels),
        "created": node.creation_timestamp_ns,
        "unschedulable": node.unschedulable,
        "taints": [
            {"key": t.key, "effect": t.effect, "value": t.value, "added": t.time_added_ns}
            for t in node.taints
        ],
        "conditions": {
            c.type: {
                "status": c.status,
                "heartbeat": c.last_heartbeat_time_ns,
                "transition": c.last_transition_time_ns,
                "reason": c.reason,
            }
            for c in node.conditions
        },
    }


def _shown(taint: Record) -> Record:
    """The taint as the API shows it: of a stamp its time alone."""
    added = taint["added"]
    return {**taint, "added": added[0] if isinstance(added, tuple) else added}


def copy_node(node: Record) -> Record:
    return {
        **node,
        "taints": [dict(t) for t in node["taints"]],
        "conditions": {k: dict(c) for k, c in node["conditions"].items()},
    }


def toleration_record(toleration: Toleration) -> Record:
    return {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
        "seconds": toleration.toleration_seconds,
    }


def pod_record(pod: Pod) -> Record:
    owner = pod.controller()
    return {
        "key": pod.key,
        "node": pod.node_name,
        "tolerations": [toleration_record(t) for t in pod.tolerations],
        "grace": pod.termination_grace_period_seconds,
        "phase": pod.phase,
        "reason": pod.status_reason,
        "created": pod.creation_timestamp_ns,
        "deleting": pod.deletion_timestamp_ns is not None,
        "finalizers": list(pod.finalizers),
        "daemon": owner is not None and owner.kind == "DaemonSet",
        "duplicate": pod.duplicate_env_or_port,
        "incarnation": 0,
    }


def has_taint(node: Record, key: str, effect: str) -> bool:
    return any(t["key"] == key and t["effect"] == effect for t in node["taints"])


def no_execute(node: Record | None) -> list[Record]:
    return [] if node is None else [dict(t) for t in node["taints"] if t["effect"] == "NoExecute"]


class World:
    """API server, kubelets and the clock."""

    def __init__(self, snapshot: ClusterSnapshot, scenario: Scenario) -> None:
        self.start = scenario.start_ns
        self.now = scenario.start_ns
        self.sequence = 0
        self.facts: list[Fact] = []
        self.nodes = {node.name: node_record(node) for node in snapshot.nodes}
        self.pods = {pod.key: pod_record(pod) for pod in snapshot.pods}
        self.leases = {
            name: lease.renew_time_ns
            for name, lease in snapshot.leases.items()
            if lease.renew_time_ns is not None
        }
        # Writes of a lease that left its renewTime alone.
        self.touches: dict[str, int] = {}
        self.lease_periods = {
            name: lease.lease_duration_seconds * SECOND // 4
            for name, lease in snapshot.leases.items()
        }
        self.kubelet_up = {name: self._kubelet_runs(node) for name, node in self.nodes.items()}
        # (when, pod, incarnation)
        self.gone_at: list[tuple[int, str, int]] = []
        self.incarnations = 0
        self.listeners: list[Any] = []
        for pod in self.pods.values():
            if pod["deleting"]:
                self._finish_later(pod)

    def _kubelet_runs(self, node: Record) -> bool:
        ready = node["conditions"].get("Ready")
        silent = ready is not None and ready["status"] == "Unknown"
        return node["name"] in self.leases and not silent

    def stamp(self) -> tuple[int, int]:
        """``now()``: every reading is later than the one before."""
        self.sequence += 1
        return self.now, self.sequence

    def fact(self, what: str, subject: str, value: str = "") -> None:
        self.facts.append((self.now - self.start, what, subject, value))

    # --- nodes

    def write_node(self, name: str, new: Record | None) -> None:
        """Store or delete a node; every listener sees the change at once."""
        old = self.nodes.get(name)
        if new is None:
            del self.nodes[name]
        else:
            self.nodes[name] = new
        for listener in list(self.listeners):
            listener.node_changed(name, old, new)

    def add_taints(self, name: str, taints: list[Record], *, first: bool = False) -> None:
        """Add or replace by key and effect; ``first``: kubectl puts new taints before old ones."""
        node = self.nodes.get(name)
        if node is None:
            return
        new = copy_node(node)
        for taint in taints:
            identity = (taint["key"], taint["effect"])
            same = [t for t in new["taints"] if (t["key"], t["effect"]) == identity]
            # Whoever writes it once more at one instant changes nothing: timeAdded is the same.
            if list(map(_shown, same)) != [_shown(taint)]:
                self.fact("taint-added", name, f"{taint['key']}:{taint['effect']}")
            if first:
                others = [t for t in new["taints"] if t not in same]
                new["taints"] = [taint, *others]
            elif same:
                new["taints"][new["taints"].index(same[0])] = taint
            else:
                new["taints"].append(taint)
        if new["taints"] != node["taints"]:
            self.write_node(name, new)

    def remove_taints(self, name: str, wanted: list[tuple[str, str]]) -> None:
        node = self.nodes.get(name)
        if node is None:
            return
        new = copy_node(node)
        new["taints"] = []
        for taint in node["taints"]:
            if (taint["key"], taint["effect"]) in wanted:
                self.fact("taint-removed", name, f"{taint['key']}:{taint['effect']}")
            else:
                new["taints"].append(taint)
        if new["taints"] != node["taints"]:
            self.write_node(name, new)

    def post_ready(self, name: str, status: str) -> None:
        """What a kubelet posts: a new heartbeat, a new transition if the status changed."""
        if name not in self.nodes:
            return
        new = copy_node(self.nodes[name])
        time = whole_second(self.now)
        for kind, condition in new["conditions"].items():
            if kind != "Ready" and condition["status"] == "Unknown":
                new["conditions"][kind] = {
                    "status": "False", "heartbeat": time, "transition": time, "reason": "Kubelet",
                }  # fmt: skip
        ready = new["conditions"].get("Ready")
        same = ready is not None and ready["status"] == status
        new["conditions"]["Ready"] = {
            "status": status,
            "heartbeat": time,
            "transition": ready["transition"] if same and ready is not None else time,
            "reason": "Kubelet",
        }
        self.write_node(name, new)

    # --- pods

    def delete_pod(self, key: str, *, force: bool = False) -> None:
        pod = self.pods[key]
        grace = 1 if pod["grace"] < 0 else pod["grace"]
        if force or pod["node"] == "" or pod["phase"] in ("Succeeded", "Failed"):
            grace = 0
        if pod["deleting"] and grace:
            return
        if pod["deleting"] and not force:
            return
        pod["deleting"] = True
        pod["grace"] = grace
        if grace == 0:
            self._finish(pod)
        else:
            self._finish_later(pod)

    def _finish_later(self, pod: Record) -> None:
        """A kubelet that is up takes the whole grace period (the worst case)."""
        if self._ends_pods(pod["node"]):
            self.gone_at.append((self.now + pod["grace"] * SECOND, pod["key"], pod["incarnation"]))

    def _ends_pods(self, name: str) -> bool:
        """A kubelet that says Ready=False says that its container runtime does not work."""
        if name not in self.nodes or not self.kubelet_up.get(name, False):
            return False
        ready = self.nodes[name]["conditions"].get("Ready")
        return ready is None or ready["status"] != "False"

    def _finish(self, pod: Record) -> None:
        key = pod["key"]
        if pod["finalizers"]:
            return
        del self.pods[key]
        self.fact("gone", key)
        for listener in list(self.listeners):
            listener.pod_changed(pod, None)

    def finish_due(self) -> None:
        """A kubelet that fell silent meanwhile finishes nothing until it is back."""
        due = sorted(entry for entry in self.gone_at if entry[0] <= self.now)
        for entry in due:
            self.gone_at.remove(entry)
            pod = self.pods.get(entry[1])
            if pod is None or pod["incarnation"] != entry[2]:
                continue
            if self._ends_pods(pod["node"]):
                self._finish(pod)

    # --- the outside

    def kubelet_stops(self, name: str) -> None:
        self.kubelet_up[name] = False

    def kubelet_posts(self, name: str, status: str) -> None:
        """It renews and posts; what it could not end before it ends now, if it can."""
        ended = self._ends_pods(name)
        self.kubelet_up[name] = True
        self.leases[name] = self.now
        self.post_ready(name, status)
        if not ended:
            self._take_up_terminating(name)

    def _take_up_terminating(self, name: str) -> None:
        """A kubelet that is back begins anew with what was deleted: what it was about before counts no more."""
        if not self._ends_pods(name):
            return
        for pod in list(self.pods.values()):
            if pod["node"] == name and pod["deleting"]:
                mine = pod["key"], pod["incarnation"]
                self.gone_at = [entry for entry in self.gone_at if entry[1:] != mine]
                self._finish_later(pod)

    def renew(self, name: str) -> None:
        self.leases[name] = self.now

    def lease(self, name: str) -> Lease | None:
        return (self.leases[name], self.touches.get(name, 0)) if name in self.leases else None

    def touch(self, name: str) -> None:
        if name in self.leases:
            self.touches[name] = self.touches.get(name, 0) + 1

    def create_pod(self, pod: Pod) -> None:
        if pod.key in self.pods:
            return
        record = pod_record(pod)
        self.incarnations += 1
        record["incarnation"] = self.incarnations
        self.pods[pod.key] = record
        for listener in list(self.listeners):
            listener.pod_changed(None, record)

    def create_node(self, node: Node) -> None:
        record = node_record(node)
        record["created"] = whole_second(self.now)
        ready = record["conditions"].get("Ready")
        if ready is not None and ready["status"] != "Unknown":
            self.kubelet_up[node.name] = True
        self.write_node(node.name, record)
        self._take_up_terminating(node.name)

    def set_tolerations(self, key: str, tolerations: tuple[Toleration, ...]) -> None:
        pod = self.pods.get(key)
        if pod is None:
            return
        old = dict(pod)
        pod["tolerations"] = [toleration_record(t) for t in tolerations]
        for listener in list(self.listeners):
            listener.pod_changed(old, pod)


def renewals(world: World, scenario: Scenario, end: int) -> list[tuple[int, str]]:
    """Every instant at which some kubelet renews its lease, worked out beforehand."""
    found: list[tuple[int, str]] = []
    names = set(world.nodes) | {
        e.node.name for e in scenario.events if e.action == "node-create" and e.node
    }
    for name in sorted(names):
        base = world.leases.get(name) if world.kubelet_up.get(name) else None
        times: set[int] = set()
        for event in [*node_events(scenario, name), None]:
            at = end + 1 if event is None else world.start + event.at_ns
            times |= on_grid(world, name, base, at, event)
            base = next_base(base, at, event)
        found += [(time, name) for time in times if world.start <= time <= end]
        before = [time for time in times if time < world.start]
        if before:
            world.leases[name] = max(before)
    return sorted(found)


def node_events(scenario: Scenario, name: str) -> list[ScenarioEvent]:
    return [
        e
        for e in scenario.events
        if name in e.nodes or (e.action == "node-create" and e.node and e.node.name == name)
    ]


def on_grid(
    world: World, name: str, base: int | None, at: int, event: ScenarioEvent | None
) -> set[int]:
    """The renewals of a running kubelet from ``base`` up to what happens at ``at``.

    Other events look at the same stretch again, which adds nothing new.
    """
    if base is None:
        return set()
    last = at
    extra: set[int] = set()
    if event is not None and event.action == "kubelet-stop" and event.last_heartbeat_ns is not None:
        last = world.start + event.last_heartbeat_ns
        extra = {last}
    elif event is not None and event.action not in _NEW_BASE:
        return set()
    times = set(extra)
    time = base
    while time <= last:
        times.add(time)
        time += world.lease_periods.get(name, DEFAULT_LEASE_PERIOD)
    return times


def next_base(base: int | None, at: int, event: ScenarioEvent | None) -> int | None:
    if event is None:
        return base
    if event.action == "kubelet-stop":
        return None
    if event.action == "kubelet-start" or (event.action == "node-ready" and base is not None):
        return at
    if event.action == "node-create" and event.node is not None:
        ready = event.node.condition("Ready")
        return at if ready is not None and ready.status != "Unknown" else base
    return base
