"""The same figures a second, naive way: one run of the simulation, looked at second by second, pod by pod.

Nothing here knows of windows or bounds: at every second each owner looks at its pods and does what it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kubectl_evictplan.cluster import timeline as entries
from kubectl_evictplan.cluster.timeline import Timeline
from kubectl_evictplan.controllers.replication import owner_key
from kubectl_evictplan.kube.objects import ClusterSnapshot, Pod, Workload
from kubectl_evictplan.kube.taints import key_and_effect

STEP_NS = 1_000_000_000
# A replacement is Ready so long after its creation.
READY_NS = 20 * STEP_NS


@dataclass
class Slot:
    """The place of one pod of the start: itself, then whoever its owner puts there."""

    pod: Pod
    ready: bool
    deleted: bool = False
    gone: bool = False
    evicted_by: str = ""
    replaced_ns: int | None = None

    def is_ready(self, now_ns: int) -> bool:
        if self.deleted:
            return self.replaced_ns is not None and now_ns >= self.replaced_ns + READY_NS
        return self.ready


@dataclass
class World:
    """Everything, at one instant."""

    snapshot: ClusterSnapshot
    slots: list[Slot]
    taints: dict[str, set[str]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    deleted_nodes: set[str] = field(default_factory=set)

    @classmethod
    def at_start(cls, snapshot: ClusterSnapshot) -> World:
        return cls(snapshot, [Slot(pod, pod.ready == "True") for pod in snapshot.pods])

    def happens(self, entry: entries.Entry) -> None:
        """One entry of the run."""
        if isinstance(entry, entries.NodeBecameUnknown):
            for slot in self._on(entry.node):
                slot.ready = False
        elif isinstance(entry, entries.KubeletSilent):
            self.silent.add(entry.node)
        elif isinstance(entry, entries.NodeDeleted):
            self.deleted_nodes.add(entry.node)
        elif isinstance(entry, entries.NodeReadyPosted) and entry.status == "True":
            self.silent.discard(entry.node)
            for slot in self._on(entry.node):
                slot.ready = slot.pod.ready == "True"
        elif isinstance(entry, entries.TaintAdded):
            self.taints.setdefault(entry.node, set()).add(key_and_effect(entry.taint))
        elif isinstance(entry, entries.TaintRemoved):
            self.taints.get(entry.node, set()).discard(key_and_effect(entry.taint))
        elif isinstance(entry, entries.PodDeleted | entries.PodGone):
            for slot in self.slots:
                if (slot.pod.key, slot.pod.uid) == (entry.pod, entry.uid):
                    slot.deleted = True
                    slot.gone = slot.gone or isinstance(entry, entries.PodGone)
                    if isinstance(entry, entries.PodDeleted) and entry.taint is not None:
                        slot.evicted_by = key_and_effect(entry.taint)

    def _on(self, node: str) -> Iterator[Slot]:
        return (slot for slot in self.slots if slot.pod.node_name == node and not slot.deleted)

    def owners_act(self, now_ns: int) -> None:
        """Every owner looks at its pods."""
        groups: dict[object, list[Slot]] = {}
        for slot in self.slots:
            groups.setdefault(owner_key(slot.pod), []).append(slot)
        known = {(w.kind, w.namespace, w.name): w for w in self.snapshot.workloads}
        for key, slots in groups.items():
            kind = key[0] if isinstance(key, tuple) else ""
            if kind == "ReplicaSet":
                for slot in slots:
                    if slot.deleted and slot.replaced_ns is None:
                        slot.replaced_ns = now_ns
            elif kind == "StatefulSet":
                self._stateful_set(slots, known.get(key), now_ns)  # type: ignore[call-overload]
            elif kind == "DaemonSet":
                for slot in slots:
                    node = slot.pod.node_name
                    away = node in self.deleted_nodes
                    away = away or slot.evicted_by in self.taints.get(node, set())
                    if slot.gone and not away and slot.replaced_ns is None:
                        slot.replaced_ns = now_ns

    @staticmethod
    def _stateful_set(slots: list[Slot], workload: Workload | None, now_ns: int) -> None:
        parallel = workload is not None and workload.pod_management_policy == "Parallel"
        for slot in sorted(slots, key=lambda one: int(one.pod.name.rpartition("-")[2])):
            if slot.gone and slot.replaced_ns is None:
                slot.replaced_ns = now_ns
            if not parallel and not slot.is_ready(now_ns):
                return


def ready_each_second(
    snapshot: ClusterSnapshot, run: Timeline, seconds: int
) -> Iterator[tuple[int, dict[str, int], dict[str, int]]]:
    """Yield (second, ready pods by owner, answering pods by label app) of one run."""
    world, left = World.at_start(snapshot), list(run.entries)
    for second in range(seconds):
        now_ns = second * STEP_NS
        while left and left[0].at_ns <= now_ns:
            world.happens(left.pop(0))
        world.owners_act(now_ns)
        ready: dict[str, int] = {}
        answering: dict[str, int] = {}
        for slot in world.slots:
            owner = slot.pod.controller()
            name = f"{owner.kind}/{owner.name}" if owner is not None else f"Pod/{slot.pod.name}"
            is_ready = slot.is_ready(now_ns)
            dead = not slot.deleted and slot.pod.node_name in world.silent
            ready[name] = ready.get(name, 0) + is_ready
            app = slot.pod.labels.get("app", "")
            answering[app] = answering.get(app, 0) + (is_ready and not dead)
        yield second, ready, answering
