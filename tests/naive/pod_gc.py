"""Pod garbage collection, loop by loop."""

from __future__ import annotations

from naive.profile import Profile
from naive.world import World

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class PodGC:
    """One process's collector: its quarantine is a delaying queue."""

    def __init__(self, world: World, profile: Profile, lag: int) -> None:
        self.world = world
        self.profile = profile
        self.lag = lag
        self.waiting: dict[str, int] = {}

    def sighted(self, time: int) -> None:
        """A loop at that time saw pods of nodes that do not exist."""
        for pod in self.world.pods.values():
            if pod["node"] and pod["node"] not in self.world.nodes:
                self.waiting.setdefault(pod["node"], time + self.profile.quarantine + self.lag)

    def force_delete(self, key: str) -> None:
        pod = self.world.pods.get(key)
        if pod is None:
            return
        # It is marked as failed before, by an apply that refuses what stands twice.
        ended = pod["phase"] in ("Succeeded", "Failed")
        if ended or not (pod["duplicate"] and self.profile.server_side_apply):
            self.world.fact("delete", key, "pod-gc")
            self.world.delete_pod(key, force=True)

    def loop(self) -> None:
        self.terminated()
        self.out_of_service()
        self.orphaned()
        for key, pod in sorted(self.world.pods.items()):
            if pod["deleting"] and not pod["node"]:
                self.force_delete(key)

    def terminated(self) -> None:
        threshold = self.profile.terminated_threshold
        ended = [
            (key, pod)
            for key, pod in self.world.pods.items()
            if pod["phase"] not in ("Pending", "Running", "Unknown")
        ]
        if threshold <= 0 or len(ended) <= threshold:
            return

        def first(item: tuple[str, dict[str, object]]) -> tuple[bool, object, str]:
            key, pod = item
            evicted = self.profile.evicted_first and pod["reason"] == "Evicted"
            return not evicted, pod["created"], key.partition("/")[2]

        for key, _ in sorted(ended, key=first)[: len(ended) - threshold]:
            self.force_delete(key)

    def out_of_service(self) -> None:
        if not self.profile.out_of_service:
            return
        for key, pod in sorted(self.world.pods.items()):
            node = self.world.nodes.get(pod["node"])
            if node is None or not pod["deleting"]:
                continue
            ready = node["conditions"].get("Ready")
            if ready is not None and ready["status"] == "True":
                continue
            if any(taint["key"] == OUT_OF_SERVICE for taint in node["taints"]):
                self.force_delete(key)

    def orphaned(self) -> None:
        now = self.world.now
        due = {name for name, time in self.waiting.items() if time <= now}
        for name in due:
            del self.waiting[name]
        if self.profile.quarantine == 0:
            due.update(pod["node"] for pod in self.world.pods.values() if pod["node"])
        else:
            self.sighted(now)
        gone = {name for name in due if name not in self.world.nodes}
        for key, pod in sorted(self.world.pods.items()):
            if pod["node"] in gone:
                self.force_delete(key)
