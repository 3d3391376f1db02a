"""The taint eviction controller over one dictionary of timers."""

from __future__ import annotations

from typing import Any

from naive.profile import SECOND, Profile
from naive.world import Record, World, no_execute

# A present key without a timer.
NIL = "NIL"


def matches(toleration: Record, taint: Record) -> bool:
    """5.2; Lt and Gt are behind a gate that is off."""
    if toleration["effect"] and toleration["effect"] != taint["effect"]:
        return False
    if toleration["key"] and toleration["key"] != taint["key"]:
        return False
    if toleration["operator"] in ("", "Equal"):
        return bool(toleration["value"] == taint["value"])
    return bool(toleration["operator"] == "Exists")


def first_matches(taints: list[Record], tolerations: list[Record]) -> list[Record] | None:
    """One toleration per taint, None when some taint has none."""
    used = []
    for taint in taints:
        first = next((t for t in tolerations if matches(t, taint)), None)
        if first is None:
            return None
        used.append(first)
    return used


def min_toleration(used: list[Record]) -> int:
    """Nanoseconds as a wrapped int64; negative means forever."""
    finite = [t["seconds"] for t in used if t["seconds"] is not None]
    if not used or any(seconds <= 0 for seconds in finite):
        return 0
    if not finite:
        return -1
    product: int = min(finite) * SECOND
    return (product + 2**63) % 2**64 - 2**63


class TaintEviction:
    """One process's controller; a restart forgets every timer."""

    def __init__(self, world: World, profile: Profile, stale_nil: str) -> None:
        self.world = world
        self.profile = profile
        self.stale_nil = stale_nil
        self.tainted: dict[str, list[Record]] = {}
        self.workers: dict[str, Any] = {}
        # Writes of one instant are one item: the handler reads the final state once.
        self.node_items: dict[str, None] = {}

    def begin(self) -> None:
        for name in sorted(self.world.nodes):
            self.handle_node(name)

    def handle_node_items(self) -> None:
        for name in list(self.node_items):
            del self.node_items[name]
            self.handle_node(name)

    # --- intake

    def node_changed(self, name: str, old: Record | None, new: Record | None) -> None:
        if old is not None and new is not None and no_execute(old) == no_execute(new):
            return
        self.node_items[name] = None

    def pod_changed(self, old: Record | None, new: Record | None) -> None:
        if old and new and old["tolerations"] == new["tolerations"] and old["node"] == new["node"]:
            return
        pod = new if new is not None else old
        assert pod is not None
        self.handle_pod(pod["key"], pod["node"])

    # --- decisions (2)

    def handle_node(self, name: str) -> None:
        node = self.world.nodes.get(name)
        if node is None:
            self.tainted.pop(name, None)
            return
        taints = no_execute(node)
        self.tainted.pop(name, None)
        if taints:
            self.tainted[name] = taints
        keys = sorted(key for key, pod in self.world.pods.items() if pod["node"] == name)
        now = self.world.stamp()
        for key in keys:
            if key not in self.world.pods:
                continue
            if taints:
                self.process(key, self.world.pods[key]["tolerations"], taints, now)
            else:
                self.cancel(key)

    def handle_pod(self, key: str, item_node: str) -> None:
        pod = self.world.pods.get(key)
        if pod is None:
            self.cancel(key)
            return
        if pod["node"] != item_node or not pod["node"] or pod["node"] not in self.tainted:
            return
        self.process(key, pod["tolerations"], self.tainted[pod["node"]], self.world.stamp())

    def process(
        self,
        key: str,
        tolerations: list[Record],
        taints: list[Record],
        now: tuple[int, int],
    ) -> None:
        used = first_matches(taints, tolerations)
        if used is None:
            self.cancel(key)
            self.add(key, now, 0)
            return
        delay = min_toleration(used)
        if delay < 0:
            if self.profile.cancel_on_infinite:
                self.cancel(key)
            return
        worker = self.workers.get(key)
        if isinstance(worker, dict):
            # createdAt < now always: the pending timer is kept.
            assert worker["created"] < now
            return
        self.add(key, now, delay)

    # --- timers (3)

    def cancel(self, key: str) -> None:
        worker = self.workers.pop(key, None)
        if isinstance(worker, dict):
            self.world.fact("cancel", key)

    def add(self, key: str, created: tuple[int, int], delay: int) -> None:
        if key in self.workers:
            return
        fire = created[0] + delay
        if delay > 0:
            self.workers[key] = {"created": created, "fire": fire}
            return
        # Up to 1.29 the clock is read twice, so even an immediate deletion is a timed worker.
        self.workers[key] = {"created": created, "fire": fire} if self.profile.two_nows else NIL
        self.run(key)

    def fire_due(self) -> None:
        due = [
            key
            for key, worker in self.workers.items()
            if isinstance(worker, dict) and worker["fire"] <= self.world.now
        ]
        for key in sorted(due):
            self.run(key)

    def next_fire(self) -> int | None:
        times = [w["fire"] for w in self.workers.values() if isinstance(w, dict)]
        return min(times) if times else None

    def run(self, key: str) -> None:
        """The timer's function; the marking event comes before any attempt."""
        self.world.fact("mark", key)
        pod = self.world.pods.get(key)
        fails = pod is None or (pod["duplicate"] and self.profile.server_side_apply)
        if fails or not self.profile.keep_nil_key:
            self.workers.pop(key, None)
        elif self.stale_nil == "never":
            self.workers[key] = NIL
        if fails:
            return
        self.world.fact("delete", key, "taint-eviction")
        self.world.delete_pod(key)
        if self.profile.keep_nil_key:
            vanished = key not in self.world.pods
            if not vanished or self.stale_nil != "never":
                self.workers[key] = NIL
