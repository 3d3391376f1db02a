"""The same figures a second, naive way: one run of the simulation, looked at second by second, pod by pod.

Nothing here knows of windows or bounds: at every second each owner looks at its pods and does what it does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from naive_scheduler import Running, Scheduler, cordons, evicted_after_ns, refuses

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
    # Of the successor: its node, "" while it has none, and since when.
    at: str = ""
    bound_ns: int = 0
    successor_ready: bool = False
    # When a taint of its node evicts it; when the node that it lost its predecessor on lets go of that.
    due_ns: int | None = None
    lost_ns: int = 0
    free_ns: int | None = None
    # Since when whoever is there is Ready; None: nobody is. At the start it was so for long.
    since_ns: int | None = -(1 << 60)
    deleted_ns: int = 1 << 60

    def is_ready(self, now_ns: int) -> bool:
        return self.successor_ready if self.deleted else self.ready

    def node(self) -> str:
        return self.at if self.deleted else self.pod.node_name

    def lose_successor(self, free_ns: int | None) -> None:
        """The successor is deleted; its owner may act from ``free_ns`` on (None: nobody lets go of it)."""
        self.replaced_ns, self.free_ns = None, free_ns if free_ns is not None else 1 << 60
        self.at, self.successor_ready, self.due_ns = "", False, None


@dataclass
class World:
    """Everything, at one instant."""

    snapshot: ClusterSnapshot
    slots: list[Slot]
    taints: dict[str, set[str]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    deleted_nodes: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    cordoned: set[str] = field(default_factory=set)
    # None: whoever looks for a node finds one, nobody asks which.
    scheduler: Scheduler | None = None

    @classmethod
    def at_start(cls, snapshot: ClusterSnapshot, chance: random.Random) -> World:
        world = cls(snapshot, [Slot(pod, pod.ready == "True") for pod in snapshot.pods])
        nodes = {node.name: node for node in snapshot.nodes}
        if all(node.allocatable for node in nodes.values()):
            world.scheduler = Scheduler(nodes, chance)
        world.cordoned = {node.name for node in snapshot.nodes if node.unschedulable}
        for node in snapshot.nodes:
            world.taints[node.name] = {key_and_effect(taint) for taint in node.taints}
        return world

    def happens(self, entry: entries.Entry) -> None:
        """One entry of the run."""
        if isinstance(entry, entries.NodeBecameUnknown):
            self.unknown.add(entry.node)
            for slot in self._on(entry.node):
                slot.ready = False
        elif isinstance(entry, entries.KubeletSilent):
            self.silent.add(entry.node)
        elif isinstance(entry, entries.NodeDeleted):
            self.deleted_nodes.add(entry.node)
            if self.scheduler is not None:
                nodes = {k: v for k, v in self.scheduler.nodes.items() if k != entry.node}
                self.scheduler = replace(self.scheduler, nodes=nodes)
            for slot in self.slots:
                if slot.at == entry.node:
                    slot.due_ns = entry.at_ns + 60 * STEP_NS
        elif isinstance(entry, entries.NodeReadyPosted) and entry.status == "True":
            self.silent.discard(entry.node)
            self.unknown.discard(entry.node)
            for slot in self._on(entry.node):
                slot.ready = slot.pod.ready == "True"
        elif isinstance(entry, entries.TaintAdded):
            self.taints.setdefault(entry.node, set()).add(key_and_effect(entry.taint))
            for slot in self.slots:
                self._evict_later(slot, entry.at_ns)
        elif isinstance(entry, entries.TaintRemoved):
            self.taints.get(entry.node, set()).discard(key_and_effect(entry.taint))
            for slot in self.slots:
                if slot.at == entry.node:
                    slot.due_ns = None
                    self._evict_later(slot, entry.at_ns)
        elif isinstance(entry, entries.PodDeleted | entries.PodGone):
            for slot in self.slots:
                if (slot.pod.key, slot.pod.uid) == (entry.pod, entry.uid):
                    slot.deleted = True
                    slot.deleted_ns = min(slot.deleted_ns, entry.at_ns)
                    slot.gone = slot.gone or isinstance(entry, entries.PodGone)
                    if isinstance(entry, entries.PodDeleted) and entry.taint is not None:
                        slot.evicted_by = key_and_effect(entry.taint)

    def _on(self, node: str) -> Iterator[Slot]:
        return (slot for slot in self.slots if slot.pod.node_name == node and not slot.deleted)

    def is_ending(self, slot: Slot, now_ns: int) -> bool:
        """Deleted, but its containers still run, and were ready; a kubelet ends them."""
        node = slot.pod.node_name
        cut_off = node in self.silent or node in self.unknown or node in self.deleted_nodes
        ends_ns = slot.deleted_ns + slot.pod.termination_grace_period_seconds * STEP_NS
        runs = slot.deleted and not slot.gone and now_ns < ends_ns
        return runs and slot.pod.ready == "True" and not cut_off

    def _evict_later(self, slot: Slot, now_ns: int) -> None:
        """A successor on a tainted node has a timer, or goes."""
        if not slot.at:
            return
        delays = [evicted_after_ns(slot.pod, taint) for taint in self.taints.get(slot.at, ())]
        found = [now_ns + delay for delay in delays if delay is not None]
        if found and slot.due_ns is None:
            slot.due_ns = min(found)

    def time_passes(self, now_ns: int) -> None:
        """Successors become Ready, or are lost again."""
        for slot in self.slots:
            if not slot.deleted or not slot.at:
                continue
            if slot.due_ns is not None and now_ns >= slot.due_ns:
                owner = slot.pod.controller()
                at_once = owner is not None and owner.kind == "ReplicaSet"
                held = slot.at in self.silent and not at_once
                slot.lose_successor(None if held else now_ns)
                continue
            heard = slot.at not in self.silent
            if heard and now_ns >= slot.bound_ns + READY_NS:
                slot.successor_ready = True
            if slot.at in self.unknown:
                slot.successor_ready = False

    def _running(self) -> list[Running]:
        found = []
        for slot in self.slots:
            if not slot.gone:
                found.append(Running(slot.pod, slot.pod.node_name, slot.deleted))
            if slot.at:
                found.append(Running(slot.pod, slot.at, terminating=False))
        return found

    def schedule(self, now_ns: int) -> None:
        """Whoever has no node looks for one."""
        waiting = [slot for slot in self.slots if slot.replaced_ns is not None and not slot.at]
        if self.scheduler is not None:
            self.scheduler.chance.shuffle(waiting)
        for slot in waiting:
            owner = slot.pod.controller()
            if self.scheduler is None or (owner is not None and owner.kind == "DaemonSet"):
                slot.at = slot.pod.node_name if self.scheduler is not None else "anywhere"
            else:
                known = self._running()
                slot.at = self.scheduler.choose(slot.pod, known, self.taints, self.cordoned)
            if slot.at:
                slot.bound_ns = now_ns
                self._evict_later(slot, now_ns)

    def owners_act(self, now_ns: int) -> None:
        """Every owner looks at its pods."""
        for slot in self.slots:
            if not slot.is_ready(now_ns):
                slot.since_ns = None
            elif slot.since_ns is None:
                slot.since_ns = now_ns
        groups: dict[object, list[Slot]] = {}
        for slot in self.slots:
            groups.setdefault(owner_key(slot.pod), []).append(slot)
        known = {(w.kind, w.namespace, w.name): w for w in self.snapshot.workloads}
        for key, slots in groups.items():
            kind = key[0] if isinstance(key, tuple) else ""
            if kind == "Job":
                self._job(slots, known[key], now_ns)  # type: ignore[index]
            elif kind == "ReplicaSet":
                wanted = known[key].replicas if key in known else None  # type: ignore[index]
                for slot in slots:
                    active = sum(not one.deleted or one.replaced_ns is not None for one in slots)
                    if wanted is not None and active >= wanted:
                        break
                    if slot.deleted and slot.replaced_ns is None and _is_free(slot, now_ns):
                        slot.replaced_ns = now_ns
            elif kind == "StatefulSet":
                self._stateful_set(slots, known.get(key), now_ns)  # type: ignore[call-overload]
            elif kind == "DaemonSet":
                for slot in slots:
                    node = slot.pod.node_name
                    away = node in self.deleted_nodes
                    # All of them tolerate a cordon (``AddOrUpdateDaemonPodTolerations``).
                    others = self.taints.get(node, set()) - {
                        "node.kubernetes.io/unschedulable:NoSchedule"
                    }
                    away = away or any(refuses(slot.pod, one) for one in others)
                    surges = key in known and known[key].surges  # type: ignore[index]
                    free = slot.deleted if surges else slot.gone
                    if free and not away and slot.replaced_ns is None:
                        slot.replaced_ns = now_ns

    @staticmethod
    def _job(slots: list[Slot], workload: Workload, now_ns: int) -> None:
        """Its back-off doubles with every pod that it loses, and begins anew."""
        lost = [slot for slot in slots if slot.deleted]
        for slot in lost:
            slot.lost_ns = slot.lost_ns or now_ns
        if len(lost) > (6 if workload.backoff_limit is None else workload.backoff_limit):
            # It has failed: whoever is left is deleted, and nobody is made.
            for slot in slots:
                slot.deleted, slot.successor_ready = True, False
                slot.deleted_ns = min(slot.deleted_ns, now_ns)
                slot.replaced_ns, slot.at = None, ""
                slot.lost_ns = slot.lost_ns or now_ns
                grace_ns = slot.pod.termination_grace_period_seconds * STEP_NS
                slot.gone = slot.gone or now_ns >= slot.lost_ns + grace_ns
            return
        last_ns = max((slot.lost_ns for slot in lost), default=0)
        for slot in lost:
            waited = now_ns >= last_ns + (10 << len(lost) - 1) * STEP_NS
            if waited and slot.replaced_ns is None and _is_free(slot, now_ns):
                slot.replaced_ns = now_ns

    @staticmethod
    def _stateful_set(slots: list[Slot], workload: Workload | None, now_ns: int) -> None:
        parallel = workload is not None and workload.pod_management_policy == "Parallel"
        ordered = sorted(slots, key=lambda one: int(one.pod.name.rpartition("-")[2]))
        wanted = workload.replicas if workload is not None else None
        least_ns = (workload.min_ready_seconds if workload is not None else 0) * STEP_NS
        for slot in ordered[:wanted]:
            if slot.gone and slot.replaced_ns is None and _is_free(slot, now_ns):
                slot.replaced_ns = now_ns
            if not parallel and (slot.since_ns is None or now_ns < slot.since_ns + least_ns):
                return


def _is_free(slot: Slot, now_ns: int) -> bool:
    return slot.free_ns is None or now_ns >= slot.free_ns


def ready_each_second(
    snapshot: ClusterSnapshot,
    run: Timeline,
    seconds: int,
    *,
    events: Sequence[object] = (),
    chance: random.Random | None = None,
) -> Iterator[tuple[int, dict[str, int], dict[str, int]]]:
    """Yield (second, ready pods by owner, answering pods by label app) of one run.

    ``events``: those of the scenario. ``chance``: what the scheduler prefers.
    """
    world, left = World.at_start(snapshot, chance or random.Random(0)), list(run.entries)
    cordoning = sorted(cordons(events))
    for second in range(seconds):
        now_ns = second * STEP_NS
        while cordoning and cordoning[0][0] <= now_ns:
            _, name, on = cordoning.pop(0)
            (world.cordoned.add if on else world.cordoned.discard)(name)
        while left and left[0].at_ns <= now_ns:
            world.happens(left.pop(0))
        world.time_passes(now_ns)
        world.owners_act(now_ns)
        world.schedule(now_ns)
        ready: dict[str, int] = {}
        answering: dict[str, int] = {}
        offered: set[str] = set()
        for slot in world.slots:
            owner = slot.pod.controller()
            name = f"{owner.kind}/{owner.name}" if owner is not None else f"Pod/{slot.pod.name}"
            is_ready = slot.is_ready(now_ns)
            dead = slot.node() in world.silent
            ready[name] = ready.get(name, 0) + is_ready
            app = slot.pod.labels.get("app", "")
            answering[app] = answering.get(app, 0) + (is_ready and not dead)
            if is_ready:
                offered.add(app)
        # kube-proxy: where no endpoint is ready, those that are ending get the traffic (1.26).
        for slot in world.slots:
            if slot.pod.labels.get("app", "") not in offered:
                answering[slot.pod.labels.get("app", "")] += world.is_ending(slot, now_ns)
        yield second, ready, answering
