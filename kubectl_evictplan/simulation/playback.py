"""What node lifecycle did to some nodes in another run, played back by its own code.

Whether and when a node waits to be tainted, and when it is served, was found out elsewhere; what
the service, a changed decision or a return then does to the node (and, in the mode without taint manager,
to its pods) is left to the controller's own ``NoExecuteTainter`` and ``EvictionByTimeout``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from kubectl_evictplan.cluster.state import ClusterState
from kubectl_evictplan.cluster.timeline import NodeBecameUnknown, NodeQueued
from kubectl_evictplan.controllers.flags import ControllerConfiguration
from kubectl_evictplan.controllers.node_lifecycle.eviction_by_timeout import EvictionByTimeout
from kubectl_evictplan.controllers.node_lifecycle.no_execute_tainter import NoExecuteTainter
from kubectl_evictplan.controllers.node_lifecycle.node_health import TRUE, expired_conditions
from kubectl_evictplan.controllers.node_lifecycle.zone_membership import ZoneMembership
from kubectl_evictplan.engine.event_queue import Priority
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.kube.objects import Node, Pod
from kubectl_evictplan.kube.taints import is_lifecycle_no_execute
from kubectl_evictplan.kube.topology import zone_display_name


class NodePlayback(msgspec.Struct, frozen=True):
    """One node's share; instants are offsets from the start.

    ``unknown_ns``: Ready=Unknown is written. ``decisions``: a tick finds that the node has to be tainted for
    this Ready status ("" in the mode without taint manager), or with "True" that it has not.
    ``served_ns``: a pass serves the node. ``at_once``: what one tick decides one after the other, and a pass inside it, is seen at its
    end only, as by a taint manager that is slower than the tick; else every write of it is seen. ``evicted_before``: without taint
    manager, its pods were deleted before the start.
    """

    unknown_ns: tuple[int, ...] = ()
    decisions: tuple[tuple[int, str], ...] = ()
    served_ns: tuple[int, ...] = ()
    at_once: bool = False
    evicted_before: bool = False

    @property
    def begins_at_start(self) -> bool:
        """Whether some of it happens at the start itself."""
        decided_ns = (at_ns for at_ns, _ in self.decisions)
        return any(at_ns <= 0 for at_ns in (*self.unknown_ns, *decided_ns, *self.served_ns))

    @property
    def ticks(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Decisions that are seen together, with their instant."""
        if not self.at_once:
            yield from ((at_ns, (status,)) for at_ns, status in self.decisions)
            return
        for at_ns, decided in groupby(self.decisions, key=itemgetter(0)):
            yield at_ns, tuple(status for _, status in decided)


class _NoQueues:
    """Stands in for ``ZoneQueues``: nobody waits here."""

    def mark(self, *_: Any, **__: Any) -> None: ...

    wanted = reachable = retire = mark


class LifecyclePlayback:
    """Schedules the writes of node lifecycle for the nodes that it knows."""

    def __init__(
        self,
        state: ClusterState,
        configuration: ControllerConfiguration,
        timing: Timing,
        nodes: Mapping[str, NodePlayback],
    ) -> None:
        self._state = state
        self._nodes = nodes
        self._taint_mode = configuration.taint_mode
        self._zones = ZoneMembership(configuration)
        queues: Any = _NoQueues()
        # When each node is served is settled: no stale lister has a say in it any more.
        timing = replace(timing, stale_lister=False)
        self._tainter = NoExecuteTainter(state, configuration.profile, queues, timing)
        self._by_timeout = EvictionByTimeout(state, configuration, queues)
        self._wanted: set[str] = set()
        self._warm = False
        # A tick decides on copies of nodes that it took when it began: (instant of the tick, copy).
        self._copies: dict[str, tuple[int, Node]] = {}

    def stop(self) -> None:
        """The process ends, and the next one does not know who was evicted."""
        self._wanted.clear()
        for name in self._nodes:
            self._by_timeout.node_added(name)

    def start(self, *, warm: bool) -> None:
        """A process begins: what it does is on the clock already; a ``warm`` one has begun before the start."""
        self._warm = self._warm or warm

    def put_on_clock(self) -> None:
        """Put everything on the clock, of all processes."""
        events, start_ns = self._state.events, self._state.timeline.start_ns
        for name, played in self._nodes.items():
            self._by_timeout.node_added(name)
            if played.evicted_before:
                self._by_timeout.note_evicted(name)
            for at_ns in played.unknown_ns:
                self._at(start_ns + at_ns, Priority.MONITOR_TICK, self._write_unknown, name)
            newest = dict(played.decisions)
            inside = {at_ns for at_ns in played.served_ns if at_ns in newest}
            ticks = list(played.ticks)
            if self._waits_at_start(name, ticks):
                at_ns, statuses = ticks[0]
                self._decide(name, statuses[0])
                ticks[:1] = [(at_ns, statuses[1:])] if statuses[1:] else []
            for at_ns, statuses in ticks:
                # A pass inside a tick comes before what that tick does at its end: taking the taints off all nodes.
                if at_ns in inside and statuses[-1] == TRUE == newest[at_ns]:
                    self._at(start_ns + at_ns, Priority.MONITOR_TICK, self._serve_in_tick, name)
                decide = self._decide
                if played.at_once and at_ns in inside and newest[at_ns] != TRUE:
                    inside.remove(at_ns)
                    decide = self._decide_and_serve
                self._at(start_ns + at_ns, Priority.MONITOR_TICK, decide, name, *statuses)
            for at_ns in inside:
                if newest[at_ns] != TRUE:
                    self._at(start_ns + at_ns, Priority.MONITOR_TICK, self._serve, name)
            for at_ns in set(played.served_ns) - inside:
                writes = at_ns in played.unknown_ns  # a pass inside a tick sees what it wrote
                priority = Priority.MONITOR_TICK if writes else Priority.EVICTION_PASS
                self._at(start_ns + at_ns, priority, self._serve, name)
        if not self._taint_mode:
            self._state.watch_pods(self._pod_changed)
        assert events.now_ns == start_ns, "played back from the start"

    def _waits_at_start(self, name: str, ticks: Sequence[tuple[int, tuple[str, ...]]]) -> bool:
        """Whether the first decision is one of before the start, which saw nothing of what happens in its instant."""
        node = self._state.nodes.get(name)
        if not self._warm or node is None or not ticks or ticks[0][0] != 0:
            return False
        waits = node.ready_status != TRUE and not any(map(is_lifecycle_no_execute, node.taints))
        return waits and ticks[0][1][0] != TRUE

    def _at(self, at_ns: int, priority: Priority, action: Any, *arguments: str) -> None:
        if at_ns >= self._state.now_ns:
            self._state.events.schedule(at_ns, priority, lambda: action(*arguments))

    def _write_unknown(self, name: str) -> None:
        node = self._state.nodes.get(name)
        if node is not None:
            self._state.record_node(NodeBecameUnknown, self._state.node_causes[name], name, None)
            conditions = expired_conditions(node, self._state.now_ns)
            self._state.update_node_conditions(name, conditions)

    def _decide(self, name: str, *statuses: str) -> None:
        node = self._state.nodes.get(name)
        if node is not None:
            for status in statuses:
                self._decide_for(name, self._copy(name, node), status)

    def _decide_and_serve(self, name: str, *statuses: str) -> None:
        self._decide(name, *statuses)
        self._serve(name)

    def _decide_for(self, name: str, node: Node, status: str) -> None:
        if status != TRUE and name not in self._wanted and not self._tainter.owns_taint(node):
            zone = zone_display_name(self._zones.zone_key(node))
            self._state.record_node(NodeQueued, self._state.node_causes[name], name, zone)
        (self._wanted.discard if status == TRUE else self._wanted.add)(name)
        if self._taint_mode:
            self._tainter.process(node, status)
        elif status == TRUE:
            self._by_timeout.cancel_eviction(name)

    def _copy(self, name: str, node: Node) -> Node:
        """The node as the tick of this instant took it when it began."""
        now_ns = self._state.now_ns
        if self._copies.get(name, (None, node))[0] != now_ns:
            self._copies[name] = now_ns, node
        return self._copies[name][1]

    def _serve_in_tick(self, name: str) -> None:
        node = self._state.nodes.get(name)
        if node is not None:
            self._copy(name, node)
            self._serve(name)

    def _serve(self, name: str) -> None:
        if self._taint_mode:
            self._tainter.taint_in_pass(name)
        else:
            self._by_timeout.evict_in_pass(name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """The pod worker: what appears on a node that was evicted is deleted at once."""
        if new is not None and new.node_name in self._wanted:
            if old is None or old.node_name != new.node_name:
                self._by_timeout.evict_late_pod(new.node_name, new.key)
