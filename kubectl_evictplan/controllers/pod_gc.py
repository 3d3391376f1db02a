"""Pod garbage collection: orphans, out-of-service nodes, terminating unscheduled and terminated pods.

Upstream: pkg/controller/podgc/gc_controller.go. The loop runs at once and then 20 s after each end; a
loop that cannot find anything is not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain

import msgspec

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import POD_GC, Causes, GarbageReason, PodDeleted
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.engine.event_queue import LoopGrid, Priority, ScheduledCall
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.kube.taints import OUT_OF_SERVICE

GC_CHECK_PERIOD_NS = 20_000_000_000
QUARANTINE_TIME_NS = 40_000_000_000
# All others count as terminated, also those that nobody knows.
NOT_TERMINATED_PHASES = ("Pending", "Running", "Unknown")


def is_terminated(pod: Pod) -> bool:
    """``isPodTerminated``."""
    return pod.phase not in NOT_TERMINATED_PHASES


def garbage_rank(pod: Pod, configuration: ControllerConfiguration) -> tuple[bool, int, str]:
    """By what a loop puts terminated pods in order (``byEvictionAndCreationTimestamp``): it does not ask for their namespaces."""
    evicted = configuration.profile.evicted_pods_first and pod.status_reason == "Evicted"
    return not evicted, pod.creation_timestamp_ns, pod.name


def terminated_excess(
    terminated: Iterable[Pod], configuration: ControllerConfiguration, count: int
) -> list[Pod]:
    """Those of so many terminated pods that one loop deletes, in its order (``gcTerminated``).

    Of those with one rank the loop takes any; here they come by namespace.
    """
    threshold = configuration.terminated_pod_gc_threshold
    excess = count - threshold
    if threshold <= 0 or excess <= 0:
        return []
    in_order = sorted(terminated, key=lambda pod: (garbage_rank(pod, configuration), pod.namespace))
    return in_order[:excess]


def is_never_garbage(pod: Pod, configuration: ControllerConfiguration) -> bool:
    """Whether no loop can delete the pod: whoever has not ended is marked as failed before (``markFailedAndDeletePod``)."""
    return not pod.finished and configuration.refuses_status(pod)


class IdleGarbage(msgspec.Struct, eq=False):
    """Loops that only look, those of each of the ``timings``; ``acting``: with which of them they would have deleted something.

    With all others a run is the one in which they look: what finds nothing to delete changes nothing.
    """

    timings: Sequence[Timing]
    acting: set[Timing] = set()

    @property
    def left(self) -> list[Timing]:
        """With which of them they have not deleted anything so far."""
        return [timing for timing in self.timings if timing not in self.acting]


class _Loops(msgspec.Struct, eq=False):
    """The loops of one process with one timing, and the names in its quarantine: the end of it as the last loop that was run left it."""

    timing: Timing
    grid: LoopGrid
    # Since when loops have missed nodes that were not there at the start of the process.
    missing_since_ns: int
    quarantine: dict[str, int] = {}
    call: ScheduledCall | None = None

    @property
    def is_planned(self) -> bool:
        return self.call is not None and self.call.callback is not None

    @property
    def quarantine_ns(self) -> int:
        return QUARANTINE_TIME_NS + self.timing.pod_gc_lag_ns


class PodGC:
    """One process life of the controller."""

    def __init__(
        self,
        state: ClusterState,
        configuration: ControllerConfiguration,
        timing: Timing,
        idle: IdleGarbage | None = None,
        *,
        warm: bool,
    ) -> None:
        """``warm``: its loops have been running since long before the start; ``idle``: they only look, with other timings."""
        self._state = state
        self._configuration = configuration
        self._idle = idle
        several = [timing] if idle is None else idle.left
        self._loops = [self._loops_of(each, warm=warm) for each in several]
        # Node names that pods refer to and that do not exist: since when; None: since before this process.
        self._orphaned_since: dict[str, int | None] = {}
        # What a loop itself deletes is no reason to plan one beside the next one.
        self._is_looping = False
        # Candidates in the order in which they were found (dictionaries as ordered sets).
        self._out_of_service_names: dict[str, None] = {}
        self._unscheduled_keys: dict[str, None] = {}
        self._terminated_keys: dict[str, None] = {}

    def _loops_of(self, timing: Timing, *, warm: bool) -> _Loops:
        now_ns = missing_since_ns = self._state.events.now_ns
        first_loop_ns = now_ns + timing.pod_gc_phase_ns if warm else now_ns
        step_ns = GC_CHECK_PERIOD_NS + timing.pod_gc_cost_ns
        if warm and timing.pod_gc_sightings:
            missing_since_ns = first_loop_ns - timing.pod_gc_sightings * step_ns
        grid = LoopGrid(first_loop_ns, step_ns, unbounded=warm)
        return _Loops(timing, grid, missing_since_ns)

    def start(self) -> None:
        """Subscribe and plan the first loop that can find something."""
        for node in self._state.nodes.values():
            self._note_node(node)
        for pod in self._state.pods.values():
            self._note_pod(pod)
        self._orphaned_since = dict.fromkeys(self._orphaned_since)
        self._state.watch_nodes(self._node_changed)
        self._state.watch_pods(self._pod_changed)
        self._plan()

    def stop(self) -> None:
        """The process ends."""
        self._state.unwatch([self._node_changed, self._pod_changed])
        for loops in self._loops:
            if loops.call is not None:
                loops.call.cancel()

    # -- candidates: kept up to date, so that asking costs nothing -------------------------------------

    def _note_node(self, node: Node) -> None:
        self._orphaned_since.pop(node.name, None)
        out_of_service = any(taint.key == OUT_OF_SERVICE for taint in node.taints)
        if out_of_service and node.ready_status != "True":
            self._out_of_service_names[node.name] = None
        else:
            self._out_of_service_names.pop(node.name, None)

    def _note_pod(self, pod: Pod) -> None:
        if pod.node_name and pod.node_name not in self._state.nodes:
            self._orphaned_since.setdefault(pod.node_name, self._state.now_ns)
        if not pod.node_name and pod.deletion_timestamp_ns is not None:
            self._unscheduled_keys[pod.key] = None
        if is_terminated(pod):
            self._terminated_keys[pod.key] = None

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._note_node(new)
        elif old is not None:
            self._out_of_service_names.pop(old.name, None)
            if self._state.pods_by_node.get(old.name):
                self._orphaned_since.setdefault(old.name, self._state.now_ns)
        self._plan()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            # Whoever heard of it before may have deleted it meanwhile.
            if new.key in self._state.pods:
                self._note_pod(new)
        elif old is not None:
            self._unscheduled_keys.pop(old.key, None)
            self._terminated_keys.pop(old.key, None)
            if not self._state.pods_by_node.get(old.node_name):
                self._orphaned_since.pop(old.node_name, None)
        self._plan()

    def _plan(self) -> None:
        if self._is_looping or all(loops.is_planned for loops in self._loops):
            return
        if self._has_work():
            now_ns = self._state.now_ns
            for loops in self._loops:
                if not loops.is_planned:
                    self._schedule(loops, loops.grid.at_or_after(now_ns))

    def _schedule(self, loops: _Loops, at_ns: int) -> None:
        loop = partial(self.gc, loops)
        loops.call = self._state.events.schedule(at_ns, Priority.POD_GC, loop)

    def _has_work(self) -> bool:
        if not (self._orphaned_since or self._out_of_service_names or self._unscheduled_keys):
            return bool(self._terminated_keys and self._terminated_excess())
        found = chain(self._out_of_service_pods(), self._unscheduled_terminating())
        return any(self._orphan_nodes()) or any(found) or any(self._terminated_excess())

    def gc(self, loops: _Loops) -> None:
        """One loop, in upstream's order; then plan the next one that can find something."""
        self._is_looping = True
        for pod in self._terminated_excess():
            self._delete(loops, pod, GarbageReason.TERMINATED)
        for pod in list(self._out_of_service_pods()):
            self._delete(loops, pod, GarbageReason.OUT_OF_SERVICE)
        self._gc_orphaned(loops)
        for pod in list(self._unscheduled_terminating()):
            self._delete(loops, pod, GarbageReason.UNSCHEDULED_TERMINATING)
        self._is_looping = False
        if self._idle is not None and loops.timing in self._idle.acting:
            self._loops.remove(loops)
        elif self._has_work():
            self._schedule(loops, loops.grid.after(self._state.now_ns))

    # -- what there is to do ----------------------------------------------------------------------

    def _terminated_excess(self) -> list[Pod]:
        terminated = (self._state.pods[key] for key in self._terminated_keys)
        return terminated_excess(terminated, self._configuration, len(self._terminated_keys))

    def _out_of_service_pods(self) -> Iterable[Pod]:
        if not self._configuration.out_of_service:
            return
        for name in list(self._out_of_service_names):
            for _, pod in sorted(self._state.pods_by_node.get(name, {}).items()):
                if pod.deletion_timestamp_ns is not None and not self._is_stuck(pod):
                    yield pod

    def _orphan_nodes(self) -> Iterable[str]:
        for name in self._orphaned_since:
            pods = self._state.pods_by_node.get(name, {})
            if any(not self._is_stuck(pod) for pod in pods.values()):
                yield name

    def _unscheduled_terminating(self) -> Iterable[Pod]:
        for key in list(self._unscheduled_keys):
            pod = self._state.pods.get(key)
            if pod is not None and not pod.node_name and pod.deletion_timestamp_ns is not None:
                if not self._is_stuck(pod):
                    yield pod

    def _is_stuck(self, pod: Pod) -> bool:
        """Already force deleted, so that only finalizers hold the object; or it can never be."""
        held = bool(pod.finalizers) and pod.deletion_timestamp_ns is not None
        held = held and pod.deletion_grace_period_seconds == 0
        return held or is_never_garbage(pod, self._configuration)

    def _gc_orphaned(self, loops: _Loops) -> None:
        orphans = sorted(self._orphan_nodes())
        if self._configuration.profile.orphan_quarantine:
            orphans = [name for name in orphans if self._leaves_quarantine(loops, name)]
        for name in orphans:
            for _, pod in sorted(self._state.pods_by_node[name].items()):
                # Each loop deletes also whom only a finalizer holds, alone or beside others: nothing comes of it.
                if not self._is_stuck(pod):
                    self._delete(loops, pod, GarbageReason.ORPHANED)

    def _leaves_quarantine(self, loops: _Loops, name: str) -> bool:
        now_ns = self._state.now_ns
        end_ns = self._quarantine_end_ns(loops, name, now_ns)
        loops.quarantine[name] = end_ns if end_ns > now_ns else now_ns + loops.quarantine_ns
        return end_ns <= now_ns

    def _quarantine_end_ns(self, loops: _Loops, name: str, now_ns: int) -> int:
        """When the name leaves quarantine, as if every loop up to now had been run.

        The first loop that misses a node puts its name there, and so does the one that takes it out;
        seeing it again meanwhile does not extend its stay.
        """
        since_ns, end_ns = self._orphaned_since[name], loops.quarantine.get(name)
        if since_ns is None:
            since_ns = loops.missing_since_ns
        while True:
            if end_ns is None:
                end_ns = loops.grid.at_or_after(since_ns) + loops.quarantine_ns
            taken_out_ns = loops.grid.at_or_after(end_ns)
            if taken_out_ns >= now_ns:
                return end_ns
            end_ns = taken_out_ns + loops.quarantine_ns if since_ns <= taken_out_ns else None

    def _causes(self, pod: Pod, reason: GarbageReason) -> Causes:
        state, terminating = self._state, self._state.deletion_causes.get(pod.key, ())
        if reason is GarbageReason.ORPHANED:
            return state.node_causes[pod.node_name]
        if reason is GarbageReason.OUT_OF_SERVICE:
            taints = state.nodes[pod.node_name].taints
            keys = [(pod.node_name, t.key, t.effect) for t in taints if t.key == OUT_OF_SERVICE]
            return (*terminating, *(i for key in keys for i in state.taint_causes.get(key, ())))
        return terminating

    def _delete(self, loops: _Loops, pod: Pod, reason: GarbageReason) -> None:
        if pod.key in self._state.denied_deletes or is_never_garbage(pod, self._configuration):
            return
        if self._idle is not None:
            self._idle.acting.add(loops.timing)
            return
        because = self._causes(pod, reason)
        deleted = self._state.record_pod(PodDeleted, because, pod, POD_GC, garbage=reason)
        self._state.delete_pod(pod.key, because=deleted, force=True)
